//! Sequences of calls to row plans: page maps, bindings and index lists, each predicted, made, and compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::Region;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{
    DeviceToDevice, DeviceToHost, HostToDevice, PageMap, Plan as _, Queries, RowBinding, RowCapacity,
    RowPlan, SlotWidth,
};
use pagelift_planner::quantity::Rows;

use crate::decode::{self, HEADER_BYTES, ROW_JOB_BYTES, u32_at, u64_at};
use crate::draw::Draw;
use crate::effect::Refusal;
use crate::encoded;
use crate::map::{MapModel, parts};
use crate::world::{AnyCompactRoute, Bearing, CompactWay, GroupModel, Key, SideModel, World};

/// One call.
#[derive(Clone, Debug)]
pub enum RowCall {
    /// A page to a block with as many rows.
    Map {
        /// The group.
        group: usize,
        /// The page.
        page: u32,
        /// The block.
        block: u32,
    },
    /// Rows of a page to rows of a block, first rows given.
    MapRows {
        /// The group.
        group: usize,
        /// The page and its row.
        page: (u32, u32),
        /// The block and its row.
        block: (u32, u32),
    },
    /// A page to nothing.
    Unmap {
        /// The group.
        group: usize,
        /// The page.
        page: u32,
    },
    /// A mirror.
    Bind {
        /// The group.
        group: usize,
        /// Its arrays.
        binding: RowBinding,
    },
    /// A gather by an index list.
    Gather {
        /// The way's place among the compact ones of its direction.
        way: usize,
        /// Its arrays.
        list: RowBinding,
    },
}

/// A direction whose plans bind groups, or not.
pub trait Binds: Bearing {
    /// Whether they do.
    const BINDS: bool;
    /// Binds one.
    ///
    /// # Errors
    /// Those of the plan.
    fn bind(key: Key, binding: RowBinding, plan: &mut RowPlan<Self>) -> Result<(), PlanError>;
}

impl Binds for DeviceToHost {
    const BINDS: bool = true;
    fn bind(key: Key, binding: RowBinding, plan: &mut RowPlan<Self>) -> Result<(), PlanError> {
        match key {
            Key::Paged(key) => plan.bind(key, binding),
            Key::Ring(key) => plan.bind(key, binding),
            Key::State(_) => panic!("a state has no rows"),
        }
    }
}

macro_rules! binds_nothing {
    ($($direction:ident),+) => { $(
        impl Binds for $direction {
            const BINDS: bool = false;
            fn bind(_: Key, _: RowBinding, _: &mut RowPlan<Self>) -> Result<(), PlanError> {
                panic!("only mirrors are bound")
            }
        }
    )+ };
}

binds_nothing!(HostToDevice, DeviceToDevice);

/// Calls `$body` with `$key` the key of a group that has rows.
macro_rules! with_rows {
    ($key:expr, $name:ident => $body:expr) => {
        match $key {
            Key::Paged($name) => $body,
            Key::Ring($name) => $body,
            Key::State(_) => panic!("a state has no rows"),
        }
    };
}

/// An address, mostly one that can be: of `align` bytes, below 2⁴⁰.
fn any_address(draw: &mut Draw, align: u32) -> u64 {
    match draw.below(24) {
        21 => 0,
        22 => 0x1000 + u64::from(1 + draw.small(align)),
        23 => u64::MAX - draw.below(64),
        _ => (1 + draw.below(0x1_0000)) * 64,
    }
}

/// A binding whose list has up to `most` entries, mostly one that can be.
pub fn any_binding(draw: &mut Draw, most: u32) -> RowBinding {
    let width = draw.pick(&[SlotWidth::I32, SlotWidth::I64]);
    let capacity = match draw.below(16) {
        14 => most + 1,
        15 => (1 << 31) + draw.small(3),
        _ => draw.small(most + 1),
    };
    let queries = draw.once_in(2).then(|| Queries {
        starts: any_address(draw, 4),
        accepted: draw.once_in(2).then(|| any_address(draw, 4)),
        requests: if draw.once_in(16) { 1 << 31 } else { draw.small(9) },
    });
    RowBinding {
        slots: any_address(draw, width.bytes()),
        width,
        capacity,
        count: draw.once_in(2).then(|| any_address(draw, 4)),
        queries,
        null_page: draw
            .once_in(2)
            .then(|| PageId::new(if draw.once_in(8) { 1 << 31 } else { draw.small(4) })),
    }
}

