//! The page map: changes take effect when a plan is staged, and never lead two pages to one block.

use pagelift::Error;
use pagelift::backends::Backend;
use pagelift::error::{LaunchError, PlanError};
use pagelift::geometry::{GroupKey, Paged};
use pagelift::id::{HostBlockId, PageId, Ticket};
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{MirrorPlan, RowBinding, RowCapacity};
use pagelift_cases::arrays::Scratch;
use pagelift_cases::draw::Draw;
use pagelift_cases::memory::Image;

use crate::backends::Subject;
use crate::mirror::ROOM;
use crate::world::World;

/// A step that writes every row of pages 0, 1 and 2.
pub struct Fixture<B: Backend> {
    pub world: World,
    pub launcher: Launcher<B, MirrorPlan>,
    pub key: GroupKey<Paged>,
    binding: RowBinding,
}

impl<B: Backend> Fixture<B> {
    pub fn new(backend: B, room: RowCapacity, repeat: bool) -> (Self, MirrorPlan) {
        let mut world = World::small(&backend);
        let mut scratch = Scratch::new(&mut world.pools, &backend);
        let slots = scratch.array(12, 8);
        scratch.write(&mut world.pools, slots, 8, &(0..12).collect::<Vec<i64>>());
        let (key, binding) = (world.paged(), RowBinding::new(slots, 12));
        let mut plan = MirrorPlan::new(world.geometry(), room).unwrap();
        plan.bind(key, binding).unwrap();
        let options = LauncherOptions { repeat, ..LauncherOptions::default() };
        let launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options).unwrap();
        (Self { world, launcher, key, binding }, plan)
    }

    /// Another plan for the same launcher.
    fn plan(&self) -> MirrorPlan {
        let mut plan = MirrorPlan::new(self.world.geometry(), ROOM).unwrap();
        plan.bind(self.key, self.binding).unwrap();
        plan
    }

    pub fn map(&self, plan: &mut MirrorPlan, page: u32, block: u32) -> Result<(), PlanError> {
        plan.page_map_mut().map(self.key, PageId::new(page), HostBlockId::new(block))
    }

    pub fn unmap(&self, plan: &mut MirrorPlan, page: u32) {
        plan.page_map_mut().unmap(self.key, PageId::new(page)).unwrap();
    }

    pub fn stage(&mut self, plan: &mut MirrorPlan) -> Result<Ticket, Error> {
        self.launcher.stage(&self.world.pools.memory, plan)
    }

    /// Launches after new rows were written, and expects just these pages to be mirrored to these blocks.
    pub fn launch(&mut self, mapped: &[(u32, u32)]) {
        self.run(mapped, |it| it.launcher.launch(&mut it.world.pools.memory).unwrap());
    }

    /// The same with another way to launch.
    pub fn run(&mut self, mapped: &[(u32, u32)], launch: impl FnOnce(&mut Self)) {
        let mut expected = self.rewritten(mapped);
        launch(self);
        self.world.assert_is(&expected);
        // And no byte of it is right by chance.
        *expected.byte(0) ^= 1;
        assert!(expected.difference(&self.world.pools.memory, &self.world.pools.regions).is_some());
    }

    fn rewritten(&mut self, mapped: &[(u32, u32)]) -> Image {
        let scratch = *self.world.pools.regions.last().unwrap();
        let mut slots = vec![0; self.world.pools.memory.region(scratch).unwrap().bytes() as usize];
        self.world.pools.memory.read(scratch, 0, &mut slots).unwrap();
        let seed = self.launcher.counters().launches;
        self.world.fill(&mut Draw::seeded(seed));
        self.world.pools.memory.write(scratch, 0, &slots).unwrap();
        let mut expected = self.world.image();
        for &(page, block) in mapped {
            (0..4).for_each(|row| self.world.expect_mirrored(&mut expected, page, block, row));
        }
        expected
    }

    pub fn report(&self, ticket: Ticket) -> (u32, u32, u32) {
        match self.launcher.state(ticket) {
            TicketState::Done(Report { rows, skipped, bad }) => (rows, skipped, bad),
            other => panic!("{other:?}"),
        }
    }
}

