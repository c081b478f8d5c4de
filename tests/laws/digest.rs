//! The law of digests: they tell content, and neither where nor how it lies; and they are read when they are complete.

use pagelift::Error;
use pagelift::error::LaunchError;
use pagelift::geometry::Memory;
use pagelift::id::Ticket;
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{DigestNumber, DigestPlan, Plan as _, PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Bytes;
use pagelift_cases::digests::terms;
use pagelift_cases::draw::Draw;
use pagelift_cases::tables::options;
use pagelift_cases::world::{GroupModel, SideModel};

use crate::backends::Subject;
use crate::lifts::{ROOM, simple};
use crate::world::World;

/// What a list of blocks holds: by logical row, then layer, then segment.
type Content = Vec<Vec<Vec<Vec<u8>>>>;

/// The digest of some content.
fn digest_of(content: &Content) -> u64 {
    let mut sum = 0_u64;
    for (row, layers) in (0..).zip(content) {
        for (layer, segments) in (0..).zip(layers) {
            for (segment, bytes) in (0..).zip(segments) {
                sum = sum.wrapping_add(terms(layer, segment, row, bytes));
            }
        }
    }
    sum
}

/// Calls `each` with every row of one side's blocks and what belongs there.
fn each_row(
    world: &mut World,
    (group, side): (usize, fn(&GroupModel) -> &SideModel),
    blocks: &[u32],
    content: &mut Content,
    mut each: impl FnMut(&mut [u8], &mut Vec<u8>),
) {
    for (row, layers) in (0_u32..).zip(content) {
        for (layer, segments) in (0_u32..).zip(layers) {
            for (segment, bytes) in segments.iter_mut().enumerate() {
                let model = &world.model.groups[group];
                let side = side(model);
                let block = blocks[(row / side.rows) as usize];
                let address = side.row(layer, block, segment, row % side.rows);
                let length = model.row_bytes[segment];
                world.edit(address, length as usize, |row| each(row, bytes));
            }
        }
    }
}

fn random_content(draw: &mut Draw, group: &GroupModel, rows: u64) -> Content {
    let mut segment = |&bytes: &u32| {
        let mut row = vec![0; bytes as usize];
        draw.fill(&mut row);
        row
    };
    let mut layers =
        || (0..group.layers).map(|_| group.row_bytes.iter().map(&mut segment).collect()).collect();
    (0..rows).map(|_| layers()).collect()
}

/// Damages content as copies go wrong: a bit, two rows, two layers. Returns it where it is not what it was.
fn damaged(draw: &mut Draw, content: &Content) -> Option<Content> {
    let mut damaged = content.clone();
    let last = damaged.len().checked_sub(1)?;
    let row = draw.below(last as u64 + 1) as usize;
    match draw.below(3) {
        0 => {
            let layer = draw.below(damaged[row].len() as u64) as usize;
            let segments = &mut damaged[row][layer];
            let segment = draw.below(segments.len() as u64) as usize;
            let byte = draw.below(segments[segment].len() as u64) as usize;
            segments[segment][byte] ^= 1 << draw.small(8);
        }
        1 => damaged.swap(row, last),
        _ => damaged[row].reverse(),
    }
    (damaged != *content).then_some(damaged)
}

/// Distinct ids of a side's blocks.
fn some_ids(draw: &mut Draw, side: &SideModel, count: u32) -> Vec<u32> {
    let mut ids = draw.order(side.blocks);
    ids.truncate(count as usize);
    ids
}

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut world = World::random(&mut draw, size, &backend);
    let mut plan = DigestPlan::new(world.geometry(), ROOM).unwrap();
    let options = LauncherOptions { repeat: false, ..options(&mut draw) };
    let mut launcher = Launcher::bind(backend, &world.pools.memory, &mut plan, options).unwrap();
    let host: fn(&GroupModel) -> &SideModel = |group| &group.host;
    let device: fn(&GroupModel) -> &SideModel = |group| &group.device;
    for _ in 0..3 {
        let group = draw.below(world.model.groups.len() as u64) as usize;
        let model = &world.model.groups[group];
        let count = 1 + draw.small(3);
        let blocks = some_ids(&mut draw, &model.host, count);
        let [pages, others] = [(); 2].map(|()| some_ids(&mut draw, &model.device, count));
        let least = model.host.rows.min(model.device.rows);
        let rows = draw.below(u64::from(count * least) + 1);
        let mut content = random_content(&mut draw, model, rows);
        let expected = digest_of(&content);
        let put = |place: &mut [u8], bytes: &mut Vec<u8>| place.copy_from_slice(bytes);

        // On either side, in any blocks, and whatever lies around it. The same rows again are a number of their own.
        for pages in [&pages, &others] {
            world.fill(&mut draw);
            each_row(&mut world, (group, host), &blocks, &mut content, put);
            each_row(&mut world, (group, device), pages, &mut content, put);
            let image = world.image();
            plan.clear();
            let numbers = [
                world.digest(&mut plan, (group, Memory::Host), &blocks, rows).unwrap(),
                world.digest(&mut plan, (group, Memory::Device), pages, rows).unwrap(),
                world.digest(&mut plan, (group, Memory::Host), &blocks, rows).unwrap(),
            ];
            let read = 3 * rows * world.model.groups[group].all_row_bytes();
            assert_eq!(plan.bytes(), Some(Bytes::new(read)));
            let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
            launcher.launch(&mut world.pools.memory).unwrap();
            assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
            assert_eq!(numbers.map(|number| launcher.digest(ticket, number).unwrap()), [expected; 3]);
            world.assert_is(&image);
        }

        let Some(mut wrong) = damaged(&mut draw, &content) else { continue };
        each_row(&mut world, (group, device), &pages, &mut wrong, put);
        plan.clear();
        let number = world.digest(&mut plan, (group, Memory::Device), &pages, rows).unwrap();
        let ticket = launcher.stage(&world.pools.memory, &mut plan).unwrap();
        launcher.launch(&mut world.pools.memory).unwrap();
        let found = launcher.digest(ticket, number).unwrap();
        assert_ne!(found, expected);
        assert_eq!(found, digest_of(&wrong));
    }
}

