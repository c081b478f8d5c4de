//! The laws of moves: what is copied or zeroed, against plain loops, and that nothing else is touched.
#![allow(clippy::expect_used, reason = "a test says what it expects by panicking")]

use std::marker::PhantomData;

use pagelift_device::emulation::{self, Shape};
use pagelift_device::{Kernel, RowPipeline, Rows, copy_rows, warp, warps, zero_rows};

/// As a GPU runs, and as the engine does.
const LANES: [u32; 2] = [32, 1];

const WIDTHS: [u32; 5] = [16, 8, 4, 2, 1];

/// Rows to copy, or to zero where they have no source.
#[derive(Clone, Copy, Debug)]
struct Move {
    source: Option<Rows>,
    destination: Rows,
    rows: u32,
    row_bytes: u32,
    width: u32,
}

/// Makes moves, dealt to the warps of a launch.
struct Moves<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Moves<'a> {
    type Args = &'a [Move];
    const NAME: &'static str = "moves";

    unsafe fn run(moves: &'a [Move]) {
        for of in moves.iter().skip(warp() as usize).step_by(warps() as usize) {
            // SAFETY: (1) the rows have this width, or the test is that they have not; (2, 3) they lie in the buffers of the
            // test, and no two moves write the same; (4) all lanes come by.
            unsafe {
                match of.source {
                    Some(source) => copy_rows(source, of.destination, of.rows, of.row_bytes, of.width),
                    None => zero_rows(of.destination, of.rows, of.row_bytes, of.width),
                }
            }
        }
    }
}

/// Copies the first row of each move by a pipeline, which is finished or forgotten.
struct Pipe<'a, const FINISHED: bool>(PhantomData<&'a ()>);

impl<'a, const FINISHED: bool> Kernel for Pipe<'a, FINISHED> {
    type Args = &'a [Move];
    const NAME: &'static str = "pipe";

    unsafe fn run(moves: &'a [Move]) {
        let mut pipeline = RowPipeline::new();
        for of in moves.iter().skip(warp() as usize).step_by(warps() as usize) {
            let source = of.source.expect("pipelines copy");
            // SAFETY: (1) the row has this width, or the test is that it has not; (2, 3) it lies in the buffers of the test,
            // and no two moves write the same; (4) all lanes come by, and finish unless the test is that they do not.
            unsafe { pipeline.copy(source.address, of.destination.address, of.row_bytes, of.width) };
        }
        if FINISHED {
            pipeline.finish();
        }
    }
}

fn launch<'a, K: Kernel<Args = &'a [Move]>>(shape: Shape, seed: u64, moves: &'a [Move]) {
    // SAFETY: (1) the moves are within the buffers of the test.
    unsafe { emulation::run::<K>(shape, seed, moves) };
}

const fn one_warp(lanes: u32) -> Shape {
    Shape { blocks: 1, warps: 1, lanes }
}

/// Reproducible numbers that are not a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end)) as u32
    }

    /// Memory that begins at a multiple of 16.
    fn memory(&mut self, words: usize) -> Vec<u128> {
        let mut next = || u128::from(self.next()).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        (0..words).map(|_| next()).collect()
    }
}

