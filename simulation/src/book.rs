//! What every row must be: by whom each token of each request was computed last, and what was published.

use std::collections::{BTreeMap, HashMap, VecDeque};

use pagelift::backends::{Cpu, HostPool, SharedMemory};
use pagelift::error::MemoryError;
use pagelift::id::HostBlockId;
use pagelift::lifecycle::{ContentHash, RequestId};
use pagelift::memory::{RegionId, Registry};

use crate::content::Origin;
use crate::shape::{GROUPS, STATE_BYTES, Shape};

/// A request, as the engine that asks for it knows it.
#[derive(Clone, Debug)]
pub struct Known {
    /// The so-manieth to be admitted.
    pub admission: u64,
    /// Whose prompt it is.
    pub family: u64,
    /// Whether another engine has its caches.
    pub producer: bool,
    /// How often that one was told that they are not needed any more.
    pub notified: u32,
    /// Full blocks of its prompt, which all of its family name alike.
    pub full: u64,
    /// Blocks that have names.
    pub named: u64,
    /// Who computed the rows that others had published.
    pub found: Vec<Origin>,
    /// By token, who computed its row last.
    pub rows: Vec<Origin>,
    /// Who computed its state last.
    pub state: Option<Origin>,
    /// Its state at the ends of blocks, by position.
    pub ends: BTreeMap<u64, Origin>,
    /// Steps that it will run.
    pub steps: u32,
    /// Those that have run.
    pub ran: u32,
    /// Steps that may be begun before they are accepted.
    pub ahead: u32,
    /// Tokens of steps that are not accepted.
    pub computed: VecDeque<u32>,
    /// Whether a step of it waits to be sent.
    pub waits: bool,
}

impl Known {
    /// The name of a block of it: that of the prompt, which all of a family share, or its own.
    #[must_use]
    pub fn name(&self, position: u64) -> ContentHash {
        let (kind, whose) = if position < self.full { (1_u128, self.family) } else { (2, self.admission) };
        ContentHash::new(kind << 96 | u128::from(whose) << 32 | u128::from(position))
    }
}

/// What others may find.
#[derive(Clone, Debug)]
pub struct Published {
    block: HostBlockId,
    /// Who computed each row of it.
    pub rows: Vec<Origin>,
    /// Who computed the state at its end, where it has one.
    pub state: Option<Origin>,
}

/// All of that, and the host pool to compare it with.
#[derive(Debug)]
pub struct Book {
    shape: Shape,
    memory: Registry,
    pool: RegionId,
    /// Requests that have not ended.
    pub known: BTreeMap<RequestId, Known>,
    published: HashMap<ContentHash, Published>,
    /// Rows of host blocks that were compared.
    pub compared: u64,
}

impl Book {
    /// No requests.
    ///
    /// # Errors
    /// Where the pool cannot be mapped.
    #[allow(unsafe_code, reason = "the pool is shared with the ranks")]
    pub fn new(shape: Shape, pool: &SharedMemory) -> Result<Self, pagelift::Error> {
        let mut memory = Registry::new();
        // SAFETY: (1) what is read here is published, and written by nobody; bytes are copied and never lent; (2) its size is
        // sealed.
        let pool = unsafe { HostPool::share(&Cpu::with_threads(1)?, &shape.host_pool(), pool, |_| ()) }?;
        let pool = memory.adopt_pool(pool)?;
        let pool = pool.first().copied().ok_or(MemoryError::Released)?;
        Ok(Self { shape, memory, pool, known: BTreeMap::new(), published: HashMap::new(), compared: 0 })
    }

    /// What is found by a name.
    #[must_use]
    pub fn find(&self, hash: ContentHash) -> Option<&Published> {
        self.published.get(&hash)
    }

    /// A block of a request becomes visible: every writer's rows must be there, as the last step computed them.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn publish(
        &mut self,
        hash: ContentHash,
        block: HostBlockId,
        (request, position): (RequestId, u64),
    ) -> Result<(), String> {
        let known = self.known.get(&request).ok_or("nobody's block is published")?;
        let tokens = self.shape.block_tokens() as usize;
        let first = position as usize * tokens;
        let rows = known.rows.get(first..first + tokens);
        let rows = rows.ok_or_else(|| format!("{request} publishes rows that it does not have"))?.to_vec();
        if known.name(position) != hash {
            return Err(format!("{request} publishes block {position} by the name {hash}"));
        }
        let published = Published { block, rows, state: known.ends.get(&position).copied() };
        self.compare(hash, &published)?;
        if self.published.insert(hash, published).is_some() {
            return Err(format!("{hash} is published twice"));
        }
        Ok(())
    }

    /// A block is hidden: until now, others could have found it.
    ///
    /// # Errors
    /// Where it was not published, or was changed.
    pub fn hide(&mut self, hash: ContentHash) -> Result<(), String> {
        let published =
            self.published.remove(&hash).ok_or_else(|| format!("{hash} is hidden and was not published"))?;
        self.compare(hash, &published)
    }

    /// Compares everything that others may find.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare_all(&mut self) -> Result<(), String> {
        let all = std::mem::take(&mut self.published);
        let compared = all.iter().try_for_each(|(hash, published)| self.compare(*hash, published));
        self.published = all;
        compared
    }

    fn compare(&mut self, hash: ContentHash, published: &Published) -> Result<(), String> {
        let Published { block, rows, state } = published;
        let first = (hash.get() as u32 as u64) * self.shape.block_tokens();
        for rank in self.shape.options.writers.iter().map(|rank| rank.get()) {
            for group in 0..GROUPS.len() {
                let mut bytes = vec![0; self.shape.block_bytes() as usize];
                self.read(self.shape.host_block(group, rank, block.get()), &mut bytes)?;
                for (token, origin) in (first..).zip(rows) {
                    self.compared += 1;
                    if !self.shape.has_row(group, self.shape.shard(rank), token, *origin, &bytes) {
                        return Err(format!(
                            "published {block} ({hash}) does not hold the row of token {token} by {origin:?}, of group {group}, \
                             rank {rank}"
                        ));
                    }
                }
            }
        }
        for rank in (0..self.shape.options.ranks).filter(|_| state.is_some()) {
            let mut bytes = [0; STATE_BYTES];
            self.read(self.shape.state_block(rank, block.get()), &mut bytes)?;
            self.compared += 1;
            if state.is_some_and(|origin| bytes != Shape::state(rank, origin)) {
                return Err(format!(
                    "published {block} ({hash}) does not hold rank {rank}'s state by {state:?}"
                ));
            }
        }
        Ok(())
    }

    fn read(&self, block: u32, bytes: &mut [u8]) -> Result<(), String> {
        let at = u64::from(block) * self.shape.block_bytes();
        self.memory.read(self.pool, at, bytes).map_err(|error| error.to_string())
    }
}
