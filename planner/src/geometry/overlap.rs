//! No two blocks share a byte.
//!
//! A run is one layer's blocks in one extent: pages at `base, base + stride, …`. Two runs may interleave, as layers
//! of a packed slab do, and groups that alias one slab share bytes where they name the *same* block: one physical
//! block belongs to one group at a time, which plans check. Anything else that shares a byte is refused here, so that
//! distinct blocks, layers and pools of a geometry never touch.
//!
//! There may be many runs (layers × regions × extents), so they are not compared two by two. Write an address as
//! `row · stride + phase`: then the pages of a run are a rectangle, some rows high and a page wide (two rectangles where
//! pages reach past the end of a row), and runs of one stride share bytes where their rectangles meet. Runs of different
//! strides meet in more than one way, and may not even interleave.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use super::side::Run;
use crate::error::GeometryError;

/// Refuses runs that share bytes, naming them by `name`. All sides of a pool have the same extents.
pub(crate) fn check_apart(mut runs: Vec<Run>, name: impl Fn(&Run) -> Arc<str>) -> Result<(), GeometryError> {
    runs.sort_by_key(|run| run.base);
    let mut conflict = strides_apart(&runs).or_else(|| rectangles_apart(singles(&runs)));
    let mut strides: Vec<u64> = runs.iter().filter_map(regular_stride).collect();
    strides.sort_unstable();
    strides.dedup();
    let mut by_stride: BTreeMap<u64, Vec<Rectangle>> = strides.iter().map(|&s| (s, Vec::new())).collect();
    for (index, run) in runs.iter().enumerate() {
        let rectangles = regular_stride(run).and_then(|stride| by_stride.get_mut(&stride));
        rectangles.into_iter().for_each(|rectangles| Rectangle::of(run, index, rectangles));
    }
    for rectangles in by_stride.into_values() {
        conflict = conflict.or_else(|| rectangles_apart(rectangles));
    }
    let Some((first, second)) = conflict else { return Ok(()) };
    let words = |index: usize| runs.get(index).map_or_else(|| Arc::from("?"), &name);
    Err(GeometryError::SharedBytes { first: words(first.min(second)), second: words(first.max(second)) })
}

/// The stride, where it means something: a single page may have any.
fn regular_stride(run: &Run) -> Option<u64> {
    (run.stride >= run.page_bytes).then_some(run.stride)
}

/// Whether a run is one page.
fn is_single(run: &Run) -> bool {
    run.base.saturating_add(run.page_bytes) == run.end
}

/// Indices of two runs.
type Conflict = (usize, usize);

/// How far runs of one stride reach; `None` is that of single pages that have none.
type Reach = Option<(u64, Option<u64>, usize)>;

/// Finds runs of different strides, not both of them single, that reach into each other. They are sorted by base.
fn strides_apart(runs: &[Run]) -> Option<Conflict> {
    // Of the runs so far, the one that reaches furthest, and the one that does so of those with another stride than
    // that: whatever the next one's stride, one of them decides. First of all runs, then of those that are not single.
    let mut furthest: [[Reach; 2]; 2] = Default::default();
    for (index, run) in runs.iter().enumerate() {
        let (stride, single) = (regular_stride(run), is_single(run));
        let [all, many] = &mut furthest;
        let others = if single { &*many } else { &*all };
        let meets = |(end, own, _): &&(u64, Option<u64>, usize)| *own != stride && *end > run.base;
        if let Some((.., other)) = others.iter().flatten().find(meets) {
            return Some((*other, index));
        }
        for reaches in [Some(all), (!single).then_some(many)].into_iter().flatten() {
            reach(reaches, (run.end, stride, index));
        }
    }
    None
}

/// Keeps the furthest reach, and the furthest of another stride.
fn reach([first, second]: &mut [Reach; 2], new: (u64, Option<u64>, usize)) {
    match first {
        Some((end, stride, _)) if *stride == new.1 => {
            if *end < new.0 {
                *first = Some(new);
            }
        }
        Some((end, ..)) if *end >= new.0 => {
            if second.is_none_or(|(end, ..)| end < new.0) {
                *second = Some(new);
            }
        }
        _ => {
            *second = *first;
            *first = Some(new);
        }
    }
}

