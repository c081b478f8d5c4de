//! Pages in regions: K and V apart or packed, heads inside or outside rows.

use std::sync::Arc;

use pagelift_planner::error::{GeometryError, LayoutError};
use pagelift_planner::geometry::*;
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::{PagedLayout, Segment};
use pagelift_planner::plan::{PlanCapacity, RestorePlan, TailRows};

use crate::fixed::{DEVICE, HOST, import, paged, pool, prompt};
use pagelift_cases::decode::{Move, checked_moves, units};
use pagelift_cases::{encoded, hosts, pages};

const TOKENS: u32 = 4;
const HEADS: u32 = 3;
/// Bytes of one head of one token.
const HEAD: u32 = 16;

/// K or V of every head: rows of all heads (NHD), or each head's rows on their own (HND); `region` and `start` say where.
fn heads(layout: Vec<Segment>, name: &str, hnd: bool, region: u32, start: u32) -> Vec<Segment> {
    let segment = |head: u32| {
        let (offset, stride) = if hnd { (head * TOKENS * HEAD, HEAD) } else { (head * HEAD, HEADS * HEAD) };
        let offset = u64::from(start + offset);
        Segment::new(&format!("{name}{head}"), offset, HEAD, stride).unwrap().in_region(region)
    };
    layout.into_iter().chain((0..HEADS).map(segment)).collect()
}

/// K and V in two regions, or one after the other in one page.
fn kv(hnd: bool, apart: bool) -> PagedLayout {
    let half = TOKENS * HEADS * HEAD;
    let (region, start) = if apart { (1, 0) } else { (0, half) };
    let segments = heads(heads(Vec::new(), "k", hnd, 0, 0), "v", hnd, region, start);
    let builder = PagedLayout::builder(TOKENS);
    segments.into_iter().fold(builder, |builder, segment| builder.segment_at(segment)).build().unwrap()
}

/// Where each region of each layer begins, for `layers` layers of 4 blocks, one after the other.
fn bases(start: u64, layers: u64, layout: &PagedLayout) -> (Vec<u64>, u64) {
    let regions = layout.region_bytes();
    let bytes = regions[0];
    assert!(regions.iter().all(|region| *region == bytes));
    let count = layers * regions.len() as u64;
    ((0..count).map(|run| start + run * 4 * bytes).collect(), bytes)
}

fn between(host: &PagedLayout, device: &PagedLayout) -> (Arc<Geometry>, GroupKey<Paged>) {
    let mut builder = GeometryBuilder::new();
    let mut side = |memory, start, layout: &PagedLayout| {
        let pool = pool(&mut builder, memory, 4, 1 << 16);
        let (bases, stride) = bases(start, 2, layout);
        SideSpec::layer_separate(pool, &bases, stride, layout.clone())
    };
    let (host, device) = (side(Memory::Host, HOST, host), side(Memory::Device, DEVICE, device));
    let group = builder.group(paged("kv", 2, PagedLift::Tail, host, device)).unwrap();
    (Arc::new(builder.build().unwrap()), group)
}

/// The address of one head of one token, written out.
fn address(start: u64, layout: &PagedLayout, hnd: bool, apart: bool, at: [u64; 5]) -> u64 {
    let [layer, block, v, head, token] = at;
    let (bases, stride) = bases(start, 2, layout);
    let half = u64::from(TOKENS * HEADS * HEAD);
    let (base, within) =
        if apart { (bases[(layer * 2 + v) as usize], 0) } else { (bases[layer as usize], v * half) };
    let (heads, tokens, bytes) = (u64::from(HEADS), u64::from(TOKENS), u64::from(HEAD));
    let place = if hnd { head * tokens + token } else { token * heads + head };
    base + block * stride + within + place * bytes
}

#[test]
fn k_and_v_find_their_places_in_every_arrangement() {
    let arrangements = [false, true].map(|hnd| [false, true].map(|apart| (hnd, apart))).concat();
    for &(host_hnd, host_apart) in &arrangements {
        for &(hnd, apart) in &arrangements {
            let (host, device) = (kv(host_hnd, host_apart), kv(hnd, apart));
            let (geometry, group) = between(&host, &device);
            for tokens in 1..=u64::from(TOKENS) {
                let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
                let (blocks, page) = (hosts(&[3]), pages(&[1]));
                let groups = [ImportGroup::new(group, &blocks, &page)];
                plan.lift(&import(prompt(tokens), &groups), TailRows::Exact).unwrap();
                let mut expected = Vec::new();
                for layer in 0..2 {
                    for v in 0..2 {
                        for head in 0..u64::from(HEADS) {
                            for token in 0..tokens {
                                let at = |block| [layer, block, v, head, token];
                                let from = address(HOST, &host, host_hnd, host_apart, at(3));
                                let to = address(DEVICE, &device, hnd, apart, at(1));
                                expected.push(Move { to, from: Some(from), bytes: u64::from(HEAD) });
                            }
                        }
                    }
                }
                let moves = checked_moves(&geometry, &encoded(&plan));
                assert_eq!(moves, pagelift_cases::decode::merged(expected));
            }
        }
    }
}

