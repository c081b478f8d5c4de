//! Absurd numbers are errors that come at once: nothing panics, aborts the process, hangs, or takes the machine's memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what it expects by panicking"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelift::Error;
use pagelift::backends::{Buffer, Cpu};
use pagelift::error::{BackendError, GeometryError, MemoryError, PlanError};
use pagelift::geometry::*;
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::layout::PagedLayout;
use pagelift::memory::Registry;
use pagelift::plan::{DigestPlan, MirrorPlan, PlanCapacity, RestorePlan, RowCapacity};

/// Fails where `body` takes longer than a debug build on a busy machine may.
fn soon<T>(what: &str, body: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = body();
    assert!(start.elapsed() < Duration::from_secs(20), "{what} took {:?}", start.elapsed());
    result
}

const HOST: u64 = 1 << 40;
const DEVICE: u64 = 1 << 50;

/// One group of pages of 16 rows of 64 bytes, packed, of so many layers, blocks and pages. Nothing lies there.
fn geometry(layers: u32, blocks: u32, pages: u32) -> Result<Arc<Geometry>, GeometryError> {
    let layout = PagedLayout::builder(16).segment("row", 64).build().unwrap();
    let page = layout.page_bytes().get();
    let stride = u64::from(layers) * page;
    let mut builder = GeometryBuilder::new();
    let mut pool = |name, memory, address, blocks| {
        let region = Region::new(address, u64::from(blocks) * stride);
        builder.pool(PoolSpec::new(name, memory, blocks, &[region])).unwrap()
    };
    let host = pool("host", Memory::Host, HOST, blocks);
    let device = pool("slab", Memory::Device, DEVICE, pages);
    let offsets: Vec<u64> = (0..u64::from(layers)).map(|layer| layer * page).collect();
    let side = |pool, address| Some(SideSpec::packed(pool, &[address], &offsets, stride, layout.clone()));
    builder.group(GroupSpec::<Paged> {
        name: "main".into(),
        layers,
        landing: Landing::Host,
        lift: PagedLift::All,
        host: side(host, HOST),
        device: side(device, DEVICE),
    })?;
    builder.build().map(Arc::new)
}

#[test]
fn capacities_past_the_largest_are_refused() {
    let geometry = geometry(1, 4, 4).unwrap();
    let most = PlanCapacity::MOST;
    for capacity in [
        PlanCapacity { jobs: u32::MAX, ..PlanCapacity::default() },
        PlanCapacity { list_entries: u32::MAX, ..PlanCapacity::default() },
        PlanCapacity { jobs: u32::MAX, list_entries: u32::MAX },
        PlanCapacity { jobs: most.jobs + 1, list_entries: 0 },
        PlanCapacity { jobs: 0, list_entries: most.list_entries + 1 },
    ] {
        let error = RestorePlan::new(Arc::clone(&geometry), capacity).unwrap_err();
        assert!(matches!(error, PlanError::Capacity { .. }), "{error}");
        let error = DigestPlan::new(Arc::clone(&geometry), capacity).unwrap_err();
        assert!(matches!(error, PlanError::Capacity { .. }), "{error}");
    }
    let most = RowCapacity::MOST;
    for capacity in [
        RowCapacity { jobs: u32::MAX, ..RowCapacity::default() },
        RowCapacity { changes: u32::MAX, ..RowCapacity::default() },
        RowCapacity { jobs: most.jobs + 1, changes: 0 },
        RowCapacity { jobs: 0, changes: most.changes + 1 },
    ] {
        let error = MirrorPlan::new(Arc::clone(&geometry), capacity).unwrap_err();
        assert!(matches!(error, PlanError::Capacity { .. }), "{error}");
    }
    assert!(MirrorPlan::new(Arc::clone(&geometry), most).is_ok());
    assert!(RestorePlan::new(geometry, PlanCapacity::MOST).is_ok());
}

#[test]
fn more_blocks_than_a_plan_keeps_track_of_are_refused() {
    let geometry = geometry(1, 1 << 31, 4).unwrap();
    let error = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default()).unwrap_err();
    let words = "2147483652 blocks of all pools are needed, and there is room for 67108864";
    assert_eq!(error.to_string(), words);
    let error = MirrorPlan::new(Arc::clone(&geometry), RowCapacity::default()).unwrap_err();
    assert!(matches!(error, PlanError::Capacity { needed, .. } if needed == 1 << 31), "{error}");
    // Digests keep track of no blocks.
    assert!(DigestPlan::new(geometry, PlanCapacity::default()).is_ok());
}

#[test]
fn page_maps_of_a_geometry_have_a_limit() {
    for pages in [1 << 31, (1 << 26) + 1] {
        let error = geometry(1, 4, pages).unwrap_err();
        assert_eq!(error, GeometryError::Overflow { place: "main".into(), what: "the page map" });
    }
    assert!(geometry(1, 4, 1 << 26).is_ok());
}

