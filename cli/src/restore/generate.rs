//! Decoding: each step writes rows, mirrors them by one launch, and seals pages as they fill.

use pagelift::backends::Backend;
use pagelift::geometry::GroupKey;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::PromptSpan;
use pagelift::launcher::{Counters, Launcher, LauncherOptions, TicketState};
use pagelift::plan::{MirrorPlan, PlanCapacity, RowCapacity, WriteBackPlan};
use pagelift::quantity::Rows;

use super::RestoreError;
use super::pages::{FreeBlocks, GroupPages};
use super::step::StepArrays;
use super::world::{AnyKey, World};
use crate::manifest::{Family, Memory, SplitMix64};
use crate::progress::Progress;
use crate::reference::{Model, slot};

/// What generating did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Generated {
    /// Tokens.
    pub tokens: u32,
    /// Steps: fewer than tokens where drafts were accepted.
    pub steps: u64,
    /// Pages sealed.
    pub pages_sealed: u64,
    /// The mirror's account.
    pub mirror: Counters,
    /// The checkpoints' account.
    pub checkpoint: Counters,
}

/// One request that is decoded.
struct Decoder<'w, 'm, 'b, B> {
    world: &'w mut World<'m>,
    model: &'w mut Model<'m>,
    pages: Vec<Option<GroupPages<'m>>>,
    free: FreeBlocks,
    arrays: StepArrays,
    mirror_plan: MirrorPlan,
    mirror: Launcher<&'b B, MirrorPlan>,
    checkpoint_plan: WriteBackPlan,
    checkpoint: Launcher<&'b B, WriteBackPlan>,
    sealed: u64,
}

/// Generates `tokens` tokens from `span.resume_at()` on.
pub fn run<'m, B: Backend>(
    world: &mut World<'m>,
    model: &mut Model<'m>,
    backend: &B,
    span: PromptSpan,
    tokens: u32,
    acceptance: u64,
    progress: Progress,
) -> Result<Generated, RestoreError> {
    let drafts = world.manifest.speculative_tokens();
    let mut decoder = Decoder::new(world, model, backend, drafts.saturating_add(1))?;
    let bar = progress.steps("generate", tokens.into());
    let (mut position, end) = (span.resume_at().get(), span.resume_at().get().saturating_add(tokens.into()));
    let mut step = 0;
    while position < end {
        let computed = decoder.tokens_of_step(position, drafts);
        // What the sampler would decide: at least one token of a step is accepted.
        let accepted = SplitMix64::at(acceptance, step) % u64::from(computed) + 1;
        let accepted = accepted.min(end.saturating_sub(position));
        decoder.step(position, computed, accepted, step)?;
        position = position.saturating_add(accepted);
        bar.advance(accepted);
        step = step.saturating_add(1);
    }
    Ok(Generated {
        tokens,
        steps: step,
        pages_sealed: decoder.sealed,
        mirror: decoder.mirror.counters(),
        checkpoint: decoder.checkpoint.counters(),
    })
}

impl<'w, 'm, 'b, B: Backend> Decoder<'w, 'm, 'b, B> {
    fn new(
        world: &'w mut World<'m>,
        model: &'w mut Model<'m>,
        backend: &'b B,
        tokens: u32,
    ) -> Result<Self, RestoreError> {
        let manifest = world.manifest;
        let arrays = StepArrays::new(&mut world.memory, backend, manifest.groups().len(), tokens)?;
        let groups = u32::try_from(manifest.groups().len()).unwrap_or(u32::MAX);
        // A step maps at most the first pages of all groups, or one more page of each.
        let capacity = RowCapacity { jobs: groups, changes: groups.saturating_mul(2) };
        let mut mirror_plan = MirrorPlan::new(world.geometry.clone(), capacity)?;
        let pages: Vec<_> =
            manifest.groups().iter().map(|group| GroupPages::after_import(manifest, group)).collect();
        for (pages, key) in pages.iter().zip(&world.keys) {
            let Some(pages) = pages.as_ref().filter(|pages| pages.group.mirror) else { continue };
            let null_page = pages.group.device.as_ref().and_then(|side| side.pool.null_block);
            let Some(binding) = arrays.binding(&world.memory, pages.group.index, null_page) else { continue };
            match key {
                AnyKey::Paged(key) => mirror_plan.bind(*key, binding)?,
                AnyKey::Ring(key) => mirror_plan.bind(*key, binding)?,
                AnyKey::State(_) => continue,
            }
            for page in &pages.writable {
                map(&mut mirror_plan, *key, page.page, page.block)?;
            }
        }
        let states = PlanCapacity { jobs: groups, list_entries: 0 };
        let mut checkpoint_plan = WriteBackPlan::new(world.geometry.clone(), states)?;
        let options = LauncherOptions::default();
        let mirror = Launcher::bind(backend, &world.memory, &mut mirror_plan, options)?;
        let checkpoint = Launcher::bind(backend, &world.memory, &mut checkpoint_plan, options)?;
        let free = FreeBlocks::new(manifest);
        Ok(Self {
            world,
            model,
            pages,
            free,
            arrays,
            mirror_plan,
            mirror,
            checkpoint_plan,
            checkpoint,
            sealed: 0,
        })
    }

