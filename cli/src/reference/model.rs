//! Which row must be where, after the operations of a run.

use std::fmt;

use super::address::row_place;
use super::content::Contents;
use super::error::ReferenceError;
use super::producer::{Piece, Producer, place_rows};
use crate::manifest::{Group, Manifest, Memory, Pool, Side};

/// What a row slot must hold. The parts of a state are one row each and always change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// What was in this slot, in this memory, before the run.
    Untouched {
        /// The memory.
        memory: Memory,
        /// The block or page.
        block: u32,
        /// The row.
        row: u32,
    },
    /// Zeros.
    Zero,
    /// A row of the producer, counted from the beginning of the request; hole rows of its last block included.
    Produced {
        /// The row.
        row: u64,
    },
    /// A row that the engine computed.
    Generated {
        /// The token's position.
        position: u64,
        /// The step that computed it.
        step: u64,
    },
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untouched { memory, block, row } => {
                write!(f, "what row {row} of {memory} block {block} held before the run")
            }
            Self::Zero => f.write_str("zeros"),
            Self::Produced { row } => write!(f, "row {row} of the producer"),
            Self::Generated { position, step } => {
                write!(f, "the row of token {position}, computed in step {step}")
            }
        }
    }
}

/// A block that a group uses.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    pub group: usize,
    pub rows: &'a [Row],
}

/// The blocks of a pool that groups use.
#[derive(Debug)]
struct Used {
    /// By block: 1 + the place in `pages`, or 0. Memory that nobody asks for is not taken.
    numbers: Vec<u32>,
    /// The group, and where its rows begin.
    pages: Vec<(usize, usize)>,
    /// The rows of all pages, those of a page together.
    rows: Vec<Row>,
}

impl Used {
    /// No group uses any block.
    fn none(pool: &Pool) -> Self {
        Self { numbers: vec![0; pool.blocks as usize], pages: Vec::new(), rows: Vec::new() }
    }
}

/// What every byte of every pool must be.
#[derive(Debug)]
pub struct Model<'m> {
    manifest: &'m Manifest,
    contents: Contents,
    /// By pool.
    used: Vec<Used>,
}

impl<'m> Model<'m> {
    /// Pools that nobody has touched.
    #[must_use]
    pub fn new(manifest: &'m Manifest, seed: u64) -> Self {
        let used = manifest.pools().iter().map(|pool| Used::none(pool)).collect();
        Self { manifest, contents: Contents::new(seed), used }
    }

    /// What was in the pools of a memory is lost: they hold what they held before the run.
    pub fn forget(&mut self, memory: Memory) {
        let pools = self.manifest.pools().iter().zip(&mut self.used);
        pools.filter(|(pool, _)| pool.memory == memory).for_each(|(pool, used)| *used = Used::none(pool));
    }

    /// The contents that rows have.
    #[must_use]
    pub const fn contents(&self) -> Contents {
        self.contents
    }