impl RowCall {
    /// A random call for a plan of direction `D`; `None` where the world has nothing for one.
    pub fn draw<D: Binds>(draw: &mut Draw, world: &World) -> Option<Self> {
        let ways = &D::ways(world).compact;
        if draw.once_in(4) && !ways.is_empty() {
            let way = draw.below(ways.len() as u64) as usize;
            return Some(Self::Gather { way, list: any_binding(draw, ways[way].to.rows) });
        }
        let with_rows: Vec<usize> =
            (0..world.groups.len()).filter(|&group| world.groups[group].has_rows()).collect();
        if with_rows.is_empty() {
            return None;
        }
        let group = draw.pick(&with_rows);
        let GroupModel { host, device, .. } = &world.groups[group];
        // Few ids, so that calls meet; once in a while one past the pool's end, or far past it.
        let id = |draw: &mut Draw, side: &SideModel| match draw.below(16) {
            14 => side.blocks,
            15 => draw.number() as u32,
            _ => draw.small(side.blocks.min(6)),
        };
        let step = host.rows.min(device.rows);
        let row = |draw: &mut Draw, side: &SideModel| match draw.below(12) {
            10 => draw.small(side.rows + 2),
            11 => u32::MAX - draw.small(2),
            _ => draw.small(side.rows / step) * step,
        };
        let (page, block) = (id(draw, device), id(draw, host));
        Some(match draw.below(8) {
            0 | 1 if D::BINDS => Self::Bind { group, binding: any_binding(draw, 40) },
            2 | 3 => Self::Unmap { group, page },
            4 => Self::Map { group, page, block },
            _ => Self::MapRows { group, page: (page, row(draw, device)), block: (block, row(draw, host)) },
        })
    }

    /// Makes it, by the keys of `keys`.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn make<D: Binds>(&self, keys: &World, plan: &mut RowPlan<D>) -> Result<(), PlanError> {
        let key = |group: usize| keys.groups[group].key;
        match *self {
            Self::Map { group, page, block } => {
                let (page, block) = (PageId::new(page), HostBlockId::new(block));
                with_rows!(key(group), key => plan.page_map_mut().map(key, page, block))
            }
            Self::MapRows { group, page, block } => {
                let page = (PageId::new(page.0), Rows::new(page.1));
                let block = (HostBlockId::new(block.0), Rows::new(block.1));
                with_rows!(key(group), key => plan.page_map_mut().map_rows(key, page, block))
            }
            Self::Unmap { group, page } => {
                with_rows!(key(group), key => plan.page_map_mut().unmap(key, PageId::new(page)))
            }
            Self::Bind { group, binding } => D::bind(key(group), binding, plan),
            Self::Gather { way, list } => match D::ways(keys).compact[way].key {
                AnyCompactRoute::Paged(key) => plan.gather_rows(key, list),
                AnyCompactRoute::Ring(key) => plan.gather_rows(key, list),
            },
        }
    }
}

/// One binding, and what it is of.
#[derive(Clone, Debug)]
enum Bound {
    Mirror { group: usize, binding: RowBinding },
    Compact { way: usize, list: RowBinding },
}

/// A row plan, and the model that goes with it.
pub struct RowSession<'w, D> {
    world: &'w World,
    /// The plan.
    pub plan: RowPlan<D>,
    /// The model of its page map.
    pub map: MapModel,
    capacity: RowCapacity,
    bound: Vec<Bound>,
}

impl<'w, D: Binds> RowSession<'w, D> {
    /// A plan without bindings, and an empty map.
    #[must_use]
    pub fn new(world: &'w World, capacity: RowCapacity) -> Self {
        let plan = RowPlan::new(Arc::clone(&world.geometry), capacity).unwrap();
        let map = MapModel::new(world, capacity.changes);
        Self { world, plan, map, capacity, bound: Vec::new() }
    }

    /// Makes a call, and panics where it does not do what the model says. Returns whether it was accepted.
    pub fn call(&mut self, call: &RowCall) -> bool {
        let before = encoded(&self.plan);
        let predicted = self.predict(call);
        let found = call.make(self.world, &mut self.plan);
        match (predicted, found) {
            (Ok(()), Ok(())) => {
                self.check();
                true
            }
            (Err(_), Err(_)) => {
                assert_eq!(encoded(&self.plan), before, "{call:?} was refused, and left something");
                self.check_map();
                false
            }
            (Ok(()), Err(error)) => panic!("{call:?} may be planned, and was refused: {error}"),
            (Err(refusal), Ok(())) => panic!("{call:?} may not be planned, as {refusal}"),
        }
    }

