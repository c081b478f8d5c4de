//! The independent reference: what every byte of every pool must be.
//!
//! It shares nothing with the planner or the kernels but the manifest. Addresses are written out as the layouts'
//! documentation gives them, row by row; the state of a pool is a tag for each row, and every operation copies tags
//! in the most naive way. A [`Model`] follows the operations of a run and can then say of any extent, byte by byte,
//! whether the memory agrees with it: rows, holes, row and page padding, and blocks that nobody touched.
//!
//! All bytes are random and all differ: contents follow from a seed, and untouched memory is not constant either, so
//! that a row copied to or from a wrong place shows.
//!
//! | file | question |
//! |---|---|
//! | `address` | where does a row lie, and which row does a token belong to? |
//! | `content` | which bytes does a row have? |
//! | `producer` | what does the producer hold, and how does it land? |
//! | `model` | which row must be where, after these operations? |
//! | `verify` | does the memory agree? |
//! | `error` | what can go wrong? |

mod address;
mod content;
mod error;
mod model;
mod producer;
mod verify;

#[cfg(test)]
mod tests;

pub use address::{Place, row_place, slot};
pub use content::Contents;
pub use error::ReferenceError;
pub use model::{Model, Row};
pub use producer::{Piece, Producer};
