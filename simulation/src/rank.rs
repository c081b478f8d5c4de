//! One rank: the runner, with memory, forwards and reads around it.

use pagelift::Error;
use pagelift::backends::{Backend, HostPool, SharedMemory};
use pagelift::geometry::Memory;
use pagelift::id::PageId;
use pagelift::lifecycle::{Event, Order, Rank as Number, Read, RequestId, StepOptions, StepPlans};
use pagelift::memory::{RegionId, Registry};
use pagelift::plan::{PlanCapacity, RowBinding, RowCapacity, TailRows};
use pagelift::quantity::{Bytes, Tokens};
use pagelift::runner::{Runner, RunnerOptions};

use crate::faulty::Faulty;
use crate::message::{Command, Compute, Fault, Landing, Place, Reply};
use crate::shape::{GROUPS, STATE_BYTES, Shape};

/// Tokens of a request in one step, at most.
pub const MOST_TOKENS: u32 = 4;

/// What a read leaves in the slots after a prompt's last token.
const HOLE: u8 = 0xEE;

/// A step's launches, all in one: a graph of the backend's, whose replay fails where it is told to.
pub type Replay<B> = Box<dyn FnMut(&mut Runner<Faulty<B>>, &mut Registry, bool) -> Result<(), Error>>;

/// A rank of the engine.
pub struct Rank<B: Backend> {
    /// What carries out steps, where they are not launched. It goes first.
    replay: Option<Replay<B>>,
    shape: Shape,
    number: u8,
    backend: Faulty<B>,
    memory: Registry,
    host: RegionId,
    slab: RegionId,
    /// The count of a step's tokens, and then each group's slot mapping.
    arrays: RegionId,
    runner: Runner<Faulty<B>>,
    slots: Vec<Vec<i64>>,
    compared: u64,
}

impl<B: Backend + Clone> Rank<B> {
    /// A rank with nothing in its pages, that has the engine's host pool.
    ///
    /// # Errors
    /// Where there is no memory.
    #[allow(unsafe_code, reason = "the pool is shared with other ranks")]
    pub fn new(shape: Shape, number: u8, backend: B, pool: &SharedMemory) -> Result<Self, Error> {
        let backend = Faulty::new(backend);
        let mut memory = Registry::new();
        // SAFETY: (1) the lifecycle orders who touches which block when, and bytes are copied and never lent; (2) the pool is
        // a memfd whose size is sealed.
        let pool = unsafe { HostPool::share(&backend, &shape.host_pool(), pool, |_| ()) }?;
        let spec = pool.spec("host");
        let host = memory.adopt_pool(pool)?;
        let slab = memory.allocate(&backend, Memory::Device, shape.slab_bytes())?;
        let capacity = shape.options.requests * MOST_TOKENS;
        let bytes = 8 * (1 + GROUPS.len() as u64 * u64::from(capacity));
        let arrays = memory.allocate(&backend, Memory::Device, bytes)?;
        let missing = || pagelift::error::MemoryError::Released;
        let region = memory.region(slab).ok_or_else(missing)?;
        let (geometry, keys, frames) = shape.geometry(number, spec, region)?;
        let pages = shape.options.pages * GROUPS.len() as u32;
        let options = StepOptions {
            pages: PlanCapacity { jobs: 64, list_entries: 256 },
            rows: RowCapacity { jobs: GROUPS.len() as u32, changes: pages },
            mode: if shape.reversed { TailRows::Exact } else { TailRows::Whole },
        };
        let mut plans = StepPlans::new(Number::new(number), geometry, frames, shape.options, options)?;
        let at = memory.region(arrays).ok_or_else(missing)?.address();
        for (group, key) in (0..).zip(&keys.paged) {
            let slots = at + 8 * (1 + group * u64::from(capacity));
            let binding = RowBinding { count: Some(at), ..RowBinding::new(slots, capacity) };
            plans.mirror_plan().bind(*key, binding)?;
        }
        let runner = Runner::bind(backend.clone(), &memory, plans, RunnerOptions::default())?;
        let (host, slots) = (host[0], vec![Vec::new(); GROUPS.len()]);
        let replay = None;
        Ok(Self { shape, number, backend, memory, host, slab, arrays, runner, slots, compared: 0, replay })
    }

