//! When a page may be shown to others, and when its memory may be used again.
//!
//! | type | question it answers |
//! |---|---|
//! | [`Lifecycle`] | what is to be done, now that this has happened? One, at an engine's scheduler |
//! | [`Order`] | what are ranks told? |
//! | [`Worker`] | what does a rank do in its next launches, and what does it answer? One for each rank |
//! | [`StepPlans`] | which plans, one launch each, does that take? One for each rank |
//! | [`Reservations`] | do an import's lists fit the geometry, and each other? One for each rank |
//! | [`OpenPage`], [`SealedPage`] | are all rows of a page safe? |
//!
//! A [`Lifecycle`] takes [`Event`]s and returns [`Effect`]s. It knows pages and blocks by their numbers alone: a page
//! stands for one of each group, at one position of a request, and so does a block. The chapter 'The lifecycle' of
//! DESIGN.md has pictures of it, and what always holds.

mod admit;
mod agenda;
mod blocks;
mod counters;
mod decode;
mod ending;
mod event;
mod frames;
mod import;
mod limits;
mod lists;
mod log;
mod machine;
mod options;
mod order;
mod page;
mod pages;
mod rank;
mod reads;
mod request;
mod reservations;
mod round;
mod shared;
mod slab;
mod step;
mod steps;
mod view;
mod worker;

pub use counters::LifecycleCounters;
pub use event::{Admission, ContentHash, Effect, Event, Outcome, Read};
pub use frames::GroupFrames;
pub use limits::{FrameLimits, Restores};
pub use lists::LiftLists;
pub use log::{LogEntry, LogHeader};
pub use machine::Lifecycle;
pub use options::LifecycleOptions;
pub use order::Order;
pub use page::{OpenPage, PageState, SealedPage};
pub use rank::{Rank, Ranks};
pub use request::{RequestId, Stage};
pub use reservations::Reservations;
pub(crate) use reservations::Together;
pub use round::Answer;
pub use step::{StepOptions, StepPlans};
pub use view::RequestView;
pub use worker::{Lane, Settled, Work, Worker};
