//! Memory as NIXL sees it: an address, a size, a kind.

use nixl_sys::{MemType, MemoryRegion, NixlDescriptor};
use pagelift_planner::geometry::Memory;

use super::error::NixlError;
use crate::region::MemoryRange;

/// A range that fits this process's addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registered {
    range: MemoryRange,
    address: usize,
    bytes: usize,
}

impl Registered {
    pub fn new(range: MemoryRange) -> Result<Self, NixlError> {
        let fit = usize::try_from(range.address).ok().zip(usize::try_from(range.bytes).ok());
        let fit = fit.filter(|(address, bytes)| *bytes > 0 && address.checked_add(*bytes).is_some());
        let (address, bytes) = fit.ok_or(NixlError::Range { range })?;
        Ok(Self { range, address, bytes })
    }

    /// Whether both have a byte in common.
    pub fn meets(&self, other: &Self) -> bool {
        let end = |own: &Self| own.address.saturating_add(own.bytes);
        (self.range.memory, self.range.device) == (other.range.memory, other.range.device)
            && self.address < end(other)
            && other.address < end(self)
    }
}

/// What NIXL calls a memory.
pub(super) const fn kind(memory: Memory) -> MemType {
    match memory {
        Memory::Host => MemType::Dram,
        Memory::Device => MemType::Vram,
    }
}

impl MemoryRegion for Registered {
    #[expect(unsafe_code, reason = "the trait says so; nothing here reads what it points to")]
    unsafe fn as_ptr(&self) -> *const u8 {
        std::ptr::with_exposed_provenance(self.address)
    }

    fn size(&self) -> usize {
        self.bytes
    }
}

impl NixlDescriptor for Registered {
    fn mem_type(&self) -> MemType {
        kind(self.range.memory)
    }

    fn device_id(&self) -> u64 {
        self.range.device
    }
}
