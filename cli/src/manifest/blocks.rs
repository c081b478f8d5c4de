//! Which block ids each group gets, and which are left.
//!
//! Groups may share a pool; then they share its ids, and a block belongs to one group. Explicit lists choose first,
//! whatever their place in the file; scattered ones draw from what is left, in the order of the groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{At, Located, Problem};
use super::format::{BlocksSpec, GroupSpec, Memory, SideSpec};
use super::group::Group;
use super::pool::Pool;
use super::span::Span;
use super::splitmix::SplitMix64;

/// Gives every group its blocks, and returns the ids that are left of each pool.
pub fn assign(
    pools: &[Arc<Pool>],
    specs: &[GroupSpec],
    groups: &mut [Group],
    span: &Span,
) -> Result<Vec<Vec<u32>>, Located> {
    let mut owners: Vec<Owners> = pools.iter().map(|pool| Owners::new(Arc::clone(pool))).collect();
    for_each_side(specs, groups, span, &mut owners, |side, owners| match &side.spec.blocks {
        BlocksSpec::List(ids) => side.take_list(ids, owners).map(Some),
        BlocksSpec::Scattered { .. } => Ok(None),
    })?;
    let mut free: Vec<Free> = owners.into_iter().map(Owners::into_free).collect();
    for_each_side(specs, groups, span, &mut free, |side, free| match &side.spec.blocks {
        BlocksSpec::List(_) => Ok(None),
        BlocksSpec::Scattered { seed } => side.draw(*seed, free).map(Some),
    })?;
    Ok(free.into_iter().map(|free| free.ids).collect())
}

/// A side that is to be given blocks.
struct Asking<'a> {
    spec: &'a SideSpec,
    group: usize,
    memory: Memory,
    needed: u64,
    why: &'static str,
    place: String,
}

/// Visits all sides together with the state kept for their pool; a visit that returns ids gives them to the side.
fn for_each_side<S>(
    specs: &[GroupSpec],
    groups: &mut [Group],
    span: &Span,
    states: &mut [S],
    visit: impl Fn(Asking<'_>, &mut S) -> Result<Option<Vec<u32>>, Located>,
) -> Result<(), Located> {
    for (spec, group) in specs.iter().zip(groups) {
        for memory in [Memory::Host, Memory::Device] {
            let (needed, why) = match memory {
                Memory::Host => group.host_blocks_needed(span),
                Memory::Device => group.device_pages_needed(span),
            };
            let (index, place) = (group.index, place(group.index, memory));
            let (spec, side) = match memory {
                Memory::Host => (&spec.host, &mut group.host),
                Memory::Device => (&spec.device, &mut group.device),
            };
            if let (Some(spec), Some(side)) = (spec, side)
                && let Some(state) = states.get_mut(side.pool.index)
                && let Some(ids) = visit(Asking { spec, group: index, memory, needed, why, place }, state)?
            {
                side.blocks = ids;
            }
        }
    }
    Ok(())
}

/// Where the blocks of a side stand.
fn place(group: usize, memory: Memory) -> String {
    format!("groups[{group}].{memory}.blocks")
}

/// Where a block was listed: the group, its side, and the position.
type Listed = (usize, Memory, usize);

/// Who has which block of a pool, while explicit lists are read.
struct Owners {
    pool: Arc<Pool>,
    /// By id.
    taken: BTreeMap<u32, Listed>,
}

impl Owners {
    fn new(pool: Arc<Pool>) -> Self {
        Self { pool, taken: BTreeMap::new() }
    }

    fn take(&mut self, id: u32, listed: Listed) -> Result<(), Problem> {
        let pool = || self.pool.name.clone();
        if id >= self.pool.blocks {
            return Err(Problem::BlockOutOfRange { id, pool: pool(), blocks: self.pool.blocks });
        }
        if self.pool.null_block == Some(id) {
            return Err(Problem::NullBlock { id, pool: pool() });
        }
        match self.taken.get(&id) {
            Some((group, memory, position)) => {
                let first = format!("{}.list[{position}]", place(*group, *memory));
                Err(Problem::BlockTwice { id, pool: pool(), first })
            }
            None => {
                self.taken.insert(id, listed);
                Ok(())
            }
        }
    }

    fn into_free(self) -> Free {
        let used = |id: &u32| self.taken.contains_key(id) || self.pool.null_block == Some(*id);
        let ids = (0..self.pool.blocks).filter(|id| !used(id)).collect();
        Free { pool: self.pool, ids }
    }
}

/// The blocks of a pool that nobody has.
struct Free {
    pool: Arc<Pool>,
    ids: Vec<u32>,
}

impl Free {
    fn draw(&mut self, random: &mut SplitMix64) -> Option<u32> {
        (!self.ids.is_empty()).then(|| self.ids.swap_remove(random.below(self.ids.len())))
    }
}

impl Asking<'_> {
    fn take_list(&self, ids: &[u32], owners: &mut Owners) -> Result<Vec<u32>, Located> {
        let found = ids.len() as u64;
        if found != self.needed {
            let problem = Problem::ListLength { expected: self.needed, why: self.why, found };
            return Err(problem).at(format!("{}.list", self.place));
        }
        for (position, id) in ids.iter().enumerate() {
            let taken = owners.take(*id, (self.group, self.memory, position));
            taken
                .map_err(|problem| Located { place: format!("{}.list[{position}]", self.place), problem })?;
        }
        Ok(ids.to_vec())
    }

    fn draw(&self, seed: u64, free: &mut Free) -> Result<Vec<u32>, Located> {
        let available = free.ids.len() as u64;
        if self.needed > available {
            let pool = free.pool.name.clone();
            let problem = Problem::NotEnoughBlocks { pool, needed: self.needed, free: available };
            return Err(problem).at(self.place.clone());
        }
        let mut random = SplitMix64::new(seed);
        Ok((0..self.needed).map_while(|_| free.draw(&mut random)).collect())
    }
}
