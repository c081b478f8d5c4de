//! Host blocks: who uses them, and which of them others may find.
//!
//! A block is free, used, or *cached*: nobody uses it, but it is found by its content's hash until its memory is needed.
//! A block that is found is used by one more; only cached ones are evicted, the one that was used longest ago first, and
//! it is hidden before it is given away.

use super::ContentHash;
use super::round::Whole;
use crate::error::PlanError;
use crate::id::HostBlockId;
use crate::room::{filled, with_room};

/// No block.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Block {
    users: u32,
    /// What it is found by.
    hash: Option<ContentHash>,
    /// Whether a request may resume right after it: it has all that a model keeps, states too.
    resumable: bool,
    /// The next block of the same bucket.
    chain: u32,
    /// Among cached blocks, those that were used before and after it.
    older: u32,
    newer: u32,
}

const FREE: Block = Block { users: 0, hash: None, resumable: false, chain: NONE, older: NONE, newer: NONE };

/// All host blocks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
    /// The first block of each bucket of hashes: a power of two of them.
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    cached: usize,
}

impl Blocks {
    pub fn new(count: u32) -> Result<Self, PlanError> {
        let mut free = with_room("free host blocks", count.into())?;
        free.extend((0..count).rev());
        let buckets = u64::from(count.max(1)).next_power_of_two();
        Ok(Self {
            blocks: filled("host blocks", FREE, count.into())?,
            free,
            buckets: filled("hashes of host blocks", NONE, buckets)?,
            oldest: NONE,
            newest: NONE,
            cached: 0,
        })
    }

    /// Blocks that can be taken.
    pub fn available(&self) -> usize {
        self.free.len().saturating_add(self.cached)
    }

    /// Blocks that nobody uses and nobody finds.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// How many use a block.
    pub fn users(&self, block: HostBlockId) -> u32 {
        self.at(block.get()).map_or(0, |block| block.users)
    }

    /// What a block is found by.
    pub fn hash(&self, block: HostBlockId) -> Option<ContentHash> {
        self.at(block.get())?.hash
    }

    /// Finds the block of some content, and whether a request may resume after it.
    pub fn find(&self, hash: ContentHash) -> Option<(HostBlockId, bool)> {
        let mut next = *self.buckets.get(self.bucket(hash))?;
        while let Some(block) = self.at(next) {
            if block.hash == Some(hash) {
                return Some((HostBlockId::new(next), block.resumable));
            }
            next = block.chain;
        }
        None
    }

    /// Uses a block that was found.
    pub fn pin(&mut self, block: HostBlockId) {
        let number = block.get();
        let Some(block) = self.at_mut(number) else { return };
        let cached = block.users == 0;
        block.users = block.users.saturating_add(1);
        if cached {
            self.unlink(number);
        }
    }

    /// Takes a block that nobody uses; it may have to be hidden first, and then comes with what it was found by.
    pub fn take(&mut self) -> Option<(HostBlockId, Option<ContentHash>)> {
        let (number, hidden) = match self.free.pop() {
            Some(number) => (number, None),
            None => {
                let number = self.oldest;
                let hash = self.at(number)?.hash;
                self.hide(number);
                self.unlink(number);
                (number, hash)
            }
        };
        *self.at_mut(number)? = Block { users: 1, ..FREE };
        Some((HostBlockId::new(number), hidden))
    }

    /// Stops using a block.
    pub fn release(&mut self, block: HostBlockId) {
        let number = block.get();
        let Some(block) = self.at_mut(number) else { return };
        block.users = block.users.saturating_sub(1);
        if block.users > 0 {
            return;
        }
        if block.hash.is_some() {
            self.link_newest(number);
        } else {
            self.free.push(number);
        }
    }

    /// Lets others find a block. Only what all ranks have completed can be: that is what the first argument says. `false`
    /// where the content can be found already.
    pub fn publish(&mut self, _: Whole, block: HostBlockId, hash: ContentHash, resumable: bool) -> bool {
        if self.find(hash).is_some() {
            return false;
        }
        let bucket = self.bucket(hash);
        let Some(first) = self.buckets.get(bucket).copied() else { return false };
        let Some(entry) = self.at_mut(block.get()).filter(|block| block.hash.is_none()) else { return false };
        (entry.hash, entry.resumable, entry.chain) = (Some(hash), resumable, first);
        if let Some(head) = self.buckets.get_mut(bucket) {
            *head = block.get();
        }
        true
    }

    /// Nobody finds a block any more.
    fn hide(&mut self, number: u32) {
        let Some((hash, chain)) = self.at(number).and_then(|block| Some((block.hash?, block.chain))) else {
            return;
        };
        let bucket = self.bucket(hash);
        let mut at = self.buckets.get(bucket).copied().unwrap_or(NONE);
        if at == number
            && let Some(head) = self.buckets.get_mut(bucket)
        {
            *head = chain;
        }
        while let Some(block) = self.at_mut(at) {
            if block.chain == number {
                block.chain = chain;
                break;
            }
            at = block.chain;
        }
        if let Some(block) = self.at_mut(number) {
            (block.hash, block.chain) = (None, NONE);
        }
    }

