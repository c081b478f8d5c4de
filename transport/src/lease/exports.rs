//! P's side of its leases: blocks are held until no rank of D can be reading them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Moment, Terms};
use crate::error::LeaseError;
use crate::notice::{ExportId, Notice, ReadOutcome};

/// All that a producer has exported, with whatever stands for the blocks: `T` is given back when they are free.
///
/// ```
/// use std::time::Duration;
/// use pagelift_transport::lease::{Exports, Moment, Terms};
/// use pagelift_transport::notice::{Notice, ReadOutcome};
/// let at = |seconds| Moment::new(Duration::from_secs(seconds));
/// let mut exports = Exports::new(0x5eed, Terms::default(), 64)?;
/// let export = exports.grant(at(0), 0..2, vec![4, 5, 6])?;
/// // One of two ranks has read it; the other sends a heartbeat and is not heard again.
/// exports.notice(at(10), &Notice { export, rank: 0, outcome: ReadOutcome::Read })?;
/// exports.heartbeat(at(20), export, 1)?;
/// assert!(exports.ended(at(49)).is_none());
/// let ended = exports.ended(at(50)).ok_or("not ended")?;
/// assert_eq!(ended.blocks, [4, 5, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Exports<T> {
    incarnation: u64,
    terms: Terms,
    most: usize,
    next: u64,
    open: BTreeMap<u64, Export<T>>,
    counters: ExportCounters,
}

#[derive(Debug)]
struct Export<T> {
    blocks: T,
    /// The first rank that reads it, and the leases of that and of those after it.
    first: u32,
    ranks: Vec<RankLease>,
}

#[derive(Clone, Copy, Debug)]
enum RankLease {
    Until(Moment),
    Over(RankEnd),
}

/// Why a rank holds an export no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankEnd {
    /// It has said so.
    Heard(ReadOutcome),
    /// Its heartbeats stopped.
    Expired,
    /// It is known to be gone, and its reads with it.
    Gone,
}

/// An export that nobody reads any more.
#[derive(Debug)]
pub struct Ended<T> {
    /// Which.
    pub export: ExportId,
    /// What stands for its blocks: they are free.
    pub blocks: T,
    /// How it ended for each rank.
    pub ranks: Vec<RankEnd>,
}

/// What was heard that changed nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounters {
    /// Notices of ranks that had said so before.
    pub duplicate: u64,
    /// Messages about exports or ranks that are over, or are not this process's.
    pub unknown: u64,
}

/// The most ranks of an export.
const MOST_RANKS: u32 = 1 << 10;

impl<T> Exports<T> {
    /// No exports yet, of a process that drew the number `incarnation`, and at most `most` at one time.
    ///
    /// # Errors
    /// [`LeaseError::Terms`] where a lease would end before two heartbeats could come.
    pub fn new(incarnation: u64, terms: Terms, most: usize) -> Result<Self, LeaseError> {
        if !terms.are_sound() {
            return Err(LeaseError::Terms { terms });
        }
        let counters = ExportCounters::default();
        Ok(Self { incarnation, terms, most, next: 0, open: BTreeMap::new(), counters })
    }

    /// Holds blocks for these ranks of D, from now on: all that read these blocks. Where each rank of P is a process of its
    /// own, that is one.
    ///
    /// # Errors
    /// Where there are no ranks or too many, or as many exports as there may be.
    pub fn grant(&mut self, now: Moment, ranks: Range<u32>, blocks: T) -> Result<ExportId, LeaseError> {
        let (first, found) = (ranks.start, ranks.end.saturating_sub(ranks.start));
        if found == 0 || found > MOST_RANKS {
            return Err(LeaseError::Ranks { found, most: MOST_RANKS });
        }
        if self.open.len() >= self.most {
            return Err(LeaseError::Full { most: self.most });
        }
        let export = ExportId { incarnation: self.incarnation, number: self.next };
        self.next = self.next.checked_add(1).ok_or(LeaseError::Full { most: self.most })?;
        let lease = RankLease::Until(now.after(self.terms.lease));
        let ranks = ranks.map(|_| lease).collect();
        self.open.insert(export.number, Export { blocks, first, ranks });
        Ok(export)
    }

