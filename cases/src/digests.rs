//! Calls to digest plans: which bytes are read, and what each of them is called, wherever it lies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pagelift_planner::error::PlanError;
use pagelift_planner::geometry::Memory;
use pagelift_planner::plan::{DigestNumber, DigestPlan, Plan as _, PlanCapacity};

use crate::decode::{self, Read};
use crate::draw::Draw;
use crate::ids::spoil;
use crate::world::{AnyDigest, Digested, World, hosts, pages};
use crate::{bytes, encoded};

/// Layer, segment and row, to address and bytes.
pub type Rows = BTreeMap<(u32, u32, u32), (u64, u64)>;

/// The same reads with the columns of long rows put together, by job.
#[must_use]
pub fn joined(jobs: Vec<Vec<Read>>) -> Vec<Rows> {
    let join = |mut reads: Vec<Read>| {
        reads.sort_unstable_by_key(|read| (read.layer, read.segment, read.row, read.column));
        let mut rows = Rows::new();
        for read in reads {
            let (start, bytes) =
                rows.entry((read.layer, read.segment, read.row)).or_insert((read.address, 0));
            assert_eq!((read.column, read.address), (*bytes, *start + *bytes), "a row comes once, in order");
            *bytes += read.bytes;
        }
        rows
    };
    jobs.into_iter().map(join).collect()
}

/// The digest of rows, by the formula that the kernel's documentation gives; `bytes` are those of an address.
pub fn digest_of(rows: &Rows, mut bytes: impl FnMut(u64, u64) -> Vec<u8>) -> u64 {
    let mut sum = 0_u64;
    for (&(layer, segment, row), &(address, length)) in rows {
        sum = sum.wrapping_add(terms(layer, segment, row, &bytes(address, length)));
    }
    sum
}

/// What one row's bytes add to a digest.
#[must_use]
pub fn terms(layer: u32, segment: u32, row: u32, bytes: &[u8]) -> u64 {
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
    let nth = |origin: u64, n: u64| {
        Draw::seeded(origin.wrapping_add(n.wrapping_sub(1).wrapping_mul(GAMMA))).number()
    };
    let place = u64::from(layer) << 32 | u64::from(segment);
    let origin = nth(nth(u64::from_be_bytes(*b"pagelift"), place), u64::from(row));
    let words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from(u32::from_le_bytes(word))
    });
    (0_u64..).zip(words).fold(0, |sum, (index, word)| sum.wrapping_add(nth(origin, index << 32 | word)))
}

/// One call.
#[derive(Clone, Debug)]
pub struct DigestCall {
    /// The side's place among those that can be digested.
    pub side: usize,
    /// Whether blocks are said to be where they are not.
    pub other_memory: bool,
    /// Blocks: the same may come twice, for digests only read.
    pub blocks: Vec<u32>,
    /// How many of their rows.
    pub rows: u64,
}

impl DigestCall {
    /// A random one, mostly one that is accepted.
    pub fn draw(draw: &mut Draw, world: &World) -> Self {
        let side = draw.below(world.digested.len() as u64) as usize;
        let model = &world.digested[side].side;
        let mut blocks: Vec<u32> = (0..draw.below(6)).map(|_| draw.small(model.blocks)).collect();
        let mut rows = draw.below(blocks.len() as u64 * u64::from(model.rows) + 1);
        match draw.below(8) {
            5 => spoil(draw, &mut blocks, model.blocks),
            6 => rows += draw.below(1 << 34),
            _ => {}
        }
        Self { side, other_memory: draw.once_in(16), blocks, rows }
    }

