//! Lifts the partly filled last block of an imported prompt into one writable GPU page, mirrors the rows that are
//! generated from then on, and seals pages: kernels written in Rust, driven by a typed planner.
//!
//! The way of the data is **block lists → planner → job table → one launch → pages**:
//!
//! | step | who |
//! |---|---|
//! | say what the caches look like and where they lie | [`layout`], [`geometry`] |
//! | say which memory kernels may touch | [`memory::Registry`] |
//! | turn an import's block lists into a plan | [`plan`] |
//! | stage the plan, launch it, ask whether it is done | [`launcher::Launcher`] |
//! | run the kernels | [`backends`] |
//!
//! # Example
//! One block of 16 rows is lifted into a page; only the 3 imported rows are copied.
//! ```
//! use std::sync::Arc;
//! use pagelift::geometry::*;
//! use pagelift::id::{HostBlockId, PageId};
//! use pagelift::import::*;
//! use pagelift::layout::PagedLayout;
//! use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
//! use pagelift::memory::Registry;
//! use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
//! use pagelift::quantity::Tokens;
//! use pagelift::backends::Cpu;
//!
//! // Pools: four host blocks and one page.
//! let layout = PagedLayout::mla_bf16(16)?;
//! let page_bytes = layout.page_bytes().get();
//! let backend = Cpu::new()?;
//! let mut memory = Registry::new();
//! let host = memory.allocate(&backend, Memory::Host, 4 * page_bytes)?;
//! let slab = memory.allocate(&backend, Memory::Device, page_bytes)?;
//! memory.bytes_mut(host).expect("ours").fill(7);
//!
//! // Geometry: one group of one layer.
//! let (host, slab) = (memory.region(host).expect("ours"), memory.region(slab).expect("ours"));
//! let mut builder = GeometryBuilder::new();
//! let blocks = builder.pool(PoolSpec::new("host", Memory::Host, 4, &[host]))?;
//! let pages = builder.pool(PoolSpec::new("slab", Memory::Device, 1, &[slab]))?;
//! let main = builder.group(GroupSpec::<Paged> {
//!     name: "main".into(),
//!     layers: 1,
//!     landing: Landing::Host,
//!     lift: PagedLift::Tail,
//!     host: Some(SideSpec::packed(blocks, &[host.address()], &[0], page_bytes, layout.clone())),
//!     device: Some(SideSpec::packed(pages, &[slab.address()], &[0], page_bytes, layout)),
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
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "what runs kernels touches raw memory; everything above it is checked")]
pub mod backends;
pub mod error;
pub mod launcher;
pub mod memory;

pub use error::Error;
pub use pagelift_planner::{geometry, id, import, layout, lifecycle, plan, quantity};
