//! Reads between two memories, compared byte by byte with a reference that goes row by row.

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::descriptors::{Descriptor, End};
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits};
use proptest::prelude::*;

use crate::world::{Arrangement, BLOCK, BLOCKS, Engine, GroupMeaning, Meaning, arrangement, groups};

/// The lists of one group's import: P's blocks and D's, by position.
type Lists = (Vec<Option<u32>>, Vec<Option<u32>>);

/// Blocks of one group: P has all that the tokens need, D lacks some of the first.
fn lists(group: &GroupMeaning, imported: u32, order: &[u32], held: u32) -> Lists {
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
fn expected(
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

fn tables(groups: &[GroupMeaning], lists: &[Lists], theirs: bool) -> BlockTables {
    groups.iter().zip(lists).fold(BlockTables::new(), |tables, (group, (remote, local))| {
        let blocks = if theirs { remote } else { local };
        // A list may begin anywhere, for blocks pair by their absolute position.
        let first = if theirs { 0 } else { blocks.iter().take_while(|block| block.is_none()).count() };
        tables.with(&group.name, BlockTable::at(first as u32, blocks[first..].to_vec()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn case_07_every_byte_lands_where_its_row_is(
        groups in groups(),
        how in prop::collection::vec((arrangement(), arrangement()), 3),
        imported in 1_u32..(BLOCKS * BLOCK),
        order in Just((0..BLOCKS).collect::<Vec<u32>>()).prop_shuffle(),
        held in 0_u32..3,
        most_bytes in prop_oneof![Just(u64::MAX), 1_u64..2000],
        seed in any::<u64>(),
    ) {
        let of = |own: Arrangement, group: &GroupMeaning| own.of(group);
        let remote: Vec<_> = how.iter().zip(&groups).map(|((own, _), group)| of(own.clone(), group)).collect();
        let local: Vec<_> = how.iter().zip(&groups).map(|((_, own), group)| of(own.clone(), group)).collect();
        let mut theirs = Engine::new(Memory::Device, &groups, &remote, seed);
        let mut ours = Engine::new(Memory::Host, &groups, &local, !seed);
        let peer = Peer::pair(&ours.offer, &theirs.offer).unwrap();
        let lists: Vec<Lists> = groups.iter().map(|group| lists(group, imported, &order, held)).collect();
        let expected = expected(&groups, &theirs, &ours, &lists, imported);
        let (exported, wanted) = (tables(&groups, &lists, true), tables(&groups, &lists, false));
        let limits = ReadLimits { most_bytes };
        let plan = peer.plan(Tokens::new(imported.into()), &exported, &wanted, limits).unwrap();

        // What a transport does: the lists once, then numbers.
        let prepared: Vec<[Vec<Descriptor>; 2]> = peer.lists().iter()
            .map(|list| [End::Remote, End::Local].map(|end| list.descriptors(end).collect()))
            .collect();
        for (list, [remote, local]) in peer.lists().iter().zip(&prepared) {
            prop_assert_eq!(list.entries(End::Remote), remote.len() as u64);
            prop_assert_eq!(list.entries(End::Local), local.len() as u64);
            prop_assert!(remote.iter().all(|own| own.memory == Memory::Device && own.bytes == list.bytes()));
            prop_assert!(local.iter().all(|own| own.memory == Memory::Host && own.bytes == list.bytes()));
        }
        for read in plan.reads() {
            prop_assert!(!read.remote().is_empty() && read.remote().len() == read.local().len());
            let [remote, local] = &prepared[read.list()];
            let mut bytes = 0;
            for (from, to) in read.remote().iter().zip(read.local()) {
                let (from, to) = (remote[*from as usize], local[*to as usize]);
                let content = theirs.at(from.address, from.bytes).to_vec();
                ours.at(to.address, to.bytes).copy_from_slice(&content);
                bytes += from.bytes;
            }
            prop_assert_eq!(bytes, read.bytes());
        }
        for zero in plan.zeroes() {
            for range in peer.zero_ranges(zero) {
                ours.at(range.address, range.bytes).fill(0);
            }
        }
        prop_assert!(ours.bytes == expected, "some byte is not what its row says");
    }
}
