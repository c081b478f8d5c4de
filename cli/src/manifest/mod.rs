//! Import manifests: JSON files that describe one import and the pools it moves between.
//!
//! `Manifest::load` reads a file, checks it as a whole, and resolves what it leaves open: the resume rule, the
//! geometry behind a layout's name, and the scattered block lists. What it returns is consistent, so that nothing
//! behind it has to check again. The format is documented in `manifests/README.md`.
//!
//! | file | question |
//! |---|---|
//! | `json` | which values does the text hold? |
//! | `fields` | where does a field stand, and what must it be? |
//! | `format`, `read`, `kind` | what may a manifest say? |
//! | `load` | how does a file become a checked [`Manifest`]? |
//! | `span` | which blocks does a prompt of N tokens need? |
//! | `layout` | how many rows and bytes stand behind a layout's name? |
//! | `pool` | how large is a pool, and where do its extents end? |
//! | `group` | which landing, lift and mirror go together? |
//! | `blocks` | which block ids does each group get, and which are left? |
//! | `limits` | what is too much? |
//! | `error` | what is wrong, and where? |

mod blocks;
mod error;
mod fields;
mod format;
mod group;
mod json;
mod kind;
mod layout;
mod limits;
mod load;
mod pool;
mod read;
mod span;
mod splitmix;

#[cfg(test)]
mod tests;

pub use error::ManifestError;
pub use fields::Word;
pub use format::{HeadOrder, KvRegions, Landing, LayerOrder, LayoutSpec, Lift, Memory, PoolOrder, Scales};
pub use group::{Group, Side};
pub use kind::layout_kinds;
pub use layout::{Dense, Family, Part, Segment};
pub use load::{Draft, Footprint, Manifest};
pub use pool::Pool;
pub use span::Span;
pub use splitmix::{SplitMix64, mix};
