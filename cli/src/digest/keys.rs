//! The sides of a group, as digests read them.

use pagelift::geometry::{DigestKey, GeometryBuilder, GroupKey, Kind, Memory, Paged, Ring, State};
use pagelift::id::{HostBlockId, PageId};
use pagelift::plan::{DigestNumber, DigestPlan};

use crate::restore::{AnyKey, RestoreError};

/// A group's sides, host first, where it has them.
#[derive(Debug)]
pub enum Keys {
    Paged([Option<DigestKey<Paged>>; 2]),
    Ring([Option<DigestKey<Ring>>; 2]),
    State([Option<DigestKey<State>>; 2]),
}

impl Keys {
    /// Lets digests read the sides of a group.
    pub fn of(builder: &mut GeometryBuilder, group: AnyKey) -> Result<Self, RestoreError> {
        Ok(match group {
            AnyKey::Paged(key) => Self::Paged(sides(builder, key)?),
            AnyKey::Ring(key) => Self::Ring(sides(builder, key)?),
            AnyKey::State(key) => Self::State(sides(builder, key)?),
        })
    }

    /// Adds a digest of the first `rows` rows of some blocks of one side to a plan.
    pub fn digest(
        &self,
        plan: &mut DigestPlan,
        memory: Memory,
        blocks: &[u32],
        rows: u64,
    ) -> Result<DigestNumber, RestoreError> {
        match self {
            Self::Paged(sides) => add(plan, *sides, memory, blocks, rows),
            Self::Ring(sides) => add(plan, *sides, memory, blocks, rows),
            Self::State(sides) => add(plan, *sides, memory, blocks, rows),
        }
    }
}

fn sides<K: Kind>(
    builder: &mut GeometryBuilder,
    group: GroupKey<K>,
) -> Result<[Option<DigestKey<K>>; 2], RestoreError> {
    let mut side = |memory| {
        let side = builder.main_side(group, memory);
        side.map(|side| builder.digest(side)).transpose()
    };
    Ok([side(Memory::Host)?, side(Memory::Device)?])
}

fn add<K: Kind>(
    plan: &mut DigestPlan,
    [host, device]: [Option<DigestKey<K>>; 2],
    memory: Memory,
    blocks: &[u32],
    rows: u64,
) -> Result<DigestNumber, RestoreError> {
    // The manifest has a side wherever the import has blocks.
    let missing = pagelift::error::PlanError::ForeignKey;
    Ok(match memory {
        Memory::Host => {
            let blocks: Vec<HostBlockId> = blocks.iter().copied().map(HostBlockId::new).collect();
            plan.host(host.ok_or(missing)?, &blocks, rows)?
        }
        Memory::Device => {
            let pages: Vec<PageId> = blocks.iter().copied().map(PageId::new).collect();
            plan.device(device.ok_or(missing)?, &pages, rows)?
        }
    })
}