    /// Makes it, by the keys of `keys`.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn make(&self, keys: &World, plan: &mut DigestPlan) -> Result<DigestNumber, PlanError> {
        let Digested { side, key } = &keys.digested[self.side];
        if (side.memory == Memory::Host) != self.other_memory {
            let blocks = hosts(&self.blocks);
            match *key {
                AnyDigest::Paged(key) => plan.host(key, &blocks, self.rows),
                AnyDigest::Ring(key) => plan.host(key, &blocks, self.rows),
                AnyDigest::State(key) => plan.host(key, &blocks, self.rows),
            }
        } else {
            let blocks = pages(&self.blocks);
            match *key {
                AnyDigest::Paged(key) => plan.device(key, &blocks, self.rows),
                AnyDigest::Ring(key) => plan.device(key, &blocks, self.rows),
                AnyDigest::State(key) => plan.device(key, &blocks, self.rows),
            }
        }
    }

    /// What it reads: full blocks are one job, the rest of the last another. `None` where it must be refused.
    fn model(&self, world: &World) -> Option<Vec<Rows>> {
        let side = &world.digested[self.side].side;
        let block_rows = u64::from(side.rows);
        let needed = self.rows.div_ceil(block_rows);
        let used = self.blocks.get(..usize::try_from(needed).ok()?)?;
        if self.other_memory
            || self.rows > u64::from(u32::MAX)
            || used.iter().any(|&block| block >= side.blocks)
        {
            return None;
        }
        let full = self.rows / block_rows * block_rows;
        let parts = [0..full, full..self.rows];
        Some(parts.into_iter().filter(|part| !part.is_empty()).map(|part| self.rows(world, part)).collect())
    }

    fn rows(&self, world: &World, rows: Range<u64>) -> Rows {
        let side = &world.digested[self.side].side;
        let group = world.group_of(side);
        let mut expected = Rows::new();
        for row in rows {
            let block = self.blocks[(row / u64::from(side.rows)) as usize];
            let within = (row % u64::from(side.rows)) as u32;
            for layer in 0..group.layers {
                for (segment, &bytes) in group.row_bytes.iter().enumerate() {
                    let at = side.row(layer, block, segment, within);
                    expected.insert((layer, segment as u32, row as u32), (at, u64::from(bytes)));
                }
            }
        }
        expected
    }
}

/// A digest plan, and the model that goes with it.
pub struct DigestSession<'w> {
    world: &'w World,
    /// The plan.
    pub plan: DigestPlan,
    capacity: PlanCapacity,
    jobs: Vec<Rows>,
    entries: u32,
    bytes: u64,
}

impl<'w> DigestSession<'w> {
    /// An empty plan.
    #[must_use]
    pub fn new(world: &'w World, capacity: PlanCapacity) -> Self {
        let plan = DigestPlan::new(Arc::clone(&world.geometry), capacity).unwrap();
        Self { world, plan, capacity, jobs: Vec::new(), entries: 0, bytes: 0 }
    }

    /// Makes a call, and panics where it does not do what the model says. Returns the digest's number and what it is of,
    /// where it was accepted.
    pub fn call(&mut self, call: &DigestCall) -> Option<(DigestNumber, Rows)> {
        let side = &self.world.digested[call.side].side;
        let predicted = call.model(self.world).filter(|jobs| {
            // A list of one block needs no entries.
            let listed = call.rows / u64::from(side.rows);
            let entries = self.entries + if listed > 1 { listed as u32 } else { 0 };
            self.jobs.len() + jobs.len() <= self.capacity.jobs as usize
                && entries <= self.capacity.list_entries
        });
        let before = (encoded(&self.plan), self.plan.to_string());
        let found = call.make(self.world, &mut self.plan);
        let Some(jobs) = predicted else {
            assert!(found.is_err(), "{call:?} may not be planned");
            assert_eq!(
                (encoded(&self.plan), self.plan.to_string()),
                before,
                "{call:?} was refused, and left something"
            );
            return None;
        };
        let rows = jobs.iter().flatten().map(|(name, at)| (*name, *at)).collect();
        let number =
            found.unwrap_or_else(|error| panic!("{call:?} may be planned, and was refused: {error}"));
        let listed = (call.rows / u64::from(side.rows)) as u32;
        self.entries += if listed > 1 { listed } else { 0 };
        self.bytes += call.rows * self.world.group_of(side).all_row_bytes();
        self.jobs.extend(jobs);
        assert_eq!((self.plan.jobs(), bytes(&self.plan)), (self.jobs.len(), self.bytes));
        let found = decode::reads(&self.world.geometry, &encoded(&self.plan));
        assert_eq!(joined(found), self.jobs, "after {call:?}");
        // The jobs of this call are its own.
        let first_of_call = self.jobs.len() - call.model(self.world).map_or(0, |jobs| jobs.len());
        let digests: Vec<u64> = (0..self.jobs.len()).map(|job| u64::from(job >= first_of_call)).collect();
        assert_eq!(number.of(&digests), Some((self.jobs.len() - first_of_call) as u64));
        Some((number, rows))
    }

    /// Empties plan and model.
    pub fn clear(&mut self) {
        self.plan.clear();
        self.jobs.clear();
        (self.entries, self.bytes) = (0, 0);
    }

    /// Makes a call with the keys of another geometry, which must be refused.
    pub fn call_foreign(&mut self, keys: &World, call: &DigestCall) {
        let before = encoded(&self.plan);
        assert_eq!(call.make(keys, &mut self.plan).err(), Some(PlanError::ForeignKey));
        assert_eq!(encoded(&self.plan), before);
    }
}
