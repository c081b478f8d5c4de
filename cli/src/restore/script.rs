//! What happens to the manifest's request: the main job's script, and the faults in it.

use pagelift::backends::Backend;
use pagelift::lifecycle::{Event, Outcome, Stage};

use super::engine::Engine;
use super::fault::{Fault, Injected, Moment};
use super::forward::Forward;
use super::{Options, RestoreError};
use crate::manifest::{SplitMix64, mix};
use crate::progress::Progress;

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// Steps: fewer than tokens where drafts were accepted.
    pub steps: u64,
    /// Bytes of all pools, and how often they were compared.
    pub bytes_verified: u64,
    pub verifications: u32,
    /// The fault that was played.
    pub injected: Option<Injected>,
}

/// Sealed pages behind the one written that a preempted request may get back.
const MOST_BEHIND: usize = 3;

/// Admits the prompt, restores it, generates tokens, and ends it; after a fault that ended it, again.
pub fn play<B: Backend>(
    engine: &mut Engine<'_, '_, B>,
    options: Options<'_>,
    progress: Progress,
) -> Result<Played, RestoreError> {
    let manifest = engine.world.manifest;
    let computed = manifest.speculative_tokens().saturating_add(1);
    let steps = u64::from(options.generate.div_ceil(computed));
    let reads = manifest.span().imported_tokens > 0;
    let moment = options.inject.and_then(|fault| fault.moment(mix(options.seed), steps, reads));
    let mut script = Script { engine, options, progress, played: Played::default() };
    if script.attempt(moment)? == Attempt::Struck {
        script.attempt(None)?;
    }
    script.end()
}

struct Script<'e, 'w, 'm, 'o, B: Backend> {
    engine: &'e mut Engine<'w, 'm, B>,
    options: Options<'o>,
    progress: Progress,
    played: Played,
}

/// How far an attempt came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// To its end.
    Finished,
    /// To the fault.
    Struck,
}

impl<B: Backend> Script<'_, '_, '_, '_, B> {
    fn attempt(&mut self, moment: Option<Moment>) -> Result<Attempt, RestoreError> {
        self.engine.admit()?;
        if self.engine.is_reading() {
            if moment == Some(Moment::Reading) {
                return self.strike(Moment::Reading);
            }
            self.engine.land()?;
            self.check_import()?;
        }
        if moment == Some(Moment::Lifting) {
            self.engine.receive()?;
            return self.strike(Moment::Lifting);
        }
        self.engine.until(Stage::Lifted, "lifted")?;
        if moment == Some(Moment::Lifted) {
            self.preempt(Moment::Lifted)?;
        }
        if self.options.generate > 0 {
            // The restored pools are proved before anything is written over them.
            self.verify()?;
            if self.generate(moment)? == Attempt::Struck {
                return Ok(Attempt::Struck);
            }
        }
        self.engine.say(|request| Event::Finish { request })?;
        self.engine.until(Stage::Ended, "over")?;
        self.ended_as(Outcome::Finished)?;
        Ok(Attempt::Finished)
    }

    /// Where the import has failed, sees to it that nothing of it is held or shown to others, and ends with the reason.
    fn check_import(&mut self) -> Result<(), RestoreError> {
        let Some(why) = self.engine.failed().cloned() else { return Ok(()) };
        self.engine.until(Stage::Ended, "over")?;
        self.ended_as(Outcome::Failed)?;
        self.engine.close()?;
        Err(RestoreError::NotImported { why })
    }

