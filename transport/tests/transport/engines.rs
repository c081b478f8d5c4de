//! Both engines beside a hand-off: P computes a prompt's rows and gives its blocks to others when they are free; D goes by a
//! lifecycle, and compares every row before anybody may see it.
//!
//! Rows follow from the prompt, so that each side works them out by itself. A block that P frees is another request's at once, and
//! a block that D frees is poisoned, and must still be so when it is taken again.

use std::collections::{BTreeMap, BTreeSet};

use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::lifecycle::{
    Admission, Answer as Lifted, ContentHash, Effect, Event, FrameLimits, Lifecycle, LifecycleOptions,
    Outcome, Rank, Ranks, RequestId,
};
use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::{ConsumerEvent, Wanted, posted};
use pagelift_transport::lease::RankEnd;
use pagelift_transport::notice::ExportId;
use pagelift_transport::plan::{BlockTable, BlockTables};
use pagelift_transport::producer::{Answer, Ask, Exporter, Freed};
use pagelift_transport::wanted::{RING, state_position};

use crate::world::{BLOCK, BLOCKS, GroupMeaning, Meaning, Placed};

/// An engine's bytes, counted from [`crate::world::BASE`] on.
pub trait Bytes {
    fn read(&self, address: u64, bytes: usize) -> Vec<u8>;
    fn write(&self, address: u64, from: &[u8]);
}

/// Prompts that requests are of: few, so that D finds some again.
pub const PROMPTS: u64 = 24;

/// The prompt of a request.
pub const fn prompt_of(request: u64) -> u64 {
    request % PROMPTS
}

/// Tokens of a prompt: two or three blocks.
pub const fn tokens_of(prompt: u64) -> u32 {
    BLOCK + 1 + (prompt * 7 % (2 * BLOCK as u64 - 1)) as u32
}

/// Tokens of it that are imported: a model with states computes the last one.
const fn imported_of(prompt: u64) -> u32 {
    tokens_of(prompt) - 1
}

/// Blocks of an import, of whichever engine.
const fn blocks_of(prompt: u64) -> usize {
    imported_of(prompt).div_ceil(BLOCK) as usize
}

/// What an engine keeps, and where.
#[derive(Clone)]
pub struct Layout {
    pub groups: Vec<GroupMeaning>,
    pub placed: Vec<Placed>,
}

impl Layout {
    /// The blocks of a request by group and position; those of paged groups from a position on. A state and a ring lie in the
    /// last block's place.
    fn tables(&self, prompt: u64, blocks: &[u32], first: u32) -> BlockTables {
        let imported = imported_of(prompt);
        let state = state_position(Tokens::new(imported.into()), Tokens::new(BLOCK.into())).unwrap();
        let last = blocks[state as usize];
        self.groups.iter().fold(BlockTables::new(), |tables, group| {
            let table = match group.meaning {
                Meaning::Paged { .. } => {
                    let own = &blocks[first as usize..blocks_of(prompt)];
                    BlockTable::at(first, own.iter().copied().map(Some).collect())
                }
                Meaning::Ring => BlockTable::at(RING, vec![Some(last)]),
                Meaning::State => BlockTable::at(state, vec![Some(last)]),
            };
            tables.with(&group.name, table)
        })
    }

    /// Every row of a block of a group.
    fn rows(&self, group: usize, block: u32, mut row: impl FnMut(u64, [u32; 3], usize)) {
        let GroupMeaning { layers, rows, segments, .. } = &self.groups[group];
        for layer in 0..*layers {
            for number in 0..*rows {
                for (segment, bytes) in segments.iter().enumerate() {
                    let address = self.placed[group].row(layer, block, number, segment);
                    row(address, [layer, number, segment as u32], *bytes as usize);
                }
            }
        }
    }

    /// Every row of an import: its address, whether it holds a token, and what it holds.
    fn content(&self, prompt: u64, tables: &BlockTables, mut row: impl FnMut(u64, bool, Vec<u8>)) {
        for (index, group) in self.groups.iter().enumerate() {
            let Some(table) = tables.get(&group.name) else { continue };
            for (position, block) in table.iter() {
                self.rows(index, block, |address, [layer, number, segment], bytes| {
                    let seed =
                        [prompt, index as u64, position.into(), layer.into(), number.into(), segment.into()];
                    let imported = match group.meaning {
                        Meaning::Paged { tokens_per_row } => {
                            position * BLOCK + number * tokens_per_row < imported_of(prompt)
                        }
                        Meaning::Ring | Meaning::State => true,
                    };
                    row(address, imported, bytes_of(seed, bytes));
                });
            }
        }
    }

    /// Fills a block of every group with one byte.
    fn fill(&self, memory: &impl Bytes, block: u32, with: u8) {
        for group in 0..self.groups.len() {
            self.rows(group, block, |address, _, bytes| memory.write(address, &vec![with; bytes]));
        }
    }

    fn is_filled(&self, memory: &impl Bytes, block: u32, with: u8) -> bool {
        let mut filled = true;
        for group in 0..self.groups.len() {
            self.rows(group, block, |address, _, bytes| {
                filled &= memory.read(address, bytes) == vec![with; bytes];
            });
        }
        filled
    }

