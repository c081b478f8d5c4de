//! Threads that prepare a pool, near the memory that they prepare.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::node;
use crate::error::{BackendError, Error};

/// Threads where nobody says how many: more pages at a time than the system hands out are no use.
const THREADS: usize = 16;
/// The most threads.
const MOST_THREADS: usize = 256;

/// How many threads, and where they run: one that may run anywhere is the caller's.
#[derive(Debug)]
pub(super) struct Crew {
    threads: usize,
    processors: Option<CpuSet>,
}

impl Crew {
    /// `threads` threads, 0 for as many as suit, on the processors of a NUMA node where one is named and they may run there.
    pub fn new(threads: usize, node: Option<u32>) -> Result<Self, Error> {
        if threads > MOST_THREADS {
            let cause = format!("expected at most {MOST_THREADS}");
            return Err(BackendError::Threads { threads, cause }.into());
        }
        let processors = node.and_then(node::processors);
        let there = processors.as_ref().map_or_else(
            || thread::available_parallelism().map_or(1, usize::from),
            |processors| processors.count() as usize,
        );
        let threads = if threads == 0 { there.clamp(1, THREADS) } else { threads };
        Ok(Self { threads, processors })
    }

    /// Calls `work` with each number below `count`, in order where one thread does, and stops early where one fails.
    pub fn each(&self, count: usize, work: impl Fn(usize) -> Result<(), Error> + Sync) -> Result<(), Error> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failure: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        let run = || {
            if let Some(processors) = &self.processors {
                // The thread is ours, and ends here. Where it may not move, it works where it is.
                let _ = sched_setaffinity(None, processors);
            }
            while !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    break;
                }
                if let Err(error) = work(index) {
                    stop.store(true, Ordering::Relaxed);
                    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                    if failure.as_ref().is_none_or(|(first, _)| index < *first) {
                        *failure = Some((index, error));
                    }
                }
            }
        };
        if self.threads.min(count) <= 1 && self.processors.is_none() {
            run();
            return first(failure);
        }
        let refused = thread::scope(|scope| {
            let (mut started, mut refused) = (false, None);
            for number in 0..self.threads.min(count) {
                let thread = thread::Builder::new().name(format!("pagelift-pool-{number}"));
                match thread.spawn_scoped(scope, run) {
                    Ok(_) => started = true,
                    Err(error) => refused = Some(error),
                }
            }
            // One that works is enough.
            refused.filter(|_| !started)
        });
        first(failure)?;
        refused.map_or(Ok(()), |cause| {
            Err(BackendError::Threads { threads: self.threads, cause: cause.to_string() }.into())
        })
    }
}

/// The failure that was noted, if one was.
fn first(failure: Mutex<Option<(usize, Error)>>) -> Result<(), Error> {
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::MemoryError;

    #[test]
    fn each_number_is_worked_on_once() {
        for threads in [1, 3, 0] {
            let seen = Mutex::new(vec![0; 100]);
            let crew = Crew::new(threads, Some(0)).unwrap();
            crew.each(100, |index| {
                seen.lock().unwrap()[index] += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(*seen.lock().unwrap(), [1; 100]);
        }
    }

    #[test]
    fn the_first_failure_is_told_and_ends_the_work() {
        let worked = AtomicUsize::new(0);
        let crew = Crew::new(1, None).unwrap();
        let error = crew.each(100, |index| {
            worked.fetch_add(1, Ordering::Relaxed);
            if index == 3 { Err(MemoryError::Released.into()) } else { Ok(()) }
        });
        assert!(matches!(error, Err(Error::Memory(MemoryError::Released))));
        assert_eq!(worked.load(Ordering::Relaxed), 4);
        assert!(Crew::new(257, None).is_err());
        Crew::new(0, None).unwrap().each(0, |_| Err(MemoryError::Released.into())).unwrap();
    }
}
