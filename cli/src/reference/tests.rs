//! The reference against hand-written numbers, and its verification against memory that is wrong in one place.

mod addresses;
mod geometries;
mod layouts;
mod mismatches;

use std::path::Path;

use serde_json::Value;

use super::address::{Place, row_place, slot};
use super::error::ReferenceError;
use super::model::{Model, Row};
use super::producer::{Piece, Plane, Producer};
use crate::manifest::{Group, Lift, Manifest, Memory, Pool, Side, Span};

fn parse(json: &Value) -> Manifest {
    Manifest::parse(json.to_string().as_bytes(), Path::new("m.json")).unwrap()
}

fn small(name: &str) -> Manifest {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    Manifest::load(folder.join(name).with_extension("json")).unwrap()
}

const SMALL: [&str; 10] = [
    "aligned",
    "gqa",
    "gqa-scales",
    "hybrid",
    "hybrid-boundary",
    "kernel-pages",
    "qsa-fp8",
    "split-pages",
    "sub-block",
    "unaligned",
];

/// The memory of all pools, by pool and extent.
struct Pools(Vec<Vec<Vec<u8>>>);

impl Pools {
    fn new(manifest: &Manifest, model: &Model<'_>) -> Self {
        let extent = |pool: &Pool, extent| {
            let mut bytes = vec![0; pool.extent_bytes() as usize];
            model.fill_untouched(pool, extent, &mut bytes).unwrap();
            bytes
        };
        let pools = manifest.pools().iter();
        Self(pools.map(|pool| (0..pool.extents()).map(|index| extent(pool, index)).collect()).collect())
    }

    fn put(&mut self, piece: Piece<'_>) -> Result<(), ReferenceError> {
        let extent = &mut self.0[piece.pool.index][piece.extent as usize];
        extent[piece.offset as usize..][..piece.bytes.len()].copy_from_slice(piece.bytes);
        Ok(())
    }

    fn row(&mut self, group: &Group, (memory, block, row): At, layer: u32, segment: usize) -> &mut [u8] {
        let side = group.side(memory).unwrap();
        let Place { extent, offset } = row_place(group, side, layer, block, segment, row);
        let bytes = group.shape.segments[segment].row_bytes as usize;
        &mut self.0[side.pool.index][extent as usize][offset as usize..][..bytes]
    }

    /// A naive stand-in for the kernels: one row, all layers and segments.
    fn copy(&mut self, group: &Group, from: At, to: At) {
        for layer in 0..group.layers {
            for segment in 0..group.shape.segments.len() {
                let bytes = self.row(group, from, layer, segment).to_vec();
                self.row(group, to, layer, segment).copy_from_slice(&bytes);
            }
        }
    }

    /// Exchanges the first segments of two rows, each of one layer.
    fn swap(&mut self, group: &Group, one: (At, u32), other: (At, u32)) {
        let bytes = self.row(group, one.0, one.1, 0).to_vec();
        let others = self.row(group, other.0, other.1, 0).to_vec();
        self.row(group, one.0, one.1, 0).copy_from_slice(&others);
        self.row(group, other.0, other.1, 0).copy_from_slice(&bytes);
    }

    fn verify(&self, manifest: &Manifest, model: &Model<'_>) -> Result<u64, ReferenceError> {
        let mut compared = 0;
        for pool in manifest.pools() {
            for extent in 0..pool.extents() {
                compared += model.verify(pool, extent, &self.0[pool.index][extent as usize], |_| ())?;
            }
        }
        Ok(compared)
    }
}

type At = (Memory, u32, u32);
const HOST: Memory = Memory::Host;
const DEVICE: Memory = Memory::Device;

/// Which rows of the writable page a lift copies.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Whole,
    Exact,
    ExactZeroed,
}

const MODES: [Mode; 3] = [Mode::Whole, Mode::Exact, Mode::ExactZeroed];