    /// Makes a call with the keys of another geometry, which must be refused.
    pub fn call_foreign(&mut self, keys: &World, call: &RowCall) {
        let before = encoded(&self.plan);
        let found = call.make(keys, &mut self.plan);
        assert!(
            matches!(found, Err(PlanError::ForeignKey | PlanError::ForeignGroup { .. })),
            "{call:?} with another geometry's keys: {found:?}"
        );
        assert_eq!(encoded(&self.plan), before, "{call:?} was refused, and left something");
    }

    /// Says that the plan was staged.
    pub fn staged(&mut self) {
        self.plan.staged();
        self.map.staged();
        self.check();
    }

    /// Forgets all bindings.
    pub fn clear_bindings(&mut self) {
        self.plan.clear_bindings();
        self.bound.clear();
        self.check();
    }

    /// Does in the model what a call does.
    fn predict(&mut self, call: &RowCall) -> Result<(), Refusal> {
        match *call {
            RowCall::Map { group, page, block } => {
                if parts(&self.world.groups[group]) != (1, 1) {
                    return Err("pages and blocks have unequal rows");
                }
                self.map.map(self.world, group, (page, 0), (block, 0))
            }
            RowCall::MapRows { group, page, block } => self.map.map(self.world, group, page, block),
            RowCall::Unmap { group, page } => self.map.unmap(self.world, group, page),
            RowCall::Bind { group, binding } => {
                let own =
                    |bound: &Bound| matches!(bound, Bound::Mirror { group: other, .. } if *other == group);
                if self.bound.iter().any(own) {
                    return Err("the group is bound");
                }
                self.check_binding(&binding)?;
                self.bound.push(Bound::Mirror { group, binding });
                Ok(())
            }
            RowCall::Gather { way, list } => {
                let ways = &D::ways(self.world).compact;
                let writes = |bound: &Bound| match *bound {
                    Bound::Compact { way: other, .. } => ways[other].to.number == ways[way].to.number,
                    Bound::Mirror { .. } => false,
                };
                if self.bound.iter().any(writes) {
                    return Err("the buffer is written already");
                }
                if list.capacity > ways[way].to.rows {
                    return Err("the buffer has fewer rows than the list");
                }
                self.check_binding(&list)?;
                self.bound.push(Bound::Compact { way, list });
                Ok(())
            }
        }
    }

    fn check_binding(&self, binding: &RowBinding) -> Result<(), Refusal> {
        let limit = 1 << 31;
        let queries = binding.queries;
        let all_below = binding.capacity < limit
            && queries.is_none_or(|queries| queries.requests < limit)
            && binding.null_page.is_none_or(|page| page.get() < limit);
        if !all_below {
            return Err("a number needs more than 31 bits");
        }
        for (array, align) in arrays(binding) {
            if array.address() == 0 || array.address() % align != 0 || array.end().is_none() {
                return Err("there can be no such array");
            }
        }
        if self.bound.len() >= self.capacity.jobs as usize {
            return Err("there are too many bindings");
        }
        Ok(())
    }

    /// Compares the plan with the model.
    fn check(&self) {
        self.check_map();
        let table = encoded(&self.plan);
        let header = decode::header(&table);
        assert_eq!(
            (header.jobs as usize, header.units, self.plan.jobs()),
            (self.bound.len(), 0, self.bound.len())
        );
        assert_eq!(header.changes_at as usize, HEADER_BYTES + self.bound.len() * ROW_JOB_BYTES);
        for (number, bound) in self.bound.iter().enumerate() {
            let job = &table[HEADER_BYTES + number * ROW_JOB_BYTES..][..ROW_JOB_BYTES];
            match bound {
                Bound::Mirror { group, binding } => {
                    let model = &self.world.groups[*group];
                    let mapped = [model.slots(&model.device), model.tokens_per_row, self.map.firsts[*group]];
                    self.check_job(job, binding, mapped, (&model.device, &model.host), 0);
                }
                Bound::Compact { way, list } => {
                    let CompactWay { from, to, .. } = &D::ways(self.world).compact[*way];
                    self.check_job(job, list, [from.rows, 1, 0], (from, to), 1);
                }
            }
        }
        let expected = self.bound.iter().flat_map(|bound| match bound {
            Bound::Mirror { binding, .. } | Bound::Compact { list: binding, .. } => arrays(binding),
        });
        let expected: Vec<Region> = expected.map(|(array, _)| array).collect();
        assert_eq!(self.plan.arrays().collect::<Vec<_>>(), expected);
    }

