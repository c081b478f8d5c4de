//! Lifts the partly filled last block of an imported prompt into one writable GPU page, mirrors the rows that are
//! generated from then on, and seals pages: kernels written in Rust, driven by a typed planner.
//!
//! The way of the data is **block lists → planner → job table → one launch → pages**:
//!
//! | step | who |
//! |---|---|
//! | say what the caches look like and where they lie | [`layout`], [`geometry`] |
//! | say which memory kernels may touch | [`memory::Registry`] |
//! | check an import's block lists once, and hold its pages | [`lifecycle::Reservations`] |
//! | turn imports into a plan | [`plan`] |
//! | stage the plan, launch it, ask whether it is done | [`launcher::Launcher`] |
//! | run the kernels | [`backends`] |
//! | say who may see which block, and what may be used again | [`lifecycle::Lifecycle`] |
//! | do what that orders a rank, step by step | [`runner::Runner`] |
//!
//! # Lifting a block
//! One block of 16 rows is lifted into a page; only the 3 imported rows are copied.
//! ```
//! use std::sync::Arc;
//! use pagelift::backends::Cpu;
//! use pagelift::geometry::*;
//! use pagelift::id::{HostBlockId, PageId};
//! use pagelift::import::*;
//! use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
//! use pagelift::layout::PagedLayout;
//! use pagelift::memory::Registry;
//! use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
//! use pagelift::quantity::Tokens;
//!
//! // Memory: four host blocks and one page of 16 rows.
//! let layout = PagedLayout::mla_bf16(16)?;
//! let page_bytes = layout.page_bytes().get();
//! let backend = Cpu::new()?;
//! let mut memory = Registry::new();
//! let host = memory.allocate(&backend, Memory::Host, 4 * page_bytes)?;
//! let slab = memory.allocate(&backend, Memory::Device, page_bytes)?;
//! memory.bytes_mut(host).expect("ours").fill(7);
//!
//! // Geometry: one group of one layer.
//! let regions = [host, slab].map(|id| memory.region(id).expect("ours"));
//! let mut builder = GeometryBuilder::new();
//! let blocks = builder.pool(PoolSpec::new("host", Memory::Host, 4, &[regions[0]]))?;
//! let pages = builder.pool(PoolSpec::new("slab", Memory::Device, 1, &[regions[1]]))?;
//! let main = builder.group(GroupSpec::<Paged> {
//!     name: "main".into(),
//!     layers: 1,
//!     landing: Landing::Host,
//!     lift: PagedLift::Tail,
//!     host: Some(SideSpec::packed(blocks, &[regions[0].address()], &[0], page_bytes, layout.clone())),
//!     device: Some(SideSpec::packed(pages, &[regions[1].address()], &[0], page_bytes, layout)),
//! })?;
//! let geometry = Arc::new(builder.build()?);
//!
//! // Plan: 35 tokens came in blocks 3, 1 and 0; the last holds 3 of them.
//! let mut plan = RestorePlan::new(geometry, PlanCapacity::default())?;
//! let (blocks, pages) = ([3, 1, 0].map(HostBlockId::new), [PageId::new(0)]);
//! let groups = [ImportGroup::new(main, &blocks, &pages)];
//! let span = PromptSpan::new(Tokens::new(35), Recurrence::None)?;
//! plan.lift(&Import { span, groups: &groups }, TailRows::Exact)?;
//!
//! // One launch.
//! let mut launcher = Launcher::bind(backend, &memory, &mut plan, LauncherOptions::default())?;
//! let ticket = launcher.stage(&memory, &mut plan)?;
//! launcher.launch(&mut memory)?;
//! assert!(matches!(launcher.state(ticket), TicketState::Done(_)));
//!
//! let page = memory.bytes(slab).expect("ours");
//! let (lifted, others) = page.split_at(3 * 1152);
//! assert!(lifted.iter().all(|&byte| byte == 7) && others.iter().all(|&byte| byte == 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An engine knows an import's lists when it admits the request: [`Reservations`](lifecycle::Reservations) checks them then,
//! and [`lift_reserved`](plan::PagePlan::lift_reserved) costs a step a few nanoseconds for each group. Whether the page
//! holds what the block holds, [`Launcher::digest`](launcher::Launcher::digest) says.
//!
//! # Mirroring rows, and states
//! What a step wrote is read on the device: its slot mapping says which rows. A launcher takes plans of one type; several
//! launchers may share one backend, for `&Cpu` is a [`Backend`](backends::Backend) too.
//! ```
//! use pagelift::launcher::Report;
//! use pagelift::layout::{StateLayout, StatePart};
//! use pagelift::plan::{MirrorPlan, RowBinding, RowCapacity, WriteBackPlan};
//! # use std::sync::Arc;
//! # use pagelift::backends::Cpu;
//! # use pagelift::geometry::*;
//! # use pagelift::id::{HostBlockId, PageId};
//! # use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
//! # use pagelift::layout::PagedLayout;
//! # use pagelift::memory::Registry;
//! # use pagelift::plan::PlanCapacity;
//! # let backend = Cpu::new()?;
//! # let mut memory = Registry::new();
//! # let mut builder = GeometryBuilder::new();
//! # let (rows, state) = (PagedLayout::builder(16).segment("kv", 64).build()?, StateLayout::new(&[StatePart::new("ssm", 1024)], None)?);
//! # let mut pool = |name: &str, place, blocks: u32| -> Result<_, pagelift::Error> {
//! #     let id = memory.allocate(&backend, place, u64::from(blocks) * 1024)?;
//! #     let region = memory.region(id).expect("ours");
//! #     Ok((id, builder.pool(PoolSpec::new(name, place, blocks, &[region]))?, [region.address()]))
//! # };
//! # let (host, blocks, host_at) = pool("host", Memory::Host, 4)?;
//! # let (slab, pages, slab_at) = pool("slab", Memory::Device, 4)?;
//! # let (state_host, state_blocks, state_host_at) = pool("states", Memory::Host, 2)?;
//! # let (state_slab, state_pages, state_slab_at) = pool("state slab", Memory::Device, 2)?;
//! # let main = builder.group(GroupSpec::<Paged> {
//! #     name: "main".into(), layers: 1, landing: Landing::Host, lift: PagedLift::Tail,
//! #     host: Some(SideSpec::packed(blocks, &host_at, &[0], 1024, rows.clone())),
//! #     device: Some(SideSpec::packed(pages, &slab_at, &[0], 1024, rows)),
//! # })?;
//! # let ssm = builder.group(GroupSpec::<State> {
//! #     name: "ssm".into(), layers: 1, landing: Landing::Host, lift: StateLift::State,
//! #     host: Some(SideSpec::packed(state_blocks, &state_host_at, &[0], 1024, state.clone())),
//! #     device: Some(SideSpec::packed(state_pages, &state_slab_at, &[0], 1024, state)),
//! # })?;
//! # let geometry = Arc::new(builder.build()?);
//! // Pages of 16 rows of 64 bytes. The slot mapping has room for four tokens.
//! let slots = memory.allocate(&backend, Memory::Device, 4 * 8)?;
//! let mut plan = MirrorPlan::new(Arc::clone(&geometry), RowCapacity::default())?;
//! let mut launcher = Launcher::bind(&backend, &memory, &mut plan, LauncherOptions::default())?;
//! plan.bind(main, RowBinding::new(memory.region(slots).expect("ours").address(), 4))?;
//! plan.page_map_mut().map(main, PageId::new(2), HostBlockId::new(1))?;
//! let ticket = launcher.stage(&memory, &mut plan)?;
//!
//! // The step writes rows 5 and 6 of page 2, and says so. Page 3 has no mirror, and -1 is padding.
//! memory.bytes_mut(slab).expect("ours")[(2 * 16 + 5) * 64..][..2 * 64].fill(9);
//! for (entry, slot) in [2 * 16 + 5, 2 * 16 + 6, 3 * 16, -1_i64].into_iter().enumerate() {
//!     memory.bytes_mut(slots).expect("ours")[entry * 8..][..8].copy_from_slice(&slot.to_le_bytes());
//! }
//! launcher.launch(&mut memory)?;
//! assert_eq!(launcher.state(ticket), TicketState::Done(Report { rows: 2, skipped: 2, bad: 0 }));
//! let mirrored = &memory.bytes(host).expect("ours")[16 * 64..][5 * 64..][..2 * 64];
//! assert!(mirrored.iter().all(|&byte| byte == 9));
//!
//! // A recurrent state is written back whole.
//! memory.bytes_mut(state_slab).expect("ours").fill(8);
//! let mut plan = WriteBackPlan::new(geometry, PlanCapacity::default())?;
//! let mut launcher = Launcher::bind(&backend, &memory, &mut plan, LauncherOptions::default())?;
//! plan.checkpoint(ssm, PageId::new(1), HostBlockId::new(0))?;
//! launcher.stage(&memory, &mut plan)?;
//! launcher.launch(&mut memory)?;
//! assert!(memory.bytes(state_host).expect("ours")[..1024].iter().all(|&byte| byte == 8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # An engine's own memory
//! Pools need not be allocated here. [`Buffer::adopt`](backends::Buffer::adopt) takes memory that an engine made and will
//! free, and [`Registry::adopt`](memory::Registry::adopt) registers it:
//! ```
//! use pagelift::{backends::Buffer, geometry::Memory, memory::Registry};
//! let mut slab = vec![0_u8; 1 << 16];
//! let mut memory = Registry::new();
//! // SAFETY: (1) the slab outlives the registry, and (2) is not touched but through it.
//! let buffer = unsafe { Buffer::adopt(slab.as_mut_ptr(), slab.len()) }.expect("not null");
//! let region = memory.adopt(Memory::Host, buffer)?;
//! assert_eq!(memory.region(region).map(|region| region.bytes()), Some(1 << 16));
//! drop(memory);
//! drop(slab);
//! # Ok::<(), pagelift::Error>(())
//! ```
//!
//! A host pool of many gigabytes is a [`HostPool`](backends::HostPool): near the GPU, registered in chunks by several threads.
//! Its memory may be its own, an engine's, or that of several processes.
//! ```
//! use pagelift::backends::{Cpu, HostPool, HostPoolSpec};
//! use pagelift::geometry::{GeometryBuilder, SideSpec};
//! use pagelift::layout::PagedLayout;
//! # use pagelift::memory::Registry;
//! let layout = PagedLayout::mla_bf16(64)?;
//! let (layers, page) = (2, layout.page_bytes().get());
//! // A block holds all its layers. Engines leave the chunks' size as it is: 16 GiB.
//! let spec = HostPoolSpec::new(100, layers * page).chunks_of(40 * layers * page);
//! let pool = HostPool::allocate(&Cpu::new()?, &spec, |_| ())?;
//!
//! // A geometry has an extent for each chunk.
//! let extents: Vec<u64> = pool.regions().iter().map(|region| region.address()).collect();
//! let blocks = GeometryBuilder::new().pool(pool.spec("host"))?;
//! let side = SideSpec::packed(blocks, &extents, &[0, page], layers * page, layout);
//! assert_eq!((extents.len(), side.bases.len()), (3, 2 * 3));
//! let regions = Registry::new().adopt_pool(pool)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # On a GPU
//! [`Cuda`](backends::Cuda) is a backend like the others. Its launches return before they have run, on a stream that may be
//! the engine's; a launch is recorded into a graph once, and each replay carries out what is staged at that time.
//! ```no_run
//! use pagelift::backends::{CaptureMode, Cuda};
//! # use pagelift::launcher::{Launcher, LauncherOptions};
//! # use pagelift::memory::Registry;
//! # use pagelift::plan::RestorePlan;
//! # fn engine(mut memory: Registry, mut plan: RestorePlan, their_stream: u64) -> Result<(), pagelift::Error> {
//! let gpu = Cuda::open(0)?;
//! let mut launcher = Launcher::bind(&gpu, &memory, &mut plan, LauncherOptions::default())?;
//! // SAFETY: (1) the engine's stream is of this GPU's primary context, and outlives launcher and registry; (2) it is captured
//! // when no other thread uses it.
//! let stream = unsafe { gpu.adopt_stream(their_stream) }?;
//! launcher.set_stream(&stream)?;
//! // SAFETY: (1) the graph goes before launcher and memory; (2, 3) the engine replays it in the order of its stream.
//! let record = || unsafe { launcher.record(&mut memory) };
//! let (mut graph, ()) = gpu.capture(&stream, CaptureMode::ThreadLocal, record)?;
//! // For each step: fill the plan, and then
//! let ticket = launcher.stage(&memory, &mut plan)?;
//! graph.replay(&stream)?;
//! # Ok(())
//! # }
//! ```
//!
//! Where nothing is captured, a [`CopyEngine`](backends::CopyEngine) carries out the same page plans without a
//! multiprocessor; [`CopyMethod`](backends::CopyMethod) says which of the two is faster.
//!
//! A whole engine loop in small is `examples/rust_engine.rs`; one that goes through a lifecycle is in [`runner`].
#![warn(missing_debug_implementations)]
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "what runs kernels touches raw memory")]
pub mod backends;
pub mod error;
pub mod launcher;
pub mod memory;
pub mod runner;

pub use error::Error;
pub use pagelift_planner::{geometry, id, import, layout, lifecycle, plan, quantity};
