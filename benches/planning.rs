//! What planning a step costs the host.
//!
//! The step lifts the tails of 64 imports, three groups of 61 layers each: the work of one launch. Beside it the bench
//! builds what an engine without a job table would hand to a copy call, one descriptor for each (import, layer, segment).
//! Only the ratios mean something; see `docs/benchmarks.md`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region,
    SideSpec,
};
use pagelift::id::{HostBlockId, ImportId, PageId, Ticket};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::layout::PagedLayout;
use pagelift::lifecycle::Reservations;
use pagelift::plan::{Plan, PlanCapacity, RestorePlan, Staging, TailRows};
use pagelift::quantity::Tokens;

const LAYERS: u64 = 61;
const BLOCK: u32 = 64;
const HOST_BLOCKS: u32 = 1 << 17;
const PAGES: u32 = 1 << 14;

/// A group of 61 layers, each with a host pool `[blocks, page]` and a packed device slab.
struct Pools {
    geometry: Arc<Geometry>,
    groups: [GroupKey<Paged>; 3],
}

fn pools() -> Pools {
    let mut builder = GeometryBuilder::new();
    let layouts = [
        PagedLayout::fp8_ds_mla(BLOCK),
        PagedLayout::indexer_fp8(BLOCK),
        PagedLayout::deepseek_v4(BLOCK, 576),
    ];
    let mut groups = Vec::new();
    for (index, layout) in (1_u64..).zip(layouts) {
        let layout = layout.unwrap();
        let page = layout.page_bytes().get();
        let (host, device) = (index << 44, (index << 44) + (1 << 43));
        let (host_bytes, device_bytes) =
            (LAYERS * page * u64::from(HOST_BLOCKS), LAYERS * page * u64::from(PAGES));
        let name = |side: &str| format!("{side}{index}");
        let blocks =
            PoolSpec::new(&name("host"), Memory::Host, HOST_BLOCKS, &[Region::new(host, host_bytes)]);
        let pages =
            PoolSpec::new(&name("device"), Memory::Device, PAGES, &[Region::new(device, device_bytes)]);
        let (blocks, pages) = (builder.pool(blocks).unwrap(), builder.pool(pages).unwrap());
        let outermost: Vec<u64> = (0..LAYERS).map(|layer| layer * page * u64::from(HOST_BLOCKS)).collect();
        let packed: Vec<u64> = (0..LAYERS).map(|layer| layer * page).collect();
        let spec = GroupSpec::<Paged> {
            name: name("group").into(),
            layers: LAYERS as u32,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(SideSpec::packed(blocks, &[host], &outermost, page, layout.clone())),
            device: Some(SideSpec::packed(pages, &[device], &packed, LAYERS * page, layout)),
        };
        groups.push(builder.group(spec).unwrap());
    }
    Pools { geometry: Arc::new(builder.build().unwrap()), groups: groups.try_into().unwrap() }
}

/// The block lists of some imports of 1,043 tokens: 17 blocks, the last with 19 rows.
struct Lists {
    blocks: Vec<[Vec<HostBlockId>; 3]>,
    pages: Vec<[PageId; 1]>,
    span: PromptSpan,
}

const BLOCKS_OF_IMPORT: u32 = 17;

fn lists(imports: u32) -> Lists {
    // An odd factor modulo a power of two scatters ids without repeating one.
    let block = |number: u32| HostBlockId::new(number.wrapping_mul(0x9E37_79B1) % HOST_BLOCKS);
    let list =
        |import: u32| (0..BLOCKS_OF_IMPORT).map(|n| block(import * BLOCKS_OF_IMPORT + n)).collect::<Vec<_>>();
    Lists {
        blocks: (0..imports).map(|import| [list(import), list(import), list(import)]).collect(),
        pages: (0..imports).map(|import| [PageId::new(import.wrapping_mul(0x9E37_79B1) % PAGES)]).collect(),
        span: PromptSpan::new(Tokens::new(1_043), Recurrence::None).unwrap(),
    }
}

