//! Host pools in several extents, of this process or of two: kernels reach every block of them, and nothing else.

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::process::Command;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend, Cpu, HostPool, HostPoolSpec, SharedMemory};
use pagelift::error::{BackendError, MemoryError};
use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region,
    SideSpec,
};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::layout::PagedLayout;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Tokens;

use crate::device::{Device, on_devices};

const BLOCKS: u32 = 7;
/// Bytes of a block: 16 rows.
const BLOCK: u64 = 1 << 20;

/// Seven blocks in four extents.
fn spec() -> HostPoolSpec {
    HostPoolSpec::new(BLOCKS, BLOCK).chunks_of(2 * BLOCK)
}

/// The same, prepared by one thread where calls of a driver in software are made by those who know it.
fn spec_for(device: &Device) -> HostPoolSpec {
    spec().threads(usize::from(device.machine.is_some()))
}

/// The byte at an offset of a block: of no period that a block or a row has.
fn byte(seed: u64, block: u32, at: u64) -> u8 {
    ((seed + u64::from(block) * BLOCK + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// The bytes of a block.
fn content(seed: u64, block: u32) -> Vec<u8> {
    (0..BLOCK).map(|at| byte(seed, block, at)).collect()
}

/// Blocks that kernels may copy into the only page.
struct World {
    memory: Registry,
    geometry: Arc<Geometry>,
    group: GroupKey<Paged>,
    extents: Vec<RegionId>,
    page: RegionId,
}

impl World {
    fn new(backend: &impl Backend, pool: HostPool) -> Self {
        let blocks = pool.spec("host");
        let mut memory = Registry::new();
        let extents = memory.adopt_pool(pool).unwrap();
        let page = memory.allocate(backend, Memory::Device, BLOCK).unwrap();
        let (geometry, group) = geometry(blocks, memory.region(page).unwrap());
        Self { memory, geometry, group, extents, page }
    }

    /// Where a block lies.
    fn place(&self, block: u32) -> (RegionId, u64) {
        (self.extents[block as usize / 2], u64::from(block % 2) * BLOCK)
    }

    fn fill(&mut self, seed: u64, blocks: std::ops::Range<u32>) {
        for block in blocks {
            let (extent, at) = self.place(block);
            self.memory.write(extent, at, &content(seed, block)).unwrap();
        }
    }

    fn block(&self, block: u32) -> Vec<u8> {
        let (extent, at) = self.place(block);
        let mut bytes = vec![0; BLOCK as usize];
        self.memory.read(extent, at, &mut bytes).unwrap();
        bytes
    }

    /// What the page holds when a block was lifted into it.
    fn lifted(&mut self, backend: &impl Backend, block: u32) -> Vec<u8> {
        let mut plan = RestorePlan::new(Arc::clone(&self.geometry), PlanCapacity::default()).unwrap();
        let (blocks, pages) = ([HostBlockId::new(block)], [PageId::new(0)]);
        let groups = [ImportGroup::new(self.group, &blocks, &pages)];
        let span = PromptSpan::new(Tokens::new(16), Recurrence::None).unwrap();
        plan.lift(&Import { span, groups: &groups }, TailRows::Whole).unwrap();
        let mut launcher =
            Launcher::bind(backend, &self.memory, &mut plan, LauncherOptions::default()).unwrap();
        launcher.stage(&self.memory, &mut plan).unwrap();
        launcher.launch(&mut self.memory).unwrap();
        let mut page = vec![0; BLOCK as usize];
        self.memory.read(self.page, 0, &mut page).unwrap();
        page
    }

    /// Every block is lifted as it was filled.
    fn assert_lifts(&mut self, backend: &impl Backend, seed: u64) {
        for block in 0..BLOCKS {
            assert!(self.lifted(backend, block) == content(seed, block), "block {block}");
        }
    }
}

fn geometry(blocks: PoolSpec, page: Region) -> (Arc<Geometry>, GroupKey<Paged>) {
    let layout = PagedLayout::builder(16).segment("kv", (BLOCK / 16) as u32).build().unwrap();
    let extents: Vec<u64> = blocks.regions.iter().map(|region| region.address()).collect();
    let mut builder = GeometryBuilder::new();
    let host = builder.pool(blocks).unwrap();
    let slab = builder.pool(PoolSpec::new("slab", Memory::Device, 1, &[page])).unwrap();
    let group = builder.group(GroupSpec::<Paged> {
        name: "main".into(),
        layers: 1,
        landing: Landing::Host,
        lift: PagedLift::Tail,
        host: Some(SideSpec::packed(host, &extents, &[0], BLOCK, layout.clone())),
        device: Some(SideSpec::packed(slab, &[page.address()], &[0], BLOCK, layout)),
    });
    let group = group.unwrap();
    (Arc::new(builder.build().unwrap()), group)
}

fn cpu() -> Cpu {
    Cpu::with_threads(1).unwrap()
}

fn extents(backend: &impl Backend, spec: &HostPoolSpec) {
    let pool = HostPool::allocate(backend, spec, |_| ()).unwrap();
    assert_eq!((pool.blocks_per_extent(), pool.regions().len()), (2, 4));
    let mut world = World::new(backend, pool);
    assert!((0..BLOCKS).all(|block| world.block(block).iter().all(|byte| *byte == 0)), "it is zeroed");
    world.fill(1, 0..BLOCKS);
    world.assert_lifts(backend, 1);
}

#[test]
fn kernels_reach_every_extent_of_a_pool_on_the_cpu() {
    extents(&cpu(), &spec());
}

fn kernels_reach_every_extent_of_a_pool(device: &Device) {
    extents(&device.gpu, &spec_for(device));
}

fn where_it_lies(backend: &impl Backend, spec: &HostPoolSpec) {
    let mut engines = vec![0_u8; (u64::from(BLOCKS) * BLOCK) as usize + 4096];
    let skipped = engines.as_ptr().align_offset(4096);
    let start = engines.as_mut_ptr().wrapping_add(skipped);
    // SAFETY: (1) the vector outlives the pool, (2) is not touched but through it, (3) and nobody else registers it.
    let pool = unsafe { HostPool::register(backend, spec, start, |_| ()) }.unwrap();
    let mut world = World::new(backend, pool);
    world.fill(2, 0..BLOCKS);
    world.assert_lifts(backend, 2);
    drop(world);
    for (block, bytes) in (0..BLOCKS).zip(engines[skipped..].chunks_exact(BLOCK as usize)) {
        assert!(bytes == content(2, block), "block {block} is the engine's, and still there");
    }
}

#[test]
fn an_engines_memory_is_used_where_it_lies_on_the_cpu() {
    where_it_lies(&cpu(), &spec());
}

fn an_engines_memory_is_used_where_it_lies(device: &Device) {
    where_it_lies(&device.gpu, &spec_for(device));
}

fn memory_that_is_registered_is_recognised_and_left_alone(device: &Device) {
    let (gpu, spec) = (&device.gpu, spec_for(device));
    let outer = HostPool::allocate(gpu, &spec.chunks_of(1 << 30), |_| ()).unwrap();
    let mut memory = Registry::new();
    let [whole] = memory.adopt_pool(outer).unwrap().try_into().unwrap();
    let alias = memory.region(whole).unwrap().address();
    let start = memory.bytes_mut(whole).unwrap().as_mut_ptr();
    for _ in 0..2 {
        // SAFETY: (1, 3) the outer pool outlives this one, (2) and is not touched meanwhile.
        let again = unsafe { HostPool::register(gpu, &spec, start, |_| ()) }.unwrap();
        let aliases: Vec<u64> = again.regions().iter().map(|region| region.address()).collect();
        assert_eq!(aliases, [0, 2, 4, 6].map(|block| alias + block * BLOCK));
    }
}

/// Kind 22. The driver says of some of these registrations that it refuses them, which a memory checker reports.
fn case_22_memory_that_is_registered_in_part_is_refused(device: &Device) {
    let gpu = &device.gpu;
    let mut engines = vec![0_u8; 4 * BLOCK as usize + 4096];
    let start = engines.as_mut_ptr().wrapping_add(engines.as_ptr().align_offset(4096));
    let threads = usize::from(device.machine.is_some());
    let [half, both] = [2, 4].map(|blocks| HostPoolSpec::new(blocks, BLOCK).threads(threads));
    for first in [0, 2] {
        let part = start.wrapping_add(first * BLOCK as usize);
        // SAFETY: (1, 2, 3) the vector outlives all pools, and nobody touches it.
        let part = unsafe { HostPool::register(gpu, &half, part, |_| ()) }.unwrap();
        // SAFETY: as above.
        let refused = unsafe { HostPool::register(gpu, &both, start, |_| ()) }.unwrap_err();
        assert!(matches!(refused, Error::Memory(MemoryError::PartlyRegistered { .. })), "{refused}");
        drop(part);
        // SAFETY: as above.
        drop(unsafe { HostPool::register(gpu, &both, start, |_| ()) }.unwrap());
    }
}

/// Kind 21: a launcher takes no plan over a seam, whatever the geometry was told.
#[test]
fn case_21_pools_over_a_seam_or_beside_the_pool_are_refused() {
    let backend = cpu();
    let pool = HostPool::allocate(&backend, &spec(), |_| ()).unwrap();
    let regions = pool.regions();
    let mut memory = Registry::new();
    memory.adopt_pool(pool).unwrap();
    let page = memory.allocate(&backend, Memory::Device, BLOCK).unwrap();
    let page = memory.region(page).unwrap();
    let (first, last) = (regions[0].address(), regions[3]);
    let lies = [
        Region::new(first, last.end().unwrap() - first),
        Region::new(last.address(), last.bytes() + BLOCK),
        Region::new(last.address(), 2 * last.bytes()),
    ];
    for region in lies {
        let blocks = u32::try_from(region.bytes() / BLOCK).unwrap().min(BLOCKS);
        let (geometry, _) = geometry(PoolSpec::new("host", Memory::Host, blocks, &[region]), page);
        let mut plan = RestorePlan::new(geometry, PlanCapacity::default()).unwrap();
        let refused =
            Launcher::bind(&backend, &memory, &mut plan, LauncherOptions::default()).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Memory(MemoryError::Unregistered { .. })), "{refused}");
    }
}

#[test]
fn shared_memory_of_another_size_is_refused() {
    let needed = spec().bytes().unwrap();
    for found in [0, needed - 1, needed + 4096] {
        let shared = SharedMemory::create("test", found).unwrap();
        // SAFETY: (1, 2) it is nobody else's, and sealed.
        let refused = unsafe { HostPool::share(&cpu(), &spec(), &shared, |_| ()) }.unwrap_err();
        let expected = MemoryError::SharedSize { expected: needed, found };
        assert!(matches!(&refused, Error::Memory(found) if *found == expected), "{refused}");
    }
    assert!(matches!(SharedMemory::open("/nowhere/at/all"), Err(Error::Memory(MemoryError::System { .. }))));
}

#[test]
fn a_file_is_made_once_and_opened_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = (folder.path().join("pool"), spec().bytes().unwrap());
    let made = SharedMemory::create_file(&path, bytes).unwrap();
    assert!(SharedMemory::create_file(&path, bytes).is_err());
    let opened = SharedMemory::open(&path).unwrap();
    assert_eq!(opened.bytes().unwrap(), bytes);
    // SAFETY: (1, 2) nobody changes it meanwhile.
    let pools =
        [made, opened].map(|memory| unsafe { HostPool::share(&cpu(), &spec(), &memory, |_| ()) }.unwrap());
    let [mut one, mut other] = pools.map(|pool| World::new(&cpu(), pool));
    one.fill(3, 0..BLOCKS);
    other.assert_lifts(&cpu(), 3);
}

