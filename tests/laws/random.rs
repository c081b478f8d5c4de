//! Whole random cases, on every backend: plans of every kind over random memory, and every byte compared.

use pagelift::plan::{DeviceToDevice, DeviceToHost, HostToDevice};
use pagelift_cases::draw::Draw;
use pagelift_cases::tables;

use crate::backends::Subject;
use crate::world::World;

/// Lifts, and blocks that are gathered to the device.
pub fn lifts<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::pages::<HostToDevice>(draw, backend, model, pools);
    });
}

/// Spills, checkpoints, and pages that are gathered to the host.
pub fn writes_back<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::pages::<DeviceToHost>(draw, backend, model, pools);
    });
}

/// Pages that are gathered to others.
pub fn moves<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::pages::<DeviceToDevice>(draw, backend, model, pools);
    });
}

/// Mirrors, and rows that are gathered by index lists to the host.
pub fn mirrors<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::rows::<DeviceToHost>(draw, backend, model, pools);
    });
}

/// Rows that are gathered by index lists on the device.
pub fn gathers<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::rows::<DeviceToDevice>(draw, backend, model, pools);
    });
}

/// Digests of whatever lies in memory.
pub fn digests<S: Subject>(seed: u64, size: u32) {
    play::<S>(seed, size, |draw, backend, World { model, pools }| {
        tables::digests(draw, backend, model, pools);
    });
}

fn play<S: Subject>(seed: u64, size: u32, case: impl FnOnce(&mut Draw, &S::Backend, &mut World)) {
    let mut draw = Draw::seeded(seed);
    let backend = S::backend(draw.number());
    let mut world = World::random(&mut draw, size, &backend);
    case(&mut draw, &backend, &mut world);
}
