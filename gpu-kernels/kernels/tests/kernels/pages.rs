//! Page jobs against one line of reference.

use pagelift_abi::{job, BlockPair, PageJob, PagesArgs, SegmentPair};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::launch::{any_launch, Launch};
use crate::layout::{any_route, World};
use crate::memory::assert_same;
use crate::table::Table;

/// Work on one route, in whole rows.
#[derive(Clone, Debug)]
pub struct Work {
    pub route: usize,
    pub blocks: Vec<(u32, u32)>,
    pub source_row: u32,
    pub destination_row: u32,
    pub rows: u32,
    pub zero: bool,
    /// As a block list, even where there is one block.
    pub list: bool,
}

/// Units of a job: those of its blocks, layers and segments.
fn units(world: &World, work: &Work) -> u32 {
    let route = &world.routes[work.route];
    let first = route.first_segment as usize;
    let pairs = &world.pairs[first..first + route.segments as usize];
    let of_layer: u64 = pairs.iter().map(|pair: &SegmentPair| pair.chunks(work.rows)).sum();
    (of_layer * u64::from(route.layers) * work.blocks.len() as u64) as u32
}

/// The table of some work.
pub fn table(world: &World, works: &[Work]) -> Table {
    let (mut jobs, mut list, mut total) = (Vec::new(), Vec::new(), 0);
    for work in works {
        let (mut source, mut destination) = work.blocks.first().copied().unwrap_or_default();
        if work.list {
            (source, destination) = (list.len() as u32, work.blocks.len() as u32);
            list.extend(work.blocks.iter().map(|&(source, destination)| BlockPair { source, destination }));
        }
        jobs.push(PageJob {
            route: work.route as u32,
            units_before: total,
            source,
            destination,
            source_row: work.source_row,
            destination_row: work.destination_row,
            rows: work.rows,
            flags: u32::from(work.zero) * job::ZERO + u32::from(work.list) * job::LIST,
        });
        total += units(world, work);
    }
    Table::new(&jobs, total, &list, &[])
}

pub fn args(world: &mut World, table: &mut Table) -> PagesArgs {
    let [routes, segments, bases] = world.geometry();
    PagesArgs { table: table.address(), routes, segments, bases, progress: table.progress_address() }
}

/// What the destination must hold afterwards.
pub fn reference(world: &World, works: &[Work]) -> Vec<u8> {
    let mut want = world.destination.bytes().to_vec();
    for work in works {
        let (route, [from, to]) = (&world.routes[work.route], &world.placed[work.route]);
        for &(source, destination) in &work.blocks {
            for layer in 0..route.layers {
                for segment in 0..route.segments as usize {
                    for row in 0..work.rows {
                        let target =
                            &mut want[to.row(layer, destination, segment, work.destination_row + row)];
                        if work.zero {
                            target.fill(0);
                        } else {
                            let row = from.row(layer, source, segment, work.source_row + row);
                            target.copy_from_slice(&world.source.bytes()[row]);
                        }
                    }
                }
            }
        }
    }
    want
}

/// Runs `works`, and compares the whole destination.
pub fn check(world: &mut World, works: &[Work], launch: Launch) {
    let want = reference(world, works);
    let mut table = table(world, works);
    launch.pages(args(world, &mut table));
    assert_same(world.destination.bytes(), &want);
    let answer = table.answer();
    assert_eq!((answer.ticket, answer.status), (1, pagelift_abi::status::DONE));
    assert_eq!((answer.bad, answer.rows, answer.skipped), (0, 0, 0));
}

/// A job before it is known what it fits on.
#[derive(Clone, Debug)]
struct Draft {
    route: Index,
    blocks: Vec<(Index, Index)>,
    rows: [Index; 3],
    zero: bool,
    list: bool,
}

fn any_draft() -> impl Strategy<Value = Draft> {
    (
        any::<Index>(),
        prop::collection::vec(any::<(Index, Index)>(), 0..5),
        any::<[Index; 3]>(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(route, blocks, rows, zero, list)| Draft { route, blocks, rows, zero, list })
}

/// Fits drafts into a world. Each destination block is written by one entry at most.
fn fit(world: &World, drafts: &[Draft]) -> Vec<Work> {
    let mut taken = std::collections::HashSet::new();
    drafts
        .iter()
        .map(|draft| {
            let route = draft.route.index(world.routes.len());
            let [from, to] = &world.placed[route];
            let (sides, [first, second, count]) = (&world.routes[route], &draft.rows);
            let source_row = first.index(from.rows as usize) as u32;
            let destination_row = second.index(to.rows as usize) as u32;
            let most = (from.rows - source_row).min(to.rows - destination_row);
            let mut blocks: Vec<(u32, u32)> = draft
                .blocks
                .iter()
                .map(|(source, destination)| {
                    let source = source.index(sides.source.blocks as usize) as u32;
                    (source, destination.index(sides.destination.blocks as usize) as u32)
                })
                .filter(|&(_, destination)| taken.insert((route, destination)))
                .collect();
            // One block may do without a list; no block, or several, are one.
            let list = draft.list || blocks.len() != 1;
            let rows = count.index(most as usize + 1) as u32;
            if rows == 0 {
                blocks.truncate(1);
            }
            Work { route, blocks, source_row, destination_row, rows, zero: draft.zero, list }
        })
        .collect()
}

proptest! {
    #[test]
    fn rows_of_the_jobs_are_copied_and_no_other_byte_changes(
        shapes in prop::collection::vec(any_route(), 1..3),
        drafts in prop::collection::vec(any_draft(), 0..6),
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let mut world = World::new(&shapes, seed);
        let works = fit(&world, &drafts);
        check(&mut world, &works, launch);
    }
}
