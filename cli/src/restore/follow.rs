//! What launches must have copied, told to the reference's model row by row.

use pagelift::lifecycle::LiftLists;
use pagelift::plan::TailRows;

use super::RestoreError;
use super::frames::{Frame, Frames, Places};
use crate::manifest::{Family, Group, Lift, Manifest, Memory, Side};
use crate::reference::{Model, ReferenceError, Row};

/// A copy that ranks were ordered to make before the next step.
#[derive(Debug)]
pub enum Copied {
    /// An import.
    Import(Places),
    /// An import that has landed where it would be lifted to.
    Landed,
    /// Pages that have landed, to their blocks: that at this position, and what a request has one of.
    Spill(u32),
    /// What was written back before its request was preempted: pages of so many tokens, rings, states.
    Again(Places, u64),
    /// States, to their blocks.
    States,
}

impl Copied {
    /// What a lift copies, of a request that is there now.
    pub fn lift(places: Places, lists: &LiftLists, (again, landed): (bool, bool)) -> Self {
        match (again, landed) {
            (true, _) => Self::Again(places, lists.tokens),
            (false, true) => Self::Landed,
            (false, false) => Self::Import(places),
        }
    }

    /// Whether it is a lift: those come after what is written back.
    pub const fn is_lift(&self) -> bool {
        !matches!(self, Self::States | Self::Spill(_))
    }

    /// Tells the model.
    pub fn follow(
        &self,
        model: &mut Model<'_>,
        frames: &Frames<'_>,
        places_now: &Places,
        (manifest, mode): (&Manifest, TailRows),
    ) -> Result<(), ReferenceError> {
        frames.groups.iter().try_for_each(|frame| match self {
            Self::Landed => Ok(()),
            Self::Spill(position) => spill(model, frame, places_now, (frames.tokens, *position)),
            Self::Import(places) => import(model, frame, places, (manifest, mode)),
            Self::Again(places, tokens) => again(model, frame, places, (frames.tokens, *tokens)),
            Self::States => states(model, frame),
        })
    }
}

/// The two sides of a group.
fn sides(group: &Group) -> Option<(&Side, &Side)> {
    group.host.as_ref().zip(group.device.as_ref())
}

/// The block, or page, and its row, of a row of the request.
fn at(side: &Side, row: u64, block: impl FnOnce(u64) -> Option<u32>) -> Option<(u32, u32)> {
    let rows = u64::from(side.rows);
    Some((block(row / rows)?, u32::try_from(row % rows).ok()?))
}

fn import(
    model: &mut Model<'_>,
    frame: &Frame<'_>,
    places: &Places,
    (manifest, mode): (&Manifest, TailRows),
) -> Result<(), ReferenceError> {
    let (group, span) = (frame.group, manifest.span());
    let Some((host, device)) = sides(group) else { return Ok(()) };
    let copied = match (group.lift, mode) {
        (Lift::None, _) => return Ok(()),
        // A request without a state begins with none.
        (Lift::State, _) if group.shape.family == Family::State && places.state.is_none() => return Ok(()),
        (Lift::State, _) => device.rows.into(),
        (_, TailRows::Whole) => group.received_blocks(host, span).saturating_mul(host.rows.into()),
        (_, TailRows::Exact | TailRows::ExactZeroed) => group.imported_rows(span),
    };
    let writable = if group.lift == Lift::State { 0 } else { span.resume_at / u64::from(device.page_tokens) };
    for page in group.first_page(span)..=writable {
        let Some(to) = frame.page_at(places, page) else { continue };
        for row in 0..device.rows {
            let of_request = page * u64::from(device.rows) + u64::from(row);
            if of_request < copied {
                let from = at(host, of_request, |block| frame.block_at(places, block));
                model.lift(group, from.unwrap_or_default(), (to, row))?;
            } else if mode == TailRows::ExactZeroed {
                model.clear(group, (to, row))?;
            }
        }
    }
    Ok(())
}

