//! Rows that an index list on the device names, into a compact buffer there.
//!
//! The list is as an engine's: some entries are padding (−1), some point into the null block, rows come twice, and
//! entries past the count look real and must never be read.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::Backend;
use pagelift::geometry::{
    CompactRouteKey, Geometry, GeometryBuilder, GroupKey, HasRows, Memory as Place, Paged, PoolSpec, Ring,
    SideSpec,
};
use pagelift::id::PageId;
use pagelift::launcher::{Launcher, LauncherOptions, Report as Launched, TicketState};
use pagelift::layout::{PagedLayout, RingLayout};
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{Direction, RowBinding, RowCapacity, RowPlan, SlotWidth};
use serde::Serialize;

use super::GatherError;
use crate::manifest::{Family, Group, Manifest, Memory, Side, SplitMix64};
use crate::plan;
use crate::reference::row_place;
use crate::restore::{AnyKey, RestoreError, World};

/// Bytes between the layers of a compact buffer: nobody's.
const GAP: u64 = 64;

/// The widths of indices.
pub const WIDTHS: [SlotWidth; 2] = [SlotWidth::I32, SlotWidth::I64];

/// A group's row gather.
#[derive(Debug, Serialize)]
pub struct RowsGathered {
    /// The group.
    pub group: String,
    /// Width of an index: `i32` or `i64`.
    pub index: &'static str,
    /// Entries that the list has room for.
    pub entries: u32,
    /// Entries that the device's count says are valid.
    pub count: u32,
    /// Rows that were copied, each counted once whatever its layers.
    pub rows: u64,
    /// Entries that were skipped: padding, and those in the null block.
    pub skipped: u64,
    /// Bytes copied.
    pub bytes: u64,
}

/// All gathers of one launch.
pub struct Done {
    pub gathered: Vec<RowsGathered>,
    pub bytes_verified: u64,
}

/// Whether a group has rows in a memory.
pub fn has_rows(group: &Group, memory: Memory) -> bool {
    group.shape.family != Family::State && group.side(memory).is_some()
}

/// What the compact buffer of a group must be.
pub struct Size<'m> {
    group: &'m Group,
    side: &'m Side,
    /// Rows.
    rows: u32,
    /// Tokens of a row.
    tokens: u32,
    /// In the library's order.
    segments: Vec<Segment<'m>>,
    /// Bytes of a layer.
    page: u64,
}

/// A segment of the library's, with what the manifest knows of it.
struct Segment<'m> {
    name: &'m str,
    /// Its place in the manifest's order.
    own: usize,
    row_bytes: u32,
}

/// The compact buffers of all groups that have rows in a memory.
pub fn sizes<'m>(
    manifest: &'m Manifest,
    groups: &[&'m Group],
    from: Memory,
    rows: u32,
) -> Result<Vec<Size<'m>>, GatherError> {
    let (geometry, keys) = plan::geometry(manifest)?;
    let mut sizes = Vec::new();
    for group in groups {
        let side = group.side(from).filter(|_| has_rows(group, from));
        let (Some(side), Some(key)) = (side, keys.get(group.index).copied()) else { continue };
        let segments = segments(&geometry, key, group, from.into())?;
        let page = segments.iter().map(|segment| u64::from(segment.row_bytes) * u64::from(rows)).sum();
        let tokens = key.tokens_per_row(&geometry).unwrap_or(1);
        sizes.push(Size { group, side, rows, tokens, segments, page });
    }
    Ok(sizes)
}

/// A group's segments. The library's order is not always the manifest's: names tell which is which.
fn segments<'m>(
    geometry: &Geometry,
    key: AnyKey,
    group: &'m Group,
    place: Place,
) -> Result<Vec<Segment<'m>>, GatherError> {
    let mut all = Vec::new();
    for segment in geometry.block_segments(key.id(), place).unwrap_or_default() {
        let mut named = group.shape.segments.iter().enumerate();
        let Some((own, named)) = named.find(|(_, named)| named.name == segment.name()) else {
            return Err(GatherError::Segment { group: group.name.clone(), segment: segment.name().into() });
        };
        all.push(Segment { name: &named.name, own, row_bytes: segment.row_bytes() });
    }
    Ok(all)
}

/// A route into a compact buffer, of whichever kind of group.
enum AnyRoute<D> {
    Paged(CompactRouteKey<D, Paged>),
    Ring(CompactRouteKey<D, Ring>),
}

/// A compact buffer in memory.
pub struct Buffer<'m, D> {
    size: Size<'m>,
    pub region: RegionId,
    route: AnyRoute<D>,
    /// The index list, and the count of its valid entries.
    list: RegionId,
    count: RegionId,
}

impl<'m> Size<'m> {
    /// Bytes of all layers.
    pub fn bytes(&self) -> u64 {
        (self.page + GAP).saturating_mul(self.group.layers.into())
    }

