//! Launchers that graphs may have: while there is one, no memory of its registry is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pagelift::error::BackendError;

use crate::{Error, Result};

/// How many launchers of a registry were recorded into graphs, and are not gone.
///
/// It goes up with the registry locked, and down once a launcher is gone, with whatever that waits for. So who has the registry alone,
/// and sees none here, may release memory.
#[derive(Debug, Default)]
pub struct RecordedCount(Arc<AtomicU32>);

impl RecordedCount {
    /// So many.
    #[must_use]
    pub fn get(&self) -> u32 {
        // What was done before a launcher was gone has been done for whoever sees that it is.
        self.0.load(Ordering::Acquire)
    }
}

/// One of them.
#[derive(Debug)]
struct One(Arc<AtomicU32>);

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A launcher, or several, with whether a graph may have it.
///
/// ```
/// use pagelift_bindings::recorded::{Recordable, RecordedCount};
/// let count = RecordedCount::default();
/// let mut launcher = Recordable::new("a launcher");
/// launcher.record(&count, |_| Ok(()))?;
/// assert!(launcher.is_recorded() && count.get() == 1);
/// drop(launcher);
/// assert_eq!(count.get(), 0);
/// # Ok::<(), pagelift_bindings::Error>(())
/// ```
#[derive(Debug)]
pub struct Recordable<T> {
    // Dropped in this order: a launcher waits for its stream, and until then a graph may use its registry's memory.
    value: T,
    recorded: Option<One>,
}

impl<T> Recordable<T> {
    /// One that no graph has.
    pub const fn new(value: T) -> Self {
        Self { value, recorded: None }
    }

    /// Looks at it.
    pub const fn value(&self) -> &T {
        &self.value
    }

    /// Changes it.
    pub const fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Whether a graph may have it.
    pub const fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Records something into a graph, which has it from then on. The caller has the registry alone, whose `count` this is.
    ///
    /// # Errors
    /// What `record` says: a graph may have it all the same.
    pub fn record(&mut self, count: &RecordedCount, record: impl FnOnce(&mut T) -> Result) -> Result {
        let recorded = record(&mut self.value);
        if is_in_graph(&recorded) {
            self.recorded.get_or_insert_with(|| {
                count.0.fetch_add(1, Ordering::Relaxed);
                One(Arc::clone(&count.0))
            });
        }
        recorded
    }
}

/// Whether a graph may have what was to be recorded: whatever else went wrong, it may, but where there was none.
fn is_in_graph(recorded: &Result) -> bool {
    use BackendError::{CapturingAnother, NotCapturing};
    use pagelift::Error::Backend;
    // The default stream, which cannot be used while another is captured, is never captured itself.
    !matches!(recorded, Err(Error::Library(Backend(NotCapturing | CapturingAnother))))
}

#[cfg(test)]
mod tests {
    use pagelift::error::MemoryError;

    use super::*;

    /// A launcher that says how many there are when it has waited for its stream.
    struct Waits<'a>(&'a RecordedCount, &'a AtomicU32);

    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            self.1.store(self.0.get(), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_launcher_is_counted_until_it_is_gone() {
        let (count, seen) = (RecordedCount::default(), AtomicU32::new(u32::MAX));
        let mut launcher = Recordable::new(Waits(&count, &seen));
        let mut other = Recordable::new(());
        launcher.record(&count, |_| Ok(())).unwrap();
        // Into how many graphs does not matter.
        launcher.record(&count, |_| Ok(())).unwrap();
        assert_eq!(count.get(), 1);
        other.record(&count, |()| Err(MemoryError::Released.into())).unwrap_err();
        assert_eq!(count.get(), 2);
        drop(launcher);
        assert_eq!((seen.load(Ordering::Relaxed), count.get()), (2, 1));
        drop(other);
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn outside_of_a_capture_nothing_is_recorded() {
        let count = RecordedCount::default();
        let mut launcher = Recordable::new(());
        launcher.record(&count, |()| Err(BackendError::NotCapturing.into())).unwrap_err();
        assert!(!launcher.is_recorded() && count.get() == 0);
    }
}
