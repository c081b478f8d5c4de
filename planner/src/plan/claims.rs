//! Who reads and writes which rows of which block, over one whole plan.
//!
//! One stamp a block says which group uses it and heads a chain of the rows claimed so far. Stamps of an earlier
//! plan are told by their generation, so that clearing costs nothing and looking up is an index: no hashing.

use super::{MOST_BLOCKS, check_most, filled, room};
use crate::error::PlanError;
use crate::geometry::Geometry;
use crate::id::{GroupId, PoolId};

/// Rows `first..end` of one block, as one side of its group counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub pool: PoolId,
    pub block: u32,
    pub side: u32,
    pub group: GroupId,
    pub first: u32,
    pub end: u32,
}

/// Why a claim was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The block is used by this group already.
    OtherGroup(GroupId),
    /// Some of the rows are written already.
    WrittenTwice,
    /// Some of the rows are read and written.
    ReadAndWritten,
    /// The pool has no such block.
    OutOfRange,
}

/// How rows are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// They are a source.
    Read,
    /// They are a destination.
    Write,
    /// The block belongs to the import, and the plan leaves it alone.
    Hold,
}

/// No record.
const END: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Stamp {
    generation: u32,
    group: u32,
    /// The last record of this block, whatever its use.
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    claim: Claim,
    usage: Use,
    previous: u32,
}

/// All claims of one plan.
#[derive(Debug)]
pub(crate) struct Claims {
    generation: u32,
    stamps: Vec<Vec<Stamp>>,
    records: Vec<Record>,
}

impl Claims {
    /// No claims, with room for `capacity` reads and writes. Blocks that are held need a record once at most, so that
    /// planning never allocates again.
    ///
    /// # Errors
    /// Where the pools have more blocks than a plan keeps track of, or there is no memory for them.
    pub fn new(geometry: &Geometry, capacity: u64) -> Result<Self, PlanError> {
        let blocks = |sum: u64, pool: &crate::geometry::Pool| sum.saturating_add(u64::from(pool.blocks()));
        let blocks = geometry.pools.iter().fold(0, blocks);
        check_most("blocks of all pools", blocks, MOST_BLOCKS)?;
        let stamp = |pool: &crate::geometry::Pool| {
            filled("blocks of a pool", Stamp::default(), u64::from(pool.blocks()))
        };
        let stamps = geometry.pools.iter().map(stamp).collect::<Result<_, _>>()?;
        Ok(Self {
            generation: 1,
            stamps,
            records: room("rows read and written", capacity.saturating_add(blocks))?,
        })
    }

    /// Forgets all claims.
    pub fn clear(&mut self) {
        self.records.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // After 2³² plans, stamps of the first would look like today's.
            self.stamps.iter_mut().flatten().for_each(|stamp| *stamp = Stamp::default());
            self.generation = 1;
        }
    }

    /// How many claims there are: where [`Claims::rewind`] goes back to.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Takes back all claims but the first `len`.
    pub fn rewind(&mut self, len: usize) {
        while self.records.len() > len {
            let Some(Record { claim, previous, .. }) = self.records.pop() else { return };
            let Some(stamp) = stamp_of(&mut self.stamps, claim.pool, claim.block) else { continue };
            if previous == END {
                *stamp = Stamp::default();
            } else {
                stamp.last = previous;
            }
        }
    }

    /// Claims rows of a block.
    pub fn claim(&mut self, claim: Claim, usage: Use) -> Result<(), Conflict> {
        // No rows at all are neither read nor written, and may come any number of times.
        let usage = if claim.first < claim.end { usage } else { Use::Hold };
        let number = u32::try_from(self.records.len()).unwrap_or(END);
        let Some(stamp) = stamp_of(&mut self.stamps, claim.pool, claim.block) else {
            return Err(Conflict::OutOfRange);
        };
        let mut previous = END;
        if stamp.generation == self.generation {
            if stamp.group != claim.group.get() {
                return Err(Conflict::OtherGroup(GroupId::new(stamp.group)));
            }
            if usage == Use::Hold {
                // That the block belongs to the group is known already.
                return Ok(());
            }
            previous = stamp.last;
            let mut at = previous;
            // A block is rarely claimed more than twice (its rows, and zeros after them).
            while let Some(record) = usize::try_from(at).ok().and_then(|at| self.records.get(at)) {
                let rows_meet = record.claim.first < claim.end && claim.first < record.claim.end;
                // Where rows of two sides lie in one block is not compared: they may be the same bytes.
                let meet = rows_meet || record.claim.side != claim.side;
                let covers = record.claim.first <= claim.first && claim.end <= record.claim.end;
                match (record.usage, usage) {
                    // Known already: reading the same rows many times needs one record.
                    (Use::Read, Use::Read) if covers && record.claim.side == claim.side => return Ok(()),
                    (Use::Write, Use::Write) if meet => return Err(Conflict::WrittenTwice),
                    (Use::Read, Use::Write) | (Use::Write, Use::Read) if meet => {
                        return Err(Conflict::ReadAndWritten);
                    }
                    _ => at = record.previous,
                }
            }
        }
        *stamp = Stamp { generation: self.generation, group: claim.group.get(), last: number };
        self.records.push(Record { claim, usage, previous });
        Ok(())
    }
}

/// The stamp of a block, where the pool has it.
fn stamp_of(stamps: &mut [Vec<Stamp>], pool: PoolId, block: u32) -> Option<&mut Stamp> {
    stamps.get_mut(usize::try_from(pool.get()).ok()?)?.get_mut(usize::try_from(block).ok()?)
}