    /// Carries out steps by a graph from now on: `record` makes it. What belongs before a forward then comes after it, which
    /// is all the same without states.
    ///
    /// # Errors
    /// Those of `record`.
    pub fn replay_by(
        &mut self,
        record: impl FnOnce(&mut Runner<Faulty<B>>, &mut Registry) -> Result<Replay<B>, Error>,
    ) -> Result<(), Error> {
        self.replay = Some(record(&mut self.runner, &mut self.memory)?);
        Ok(())
    }

    /// Does what a command says.
    pub fn obey(&mut self, command: &Command) -> Reply {
        let mut events = Vec::new();
        self.compared = 0;
        let done = match command {
            Command::Step { orders, computes, lift_bytes, fault } => {
                self.step(orders, computes, Bytes::new(*lift_bytes), *fault)
            }
            Command::Read { request, part, landings, fails } => {
                self.read(landings, fails.is_some()).map(|()| {
                    events.push(self.ended(*request, *part, *fails));
                })
            }
        };
        // Whoever has nothing else to do waits for what is in flight.
        let waits = matches!(command, Command::Step { orders, computes, .. } if orders.is_empty() && computes.is_empty());
        let waited = if waits { self.runner.wait().map_err(|error| error.to_string()) } else { Ok(()) };
        self.runner.poll(|event| events.push(event));
        let wrong = done.and(waited).err().map(|wrong| format!("rank {}: {wrong}", self.number));
        Reply { events, idle: self.runner.is_idle(), wrong, compared: self.compared }
    }