/// Lands, lifts, and generates a few tokens, in memory and in the model alike.
fn run(manifest: &Manifest, steps: u64, mode: Mode) -> (Pools, Model<'_>) {
    let mut model = Model::new(manifest, 42);
    let mut pools = Pools::new(manifest, &model);
    let producer = Producer::new(manifest, 42);
    let span = manifest.span();
    for group in manifest.groups() {
        let side = group.landing_side().unwrap();
        let received = side.blocks.len().min(group.received_blocks(side, span) as usize);
        let to = (side.pool.memory, 0, &side.blocks[..received]);
        model.land(producer, group, to, |piece| pools.put(piece)).unwrap();
        if group.lift != Lift::None {
            lift(manifest, &mut pools, &mut model, group, mode);
        }
    }
    for step in 0..steps {
        let position = span.resume_at + step;
        for group in manifest.groups() {
            generate(span, &mut pools, &mut model, group, (position, step));
        }
    }
    (pools, model)
}

/// The block that holds a row of the request, and which row of it that is.
fn slot_of(host: &Side, row: u64) -> (u32, u32) {
    let rows = u64::from(host.rows);
    (host.blocks[(row / rows) as usize], (row % rows) as u32)
}

/// Lifts all rows of a group's pages, one by one.
fn lift(manifest: &Manifest, pools: &mut Pools, model: &mut Model<'_>, group: &Group, mode: Mode) {
    let (host, device, span) =
        (group.host.as_ref().unwrap(), group.device.as_ref().unwrap(), manifest.span());
    let copied = match mode {
        _ if group.lift == Lift::State => host.rows.into(),
        Mode::Whole => group.received_blocks(host, span) * u64::from(host.rows),
        Mode::Exact | Mode::ExactZeroed => group.imported_rows(span),
    };
    let first = group.first_page(span) * u64::from(device.rows);
    let slots = device.blocks.iter().flat_map(|page| (0..device.rows).map(move |row| (*page, row)));
    for (row, (page, to)) in (first..).zip(slots) {
        if row < copied {
            let (block, from) = slot_of(host, row);
            model.lift(group, (block, from), (page, to)).unwrap();
            pools.copy(group, (HOST, block, from), (DEVICE, page, to));
        } else if mode == Mode::ExactZeroed {
            model.clear(group, (page, to)).unwrap();
            for (layer, segment) in all(group) {
                pools.row(group, (DEVICE, page, to), layer, segment).fill(0);
            }
        }
    }
}

fn all(group: &Group) -> impl Iterator<Item = (u32, usize)> {
    let segments = group.shape.segments.len();
    (0..group.layers).flat_map(move |layer| (0..segments).map(move |segment| (layer, segment)))
}

/// One token of one group, as long as it stays in the pages and blocks of the import.
fn generate(
    span: &Span,
    pools: &mut Pools,
    model: &mut Model<'_>,
    group: &Group,
    (position, step): (u64, u64),
) {
    let on = |side: &Side| {
        let slot = slot(group, side, position)?;
        let first = if side.pool.memory == DEVICE { group.first_page(span) } else { 0 };
        let block = side.blocks.get(usize::try_from(slot.page.checked_sub(first)?).ok()?)?;
        Some((*block, slot.row))
    };
    let (written, mirrored) = (group.device.as_ref().and_then(on), group.host.as_ref().and_then(on));
    let Some((page, row)) = written else { return };
    model.write(group, (page, row), (position, step), |piece| pools.put(piece)).unwrap();
    if let (true, Some((block, to))) = (group.mirror, mirrored) {
        model.mirror(group, (page, row), (block, to)).unwrap();
        pools.copy(group, (DEVICE, page, row), (HOST, block, to));
    }
}

#[test]
fn runs_of_all_small_manifests_verify() {
    for name in SMALL {
        for mode in MODES {
            let manifest = small(name);
            let (pools, model) = run(&manifest, 13, mode);
            let compared = pools.verify(&manifest, &model).unwrap();
            assert_eq!(compared, manifest.footprint().host + manifest.footprint().device, "{name}");
        }
    }
}

