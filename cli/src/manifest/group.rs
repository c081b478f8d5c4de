//! Which landing, lift and mirror go together, and how many blocks they take.

use std::sync::Arc;

use super::error::{At, Located, Problem};
use super::format::{
    GroupSpec, HeadOrder, KvRegions, Landing, LayerOrder, LayoutSpec, Lift, Memory, SideSpec,
};
use super::layout::{Context, Family, Shape};
use super::pool::Pool;
use super::span::Span;

/// Layers that share one geometry and one block table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its number: the position in [`Manifest::groups`](super::Manifest::groups).
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Layers; at least 1.
    pub layers: u32,
    /// The name and fields of its layout.
    pub layout: LayoutSpec,
    /// What a page of one layer holds: what stands behind the layout's name.
    pub shape: Shape,
    /// Where imported blocks arrive.
    pub landing: Landing,
    /// What is lifted of a host-landed group.
    pub lift: Lift,
    /// Whether rows that a step writes are mirrored to the host, or the state's page is checkpointed there.
    pub mirror: bool,
    /// Where it lies in host memory, if anywhere.
    pub host: Option<Side>,
    /// Where it lies on the GPU, if anywhere.
    pub device: Option<Side>,
}

/// A group's place in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The pool.
    pub pool: Arc<Pool>,
    /// The pool's layer where the group begins.
    pub first_layer: u32,
    /// How the group's layers follow each other from there.
    pub layer_order: LayerOrder,
    /// Bytes after each row of every segment.
    pub row_padding: u32,
    /// How the heads of a dense cache lie.
    pub head_order: HeadOrder,
    /// Where K and V of a dense cache lie.
    pub kv_regions: KvRegions,
    /// The ids that the import uses, by position: see `Manifest::load`.
    pub blocks: Vec<u32>,
}

impl Group {
    /// The side in this memory, if the group has one.
    #[must_use]
    pub fn side(&self, memory: Memory) -> Option<&Side> {
        match memory {
            Memory::Host => self.host.as_ref(),
            Memory::Device => self.device.as_ref(),
        }
    }

    /// Host blocks, by position; none without a host side.
    #[must_use]
    pub fn host_blocks(&self) -> &[u32] {
        self.host.as_ref().map_or(&[], |side| &side.blocks)
    }

    /// Device pages: from position 0 on if everything is on the GPU, otherwise only the writable page.
    #[must_use]
    pub fn device_pages(&self) -> &[u32] {
        self.device.as_ref().map_or(&[], |side| &side.blocks)
    }

    /// Blocks that the producer hands over.
    #[must_use]
    pub fn received_blocks(&self, span: &Span) -> u64 {
        match self.shape.family {
            Family::Tokens { .. } => span.received_blocks(),
            Family::Ring | Family::State => 1,
        }
    }

    /// Imported rows of the writable page: those an exact lift copies. A row of several tokens counts once all of
    /// them are there; rings and states are whole or nothing.
    #[must_use]
    pub fn tail_rows(&self, span: &Span) -> u32 {
        let rows = match self.shape.family {
            Family::Tokens { tokens_per_row } => {
                let complete = span.imported_tokens / u64::from(tokens_per_row.max(1));
                complete.saturating_sub(span.tail_page().saturating_mul(self.shape.rows.into()))
            }
            Family::Ring | Family::State => self.shape.rows.into(),
        };
        u32::try_from(rows).map_or(self.shape.rows, |rows| rows.min(self.shape.rows))
    }

    /// Checks a group, all but its block lists, which stay empty.
    pub(super) fn check(
        index: usize,
        spec: &GroupSpec,
        place: &str,
        pools: &[Arc<Pool>],
        context: Context,
    ) -> Result<Self, Located> {
        let shape = spec.layout.shape(context, &format!("{place}.layout"))?;
        let side = |spec_side: &Option<SideSpec>, memory: Memory| {
            let check =
                |side| Side::check(side, memory, spec.layers, &shape, pools, &format!("{place}.{memory}"));
            spec_side.as_ref().map(check).transpose()
        };
        let host = side(&spec.host, Memory::Host)?;
        let device = side(&spec.device, Memory::Device)?;
        let group = Self {
            index,
            name: spec.name.clone(),
            layers: spec.layers,
            layout: spec.layout.clone(),
            shape,
            landing: spec.landing,
            lift: spec.lift,
            mirror: spec.mirror,
            host,
            device,
        };
        group.check_lift().at(format!("{place}.lift"))?;
        group.check_mirror().at(format!("{place}.mirror"))?;
        group.check_sides().at(place)?;
        Ok(group)
    }

    fn check_lift(&self) -> Result<(), Problem> {
        let found = self.lift;
        let (family, allowed) = match self.shape.family {
            Family::Tokens { .. } => ("token rows", "`tail`, `all` or `none`"),
            Family::Ring => ("ring slots", "`state` or `none`"),
            Family::State => ("a state", "`state` or `none`"),
        };
        let tokens = matches!(self.shape.family, Family::Tokens { .. });
        let fits = match found {
            Lift::Tail | Lift::All => tokens,
            Lift::State => !tokens,
            Lift::None => true,
        };
        if !fits {
            Err(Problem::WrongLift { family, allowed, found })
        } else if self.landing == Landing::Gpu && found != Lift::None {
            Err(Problem::LiftOfLanded { found })
        } else {
            Ok(())
        }
    }