    fn link_newest(&mut self, number: u32) {
        let newest = std::mem::replace(&mut self.newest, number);
        if let Some(block) = self.at_mut(number) {
            (block.older, block.newer) = (newest, NONE);
        }
        match self.at_mut(newest) {
            Some(block) => block.newer = number,
            None => self.oldest = number,
        }
        self.cached = self.cached.saturating_add(1);
    }

    fn unlink(&mut self, number: u32) {
        let Some((older, newer)) = self.at(number).map(|block| (block.older, block.newer)) else { return };
        match self.at_mut(older) {
            Some(block) => block.newer = newer,
            None => self.oldest = newer,
        }
        match self.at_mut(newer) {
            Some(block) => block.older = older,
            None => self.newest = older,
        }
        if let Some(block) = self.at_mut(number) {
            (block.older, block.newer) = (NONE, NONE);
        }
        self.cached = self.cached.saturating_sub(1);
    }

    /// Where a hash is looked for. Engines' hashes are random already; a multiplication spreads those that are not.
    fn bucket(&self, hash: ContentHash) -> usize {
        let [low, high] = hash.halves();
        let mixed = (low ^ high.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mask = self.buckets.len().saturating_sub(1);
        usize::try_from(mixed).unwrap_or(0) & mask
    }

    fn at(&self, number: u32) -> Option<&Block> {
        self.blocks.get(usize::try_from(number).ok()?)
    }

    fn at_mut(&mut self, number: u32) -> Option<&mut Block> {
        self.blocks.get_mut(usize::try_from(number).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::rank::{Rank, Ranks};
    use super::super::round::{Answer, Round, Verdict};
    use super::*;

    fn whole() -> Whole {
        let mut round = Round::default().next(Ranks::first(1));
        round.hear(Rank::new(0), Answer::Done);
        match round.verdict() {
            Verdict::Whole(whole) => whole,
            other => panic!("{other:?}"),
        }
    }

    /// Every block with a content is in its bucket, once, and no other block is in any.
    fn check(blocks: &Blocks, call: usize) {
        let mut listed = Vec::new();
        for (bucket, first) in blocks.buckets.iter().enumerate() {
            let mut next = *first;
            while let Some(block) = blocks.at(next) {
                let hash =
                    block.hash.unwrap_or_else(|| panic!("call {call}: block {next} is hidden, and found"));
                assert_eq!(blocks.bucket(hash), bucket, "call {call}: block {next}");
                listed.push(next);
                next = block.chain;
            }
        }
        listed.sort_unstable();
        let named = (0..).zip(&blocks.blocks).filter(|(_, block)| block.hash.is_some());
        assert_eq!(listed, named.map(|(number, _)| number).collect::<Vec<_>>(), "call {call}");
    }

    /// Random calls, against lists that are searched. Contents are few, so that they share buckets, and come again.
    #[test]
    #[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
    fn case_13_random_calls_agree_with_plain_lists() {
        let mut random = 1_u64;
        let mut draw = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(random >> 33).unwrap() % below
        };
        let mut blocks = Blocks::new(5).unwrap();
        // Users, by block; contents, by block; cached blocks, the oldest first.
        let (mut users, mut contents, mut cached) =
            (BTreeMap::<u32, u32>::new(), BTreeMap::new(), Vec::new());
        for call in 0..200_000 {
            let used: Vec<u32> = users.keys().copied().collect();
            match draw(4) {
                0 => match blocks.take() {
                    Some((block, hidden)) => {
                        assert!(!users.contains_key(&block.get()), "call {call}: {block} is used");
                        assert_eq!(hidden, contents.remove(&block.get()), "call {call}");
                        if hidden.is_some() {
                            assert_eq!(cached.remove(0), block.get(), "the one that was used longest ago");
                        }
                        users.insert(block.get(), 1);
                    }
                    None => assert_eq!(used.len(), 5),
                },
                1 if !used.is_empty() => {
                    let block = used[draw(used.len())];
                    blocks.release(HostBlockId::new(block));
                    let count = users.get_mut(&block).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        users.remove(&block);
                        if contents.contains_key(&block) {
                            cached.push(block);
                        }
                    }
                }
                2 if !used.is_empty() => {
                    let (block, hash) = (used[draw(used.len())], ContentHash::new(draw(12) as u128));
                    let new = !contents.contains_key(&block) && !contents.values().any(|own| *own == hash);
                    assert_eq!(
                        blocks.publish(whole(), HostBlockId::new(block), hash, true),
                        new,
                        "call {call}"
                    );
                    if new {
                        contents.insert(block, hash);
                    }
                }
                _ => {
                    let hash = ContentHash::new(draw(12) as u128);
                    let held = contents.iter().find(|(_, own)| **own == hash).map(|(block, _)| *block);
                    assert_eq!(blocks.find(hash).map(|(block, _)| block.get()), held, "call {call}");
                    if let Some(block) = held {
                        blocks.pin(HostBlockId::new(block));
                        *users.entry(block).or_default() += 1;
                        cached.retain(|own| *own != block);
                    }
                }
            }
            check(&blocks, call);
            let free = 5 - users.len() - cached.len();
            assert_eq!((blocks.free(), blocks.available()), (free, free + cached.len()), "call {call}");
        }
    }
}
