//! The laws of a mover, run over both.
//!
//! The bulk ring below the laws is as late as the hardware may be: take any of its waits out, and they fail.
use std::marker::PhantomData;

use pagelift_device::emulation::{self, Shape};
use pagelift_device::{BulkRing, Kernel, Lanes, Mover, STAGE_BYTES, STAGES, warp, warps};

/// Runs dealt to the warps of a launch: each is copied, or zeroed where it has no source.
#[derive(Clone, Copy)]
struct Runs<'a>(&'a [Run]);

#[derive(Clone, Copy, Debug)]
struct Run {
    source: Option<u64>,
    destination: u64,
    bytes: u32,
    width: u32,
}

/// The kernel that moves them by `M`.
struct Move<'a, M>(PhantomData<&'a M>);

impl<'a, M> Kernel for Move<'a, M>
where
    M: Mover + 'a,
{
    type Args = Runs<'a>;
    const NAME: &'static str = "move";

    unsafe fn run(Runs(runs): Runs<'a>) {
        // SAFETY: (1) one mover a thread; (2) the host asks for nothing.
        let mut mover = unsafe { M::new() };
        for run in runs.iter().skip(warp() as usize).step_by(warps() as usize) {
            // SAFETY: (1) to (4) each run is within the buffers of its test and named once, and all lanes come by.
            unsafe {
                match run.source {
                    Some(source) => mover.copy(source, run.destination, run.bytes, run.width),
                    None => mover.zero(run.destination, run.bytes, run.width),
                }
            }
        }
        // SAFETY: (1) all lanes end here.
        unsafe { mover.finish() };
    }
}

fn launch<M: Mover>(shape: Shape, seed: u64, runs: &[Run]) {
    // SAFETY: (1) the runs are within the buffers of the test.
    unsafe { emulation::run::<Move<'_, M>>(shape, seed, Runs(runs)) };
}

/// Reproducible numbers that are not a pattern.
fn random(count: usize, seed: u64) -> Vec<u128> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u128::from(state).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
    };
    (0..count).map(|_| next()).collect()
}

fn bytes(words: &[u128]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Copies runs of these lengths, one behind the other with a gap between them; compares the whole destination.
fn lengths_are_moved<M: Mover>(lengths: &[u32], width: u32, zero: bool) {
    // An offset that keeps the promise of `width` and no wider one.
    let offset = if width == 16 { 0 } else { width };
    let total = lengths.iter().map(|length| (length + 96).next_multiple_of(16)).sum::<u32>() as usize;
    for lanes in [1, 32] {
        for (blocks, warps, seed) in [(1, 1, 1), (1, 3, 2), (4, 2, 3)] {
            let (source, mut destination) = (random(total / 16, seed), random(total / 16, !seed));
            let (mut want, from) = (bytes(&destination), bytes(&source));
            let bases = [
                source.as_ptr().expose_provenance() as u64,
                destination.as_mut_ptr().expose_provenance() as u64,
            ];
            let (mut at, mut runs) = (32, Vec::new());
            for &length in lengths {
                let start = at as usize + offset as usize;
                let range = start..start + length as usize;
                if zero {
                    want[range].fill(0);
                } else {
                    want[range.clone()].copy_from_slice(&from[range]);
                }
                let [source, destination] = bases.map(|base| base + start as u64);
                runs.push(Run { source: (!zero).then_some(source), destination, bytes: length, width });
                at += (length + 64).next_multiple_of(16);
            }
            launch::<M>(Shape { blocks, warps, lanes }, seed, &runs);
            assert!(bytes(&destination) == want, "width {width}, {lanes} lanes, {blocks} × {warps} warps");
        }
    }
}

/// Each law, over each mover.
macro_rules! laws {
    ($($mover:ident: $module:ident;)*) => {$(
        mod $module {
            use super::*;

            #[test]
            fn every_length_is_moved_whole() {
                for width in [16, 8, 4, 2, 1] {
                    // Up to some rounds of all lanes, and just around them.
                    let lengths: Vec<u32> = (0..140).chain([255, 256, 257, 511, 512, 513]).map(|n| n * width).collect();
                    lengths_are_moved::<$mover>(&lengths, width, false);
                    lengths_are_moved::<$mover>(&lengths, width, true);
                }
            }

            #[test]
            fn many_runs_pass_through() {
                // Short ones between long ones, full slots, slots and a bit, and far more than fit at once.
                let stage = STAGE_BYTES;
                let lengths = [stage, 16, 2 * stage, stage + 16, 512, 528, 1152, 2 * stage - 16, 0, 4096];
                let lengths: Vec<u32> = lengths.into_iter().cycle().take(10 * STAGES as usize).collect();
                lengths_are_moved::<$mover>(&lengths, 16, false);
            }

            #[test]
            #[should_panic(expected = "is misaligned")]
            fn a_misaligned_source_fails() {
                misaligned::<$mover>([8, 0], 2048);
            }

            #[test]
            #[should_panic(expected = "is misaligned")]
            fn a_misaligned_destination_fails() {
                misaligned::<$mover>([0, 4], 2048);
            }

            #[test]
            #[should_panic(expected = "is misaligned")]
            fn a_tail_shorter_than_the_width_fails() {
                misaligned::<$mover>([0, 0], 2052);
            }

            #[test]
            fn the_engine_moves_what_the_emulation_refuses() {
                let (source, mut destination) = (random(256, 1), random(256, 2));
                let mut want = bytes(&destination);
                want[4..2056].copy_from_slice(&bytes(&source)[8..2060]);
                let run = Run {
                    source: Some(source.as_ptr().expose_provenance() as u64 + 8),
                    destination: destination.as_mut_ptr().expose_provenance() as u64 + 4,
                    bytes: 2052,
                    width: 16,
                };
                launch::<$mover>(Shape { blocks: 1, warps: 1, lanes: 1 }, 0, &[run]);
                assert!(bytes(&destination) == want);
            }
        }
    )*};
}

/// A run of width 16 that does not keep that promise.
fn misaligned<M: Mover>([source, destination]: [u64; 2], length: u32) {
    let (from, mut to) = (random(256, 1), random(256, 2));
    let run = Run {
        source: Some(from.as_ptr().expose_provenance() as u64 + source),
        destination: to.as_mut_ptr().expose_provenance() as u64 + destination,
        bytes: length,
        width: 16,
    };
    launch::<M>(Shape { blocks: 1, warps: 1, lanes: 32 }, 0, &[run]);
}

laws! {
    Lanes: lanes;
    BulkRing: bulk_ring;
}
