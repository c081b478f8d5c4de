//! D's side of a lease.

use super::{Moment, Terms};

/// What D knows of a lease that P holds for it.
///
/// ```
/// use std::time::Duration;
/// use pagelift_transport::lease::{Holding, Moment, Terms};
/// let at = |seconds| Moment::new(Duration::from_secs(seconds));
/// // Asked for at 100: believed in until 129, one second before P may end it.
/// let mut lease = Holding::new(Terms::default(), at(100));
/// assert!(lease.lasts(at(128)) && !lease.lasts(at(129)));
/// // A heartbeat that was sent at 105 counts from then on, whenever P's answer comes.
/// assert!(lease.is_due(at(105)));
/// lease.acknowledged(at(105));
/// assert!(lease.lasts(at(133)) && !lease.lasts(at(134)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    terms: Terms,
    since: Moment,
    last_sent: Moment,
    refused: bool,
}

impl Holding {
    /// A lease that was asked for at `asked`: P has granted it later than that, and so holds it for longer.
    #[must_use]
    pub const fn new(terms: Terms, asked: Moment) -> Self {
        Self { terms, since: asked, last_sent: asked, refused: false }
    }

    /// Whether bytes that were read until now are P's export.
    #[must_use]
    pub fn lasts(&self, now: Moment) -> bool {
        !self.refused && now.since(self.since) < self.terms.lease.saturating_sub(self.terms.margin)
    }

    /// Whether it is time for a heartbeat. If so, it is taken to be sent now.
    pub fn is_due(&mut self, now: Moment) -> bool {
        let due = self.lasts(now) && now.since(self.last_sent) >= self.terms.heartbeat;
        if due {
            self.last_sent = now;
        }
        due
    }

    /// P has heard the heartbeat that was sent at `sent`. Answers may come twice, and in any order.
    pub fn acknowledged(&mut self, sent: Moment) {
        // One that was never sent would be believed for too long.
        if sent <= self.last_sent {
            self.since = self.since.max(sent);
        }
    }

    /// P holds nothing for this import, and has not since some moment that D does not know.
    pub const fn refuse(&mut self) {
        self.refused = true;
    }
}
