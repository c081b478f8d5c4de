//! Which bytes may be shared: groups alias a slab block by block, and nothing else touches.

use std::sync::Arc;

use pagelift_planner::error::GeometryError;
use pagelift_planner::geometry::*;
use pagelift_planner::id::PoolId;
use pagelift_planner::import::ImportGroup;
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::plan::{PlanCapacity, RestorePlan, TailRows};

use crate::fixed::{DEVICE, HOST, import, paged, prompt};
use pagelift_cases::decode::{Move, checked_moves};
use pagelift_cases::{encoded, hosts, pages};

/// Blocks of 4 rows of 16 bytes: 64 bytes.
fn layout() -> PagedLayout {
    PagedLayout::builder(4).segment("row", 16).build().unwrap()
}

/// A group on the device alone.
fn on_device(name: &str, side: SideSpec<PagedLayout>) -> GroupSpec<Paged> {
    let layers = side.bases.len() as u32;
    let mut spec = paged(name, layers, PagedLift::None, side.clone(), side);
    (spec.host, spec.landing) = (None, Landing::Device);
    spec
}

/// Builds groups on the device, each with a pool, layer offsets and a block stride.
fn build(pools: &[&str], groups: &[(usize, &[u64], u64)]) -> Result<Geometry, GeometryError> {
    let mut builder = GeometryBuilder::new();
    let region = [Region::new(DEVICE, 4096)];
    let pools: Vec<PoolId> = pools
        .iter()
        .map(|name| builder.pool(PoolSpec::new(name, Memory::Device, 4, &region)).unwrap())
        .collect();
    for (index, &(pool, offsets, stride)) in groups.iter().enumerate() {
        let side = SideSpec::packed(pools[pool], &[DEVICE], offsets, stride, layout());
        builder.group(on_device(&format!("g{index}"), side))?;
    }
    builder.build()
}

#[test]
fn groups_of_one_pool_alias_the_slab_from_byte_0() {
    // Layers of both groups lie at the same offsets of a block, or at others of it.
    assert!(build(&["slab"], &[(0, &[0, 64], 256), (0, &[0, 64], 256)]).is_ok());
    assert!(build(&["slab"], &[(0, &[0, 64, 128], 256), (0, &[32, 96], 256), (0, &[192, 0], 256)]).is_ok());
}

#[test]
fn case_02_case_10_distinct_blocks_layers_and_pools_never_touch() {
    let shared = |pools: &[&str], groups: &[(usize, &[u64], u64)]| {
        let error = build(pools, groups).unwrap_err();
        assert!(matches!(error, GeometryError::SharedBytes { .. }), "{error}");
        error.to_string()
    };
    // Two layers of one group at the same place, or overlapping by a byte.
    shared(&["slab"], &[(0, &[0, 0], 256)]);
    shared(&["slab"], &[(0, &[0, 63], 256)]);
    // A layer that reaches into the next block.
    shared(&["slab"], &[(0, &[0, 193], 256)]);
    shared(&["slab"], &[(0, &[0], 256), (0, &[193], 256)]);
    // Groups of two pools in the same memory: their block ids are strangers.
    shared(&["a", "b"], &[(0, &[0], 256), (1, &[0], 256)]);
    shared(&["a", "b"], &[(0, &[0], 256), (1, &[63], 256)]);
    // Aliases whose blocks do not coincide: block 1 of one is block 0 of the other.
    shared(&["slab"], &[(0, &[0], 256), (0, &[256], 256)]);
    // Unequal strides.
    let text = shared(&["slab"], &[(0, &[0], 256), (0, &[0], 320)]);
    assert_eq!(
        text,
        "group `g0` (device side, layer 0, blocks from 0) and group `g1` (device side, layer 0, blocks from 0) \
         share bytes"
    );
    // Side by side is fine, also between pools.
    assert!(build(&["a", "b"], &[(0, &[0, 64], 256), (1, &[128, 192], 256)]).is_ok());
    assert!(build(&["a", "b"], &[(0, &[0], 64), (1, &[256], 64)]).is_ok());
}

#[test]
fn single_blocks_alias_whatever_their_stride() {
    let region = [Region::new(DEVICE, 4096)];
    for (strides, ok) in [([0, 0], true), ([1, 1], true), ([64, 1], true), ([256, 256], true)] {
        let mut builder = GeometryBuilder::new();
        let slab = PoolSpec::new("slab", Memory::Device, 3, &region).extents_of(1);
        let slab = builder.pool(slab).unwrap();
        let extents = [DEVICE + 512, DEVICE, DEVICE + 1024];
        for (name, stride, offset) in [("a", strides[0], 0), ("b", strides[1], 32)] {
            let side = SideSpec {
                layout: layout(),
                ..SideSpec::packed(slab, &extents, &[offset], stride, layout())
            };
            let mut spec = on_device(name, side);
            spec.layers = 1;
            builder.group(spec).unwrap();
        }
        assert_eq!(builder.build().is_ok(), ok, "{strides:?}");
    }
}

