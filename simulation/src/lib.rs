//! An engine in simulation: one scheduler, and ranks in threads or processes of their own over one host pool, with real bytes
//! moved by a real backend, and everything that may go wrong.
//!
//! | module | question it answers |
//! |---|---|
//! | [`shape`] | what does the engine's memory look like? |
//! | [`content`] | which bytes does whoever computes a row write? |
//! | [`engine`] | what does the engine ask of its lifecycle? |
//! | [`book`] | what must every row be? |
//! | [`message`] | what do scheduler and ranks say to each other? |
//! | [`rank`] | what does a rank do? |
//! | [`faulty`] | which calls of its backend fail? |
//! | [`links`] | how do messages get to ranks in threads and processes? |
//! | [`lockstep`] | what happens next, as a seed says? |
//! | [`free`] | what happens where everybody runs as fast as he can? |
//! | [`run`] | which of all that is one seed's run? |
#![deny(unsafe_code)]
#![allow(clippy::indexing_slicing, reason = "a simulation that counts wrong has to fail")]

pub mod book;
pub mod content;
pub mod engine;
pub mod faulty;
pub mod free;
pub mod links;
pub mod lockstep;
pub mod message;
pub mod rank;
pub mod run;
pub mod shape;
