//! The mirror law: the rows that a step wrote, as slot mappings, counts, starts, accepted counts and page maps say on
//! the device, and nothing else, whatever stands in these.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagelift::backends::Backend;
use pagelift::id::{HostBlockId, PageId, Ticket};
use pagelift::launcher::{Launcher, Report, TicketState};
use pagelift::memory::RegionId;
use pagelift::plan::{MirrorPlan, Queries, RowBinding, RowCapacity, SlotWidth};

use crate::backends::Subject;
use crate::image::Image;
use crate::restore::options;
use crate::rng::Rng;
use crate::world::{GroupModel, Key, World};

pub const ROOM: RowCapacity = RowCapacity { jobs: 4, changes: 64 };

/// Arrays on the device, one after the other in one region.
pub struct Scratch {
    region: RegionId,
    start: u64,
    used: u64,
}

impl Scratch {
    pub fn new(world: &mut World, backend: &impl Backend) -> Self {
        let region = world.scratch(backend, 8192);
        Self { region, start: world.memory.region(region).unwrap().address(), used: 0 }
    }

    /// Room for `count` numbers of `width` bytes.
    pub fn array(&mut self, count: u32, width: u32) -> u64 {
        let at = self.used.next_multiple_of(u64::from(width));
        self.used = at + u64::from(count * width) + 4;
        assert!(self.used <= 8192);
        self.start + at
    }

    /// Writes numbers of `width` bytes.
    pub fn write(&self, world: &mut World, address: u64, width: u32, numbers: &[i64]) {
        let bytes: Vec<u8> =
            numbers.iter().flat_map(|number| number.to_le_bytes().into_iter().take(width as usize)).collect();
        world.memory.write(self.region, address - self.start, &bytes).unwrap();
    }
}

/// One group's binding, and what its arrays hold.
pub struct Bound {
    group: usize,
    binding: RowBinding,
    slots: Vec<i64>,
    count: Option<i64>,
    starts: Option<Vec<i64>>,
    accepted: Option<Vec<i64>>,
}

/// Each group's page map.
pub type Maps = BTreeMap<(usize, u32), u32>;

impl Bound {
    fn random(rng: &mut Rng, group: usize, model: &GroupModel, scratch: &mut Scratch) -> Self {
        let capacity = rng.small(14);
        let width = rng.pick(&[SlotWidth::I32, SlotWidth::I64]);
        let slots = scratch.array(capacity, width.bytes());
        let count = rng.once_in(2).then(|| scratch.array(1, 4));
        let queries = rng.once_in(2).then(|| {
            let requests = rng.small(5);
            let starts = scratch.array(requests + 1, 4);
            let accepted = (!rng.once_in(4)).then(|| scratch.array(requests, 4));
            Queries { starts, accepted, requests }
        });
        let null_page = rng.once_in(2).then(|| PageId::new(rng.small(model.device.blocks + 1)));
        let binding = RowBinding { slots, width, capacity, count, queries, null_page };
        Self { group, binding, slots: Vec::new(), count: None, starts: None, accepted: None }
    }

    /// What a step left in the arrays: mostly sense, with entries of every kind that is to be skipped or is bad.
    fn step(&mut self, rng: &mut Rng, model: &GroupModel) {
        let RowBinding { capacity, queries, count, width, .. } = self.binding;
        let end = model.device.blocks * model.slots();
        let rows = rng.order(end);
        let slot = |rng: &mut Rng, index: u32, earlier: &[i64]| match rng.below(16) {
            0 | 1 => -1,
            2 => -i64::from(1 + rng.small(u32::MAX >> 1)),
            3 => i64::from(end + rng.small(40)),
            4 if width == SlotWidth::I64 => i64::from(rows[index as usize % rows.len()]) + (1 << 32),
            4 => i64::from(i32::MAX),
            // A row that was named before is copied again.
            5 | 6 if index > 0 => earlier[rng.small(index) as usize],
            _ => rows.get(index as usize).map_or(-1, |&slot| i64::from(slot)),
        };
        self.slots.clear();
        for index in 0..capacity {
            let next = slot(rng, index, &self.slots);
            self.slots.push(next);
        }
        let number = |rng: &mut Rng, most: u32| match rng.below(12) {
            0 => -1 - i64::from(rng.small(9)),
            1 => i64::from(most) + 1 + i64::from(rng.small(9)),
            _ => i64::from(rng.small(most + 1)),
        };
        self.count = count.map(|_| number(rng, capacity));
        self.starts = queries.map(|queries| {
            let mut starts: Vec<i64> =
                (0..=queries.requests).map(|_| i64::from(rng.small(capacity + 1))).collect();
            if !rng.once_in(4) {
                starts[0] = 0;
            }
            if rng.once_in(2) {
                *starts.last_mut().unwrap() = i64::from(capacity);
            }
            starts.sort_unstable();
            if rng.once_in(12) {
                *starts.last_mut().unwrap() = i64::from(capacity) + 3;
            }
            starts
        });
        self.accepted = queries.filter(|queries| queries.accepted.is_some()).map(|_| {
            let starts = self.starts.as_ref().unwrap();
            starts.windows(2).map(|pair| number(rng, (pair[1] - pair[0]) as u32)).collect()
        });
    }

