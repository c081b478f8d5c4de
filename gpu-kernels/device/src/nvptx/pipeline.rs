//! Rows one after the other, through shared memory.
//!
//! A warp looks up where a row lies and then reads it, and either takes about a microsecond from host memory. Loads into
//! registers cannot be in flight across the lookup of the next row: a warp has six scoreboards for what it waits for, the
//! lookup needs them all, and who waits for one waits for every load that was given it. `cp.async` (sm_80) has none: it is
//! waited for by the number of copies begun since.

use core::arch::{asm, global_asm};

use super::lanes::{Byte, Piece, Quad, unrolled};
use crate::{BLOCK_THREADS, lane, lanes_per_warp, thread::thread_idx_x};

/// Rounds of the lanes that one row has in flight: 1 KB.
const ROUNDS: u32 = 2;

/// Bytes of one row's pieces.
const SLOT_BYTES: u32 = ROUNDS * Quad::ROUND;

/// Bytes of shared memory of a warp: two rows.
const WARP_BYTES: u32 = 2 * SLOT_BYTES;

// `#[link_section = ".shared"]` would silently make a global of it.
global_asm!(
    ".shared .align 16 .b8 pagelift_rows[{}];",
    const BLOCK_THREADS / lanes_per_warp() * WARP_BYTES,
);

/// Copies rows one after the other, for as long as it is not known beforehand where the next one lies: two rows are in flight
/// while a third one is looked up, and what was begun last is written by [`Self::finish`]. Rows of narrower accesses than 16
/// bytes are waited for.
///
/// A lane reads back what it fetched itself, so that no lane waits for another.
pub struct RowPipeline {
    even: InFlight,
    odd: InFlight,
    /// Whose turn it is.
    turn: bool,
}

/// The calling lane's share of what was begun and is not stored yet.
struct InFlight {
    /// Where its first piece goes.
    destination: u64,
    /// Bytes from there to the end.
    left: u32,
}

impl RowPipeline {
    /// An empty pipeline for the calling lane, which has one at most.
    #[inline(always)]
    #[must_use]
    pub fn new() -> Self {
        Self { even: InFlight::NOTHING, odd: InFlight::NOTHING, turn: false }
    }

    /// Begins to copy `bytes` bytes.
    ///
    /// # Safety
    ///
    /// 1. `width` is 16, 8, 4, 2 or 1, and addresses and `bytes` are multiples of it.
    /// 2. `bytes` bytes at `source` may be read, and nobody writes them before the launch has ended.
    /// 3. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended, but to
    ///    write the same bytes there.
    /// 4. All lanes of the warp make this call, with the same arguments, and [`Self::finish`] in the end.
    /// 5. A block has at most [`BLOCK_THREADS`] threads.
    #[inline(always)]
    pub unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        // SAFETY: (1) is our 1; (2) is our 2 and 3.
        unsafe {
            match width {
                16 => {}
                8 => return copy_row::<u64>(source, destination, bytes),
                4 => return copy_row::<u32>(source, destination, bytes),
                2 => return copy_row::<u16>(source, destination, bytes),
                _ => return copy_row::<Byte>(source, destination, bytes),
            }
        }
        // All lanes go round alike, or their turns would differ.
        let mut done = 0;
        while done < bytes {
            let at = done + lane() * Quad::BYTES;
            let left = bytes.saturating_sub(at);
            // SAFETY: (1) is our 1, and (2) our 2 and 3, from this lane's piece on; (3) is our 5.
            unsafe { self.next(source + u64::from(at), destination + u64::from(at), left) };
            // `bytes` is a multiple of 16, and so below what this stops at.
            done = done.saturating_add(SLOT_BYTES);
        }
    }

    /// Writes what is still in flight.
    #[inline(always)]
    pub fn finish(mut self) {
        // SAFETY: (1, 2) there is nothing to fetch; (3) where something is in flight, `copy` asked for it.
        unsafe {
            self.next(0, 0, 0);
            self.next(0, 0, 0);
        }
    }

    /// Stores the older one of the two runs in flight, and begins to fetch the first [`ROUNDS`] pieces of another.
    ///
    /// # Safety
    ///
    /// 1. `source` and `destination` are multiples of 16, and so is `left`.
    /// 2. Of `left` bytes every 32nd piece, the first one included, may be read at `source` and written at `destination`; until
    ///    they are stored nobody else writes the former, or other bytes to the latter.
    /// 3. A block has at most [`BLOCK_THREADS`] threads.
    #[inline(always)]
    unsafe fn next(&mut self, source: u64, destination: u64, left: u32) {
        let slots: u32;
        // SAFETY: takes the address of a symbol that is declared above.
        unsafe { asm!("mov.u32 {}, pagelift_rows;", out(reg32) slots, options(nostack, nomem)) };
        let warp = thread_idx_x() / lanes_per_warp();
        let slot = slots + warp * WARP_BYTES + u32::from(self.turn) * SLOT_BYTES + lane() * Quad::BYTES;
        let begun = if self.turn { &mut self.odd } else { &mut self.even };
        let before = core::mem::replace(begun, InFlight { destination, left });
        self.turn = !self.turn;
        // One run, the younger one, stays in flight.
        //
        // SAFETY: waits for this thread's own copies; there are no conditions.
        unsafe { asm!("cp.async.wait_group 1;", options(nostack)) };
        unrolled!(N in [0, 1], {
            if before.left > N * Quad::ROUND {
                // SAFETY: (1) by (3) the slot is this lane's, and its copy has just been waited for. (1) As the fetch of this
                // piece, which had our conditions; it may be written (2).
                unsafe {
                    fetched(slot + N * Quad::ROUND).store(before.destination + u64::from(N * Quad::ROUND));
                }
            }
        });
        unrolled!(N in [0, 1], {
            if left > N * Quad::ROUND {
                // SAFETY: (1) a piece that begins before the end lies within the run, and is aligned, as all are multiples
                // of its size (1); it may be read (2). (2) By (3) the slot is this lane's, and what was in it is stored.
                unsafe { fetch(source + u64::from(N * Quad::ROUND), slot + N * Quad::ROUND) };
            }
        });
        // Also of nothing, so that they can be counted.
        //
        // SAFETY: there are no conditions.
        unsafe { asm!("cp.async.commit_group;", options(nostack)) };
    }
}

