//! The steps of one request: what they computed, and what of it was accepted.
//!
//! A step computes a token and maybe drafts, and only after it has run it is known how many were accepted. The host may be
//! some steps ahead of that. Rows past the accepted ones are written, but count for nothing: the next step begins before
//! them.

use super::options::LifecycleOptions;

/// Steps that are remembered: those that are not settled, and those whose rows are not final.
const REMEMBERED: usize = 8;
const _: () = assert!(
    (LifecycleOptions::MOST_AHEAD + LifecycleOptions::MOST_LAG) as usize <= REMEMBERED,
    "a step is remembered until its rows are final"
);

/// The steps of one request, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Steps {
    pub begun: u32,
    pub accepted: u32,
    /// The next token that is computed for certain: all before it are accepted.
    pub at: u64,
    /// One past the last token that the steps so far may compute.
    pub reach: u64,
    /// Tokens whose rows are final and safe.
    pub durable: u64,
    /// Of each step, what it computed.
    computed: [u32; REMEMBERED],
    /// Of each accepted step, the token that follows it; of 'step 0', the first that is computed.
    ends: [u64; REMEMBERED],
}

impl Steps {
    /// None, of a request that computes `at` next.
    pub fn from(at: u64) -> Self {
        let mut steps = Self { at, reach: at, durable: at, ..Self::default() };
        // What comes before the first step ends there.
        if let Some(end) = steps.ends.get_mut(place(0)) {
            *end = at;
        }
        steps
    }

    /// One more step.
    pub fn begin(&mut self, tokens: u32) {
        self.begun = self.begun.saturating_add(1);
        self.reach = self.reach.saturating_add(tokens.into());
        if let Some(computed) = self.computed.get_mut(place(self.begun)) {
            *computed = tokens;
        }
    }

    /// The first token of which the last step that was begun may write a row, where rows are final `lag` steps later.
    pub fn first_written(&self, lag: u32) -> u64 {
        // A step begins where the one before it ended.
        let before = self.begun.saturating_sub(lag).saturating_sub(1);
        match before.checked_sub(self.accepted) {
            // Of each open step at least one token will be accepted.
            Some(open) => self.at.saturating_add(open.into()),
            None => self.ends.get(place(before)).copied().unwrap_or(0),
        }
    }

    /// What the first step computed that is not accepted.
    pub fn next_computed(&self) -> u32 {
        self.computed.get(place(self.accepted.saturating_add(1))).copied().unwrap_or(0)
    }

    /// Accepts so many tokens of the first step that is not accepted.
    pub fn accept(&mut self, tokens: u32) {
        let rejected = self.next_computed().saturating_sub(tokens);
        self.accepted = self.accepted.saturating_add(1);
        self.at = self.at.saturating_add(tokens.into());
        // What was rejected is computed again, by the next step.
        self.reach = self.reach.saturating_sub(rejected.into());
        if let Some(end) = self.ends.get_mut(place(self.accepted)) {
            *end = self.at;
        }
    }

    /// Notes that the rows of steps up to `step` are safe; they are final when `lag` more are.
    pub fn safe(&mut self, step: u32, lag: u32) {
        let last = step.min(self.accepted).saturating_sub(lag);
        if last > 0 {
            let end = self.ends.get(place(last)).copied().unwrap_or(0);
            self.durable = self.durable.max(end);
        }
    }
}

fn place(step: u32) -> usize {
    usize::try_from(step).unwrap_or(0) % REMEMBERED
}
