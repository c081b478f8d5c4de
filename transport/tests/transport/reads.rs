//! Reads between two memories, compared byte by byte with a reference that goes row by row.

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::descriptors::{Descriptor, ListSide};
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::ReadLimits;
use proptest::prelude::*;

use crate::random::{arrangement, groups};
use crate::reference::{Lists, expected, lists, tables};
use crate::world::{Arrangement, BASE, BLOCK, BLOCKS, Engine, GroupMeaning};

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
        let peer = Peer::pair(&ours.offer(BASE), &theirs.offer(BASE)).unwrap();
        let lists: Vec<Lists> = groups.iter().map(|group| lists(group, imported, &order, held)).collect();
        let expected = expected(&groups, &theirs, &ours, &lists, imported);
        let (exported, wanted) = (tables(&groups, &lists, true), tables(&groups, &lists, false));
        let limits = ReadLimits { most_bytes, ..ReadLimits::default() };
        let plan = peer.plan(Tokens::new(imported.into()), &exported, &wanted, limits).unwrap();

        // What a transport does: the lists once, then numbers.
        let prepared: Vec<[Vec<Descriptor>; 2]> = peer.lists().iter()
            .map(|list| [ListSide::Remote, ListSide::Local].map(|side| list.descriptors(side).collect()))
            .collect();
        for (list, [remote, local]) in peer.lists().iter().zip(&prepared) {
            prop_assert_eq!(list.entries(ListSide::Remote), remote.len() as u64);
            prop_assert_eq!(list.entries(ListSide::Local), local.len() as u64);
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
