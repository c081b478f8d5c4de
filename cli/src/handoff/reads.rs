//! How the blocks of an import come: reads over the transport, of which the engine's lifecycle hears, and digests of what came.

use std::fmt;
use std::time::{Duration, Instant};

use pagelift::backends::Backend;
use pagelift::geometry::Memory;
use pagelift::lifecycle::{Event, Rank, Ranks, RequestId};
use pagelift::quantity::Tokens;
use pagelift_transport::consumer::{Consumer, ConsumerEvent, End, Wanted, posted};
use pagelift_transport::control::Wire;
use pagelift_transport::lease::Moment;
use pagelift_transport::offer::Offer;
use pagelift_transport::plan::BlockTables;
use pagelift_transport::transfer::Transfer as Carrier;
use pagelift_transport::wanted::WantedBy;

use super::digests::{Block, digests, rows_of};
use super::error::HandoffError;
use super::facts::Exchanged;
use super::mapped::{Landing, Mapped};
use super::prefill::POLL;
use crate::digest::Keys;
use crate::manifest::Family;
use crate::restore::{AnyKey, Import, Landed, RestoreError, Transfer};

/// What came of the reads.
#[derive(Clone, Copy, Debug, Default)]
pub struct Came {
    pub reads: usize,
    pub bytes: u64,
    pub zeroed: u64,
    /// From the question to P to the last byte.
    pub seconds: f64,
    /// From P's answer to the last byte: planning, zeroing, and the reads.
    pub read_seconds: f64,
    /// Blocks whose digests are equal on both sides.
    pub digests: usize,
}

/// A connection to P, and the one import over it.
pub struct Reads<'r, X: Carrier, W, B> {
    pub consumer: Consumer<X, W, RequestId>,
    pub clock: Instant,
    pub request: u64,
    pub keys: &'r [AnyKey],
    pub digest_keys: &'r [Keys],
    pub mapped: &'r Mapped,
    pub exchanged: &'r [Exchanged<'r>],
    pub backend: &'r B,
    pub wanted: BlockTables,
    pub came: Came,
}

impl<X: Carrier, W, B> fmt::Debug for Reads<'_, X, W, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads")
            .field("request", &self.request)
            .field("came", &self.came)
            .finish_non_exhaustive()
    }
}

