//! What a program tells the driver's library beside CUDA's calls, as tests in Rust tell a [`Machine`]. The names are no driver's.

use std::ffi::c_int;

use crate::machine::{Live, Machine, Pace};

/// The machine of the process.
fn machine() -> Option<Machine> {
    Machine::of_process()
}

/// As [`Machine::fail`].
#[unsafe(no_mangle)]
extern "C" fn fake_driver_fail(after: usize, code: c_int) {
    if let Some(machine) = machine() {
        machine.fail(after, code);
    }
}

/// As [`Machine::spare`].
#[unsafe(no_mangle)]
extern "C" fn fake_driver_spare() -> bool {
    machine().is_some_and(|machine| machine.spare())
}

/// As [`Machine::pace`] and [`Machine::seed`]: 0 is late, 1 early, 2 random.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_pace(pace: c_int, seed: u64) {
    let pace = match pace {
        0 => Pace::Late,
        1 => Pace::Early,
        _ => Pace::Random,
    };
    if let Some(machine) = machine() {
        machine.seed(seed);
        machine.pace(pace);
    }
}

/// As [`Machine::calls`]: how many there were.
#[unsafe(no_mangle)]
extern "C" fn fake_driver_calls() -> usize {
    machine().map_or(0, |machine| machine.calls().len())
}

/// As [`Machine::enqueued`].
#[unsafe(no_mangle)]
extern "C" fn fake_driver_enqueued() -> usize {
    machine().map_or(0, |machine| machine.enqueued())
}

/// As [`Machine::live`], in the order of its fields.
///
/// # Safety
/// 1. Eight words may be written at `to`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fake_driver_live(to: *mut [usize; 8]) {
    let live = machine().map(|machine| machine.live()).unwrap_or_default();
    let Live { contexts, streams, events, graphs, executables, device, host, registered } = live;
    // SAFETY: (1) is ours.
    unsafe { to.write([contexts, streams, events, graphs, executables, device, host, registered]) };
}