    /// The group with this number; the model only stores numbers that it got from a group.
    pub(super) fn group(&self, index: usize) -> Option<&'m Group> {
        self.manifest.groups().get(index)
    }

    pub(super) fn page(&self, pool: &Pool, block: u32) -> Option<Page<'_>> {
        let used = self.used.get(pool.index)?;
        let number = used.numbers.get(block as usize)?.checked_sub(1)?;
        let (group, first) = *used.pages.get(number as usize)?;
        let rows = self.group(group)?.side(pool.memory)?.rows as usize;
        Some(Page { group, rows: used.rows.get(first..first.checked_add(rows)?)? })
    }

    /// The producer's blocks of the request arrive, from that of a position on, with all their rows. `put` receives the bytes.
    ///
    /// # Errors
    ///
    /// If the producer has fewer blocks, a destination is not the group's to use, or `put` fails.
    pub fn land<E: From<ReferenceError>>(
        &mut self,
        producer: Producer<'_>,
        group: &Group,
        (memory, first, blocks): (Memory, u64, &[u32]),
        put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (position, block) in (first..).zip(blocks) {
            let rows = self.rows(group, memory, *block)?;
            let first = u64::saturating_mul(position, rows.len() as u64);
            rows.iter_mut().zip(first..).for_each(|(slot, row)| *slot = Row::Produced { row });
        }
        producer.land(group, side(group, memory)?, (first, blocks), put)
    }

    /// The producer's blocks of the request have arrived, from that of a position on, without this model's doing: the first
    /// `covered` rows of the request are the producer's, and those after them are zeros.
    ///
    /// # Errors
    ///
    /// If a destination is not the group's to use.
    #[cfg(feature = "nixl")]
    pub fn arrive(
        &mut self,
        group: &Group,
        (memory, first, blocks): (Memory, u64, &[u32]),
        covered: u64,
    ) -> Result<(), ReferenceError> {
        for (position, block) in (first..).zip(blocks) {
            let rows = self.rows(group, memory, *block)?;
            let first = u64::saturating_mul(position, rows.len() as u64);
            rows.iter_mut().zip(first..).for_each(|(slot, row)| {
                *slot = if row < covered { Row::Produced { row } } else { Row::Zero };
            });
        }
        Ok(())
    }

    /// A row of a host block is lifted into a row of a page of the GPU.
    ///
    /// # Errors
    ///
    /// If either slot is not the group's to use.
    pub fn lift(&mut self, group: &Group, from: (u32, u32), to: (u32, u32)) -> Result<(), ReferenceError> {
        self.copy(group, (Memory::Host, from.0, from.1), (Memory::Device, to.0, to.1))
    }

    /// The same of a row that was written back before: somebody has to have written it.
    ///
    /// # Errors
    ///
    /// If either slot is not the group's to use, or nobody wrote the row.
    pub fn lift_again(
        &mut self,
        group: &Group,
        from: (u32, u32),
        to: (u32, u32),
    ) -> Result<(), ReferenceError> {
        match self.row(group, Memory::Host, from.0, from.1) {
            None | Some(Row::Untouched { .. }) => {
                let (group, (block, row)) = (group.name.clone(), from);
                Err(ReferenceError::NeverWritten { group, block, row })
            }
            Some(_) => self.lift(group, from, to),
        }
    }

    /// A row of a page of the GPU becomes zeros.
    ///
    /// # Errors
    ///
    /// If the slot is not the group's to use.
    pub fn clear(&mut self, group: &Group, at: (u32, u32)) -> Result<(), ReferenceError> {
        *self.row_mut(group, (Memory::Device, at.0, at.1))? = Row::Zero;
        Ok(())
    }

    /// The engine writes the row of a token; for a state, all parts of it. `put` receives the bytes.
    ///
    /// # Errors
    ///
    /// If the slot is not the group's to write, or `put` fails.
    pub fn write<E: From<ReferenceError>>(
        &mut self,
        group: &Group,
        (page, row): (u32, u32),
        (position, step): (u64, u64),
        put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        *self.row_mut(group, (Memory::Device, page, row))? = Row::Generated { position, step };
        let contents = self.contents;
        place_rows(
            group,
            side(group, Memory::Device)?,
            page,
            row..row.saturating_add(1),
            put,
            |layer, segment, bytes| {
                contents.generated(group.index, layer, segment, position, step).fill(0, bytes);
            },
        )
    }

    /// A row is mirrored from a page of the GPU to a host block.
    ///
    /// # Errors
    ///
    /// If either slot is not the group's to use.
    pub fn mirror(&mut self, group: &Group, from: (u32, u32), to: (u32, u32)) -> Result<(), ReferenceError> {
        self.copy(group, (Memory::Device, from.0, from.1), (Memory::Host, to.0, to.1))
    }

    /// A whole page of the GPU is copied to a host block.
    ///
    /// # Errors
    ///
    /// If either block is not the group's to use.
    pub fn checkpoint(&mut self, group: &Group, page: u32, block: u32) -> Result<(), ReferenceError> {
        (0..group.shape.rows).try_for_each(|row| self.mirror(group, (page, row), (block, row)))
    }

    /// What a slot must hold.
    #[must_use]
    pub fn row(&self, group: &Group, memory: Memory, block: u32, row: u32) -> Option<Row> {
        let page = self.page(&group.side(memory)?.pool, block)?;
        (page.group == group.index).then(|| page.rows.get(row as usize).copied())?
    }

    /// Whether a row is of a token that was imported or computed: what every row of a sealed page must be.
    #[must_use]
    pub fn is_complete(&self, group: &Group, memory: Memory, (block, row): (u32, u32)) -> bool {
        match self.row(group, memory, block, row) {
            Some(Row::Produced { row }) => row < group.imported_rows(self.manifest.span()),
            Some(Row::Generated { .. }) => true,
            Some(Row::Untouched { .. } | Row::Zero) | None => false,
        }
    }

    fn copy(
        &mut self,
        group: &Group,
        from: (Memory, u32, u32),
        to: (Memory, u32, u32),
    ) -> Result<(), ReferenceError> {
        let row = *self.row_mut(group, from)?;
        *self.row_mut(group, to)? = row;
        Ok(())
    }

    fn row_mut(
        &mut self,
        group: &Group,
        (memory, block, row): (Memory, u32, u32),
    ) -> Result<&mut Row, ReferenceError> {
        let rows = self.rows(group, memory, block)?;
        // A page has at most as many rows as a block has tokens.
        let error = ReferenceError::NoRow { group: group.name.clone(), row, rows: rows.len() as u32 };
        rows.get_mut(row as usize).ok_or(error)
    }

    /// The rows of a block, which is the group's from now on.
    fn rows(&mut self, group: &Group, memory: Memory, block: u32) -> Result<&mut [Row], ReferenceError> {
        let side = side(group, memory)?;
        let pool = &side.pool;
        let no_block = || ReferenceError::NoBlock { pool: pool.name.clone(), block, blocks: pool.blocks };
        let Used { numbers, pages, rows } = self.used.get_mut(pool.index).ok_or_else(no_block)?;
        let number = numbers.get_mut(block as usize).ok_or_else(no_block)?;
        if *number == 0 {
            pages.push((group.index, rows.len()));
            rows.extend((0..side.rows).map(|row| Row::Untouched { memory, block, row }));
            // Not more pages than blocks, whose numbers have 32 bits.
            *number = u32::try_from(pages.len()).map_err(|_| no_block())?;
        }
        let page = number.checked_sub(1).and_then(|number| pages.get(number as usize));
        let (owner, first) = *page.ok_or_else(no_block)?;
        if owner == group.index {
            let last = first.saturating_add(side.rows as usize);
            rows.get_mut(first..last).ok_or_else(no_block)
        } else {
            let owner =
                self.manifest.groups().get(owner).map_or_else(String::new, |group| group.name.clone());
            let (pool, group) = (pool.name.clone(), group.name.clone());
            Err(ReferenceError::OtherOwner { pool, block, owner, group })
        }
    }

    /// The bytes of one segment of a row, as it must be.
    pub(super) fn fill(&self, group: &Group, layer: u32, segment: usize, row: Row, bytes: &mut [u8]) {
        match row {
            Row::Zero => bytes.fill(0),
            Row::Produced { row } => self.contents.produced(group.index, layer, segment, row).fill(0, bytes),
            Row::Generated { position, step } => {
                self.contents.generated(group.index, layer, segment, position, step).fill(0, bytes);
            }
            Row::Untouched { memory, block, row } => {
                if let Some(side) = group.side(memory) {
                    let place = row_place(group, side, layer, block, segment, row);
                    self.contents.untouched(side.pool.index, place.extent).fill(place.offset, bytes);
                }
            }
        }
    }
}

/// The group's side in a memory.
fn side(group: &Group, memory: Memory) -> Result<&Side, ReferenceError> {
    group.side(memory).ok_or_else(|| ReferenceError::NoSide { group: group.name.clone(), memory })
}
