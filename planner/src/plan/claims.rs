//! Who reads and writes which rows of which block, over one whole plan.
//!
//! One stamp a block says which group uses it and heads a chain of the rows claimed so far. Stamps of an earlier
//! plan are told by their generation, so that clearing costs nothing and looking up is an index: no hashing.

use std::ops::Range;
use std::sync::Arc;

use super::MOST_BLOCKS;
use super::direction::block_words;
use crate::error::PlanError;
use crate::geometry::{Geometry, Memory};
use crate::id::{GroupId, PoolId};
use crate::room::{check_most, filled, with_room};

/// Rows `first..end` of one block, as one side of its group counts them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The block's [place](Places) among those of all pools.
    pub place: u32,
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
    /// Another import was given the block.
    Reserved,
}

/// How rows are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// The block belongs to the import, and the plan leaves it alone.
    Hold,
    /// They are a source.
    Read,
    /// They are a destination.
    Write,
}

/// Where the blocks of each pool begin when the blocks of all pools are counted together.
#[derive(Clone, Debug)]
struct Places {
    pools: Vec<Range<u32>>,
}

impl Places {
    /// # Errors
    /// Where the pools have more blocks than is kept track of.
    pub fn new(geometry: &Geometry) -> Result<Self, PlanError> {
        let blocks = geometry.pools.iter().map(|pool| u64::from(pool.blocks()));
        check_most("blocks of all pools", blocks.fold(0, u64::saturating_add), MOST_BLOCKS)?;
        let mut end = 0_u32;
        let mut pools = with_room("pools", geometry.pools.len().try_into().unwrap_or(u64::MAX))?;
        for pool in &geometry.pools {
            let first = end;
            end = end.saturating_add(pool.blocks());
            pools.push(first..end);
        }
        Ok(Self { pools })
    }

    /// Blocks of all pools.
    pub fn len(&self) -> u32 {
        self.pools.last().map_or(0, |last| last.end)
    }

    /// The place of a block, where the pool has it.
    pub fn of(&self, pool: PoolId, block: u32) -> Option<u32> {
        let pool = self.pools.get(usize::try_from(pool.get()).ok()?)?;
        pool.start.checked_add(block).filter(|place| *place < pool.end)
    }

    /// The pool and the block of a place.
    fn block(&self, place: u32) -> Option<(usize, u32)> {
        let pool = self.pools.partition_point(|pool| pool.end <= place);
        Some((pool, place.checked_sub(self.pools.get(pool)?.start)?))
    }
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

/// A claim that was made.
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
    places: Places,
    stamps: Vec<Stamp>,
    records: Vec<Record>,
}

impl Claims {
    /// No claims, with room for `capacity` reads and writes. Blocks that are held need a record once at most, so that
    /// planning never allocates again.
    ///
    /// # Errors
    /// Where the pools have more blocks than a plan keeps track of, or there is no memory for them.
    pub fn new(geometry: &Geometry, capacity: u64) -> Result<Self, PlanError> {
        let places = Places::new(geometry)?;
        let blocks = u64::from(places.len());
        Ok(Self {
            generation: 1,
            places,
            stamps: filled("blocks of all pools", Stamp::default(), blocks)?,
            records: with_room("rows read and written", capacity.saturating_add(blocks))?,
        })
    }

