//! The whole job over the small manifests, on every backend; and that a wrong byte is noticed.

use std::path::PathBuf;

use pagelift::backends::{Backend, Cpu, Emulated};
use pagelift::plan::TailRows;
use pagelift_device::emulation::Shape;
use serde_json::Value;

use super::frames::Frames;
use super::world::World;
use super::{Options, Report, RestoreError, import, run};
use crate::manifest::{Manifest, SplitMix64};
use crate::progress::Progress;
use crate::reference::{Model, ReferenceError};

const MODES: [TailRows; 3] = [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed];

fn small(name: &str) -> Manifest {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    Manifest::load(folder.join(name)).unwrap()
}

fn all_small() -> Vec<(String, Manifest)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 5, "the small manifests are gone: {names:?}");
    names.into_iter().map(|name| (name.clone(), small(&name))).collect()
}

fn restore(manifest: &Manifest, backend: impl Backend, mode: TailRows, generate: u32) -> Report {
    let options = Options { mode, generate, seed: 7, ..Options::default() };
    run(manifest, backend, options, Progress::new(true)).unwrap()
}

/// A launch shape, and an order of threads.
fn emulated(blocks: u32, warps: u32, lanes: u32, seed: u64) -> Emulated {
    Emulated { shape: Shape { blocks, warps, lanes }, seed }
}

#[test]
fn all_small_manifests_verify_in_all_modes_on_the_cpu() {
    for (name, manifest) in all_small() {
        for mode in MODES {
            let one = restore(&manifest, Cpu::with_threads(1).unwrap(), mode, 300);
            let two = restore(&manifest, Cpu::with_threads(2).unwrap(), mode, 300);
            assert!(one.verified && one.generated_tokens == 300, "{name}");
            assert_eq!((one.lift_launches, one.mirror_launches), (1, one.steps), "{name}");
            let account = |report: &Report| {
                (report.bytes_lifted, report.rows_mirrored, report.rows_skipped, report.pages_sealed)
            };
            assert_eq!(account(&one), account(&two), "{name}");
        }
    }
}

#[test]
fn all_small_manifests_verify_in_any_launch_shape_and_order() {
    for (name, manifest) in all_small() {
        for (seed, mode) in (0..6).zip(MODES.into_iter().cycle()) {
            let shape = [(1, 1, 32), (2, 3, 32), (3, 1, 1), (5, 2, 32)][seed as usize % 4];
            let report = restore(&manifest, emulated(shape.0, shape.1, shape.2, seed), mode, 40);
            assert!(report.verified, "{name}, seed {seed}");
        }
    }
}

#[test]
fn the_planner_and_the_manifest_agree_on_every_number_of_the_prompt() {
    for (name, manifest) in all_small() {
        let report = restore(&manifest, Cpu::with_threads(1).unwrap(), TailRows::Exact, 0);
        let span = manifest.span();
        assert_eq!(report.imported.imported_tokens, span.imported_tokens, "{name}");
        assert_eq!(report.imported.resume_at, span.resume_at, "{name}");
        assert_eq!(u64::from(report.imported.host_blocks), span.received_blocks(), "{name}");
        let block = u64::from(span.block_tokens);
        assert_eq!(report.imported.capacity, span.received_blocks() * block, "{name}");
        assert_eq!(report.imported.holes, report.imported.capacity - span.imported_tokens, "{name}");
        assert_eq!(u64::from(report.imported.tail_page), span.tail_page(), "{name}");
        let before_tail = span.tail_page() * block;
        assert_eq!(report.imported.tail_tokens, span.imported_tokens.saturating_sub(before_tail), "{name}");
        assert_eq!(report.launches, 1, "one launch lifts all groups of {name}");
    }
}

/// Data that is equally wrong on both sides would let any test pass: spoil one byte, and see it found.
#[test]
fn case_25_one_wrong_byte_anywhere_is_noticed() {
    for (name, manifest) in all_small() {
        let backend = Cpu::with_threads(1).unwrap();
        let quiet = Progress::new(true);
        let mut world = World::new(&manifest, &backend, quiet).unwrap();
        let mut model = Model::new(&manifest, 3);
        world.fill(&model, quiet).unwrap();
        let options = Options { mode: TailRows::Exact, seed: 3, ..Options::default() };
        import(&mut world, &mut model, &backend, options, quiet).unwrap();
        world.verify(&model, "", quiet).unwrap();
        let pool_count = manifest.pools().len();
        let last_extents = manifest.pools()[pool_count - 1].extents() as usize;
        for draw in 0..60 {
            let pool = SplitMix64::at(draw, 0) as usize % manifest.pools().len();
            let pool_of = &manifest.pools()[pool];
            let extent = SplitMix64::at(draw, 1) as u32 % pool_of.extents();
            let region = world.extent(pool, extent as usize);
            let bytes = world.memory.bytes_mut(region).unwrap();
            let at = SplitMix64::at(draw, 2) as usize % bytes.len();
            let bit = 1 << (SplitMix64::at(draw, 3) % 8);
            bytes[at] ^= bit;
            // The spoilt extent alone: the others are compared before and after.
            match model.verify(pool_of, extent, world.memory.bytes(region).unwrap(), |_| ()) {
                Err(ReferenceError::Mismatch(mismatch)) => {
                    assert_eq!((mismatch.extent, mismatch.offset), (extent, at as u64), "{name}");
                }
                other => panic!("{name}: byte {at} of pool {pool} was spoilt, and: {other:?}"),
            }
            world.memory.bytes_mut(region).unwrap()[at] ^= bit;
        }
        // Through the whole, too: one byte of the last pool's last extent.
        let region = world.extent(pool_count - 1, last_extents - 1);
        *world.memory.bytes_mut(region).unwrap().last_mut().unwrap() ^= 1;
        let error = world.verify(&model, "", quiet).unwrap_err();
        assert!(matches!(error, RestoreError::Reference(ReferenceError::Mismatch(_))), "{name}: {error}");
        *world.memory.bytes_mut(region).unwrap().last_mut().unwrap() ^= 1;
        world.verify(&model, "", quiet).unwrap();
    }
}