fn bytes(words: &[u128]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Rows of a test: how many, and how long in accesses of their width.
#[derive(Clone, Copy)]
struct Size {
    rows: u32,
    pieces: u32,
    width: u32,
}

/// Source and destination, and moves between them, with gaps between rows and around them.
struct World {
    source: Vec<u128>,
    destination: Vec<u128>,
    moves: Vec<Move>,
    /// What the destination is to hold in the end.
    want: Vec<u8>,
}

impl World {
    fn new(sizes: &[Size], zero: bool, random: &mut Random) -> Self {
        // Where each begins, from the beginning of either memory, and how far its rows lie apart.
        let mut ends = [32; 2];
        let mut places = Vec::new();
        for &Size { rows, pieces, width } in sizes {
            let place = ends.map(|end: u32| {
                // An offset that keeps the promise of `width` and no wider one.
                let start = end.next_multiple_of(16) + if width == 16 { 0 } else { width };
                (start, (pieces + random.below(4)) * width)
            });
            ends = place.map(|(start, stride)| start + rows * stride + random.below(48));
            places.push(place);
        }
        let [source, mut destination] = ends.map(|end| random.memory(end as usize / 16 + 4));
        let (from, mut want) = (bytes(&source), bytes(&destination));
        let bases = [source.as_ptr().expose_provenance(), destination.as_mut_ptr().expose_provenance()];

        let mut moves = Vec::new();
        for (&Size { rows, pieces, width }, place) in sizes.iter().zip(places) {
            let row_bytes = pieces * width;
            for row in 0..rows {
                let [from_at, to_at] = place.map(|(start, stride)| (start + row * stride) as usize);
                for byte in 0..row_bytes as usize {
                    want[to_at + byte] = if zero { 0 } else { from[from_at + byte] };
                }
            }
            let side = |side: usize| {
                let (start, stride) = place[side];
                Rows { address: bases[side] as u64 + u64::from(start), stride }
            };
            moves.push(Move {
                source: (!zero).then(|| side(0)),
                destination: side(1),
                rows,
                row_bytes,
                width,
            });
        }
        Self { source, destination, moves, want }
    }

    fn is_as_wanted(&self) -> bool {
        bytes(&self.destination) == self.want
    }
}

/// All short rows, and those just around some rounds of all lanes.
fn lengths() -> impl Iterator<Item = u32> {
    (0..140).chain([159, 160, 161, 255, 256, 257, 511, 512, 513])
}

/// Makes moves of these sizes in some launch shapes.
fn rows_are_moved(sizes: &[Size]) {
    for lanes in LANES {
        for (blocks, warps, seed) in [(1, 3, 1), (4, 2, 2)] {
            for zero in [false, true] {
                let world = World::new(sizes, zero, &mut Random(seed));
                launch::<Moves<'_>>(Shape { blocks, warps, lanes }, seed, &world.moves);
                let width = sizes[0].width;
                assert!(
                    world.is_as_wanted(),
                    "width {width}, zero {zero}, {lanes} lanes, {blocks} × {warps} warps"
                );
            }
        }
    }
}

#[test]
fn rows_of_every_length_are_moved_whole() {
    for width in WIDTHS {
        let mut random = Random(7);
        let sizes: Vec<_> =
            lengths().map(|pieces| Size { rows: 1 + random.below(40), pieces, width }).collect();
        rows_are_moved(&sizes);
    }
}

#[test]
fn short_rows_share_the_rounds_of_the_lanes() {
    for width in WIDTHS {
        let sizes: Vec<_> =
            (1..=40).flat_map(|rows| (0..12).map(move |pieces| Size { rows, pieces, width })).collect();
        rows_are_moved(&sizes);
    }
}

#[test]
fn a_single_row_may_say_any_stride() {
    for lanes in LANES {
        for stride in [0, 3, u32::MAX] {
            let mut world = World::new(&[Size { rows: 1, pieces: 70, width: 16 }], false, &mut Random(5));
            let of = &mut world.moves[0];
            (source(of).stride, of.destination.stride) = (stride, stride);
            launch::<Moves<'_>>(one_warp(lanes), 1, &world.moves);
            assert!(world.is_as_wanted());
        }
    }
}

#[test]
fn a_pipeline_copies_every_row_whole() {
    let mut sizes: Vec<_> = WIDTHS
        .iter()
        .flat_map(|&width| lengths().map(move |pieces| Size { rows: 1, pieces, width }))
        .collect();
    let mut random = Random(11);
    for lanes in LANES {
        for (blocks, warps, seed) in [(1, 3, 1), (4, 2, 2)] {
            // Widths and lengths follow each other in any order.
            for last in (1..sizes.len()).rev() {
                sizes.swap(last, random.below(last as u32 + 1) as usize);
            }
            let world = World::new(&sizes, false, &mut random);
            launch::<Pipe<'_, true>>(Shape { blocks, warps, lanes }, seed, &world.moves);
            assert!(world.is_as_wanted(), "{lanes} lanes, {blocks} × {warps} warps");
        }
    }
}

/// What the tests of kernels rely on: one that forgets to finish its pipeline fails them.
#[test]
fn a_pipeline_that_is_not_finished_has_written_nothing() {
    let sizes: Vec<_> = (1..50).map(|pieces| Size { rows: 1, pieces, width: 16 }).collect();
    let world = World::new(&sizes, false, &mut Random(13));
    let before = bytes(&world.destination);
    launch::<Pipe<'_, false>>(one_warp(32), 1, &world.moves);
    assert!(bytes(&world.destination) == before);
    // The engine has nothing in flight.
    launch::<Pipe<'_, false>>(one_warp(1), 1, &world.moves);
    assert!(world.is_as_wanted());
}

/// Copies the first row of each move by a pipeline of one warp, and writes over what it was to read before it is finished.
struct Hasty<'a>(PhantomData<&'a ()>);

impl<'a> Kernel for Hasty<'a> {
    type Args = &'a [Move];
    const NAME: &'static str = "hasty";

