//! The primitives of the bulk ring, as adverse as the hardware may be.
//!
//! A load happens when it is waited for and no earlier; a store reads its slot when that is waited for, and writes
//! when that is. A slot is poisoned when a load into it begins. So each wait that the ring forgets shows as wrong bytes.
//!
//! The engine for machines without a GPU has no use for a ring; it moves with `Lanes`.

use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};

use super::{emulating, lanes::assert_aligned};
use crate::{
    lane,
    ring::{DRAINING, STAGE_BYTES, STAGES},
};

/// What a slot holds between the begin and the end of a load.
const POISON: u8 = 0xA5;

/// The slots of one warp; none for lanes that do not drive the ring.
pub(crate) struct Bulk {
    slots: Vec<Slot>,
    /// Stores begun and not yet written, oldest first.
    stores: Vec<Store>,
}

struct Slot {
    bytes: Box<[u8]>,
    /// Where the load in flight comes from.
    loading: Option<u64>,
    /// Parity of the barrier: how many loads have completed.
    parity: u32,
    destination: u64,
    length: u32,
}

struct Store {
    slot: u32,
    destination: u64,
    length: u32,
    /// What was in the slot when it was read.
    read: Option<Box<[u8]>>,
}

impl Bulk {
    /// The calling warp's slots.
    ///
    /// # Safety
    ///
    /// 1. None; the GPU asks for shared memory.
    pub(crate) unsafe fn new() -> Self {
        let slots = if lane() == 0 { STAGES } else { 0 };
        let empty = || Slot {
            bytes: vec![POISON; STAGE_BYTES as usize].into(),
            loading: None,
            parity: 0,
            destination: 0,
            length: 0,
        };
        Self { slots: (0..slots).map(|_| empty()).collect(), stores: Vec::new() }
    }

    /// Begins to load `bytes` bytes into `slot`, and notes where they are to go.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. Both addresses and `bytes` are multiples of 16, `bytes` is at most [`STAGE_BYTES`], and as many may be read
    ///    at `source` until the load was waited for.
    /// 3. Neither a load into the slot nor a store's read of it is outstanding.
    pub(crate) unsafe fn load(&mut self, slot: u32, source: u64, destination: u64, bytes: u32) {
        if emulating() {
            assert_aligned(source, bytes, 16, "a bulk load");
            assert_aligned(destination, bytes, 16, "a bulk store");
        }
        let slot = &mut self.slots[slot as usize];
        slot.bytes.fill(POISON);
        slot.loading = Some(source);
        (slot.destination, slot.length) = (destination, bytes);
    }

    /// Waits for the load into `slot` of the pass of this parity.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. That load was begun: otherwise a GPU never returns, or returns too early.
    pub(crate) unsafe fn wait_load(&mut self, slot: u32, parity: u32) {
        let slot = &mut self.slots[slot as usize];
        if slot.parity != parity {
            // The phase of this parity is over: a barrier lets its waiter pass.
            return;
        }
        let Some(source) = slot.loading.take() else { unreachable!("waits for ever: no load is in flight") };
        let bytes = &mut slot.bytes[..slot.length as usize];
        // SAFETY: by (2) of `load` as many bytes may still be read.
        unsafe {
            copy_nonoverlapping(
                with_exposed_provenance::<u8>(source as usize),
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
        slot.parity ^= 1;
    }

    /// Begins to store what was loaded into `slot` to where it is to go.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    /// 2. The slot's load was waited for, and its bytes may be written at its destination until the store was.
    pub(crate) unsafe fn store(&mut self, slot: u32) {
        let Slot { destination, length, .. } = self.slots[slot as usize];
        self.stores.push(Store { slot, destination, length, read: None });
    }

    /// Waits until all stores but the [`DRAINING`] youngest have read their slots.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    pub(crate) unsafe fn wait_reads(&mut self) {
        let older = self.stores.len().saturating_sub(DRAINING as usize);
        self.read_slots(older);
    }

    /// Waits until all stores are written.
    ///
    /// # Safety
    ///
    /// 1. The calling thread is lane 0.
    pub(crate) unsafe fn wait_stores(&mut self) {
        self.read_slots(self.stores.len());
        for Store { destination, read, .. } in self.stores.drain(..) {
            let Some(bytes) = read else { continue };
            let destination = with_exposed_provenance_mut::<u8>(destination as usize);
            // SAFETY: by (2) of `store` the bytes may be written, and a box of ours does not overlap them.
            unsafe { copy_nonoverlapping(bytes.as_ptr(), destination, bytes.len()) };
        }
    }

    /// Lets the oldest `count` stores read their slots, where they have not yet.
    fn read_slots(&mut self, count: usize) {
        for store in self.stores.iter_mut().take(count) {
            let slot = &self.slots[store.slot as usize];
            store.read.get_or_insert_with(|| slot.bytes[..store.length as usize].into());
        }
    }
}
