//! The region map: where a side's blocks lie. P and D differ in it by construction, so it is never compared.
//!
//! It comes from a peer, so all of it is checked before an address is worked out: what passes [`RegionMap::check`] names
//! no byte outside of the memory that it lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagelift_planner::geometry::{Geometry, Memory, Region};
use serde::{Deserialize, Serialize};

use crate::error::{RegionError, SchemaError};
use crate::facts::{Exchange, GroupFacts};
use crate::schema::{self, GroupSchema, PayloadSchema};

/// The most bases of a group, and ranges of memory, that are taken from a peer.
pub const MOST_ENTRIES: usize = 1 << 20;

/// Where the blocks of all exchanged groups lie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionMap {
    /// The memory to register: each range once, even where groups share it; sorted, and no byte twice.
    pub memory: Vec<MemoryRange>,
    /// By the names of the groups.
    pub groups: BTreeMap<Arc<str>, GroupRegions>,
}

/// A range of memory, by the addresses of the process that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryRange {
    /// Which memory.
    pub memory: Memory,
    /// The GPU; 0 in host memory.
    pub device: u64,
    /// Its first address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

impl MemoryRange {
    /// One past its last address, if that fits.
    const fn end(&self) -> Option<u64> {
        self.address.checked_add(self.bytes)
    }

    /// What ranges are sorted by.
    const fn place(&self) -> (Memory, u64, u64) {
        (self.memory, self.device, self.address)
    }
}

/// Where the blocks of one group lie, a page of a pool each or several.
///
/// Region `r` of page `p` of layer `l` begins at `base(l, r, p / pages_per_extent) + (p % pages_per_extent) · page_stride`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRegions {
    /// The pool that its pages are numbered in. Groups of one pool share its pages.
    pub pool: Arc<str>,
    /// The memory that it lies in.
    pub memory: Memory,
    /// The GPU; 0 in host memory.
    pub device: u64,
    /// Pages of the pool.
    pub pages: u32,
    /// Pages of one extent.
    pub pages_per_extent: u32,
    /// Pages of a block: block `b` is pages `b · pages_per_block` and those after it. More than 1 of dense pages only.
    pub pages_per_block: u32,
    /// Rows of a page; 1 for states.
    pub rows: u32,
    /// Bytes from one page of a layer to the next.
    pub page_stride: u64,
    /// Bytes of each region of a page, padding included.
    pub region_bytes: Vec<u64>,
    /// Where the first page of each layer, region and extent begins: `[layer][region][extent]`.
    pub bases: Vec<u64>,
    /// Where the rows of each segment lie in a page, by its name.
    pub segments: BTreeMap<Arc<str>, Place>,
}

/// Where the rows of a segment lie in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The region of the page.
    pub region: u32,
    /// Bytes from the region's start to row 0.
    pub offset: u64,
    /// Bytes from one row to the next.
    pub row_stride: u64,
}

impl RegionMap {
    /// The map of the groups that `facts` names. `address` gives the address by which this process, and so a transport,
    /// reaches a region of a pool: for memory of a GPU, and for most pinned memory, that is [`Region::address`].
    ///
    /// # Errors
    /// As [`PayloadSchema::of`], and where a region's address is too large.
    pub fn of(
        geometry: &Geometry,
        exchange: &Exchange,
        facts: &[GroupFacts],
        address: impl Fn(Region) -> u64,
    ) -> Result<Self, RegionError> {
        let (mut memory, mut groups) = (Vec::new(), BTreeMap::new());
        for own in facts {
            let (group, side) = schema::side(geometry, own)?;
            let pool = side.pool();
            let reached = own.reached();
            let device = if reached == Memory::Host { 0 } else { own.device };
            let range = |region: &Region| MemoryRange {
                memory: reached,
                device,
                address: address(*region),
                bytes: region.bytes(),
            };
            memory.extend(pool.regions().iter().map(range));
            let outside = || RegionError::Outside { group: own.name.clone(), what: "a base" };
            let base = |&base: &u64| {
                let region = pool.regions().iter().find(|region| region.holds(base, base));
                let region = region.ok_or_else(outside)?;
                let inside = base.checked_sub(region.address()).ok_or_else(outside)?;
                inside.checked_add(address(*region)).ok_or_else(outside)
            };
            let place = |segment: &pagelift_planner::layout::Segment| {
                let place = Place {
                    region: segment.region(),
                    offset: segment.offset(),
                    row_stride: segment.row_stride().into(),
                };
                (Arc::from(segment.name()), place)
            };
            let regions = GroupRegions {
                pool: pool.name().into(),
                memory: reached,
                device,
                pages: pool.blocks(),
                pages_per_extent: pool.blocks_per_extent(),
                pages_per_block: schema::pages_per_block(group.kind(), exchange, side, own)?,
                rows: side.rows().get(),
                page_stride: side.block_stride(),
                region_bytes: side.region_bytes().to_vec(),
                bases: side.bases().iter().map(base).collect::<Result<_, RegionError>>()?,
                segments: side.segments().iter().map(place).collect(),
            };
            groups.insert(own.name.clone(), regions);
        }
        Ok(Self { memory: once(memory), groups })
    }