impl Lists {
    /// Calls `each` with every import.
    fn imports(&self, pools: &Pools, mut each: impl FnMut(&Import<'_>)) {
        for (blocks, pages) in self.blocks.iter().zip(&self.pages) {
            let groups: [ImportGroup<'_>; 3] =
                std::array::from_fn(|n| ImportGroup::new(pools.groups[n], &blocks[n], pages));
            each(&Import { span: self.span, groups: &groups });
        }
    }
}

const STAGING: Staging = Staging { ticket: Ticket::new(1, 1), completion: 8, repeat: false };

/// Imports as they are between their admission and their end.
struct Reserved {
    reservations: Reservations,
    imports: Vec<ImportId>,
}

impl Reserved {
    fn new(pools: &Pools, lists: &Lists) -> Self {
        let imports = lists.blocks.len() as u32;
        let reservations = Reservations::new(Arc::clone(&pools.geometry), imports, capacity(1)).unwrap();
        let mut reserved = Self { reservations, imports: Vec::with_capacity(lists.blocks.len()) };
        reserved.reserve(pools, lists);
        reserved
    }

    fn reserve(&mut self, pools: &Pools, lists: &Lists) {
        let Self { reservations, imports } = self;
        lists.imports(pools, |import| imports.push(reservations.reserve(import, TailRows::Whole).unwrap()));
    }

    fn release(&mut self) {
        self.imports.drain(..).for_each(|import| self.reservations.release(import).unwrap());
    }
}

/// A step of imports that were reserved.
fn plan_reserved(plan: &mut RestorePlan, reserved: &Reserved, table: &mut [u8]) -> usize {
    plan.clear();
    for import in &reserved.imports {
        plan.lift_reserved(&reserved.reservations, *import).unwrap();
    }
    plan.encode(STAGING, table).unwrap()
}

/// The same step from block lists, all of which are checked again.
fn plan_lists(plan: &mut RestorePlan, pools: &Pools, lists: &Lists, table: &mut [u8]) -> usize {
    plan.clear();
    lists.imports(pools, |import| plan.lift(import, TailRows::Whole).unwrap());
    plan.encode(STAGING, table).unwrap()
}

/// What a copy call takes: where from, where to, how much.
#[repr(C)]
#[derive(Clone, Copy)]
struct Descriptor {
    source: u64,
    destination: u64,
    bytes: u64,
}

/// One descriptor for each (import, layer, segment), from the same tables.
fn describe(pools: &Pools, lists: &Lists, descriptors: &mut Vec<Descriptor>) -> usize {
    descriptors.clear();
    let geometry = &pools.geometry;
    for (blocks, pages) in lists.blocks.iter().zip(&lists.pages) {
        for (group, blocks) in blocks.iter().enumerate() {
            // The first of a group's two routes goes to the device.
            let route = geometry.routes()[group * 2];
            let (block, page) = (u64::from(blocks[blocks.len() - 1].get()), u64::from(pages[0].get()));
            for layer in 0..route.layers {
                let source = geometry.bases()[(route.source.bases + layer) as usize]
                    + block * route.source.block_stride;
                let target = geometry.bases()[(route.destination.bases + layer) as usize]
                    + page * route.destination.block_stride;
                for pair in &geometry.segments()[route.first_segment as usize..][..route.segments as usize] {
                    descriptors.push(Descriptor {
                        source: source + pair.source_offset,
                        destination: target + pair.destination_offset,
                        bytes: u64::from(BLOCK) * u64::from(pair.row_bytes),
                    });
                }
            }
        }
    }
    size_of_val(descriptors.as_slice())
}

fn capacity(imports: u32) -> PlanCapacity {
    PlanCapacity { jobs: imports * 3, list_entries: 0 }
}

fn step_of_64_imports(criterion: &mut Criterion) {
    let (pools, lists) = (pools(), lists(64));
    let mut plan = RestorePlan::new(Arc::clone(&pools.geometry), capacity(64)).unwrap();
    let mut table = vec![0; plan.table_bytes()];
    let mut reserved = Reserved::new(&pools, &lists);
    let mut descriptors = Vec::new();
    let (ours, theirs) =
        (plan_reserved(&mut plan, &reserved, &mut table), describe(&pools, &lists, &mut descriptors));
    let geometry = size_of_val(pools.geometry.routes())
        + size_of_val(pools.geometry.segments())
        + size_of_val(pools.geometry.bases());
    println!(
        "job table {ours} B, geometry {geometry} B; descriptors {theirs} B: {:.1} times",
        theirs as f64 / ours as f64
    );
    let mut group = criterion.benchmark_group("step of 64 imports, 3 groups, 61 layers");
    group.bench_function("reserved imports", |bench| {
        bench.iter(|| black_box(plan_reserved(&mut plan, &reserved, &mut table)));
    });
    group.bench_function("block lists", |bench| {
        bench.iter(|| black_box(plan_lists(&mut plan, &pools, &lists, &mut table)));
    });
    group.bench_function("descriptors", |bench| {
        bench.iter(|| black_box(describe(&pools, &lists, &mut descriptors)));
    });
    group.bench_function("reserving and releasing all imports once", |bench| {
        bench.iter(|| {
            reserved.release();
            reserved.reserve(&pools, &lists);
        });
    });
    group.finish();
}

fn cost_of_a_job(criterion: &mut Criterion) {
    let pools = pools();
    let mut group = criterion.benchmark_group("planning and encoding");
    for imports in [4, 34, 334, 3_334] {
        let lists = lists(imports);
        let reserved = Reserved::new(&pools, &lists);
        let mut plan = RestorePlan::new(Arc::clone(&pools.geometry), capacity(imports)).unwrap();
        let mut table = vec![0; plan.table_bytes()];
        let jobs = u64::from(imports) * 3;
        group.throughput(Throughput::Elements(jobs));
        group.bench_function(BenchmarkId::from_parameter(format!("{jobs} jobs")), |bench| {
            bench.iter(|| black_box(plan_reserved(&mut plan, &reserved, &mut table)));
        });
    }
    group.finish();
}

criterion_group!(benches, step_of_64_imports, cost_of_a_job);
criterion_main!(benches);
