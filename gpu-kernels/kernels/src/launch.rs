//! When a launch has something to do, and how it says that it is done.
//!
//! # Exactly once
//!
//! [`begin`] compares the table's ticket with [`Progress::done`]. Each warp reads that word before it arrives in
//! [`finish`], and it is written only after all have arrived: so all warps of a launch decide alike, however late one
//! of them begins. The next launch is ordered after this one by its stream, and sees it.
//!
//! A table without jobs is answered by warp 0 alone, at once, while others may still read its header and that word: whether
//! they see the ticket before or after, they have nothing to do.
//!
//! # Done means visible
//!
//! The host takes a ticket for done when it reads it in the [`Completion`], and then reads what was copied, or gives
//! endpoints away. What carries the order there, one link after the other:
//!
//! 1. each lane's writes come before its warp's arrival ([`arrive_last`]: a warp-level barrier, then a release);
//! 2. the arrivals form one chain of acquire-release operations, so that the last one comes after all;
//! 3. the last warp's ticket is stored with release at system scope, which is cumulative: who acquires it sees the
//!    writes of every warp.

use pagelift_abi::{flags, status, Completion, Progress, TableHeader, VERSION};
use pagelift_device::{add, arrive_last, lane, load_u64, read, store_release_system, store_u64, warp, write};

/// Address of a field of a table struct at an address.
macro_rules! field {
    ($address:expr, $struct:ty, $field:ident) => {
        $address + core::mem::offset_of!($struct, $field) as u64
    };
}

/// What the calling warp met and could not, or need not, carry out. Kept in registers until the end.
#[derive(Default)]
pub(crate) struct Tally {
    /// Entries that made no sense.
    pub(crate) bad: u32,
    /// Rows copied, once whatever the number of layers and segments.
    pub(crate) rows: u32,
    /// Entries rightly skipped.
    pub(crate) skipped: u32,
}

/// The header of a table with jobs that are to be carried out, or `None` where the launch has nothing more to do. Of a table
/// of another version nothing but the ticket is heeded: it has no jobs.
///
/// # Safety
///
/// 1. `table` and `progress` are addresses of a [`TableHeader`] and a [`Progress`], as [`finish`] asks for.
#[inline(always)]
pub(crate) unsafe fn begin(table: u64, progress: u64) -> Option<TableHeader> {
    // SAFETY: (1) is ours; while the launch runs the table does not change. (1) The last ticket is touched atomically.
    let (mut header, done) =
        unsafe { (read::<TableHeader>(table), load_u64(field!(progress, Progress, done))) };
    let again = header.ticket == done && header.flags & flags::REPEAT == 0;
    if header.ticket == 0 || again {
        return None;
    }
    if header.version != VERSION {
        header.jobs = 0;
    }
    if header.jobs > 0 {
        return Some(header);
    }
    if warp() == 0 && lane() == 0 {
        // SAFETY: (1) is ours; (2) other threads return as this one does, and this one gets here once.
        unsafe { answer(&header, progress, &Progress::default()) };
    }
    None
}

/// Ends the calling warp's part; the last warp answers the host.
///
/// # Safety
///
/// 1. `table` and `progress` are addresses of a [`TableHeader`], whose `completion` is the address of a [`Completion`],
///    and of a [`Progress`], whose counters were 0 before the launch. Only this launch uses either.
/// 2. All threads of the launch call this once, after their last write.
#[inline(always)]
pub(crate) unsafe fn finish(table: u64, progress: u64, tally: &Tally) {
    if lane() == 0 {
        // SAFETY: (1) is (1) of all three.
        unsafe {
            count(field!(progress, Progress, bad), tally.bad);
            count(field!(progress, Progress, rows), tally.rows);
            count(field!(progress, Progress, skipped), tally.skipped);
        }
    }
    // SAFETY: (1, 2) are ours.
    if unsafe { !arrive_last(field!(progress, Progress, arrived)) } {
        return;
    }
    // SAFETY: all other threads have arrived and touch nothing any more, so that this one may read and reset the counters:
    // their sums are complete, as they were added before arriving. (1) is ours, and (2) follows. The header is read again:
    // kept from the beginning it would take registers for as long.
    unsafe { answer(&read(table), progress, &read(progress)) };
}

/// Notes that a table was carried out, and tells the host.
///
/// # Safety
///
/// 1. `header` is that of the launch's table, and `progress` the address of its [`Progress`].
/// 2. From here on, all that other threads of the launch do is to read the table's header and to load [`Progress::done`].
#[inline(always)]
unsafe fn answer(header: &TableHeader, progress: u64, totals: &Progress) {
    let completion = header.completion;
    let done = if header.version == VERSION { status::DONE } else { status::WRONG_VERSION };
    // SAFETY: (1, 2) are ours, and only the host looks at the completion meanwhile: by atomic loads, of the ticket first. It
    // reads the rest once it has seen this ticket, which comes last; of a plan that is repeated it may have seen it before, and
    // what it then reads may be of either run.
    unsafe {
        write(field!(progress, Progress, bad), 0_u32);
        write(field!(progress, Progress, rows), 0_u32);
        write(field!(progress, Progress, skipped), 0_u32);
        store_u64(field!(progress, Progress, done), header.ticket);
        write(field!(completion, Completion, status), done);
        write(field!(completion, Completion, bad), totals.bad);
        write(field!(completion, Completion, rows), totals.rows);
        write(field!(completion, Completion, skipped), totals.skipped);
        store_release_system(field!(completion, Completion, ticket), header.ticket);
    }
}

/// Adds `n` to a counter, unless there is nothing to add, as is usual.
///
/// # Safety
///
/// 1. `counter` is the address of a counter that is only touched atomically while the launch runs.
#[inline(always)]
unsafe fn count(counter: u64, n: u32) {
    if n != 0 {
        // SAFETY: (1) is ours.
        unsafe { add(counter, n) };
    }
}
