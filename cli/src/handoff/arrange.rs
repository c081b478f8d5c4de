//! How P keeps what D's manifest imports: another manifest, in which every group lands on the device, arranged otherwise.
//!
//! Pools are of other sizes and orders, with other padding and extents; pages have fewer tokens where they are dense; heads lie
//! otherwise, and rows further apart, where that does not make an import of too many pieces. Groups that share a slab of D share
//! one of P. All of it follows from a seed.

use std::collections::BTreeMap;
use std::path::Path;

use pagelift_transport::plan::BlockTable;
use serde_json::{Map, Value, json};

use super::error::HandoffError;
use super::facts::{Exchanged, side_of};
use crate::manifest::{
    Draft, Family, Group, HeadOrder, KvRegions, LayerOrder, Lift, Manifest, Memory, PoolOrder, Side,
    SplitMix64, Word, mix,
};
use crate::restore::{RestoreError, block_tokens};

/// P's side of all groups.
#[derive(Debug)]
pub struct Arranged {
    pub draft: Draft,
    /// By group: pages of a block.
    splits: Vec<u32>,
}

/// The most pieces of an import whose rows lie apart.
const MOST_PIECES: u64 = 40_000;

/// What P decides for a group.
struct Choice {
    pool: String,
    first_layer: u32,
    layer_order: LayerOrder,
    row_padding: u32,
    head_order: HeadOrder,
    kv_regions: KvRegions,
    split: u32,
}

/// A pool of P, as it grows.
struct Slab {
    layers: u32,
    order: PoolOrder,
    page_bytes: u64,
    block_padding: u64,
    /// Blocks of all of its groups.
    needed: u32,
    split: u32,
    extents: u32,
    /// Blocks in the order in which they are given away.
    ids: Vec<u32>,
}

impl Arranged {
    /// Arranges what the manifest in `text` imports, and where all of that lands on the device, in the blocks of that.
    pub fn new(
        (manifest, on_device): (&Manifest, bool),
        text: &[u8],
        path: &Path,
        seed: u64,
    ) -> Result<Self, HandoffError> {
        let refused = |error: &dyn std::fmt::Display| HandoffError::Arrangement(error.to_string());
        let mut root: Map<String, Value> = serde_json::from_slice(text).map_err(|error| refused(&error))?;
        let mut slabs = BTreeMap::new();
        let mut choices = Vec::new();
        for group in manifest.groups() {
            let Some(side) = side_of(group, on_device) else { continue };
            let mut random = SplitMix64::new(mix(seed ^ ((group.index as u64) << 32)));
            choices.push(choose((manifest, on_device), group, side, &mut slabs, &mut random));
        }
        for (number, slab) in (0_u64..).zip(slabs.values_mut()) {
            slab.deal(&mut SplitMix64::new(mix(seed ^ (number << 16))));
        }
        let specs = root.get("groups").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut groups = Vec::new();
        for ((spec, group), choice) in specs.iter().zip(manifest.groups()).zip(&choices) {
            let Some(side) = side_of(group, on_device) else { continue };
            groups.push(choice.group(manifest, group, side, (spec, &mut slabs)));
        }
        root.insert("groups".into(), groups.into());
        root.insert("pools".into(), slabs.iter().map(|(name, slab)| slab.pool(name)).collect());
        let text = serde_json::to_vec(&root).map_err(|error| refused(&error))?;
        let draft = Draft::parse(&text, path).map_err(|error| refused(&error))?;
        Ok(Self { draft, splits: choices.iter().map(|choice| choice.split).collect() })
    }

    /// P's side of each group, in the blocks that D's lists have.
    pub fn exchanged<'m>(splits: &[u32], manifest: &'m Manifest) -> Vec<Exchanged<'m>> {
        let own = manifest.groups().iter().zip(splits);
        own.filter_map(|(group, split)| {
            let side = group.landing_side()?;
            Some(Exchanged { group, side, block_tokens: side.page_tokens.saturating_mul(*split) })
        })
        .collect()
    }

    pub fn splits(&self) -> &[u32] {
        &self.splits
    }
}

