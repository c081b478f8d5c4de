//! What the engine's memory looks like: two groups of rows and perhaps a state, in one host pool and one slab a rank.

use std::ops::Range;
use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::HostPoolSpec;
use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region,
    SideSpec, State, StateLift,
};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::Recurrence;
use pagelift::layout::{PagedLayout, StateLayout, StatePart};
use pagelift::lifecycle::{FrameLimits, GroupFrames, LifecycleOptions, Ranks};
use pagelift_cases::draw::Draw;
use serde::{Deserialize, Serialize};

use crate::content::Origin;

/// A group: its layers, and the bytes of a row in each of its segments.
#[derive(Debug)]
pub struct Group {
    name: &'static str,
    layers: u64,
    segments: &'static [u32],
}

/// The paged groups.
pub const GROUPS: [Group; 2] = [
    Group { name: "main", layers: 2, segments: &[16, 24] },
    Group { name: "index", layers: 1, segments: &[12] },
];

/// Bytes of a state.
pub const STATE_BYTES: usize = 48;

/// Bytes of a block or page, whoever's it is, for each token.
const TOKEN_BYTES: u64 = 80;

/// The engine's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// What the lifecycle looks after.
    pub options: LifecycleOptions,
    /// Whether each rank has rows of its own. If not, all have the same, and the first one writes them.
    pub sharded: bool,
    /// Whether the pools' blocks are numbered from the end.
    pub reversed: bool,
}

/// The groups of a rank's geometry.
#[derive(Debug)]
pub struct Keys {
    /// The paged ones, as [`GROUPS`].
    pub paged: Vec<GroupKey<Paged>>,
    state: Option<GroupKey<State>>,
}

impl Shape {
    /// A small engine of so many ranks.
    #[must_use]
    pub fn draw(draw: &mut Draw, ranks: u8) -> Self {
        let sharded = draw.once_in(3);
        let recurrence = if draw.once_in(3) { Recurrence::State } else { Recurrence::None };
        let requests = 4 + draw.small(9);
        let options = LifecycleOptions {
            ranks,
            writers: Ranks::first(if sharded { ranks } else { 1 }),
            block_tokens: draw.pick(&[2, 4, 4]),
            recurrence,
            requests,
            blocks: 16 + draw.small(48),
            pages: 4 + draw.small(2 * requests),
            keep: draw.small(3),
            draft_lag: if recurrence == Recurrence::None { draw.pick(&[0, 0, 1, 2]) } else { 0 },
            retries: draw.small(3),
            limits: FrameLimits::default(),
        };
        Self { options, sharded, reversed: draw.once_in(2) }
    }

    /// Whether the model has states.
    #[must_use]
    pub fn has_states(&self) -> bool {
        self.options.recurrence == Recurrence::State
    }

    /// Tokens of a block.
    #[must_use]
    pub fn block_tokens(&self) -> u64 {
        self.options.block_tokens.into()
    }