    /// Writes them to the device.
    fn write(&self, world: &mut World, scratch: &Scratch) {
        let RowBinding { slots, width, count, queries, .. } = self.binding;
        scratch.write(world, slots, width.bytes(), &self.slots);
        if let (Some(at), Some(count)) = (count, self.count) {
            scratch.write(world, at, 4, &[count]);
        }
        if let (Some(queries), Some(starts)) = (queries, &self.starts) {
            scratch.write(world, queries.starts, 4, starts);
            if let (Some(at), Some(accepted)) = (queries.accepted, &self.accepted) {
                scratch.write(world, at, 4, accepted);
            }
        }
    }

    /// What should become of all of it, entry by entry.
    fn expect(&self, world: &World, maps: &Maps, image: &mut Image, report: &mut Report) {
        let model = &world.groups[self.group];
        let capacity = self.slots.len() as i64;
        let ends = [self.count, self.starts.as_ref().and_then(|starts| starts.last().copied())];
        report.bad += ends.iter().flatten().filter(|end| !(0..=capacity).contains(*end)).count() as u32;
        let entries = ends.iter().flatten().fold(capacity, |entries, &end| entries.min(end.max(0)));
        for (token, &slot) in self.slots.iter().take(entries as usize).enumerate() {
            match self.verdict(model, maps, token as i64, slot) {
                Verdict::Copy { page, block, row } => {
                    model.copy_row(image, true, block, page, row);
                    report.rows += 1;
                }
                Verdict::Skip => report.skipped += 1,
                Verdict::Bad => report.bad += 1,
                Verdict::Incomplete => {}
            }
        }
    }

    fn verdict(&self, model: &GroupModel, maps: &Maps, token: i64, slot: i64) -> Verdict {
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
        let (page, slot) = (slot / i64::from(model.slots()), slot % i64::from(model.slots()));
        if self.binding.null_page.is_some_and(|null| i64::from(null.get()) == page) {
            return Verdict::Skip;
        }
        if page >= i64::from(model.device.blocks) {
            return Verdict::Bad;
        }
        let (page, slot) = (page as u32, slot as u32);
        let Some(&block) = maps.get(&(self.group, page)) else { return Verdict::Skip };
        if (slot + 1) % model.tokens_per_row != 0 {
            return Verdict::Incomplete;
        }
        Verdict::Copy { page, block, row: slot / model.tokens_per_row }
    }
}

enum Verdict {
    Copy { page: u32, block: u32, row: u32 },
    Skip,
    Bad,
    Incomplete,
}

/// Maps pages, and unmaps some that were.
pub fn change_maps(rng: &mut Rng, world: &World, bound: &[Bound], plan: &mut MirrorPlan, maps: &mut Maps) {
    for _ in 0..rng.below(6) {
        let Some(&(group, page)) = maps.keys().nth(rng.small(8) as usize) else { break };
        match world.groups[group].key {
            Key::Paged(key) => plan.page_map_mut().unmap(key, PageId::new(page)).unwrap(),
            Key::Ring(key) => plan.page_map_mut().unmap(key, PageId::new(page)).unwrap(),
            Key::State(_) => panic!("states have no rows"),
        }
        maps.remove(&(group, page));
    }
    let mut free = world.free_ids(rng);
    for (&(group, page), &block) in &*maps {
        let model = &world.groups[group];
        free[model.device.pool.get() as usize].retain(|&id| id != page);
        free[model.host.pool.get() as usize].retain(|&id| id != block);
    }
    for _ in 0..rng.below(8) {
        let Some(bound) = bound.get(rng.small(3) as usize) else { continue };
        let model = &world.groups[bound.group];
        let page = free[model.device.pool.get() as usize].pop();
        let Some((page, block)) = page.zip(free[model.host.pool.get() as usize].pop()) else { break };
        let (page_id, block_id) = (PageId::new(page), HostBlockId::new(block));
        match model.key {
            Key::Paged(key) => plan.page_map_mut().map(key, page_id, block_id).unwrap(),
            Key::Ring(key) => plan.page_map_mut().map(key, page_id, block_id).unwrap(),
            Key::State(_) => panic!("states have no rows"),
        }
        maps.insert((bound.group, page), block);
    }
}