/// Rows 4 and 5 of a prompt of six tokens, lifted into page 2, have the digest of the block they came from.
pub fn a_lifted_page_has_the_digest_of_its_block<S: Subject>() {
    let mut world = World::small(&S::backend(5));
    let mut lift = RestorePlan::new(world.geometry(), ROOM).unwrap();
    let options = LauncherOptions::default();
    let mut launcher = Launcher::bind(S::backend(6), &world.pools.memory, &mut lift, options).unwrap();
    world.lift(&mut lift, &simple(6, &[2, 1], 2, TailRows::Exact));
    let mut it = Fixture::<S>::of(&world);
    let (on_host, on_page) = (it.host(&world, &[1], 2), it.device(&world, &[2], 2));
    let before = it.run(&mut world);
    assert_ne!(it.read(before, on_host).unwrap(), it.read(before, on_page).unwrap());
    launcher.stage(&world.pools.memory, &mut lift).unwrap();
    launcher.launch(&mut world.pools.memory).unwrap();
    let after = it.run(&mut world);
    assert_eq!(it.read(after, on_host).unwrap(), it.read(after, on_page).unwrap());
    // A hole was not lifted, and is in no digest of the rows; as a row it is.
    it.plan.clear();
    let (on_host, on_page) = (it.host(&world, &[1], 3), it.device(&world, &[2], 3));
    let whole = it.run(&mut world);
    assert_ne!(it.read(whole, on_host).unwrap(), it.read(whole, on_page).unwrap());
}

/// Digests of group 0 of a small world: four rows a block.
struct Fixture<S: Subject> {
    plan: DigestPlan,
    launcher: Launcher<S::Backend, DigestPlan>,
}

impl<S: Subject> Fixture<S> {
    fn of(world: &World) -> Self {
        let mut plan = DigestPlan::new(world.geometry(), ROOM).unwrap();
        let options = LauncherOptions { slots: 2, ..LauncherOptions::default() };
        let launcher = Launcher::bind(S::backend(7), &world.pools.memory, &mut plan, options).unwrap();
        Self { plan, launcher }
    }

    fn host(&mut self, world: &World, blocks: &[u32], rows: u64) -> DigestNumber {
        world.digest(&mut self.plan, (0, Memory::Host), blocks, rows).unwrap()
    }

