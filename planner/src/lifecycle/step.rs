//! What a rank launches in its next step: one plan each for lifts, for pages and states that are written back, and for rows
//! that are mirrored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::{Effect, Event};
use super::machine::RequestView;
use super::order::Order;
use super::rank::Rank;
use super::reservations::Reservations;
use super::slab::RequestId;
use super::worker::{Lane, Settled, Work, Worker};
use crate::error::PlanError;
use crate::geometry::{Geometry, GroupKey, Paged, State};
use crate::id::{HostBlockId, ImportId, PageId};
use crate::import::{Arrival, Import, ImportGroup, PromptSpan};
use crate::plan::{MirrorPlan, Plan, PlanCapacity, RestorePlan, RowCapacity, TailRows, WriteBackPlan, room};
use crate::quantity::Bytes;

/// Which blocks and pages of a group a lifecycle's numbers stand for: entry `n` of a list is the group's for number `n`.
#[derive(Clone, Debug)]
pub enum GroupFrames {
    /// A paged group that lifts its tail.
    Paged {
        /// The group.
        group: GroupKey<Paged>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the lifecycle's pages.
        pages: Vec<PageId>,
    },
    /// A group of states, of which each request has one page.
    State {
        /// The group.
        group: GroupKey<State>,
        /// By the lifecycle's blocks.
        blocks: Vec<HostBlockId>,
        /// By the slots of requests.
        pages: Vec<PageId>,
    },
}

/// What a rank has to know to lift a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiftLists {
    /// The request's blocks, by position.
    pub blocks: Vec<HostBlockId>,
    /// Its pages, by position.
    pub pages: Vec<(u32, PageId)>,
    /// The position of the block that holds its state.
    pub state: Option<u32>,
    /// Tokens whose rows are there.
    pub tokens: u64,
    /// Of an import: prompt, imported tokens, and the first that is computed.
    span: Option<[u64; 3]>,
    /// Whether the import has landed in the pages.
    landed: bool,
}

impl LiftLists {
    /// What there is to know, at the time of the effect.
    #[must_use]
    pub fn of(request: RequestView<'_>) -> Self {
        let span = request.span().ok().filter(|_| !request.was_lifted());
        Self {
            blocks: request.blocks().to_vec(),
            pages: request.pages().map(|(position, page, _)| (position, page)).collect(),
            state: request.state().map(|(_, position)| position),
            tokens: request.next_token().get().max(span.map_or(0, |span| span.imported().get())),
            span: span
                .map(|span| [span.prompt(), span.imported(), span.resume_at()].map(|tokens| tokens.get())),
            landed: request.arrival() == Arrival::Device && !request.was_lifted(),
        }
    }
}

/// What a rank knows of a request's pages.
#[derive(Debug, Default)]
struct Known {
    request: Option<RequestId>,
    lists: Option<LiftLists>,
    import: Option<ImportId>,
    /// Pages that are mirrored: position, page, block.
    mapped: Vec<(u32, PageId, HostBlockId)>,
}

/// The plans of a rank's steps.
///
/// In a step, [`StepPlans::hear`] takes orders, and the plans are staged and launched in this order: pages and states that are
/// written back, lifts, the engine's forward, mirrors. So what was asked for before a step is done before it. For each plan
/// that is staged, [`StepPlans::staged`] says so, or [`StepPlans::retry`] that it will be made again; what became of its
/// ticket goes to [`StepPlans::settle`].
#[derive(Debug)]
pub struct StepPlans {
    geometry: Arc<Geometry>,
    worker: Worker,
    /// Whether this rank writes host blocks.
    writes: bool,
    block_tokens: u64,
    frames: Vec<GroupFrames>,
    mode: TailRows,
    reservations: Reservations,
    requests: Vec<Known>,
    lifts: RestorePlan,
    write_backs: WriteBackPlan,
    mirrors: MirrorPlan,
    /// Why the first of what could not be planned was refused.
    refused: Option<PlanError>,
}