/// D's manifest, whose device pools have room for all pages of the import, and for those that follow.
pub fn with_pages(draft: Draft, path: &Path) -> Result<Draft, HandoffError> {
    let refused = |error: &dyn std::fmt::Display| HandoffError::Arrangement(error.to_string());
    let manifest = draft.assign().map_err(RestoreError::from)?;
    let text = std::fs::read(path).map_err(|error| refused(&error))?;
    let mut root: Value = serde_json::from_slice(&text).map_err(|error| refused(&error))?;
    let mut more = vec![0_u64; manifest.pools().len()];
    for group in manifest.groups().iter().filter(|group| group.lift == Lift::Tail) {
        let Some(side) = &group.device else { continue };
        let all = block_tokens(&manifest) / u64::from(side.page_tokens.max(1));
        let pages = (manifest.span().resume_at / block_tokens(&manifest) + 1).saturating_mul(all);
        if let Some(more) = more.get_mut(side.pool.index) {
            *more = more.saturating_add(pages);
        }
    }
    let pools = root.get_mut("pools").and_then(Value::as_array_mut).into_iter().flatten();
    for ((pool, more), own) in pools.zip(more).zip(manifest.pools()) {
        let extent = u64::from(own.blocks_per_extent);
        pool["blocks"] = (u64::from(own.blocks) + more.next_multiple_of(extent)).into();
        pool["blocks_per_extent"] = extent.into();
    }
    let text = serde_json::to_vec(&root).map_err(|error| refused(&error))?;
    Ok(Draft::parse(&text, path).map_err(RestoreError::from)?)
}

/// The blocks of a group's export, from the first on, of which each is so many pages.
pub fn table(exchanged: &Exchanged<'_>, imported: u64, state: Option<u32>) -> (BlockTable, Vec<Vec<u32>>) {
    let Exchanged { group, side, block_tokens } = exchanged;
    match group.shape.family {
        Family::Tokens { .. } => {
            let split = usize::try_from(block_tokens / side.page_tokens.max(1)).unwrap_or(1).max(1);
            let blocks = usize::try_from(imported.div_ceil(u64::from(*block_tokens).max(1))).unwrap_or(0);
            let pages: Vec<Vec<u32>> = side.blocks.chunks(split).take(blocks).map(<[u32]>::to_vec).collect();
            let first = |pages: &Vec<u32>| pages.first().map_or(0, |page| page / split as u32);
            (BlockTable::from_first(&pages.iter().map(first).collect::<Vec<_>>()), pages)
        }
        Family::Ring | Family::State => {
            let position = if group.shape.family == Family::Ring { Some(0) } else { state };
            let (Some(position), Some(block)) = (position, side.blocks.first()) else {
                return (BlockTable::default(), Vec::new());
            };
            (BlockTable::at(position, vec![Some(*block)]), vec![vec![*block]])
        }
    }
}

fn choose(
    (manifest, on_device): (&Manifest, bool),
    group: &Group,
    side: &Side,
    slabs: &mut BTreeMap<String, Slab>,
    random: &mut SplitMix64,
) -> Choice {
    let shape = &group.shape;
    let tokens = matches!(shape.family, Family::Tokens { .. });
    let blocks = blocks(manifest, group, side);
    let sharing =
        |other: &&Group| side_of(other, on_device).is_some_and(|own| own.pool.index == side.pool.index);
    let alone = manifest.groups().iter().filter(sharing).count() == 1;
    let flip = |random: &mut SplitMix64| random.below(2) == 1;
    let order = match side.pool.order {
        PoolOrder::LayersOutermost => PoolOrder::BlocksOutermost,
        PoolOrder::BlocksOutermost => PoolOrder::LayersOutermost,
    };
    let layer_order = if flip(random) { LayerOrder::Forward } else { LayerOrder::Reversed };
    let padding = u64::from(order == PoolOrder::BlocksOutermost) * 64 * (random.below(3) as u64);
    let slab = |layers, page_bytes, split| Slab {
        layers,
        order,
        page_bytes,
        block_padding: padding,
        needed: 0,
        split,
        extents: 1 + blocks.min(3) / 2,
        ids: Vec::new(),
    };
    if !alone {
        // As D's, but for the order: what is in it besides has its own size.
        let pool = format!("slab of {}", side.pool.name);
        let own = slabs.entry(pool.clone());
        let own = own.or_insert_with(|| slab(side.pool.layers, side.pool.page_bytes, 1));
        own.needed = own.needed.saturating_add(blocks);
        return Choice {
            pool,
            first_layer: side.first_layer,
            layer_order,
            row_padding: 0,
            head_order: side.head_order,
            kv_regions: side.kv_regions,
            split: 1,
        };
    }
    let rows = u64::from(blocks) * u64::from(side.rows) * u64::from(group.layers);
    let few = rows.saturating_mul(shape.segments.len() as u64) <= MOST_PIECES;
    let dense = shape.is_dense();
    let row_padding = if few && tokens && !dense && random.below(3) == 0 { 4 } else { 0 };
    let head_order = match side.head_order {
        HeadOrder::Nhd if dense && few && flip(random) => HeadOrder::Hnd,
        HeadOrder::Hnd if dense && few && flip(random) => HeadOrder::Nhd,
        same => same,
    };
    let kv_regions = match flip(random) {
        true if dense => KvRegions::Two,
        _ => KvRegions::One,
    };
    let split = match (tokens && row_padding == 0 && shape.page_multiple == 1, random.below(3)) {
        (true, power) => splits(group, side, 1 << power),
        (false, _) => 1,
    };
    let rows = side.rows / split;
    // Of a split block all bytes are rows'.
    let more = if split == 1 { 16 * (random.below(3) as u64) * u64::from(shape.page_multiple) } else { 0 };
    let page_bytes = shape.page_bytes(rows, row_padding, kv_regions).saturating_add(more);
    let pool = format!("pool of {}", group.name);
    let own = slabs.entry(pool.clone());
    own.or_insert_with(|| slab(group.layers.saturating_mul(kv_regions.count()), page_bytes, split)).needed =
        blocks;
    Choice { pool, first_layer: 0, layer_order, row_padding, head_order, kv_regions, split }
}

