//! Random imports into a random world, and what lifting them moves, row by row.

use pagelift_planner::geometry::Lift;
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{ImportGroup, PromptSpan, Recurrence};
use pagelift_planner::plan::TailRows;
use pagelift_planner::quantity::Tokens;

use super::decode::Move;
use super::random::{GroupModel, Rng, World};
use super::{hosts, pages};

pub const MODES: [TailRows; 3] = [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed];

/// One group's lists.
struct Lists {
    group: usize,
    blocks: Vec<HostBlockId>,
    pages: Vec<PageId>,
}

/// An import whose blocks and pages nobody else has.
pub struct RandomImport {
    pub span: PromptSpan,
    lists: Vec<Lists>,
}

/// A prompt of up to `tokens` tokens.
fn random_span(rng: &mut Rng, tokens: u64) -> PromptSpan {
    let prompt = Tokens::new(1 + rng.below(tokens));
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

/// The first page that a tail has, and the writable one.
fn tail_pages(group: &GroupModel, span: PromptSpan) -> (u64, u64) {
    let (block, page) = (group.slots(&group.host), group.slots(&group.device));
    let block_begins = span.resume_at().get() / block * block;
    (block_begins / page, span.resume_at().get() / page)
}

impl RandomImport {
    /// Lists with ids that are free; `None` where there are too few left.
    pub fn new(
        rng: &mut Rng,
        world: &World,
        free_blocks: &mut Vec<u32>,
        free_pages: &mut Vec<u32>,
    ) -> Option<Self> {
        let span = random_span(rng, 60);
        let mut lists = Vec::new();
        for group in rng.order(world.groups.len() as u32) {
            let model = &world.groups[group as usize];
            let blocks = (span.resume_at().get() / model.slots(&model.host) + 1) as usize;
            let (first, writable) = tail_pages(model, span);
            let (blocks, pages) = match model.lift {
                Lift::Tail => (blocks, (writable + 1 - first) as usize),
                Lift::All => (blocks, (writable + 1) as usize),
                Lift::State => (1, 1),
                Lift::None if rng.below(2) == 0 => continue,
                Lift::None => (rng.below(3) as usize, rng.below(3) as usize),
            };
            let take =
                |free: &mut Vec<u32>, count: usize| Some(free.split_off(free.len().checked_sub(count)?));
            let blocks = hosts(&take(free_blocks, blocks)?);
            let pages = self::pages(&take(free_pages, pages)?);
            lists.push(Lists { group: group as usize, blocks, pages });
        }
        Some(Self { span, lists })
    }

    pub fn groups<'a>(&'a self, world: &World) -> Vec<ImportGroup<'a>> {
        self.lists
            .iter()
            .map(|lists| world.groups[lists.group].key.lists(&lists.blocks, &lists.pages))
            .collect()
    }

    /// The most bytes that one step copies.
    pub fn largest_step(&self, world: &World) -> u64 {
        let step = |lists: &Lists| {
            let group = &world.groups[lists.group];
            group.all_row_bytes() * u64::from(group.host.rows.min(group.device.rows))
        };
        self.lists.iter().map(step).max().unwrap_or(0)
    }

    /// What lifting it must move.
    pub fn model(&self, world: &World, mode: TailRows, moves: &mut Vec<Move>) {
        for lists in &self.lists {
            let group = &world.groups[lists.group];
            match group.lift {
                Lift::None => {}
                Lift::State => {
                    for row in 0..group.host.rows {
                        let from = (&group.host, lists.blocks[0].get(), row);
                        group.copy_row(Some(from), (&group.device, lists.pages[0].get(), row), moves);
                    }
                }
                Lift::Tail | Lift::All => self.model_paged(group, lists, mode, moves),
            }
        }
    }

    /// Row by row: where the row of a page comes from, if it comes from anywhere.
    fn model_paged(&self, group: &GroupModel, lists: &Lists, mode: TailRows, moves: &mut Vec<Move>) {
        let imported = self.span.imported().get();
        let whole_blocks = imported.div_ceil(group.slots(&group.host)) * u64::from(group.host.rows);
        let complete = imported / u64::from(group.tokens_per_row);
        let first = if group.lift == Lift::Tail { tail_pages(group, self.span).0 } else { 0 };
        for (page, number) in lists.pages.iter().zip(first..) {
            for row in 0..group.device.rows {
                let at = number * u64::from(group.device.rows) + u64::from(row);
                let to = (&group.device, page.get(), row);
                let end = if mode == TailRows::Whole { whole_blocks } else { complete };
                if at < end {
                    let block = lists.blocks[(at / u64::from(group.host.rows)) as usize];
                    let from = (&group.host, block.get(), (at % u64::from(group.host.rows)) as u32);
                    group.copy_row(Some(from), to, moves);
                } else if mode == TailRows::ExactZeroed {
                    group.copy_row(None, to, moves);
                }
            }
        }
    }
}
