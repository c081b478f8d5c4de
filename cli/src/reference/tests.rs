//! The reference against hand-written numbers, and its verification against memory that is wrong in one place.

mod layouts;

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::address::{Place, page_place, row_place, slot};
use super::error::{Mismatch, ReferenceError, Region};
use super::model::{Model, Row};
use super::producer::{Piece, Plane, Producer};
use crate::manifest::{Group, Lift, Manifest, Memory, Pool, Side, Span, SplitMix64};

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
        piece.put(&mut self.0[piece.pool.index][piece.extent as usize])
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
        let to = (side.pool.memory, &side.blocks[..received]);
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
            let (block, from) = host.slot_of(row).unwrap();
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
fn every_flipped_byte_is_found_where_it_is() {
    for name in SMALL {
        let manifest = small(name);
        let (mut pools, model) = run(&manifest, 5, MODES[0]);
        let mut random = SplitMix64::new(3);
        for pool in manifest.pools() {
            for _ in 0..60 {
                let extent = random.below(pool.extents() as usize);
                let offset = random.below(pool.extent_bytes() as usize);
                let bit = 1 << random.below(8);
                pools.0[pool.index][extent][offset] ^= bit;
                let error = model.verify(pool, extent as u32, &pools.0[pool.index][extent], |_| ());
                let Err(ReferenceError::Mismatch(mismatch)) = error else { panic!("{name}: {error:?}") };
                assert_eq!((mismatch.extent as usize, mismatch.offset as usize), (extent, offset));
                assert_eq!(mismatch.expected ^ mismatch.found, bit);
                pools.0[pool.index][extent][offset] ^= bit;
            }
        }
    }
}

/// What verification says after one byte was changed.
fn region_after_flip(
    manifest: &Manifest,
    pools: &mut Pools,
    model: &Model<'_>,
    pool: usize,
    at: Place,
) -> Region {
    pools.0[pool][at.extent as usize][at.offset as usize] ^= 0x10;
    let error = pools.verify(manifest, model).unwrap_err();
    pools.0[pool][at.extent as usize][at.offset as usize] ^= 0x10;
    match error {
        ReferenceError::Mismatch(mismatch) => mismatch.region,
        other => panic!("{other}"),
    }
}

#[test]
fn a_mismatch_names_rows_holes_and_every_kind_of_padding() {
    let manifest = small("unaligned");
    let (mut pools, model) = run(&manifest, 3, MODES[0]);
    let main = &manifest.groups()[0];
    let device = main.device.as_ref().unwrap();
    let (pool, page) = (device.pool.index, main.device_pages()[0]);
    let holds = |region| match region {
        Region::Row { group, layer: 3, segment, byte: 7, holds, .. } => {
            assert_eq!((group.as_str(), segment.as_str()), ("main", "latent"));
            holds
        }
        other => panic!("{other:?}"),
    };
    let row = |row| {
        let place = row_place(main, device, 3, page, 0, row);
        Place { offset: place.offset + 7, ..place }
    };
    let mut region = |at| region_after_flip(&manifest, &mut pools, &model, pool, at);
    // 69 tokens in blocks of 16: rows 64 to 67 as imported, 68 to 70 computed (68 again), and holes behind.
    assert_eq!(holds(region(row(3))), "row 67 of the producer");
    assert_eq!(holds(region(row(4))), "the row of token 68, computed in step 0");
    assert_eq!(holds(region(row(6))), "the row of token 70, computed in step 2");
    assert_eq!(holds(region(row(7))), "row 71 of the producer");
    let begin = page_place(main, device, (3, 0), page);
    let after = |bytes| Place { offset: begin.offset + bytes, ..begin };
    let padding = Region::Padding { group: "main".into(), layer: 12, block: page };
    assert_eq!(region(after(656)), padding, "after a row");
    assert_eq!(region(after(10_751)), padding, "after the last row");
    assert_eq!(region(after(10_752)).to_string(), holds_first_byte_of_next_layer(page));
    let block = 17 * 10_752 + 256;
    let at = |offset| Place { extent: 0, offset };
    assert_eq!(region(at(block * 5 - 1)), Region::BlockPadding { block: 4 });
    assert_eq!(region(at(block * 5)), Region::Unused { layer: 0, block: 5 });
    assert_eq!(
        region(at(block * 31)),
        Region::Unused { layer: 0, block: 31 },
        "a layer below the group's first"
    );
}

fn holds_first_byte_of_next_layer(page: u32) -> String {
    format!(
        "group `main`, layer 4, block {page}, segment `latent`, row 0, byte 0, which must hold row 64 of the producer"
    )
}

