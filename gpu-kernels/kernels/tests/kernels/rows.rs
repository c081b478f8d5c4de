//! Row jobs against a reference that walks the slot mapping one entry after the other.

use pagelift_abi::{row_job, Route, RowJob, RowsArgs};
use proptest::prelude::*;

use crate::launch::{any_launch, Launch};
use crate::layout::{any_route, RouteShape, World};
use crate::memory::{address, assert_same};
use crate::table::Table;

/// A row job with the arrays it names.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    pub slots: Vec<i64>,
    /// Slots are 8 bytes wide, and not 4.
    pub wide: bool,
    pub count: Option<i32>,
    pub starts: Option<Vec<i32>>,
    pub accepted: Option<Vec<i32>>,
    pub tokens_per_row: u32,
    pub page_slots: u32,
    pub map: Vec<i32>,
    pub null_page: i32,
    /// Rows of a map entry and of a block: those of a page where nothing is said.
    pub map_rows: Option<u32>,
    pub block_rows: Option<u32>,
    /// A gather into block 0.
    pub compact: bool,
}

/// What a launch counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub rows: u32,
    pub skipped: u32,
    pub bad: u32,
}

/// The fate of one entry, read off the documentation of `RowJob`.
enum Fate {
    /// From a row of a page to a row of a block.
    Copy([u32; 2], [u32; 2]),
    Skip,
    Bad,
    Incomplete,
}

impl Mirror {
    fn fate(&self, route: &Route, entry: usize) -> Fate {
        let slot = self.slots[entry];
        if slot < 0 {
            return Fate::Skip;
        }
        if let (Some(accepted), Some(starts)) = (&self.accepted, &self.starts) {
            let token = entry as i32;
            let Some(r) = (0..accepted.len()).find(|&r| (starts[r]..starts[r + 1]).contains(&token)) else {
                return Fate::Bad;
            };
            if accepted[r] < 0 || accepted[r] > starts[r + 1] - starts[r] {
                return Fate::Bad;
            }
            if token - starts[r] >= accepted[r] {
                return Fate::Skip;
            }
        }
        let [slots, tokens, map_rows, block_rows] = self.numbers().map(i64::from);
        if slots == 0 {
            return Fate::Bad;
        }
        let (page, within) = (slot / slots, slot % slots);
        if page == i64::from(self.null_page) {
            return Fate::Skip;
        }
        if page >= i64::from(route.source.blocks) || tokens == 0 || slots % tokens != 0 {
            return Fate::Bad;
        }
        let (page_rows, row) = (slots / tokens, within / tokens);
        let to = if self.compact {
            entry as i64
        } else {
            if map_rows == 0 || block_rows == 0 || page_rows % map_rows != 0 || block_rows % map_rows != 0 {
                return Fate::Bad;
            }
            let row = page * page_rows + row;
            match i64::from(self.map[(row / map_rows) as usize]) {
                -1 => return Fate::Skip,
                entry => entry * map_rows + row % map_rows,
            }
        };
        let blocks = if self.compact { 1 } else { i64::from(route.destination.blocks) };
        if !(0..blocks * block_rows).contains(&to) {
            return Fate::Bad;
        }
        if (slot + 1) % tokens != 0 {
            return Fate::Incomplete;
        }
        let [page, row, block, to] = [page, row, to / block_rows, to % block_rows].map(|n| n as u32);
        Fate::Copy([page, row], [block, to])
    }

    /// Slots of a page, tokens of a row, rows of a map entry, rows of a block.
    fn numbers(&self) -> [u32; 4] {
        let rows = self.page_slots.checked_div(self.tokens_per_row).unwrap_or(0);
        let [map_rows, block_rows] = [self.map_rows, self.block_rows].map(|given| given.unwrap_or(rows));
        [self.page_slots, self.tokens_per_row, map_rows, block_rows]
    }

    /// Entries that count, and how many counts made no sense.
    fn entries(&self) -> (usize, u32) {
        let capacity = self.slots.len() as i32;
        let ends = [self.count, self.starts.as_ref().map(|starts| starts[starts.len() - 1])];
        let ends: Vec<i32> = ends.into_iter().flatten().collect();
        let bad = ends.iter().filter(|&&end| end < 0 || end > capacity).count() as u32;
        (ends.into_iter().fold(capacity, |least, end| least.min(end.max(0))) as usize, bad)
    }
}