/// How much one rank's plans hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Requests at one time.
    pub requests: u32,
    /// Tokens of the lifecycle's blocks.
    pub block_tokens: u32,
    /// Room of the plans of pages.
    pub pages: PlanCapacity,
    /// Room of the plan of rows.
    pub rows: RowCapacity,
    /// Which rows of a partly filled page are lifted.
    pub mode: TailRows,
    /// Whether this rank writes host blocks.
    pub writes: bool,
}

impl StepPlans {
    /// Plans for a rank, all of whose memory is allocated here.
    ///
    /// # Errors
    /// As [`RestorePlan::new`].
    pub fn new(
        rank: Rank,
        geometry: Arc<Geometry>,
        frames: Vec<GroupFrames>,
        options: StepOptions,
    ) -> Result<Self, PlanError> {
        let StepOptions { requests: count, block_tokens, pages, rows, mode, writes } = options;
        let mut requests = room("requests of a rank", count.into())?;
        requests.extend((0..count).map(|_| Known::default()));
        Ok(Self {
            worker: Worker::new(rank, count)?,
            writes,
            block_tokens: block_tokens.max(1).into(),
            frames,
            mode,
            reservations: Reservations::new(Arc::clone(&geometry), count, pages)?,
            requests,
            lifts: RestorePlan::new(Arc::clone(&geometry), pages)?,
            write_backs: WriteBackPlan::new(Arc::clone(&geometry), pages)?,
            mirrors: MirrorPlan::new(Arc::clone(&geometry), rows)?,
            refused: None,
            geometry,
        })
    }

    /// The rank's part in the lifecycle.
    #[must_use]
    pub const fn worker(&self) -> &Worker {
        &self.worker
    }

    /// The plan of lifts, as it was made last.
    pub const fn lift_plan(&mut self) -> &mut RestorePlan {
        &mut self.lifts
    }

    /// The plan of pages and states that are written back, as it was made last.
    pub const fn write_back_plan(&mut self) -> &mut WriteBackPlan {
        &mut self.write_backs
    }

    /// The mirror's plan, to bind the step's arrays.
    pub const fn mirror_plan(&mut self) -> &mut MirrorPlan {
        &mut self.mirrors
    }

    /// Takes an order. What a lift's lists lack is found when it is planned: it has failed then, and the rank says so.
    ///
    /// # Errors
    /// Where a page cannot be mapped or unmapped: nothing has changed then.
    pub fn hear(&mut self, order: Order) -> Result<(), PlanError> {
        match order {
            Order::Map { request, position, page, block } => self.map(request, position, page, block)?,
            Order::ReleasePage { request, page } => self.unmap(request, page)?,
            Order::Lift { request, round, lists } => {
                if let Some(known) = known(&mut self.requests, request) {
                    if known.request != Some(request) {
                        known.mapped.clear();
                    }
                    (known.request, known.lists) = (Some(request), Some(lists));
                }
                self.worker.hear(&Effect::Lift { request, round });
            }
            Order::Cancel { request, round } => {
                self.worker.hear(&Effect::Cancel { request, round });
                self.release(request);
            }
            Order::Begin { request, step, from, to } => {
                let position = |token: u64| {
                    u32::try_from(token.checked_div(self.block_tokens).unwrap_or(0)).unwrap_or(u32::MAX)
                };
                self.worker.begin(request, step, position(from), position(to.saturating_sub(1)));
            }
            Order::Checkpoint { request, position } => {
                self.worker.hear(&Effect::Checkpoint { request, position });
            }
            Order::Spill { request, position } => self.worker.hear(&Effect::Spill { request, position }),
            Order::Save { request, position } => self.worker.hear(&Effect::Save { request, position }),
            Order::Stop { request, round } => self.worker.hear(&Effect::Stop { request, round }),
        }
        Ok(())
    }

