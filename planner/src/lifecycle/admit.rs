//! Admission: what of a prompt others have, what is imported, and what that takes. All of it is taken, or nothing.

use super::event::{Admission, Effect};
use super::page::HeldPage;
use super::reads::Reads;
use super::request::{Progress, Request, RequestId, Stage};
use super::round::Round;
use super::shared::Shared;
use super::steps::Steps;
use crate::error::{LifecycleError, Resource};
use crate::import::{Arrival, Policy, PromptSpan, Recurrence};
use crate::quantity::Tokens;
use crate::room::clear_with_room;

/// What an admission needs.
struct Wanted {
    span: PromptSpan,
    arrival: Arrival,
    /// Blocks of the prompt that others have published.
    found: u32,
    /// The position that is written next.
    tail: u32,
    /// One past the last position that is imported.
    received: u32,
    /// Pages.
    pages: u32,
}

impl Request {
    /// Admits a request, and holds its endpoints.
    pub fn admit(
        &mut self,
        id: RequestId,
        admission: &Admission<'_>,
        shared: &mut Shared,
    ) -> Result<(), LifecycleError> {
        if !shared.lost.is_empty() {
            return Err(LifecycleError::RanksLost { lost: shared.lost.len() });
        }
        let wanted = Wanted::by(admission, shared)?;
        let Wanted { span, arrival, found, tail, received, pages } = wanted;
        let blocks = tail.saturating_add(1).max(found);
        check_room(admission, &wanted, blocks, shared)?;
        clear_with_room("blocks of a request", &mut self.blocks, index(blocks))?;
        clear_with_room("hashes of a request", &mut self.hashes, admission.hashes.len())?;
        clear_with_room("pages of a request", &mut self.pages, index(pages))?;

        let (prompt, resume_at) = (span.prompt().get(), span.resume_at());
        let left = Tokens::new(prompt).saturating_sub(resume_at);
        shared.say(Effect::Admitted { request: id, found, resume_at, left, arrival });
        shared.counters.admitted = shared.counters.admitted.saturating_add(1);
        shared.counters.found = shared.counters.found.saturating_add(found.into());
        self.reset(shared, &wanted, admission.producer);
        self.hashes.extend_from_slice(&admission.hashes);
        // What is found is pinned before anything is taken: taking may evict.
        for hash in admission.hashes.iter().take(index(found)) {
            let Some((block, _)) = shared.blocks.find(*hash) else { continue };
            shared.blocks.pin(block);
            self.blocks.push(block);
            shared.say(Effect::Pin { request: id, block });
        }
        while self.blocks.len() < index(blocks) {
            let Some(block) = shared.take_block() else { break };
            self.blocks.push(block);
        }
        for position in tail.saturating_add(1).saturating_sub(pages)..=tail {
            self.take_page(id, position, shared);
        }
        if received > found && admission.producer {
            self.stage = Stage::Reserved;
            shared.say(Effect::Read { request: id, first: found, end: received });
            return Ok(());
        }
        // Nothing has to be read, so nobody waits for it: the producer is told, and that is all.
        self.valid = span.imported().get();
        self.notify(id, shared);
        self.lift(id, shared);
        Ok(())
    }

    fn reset(&mut self, shared: &Shared, wanted: &Wanted, producer: bool) {
        let Wanted { span, arrival, found, tail, .. } = *wanted;
        let (imported, resume_at) = (span.imported().get(), span.resume_at().get());
        (self.stage, self.ending, self.whole) = (Stage::Reserved, None, None);
        (self.producer, self.arrival, self.found, self.tail) = (producer, arrival, found, tail);
        self.span = span;
        (self.reads, self.round, self.retries) = (Reads::default(), Round::default(), shared.options.retries);
        self.valid = u64::from(found).saturating_mul(shared.block_tokens());
        self.steps = Steps::from(resume_at);
        (self.sealed, self.offered, self.checkpoints) = (found, found, tail);
        self.progress.fill(Progress { steps: 0, checkpoints: tail, spills: found });
        // A state lies in the block of the last token that it has absorbed; one that lands on the device in none.
        let last = imported.checked_sub(1).and_then(|last| last.checked_div(shared.block_tokens()));
        let on_host = shared.options.recurrence == Recurrence::State && arrival != Arrival::Device;
        let last = last.filter(|_| on_host);
        self.state = last.and_then(|last| Some((imported, u32::try_from(last).ok()?)));
    }

