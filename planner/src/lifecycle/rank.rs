//! Which workers take part.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One worker of an engine: a tensor-parallel process, by its number.
///
/// ```
/// use pagelift_planner::lifecycle::Rank;
/// assert_eq!(Rank::new(3).to_string(), "rank 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rank(u8);

impl Rank {
    /// Wraps a number. [`Ranks::MOST`] ranks and more are nobody's: a lifecycle does not know them.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Its place in lists by rank.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// A set of ranks.
///
/// ```
/// use pagelift_planner::lifecycle::{Rank, Ranks};
/// let mut all = Ranks::first(4);
/// assert!(all.contains(Rank::new(3)) && !all.contains(Rank::new(4)));
/// all.remove(Rank::new(0));
/// assert_eq!(all.iter().map(Rank::get).collect::<Vec<_>>(), [1, 2, 3]);
/// assert_eq!(all.to_string(), "ranks 1, 2, 3");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ranks(u64);

impl Ranks {
    /// Nobody.
    pub const NONE: Self = Self(0);

    /// The most ranks of an engine.
    pub const MOST: u8 = 64;

    /// Ranks `0..count`, at most [`Ranks::MOST`].
    #[must_use]
    pub const fn first(count: u8) -> Self {
        match 1_u64.checked_shl(count as u32) {
            Some(bit) => Self(bit.wrapping_sub(1)),
            None => Self(u64::MAX),
        }
    }

    /// One rank.
    #[must_use]
    pub const fn one(rank: Rank) -> Self {
        match 1_u64.checked_shl(rank.0 as u32) {
            Some(bit) => Self(bit),
            None => Self(0),
        }
    }

    /// Whether a rank is in it.
    #[must_use]
    pub const fn contains(self, rank: Rank) -> bool {
        self.0 & Self::one(rank).0 != 0
    }

    /// Adds a rank.
    pub const fn insert(&mut self, rank: Rank) {
        self.0 |= Self::one(rank).0;
    }

    /// Takes a rank out.
    pub const fn remove(&mut self, rank: Rank) {
        self.0 &= !Self::one(rank).0;
    }

    /// Ranks of this set that the other lacks.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many there are.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The ranks, the lowest first.
    pub fn iter(self) -> impl Iterator<Item = Rank> {
        (0..Self::MOST).map(Rank).filter(move |rank| self.contains(*rank))
    }
}

/// `ranks 0, 3`, `rank 3`, or `no ranks`.
impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.len() {
            0 => "no ranks",
            1 => "rank ",
            _ => "ranks ",
        })?;
        self.iter().enumerate().try_for_each(|(index, rank)| {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}", rank.get())
        })
    }
}
