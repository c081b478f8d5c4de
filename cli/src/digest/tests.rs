//! Digests over the small manifests; and that what is wrong is noticed, and what means nothing is not.

use std::path::PathBuf;

use pagelift::backends::{Cpu, Emulated};
use pagelift::plan::TailRows;
use pagelift_device::emulation::Shape;

use super::{DigestError, Hex, Options, Report, run};
use crate::manifest::{Group, Manifest, Memory};
use crate::progress::Progress;
use crate::reference::row_place;
use crate::restore::World;

const MODES: [TailRows; 3] = [TailRows::Whole, TailRows::Exact, TailRows::ExactZeroed];

fn small(name: &str) -> Manifest {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    Manifest::load(folder.join(name)).unwrap()
}

fn spoiled(
    manifest: &Manifest,
    mode: TailRows,
    spoil: impl FnOnce(&mut World<'_>),
) -> Result<Report, DigestError> {
    let options = Options { mode, seed: 3, ..Options::default() };
    run(manifest, &Cpu::with_threads(1).unwrap(), options, Progress::new(true), spoil)
}

fn numbers(report: &Report) -> Vec<(Hex, Option<Hex>, Option<Hex>)> {
    report.groups.iter().map(|g| (g.imported, g.lifted_host, g.lifted_device)).collect()
}

#[test]
fn both_sides_agree_in_every_mode_and_launch_shape() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../manifests/small");
    let mut manifests = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let manifest = Manifest::load(entry.unwrap().path()).unwrap();
        let mut first = None;
        for (seed, mode) in (0..).zip(MODES) {
            let one = spoiled(&manifest, mode, |_| {}).unwrap();
            let shape = Shape { blocks: 3, warps: 2, lanes: 32 };
            let emulated = Emulated { shape, seed };
            let options = Options { mode, seed: 3, ..Options::default() };
            let two = run(&manifest, &emulated, options, Progress::new(true), |_| {}).unwrap();
            assert_eq!(numbers(&one), numbers(&two), "{}", manifest.model());
            // The imported rows are the same in each mode.
            assert_eq!(*first.get_or_insert(numbers(&one)), numbers(&one), "{}", manifest.model());
            for group in &one.groups {
                assert_eq!(group.lifted_host, group.lifted_device);
            }
        }
        manifests += 1;
    }
    assert!(manifests >= 5);
}

/// Flips a bit of the last byte of a row.
fn flip(world: &mut World<'_>, group: &Group, memory: Memory, (block, row): (u32, u32)) {
    let side = group.side(memory).unwrap();
    let segment = group.shape.segments.len() - 1;
    let place = row_place(group, side, group.layers - 1, block, segment, row);
    let end = place.offset as usize + group.shape.segments[segment].row_bytes as usize;
    let id = world.extent(side.pool.index, place.extent as usize);
    world.memory.bytes_mut(id).unwrap()[end - 1] ^= 0x10;
}

#[test]
fn a_wrong_bit_is_told_with_its_group_and_side() {
    let manifest = small("unaligned.json");
    for (group, memory, what) in
        [(0, Memory::Device, "lifted rows on the device"), (1, Memory::Host, "imported rows")]
    {
        let group = &manifest.groups()[group];
        let side = group.side(memory).unwrap();
        let spoil = |world: &mut World<'_>| flip(world, group, memory, (*side.blocks.last().unwrap(), 4));
        let error = spoiled(&manifest, TailRows::Whole, spoil).unwrap_err();
        let words = error.to_string();
        assert!(matches!(error, DigestError::Differs { .. }), "{words}");
        assert!(words.contains(&format!("`{}`", group.name)) && words.contains(what), "{words}");
        assert_eq!(crate::Failure::from(error).code, crate::exit::FAILED);
    }
}

#[test]
fn holes_are_in_no_digest() {
    let manifest = small("unaligned.json");
    let group = &manifest.groups()[0];
    let before = spoiled(&manifest, TailRows::Whole, |_| {}).unwrap();
    for memory in [Memory::Host, Memory::Device] {
        let last = *group.side(memory).unwrap().blocks.last().unwrap();
        let after =
            spoiled(&manifest, TailRows::Whole, |world| flip(world, group, memory, (last, 5))).unwrap();
        assert_eq!(numbers(&before), numbers(&after));
    }
}