#[test]
fn heads_side_by_side_on_both_sides_are_one_run() {
    let pairs = |host: &PagedLayout, device: &PagedLayout| {
        let (geometry, _) = between(host, device);
        let route = geometry.routes()[0];
        geometry.segments()[route.first_segment as usize..][..route.segments as usize].to_vec()
    };
    let (nhd, hnd) = (false, true);
    // K and V of all heads: two runs, and all tokens of each are contiguous.
    for (host, device) in [(false, false), (false, true), (true, false), (true, true)] {
        let found = pairs(&kv(nhd, host), &kv(nhd, device));
        let runs: Vec<_> = found.iter().map(|pair| (pair.row_bytes, pair.rows_log2)).collect();
        assert_eq!(runs, [(HEADS * HEAD, pagelift_abi::CONTIGUOUS); 2], "{host} {device}");
    }
    // One run for each head where either side has them outside of rows.
    for (host, device) in [(nhd, hnd), (hnd, nhd), (hnd, hnd)] {
        let found = pairs(&kv(host, true), &kv(device, false));
        assert_eq!(found.len(), 2 * HEADS as usize);
        assert!(found.iter().all(|pair| pair.row_bytes == HEAD));
        let contiguous = found.iter().all(|pair| pair.rows_log2 == pagelift_abi::CONTIGUOUS);
        assert_eq!(contiguous, host == hnd && device == hnd);
    }
}

#[test]
fn rows_that_are_adjacent_on_one_side_only_stay_apart() {
    // a, b and c side by side on the host; a gap after b on the device, and another stride.
    let layout = |places: [(u64, u32); 3], stride: u32| {
        let builder = PagedLayout::builder(2);
        let segment =
            |(name, (offset, bytes)): (&str, (u64, u32))| Segment::new(name, offset, bytes, stride).unwrap();
        let segments = ["a", "b", "c"].into_iter().zip(places).map(segment);
        segments.fold(builder, |builder, segment| builder.segment_at(segment)).build().unwrap()
    };
    let pairs = |host: &PagedLayout, device: &PagedLayout| -> Vec<u32> {
        let (geometry, group) = between(host, device);
        let route = geometry.routes()[0];
        // Every byte all the same.
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
        let (blocks, page) = (hosts(&[0]), pages(&[0]));
        let groups = [ImportGroup::new(group, &blocks, &page)];
        plan.lift(&import(prompt(2), &groups), TailRows::Whole).unwrap();
        let total: u64 = checked_moves(&geometry, &encoded(&plan)).iter().map(|piece| piece.bytes).sum();
        assert_eq!(total, 2 * 2 * 48);
        let pairs = &geometry.segments()[route.first_segment as usize..][..route.segments as usize];
        pairs.iter().map(|pair| pair.row_bytes).collect()
    };
    let adjacent = layout([(0, 8), (8, 16), (24, 24)], 48);
    let gap = layout([(0, 8), (8, 16), (32, 24)], 64);
    let order = layout([(0, 8), (32, 16), (8, 24)], 48);
    assert_eq!(pairs(&adjacent, &adjacent), [48]);
    assert_eq!(pairs(&adjacent, &gap), [24, 24]);
    assert_eq!(pairs(&gap, &adjacent), [24, 24]);
    assert_eq!(pairs(&gap, &gap), [24, 24]);
    assert_eq!(pairs(&adjacent, &order), [8, 16, 24]);
    assert_eq!(pairs(&order, &adjacent), [8, 16, 24]);
}

#[test]
fn runs_of_two_regions_are_never_one() {
    // In both pages, v's rows begin where k's end, but in another region.
    let layout = |region: u32| {
        let segment = |name, offset, region| Segment::new(name, offset, 16, 32).unwrap().in_region(region);
        PagedLayout::builder(2)
            .segment_at(segment("k", 0, 0))
            .segment_at(segment("v", 16, region))
            .page_bytes(64)
            .build()
            .unwrap()
    };
    for (host, device, segments) in [(0, 0, 1), (0, 1, 2), (1, 0, 2), (1, 1, 2)] {
        let (geometry, _) = between(&layout(host), &layout(device));
        assert_eq!(geometry.routes()[0].segments, segments, "{host} {device}");
    }
}

