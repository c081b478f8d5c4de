//! Which blocks a call names: mostly such as nobody has yet, and once in a while any.

use crate::draw::Draw;
use crate::world::{SideModel, World};

/// The blocks of each pool that no call has named yet, in random order.
#[derive(Clone, Debug)]
pub struct Free(Vec<Vec<u32>>);

impl Free {
    /// All blocks of all pools.
    #[must_use]
    pub fn all(draw: &mut Draw, world: &World) -> Self {
        Self(world.geometry.pools().iter().map(|pool| draw.order(pool.blocks())).collect())
    }

    /// Some blocks of a side's pool; `None`, and none taken, where there are too few.
    pub fn take(&mut self, side: &SideModel, count: usize) -> Option<Vec<u32>> {
        let free = &mut self.0[side.pool];
        Some(free.split_off(free.len().checked_sub(count)?))
    }

    /// Gives blocks of a side's pool back, to be taken next.
    pub fn give_back(&mut self, side: &SideModel, blocks: &[u32]) {
        self.0[side.pool].extend_from_slice(blocks);
    }

    /// Some blocks of a side's pool: free ones as far as there are any, and any others.
    pub fn some(&mut self, draw: &mut Draw, side: &SideModel, count: usize) -> Vec<u32> {
        let free = &mut self.0[side.pool];
        (0..count).map(|_| free.pop().unwrap_or_else(|| draw.small(side.blocks))).collect()
    }
}

/// Spoils a list: an entry comes twice, is any block, or one that the pool does not have; or the list is too long or too
/// short.
pub fn spoil(draw: &mut Draw, list: &mut Vec<u32>, blocks: u32) {
    let any = draw.small(blocks);
    if list.is_empty() {
        return list.push(any);
    }
    let at = draw.below(list.len() as u64) as usize;
    match draw.below(8) {
        0 | 1 => list[at] = any,
        2 => list[at] = list[0],
        3 => list[at] = blocks,
        4 => list[at] = u32::MAX - draw.small(3),
        5 => drop(list.pop()),
        6 => list.push(any),
        _ => list.clear(),
    }
}
