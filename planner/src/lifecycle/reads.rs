//! The reads of one import: who has how many, and which are in flight.

use super::event::Event;
use super::rank::{Rank, Ranks};

/// Reads of an import, `each` of each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Reads {
    ranks: Ranks,
    each: u8,
    /// A bit for each read in flight, rank by rank.
    open: u128,
}

const _: () = assert!(Event::MOST_READS <= u128::BITS, "a bit for each read");

impl Reads {
    /// All of them in flight, at most [`Event::MOST_READS`].
    pub fn begun(ranks: Ranks, each: u8) -> Self {
        let count = ranks.len().saturating_mul(each.into());
        let open = 1_u128.checked_shl(count).map_or(u128::MAX, |bit| bit.wrapping_sub(1));
        Self { ranks, each, open }
    }

    pub const fn are_over(self) -> bool {
        self.open == 0
    }

    /// Whether there is or was such a read.
    pub const fn has(self, rank: Rank, part: u8) -> bool {
        self.ranks.contains(rank) && part < self.each
    }

    /// Notes that a read has ended. Whether it was in flight.
    pub fn close(&mut self, rank: Rank, part: u8) -> bool {
        let bit = self.bit(rank, part).unwrap_or(0);
        let was_open = self.open & bit != 0;
        self.open &= !bit;
        was_open
    }

    /// Notes that all reads of a rank have ended. Whether any was in flight.
    pub fn close_all(&mut self, rank: Rank) -> bool {
        let open = self.open;
        (0..self.each).for_each(|part| {
            self.close(rank, part);
        });
        self.open != open
    }

    fn bit(self, rank: Rank, part: u8) -> Option<u128> {
        let before = self.ranks.iter().take_while(|other| other.get() < rank.get()).count();
        let number = u32::try_from(before).ok()?.checked_mul(self.each.into())?.checked_add(part.into())?;
        1_u128.checked_shl(number).filter(|_| self.has(rank, part))
    }
}
