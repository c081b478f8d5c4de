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
    /// A cache group of one geometry, whatever its kind.
    GroupId, "group");

/// A pool of one geometry: everything in it shares one numbering of blocks. A builder gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId {
    number: u32,
    geometry: u64,
}

impl PoolId {
    pub(crate) const fn new(number: u32, geometry: u64) -> Self {
        Self { number, geometry }
    }

    /// Its number: its place among [`crate::geometry::Geometry::pools`].
    #[must_use]
    pub const fn get(self) -> u32 {
        self.number
    }

    /// The stamp of the geometry that it belongs to.
    pub(crate) const fn geometry(self) -> u64 {
        self.geometry
    }
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool {}", self.number)
    }
}

/// A reserved import, until it is released. Its number is used again; the id is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImportId {
    number: u32,
    generation: u64,
    reservations: u64,
}

impl ImportId {
    pub(crate) const fn new(number: u32, generation: u64, reservations: u64) -> Self {
        Self { number, generation, reservations }
    }

    /// Its number: its place among the imports that are reserved at one time.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.number
    }

    /// One that was taken apart by [`ImportId::parts`], for callers who keep it as numbers. It is compared with those that are
    /// reserved when it is used.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_parts((number, generation, reservations): (u32, u64, u64)) -> Self {
        Self { number, generation, reservations }
    }

    /// Its parts: the number, how often it was given before, and whose it is.
    #[doc(hidden)]
    #[must_use]
    pub const fn parts(self) -> (u32, u64, u64) {
        (self.number, self.generation, self.reservations)
    }

    /// How often the number was given before.
    pub(crate) const fn generation(self) -> u64 {
        self.generation
    }

    /// The stamp of the reservations that gave it.
    pub(crate) const fn reservations(self) -> u64 {
        self.reservations
    }
}

impl fmt::Display for ImportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "import {}.{}", self.number, self.generation)
    }
}

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

/// The number of one staged plan, counted from 1 by each launcher. Another launcher does not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    launcher: u64,
    number: u64,
}

impl Ticket {
    /// The ticket of a launcher's `number`-th plan.
    #[must_use]
    pub const fn new(launcher: u64, number: u64) -> Self {
        Self { launcher, number }
    }

    /// Its number, as kernels see it.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// The launcher that gave it.
    #[must_use]
    pub const fn launcher(self) -> u64 {
        self.launcher
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket {}", self.number)
    }
}