#[test]
fn slots_that_were_never_written_keep_what_was_there_even_when_copied() {
    let manifest = small("aligned");
    let group = &manifest.groups()[0];
    let (mut pools, mut model) = run(&manifest, 0, MODES[0]);
    let page = manifest.spare_blocks(&group.device.as_ref().unwrap().pool)[0];
    let block = manifest.spare_blocks(&group.host.as_ref().unwrap().pool)[0];
    model.checkpoint(group, page, block).unwrap();
    (0..16).for_each(|row| pools.copy(group, (DEVICE, page, row), (HOST, block, row)));
    pools.verify(&manifest, &model).unwrap();
    assert_eq!(
        model.row(group, HOST, block, 5),
        Some(Row::Untouched { memory: DEVICE, block: page, row: 5 })
    );
}

#[test]
fn only_blocks_of_imported_and_computed_rows_are_complete() {
    let manifest = small("unaligned");
    let group = &manifest.groups()[0];
    let (blocks, page) = (group.host_blocks(), group.device_pages()[0]);
    for (steps, complete) in [(0, false), (11, false), (12, true)] {
        let (_, model) = run(&manifest, steps, MODES[0]);
        let all = |memory, block| (0..16).all(|row| model.is_complete(group, memory, (block, row)));
        assert!(all(HOST, blocks[3]));
        assert_eq!(all(HOST, blocks[4]), complete, "{steps} steps");
        assert_eq!(all(DEVICE, page), complete, "{steps} steps");
        assert!(!all(HOST, 1));
    }
}

#[test]
fn what_breaks_the_rules_is_an_error() {
    let manifest = small("hybrid");
    let mut model = Model::new(&manifest, 1);
    let producer = Producer::new(&manifest, 1);
    let [main, _, _, gdn, .., ple] = manifest.groups() else { panic!() };
    let ignore = |_: Piece<'_>| Ok::<_, ReferenceError>(());
    let said = |result: Result<(), ReferenceError>| result.unwrap_err().to_string();
    assert_eq!(
        said(model.land(producer, main, (HOST, 0, &[1, 2, 3, 4, 5, 6]), ignore)),
        "the producer hands over 5 blocks of group `main`, so there is none at position 5"
    );
    assert_eq!(
        said(model.lift(main, (48, 0), (1, 0))),
        "block 48 is not one of the 48 blocks of pool `main-host`"
    );
    assert!(said(model.lift(main, (1, 0), (1, 16))).contains("row 16 is not one of the 16 rows"));
    assert!(said(model.mirror(main, (1, 16), (1, 0))).contains("row 16 is not one of the 16 rows"));
    assert_eq!(said(model.mirror(ple, (2, 0), (1, 0))), "group `ple` has no side in host memory");
    model.write(gdn, (7, 0), (0, 0), ignore).unwrap();
    assert_eq!(
        said(model.write(main, (7, 0), (0, 0), ignore)),
        "block 7 of pool `slab` belongs to group `gdn.0`, but group `main` uses it"
    );
    let pool = &manifest.pools()[0];
    assert!(matches!(
        model.verify(pool, 0, &[0; 5], |_| ()),
        Err(ReferenceError::ExtentSize { found: 5, .. })
    ));
    assert!(matches!(model.verify(pool, 99, &[], |_| ()), Err(ReferenceError::ExtentSize { .. })));
    assert!(model.fill_untouched(pool, 0, &mut [0; 5]).is_err());
}

#[test]
fn the_producer_holds_every_row_of_every_block_it_hands_over() {
    let manifest = small("unaligned");
    let producer = Producer::new(&manifest, 42);
    let model = Model::new(&manifest, 42);
    let indexer = &manifest.groups()[1];
    let mut page = vec![0; indexer.shape.content_bytes(16) as usize];
    let to = Plane { group: indexer, side: indexer.host.as_ref().unwrap(), layer: 5, region: 0 };
    producer.page(to, 4, &mut page);
    let mut row = [0; 128];
    model.contents().produced(1, 5, 0, 4 * 16 + 15).fill(0, &mut row);
    assert_eq!(page[15 * 128..16 * 128], row);
    model.contents().produced(1, 5, 1, 4 * 16 + 2).fill(0, &mut row[..4]);
    assert_eq!(page[16 * 128 + 2 * 4..][..4], row[..4]);
}
