//! Bindings whose arrays are in real memory: what a step leaves there, sense and nonsense, and what should become of it.

use pagelift::backends::Backend;
use pagelift::geometry::Memory;
use pagelift::id::PageId;
use pagelift::launcher::Report;
use pagelift::memory::RegionId;
use pagelift::plan::{Queries, RowBinding, SlotWidth};

use crate::decode::Move;
use crate::draw::Draw;
use crate::map::MapModel;
use crate::memory::Pools;
use crate::world::{GroupModel, SideModel, World};

/// Room for arrays on the device, one after the other in one region.
pub struct Scratch {
    region: RegionId,
    start: u64,
    used: u64,
}

const SCRATCH_BYTES: u64 = 1 << 14;

impl Scratch {
    /// Room for those of a case.
    pub fn new(pools: &mut Pools, backend: &impl Backend) -> Self {
        let start = pools.add(backend, Memory::Device, SCRATCH_BYTES);
        Self { region: *pools.regions.last().unwrap(), start, used: 0 }
    }

    /// Room for `count` numbers of `width` bytes.
    pub fn array(&mut self, count: u32, width: u32) -> u64 {
        let at = self.used.next_multiple_of(u64::from(width));
        self.used = at + u64::from(count * width) + 4;
        assert!(self.used <= SCRATCH_BYTES);
        self.start + at
    }

    /// Writes numbers of `width` bytes.
    pub fn write(&self, pools: &mut Pools, address: u64, width: u32, numbers: &[i64]) {
        let bytes = |number: &i64| number.to_le_bytes().into_iter().take(width as usize);
        let bytes: Vec<u8> = numbers.iter().flat_map(bytes).collect();
        pools.memory.write(self.region, address - self.start, &bytes).unwrap();
    }
}

/// Where the rows of a binding come from, and where they go.
#[derive(Clone, Copy)]
pub enum Target<'w> {
    /// Pages of a group, to the blocks that the page map says.
    Mirror {
        /// The group's place in the world.
        group: usize,
    },
    /// Rows of a side, to the rows of a compact buffer.
    Compact {
        /// Where they come from.
        from: &'w SideModel,
        /// The buffer.
        to: &'w SideModel,
    },
}

/// A binding, and what its arrays hold.
pub struct Arrays<'w> {
    target: Target<'w>,
    /// Where rows come from, and its group.
    source: &'w SideModel,
    group: &'w GroupModel,
    /// Tokens of an entry's row.
    tokens_per_row: u32,
    /// The arrays.
    pub binding: RowBinding,
    slots: Vec<i64>,
    count: Option<i64>,
    starts: Option<Vec<i64>>,
    accepted: Option<Vec<i64>>,
}

impl<'w> Arrays<'w> {
    /// Random arrays of up to `most` entries.
    pub fn draw(
        draw: &mut Draw,
        world: &'w World,
        target: Target<'w>,
        most: u32,
        scratch: &mut Scratch,
    ) -> Self {
        let (source, tokens_per_row) = match target {
            Target::Mirror { group } => (&world.groups[group].device, world.groups[group].tokens_per_row),
            // A compact copy names rows and not tokens.
            Target::Compact { from, .. } => (from, 1),
        };
        let capacity = draw.small(most + 1);
        let width = draw.pick(&[SlotWidth::I32, SlotWidth::I64]);
        let slots = scratch.array(capacity, width.bytes());
        let count = draw.once_in(2).then(|| scratch.array(1, 4));
        let queries = draw.once_in(2).then(|| {
            let requests = draw.small(5);
            let starts = scratch.array(requests + 1, 4);
            let accepted = (!draw.once_in(4)).then(|| scratch.array(requests, 4));
            Queries { starts, accepted, requests }
        });
        let null_page = draw.once_in(2).then(|| PageId::new(draw.small(source.blocks + 1)));
        let binding = RowBinding { slots, width, capacity, count, queries, null_page };
        let (slots, group) = (Vec::new(), world.group_of(source));
        Self {
            target,
            source,
            group,
            tokens_per_row,
            binding,
            slots,
            count: None,
            starts: None,
            accepted: None,
        }
    }

    /// Token slots of a page.
    const fn page_slots(&self) -> u32 {
        self.source.rows * self.tokens_per_row
    }

