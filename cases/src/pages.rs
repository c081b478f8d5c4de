//! Sequences of calls to page plans: each is predicted, made, and compared.

use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::GroupKind;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::plan::{
    CopyRun, DeviceToDevice, DeviceToHost, HostToDevice, PagePlan, Plan as _, PlanCapacity,
};
use pagelift_planner::quantity::Rows;

use crate::decode::{self, Move};
use crate::draw::Draw;
use crate::effect::{Claims, Effect, Refusal, Use};
use crate::ids::{Free, spoil};
use crate::lift::LiftCall;
use crate::world::{AnyRoute, Bearing, Key, SideModel, World, hosts};
use crate::{bytes, encoded};

/// One planning call of a page plan.
#[derive(Clone, Debug)]
pub enum Call {
    /// An import.
    Lift(LiftCall),
    /// Whole blocks along a way.
    Gather {
        /// The way's place among those of its direction.
        way: usize,
        /// Sources.
        from: Vec<u32>,
        /// Destinations.
        to: Vec<u32>,
    },
    /// Zeros in rows at the end of a way of a group that has rows.
    Zero {
        /// The way's place among those of its direction.
        way: usize,
        /// The block.
        block: u32,
        /// The first row.
        first: u32,
        /// Rows.
        rows: u32,
    },
    /// Pages of a paged group to host blocks.
    Spill {
        /// The group.
        group: usize,
        /// Its pages.
        pages: Vec<u32>,
        /// Where they go.
        blocks: Vec<u32>,
    },
    /// A state to a host block.
    Checkpoint {
        /// The group.
        group: usize,
        /// Its page.
        page: u32,
        /// Where it goes.
        block: u32,
    },
}

/// A direction, with the calls that only its plans have.
pub trait Calls: Bearing {
    /// One of them, if there is any.
    fn special(draw: &mut Draw, world: &World, free: &mut Free) -> Option<Call>;
    /// Makes it, by the keys of `keys`.
    ///
    /// # Errors
    /// Those of the plan.
    fn make(call: &Call, keys: &World, plan: &mut PagePlan<Self>) -> Result<(), PlanError>;
}

fn not_of_this_direction(call: &Call) -> ! {
    panic!("{call:?} is not drawn for this direction")
}

impl Calls for HostToDevice {
    fn special(draw: &mut Draw, world: &World, free: &mut Free) -> Option<Call> {
        let mut call = LiftCall::fitting(draw, world, free)?;
        if draw.once_in(4) {
            call.spoil(draw, world);
        }
        Some(Call::Lift(call))
    }

    fn make(call: &Call, keys: &World, plan: &mut PagePlan<Self>) -> Result<(), PlanError> {
        let Call::Lift(call) = call else { not_of_this_direction(call) };
        call.with(keys, |import| plan.lift(import, call.mode))
    }
}

impl Calls for DeviceToHost {
    fn special(draw: &mut Draw, world: &World, free: &mut Free) -> Option<Call> {
        let group = draw.below(world.groups.len() as u64) as usize;
        let model = &world.groups[group];
        match model.kind {
            GroupKind::Paged => {
                let (from, to) = fitting_lengths(draw, &model.device, &model.host);
                let mut pages = free.some(draw, &model.device, from);
                let mut blocks = free.some(draw, &model.host, to);
                spoil_one(draw, (&model.device, &mut pages), (&model.host, &mut blocks));
                Some(Call::Spill { group, pages, blocks })
            }
            GroupKind::Ring => None,
            GroupKind::State => {
                let mut pages = free.some(draw, &model.device, 1);
                let mut blocks = free.some(draw, &model.host, 1);
                spoil_one(draw, (&model.device, &mut pages), (&model.host, &mut blocks));
                Some(Call::Checkpoint { group, page: *pages.first()?, block: *blocks.first()? })
            }
        }
    }

    fn make(call: &Call, keys: &World, plan: &mut PagePlan<Self>) -> Result<(), PlanError> {
        match call {
            Call::Spill { group, pages, blocks } => {
                let Key::Paged(key) = keys.groups[*group].key else { not_of_this_direction(call) };
                plan.spill(key, &crate::world::pages(pages), &hosts(blocks))
            }
            Call::Checkpoint { group, page, block } => {
                let Key::State(key) = keys.groups[*group].key else { not_of_this_direction(call) };
                plan.checkpoint(key, PageId::new(*page), HostBlockId::new(*block))
            }
            _ => not_of_this_direction(call),
        }
    }
}