    /// Allocates the buffer and its index list, and adds them to the geometry.
    pub fn place<D: Direction>(
        self,
        builder: &mut GeometryBuilder,
        keys: &[AnyKey],
        memory: &mut Registry,
        backend: &impl Backend,
    ) -> Result<Buffer<'m, D>, RestoreError> {
        let mut allocate = |bytes: u64| memory.allocate(backend, Place::Device, bytes);
        let region = allocate(self.bytes())?;
        let (list, count) = (allocate(u64::from(self.rows) * 8)?, allocate(4)?);
        let at = memory.region(region).ok_or(pagelift::error::MemoryError::Released);
        let at = at.map_err(pagelift::Error::from)?;
        let name = format!("compact rows of {}", self.group.name);
        let pool = builder.pool(PoolSpec::new(&name, Place::Device, 1, &[at]))?;
        let layers: Vec<u64> =
            (0..u64::from(self.group.layers)).map(|layer| layer * (self.page + GAP)).collect();
        let stride = self.bytes();
        let route = match keys.get(self.group.index) {
            Some(AnyKey::Paged(key)) => {
                let layout =
                    PagedLayout::builder(self.rows.saturating_mul(self.tokens)).tokens_per_row(self.tokens);
                let layout =
                    self.segments.iter().fold(layout, |layout, one| layout.segment(one.name, one.row_bytes));
                let layout = layout.build().map_err(pagelift::Error::from)?;
                let side = SideSpec::packed(pool, &[at.address()], &layers, stride, layout);
                AnyRoute::Paged(route(builder, *key, &side)?)
            }
            Some(AnyKey::Ring(key)) => {
                let bytes = self.segments.iter().map(|segment| segment.row_bytes).sum();
                let layout = RingLayout::builder(self.rows, bytes).build().map_err(pagelift::Error::from)?;
                let side = SideSpec::packed(pool, &[at.address()], &layers, stride, layout);
                AnyRoute::Ring(route(builder, *key, &side)?)
            }
            // A state has no rows, and no size either.
            Some(AnyKey::State(_)) | None => return Err(pagelift::error::PlanError::ForeignKey.into()),
        };
        Ok(Buffer { size: self, region, route, list, count })
    }
}

/// Adds a compact side of a group, and the route to it from the side in the memory that `D` comes from.
fn route<D: Direction, K: HasRows>(
    builder: &mut GeometryBuilder,
    group: GroupKey<K>,
    side: &SideSpec<K::Layout>,
) -> Result<CompactRouteKey<D, K>, RestoreError> {
    let to = builder.side(group, side)?;
    let from = builder.main_side(group, D::SOURCE).ok_or(pagelift::error::PlanError::ForeignKey)?;
    Ok(builder.compact_route(from, to)?)
}

/// What one index list says.
pub struct Drawn {
    entries: Vec<i64>,
    count: usize,
    null: Option<u32>,
}

/// Gathers rows of all groups in one launch, and compares every byte of their buffers.
pub fn run<D: Direction, B: Backend>(
    world: &mut World<'_>,
    backend: &B,
    buffers: &[Buffer<'_, D>],
    (entries, width): (u32, SlotWidth),
    seed: &mut u64,
) -> Result<Done, GatherError> {
    let capacity = RowCapacity { jobs: u32::try_from(buffers.len()).unwrap_or(u32::MAX), changes: 0 };
    let mut plan = RowPlan::<D>::new(Arc::clone(&world.geometry), capacity)?;
    let mut random = SplitMix64::new(*seed);
    let mut expected = Vec::new();
    for buffer in buffers {
        let drawn = buffer.draw(entries, width, &mut random);
        buffer.write(world, &drawn, width)?;
        buffer.bind(&mut plan, world, &drawn, width)?;
        expected.push(buffer.expected(world, &drawn, width, random.next_u64())?);
    }
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&world.memory, &mut plan)?;
    launcher.launch(&mut world.memory)?;
    launcher.wait()?;

    let mut done = Done { gathered: Vec::new(), bytes_verified: 0 };
    let mut all = Launched::default();
    for (buffer, (image, gathered)) in buffers.iter().zip(expected) {
        done.bytes_verified += buffer.compare(world, &image, &gathered)?;
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        all.rows += small(gathered.rows);
        all.skipped += small(gathered.skipped);
        done.gathered.push(gathered);
    }
    let state = launcher.state(ticket);
    if state != TicketState::Done(all) {
        let (found, expected) = (format!("{state:?}"), format!("{:?}", TicketState::Done(all)));
        return Err(GatherError::Counted { found, expected });
    }
    Ok(done)
}

