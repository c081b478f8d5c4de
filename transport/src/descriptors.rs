//! Descriptor lists: every piece of every block of a group, on both sides, in one order. A transport prepares them once
//! for each peer; an import then names entries by their numbers.

use std::sync::Arc;

use pagelift_planner::geometry::Memory;

use crate::error::PairError;
use crate::pairing::{Piece, Spot};
use crate::region::GroupRegions;

/// The most entries of a list.
pub const MOST_ENTRIES: u64 = 1 << 26;

/// Two lists of one length of bytes an entry: what is read, and to where. All entries of a list are of one group, size and
/// memory.
#[derive(Clone, Debug)]
pub struct ListPair {
    group: Arc<str>,
    layers: u32,
    bytes: u64,
    step_rows: u32,
    pieces: Vec<Piece>,
    remote: Shape,
    local: Shape,
}

/// One side of a pair of lists.
#[derive(Clone, Debug)]
struct Shape {
    regions: GroupRegions,
    /// Steps of a page.
    steps: u32,
}

/// An entry of a list: bytes that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Its first address.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The memory that it lies in.
    pub memory: Memory,
    /// The GPU; 0 in host memory.
    pub device: u64,
}

/// A side of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSide {
    /// The peer's memory, which is read.
    Remote,
    /// One's own memory, which is written.
    Local,
}

impl ListSide {
    /// Whose it is, in words.
    pub(crate) const fn whose(self) -> &'static str {
        match self {
            Self::Remote => "the producer's",
            Self::Local => "this side's",
        }
    }
}

impl ListPair {
    /// A pair for each size of pieces.
    pub(crate) fn by_size(
        group: &Arc<str>,
        layers: u32,
        step_rows: u32,
        mut pieces: Vec<Piece>,
        local: &GroupRegions,
        remote: &GroupRegions,
    ) -> Result<Vec<Self>, PairError> {
        // A stable sort: pieces of one size stay in the order in which they lie.
        pieces.sort_by_key(|piece| piece.bytes);
        let shape = |regions: &GroupRegions| Shape {
            regions: regions.clone(),
            steps: regions.rows.checked_div(step_rows).unwrap_or(1),
        };
        let mut pairs = Vec::new();
        for pieces in pieces.chunk_by(|one, other| one.bytes == other.bytes) {
            let Some(bytes) = pieces.first().map(|piece| piece.bytes) else { continue };
            let (remote, local) = (shape(remote), shape(local));
            let pair = Self {
                group: group.clone(),
                layers,
                bytes,
                step_rows,
                pieces: pieces.to_vec(),
                remote,
                local,
            };
            let entries = [ListSide::Remote, ListSide::Local].map(|side| pair.len(side).unwrap_or(u64::MAX));
            if let Some(found) = entries.into_iter().find(|entries| *entries > MOST_ENTRIES) {
                return Err(PairError::TooMany { group: group.clone(), found, most: MOST_ENTRIES });
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &Arc<str> {
        &self.group
    }

    /// Bytes of every entry.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Rows of a step.
    pub(crate) const fn step_rows(&self) -> u32 {
        self.step_rows
    }

    /// The memory of one side's entries, and the GPU.
    #[must_use]
    pub const fn memory(&self, side: ListSide) -> (Memory, u64) {
        let regions = &self.shape(side).regions;
        (regions.memory, regions.device)
    }

    /// Entries of one side's list.
    #[must_use]
    pub fn entries(&self, side: ListSide) -> u64 {
        self.len(side).unwrap_or(0)
    }

    /// Entries of a step of all layers.
    pub(crate) fn entries_of_step(&self) -> u64 {
        let pieces = u64::try_from(self.pieces.len()).unwrap_or(u64::MAX);
        pieces.saturating_mul(self.layers.into())
    }

    /// The numbers of the entries of a step of a page, a layer after the other.
    pub(crate) fn numbers(&self, side: ListSide, page: u32, step: u32) -> Option<impl Iterator<Item = i32>> {
        let steps = u64::from(self.shape(side).steps);
        let before = u64::from(page).checked_mul(steps)?.checked_add(step.into())?;
        let each = self.entries_of_step();
        let first = i32::try_from(before.checked_mul(each)?).ok()?;
        let end = first.checked_add(i32::try_from(each).ok()?)?;
        Some(first..end)
    }

    /// One side's list: entry `n` is what number `n` of an import stands for.
    pub fn descriptors(&self, side: ListSide) -> impl Iterator<Item = Descriptor> {
        let Shape { regions, steps } = self.shape(side);
        let steps = *steps;
        let places = (0..regions.pages).flat_map(move |page| (0..steps).map(move |step| (page, step)));
        places.flat_map(move |(page, step)| self.step(side, page, step))
    }

    /// The entries of one step of a page.
    pub(crate) fn step(&self, side: ListSide, page: u32, step: u32) -> impl Iterator<Item = Descriptor> {
        let regions = &self.shape(side).regions;
        (0..self.layers).flat_map(move |layer| {
            // A checked map names no address that does not fit.
            self.pieces.iter().filter_map(move |piece| {
                let spot = piece.spot(side);
                let base = regions.region_address(layer, spot.region, page)?;
                let inside = u64::from(step).checked_mul(spot.step)?.checked_add(spot.offset)?;
                Some(Descriptor {
                    address: base.checked_add(inside)?,
                    bytes: self.bytes,
                    memory: regions.memory,
                    device: regions.device,
                })
            })
        })
    }

    fn len(&self, side: ListSide) -> Option<u64> {
        let Shape { regions, steps } = self.shape(side);
        u64::from(regions.pages).checked_mul((*steps).into())?.checked_mul(self.entries_of_step())
    }

    const fn shape(&self, side: ListSide) -> &Shape {
        match side {
            ListSide::Remote => &self.remote,
            ListSide::Local => &self.local,
        }
    }
}

impl Piece {
    const fn spot(&self, side: ListSide) -> Spot {
        match side {
            ListSide::Remote => self.remote,
            ListSide::Local => self.local,
        }
    }
}
