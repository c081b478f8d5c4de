//! P computes the prompt: the reference's content comes to lie in its blocks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use pagelift::backends::Cuda;

use super::arrange::Arranged;
use super::error::HandoffError;
use crate::manifest::Draft;
use crate::progress::Progress;
use crate::reference::{Model, Piece, Producer};
use crate::rehearse::Prefilled;
use crate::restore::{RestoreError, World};

/// Writes what is handed over, group by group.
pub fn fill<'m>(
    world: &mut World<'m>,
    model: &mut Model<'m>,
    content: Producer<'m>,
    progress: Progress,
) -> Result<(), HandoffError> {
    let manifest = world.manifest;
    let bar = progress.bytes("compute", manifest.handed_over());
    for group in manifest.groups() {
        let Some(side) = group.landing_side() else { continue };
        let received = usize::try_from(group.received_blocks(side, manifest.span())).unwrap_or(usize::MAX);
        let blocks = side.blocks.get(..received).unwrap_or(&side.blocks).to_vec();
        let mut images = Images::of(world);
        model.land(content, group, (side.pool.memory, 0, &blocks), |piece| {
            bar.advance(piece.bytes.len() as u64);
            images.put(piece).map_err(RestoreError::from)
        })?;
        images.finish().map_err(RestoreError::from)?;
    }
    Ok(())
}

/// Fills pools as P's are arranged, from nothing, and compares every byte of them.
pub fn rehearse(gpu: &Cuda, path: &Path, seed: u64) -> Result<Prefilled, HandoffError> {
    let silent = Progress::new(true);
    let asked = Draft::load(path).and_then(Draft::assign).map_err(RestoreError::from)?;
    let text = std::fs::read(path).map_err(|error| HandoffError::Usage(error.to_string()))?;
    let arranged = Arranged::new((&asked, true), &text, path, seed)?;
    let manifest = arranged.draft.assign().map_err(RestoreError::from)?;
    let mut world = World::new(&manifest, gpu, silent)?;
    let mut model = Model::new(&manifest, seed);
    world.fill(&model, silent)?;
    fill(&mut world, &mut model, Producer::new(&manifest, seed), silent)?;
    world.verify(&model, "verify", silent)?;
    Ok(Prefilled {
        groups: manifest.groups().len(),
        extents: manifest.pools().iter().map(|pool| pool.extents() as usize).sum(),
        bytes: manifest.handed_over(),
    })
}

/// Extents that the host does not reach, as they shall be. Rows may lie apart, and a copy for each of five million takes a driver
/// minutes.
struct Images<'w, 'm> {
    world: &'w mut World<'m>,
    /// By pool and extent; `None` where the host reaches it.
    images: BTreeMap<(usize, u32), Option<Vec<u8>>>,
}

impl<'w, 'm> Images<'w, 'm> {
    fn of(world: &'w mut World<'m>) -> Self {
        Self { world, images: BTreeMap::new() }
    }

    fn put(&mut self, piece: Piece<'_>) -> Result<(), pagelift::Error> {
        let image = match self.images.entry((piece.pool.index, piece.extent)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(match self.world.bytes(piece.pool, piece.extent)? {
                Cow::Borrowed(_) => None,
                Cow::Owned(image) => Some(image),
            }),
        };
        let start = usize::try_from(piece.offset).unwrap_or(usize::MAX);
        let range = start..start.saturating_add(piece.bytes.len());
        match image.as_mut().and_then(|image| image.get_mut(range)) {
            Some(bytes) => bytes.copy_from_slice(piece.bytes),
            // It says what is wrong with a place outside.
            None => self.world.put(piece)?,
        }
        Ok(())
    }

    /// Writes each extent, once.
    fn finish(self) -> Result<(), pagelift::Error> {
        let pools = self.world.manifest.pools();
        for ((pool, extent), image) in &self.images {
            let (Some(pool), Some(bytes)) = (pools.get(*pool), image) else { continue };
            self.world.put(Piece { pool, extent: *extent, offset: 0, bytes })?;
        }
        Ok(())
    }
}
