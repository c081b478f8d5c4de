//! Digests against a naive reference, and against everything that they must tell apart.

mod differences;
mod layouts;
mod reference;
mod tables;

use pagelift_abi::{job, status, BlockPair, Completion, DigestArgs, PageJob, SegmentPair, CONTIGUOUS};

use crate::faults::route;
use crate::launch::{Launch, ENGINE};
use crate::layout::{RouteShape, World};
use crate::memory::{address, assert_same};
use crate::table::Table;

/// Rows of blocks of one route, in logical order.
#[derive(Clone, Debug)]
struct Extract {
    route: usize,
    blocks: Vec<u32>,
    source_row: u32,
    /// Logical number of the first row.
    first: u32,
    rows: u32,
    list: bool,
}

/// Describes the source side of each route for digests: pair `n` is segment `n`, and its accesses are as wide as the
/// source alone allows, halved so many times.
fn describe(world: &mut World, narrower: u32) {
    for route in &world.routes {
        let side = &route.source;
        let bases = &world.bases[side.bases as usize..][..(route.layers * side.layer_bases) as usize];
        let common = bases.iter().fold(side.block_stride, |all, base| all | base);
        let pairs = &mut world.pairs[route.first_segment as usize..][..route.segments as usize];
        for (n, pair) in (0..).zip(pairs) {
            let all = common | pair.source_offset | u64::from(pair.source_stride) | u64::from(pair.row_bytes);
            let widest = all.trailing_zeros().min(4);
            pair.width = 1 << (widest - narrower.min(widest));
            pair.rows_log2 = if pair.rows_log2 == CONTIGUOUS { n as u16 % 3 } else { pair.rows_log2 };
            // What the destination's layout was means nothing any more.
            (pair.destination_base, pair.destination_offset, pair.destination_stride) = (n, 0, u32::MAX);
        }
    }
}

fn table(world: &World, extracts: &[Extract]) -> Table {
    let (mut jobs, mut list, mut total) = (Vec::new(), Vec::new(), 0);
    for extract in extracts {
        let route = &world.routes[extract.route];
        // Nobody reads a destination.
        let (mut source, mut destination) = (extract.blocks.first().copied().unwrap_or(0), u32::MAX);
        if extract.list {
            (source, destination) = (list.len() as u32, extract.blocks.len() as u32);
            list.extend(extract.blocks.iter().map(|&source| BlockPair { source, destination: u32::MAX }));
        }
        jobs.push(PageJob {
            route: extract.route as u32,
            units_before: total,
            source,
            destination,
            source_row: extract.source_row,
            destination_row: extract.first,
            rows: extract.rows,
            flags: u32::from(extract.list) * job::LIST,
        });
        let pairs = &world.pairs[route.first_segment as usize..][..route.segments as usize];
        let of_layer: u64 = pairs.iter().map(|pair: &SegmentPair| pair.chunks(extract.rows)).sum();
        total += (of_layer * u64::from(route.layers) * extract.blocks.len() as u64) as u32;
    }
    Table::new(&jobs, total, &list, &[])
}

fn args(world: &mut World, table: &mut Table, digests: &mut [u64]) -> DigestArgs {
    let [routes, segments, bases] = world.geometry();
    let (table, progress) = (table.address(), table.progress_address());
    DigestArgs { table, routes, segments, bases, progress, digests: address(digests) }
}

/// What stands behind the sums, and must stay there.
const GUARD: u64 = 0xFEED_FACE_CAFE_BEEF;

/// The digests of some extracts. Neither the rows nor anything behind the sums changes.
fn digests(world: &mut World, extracts: &[Extract], launch: Launch) -> Vec<u64> {
    let memory = [world.source.clone(), world.destination.clone()];
    let mut table = table(world, extracts);
    let mut sums = vec![0; extracts.len()];
    sums.push(GUARD);
    launch.digest(args(world, &mut table, &mut sums));
    let done = Completion { ticket: 1, status: status::DONE, ..Completion::default() };
    assert_eq!(table.answer(), done);
    assert_eq!(sums.pop(), Some(GUARD));
    assert_same(world.source.bytes(), memory[0].bytes());
    assert_same(world.destination.bytes(), memory[1].bytes());
    sums
}

/// The digest of the first rows of some blocks of route 0, logical rows from 0.
fn digest(world: &mut World, blocks: &[u32], rows: u32) -> u64 {
    digests(world, &[whole(blocks, rows)], ENGINE)[0]
}

fn whole(blocks: &[u32], rows: u32) -> Extract {
    Extract { route: 0, blocks: blocks.to_vec(), source_row: 0, first: 0, rows, list: true }
}

fn described(shapes: &[RouteShape], seed: u64) -> World {
    let mut world = World::new(shapes, seed);
    describe(&mut world, 0);
    world
}

/// Writes `content(layer, segment, row)` as logical row `row` of blocks of `rows` rows.
fn fill(world: &mut World, blocks: &[u32], rows: u32, content: impl Fn(u32, u32, u32, usize) -> Vec<u8>) {
    let [from, _] = &world.placed[0];
    for layer in 0..world.routes[0].layers {
        for segment in 0..world.routes[0].segments {
            for (entry, &block) in (0..).zip(blocks) {
                for row in 0..rows {
                    let range = from.row(layer, block, segment as usize, row);
                    let bytes = content(layer, segment, entry * rows + row, range.len());
                    world.source.bytes_mut()[range].copy_from_slice(&bytes);
                }
            }
        }
    }
}

/// Two layers of two segments: rows of 36 and of 7 bytes, of which three rows of five count, in two blocks of four.
fn small() -> (World, u64) {
    let mut world = described(&[route(&[(2, 9), (0, 7)], [4, 1], 5)], 31);
    let digest = digest(&mut world, &[2, 1], 3);
    (world, digest)
}