impl InFlight {
    const NOTHING: Self = Self { destination: 0, left: 0 };
}

/// Begins to fetch 16 bytes into shared memory.
///
/// # Safety
///
/// 1. `source` is a multiple of 16, and as many bytes may be read there until they have arrived.
/// 2. `slot` is the address of 16 bytes of the calling lane's shared memory, which nobody needs any more.
#[inline(always)]
unsafe fn fetch(source: u64, slot: u32) {
    // SAFETY: (1, 2) are what the instruction asks for.
    unsafe {
        asm!(
            "cp.async.ca.shared.global [{}], [{}], 16;",
            in(reg32) slot,
            in(reg64) source,
            options(nostack),
        );
    }
}

/// What was fetched.
///
/// # Safety
///
/// 1. The calling lane fetched 16 bytes to `slot`, and has waited for them.
#[inline(always)]
unsafe fn fetched(slot: u32) -> Quad {
    let (a, b, c, d);
    // SAFETY: by (1) the bytes are there.
    unsafe {
        asm!(
            "ld.shared.v4.u32 {{{}, {}, {}, {}}}, [{}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
            in(reg32) slot,
            options(nostack),
        );
    }
    Quad(a, b, c, d)
}

/// The calling lane's share of one row in pieces of `P`.
///
/// # Safety
///
/// 1. `source`, `destination` and `bytes` are multiples of `P`'s size.
/// 2. `bytes` bytes may be read at `source` and written at `destination`, and nobody else writes the former, or other bytes to
///    the latter.
#[inline(always)]
unsafe fn copy_row<P: Piece>(source: u64, destination: u64, bytes: u32) {
    let first = lane() * P::BYTES;
    let (mut source, mut destination) = (source + u64::from(first), destination + u64::from(first));
    let mut left = bytes.saturating_sub(first);
    while left > 0 {
        let mut pieces = [P::ZERO; ROUNDS as usize];
        unrolled!(N in [0, 1], {
            if left > N * P::ROUND {
                // SAFETY: (1) a piece that begins before the end lies within the row, and is aligned, as all are multiples
                // of its size (1); it may be read (2).
                pieces[N as usize] = unsafe { P::load(source + u64::from(N * P::ROUND)) };
            }
        });
        unrolled!(N in [0, 1], {
            if left > N * P::ROUND {
                // SAFETY: (1) as above; it may be written (2).
                unsafe { pieces[N as usize].store(destination + u64::from(N * P::ROUND)) };
            }
        });
        source += u64::from(ROUNDS * P::ROUND);
        destination += u64::from(ROUNDS * P::ROUND);
        left = left.saturating_sub(ROUNDS * P::ROUND);
    }
}
