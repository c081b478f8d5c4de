//! The region map: where a side's blocks lie. P and D differ in it by construction, so it is never compared.
//!
//! It comes from a peer, so all of it is checked before an address is worked out: what passes [`RegionMap::check`] names
//! no byte outside of the memory that it lists.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pagelift_planner::geometry::{Geometry, Memory, Region};
use serde::{Deserialize, Serialize};

use crate::error::{RangeFault, RegionError, SchemaError};
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

    /// Whether all bytes of another are its own.
    fn holds(&self, other: &Self) -> bool {
        (self.memory, self.device) == (other.memory, other.device)
            && self.address <= other.address
            && self.end().zip(other.end()).is_some_and(|(own, end)| end <= own)
    }

    /// What is wrong with it in a list, after one with which nothing is.
    fn fault(&self, before: Option<Self>) -> Option<RangeFault> {
        if self.bytes == 0 {
            return Some(RangeFault::Empty);
        }
        if self.end().is_none() {
            return Some(RangeFault::PastEnd);
        }
        let before = before?;
        if self.place() < before.place() {
            return Some(RangeFault::Unsorted { before });
        }
        let together = (self.memory, self.device) == (before.memory, before.device);
        let apart = before.end().is_some_and(|end| end <= self.address);
        (together && !apart).then_some(RangeFault::Shared { before })
    }
}

/// `4096 bytes at 0x10000 of device memory 1`.
impl fmt::Display for MemoryRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, device, address, bytes } = self;
        write!(f, "{bytes} bytes at {address:#x} of {memory} memory")?;
        // The host is one, so a number of it is worth being seen.
        if *memory == Memory::Device || *device > 0 { write!(f, " {device}") } else { Ok(()) }
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
            let base = |&base: &u64| {
                let unreachable = |why| RegionError::Unreachable { group: own.name.clone(), base, why };
                let region = pool.regions().iter().find(|region| region.holds(base, base));
                let region = region.ok_or_else(|| unreachable("it lies in no region of its pool"))?;
                let inside = base.checked_sub(region.address());
                let reached = inside.and_then(|inside| inside.checked_add(address(*region)));
                reached.ok_or_else(|| unreachable("it would be past 64 bits"))
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
        let mut before = None;
        for (index, &range) in self.memory.iter().enumerate() {
            if let Some(fault) = range.fault(before.replace(range)) {
                return Err(RegionError::Range { index, range, fault });
            }
        }
        if let Some((group, lacks)) = unpaired(&schema.groups, &self.groups) {
            return Err(RegionError::Unpaired { group, lacks });
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

/// A name that is in one of two maps alone, and which of them lacks it.
fn unpaired<A, B>(
    schema: &BTreeMap<Arc<str>, A>,
    map: &BTreeMap<Arc<str>, B>,
) -> Option<(Arc<str>, &'static str)> {
    let alone = schema.keys().find(|name| !map.contains_key(*name)).map(|name| (name, "region map"));
    let alone =
        alone.or_else(|| map.keys().find(|name| !schema.contains_key(*name)).map(|name| (name, "schema")));
    alone.map(|(name, lacks)| (name.clone(), lacks))
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
        let bytes = self.page_bytes();
        bytes.is_some() && self.bytes_of_rows(schema) == bytes
    }

    /// Bytes of all regions of a page, if they fit.
    fn page_bytes(&self) -> Option<u64> {
        self.region_bytes.iter().try_fold(0_u64, |sum, &bytes| sum.checked_add(bytes))
    }

    /// Bytes of all rows of a page, if they fit.
    fn bytes_of_rows(&self, schema: &GroupSchema) -> Option<u64> {
        schema.row_bytes().checked_mul(self.rows.into())
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
        let most = i32::MAX.unsigned_abs();
        if self.pages > most {
            return Err(RegionError::TooManyPages { group: group(), found: self.pages, most });
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
            return Err(RegionError::NotDense {
                group: group(),
                pages: self.pages_per_block,
                page_bytes: self.page_bytes().unwrap_or(u64::MAX),
                row_bytes: self.bytes_of_rows(schema).unwrap_or(u64::MAX),
            });
        }
        if let Some((segment, lacks)) = unpaired(&schema.segments, &self.segments) {
            return Err(RegionError::Segments { group: group(), segment, lacks });
        }
        for (segment, place) in &self.segments {
            let row_bytes = schema.segments.get(segment).map_or(0, |own| u64::from(own.row_bytes));
            self.check_segment(name, segment, *place, row_bytes)?;
        }
        self.check_bases(name, schema, memory)
    }

    /// Refuses a segment whose rows share bytes or do not lie in a page.
    fn check_segment(
        &self,
        group: &Arc<str>,
        segment: &Arc<str>,
        place: Place,
        row_bytes: u64,
    ) -> Result<(), RegionError> {
        let (group, segment) = (|| group.clone(), || segment.clone());
        let Place { region, offset, row_stride } = place;
        let there = usize::try_from(region).ok().and_then(|index| self.region_bytes.get(index));
        let Some(&region_bytes) = there else {
            let regions = self.region_bytes.len();
            return Err(RegionError::NoSuchRegion { group: group(), segment: segment(), region, regions });
        };
        if row_stride < row_bytes {
            return Err(RegionError::RowsShare { group: group(), segment: segment(), row_stride, row_bytes });
        }
        let last = u64::from(self.rows.saturating_sub(1)).checked_mul(row_stride);
        let end = last.and_then(|last| last.checked_add(offset)?.checked_add(row_bytes));
        if end.is_some_and(|end| end <= region_bytes) {
            return Ok(());
        }
        Err(RegionError::RowsOutside {
            group: group(),
            segment: segment(),
            rows: self.rows,
            row_bytes,
            row_stride,
            offset,
            region,
            region_bytes,
        })
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
        let regions = self.region_bytes.iter().enumerate();
        let places = (0..schema.layers).flat_map(|layer| {
            let regions = regions.clone();
            regions.flat_map(move |region| (0..self.extents()).map(move |extent| (layer, region, extent)))
        });
        // Bases first: without any, layers are not counted.
        for (&base, (layer, (region, &bytes), extent)) in self.bases.iter().zip(places) {
            let before = extent.saturating_mul(self.pages_per_extent);
            let count = self.pages.saturating_sub(before).min(self.pages_per_extent);
            let last = u64::from(count.saturating_sub(1)).checked_mul(self.page_stride);
            let span = last.and_then(|last| last.checked_add(bytes));
            let pages = MemoryRange {
                memory: self.memory,
                device: self.device,
                address: base,
                bytes: span.unwrap_or(u64::MAX),
            };
            let after = memory.partition_point(|range| range.place() <= pages.place());
            let range = after.checked_sub(1).and_then(|index| memory.get(index)).copied();
            if span.is_none() || !range.is_some_and(|range| range.holds(&pages)) {
                let group = name.clone();
                return Err(RegionError::PagesOutside { group, layer, region, extent, pages, range });
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
