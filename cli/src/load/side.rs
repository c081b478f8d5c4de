//! What one process has: the blocks of a family, one block that is read as a whole, and what it says of both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pagelift::backends::Backend;
use pagelift::error::BackendError;
use pagelift::geometry::{
    Geometry, GeometryBuilder, GroupKey, GroupSpec, Landing, Memory, Paged, PagedLift, SideSpec, State,
    StateLift,
};
use pagelift::id::GroupId;
use pagelift::memory::Registry;
use pagelift::quantity::Tokens;
use pagelift_transport::descriptors::Descriptor;
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::nixl::{Agent, AgentOptions, Library, NixlError};
use pagelift_transport::offer::Offer;
use pagelift_transport::transfer::Destination;
use serde::{Deserialize, Serialize};

use super::error::LoadError;
use super::family::{Family, Layout};
use super::pool::{Content, Order, Pool};
use crate::args::{Parameter, Place};

/// The group that is read as a whole.
pub const WHOLE: &str = "whole";

/// NIXL's plugin that carries bytes.
const PLUGIN: &str = "UCX";

/// The pages that tails are lifted into.
const PAGES: &str = "pages";

/// What a side is made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub family: String,
    /// Blocks of the family.
    pub blocks: u32,
    /// Bytes of the block that is read as a whole.
    pub whole: u32,
    /// Where both lie.
    pub place: Place,
    /// What all bytes follow from.
    pub seed: u64,
    /// Parameters of NIXL's plugin.
    pub parameters: Vec<Parameter>,
    /// Whether P exports the same blocks each time, so that they are as near to the processor as what is read as a whole.
    pub same: bool,
}

impl Spec {
    /// One process's end of the transfers.
    pub fn agent(&self, name: &str) -> Result<Agent, NixlError> {
        let parameters = Parameter::with(PLUGIN, &self.parameters);
        Agent::new(&Library::open()?, AgentOptions { name, plugin: PLUGIN, parameters: &parameters })
    }
}

/// One process's memory.
pub struct Side<'b> {
    pub memory: Registry,
    pub geometry: Arc<Geometry>,
    pub offer: Offer,
    pub cache: Pool,
    pub whole: Pool,
    pages: Option<Pool>,
    /// The family's group, where its tails can be lifted.
    pub paged: Option<GroupKey<Paged>>,
    settle: Box<dyn Fn() -> Result<(), BackendError> + 'b>,
    /// What the last reads into memory of a GPU took to be made visible to what is launched next.
    pub settled: Option<Duration>,
}

impl<'b> Side<'b> {
    /// Allocates all of it and says what it is.
    pub fn new<B: Backend>(backend: &'b B, spec: &Spec, order: Order) -> Result<Self, LoadError> {
        let family = Family::find(&spec.family).ok_or_else(|| LoadError::Family(spec.family.clone()))?;
        let (memory, lifts) = match spec.place {
            Place::Device(_) => (Memory::Device, false),
            Place::Lift(_) => (Memory::Host, true),
            Place::Host => (Memory::Host, false),
        };
        let layout = family.layout().map_err(pagelift::Error::from)?;
        let whole = Layout::whole(spec.whole).map_err(pagelift::Error::from)?;
        let mut registry = Registry::new();
        let mut pool = |name, what, how| Pool::new((&mut registry, backend), name, what, how);
        let cache = pool(family.name, (layout.clone(), family.layers, spec.blocks), (memory, order))?;
        let whole = pool(WHOLE, (whole, 1, 1), (memory, Order::Layers))?;
        let lifts = lifts && matches!(layout, Layout::Paged(_));
        let pages = lifts
            .then(|| pool(PAGES, (layout, family.layers, 1), (Memory::Device, Order::Layers)))
            .transpose()?;
        let mut builder = GeometryBuilder::new();
        let (cache_id, paged) = add(&mut builder, &cache, pages.as_ref())?;
        let (whole_id, _) = add(&mut builder, &whole, None)?;
        let geometry = Arc::new(builder.build().map_err(pagelift::Error::from)?);
        let exchange = Exchange::new(Tokens::new(cache.layout.block_tokens().into()));
        let facts = [facts(&geometry, &cache, cache_id, spec), facts(&geometry, &whole, whole_id, spec)];
        let address = |region| {
            let own = cache.address(region).or_else(|| whole.address(region));
            own.unwrap_or_else(|| pagelift::geometry::Region::address(region))
        };
        let offer = Offer::of(&geometry, &exchange, &facts, address)?;
        let settle = Box::new(|| backend.settle_remote_writes());
        Ok(Self { memory: registry, geometry, offer, cache, whole, pages, paged, settle, settled: None })
    }

