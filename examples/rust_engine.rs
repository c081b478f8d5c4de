//! A decode engine in small: it reserves blocks for a prompt, lets the prompt's cache land in the host pool, lifts the
//! last block into its only page, decodes with a mirror, and seals the page each time it is full.
//! `cargo run --example rust_engine`
use std::{error::Error, iter, ops::Range, sync::Arc};

use pagelift::backends::Cpu;
use pagelift::geometry::*;
use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan, Recurrence};
use pagelift::launcher::{Launcher, LauncherOptions, TicketState};
use pagelift::lifecycle::OpenPage;
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{MirrorPlan, PlanCapacity, RestorePlan, RowBinding, RowCapacity, TailRows};
use pagelift::quantity::{Rows, Tokens};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
const LAYERS: usize = 2;
const BLOCK_TOKENS: usize = 16;
const ROW_BYTES: usize = 64;
const ROWS: Rows = Rows::new(BLOCK_TOKENS as u32);
const PAGE: PageId = PageId::new(0);

/// The rows of some tokens: token, layer, and what any engine computes for them.
fn rows(tokens: Range<usize>) -> impl Iterator<Item = (usize, usize, [u8; ROW_BYTES])> {
    let all = tokens.flat_map(|token| iter::zip(iter::repeat(token), 0..LAYERS));
    all.map(|(token, layer)| (token, layer, std::array::from_fn(|i| (token * 31 + layer * 7 + i) as u8)))
}

/// Where a row lies in a pool: blocks outermost, then layers.
fn place(block: u32, layer: usize, token: usize) -> Range<usize> {
    let row = (block as usize * LAYERS + layer) * BLOCK_TOKENS + token % BLOCK_TOKENS;
    row * ROW_BYTES..(row + 1) * ROW_BYTES
}

