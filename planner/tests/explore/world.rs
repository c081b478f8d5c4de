//! An engine in small: all that there is of it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::Policy;
use pagelift_planner::lifecycle::{ContentHash, Event, Lifecycle, LifecycleOptions, Rank, RequestId};

use crate::fingerprint::Fingerprint;
use crate::ghost::{Memory, Row};
use crate::rank::Side;

/// Whose message it is.
pub fn sender(event: &Event<'_>) -> Option<Rank> {
    match event {
        Event::Answer { rank, .. } | Event::Read { rank, .. } | Event::Mirrored { rank, .. } => Some(*rank),
        Event::Checkpointed { rank, .. } | Event::Spilled { rank, .. } | Event::Broken { rank, .. } => {
            Some(*rank)
        }
        _ => None,
    }
}

/// A request that will ask to be admitted.
#[derive(Clone, Debug)]
pub struct Script {
    pub prompt: u64,
    pub policy: Policy,
    pub producer: bool,
    pub hashes: Vec<u128>,
    /// Steps that it runs.
    pub steps: u32,
    /// Tokens that each of them computes.
    pub tokens: u32,
    /// Steps that may be begun before they are accepted.
    pub ahead: u32,
}

impl Script {
    /// The content of a block, by position: named in the prompt, or this request's own.
    pub fn content(&self, own: usize, position: u64) -> ContentHash {
        let named = self.hashes.get(position as usize).copied();
        ContentHash::new(named.unwrap_or(1000 + own as u128 * 100 + u128::from(position)))
    }
}

/// How often each kind of fault may happen, and how many may in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    pub all: u32,
    pub aborts: u32,
    pub reads: u32,
    pub superseded: u32,
    pub failed: u32,
    pub deaths: u32,
    pub duplicates: u32,
    pub reordered: u32,
    pub preemptions: u32,
}

/// What is known of a request besides what the lifecycle knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    pub script: usize,
    /// The step that computed a token for good.
    pub last: BTreeMap<u64, u32>,
    pub named: u64,
    pub received: bool,
    pub preempted: bool,
    pub notified: u32,
}

#[derive(Clone, Debug)]
pub struct World<'a> {
    pub life: Lifecycle,
    pub sides: Vec<Side>,
    pub reads: BTreeSet<(RequestId, Rank, u8)>,
    pub to_post: BTreeSet<RequestId>,
    pub net: Vec<Event<'static>>,
    pub memory: Memory,
    /// By writer and block: how many tokens the state in it has absorbed.
    pub states: BTreeMap<(Rank, u32), u64>,
    pub known: BTreeMap<RequestId, Known>,
    /// Of what is published, the step of each row.
    pub truth: BTreeMap<ContentHash, Vec<u32>>,
    /// What the event at hand sealed: it may have been the last of its request.
    pub sealed: BTreeMap<HostBlockId, (RequestId, u64)>,
    pub next: usize,
    pub left: Faults,
    /// Whether states land on the device, whatever becomes of rows: a group's landing is its own.
    pub states_land: bool,
    pub scripts: &'a [Script],
}

impl<'a> World<'a> {
    pub fn new(options: LifecycleOptions, scripts: &'a [Script], faults: Faults) -> Self {
        Self {
            life: Lifecycle::new(options).unwrap(),
            sides: (0..options.ranks).map(|rank| Side::new(Rank::new(rank), options.requests)).collect(),
            reads: BTreeSet::new(),
            to_post: BTreeSet::new(),
            net: Vec::new(),
            memory: Memory::default(),
            states: BTreeMap::new(),
            known: BTreeMap::new(),
            truth: BTreeMap::new(),
            sealed: BTreeMap::new(),
            next: 0,
            left: faults,
            states_land: false,
            scripts,
        }
    }

    /// Tells states apart. Messages of different ranks have no order.
    pub fn fingerprint(&self) -> u128 {
        let mut hasher = Fingerprint::default();
        self.life.hash(&mut hasher);
        (&self.sides, &self.reads, &self.to_post, &self.memory, &self.known).hash(&mut hasher);
        (&self.states, &self.truth, self.next, self.left).hash(&mut hasher);
        for side in &self.sides {
            let own = |event: &&Event<'_>| sender(event) == Some(side.worker.rank());
            self.net.iter().filter(own).for_each(|event| event.hash(&mut hasher));
            hasher.write_u8(u8::MAX);
        }
        hasher.get()
    }

    pub fn block(&self) -> u64 {
        self.life.options().block_tokens.into()
    }

    pub fn script(&self, id: RequestId) -> Option<&'a Script> {
        self.scripts.get(self.known.get(&id)?.script)
    }

    /// Memory of a block that is given away holds nothing of use.
    pub fn forget_block(&mut self, block: HostBlockId) {
        self.memory.host.retain(|(_, own), _| *own != block.get());
        self.states.retain(|(_, own), _| *own != block.get());
    }

    /// Nor does a page's.
    pub fn forget_page(&mut self, page: PageId) {
        self.memory.device.retain(|(_, own), _| *own != page.get());
    }

    /// What a visible block must hold, and what it does.
    pub fn visible(&self) -> impl Iterator<Item = (HostBlockId, Vec<Row>)> {
        self.truth.iter().map(|(hash, steps)| {
            let block = self.life.find(*hash).expect("what is published is found");
            let rows = steps.iter().enumerate();
            (
                block,
                rows.map(|(slot, step)| Row { content: *hash, slot, step: *step, settled: true }).collect(),
            )
        })
    }
}