    /// What a step leaves in the arrays: mostly sense, with entries of every kind that is to be skipped or is bad.
    pub fn step(&mut self, draw: &mut Draw) {
        let RowBinding { capacity, queries, count, width, .. } = self.binding;
        let end = self.source.blocks * self.page_slots();
        let rows = draw.order(end);
        let slot = |draw: &mut Draw, index: u32, earlier: &[i64]| match draw.below(16) {
            0 | 1 => -1,
            2 => -i64::from(1 + draw.small(u32::MAX >> 1)),
            3 => i64::from(end + draw.small(40)),
            4 if width == SlotWidth::I64 => i64::from(rows[index as usize % rows.len()]) + (1 << 32),
            4 => i64::from(i32::MAX),
            // A row that was named before is copied again.
            5 | 6 if index > 0 => earlier[draw.small(index) as usize],
            _ => rows.get(index as usize).map_or(-1, |&slot| i64::from(slot)),
        };
        self.slots.clear();
        for index in 0..capacity {
            let next = slot(draw, index, &self.slots);
            self.slots.push(next);
        }
        let number = |draw: &mut Draw, most: u32| match draw.below(12) {
            10 => -1 - i64::from(draw.small(9)),
            11 => i64::from(most) + 1 + i64::from(draw.small(9)),
            _ => i64::from(draw.small(most + 1)),
        };
        self.count = count.map(|_| number(draw, capacity));
        self.starts = queries.map(|queries| {
            let mut starts: Vec<i64> =
                (0..=queries.requests).map(|_| i64::from(draw.small(capacity + 1))).collect();
            if !draw.once_in(4) {
                starts[0] = 0;
            }
            if draw.once_in(2) {
                *starts.last_mut().unwrap() = i64::from(capacity);
            }
            starts.sort_unstable();
            if draw.once_in(12) {
                *starts.last_mut().unwrap() = i64::from(capacity) + 3;
            }
            starts
        });
        self.accepted = queries.filter(|queries| queries.accepted.is_some()).map(|_| {
            let starts = self.starts.as_ref().unwrap();
            starts.windows(2).map(|pair| number(draw, (pair[1] - pair[0]) as u32)).collect()
        });
    }

    /// Writes them to the device.
    pub fn write(&self, pools: &mut Pools, scratch: &Scratch) {
        let RowBinding { slots, width, count, queries, .. } = self.binding;
        scratch.write(pools, slots, width.bytes(), &self.slots);
        if let (Some(at), Some(count)) = (count, self.count) {
            scratch.write(pools, at, 4, &[count]);
        }
        if let (Some(queries), Some(starts)) = (queries, &self.starts) {
            scratch.write(pools, queries.starts, 4, starts);
            if let (Some(at), Some(accepted)) = (queries.accepted, &self.accepted) {
                scratch.write(pools, at, 4, accepted);
            }
        }
    }

    /// What should become of all of it, entry by entry.
    pub fn expect(&self, world: &World, map: &MapModel, moves: &mut Vec<Move>, report: &mut Report) {
        let capacity = self.slots.len() as i64;
        let ends = [self.count, self.starts.as_ref().and_then(|starts| starts.last().copied())];
        report.bad += ends.iter().flatten().filter(|end| !(0..=capacity).contains(*end)).count() as u32;
        let entries = ends.iter().flatten().fold(capacity, |entries, &end| entries.min(end.max(0)));
        for (token, &slot) in self.slots.iter().take(entries as usize).enumerate() {
            match self.verdict(world, map, token as i64, slot) {
                Verdict::Copy { from: (page, row), to, to_row: (block, to_row) } => {
                    self.group.copy_row(Some((self.source, page, row)), (to, block, to_row), moves);
                    report.rows += 1;
                }
                Verdict::Skip => report.skipped += 1,
                Verdict::Bad => report.bad += 1,
                Verdict::Incomplete => {}
            }
        }
    }

    fn verdict(&self, world: &'w World, map: &MapModel, token: i64, slot: i64) -> Verdict<'w> {
        if slot < 0 {
            return Verdict::Skip;
        }
        if let (Some(starts), Some(accepted)) = (&self.starts, &self.accepted) {
            let own = starts.windows(2).zip(accepted).find(|(pair, _)| (pair[0]..pair[1]).contains(&token));
            let Some((pair, accepted)) = own else { return Verdict::Bad };
            if !(0..=pair[1] - pair[0]).contains(accepted) {
                return Verdict::Bad;
            }
            if token - pair[0] >= *accepted {
                return Verdict::Skip;
            }
        }
        let page_slots = i64::from(self.page_slots());
        let (page, slot) = (slot / page_slots, slot % page_slots);
        if self.binding.null_page.is_some_and(|null| i64::from(null.get()) == page) {
            return Verdict::Skip;
        }
        if page >= i64::from(self.source.blocks) {
            return Verdict::Bad;
        }
        let (page, slot) = (page as u32, slot as u32);
        let row = slot / self.tokens_per_row;
        let group = match self.target {
            Target::Mirror { group } => group,
            Target::Compact { to, .. } => {
                return Verdict::Copy { from: (page, row), to, to_row: (0, token as u32) };
            }
        };
        let host = &world.groups[group].host;
        let step = self.source.rows.min(host.rows);
        let Some(mapped) = map.get(world, group, page, row / step) else { return Verdict::Skip };
        if (slot + 1) % self.tokens_per_row != 0 {
            return Verdict::Incomplete;
        }
        let to_row = (mapped.block, mapped.block_part * step + row % step);
        Verdict::Copy { from: (page, row), to: host, to_row }
    }
}

enum Verdict<'w> {
    /// Page and row, to block and row of a side.
    Copy {
        from: (u32, u32),
        to: &'w SideModel,
        to_row: (u32, u32),
    },
    Skip,
    Bad,
    Incomplete,
}
