//! A plan as the launch reads it: header, jobs, block lists, page-map changes.

use pagelift_abi as abi;
use zerocopy::{Immutable, IntoBytes};

use super::Staging;
use crate::error::PlanError;

/// Bytes of a table with these entries.
pub(super) const fn table_bytes(job: usize, jobs: u32, lists: u32, changes: u32) -> usize {
    let entries = (jobs as usize).saturating_mul(job);
    let lists = (lists as usize).saturating_mul(size_of::<abi::BlockPair>());
    let changes = (changes as usize).saturating_mul(size_of::<abi::MapChange>());
    size_of::<abi::TableHeader>().saturating_add(entries).saturating_add(lists).saturating_add(changes)
}

/// Writes a table.
pub(super) fn write_table<J: IntoBytes + Immutable>(
    staging: Staging,
    units: u32,
    jobs: &[J],
    lists: &[abi::BlockPair],
    changes: &[abi::MapChange],
    table: &mut [u8],
) -> Result<usize, PlanError> {
    let parts = [jobs.as_bytes(), lists.as_bytes(), changes.as_bytes()];
    let head = size_of::<abi::TableHeader>();
    let needed = parts.iter().fold(head, |sum, part| sum.saturating_add(part.len()));
    let room = table.len();
    let too_small = PlanError::Buffer { needed, room };
    // Counts were checked against capacities of 32 bits when entries were pushed.
    let small = |count: usize| u32::try_from(count).map_err(|_| too_small.clone());
    let indices_at = head.saturating_add(parts[0].len());
    let header = abi::TableHeader {
        ticket: staging.ticket.number(),
        completion: staging.completion,
        version: abi::VERSION,
        flags: if staging.repeat { abi::flags::REPEAT } else { 0 },
        jobs: small(jobs.len())?,
        units,
        indices_at: small(indices_at)?,
        changes_at: small(indices_at.saturating_add(parts[1].len()))?,
        changes: small(changes.len())?,
        reserved: 0,
    };
    let mut rest = table.get_mut(..needed).ok_or_else(|| too_small.clone())?;
    for part in [header.as_bytes(), parts[0], parts[1], parts[2]] {
        let (here, after) = rest.split_at_mut_checked(part.len()).ok_or_else(|| too_small.clone())?;
        here.copy_from_slice(part);
        rest = after;
    }
    Ok(needed)
}