    /// Whether all tokens of an import are where they should be.
    fn holds(&self, memory: &impl Bytes, prompt: u64, tables: &BlockTables) -> bool {
        let mut whole = true;
        self.content(prompt, tables, |address, imported, bytes| {
            whole &= !imported || memory.read(address, bytes.len()) == bytes;
        });
        whole
    }
}

fn bytes_of(seed: [u64; 6], bytes: usize) -> Vec<u8> {
    let mix = |sum: u64, part: &u64| (sum ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let mut state = seed.iter().fold(0x5eed, mix);
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// P's engine.
pub struct Prefiller<M> {
    pub layout: Layout,
    pub memory: M,
    free: Vec<u32>,
    /// Requests whose blocks it holds.
    held: BTreeSet<u64>,
    /// What was freed since the last look.
    pub freed: Vec<(ExportId, u64, RankEnd)>,
    frees: u8,
    /// It says that its blocks are past the end of its pools.
    pub beyond: bool,
}

impl<M: Bytes> Prefiller<M> {
    pub fn new(layout: Layout, memory: M) -> Self {
        let free = (0..BLOCKS).collect();
        Self { layout, memory, free, held: BTreeSet::new(), freed: Vec::new(), frees: 0, beyond: false }
    }

    /// Whether all of its blocks are free.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.free.len() == BLOCKS as usize
    }
}

impl<M: Bytes> Exporter for Prefiller<M> {
    type Blocks = Vec<u32>;

    fn export(&mut self, ask: &Ask) -> Answer<Vec<u32>> {
        let prompt = prompt_of(ask.request);
        assert_eq!(ask.imported, Tokens::new(imported_of(prompt).into()));
        let Some(left) = self.free.len().checked_sub(blocks_of(prompt)) else { return Answer::NotYet };
        let blocks = self.free.split_off(left);
        let tables = self.layout.tables(prompt, &blocks, 0);
        self.layout.content(prompt, &tables, |address, _, bytes| self.memory.write(address, &bytes));
        self.held.insert(ask.request);
        let past: Vec<u32> = blocks.iter().map(|block| block + BLOCKS).collect();
        let tables = if self.beyond { self.layout.tables(prompt, &past, 0) } else { tables };
        Answer::Export { tables, blocks }
    }

    fn free(&mut self, freed: Freed<Vec<u32>>) {
        // A request may be asked for twice, where a question was doubled.
        self.held.remove(&freed.ask.request);
        self.freed.push((freed.export, freed.ask.request, freed.end));
        self.frees = self.frees.wrapping_add(1);
        for block in freed.blocks {
            assert!(!self.free.contains(&block), "freed once");
            self.layout.fill(&self.memory, block, self.frees);
            self.free.push(block);
        }
    }
}

/// What became of D's requests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Outcomes {
    pub finished: u32,
    pub failed: u32,
    pub aborted: u32,
    pub published: u32,
}

/// D's engine: a lifecycle of one rank, which lifts and finishes what has arrived at once.
pub struct Decoder {
    pub layout: Layout,
    pub lifecycle: Lifecycle,
    /// Requests that are not over: their prompts, and the first position that is read, where something is.
    running: BTreeMap<RequestId, (u64, Option<u32>)>,
    poisoned: BTreeSet<u32>,
    pub outcomes: Outcomes,
    pub ended: Vec<(u64, Outcome)>,
}

const POISON: u8 = 0xA5;
const RANK: Rank = Rank::new(0);

impl Decoder {
    pub fn new(layout: Layout, memory: &impl Bytes) -> Self {
        let lifecycle = Lifecycle::new(LifecycleOptions {
            ranks: 1,
            writers: Ranks::first(1),
            block_tokens: BLOCK,
            recurrence: Recurrence::State,
            requests: 4,
            blocks: BLOCKS,
            pages: 4,
            keep: 0,
            draft_lag: 0,
            retries: 0,
            limits: FrameLimits::default(),
        });
        (0..BLOCKS).for_each(|block| layout.fill(memory, block, POISON));
        Self {
            layout,
            lifecycle: lifecycle.unwrap(),
            running: BTreeMap::new(),
            poisoned: (0..BLOCKS).collect(),
            outcomes: Outcomes::default(),
            ended: Vec::new(),
        }
    }

