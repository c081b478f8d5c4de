//! A run written down, so that it can be played again: what a lifecycle looks after, then each event with what came of it.

use serde::{Deserialize, Serialize};

use super::event::{Effect, Event};
use super::machine::Lifecycle;
use super::options::LifecycleOptions;
use crate::error::LifecycleError;

/// The first record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHeader {
    /// The log's version: [`LogHeader::VERSION`].
    pub pagelift_lifecycle_log: u32,
    /// What the lifecycle looks after.
    pub options: LifecycleOptions,
}

impl LogHeader {
    /// The version that is written and read here.
    pub const VERSION: u32 = 1;

    /// The header of a lifecycle's log.
    #[must_use]
    pub const fn of(lifecycle: &Lifecycle) -> Self {
        Self { pagelift_lifecycle_log: Self::VERSION, options: lifecycle.options() }
    }
}

/// Each other record: an event, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry<'a> {
    /// What happened.
    #[serde(flatten, borrow)]
    pub event: Event<'a>,
    /// What was to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// Why the event was refused, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Lifecycle {
    /// Takes an event, and says what came of it as a record of a log.
    ///
    /// ```
    /// use pagelift_planner::import::Recurrence;
    /// use pagelift_planner::lifecycle::*;
    /// let mut lifecycle = Lifecycle::new(LifecycleOptions {
    ///     ranks: 2, writers: Ranks::first(1), block_tokens: 16, recurrence: Recurrence::None,
    ///     requests: 8, blocks: 64, pages: 4, keep: 0, draft_lag: 0, retries: 1, limits: FrameLimits::default(),
    /// })?;
    /// let entry = lifecycle.record(Event::RankLost { rank: Rank::new(1) });
    /// let line = serde_json::to_string(&entry)?;
    /// assert_eq!(line, r#"{"event":"rank-lost","rank":1}"#);
    /// // Another one, played from the same records, does the same.
    /// let mut again = Lifecycle::new(LogHeader::of(&lifecycle).options)?;
    /// let entry: LogEntry<'_> = serde_json::from_str(&line)?;
    /// assert_eq!(again.record(entry.event.clone()), entry);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record<'a>(&mut self, event: Event<'a>) -> LogEntry<'a> {
        let (effects, refused) = match self.apply(&event) {
            Ok(effects) => (effects.to_vec(), None),
            Err(error) => (Vec::new(), Some(LifecycleError::to_string(&error))),
        };
        LogEntry { event, effects, refused }
    }
}