    /// Fills it: with what P has, or with what P has not.
    pub fn fill(&mut self, content: impl Fn(u32) -> Content) -> Result<(), LoadError> {
        let mut page = Vec::new();
        for pool in [Some(&self.cache), Some(&self.whole), self.pages.as_ref()].into_iter().flatten() {
            for block in 0..pool.blocks {
                pool.fill(&mut self.memory, block, content(block), &mut page)?;
            }
        }
        Ok(())
    }

    /// Lets peers read it, or reads write it.
    ///
    /// The caller drops the agent, and the lists and reads of it, before this side, and looks at no region of it that is being
    /// written: at none where an order of layers makes all blocks one region, and otherwise at those of no import that is in flight.
    pub fn register(&self, agent: &mut Agent) -> Result<(), LoadError> {
        for range in &self.offer.regions.memory {
            #[expect(unsafe_code, reason = "whose memory an address is only this program knows")]
            // SAFETY: 1. The ranges are regions of the pools. They are released with the registry, which the callers of this
            //    declare before the agent, and that before all that has lists and reads of it, so that it is dropped after them;
            //    nothing releases one before.
            // 2. P's pools are filled before its agent describes itself, and not touched after that. D's are written by reads in
            //    flight: `ratio` looks at its pools when none is, and `flood` at regions of blocks whose import has ended, or
            //    which belong to none; each block has a region of its own there. Nobody else can reach D's, for D tells nobody how.
            unsafe { agent.register(*range) }?;
        }
        Ok(())
    }
}

impl Destination for Side<'_> {
    type Error = LoadError;

    fn zero(&mut self, range: Descriptor) -> Result<(), LoadError> {
        let found = self.cache.find(range).or_else(|| self.whole.find(range));
        let (id, at) = found.ok_or(LoadError::Nowhere { address: range.address, bytes: range.bytes })?;
        let zeros = vec![0; usize::try_from(range.bytes).unwrap_or(0)];
        Ok(self.memory.write(id, at, &zeros)?)
    }

    fn settle(&mut self, _device: u64) -> Result<(), LoadError> {
        // This process has one.
        let begun = Instant::now();
        (self.settle)().map_err(pagelift::Error::from)?;
        self.settled = Some(begun.elapsed());
        Ok(())
    }
}

/// Adds a pool's group.
fn add(
    builder: &mut GeometryBuilder,
    pool: &Pool,
    pages: Option<&Pool>,
) -> Result<(GroupId, Option<GroupKey<Paged>>), pagelift::Error> {
    let id = builder.pool(pool.spec())?;
    let landing = if pool.memory == Memory::Host { Landing::Host } else { Landing::Device };
    let (name, layers) = (pool.name.into(), pool.layers);
    match &pool.layout {
        Layout::Paged(layout) => {
            let lift = if pages.is_some() { PagedLift::Tail } else { PagedLift::None };
            let (mut host, mut device) = sides(pool.memory, side(pool, id, layout.clone()));
            if let Some(pages) = pages {
                let id = builder.pool(pages.spec())?;
                device = Some(side(pages, id, layout.clone()));
            }
            let key = builder.group(GroupSpec::<Paged> {
                name,
                layers,
                landing,
                lift,
                host: host.take(),
                device: device.take(),
            })?;
            Ok((key.id(), pages.map(|_| key)))
        }
        Layout::State(layout) => {
            let (host, device) = sides(pool.memory, side(pool, id, layout.clone()));
            let lift = StateLift::None;
            let key = builder.group(GroupSpec::<State> { name, layers, landing, lift, host, device })?;
            Ok((key.id(), None))
        }
    }
}

fn side<L>(pool: &Pool, id: pagelift::id::PoolId, layout: L) -> SideSpec<L> {
    let (extents, layers, stride) = pool.places();
    SideSpec::packed(id, &extents, &layers, stride, layout)
}

fn sides<L>(memory: Memory, side: SideSpec<L>) -> (Option<SideSpec<L>>, Option<SideSpec<L>>) {
    match memory {
        Memory::Host => (Some(side), None),
        Memory::Device => (None, Some(side)),
    }
}

/// What is said of a group: its rows are bytes.
fn facts(geometry: &Geometry, pool: &Pool, id: GroupId, spec: &Spec) -> GroupFacts {
    let mut facts = GroupFacts::new(pool.name, pool.memory).on_device(spec.place.gpu().unwrap_or(0).into());
    let view = geometry.side_view(id, pool.memory);
    for segment in view.map(|view| view.segments()).unwrap_or_default() {
        facts = facts.segment(segment.name(), Element::U8, &[segment.row_bytes()]);
    }
    facts
}