#[test]
fn threads_have_a_limit() {
    for threads in [1025, 1 << 20, usize::MAX] {
        let error = soon("refusing threads", || Cpu::with_threads(threads).unwrap_err());
        let Error::Backend(BackendError::Threads { threads: refused, .. }) = error else { panic!("{error}") };
        assert_eq!(refused, threads);
        let words = format!("{threads} worker threads cannot be started: expected at most 1024");
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn a_pool_of_many_regions_is_bound_soon() {
    let backend = Cpu::with_threads(1).unwrap();
    let (extents, layout) = (1_u32 << 16, PagedLayout::builder(1).segment("row", 64).build().unwrap());
    // An engine's own memory, of which each block is registered on its own: the last first.
    let mut all = vec![0_u8; (extents as usize + 2) * 64];
    let mut own = all.chunks_exact_mut(64).rev();
    let mut memory = Registry::new();
    let mut builder = GeometryBuilder::new();
    let mut pool = |name: &str, place, blocks: u32| {
        let region = |_| {
            let bytes = own.next().unwrap();
            // SAFETY: (1) the memory outlives the registry, and (2) nobody looks into it.
            let buffer = unsafe { Buffer::adopt(bytes.as_mut_ptr(), bytes.len()) }.unwrap();
            let id = memory.adopt(place, buffer).unwrap();
            memory.region(id).unwrap()
        };
        let regions: Vec<Region> = (0..blocks).map(region).collect();
        let spec = PoolSpec::new(name, place, blocks, &regions).extents_of(1);
        let bases: Vec<u64> = regions.iter().map(|region| region.address()).collect();
        let pool = builder.pool(spec).unwrap();
        Some(SideSpec::packed(pool, &bases, &[0], 64, layout.clone()))
    };
    let (host, device) =
        soon("registering", || (pool("host", Memory::Host, extents), pool("slab", Memory::Device, 2)));
    let spec = GroupSpec::<Paged> {
        name: "main".into(),
        layers: 1,
        landing: Landing::Host,
        lift: PagedLift::Tail,
        host,
        device,
    };
    builder.group(spec).unwrap();
    let geometry = soon("building", || Arc::new(builder.build().unwrap()));
    let mut plan = RestorePlan::new(geometry, PlanCapacity::default()).unwrap();
    soon("binding", || Launcher::bind(&backend, &memory, &mut plan, LauncherOptions::default()).map(drop))
        .unwrap();
}

#[test]
fn many_layers_are_built_soon() {
    // A packed slab: runs of all layers interleave.
    let geometry = soon("65,536 layers", || geometry(1 << 16, 4, 4).unwrap());
    assert_eq!(geometry.bases().len(), 4 << 16);
}

#[test]
fn layers_that_share_bytes_are_found_among_many() {
    let layout = PagedLayout::builder(1).segment("row", 64).build().unwrap();
    let layers = 1_u64 << 15;
    let mut offsets: Vec<u64> = (0..layers).map(|layer| layer * 64).collect();
    offsets[20_000] += 1;
    let mut builder = GeometryBuilder::new();
    let region = Region::new(HOST, 4 * layers * 64);
    let pool = builder.pool(PoolSpec::new("host", Memory::Host, 4, &[region])).unwrap();
    let spec = GroupSpec::<Paged> {
        name: "main".into(),
        layers: layers as u32,
        landing: Landing::Host,
        lift: PagedLift::None,
        host: Some(SideSpec::packed(pool, &[HOST], &offsets, layers * 64, layout)),
        device: None,
    };
    builder.group(spec).unwrap();
    let error = soon("the search", || builder.build().unwrap_err());
    let words = error.to_string();
    assert!(words.contains("layer 20000,") && words.contains("layer 20001,"), "{words}");
}

#[test]
fn rows_of_too_many_columns_are_refused() {
    // Rows that lie apart are split into columns of 16 KiB: at most 65,536 of them in all.
    let geometry = |row_bytes: u32| -> Result<(), GeometryError> {
        let layout = PagedLayout::builder(2).row_padding(1).segment("row", row_bytes).build().unwrap();
        let page = layout.page_bytes().get();
        let mut builder = GeometryBuilder::new();
        let mut side = |name, memory, address| {
            let pool = builder.pool(PoolSpec::new(name, memory, 1, &[Region::new(address, page)])).unwrap();
            Some(SideSpec::packed(pool, &[address], &[0], page, layout.clone()))
        };
        let spec = GroupSpec::<Paged> {
            name: "main".into(),
            layers: 1,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: side("host", Memory::Host, HOST),
            device: side("slab", Memory::Device, DEVICE),
        };
        let key = builder.group(spec)?;
        let side = builder.main_side(key, Memory::Device).unwrap();
        builder.digest(side).map(drop)
    };
    let columns = |columns: u32| soon("a route", || geometry(columns << 14));
    let refused = GeometryError::Overflow { place: "main".into(), what: "the number of segment pairs" };
    // There is a route each way, and one for the digest.
    assert_eq!(columns(21_845), Ok(()));
    assert_eq!(columns(21_846), Err(refused.clone()));
    assert_eq!(columns(32_769), Err(refused.clone()));
    assert_eq!(geometry(u32::MAX - 1), Err(refused));
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let backend = Cpu::with_threads(1).unwrap();
    let mut memory = Registry::new();
    for bytes in [u64::MAX, 1 << 62, i64::MAX as u64] {
        let error = memory.allocate(&backend, Memory::Host, bytes).unwrap_err();
        assert!(matches!(error, Error::Memory(MemoryError::OutOfMemory { .. })), "{error}");
    }
}
