//! Names of things: a host block and a GPU page are different types, so they cannot be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares an id: a transparent `u32`.
macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $word:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Wraps a raw id.
            #[must_use]
            pub const fn new(raw: u32) -> Self {
                Self(raw)
            }

            /// The raw id.
            #[must_use]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

id!(
    /// A block of a host pool.
    ///
    /// ```
    /// use pagelift_planner::id::HostBlockId;
    /// assert_eq!(HostBlockId::new(7).to_string(), "host block 7");
    /// ```
    HostBlockId, "host block");
id!(
    /// A page of a device pool.
    ///
    /// ```
    /// use pagelift_planner::id::PageId;
    /// assert_eq!(PageId::new(7).to_string(), "page 7");
    /// ```
    PageId, "page");
id!(
    /// A pool of one geometry: everything in it shares one numbering of blocks.
    PoolId, "pool");
id!(
    /// A cache group of one geometry, whatever its kind.
    GroupId, "group");

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::HostBlockId {}
    impl Sealed for super::PageId {}
}

/// What a pool numbers: [`HostBlockId`] or [`PageId`].
pub trait BlockId: Copy + fmt::Display + sealed::Sealed {
    /// The raw id.
    fn raw(self) -> u32;
}

impl BlockId for HostBlockId {
    fn raw(self) -> u32 {
        self.get()
    }
}

impl BlockId for PageId {
    fn raw(self) -> u32 {
        self.get()
    }
}

/// The number of one staged plan, counted from 1 by each launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(u64);

impl Ticket {
    /// Wraps a raw ticket.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw ticket.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.0)
    }
}
