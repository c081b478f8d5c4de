//! The tables that the planner writes and the kernels read.
//!
//! Every struct here is `#[repr(C)]` without padding bytes, plain integers only, so that host, emulation and
//! GPU agree on each byte. Addresses are `u64` as the *device* sees them; all address arithmetic is 64-bit.
//!
//! ```text
//! geometry (uploaded once)          job table (one per step, at a fixed address)
//!   routes    [Route]                 TableHeader
//!   segments  [SegmentPair]           jobs      [PageJob] or [RowJob]
//!   bases     [u64]                   indices   [BlockPair]
//!                                     changes   [MapChange]
//! ```
//!
//! A unit of a page job is one piece of one run: `(block of the list, layer, segment, chunk)`, chunk running
//! fastest. A unit of a row job is one row: `(entry, layer, segment)`, segment running fastest.
#![no_std]
#![forbid(unsafe_code)]

mod args;
mod completion;
mod geometry;
mod table;

pub use args::{DigestArgs, MapArgs, PagesArgs, RowsArgs};
pub use completion::{Completion, Progress, status};
pub use geometry::{CONTIGUOUS, Route, SegmentPair, Side, UNIT_BYTES};
pub use table::{BlockPair, MapChange, NONE, PageJob, RowJob, TableHeader, flags, job, row_job};

/// Version of these tables. A kernel that meets another one moves nothing and answers
/// [`status::WRONG_VERSION`].
pub const VERSION: u32 = 1;

/// Declares a table struct: `#[repr(C)]`, `Copy`, and on the host viewable as bytes.
macro_rules! table_struct {
    ($(#[$meta:meta])* pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(
            feature = "host",
            derive(zerocopy::IntoBytes, zerocopy::FromBytes, zerocopy::Immutable, zerocopy::KnownLayout)
        )]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }
    };
}
pub(crate) use table_struct;