/// What the destination must hold afterwards, and what must have been counted. Mirror `n` is of route `n`.
pub fn reference(world: &World, mirrors: &[Mirror]) -> (Vec<u8>, Counts) {
    let (mut want, mut counts) = (world.destination.bytes().to_vec(), Counts::default());
    for ((mirror, route), [from, to]) in mirrors.iter().zip(&world.routes).zip(&world.placed) {
        let (entries, bad) = mirror.entries();
        counts.bad += bad;
        for entry in 0..entries {
            match mirror.fate(route, entry) {
                Fate::Skip => counts.skipped += 1,
                Fate::Bad => counts.bad += 1,
                Fate::Incomplete => {}
                Fate::Copy([page, row], [block, to_row]) => {
                    counts.rows += 1;
                    for layer in 0..route.layers {
                        for segment in 0..route.segments as usize {
                            let source = from.row(layer, page, segment, row);
                            want[to.row(layer, block, segment, to_row)]
                                .copy_from_slice(&world.source.bytes()[source]);
                        }
                    }
                }
            }
        }
    }
    (want, counts)
}

/// The arrays of a mirror as they lie on the device, exactly as long as the job says.
pub struct Arrays {
    wide: Vec<i64>,
    narrow: Vec<i32>,
    count: Vec<i32>,
    starts: Vec<i32>,
    accepted: Vec<i32>,
}

impl Arrays {
    pub fn new(mirror: &Mirror) -> Self {
        Self {
            wide: if mirror.wide { mirror.slots.clone() } else { vec![] },
            narrow: if mirror.wide { vec![] } else { mirror.slots.iter().map(|&slot| slot as i32).collect() },
            count: mirror.count.into_iter().collect(),
            starts: mirror.starts.clone().unwrap_or_default(),
            accepted: mirror.accepted.clone().unwrap_or_default(),
        }
    }

    pub fn job(&mut self, mirror: &Mirror, route: u32, map: u32) -> RowJob {
        // An empty array that is given differs from none.
        let or_none = |array: &mut Vec<i32>, given| if given { address(array) } else { 0 };
        let [page_slots, tokens_per_row, map_rows, block_rows] = mirror.numbers();
        RowJob {
            slots: if mirror.wide { address(&mut self.wide) } else { address(&mut self.narrow) },
            count: or_none(&mut self.count, mirror.count.is_some()),
            query_starts: or_none(&mut self.starts, mirror.starts.is_some()),
            accepted: or_none(&mut self.accepted, mirror.accepted.is_some()),
            route,
            capacity: mirror.slots.len() as u32,
            requests: mirror.starts.as_ref().map_or(0, |starts| starts.len() as u32 - 1),
            slot_bytes: if mirror.wide { 8 } else { 4 },
            page_slots,
            tokens_per_row,
            map,
            null_page: mirror.null_page,
            map_rows,
            block_rows,
            flags: u32::from(mirror.compact) * row_job::COMPACT,
            reserved: 0,
        }
    }
}

/// Runs the mirrors, and returns what was counted.
pub fn run(world: &mut World, mirrors: &[Mirror], launch: Launch) -> Counts {
    let mut arrays: Vec<Arrays> = mirrors.iter().map(Arrays::new).collect();
    let (mut jobs, mut maps) = (Vec::new(), Vec::<i32>::new());
    for (route, (mirror, arrays)) in mirrors.iter().zip(&mut arrays).enumerate() {
        jobs.push(arrays.job(mirror, route as u32, maps.len() as u32));
        maps.extend(&mirror.map);
    }
    let mut table = Table::new(&jobs, 0, &[], &[]);
    let [routes, segments, bases] = world.geometry();
    launch.rows(RowsArgs {
        table: table.address(),
        routes,
        segments,
        bases,
        progress: table.progress_address(),
        maps: address(&mut maps),
    });
    let answer = table.answer();
    assert_eq!((answer.ticket, answer.status), (1, pagelift_abi::status::DONE));
    Counts { rows: answer.rows, skipped: answer.skipped, bad: answer.bad }
}