/// A small manifest in which one value is replaced.
fn changed(name: &str, pointer: &str, value: Value) -> Manifest {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small").join(name);
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[key] = value;
    Manifest::parse(json.to_string().as_bytes(), &path).unwrap()
}

/// A page laid out in another way than the manifest says would be taken for right if the reference asked the planner.
#[test]
fn case_25_a_page_laid_out_otherwise_is_noticed() {
    let others: [(&str, &str, Value); 9] = [
        ("unaligned.json", "/groups/0/device/row_padding", 8.into()),
        ("unaligned.json", "/groups/0/device/first_layer", 8.into()),
        ("unaligned.json", "/groups/1/device/layer_order", "reversed".into()),
        ("gqa.json", "/groups/0/device/head_order", "nhd".into()),
        ("gqa.json", "/groups/0/device/first_layer", 0.into()),
        ("gqa.json", "/groups/0/layout/head_dim", 16.into()),
        ("gqa-scales.json", "/groups/0/device/head_order", "hnd".into()),
        ("gqa-scales.json", "/groups/0/host/head_order", "nhd".into()),
        ("kernel-pages.json", "/groups/0/device/head_order", "nhd".into()),
    ];
    for (name, pointer, value) in others {
        let (manifest, backend, quiet) = (small(name), Cpu::with_threads(1).unwrap(), Progress::new(true));
        let other = changed(name, pointer, value);
        let mut world = World::new(&manifest, &backend, quiet).unwrap();
        let mut model = Model::new(&other, 3);
        world.fill(&model, quiet).unwrap();
        let options = Options { seed: 3, ..Options::default() };
        import(&mut world, &mut model, &backend, options, quiet).unwrap();
        let error = world.verify(&model, "", quiet).unwrap_err();
        assert!(
            matches!(error, RestoreError::Reference(ReferenceError::Mismatch(_))),
            "{name}: {pointer}: {error}"
        );
    }
}

#[test]
fn case_07_any_prompt_verifies_over_pages_of_other_sizes_than_blocks() {
    let seams = [1, 15, 64, 65, 127, 128, 129, 192, 193, 255, 256, 257];
    for (prompt, mode) in seams.into_iter().zip(MODES.into_iter().cycle()) {
        let manifest = changed("kernel-pages.json", "/prompt_tokens", prompt.into());
        let report = restore(&manifest, Cpu::with_threads(2).unwrap(), mode, 140);
        // The largest pages have 256 tokens.
        assert!(report.verified && report.pages_sealed == (prompt - 1 + 140) / 256, "{prompt} tokens");
    }
}

#[test]
fn tokens_without_blocks_are_refused_before_anything_runs() {
    let manifest = small("unaligned.json");
    let options = Options { generate: 1_000_000, seed: 1, ..Options::default() };
    let error = run(&manifest, Cpu::with_threads(1).unwrap(), options, Progress::new(true)).unwrap_err();
    assert!(matches!(error, RestoreError::PoolTooSmall { .. }), "{error}");
    assert!(error.to_string().contains("give it more blocks"), "{error}");
    // What it says fits does, and one more token does not.
    for (name, manifest) in all_small() {
        let options = |generate| Options { generate, ..options };
        let refused = Frames::new(&manifest, u32::MAX, false).unwrap_err();
        let RestoreError::PoolTooSmall { most, .. } = refused else { panic!("{name}: {refused}") };
        let most = u32::try_from(most).unwrap();
        assert!(Frames::new(&manifest, most + 1, false).is_err(), "{name}: {most}");
        let report = run(&manifest, Cpu::with_threads(1).unwrap(), options(most), Progress::new(true));
        assert_eq!(report.unwrap().generated_tokens, most, "{name}");
    }
}