/// Binds every group that has rows.
fn bind_all(rng: &mut Rng, world: &World, scratch: &mut Scratch, plan: &mut MirrorPlan) -> Vec<Bound> {
    let mut all = Vec::new();
    for (group, model) in world.groups.iter().enumerate() {
        let bound = Bound::random(rng, group, model, scratch);
        match model.key {
            Key::Paged(key) => plan.bind(key, bound.binding).unwrap(),
            Key::Ring(key) => plan.bind(key, bound.binding).unwrap(),
            Key::State(_) => continue,
        }
        all.push(bound);
    }
    all
}

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::random(&mut rng, size, &backend);
    let mut scratch = Scratch::new(&mut world, &backend);
    let mut plan = MirrorPlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut bound = bind_all(&mut rng, &world, &mut scratch, &mut plan);
    let options = options(&mut rng);
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options).unwrap();

    let mut maps = Maps::new();
    let mut reports: Vec<(Ticket, Report)> = Vec::new();
    for step in 0..4 {
        let staged = step == 0 || rng.once_in(2);
        if staged {
            change_maps(&mut rng, &world, &bound, &mut plan, &mut maps);
            let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
            assert_eq!(launcher.state(ticket), TicketState::Pending);
            reports.push((ticket, Report::default()));
        }
        // The step writes its rows, and then says which they are: after staging, as a replay would.
        world.fill(&mut rng);
        for bound in &mut bound {
            bound.step(&mut rng, &world.groups[bound.group]);
            bound.write(&mut world, &scratch);
        }
        let mut expected = world.image();
        let (ticket, report) = reports.last_mut().unwrap();
        if staged || options.repeat {
            *report = Report::default();
            bound.iter().for_each(|bound| bound.expect(&world, &maps, &mut expected, report));
        }
        launcher.launch(&mut world.memory).unwrap();
        assert_eq!(launcher.state(*ticket), TicketState::Done(*report));
        world.assert_is(&expected);
    }
    let sum = |of: fn(&Report) -> u32| reports.iter().map(|(_, report)| u64::from(of(report))).sum::<u64>();
    let counters = launcher.counters();
    assert_eq!((counters.staged, counters.launches, counters.bytes), (reports.len() as u64, 4, None));
    assert_eq!((counters.done, counters.superseded), (reports.len() as u64, 0));
    assert_eq!(
        (counters.rows, counters.skipped, counters.bad),
        (Some(sum(|r| r.rows)), Some(sum(|r| r.skipped)), sum(|r| r.bad))
    );
}

/// Where query starts fall, an entry may belong to any request that claims it, or be bad: but whatever is written is
/// the entry's own row, at its own place.
pub fn falling_starts<S: Subject>(seed: u64) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::small(&backend);
    let mut scratch = Scratch::new(&mut world, &backend);
    let group = world.groups[0].paged();
    let (capacity, requests) = (10, 5);
    let slots = scratch.array(capacity, 8);
    let starts = scratch.array(requests + 1, 4);
    let accepted = scratch.array(requests, 4);
    let queries = Some(Queries { starts, accepted: Some(accepted), requests });
    let mut plan = MirrorPlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    plan.bind(group, RowBinding { queries, ..RowBinding::new(slots, capacity) }).unwrap();
    let pages = world.groups[0].device.blocks.min(world.groups[0].host.blocks);
    for page in 0..pages {
        plan.page_map_mut().map(group, PageId::new(page), HostBlockId::new(pages - 1 - page)).unwrap();
    }
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options(&mut rng)).unwrap();
    let wild = |count: u32, rng: &mut Rng| -> Vec<i64> {
        (0..count).map(|_| i64::from(rng.small(14)) - rng.pick(&[0, 0, 2, 1 << 30])).collect()
    };
    let (start_values, accepted_values) = (wild(requests + 1, &mut rng), wild(requests, &mut rng));
    let slot_values: Vec<i64> = rng.order(pages * 4).iter().take(10).map(|&slot| i64::from(slot)).collect();
    scratch.write(&mut world, slots, 8, &slot_values);
    scratch.write(&mut world, starts, 4, &start_values);
    scratch.write(&mut world, accepted, 4, &accepted_values);

    let mut before = world.image();
    let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
    launcher.launch(&mut world.memory).unwrap();
    let TicketState::Done(report) = launcher.state(ticket) else { panic!("it ran") };
    let mut left = world.image();
    let mut rows = 0;
    for (token, &slot) in slot_values.iter().enumerate() {
        let (page, row) = (slot as u32 / 4, slot as u32 % 4);
        let mut copied = world.image();
        world.groups[0].copy_row(&mut copied, true, pages - 1 - page, page, row);
        let claims = start_values.windows(2).zip(&accepted_values).any(|(pair, &accepted)| {
            (pair[0]..pair[1]).contains(&(token as i64)) && token as i64 - pair[0] < accepted
        });
        if copied.difference(&world.memory, &world.regions).is_none() {
            // Random rows are equal only where they were copied.
            assert!(claims, "token {token} belongs to no request");
            rows += 1;
            world.groups[0].restore_row(&mut left, &mut before, pages - 1 - page, row);
        }
    }
    assert_eq!(left.differs_from(&before), None, "nothing but rows of tokens was written");
    assert_eq!(report.rows, rows);
    let entries = start_values[requests as usize].clamp(0, i64::from(capacity)).min(slot_values.len() as i64);
    let clamped = u32::from(!(0..=i64::from(capacity)).contains(&start_values[requests as usize]));
    if slot_values.len() == capacity as usize {
        assert_eq!(i64::from(report.rows + report.skipped + report.bad - clamped), entries);
    }
}
