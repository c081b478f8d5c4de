//! Gathers over the small manifests, in every launch shape; and that what is wrong is noticed.

use std::path::PathBuf;

use pagelift::backends::{Backend, Cpu, Emulated};
use pagelift::plan::{HostToDevice, SlotWidth};
use pagelift_device::emulation::Shape;

use super::rows::{self, Buffer};
use super::{GatherError, Options, Report, run};
use crate::manifest::{Group, Manifest, Memory, SplitMix64};
use crate::progress::Progress;
use crate::reference::Model;
use crate::restore::World;

fn small(name: &str) -> Manifest {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    Manifest::load(folder.join(name)).unwrap()
}

fn options(from: Memory, seed: u64) -> Options<'static> {
    Options { group: None, from, blocks: Some(5), rows: Some(33), seed }
}

fn gathered(manifest: &Manifest, backend: impl Backend, options: Options<'_>) -> Report {
    run(manifest, &backend, options, Progress::new(true)).unwrap()
}

#[test]
fn every_small_manifest_in_both_directions_and_many_launch_shapes() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    let (mut blocks, mut copied, mut skipped) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let manifest = Manifest::load(entry.unwrap().path()).unwrap();
        for (seed, from) in (0..).zip([Memory::Host, Memory::Device, Memory::Host, Memory::Device]) {
            let shape = Shape { blocks: 1 + seed as u32, warps: 2, lanes: if seed < 2 { 32 } else { 1 } };
            let emulated = Emulated { shape, seed };
            let one = gathered(&manifest, emulated, options(from, seed));
            let two = gathered(&manifest, Cpu::with_threads(2).unwrap(), options(from, seed));
            assert_eq!(one.launches, 3, "{}", manifest.model());
            let account = |report: &Report| -> Vec<_> {
                report
                    .rows
                    .iter()
                    .map(|done| (done.group.clone(), done.index, done.rows, done.bytes))
                    .collect()
            };
            assert_eq!(account(&one), account(&two), "{}", manifest.model());
            for done in &one.rows {
                // An eighth of the entries lies past the count.
                assert_eq!((done.count, done.rows + done.skipped), (29, 29), "{}", done.group);
                (copied, skipped) = (copied + done.rows, skipped + done.skipped);
            }
            blocks += one.blocks.iter().map(|done| done.sources + done.destinations).sum::<usize>();
        }
    }
    assert!(blocks > 100 && copied > 1000 && skipped > 100, "{blocks} {copied} {skipped}");
}

#[test]
fn lists_follow_from_the_seed() {
    let manifest = small("hybrid.json");
    let bytes = |seed| {
        let report = gathered(&manifest, Cpu::with_threads(1).unwrap(), options(Memory::Host, seed));
        report.rows.iter().map(|done| done.rows).collect::<Vec<_>>()
    };
    assert_eq!(bytes(4), bytes(4));
    assert_ne!(bytes(4), bytes(5));
}

/// A world with a compact buffer for each group that has rows.
fn with_buffers<'m>(manifest: &'m Manifest, backend: &Cpu) -> (World<'m>, Vec<Buffer<'m, HostToDevice>>) {
    let groups: Vec<&Group> = manifest.groups().iter().collect();
    let sizes = rows::sizes(manifest, &groups, Memory::Host, 20).unwrap();
    let (mut world, buffers) =
        World::with(manifest, backend, Progress::new(true), |builder, keys, memory| {
            sizes
                .into_iter()
                .map(|size| size.place(builder, keys, memory, backend))
                .collect::<Result<Vec<_>, _>>()
        })
        .unwrap();
    world.fill(&Model::new(manifest, 3), Progress::new(true)).unwrap();
    (world, buffers)
}

#[test]
fn rows_that_were_not_gathered_are_noticed() {
    let manifest = small("unaligned.json");
    let backend = Cpu::with_threads(1).unwrap();
    let (mut world, buffers) = with_buffers(&manifest, &backend);
    for buffer in &buffers {
        let drawn = buffer.draw(20, SlotWidth::I64, &mut SplitMix64::new(7));
        let (image, gathered) = buffer.expected(&mut world, &drawn, SlotWidth::I64, 9).unwrap();
        assert!(gathered.rows > 0);
        let error = buffer.compare(&world, &image, &gathered).unwrap_err();
        assert!(matches!(error, GatherError::Differs { width: "i64", .. }), "{error}");
        assert_eq!(crate::Failure::from(error).code, crate::exit::FAILED);
    }
}

#[test]
fn a_stray_byte_is_noticed_wherever_it_is() {
    let manifest = small("unaligned.json");
    let backend = Cpu::with_threads(1).unwrap();
    let (mut world, buffers) = with_buffers(&manifest, &backend);
    let buffer = &buffers[0];
    let drawn = buffer.draw(0, SlotWidth::I32, &mut SplitMix64::new(7));
    let (image, gathered) = buffer.expected(&mut world, &drawn, SlotWidth::I32, 9).unwrap();
    assert_eq!(buffer.compare(&world, &image, &gathered).unwrap(), image.len() as u64);
    // The first byte, one of the gap after a layer, and the last.
    for byte in [0, 20 * 656 + 1, image.len() - 1] {
        world.memory.bytes_mut(buffer.region).unwrap()[byte] ^= 1;
        let error = buffer.compare(&world, &image, &gathered).unwrap_err();
        assert!(matches!(error, GatherError::Differs { byte: at, .. } if at == byte), "{error}");
        world.memory.bytes_mut(buffer.region).unwrap()[byte] ^= 1;
    }
}