    fn ended(&self, request: RequestId, part: u8, fails: Option<u64>) -> Event<'static> {
        let read = match fails {
            None => Read::Landed,
            Some(valid) => Read::Failed { valid: Tokens::new(valid) },
        };
        Event::Read { request, rank: Number::new(self.number), part, read }
    }

    /// A read writes its blocks; one that fails stops somewhere.
    fn read(&mut self, landings: &[Landing], fails: bool) -> Result<(), String> {
        let all = landings.len();
        for landing in landings.iter().take(if fails { all / 2 } else { all }) {
            self.land(landing).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn land(&mut self, landing: &Landing) -> Result<(), Error> {
        let (shape, number) = (self.shape, self.number);
        let mut bytes = vec![HOLE; shape.block_bytes() as usize];
        for group in (0..GROUPS.len()).filter(|_| landing.rows) {
            for token in landing.first..landing.end {
                shape.fill_row(group, shape.shard(number), token, landing.origin, &mut bytes);
            }
            let (region, block) = match landing.to {
                Place::Host(block) => (self.host, shape.host_block(group, number, block.get())),
                Place::Device(page) => (self.slab, shape.page(group, page.get())),
            };
            self.memory.write(region, u64::from(block) * shape.block_bytes(), &bytes)?;
        }
        if let Some((to, origin)) = landing.state {
            let (region, block) = match to {
                Place::Host(block) => (self.host, shape.state_block(number, block.get())),
                Place::Device(slot) => (self.slab, shape.state_page(slot.get())),
            };
            let state = Shape::state(number, origin);
            self.memory.write(region, u64::from(block) * shape.block_bytes(), &state)?;
        }
        Ok(())
    }

    /// A step: what was ordered, a forward, its mirror.
    fn step(
        &mut self,
        orders: &[Order],
        computes: &[Compute],
        lift_bytes: Bytes,
        fault: Fault,
    ) -> Result<(), String> {
        let words = |error: Error| error.to_string();
        for order in orders {
            self.runner.hear(order.clone()).map_err(words)?;
        }
        self.backend.set(fault);
        let staged = match self.runner.stage(&self.memory, lift_bytes) {
            // Plans that nobody has launched are in all slots.
            Err(error) if error.is_transient() => {
                self.backend.set(Fault::None);
                match &mut self.replay {
                    Some(replay) => replay(&mut self.runner, &mut self.memory, false).map_err(words)?,
                    None => self.launch(true, true)?,
                }
                self.runner.stage(&self.memory, lift_bytes)
            }
            staged => staged,
        };
        let staged = staged.map_err(words)?;
        if let Some(error) = staged.failed.filter(|_| !matches!(fault, Fault::Maps | Fault::Uploads)) {
            return Err(format!("could not be staged: {error}"));
        }
        let fails = matches!(fault, Fault::Pages | Fault::Rows);
        if self.replay.is_some() {
            self.forward(computes)?;
            self.backend.set(Fault::None);
            let Self { replay, runner, memory, .. } = self;
            let fails = fails || matches!(fault, Fault::NothingBefore | Fault::NoMirror);
            let replayed = replay.as_mut().map_or(Ok(()), |replay| replay(runner, memory, fails));
            return if fails { Ok(()) } else { replayed.map_err(words) };
        }
        if fault != Fault::NothingBefore {
            self.launch(true, false).or_else(|error| if fails { Ok(()) } else { Err(error) })?;
        }
        self.forward(computes)?;
        if fault != Fault::NoMirror {
            self.launch(false, true).or_else(|error| if fails { Ok(()) } else { Err(error) })?;
        }
        self.backend.set(Fault::None);
        Ok(())
    }

    fn launch(&mut self, before: bool, after: bool) -> Result<(), String> {
        let Self { runner, memory, .. } = self;
        let before = if before { runner.before_forward(memory) } else { Ok(()) };
        let after = if after { runner.after_forward(memory) } else { Ok(()) };
        before.and(after).map_err(|error| error.to_string())
    }

    /// What an engine's forward does: it reads all rows that came before, and writes its own, and says where to.
    fn forward(&mut self, computes: &[Compute]) -> Result<(), String> {
        self.slots.iter_mut().for_each(Vec::clear);
        for compute in computes {
            self.find(compute)?;
            self.compute(compute).map_err(|error| error.to_string())?;
        }
        if computes.is_empty() {
            return Ok(());
        }
        let capacity = u64::from(self.shape.options.requests * MOST_TOKENS);
        let count = self.slots[0].len() as u64;
        let mut write = |at, bytes: &[u8]| self.memory.write(self.arrays, at, bytes);
        let mut written = write(0, &count.to_le_bytes());
        for (group, slots) in (0..).zip(&self.slots) {
            let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
            written = written.and(write(8 * (1 + group * capacity), &bytes));
        }
        written.map_err(|error| error.to_string())
    }

    /// Compares what a step reads.
    fn find(&mut self, compute: &Compute) -> Result<(), String> {
        let Compute { request, from, pages, state, .. } = compute;
        for (position, page, rows) in pages {
            for group in 0..GROUPS.len() {
                let bytes = self.page(group, *page).map_err(|error| error.to_string())?;
                for (token, origin) in (u64::from(*position) * self.shape.block_tokens()..).zip(rows) {
                    let shard = self.shape.shard(self.number);
                    if !self.shape.has_row(group, shard, token, *origin, &bytes) {
                        let group = group.to_string();
                        return Err(format!(
                            "{request}, before token {from}: {page} of group {group} does not hold the row of token {token}, \
                             by {origin:?}"
                        ));
                    }
                    self.compared += 1;
                }
            }
        }
        if let Some(origin) = state {
            let mut bytes = [0; STATE_BYTES];
            let at = u64::from(self.shape.state_page(request.slot())) * self.shape.block_bytes();
            self.memory.read(self.slab, at, &mut bytes).map_err(|error| error.to_string())?;
            if bytes != Shape::state(self.number, *origin) {
                return Err(format!("{request}: its state before token {from} is not that of {origin:?}"));
            }
            self.compared += 1;
        }
        Ok(())
    }

    /// Writes rows and slots of a step.
    fn compute(&mut self, compute: &Compute) -> Result<(), Error> {
        let (shape, number) = (self.shape, self.number);
        for token in compute.from..compute.to {
            let position = token / shape.block_tokens();
            let held = compute.pages.iter().find(|(own, ..)| u64::from(*own) == position);
            for group in 0..GROUPS.len() {
                let Some((_, page, _)) = held else {
                    self.slots[group].push(-1);
                    continue;
                };
                let mut bytes = self.page(group, *page)?;
                shape.fill_row(group, shape.shard(number), token, compute.origin, &mut bytes);
                let page = u64::from(shape.page(group, page.get()));
                self.memory.write(self.slab, page * shape.block_bytes(), &bytes)?;
                let slot = page * shape.block_tokens() + token % shape.block_tokens();
                self.slots[group].push(slot as i64);
            }
        }
        if shape.has_states() {
            let at = u64::from(shape.state_page(compute.request.slot())) * shape.block_bytes();
            self.memory.write(self.slab, at, &Shape::state(number, compute.origin))?;
        }
        Ok(())
    }

    fn page(&self, group: usize, page: PageId) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.shape.block_bytes() as usize];
        let at = u64::from(self.shape.page(group, page.get())) * self.shape.block_bytes();
        self.memory.read(self.slab, at, &mut bytes)?;
        Ok(bytes)
    }
}
