//! What an import must come to, row by row, and the block lists of one.

use pagelift_transport::plan::{BlockTable, BlockTables};

use crate::world::{BLOCK, Engine, GroupMeaning, Meaning};

/// The lists of one group's import: P's blocks and D's, by position.
pub type Lists = (Vec<Option<u32>>, Vec<Option<u32>>);

/// Blocks of one group: P has all that the tokens need, D lacks some of the first.
pub fn lists(group: &GroupMeaning, imported: u32, order: &[u32], held: u32) -> Lists {
    let needed = match group.meaning {
        Meaning::Paged { .. } => imported.div_ceil(BLOCK),
        // The engine's own position: a live state behind two that are null.
        Meaning::Ring | Meaning::State => 3,
    };
    let has = |position: u32| matches!(group.meaning, Meaning::Paged { .. }) || position == 2;
    let theirs = (0..needed).map(|position| has(position).then(|| order[position as usize])).collect();
    let ours = |position: u32| {
        let block = order[(position + 1) as usize % order.len()];
        let held = matches!(group.meaning, Meaning::Paged { .. }) && position < held;
        (has(position) && !held).then_some(block)
    };
    (theirs, (0..needed).map(ours).collect())
}

/// D's memory as it must be afterwards.
pub fn expected(
    groups: &[GroupMeaning],
    theirs: &Engine,
    ours: &Engine,
    lists: &[Lists],
    imported: u32,
) -> Vec<u8> {
    let mut bytes = ours.bytes.clone();
    for (index, group) in groups.iter().enumerate() {
        let (there, here) = (&theirs.groups[index], &ours.groups[index]);
        let step = there.page_rows.min(here.page_rows);
        for (position, (from, to)) in lists[index].0.iter().zip(&lists[index].1).enumerate() {
            let Some(to) = *to else { continue };
            let from = from.expect("P has every block that D wants");
            for row in 0..group.rows {
                let token = match group.meaning {
                    // A row is read with the others of its step, if the step holds a token.
                    Meaning::Paged { tokens_per_row } => {
                        position as u32 * BLOCK + row / step * step * tokens_per_row
                    }
                    Meaning::Ring | Meaning::State => 0,
                };
                for layer in 0..group.layers {
                    for (segment, length) in group.segments.iter().enumerate() {
                        let length = *length as usize;
                        let at = |address: u64| (address - crate::world::BASE) as usize;
                        let (source, target) =
                            (at(there.row(layer, from, row, segment)), at(here.row(layer, to, row, segment)));
                        if token < imported {
                            bytes[target..target + length]
                                .copy_from_slice(&theirs.bytes[source..source + length]);
                        } else {
                            bytes[target..target + length].fill(0);
                        }
                    }
                }
            }
        }
    }
    bytes
}

pub fn tables(groups: &[GroupMeaning], lists: &[Lists], theirs: bool) -> BlockTables {
    groups.iter().zip(lists).fold(BlockTables::new(), |tables, (group, (remote, local))| {
        let blocks = if theirs { remote } else { local };
        // A list may begin anywhere, for blocks pair by their absolute position.
        let first = if theirs { 0 } else { blocks.iter().take_while(|block| block.is_none()).count() };
        tables.with(&group.name, BlockTable::at(first as u32, blocks[first..].to_vec()))
    })
}