impl Calls for DeviceToDevice {
    fn special(_: &mut Draw, _: &World, _: &mut Free) -> Option<Call> {
        None
    }

    fn make(call: &Call, _: &World, _: &mut PagePlan<Self>) -> Result<(), PlanError> {
        not_of_this_direction(call)
    }
}

/// Lengths of lists that fit each other: the last block of one of them may be used in part.
fn fitting_lengths(draw: &mut Draw, from: &SideModel, to: &SideModel) -> (usize, usize) {
    let ratio = from.rows.max(to.rows) / from.rows.min(to.rows);
    let large = draw.small(4);
    let small = (large * ratio).saturating_sub(draw.small(ratio));
    if from.rows > to.rows { (large as usize, small as usize) } else { (small as usize, large as usize) }
}

/// Spoils one of two lists, once in a while.
fn spoil_one(draw: &mut Draw, from: (&SideModel, &mut Vec<u32>), to: (&SideModel, &mut Vec<u32>)) {
    match draw.below(8) {
        6 => spoil(draw, from.1, from.0.blocks),
        7 => spoil(draw, to.1, to.0.blocks),
        _ => {}
    }
}

impl Call {
    /// A random call for a plan of direction `D`; mostly one that is accepted.
    pub fn draw<D: Calls>(draw: &mut Draw, world: &World, free: &mut Free) -> Self {
        if draw.once_in(2)
            && let Some(call) = D::special(draw, world, free)
        {
            return call;
        }
        let ways = &D::ways(world).whole;
        let way = draw.below(ways.len() as u64) as usize;
        let (from, to) = (&ways[way].from, &ways[way].to);
        if draw.once_in(4) && !matches!(ways[way].key, AnyRoute::State(_)) {
            let block = match draw.below(8) {
                7 => to.blocks + draw.small(2),
                6 => draw.small(to.blocks),
                _ => free.some(draw, to, 1)[0],
            };
            let first = draw.small(to.rows + 1);
            let rows = if draw.once_in(8) { draw.number() as u32 } else { draw.small(to.rows - first + 1) };
            return Self::Zero { way, block, first, rows };
        }
        let (sources, destinations) = fitting_lengths(draw, from, to);
        let (mut sources, mut destinations) =
            (free.some(draw, from, sources), free.some(draw, to, destinations));
        spoil_one(draw, (from, &mut sources), (to, &mut destinations));
        Self::Gather { way, from: sources, to: destinations }
    }

    /// Makes it, by the keys of `keys`, which is the plan's world or one built from the same shape.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn make<D: Calls>(&self, keys: &World, plan: &mut PagePlan<D>) -> Result<(), PlanError> {
        let ways = &D::ways(keys).whole;
        match self {
            Self::Gather { way, from, to } => {
                let from: Vec<D::Source> = from.iter().copied().map(D::source).collect();
                let to: Vec<D::Destination> = to.iter().copied().map(D::destination).collect();
                match ways[*way].key {
                    AnyRoute::Paged(key) => plan.gather(key, &from, &to),
                    AnyRoute::Ring(key) => plan.gather(key, &from, &to),
                    AnyRoute::State(key) => plan.gather(key, &from, &to),
                }
            }
            &Self::Zero { way, block, first, rows } => {
                let (block, first, rows) = (D::destination(block), Rows::new(first), Rows::new(rows));
                match ways[way].key {
                    AnyRoute::Paged(key) => plan.zero(key, block, first, rows),
                    AnyRoute::Ring(key) => plan.zero(key, block, first, rows),
                    AnyRoute::State(_) => not_of_this_direction(self),
                }
            }
            _ => D::make(self, keys, plan),
        }
    }

    /// What it does.
    ///
    /// # Errors
    /// Where it must be refused, whatever else the plan has.
    pub fn effect<'w, D: Calls>(&self, world: &'w World) -> Result<Effect<'w>, Refusal> {
        let ways = &D::ways(world).whole;
        match self {
            Self::Lift(call) => call.effect(world),
            Self::Gather { way, from, to } => gather((&ways[*way].from, from), (&ways[*way].to, to)),
            &Self::Zero { way, block, first, rows } => {
                let to = &ways[way].to;
                if u64::from(first) + u64::from(rows) > u64::from(to.rows) {
                    return Err("there are no such rows");
                }
                let mut effect = Effect::default();
                // No rows of a block are still its group's.
                effect.claim(to, block, first..first, Use::Hold)?;
                (first..first + rows).try_for_each(|row| effect.copy(None, (to, block, row)))?;
                Ok(effect)
            }
            Self::Spill { group, pages, blocks } => {
                let group = &world.groups[*group];
                gather((&group.device, pages), (&group.host, blocks))
            }
            &Self::Checkpoint { group, page, block } => {
                let group = &world.groups[group];
                gather((&group.device, &[page]), (&group.host, &[block]))
            }
        }
    }

    /// Whether another geometry's keys are no mistake in it: it has none.
    fn has_no_keys(&self) -> bool {
        matches!(self, Self::Lift(call) if call.lists.is_empty())
    }
}