#[test]
fn regions_are_numbered_without_a_gap() {
    let at = |name, region| Segment::new(name, 0, 16, 16).unwrap().in_region(region);
    let two = |a, b| PagedLayout::builder(4).segment_at(at("a", a)).segment_at(at("b", b)).build();
    assert_eq!(two(0, 2), Err(LayoutError::EmptyRegion { region: 1 }));
    assert_eq!(two(1, 2), Err(LayoutError::EmptyRegion { region: 0 }));
    let many = LayoutError::Overflow { what: "the number of regions" };
    assert_eq!(two(0, 1024), Err(many.clone()));
    assert_eq!(two(0, u32::MAX), Err(many));
    // Any order will do.
    assert_eq!(two(1, 0).unwrap().region_bytes(), [64, 64]);
    // The same, by steps: a region that gets no segment is a gap.
    let gap = PagedLayout::builder(4).segment("k", 16).next_region().next_region().segment("v", 16).build();
    assert_eq!(gap, Err(LayoutError::EmptyRegion { region: 1 }));
    let kv = PagedLayout::builder(4).segment("k", 16).segment("scale", 4).next_region().segment("v", 8);
    let layout = kv.clone().build().unwrap();
    let places: Vec<_> =
        layout.segments().iter().map(|segment| (segment.region(), segment.offset())).collect();
    assert_eq!((places, layout.region_bytes()), (vec![(0, 0), (0, 64), (1, 0)], &[80, 32][..]));
    assert_eq!(layout.page_bytes().get(), 112);
    // A declared size is each region's.
    assert_eq!(kv.clone().page_bytes(96).build().unwrap().region_bytes(), [96, 96]);
    assert_eq!(kv.page_bytes(79).build(), Err(LayoutError::PageTooSmall { needed: 80, page_bytes: 79 }));
    // Segments of two regions may have one offset, but not one name.
    assert_eq!(
        PagedLayout::builder(4).segment("k", 16).next_region().segment("k", 16).build(),
        Err(LayoutError::NameTwice { segment: "k".into() })
    );
}

/// A group of one layer with K and V apart, on a host pool of 4 blocks in extents of 2.
fn in_extents(bases: &[u64]) -> Result<(Arc<Geometry>, GroupKey<Paged>), GeometryError> {
    let layout = PagedLayout::builder(4).segment("k", 16).next_region().segment("v", 16).build().unwrap();
    let packed = PagedLayout::builder(4).segment("k", 16).segment("v", 16).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let host = PoolSpec::new("host", Memory::Host, 4, &[Region::new(HOST, 4096)]).extents_of(2);
    let host = builder.pool(host)?;
    let device = pool(&mut builder, Memory::Device, 4, 4 * 128);
    let host = SideSpec::layer_separate(host, bases, 64, layout);
    let device = SideSpec::packed(device, &[DEVICE], &[0], 128, packed);
    let group = builder.group(paged("kv", 1, PagedLift::Tail, host, device))?;
    Ok((Arc::new(builder.build()?), group))
}

#[test]
fn case_21_regions_have_extents_of_their_own() {
    // [region][extent]: K's two extents, then V's.
    let bases = [HOST + 1024, HOST, HOST + 512, HOST + 2048];
    let (geometry, group) = in_extents(&bases).unwrap();
    for (block, k, v) in [(0, 1024, 512), (1, 1024 + 64, 512 + 64), (2, 0, 2048), (3, 64, 2048 + 64)] {
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
        let (blocks, page) = (hosts(&[block]), pages(&[2]));
        plan.lift(&import(prompt(4), &[ImportGroup::new(group, &blocks, &page)]), TailRows::Whole).unwrap();
        let to = DEVICE + 2 * 128;
        let expected = [
            Move { to, from: Some(HOST + k), bytes: 64 },
            Move { to: to + 64, from: Some(HOST + v), bytes: 64 },
        ];
        assert_eq!(checked_moves(&geometry, &encoded(&plan)), expected);
        assert_eq!(units(&geometry, &encoded(&plan)).len(), 2);
    }
}

#[test]
fn bases_are_counted_by_region_and_may_not_touch() {
    let error = in_extents(&[HOST, HOST + 512]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "group `kv`, host side: expected 4 bases (one for each layer, region and extent), found 2"
    );
    // V begins where K's second block lies, or at its first.
    for v in [HOST, HOST + 64, HOST + 127] {
        let error = in_extents(&[HOST, HOST + 512, v, HOST + 2048]).unwrap_err();
        assert!(matches!(error, GeometryError::SharedBytes { .. }), "{error}");
    }
    assert!(in_extents(&[HOST, HOST + 512, HOST + 128, HOST + 2048]).is_ok());
    // K and V interleaved block by block would need the stride of both.
    let error = in_extents(&[HOST, HOST + 512, HOST + 32, HOST + 2048]).unwrap_err();
    assert!(matches!(error, GeometryError::SharedBytes { .. }), "{error}");
}