    /// Bytes of a block of any pool.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_tokens() * TOKEN_BYTES
    }

    /// Whose rows a rank has: its own, or everybody's.
    #[must_use]
    pub fn shard(&self, rank: u8) -> u32 {
        if self.sharded { rank.into() } else { 0 }
    }

    fn shards(&self) -> u32 {
        if self.sharded { self.options.ranks.into() } else { 1 }
    }

    /// Blocks of the host pool for each block of the lifecycle: one for each group and shard, one for each rank's state.
    fn parts(&self) -> u32 {
        let states = if self.has_states() { u32::from(self.options.ranks) } else { 0 };
        GROUPS.len() as u32 * self.shards() + states
    }

    fn number(&self, number: u32, count: u32) -> u32 {
        if self.reversed { count - 1 - number } else { number }
    }

    /// The host pool's block of a group that stands for a block of the lifecycle.
    #[must_use]
    pub fn host_block(&self, group: usize, rank: u8, block: u32) -> u32 {
        let part = group as u32 * self.shards() + self.shard(rank);
        self.number(block * self.parts() + part, self.options.blocks * self.parts())
    }

    /// The same for a rank's states.
    #[must_use]
    pub fn state_block(&self, rank: u8, block: u32) -> u32 {
        let part = GROUPS.len() as u32 * self.shards() + u32::from(rank);
        self.number(block * self.parts() + part, self.options.blocks * self.parts())
    }

    /// The slab's page of a group that stands for a page of the lifecycle.
    #[must_use]
    pub fn page(&self, group: usize, page: u32) -> u32 {
        self.number(page * GROUPS.len() as u32 + group as u32, self.pages())
    }

    /// The page of the state of the request in a slot.
    #[must_use]
    pub fn state_page(&self, slot: u32) -> u32 {
        self.number(self.options.pages * GROUPS.len() as u32 + slot, self.pages())
    }

    fn pages(&self) -> u32 {
        self.options.pages * GROUPS.len() as u32 + self.options.requests
    }

    /// Bytes of a rank's slab.
    #[must_use]
    pub fn slab_bytes(&self) -> u64 {
        u64::from(self.pages()) * self.block_bytes()
    }

    /// The host pool.
    #[must_use]
    pub fn host_pool(&self) -> HostPoolSpec {
        HostPoolSpec::new(self.options.blocks * self.parts(), self.block_bytes()).threads(1)
    }

    /// The pieces of a token's row: what tells each from others, and its bytes in a block.
    pub fn pieces(&self, group: usize, shard: u32, slot: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
        let Group { layers, segments, .. } = &GROUPS[group];
        let mut offset = 0;
        (0..*layers).flat_map(|layer| (0..).zip(*segments).map(move |segment| (layer, segment))).map(
            move |(layer, (segment, bytes))| {
                let start = offset + slot as usize * *bytes as usize;
                offset += self.block_tokens() as usize * *bytes as usize;
                let place = u64::from(shard) << 24 | (group as u64) << 16 | layer << 8 | segment;
                (place, start..start + *bytes as usize)
            },
        )
    }

    /// Writes the row of a token to a block's bytes.
    pub fn fill_row(&self, group: usize, shard: u32, token: u64, origin: Origin, block: &mut [u8]) {
        for (place, at) in self.pieces(group, shard, token % self.block_tokens()) {
            origin.fill(token, place, &mut block[at]);
        }
    }

    /// Whether a block's bytes hold the row of a token.
    #[must_use]
    pub fn has_row(&self, group: usize, shard: u32, token: u64, origin: Origin, block: &[u8]) -> bool {
        self.pieces(group, shard, token % self.block_tokens())
            .all(|(place, at)| origin.is_in(token, place, &block[at]))
    }

    /// A rank's state.
    #[must_use]
    pub fn state(rank: u8, origin: Origin) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        origin.fill(u64::MAX, u64::from(rank), &mut bytes);
        bytes
    }

    /// A rank's geometry, its groups, and which of their blocks and pages the lifecycle's numbers stand for.
    ///
    /// # Errors
    /// None that is expected.
    pub fn geometry(
        &self,
        rank: u8,
        host: PoolSpec,
        slab: Region,
    ) -> Result<(Arc<Geometry>, Keys, Vec<GroupFrames>), Error> {
        let mut builder = GeometryBuilder::new();
        let bases: Vec<u64> = host.regions.iter().map(|region| region.address()).collect();
        let host = builder.pool(host)?;
        let device = builder.pool(PoolSpec::new("slab", Memory::Device, self.pages(), &[slab]))?;
        let (stride, blocks) = (self.block_bytes(), 0..self.options.blocks);
        let (mut keys, mut frames) = (Keys { paged: Vec::new(), state: None }, Vec::new());
        for (number, Group { name, layers, segments }) in GROUPS.iter().enumerate() {
            let layout = PagedLayout::builder(self.options.block_tokens);
            let layout = (0..).zip(*segments).fold(layout, |layout, (number, bytes)| {
                layout.segment(["k", "v"][number as usize % 2], *bytes)
            });
            let layout = layout.build()?;
            let offsets: Vec<u64> = (0..*layers).map(|layer| layer * layout.page_bytes().get()).collect();
            let side =
                |pool, bases: &[u64]| Some(SideSpec::packed(pool, bases, &offsets, stride, layout.clone()));
            let group = builder.group(GroupSpec::<Paged> {
                name: (*name).into(),
                layers: *layers as u32,
                landing: Landing::Host,
                lift: PagedLift::Tail,
                host: side(host, &bases),
                device: side(device, &[slab.address()]),
            })?;
            keys.paged.push(group);
            let own = |block| HostBlockId::new(self.host_block(number, rank, block));
            let page = |page| PageId::new(self.page(number, page));
            frames.push(GroupFrames::Paged {
                group,
                blocks: blocks.clone().map(own).collect(),
                pages: (0..self.options.pages).map(page).collect(),
            });
        }
        if self.has_states() {
            let layout = StateLayout::new(&[StatePart::new("ssm", STATE_BYTES as u32)], None)?;
            let side =
                |pool, bases: &[u64]| Some(SideSpec::packed(pool, bases, &[0], stride, layout.clone()));
            let group = builder.group(GroupSpec::<State> {
                name: "state".into(),
                layers: 1,
                landing: Landing::Host,
                lift: StateLift::State,
                host: side(host, &bases),
                device: side(device, &[slab.address()]),
            })?;
            keys.state = Some(group);
            let own = |block| HostBlockId::new(self.state_block(rank, block));
            let page = |slot| PageId::new(self.state_page(slot));
            frames.push(GroupFrames::State {
                group,
                blocks: blocks.map(own).collect(),
                pages: (0..self.options.requests).map(page).collect(),
            });
        }
        Ok((Arc::new(builder.build()?), keys, frames))
    }
}
