//! The bulk ring: copies through shared memory that one lane drives.
//!
//! Memory → slot of the ring → memory. A slot goes through four steps, and the ring is the order in which they are
//! begun and waited for:
//!
//! ```text
//! load begun ─ wait_load → store begun ─ wait_reads → load begun again
//!                                      └ wait_stores (at the end) → written
//! ```
//!
//! Of [`STAGES`] slots so many hold loads in flight, and the other [`DRAINING`] the youngest stores, which may still be
//! reading: a ring with loads alone would wait for each store as soon as it had begun it.
//!
//! This order stands here once. Below it lie the primitives, `Bulk`, which are instructions on the GPU and on the host
//! copies that happen as late as they may: a wait that is missing *here* corrupts data in a test on the CPU.

use crate::platform::{bulk::Bulk, lanes::Lanes};
use crate::{Mover, lane};

// Twelve slots of 4 KB were no worse than any other division of the same memory, and the best for runs of about 1 KB,
// which have a slot each (H200, both directions, one to 132 blocks of four warps).

/// Slots of a ring.
pub const STAGES: u32 = 12;

/// Bytes of a slot: longer runs are cut.
pub const STAGE_BYTES: u32 = 4 * 1024;

/// Bytes of a slot's control record: see `nvptx/bulk.rs`. The host knows them to size a launch.
pub(crate) const CONTROL_BYTES: u32 = 24;

/// Shared memory of one ring: the slots, then their control records, and 128-byte alignment for the next one.
pub(crate) const RING_BYTES: u32 = (STAGES * (STAGE_BYTES + CONTROL_BYTES)).next_multiple_of(128);

/// Slots whose stores need not have read them yet.
pub(crate) const DRAINING: u32 = 4;

/// Loads that are in flight at most.
const LOADS: u32 = STAGES - DRAINING;

/// A run this short is one access a lane: not worth a bulk copy, which costs the one lane that issues it more.
const SHORT: u32 = 32 * 16;

/// Moves long runs by bulk copies, one ring a warp, and leaves short and unaligned ones to [`Lanes`].
///
/// A bulk copy needs 16-byte alignment, so only runs of width 16 take the ring; which way a run takes is decided for
/// each one. The ring lies in dynamic shared memory, of which a launch gives each block
/// [`BulkRing::shared_bytes`]. On the GPU it needs sm_90.
///
/// It takes few threads and registers. Where those are not scarce [`Lanes`] are the better choice: on an H200 two blocks
/// of 32 warps of lanes fill the link to host memory, and eight blocks of four rings; and bulk stores to host memory
/// lose a fifth where their destination is not aligned to 128 bytes.
pub struct BulkRing {
    bulk: Bulk,
    lanes: Lanes,
    /// Slot of the next load.
    head: u32,
    /// Slot of the oldest load in flight.
    tail: u32,
    /// Parity of the pass over the ring that `tail` is in.
    parity: u32,
    /// Loads in flight: the slots from `tail` up to `head`. At most [`LOADS`].
    loading: u32,
}

impl BulkRing {
    /// Dynamic shared memory of a block of `warps` warps.
    ///
    /// ```
    /// use pagelift_device::BulkRing;
    /// // Four rings fit into the 227 KB that a block of sm_90 can have.
    /// assert!(BulkRing::shared_bytes(4) <= 227 * 1024);
    /// ```
    #[must_use]
    pub const fn shared_bytes(warps: u32) -> u32 {
        warps * RING_BYTES
    }

    /// Begins the load of one piece into the next slot.
    ///
    /// # Safety
    ///
    /// 1. [`Mover::copy`]'s conditions for width 16, and `bytes` is at most [`STAGE_BYTES`].
    /// 2. The calling thread is lane 0.
    #[inline(always)]
    unsafe fn issue(&mut self, source: u64, destination: u64, bytes: u32) {
        // SAFETY: (store_oldest 1) loads are in flight, namely `LOADS`. (wait_reads 1, load 1) is our 2.
        // (load 2) is our 1. (load 3) Now fewer than `LOADS` loads are in flight, so more than `DRAINING` slots are free:
        // those from `head` up to `tail`. The youngest stores read the last of them; `wait_reads` leaves out `DRAINING`
        // stores, and so it has waited for the one that read `head`.
        unsafe {
            if self.loading == LOADS {
                self.store_oldest();
            }
            self.bulk.wait_reads();
            self.bulk.load(self.head, source, destination, bytes);
        }
        self.head = following(self.head);
        self.loading += 1;
    }

    /// Waits for the oldest load, and begins to store what it brought.
    ///
    /// # Safety
    ///
    /// 1. A load is in flight.
    /// 2. The calling thread is lane 0.
    #[inline(always)]
    unsafe fn store_oldest(&mut self) {
        // SAFETY: (wait_load 1, store 1) is our 2. (wait_load 2) A load into `tail` is in flight by our 1, and `parity`
        // is that of its pass, for it changes with each pass of `tail`. (store 2) The load has just been waited for.
        unsafe {
            self.bulk.wait_load(self.tail, self.parity);
            self.bulk.store(self.tail);
        }
        self.tail = following(self.tail);
        self.parity ^= u32::from(self.tail == 0);
        self.loading -= 1;
    }
}

/// The slot after `slot`.
#[inline(always)]
fn following(slot: u32) -> u32 {
    if slot + 1 == STAGES { 0 } else { slot + 1 }
}

impl Mover for BulkRing {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the conditions of both are those of this function.
        let (bulk, lanes) = unsafe { (Bulk::new(), Lanes::new()) };
        Self { bulk, lanes, head: 0, tail: 0, parity: 0, loading: 0 }
    }

    #[inline(always)]
    unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        if width != 16 || bytes <= SHORT {
            // SAFETY: the conditions are the same.
            return unsafe { self.lanes.copy(source, destination, bytes, width) };
        }
        if lane() != 0 {
            return;
        }
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(STAGE_BYTES);
            // SAFETY: (1) the piece lies within the run, and is a multiple of 16 as `bytes` and `STAGE_BYTES` are.
            // (2) was asked above.
            unsafe { self.issue(source + u64::from(done), destination + u64::from(done), piece) };
            done += piece;
        }
    }

    #[inline(always)]
    unsafe fn zero(&mut self, destination: u64, bytes: u32, width: u32) {
        // SAFETY: the conditions are the same.
        unsafe { self.lanes.zero(destination, bytes, width) }
    }

    #[inline(always)]
    unsafe fn finish(&mut self) {
        if lane() == 0 {
            while self.loading > 0 {
                // SAFETY: (1) was just asked; (2) likewise.
                unsafe { self.store_oldest() };
            }
            // SAFETY: (1) the calling thread is lane 0.
            unsafe { self.bulk.wait_stores() };
        }
        // SAFETY: (1) is ours.
        unsafe { self.lanes.finish() }
    }
}
