//! The restore law: one launch lifts every row that it should, of all layers and segments of many imports, and
//! nothing else changes.

use std::num::NonZeroU32;
use std::sync::Arc;

use pagelift::geometry::Lift;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{Plan as _, PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::{Bytes, Tokens};

use crate::backends::Subject;
use crate::image::Image;
use crate::rng::Rng;
use crate::world::{GroupModel, World};

pub const ROOM: PlanCapacity = PlanCapacity { jobs: 32, list_entries: 64 };

/// One group's lists.
pub struct Lists {
    pub group: usize,
    pub blocks: Vec<u32>,
    pub pages: Vec<u32>,
}

/// A prompt and what came of it.
pub struct Prompt {
    pub span: PromptSpan,
    pub lists: Vec<Lists>,
    pub mode: TailRows,
}

/// Options that vary what should make no difference.
pub fn options(rng: &mut Rng) -> LauncherOptions {
    let workers = rng.pick(&[None, NonZeroU32::new(1), NonZeroU32::new(3)]);
    LauncherOptions { slots: 1 + rng.small(4), workers, repeat: rng.once_in(3) }
}

impl Prompt {
    /// Tokens `0..tokens` of an attention-only model, whose only lifted group is group 0.
    pub fn simple(tokens: u64, blocks: &[u32], page: u32, mode: TailRows) -> Self {
        let span = PromptSpan::new(Tokens::new(tokens), Recurrence::None).unwrap();
        Self { span, lists: vec![Lists { group: 0, blocks: blocks.into(), pages: vec![page] }], mode }
    }

    pub fn random(rng: &mut Rng, world: &World, free: &mut Vec<Vec<u32>>) -> Option<Self> {
        for most in [64, 32, 16, 8, 4, 2, 1] {
            let mut left = free.clone();
            let span = random_span(rng, most);
            if let Some(lists) = random_lists(rng, world, span, &mut left) {
                *free = left;
                let mode = rng.pick(&[TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed]);
                return Some(Self { span, lists, mode });
            }
        }
        None
    }

    /// Adds it to a plan.
    pub fn lift(&self, world: &World, plan: &mut RestorePlan) {
        let ids: Vec<(Vec<HostBlockId>, Vec<PageId>)> = self
            .lists
            .iter()
            .map(|lists| {
                let blocks = lists.blocks.iter().map(|&block| HostBlockId::new(block)).collect();
                (blocks, lists.pages.iter().map(|&page| PageId::new(page)).collect())
            })
            .collect();
        let groups: Vec<ImportGroup<'_>> = self
            .lists
            .iter()
            .zip(&ids)
            .map(|(lists, (blocks, pages))| world.groups[lists.group].key.lists(blocks, pages))
            .collect();
        plan.lift(&Import { span: self.span, groups: &groups }, self.mode).unwrap();
    }

    /// What it should do, row by row; returns the bytes copied.
    pub fn expect(&self, world: &World, image: &mut Image) -> u64 {
        let group = |lists: &Lists| expect_group(self, &world.groups[lists.group], lists, image);
        self.lists.iter().map(group).sum()
    }
}

fn expect_group(prompt: &Prompt, group: &GroupModel, lists: &Lists, image: &mut Image) -> u64 {
    let mut bytes = 0;
    let mut copy = |image: &mut Image, block: u32, page: u32, rows: u32| {
        for row in 0..rows {
            bytes += group.copy_row(image, false, block, page, row);
        }
    };
    match group.lift {
        Lift::None => {}
        Lift::State => copy(image, lists.blocks[0], lists.pages[0], group.rows),
        Lift::Tail | Lift::All => {
            let tail = prompt.span.resume_at().get() / u64::from(group.slots());
            let tokens = prompt.span.imported().get() - tail * u64::from(group.slots());
            let complete = (tokens / u64::from(group.tokens_per_row)) as u32;
            if group.lift == Lift::All {
                for index in 0..tail as usize {
                    copy(image, lists.blocks[index], lists.pages[index], group.rows);
                }
            }
            let (block, page) = (lists.blocks[tail as usize], *lists.pages.last().unwrap());
            match prompt.mode {
                TailRows::Whole if tokens > 0 => copy(image, block, page, group.rows),
                TailRows::Whole => {}
                TailRows::Exact => copy(image, block, page, complete),
                TailRows::ExactZeroed => {
                    copy(image, block, page, complete);
                    (complete..group.rows).for_each(|row| group.zero_row(image, page, row));
                }
            }
        }
    }
    bytes
}

fn random_span(rng: &mut Rng, most: u64) -> PromptSpan {
    let prompt = Tokens::new(1 + rng.below(most));
    match rng.below(3) {
        0 => PromptSpan::new(prompt, Recurrence::None).unwrap(),
        1 => PromptSpan::new(prompt, Recurrence::State).unwrap(),
        _ => {
            let resume = rng.below(prompt.get());
            let imported = resume + rng.below(2);
            PromptSpan::explicit(prompt, Tokens::new(imported), Tokens::new(resume)).unwrap()
        }
    }
}

/// Lists of ids that are still free; `None` where too few are.
fn random_lists(rng: &mut Rng, world: &World, span: PromptSpan, free: &mut [Vec<u32>]) -> Option<Vec<Lists>> {
    let mut all = Vec::new();
    for group in rng.order(world.groups.len() as u32) {
        let group = group as usize;
        let model = &world.groups[group];
        let endpoints = (span.resume_at().get() / u64::from(model.slots()) + 1) as usize;
        let (blocks, pages) = match model.lift {
            Lift::Tail => (endpoints, 1),
            Lift::All => (endpoints, endpoints),
            Lift::State => (1, 1),
            Lift::None if rng.once_in(2) => continue,
            Lift::None => (rng.below(2) as usize, rng.below(2) as usize),
        };
        let mut take = |pool: pagelift::id::PoolId, count: usize| {
            let free = &mut free[pool.get() as usize];
            Some(free.split_off(free.len().checked_sub(count)?))
        };
        let (blocks, pages) = (take(model.host.pool, blocks)?, take(model.device.pool, pages)?);
        all.push(Lists { group, blocks, pages });
    }
    Some(all)
}

pub fn law<S: Subject>(seed: u64, size: u32) {
    let mut rng = Rng(seed);
    let backend = S::backend(rng.next());
    let mut world = World::random(&mut rng, size, &backend);
    let mut plan = RestorePlan::new(Arc::clone(&world.geometry), ROOM).unwrap();
    let options = options(&mut rng);
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, options).unwrap();
    // The same launcher takes plan after plan.
    let (mut jobs, mut copied) = (0, 0);
    for step in 1..=3 {
        plan.clear();
        let before = world.image();
        let mut expected = world.image();
        let mut free = world.free_ids(&mut rng);
        let mut bytes = 0;
        for _ in 0..rng.below(4) {
            let Some(prompt) = Prompt::random(&mut rng, &world, &mut free) else { break };
            prompt.lift(&world, &mut plan);
            bytes += prompt.expect(&world, &mut expected);
        }
        assert_eq!(plan.bytes(), Some(Bytes::new(bytes)));
        jobs += plan.jobs() as u64;
        copied += bytes;

        let ticket = launcher.stage(&world.memory, &mut plan).unwrap();
        assert_eq!(launcher.state(ticket), TicketState::Pending);
        world.assert_is(&before);
        launcher.launch(&mut world.memory).unwrap();
        assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
        world.assert_is(&expected);

        let counters = launcher.counters();
        assert_eq!((counters.staged, counters.launches, counters.done), (step, step, step));
        assert_eq!((counters.jobs, counters.bytes), (jobs, Some(copied)));
        assert_eq!((counters.superseded, counters.rows, counters.skipped, counters.bad), (0, None, None, 0));
        world.fill(&mut rng);
    }
}