impl<X: Carrier, W: Wire, B: Backend> Reads<'_, X, W, B> {
    /// Since when, as it can be asked while the consumer goes on.
    fn clock(&self) -> impl Fn() -> Moment + use<X, W, B> {
        let start = self.clock;
        move || Moment::now(start)
    }

    /// Waits until P's offer is here.
    pub fn pair(&mut self, import: &mut Landing<'_, '_, B>) -> Result<(), HandoffError> {
        while !self.consumer.is_paired() {
            for event in self.consumer.poll(self.clock(), import) {
                if let ConsumerEvent::Lost { why } = event {
                    return Err(why.into());
                }
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    fn wanted_by(&self, import: &Import<'_, '_>) -> Result<BlockTables, HandoffError> {
        let frames = import.frames.of_import(self.keys);
        let wanted = WantedBy {
            geometry: &import.world.geometry,
            frames: &frames,
            block_tokens: Tokens::new(import.frames.tokens.into()),
            view: import.view,
        };
        Ok(wanted.tables(import.request, import.reads.clone())?)
    }

    fn ask(&mut self, import: &Import<'_, '_>) -> Result<(), HandoffError> {
        let (request, imported) = (self.request, import.view.span().imported());
        let wanted = Wanted { request, imported, blocks: self.wanted.clone(), awaited: true };
        Ok(self.consumer.begin(import.request, wanted)?)
    }

    /// Waits until the import is over. Returns how it ended, and what P has exported.
    fn wait(
        &mut self,
        import: &mut Import<'_, '_>,
    ) -> Result<(ConsumerEvent<RequestId>, BlockTables), HandoffError> {
        let (bar, asked) =
            (import.progress.bytes("read", import.world.manifest.handed_over()), Instant::now());
        let (mut theirs, mut begun) = (BlockTables::new(), asked);
        loop {
            let turn = Instant::now();
            let mut memory = Landing { world: import.world, mapped: self.mapped, backend: self.backend };
            for event in self.consumer.poll(self.clock(), &mut memory) {
                match event {
                    ConsumerEvent::Begun { reads, bytes, zeroed, exported, .. } => {
                        (theirs, begun) = (exported, turn);
                        (self.came.reads, self.came.bytes, self.came.zeroed) = (reads, bytes, zeroed);
                    }
                    ended @ ConsumerEvent::Ended { .. } => {
                        bar.advance(self.came.bytes);
                        self.came.seconds = asked.elapsed().as_secs_f64();
                        self.came.read_seconds = begun.elapsed().as_secs_f64();
                        return Ok((ended, theirs));
                    }
                    // The transport ends with this process, and their blocks with it.
                    ConsumerEvent::Stuck { .. } => return Err(HandoffError::Stuck { waited: PATIENCE }),
                    _ => {}
                }
            }
            std::thread::sleep(POLL);
        }
    }

    /// Tells the reference's model which rows have come, and which rows of the last block P does not have.
    fn follow(&self, import: &mut Import<'_, '_>) -> Result<(), HandoffError> {
        let imported = import.view.span().imported().get();
        for exchanged in self.exchanged {
            let (group, side) = (exchanged.group, exchanged.side);
            let Some(table) = self.wanted.get(&group.name) else { continue };
            let rows_there = self.consumer.producer().and_then(|offer| rows_of_page(offer, &group.name));
            let covered = match group.shape.family {
                Family::Tokens { tokens_per_row } => {
                    let step = u64::from(rows_there.unwrap_or(side.rows).min(side.rows)).max(1);
                    imported.div_ceil(step * u64::from(tokens_per_row)) * step
                }
                Family::Ring | Family::State => u64::MAX,
            };
            let first = match group.shape.family {
                Family::Tokens { .. } => table.iter().next().map_or(0, |(position, _)| position),
                Family::Ring | Family::State => 0,
            };
            let blocks: Vec<u32> = table.iter().map(|(_, block)| block).collect();
            import
                .model
                .arrive(group, (side.pool.memory, first.into(), &blocks), covered)
                .map_err(RestoreError::from)?;
        }
        Ok(())
    }

    /// Compares the digests of all blocks with those that P has sent.
    fn compare(&mut self, import: &mut Import<'_, '_>, theirs: &BlockTables) -> Result<(), HandoffError> {
        let imported = import.view.span().imported().get();
        let mut blocks = Vec::new();
        for exchanged in self.exchanged {
            let Some(table) = self.wanted.get(&exchanged.group.name) else { continue };
            blocks.extend(table.iter().map(|(position, block)| (exchanged, position, [block])));
        }
        let asked: Vec<Block<'_>> = blocks
            .iter()
            .map(|(exchanged, position, block)| Block {
                group: exchanged.group.index,
                memory: Memory::from(exchanged.side.pool.memory),
                pages: block,
                rows: rows_of(exchanged, *position, imported),
            })
            .collect();
        let found = digests(import.world, self.digest_keys, self.backend, &asked)?;
        for ((exchanged, position, _), found) in blocks.iter().zip(found) {
            let (group, position) = (exchanged.group.name.clone(), *position);
            match theirs.get(&group).and_then(|table| table.digest(position)) {
                Some(expected) if expected == found => self.came.digests += 1,
                Some(expected) => {
                    return Err(HandoffError::DigestDiffers { group, position, found, expected });
                }
                None => return Err(HandoffError::NoDigest { group, position }),
            }
        }
        Ok(())
    }

    /// Says goodbye, and waits until P has heard all, or for as long as that may take.
    pub fn close(&mut self, memory: &mut Landing<'_, '_, B>) {
        let start = Instant::now();
        self.consumer.close();
        while !self.consumer.is_left() && start.elapsed() < GOODBYE {
            self.consumer.poll(self.clock(), memory);
            std::thread::sleep(POLL);
        }
    }
}

impl<'m, X: Carrier, W: Wire, B: Backend> Transfer<'m> for Reads<'_, X, W, B> {
    fn begin(&mut self, import: Import<'_, 'm>) -> Result<Event<'static>, RestoreError> {
        self.wanted = self.wanted_by(&import)?;
        self.ask(&import)?;
        Ok(posted(import.request, Ranks::first(1), &self.wanted))
    }

    fn land(&mut self, mut import: Import<'_, 'm>) -> Result<Landed, RestoreError> {
        let (ended, theirs) = self.wait(&mut import)?;
        let event = ended.of_lifecycle(Rank::new(0));
        if let ConsumerEvent::Ended { end: End::Failed { why, valid }, .. } = &ended {
            let valid: Vec<String> =
                valid.iter().map(|(group, tokens)| format!("{tokens} of `{group}`")).collect();
            let failed = Some(format!("{why}; valid are {}", valid.join(", ")));
            return Ok(Landed { event, failed });
        }
        self.follow(&mut import)?;
        self.compare(&mut import, &theirs)?;
        Ok(Landed { event, failed: None })
    }

    fn notify(&mut self, mut import: Import<'_, 'm>) -> Result<(), RestoreError> {
        self.wanted = BlockTables::new();
        self.ask(&import)?;
        match self.wait(&mut import)?.0 {
            ConsumerEvent::Ended { end: End::Failed { why, .. }, .. } => {
                Err(RestoreError::NotImported { why: why.to_string() })
            }
            _ => Ok(()),
        }
    }
}

/// How long reads may go on after they were told to stop.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long P may take to hear that this side is done.
const GOODBYE: Duration = Duration::from_secs(5);

/// Rows of a page of P.
fn rows_of_page(offer: &Offer, group: &str) -> Option<u32> {
    offer.regions.groups.get(group).map(|group| group.rows)
}
