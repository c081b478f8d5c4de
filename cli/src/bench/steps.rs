//! What a step costs the host: planning, staging and replaying, by the number of jobs.

use std::rc::Rc;
use std::sync::Arc;

use pagelift::geometry::{GroupSpec, Landing, Memory, Paged, PagedLift};
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::layout::PagedLayout;
use pagelift::lifecycle::Reservations;
use pagelift::plan::{PlanCapacity, RestorePlan, TailRows};
use pagelift::quantity::Tokens;

use super::BenchError;
use super::bed::{Order, Pages};
use super::draft::{Asked, Draft, Rows, rows};
use super::measure::{Way, Work};
use super::rig::Rig;

/// Groups of each import.
const GROUPS: u32 = 3;
/// Rows of a page.
const ROWS: u32 = 16;

/// Imports of the steps of which each is measured.
pub const FEW: u32 = 64;
pub const MORE: u32 = 334;
pub const MANY: u32 = 1000;
pub const MOST: u32 = 3334;

/// Steps of one size, one after the other, as an engine takes them.
pub fn alike<'r, B: Rig, const IMPORTS: u32>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    steps(rig, asked, &[IMPORTS])
}

/// Steps of all sizes in turns: what the host needs for one, the large ones have put out of its caches.
pub fn in_turns<'r, B: Rig>(rig: &'r B, asked: &Asked) -> Result<Work<'r>, BenchError> {
    steps(rig, asked, &[FEW, MORE, MANY, MOST])
}

/// Steps of reserved imports of three groups. Layers cost the host nothing: there is one.
fn steps<'r, B: Rig>(rig: &'r B, asked: &Asked, counts: &[u32]) -> Result<Work<'r>, BenchError> {
    let mut draft = Draft::new(rig, asked);
    let counts = counts.iter().map(|imports| asked.count(*imports)).collect::<Vec<_>>();
    let most = counts.iter().copied().max().unwrap_or(1);
    let layout = PagedLayout::builder(ROWS).segment("rows", 64).build()?;
    let (mut keys, mut lists, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    for group in 0..GROUPS {
        let mut pool = |side, place| {
            let stride = layout.page_bytes().get();
            let pages = Pages { place, layers: 1, blocks: most, stride, order: Order::Layers };
            draft.pool(&format!("group {group} {side}"), pages)
        };
        let [host, device] = [pool("blocks", Memory::Host)?, pool("pages", Memory::Device)?];
        keys.push(draft.bed.builder.group(GroupSpec::<Paged> {
            name: format!("group {group}").into(),
            layers: 1,
            landing: Landing::Host,
            lift: PagedLift::Tail,
            host: Some(host.side(layout.clone())),
            device: Some(device.side(layout.clone())),
        })?);
        let [blocks, pages] = [(); 2].map(|()| draft.bed.choose(most, most));
        for (block, page) in blocks.iter().zip(&pages) {
            let end = |pool, block: &u32| Rows { pool, layout: &layout, block: *block, row: 0 };
            moves.extend(rows(1, end(&host, block), end(&device, page), ROWS));
        }
        let ends = blocks.into_iter().zip(pages);
        lists
            .push(ends.map(|(block, page)| (HostBlockId::new(block), PageId::new(page))).collect::<Vec<_>>());
    }
    draft.bed.fill(&moves)?;
    let geometry = draft.geometry()?;
    let each = PlanCapacity { jobs: 2 * GROUPS, list_entries: GROUPS };
    let mut reservations = Reservations::new(Arc::clone(&geometry), most, each)?;
    let span = PromptSpan::new(Tokens::new(ROWS.into()), Recurrence::None)?;
    let mut imports = Vec::new();
    for number in 0..most as usize {
        let ends = lists.iter().filter_map(|list| list.get(number));
        let mut groups = Vec::new();
        for (key, (block, page)) in keys.iter().zip(ends) {
            groups.push(ImportGroup::new(*key, std::slice::from_ref(block), std::slice::from_ref(page)));
        }
        imports.push(reservations.reserve(&Import { span, groups: &groups }, TailRows::Whole)?);
    }
    let (reservations, imports) = (Rc::new(reservations), Rc::new(imports));
    let mut ways = vec![Way::beside("empty kernel", rig.empty()?)];
    for count in counts {
        let capacity = PlanCapacity { jobs: count * GROUPS, list_entries: 0 };
        let mut plan = RestorePlan::new(Arc::clone(&geometry), capacity)?;
        let launcher = Launcher::bind(rig, &draft.bed.memory, &mut plan, LauncherOptions::default())?;
        let (reservations, imports) = (Rc::clone(&reservations), Rc::clone(&imports));
        let fill = move |plan: &mut RestorePlan| {
            plan.clear();
            for import in imports.iter().take(count as usize) {
                plan.lift_reserved(&reservations, *import)?;
            }
            Ok(())
        };
        let run = rig.steps(launcher, &mut draft.bed.memory, plan, fill)?;
        // The largest step writes all that the work says, the others a part of it.
        let verified = count == most;
        ways.push(Way { jobs: Some(count * GROUPS), verified, ..Way::new("plan, stage, replay", run) });
    }
    Ok(Work { bed: draft.bed, ways, bytes: 0, fragments: 0 })
}
