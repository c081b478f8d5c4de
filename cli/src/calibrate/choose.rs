//! From the times of one work to a budget.

use std::num::{NonZeroU32, NonZeroU64};

use pagelift::backends::Pace;

use crate::bench::measure::Measured;

/// How much of the best speed is enough.
const ENOUGH: f64 = 0.97;

/// The fewest multiprocessors that are as good as more, and how fast they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    pub pace: Pace,
}

impl Choice {
    /// Of a work that was not measured.
    pub const NONE: Self =
        Self { pace: Pace { workers: NonZeroU32::MIN, bytes_per_second: NonZeroU64::MIN } };

    /// Of a work that moves so many bytes: the smallest budget that is fast enough. Ways without a budget are what others
    /// are measured against.
    pub fn of(bytes: u64, ways: &[Measured]) -> Self {
        let budgets = ways.iter().filter_map(|way| Some((way.budget?, way.microseconds.median)));
        Self::among(bytes, &budgets.collect::<Vec<_>>())
    }

    /// The same, of budgets with their microseconds.
    fn among(bytes: u64, budgets: &[(u32, f64)]) -> Self {
        let best = budgets.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let enough =
            budgets.iter().filter(|(_, time)| best >= ENOUGH * time).min_by_key(|(budget, _)| *budget);
        let Some((budget, time)) = enough else { return Self::NONE };
        let speed = bytes as f64 * 1e6 / time;
        Self {
            pace: Pace {
                workers: NonZeroU32::new(*budget).unwrap_or(NonZeroU32::MIN),
                // A float becomes the nearest number that there is.
                bytes_per_second: NonZeroU64::new(speed as u64).unwrap_or(NonZeroU64::MIN),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(budgets: &[(u32, f64)]) -> (u32, u64) {
        let pace = Choice::among(1_000_000, budgets).pace;
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
    fn nothing_measured_is_one_multiprocessor() {
        assert_eq!(chosen(&[]), (1, 1));
        assert_eq!(chosen(&[(4, f64::NAN)]), (1, 1));
    }
}