/// Where the other process finds the memory.
const SHARED: &str = "PAGELIFT_TEST_SHARED";

/// Two processes, each with a mapping and a registration of its own. The test runs itself as the second one.
fn two_processes(name: &str, backend: &impl Backend, spec: &HostPoolSpec) {
    let share = |memory: &SharedMemory| {
        // SAFETY: (1) the processes take turns; (2) it is sealed.
        World::new(backend, unsafe { HostPool::share(backend, spec, memory, |_| ()) }.unwrap())
    };
    if let Ok(path) = std::env::var(SHARED) {
        let mut world = share(&SharedMemory::open(path).unwrap());
        world.assert_lifts(backend, 4);
        world.fill(5, 1..6);
        return;
    }
    let memory = SharedMemory::create("pagelift test", spec.bytes().unwrap()).unwrap();
    let mut world = share(&memory);
    world.fill(4, 0..BLOCKS);
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_fd().as_raw_fd());
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--include-ignored", "--nocapture"])
        .env(SHARED, path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&other.stdout);
    assert!(
        other.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&other.stderr)
    );
    for block in 0..BLOCKS {
        let seed = if (1..6).contains(&block) { 5 } else { 4 };
        assert!(world.block(block) == content(seed, block), "block {block} as the other process left it");
        assert!(world.lifted(backend, block) == content(seed, block), "block {block} as kernels see it");
    }
}