/// One layer on both sides, the host's in extents of 2 blocks at `extents`, in `regions`.
fn in_extents(
    blocks: u32,
    extents: &[u64],
    regions: &[Region],
) -> Result<(Arc<Geometry>, GroupKey<Paged>), GeometryError> {
    let mut builder = GeometryBuilder::new();
    let host = PoolSpec::new("host", Memory::Host, blocks, regions).extents_of(2);
    let host = builder.pool(host)?;
    let device = PoolSpec::new("device", Memory::Device, 2, &[Region::new(DEVICE, 128)]);
    let device = builder.pool(device)?;
    let host = SideSpec::packed(host, extents, &[0], 64, layout());
    let device = SideSpec::packed(device, &[DEVICE], &[0], 64, layout());
    let group = builder.group(paged("main", 1, PagedLift::Tail, host, device))?;
    Ok((Arc::new(builder.build()?), group))
}

#[test]
fn case_21_blocks_find_their_extent_wherever_it_lies() {
    // Three extents, not adjacent and not ascending; the last has one block.
    let extents = [HOST + 4096, HOST, HOST + 1024];
    let regions = [Region::new(HOST, 128), Region::new(HOST + 1024, 64), Region::new(HOST + 4096, 128)];
    let (geometry, group) = in_extents(5, &extents, &regions).unwrap();
    for (block, address) in [(0, 4096), (1, 4096 + 64), (2, 0), (3, 64), (4, 1024)] {
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
        let (blocks, page) = (hosts(&[block]), pages(&[1]));
        plan.lift(&import(prompt(4), &[ImportGroup::new(group, &blocks, &page)]), TailRows::Whole).unwrap();
        let expected = Move { to: DEVICE + 64, from: Some(HOST + address), bytes: 64 };
        assert_eq!(checked_moves(&geometry, &encoded(&plan)), [expected]);
    }
}

#[test]
fn case_21_no_extent_crosses_the_seam_of_two_registrations() {
    // Adjacent registrations: 128 bytes from HOST + 64 on lie in both of them, and in neither.
    let regions = [Region::new(HOST, 128), Region::new(HOST + 128, 128)];
    let error = in_extents(4, &[HOST, HOST + 64], &regions).unwrap_err();
    assert_eq!(
        error,
        GeometryError::OutsideRegions {
            place: "group `main`, host side".into(),
            layer: 0,
            extent: 1,
            start: HOST + 64,
            end: HOST + 192
        }
    );
    assert!(in_extents(4, &[HOST, HOST + 128], &regions).is_ok());
    // Before, after and between regions.
    let regions = [Region::new(HOST, 128), Region::new(HOST + 256, 128)];
    for start in [HOST - 1, HOST + 1, HOST + 128, HOST + 257] {
        let error = in_extents(2, &[start], &regions).unwrap_err();
        assert!(matches!(error, GeometryError::OutsideRegions { .. }), "{error}");
    }
    // The last extent may be shorter than the others: its region too.
    let regions = [Region::new(HOST, 128), Region::new(HOST + 256, 64)];
    assert!(in_extents(3, &[HOST, HOST + 256], &regions).is_ok());
    assert!(in_extents(4, &[HOST, HOST + 256], &regions).is_err());
}

#[test]
fn extents_of_one_group_may_not_overlap() {
    let regions = [Region::new(HOST, 256)];
    assert!(in_extents(4, &[HOST, HOST + 128], &regions).is_ok());
    assert!(in_extents(4, &[HOST + 128, HOST], &regions).is_ok());
    for second in [HOST, HOST + 32, HOST + 64, HOST + 127] {
        let error = in_extents(4, &[HOST, second], &regions).unwrap_err();
        assert!(matches!(error, GeometryError::SharedBytes { .. }), "{error}");
    }
}

#[test]
fn case_03_padding_between_blocks_belongs_to_nobody() {
    // Pages of 64 bytes every 100 bytes: block 3 begins at 300, and its last byte is at 363.
    let mut builder = GeometryBuilder::new();
    let region = |at| [Region::new(at, 364)];
    let host = builder.pool(PoolSpec::new("host", Memory::Host, 4, &region(HOST))).unwrap();
    let device = builder.pool(PoolSpec::new("device", Memory::Device, 4, &region(DEVICE))).unwrap();
    let side = |pool, at| SideSpec::packed(pool, &[at], &[0], 100, layout());
    let spec = paged("main", 1, PagedLift::All, side(host, HOST), side(device, DEVICE));
    let group = builder.group(spec).unwrap();
    let geometry = Arc::new(builder.build().unwrap());
    let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap();
    let (blocks, page) = (hosts(&[0, 1, 2, 3]), pages(&[3, 2, 1, 0]));
    plan.lift(&import(prompt(16), &[ImportGroup::new(group, &blocks, &page)]), TailRows::Whole).unwrap();
    let pair = |page: u64| Move { to: DEVICE + page * 100, from: Some(HOST + (3 - page) * 100), bytes: 64 };
    assert_eq!(checked_moves(&geometry, &encoded(&plan)), [0, 1, 2, 3].map(pair));
}
