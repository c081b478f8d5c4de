//! Keys and layouts of any kind of group, and routes of any direction.

use std::fmt;

use pagelift::geometry::{
    CompactRouteKey, DigestKey, GroupKey, GroupKind, Memory, Paged, Ring, RouteKey, SideKey, State,
};
use pagelift::layout::{PagedLayout, RingLayout, StateLayout};
use pagelift::plan::{DeviceToDevice, DeviceToHost, Direction, HostToDevice};

use crate::{Mismatch, Result};

/// Something of one of the three kinds of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByKind<P, R, S> {
    /// Pages of rows.
    Paged(P),
    /// Rings.
    Ring(R),
    /// States.
    State(S),
}

/// Something of one of the two kinds that have rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByRows<P, R> {
    /// Pages of rows.
    Paged(P),
    /// Rings.
    Ring(R),
}

/// The same for whichever kind it is.
macro_rules! of_kind {
    ($value:expr, $own:ident => $body:expr) => {
        match $value {
            $crate::keys::ByKind::Paged($own) => $body,
            $crate::keys::ByKind::Ring($own) => $body,
            $crate::keys::ByKind::State($own) => $body,
        }
    };
}
pub(crate) use of_kind;

/// What comes of whichever kind it is, which is of that kind too.
macro_rules! map_kind {
    ($value:expr, $own:pat => $body:expr) => {
        match $value {
            $crate::keys::ByKind::Paged($own) => $crate::keys::ByKind::Paged($body),
            $crate::keys::ByKind::Ring($own) => $crate::keys::ByKind::Ring($body),
            $crate::keys::ByKind::State($own) => $crate::keys::ByKind::State($body),
        }
    };
}
pub(crate) use map_kind;

/// The same for whichever kind with rows it is.
macro_rules! of_rows {
    ($value:expr, $own:ident => $body:expr) => {
        match $value {
            $crate::keys::ByRows::Paged($own) => $body,
            $crate::keys::ByRows::Ring($own) => $body,
        }
    };
}
pub(crate) use of_rows;

impl<P, R, S> ByKind<P, R, S> {
    /// Which kind it is.
    #[must_use]
    pub const fn kind(&self) -> GroupKind {
        match self {
            Self::Paged(_) => GroupKind::Paged,
            Self::Ring(_) => GroupKind::Ring,
            Self::State(_) => GroupKind::State,
        }
    }

    /// `paged`, `ring` or `state`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Paged(_) => "paged",
            Self::Ring(_) => "ring",
            Self::State(_) => "state",
        }
    }

    /// What has rows.
    ///
    /// ```
    /// use pagelift_bindings::keys::{ByKind, ByRows};
    /// let ring: ByKind<(), u8, ()> = ByKind::Ring(7);
    /// assert_eq!(ring.with_rows(), Ok(ByRows::Ring(7)));
    /// ```
    ///
    /// # Errors
    /// [`Mismatch::Group`] for a state.
    pub fn with_rows(self) -> std::result::Result<ByRows<P, R>, Mismatch> {
        match self {
            Self::Paged(own) => Ok(ByRows::Paged(own)),
            Self::Ring(own) => Ok(ByRows::Ring(own)),
            Self::State(_) => {
                let rule = "a state has no rows: it is copied whole, and checkpointed by a write-back plan";
                Err(Mismatch::Group { found: GroupKind::State, rule })
            }
        }
    }

    /// Both, where they are of one kind.
    pub(crate) fn with(self, other: Self) -> Result<ByKind<[P; 2], [R; 2], [S; 2]>> {
        let (from, to) = (self.kind(), other.kind());
        Ok(match (self, other) {
            (Self::Paged(one), Self::Paged(other)) => ByKind::Paged([one, other]),
            (Self::Ring(one), Self::Ring(other)) => ByKind::Ring([one, other]),
            (Self::State(one), Self::State(other)) => ByKind::State([one, other]),
            _ => return Err(Mismatch::Sides { from, to }.into()),
        })
    }
}

/// A layout of any kind.
pub type AnyLayout = ByKind<PagedLayout, RingLayout, StateLayout>;
/// A group of any kind.
pub type AnyGroup = ByKind<GroupKey<Paged>, GroupKey<Ring>, GroupKey<State>>;
/// A side of any kind that digests read.
pub type AnyDigest = ByKind<DigestKey<Paged>, DigestKey<Ring>, DigestKey<State>>;

impl From<PagedLayout> for AnyLayout {
    fn from(layout: PagedLayout) -> Self {
        Self::Paged(layout)
    }
}

impl From<RingLayout> for AnyLayout {
    fn from(layout: RingLayout) -> Self {
        Self::Ring(layout)
    }
}

impl From<StateLayout> for AnyLayout {
    fn from(layout: StateLayout) -> Self {
        Self::State(layout)
    }
}

/// A side of any kind, and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct AnySide {
    /// The side.
    pub key: ByKind<SideKey<Paged>, SideKey<Ring>, SideKey<State>>,
    /// Its memory.
    pub memory: Memory,
}

/// Which way something copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the host to the device.
    Down,
    /// From the device to the host.
    Up,
    /// On the device.
    Across,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Down, Self::Up, Self::Across];

    /// In words.
    ///
    /// ```
    /// assert_eq!(pagelift_bindings::keys::Way::Down.name(), "host to device");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => HostToDevice::NAME,
            Self::Up => DeviceToHost::NAME,
            Self::Across => DeviceToDevice::NAME,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something of one of the three directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByWay<D, U, A> {
    /// From the host to the device.
    Down(D),
    /// From the device to the host.
    Up(U),
    /// On the device.
    Across(A),
}

impl<D, U, A> ByWay<D, U, A> {
    /// Its direction.
    #[must_use]
    pub const fn way(&self) -> Way {
        match self {
            Self::Down(_) => Way::Down,
            Self::Up(_) => Way::Up,
            Self::Across(_) => Way::Across,
        }
    }
}

/// A route of one direction and any kind.
pub type Routes<D> = ByKind<RouteKey<D, Paged>, RouteKey<D, Ring>, RouteKey<D, State>>;
/// A route of any direction and kind.
pub type AnyRoute = ByWay<Routes<HostToDevice>, Routes<DeviceToHost>, Routes<DeviceToDevice>>;
/// A route of one direction, and any kind with rows, into a compact buffer.
pub type CompactRoutes<D> = ByRows<CompactRouteKey<D, Paged>, CompactRouteKey<D, Ring>>;
/// A route of any direction, and any kind with rows, into a compact buffer.
pub type AnyCompactRoute =
    ByWay<CompactRoutes<HostToDevice>, CompactRoutes<DeviceToHost>, CompactRoutes<DeviceToDevice>>;