#[test]
fn two_processes_share_a_pool_on_the_cpu() {
    two_processes("pools::two_processes_share_a_pool_on_the_cpu", &cpu(), &spec());
}

fn two_processes_register_a_pool(device: &Device) {
    let place = if device.machine.is_some() { "in_software" } else { "on_a_gpu" };
    let name = format!("pools::{place}::two_processes_register_a_pool");
    two_processes(&name, &device.gpu, &spec_for(device));
}

/// A pool of the CPU's is not for a GPU's kernels, whatever its address.
fn a_pool_that_is_not_registered_is_out_of_a_gpus_reach(device: &Device) {
    let gpu = &device.gpu;
    let world = World::new(gpu, HostPool::allocate(&cpu(), &spec(), |_| ()).unwrap());
    let mut plan = RestorePlan::new(Arc::clone(&world.geometry), PlanCapacity::default()).unwrap();
    let refused =
        Launcher::bind(gpu, &world.memory, &mut plan, LauncherOptions::default()).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Memory(MemoryError::OutOfReach { .. })), "{refused}");
}

on_devices! {
    kernels_reach_every_extent_of_a_pool,
    an_engines_memory_is_used_where_it_lies,
    memory_that_is_registered_is_recognised_and_left_alone,
    two_processes_register_a_pool,
    a_pool_that_is_not_registered_is_out_of_a_gpus_reach;
    refused: case_22_memory_that_is_registered_in_part_is_refused,
}

