//! Moves by loads and stores of the lanes: neighbouring lanes touch neighbouring pieces, and each lane has several loads
//! in flight.

use core::arch::asm;

use crate::{
    lane, lanes_per_warp,
    walk::{Rows, Walk},
};

/// Writes a block out for each `$n`: the compiler leaves a loop with assembly in it as it is, and an array indexed in a loop
/// lies in memory.
macro_rules! unrolled {
    ($n:ident in [$($value:literal),+], $body:block) => {
        $({
            const $n: u32 = $value;
            $body
        })+
    };
}

/// Copies rows to rows.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and addresses, strides (of several rows) and `row_bytes` are multiples of it;
///    `rows · row_bytes` has 32 bits.
/// 2. The rows of `source` may be read, and nobody writes them before the launch has ended.
/// 3. The rows of `destination` may be written, and nobody else touches them before the launch has ended.
/// 4. All lanes of the warp make this call, with the same arguments.
#[inline(always)]
pub unsafe fn copy_rows(source: Rows, destination: Rows, rows: u32, row_bytes: u32, width: u32) {
    // SAFETY: (1) is our 1; (2) is our 2 and 3.
    unsafe {
        match width {
            16 => copy::<Quad>(source, destination, rows, row_bytes),
            8 => copy::<u64>(source, destination, rows, row_bytes),
            4 => copy::<u32>(source, destination, rows, row_bytes),
            2 => copy::<u16>(source, destination, rows, row_bytes),
            _ => copy::<Byte>(source, destination, rows, row_bytes),
        }
    }
}

/// Writes zeros to rows.
///
/// # Safety
///
/// 1. The conditions of [`copy_rows`], but those of a source.
#[inline(always)]
pub unsafe fn zero_rows(destination: Rows, rows: u32, row_bytes: u32, width: u32) {
    // SAFETY: (1, 2) are our 1.
    unsafe {
        match width {
            16 => zero::<Quad>(destination, rows, row_bytes),
            8 => zero::<u64>(destination, rows, row_bytes),
            4 => zero::<u32>(destination, rows, row_bytes),
            2 => zero::<u16>(destination, rows, row_bytes),
            _ => zero::<Byte>(destination, rows, row_bytes),
        }
    }
}

/// The calling lane's share of a copy in pieces of `P`.
///
/// # Safety
///
/// 1. Addresses, strides (of several rows) and `row_bytes` are multiples of `P`'s size; `rows · row_bytes` has 32 bits.
/// 2. The rows of `source` may be read, those of `destination` written, and nobody else writes either.
#[inline(always)]
unsafe fn copy<P: Piece>(source: Rows, destination: Rows, rows: u32, row_bytes: u32) {
    let first = lane() * P::BYTES;
    let mut from = Walk::new(source, row_bytes, first, P::ROUND);
    let mut to = Walk::new(destination, row_bytes, first, P::ROUND);
    // Bytes from this lane's next piece to the end.
    let mut left = (rows * row_bytes).saturating_sub(first);
    while left > 0 {
        // All loads of a turn are issued before its first store waits for one. There is no separate loop for the last
        // turn, in which one load after the other would be waited for.
        let mut pieces = [P::ZERO; 8];
        unrolled!(N in [0, 1, 2, 3, 4, 5, 6, 7], {
            if N < P::LOADS && left > N * P::ROUND {
                // SAFETY: (1) a piece that begins before the end lies within a row, and is aligned, as all are multiples
                // of its size (1); it may be read (2).
                pieces[N as usize] = unsafe { P::load(from.address()) };
            }
            if N < P::LOADS {
                from.advance();
            }
        });
        unrolled!(N in [0, 1, 2, 3, 4, 5, 6, 7], {
            if N < P::LOADS && left > N * P::ROUND {
                // SAFETY: (1) as above; it may be written (2).
                unsafe { pieces[N as usize].store(to.address()) };
            }
            if N < P::LOADS {
                to.advance();
            }
        });
        left = left.saturating_sub(P::LOADS * P::ROUND);
    }
}

