//! One number for the rows of each block that is handed over, by the same kernel on both sides.

use std::sync::Arc;

use pagelift::backends::Backend;
use pagelift::geometry::Memory;
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{DigestPlan, PlanCapacity};

use super::facts::Exchanged;
use crate::digest::Keys;
use crate::manifest::Family;
use crate::restore::{RestoreError, World, done};

/// A block whose rows are digested: of which group, the pages or blocks that it is, and how many of their rows.
pub struct Block<'b> {
    pub group: usize,
    pub memory: Memory,
    pub pages: &'b [u32],
    pub rows: u64,
}

/// The digests of these blocks, in their order.
pub fn digests<B: Backend>(
    world: &mut World<'_>,
    keys: &[Keys],
    backend: &B,
    blocks: &[Block<'_>],
) -> Result<Vec<u64>, RestoreError> {
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    // Whole pages of a block, and the rows of its last one.
    let capacity = PlanCapacity {
        jobs: small(blocks.len().saturating_mul(2)),
        list_entries: small(blocks.iter().map(|block| block.pages.len()).sum()),
    };
    let mut plan = DigestPlan::new(Arc::clone(&world.geometry), capacity)?;
    let mut numbers = Vec::with_capacity(blocks.len());
    for block in blocks {
        if let Some(keys) = keys.get(block.group) {
            numbers.push(keys.digest(&mut plan, block.memory, block.pages, block.rows)?);
        }
    }
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&world.memory, &mut plan)?;
    launcher.launch(&mut world.memory)?;
    launcher.wait()?;
    done("digests", launcher.state(ticket))?;
    let read = numbers.into_iter().map(|number| launcher.digest(ticket, number));
    Ok(read.collect::<Result<_, _>>()?)
}

/// Imported rows of the block at a position.
pub fn rows_of(exchanged: &Exchanged<'_>, position: u32, imported: u64) -> u64 {
    let Exchanged { group, block_tokens, .. } = exchanged;
    match group.shape.family {
        Family::Tokens { tokens_per_row } => {
            let rows = u64::from(*block_tokens / tokens_per_row.max(1));
            let all = imported / u64::from(tokens_per_row.max(1));
            all.saturating_sub(u64::from(position).saturating_mul(rows)).min(rows)
        }
        Family::Ring | Family::State => group.shape.rows.into(),
    }
}
