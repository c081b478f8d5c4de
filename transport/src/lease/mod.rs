//! Who may use which blocks until when.
//!
//! P holds what it has exported under a lease for each rank of D, which D's heartbeats extend. One-sided reads do not ask:
//! so D must stop believing in a lease before P stops holding it. D counts from when it *sent* a heartbeat that P has
//! acknowledged, P from when it *heard* it; so D's end is never the later one, without clocks that agree.
//!
//! | type | of | question it answers |
//! |---|---|---|
//! | [`Exports`] | P | which blocks are free again? |
//! | [`Holding`] | D | may reads of this export still be believed, and is it time for a heartbeat? |
//!
//! Time is a parameter: a [`Moment`], of any monotonic clock.

mod exports;
mod holding;

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use exports::{Ended, ExportCounters, Exports, RankEnd};
pub use holding::Holding;

/// A moment of one process's monotonic clock. Those of two processes have nothing to do with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// So long after the clock's beginning.
    #[must_use]
    pub const fn new(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the clock's beginning.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// Now, by a clock that began at `start`.
    #[must_use]
    pub fn now(start: Instant) -> Self {
        Self(start.elapsed())
    }

    /// So much later, or as late as can be.
    #[must_use]
    pub const fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    /// The time since an earlier moment; none where that is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// How long leases last, as P says to D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// How long a lease lasts after P has heard a heartbeat.
    pub lease: Duration,
    /// How often D sends heartbeats.
    pub heartbeat: Duration,
    /// How much earlier than that D stops believing in a lease: what both clocks may drift apart in `lease`.
    pub margin: Duration,
}

impl Default for Terms {
    /// Thirty seconds, a heartbeat every five, and one to spare.
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { lease: seconds(30), heartbeat: seconds(5), margin: seconds(1) }
    }
}

impl Terms {
    /// Whether a heartbeat comes in time, with one lost.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let needed = self.heartbeat.checked_mul(2).and_then(|two| two.checked_add(self.margin));
        !self.heartbeat.is_zero() && needed.is_some_and(|needed| needed <= self.lease)
    }
}