    fn map(
        &mut self,
        request: RequestId,
        position: u32,
        page: PageId,
        block: HostBlockId,
    ) -> Result<(), PlanError> {
        let map = self.mirrors.page_map_mut();
        for frames in self.frames.iter().filter(|_| self.writes) {
            let GroupFrames::Paged { group, blocks, pages } = frames else { continue };
            let Some((own, to)) = at(pages, page.get()).zip(at(blocks, block.get())) else { continue };
            map.map(*group, own, to)?;
        }
        if let Some(known) = known(&mut self.requests, request) {
            if known.request != Some(request) {
                (known.request, known.lists) = (Some(request), None);
                known.mapped.clear();
            }
            known.mapped.push((position, page, block));
        }
        Ok(())
    }

    fn unmap(&mut self, request: RequestId, page: PageId) -> Result<(), PlanError> {
        let map = self.mirrors.page_map_mut();
        for frames in self.frames.iter().filter(|_| self.writes) {
            let GroupFrames::Paged { group, pages, .. } = frames else { continue };
            if let Some(own) = at(pages, page.get()) {
                map.unmap(*group, own)?;
            }
        }
        if let Some(known) = known(&mut self.requests, request) {
            known.mapped.retain(|(_, mapped, _)| *mapped != page);
        }
        Ok(())
    }

    /// Plans lifts of at most `most` bytes, but at least one where any waits; the rest is left for later plans. A plan that
    /// was not staged is made anew.
    pub fn plan_lifts(&mut self, most: Bytes) -> &mut RestorePlan {
        self.retry(Lane::Lift);
        self.lifts.clear();
        while let Some(Work::Lift { request }) = self.worker.next(Lane::Lift) {
            let before = self.lifts.bytes().unwrap_or_default();
            if !self.lifts.is_empty() && before >= most {
                break;
            }
            match self.add_lift(request, most.saturating_sub(before)) {
                Ok(true) => self.worker.draft(Lane::Lift),
                Ok(false) => break,
                Err(error) if later(&error) && !self.lifts.is_empty() => break,
                Err(error) => {
                    self.worker.refuse(Lane::Lift);
                    self.release(request);
                    self.refused.get_or_insert(error);
                }
            }
        }
        &mut self.lifts
    }

    /// Plans pages and states that are written back.
    pub fn plan_write_backs(&mut self) -> &mut WriteBackPlan {
        self.retry(Lane::WriteBack);
        self.write_backs.clear();
        while let Some(work) = self.worker.next(Lane::WriteBack) {
            let mark = self.write_backs.begin();
            match self.add_write_back(work) {
                Ok(()) => self.worker.draft(Lane::WriteBack),
                Err(error) => {
                    self.write_backs.rewind(mark);
                    if later(&error) && !self.write_backs.is_empty() {
                        break;
                    }
                    self.worker.refuse(Lane::WriteBack);
                    self.refused.get_or_insert(error);
                }
            }
        }
        &mut self.write_backs
    }

    /// The mirror of the steps that have begun.
    pub fn plan_mirrors(&mut self) -> &mut MirrorPlan {
        self.retry(Lane::Mirror);
        while self.worker.next(Lane::Mirror).is_some() {
            self.worker.draft(Lane::Mirror);
        }
        &mut self.mirrors
    }

    /// Why work could not be planned since this was asked last, the first of it: the rank answers that it has failed.
    pub const fn refused(&mut self) -> Option<PlanError> {
        self.refused.take()
    }

    /// How much work is in a plan: one without any need not be staged.
    #[must_use]
    pub const fn drafted(&self, lane: Lane) -> usize {
        self.worker.drafted(lane)
    }

    /// A plan was staged as the ticket of this number.
    pub fn staged(&mut self, lane: Lane, ticket: u64) {
        self.worker.staged(lane, ticket);
    }

    /// A plan could not be staged: its work is planned again.
    pub const fn retry(&mut self, lane: Lane) {
        self.worker.undraft(lane);
    }

    /// Tickets that are not settled.
    pub fn tickets(&self, lane: Lane) -> impl Iterator<Item = u64> {
        self.worker.tickets(lane)
    }

