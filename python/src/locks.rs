//! Locks that threads of Python wait for without the interpreter.
//!
//! Every object may be used by any thread: calls on one object take turns. Whoever has a lock may wait for the interpreter
//! with it, so nobody waits for a lock with the interpreter. Locks are taken in the order plan, reservations, launcher,
//! registry.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use pyo3::sync::{MutexExt, RwLockExt};

use crate::error::{LaunchError, PageliftError, of_kind};

/// What is said of what a panic has left halfway.
pub const BROKEN: &str = "a call on it met a mistake of pagelift's before; close it, or let it go";

/// Locks.
///
/// # Errors
/// Where a panic has left it halfway; as all of these.
pub fn lock<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> PyResult<MutexGuard<'a, T>> {
    mutex.lock_py_attached(py).map_err(|_| broken())
}

/// Locks what its holder waits for others with: a plan, which is locked until its launcher and registry are free, or a consumer.
///
/// # Errors
/// Inside of a replay: whoever has it may be waiting for locks that the replay has.
pub fn turn<'a, T>(py: Python<'_>, mutex: &'a Mutex<T>) -> PyResult<MutexGuard<'a, T>> {
    refuse_inside_replay()?;
    lock(py, mutex)
}

/// Takes out what is closed, whatever a panic has left of it.
///
/// # Errors
/// Inside of a replay, as [`turn`].
#[cfg(feature = "nixl")]
pub fn take<T>(py: Python<'_>, mutex: &Mutex<Option<T>>) -> PyResult<Option<T>> {
    refuse_inside_replay()?;
    let taken = mutex.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner).take();
    mutex.clear_poison();
    Ok(taken)
}

/// Locks for reading.
///
/// # Errors
/// Inside of a replay, which has the lock.
pub fn read<'a, T>(py: Python<'_>, lock: &'a RwLock<T>) -> PyResult<RwLockReadGuard<'a, T>> {
    refuse_inside_replay()?;
    lock.read_py_attached(py).map_err(|_| broken())
}

/// Locks for writing.
///
/// # Errors
/// As [`read`].
pub fn write<'a, T>(py: Python<'_>, lock: &'a RwLock<T>) -> PyResult<RwLockWriteGuard<'a, T>> {
    refuse_inside_replay()?;
    lock.write_py_attached(py).map_err(|_| broken())
}

/// Locks what is to be closed, whatever a panic has left of it.
///
/// # Errors
/// Inside of a replay, as [`read`].
pub fn closing<'a, T>(
    py: Python<'_>,
    lock: &'a RwLock<Option<T>>,
) -> PyResult<RwLockWriteGuard<'a, Option<T>>> {
    refuse_inside_replay()?;
    Ok(lock.write_py_attached(py).unwrap_or_else(PoisonError::into_inner))
}

fn broken() -> PyErr {
    of_kind::<PageliftError>("Internal", BROKEN)
}

thread_local! {
    /// Whether this thread is in a function of Python's that replays a graph, with locks.
    static REPLAYS: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of Python's with locks: what needs them too is refused inside of it, and does not wait for ever.
pub fn replaying<T>(replay: impl FnOnce() -> T) -> T {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            REPLAYS.set(false);
        }
    }
    REPLAYS.set(true);
    let _ended = Ended;
    replay()
}

/// Refuses what takes locks inside of a replay, which has them.
///
/// # Errors
/// Inside of a replay.
fn refuse_inside_replay() -> PyResult<()> {
    if !REPLAYS.get() {
        return Ok(());
    }
    let text = "a function that is given to `replay` only replays; call this before or after it";
    Err(of_kind::<LaunchError>("InsideReplay", text))
}

/// Does something that may wait for a GPU, without the interpreter where this thread has it: a drop does not know.
pub fn without_interpreter(work: impl FnOnce() + Send) {
    let mut work = Some(work);
    Python::try_attach(|py| {
        if let Some(work) = work.take() {
            py.detach(work);
        }
    });
    // The interpreter is going down.
    if let Some(work) = work {
        work();
    }
}
