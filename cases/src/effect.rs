//! What a planning call does if it may, and whether it may: row by row, the long way.

use std::collections::HashMap;
use std::ops::Range;

use crate::decode::Move;
use crate::world::{SideModel, World};

/// Why a call must be refused, in words.
pub type Refusal = &'static str;

/// How rows are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Their block belongs to the group, and nothing is done with it.
    Hold,
    /// They are a source.
    Read,
    /// They are a destination.
    Write,
}

/// Rows of one block, and how they are used.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The block: its pool's place and its number.
    block: (usize, u32),
    side: usize,
    group: usize,
    rows: Range<u32>,
    usage: Use,
}

/// A row of a block of a side.
pub type At<'w> = (&'w SideModel, u32, u32);

/// What a call does.
#[derive(Clone, Debug, Default)]
pub struct Effect<'w> {
    claims: Vec<Claim>,
    /// Rows, and what they become copies of; zeros where that is nothing.
    copies: Vec<(Option<At<'w>>, At<'w>)>,
}

impl<'w> Effect<'w> {
    /// Uses rows of a block.
    ///
    /// # Errors
    /// Where the pool has no such block.
    pub fn claim(
        &mut self,
        side: &SideModel,
        block: u32,
        rows: Range<u32>,
        usage: Use,
    ) -> Result<(), Refusal> {
        if block >= side.blocks {
            return Err("there is no such block");
        }
        // No rows are neither read nor written.
        let usage = if rows.is_empty() { Use::Hold } else { usage };
        let (side, group, block) = (side.number, side.group, (side.pool, block));
        // Row after row is one claim: reads and writes come by turns.
        let mut last = self.claims.iter_mut().rev().take(2);
        let same = |old: &&mut Claim| (old.block, old.side, old.usage) == (block, side, usage);
        match last.find(|old| same(old) && old.rows.end == rows.start) {
            Some(old) => old.rows.end = rows.end,
            None => self.claims.push(Claim { block, side, group, rows, usage }),
        }
        Ok(())
    }

    /// Copies a row, or zeroes one, and claims what that reads and writes.
    ///
    /// # Errors
    /// Where a pool has no such block.
    pub fn copy(&mut self, from: Option<At<'w>>, to: At<'w>) -> Result<(), Refusal> {
        self.claim(to.0, to.1, to.2..to.2 + 1, Use::Write)?;
        self.copy_claimed(from, to)
    }

    /// Copies a row, or zeroes one, into a block that is claimed already.
    ///
    /// # Errors
    /// Where a pool has no such block.
    pub fn copy_claimed(&mut self, from: Option<At<'w>>, to: At<'w>) -> Result<(), Refusal> {
        if let Some((side, block, row)) = from {
            self.claim(side, block, row..row + 1, Use::Read)?;
        }
        self.copies.push((from, to));
        Ok(())
    }

    /// Each block that it uses: of which group, and its strongest use.
    #[must_use]
    pub fn blocks(&self) -> HashMap<(usize, u32), (usize, Use)> {
        let mut blocks = HashMap::new();
        for claim in &self.claims {
            let (_, usage) = blocks.entry(claim.block).or_insert((claim.group, Use::Hold));
            *usage = claim.usage.max(*usage);
        }
        blocks
    }

    /// The same as runs of bytes.
    #[must_use]
    pub fn moves(&self, world: &World) -> Vec<Move> {
        let mut moves = Vec::new();
        for &(from, to) in &self.copies {
            world.group_of(to.0).copy_row(from, to, &mut moves);
        }
        moves
    }
}

/// All that the calls of one plan have claimed.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    blocks: HashMap<(usize, u32), Vec<Claim>>,
}

impl Claims {
    /// Adds what a call claims, or nothing of it.
    ///
    /// # Errors
    /// Where it would race with what is there, or with itself.
    pub fn add(&mut self, effect: &Effect<'_>) -> Result<(), Refusal> {
        for (index, new) in effect.claims.iter().enumerate() {
            let earlier = effect.claims[..index].iter().filter(|old| old.block == new.block);
            for old in self.blocks.get(&new.block).into_iter().flatten().chain(earlier) {
                check(old, new)?;
            }
        }
        for new in &effect.claims {
            self.blocks.entry(new.block).or_default().push(new.clone());
        }
        Ok(())
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }
}

/// Whether two claims of one block may stand beside each other.
fn check(old: &Claim, new: &Claim) -> Result<(), Refusal> {
    if old.group != new.group {
        return Err("the block belongs to another group");
    }
    if old.usage == Use::Hold || new.usage == Use::Hold {
        return Ok(());
    }
    // Where rows of two sides lie in one block is not looked at: they may be the same bytes.
    let meet = old.side != new.side || (old.rows.start < new.rows.end && new.rows.start < old.rows.end);
    match (old.usage, new.usage) {
        (Use::Write, Use::Write) if meet => Err("rows are written twice"),
        (Use::Read, Use::Write) | (Use::Write, Use::Read) if meet => Err("rows are read and written"),
        _ => Ok(()),
    }
}
