//! The transfer: the producer's blocks arrive.

use std::ops::Range;

use super::RestoreError;
use super::frames::{Frames, Places};
use super::world::World;
use crate::manifest::Family;
use crate::progress::Progress;
use crate::reference::{Model, Producer};

/// Bytes after which the bar hears of progress.
const TELL: u64 = 1 << 20;

/// Copies the producer's blocks at these positions of the lifecycle to where each group lands. Rings and states come whole.
pub fn land(
    world: &mut World<'_>,
    model: &mut Model<'_>,
    producer: Producer<'_>,
    (frames, places, reads): (&Frames<'_>, &Places, Range<u32>),
    progress: Progress,
) -> Result<(), RestoreError> {
    let manifest = world.manifest;
    let bar = progress.bytes("land", manifest.handed_over());
    for frame in &frames.groups {
        let group = frame.group;
        let Some(side) = group.landing_side() else { continue };
        let received = group.received_blocks(side, manifest.span());
        let positions = match group.shape.family {
            Family::Tokens { .. } => {
                let each = u64::from(frames.tokens / side.page_tokens);
                u64::from(reads.start) * each..received.min(u64::from(reads.end) * each)
            }
            Family::Ring | Family::State => 0..received,
        };
        let memory = side.pool.memory;
        let block = |position| match memory {
            crate::manifest::Memory::Host => frame.block_at(places, position),
            crate::manifest::Memory::Device => frame.page_at(places, position),
        };
        let blocks: Vec<u32> = positions.clone().map_while(block).collect();
        let mut waiting = 0;
        model.land(producer, group, (memory, positions.start, &blocks), |piece| {
            waiting += piece.bytes.len() as u64;
            if waiting >= TELL {
                bar.advance(std::mem::take(&mut waiting));
            }
            world.put(piece).map_err(RestoreError::from)
        })?;
    }
    Ok(())
}
