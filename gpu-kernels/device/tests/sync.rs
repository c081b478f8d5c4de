//! How the threads of a launch find out that they were the last.

use pagelift_device::emulation::{self, Shape};
use pagelift_device::{Kernel, add, arrive_last, lane, store_release_system, warp, warps};

/// What a launch of [`Finish`] leaves behind.
#[derive(Default)]
struct Report {
    arrived: u32,
    /// Threads that had come by before they arrived.
    present: u32,
    /// How many were present when the last one arrived.
    seen: u64,
    /// How many were told that they were the last.
    last: u32,
}

/// Counts its threads, and then the last ones among them.
enum Finish {}

impl Kernel for Finish {
    type Args = u64;
    const NAME: &'static str = "finish";

    unsafe fn run(report: u64) {
        let field = |offset: usize| report + offset as u64;
        // SAFETY: (1) the fields of the report are counters, touched only here and atomically; (2) all threads get here.
        unsafe {
            add(field(std::mem::offset_of!(Report, present)), 1);
            if arrive_last(field(std::mem::offset_of!(Report, arrived))) {
                let present: u32 = pagelift_device::read(field(std::mem::offset_of!(Report, present)));
                store_release_system(field(std::mem::offset_of!(Report, seen)), present.into());
                add(field(std::mem::offset_of!(Report, last)), 1);
            }
        }
    }
}

fn address(report: &mut Report) -> u64 {
    (&raw mut *report).expose_provenance() as u64
}

#[test]
fn one_thread_is_the_last_of_each_launch_and_sees_all_others() {
    let mut report = Report::default();
    for launch in 1..=3 {
        for (blocks, warps, lanes) in [(1, 1, 1), (3, 2, 32), (4, 1, 1)] {
            (report.present, report.last) = (0, 0);
            // SAFETY: (1) the report has all that the kernel counts.
            unsafe { emulation::run::<Finish>(Shape { blocks, warps, lanes }, launch, address(&mut report)) };
            assert_eq!((report.arrived, report.last), (0, 1));
            assert_eq!(report.seen, u64::from(blocks * warps * lanes));
        }
    }
}

#[test]
fn warps_on_threads_of_the_system_agree_on_the_last() {
    let mut report = Report::default();
    for _ in 0..50 {
        (report.present, report.last) = (0, 0);
        let address = address(&mut report);
        std::thread::scope(|scope| {
            for index in 0..4 {
                // SAFETY: (1) as above; (2) each index runs once.
                scope.spawn(move || unsafe { emulation::run_warp::<Finish>(index, 4, address) });
            }
        });
        assert_eq!((report.arrived, report.last, report.seen), (0, 1, 4));
    }
}

/// Neighbouring warps lie in different blocks, and each number is some warp's.
#[test]
fn warps_are_numbered_across_blocks() {
    /// Writes the number of its block, counted by itself, at the number of its warp.
    enum Number {}
    impl Kernel for Number {
        type Args = u64;
        const NAME: &'static str = "number";
        unsafe fn run(blocks: u64) {
            assert_eq!(warps(), 6);
            if lane() == 0 {
                // SAFETY: (1) there is a counter for each warp.
                unsafe { add(blocks + 4 * u64::from(warp()), pagelift_device::thread::block_idx_x() + 1) };
            }
        }
    }
    for lanes in [1, 32] {
        let mut blocks = [0u32; 6];
        // SAFETY: (1) there are as many counters as warps.
        unsafe {
            let shape = Shape { blocks: 3, warps: 2, lanes };
            emulation::run::<Number>(shape, 5, blocks.as_mut_ptr().expose_provenance() as u64);
        }
        assert_eq!(blocks, [1, 2, 3, 1, 2, 3]);
    }
}
