//! What one decode step says on the device: which slots it wrote, and which of its tokens were accepted.
//!
//! A captured batch is larger than what runs in it, so the arrays are too: entries of padding are −1, and entries past
//! the count hold slots that look real and must never be read.

use pagelift::Error;
use pagelift::backends::Backend;
use pagelift::geometry::Memory;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{Queries, RowBinding, SlotWidth};

use super::RestoreError;

/// Entries of padding after a step's tokens, counted as valid.
const PADDING: u32 = 2;
/// Entries after those, past the count.
const STALE: u32 = 2;
/// Requests of the captured batch: the one that runs, and one that is empty.
const REQUESTS: u32 = 2;

/// The device arrays of a captured step.
#[derive(Debug)]
pub struct StepArrays {
    /// Count, query starts and accepted counts.
    shared: RegionId,
    /// By group: its slot mapping.
    slots: Vec<RegionId>,
    capacity: u32,
}

/// Byte offsets in the shared array.
const COUNT: usize = 0;
const STARTS: usize = 8;
const ACCEPTED: usize = STARTS + 4 * (REQUESTS as usize + 1);
const SHARED_BYTES: u64 = (ACCEPTED + 4 * REQUESTS as usize) as u64;

impl StepArrays {
    /// Arrays for steps of up to `tokens` tokens, with a slot mapping for each of `groups` groups.
    pub fn new(
        memory: &mut Registry,
        backend: &impl Backend,
        groups: usize,
        tokens: u32,
    ) -> Result<Self, RestoreError> {
        let capacity = tokens.saturating_add(PADDING).saturating_add(STALE);
        let shared = memory.allocate(backend, Memory::Device, SHARED_BYTES)?;
        let bytes = u64::from(capacity).saturating_mul(8);
        let slots =
            (0..groups).map(|_| memory.allocate(backend, Memory::Device, bytes)).collect::<Result<_, _>>()?;
        Ok(Self { shared, slots, capacity })
    }

    /// What a launch is told once: where the arrays lie.
    pub fn binding(&self, memory: &Registry, group: usize, null_page: Option<u32>) -> Option<RowBinding> {
        let shared = memory.region(self.shared)?.address();
        let slots = memory.region(*self.slots.get(group)?)?.address();
        Some(RowBinding {
            width: SlotWidth::I64,
            count: Some(shared.saturating_add(COUNT as u64)),
            queries: Some(Queries {
                starts: shared.saturating_add(STARTS as u64),
                accepted: Some(shared.saturating_add(ACCEPTED as u64)),
                requests: REQUESTS,
            }),
            null_page: null_page.map(pagelift::id::PageId::new),
            ..RowBinding::new(slots, self.capacity)
        })
    }

    /// Writes what all groups share: `tokens` tokens, of which the first `accepted` are.
    pub fn set_queries(&self, memory: &mut Registry, tokens: u32, accepted: u32) -> Result<(), Error> {
        let words = [(COUNT, tokens.saturating_add(PADDING)), (STARTS, 0), (STARTS + 4, tokens)];
        let last = [(STARTS + 8, tokens), (ACCEPTED, accepted), (ACCEPTED + 4, 0)];
        for (offset, word) in words.into_iter().chain(last) {
            memory.write(self.shared, offset as u64, &word.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Writes a group's slots, −1 for padding, and real-looking ones past the count.
    pub fn set_slots(&self, memory: &mut Registry, group: usize, slots: &[i64]) -> Result<(), Error> {
        let Some(id) = self.slots.get(group) else { return Ok(()) };
        let stale = slots.first().copied().unwrap_or(0);
        let padding = std::iter::repeat_n(-1, PADDING as usize).chain(std::iter::repeat(stale));
        let entries = slots.iter().copied().chain(padding).take(self.capacity as usize);
        let bytes: Vec<u8> = entries.flat_map(i64::to_ne_bytes).collect();
        memory.write(*id, 0, &bytes)
    }
}
