//! What the other files do wrong, done right: so that none of them fails for another reason.
#![deny(unused_must_use)]
#![allow(dead_code)]

use pagelift_planner::geometry::{GroupKey, GroupSpec, Paged, PagedLift, State, StateLift};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::lifecycle::{OpenPage, SealedPage};
use pagelift_planner::plan::{WriteBackPlan, MirrorPlan, RestorePlan, RowBinding, TailRows};
use pagelift_planner::quantity::Rows;

fn ids<'a>(main: GroupKey<Paged>, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> ImportGroup<'a> {
    ImportGroup::new(main, blocks, pages)
}

fn rows(layout: &PagedLayout) -> Rows {
    layout.rows_per_block()
}

fn span(span: PromptSpan, layout: &PagedLayout) {
    let _ = span.in_blocks_of(layout.block_tokens());
}

fn groups(mut paged: GroupSpec<Paged>, mut state: GroupSpec<State>) {
    paged.lift = PagedLift::Tail;
    state.lift = StateLift::State;
}

fn checkpoint(plan: &mut WriteBackPlan, state: GroupKey<State>) {
    let _ = plan.checkpoint(state, PageId::new(0), HostBlockId::new(0));
}

fn mirror(plan: &mut MirrorPlan, main: GroupKey<Paged>) {
    let _ = plan.bind(main, RowBinding::new(8, 1));
    let _ = plan.page_map_mut().map(main, PageId::new(0), HostBlockId::new(0));
}

fn launch_restore(_: &RestorePlan) {}

fn restore(plan: &mut RestorePlan, import: &Import<'_>) {
    let _ = plan.lift(import, TailRows::Whole);
    launch_restore(plan);
}

fn seal(page: OpenPage) -> Option<SealedPage> {
    page.seal().ok()
}

fn main() {}
