//! Imports in worked numbers, and what is refused.

use pagelift_planner::geometry::Memory;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::error::ReadPlanError;
use pagelift_transport::pairing::Peer;
use pagelift_transport::plan::{BlockTable, BlockTables, ReadLimits, ReadPlan, Zero};

use crate::payload::every_kind;
use crate::world::{Arrangement, BASE, BLOCK, Engine, GroupMeaning, Meaning};

fn every_group() -> Peer {
    Peer::pair(&every_kind(Memory::Host), &every_kind(Memory::Device)).unwrap()
}

fn plan(
    peer: &Peer,
    tokens: u64,
    exported: &BlockTables,
    wanted: &BlockTables,
) -> Result<ReadPlan, ReadPlanError> {
    peer.plan(Tokens::new(tokens), exported, wanted, ReadLimits::default())
}

fn main(blocks: &[u32]) -> BlockTables {
    BlockTables::new().with("main", BlockTable::from_first(blocks))
}

#[test]
fn case_09_an_import_without_blocks_reads_nothing() {
    let peer = every_group();
    for wanted in [BlockTables::new(), main(&[])] {
        let plan = plan(&peer, 20, &main(&[0, 1]), &wanted).unwrap();
        assert!(plan.reads().is_empty() && plan.zeroes().is_empty());
        assert_eq!(plan.bytes(), 0);
    }
}

#[test]
fn case_07_a_found_prefix_is_trimmed_from_the_front() {
    let wanted = BlockTables::new().with("main", BlockTable::at(2, vec![Some(0)]));
    let plan = plan(&every_group(), 40, &main(&[3, 1, 2]), &wanted).unwrap();
    let read = &plan.reads()[0];
    // Two layers, one piece each: P's third block, not its first.
    assert_eq!((read.remote(), read.local()), (&[4, 5][..], &[0, 1][..]));
    assert_eq!((plan.reads().len(), read.first_token().get()), (1, 32));
}

#[test]
fn blocks_past_either_pool_and_blocks_that_are_not_there_are_refused() {
    let peer = every_group();
    let group = || "main".into();
    let refused = |tokens, exported: &[u32], wanted: &[u32]| {
        plan(&peer, tokens, &main(exported), &main(wanted)).unwrap_err()
    };
    let out = |side, block| ReadPlanError::OutOfRange { group: group(), side, block, blocks: 4 };
    assert_eq!(refused(20, &[0, 4], &[0, 1]), out("the producer's", 4));
    assert_eq!(refused(20, &[0, u32::MAX], &[0, 1]), out("the producer's", u32::MAX));
    assert_eq!(refused(20, &[0, 1], &[0, 4]), out("this side's", 4));
    assert_eq!(refused(20, &[0], &[0, 1]), ReadPlanError::NotExported { group: group(), position: 1 });
    assert_eq!(refused(20, &[0, 1], &[2, 2]), ReadPlanError::BlockTwice { group: group(), block: 2 });
    let past = ReadPlanError::PastImport { group: group(), position: 1, imported: Tokens::new(16) };
    assert_eq!(refused(16, &[0, 1], &[0, 1]), past);
    let other = BlockTables::new().with("else", BlockTable::from_first(&[0]));
    let error = plan(&peer, 20, &other, &other).unwrap_err();
    assert_eq!(error, ReadPlanError::NoSuchGroup { group: "else".into() });
}

#[test]
fn the_live_states_of_a_request_keep_their_places() {
    // Earlier entries of both tables are null; blocks 3 and 1 of P are the live ones.
    let table = |blocks: [u32; 2]| {
        let blocks = vec![None, None, Some(blocks[0]), Some(blocks[1])];
        BlockTables::new().with("gdn", BlockTable::at(0, blocks))
    };
    let plan = plan(&every_group(), 64, &table([3, 1]), &table([0, 2])).unwrap();
    let [read] = plan.reads() else { panic!("{:?}", plan.reads()) };
    assert_eq!((read.remote(), read.local()), (&[6, 7, 2, 3][..], &[0, 1, 4, 5][..]));
    // A part of a state means nothing.
    assert_eq!(read.first_token(), Tokens::ZERO);
}

#[test]
fn reads_are_split_by_bytes_and_entries_at_blocks() {
    let peer = every_group();
    let block = 2 * 16 * 656;
    let limits = ReadLimits { most_bytes: 2 * block, ..ReadLimits::default() };
    let plan = peer.plan(Tokens::new(64), &main(&[0, 1, 2, 3]), &main(&[3, 2, 1, 0]), limits).unwrap();
    let read = |read: &pagelift_transport::plan::PlannedRead| (read.bytes(), read.first_token().get());
    assert_eq!(plan.reads().iter().map(read).collect::<Vec<_>>(), [(2 * block, 0), (2 * block, 32)]);
    let limits = ReadLimits { most_bytes: 1, ..ReadLimits::default() };
    let plan = peer.plan(Tokens::new(64), &main(&[0, 1, 2, 3]), &main(&[3, 2, 1, 0]), limits).unwrap();
    assert_eq!(plan.reads().iter().map(read).map(|(bytes, _)| bytes).collect::<Vec<_>>(), [block; 4]);
    // A block is an entry in each of two layers.
    let limits = ReadLimits { most_entries: 5, ..ReadLimits::default() };
    let plan = peer.plan(Tokens::new(64), &main(&[0, 1, 2, 3]), &main(&[3, 2, 1, 0]), limits).unwrap();
    assert_eq!(plan.reads().iter().map(read).collect::<Vec<_>>(), [(2 * block, 0), (2 * block, 32)]);
}

#[test]
fn what_no_page_of_the_producer_covers_is_zeroed() {
    let groups = [GroupMeaning::new("main", Meaning::Paged { tokens_per_row: 1 }, 1, BLOCK, &[8])];
    let ours = Engine::new(Memory::Host, &groups, &[Arrangement::plain(1)], 1);
    let theirs = Engine::new(Memory::Device, &groups, &[Arrangement::plain(4)], 2);
    let peer = Peer::pair(&ours.offer(BASE), &theirs.offer(BASE)).unwrap();
    // 16 + 5 tokens: of the second block, P's pages of 4 tokens cover two of four.
    let plan = plan(&peer, 21, &main(&[1, 0]), &main(&[2, 5])).unwrap();
    assert_eq!(plan.reads()[0].remote(), [4, 5, 6, 7, 0, 1]);
    assert_eq!(plan.reads()[0].local(), [8, 9, 10, 11, 20, 21]);
    let zero = Zero { group: "main".into(), page: 5, first_row: 8, rows: 8 };
    assert_eq!(plan.zeroes(), std::slice::from_ref(&zero));
    let ranges = peer.zero_ranges(&zero);
    assert_eq!(ranges.iter().map(|range| range.bytes).collect::<Vec<_>>(), [32, 32]);
    assert_eq!(ranges[0].address, ours.groups[0].row(0, 5, 8, 0));
}