    fn device(&mut self, world: &World, pages: &[u32], rows: u64) -> DigestNumber {
        world.digest(&mut self.plan, (0, Memory::Device), pages, rows).unwrap()
    }

    fn stage(&mut self, world: &World) -> Ticket {
        self.launcher.stage(&world.pools.memory, &mut self.plan).unwrap()
    }

    fn run(&mut self, world: &mut World) -> Ticket {
        let ticket = self.stage(world);
        self.launcher.launch(&mut world.pools.memory).unwrap();
        ticket
    }

    fn read(&self, ticket: Ticket, number: DigestNumber) -> Result<u64, LaunchError> {
        self.launcher.digest(ticket, number).map_err(|error| match error {
            Error::Launch(error) => error,
            other => panic!("{other}"),
        })
    }
}

/// Digests are there when their ticket is done, until the next plan is staged.
pub fn digests_are_read_when_they_are_complete<S: Subject>() {
    let mut world = World::small(&S::backend(5));
    let mut it = Fixture::<S>::of(&world);
    let number = it.host(&world, &[0, 2], 5);
    let first = it.stage(&world);
    assert_eq!(it.read(first, number), Err(LaunchError::DigestsPending { ticket: first }));
    it.launcher.launch(&mut world.pools.memory).unwrap();
    let digest = it.read(first, number).unwrap();
    // Once is enough.
    it.launcher.launch(&mut world.pools.memory).unwrap();
    assert_eq!(it.read(first, number), Ok(digest));

    let superseded = it.stage(&world);
    assert_eq!(it.read(first, number), Err(LaunchError::DigestsGone { ticket: first }));
    let last = it.run(&mut world);
    assert_eq!(it.read(superseded, number), Err(LaunchError::DigestsGone { ticket: superseded }));
    assert_eq!(it.read(last, number), Ok(digest));
    let mut other = Fixture::<S>::of(&world);
    let theirs = other.stage(&world);
    assert_eq!(it.read(theirs, number), Err(LaunchError::DigestsGone { ticket: theirs }));
    // A plan that cannot be staged leaves the results alone.
    let mut larger = DigestPlan::new(world.geometry(), PlanCapacity::default()).unwrap();
    it.launcher.stage(&world.pools.memory, &mut larger).unwrap_err();
    assert_eq!(it.read(last, number), Ok(digest));
}

/// A number says nothing of another plan, of what a plan was before, or of what was added later.
pub fn numbers_of_other_plans_are_refused<S: Subject>() {
    let mut world = World::small(&S::backend(5));
    let (mut it, mut other) = (Fixture::<S>::of(&world), Fixture::<S>::of(&world));
    let (old, theirs) = (it.host(&world, &[0], 4), other.host(&world, &[0], 4));
    it.plan.clear();
    let number = it.host(&world, &[0], 4);
    let ticket = it.stage(&world);
    let later = it.host(&world, &[1], 4);
    it.launcher.launch(&mut world.pools.memory).unwrap();
    for wrong in [old, theirs, later] {
        assert_eq!(it.read(ticket, wrong), Err(LaunchError::OtherDigest { ticket }));
    }
    let digest = it.read(ticket, number).unwrap();
    // Staged again, the plan has both.
    let ticket = it.run(&mut world);
    assert_eq!(it.read(ticket, number), Ok(digest));
    assert_ne!(it.read(ticket, later).unwrap(), digest);
}

/// More results than there is room for, in a table that is no larger; and results that would be added again.
pub fn results_have_room_and_are_added_once<S: Subject>() {
    let world = World::small(&S::backend(5));
    let plan = |jobs, list_entries| {
        let capacity = PlanCapacity { jobs, list_entries };
        DigestPlan::new(world.geometry(), capacity).unwrap()
    };
    let bind = |repeat| {
        let options = LauncherOptions { repeat, ..LauncherOptions::default() };
        Launcher::bind(S::backend(5), &world.pools.memory, &mut plan(4, 64), options)
    };
    let error = bind(false).unwrap().stage(&world.pools.memory, &mut plan(1024, 0)).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::TableTooSmall { .. })), "{error}");
    let error = bind(false).unwrap().stage(&world.pools.memory, &mut plan(20, 0)).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::TooManyResults { needed: 20, room: 4 })), "{error}");
    assert!(matches!(bind(true), Err(Error::Launch(LaunchError::Repeated))));
}
