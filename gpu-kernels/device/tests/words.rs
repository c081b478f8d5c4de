//! Reads of runs, word by word.

use pagelift_device::emulation::{self, Shape};
use pagelift_device::{Kernel, add_u64, each_word, lane, warp};

/// Where a run lies, and where what was seen of it goes: to `words` the sum and the number of each word's sightings, and
/// to `readers` a bit for each lane that saw any.
#[derive(Clone, Copy)]
struct Seen {
    source: u64,
    bytes: u32,
    width: u32,
    words: u64,
    readers: u64,
}

/// Reads the run with one warp.
enum Read {}

impl Kernel for Read {
    type Args = Seen;
    const NAME: &'static str = "read";

    unsafe fn run(args: Seen) {
        assert_eq!(warp(), 0);
        let mut any = 0;
        // SAFETY: (1, 2) the run is one of the test's, and has this width, or the test is that it has not. For each word
        // there are two sums, and one for the lanes (1).
        unsafe {
            each_word(args.source, args.bytes, args.width, |index, word| {
                add_u64(args.words + u64::from(index) * 16, word.into());
                add_u64(args.words + u64::from(index) * 16 + 8, 1);
                any = 1;
            });
            add_u64(args.readers, any << lane());
        }
    }
}

/// The words that the lanes of a warp see of a run, how often each, and which lanes saw any.
fn seen(run: &[u8], width: u32, lanes: u32) -> (Vec<[u64; 2]>, u64) {
    let mut words = vec![[0; 2]; run.len().div_ceil(4) + 1];
    let mut readers = 0u64;
    let args = Seen {
        source: run.as_ptr().expose_provenance() as u64,
        bytes: run.len() as u32,
        width,
        words: words.as_mut_ptr().expose_provenance() as u64,
        readers: (&raw mut readers).expose_provenance() as u64,
    };
    // SAFETY: (1) there are sums for all words of the run.
    unsafe { emulation::run::<Read>(Shape { blocks: 1, warps: 1, lanes }, 3, args) };
    assert_eq!(words.pop(), Some([0; 2]));
    (words, readers)
}

/// Bytes without a pattern, which begin at a multiple of 16.
fn memory() -> Vec<u128> {
    (1..170u128).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)).collect()
}

fn bytes(memory: &[u128]) -> &[u8] {
    // SAFETY: these are the bytes of the slice, for as long as it is borrowed.
    unsafe { std::slice::from_raw_parts(memory.as_ptr().cast(), size_of_val(memory)) }
}

#[test]
fn each_word_is_seen_once_and_the_last_one_filled_with_zeros() {
    let memory = memory();
    let bytes = bytes(&memory);
    for width in [16, 8, 4, 2, 1] {
        let offset = if width == 16 { 0 } else { width };
        // Just around some rounds of all lanes, and all short ones.
        for length in (0..70).chain([127, 128, 129, 150, 160]) {
            let run = &bytes[offset as usize..][..(length * width) as usize];
            let want: Vec<[u64; 2]> = run
                .chunks(4)
                .map(|word| [word.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), 1])
                .collect();
            for lanes in [1, 32] {
                let (words, readers) = seen(run, width, lanes);
                assert_eq!(words, want, "{length} accesses of {width} bytes, {lanes} lanes");
                let sharing = run.len().div_ceil(width.max(4) as usize).min(lanes as usize);
                assert_eq!(readers.count_ones() as usize, sharing);
            }
        }
    }
}

#[test]
#[should_panic(expected = "a load of width 8 is misaligned")]
fn a_misaligned_run_fails() {
    seen(&bytes(&memory())[4..36], 8, 32);
}

#[test]
#[should_panic(expected = "a load of width 8 is misaligned")]
fn a_tail_shorter_than_the_width_fails() {
    seen(&bytes(&memory())[..36], 8, 32);
}

#[test]
fn sums_wrap() {
    let mut sum = u64::MAX - 1;
    // SAFETY: (1) the sum is this test's.
    unsafe { add_u64((&raw mut sum).expose_provenance() as u64, 5) };
    assert_eq!(sum, 3);
}
