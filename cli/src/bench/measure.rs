//! Medians of runs that take turns, so that a slow moment of the link or the machine slows all of them.

use std::time::Duration;

use serde::Serialize;

use super::BenchError;
use super::bed::Bed;
use super::rig::{Rig, Run, Sample};
use crate::progress::Bar;

/// Rounds before those that count.
fn warm_ups(repeats: u32) -> u32 {
    repeats.min(3)
}

/// A launch of the kernel, replayed in a graph where there are any.
pub const KERNEL: &str = "kernel";
/// A launch of the kernel by a call.
pub const EAGER: &str = "kernel, not in a graph";
/// A copy for each piece, by calls.
pub const EACH: &str = "a memcpy a piece";
/// All pieces by one call.
pub const BATCH: &str = "a batch of memcpys";
/// A copy for each piece, in a graph.
pub const GRAPH: &str = "a graph of memcpys";

/// One way of doing a work.
pub struct Way<'r> {
    /// In words.
    pub name: &'static str,
    /// Multiprocessors that it may use, where that is a question.
    pub budget: Option<u32>,
    /// Jobs of its table, where that is a question.
    pub jobs: Option<u32>,
    pub run: Run<'r>,
    /// When the bytes of the last run had arrived, counted from when they were asked for, where that is not when the run
    /// ended.
    pub restored: Option<Box<dyn Fn() -> Result<Duration, pagelift::Error> + 'r>>,
    /// Whether it writes what the work must write: the ways that others are measured against need not.
    pub verified: bool,
}

impl<'r> Way<'r> {
    /// A way that writes what the work must write.
    pub fn new(name: &'static str, run: Run<'r>) -> Self {
        Self { name, budget: None, jobs: None, run, restored: None, verified: true }
    }

    /// A way that others are measured against, and that writes elsewhere.
    pub fn beside(name: &'static str, run: Run<'r>) -> Self {
        Self { verified: false, ..Self::new(name, run) }
    }

    /// The same with a budget.
    pub fn within(self, budget: u32) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// Its name and its budget.
    fn words(&self) -> String {
        let budget = self.budget.map_or_else(String::new, |budget| format!(" with a budget of {budget}"));
        self.name.to_owned() + &budget
    }
}

/// A work, in memory that was made for it.
pub struct Work<'r> {
    pub bed: Bed,
    /// The first is what the others are measured against.
    pub ways: Vec<Way<'r>>,
    /// Bytes that each way moves.
    pub bytes: u64,
    /// Pieces that lie together on both sides.
    pub fragments: u64,
}

/// What one way took.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// In words.
    pub way: &'static str,
    /// Multiprocessors that it could use; `None` for copy engines.
    pub budget: Option<u32>,
    /// Jobs of its table, where that is a question.
    pub jobs: Option<u32>,
    /// Time on the stream.
    pub microseconds: Spread,
    /// When the bytes had arrived, beside other work that takes its time: the median.
    pub restored_microseconds: Option<f64>,
    /// Time until the call had returned, the median.
    pub host_microseconds: f64,
    /// Gigabytes (10⁹ bytes) a second, at the median; `None` where no byte is moved.
    pub gigabytes_per_second: Option<f64>,
    /// How fast it is beside the first way: 1 as fast, 0.5 half as fast.
    pub ratio: f64,
}

/// The middle of several numbers, and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub p10: f64,
    pub median: f64,
    pub p90: f64,
}

impl Spread {
    /// Of at least one number.
    pub fn of(mut numbers: Vec<f64>) -> Self {
        numbers.sort_by(f64::total_cmp);
        let last = numbers.len().saturating_sub(1);
        let at = |tenths: usize| numbers.get((last * tenths).div_ceil(10)).copied().unwrap_or(f64::NAN);
        Self { p10: numbers.get(last / 10).copied().unwrap_or(f64::NAN), median: at(5), p90: at(9) }
    }
}

/// Rounds that [`measure`] makes of one way, for a bar.
pub fn rounds(repeats: u32) -> u64 {
    u64::from(warm_ups(repeats)) + u64::from(repeats)
}

/// Lets each way prove that it writes the right bytes, and then measures all of them in turns.
pub fn measure<B: Rig>(
    rig: &B,
    work: &mut Work<'_>,
    repeats: u32,
    bar: &Bar,
) -> Result<Vec<Measured>, BenchError> {
    let Work { bed, ways, bytes, .. } = work;
    for way in ways.iter_mut().filter(|way| way.verified) {
        let verified = bed.verify(|memory| (way.run)(memory));
        verified.map_err(|error| error.of(&way.words()))?;
    }
    let mut samples: Vec<Vec<Sample>> = ways.iter().map(|_| Vec::new()).collect();
    let mut restored: Vec<Vec<Duration>> = ways.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds(repeats) {
        for ((way, samples), restored) in ways.iter_mut().zip(&mut samples).zip(&mut restored) {
            let sample = rig.time(&mut bed.memory, &mut way.run)?;
            if round >= warm_ups(repeats).into() {
                samples.push(sample);
                restored.extend(way.restored.as_ref().map(|restored| restored()).transpose()?);
            }
            bar.advance(1);
        }
    }
    let spread =
        |samples: &[Sample], of: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(of).collect());
    let stream = |sample: &Sample| sample.stream.as_secs_f64() * 1e6;
    let first = samples.first().map_or(f64::NAN, |samples| spread(samples, &stream).median);
    let measured = ways.iter().zip(&samples).zip(&restored).map(|((way, samples), restored)| {
        let restored = restored.iter().map(|time| time.as_secs_f64() * 1e6).collect::<Vec<_>>();
        let microseconds = spread(samples, &stream);
        Measured {
            way: way.name,
            budget: way.budget,
            jobs: way.jobs,
            microseconds,
            restored_microseconds: (!restored.is_empty()).then(|| Spread::of(restored).median),
            host_microseconds: spread(samples, &|sample| sample.host.as_secs_f64() * 1e6).median,
            gigabytes_per_second: (*bytes > 0).then(|| *bytes as f64 / microseconds.median / 1e3),
            ratio: first / microseconds.median,
        }
    });
    Ok(measured.collect())
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_middle_is_in_the_middle() {
        let spread = Spread::of((0..11).rev().map(f64::from).collect());
        assert_eq!(spread, Spread { p10: 1.0, median: 5.0, p90: 9.0 });
        assert_eq!(Spread::of(vec![3.0]), Spread { p10: 3.0, median: 3.0, p90: 3.0 });
        assert_eq!(Spread::of(vec![2.0, 1.0]).median, 2.0);
    }
}