/// Pages in rows `rows`, at the bytes `bytes` of each row.
#[derive(Clone, Debug)]
struct Rectangle {
    rows: Range<u64>,
    bytes: Range<u64>,
    /// Block minus row, which is the same for all pages; with the pool, rectangles that agree in it name the same block
    /// wherever they meet.
    first_block: u64,
    pool: u32,
    side: u32,
    run: usize,
}

impl Rectangle {
    /// Appends the one or two rectangles of a run whose stride means something.
    fn of(run: &Run, index: usize, to: &mut Vec<Self>) {
        let stride = run.stride.max(1);
        let row = run.base.checked_div(stride).unwrap_or(0);
        let phase = run.base.checked_rem(stride).unwrap_or(0);
        let span = run.end.saturating_sub(run.base).saturating_sub(run.page_bytes);
        let pages = span.checked_div(stride).unwrap_or(0).saturating_add(1);
        let mut push = |row: u64, bytes: Range<u64>| {
            to.push(Self {
                rows: row..row.saturating_add(pages),
                bytes,
                first_block: u64::from(run.first_block).wrapping_sub(row),
                pool: run.pool.get(),
                side: run.side,
                run: index,
            });
        };
        let end = phase.saturating_add(run.page_bytes);
        push(row, phase..end.min(stride));
        if end > stride {
            // The rest of each page lies in the row after.
            push(row, 0..end.saturating_sub(stride));
            if let Some(rest) = to.last_mut() {
                rest.rows = row.saturating_add(1)..row.saturating_add(pages).saturating_add(1);
                rest.first_block = rest.first_block.wrapping_sub(1);
            }
        }
    }
}

/// Single pages, all in one row, whatever their strides.
fn singles(runs: &[Run]) -> Vec<Rectangle> {
    let single = |(index, run): (usize, &Run)| Rectangle {
        rows: 0..1,
        bytes: run.base..run.end,
        first_block: run.first_block.into(),
        pool: run.pool.get(),
        side: run.side,
        run: index,
    };
    runs.iter().enumerate().filter(|(_, run)| is_single(run)).map(single).collect()
}

/// Finds rectangles that meet, and are not the same block on two sides of one pool.
fn rectangles_apart(mut rectangles: Vec<Rectangle>) -> Option<Conflict> {
    // Those that may name the same blocks, and so may meet: they are in the same rows.
    let blocks = |r: &Rectangle| (r.rows.start, r.pool, r.first_block);
    rectangles.sort_by_key(|r| (blocks(r), r.side, r.bytes.start));
    let mut neighbours = rectangles.iter().zip(rectangles.iter().skip(1));
    let met = neighbours.find(|(low, high)| {
        blocks(low) == blocks(high) && low.side == high.side && low.bytes.end > high.bytes.start
    });
    if let Some((low, high)) = met {
        return Some((low.run, high.run));
    }
    rectangles.sort_by_key(|r| (blocks(r), r.bytes.start));
    let joins = |low: &Joined<'_>, high: &Rectangle| {
        let same = low.rectangles.first().is_some_and(|first| blocks(first) == blocks(high));
        same && low.bytes.end > high.bytes.start
    };
    let mut joined: Vec<Joined<'_>> = Vec::new();
    for (index, rectangle) in rectangles.iter().enumerate() {
        match joined.last_mut() {
            Some(last) if joins(last, rectangle) => {
                last.bytes.end = last.bytes.end.max(rectangle.bytes.end);
                last.rows.end = last.rows.end.max(rectangle.rows.end);
                let from = index.saturating_sub(last.rectangles.len());
                last.rectangles = rectangles.get(from..=index).unwrap_or_default();
            }
            _ => joined.push(Joined {
                rows: rectangle.rows.clone(),
                bytes: rectangle.bytes.clone(),
                rectangles: rectangles.get(index..=index).unwrap_or_default(),
            }),
        }
    }
    apart(&joined)
}

/// Rectangles of the same blocks that hang together.
struct Joined<'a> {
    rows: Range<u64>,
    bytes: Range<u64>,
    rectangles: &'a [Rectangle],
}

