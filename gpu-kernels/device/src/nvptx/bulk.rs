//! The primitives of the bulk ring: `cp.async.bulk` and `mbarrier` (sm_90, PTX 8.0).
//!
//! A load tells the slot's barrier when its bytes have arrived; a store belongs to a group of its own, and groups are
//! waited for by their number, youngest last. Both ends are the asynchronous proxy's, and no thread touches a slot, so
//! that a load's completion and a store's read need no proxy fence between them.

use core::arch::{asm, global_asm};

use crate::{
    lane, lanes_per_warp,
    ring::{CONTROL_BYTES, DRAINING, RING_BYTES, STAGE_BYTES, STAGES},
    thread::thread_idx_x,
};

// `#[link_section = ".shared"]` would silently make a global of it.
global_asm!(".extern .shared .align 128 .b8 pagelift_shared[];");

/// The slots of one warp, and behind them a control record for each: its `mbarrier` (8 bytes), where its bytes go (8),
/// how many they are (4).
pub(crate) struct Bulk {
    /// Address of slot 0 in the shared window.
    slots: u32,
}

impl Bulk {
    /// The calling warp's slots, with a barrier each.
    ///
    /// # Safety
    ///
    /// 1. The launch gave each block [`RING_BYTES`] bytes of dynamic shared memory a warp.
    /// 2. Each thread calls this once at most.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        let shared: u32;
        // SAFETY: takes the address of a symbol that is declared above.
        unsafe { asm!("mov.u32 {}, pagelift_shared;", out(reg32) shared, options(nostack, nomem)) };
        let this = Self { slots: shared + thread_idx_x() / lanes_per_warp() * RING_BYTES };
        if lane() == 0 {
            let mut slot = 0;
            while slot < STAGES {
                // SAFETY: by (1) the record is this warp's, and by (2) it is initialised once.
                unsafe {
                    asm!("mbarrier.init.shared::cta.b64 [{}], 1;", in(reg32) this.control(slot), options(nostack));
                }
                slot += 1;
            }
            // SAFETY: makes the barriers known to the asynchronous proxy; a fence has no conditions.
            unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) };
        }
        this
    }

    /// Begins to load `bytes` bytes into `slot`, and notes where they are to go.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. Both addresses and `bytes` are multiples of 16, `bytes` is at most [`STAGE_BYTES`], and as many may be read
    ///    at `source`.
    /// 3. Neither a load into the slot nor a store's read of it is outstanding.
    #[inline(always)]
    pub(crate) unsafe fn load(&mut self, slot: u32, source: u64, destination: u64, bytes: u32) {
        // SAFETY: by (1) nobody else uses the record. (2) is what the copy asks for, and (3) that its slot and its
        // barrier are free.
        unsafe {
            asm!(
                "st.shared.u64 [{control} + 8], {destination};",
                "st.shared.u32 [{control} + 16], {bytes};",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{control}], {bytes};",
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{slot}], [{source}], {bytes}, [{control}];",
                control = in(reg32) self.control(slot),
                slot = in(reg32) self.slot(slot),
                source = in(reg64) source,
                destination = in(reg64) destination,
                bytes = in(reg32) bytes,
                options(nostack),
            );
        }
    }

    /// Waits for the load into `slot` of the pass of this parity.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. That load was begun: otherwise this never returns, or returns too early.
    #[inline(always)]
    pub(crate) unsafe fn wait_load(&mut self, slot: u32, parity: u32) {
        loop {
            let arrived: u32;
            // SAFETY: the barrier was initialised by `new`, by this lane (1).
            unsafe {
                asm!(
                    "{{",
                    ".reg .pred arrived;",
                    "mbarrier.try_wait.parity.shared::cta.b64 arrived, [{}], {};",
                    "selp.u32 {}, 1, 0, arrived;",
                    "}}",
                    in(reg32) self.control(slot),
                    in(reg32) parity,
                    out(reg32) arrived,
                    options(nostack),
                );
            }
            if arrived != 0 {
                return;
            }
        }
    }

    /// Begins to store what was loaded into `slot` to where it is to go.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. The slot's load was waited for, and its bytes may be written at its destination.
    #[inline(always)]
    pub(crate) unsafe fn store(&mut self, slot: u32) {
        // SAFETY: by (1) the record is as `load` left it, and by (2) the bytes are there and may be written.
        unsafe {
            asm!(
                "{{",
                ".reg .u64 destination;",
                ".reg .u32 bytes;",
                "ld.shared.u64 destination, [{control} + 8];",
                "ld.shared.u32 bytes, [{control} + 16];",
                "cp.async.bulk.global.shared::cta.bulk_group [destination], [{slot}], bytes;",
                "cp.async.bulk.commit_group;",
                "}}",
                control = in(reg32) self.control(slot),
                slot = in(reg32) self.slot(slot),
                options(nostack),
            );
        }
    }

    /// Waits until all stores but the [`DRAINING`] youngest have read their slots.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    #[inline(always)]
    pub(crate) unsafe fn wait_reads(&mut self) {
        // SAFETY: waits for this thread's own groups; there are no conditions.
        unsafe { asm!("cp.async.bulk.wait_group.read {};", const DRAINING, options(nostack)) };
    }

    /// Waits until all stores are written, as if by ordinary stores of this lane.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    #[inline(always)]
    pub(crate) unsafe fn wait_stores(&mut self) {
        // SAFETY: waits for this thread's own groups; there are no conditions.
        unsafe { asm!("cp.async.bulk.wait_group 0;", options(nostack)) };
    }

    #[inline(always)]
    fn slot(&self, slot: u32) -> u32 {
        self.slots + slot * STAGE_BYTES
    }

    #[inline(always)]
    fn control(&self, slot: u32) -> u32 {
        self.slots + STAGES * STAGE_BYTES + slot * CONTROL_BYTES
    }
}