    unsafe fn run(moves: &'a [Move]) {
        let mut pipeline = RowPipeline::new();
        // SAFETY: (1) the rows have this width; (3) they lie in the buffers of the test, and no two moves write the same; (4) all
        // lanes come by. (2) is broken, which is the test: all runs on one thread.
        unsafe {
            for of in moves {
                let source = of.source.expect("pipelines copy");
                pipeline.copy(source.address, of.destination.address, of.row_bytes, of.width);
            }
            for of in moves {
                zero_rows(of.source.expect("as above"), 1, of.row_bytes, of.width);
            }
        }
        pipeline.finish();
    }
}

/// A kernel that writes what it still copies fails on some rows, whether it counts on reads to be early or to be late.
#[test]
fn a_pipeline_reads_some_rows_early_and_some_late() {
    let sizes: Vec<_> = (1..50).map(|pieces| Size { rows: 1, pieces, width: 16 }).collect();
    let mut world = World::new(&sizes, false, &mut Random(19));
    let at = |address: u64, memory: &[u128]| (address - memory.as_ptr().addr() as u64) as usize;
    for of in world.moves.iter().step_by(2) {
        let start = at(of.destination.address, &world.destination);
        world.want[start..start + of.row_bytes as usize].fill(0);
    }
    launch::<Hasty<'_>>(one_warp(32), 1, &world.moves);
    assert!(world.is_as_wanted());
}

/// Three rows of 2 KB and width 16, and what makes them break that promise.
fn broken(spoil: impl FnOnce(&mut Move)) -> (World, Move) {
    let mut world = World::new(&[Size { rows: 3, pieces: 128, width: 16 }], false, &mut Random(17));
    let mut of = world.moves.remove(0);
    spoil(&mut of);
    (world, of)
}

fn source(of: &mut Move) -> &mut Rows {
    of.source.as_mut().expect("it is a copy")
}

/// One test for each promise that a move may break, each by what fails.
macro_rules! misaligned {
    ($($name:ident: $kernel:ty, $what:literal, $spoil:expr;)*) => {$(
        #[test]
        #[should_panic(expected = $what)]
        fn $name() {
            let (_world, of) = broken($spoil);
            launch::<$kernel>(one_warp(32), 0, &[of]);
        }
    )*};
}

misaligned! {
    a_misaligned_source: Moves<'_>, "a load of width 16 is misaligned", |of| source(of).address += 8;
    a_misaligned_destination: Moves<'_>, "a store of width 16 is misaligned", |of| of.destination.address += 4;
    a_misaligned_second_source: Moves<'_>, "a load of width 16 is misaligned", |of| source(of).stride = 2056;
    a_misaligned_second_destination: Moves<'_>, "a store of width 16 is misaligned", |of| of.destination.stride = 2052;
    a_tail_shorter_than_the_width: Moves<'_>, "a load of width 16 is misaligned", |of| of.row_bytes -= 4;
    a_misaligned_zero: Moves<'_>, "a store of width 16 is misaligned", |of| {
        of.source = None;
        of.destination.stride += 1;
    };
    a_misaligned_source_in_a_pipeline: Pipe<'_, true>, "a load of width 16 is misaligned", |of| source(of).address += 8;
    a_misaligned_destination_in_a_pipeline: Pipe<'_, true>, "a store of width 16 is misaligned", |of| of.destination.address += 2;
    a_short_tail_in_a_pipeline: Pipe<'_, true>, "a load of width 16 is misaligned", |of| of.row_bytes -= 8;
    overlapping_sources: Moves<'_>, "a load of rows of 2048 bytes, 2032 apart", |of| source(of).stride = 2032;
    overlapping_destinations: Moves<'_>, "a store of rows of 2048 bytes, 0 apart", |of| of.destination.stride = 0;
    a_width_that_no_access_has: Moves<'_>, "no access is 32 bytes wide", |of| of.width = 32;
}

#[test]
fn the_engine_moves_what_the_emulation_refuses() {
    let (world, of) = broken(|of| {
        source(of).address += 8;
        of.destination.address += 4;
        (of.rows, of.row_bytes) = (1, 2036);
    });
    let (from, mut want) = (bytes(&world.source), bytes(&world.destination));
    let at = |address: u64, memory: &[u128]| (address - memory.as_ptr().addr() as u64) as usize;
    let from_at = at(of.source.expect("it is a copy").address, &world.source);
    let to_at = at(of.destination.address, &world.destination);
    want[to_at..to_at + 2036].copy_from_slice(&from[from_at..from_at + 2036]);
    launch::<Moves<'_>>(one_warp(1), 0, &[of]);
    assert!(bytes(&world.destination) == want);
}