    /// Takes a page for a position, whose block is there. Blocks of others are not written: a page before the last one
    /// found is a copy, which is mirrored nowhere.
    pub fn take_page(&mut self, id: RequestId, position: u32, shared: &mut Shared) {
        let Some(page) = shared.pages.take(id) else { return };
        let block = self.blocks.get(index(position)).copied();
        let held = match block.filter(|_| position >= self.sealed) {
            None => HeldPage::copy(position, page),
            Some(block) => {
                shared.say(Effect::Map { request: id, position, page, block });
                HeldPage::writable(position, page, block, shared.options.block_tokens)
            }
        };
        self.pages.push(held);
    }
}

impl Wanted {
    fn by(admission: &Admission<'_>, shared: &Shared) -> Result<Self, LifecycleError> {
        let Admission { prompt, policy, producer, ref hashes } = *admission;
        let options = shared.options;
        let block_tokens = Tokens::new(shared.block_tokens());
        let whole = PromptSpan::new(prompt, options.recurrence)?;
        let blocks_of = |tokens: Tokens| tokens.get().checked_div(block_tokens.get()).unwrap_or(0);
        let full = blocks_of(prompt);
        let named = u64::try_from(hashes.len()).unwrap_or(u64::MAX);
        if named > full {
            let what = "the number of full blocks that the prompt's hashes name";
            return Err(LifecycleError::Range { what, found: named, least: 0, most: full });
        }
        // A state that has absorbed the last token must not absorb it again: the block that ends there is of no use.
        let most = match options.recurrence {
            Recurrence::None => full,
            Recurrence::State => blocks_of(whole.resume_at()),
        };
        let (present, resumable) = find(admission, most, shared);
        // A producer brings its state, which needs a block; without one, a block that was found has to have it.
        let brings =
            options.recurrence == Recurrence::State && u64::from(present) == most && present > resumable;
        let found = match producer {
            true => present.saturating_sub(brings.into()),
            false => resumable,
        };
        let local = u64::from(found).saturating_mul(block_tokens.get());
        let free = u32::try_from(shared.pages.free()).unwrap_or(u32::MAX);
        let decided = if producer {
            Some(policy.decide(prompt, options.recurrence, block_tokens, free)?.span)
        } else {
            None
        };
        let span = match decided {
            // All of the prompt is here, and its last token is replayed.
            _ if local == prompt.get() => whole,
            Some(span) if span.imported().get() >= local => span,
            _ => PromptSpan::explicit(prompt, Tokens::new(local), Tokens::new(local))?,
        };
        let blocks = span.in_blocks_of(block_tokens)?;
        let (tail, received) = (blocks.tail_page(), blocks.received());
        let imported = blocks.endpoints().saturating_sub(found);
        // What was found is in host blocks: a group that is whole on the device would lack it there.
        let lands = policy == Policy::LandOnDevice && producer && found == 0;
        let on_device = lands && received > 0 && imported <= free;
        let (arrival, pages) = match blocks.tail_tokens() {
            _ if on_device => (Arrival::Device, imported),
            Tokens::ZERO => (Arrival::Host, 1),
            _ => (Arrival::HostThenLift, 1),
        };
        Ok(Self { span, arrival, found, tail, received, pages })
    }
}

/// How many of a prompt's first blocks others have published, and up to where a request may resume after one.
fn find(admission: &Admission<'_>, most: u64, shared: &Shared) -> (u32, u32) {
    let (mut present, mut resumable) = (0_u32, 0);
    for hash in admission.hashes.iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
        let Some((_, ends)) = shared.blocks.find(*hash) else { break };
        present = present.saturating_add(1);
        if ends {
            resumable = present;
        }
    }
    (present, resumable)
}

/// Refuses what there is no room for, while nothing is held yet.
fn check_room(
    admission: &Admission<'_>,
    wanted: &Wanted,
    blocks: u32,
    shared: &Shared,
) -> Result<(), LifecycleError> {
    shared.check_room(Resource::Pages, wanted.pages, (index(wanted.pages), shared.pages.free()))?;
    // Blocks that are found are not to be had any more.
    let found =
        admission.hashes.iter().take(index(wanted.found)).filter_map(|hash| shared.blocks.find(*hash));
    let idle = found.filter(|(block, _)| shared.blocks.users(*block) == 0).count();
    let needed = index(blocks.saturating_sub(wanted.found));
    let free = shared.blocks.available().saturating_sub(idle);
    shared.check_room(Resource::HostBlocks, blocks, (needed, free))
}

pub(super) fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