/// Into how many pages a block may be cut, at most `wanted`.
fn splits(group: &Group, side: &Side, wanted: u32) -> u32 {
    let fits = |split: u32| {
        let tokens = side.page_tokens / split;
        side.page_tokens.is_multiple_of(split) && group.shape.rows_of(tokens).is_some_and(|rows| rows > 0)
    };
    [wanted, wanted / 2, 1].into_iter().find(|split| *split > 0 && fits(*split)).unwrap_or(1)
}

/// Blocks of the import, of D's size, up to the one that is written next.
fn blocks(manifest: &Manifest, group: &Group, side: &Side) -> u32 {
    match group.shape.family {
        Family::Tokens { .. } => {
            u32::try_from(manifest.span().resume_at / u64::from(side.page_tokens)).unwrap_or(u32::MAX - 1) + 1
        }
        Family::Ring | Family::State => 1,
    }
}

impl Slab {
    /// Rounds its blocks up to whole extents, with some that nobody uses, and puts them in some order.
    fn deal(&mut self, random: &mut SplitMix64) {
        let blocks = self.needed.saturating_add(self.needed / 16).saturating_add(2);
        self.ids = (0..blocks.next_multiple_of(self.extents)).collect();
        for last in (1..self.ids.len()).rev() {
            self.ids.swap(last, random.below(last + 1));
        }
        self.needed = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
    }

    fn pool(&self, name: &str) -> Value {
        let blocks = self.needed.saturating_mul(self.split);
        json!({
            "name": name,
            "memory": Memory::Device.name(),
            "order": self.order.name(),
            "layers": self.layers,
            "blocks": blocks,
            "blocks_per_extent": blocks / self.extents,
            "page_bytes": self.page_bytes,
            "block_padding": self.block_padding,
        })
    }
}

impl Choice {
    fn group(
        &self,
        manifest: &Manifest,
        group: &Group,
        side: &Side,
        (spec, slabs): (&Value, &mut BTreeMap<String, Slab>),
    ) -> Value {
        let count = blocks(manifest, group, side) as usize;
        let ids =
            slabs.get_mut(&self.pool).map(|slab| slab.ids.split_off(slab.ids.len().saturating_sub(count)));
        let pages = ids.unwrap_or_default().into_iter().flat_map(|block| {
            (0..self.split).map(move |page| block.saturating_mul(self.split).saturating_add(page))
        });
        let mut pages: Vec<u32> = pages.collect();
        let mut device = json!({
            "pool": self.pool,
            "first_layer": self.first_layer,
            "layer_order": self.layer_order.name(),
            "row_padding": self.row_padding,
        });
        let fields = device.as_object_mut();
        if let Some(fields) = fields {
            if group.shape.is_dense() {
                fields.insert("head_order".into(), self.head_order.name().into());
                fields.insert("kv_regions".into(), self.kv_regions.name().into());
            }
            if matches!(group.shape.family, Family::Tokens { .. }) {
                let page_tokens = side.page_tokens / self.split;
                // Up to the page that is written next, and no more.
                let listed = manifest.span().resume_at / u64::from(page_tokens.max(1)) + 1;
                pages.truncate(usize::try_from(listed).unwrap_or(usize::MAX));
                fields.insert("page_tokens".into(), page_tokens.into());
            }
            fields.insert("blocks".into(), json!({ "list": pages }));
        }
        json!({
            "name": group.name,
            "layers": group.layers,
            "layout": spec.get("layout").cloned().unwrap_or_default(),
            "landing": "gpu",
            "lift": "none",
            "device": device,
        })
    }
}