/// What a gather does, row by row.
fn gather<'w>(
    (from, sources): (&'w SideModel, &[u32]),
    (to, destinations): (&'w SideModel, &[u32]),
) -> Result<Effect<'w>, Refusal> {
    let available = sources.len() as u64 * u64::from(from.rows);
    let room = destinations.len() as u64 * u64::from(to.rows);
    let rows = available.min(room);
    let used = |side: &SideModel| rows.div_ceil(u64::from(side.rows)) as usize;
    if (used(from), used(to)) != (sources.len(), destinations.len()) {
        return Err("lists do not fit each other");
    }
    let mut effect = Effect::default();
    for row in 0..rows {
        let place =
            |side: &SideModel| ((row / u64::from(side.rows)) as usize, (row % u64::from(side.rows)) as u32);
        let ((source, source_row), (destination, row)) = (place(from), place(to));
        let from = (from, sources[source], source_row);
        effect.copy(Some(from), (to, destinations[destination], row))?;
    }
    Ok(effect)
}

/// A plan, and the model that goes with it.
pub struct Session<'w, D> {
    world: &'w World,
    /// The plan.
    pub plan: PagePlan<D>,
    capacity: PlanCapacity,
    claims: Claims,
    moves: Vec<Move>,
    accepted: Vec<Call>,
}

impl<'w, D: Calls> Session<'w, D> {
    /// An empty plan.
    #[must_use]
    pub fn new(world: &'w World, capacity: PlanCapacity) -> Self {
        let plan = PagePlan::new(Arc::clone(&world.geometry), capacity).unwrap();
        let (claims, moves, accepted) = (Claims::default(), Vec::new(), Vec::new());
        Self { world, plan, capacity, claims, moves, accepted }
    }

    /// Makes a call, and panics where it does not do what the model says. Returns whether it was accepted.
    pub fn call(&mut self, call: Call) -> bool {
        let predicted = call.effect::<D>(self.world).and_then(|effect| {
            self.claims.add(&effect)?;
            Ok(effect.moves(self.world))
        });
        let before = (encoded(&self.plan), self.plan.summary());
        let found = call.make(self.world, &mut self.plan);
        match (predicted, found) {
            (Ok(moves), Ok(())) => {
                self.moves.extend(moves);
                self.accepted.push(call);
                self.check();
                return true;
            }
            (Ok(_), Err(error @ PlanError::Capacity { .. })) => {
                self.check_needs_more(&call, &error);
                self.forget_claims();
            }
            (Err(_), Err(_)) => {}
            (Ok(_), Err(error)) => panic!("{call:?} may be planned, and was refused: {error}"),
            (Err(refusal), Ok(())) => panic!("{call:?} may not be planned, as {refusal}"),
        }
        assert_eq!(
            (encoded(&self.plan), self.plan.summary()),
            before,
            "{call:?} was refused, and left something"
        );
        false
    }

    /// Makes a call with the keys of another geometry, which must be refused.
    pub fn call_foreign(&mut self, keys: &World, call: &Call) {
        if call.has_no_keys() {
            return;
        }
        let before = (encoded(&self.plan), self.plan.summary());
        let found = call.make(keys, &mut self.plan);
        assert!(
            matches!(found, Err(PlanError::ForeignKey | PlanError::ForeignGroup { .. })),
            "{call:?} with another geometry's keys: {found:?}"
        );
        assert_eq!(
            (encoded(&self.plan), self.plan.summary()),
            before,
            "{call:?} was refused, and left something"
        );
    }

    /// Empties plan and model.
    pub fn clear(&mut self) {
        self.plan.clear();
        self.claims.clear();
        self.moves.clear();
        self.accepted.clear();
    }

