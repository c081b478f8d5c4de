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

pub(super) use unrolled;

/// Copies rows to rows.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and addresses, strides (of several rows) and `row_bytes` are multiples of it;
///    strides (of several rows) are `row_bytes` at least, and `rows · row_bytes` has 32 bits.
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
/// 1. Addresses, strides (of several rows) and `row_bytes` are multiples of `P`'s size; strides (of several rows) are
///    `row_bytes` at least, and `rows · row_bytes` has 32 bits.
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
/// 1. Address, stride (of several rows) and `row_bytes` are multiples of `P`'s size; the stride (of several rows) is
///    `row_bytes` at least, and `rows · row_bytes` has 32 bits.
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

/// What one load or store moves. Loads ask L1 not to keep what they bring: a launch seldom reads a byte twice.
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