/// Kind 22: whichever call fails, nothing stays registered, and the next pool is none the worse.
#[test]
fn case_22_any_call_may_fail_and_nothing_stays_registered() {
    Device::in_software(|device| {
        let machine = device.machine.as_ref().unwrap();
        // Its context is the thread's, so that a failure does not change which calls are made after it.
        device.engine.enter();
        let before = machine.live();
        let make = || HostPool::allocate(&device.gpu, &spec_for(device), |_| ());
        let _ = machine.calls();
        drop(make().unwrap());
        let calls = machine.calls();
        assert_eq!(machine.live(), before);
        let registrations = calls.iter().filter(|call| **call == "cuMemHostRegister_v2").count();
        assert_eq!(registrations, 4);
        let making = calls.iter().rposition(|call| *call == "cuMemHostGetDevicePointer_v2").unwrap();
        for (after, call) in calls.iter().enumerate().take(making + 1) {
            machine.fail(after, 999);
            let made = make();
            let failed = matches!(made, Err(Error::Backend(BackendError::Driver { code: 999, .. })));
            assert!(failed && !machine.spare(), "call {after}, {call}: {made:?}");
            assert_eq!(machine.live().registered, 0, "call {after}, {call}");
            drop(make().unwrap());
        }
        assert_eq!(machine.live(), before);
    });
}
