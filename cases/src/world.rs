//! A geometry, and models of its groups that need nothing of the planner.

use std::sync::Arc;

use pagelift_planner::geometry::*;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::ImportGroup;
use pagelift_planner::plan::{DeviceToDevice, DeviceToHost, Direction, HostToDevice};

use crate::decode::Move;
use crate::draw::Draw;
use crate::shape::{Inside, Scale, Shape};

/// One side: where each block of each layer, region and extent begins.
#[derive(Clone, Debug)]
pub struct SideModel {
    /// Its place among all sides of the world.
    pub number: usize,
    /// Its group's place among the world's groups.
    pub group: usize,
    /// Its pool's place among the geometry's pools.
    pub pool: usize,
    /// Which memory that is.
    pub memory: Memory,
    /// Rows of a block.
    pub rows: u32,
    /// Blocks of the pool.
    pub blocks: u32,
    pub(crate) blocks_per_extent: u32,
    /// By layer, region and extent.
    pub(crate) bases: Vec<Vec<Vec<u64>>>,
    pub(crate) block_stride: u64,
    pub(crate) inside: Inside,
}

impl SideModel {
    /// The address formula.
    #[must_use]
    pub fn row(&self, layer: u32, block: u32, segment: usize, row: u32) -> u64 {
        let (region, offset, stride) = self.inside.segments[segment];
        assert!(row < self.rows && block < self.blocks);
        let base = self.bases[layer as usize][region as usize][(block / self.blocks_per_extent) as usize];
        base + u64::from(block % self.blocks_per_extent) * self.block_stride
            + offset
            + u64::from(row) * u64::from(stride)
    }
}

/// A group's key, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// Rows of tokens.
    Paged(GroupKey<Paged>),
    /// Slots.
    Ring(GroupKey<Ring>),
    /// A state.
    State(GroupKey<State>),
}

impl Key {
    /// The group of an import.
    #[must_use]
    pub fn lists<'a>(self, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> ImportGroup<'a> {
        match self {
            Self::Paged(key) => ImportGroup::new(key, blocks, pages),
            Self::Ring(key) => ImportGroup::new(key, blocks, pages),
            Self::State(key) => ImportGroup::new(key, blocks, pages),
        }
    }

    /// The group of an import whose blocks landed on the device.
    #[must_use]
    pub fn landed<'a>(self, pages: &'a [PageId]) -> ImportGroup<'a> {
        match self {
            Self::Paged(key) => ImportGroup::landed(key, pages),
            Self::Ring(key) => ImportGroup::landed(key, pages),
            Self::State(key) => ImportGroup::landed(key, pages),
        }
    }
}

/// A route, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyRoute<D> {
    /// Rows of tokens.
    Paged(RouteKey<D, Paged>),
    /// Slots.
    Ring(RouteKey<D, Ring>),
    /// A state.
    State(RouteKey<D, State>),
}

/// A route into a compact buffer, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyCompactRoute<D> {
    /// Rows of tokens.
    Paged(CompactRouteKey<D, Paged>),
    /// Slots.
    Ring(CompactRouteKey<D, Ring>),
}

/// A digest key, whatever its kind.
#[derive(Clone, Copy, Debug)]
pub enum AnyDigest {
    /// Rows of tokens.
    Paged(DigestKey<Paged>),
    /// Slots.
    Ring(DigestKey<Ring>),
    /// A state.
    State(DigestKey<State>),
}

/// A group and its model.
#[derive(Clone, Debug)]
pub struct GroupModel {
    /// Its key.
    pub key: Key,
    /// Its kind.
    pub kind: GroupKind,
    /// Layers.
    pub layers: u32,
    /// Tokens of a row.
    pub tokens_per_row: u32,
    /// Bytes of a row of each segment.
    pub row_bytes: Vec<u32>,
    /// Whether imports must bring blocks of it.
    pub is_lifted: bool,
    /// What of it is lifted.
    pub lift: Lift,
    /// Its main side on the host.
    pub host: SideModel,
    /// Its main side on the device.
    pub device: SideModel,
}