    /// Admits a request where there is room, and says what is wanted of P.
    pub fn admit(&mut self, request: u64, memory: &impl Bytes) -> Option<(RequestId, Wanted)> {
        let prompt = prompt_of(request);
        let hashes: Vec<_> = (0..tokens_of(prompt) / BLOCK).map(|position| name(prompt, position)).collect();
        let admission = Admission {
            prompt: Tokens::new(tokens_of(prompt).into()),
            policy: Policy::LiftTail,
            producer: true,
            hashes: hashes.into(),
        };
        self.lifecycle.apply(&Event::Admit(admission)).ok()?;
        let effects = self.lifecycle.effects().to_vec();
        let Some(Effect::Admitted { request: id, .. }) = effects.first().copied() else {
            panic!("{effects:?}")
        };
        let read = effects.iter().find_map(|effect| match effect {
            Effect::Read { first, .. } => Some(*first),
            _ => None,
        });
        let blocks = self.blocks(id);
        for block in &blocks[read.unwrap_or(blocks.len() as u32) as usize..] {
            if self.poisoned.remove(block) {
                assert!(self.layout.is_filled(memory, *block, POISON), "a free block was written");
            }
        }
        self.running.insert(id, (request, read));
        let tables = read.map_or_else(BlockTables::new, |first| self.layout.tables(prompt, &blocks, first));
        if read.is_some() {
            self.apply(&posted(id, Ranks::first(1), &tables), memory);
        } else {
            self.carry_out(&effects, memory);
        }
        let imported = Tokens::new(imported_of(prompt).into());
        Some((id, Wanted { request, imported, blocks: tables, awaited: read.is_some() }))
    }

    /// The consumer has said something.
    pub fn told(&mut self, event: &ConsumerEvent<RequestId>, memory: &impl Bytes) {
        if let Some(event) = event.of_lifecycle(RANK) {
            self.apply(&event, memory);
        }
    }

    /// The client does not want a request any more.
    pub fn abort(&mut self, request: RequestId, memory: &impl Bytes) {
        self.apply(&Event::Abort { request }, memory);
    }

    /// What read for this engine is gone, and its reads with it.
    pub fn lose_rank(&mut self, memory: &impl Bytes) {
        self.apply(&Event::RankLost { rank: RANK }, memory);
        self.apply(&Event::RankJoined { rank: RANK }, memory);
    }

    /// Requests whose reads are in flight.
    pub fn reading(&self) -> Vec<RequestId> {
        self.running.keys().copied().collect()
    }

    /// Whether it holds nothing, and nobody has written what it does not hold.
    pub fn is_idle(&self, memory: &impl Bytes) -> bool {
        self.running.is_empty()
            && self.lifecycle.requests().next().is_none()
            && self.lifecycle.available_blocks() == BLOCKS as usize
            && self.lifecycle.free_pages() == 4
            && self.poisoned.iter().all(|block| self.layout.is_filled(memory, *block, POISON))
    }

    fn apply(&mut self, event: &Event<'_>, memory: &impl Bytes) {
        let effects =
            self.lifecycle.apply(event).unwrap_or_else(|error| panic!("{event:?}: {error}")).to_vec();
        self.carry_out(&effects, memory);
    }

    fn carry_out(&mut self, effects: &[Effect], memory: &impl Bytes) {
        for effect in effects {
            match *effect {
                Effect::Lift { request, round } => {
                    let (number, read) = self.running[&request];
                    if read.is_some() {
                        let prompt = prompt_of(number);
                        let tables = self.layout.tables(prompt, &self.blocks(request), 0);
                        assert!(self.layout.holds(memory, prompt, &tables), "wrong bytes passed for read");
                    }
                    self.apply(&Event::Answer { request, round, rank: RANK, answer: Lifted::Done }, memory);
                }
                Effect::Cancel { request, round } => {
                    let answer = Lifted::Acknowledged;
                    self.apply(&Event::Answer { request, round, rank: RANK, answer }, memory);
                }
                Effect::Stop { request, round } => {
                    self.apply(&Event::Answer { request, round, rank: RANK, answer: Lifted::Done }, memory);
                }
                Effect::Lifted { request } => self.apply(&Event::Finish { request }, memory),
                Effect::Publish { hash, block } => {
                    let (prompt, position) = named(hash);
                    let table = BlockTable::at(position, vec![Some(block.get())]);
                    let paged = |group: &&GroupMeaning| matches!(group.meaning, Meaning::Paged { .. });
                    let groups = self.layout.groups.iter().filter(paged);
                    let tables =
                        groups.fold(BlockTables::new(), |all, group| all.with(&group.name, table.clone()));
                    assert!(self.layout.holds(memory, prompt, &tables), "wrong bytes were published");
                    self.outcomes.published += 1;
                }
                Effect::ReleaseBlock { block, .. } => {
                    let unused = self.lifecycle.users(block) == 0 && self.lifecycle.content(block).is_none();
                    if unused {
                        self.layout.fill(memory, block.get(), POISON);
                        self.poisoned.insert(block.get());
                    }
                }
                Effect::Ended { request, outcome, .. } => {
                    let (number, _) = self.running.remove(&request).expect("it ends once");
                    self.ended.push((number, outcome));
                    match outcome {
                        Outcome::Finished => self.outcomes.finished += 1,
                        Outcome::Aborted => self.outcomes.aborted += 1,
                        Outcome::Failed => self.outcomes.failed += 1,
                    }
                }
                _ => {}
            }
        }
    }

    fn blocks(&self, request: RequestId) -> Vec<u32> {
        self.lifecycle.request(request).unwrap().blocks().iter().map(|block| block.get()).collect()
    }
}

fn name(prompt: u64, position: u32) -> ContentHash {
    ContentHash::new(u128::from(prompt) << 32 | u128::from(position))
}

fn named(hash: ContentHash) -> (u64, u32) {
    ((hash.get() >> 32) as u64, hash.get() as u32)
}
