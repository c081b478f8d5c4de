//! Which landing, lift and mirror go together, and how many blocks they take.

use std::sync::Arc;

use super::error::{At, Located, Problem};
use super::format::{
    GroupSpec, HeadOrder, KvRegions, Landing, LayerOrder, LayoutSpec, Lift, Memory, SideSpec,
};
use super::layout::{Context, Family, Shape};
use super::limits;
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
    /// Tokens of a block or page here; of token rows only.
    pub page_tokens: u32,
    /// Rows of each segment in a block or page here; at least 1.
    pub rows: u32,
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

    /// Blocks that the producer hands over, in the size that they have on a side.
    #[must_use]
    pub fn received_blocks(&self, side: &Side, span: &Span) -> u64 {
        match self.shape.family {
            Family::Tokens { .. } => span.in_blocks_of(side.page_tokens).received_blocks(),
            Family::Ring | Family::State => 1,
        }
    }

    /// The side where imported blocks arrive.
    #[must_use]
    pub fn landing_side(&self) -> Option<&Side> {
        match self.landing {
            Landing::Host => self.host.as_ref(),
            Landing::Gpu => self.device.as_ref(),
        }
    }

    /// The position in the request of the first of the group's device pages: that of the last block's first row, where
    /// only the tail is lifted.
    #[must_use]
    pub fn first_page(&self, span: &Span) -> u64 {
        let (Some(device), Lift::Tail) = (&self.device, self.lift) else { return 0 };
        let tail_block = span.tail_page().saturating_mul(span.block_tokens.into());
        // Pages of more tokens than a block begin before it.
        (tail_block / u64::from(device.page_tokens)).min(span.in_blocks_of(device.page_tokens).tail_page())
    }

    /// Into how many parts the larger of a block and a page is cut, so that they pair with the smaller one.
    #[must_use]
    pub fn parts(&self) -> u32 {
        let (Some(host), Some(device)) = (&self.host, &self.device) else { return 1 };
        // Each divides the other, or is divided by it.
        (host.rows / device.rows).max(device.rows / host.rows)
    }

    /// Rows of the request whose tokens are all imported: those an exact lift copies. Rings and states are whole.
    #[must_use]
    pub fn imported_rows(&self, span: &Span) -> u64 {
        match self.shape.family {
            Family::Tokens { tokens_per_row } => span.imported_tokens / u64::from(tokens_per_row.max(1)),
            Family::Ring | Family::State => self.shape.rows.into(),
        }
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
            let check = |side| {
                let asked = Asked { memory, layers: spec.layers, shape: &shape, context, pools };
                Side::check(side, asked, &format!("{place}.{memory}"))
            };
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
            (Family::Tokens { .. }, _, lift) => {
                let pages = self.device.as_ref().map(|side| span.in_blocks_of(side.page_tokens).pages());
                let needed = pages.unwrap_or(0).saturating_sub(self.first_page(span));
                match (lift, needed) {
                    (Lift::Tail, 1) => (1, "the writable page"),
                    (Lift::Tail, _) => (needed, "the last block's pages, up to the writable one"),
                    _ => (needed, "every page up to the writable one"),
                }
            }
        }
    }
}

/// What a side is checked against.
struct Asked<'a> {
    memory: Memory,
    layers: u32,
    shape: &'a Shape,
    context: Context,
    pools: &'a [Arc<Pool>],
}

impl Side {
    fn check(spec: &SideSpec, asked: Asked<'_>, place: &str) -> Result<Self, Located> {
        let Asked { memory, layers, shape, context, pools } = asked;
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
            let apart = kv_regions.count() > 1;
            let problem = Problem::LayersOutOfRange { pool, first_layer, layers, apart, found };
            return Err(problem).at(format!("{place}.first_layer"));
        }
        if spec.row_padding > 0 && shape.family == Family::State {
            return Err(Problem::PaddingOfState).at(format!("{place}.row_padding"));
        }
        if spec.row_padding > 0 && shape.is_dense() {
            return Err(Problem::PaddingOfHeads).at(format!("{place}.row_padding"));
        }
        let (page_tokens, rows) = spec.check_tokens(memory, shape, context, place)?;
        let needed = shape.page_bytes(rows, spec.row_padding, kv_regions);
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
            page_tokens,
            rows,
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

    /// Tokens and rows of a page: as many as a block has, unless the side says otherwise of token rows on the GPU.
    fn check_tokens(
        &self,
        memory: Memory,
        shape: &Shape,
        context: Context,
        place: &str,
    ) -> Result<(u32, u32), Located> {
        let block_tokens = context.block_tokens;
        let Some(page_tokens) = self.page_tokens else { return Ok((block_tokens, shape.rows)) };
        let tokens = matches!(shape.family, Family::Tokens { .. });
        let (low, high) = (page_tokens.min(block_tokens), page_tokens.max(block_tokens));
        let parts = high / low;
        let paired = high.is_multiple_of(low) && parts.is_power_of_two() && parts <= limits::PARTS;
        let rows = shape.rows_of(page_tokens).filter(|_| paired);
        let problem = match rows {
            _ if memory == Memory::Host || !tokens => Problem::PageTokensOfOthers,
            Some(rows) => return Ok((page_tokens, rows)),
            None => Problem::UnpairedTokens { page_tokens, block_tokens },
        };
        Err(problem).at(format!("{place}.page_tokens"))
    }
}