    /// Tokens that a step computes. A recurrent model's step ends at a page's end, where its state is checkpointed.
    fn tokens_of_step(&self, position: u64, drafts: u32) -> u32 {
        let all = drafts.saturating_add(1);
        let block = u64::from(self.world.manifest.span().block_tokens);
        let left = block.saturating_sub(position.checked_rem(block).unwrap_or(0));
        let states = self.world.keys.iter().any(|key| matches!(key, AnyKey::State(_)));
        if states { all.min(u32::try_from(left).unwrap_or(all)) } else { all }
    }

    /// One step: forward, mirror, and what follows from the rows that are safe then.
    fn step(&mut self, position: u64, computed: u32, accepted: u64, step: u64) -> Result<(), RestoreError> {
        self.reserve(position, computed)?;
        let written = self.forward(position, computed, accepted, step)?;
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.arrays.set_queries(&mut self.world.memory, computed, small(accepted));
        for (group, slots) in written.iter().enumerate() {
            self.arrays.set_slots(&mut self.world.memory, group, slots);
        }
        let ticket = self.mirror.stage(&self.world.memory, &mut self.mirror_plan)?;
        self.mirror.launch(&mut self.world.memory)?;
        done("mirror", self.mirror.state(ticket))?;
        self.follow_mirror(position, accepted)?;
        let end = position.saturating_add(accepted);
        let block = u64::from(self.world.manifest.span().block_tokens);
        if position.checked_div(block) != end.checked_div(block) {
            self.checkpoint_states()?;
        }
        self.note_durable(position, end)
    }

    /// Makes sure that every token of the step has a page, mapped to a host block.
    fn reserve(&mut self, position: u64, computed: u32) -> Result<(), RestoreError> {
        let block_tokens = u64::from(self.world.manifest.span().block_tokens);
        let last = position.saturating_add(computed.saturating_sub(1).into());
        for (pages, key) in self.pages.iter_mut().zip(&self.world.keys) {
            let (Some(pages), AnyKey::Paged(_)) = (pages, key) else { continue };
            let needed = last.checked_div(block_tokens).unwrap_or(0);
            let have = pages.writable.last().map_or(0, |page| page.position);
            for at in have.saturating_add(1)..=needed {
                let group = pages.group;
                let Some(device) = &group.device else { continue };
                let page = self.free.take(&device.pool, last)?;
                let host = group.host.as_ref().filter(|_| group.mirror);
                let block = host.map(|host| self.free.take(&host.pool, last)).transpose()?;
                map(&mut self.mirror_plan, *key, page, block)?;
                pages.push(at, page, block, Rows::ZERO);
            }
        }
        Ok(())
    }

    /// The engine's forward writes the rows of all computed tokens, rejected drafts too. Returns each group's slots.
    fn forward(
        &mut self,
        position: u64,
        computed: u32,
        accepted: u64,
        step: u64,
    ) -> Result<Vec<Vec<i64>>, RestoreError> {
        let block_tokens = self.world.manifest.span().block_tokens;
        let mut written = Vec::with_capacity(self.pages.len());
        for pages in &self.pages {
            let mut slots = Vec::new();
            let Some(pages) = pages else {
                written.push(slots);
                continue;
            };
            let group = pages.group;
            // A state absorbs the accepted tokens only, and is written once.
            let tokens = match group.shape.family {
                Family::State => accepted.saturating_sub(1)..accepted,
                Family::Tokens { .. } | Family::Ring => 0..u64::from(computed),
            };
            for token in tokens.map(|token| position.saturating_add(token)) {
                let page_slots = match group.shape.family {
                    Family::Tokens { .. } => block_tokens,
                    Family::Ring | Family::State => group.shape.rows,
                };
                let paged = matches!(group.shape.family, Family::Tokens { .. });
                let at = if paged { token.checked_div(block_tokens.into()).unwrap_or(0) } else { 0 };
                let page = pages.at(at).map_or(0, |page| page.page);
                let within = token.checked_rem(page_slots.into()).unwrap_or(0);
                let first = u64::from(page).saturating_mul(page_slots.into());
                slots.push(i64::try_from(first.saturating_add(within)).unwrap_or(-1));
                if let Some(slot) = slot(group, block_tokens, token) {
                    let world = &mut *self.world;
                    let put =
                        |piece: crate::reference::Piece<'_>| world.put(piece).map_err(RestoreError::from);
                    self.model.write(group, (page, slot.row), (token, step), put)?;
                }
            }
            written.push(slots);
        }
        Ok(written)
    }