fn again(
    model: &mut Model<'_>,
    frame: &Frame<'_>,
    places: &Places,
    (block_tokens, tokens): (u32, u64),
) -> Result<(), ReferenceError> {
    let group = frame.group;
    let Some((host, device)) = sides(group).filter(|_| group.mirror) else { return Ok(()) };
    // Rows of tokens are there, and states; of the others, holes and a ring's slots, some may be.
    let written = match group.shape.family {
        Family::Ring => 0,
        Family::State => u64::MAX,
        Family::Tokens { tokens_per_row } => tokens / u64::from(tokens_per_row.max(1)),
    };
    let rows = match group.shape.family {
        Family::Ring => 0..u64::from(device.rows),
        Family::State if places.state.is_none() => return Ok(()),
        Family::State => 0..u64::from(device.rows),
        Family::Tokens { tokens_per_row } => {
            let first = if group.lift == Lift::Tail { places.first() * u64::from(block_tokens) } else { 0 };
            // Whole blocks and pages, as many rows as the fewer of them have.
            let end = [host, device].map(|side| {
                let block = u64::from(side.page_tokens);
                tokens.div_ceil(block) * block / u64::from(tokens_per_row.max(1))
            });
            first / u64::from(tokens_per_row.max(1))..end[0].min(end[1])
        }
    };
    for row in rows {
        let from = at(host, row, |block| frame.block_at(places, block));
        let Some((from, to)) = from.zip(at(device, row, |page| frame.page_at(places, page))) else {
            continue;
        };
        if row < written {
            model.lift_again(group, from, to)?;
        } else {
            model.lift(group, from, to)?;
        }
    }
    Ok(())
}

/// A page of the lifecycle is written back, of each group that is.
fn spill(
    model: &mut Model<'_>,
    frame: &Frame<'_>,
    places: &Places,
    (block_tokens, position): (u32, u32),
) -> Result<(), ReferenceError> {
    let group = frame.group;
    let Some((host, device)) = sides(group).filter(|_| group.mirror) else { return Ok(()) };
    let rows = match group.shape.family {
        Family::Tokens { tokens_per_row } => {
            let each = u64::from(block_tokens / tokens_per_row.max(1));
            u64::from(position) * each..(u64::from(position) + 1) * each
        }
        Family::Ring => 0..u64::from(device.rows),
        Family::State => return Ok(()),
    };
    for row in rows {
        let from = at(device, row, |page| frame.page_at(places, page));
        if let Some((from, to)) = from.zip(at(host, row, |block| frame.block_at(places, block))) {
            model.mirror(group, from, to)?;
        }
    }
    Ok(())
}

fn states(model: &mut Model<'_>, frame: &Frame<'_>) -> Result<(), ReferenceError> {
    let places = Places::default();
    let ends = frame.page_at(&places, 0).zip(frame.block_at(&places, 0));
    match ends {
        Some((page, block)) if frame.group.mirror && frame.group.shape.family == Family::State => {
            model.checkpoint(frame.group, page, block)
        }
        _ => Ok(()),
    }
}

/// Refuses a block that was sealed before all of its rows were there, and a page's end without its state.
pub fn check_sealed(
    model: &Model<'_>,
    frames: &Frames<'_>,
    (position, block): (u32, pagelift::id::HostBlockId),
    resume_at: u64,
) -> Result<(), RestoreError> {
    let end = (u64::from(position) + 1) * u64::from(frames.tokens);
    for frame in frames.groups.iter().filter(|frame| frame.group.mirror) {
        let (group, Some(host)) = (frame.group, &frame.group.host) else { continue };
        let (blocks, missing) = match group.shape.family {
            Family::Ring => continue,
            Family::Tokens { .. } => (frame.blocks_of(block), "a row"),
            // The states of blocks that arrived are not those of their ends.
            Family::State if end <= resume_at => continue,
            Family::State => (&*host.blocks, "its state"),
        };
        let complete = |block: u32, row: u32| match group.shape.family {
            Family::State => {
                let state = model.row(group, Memory::Host, block, row);
                matches!(state, Some(Row::Generated { position, .. }) if position + 1 >= end)
            }
            _ => model.is_complete(group, Memory::Host, (block, row)),
        };
        let rows = |block: u32| (0..host.rows).map(move |row| (block, row));
        let wrong = blocks.iter().flat_map(|block| rows(*block)).find(|(block, row)| !complete(*block, *row));
        if let Some((block, _)) = wrong {
            let (group, block) = (group.name.clone(), format!("host block {block}"));
            return Err(RestoreError::SealedTooEarly { group, block, missing });
        }
    }
    Ok(())
}
