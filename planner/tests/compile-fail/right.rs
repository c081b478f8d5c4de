//! What the other files do wrong, done right: so that none of them fails for another reason.
#![deny(unused_must_use)]
#![allow(dead_code)]

use pagelift_planner::geometry::{
    CompactRouteKey, DigestKey, GeometryBuilder, GroupKey, GroupSpec, Paged, PagedLift, RouteKey, SideKey, State, StateLift,
};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Import, ImportGroup, PromptSpan};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::lifecycle::{OpenPage, SealedPage};
use pagelift_planner::plan::{
    DeviceToDevice, DigestPlan, HostToDevice, MirrorPlan, RestorePlan, RowBinding, RowPlan, TailRows, WriteBackPlan,
};
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

fn routes(builder: &mut GeometryBuilder, from: SideKey<Paged>, to: SideKey<Paged>) {
    let _: Option<RouteKey<HostToDevice, Paged>> = builder.route(from, to).ok();
    let _ = builder.compact_route::<DeviceToDevice, _>(from, to);
    let _ = builder.digest(from);
}

fn gather(plan: &mut RestorePlan, down: RouteKey<HostToDevice, Paged>, blocks: &[HostBlockId], pages: &[PageId]) {
    let _ = plan.gather(down, blocks, pages);
    let _ = plan.zero(down, PageId::new(0), Rows::new(0), Rows::new(1));
}

fn gather_states(plan: &mut RestorePlan, down: RouteKey<HostToDevice, State>) {
    let _ = plan.gather(down, &[HostBlockId::new(0)], &[PageId::new(0)]);
}

fn spill(plan: &mut WriteBackPlan, main: GroupKey<Paged>, pages: &[PageId], blocks: &[HostBlockId]) {
    let _ = plan.spill(main, pages, blocks);
}

fn gather_rows(plan: &mut RowPlan<DeviceToDevice>, compact: CompactRouteKey<DeviceToDevice, Paged>) {
    let _ = plan.gather_rows(compact, RowBinding::new(8, 1));
}

fn digest(plan: &mut DigestPlan, side: DigestKey<Paged>, blocks: &[HostBlockId], pages: &[PageId]) {
    let _ = plan.host(side, blocks, 1);
    let _ = plan.device(side, pages, 1);
}

fn main() {}
