//! The law of digests: they tell content, and neither where nor how it lies; and they are read when they are complete.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::Error;
use pagelift::error::LaunchError;
use pagelift::id::Ticket;
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{DigestNumber, DigestPlan, Plan as _, PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Bytes;

use crate::backends::Subject;
use crate::restore::{Prompt, ROOM};
use crate::rng::Rng;
use crate::world::{GroupModel, SideModel, World};

/// What a list of blocks holds: by logical row, then layer, then segment.
type Content = Vec<Vec<Vec<Vec<u8>>>>;

/// The digest of some content, by the formula that the kernel's documentation gives.
fn digest_of(content: &Content) -> u64 {
    let nth = |origin: u64, n: u64| {
        const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        Rng(origin.wrapping_add(n.wrapping_sub(1).wrapping_mul(GAMMA))).next()
    };
    let mut sum = 0_u64;
    for (row, layers) in (0..).zip(content) {
        for (layer, segments) in (0_u64..).zip(layers) {
            for (segment, bytes) in (0_u64..).zip(segments) {
                let origin = nth(nth(u64::from_be_bytes(*b"pagelift"), layer << 32 | segment), row);
                for (index, chunk) in (0_u64..).zip(bytes.chunks(4)) {
                    let mut word = [0; 4];
                    word[..chunk.len()].copy_from_slice(chunk);
                    let term = nth(origin, index << 32 | u64::from(u32::from_le_bytes(word)));
                    sum = sum.wrapping_add(term);
                }
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
                let model = &world.groups[group];
                let block = blocks[(row / model.rows) as usize];
                let address = side(model).row(layer, block, segment, row % model.rows);
                let length = model.row_bytes[segment];
                world.edit(address, length as usize, |row| each(row, bytes));
            }
        }
    }
}

fn random_content(rng: &mut Rng, group: &GroupModel, rows: u64) -> Content {
    let mut segment = |&bytes: &u32| {
        let mut row = vec![0; bytes as usize];
        rng.fill(&mut row);
        row
    };
    let mut layers =
        || (0..group.layers).map(|_| group.row_bytes.iter().map(&mut segment).collect()).collect();
    (0..rows).map(|_| layers()).collect()
}

/// Damages content as copies go wrong: a bit, two rows, two layers. Returns it where it is not what it was.
fn damaged(rng: &mut Rng, content: &Content) -> Option<Content> {
    let mut damaged = content.clone();
    let last = damaged.len().checked_sub(1)?;
    let row = rng.below(last as u64 + 1) as usize;
    match rng.below(3) {
        0 => {
            let layer = rng.below(damaged[row].len() as u64) as usize;
            let segments = &mut damaged[row][layer];
            let segment = rng.below(segments.len() as u64) as usize;
            let byte = rng.below(segments[segment].len() as u64) as usize;
            segments[segment][byte] ^= 1 << rng.small(8);
        }
        1 => damaged.swap(row, last),
        _ => damaged[row].reverse(),
    }
    (damaged != *content).then_some(damaged)
}

/// Options that make no difference to a digest.
fn options(rng: &mut Rng) -> LauncherOptions {
    let workers = rng.pick(&[None, NonZeroU32::new(1), NonZeroU32::new(3)]);
    LauncherOptions { slots: 1 + rng.small(4), workers, repeat: false }
}

/// Distinct ids of a side's blocks.
fn some_ids(rng: &mut Rng, side: &SideModel, count: u32) -> Vec<u32> {
    let mut ids = rng.order(side.blocks);
    ids.truncate(count as usize);
    ids
}

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::random(&mut rng, size, &backend);
    let mut plan = DigestPlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options(&mut rng)).unwrap();
    let host: fn(&GroupModel) -> &SideModel = |group| &group.host;
    let device: fn(&GroupModel) -> &SideModel = |group| &group.device;
    for _ in 0..3 {
        let group = rng.below(world.groups.len() as u64) as usize;
        let model = &world.groups[group];
        let count = 1 + rng.small(3);
        let blocks = some_ids(&mut rng, &model.host, count);
        let [pages, others] = [(); 2].map(|()| some_ids(&mut rng, &model.device, count));
        let rows = rng.below(u64::from(count * model.rows) + 1);
        let digests = model.digests;
        let mut content = random_content(&mut rng, model, rows);
        let expected = digest_of(&content);
        let put = |place: &mut [u8], bytes: &mut Vec<u8>| place.copy_from_slice(bytes);

        // On either side, in any blocks, and whatever lies around it. The same rows again are a number of their own.
        for pages in [&pages, &others] {
            world.fill(&mut rng);
            each_row(&mut world, (group, host), &blocks, &mut content, put);
            each_row(&mut world, (group, device), pages, &mut content, put);
            let image = world.image();
            plan.clear();
            let numbers = [
                digests.host(&mut plan, &blocks, rows).unwrap(),
                digests.device(&mut plan, pages, rows).unwrap(),
                digests.host(&mut plan, &blocks, rows).unwrap(),
            ];
            let row_bytes: u64 = world.groups[group].row_bytes.iter().map(|&bytes| u64::from(bytes)).sum();
            let read = 3 * rows * row_bytes * u64::from(world.groups[group].layers);
            assert_eq!(plan.bytes(), Some(Bytes::new(read)));
            let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
            launcher.launch(&mut world.memory).unwrap();
            assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
            assert_eq!(numbers.map(|number| launcher.digest(ticket, number).unwrap()), [expected; 3]);
            world.assert_is(&image);
        }

        let Some(mut wrong) = damaged(&mut rng, &content) else { continue };
        each_row(&mut world, (group, device), &pages, &mut wrong, put);
        plan.clear();
        let number = digests.device(&mut plan, &pages, rows).unwrap();
        let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
        launcher.launch(&mut world.memory).unwrap();
        let found = launcher.digest(ticket, number).unwrap();
        assert_ne!(found, expected);
        assert_eq!(found, digest_of(&wrong));
    }
}

