//! Keys: what a geometry's builder has given names to.
//!
//! A key is the builder's number (32 bits), what it is (8 bits), and its place among those (24 bits). It is looked up in the lists of
//! the geometry that it is used with, and lives as long as that: there is nothing to free.

use std::sync::atomic::{AtomicU32, Ordering};

use pagelift::geometry::Memory;
use pagelift::id;
use pagelift_bindings::keys::{AnyCompactRoute, AnyDigest, AnyGroup, AnyRoute, AnySide};

use crate::status::{Failure, Outcome, Status};

/// A pool of a geometry.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolId {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// A group of a geometry.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GroupKey {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// A side of a group, for routes and digests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SideKey {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// A way between two sides of a group, for gathers of blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RouteKey {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// A way into a compact buffer, for gathers of rows by index lists.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CompactRouteKey {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// A side that digests may read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DigestKey {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

/// What a key is of.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Pool = 1,
    Group,
    Side,
    Route,
    CompactRoute,
    Digest,
}

impl What {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Pool, "a pool"),
        (Self::Group, "a group"),
        (Self::Side, "a side"),
        (Self::Route, "a route"),
        (Self::CompactRoute, "a compact route"),
        (Self::Digest, "a side for digests"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(what, _)| *what == self).map_or("?", |(_, name)| name)
    }
}

const PLACE_BITS: u32 = 24;
const WHAT_BITS: u32 = 8;
/// Keys of a geometry.
const MOST: usize = 1 << PLACE_BITS;

/// All that a builder has given keys to.
pub struct Keys {
    builder: u32,
    pools: Vec<(id::PoolId, Memory)>,
    groups: Vec<AnyGroup>,
    sides: Vec<AnySide>,
    routes: Vec<AnyRoute>,
    compact: Vec<AnyCompactRoute>,
    digests: Vec<AnyDigest>,
}

/// A list of [`Keys`]: how its keys are given and looked up.
macro_rules! list {
    ($add:ident, $find:ident, $list:ident, $key:ident, $what:ident, $item:ty) => {
        /// Gives a key.
        pub fn $add(&mut self, item: $item) -> Outcome<$key> {
            let key = $key { value: self.key(What::$what, self.$list.len())? };
            self.$list.push(item);
            Ok(key)
        }

        /// What a key is of.
        pub fn $find(&self, key: $key) -> Outcome<&$item> {
            let place = self.place(What::$what, key.value)?;
            self.$list.get(place).ok_or_else(|| forged(key.value, What::$what))
        }
    };
}

impl Keys {
    /// None, of a new builder.
    pub fn new() -> Self {
        static BUILDERS: AtomicU32 = AtomicU32::new(1);
        let builder = BUILDERS.fetch_add(1, Ordering::Relaxed);
        let (pools, groups, sides) = Default::default();
        let (routes, compact, digests) = Default::default();
        Self { builder, pools, groups, sides, routes, compact, digests }
    }

    list!(add_pool, pool, pools, PoolId, Pool, (id::PoolId, Memory));
    list!(add_group, group, groups, GroupKey, Group, AnyGroup);
    list!(add_side, side, sides, SideKey, Side, AnySide);
    list!(add_route, route, routes, RouteKey, Route, AnyRoute);
    list!(add_compact, compact, compact, CompactRouteKey, CompactRoute, AnyCompactRoute);
    list!(add_digest, digest, digests, DigestKey, Digest, AnyDigest);

    /// Refuses a builder that has given all keys there are, before it changes. A group counts for the ways that it gets when the geometry is
    /// built, too.
    pub fn room(&self) -> Outcome {
        let given =
            [self.pools.len(), self.sides.len(), self.routes.len(), self.compact.len(), self.digests.len()];
        let given = self.groups.len().saturating_mul(3).saturating_add(given.iter().sum());
        if given.saturating_add(3) <= MOST { Ok(()) } else { Err(too_many()) }
    }

    /// All groups, with their keys.
    pub fn groups(&self) -> Outcome<Vec<(GroupKey, AnyGroup)>> {
        let groups = self.groups.iter().enumerate();
        groups.map(|(place, group)| Ok((GroupKey { value: self.key(What::Group, place)? }, *group))).collect()
    }

    fn key(&self, what: What, place: usize) -> Outcome<u64> {
        if place >= MOST {
            return Err(too_many());
        }
        Ok(u64::from(self.builder) << (WHAT_BITS + PLACE_BITS) | (what as u64) << PLACE_BITS | place as u64)
    }

    fn place(&self, what: What, key: u64) -> Outcome<usize> {
        let found = key >> PLACE_BITS & 0xff;
        if key == 0 {
            return Err(Failure::new(
                Status::InvalidHandle,
                format!("the key is 0; expected {}", what.name()),
            ));
        }
        let known = What::ALL.iter().find(|(known, _)| *known as u64 == found);
        match known {
            None => return Err(forged(key, what)),
            Some((other, name)) if *other != what => {
                let text = format!("expected {}, found {name}", what.name());
                return Err(Failure::new(Status::WrongKind, text));
            }
            Some(_) => {}
        }
        if key >> (WHAT_BITS + PLACE_BITS) != u64::from(self.builder) {
            let text = format!("{} of another geometry", what.name());
            return Err(Failure::new(Status::Geometry, text));
        }
        Ok((key & ((1 << PLACE_BITS) - 1)) as usize)
    }
}

impl Default for Keys {
    fn default() -> Self {
        Self::new()
    }
}

fn too_many() -> Failure {
    Failure::new(Status::TooManyHandles, "a geometry has 16,777,216 keys at most")
}

fn forged(key: u64, what: What) -> Failure {
    Failure::new(Status::InvalidHandle, format!("{key:#x} is no key; expected {}", what.name()))
}