    /// One job, field by field, and the rows that its route leads from and to.
    fn check_job(
        &self,
        job: &[u8],
        binding: &RowBinding,
        mapped: [u32; 3],
        (from, to): (&SideModel, &SideModel),
        flags: u32,
    ) {
        let queries = binding.queries;
        let longs = [
            binding.slots,
            binding.count.unwrap_or(0),
            queries.map_or(0, |queries| queries.starts),
            queries.and_then(|queries| queries.accepted).unwrap_or(0),
        ];
        assert_eq!([0, 8, 16, 24].map(|at| u64_at(job, at)), longs);
        let [page_slots, tokens_per_row, map] = mapped;
        let words = [
            binding.capacity,
            queries.map_or(0, |queries| queries.requests),
            binding.width.bytes(),
            page_slots,
            tokens_per_row,
            map,
            binding.null_page.map_or(u32::MAX, PageId::get),
            from.rows.min(to.rows),
            to.rows,
            flags,
            0,
        ];
        let found: Vec<u32> = (0..words.len()).map(|word| u32_at(job, 36 + word * 4)).collect();
        assert_eq!(found, words);
        let ends = |side: &SideModel| [(0, 0), (side.blocks - 1, side.rows - 1)];
        for (from_row, to_row) in ends(from).into_iter().zip(ends(to)) {
            let mut expected = Vec::new();
            let (source, destination) = ((from, from_row.0, from_row.1), (to, to_row.0, to_row.1));
            self.world.group_of(from).copy_row(Some(source), destination, &mut expected);
            let found = decode::row_moves(&self.world.geometry, u32_at(job, 32), from_row, to_row);
            assert_eq!(decode::merged(found), decode::merged(expected));
        }
    }

    /// Compares the page map with the model.
    fn check_map(&self) {
        let pending = decode::changes(&encoded(&self.plan));
        assert_eq!(
            pending.len(),
            self.plan.page_map().pending().len(),
            "all pending changes are in the table"
        );
        let distinct: BTreeMap<u32, i32> = pending.iter().copied().collect();
        // They are applied in parallel.
        assert_eq!(distinct.len(), pending.len(), "an entry comes twice");
        assert_eq!(&distinct, self.map.changed());
        let entries = self.world.geometry.map_entries();
        let held: Vec<i32> = (0..entries).map(|entry| self.map.raw(self.world, entry)).collect();
        assert_eq!(self.plan.maps(), held);
        for (index, group) in self.world.groups.iter().enumerate() {
            let block_of = |map: &PageMap, page: u32| match group.key {
                Key::Paged(key) => map.block_of(key, PageId::new(page)),
                Key::Ring(key) => map.block_of(key, PageId::new(page)),
                Key::State(_) => None,
            };
            for page in 0..=group.device.blocks {
                let inside = page < group.device.blocks;
                let expected = self.map.get(self.world, index, page, 0).filter(|_| inside);
                let found = block_of(self.plan.page_map(), page);
                assert_eq!(found.map(HostBlockId::get), expected.map(|mapped| mapped.block));
            }
        }
    }
}

/// The arrays of a binding, and what their addresses are multiples of.
fn arrays(binding: &RowBinding) -> Vec<(Region, u64)> {
    let width = u64::from(binding.width.bytes());
    let mut arrays = vec![(Region::new(binding.slots, u64::from(binding.capacity) * width), width)];
    arrays.extend(binding.count.map(|count| (Region::new(count, 4), 4)));
    if let Some(Queries { starts, accepted, requests }) = binding.queries {
        let requests = u64::from(requests);
        arrays.push((Region::new(starts, (requests + 1) * 4), 4));
        arrays.extend(accepted.map(|accepted| (Region::new(accepted, requests * 4), 4)));
    }
    arrays
}