/// The calling lane's share of writing zeros in pieces of `P`.
///
/// # Safety
///
/// 1. Address, stride (of several rows) and `row_bytes` are multiples of `P`'s size; `rows · row_bytes` has 32 bits.
/// 2. The rows may be written, and nobody else touches them.
#[inline(always)]
unsafe fn zero<P: Piece>(destination: Rows, rows: u32, row_bytes: u32) {
    let first = lane() * P::BYTES;
    let mut to = Walk::new(destination, row_bytes, first, P::ROUND);
    let mut left = (rows * row_bytes).saturating_sub(first);
    while left > 0 {
        // SAFETY: (1) as the stores in `copy`.
        unsafe { P::ZERO.store(to.address()) };
        to.advance();
        left = left.saturating_sub(P::ROUND);
    }
}

/// Rounds of the lanes that one row has in flight in a [`RowPipeline`]: 1 KB.
const ROUNDS: u32 = 2;

/// Copies rows one after the other, for as long as it is not known beforehand where the next one lies: the loads of two rows
/// are in flight while a third one is looked up, and what was begun last is written by [`Self::finish`]. Rows of narrower
/// accesses than 16 bytes are waited for.
pub struct RowPipeline {
    even: InFlight,
    odd: InFlight,
    /// Whose turn it is.
    turn: bool,
}

/// The calling lane's share of what was loaded and is not stored yet.
struct InFlight {
    pieces: [Quad; ROUNDS as usize],
    /// Where its first piece goes.
    destination: u64,
    /// Bytes from there to the end.
    left: u32,
}

impl RowPipeline {
    /// An empty pipeline for the calling lane.
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
    /// 3. `bytes` bytes at `destination` may be written, and nobody else touches them before the launch has ended.
    /// 4. All lanes of the warp make this call, with the same arguments, and [`Self::finish`] in the end.
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
            let (source, destination) = (source + u64::from(at), destination + u64::from(at));
            // Each branch has registers of its own: to move a value that is being loaded is to wait for it.
            //
            // SAFETY: (1) is our 1, and (2) our 2 and 3, from this lane's piece on.
            unsafe {
                if self.turn {
                    self.odd.next(source, destination, left);
                } else {
                    self.even.next(source, destination, left);
                }
            }
            self.turn = !self.turn;
            done += ROUNDS * Quad::ROUND;
        }
    }

    /// Writes what is still in flight.
    #[inline(always)]
    pub fn finish(mut self) {
        // SAFETY: (1, 2) there is nothing to load.
        unsafe {
            self.even.next(0, 0, 0);
            self.odd.next(0, 0, 0);
        }
    }
}

impl InFlight {
    const NOTHING: Self = Self { pieces: [Quad::ZERO; ROUNDS as usize], destination: 0, left: 0 };

    /// Stores what was loaded, and begins to load the first [`ROUNDS`] pieces of a run.
    ///
    /// # Safety
    ///
    /// 1. `source` and `destination` are multiples of 16, and so is `left`.
    /// 2. Of `left` bytes every 32nd piece, the first one included, may be read at `source` and written at `destination`; until
    ///    they are stored nobody else writes either.
    #[inline(always)]
    unsafe fn next(&mut self, source: u64, destination: u64, left: u32) {
        unrolled!(N in [0, 1], {
            if self.left > N * Quad::ROUND {
                // SAFETY: (1) as the load of this piece, which had our conditions; it may be written (2).
                unsafe { self.pieces[N as usize].store(self.destination + u64::from(N * Quad::ROUND)) };
            }
        });
        unrolled!(N in [0, 1], {
            if left > N * Quad::ROUND {
                // SAFETY: (1) a piece that begins before the end lies within the run, and is aligned, as all are multiples
                // of its size (1); it may be read (2).
                self.pieces[N as usize] = unsafe { Quad::load(source + u64::from(N * Quad::ROUND)) };
            }
        });
        (self.destination, self.left) = (destination, left);
    }
}