/// Runs the mirrors, and compares the whole destination and all counts.
pub fn check(world: &mut World, mirrors: &[Mirror], launch: Launch) {
    let (want, counts) = reference(world, mirrors);
    assert_eq!(run(world, mirrors, launch), counts);
    assert_same(world.destination.bytes(), &want);
}

/// Entries and rows of one end.
#[derive(Clone, Copy, Debug)]
struct End {
    blocks: u32,
    rows: u32,
}

/// A mirror from pages to blocks, whose rows are multiples of `map_rows`; or a gather from these pages.
fn any_mirror(pages: End, blocks: End, map_rows: u32) -> impl Strategy<Value = Mirror> {
    let numbers = (prop_oneof![3 => Just(1u32), 1 => 2u32..5], any::<bool>(), -1i32..3);
    (numbers, prop::bool::weighted(0.3)).prop_flat_map(move |((tokens_per_row, wide, null_page), compact)| {
        let page_slots = pages.rows * tokens_per_row;
        let slots = i64::from(pages.blocks * page_slots);
        // Each slot once, for no row is written twice in a step; and past the end, and padding.
        let once = Just((0..slots + 3).chain([-1; 3]).chain([-7]).collect::<Vec<i64>>()).prop_shuffle();
        // A row may be gathered again and again.
        let often = prop::collection::vec(-2..slots + 3, 0..40);
        let slots = if compact { often.boxed() } else { once.boxed() };
        // Injective, with holes and nonsense.
        let named = (blocks.blocks * blocks.rows / map_rows) as i32;
        let map = Just((0..named + 2).chain([-1, -1, -2, i32::MIN]).collect::<Vec<i32>>());
        let map = map.prop_shuffle().prop_map(move |mut map| {
            // A gather reads no map: there is none.
            map.resize(if compact { 0 } else { (pages.blocks * pages.rows / map_rows) as usize }, -1);
            map
        });
        let count = prop::option::weighted(0.7, -2i32..40);
        let lengths = prop::option::weighted(0.7, prop::collection::vec((0i32..6, -1i32..7), 1..6));
        (slots, map, count, lengths, any::<bool>(), 0usize..40).prop_map(
            move |(mut slots, map, count, requests, has_accepted, capacity)| {
                slots.truncate(capacity);
                let starts = requests.as_ref().map(|requests| {
                    let mut at = 0;
                    let ends = requests.iter().map(|(length, _)| {
                        at += length;
                        at
                    });
                    [0].into_iter().chain(ends).collect()
                });
                let accepted = requests
                    .filter(|_| has_accepted)
                    .map(|requests| requests.into_iter().map(|(_, accepted)| accepted).collect());
                Mirror {
                    slots,
                    wide,
                    count,
                    starts,
                    accepted,
                    tokens_per_row,
                    page_slots,
                    map,
                    null_page,
                    map_rows: Some(if compact { 0 } else { map_rows }),
                    block_rows: Some(blocks.rows),
                    compact,
                }
            },
        )
    })
}

/// Routes with a mirror or a gather each.
fn any_mirrored_routes() -> impl Strategy<Value = Vec<(RouteShape, Mirror)>> {
    let one = (any_route(), 1u32..7, 0usize..2, 0u32..4).prop_flat_map(|(mut route, rows, larger, log2)| {
        // A page and its block have the same rows, or either has a power of two as many.
        for side in &mut route.sides {
            side.rows = rows;
        }
        route.sides[larger].rows <<= log2;
        // A row is moved whole, by one unit.
        for segment in &mut route.segments {
            segment.row = segment.row.min(100);
        }
        let [pages, blocks] = route.sides.each_ref().map(|side| End { blocks: side.blocks, rows: side.rows });
        (Just(route), any_mirror(pages, blocks, rows))
    });
    prop::collection::vec(one, 0..3)
}