    /// What the plan must move.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// Compares the plan with the model.
    fn check(&self) {
        let copied: u64 =
            self.moves.iter().filter(|piece| piece.from.is_some()).map(|piece| piece.bytes).sum();
        assert_eq!(bytes(&self.plan), copied, "bytes");
        assert_eq!(self.plan.is_empty(), self.moves.is_empty());
        let table = encoded(&self.plan);
        let header = decode::header(&table);
        assert_eq!((header.units, header.jobs as usize), (self.plan.units(), self.plan.jobs()));
        assert!(self.fits(&header), "more than the plan has room for");
        let found = decode::checked_moves(&self.world.geometry, &table);
        let expected = decode::merged(self.moves.clone());
        assert_eq!(found, expected, "after {:?}", self.accepted.last());
        // The same, as runs for copy engines: as they come, and joined.
        let mut runs: Vec<CopyRun> = self.plan.copies().collect();
        assert_eq!(decode::merged(spelled(&runs)), expected, "after {:?}", self.accepted.last());
        CopyRun::join(&mut runs);
        assert_eq!(decode::merged(spelled(&runs)), expected, "after {:?}", self.accepted.last());
    }

    fn fits(&self, header: &decode::Header) -> bool {
        let entries = (header.changes_at - header.indices_at) / decode::PAIR_BYTES as u32;
        header.jobs <= self.capacity.jobs && entries <= self.capacity.list_entries
    }

    /// A plan with room enough takes the call, and then has more than this one has room for.
    fn check_needs_more(&self, call: &Call, error: &PlanError) {
        let ample = PlanCapacity { jobs: 512, list_entries: 512 };
        let mut plan = PagePlan::<D>::new(Arc::clone(&self.world.geometry), ample).unwrap();
        for call in self.accepted.iter().chain([call]) {
            call.make(self.world, &mut plan).unwrap();
        }
        assert!(!self.fits(&decode::header(&encoded(&plan))), "{call:?} fits, and was refused: {error}");
    }

    /// Takes back the claims of a call that the model had accepted.
    fn forget_claims(&mut self) {
        self.claims.clear();
        for call in &self.accepted {
            let effect = call.effect::<D>(self.world).unwrap();
            self.claims.add(&effect).unwrap();
        }
    }
}

/// Each row of runs.
fn spelled(runs: &[CopyRun]) -> Vec<Move> {
    let rows = runs.iter().flat_map(|run| run.each());
    rows.map(|row| Move { to: row.destination, from: row.source, bytes: row.bytes }).collect()
}

/// Lifts an import over as many plans as small budgets need, and compares the sum with the model.
pub fn lift_in_parts(draw: &mut Draw, world: &World, call: &LiftCall) {
    use pagelift_planner::plan::LiftProgress;
    use pagelift_planner::quantity::Bytes;
    let effect = call.effect(world);
    let mut plan =
        PagePlan::<HostToDevice>::new(Arc::clone(&world.geometry), PlanCapacity::default()).unwrap();
    let allowed = effect.and_then(|effect| {
        Claims::default().add(&effect)?;
        Ok(effect.moves(world))
    });
    let step = call.largest_step(world);
    let (mut progress, mut moves) = (LiftProgress::default(), Vec::new());
    // A budget lasts, so that the number of plans stays small.
    let least = draw.pick(&[u64::MAX, 2 * step, step / 2]);
    let mut plans = 0;
    while !progress.is_finished() {
        plan.clear();
        let budget = if plans < 8 { least } else { u64::MAX };
        let (mut left, before) = (Bytes::new(budget), progress);
        let made = call.with(world, |import| plan.lift_within(import, call.mode, &mut progress, &mut left));
        if let Err(error) = made {
            assert!(allowed.is_err(), "{call:?} may be lifted in parts, and was refused: {error}");
            assert!(plan.is_empty() && progress == before && left.get() == budget, "{call:?} left something");
            return;
        }
        assert!(bytes(&plan) <= budget.max(step), "more than the budget");
        moves.extend(decode::checked_moves(&world.geometry, &encoded(&plan)));
        plans += 1;
        assert!(progress != before && plans < 20, "no end");
    }
    let expected = allowed.unwrap_or_else(|refusal| panic!("{call:?} may not be lifted, as {refusal}"));
    assert_eq!(decode::merged(moves), decode::merged(expected));
}