impl<D: Direction> Buffer<'_, D> {
    /// Draws an index list.
    pub fn draw(&self, entries: u32, width: SlotWidth, random: &mut SplitMix64) -> Drawn {
        let Size { side, .. } = &self.size;
        let null = side.pool.null_block.or_else(|| {
            // Any block may stand for none, if there is another one.
            (side.pool.blocks > 1).then(|| random.below(side.pool.blocks as usize) as u32)
        });
        let rows = u64::from(side.pool.blocks) * u64::from(side.rows);
        let reach = match width {
            SlotWidth::I32 => rows.min(1 << 31),
            SlotWidth::I64 => rows,
        };
        let reach = usize::try_from(reach).unwrap_or(usize::MAX);
        let mut entry = || match (random.below(8), null) {
            (0, _) => -1,
            (1, Some(null)) => {
                let row = u64::from(null) * u64::from(side.rows) + random.below(side.rows as usize) as u64;
                row.min(reach as u64 - 1) as i64
            }
            _ => random.below(reach) as i64,
        };
        let entries: Vec<i64> = (0..entries).map(|_| entry()).collect();
        let count = entries.len() - entries.len() / 8;
        Drawn { entries, count, null }
    }

    /// Writes the list and its count to the device.
    fn write(&self, world: &mut World<'_>, drawn: &Drawn, width: SlotWidth) -> Result<(), Error> {
        let list: Vec<u8> = match width {
            // No row is drawn past what fits.
            SlotWidth::I32 => drawn.entries.iter().flat_map(|entry| (*entry as i32).to_ne_bytes()).collect(),
            SlotWidth::I64 => drawn.entries.iter().flat_map(|entry| entry.to_ne_bytes()).collect(),
        };
        world.memory.write(self.list, 0, &list)?;
        world.memory.write(self.count, 0, &(drawn.count as i32).to_ne_bytes())
    }

    fn bind(
        &self,
        plan: &mut RowPlan<D>,
        world: &World<'_>,
        drawn: &Drawn,
        width: SlotWidth,
    ) -> Result<(), GatherError> {
        let address = |id| world.memory.region(id).map_or(0, |region| region.address());
        let binding = RowBinding {
            width,
            count: Some(address(self.count)),
            null_page: drawn.null.map(PageId::new),
            ..RowBinding::new(address(self.list), self.size.rows)
        };
        match self.route {
            AnyRoute::Paged(route) => plan.gather_rows(route, binding)?,
            AnyRoute::Ring(route) => plan.gather_rows(route, binding)?,
        }
        Ok(())
    }

    /// Fills the buffer with random bytes, and says what must be there after the launch.
    pub fn expected(
        &self,
        world: &mut World<'_>,
        drawn: &Drawn,
        width: SlotWidth,
        seed: u64,
    ) -> Result<(Vec<u8>, RowsGathered), Error> {
        let mut image = vec![0; usize::try_from(self.size.bytes()).unwrap_or(0)];
        for (index, chunk) in (0..).zip(image.chunks_mut(8)) {
            let word = SplitMix64::at(seed, index).to_ne_bytes();
            chunk.iter_mut().zip(word).for_each(|(byte, random)| *byte = random);
        }
        world.memory.write(self.region, 0, &image)?;
        let Size { group, side, rows, .. } = &self.size;
        let mut gathered = RowsGathered {
            group: group.name.clone(),
            index: if width == SlotWidth::I32 { "i32" } else { "i64" },
            entries: *rows,
            count: drawn.count as u32,
            rows: 0,
            skipped: 0,
            bytes: 0,
        };
        for (entry, index) in drawn.entries.iter().enumerate().take(drawn.count) {
            let row = u64::try_from(*index).ok();
            let place = row.map(|row| (row / u64::from(side.rows), row % u64::from(side.rows)));
            let Some((block, row)) = place.filter(|(block, _)| drawn.null.map(u64::from) != Some(*block))
            else {
                gathered.skipped += 1;
                continue;
            };
            gathered.rows += 1;
            gathered.bytes += self.copy(world, &mut image, (block as u32, row as u32), entry as u64)?;
        }
        Ok((image, gathered))
    }

    /// Compares the buffer with what must be there, and returns how many bytes these were.
    pub fn compare(
        &self,
        world: &World<'_>,
        image: &[u8],
        gathered: &RowsGathered,
    ) -> Result<u64, GatherError> {
        let mut found = vec![0; image.len()];
        world.memory.read(self.region, 0, &mut found)?;
        let Some(byte) = image.iter().zip(&found).position(|(expected, found)| expected != found) else {
            return Ok(found.len() as u64);
        };
        let value = |bytes: &[u8]| bytes.get(byte).copied().unwrap_or(0);
        Err(GatherError::Differs {
            group: gathered.group.clone(),
            width: gathered.index,
            byte,
            found: value(&found),
            expected: value(image),
        })
    }

    /// Copies one row, all layers and segments, from where the reference finds it to row `entry` of the image.
    fn copy(
        &self,
        world: &World<'_>,
        image: &mut [u8],
        (block, row): (u32, u32),
        entry: u64,
    ) -> Result<u64, Error> {
        let Size { group, side, rows, page, .. } = &self.size;
        let mut copied = 0;
        for layer in 0..group.layers {
            let mut before = 0;
            for Segment { own, row_bytes, .. } in &self.size.segments {
                let from = row_place(group, side, layer, block, *own, row);
                let to = u64::from(layer) * (page + GAP) + before + entry * u64::from(*row_bytes);
                before += u64::from(*rows) * u64::from(*row_bytes);
                let target =
                    image.get_mut(to as usize..).and_then(|rest| rest.get_mut(..*row_bytes as usize));
                if let Some(target) = target {
                    world.read(&side.pool, from, target)?;
                    copied += u64::from(*row_bytes);
                }
            }
        }
        Ok(copied)
    }
}
