//! One step's forward, as the reference plays it: which rows it writes, and which of them are mirrored.

use super::RestoreError;
use super::frames::{Frames, Places};
use super::step::StepArrays;
use super::world::World;
use crate::manifest::Family;
use crate::reference::{Model, Piece, ReferenceError};

/// The tokens of a step.
#[derive(Clone, Copy, Debug)]
pub struct Forward {
    /// The first.
    pub position: u64,
    /// How many are computed, drafts among them.
    pub computed: u32,
    /// How many of these the sampler will accept.
    pub accepted: u64,
    /// Steps before this one.
    pub step: u64,
}

impl Forward {
    /// Writes the rows of all computed tokens, rejected drafts too, and says on the device where they are.
    pub fn write(
        self,
        world: &mut World<'_>,
        model: &mut Model<'_>,
        (frames, places): (&Frames<'_>, &Places),
        arrays: &StepArrays,
    ) -> Result<(), RestoreError> {
        let Self { position, computed, accepted, step } = self;
        for frame in &frames.groups {
            let group = frame.group;
            // A state absorbs the accepted tokens only, and is written once.
            let tokens = match group.shape.family {
                Family::State => accepted.saturating_sub(1)..accepted,
                Family::Tokens { .. } | Family::Ring => 0..u64::from(computed),
            };
            let mut slots = Vec::new();
            for token in tokens.map(|token| position.saturating_add(token)) {
                let number = frame.slot_number(places, token).and_then(|number| i64::try_from(number).ok());
                slots.push(number.unwrap_or(-1));
                if let Some(at) = frame.written_at(places, token) {
                    let put = |piece: Piece<'_>| world.put(piece).map_err(RestoreError::from);
                    model.write(group, at, (token, step), put)?;
                }
            }
            arrays.set_slots(&mut world.memory, group.index, &slots)?;
        }
        let accepted = u32::try_from(accepted).unwrap_or(u32::MAX);
        Ok(arrays.set_queries(&mut world.memory, computed, accepted)?)
    }

    /// Tells the model which rows the mirror must have copied: those of accepted tokens.
    pub fn follow_mirror(
        self,
        model: &mut Model<'_>,
        (frames, places): (&Frames<'_>, &Places),
    ) -> Result<(), ReferenceError> {
        let rows = |frame: &&super::frames::Frame<'_>| frame.group.shape.family != Family::State;
        for frame in frames.groups.iter().filter(rows) {
            for token in self.position..self.position.saturating_add(self.accepted) {
                let ends = frame.written_at(places, token).zip(frame.mirrored_at(places, token));
                if let Some((from, to)) = ends {
                    model.mirror(frame.group, from, to)?;
                }
            }
        }
        Ok(())
    }
}
