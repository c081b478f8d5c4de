//! Which block ids each group gets, and which are left.
//!
//! Groups may share a pool; then they share its ids, and a block belongs to one group. Explicit lists choose first,
//! whatever their place in the file; scattered ones draw from what is left, in the order of the groups.

use std::sync::Arc;

use super::error::{At, Located, Problem};
use super::format::{BlocksSpec, GroupSpec, Memory, SideSpec};
use super::group::Group;
use super::pool::Pool;
use super::span::Span;
use super::splitmix::SplitMix64;

/// Gives every group its blocks, and returns the ids that are left of each pool, in scattered order.
pub fn assign(
    pools: &[Arc<Pool>],
    specs: &[GroupSpec],
    groups: &mut [Group],
    span: &Span,
) -> Result<Vec<Vec<u32>>, Located> {
    let mut owners: Vec<Owners> = pools.iter().map(|pool| Owners::new(Arc::clone(pool))).collect();
    for_each_side(specs, groups, span, &mut owners, |side, owners| match &side.spec.blocks {
        BlocksSpec::List(ids) => side.take_list(ids, owners).map(Some),
        BlocksSpec::Scattered(_) => Ok(None),
    })?;
    let mut free: Vec<Free> = owners.into_iter().map(Owners::into_free).collect();
    for_each_side(specs, groups, span, &mut free, |side, free| match &side.spec.blocks {
        BlocksSpec::List(_) => Ok(None),
        BlocksSpec::Scattered(spec) => side.draw(spec.seed, free).map(Some),
    })?;
    Ok(free.into_iter().map(Free::into_spare).collect())
}

/// A side that is to be given blocks.
struct Asking<'a> {
    spec: &'a SideSpec,
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
            let place = format!("groups[{}].{memory}.blocks", group.index);
            let (spec, side) = match memory {
                Memory::Host => (&spec.host, &mut group.host),
                Memory::Device => (&spec.device, &mut group.device),
            };
            if let (Some(spec), Some(side)) = (spec, side)
                && let Some(state) = states.get_mut(side.pool.index)
                && let Some(ids) = visit(Asking { spec, needed, why, place }, state)?
            {
                side.blocks = ids;
            }
        }
    }
    Ok(())
}

/// Who has which block of a pool, while explicit lists are read.
struct Owners {
    pool: Arc<Pool>,
    /// Sorted by id: the block, and where it was listed.
    taken: std::collections::BTreeMap<u32, String>,
}

impl Owners {
    fn new(pool: Arc<Pool>) -> Self {
        Self { pool, taken: std::collections::BTreeMap::new() }
    }

    fn take(&mut self, id: u32, place: &str) -> Result<(), Problem> {
        let pool = || self.pool.name.clone();
        if id >= self.pool.blocks {
            return Err(Problem::BlockOutOfRange { id, pool: pool(), blocks: self.pool.blocks });
        }
        if self.pool.null_block == Some(id) {
            return Err(Problem::NullBlock { id, pool: pool() });
        }
        match self.taken.get(&id) {
            Some(first) => Err(Problem::BlockTwice { id, pool: pool(), first: first.clone() }),
            None => {
                self.taken.insert(id, place.to_owned());
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

    fn into_spare(mut self) -> Vec<u32> {
        let mut random = SplitMix64::new(self.pool.index as u64);
        std::iter::from_fn(|| self.draw(&mut random)).collect()
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
            let place = format!("{}.list[{position}]", self.place);
            owners.take(*id, &place).at(place)?;
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