/// Rows 4 and 5 of a prompt of six tokens, lifted into page 2, have the digest of the block they came from.
pub fn a_lifted_page_has_the_digest_of_its_block<S: Subject>() {
    let mut world = World::small(&S::backend(5));
    let mut lift = RestorePlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let options = LauncherOptions::default();
    let mut launcher = Launcher::bind(S::backend(6), &world.memory, &mut lift, options).unwrap();
    Prompt::simple(6, &[2, 1], 2, TailRows::Exact).lift(&world, &mut lift);
    let mut it = Fixture::<S>::of(&mut world);
    let (on_host, on_page) = (it.host(&[1], 2), it.device(&[2], 2));
    let before = it.run(&mut world);
    assert_ne!(it.read(before, on_host).unwrap(), it.read(before, on_page).unwrap());
    launcher.stage(&world.memory, &mut lift).unwrap();
    launcher.launch(&mut world.memory).unwrap();
    let after = it.run(&mut world);
    assert_eq!(it.read(after, on_host).unwrap(), it.read(after, on_page).unwrap());
    // A hole was not lifted, and is in no digest of the rows; as a row it is.
    it.plan.clear();
    let (on_host, on_page) = (it.host(&[1], 3), it.device(&[2], 3));
    let whole = it.run(&mut world);
    assert_ne!(it.read(whole, on_host).unwrap(), it.read(whole, on_page).unwrap());
}

/// Digests of group 0 of a small world: four rows a block.
struct Fixture<S: Subject> {
    plan: DigestPlan,
    launcher: Launcher<S::Backend, DigestPlan>,
    digests: crate::world::Digests,
}

impl<S: Subject> Fixture<S> {
    fn of(world: &mut World) -> Self {
        let mut plan = DigestPlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
        let options = LauncherOptions { slots: 2, ..LauncherOptions::default() };
        let launcher = Launcher::bind(S::backend(7), &world.memory, &mut plan, options).unwrap();
        Self { plan, launcher, digests: world.groups[0].digests }
    }

    fn host(&mut self, blocks: &[u32], rows: u64) -> DigestNumber {
        self.digests.host(&mut self.plan, blocks, rows).unwrap()
    }

    fn device(&mut self, pages: &[u32], rows: u64) -> DigestNumber {
        self.digests.device(&mut self.plan, pages, rows).unwrap()
    }

    fn stage(&mut self, world: &World) -> Ticket {
        self.launcher.stage(&world.memory, &mut self.plan).unwrap()
    }

    fn run(&mut self, world: &mut World) -> Ticket {
        let ticket = self.stage(world);
        self.launcher.launch(&mut world.memory).unwrap();
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
    let mut it = Fixture::<S>::of(&mut world);
    let number = it.host(&[0, 2], 5);
    let first = it.stage(&world);
    assert_eq!(it.read(first, number), Err(LaunchError::DigestsPending { ticket: first }));
    it.launcher.launch(&mut world.memory).unwrap();
    let digest = it.read(first, number).unwrap();
    // Once is enough.
    it.launcher.launch(&mut world.memory).unwrap();
    assert_eq!(it.read(first, number), Ok(digest));

    let superseded = it.stage(&world);
    assert_eq!(it.read(first, number), Err(LaunchError::DigestsGone { ticket: first }));
    let last = it.run(&mut world);
    assert_eq!(it.read(superseded, number), Err(LaunchError::DigestsGone { ticket: superseded }));
    assert_eq!(it.read(last, number), Ok(digest));
    let mut other = Fixture::<S>::of(&mut world);
    let theirs = other.stage(&world);
    assert_eq!(it.read(theirs, number), Err(LaunchError::DigestsGone { ticket: theirs }));
    // A plan that cannot be staged leaves the results alone.
    let mut larger = DigestPlan::new(Arc::clone(&world.geometry), PlanCapacity::default()).unwrap();
    it.launcher.stage(&world.memory, &mut larger).unwrap_err();
    assert_eq!(it.read(last, number), Ok(digest));
}

/// A number says nothing of another plan, of what a plan was before, or of what was added later.
pub fn numbers_of_other_plans_are_refused<S: Subject>() {
    let mut world = World::small(&S::backend(5));
    let (mut it, mut other) = (Fixture::<S>::of(&mut world), Fixture::<S>::of(&mut world));
    let (old, theirs) = (it.host(&[0], 4), other.host(&[0], 4));
    it.plan.clear();
    let number = it.host(&[0], 4);
    let ticket = it.stage(&world);
    let later = it.host(&[1], 4);
    it.launcher.launch(&mut world.memory).unwrap();
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
        DigestPlan::new(Arc::clone(&world.geometry), capacity).unwrap()
    };
    let bind = |repeat| {
        let options = LauncherOptions { repeat, ..LauncherOptions::default() };
        Launcher::bind(S::backend(5), &world.memory, &mut plan(4, 64), options)
    };
    let error = bind(false).unwrap().stage(&world.memory, &mut plan(1024, 0)).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::TableTooSmall { .. })), "{error}");
    let error = bind(false).unwrap().stage(&world.memory, &mut plan(20, 0)).unwrap_err();
    assert!(matches!(error, Error::Launch(LaunchError::TooManyResults { needed: 20, room: 4 })), "{error}");
    assert!(matches!(bind(true), Err(Error::Launch(LaunchError::Repeated))));
}
