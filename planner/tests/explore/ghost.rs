//! What every row of every block and page holds, told apart by where it came from.

use std::collections::BTreeMap;

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::lifecycle::{ContentHash, Rank};

/// What a row holds: the row of a token of some content, as a step computed it; 0 is the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    pub content: ContentHash,
    pub slot: usize,
    pub step: u32,
    /// Whether a draft layer's part of it is final too.
    pub settled: bool,
}

/// Memory. What is not listed holds nothing of use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// By writer and block.
    pub host: BTreeMap<(Rank, u32), Vec<Option<Row>>>,
    /// By rank and page.
    pub device: BTreeMap<(Rank, u32), Vec<Option<Row>>>,
}

impl Memory {
    pub fn block(&mut self, rank: Rank, block: HostBlockId, slots: usize) -> &mut Vec<Option<Row>> {
        self.host.entry((rank, block.get())).or_insert_with(|| vec![None; slots])
    }

    pub fn page(&mut self, rank: Rank, page: PageId, slots: usize) -> &mut Vec<Option<Row>> {
        self.device.entry((rank, page.get())).or_insert_with(|| vec![None; slots])
    }
}