/// Finds two that meet: of those that have a row in common, neighbours are looked at.
fn apart(joined: &[Joined<'_>]) -> Option<Conflict> {
    let mut ends: Vec<&Joined<'_>> = joined.iter().collect();
    ends.sort_by_key(|joined| joined.rows.end);
    let mut ends = ends.into_iter().peekable();
    // Those in the row that has been reached, by their first byte.
    let mut here: BTreeMap<u64, &Joined<'_>> = BTreeMap::new();
    // They are sorted by their first row.
    for next in joined {
        while let Some(past) = ends.next_if(|past| past.rows.end <= next.rows.start) {
            here.remove(&past.bytes.start);
        }
        let before = here.range(..next.bytes.start).next_back().map(|(_, before)| *before);
        let after = here.range(next.bytes.start..).next().map(|(_, after)| *after);
        let meets =
            |other: &&Joined<'_>| other.bytes.start < next.bytes.end && next.bytes.start < other.bytes.end;
        if let Some(other) = [before, after].into_iter().flatten().find(meets) {
            // Both are without gaps, so that the later one's first byte lies in a rectangle of each.
            let byte = other.bytes.start.max(next.bytes.start);
            let run = |joined: &Joined<'_>| {
                joined.rectangles.iter().find(|r| r.bytes.contains(&byte)).map_or(0, |r| r.run)
            };
            return Some((run(other), run(next)));
        }
        if let Entry::Vacant(place) = here.entry(next.bytes.start) {
            place.insert(next);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::unwrap_used, reason = "small numbers")]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::*;
    use crate::id::PoolId;

    fn run(base: u64, stride: u64, count: u64, page: u64, first_block: u32, side: u32) -> Run {
        let end = base + (count - 1) * stride + page;
        Run { base, end, stride, page_bytes: page, first_block, pool: PoolId::new(0, 0), side, layer: 0 }
    }

    fn pages(run: &Run) -> impl Iterator<Item = (Range<u64>, u64)> {
        let count = if is_single(run) { 1 } else { (run.end - run.base - run.page_bytes) / run.stride + 1 };
        let (base, stride, page, first) = (run.base, run.stride, run.page_bytes, run.first_block);
        (0..count).map(move |i| (base + i * stride..base + i * stride + page, u64::from(first) + i))
    }

    /// The naive answer: lay out every page. Runs of different strides may not interleave either, unless both are one
    /// page.
    fn naive(a: &Run, b: &Run) -> bool {
        let aliases = a.pool == b.pool && a.side != b.side;
        let hulls_meet = a.base < b.end && b.base < a.end;
        if !(is_single(a) && is_single(b)) && regular_stride(a) != regular_stride(b) {
            return hulls_meet;
        }
        pages(a).any(|(own, block)| {
            pages(b).any(|(other, same)| {
                own.start < other.end && other.start < own.end && !(aliases && block == same)
            })
        })
    }

    /// Whether any two of the runs share bytes.
    fn any_pair(runs: &[Run]) -> bool {
        runs.iter().enumerate().any(|(index, a)| runs.iter().skip(index + 1).any(|b| naive(a, b)))
    }

    /// The two runs that are named, by their layer and side.
    fn check(mut runs: Vec<Run>) -> Option<(usize, usize)> {
        for (index, run) in (0..).zip(&mut runs) {
            run.layer = index;
        }
        match check_apart(runs, |run| Arc::from(run.layer.to_string())) {
            Ok(()) => None,
            Err(GeometryError::SharedBytes { first, second }) => {
                Some((first.parse().unwrap(), second.parse().unwrap()))
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// The answer for a list, which has to be the naive one, and to name two runs that share bytes.
    fn agrees(runs: Vec<Run>) -> Result<(), TestCaseError> {
        let expected = any_pair(&runs);
        let found = check(runs.clone());
        prop_assert_eq!(found.is_some(), expected, "{:?}", runs);
        if let Some((first, second)) = found {
            prop_assert!(first != second && naive(&runs[first], &runs[second]), "{:?}: {:?}", found, runs);
            prop_assert!(runs[first].base <= runs[second].base);
        }
        Ok(())
    }

    /// Sides of pools, each with a stride and a page, and the runs of their layers in every extent. Mostly laid out so
    /// that they fit, with some moved.
    fn sides() -> impl Strategy<Value = Vec<Run>> {
        // Of each pool its blocks, blocks of an extent, slot, and where each extent begins.
        let pool = (1_u32..7, 1_u32..5, 8_u64..40, vec(0_u64..4, 6));
        // Of each side its pool, page, first phase, phases from layer to layer, layers, and what its stride is more.
        let side = (
            0_usize..2,
            1_u64..9,
            0_u64..30,
            0_u64..9,
            1_u32..5,
            prop_oneof![5 => Just(0_u64), 1 => 1_u64..9],
        );
        let moved = vec(prop_oneof![12 => Just(0_u64), 1 => 0_u64..70], 80);
        (vec(pool, 2), vec(side, 1..5), moved).prop_map(|(pools, sides, moved)| {
            let mut moved = moved.into_iter().cycle();
            let mut runs = Vec::new();
            for (number, (pool, page, phase, step, layers, more)) in (0..).zip(sides) {
                let (blocks, extent, slot, gaps) = &pools[pool];
                let stride = slot + more;
                // Where every extent is one block, pages may be longer than the stride.
                let page = if *extent == 1 { page * 6 } else { page.min(stride) };
                for layer in 0..layers {
                    let mut at = 1000 + 400 * pool as u64;
                    for (first, gap) in (0..*blocks).step_by(*extent as usize).zip(gaps) {
                        let count = u64::from((*blocks - first).min(*extent));
                        let base = at + phase + u64::from(layer) * step.max(page) + moved.next().unwrap();
                        let mut run = run(base, stride, count, page, first, number);
                        run.pool = PoolId::new(pool as u32, 0);
                        runs.push(run);
                        at += count * stride + gap * slot;
                    }
                }
            }
            runs
        })
    }

    /// A few runs of any strides, each of a pool of its own, in room enough.
    fn loose() -> impl Strategy<Value = Vec<Run>> {
        let one = (0_u64..300, prop_oneof![Just(0_u64), Just(7), Just(9), Just(12)], 1_u64..5, 1_u64..30);
        vec(one, 2..6).prop_map(|drawn| {
            let run = |(number, (base, stride, count, page)): (u32, (u64, u64, u64, u64))| {
                let (count, page) =
                    if count > 1 && stride > 0 { (count, page.min(stride)) } else { (1, page) };
                let run = run(base, stride, count, page, 0, number);
                Run { pool: PoolId::new(number, 0), ..run }
            };
            (0..).zip(drawn).map(run).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn two_runs_agree_with_the_naive_answer(
            base in 0_u64..64, stride in 1_u64..24,
            low in (1_u64..6, 1_u64..24, 0_u32..3), high in (1_u64..6, 1_u64..24, 0_u32..3), sides in 0_u32..2,
        ) {
            let a = run(100, stride, low.0, low.1.min(stride), low.2, 0);
            let start = 100 + base % (a.end - 100);
            // Two sides of a pool have the same extents: this one, or one before or after it.
            let (first, count) = match (sides, high.2) {
                (0, first) => (first, high.0),
                (_, 0) => (low.2, low.0),
                (_, 1) if low.2 > 0 => (low.2 - 1, 1),
                _ => (low.2 + low.0 as u32, high.0),
            };
            let b = run(start, stride, count, high.1.min(stride), first, sides);
            agrees(vec![a, b])?;
        }

        #[test]
        fn the_stride_of_single_blocks_means_nothing(
            gap in 0_u64..24, strides in (0_u64..40, 0_u64..40), pages in (1_u64..24, 1_u64..24),
            first in (0_u32..2, 0_u32..2), sides in 0_u32..2,
        ) {
            let a = run(100, strides.0, 1, pages.0, first.0, 0);
            let b = run(100 + gap % pages.0, strides.1, 1, pages.1, first.1, sides);
            agrees(vec![a, b])?;
        }

        #[test]
        fn lists_of_runs_agree_with_the_naive_answer(runs in sides()) {
            agrees(runs)?;
        }

        #[test]
        fn runs_of_any_strides_agree_with_the_naive_answer(runs in loose()) {
            agrees(runs)?;
        }
    }

    /// The lists are worth the name: many of them are apart, and many are not.
    #[test]
    fn lists_of_both_kinds_are_drawn() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for strategy in [sides().boxed(), loose().boxed()] {
            let mut draw = |_| any_pair(&strategy.new_tree(&mut runner).unwrap().current());
            let shared = (0..400).map(&mut draw).filter(|shared| *shared).count();
            assert!((40..360).contains(&shared), "{shared} of 400 share bytes");
        }
    }
}
