//! Worlds of the random cases, in memory of a backend's; and what imports and copies should make of them.

use std::sync::Arc;

use pagelift::backends::Backend;
use pagelift::error::PlanError;
use pagelift::geometry::{Geometry, GroupKey, Memory, Paged};
use pagelift::plan::{DigestNumber, DigestPlan, RestorePlan};
use pagelift_cases::decode::Move;
use pagelift_cases::digests::DigestCall;
use pagelift_cases::draw::Draw;
use pagelift_cases::ids::Free;
use pagelift_cases::lift::LiftCall;
use pagelift_cases::memory::{Image, Pools};
use pagelift_cases::shape::{Scale, Shape};
use pagelift_cases::world::{GroupModel, Key, World as Model};

/// A geometry with its model, and the memory that it is in.
pub struct World {
    pub pools: Pools,
    pub model: Model,
}

impl World {
    /// A random world, all its memory random.
    pub fn random(draw: &mut Draw, size: u32, backend: &impl Backend) -> Self {
        let shape = Shape::draw(draw, &Scale::in_memory(size));
        let (model, pools) = Pools::new(draw, &shape, backend);
        Self { pools, model }
    }

    /// Group 0 lifts its tail: two layers, four rows a page. Of group 1, a state, nothing is lifted.
    pub fn small(backend: &impl Backend) -> Self {
        let (model, pools) = Pools::new(&mut Draw::seeded(7), &Shape::small(), backend);
        Self { pools, model }
    }

    pub fn geometry(&self) -> Arc<Geometry> {
        Arc::clone(&self.model.geometry)
    }

    /// The key of group 0 of a small world.
    pub fn paged(&self) -> GroupKey<Paged> {
        let Key::Paged(key) = self.model.groups[0].key else { panic!("a paged group") };
        key
    }

    /// Adds an import to a plan.
    pub fn lift(&self, plan: &mut RestorePlan, call: &LiftCall) {
        call.with(&self.model, |import| plan.lift(import, call.mode)).unwrap();
    }

    /// What that should do.
    pub fn expect(&self, image: &mut Image, call: &LiftCall) {
        image.apply(&call.effect(&self.model).unwrap().moves(&self.model));
    }

    /// What one row of a page of group 0, copied to a block, should do.
    pub fn expect_mirrored(&self, image: &mut Image, page: u32, block: u32, row: u32) {
        image.apply(&self.row(page, block, row));
    }

    /// One row of a page of group 0, to a block: all layers and segments.
    pub fn row(&self, page: u32, block: u32, row: u32) -> Vec<Move> {
        let GroupModel { host, device, .. } = &self.model.groups[0];
        let mut moves = Vec::new();
        self.model.groups[0].copy_row(Some((device, page, row)), (host, block, row), &mut moves);
        moves
    }

    /// Adds to a plan the digest of the first `rows` rows of blocks of a group's main side.
    pub fn digest(
        &self,
        plan: &mut DigestPlan,
        (group, memory): (usize, Memory),
        blocks: &[u32],
        rows: u64,
    ) -> Result<DigestNumber, PlanError> {
        // A group's main sides are its first.
        let mut sides = self.model.digested.iter().map(|digested| &digested.side);
        let side = sides.position(|side| (side.group, side.memory) == (group, memory)).unwrap();
        let call = DigestCall { side, other_memory: false, blocks: blocks.to_vec(), rows };
        call.make(&self.model, plan)
    }

    /// Random bytes everywhere: what is to be overwritten too.
    pub fn fill(&mut self, draw: &mut Draw) {
        self.pools.fill(draw);
    }

    /// Changes the bytes at an address of the regions.
    pub fn edit<T>(&mut self, address: u64, bytes: usize, edit: impl FnOnce(&mut [u8]) -> T) -> T {
        let Pools { memory, regions } = &mut self.pools;
        let mut places = regions.iter().map(|&id| (id, memory.region(id).unwrap()));
        let place = places.find(|(_, region)| (region.address()..region.end().unwrap()).contains(&address));
        let (id, region) = place.unwrap();
        let at = address - region.address();
        let mut row = vec![0; bytes];
        memory.read(id, at, &mut row).unwrap();
        let result = edit(&mut row);
        memory.write(id, at, &row).unwrap();
        result
    }

    /// What all memory holds.
    pub fn image(&self) -> Image {
        self.pools.image()
    }

    /// Fails where any byte differs.
    pub fn assert_is(&self, expected: &Image) {
        self.pools.assert_is(expected);
    }

    /// The blocks of all pools, in random order.
    pub fn free(&self, draw: &mut Draw) -> Free {
        Free::all(draw, &self.model)
    }
}
