//! What brings the producer's blocks: here the reference plays it, and `pagelift decode` reads them.

use std::fmt::Debug;
use std::ops::Range;

use pagelift::lifecycle::{Event, Ranks, Read, RequestId, RequestView};

use super::RestoreError;
use super::frames::{Frames, Places};
use super::land;
use super::rank::RANK;
use super::world::World;
use crate::progress::Progress;
use crate::reference::{Model, Producer};

/// An import that the lifecycle has asked for.
#[derive(Debug)]
pub struct Import<'e, 'm> {
    pub world: &'e mut World<'m>,
    pub model: &'e mut Model<'m>,
    pub frames: &'e Frames<'m>,
    pub request: RequestId,
    pub view: RequestView<'e>,
    /// Positions that are to be read; none where the producer is only to be notified.
    pub reads: Range<u32>,
    pub progress: Progress,
}

/// How an import has ended: what the lifecycle is told of it, and why, if it has failed.
#[derive(Debug)]
pub struct Landed {
    pub event: Option<Event<'static>>,
    pub failed: Option<String>,
}

/// Brings blocks.
pub trait Transfer<'m>: Debug {
    /// Begins to read, and says what the lifecycle is to be told of that.
    fn begin(&mut self, import: Import<'_, 'm>) -> Result<Event<'static>, RestoreError>;

    /// Waits until all has landed, or will not.
    fn land(&mut self, import: Import<'_, 'm>) -> Result<Landed, RestoreError>;

    /// Tells the producer that nothing is to be read.
    fn notify(&mut self, import: Import<'_, 'm>) -> Result<(), RestoreError>;
}

/// A transfer that is played.
#[derive(Debug)]
pub struct Played<'m>(pub Producer<'m>);

impl<'m> Transfer<'m> for Played<'m> {
    fn begin(&mut self, import: Import<'_, 'm>) -> Result<Event<'static>, RestoreError> {
        Ok(Event::Posted { request: import.request, ranks: Ranks::first(1), each: 1 })
    }

    fn land(&mut self, import: Import<'_, 'm>) -> Result<Landed, RestoreError> {
        let Import { world, model, frames, request, view, reads, progress } = import;
        land::land(world, model, self.0, (frames, &Places::of(view), reads), progress)?;
        let event = Event::Read { request, rank: RANK, part: 0, read: Read::Landed };
        Ok(Landed { event: Some(event), failed: None })
    }

    fn notify(&mut self, _: Import<'_, 'm>) -> Result<(), RestoreError> {
        Ok(())
    }
}
