//! pagelift for languages without its types.
//!
//! In Rust a plan has its direction in its type, a key the kind of its group, and a launcher the plan and the backend that it is
//! for. C and Python choose these when they run. Here is one type for all of each, for both languages; what the compiler would have
//! refused is a [`Mismatch`]. The crates `c` and `python` translate values, handles, locks and errors.
//!
//! | module | what |
//! |---|---|
//! | [`keys`] | groups, sides, routes and layouts of any kind and direction |
//! | [`geometry`] | a geometry is built of these |
//! | [`import`] | an import with lists of its own |
//! | [`plan`] | a plan of any type, and its calls |
//! | [`launcher`], [`runner`] | launchers and runners of any backend and type of plan |
//! | [`recorded`] | launchers that graphs may have |
//! | [`boundary`] | backends, and what a language is taken at its word for |
//! | [`error`] | what is refused |
//!
//! ```
//! use pagelift::geometry::{GeometryBuilder, Landing, Lift, Memory, PoolSpec, Region, SideSpec};
//! use pagelift::layout::PagedLayout;
//! use pagelift::plan::PlanCapacity;
//! use pagelift_bindings::geometry::{self, AnyGroupSpec, AnySideSpec};
//! use pagelift_bindings::keys::{AnyLayout, Way};
//! use pagelift_bindings::plan::AnyPlan;
//! use pagelift_bindings::{Error, Mismatch};
//!
//! let mut builder = GeometryBuilder::new();
//! let layout = PagedLayout::mla_bf16(16)?;
//! let page = layout.page_bytes().get();
//! let mut side = |name, memory, start| {
//!     let pool = builder.pool(PoolSpec::new(name, memory, 8, &[Region::new(start, 8 * page)]))?;
//!     let layout = AnyLayout::from(layout.clone());
//!     Ok::<_, pagelift::Error>(AnySideSpec { spec: SideSpec::packed(pool, &[start], &[0], page, layout), memory })
//! };
//! let host = side("host", Memory::Host, 0x10_0000)?;
//! let device = side("slab", Memory::Device, 0x90_0000)?;
//! let (name, landing, lift) = ("main".into(), Landing::Host, Lift::Tail);
//! let spec = AnyGroupSpec { name, layers: 1, landing, lift, host: Some(host), device: Some(device) };
//! let group = geometry::group(&mut builder, spec)?;
//! let geometry = std::sync::Arc::new(builder.build()?);
//!
//! let mut plan = AnyPlan::pages(geometry.clone(), Way::Down, PlanCapacity::default())?;
//! let lift = geometry::lift_route(&geometry, group).expect("it has both sides");
//! plan.gather(&lift, vec![3], vec![0])?;
//! assert_eq!(plan.jobs(), 1);
//!
//! // What would not compile in Rust.
//! let spill = geometry::spill_route(&geometry, group).expect("it has both sides");
//! assert!(matches!(plan.gather(&spill, vec![0], vec![3]), Err(Error::Mismatch(Mismatch::Way { .. }))));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_debug_implementations)]
#![forbid(unsafe_code)]

pub mod boundary;
pub mod error;
pub mod geometry;
pub mod import;
pub mod keys;
pub mod launcher;
pub mod plan;
pub mod recorded;
pub mod runner;

pub use boundary::{Adoption, Boundary, Engine};
pub use error::{Error, Mismatch, Result};
