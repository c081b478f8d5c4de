//! Decoding: each step writes rows, mirrors them by one launch, and seals pages as they fill.

use pagelift::backends::Backend;
use pagelift::geometry::{GroupKey, HasRows};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::PromptSpan;
use pagelift::launcher::{Counters, Launcher, LauncherOptions};
use pagelift::plan::{MirrorPlan, PlanCapacity, RowCapacity, WriteBackPlan};

use super::pages::{FreeBlocks, GroupPages, Part};
use super::step::StepArrays;
use super::world::{AnyKey, World};
use super::{RestoreError, done};
use crate::manifest::{Family, Memory, SplitMix64};
use crate::progress::Progress;
use crate::reference::Model;

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
struct Decoder<'w, 'm, 'b, B: Backend> {
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
        let mut pages: Vec<_> =
            manifest.groups().iter().map(|group| GroupPages::after_import(manifest, group)).collect();
        let changes = pages.iter().flatten().map(|pages| pages.most_parts(tokens)).sum::<u64>();
        let changes = u32::try_from(changes).unwrap_or(u32::MAX);
        let mut mirror_plan = MirrorPlan::new(world.geometry.clone(), RowCapacity { jobs: groups, changes })?;
        let resume_at = manifest.span().resume_at;
        for (pages, key) in pages.iter_mut().zip(&world.keys) {
            let Some(pages) = pages.as_mut().filter(|pages| pages.group.mirror) else { continue };
            let null_page = pages.group.device.as_ref().and_then(|side| side.pool.null_block);
            let Some(binding) = arrays.binding(&world.memory, pages.group.index, null_page) else { continue };
            match key {
                AnyKey::Paged(key) => mirror_plan.bind(*key, binding)?,
                AnyKey::Ring(key) => mirror_plan.bind(*key, binding)?,
                AnyKey::State(_) => continue,
            }
            map(&mut mirror_plan, *key, pages.parts_up_to(resume_at))?;
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
        self.arrays.set_queries(&mut self.world.memory, computed, small(accepted))?;
        for (group, slots) in written.iter().enumerate() {
            self.arrays.set_slots(&mut self.world.memory, group, slots)?;
        }
        let ticket = self.mirror.stage(&self.world.memory, &mut self.mirror_plan)?;
        self.mirror.launch(&mut self.world.memory)?;
        self.mirror.wait()?;
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
        let last = position.saturating_add(computed.saturating_sub(1).into());
        for (pages, key) in self.pages.iter_mut().zip(&self.world.keys) {
            let (Some(pages), AnyKey::Paged(_)) = (pages, key) else { continue };
            pages.grow(&mut self.free, last)?;
            map(&mut self.mirror_plan, *key, pages.parts_up_to(last))?;
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
                let number = pages.slot_number(token).and_then(|number| i64::try_from(number).ok());
                slots.push(number.unwrap_or(-1));
                if let Some(at) = pages.written_at(token) {
                    let world = &mut *self.world;
                    let put =
                        |piece: crate::reference::Piece<'_>| world.put(piece).map_err(RestoreError::from);
                    self.model.write(group, at, (token, step), put)?;
                }
            }
            written.push(slots);
        }
        Ok(written)
    }

    /// Tells the model which rows the mirror must have copied: those of accepted tokens.
    fn follow_mirror(&mut self, position: u64, accepted: u64) -> Result<(), RestoreError> {
        for pages in self.pages.iter().flatten().filter(|pages| pages.group.mirror) {
            if pages.group.shape.family == Family::State {
                continue;
            }
            for token in position..position.saturating_add(accepted) {
                if let Some((from, to)) = pages.written_at(token).zip(pages.mirrored_at(token)) {
                    self.model.mirror(pages.group, from, to)?;
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
                let Some(block) = pages.block_at(page.position) else { continue };
                self.checkpoint_plan.checkpoint(*key, PageId::new(page.page), HostBlockId::new(block))?;
                states.push((pages.group, page.page, block));
            }
        }
        if states.is_empty() {
            return Ok(());
        }
        let ticket = self.checkpoint.stage(&self.world.memory, &mut self.checkpoint_plan)?;
        self.checkpoint.launch(&mut self.world.memory)?;
        self.checkpoint.wait()?;
        done("checkpoint", self.checkpoint.state(ticket))?;
        states
            .into_iter()
            .try_for_each(|(group, page, block)| Ok(self.model.checkpoint(group, page, block)?))
    }

    /// Notes which rows are safe now, and seals the pages that have all of theirs.
    fn note_durable(&mut self, position: u64, end: u64) -> Result<(), RestoreError> {
        let (model, sealed) = (&*self.model, &mut self.sealed);
        for pages in self.pages.iter_mut().flatten() {
            let group = pages.group;
            pages.note_durable((position, end), |block, mirrors| {
                let complete = |row: &(u32, u32)| model.is_complete(group, Memory::Host, *row);
                if !mirrors.is_some_and(|rows| rows.iter().all(complete)) {
                    let (group, block) = (group.name.clone(), block.to_string());
                    return Err(RestoreError::SealedTooEarly { group, block });
                }
                *sealed = sealed.saturating_add(1);
                Ok(())
            })?;
            pages.forget_before(end);
        }
        Ok(())
    }
}

/// Maps parts of pages to parts of host blocks, for the kinds of group that mirror rows.
fn map(plan: &mut MirrorPlan, key: AnyKey, parts: Vec<Part>) -> Result<(), RestoreError> {
    match key {
        AnyKey::Paged(key) => map_rows(plan, key, parts),
        AnyKey::Ring(key) => map_rows(plan, key, parts),
        AnyKey::State(_) => Ok(()),
    }
}

fn map_rows<K: HasRows>(
    plan: &mut MirrorPlan,
    key: GroupKey<K>,
    parts: Vec<Part>,
) -> Result<(), RestoreError> {
    let map = plan.page_map_mut();
    parts.into_iter().try_for_each(|((page, page_row), (block, block_row))| {
        Ok(map.map_rows(key, (PageId::new(page), page_row), (HostBlockId::new(block), block_row))?)
    })
}
