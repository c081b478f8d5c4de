//! What a rank launches in its next step: one plan each for lifts, for pages and states that are written back, and for rows
//! that are mirrored.

use std::sync::Arc;

use super::event::{Effect, Event};
use super::frames::{GroupFrames, GroupLists, Mapped, Scale};
use super::lists::LiftLists;
use super::options::LifecycleOptions;
use super::order::Order;
use super::rank::Rank;
use super::request::RequestId;
use super::reservations::Reservations;
use super::worker::{Lane, Settled, Work, Worker};
use crate::error::PlanError;
use crate::geometry::Geometry;
use crate::id::{GroupId, ImportId, PageId};
use crate::import::{Import, ImportGroup, PromptSpan};
use crate::plan::{MirrorPlan, Plan, PlanCapacity, RestorePlan, RowCapacity, TailRows, WriteBackPlan};
use crate::quantity::Bytes;
use crate::room::with_room;

/// What a rank knows of a request's pages. Its memory stays with the request's slot.
#[derive(Debug, Default)]
struct Known {
    request: Option<RequestId>,
    lists: Option<LiftLists>,
    import: Option<ImportId>,
    /// Pages that are mirrored.
    mapped: Vec<Mapped>,
}

impl Known {
    /// Whatever was known is another request's.
    fn renew(&mut self, request: RequestId) {
        if self.request != Some(request) {
            (self.request, self.lists) = (Some(request), None);
            self.mapped.clear();
        }
    }
}

/// The plans of a rank's steps.
///
/// In a step, [`StepPlans::hear`] takes orders, and the plans are staged and launched in this order: pages and states that are
/// written back, lifts, the engine's forward, mirrors. So what was asked for before a step is done before it. For each plan
/// that is staged, [`StepPlans::staged`] says so, or [`StepPlans::retry`] that it will be made again; what became of its
/// ticket goes to [`StepPlans::settle`]. Between a plan and what is said of it no order is heard, for that may take work back, and
/// a launch that did it nevertheless would be nobody's: where one has to be, say `retry` first, and plan again.
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
    scratch: Scratch,
}

/// Memory that is used again.
#[derive(Debug, Default)]
struct Scratch {
    /// By group.
    lists: Vec<GroupLists>,
    groups: Vec<ImportGroup<'static>>,
    settled: Vec<RequestId>,
}

/// How much one rank's plans hold, beside what follows from its lifecycle's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOptions {
    /// Room of the plans of pages.
    pub pages: PlanCapacity,
    /// Room of the plan of rows. Where the rank writes host blocks, `changes` is at least as many as the geometry has
    /// [entries of page maps](Geometry::map_entries), of 8 bytes in each staging slot: an entry changes at most once between
    /// two stagings, so that pages come and go for as long as nothing is mirrored.
    pub rows: RowCapacity,
    /// Which rows of a partly filled page are lifted.
    pub mode: TailRows,
}

