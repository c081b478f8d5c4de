//! What the kernels cost on the CPU, beside plain copies of the same bytes in the same pieces.
//!
//! Only the ratios mean something; see `docs/benchmarks.md`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pagelift::backends::Cpu;
use pagelift::geometry::{
    GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, SideSpec,
};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::layout::PagedLayout;
use pagelift::memory::Registry;
use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Tokens;

const LAYERS: u64 = 61;
const HOST_BLOCKS: u32 = 16;
const PAGES: u32 = 8;

/// One group over memory of its own, and the places of one lifted page.
struct Setup {
    memory: Registry,
    plan: RestorePlan,
    pools: [pagelift::memory::RegionId; 2],
    page: u64,
}

const BLOCK_ID: u32 = 11;
const PAGE_ID: u32 = 5;

fn setup(layout: &PagedLayout, block_tokens: u64) -> Setup {
    let backend = Cpu::with_threads(1).unwrap();
    let mut memory = Registry::new();
    let page = layout.page_bytes().get();
    let place = |memory: &mut Registry, kind, blocks: u32| {
        memory.allocate(&backend, kind, LAYERS * page * u64::from(blocks)).unwrap()
    };
    let host = place(&mut memory, Memory::Host, HOST_BLOCKS);
    let device = place(&mut memory, Memory::Device, PAGES);
    memory.bytes_mut(host).unwrap().fill(1);
    memory.bytes_mut(device).unwrap().fill(2);
    let region = |id| -> Region { memory.region(id).unwrap() };
    let mut builder = GeometryBuilder::new();
    let blocks = builder.pool(PoolSpec::new("host", Memory::Host, HOST_BLOCKS, &[region(host)])).unwrap();
    let pages = builder.pool(PoolSpec::new("device", Memory::Device, PAGES, &[region(device)])).unwrap();
    let outermost: Vec<u64> = (0..LAYERS).map(|layer| layer * page * u64::from(HOST_BLOCKS)).collect();
    let packed: Vec<u64> = (0..LAYERS).map(|layer| layer * page).collect();
    let key: GroupKey<Paged> = builder
        .group(GroupSpec::<Paged> {
            name: "main".into(),
            layers: LAYERS as u32,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(SideSpec::packed(blocks, &[region(host).address()], &outermost, page, layout.clone())),
            device: Some(SideSpec::packed(
                pages,
                &[region(device).address()],
                &packed,
                LAYERS * page,
                layout.clone(),
            )),
        })
        .unwrap();
    let geometry = Arc::new(builder.build().unwrap());
    let mut plan = RestorePlan::new(geometry, PlanCapacity { jobs: 2, list_entries: 0 }).unwrap();
    let (blocks, pages) = ([HostBlockId::new(BLOCK_ID)], [PageId::new(PAGE_ID)]);
    let span = PromptSpan::new(Tokens::new(block_tokens), Recurrence::None).unwrap();
    let groups = [ImportGroup::new(key, &blocks, &pages)];
    plan.lift(&Import { span, groups: &groups }, TailRows::Whole).unwrap();
    Setup { memory, plan, pools: [host, device], page }
}

/// The same bytes by one `copy_from_slice` for each layer's page.
fn plain(setup: &mut Setup) {
    let [host, device] = setup.pools;
    let page = setup.page as usize;
    for layer in 0..LAYERS as usize {
        let from = (layer * HOST_BLOCKS as usize + BLOCK_ID as usize) * page;
        let to = (PAGE_ID as usize * LAYERS as usize + layer) * page;
        // One region at a time can be borrowed mutably: the source goes through a pointer, as a plain engine's would.
        let source = setup.memory.bytes(host).unwrap()[from..from + page].as_ptr();
        let target = &mut setup.memory.bytes_mut(device).unwrap()[to..to + page];
        // SAFETY: both are `page` bytes of different regions of the registry.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), page) };
    }
}

fn lifts(criterion: &mut Criterion) {
    let layouts = [
        ("bf16 tail, 61 × 147,456 B", PagedLayout::mla_bf16(128).unwrap(), 128),
        ("split indexer page, 61 × 8,448 B", PagedLayout::indexer_fp8(64).unwrap(), 64),
    ];
    for (name, layout, block) in layouts {
        let mut group = criterion.benchmark_group(name);
        let mut it = setup(&layout, block);
        group.throughput(Throughput::Bytes(LAYERS * it.page));
        group.bench_function("plain copies", |bench| bench.iter(|| plain(&mut it)));
        for threads in [1, 2] {
            let backend = Cpu::with_threads(threads).unwrap();
            let options = LauncherOptions { repeat: true, ..LauncherOptions::default() };
            let mut launcher = Launcher::bind(backend, &it.memory, &mut it.plan, options).unwrap();
            launcher.stage(&it.memory, &mut it.plan).unwrap();
            group.bench_function(
                format!("one launch, {threads} thread{}", if threads == 1 { "" } else { "s" }),
                |bench| {
                    bench.iter(|| launcher.launch(&mut it.memory).unwrap());
                },
            );
        }
        group.finish();
    }
}

criterion_group!(benches, lifts);
criterion_main!(benches);