proptest! {
    #[test]
    fn final_rows_are_mirrored_and_no_other_byte_changes(
        routes in any_mirrored_routes(),
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let (shapes, mirrors): (Vec<_>, Vec<_>) = routes.into_iter().unzip();
        check(&mut World::new(&shapes, seed), &mirrors, launch);
    }

    /// Whatever lies in the arrays: nothing is read out of bounds, each entry is counted at most once, and a row that
    /// was written is one that an entry and the map name.
    #[test]
    fn nonsense_is_counted_and_never_written(
        starts in prop::collection::vec(prop_oneof![-3i32..20, any::<i32>()], 2..6),
        accepted in prop::collection::vec(prop_oneof![-3i32..20, any::<i32>()], 5),
        slots in prop::collection::vec(prop_oneof![-3i64..30, any::<i64>()], 1..20),
        map in prop::collection::vec(prop_oneof![-2i32..8, any::<i32>()], 8),
        // Rows of a page and of a block; an entry stands for five.
        (page_rows, block_rows) in prop_oneof![Just((5u32, 5u32)), Just((10, 5)), Just((5, 10))],
        count in prop::option::of(any::<i32>()),
        wide in any::<bool>(),
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let mut shape = crate::faults::mla(4, 3, page_rows);
        shape.sides[1].rows = block_rows;
        let mut world = World::new(&[shape], seed);
        let before = world.destination.bytes().to_vec();
        let accepted = Some(accepted[..starts.len() - 1].to_vec());
        let slots: Vec<i64> = if wide { slots } else { slots.into_iter().map(|slot| i64::from(slot as i32)).collect() };
        let mirror = Mirror {
            slots, wide, count, starts: Some(starts), accepted, tokens_per_row: 1, page_slots: page_rows, map,
            null_page: -1, map_rows: Some(5), block_rows: Some(block_rows), compact: false,
        };
        let counts = run(&mut world, std::slice::from_ref(&mirror), launch);
        prop_assert!(counts.rows + counts.skipped + counts.bad <= mirror.slots.len() as u32 + 2);

        let mut allowed = before.clone();
        let [from, to] = &world.placed[0];
        let (page_rows, named) = (i64::from(page_rows), 3 * i64::from(block_rows) / 5);
        for &slot in mirror.slots.iter().filter(|slot| (0..4 * page_rows).contains(slot)) {
            let entry = i64::from(mirror.map[slot as usize / 5]);
            if !(0..named).contains(&entry) {
                continue;
            }
            let row = (entry * 5 + slot % 5) as u32;
            for layer in 0..2 {
                let source = from.row(layer, (slot / page_rows) as u32, 0, (slot % page_rows) as u32);
                let target = to.row(layer, row / block_rows, 0, row % block_rows);
                if world.destination.bytes()[target.clone()] != before[target.clone()] {
                    allowed[target].copy_from_slice(&world.source.bytes()[source]);
                }
            }
        }
        // Two pages may share an entry's rows here, for nonsense need not be injective.
        let mut blocks: Vec<_> = mirror.map.iter().filter(|&&entry| (0..named).contains(&entry.into())).collect();
        blocks.sort_unstable();
        let injective = blocks.windows(2).all(|pair| pair[0] != pair[1]);
        if injective {
            assert_same(world.destination.bytes(), &allowed);
        }
    }

    /// Whatever a gather is given: it writes rows of block 0 alone, each the one that its entry names.
    #[test]
    fn a_gather_of_nonsense_writes_the_rows_of_its_entries_alone(
        slots in prop::collection::vec(prop_oneof![-3i64..30, any::<i64>()], 1..20),
        count in prop::option::of(any::<i32>()),
        block_rows in 0u32..20,
        null_page in -1i32..5,
        wide in any::<bool>(),
        launch in any_launch(),
        seed in any::<u64>(),
    ) {
        let slots = if wide { slots } else { slots.into_iter().map(|slot| i64::from(slot as i32)).collect() };
        let gather = Mirror { wide, count, null_page, ..gather(&slots, 5, block_rows) };
        let mut shape = crate::faults::mla(5, 1, 5);
        shape.sides[1].rows = block_rows.max(1);
        check(&mut World::new(&[shape], seed), &[gather], launch);
    }
}

/// A gather from pages of `page_rows` rows into a buffer of `block_rows`.
pub fn gather(rows: &[i64], page_rows: u32, block_rows: u32) -> Mirror {
    Mirror {
        slots: rows.to_vec(),
        wide: true,
        tokens_per_row: 1,
        page_slots: page_rows,
        null_page: -1,
        // Means nothing to a gather, and would be far outside of everything.
        map_rows: Some(u32::MAX),
        block_rows: Some(block_rows),
        compact: true,
        ..Mirror::default()
    }
}