struct Engine<'a> {
    memory: Registry,
    /// Host pool, the page, and the slot mapping of a step.
    regions: [RegionId; 3],
    group: GroupKey<Paged>,
    lift: (RestorePlan, Launcher<&'a Cpu, RestorePlan>),
    mirror: (MirrorPlan, Launcher<&'a Cpu, MirrorPlan>),
    free: Vec<HostBlockId>,
}

impl<'a> Engine<'a> {
    fn new(cpu: &'a Cpu, blocks: u32) -> Result<Self> {
        let layout = pagelift::layout::PagedLayout::builder(BLOCK_TOKENS as u32)
            .segment("kv", ROW_BYTES as u32)
            .build()?;
        let (page, block) = (layout.page_bytes().get(), LAYERS as u64 * layout.page_bytes().get());
        let mut memory = Registry::new();
        let mut builder = GeometryBuilder::new();
        let mut side = |name, place, count| -> Result<_> {
            let id = memory.allocate(cpu, place, u64::from(count) * block)?;
            let region = memory.region(id).ok_or("just allocated")?;
            let pool = builder.pool(PoolSpec::new(name, place, count, &[region]))?;
            Ok((id, Some(SideSpec::packed(pool, &[region.address()], &[0, page], block, layout.clone()))))
        };
        let ((host_id, host), (slab_id, device)) =
            (side("host", Memory::Host, blocks)?, side("slab", Memory::Device, 1)?);
        let (name, layers, landing, lift) = ("main".into(), LAYERS as u32, Landing::Host, PagedLift::Tail);
        let group = builder.group(GroupSpec::<Paged> { name, layers, landing, lift, host, device })?;
        let geometry = Arc::new(builder.build()?);
        let mut plan = RestorePlan::new(Arc::clone(&geometry), PlanCapacity::default())?;
        let lifts = Launcher::bind(cpu, &memory, &mut plan, LauncherOptions::default())?;
        let lift = (plan, lifts);
        let mut plan = MirrorPlan::new(geometry, RowCapacity::default())?;
        let slots = memory.allocate(cpu, Memory::Device, 8)?;
        plan.bind(group, RowBinding::new(memory.region(slots).ok_or("just allocated")?.address(), 1))?;
        // A staged mirror runs in every step, until the page map changes and it is staged again.
        let options = LauncherOptions { repeat: true, ..LauncherOptions::default() };
        let launcher = Launcher::bind(cpu, &memory, &mut plan, options)?;
        let (mirror, free) = ((plan, launcher), (0..blocks).map(HostBlockId::new).collect());
        Ok(Self { memory, regions: [host_id, slab_id, slots], group, lift, mirror, free })
    }

    fn bytes(&mut self, region: usize) -> Result<&mut [u8]> {
        Ok(self.memory.bytes_mut(self.regions[region]).ok_or("released")?)
    }

    /// Imports a prompt of `tokens` tokens and generates up to `end`; returns the host blocks of all of them.
    fn serve(&mut self, tokens: usize, end: usize) -> Result<Vec<HostBlockId>> {
        // Reserve blocks up to the one that is written next.
        let span = PromptSpan::new(Tokens::new(tokens as u64), Recurrence::None)?;
        let arrives = span.in_blocks_of(Tokens::new(BLOCK_TOKENS as u64))?;
        let (tail, count) = (arrives.tail_page() as usize, arrives.endpoints() as usize);
        let mut blocks = self.free.split_off(self.free.len().checked_sub(count).ok_or("no free blocks")?);
        // Land: another engine's rows arrive in the host pool.
        for (token, layer, row) in rows(0..tokens) {
            let place = place(blocks[token / BLOCK_TOKENS].get(), layer, token);
            self.bytes(0)?[place].copy_from_slice(&row);
        }
        // Lift the last block as it is, all layers in one launch.
        let (plan, launcher) = &mut self.lift;
        plan.clear();
        let groups = [ImportGroup::new(self.group, &blocks, &[PAGE])];
        plan.lift(&Import { span, groups: &groups }, TailRows::Whole)?;
        let ticket = launcher.stage(&self.memory, plan)?;
        launcher.launch(&mut self.memory)?;
        assert!(matches!(launcher.state(ticket), TicketState::Done(_)));
        for (token, layer, row) in rows(tail * BLOCK_TOKENS..tokens) {
            assert_eq!(self.bytes(1)?[place(0, layer, token)], row);
        }
        // Decode: the last imported token again, and then new ones.
        let imported = Rows::new(arrives.tail_tokens().get() as u32);
        let mut open = OpenPage::new(PAGE, blocks[tail], ROWS).with_imported(imported)?;
        let mut ticket = self.map(blocks[tail])?;
        for token in tokens - 1..end {
            if token / BLOCK_TOKENS >= blocks.len() {
                // Seal: every row is safe in the host block, so that the page may be used again.
                open.seal().map_err(|page| format!("{page:?} is not safe yet"))?;
                blocks.push(self.free.pop().ok_or("no free block")?);
                open = OpenPage::new(PAGE, blocks[token / BLOCK_TOKENS], ROWS);
                ticket = self.map(open.block())?;
            }
            // The forward writes rows to the page, and their slot to the slot mapping. Then they are mirrored.
            for (_, layer, row) in rows(token..token + 1) {
                self.bytes(1)?[place(0, layer, token)].copy_from_slice(&row);
            }
            self.bytes(2)?.copy_from_slice(&((token % BLOCK_TOKENS) as i64).to_le_bytes());
            self.mirror.1.launch(&mut self.memory)?;
            // On the CPU it has run by now. On a GPU the ticket is done since the step after it was staged: wait for the stream.
            let state = self.mirror.1.state(ticket);
            assert!(matches!(state, TicketState::Done(report) if (report.rows, report.bad) == (1, 0)));
            open.durable_up_to(Rows::new((token % BLOCK_TOKENS) as u32 + 1));
        }
        Ok(blocks)
    }

    /// From now on the page is mirrored to `block`.
    fn map(&mut self, block: HostBlockId) -> Result<pagelift::id::Ticket> {
        let (plan, launcher) = &mut self.mirror;
        plan.page_map_mut().unmap(self.group, PAGE)?;
        plan.page_map_mut().map(self.group, PAGE, block)?;
        Ok(launcher.stage(&self.memory, plan)?)
    }
}

/// Serves three prompts, and compares every row of them in the host pool.
pub fn main() -> Result<()> {
    let cpu = Cpu::new()?;
    let mut engine = Engine::new(&cpu, 16)?;
    for (tokens, end) in [(35, 80), (16, 20), (1, 40)] {
        let blocks = engine.serve(tokens, end)?;
        for (token, layer, row) in rows(0..end) {
            assert_eq!(engine.bytes(0)?[place(blocks[token / BLOCK_TOKENS].get(), layer, token)], row);
        }
        println!("{tokens} tokens imported, {} generated, all rows in {} blocks", end - tokens, blocks.len());
    }
    Ok(())
}
