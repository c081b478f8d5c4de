//! Cache groups: layers that share one geometry and one block table, known by name.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::side::SideSpec;
use crate::id::GroupId;
use crate::layout::sealed::Lower;
use crate::layout::{PagedLayout, RingLayout, StateLayout};

/// Where a group's imported blocks arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Landing {
    /// In the host pool.
    Host,
    /// On the device.
    Device,
}

/// What of a host-landed paged group is lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagedLift {
    /// The writable page.
    Tail,
    /// Every page up to the writable one.
    All,
    /// Nothing.
    None,
}

/// What of a host-landed ring or state group is lifted: the whole page or nothing, for a part means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateLift {
    /// The request's page.
    State,
    /// Nothing.
    None,
}

/// What of a host-landed group is lifted, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lift {
    /// The writable page.
    Tail,
    /// Every page up to the writable one.
    All,
    /// The request's page.
    State,
    /// Nothing.
    None,
}

impl From<PagedLift> for Lift {
    fn from(lift: PagedLift) -> Self {
        match lift {
            PagedLift::Tail => Self::Tail,
            PagedLift::All => Self::All,
            PagedLift::None => Self::None,
        }
    }
}

impl From<StateLift> for Lift {
    fn from(lift: StateLift) -> Self {
        match lift {
            StateLift::State => Self::State,
            StateLift::None => Self::None,
        }
    }
}

/// The kinds of group, as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupKind {
    /// See [`Paged`].
    Paged,
    /// See [`Ring`].
    Ring,
    /// See [`State`].
    State,
}

mod sealed {
    pub trait Sealed {}
}

/// The kinds of group, as types: [`Paged`], [`Ring`], [`State`].
pub trait Kind: sealed::Sealed + 'static {
    /// What a page looks like.
    type Layout: Lower;
    /// What may be lifted.
    type Lift: Copy + Into<Lift>;
    /// The same kind, as a value.
    const KIND: GroupKind;
}

/// Kinds whose rows can be copied one by one.
pub trait HasRows: Kind {}

/// Pages of rows, one per token or per group of tokens.
#[derive(Clone, Copy, Debug)]
pub enum Paged {}
/// One page per request whose slots are overwritten in turn.
#[derive(Clone, Copy, Debug)]
pub enum Ring {}
/// One indivisible page per request.
#[derive(Clone, Copy, Debug)]
pub enum State {}

impl sealed::Sealed for Paged {}
impl sealed::Sealed for Ring {}
impl sealed::Sealed for State {}

impl Kind for Paged {
    type Layout = PagedLayout;
    type Lift = PagedLift;
    const KIND: GroupKind = GroupKind::Paged;
}
impl Kind for Ring {
    type Layout = RingLayout;
    type Lift = StateLift;
    const KIND: GroupKind = GroupKind::Ring;
}
impl Kind for State {
    type Layout = StateLayout;
    type Lift = StateLift;
    const KIND: GroupKind = GroupKind::State;
}

impl HasRows for Paged {}
impl HasRows for Ring {}

/// Says what a group is.
#[derive(Clone, Debug)]
pub struct GroupSpec<K: Kind> {
    /// Its name: groups pair by name across engines.
    pub name: Arc<str>,
    /// Layers.
    pub layers: u32,
    /// Where its imported blocks arrive.
    pub landing: Landing,
    /// What of it is lifted.
    pub lift: K::Lift,
    /// Its side in a host pool.
    pub host: Option<SideSpec<K::Layout>>,
    /// Its side in a device pool.
    pub device: Option<SideSpec<K::Layout>>,
}

/// A group of one geometry, with its kind in the type.
#[derive(Debug)]
pub struct GroupKey<K> {
    pub(crate) id: GroupId,
    pub(crate) geometry: u64,
    kind: PhantomData<K>,
}

super::key::key!(GroupKey<K>: id, geometry);

impl<K> GroupKey<K> {
    pub(crate) const fn new(id: GroupId, geometry: u64) -> Self {
        Self { id, geometry, kind: PhantomData }
    }

    /// The group's id, without its kind.
    #[must_use]
    pub const fn id(self) -> GroupId {
        self.id
    }
}

/// A group of a [`super::Geometry`].
#[derive(Clone, Debug)]
pub struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) kind: GroupKind,
    pub(crate) layers: u32,
    pub(crate) landing: Landing,
    pub(crate) lift: Lift,
    /// Indices of its two main sides.
    pub(crate) host: Option<u32>,
    pub(crate) device: Option<u32>,
    /// The routes between them.
    pub(crate) to_device: Option<u32>,
    pub(crate) to_host: Option<u32>,
    pub(crate) map_first: u32,
    pub(crate) map_entries: u32,
}

impl Group {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> GroupKind {
        self.kind
    }

    /// Its layers.
    #[must_use]
    pub const fn layers(&self) -> u32 {
        self.layers
    }

    /// Where its imported blocks arrive.
    #[must_use]
    pub const fn landing(&self) -> Landing {
        self.landing
    }

    /// What of it is lifted.
    #[must_use]
    pub const fn lift(&self) -> Lift {
        self.lift
    }

    /// Whether an import must bring blocks that are lifted.
    #[must_use]
    pub fn is_lifted(&self) -> bool {
        self.landing == Landing::Host && self.lift != Lift::None
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, layers, kind, landing, lift, .. } = self;
        write!(f, "group `{name}`: {kind:?}, {layers} layers, lands {landing:?}, lifts {lift:?}")
    }
}