/// The calling lane's share of one row in pieces of `P`.
///
/// # Safety
///
/// 1. `source`, `destination` and `bytes` are multiples of `P`'s size.
/// 2. `bytes` bytes may be read at `source` and written at `destination`, and nobody else writes either.
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

/// What one load or store moves. Loads bypass L1: no byte is read twice.
pub(super) trait Piece: Copy {
    const BYTES: u32;
    const ZERO: Self;
    /// Loads that a lane has in flight in [`copy_rows`]: eight at most. With 768 threads and pieces of 16 bytes, eight get
    /// 0.74 of the link to host memory by one multiprocessor, and 0.90 by two (H200).
    const LOADS: u32;
    /// What all lanes move with one access each.
    const ROUND: u32 = lanes_per_warp() * Self::BYTES;

    /// # Safety
    ///
    /// 1. `address` is a multiple of `BYTES`, and as many may be read there.
    unsafe fn load(address: u64) -> Self;

    /// # Safety
    ///
    /// 1. `address` is a multiple of `BYTES`, and as many may be written there.
    unsafe fn store(self, address: u64);
}

/// Sixteen bytes. (A struct copy of this size would be split in two.)
#[derive(Clone, Copy)]
pub(super) struct Quad(pub(super) u32, pub(super) u32, pub(super) u32, pub(super) u32);

impl Piece for Quad {
    const BYTES: u32 = 16;
    const LOADS: u32 = 8;
    const ZERO: Self = Self(0, 0, 0, 0);

    #[inline(always)]
    unsafe fn load(address: u64) -> Self {
        let (a, b, c, d);
        // SAFETY: (1) is what the instruction asks for.
        unsafe {
            asm!(
                "ld.global.L1::no_allocate.v4.u32 {{{}, {}, {}, {}}}, [{}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
                in(reg64) address,
                options(nostack, readonly),
            );
        }
        Self(a, b, c, d)
    }

    #[inline(always)]
    unsafe fn store(self, address: u64) {
        // SAFETY: (1) is what the instruction asks for.
        unsafe {
            asm!(
                "st.global.v4.u32 [{}], {{{}, {}, {}, {}}};",
                in(reg64) address,
                in(reg32) self.0, in(reg32) self.1, in(reg32) self.2, in(reg32) self.3,
                options(nostack),
            );
        }
    }
}

/// One byte, in the narrowest register there is.
#[derive(Clone, Copy)]
pub(super) struct Byte(pub(super) u16);

/// A piece that fills one register.
macro_rules! scalar {
    ($type:ty, $bytes:literal, $zero:expr, $value:pat => $inner:expr, $wrap:expr, $class:ident, $suffix:literal) => {
        impl Piece for $type {
            const BYTES: u32 = $bytes;
            // Rows of odd lengths are few: they need not be fast, and more code takes longer to load.
            const LOADS: u32 = if $bytes < 4 { 2 } else { 8 };
            const ZERO: Self = $zero;

            #[inline(always)]
            unsafe fn load(address: u64) -> Self {
                let value;
                // SAFETY: (1) is what the instruction asks for.
                unsafe {
                    asm!(
                        concat!("ld.global.L1::no_allocate.", $suffix, " {}, [{}];"),
                        out($class) value,
                        in(reg64) address,
                        options(nostack, readonly),
                    );
                }
                $wrap(value)
            }

            #[inline(always)]
            unsafe fn store(self, address: u64) {
                let $value = self;
                // SAFETY: (1) is what the instruction asks for.
                unsafe {
                    asm!(
                        concat!("st.global.", $suffix, " [{}], {};"),
                        in(reg64) address,
                        in($class) $inner,
                        options(nostack),
                    );
                }
            }
        }
    };
}

scalar!(u64, 8, 0, value => value, core::convert::identity, reg64, "u64");
scalar!(u32, 4, 0, value => value, core::convert::identity, reg32, "u32");
scalar!(u16, 2, 0, value => value, core::convert::identity, reg16, "u16");
scalar!(Byte, 1, Byte(0), Byte(value) => value, Byte, reg16, "u8");