    /// Forgets all claims.
    pub fn clear(&mut self) {
        self.records.clear();
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            // After 2³² plans, stamps of the first would look like today's.
            self.stamps.fill(Stamp::default());
            self.generation = 1;
        }
    }

    /// How many claims there are: where [`Claims::rewind`] goes back to.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is read and written, in the order of the claims.
    pub fn used(&self) -> impl Iterator<Item = (Claim, Use)> {
        let used = self.records.iter().filter(|record| record.usage != Use::Hold);
        used.map(|record| (record.claim, record.usage))
    }

    /// Each block that is claimed, once, with its strongest use.
    pub fn blocks(&self) -> impl Iterator<Item = (Claim, Use)> {
        let record = |at: u32| self.records.get(usize::try_from(at).ok()?);
        let last = move |(at, of): (u32, &Record)| {
            let place = usize::try_from(of.claim.place).ok()?;
            (self.stamps.get(place)?.last == at).then_some(*of)
        };
        (0_u32..).zip(&self.records).filter_map(last).map(move |of| {
            let earlier = std::iter::successors(Some(of), |of| record(of.previous).copied());
            (of.claim, earlier.map(|of| of.usage).max().unwrap_or(of.usage))
        })
    }

    /// The place of a block, where the pool has it.
    #[inline]
    pub fn place(&self, pool: PoolId, block: u32) -> Option<u32> {
        self.places.of(pool, block)
    }

    /// Blocks of all pools.
    pub fn places(&self) -> u32 {
        self.places.len()
    }

    /// Whether a block is claimed.
    pub fn contains(&self, place: u32) -> bool {
        let stamp = usize::try_from(place).ok().and_then(|place| self.stamps.get(place));
        stamp.is_some_and(|stamp| stamp.generation == self.generation)
    }

    /// A conflict in words.
    #[cold]
    pub fn explain(&self, geometry: &Geometry, claim: Claim, conflict: Conflict) -> PlanError {
        let group = geometry.group_name(claim.group);
        let (pool, block) = self.places.block(claim.place).unwrap_or((usize::MAX, u32::MAX));
        let pool = geometry.pools.get(pool).map_or_else(|| Arc::from(""), |pool| pool.spec.name.clone());
        let memory = geometry.side_at(claim.side).map_or(Memory::Host, |side| side.memory);
        let block = block_words(memory, block);
        match conflict {
            Conflict::WrittenTwice => {
                PlanError::WrittenTwice { group, block, first: claim.first, end: claim.end }
            }
            Conflict::ReadAndWritten => PlanError::Overlap { group, block },
            Conflict::Reserved => PlanError::Reserved { group, block },
            Conflict::OtherGroup(other) => {
                PlanError::BlockOfTwoGroups { block, pool, first: geometry.group_name(other), second: group }
            }
        }
    }

    /// Takes back all claims but the first `len`.
    pub fn rewind(&mut self, len: usize) {
        while self.records.len() > len {
            let Some(Record { claim, previous, .. }) = self.records.pop() else { return };
            let Some(stamp) = stamp_of(&mut self.stamps, claim.place) else { continue };
            if previous == END {
                *stamp = Stamp::default();
            } else {
                stamp.last = previous;
            }
        }
    }

    /// Claims rows of a block.
    #[inline]
    pub fn claim(&mut self, claim: Claim, usage: Use) -> Result<(), Conflict> {
        // No rows at all are neither read nor written, and may come any number of times.
        let usage = if claim.first < claim.end { usage } else { Use::Hold };
        let number = u32::try_from(self.records.len()).unwrap_or(END);
        let generation = self.generation;
        // Places come from `place`, which knows no other blocks than those that have a stamp.
        let Some(stamp) = stamp_of(&mut self.stamps, claim.place) else { return Ok(()) };
        let fresh = Stamp { generation, group: claim.group.get(), last: number };
        // Nearly always it is the block's first claim.
        if stamp.generation != generation {
            *stamp = fresh;
            self.records.push(Record { claim, usage, previous: END });
            return Ok(());
        }
        let previous = stamp.last;
        if stamp.group != claim.group.get() {
            return Err(Conflict::OtherGroup(GroupId::new(stamp.group)));
        }
        // That a block which is only held belongs to the group is known already.
        if usage == Use::Hold || self.covered(previous, claim, usage)? {
            return Ok(());
        }
        if let Some(stamp) = stamp_of(&mut self.stamps, claim.place) {
            *stamp = fresh;
        }
        self.records.push(Record { claim, usage, previous });
        Ok(())
    }

    /// Compares a claim with the earlier ones of its block, and says whether it is known already: reading the same rows
    /// many times needs one record.
    fn covered(&self, last: u32, claim: Claim, usage: Use) -> Result<bool, Conflict> {
        let mut at = last;
        // A block is rarely claimed more than twice (its rows, and zeros after them).
        while let Some(record) = usize::try_from(at).ok().and_then(|at| self.records.get(at)) {
            let rows_meet = record.claim.first < claim.end && claim.first < record.claim.end;
            // Where rows of two sides lie in one block is not compared: they may be the same bytes.
            let meet = rows_meet || record.claim.side != claim.side;
            let covers = record.claim.first <= claim.first && claim.end <= record.claim.end;
            match (record.usage, usage) {
                (Use::Read, Use::Read) if covers && record.claim.side == claim.side => return Ok(true),
                (Use::Write, Use::Write) if meet => return Err(Conflict::WrittenTwice),
                (Use::Read, Use::Write) | (Use::Write, Use::Read) if meet => {
                    return Err(Conflict::ReadAndWritten);
                }
                _ => at = record.previous,
            }
        }
        Ok(false)
    }
}

/// The stamp of a block.
#[inline]
fn stamp_of(stamps: &mut [Stamp], place: u32) -> Option<&mut Stamp> {
    stamps.get_mut(usize::try_from(place).ok()?)
}