#[test]
fn misplaced_rows_are_found() {
    let manifest = small("hybrid");
    let (mut pools, model) = run(&manifest, 3, MODES[0]);
    for group in manifest.groups() {
        for memory in [HOST, DEVICE] {
            let Some(&[first, ..]) = group.side(memory).map(|side| side.blocks.as_slice()) else { continue };
            // Two rows of a block, two layers of a row.
            let swaps = [((0, 0), (0, 1)), ((0, 0), (1, 0))];
            for ((layer, row), (other_layer, other_row)) in swaps {
                if other_row >= group.side(memory).unwrap().rows || other_layer >= group.layers {
                    continue;
                }
                let one = ((memory, first, row), layer);
                let other = ((memory, first, other_row), other_layer);
                pools.swap(group, one, other);
                assert!(pools.verify(&manifest, &model).is_err(), "{} in {memory} memory", group.name);
                pools.swap(group, one, other);
            }
        }
    }
    pools.verify(&manifest, &model).unwrap();
}

#[test]
fn a_copy_that_was_left_out_is_found() {
    for name in SMALL {
        let manifest = small(name);
        let (pools, mut model) = run(&manifest, 2, MODES[0]);
        let group = &manifest.groups()[0];
        let (block, page) = (group.host_blocks()[0], group.device_pages()[0]);
        // The model hears of a mirror that the memory has not seen.
        let row = group.device.as_ref().unwrap().rows - 1;
        let other = manifest.spare_blocks(&group.host.as_ref().unwrap().pool)[0];
        model.mirror(group, (page, row), (other, row)).unwrap();
        assert!(pools.verify(&manifest, &model).is_err(), "{name}");
        let (pools, mut model) = run(&manifest, 2, MODES[0]);
        let spare = manifest.spare_blocks(&group.device.as_ref().unwrap().pool)[0];
        model.lift(group, (block, 0), (spare, 0)).unwrap();
        assert!(pools.verify(&manifest, &model).is_err(), "{name}");
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
        said(model.land(producer, main, (HOST, &[1, 2, 3, 4, 5, 6]), ignore)),
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
fn addresses_by_hand() {
    let manifest = parse(&json!({
        "version": 1, "model": "m", "prompt_tokens": 20, "block_tokens": 8,
        "pools": [
            { "name": "h", "memory": "host", "order": "layers-outermost", "layers": 5, "blocks": 12,
              "blocks_per_extent": 4, "page_bytes": 1000 },
            { "name": "d", "memory": "device", "order": "blocks-outermost", "layers": 5, "blocks": 12,
              "blocks_per_extent": 6, "page_bytes": 2000, "block_padding": 300 }
        ],
        "groups": [{
            "name": "g", "layers": 3, "landing": "host", "lift": "tail", "mirror": true,
            "layout": { "kind": "segments", "tokens_per_row": 1,
                        "segments": [{ "name": "a", "row_bytes": 100 }, { "name": "b", "row_bytes": 10 }] },
            "host": { "pool": "h", "first_layer": 1, "blocks": { "list": [0, 1, 6] } },
            "device": { "pool": "d", "first_layer": 2, "layer_order": "reversed", "row_padding": 6,
                        "blocks": { "list": [8] } }
        }]
    }));
    let group = &manifest.groups()[0];
    let (host, device) = (group.host.as_ref().unwrap(), group.device.as_ref().unwrap());
    // Block 6 is number 2 of extent 1; layer 2 is the pool's layer 3.
    assert_eq!(page_place(group, host, (2, 0), 6), Place { extent: 1, offset: 3 * 4_000 + 2_000 });
    assert_eq!(row_place(group, host, 2, 6, 0, 3), Place { extent: 1, offset: 14_000 + 300 });
    assert_eq!(row_place(group, host, 2, 6, 1, 3), Place { extent: 1, offset: 14_000 + 800 + 30 });
    // Block 8 is number 2 of extent 1; layers 2, 1, 0 are the pool's 2, 3, 4.
    let block = 2 * (5 * 2_000 + 300);
    assert_eq!(page_place(group, device, (2, 0), 8), Place { extent: 1, offset: block + 2 * 2_000 });
    assert_eq!(page_place(group, device, (0, 0), 8), Place { extent: 1, offset: block + 4 * 2_000 });
    assert_eq!(row_place(group, device, 0, 8, 0, 3), Place { extent: 1, offset: block + 8_000 + 3 * 106 });
    assert_eq!(
        row_place(group, device, 0, 8, 1, 3),
        Place { extent: 1, offset: block + 8_000 + 8 * 106 + 3 * 16 }
    );
}

#[test]
fn addresses_above_32_bits() {
    let manifest = parse(&json!({
        "version": 1, "model": "m", "prompt_tokens": 1, "block_tokens": 1,
        "pools": [{ "name": "h", "memory": "host", "order": "layers-outermost", "layers": 1, "blocks": 1_000_000,
                    "page_bytes": 9216 }],
        "groups": [{ "name": "g", "layers": 1, "landing": "host", "lift": "none", "layout": { "kind": "mla-bf16" },
                     "host": { "pool": "h", "blocks": { "list": [999_999] } } }]
    }));
    let group = &manifest.groups()[0];
    let place = page_place(group, group.host.as_ref().unwrap(), (0, 0), 999_999);
    assert_eq!(place, Place { extent: 0, offset: 9_215_990_784 });
}

#[test]
fn slots_of_tokens() {
    let manifest = small("hybrid");
    let slots = |name: &str, position| {
        let group = manifest.groups().iter().find(|group| group.name == name).unwrap();
        slot(group, group.device.as_ref().unwrap(), position).map(|slot| (slot.page, slot.row))
    };
    assert_eq!(slots("main", 70), Some((4, 6)));
    assert_eq!([70, 71, 72].map(|position| slots("index", position)), [None, Some((4, 1)), None]);
    assert_eq!(slots("index", 79), Some((4, 3)));
    // A ring for two drafts: eight slots.
    assert_eq!(
        [70, 71, 72].map(|position| slots("ring", position)),
        [Some((0, 6)), Some((0, 7)), Some((0, 0))]
    );
    assert_eq!(slots("gdn.0", 70), Some((0, 0)));
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

/// A random geometry of one token group, with matching and differing sides.
fn geometries() -> impl Strategy<Value = Value> {
    let segments = proptest::collection::vec(1..40_u32, 1..4);
    let side = (any::<bool>(), 0..3_u32, any::<bool>(), 0..5_u32, 0..9_u64, 0..30_u64, 1..4_u32);
    (segments, 1..4_u32, 0..4_u32, 1..70_u64, side.clone(), side, any::<bool>()).prop_map(
        |(rows, layers, shift, prompt, host, device, all)| {
            let block = 4_u32 << shift;
            let pool = |name: &str, (blocks_outermost, first, _, row_padding, slack, block_padding, extents)| {
                let (blocks_outermost, slack, block_padding): (bool, u64, u64) =
                    (blocks_outermost, slack, block_padding);
                let row_padding: u32 = row_padding;
                let used: u64 =
                    rows.iter().map(|row| u64::from(block) / 2 * u64::from(row + row_padding)).sum();
                json!({
                    "name": name, "memory": name,
                    "order": if blocks_outermost { "blocks-outermost" } else { "layers-outermost" },
                    "layers": layers + first + 1, "blocks": 20 * extents, "blocks_per_extent": 20,
                    "page_bytes": used + slack,
                    "block_padding": if blocks_outermost { block_padding } else { 0 },
                })
            };
            let side = |name: &str, (_, first, reversed, row_padding, ..): (bool, u32, bool, u32, u64, u64, u32)| {
                json!({
                    "pool": name, "first_layer": first, "row_padding": row_padding,
                    "layer_order": if reversed { "reversed" } else { "forward" },
                    "blocks": { "scattered": { "seed": first } },
                })
            };
            let named = |row_bytes| json!({ "name": "s", "row_bytes": row_bytes });
            let segments: Vec<Value> = rows.iter().map(named).collect();
            json!({
                "version": 1, "model": "m", "prompt_tokens": prompt, "block_tokens": block,
                "pools": [pool("host", host), pool("device", device)],
                "groups": [{
                    "name": "g", "layers": layers, "landing": "host", "lift": if all { "all" } else { "tail" },
                    "mirror": true,
                    "layout": { "kind": "segments", "tokens_per_row": 2, "segments": segments },
                    "host": side("host", host), "device": side("device", device),
                }],
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn random_geometries_verify_and_show_any_wrong_byte(
        json in geometries(),
        mode in 0..3_usize,
        steps in 0..9_u64,
        at in any::<proptest::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let manifest = parse(&json);
        let (mut pools, model) = run(&manifest, steps, MODES[mode]);
        let footprint = manifest.footprint();
        prop_assert_eq!(pools.verify(&manifest, &model).unwrap(), footprint.host + footprint.device);
        let mut extents: Vec<&mut Vec<u8>> = pools.0.iter_mut().flatten().collect();
        let extent = at.index(extents.len());
        let offset = at.index(extents[extent].len());
        extents[extent][offset] ^= flip;
        match pools.verify(&manifest, &model) {
            Err(ReferenceError::Mismatch(found)) => {
                let Mismatch { offset: found_at, expected, found, .. } = *found;
                prop_assert_eq!((found_at, expected ^ found), (offset as u64, flip));
            }
            other => prop_assert!(false, "{other:?}"),
        }
    }
}