    fn check_mirror(&self) -> Result<(), Problem> {
        let lifted = self.lift != Lift::None;
        let on_gpu = self.landing == Landing::Gpu || lifted;
        match self.shape.family {
            _ if !self.mirror => Ok(()),
            Family::State if !on_gpu => Err(Problem::MirrorOfNothing),
            // A checkpoint copies the whole page, so it does not matter where the state came from.
            Family::State => Ok(()),
            Family::Tokens { .. } | Family::Ring if !lifted => Err(Problem::MirrorOfPart),
            Family::Tokens { .. } | Family::Ring => Ok(()),
        }
    }

    fn check_sides(&self) -> Result<(), Problem> {
        let need = |side: Memory, why| match self.side(side) {
            Some(_) => Ok(()),
            None => Err(Problem::MissingSide { side, why }),
        };
        match self.landing {
            Landing::Host => need(Memory::Host, "landing `host`")?,
            Landing::Gpu => need(Memory::Device, "landing `gpu`")?,
        }
        if self.lift != Lift::None {
            need(Memory::Device, "a lift")?;
        }
        if self.mirror {
            need(Memory::Host, "a mirror")?;
        }
        Ok(())
    }

    /// How many host blocks the import needs, and why.
    pub(super) fn host_blocks_needed(&self, span: &Span) -> (u64, &'static str) {
        let on_host = self.landing == Landing::Host || self.mirror;
        match self.shape.family {
            _ if !on_host => (0, "it lands on the GPU and is not mirrored"),
            Family::Tokens { .. } => {
                (span.pages(), "every block up to the one that the writable page completes")
            }
            Family::Ring | Family::State => (1, "one for the request"),
        }
    }

    /// How many device pages the import needs, and why.
    pub(super) fn device_pages_needed(&self, span: &Span) -> (u64, &'static str) {
        match (self.shape.family, self.landing, self.lift) {
            (_, Landing::Host, Lift::None) => (0, "it lands on the host and is not lifted"),
            (Family::Ring | Family::State, ..) => (1, "one for the request"),
            (Family::Tokens { .. }, Landing::Host, Lift::Tail) => (1, "the writable page"),
            (Family::Tokens { .. }, ..) => (span.pages(), "every page up to the writable one"),
        }
    }
}

impl Side {
    fn check(
        spec: &SideSpec,
        memory: Memory,
        layers: u32,
        shape: &Shape,
        pools: &[Arc<Pool>],
        place: &str,
    ) -> Result<Self, Located> {
        let unknown = || Problem::UnknownPool {
            name: spec.pool.clone(),
            known: pools.iter().map(|pool| pool.name.clone()).collect(),
        };
        let pool = pools
            .iter()
            .find(|pool| pool.name == spec.pool)
            .ok_or_else(unknown)
            .at(format!("{place}.pool"))?;
        if pool.memory != memory {
            let problem =
                Problem::WrongMemory { pool: pool.name.clone(), expected: memory, found: pool.memory };
            return Err(problem).at(format!("{place}.pool"));
        }
        let (head_order, kv_regions) = spec.check_heads(shape, place)?;
        // Two numbers of at most 17 bits.
        let (first_layer, layers) = (spec.first_layer, layers.saturating_mul(kv_regions.count()));
        if first_layer.checked_add(layers).is_none_or(|end| end > pool.layers) {
            let (pool, found) = (pool.name.clone(), pool.layers);
            let problem = Problem::LayersOutOfRange { pool, first_layer, layers, found };
            return Err(problem).at(format!("{place}.first_layer"));
        }
        if spec.row_padding > 0 && shape.family == Family::State {
            return Err(Problem::PaddingOfState).at(format!("{place}.row_padding"));
        }
        if spec.row_padding > 0 && shape.is_dense() {
            return Err(Problem::PaddingOfHeads).at(format!("{place}.row_padding"));
        }
        let needed = shape.page_bytes(spec.row_padding, kv_regions);
        if needed > pool.page_bytes {
            let (pool, page_bytes) = (pool.name.clone(), pool.page_bytes);
            return Err(Problem::PageTooSmall { needed, pool, page_bytes }).at(place);
        }
        Ok(Self {
            pool: Arc::clone(pool),
            first_layer,
            layer_order: spec.layer_order,
            row_padding: spec.row_padding,
            head_order,
            kv_regions,
            blocks: Vec::new(),
        })
    }
}

impl SideSpec {
    /// How heads lie, which only a dense cache may say.
    fn check_heads(&self, shape: &Shape, place: &str) -> Result<(HeadOrder, KvRegions), Located> {
        let said = [("head_order", self.head_order.is_some()), ("kv_regions", self.kv_regions.is_some())];
        match said.iter().find(|(_, said)| *said && !shape.is_dense()) {
            Some((field, _)) => Err(Problem::NoHeads { field }).at(format!("{place}.{field}")),
            None => Ok((self.head_order.unwrap_or_default(), self.kv_regions.unwrap_or_default())),
        }
    }
}