pub fn changes_take_effect_when_staged<S: Subject>() {
    let (mut it, mut plan) = Fixture::new(S::backend(11), ROOM, true);
    let empty = it.stage(&mut plan).unwrap();
    it.launch(&[]);
    assert_eq!(it.report(empty), (0, 12, 0));
    it.map(&mut plan, 0, 1).unwrap();
    it.map(&mut plan, 2, 0).unwrap();
    // Not staged yet: the replay knows nothing of it.
    it.launch(&[]);
    let ticket = it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1), (2, 0)]);
    assert_eq!(it.report(ticket), (8, 4, 0));
    it.launch(&[(0, 1), (2, 0)]);
}

pub fn changes_of_a_superseded_plan_stay<S: Subject>() {
    let (mut it, mut plan) = Fixture::new(S::backend(11), ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    let first = it.stage(&mut plan).unwrap();
    it.map(&mut plan, 1, 2).unwrap();
    let second = it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1), (1, 2)]);
    assert_eq!(it.launcher.state(first), TicketState::Superseded);
    assert_eq!(it.report(second), (8, 4, 0));
}

pub fn a_page_is_unmapped_before_it_is_given_away<S: Subject>() {
    let (mut it, mut plan) = Fixture::new(S::backend(11), ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1)]);
    assert!(matches!(it.map(&mut plan, 0, 2), Err(PlanError::PageMapped { .. })));
    assert!(matches!(it.map(&mut plan, 1, 1), Err(PlanError::BlockMapped { .. })));
    it.unmap(&mut plan, 0);
    it.stage(&mut plan).unwrap();
    it.launch(&[]);
    // The page goes to another block, and the block to another page.
    it.map(&mut plan, 0, 2).unwrap();
    it.map(&mut plan, 1, 1).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 2), (1, 1)]);
    // Both swap in one staging.
    it.unmap(&mut plan, 0);
    it.unmap(&mut plan, 1);
    it.map(&mut plan, 0, 1).unwrap();
    it.map(&mut plan, 1, 2).unwrap();
    let ticket = it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1), (1, 2)]);
    assert_eq!(it.report(ticket), (8, 4, 0));
}

pub fn the_map_is_kept_by_the_launcher_bound_last<S: Subject>() {
    let (mut it, mut plan) = Fixture::new(S::backend(11), ROOM, false);
    it.map(&mut plan, 0, 1).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1)]);

    // Another plan knows nothing of what is mapped here.
    let mut other = it.plan();
    it.map(&mut other, 1, 1).unwrap();
    let error = it.stage(&mut other).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::OtherLauncher)), "{error}");
    assert!(error.to_string().contains("bind a new launcher"), "{error}");

    // A new launcher knows all that is mapped, staged or pending; the old one takes the plan no more.
    it.map(&mut plan, 2, 2).unwrap();
    let backend = S::backend(12);
    let mut second =
        Launcher::bind(backend, &it.world.pools.memory, &mut plan, LauncherOptions::default()).unwrap();
    let error = it.stage(&mut plan).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::OtherLauncher)), "{error}");
    std::mem::swap(&mut it.launcher, &mut second);
    let ticket = it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1), (2, 2)]);
    assert_eq!(it.report(ticket).2, 0);
    // The old one's tickets mean nothing to it.
    assert_eq!(second.state(ticket), TicketState::Unknown);
}

pub fn changes_past_the_capacity_are_refused<S: Subject>() {
    let (mut it, mut plan) = Fixture::new(S::backend(11), RowCapacity { jobs: 1, changes: 1 }, false);
    it.map(&mut plan, 0, 1).unwrap();
    assert!(matches!(it.map(&mut plan, 1, 2), Err(PlanError::Capacity { .. })));
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1)]);
    it.map(&mut plan, 1, 2).unwrap();
    it.stage(&mut plan).unwrap();
    it.launch(&[(0, 1), (1, 2)]);
}