impl GroupModel {
    /// Whether rows can be copied one by one.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.kind != GroupKind::State
    }

    /// Token slots of a block or page.
    #[must_use]
    pub fn slots(&self, side: &SideModel) -> u32 {
        side.rows * self.tokens_per_row
    }

    /// Bytes of one row of all layers and segments.
    #[must_use]
    pub fn all_row_bytes(&self) -> u64 {
        u64::from(self.layers) * self.row_bytes.iter().map(|&bytes| u64::from(bytes)).sum::<u64>()
    }

    /// One row of all layers and segments, from one place to another; or zeros.
    pub fn copy_row(
        &self,
        from: Option<(&SideModel, u32, u32)>,
        (to, block, row): (&SideModel, u32, u32),
        moves: &mut Vec<Move>,
    ) {
        for layer in 0..self.layers {
            for (segment, &bytes) in self.row_bytes.iter().enumerate() {
                let from = from.map(|(side, block, row)| side.row(layer, block, segment, row));
                moves.push(Move { to: to.row(layer, block, segment, row), from, bytes: u64::from(bytes) });
            }
        }
    }
}

/// A way between two sides of a group, with its model.
#[derive(Clone, Debug)]
pub struct Way<D> {
    /// Where rows come from.
    pub from: SideModel,
    /// Where they go.
    pub to: SideModel,
    /// Its key.
    pub key: AnyRoute<D>,
}

/// A way into a compact buffer, with its model.
#[derive(Clone, Debug)]
pub struct CompactWay<D> {
    /// Where rows come from.
    pub from: SideModel,
    /// The buffer.
    pub to: SideModel,
    /// Its key.
    pub key: AnyCompactRoute<D>,
}

/// A side that digests read, with its model.
#[derive(Clone, Debug)]
pub struct Digested {
    /// The side.
    pub side: SideModel,
    /// Its key.
    pub key: AnyDigest,
}

/// All ways of one direction.
#[derive(Clone, Debug)]
pub struct Ways<D> {
    /// Between all sides of each group.
    pub whole: Vec<Way<D>>,
    /// Into the compact buffers of each group that has rows.
    pub compact: Vec<CompactWay<D>>,
}

/// A geometry, and the model of its groups.
#[derive(Debug)]
pub struct World {
    /// What plans are made for.
    pub geometry: Arc<Geometry>,
    /// Its groups.
    pub groups: Vec<GroupModel>,
    /// From host to device.
    pub down: Ways<HostToDevice>,
    /// From device to host.
    pub up: Ways<DeviceToHost>,
    /// On the device.
    pub across: Ways<DeviceToDevice>,
    /// What digests may read.
    pub digested: Vec<Digested>,
}

/// A direction, with what a world has of it.
pub trait Bearing: Direction + Sized {
    /// The ways of that direction.
    fn ways(world: &World) -> &Ways<Self>;
    /// A source by its number.
    fn source(block: u32) -> Self::Source;
    /// A destination by its number.
    fn destination(block: u32) -> Self::Destination;
}

macro_rules! bearing {
    ($direction:ident, $field:ident, $source:ident, $destination:ident) => {
        impl Bearing for $direction {
            fn ways(world: &World) -> &Ways<Self> {
                &world.$field
            }
            fn source(block: u32) -> $source {
                $source::new(block)
            }
            fn destination(block: u32) -> $destination {
                $destination::new(block)
            }
        }
    };
}

bearing!(HostToDevice, down, HostBlockId, PageId);
bearing!(DeviceToHost, up, PageId, HostBlockId);
bearing!(DeviceToDevice, across, PageId, PageId);

/// Host blocks by their numbers.
#[must_use]
pub fn hosts(ids: &[u32]) -> Vec<HostBlockId> {
    ids.iter().copied().map(HostBlockId::new).collect()
}

/// Pages by their numbers.
#[must_use]
pub fn pages(ids: &[u32]) -> Vec<PageId> {
    ids.iter().copied().map(PageId::new).collect()
}

impl World {
    /// A random world at addresses that nobody has.
    #[must_use]
    pub fn draw(draw: &mut Draw, scale: &Scale) -> Self {
        let shape = Shape::draw(draw, scale);
        shape.build(&shape.nowhere())
    }

    /// The group of a side.
    #[must_use]
    pub fn group_of(&self, side: &SideModel) -> &GroupModel {
        &self.groups[side.group]
    }
}