    /// Refuses a map that does not fit the schema, or names a byte outside of its memory.
    ///
    /// # Errors
    /// What does not fit, and of which group.
    pub fn check(&self, schema: &PayloadSchema) -> Result<(), RegionError> {
        if self.memory.len() > MOST_ENTRIES {
            let (found, most) = (self.memory.len(), MOST_ENTRIES);
            return Err(RegionError::TooMany { what: "ranges of memory", found, most });
        }
        let mut neighbours = self.memory.iter().zip(self.memory.iter().skip(1));
        let apart = neighbours.all(|(low, high)| {
            (low.memory, low.device) < (high.memory, high.device)
                || (low.memory, low.device) == (high.memory, high.device)
                    && low.end().is_some_and(|end| end <= high.address)
        });
        if !apart || self.memory.iter().any(|range| range.bytes == 0 || range.end().is_none()) {
            return Err(RegionError::Ranges);
        }
        let named = schema.groups.keys().find(|name| !self.groups.contains_key(*name));
        let named = named.or_else(|| self.groups.keys().find(|name| !schema.groups.contains_key(*name)));
        if let Some(group) = named {
            return Err(RegionError::Unpaired { group: group.clone() });
        }
        for (name, group) in &self.groups {
            let Some(own) = schema.groups.get(name) else { continue };
            group.check(name, own, &self.memory)?;
        }
        Ok(())
    }

    /// The memory that all groups lie in.
    ///
    /// # Errors
    /// [`RegionError::MixedMemory`] with two groups that lie in different ones: such an engine cannot be read from.
    pub fn one_memory(&self) -> Result<Option<Memory>, RegionError> {
        let mut groups = self.groups.iter();
        let Some((first, own)) = groups.next() else { return Ok(None) };
        match groups.find(|(_, group)| group.memory != own.memory) {
            None => Ok(Some(own.memory)),
            Some((second, other)) => Err(RegionError::MixedMemory {
                first: first.clone(),
                first_memory: own.memory.name(),
                second: second.clone(),
                second_memory: other.memory.name(),
            }),
        }
    }
}

/// Each range once, and those that share bytes as one: memory that is registered twice is an error of some transports and
/// a waste in all.
fn once(mut ranges: Vec<MemoryRange>) -> Vec<MemoryRange> {
    ranges.sort_unstable();
    let mut kept: Vec<MemoryRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let end = range.address.saturating_add(range.bytes);
        match kept.last_mut() {
            Some(last)
                if (last.memory, last.device) == (range.memory, range.device)
                    && last.address.saturating_add(last.bytes) > range.address =>
            {
                last.bytes = last.bytes.max(end.saturating_sub(last.address));
            }
            _ => kept.push(range),
        }
    }
    kept
}

impl GroupRegions {
    /// Extents of the pool.
    #[must_use]
    pub fn extents(&self) -> u32 {
        self.pages
            .checked_div(self.pages_per_extent)
            .map_or(0, |_| self.pages.div_ceil(self.pages_per_extent))
    }

    /// Whether a page has no byte but those of its rows, so that several of them make a block.
    #[must_use]
    pub fn is_dense(&self, schema: &GroupSchema) -> bool {
        let bytes = self.region_bytes.iter().try_fold(0_u64, |sum, &bytes| sum.checked_add(bytes));
        bytes.is_some() && schema.row_bytes().checked_mul(self.rows.into()) == bytes
    }

