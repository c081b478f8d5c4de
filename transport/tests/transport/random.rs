//! Random groups, and random ways to keep them.

use proptest::prelude::*;

use crate::world::{Arrangement, BLOCK, GroupMeaning, Meaning};

fn meaning() -> impl Strategy<Value = (Meaning, u32, Vec<u32>)> {
    let segments = prop::collection::vec(1_u32..9, 1..4);
    prop_oneof![
        3 => (prop_oneof![Just(1_u32), Just(4)], segments.clone())
            .prop_map(|(tokens_per_row, segments)| {
                (Meaning::Paged { tokens_per_row }, BLOCK / tokens_per_row, segments)
            }),
        1 => (1_u32..9, 1_u32..9).prop_map(|(slots, bytes)| (Meaning::Ring, slots, vec![bytes])),
        1 => segments.prop_map(|segments| (Meaning::State, 1, segments)),
    ]
}

pub fn groups() -> impl Strategy<Value = Vec<GroupMeaning>> {
    prop::collection::vec((meaning(), 1_u32..4), 1..4).prop_map(|all| {
        let name = |(number, ((meaning, rows, segments), layers))| GroupMeaning {
            name: format!("g{number}"),
            meaning,
            layers,
            rows,
            segments,
        };
        all.into_iter().enumerate().map(name).collect()
    })
}

/// How an engine may keep a group: blocks of several pages only where these are dense.
pub fn arrangement() -> impl Strategy<Value = Arrangement> {
    let bools = (any::<bool>(), any::<bool>(), any::<bool>());
    (prop_oneof![Just(1_u32), Just(2), Just(4)], 0_u32..3, bools, 1_u32..5).prop_map(
        |(split, gap, (apart, reversed, blocks_outermost), pages_per_extent)| Arrangement {
            split,
            gap: if split > 1 { 0 } else { gap },
            apart,
            reversed,
            blocks_outermost,
            pages_per_extent,
        },
    )
}