    /// A rank may still be reading.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] where nothing is held for it: D must not believe what it reads.
    pub fn heartbeat(&mut self, now: Moment, export: ExportId, rank: u32) -> Result<(), LeaseError> {
        let until = now.after(self.terms.lease);
        match self.rank(now, export, rank)? {
            own @ RankLease::Until(_) => {
                *own = RankLease::Until(until);
                Ok(())
            }
            RankLease::Over(_) => Err(self.not_held(export, rank)),
        }
    }

    /// A rank reads no more. Saying it twice changes nothing.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`] where nothing is held for it.
    pub fn notice(&mut self, now: Moment, notice: &Notice) -> Result<(), LeaseError> {
        let Notice { export, rank, outcome } = *notice;
        match self.rank(now, export, rank)? {
            own @ RankLease::Until(_) => {
                *own = RankLease::Over(RankEnd::Heard(outcome));
                Ok(())
            }
            RankLease::Over(RankEnd::Heard(_)) => {
                self.counters.duplicate = self.counters.duplicate.saturating_add(1);
                Ok(())
            }
            RankLease::Over(_) => Err(self.not_held(export, rank)),
        }
    }

    /// A rank's process is gone: the system says so, or its supervisor. That it is silent is not enough.
    pub fn gone(&mut self, export: ExportId, rank: u32) {
        let own = self.open.get_mut(&export.number).filter(|_| export.incarnation == self.incarnation);
        if let Some(own @ RankLease::Until(_)) = own.and_then(|own| own.rank_mut(rank)) {
            *own = RankLease::Over(RankEnd::Gone);
        }
    }

    /// An export that no rank can be reading now, if there is one; ask until there is none.
    pub fn ended(&mut self, now: Moment) -> Option<Ended<T>> {
        let over = |export: &Export<T>| export.ranks.iter().all(|rank| rank.end(now).is_some());
        let number = *self.open.iter().find(|(_, export)| over(export))?.0;
        let Export { blocks, ranks, .. } = self.open.remove(&number)?;
        let ranks = ranks.iter().filter_map(|rank| rank.end(now)).collect();
        Some(Ended { export: ExportId { incarnation: self.incarnation, number }, blocks, ranks })
    }

    /// Exports that are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// What was heard that changed nothing.
    #[must_use]
    pub const fn counters(&self) -> ExportCounters {
        self.counters
    }

    /// The lease of a rank as it is now: one whose time is over stays so, though a late heartbeat comes.
    fn rank(&mut self, now: Moment, export: ExportId, rank: u32) -> Result<&mut RankLease, LeaseError> {
        let (own_incarnation, counters) = (self.incarnation, &mut self.counters);
        let own = self.open.get_mut(&export.number).filter(|_| export.incarnation == own_incarnation);
        let own = own.and_then(|own| own.rank_mut(rank)).ok_or_else(|| {
            counters.unknown = counters.unknown.saturating_add(1);
            LeaseError::NotHeld { export, rank }
        })?;
        if let Some(end) = own.end(now) {
            *own = RankLease::Over(end);
        }
        Ok(own)
    }

    fn not_held(&mut self, export: ExportId, rank: u32) -> LeaseError {
        self.counters.unknown = self.counters.unknown.saturating_add(1);
        LeaseError::NotHeld { export, rank }
    }
}

impl<T> Export<T> {
    /// The lease of a rank that reads it.
    fn rank_mut(&mut self, rank: u32) -> Option<&mut RankLease> {
        let index = usize::try_from(rank.checked_sub(self.first)?).ok()?;
        self.ranks.get_mut(index)
    }
}

impl RankLease {
    fn end(&self, now: Moment) -> Option<RankEnd> {
        match *self {
            Self::Over(end) => Some(end),
            Self::Until(moment) => (now >= moment).then_some(RankEnd::Expired),
        }
    }
}
