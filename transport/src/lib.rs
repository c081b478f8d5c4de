//! How a decode engine D pulls a prompt's caches from a prefill engine P, by one-sided reads.
//!
//! Logic without a clock and without `unsafe`; what goes in or out does so by traits, of which [`control`] and `nixl` have the
//! real ones. The way of an import is the order of the modules:
//!
//! | module | question it answers |
//! |---|---|
//! | [`facts`] | what an engine says of its groups that no geometry knows |
//! | [`schema`] | do both sides mean the same by a block? Equal, or refused with field and both values |
//! | [`region`] | where do a side's blocks lie? Never compared |
//! | [`offer`] | what is sent to a peer before anything is read |
//! | [`pairing`] | which bytes of P's blocks become which bytes of D's |
//! | [`descriptors`] | the lists that a transport prepares once for each peer |
//! | [`plan`] | which entries of these lists an import reads, and what it zeroes |
//! | [`receive`] | when is an import over, who is told, and what of it is valid? |
//! | [`lease`] | until when does P hold its blocks, and until when may D believe what it reads? |
//! | [`notice`] | what D tells P when it reads no more |
//! | [`control`] | what else two engines say to each other, by whom, and in which bytes |
//! | [`transfer`] | what carries bytes, and whose memory it writes |
//! | [`producer`] | P's end of all that: connections, exports, leases |
//! | [`consumer`] | D's end: a connection to P, and imports in flight |
//! | [`wanted`] | which blocks does a lifecycle want read? |
//! | `nixl` | carries bytes by NVIDIA's library; with the feature `nixl` |
//!
//! # Example
//! P keeps a group on its GPU, D lands it in a host pool. Both describe themselves, D pairs the two and plans an import:
//! ```
//! use pagelift_planner::geometry::*;
//! use pagelift_planner::layout::PagedLayout;
//! use pagelift_planner::quantity::Tokens;
//! use pagelift_transport::{facts::*, pairing::Peer, plan::*, offer::Offer};
//!
//! /// Eight blocks of 16 tokens, two layers.
//! fn geometry(memory: Memory) -> Result<Geometry, Box<dyn std::error::Error>> {
//!     let layout = PagedLayout::mla_bf16(16)?;
//!     let (page, mut geometry) = (layout.page_bytes().get(), GeometryBuilder::new());
//!     let pool = geometry.pool(PoolSpec::new("pool", memory, 8, &[Region::new(0x10000, 16 * page)]))?;
//!     let side = SideSpec::packed(pool, &[0x10000], &[0, 8 * page], page, layout);
//!     let (host, device) = if memory == Memory::Host { (Some(side), None) } else { (None, Some(side)) };
//!     let landing = if memory == Memory::Host { Landing::Host } else { Landing::Device };
//!     let lift = PagedLift::None;
//!     geometry.group(GroupSpec::<Paged> { name: "main".into(), layers: 2, landing, lift, host, device })?;
//!     Ok(geometry.build()?)
//! }
//!
//! let facts = |memory| [GroupFacts::new("main", memory).segment("latent", Element::Bf16, &[576])];
//! let exchange = Exchange::new(Tokens::new(16));
//! let theirs = Offer::of(&geometry(Memory::Device)?, &exchange, &facts(Memory::Device), Region::address)?;
//! let ours = Offer::of(&geometry(Memory::Host)?, &exchange, &facts(Memory::Host), Region::address)?;
//! let peer = Peer::pair(&ours, &theirs)?;
//! // 20 tokens: P's blocks 5 and 2, into D's 0 and 7.
//! let plan = peer.plan(
//!     Tokens::new(20),
//!     &BlockTables::new().with("main", BlockTable::from_first(&[5, 2])),
//!     &BlockTables::new().with("main", BlockTable::from_first(&[0, 7])),
//!     ReadLimits::default(),
//! )?;
//! // One read: each block of each layer is one piece.
//! assert_eq!(plan.reads().len(), 1);
//! assert_eq!(plan.reads()[0].remote(), [10, 11, 4, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
// Memory is registered with NIXL by address; without that there is nothing unsafe here.
#![cfg_attr(not(feature = "nixl"), forbid(unsafe_code))]
#![cfg_attr(feature = "nixl", deny(unsafe_code))]
#![warn(missing_debug_implementations)]
#![deny(clippy::arithmetic_side_effects)]

pub mod consumer;
pub mod control;
pub mod descriptors;
pub mod error;
pub mod facts;
pub mod lease;
#[cfg(feature = "nixl")]
pub mod nixl;
pub mod notice;
pub mod offer;
pub mod pairing;
pub mod plan;
pub mod producer;
pub mod receive;
pub mod region;
pub mod schema;
pub mod transfer;
pub mod wanted;
