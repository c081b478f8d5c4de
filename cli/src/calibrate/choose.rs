//! From the times of one work to a budget.

use std::num::{NonZeroU32, NonZeroU64};

use pagelift::backends::Pace;

use crate::bench::measure::Measured;

/// How much of the best speed is enough.
const ENOUGH: f64 = 0.97;

/// The smallest budget that is fast enough for a work that moves so many bytes, and how fast that is; `None` where no budget
/// was timed. Ways without a budget are what others are measured against.
pub fn choose(bytes: u64, ways: &[Measured]) -> Option<Pace> {
    let budgets = ways.iter().filter_map(|way| Some((way.budget?, way.microseconds.median)));
    among(bytes, &budgets.collect::<Vec<_>>())
}

/// The same, of budgets with their microseconds.
fn among(bytes: u64, budgets: &[(u32, f64)]) -> Option<Pace> {
    let best = budgets.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
    let enough = budgets.iter().filter(|(_, time)| best >= ENOUGH * time).min_by_key(|(budget, _)| *budget);
    let (budget, time) = enough?;
    let speed = bytes as f64 * 1e6 / time;
    // A float becomes the nearest number that there is.
    let bytes_per_second = NonZeroU64::new(speed as u64)?;
    Some(Pace { workers: NonZeroU32::new(*budget)?, bytes_per_second })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(budgets: &[(u32, f64)]) -> (u32, u64) {
        let pace = among(1_000_000, budgets).unwrap();
        (pace.workers.get(), pace.bytes_per_second.get())
    }

    #[test]
    fn the_smallest_budget_that_is_nearly_as_fast_as_the_best_is_chosen() {
        // The best is 16; 2 is 4 % slower, 4 is 2 % slower.
        let link = [(1, 30.0), (2, 20.8), (4, 20.4), (8, 20.1), (16, 20.0), (132, 20.5)];
        assert_eq!(chosen(&link), (4, 49_019_607_843));
        assert_eq!(chosen(&[(1, 10.0), (2, 10.0)]).0, 1);
        assert_eq!(chosen(&[(132, 9.0), (1, 10.0)]).0, 132);
        assert_eq!(chosen(&[(8, 100.0)]), (8, 10_000_000_000));
    }

    #[test]
    fn nothing_is_chosen_where_nothing_was_timed() {
        assert_eq!(among(1_000_000, &[]), None);
        assert_eq!(among(1_000_000, &[(4, f64::NAN)]), None);
        assert_eq!(among(0, &[(4, 1.0)]), None);
    }
}