impl StepPlans {
    /// Plans for a rank, all of whose memory is allocated here. `lifecycle` are the options of the lifecycle whose orders it takes:
    /// how many requests there are, how long blocks are, and whether the rank writes host blocks, both have to see alike.
    ///
    /// # Errors
    /// As [`RestorePlan::new`], [`PlanError::Options`] for options that no lifecycle has, or none with this rank,
    /// [`PlanError::ForeignGroup`] for frames of another geometry's group, and [`PlanError::Frames`]
    /// where a group that is lifted has no frames, or others than it needs.
    pub fn new(
        rank: Rank,
        geometry: Arc<Geometry>,
        frames: Vec<GroupFrames>,
        lifecycle: LifecycleOptions,
        options: StepOptions,
    ) -> Result<Self, PlanError> {
        lifecycle.check_with(rank)?;
        let LifecycleOptions { requests: count, block_tokens, writers, .. } = lifecycle;
        let (block_tokens, writes) = (u64::from(block_tokens), writers.contains(rank));
        let StepOptions { pages, rows, mode } = options;
        // Changes wait until a mirror is staged, and nobody can say how many orders come before that.
        let changes = if writes { geometry.map_entries().min(RowCapacity::MOST.changes) } else { 0 };
        let rows = RowCapacity { changes: rows.changes.max(changes), ..rows };
        let scale = Scale { geometry: &geometry, block_tokens };
        frames.iter().try_for_each(|frames| frames.check(scale))?;
        let known = |id| frames.iter().any(|frames| frames.id() == id);
        let groups = (0..).map(GroupId::new).zip(geometry.groups());
        if let Some((_, group)) = groups.into_iter().find(|(id, group)| group.is_lifted() && !known(*id)) {
            let (expected, found) = ("frames, as it is lifted", "none");
            return Err(PlanError::Frames { group: group.name().into(), expected, found });
        }
        let mut requests = with_room("requests of a rank", count.into())?;
        requests.extend((0..count).map(|_| Known::default()));
        Ok(Self {
            scratch: Scratch {
                lists: frames.iter().map(|_| GroupLists::default()).collect(),
                groups: with_room("groups of an import", u64::try_from(frames.len()).unwrap_or(u64::MAX))?,
                settled: with_room("requests of a rank", count.into())?,
            },
            worker: Worker::new(rank, count)?,
            writes,
            block_tokens,
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

    /// The plan of lifts, as it was made last, to be read.
    #[must_use]
    pub const fn lifts(&self) -> &RestorePlan {
        &self.lifts
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

    /// Takes an order: each once, in the scheduler's order. What a lift's lists lack is found when it is planned: it has failed then, and the rank says so.
    ///
    /// # Errors
    /// [`PlanError::ForeignRequest`] for a request that the lifecycle of these plans has no room for, and where a page cannot be
    /// mapped or unmapped: nothing has changed then.
    pub fn hear(&mut self, order: Order) -> Result<(), PlanError> {
        let request = order.request();
        if known(&mut self.requests, request).is_none() {
            let requests = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
            return Err(PlanError::ForeignRequest { request, requests });
        }
        match order {
            Order::Map { request, position, page, block } => {
                let mapped = Mapped { position, page, block };
                self.map(request.slot(), mapped)?;
                if let Some(known) = known(&mut self.requests, request) {
                    known.renew(request);
                    known.mapped.push(mapped);
                }
            }
            Order::ReleasePage { request, page } => self.unmap(request, page)?,
            Order::Lift { request, round, lists } => {
                for frames in self.frames.iter().filter(|_| self.writes) {
                    frames.map_ring(self.mirrors.page_map_mut(), &self.geometry, request.slot())?;
                }
                if let Some(known) = known(&mut self.requests, request) {
                    known.renew(request);
                    known.lists = Some(lists);
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

    /// Maps a page of the lifecycle in all groups, or in none.
    fn map(&mut self, slot: u32, mapped: Mapped) -> Result<(), PlanError> {
        let Self { frames, geometry, mirrors, writes, block_tokens, .. } = self;
        let (map, scale) = (mirrors.page_map_mut(), Scale { geometry, block_tokens: *block_tokens });
        for (done, own) in frames.iter().enumerate().filter(|_| *writes) {
            if let Err(error) = own.map(map, scale, slot, mapped) {
                for before in frames.iter().take(done) {
                    before.undo(map, scale, slot, mapped)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn unmap(&mut self, request: RequestId, page: PageId) -> Result<(), PlanError> {
        let Self { requests, frames, geometry, mirrors, writes, block_tokens, .. } = self;
        let Some(known) = known(requests, request) else { return Ok(()) };
        let Some(at) = known.mapped.iter().position(|mapped| mapped.page == page) else { return Ok(()) };
        if let Some(mapped) = known.mapped.get(at).copied().filter(|_| *writes) {
            let (map, scale) = (mirrors.page_map_mut(), Scale { geometry, block_tokens: *block_tokens });
            frames.iter().try_for_each(|own| own.unmap(map, scale, request.slot(), mapped))?;
        }
        known.mapped.remove(at);
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
    ///
    /// # Errors
    /// [`PlanError::Unbound`] where steps have begun, this rank writes host blocks, and rows of a group that is written back are not
    /// [bound](MirrorPlan::bind): its pages would be given away without them. Nothing has changed then: bind them, and ask again.
    pub fn plan_mirrors(&mut self) -> Result<&mut MirrorPlan, PlanError> {
        let begun = self.worker.drafted(Lane::Mirror) > 0 || self.worker.next(Lane::Mirror).is_some();
        if begun && self.writes {
            self.frames.iter().try_for_each(|frames| frames.check_bound(&self.mirrors, &self.geometry))?;
        }
        self.retry(Lane::Mirror);
        while self.worker.next(Lane::Mirror).is_some() {
            self.worker.draft(Lane::Mirror);
        }
        Ok(&mut self.mirrors)
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
        let mut requests = std::mem::take(&mut self.scratch.settled);
        if lane == Lane::Lift {
            requests.extend(self.worker.lifted_by(ticket));
        }
        self.worker.settle(lane, ticket, settled);
        requests.drain(..).for_each(|request| self.release(request));
        self.scratch.settled = requests;
    }

    /// What the rank has to say to the scheduler.
    pub fn say(&mut self) -> impl Iterator<Item = Event<'static>> {
        self.worker.say()
    }

    /// Adds a lift; `false` where it would be more than `most` bytes beside others.
    fn add_lift(&mut self, request: RequestId, most: Bytes) -> Result<bool, PlanError> {
        let Self { requests, frames, reservations, lifts, geometry, scratch, block_tokens, .. } = self;
        let (slot, scale) = (request.slot(), Scale { geometry, block_tokens: *block_tokens });
        let known = known(requests, request).filter(|known| known.request == Some(request));
        // Nothing was said of it: there is nothing to lift.
        let Some(Known { lists: Some(order), import, .. }) = known else { return Ok(true) };
        let Some(span) = order.span() else {
            let mark = lifts.begin();
            let mut all = frames.iter().zip(&mut scratch.lists);
            return all
                .try_for_each(|(frames, lists)| frames.lift_again(lifts, scale, (slot, order), lists))
                .map(|()| true)
                .inspect_err(|_| lifts.rewind(mark));
        };
        let import = match *import {
            Some(import) => import,
            None => {
                let reserved =
                    scratch.reserve(reservations, (frames, scale), (slot, order), span?, self.mode)?;
                *import.insert(reserved)
            }
        };
        if !lifts.is_empty() && reservations.bytes(import).is_some_and(|bytes| bytes > most) {
            return Ok(false);
        }
        lifts.lift_reserved(reservations, import).map(|()| true)
    }

    fn add_write_back(&mut self, work: Work) -> Result<(), PlanError> {
        let Self { requests, frames, write_backs, writes, geometry, block_tokens, .. } = self;
        let (request, slot) = (work.request(), work.request().slot());
        let scale = Scale { geometry, block_tokens: *block_tokens };
        let Some(known) = known(requests, request).filter(|known| known.request == Some(request)) else {
            return Ok(());
        };
        let (first, last) = match work {
            Work::Checkpoint { position, .. } | Work::Save { position, .. } => {
                // Positions are those of the lift's blocks, or of pages that were mapped since.
                let mapped = known.mapped.iter().find(|mapped| mapped.position == position);
                let block = mapped.map(|mapped| mapped.block);
                let ordered = || at(&known.lists.as_ref()?.blocks, position);
                let block = (position, block.or_else(ordered));
                return frames
                    .iter()
                    .try_for_each(|frames| frames.checkpoint(write_backs, geometry, slot, block));
            }
            Work::Spill { position, .. } => (position, position),
            Work::Rewrite { first, last, .. } => (first, last),
            Work::Lift { .. } | Work::Mirror { .. } => return Ok(()),
        };
        // What is not mapped is a copy of what others see.
        let within = |mapped: &&Mapped| *writes && (first..=last).contains(&mapped.position);
        for mapped in known.mapped.iter().filter(within) {
            frames.iter().try_for_each(|frames| frames.spill(write_backs, scale, slot, *mapped))?;
        }
        if *writes && matches!(work, Work::Rewrite { .. } | Work::Spill { first: true, .. }) {
            frames.iter().try_for_each(|frames| frames.spill_ring(write_backs, geometry, slot))?;
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

impl Scratch {
    /// Checks and holds an import's lists, group by group.
    fn reserve(
        &mut self,
        reservations: &mut Reservations,
        (frames, scale): (&[GroupFrames], Scale<'_>),
        (slot, order): (u32, &LiftLists),
        span: PromptSpan,
        mode: TailRows,
    ) -> Result<ImportId, PlanError> {
        for (frames, lists) in frames.iter().zip(&mut self.lists) {
            frames.lists(scale, (slot, order), Some(span), lists)?;
        }
        let mut groups = emptied(std::mem::take(&mut self.groups));
        groups.extend(
            frames.iter().zip(&self.lists).map(|(own, lists)| own.import(scale.geometry, order, lists)),
        );
        let reserved = reservations.reserve(&Import { span, groups: &groups }, mode);
        self.groups = emptied(groups);
        reserved
    }
}

/// No groups, in the memory of others: collecting reuses it.
fn emptied<'to>(mut groups: Vec<ImportGroup<'_>>) -> Vec<ImportGroup<'to>> {
    groups.clear();
    groups.into_iter().map_while(|_| None).collect()
}

fn known(requests: &mut [Known], request: RequestId) -> Option<&mut Known> {
    requests.get_mut(usize::try_from(request.slot()).ok()?)
}

fn at<T: Copy>(list: &[T], number: u32) -> Option<T> {
    list.get(usize::try_from(number).ok()?).copied()
}