    /// Generates the tokens that were asked for.
    fn generate(&mut self, moment: Option<Moment>) -> Result<Attempt, RestoreError> {
        let manifest = self.engine.world.manifest;
        let (drafts, acceptance) = (manifest.speculative_tokens(), mix(self.options.seed));
        let tokens = u64::from(self.options.generate);
        let bar = self.progress.steps("generate", tokens);
        let mut position = manifest.span().resume_at;
        let (end, mut step) = (position.saturating_add(tokens), 0);
        while position < end {
            self.engine.receive()?;
            let computed = self.engine.tokens_of_step(drafts);
            // What the sampler would decide: at least one token of a step is accepted.
            let accepted = SplitMix64::at(acceptance, step) % u64::from(computed) + 1;
            let accepted = accepted.min(end - position);
            self.engine.begin(computed)?;
            self.engine.step(Some(Forward { position, computed, accepted, step }))?;
            step += 1;
            let now = moment.filter(|moment| *moment == Moment::Step(step));
            match (now, self.options.inject) {
                (Some(moment), Some(Fault::Preempt)) => {
                    self.engine.accept(step, accepted)?;
                    self.preempt(moment)?;
                }
                (Some(moment), _) => return self.strike(moment),
                (None, _) => self.engine.accept(step, accepted)?,
            }
            position += accepted;
            bar.advance(accepted);
        }
        self.played.steps = step;
        Ok(Attempt::Finished)
    }

    /// The client aborts, or the rank dies; the request ends.
    fn strike(&mut self, moment: Moment) -> Result<Attempt, RestoreError> {
        let death = self.options.inject == Some(Fault::WorkerDeath);
        if death {
            // What it was told to do, it may have done: nobody hears of it.
            if moment == Moment::Lifting {
                self.engine.step(None)?;
            }
            self.engine.replace_rank()?;
        } else {
            self.engine.say(|request| Event::Abort { request })?;
            // The transport does not know of it: its blocks land, and until then the request's memory is held.
            self.engine.land()?;
            self.engine.until(Stage::Ended, "over")?;
        }
        self.ended_as(if death { Outcome::Failed } else { Outcome::Aborted })?;
        self.verify()?;
        let when = match moment {
            Moment::Reading => "while its blocks were read".into(),
            Moment::Lifting if death => "with its lift".into(),
            Moment::Lifting => "before its lift".into(),
            Moment::Lifted => "after its lift".into(),
            Moment::Step(step) => format!("in step {step}"),
        };
        self.note(when);
        Ok(Attempt::Struck)
    }

    /// The engine takes the request's pages away, and gives it others.
    fn preempt(&mut self, moment: Moment) -> Result<(), RestoreError> {
        self.engine.say(|request| Event::Preempt { request })?;
        self.engine.until(Stage::Preempted, "preempted")?;
        self.verify()?;
        self.note(match moment {
            Moment::Step(step) => format!("after step {step}"),
            _ => "after its lift".into(),
        });
        let behind = SplitMix64::new(self.options.seed).below(MOST_BEHIND + 1);
        let behind = u32::try_from(behind).unwrap_or(0);
        self.engine.say(|request| Event::Resume { request, behind })?;
        self.engine.until(Stage::Lifted, "lifted")
    }

    /// Refuses another end, and one after which something is held.
    fn ended_as(&self, expected: Outcome) -> Result<(), RestoreError> {
        let wrong = |what: String| Err(RestoreError::WrongEnd { what });
        match self.engine.outcome() {
            Some(outcome) if outcome == expected => {}
            other => return wrong(format!("it was to be {expected:?}, and is {other:?}")),
        }
        let counters = self.engine.lifecycle.counters();
        if counters.lifted == 0 && counters.published > 0 {
            return wrong(format!("{} blocks of what was never lifted are published", counters.published));
        }
        match self.engine.held() {
            (0, 0) => Ok(()),
            (pages, blocks) => wrong(format!("{pages} pages and {blocks} host blocks are held")),
        }
    }

    fn verify(&mut self) -> Result<(), RestoreError> {
        self.played.bytes_verified = self.engine.verify()?;
        self.played.verifications += 1;
        Ok(())
    }

    fn note(&mut self, moment: String) {
        let Some(fault) = self.options.inject else { return };
        let published = self.engine.lifecycle.counters().published;
        let (pages_held, blocks_held) = self.engine.held();
        let messages = self.engine.wire.disturbed();
        self.played.injected = Some(Injected { fault, moment, published, pages_held, blocks_held, messages });
    }

    fn end(mut self) -> Result<Played, RestoreError> {
        self.engine.close()?;
        self.verify()?;
        if self.played.injected.is_none() {
            self.note("all the time".into());
        }
        Ok(self.played)
    }
}