    /// Where a page's region begins, if there are such a layer, region and page, and the address fits.
    #[must_use]
    pub fn region_address(&self, layer: u32, region: u32, page: u32) -> Option<u64> {
        let regions = u32::try_from(self.region_bytes.len()).ok()?;
        let extent = page.checked_div(self.pages_per_extent)?;
        if region >= regions || page >= self.pages {
            return None;
        }
        let row = u64::from(layer).checked_mul(regions.into())?.checked_add(region.into())?;
        let index = row.checked_mul(self.extents().into())?.checked_add(extent.into())?;
        let base = self.bases.get(usize::try_from(index).ok()?)?;
        let inside = page.checked_rem(self.pages_per_extent)?;
        u64::from(inside).checked_mul(self.page_stride)?.checked_add(*base)
    }

    fn check(
        &self,
        name: &Arc<str>,
        schema: &GroupSchema,
        memory: &[MemoryRange],
    ) -> Result<(), RegionError> {
        let group = || name.clone();
        let numbers = [
            ("pages", self.pages),
            ("pages_per_extent", self.pages_per_extent),
            ("pages_per_block", self.pages_per_block),
            ("rows", self.rows),
        ];
        if let Some((what, _)) = numbers.into_iter().find(|(_, number)| *number == 0) {
            return Err(RegionError::Zero { group: group(), what });
        }
        // Entries of descriptor lists are numbered in 31 bits, and pages before that.
        if i32::try_from(self.pages).is_err() {
            return Err(RegionError::Outside { group: group(), what: "the number of pages" });
        }
        if self.rows.checked_mul(self.pages_per_block) != Some(schema.rows) {
            return Err(RegionError::Rows {
                group: group(),
                rows: self.rows,
                pages: self.pages_per_block,
                expected: schema.rows,
            });
        }
        if self.pages_per_block > 1 && !self.is_dense(schema) {
            return Err(RegionError::NotDense { group: group(), pages: self.pages_per_block });
        }
        if !self.segments.keys().eq(schema.segments.keys()) {
            return Err(RegionError::Segments { group: group() });
        }
        for (segment, place) in &self.segments {
            let row_bytes = schema.segments.get(segment).map_or(0, |own| u64::from(own.row_bytes));
            let region = usize::try_from(place.region).ok().and_then(|index| self.region_bytes.get(index));
            let last = u64::from(self.rows.saturating_sub(1)).checked_mul(place.row_stride);
            let end = last
                .and_then(|bytes| bytes.checked_add(place.offset))
                .and_then(|bytes| bytes.checked_add(row_bytes));
            let fits = region.zip(end).is_some_and(|(region, end)| end <= *region);
            if !fits || place.row_stride < row_bytes {
                return Err(RegionError::Outside { group: group(), what: "a segment" });
            }
        }
        self.check_bases(name, schema, memory)
    }

    /// Refuses bases whose pages do not lie in one range of the group's memory each.
    fn check_bases(
        &self,
        name: &Arc<str>,
        schema: &GroupSchema,
        memory: &[MemoryRange],
    ) -> Result<(), RegionError> {
        let regions = u64::try_from(self.region_bytes.len()).unwrap_or(u64::MAX);
        let expected = u64::from(schema.layers).saturating_mul(regions).saturating_mul(self.extents().into());
        let found = self.bases.len();
        if u64::try_from(found) != Ok(expected) || found > MOST_ENTRIES {
            return Err(RegionError::Bases { group: name.clone(), expected, found, most: MOST_ENTRIES });
        }
        let outside = || RegionError::Outside { group: name.clone(), what: "a page" };
        let mut bases = self.bases.iter();
        for _ in 0..schema.layers {
            for &bytes in &self.region_bytes {
                for extent in 0..self.extents() {
                    let base = *bases.next().ok_or_else(outside)?;
                    let before = extent.saturating_mul(self.pages_per_extent);
                    let pages = self.pages.saturating_sub(before).min(self.pages_per_extent);
                    let last = u64::from(pages.saturating_sub(1)).checked_mul(self.page_stride);
                    let end =
                        last.and_then(|last| last.checked_add(bytes)).and_then(|end| end.checked_add(base));
                    let end = end.ok_or_else(outside)?;
                    let place = (self.memory, self.device, base);
                    let after = memory.partition_point(|range| range.place() <= place);
                    let range = after.checked_sub(1).and_then(|index| memory.get(index));
                    let holds = |range: &MemoryRange| {
                        (range.memory, range.device) == (self.memory, self.device)
                            && range.end().is_some_and(|own| end <= own)
                    };
                    if !range.is_some_and(holds) {
                        return Err(outside());
                    }
                }
            }
        }
        Ok(())
    }
}

impl From<SchemaError> for RegionError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(Box::new(error))
    }
}