    /// What became of a ticket.
    pub fn settle(&mut self, lane: Lane, ticket: u64, settled: Settled) {
        self.worker.settle(lane, ticket, settled);
        if lane == Lane::Lift {
            for slot in 0..self.requests.len() {
                if let Some(request) = self.requests.get(slot).and_then(|known| known.request) {
                    self.release(request);
                }
            }
        }
    }

    /// What the rank has to say to the scheduler.
    pub fn say(&mut self) -> impl Iterator<Item = Event<'static>> {
        self.worker.say()
    }

    /// Adds a lift; `false` where it would be more than `most` bytes beside others.
    fn add_lift(&mut self, request: RequestId, most: Bytes) -> Result<bool, PlanError> {
        let Self { requests, frames, reservations, lifts, geometry, .. } = self;
        let slot = request.slot();
        let known = known(requests, request).filter(|known| known.request == Some(request));
        let Some((known, lift)) =
            known.and_then(|known| Some((known.lists.clone()?, known))).map(|(o, k)| (k, o))
        else {
            // Nothing was said of it: there is nothing to lift.
            return Ok(true);
        };
        let Some([prompt, imported, resume_at]) = lift.span else {
            let mark = lifts.begin();
            return lift_again(lifts, geometry, frames, slot, &lift, self.block_tokens)
                .map(|()| true)
                .inspect_err(|_| lifts.rewind(mark));
        };
        if known.import.is_none() {
            let tokens = crate::quantity::Tokens::new;
            let span = PromptSpan::explicit(tokens(prompt), tokens(imported), tokens(resume_at))?;
            known.import = Some(reserve(reservations, frames, slot, &lift, span, self.mode)?);
        }
        let Some(import) = known.import else { return Ok(true) };
        if !lifts.is_empty() && reservations.bytes(import).is_some_and(|bytes| bytes > most) {
            return Ok(false);
        }
        lifts.lift_reserved(reservations, import).map(|()| true)
    }

    fn add_write_back(&mut self, work: Work) -> Result<(), PlanError> {
        let Self { requests, frames, write_backs, writes, geometry, .. } = self;
        let request = work.request();
        let Some(known) = known(requests, request).filter(|known| known.request == Some(request)) else {
            return Ok(());
        };
        let (first, last) = match work {
            Work::Checkpoint { position, .. } | Work::Save { position, .. } => {
                // Positions are those of the lift's blocks, or of pages that were mapped since.
                let mapped = known.mapped.iter().find(|(own, ..)| *own == position).map(|(.., block)| *block);
                let block = mapped.or_else(|| at(&known.lists.as_ref()?.blocks, position));
                for frames in frames.iter() {
                    let GroupFrames::State { group, blocks, pages } = frames else { continue };
                    let ends = at(pages, request.slot()).zip(block.and_then(|block| at(blocks, block.get())));
                    let Some((page, block)) = ends else {
                        let (group, list) = (geometry.group_name(group.id()), "host blocks");
                        let (expected, found) = (u64::from(position).saturating_add(1), u64::from(position));
                        return Err(PlanError::ListLength { group, list, expected, found });
                    };
                    write_backs.checkpoint(*group, page, block)?;
                }
                return Ok(());
            }
            Work::Spill { position, .. } => (position, position),
            Work::Rewrite { first, last, .. } => (first, last),
            Work::Lift { .. } | Work::Mirror { .. } => return Ok(()),
        };
        // What is not mapped is a copy of what others see.
        let within = |position: u32| *writes && (first..=last).contains(&position);
        for (_, page, block) in known.mapped.iter().filter(|(position, ..)| within(*position)) {
            for frames in frames.iter() {
                let GroupFrames::Paged { group, blocks, pages } = frames else { continue };
                if let Some((page, block)) = at(pages, page.get()).zip(at(blocks, block.get())) {
                    write_backs.spill(*group, &[page], &[block])?;
                }
            }
        }
        Ok(())
    }

    /// Gives an import's lists back, once it need not be lifted any more: who holds its pages, the lifecycle knows.
    fn release(&mut self, request: RequestId) {
        if self.worker.lifts(request) {
            return;
        }
        let known = known(&mut self.requests, request).filter(|known| known.request == Some(request));
        if let Some(import) = known.and_then(|known| known.import.take()) {
            let released = self.reservations.release(import);
            debug_assert!(released.is_ok(), "an import is released once");
        }
    }
}