    /// Tells the model which rows the mirror must have copied: those of accepted tokens.
    fn follow_mirror(&mut self, position: u64, accepted: u64) -> Result<(), RestoreError> {
        let block_tokens = self.world.manifest.span().block_tokens;
        for pages in self.pages.iter().flatten().filter(|pages| pages.group.mirror) {
            let group = pages.group;
            if group.shape.family == Family::State {
                continue;
            }
            for token in position..position.saturating_add(accepted) {
                let Some(slot) = slot(group, block_tokens, token) else { continue };
                if let Some((page, block)) = pages.at(slot.page).and_then(|at| Some((at.page, at.block?))) {
                    self.model.mirror(group, (page, slot.row), (block, slot.row))?;
                }
            }
        }
        Ok(())
    }

    /// Copies every state to its host block: a page is sealed only with its checkpoint.
    fn checkpoint_states(&mut self) -> Result<(), RestoreError> {
        self.checkpoint_plan.clear();
        let mut states = Vec::new();
        for (pages, key) in self.pages.iter().zip(&self.world.keys) {
            let (Some(pages), AnyKey::State(key)) = (pages, key) else { continue };
            for page in &pages.writable {
                let Some(block) = page.block else { continue };
                self.checkpoint_plan.checkpoint(*key, PageId::new(page.page), HostBlockId::new(block))?;
                states.push((pages.group, page.page, block));
            }
        }
        if states.is_empty() {
            return Ok(());
        }
        let ticket = self.checkpoint.stage(&self.world.memory, &mut self.checkpoint_plan)?;
        self.checkpoint.launch(&mut self.world.memory)?;
        done("checkpoint", self.checkpoint.state(ticket))?;
        states
            .into_iter()
            .try_for_each(|(group, page, block)| Ok(self.model.checkpoint(group, page, block)?))
    }

    /// Notes which rows are safe now, and seals the pages that have all of theirs.
    fn note_durable(&mut self, position: u64, end: u64) -> Result<(), RestoreError> {
        let block = u64::from(self.world.manifest.span().block_tokens);
        for pages in self.pages.iter_mut().flatten() {
            let rows_of = |at: u64| end.saturating_sub(at.saturating_mul(block)).min(block);
            for index in 0..pages.writable.len() {
                let Some(at) = pages.writable.get(index).map(|page| page.position) else { continue };
                let reached = at >= position.checked_div(block).unwrap_or(0);
                let rows = pages.complete_rows(rows_of(at));
                let Some(page) = pages.writable.get_mut(index).filter(|_| reached) else { continue };
                let Some(mut open) = page.open.take() else { continue };
                open.durable_up_to(rows);
                match open.seal() {
                    Err(open) => page.open = Some(open),
                    Ok(sealed) => {
                        let group = pages.group;
                        if !self.model.is_complete(group, Memory::Host, sealed.block().get()) {
                            let (group, block) = (group.name.clone(), sealed.block().to_string());
                            return Err(RestoreError::SealedTooEarly { group, block });
                        }
                        self.sealed = self.sealed.saturating_add(1);
                    }
                }
            }
            pages.forget_before(end.checked_div(block).unwrap_or(0));
        }
        Ok(())
    }
}

/// Maps a page to its host block, for the kinds of group that mirror rows.
fn map(plan: &mut MirrorPlan, key: AnyKey, page: u32, block: Option<u32>) -> Result<(), RestoreError> {
    let Some(block) = block else { return Ok(()) };
    let (page, block) = (PageId::new(page), HostBlockId::new(block));
    match key {
        AnyKey::Paged(key) => map_rows(plan, key, page, block),
        AnyKey::Ring(key) => map_rows(plan, key, page, block),
        AnyKey::State(_) => Ok(()),
    }
}

fn map_rows<K: pagelift::geometry::HasRows>(
    plan: &mut MirrorPlan,
    key: GroupKey<K>,
    page: PageId,
    block: HostBlockId,
) -> Result<(), RestoreError> {
    Ok(plan.page_map_mut().map(key, page, block)?)
}

/// Refuses a launch that is not done.
fn done(what: &'static str, state: TicketState) -> Result<(), RestoreError> {
    match state {
        TicketState::Done(report) if report.bad == 0 => Ok(()),
        _ => Err(RestoreError::NotDone { what, state: format!("{state:?}") }),
    }
}