/// Whether a plan with less in it may take the work.
const fn later(error: &PlanError) -> bool {
    matches!(error, PlanError::Capacity { .. } | PlanError::WrittenTwice { .. } | PlanError::Overlap { .. })
}

/// Checks and holds an import's lists, group by group.
fn reserve(
    reservations: &mut Reservations,
    frames: &[GroupFrames],
    slot: u32,
    lift: &LiftLists,
    span: PromptSpan,
    mode: TailRows,
) -> Result<ImportId, PlanError> {
    let mut lists = room("groups of an import", u64::try_from(frames.len()).unwrap_or(u64::MAX))?;
    for frames in frames {
        lists.push(match frames {
            GroupFrames::Paged { blocks, pages, .. } => (
                lift.blocks.iter().filter_map(|block| at(blocks, block.get())).collect::<Vec<_>>(),
                lift.pages.iter().filter_map(|(_, page)| at(pages, page.get())).collect::<Vec<_>>(),
            ),
            GroupFrames::State { blocks, pages, .. } => {
                let block = lift.state.and_then(|position| at(&lift.blocks, position));
                let block = block.and_then(|block| at(blocks, block.get()));
                (block.into_iter().collect(), at(pages, slot).into_iter().collect())
            }
        });
    }
    let groups: Vec<ImportGroup<'_>> = frames
        .iter()
        .zip(&lists)
        .map(|(frames, (blocks, pages))| match frames {
            GroupFrames::Paged { group, .. } if lift.landed => ImportGroup::landed(*group, pages),
            GroupFrames::State { group, .. } if lift.landed => ImportGroup::landed(*group, pages),
            // A request without a state begins with none.
            GroupFrames::State { group, .. } if blocks.is_empty() => ImportGroup::landed(*group, pages),
            GroupFrames::Paged { group, .. } => ImportGroup::new(*group, blocks, pages),
            GroupFrames::State { group, .. } => ImportGroup::new(*group, blocks, pages),
        })
        .collect();
    reservations.reserve(&Import { span, groups: &groups }, mode)
}

/// Adds what a request had before it was preempted: whole pages, and its state.
fn lift_again(
    plan: &mut RestorePlan,
    geometry: &Geometry,
    frames: &[GroupFrames],
    slot: u32,
    lift: &LiftLists,
    block_tokens: u64,
) -> Result<(), PlanError> {
    let missing = |group| PlanError::ForeignGroup { group };
    for frames in frames {
        match frames {
            GroupFrames::Paged { group, blocks, pages } => {
                let route = geometry.lift_route(*group).ok_or_else(|| missing(group.id()))?;
                for (position, page) in &lift.pages {
                    let filled = u64::from(*position).saturating_mul(block_tokens) < lift.tokens;
                    let block = at(&lift.blocks, *position).and_then(|block| at(blocks, block.get()));
                    if let Some((block, page)) = block.zip(at(pages, page.get())).filter(|_| filled) {
                        plan.gather(route, &[block], &[page])?;
                    }
                }
            }
            GroupFrames::State { group, blocks, pages } => {
                let route = geometry.lift_route(*group).ok_or_else(|| missing(group.id()))?;
                let block = lift.state.and_then(|position| at(&lift.blocks, position));
                let block = block.and_then(|block| at(blocks, block.get()));
                if let Some((block, page)) = block.zip(at(pages, slot)) {
                    plan.gather(route, &[block], &[page])?;
                }
            }
        }
    }
    Ok(())
}

fn known(requests: &mut [Known], request: RequestId) -> Option<&mut Known> {
    requests.get_mut(usize::try_from(request.slot()).ok()?)
}

fn at<T: Copy>(list: &[T], number: u32) -> Option<T> {
    list.get(usize::try_from(number).ok()?).copied()
}
