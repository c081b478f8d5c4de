//! Moves by loads and stores of the lanes.

use core::arch::asm;

use crate::{Mover, lane, lanes_per_warp};

/// Moves a run by loads and stores of all lanes: neighbouring lanes touch neighbouring pieces, and each lane has up to
/// four loads in flight.
pub struct Lanes;

impl Mover for Lanes {
    #[inline(always)]
    unsafe fn new() -> Self {
        Self
    }

    #[inline(always)]
    unsafe fn copy(&mut self, source: u64, destination: u64, bytes: u32, width: u32) {
        // SAFETY: (1, 2) are conditions 1 to 3 of this function.
        unsafe {
            match width {
                16 => copy::<Quad>(source, destination, bytes),
                8 => copy::<u64>(source, destination, bytes),
                4 => copy::<u32>(source, destination, bytes),
                2 => copy::<u16>(source, destination, bytes),
                _ => copy::<Byte>(source, destination, bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn zero(&mut self, destination: u64, bytes: u32, width: u32) {
        // SAFETY: (1, 2) are conditions 1 and 2 of this function.
        unsafe {
            match width {
                16 => zero::<Quad>(destination, bytes),
                8 => zero::<u64>(destination, bytes),
                4 => zero::<u32>(destination, bytes),
                2 => zero::<u16>(destination, bytes),
                _ => zero::<Byte>(destination, bytes),
            }
        }
    }

    /// A store needs no waiting for: it is ordered by what the warp does next.
    #[inline(always)]
    unsafe fn finish(&mut self) {}
}

/// The calling lane's share of a copy in pieces of `P`.
///
/// # Safety
///
/// 1. `source`, `destination` and `bytes` are multiples of `P`'s size.
/// 2. `bytes` bytes may be read at `source` and written at `destination`, and nobody else writes either.
#[inline(always)]
unsafe fn copy<P: Piece>(source: u64, destination: u64, bytes: u32) {
    let (step, bytes) = (u64::from(lanes_per_warp() * P::BYTES), u64::from(bytes));
    let mut at = u64::from(lane() * P::BYTES);
    while at < bytes {
        // All loads of a round are issued before its first store waits for one. There is no separate loop for the
        // last round, in which one load after the other would be waited for.
        let (at_2, at_3, at_4) = (at + step, at + 2 * step, at + 3 * step);
        // SAFETY: each piece begins at a multiple of its size below `bytes`, which is one too (1): it lies within
        // the run and is aligned, and (2) allows the access.
        unsafe {
            let first = P::load(source + at);
            let second = if at_2 < bytes { P::load(source + at_2) } else { P::ZERO };
            let third = if at_3 < bytes { P::load(source + at_3) } else { P::ZERO };
            let fourth = if at_4 < bytes { P::load(source + at_4) } else { P::ZERO };
            first.store(destination + at);
            if at_2 < bytes {
                second.store(destination + at_2);
            }
            if at_3 < bytes {
                third.store(destination + at_3);
            }
            if at_4 < bytes {
                fourth.store(destination + at_4);
            }
        }
        at += 4 * step;
    }
}

/// The calling lane's share of writing zeros in pieces of `P`.
///
/// # Safety
///
/// 1. `destination` and `bytes` are multiples of `P`'s size.
/// 2. `bytes` bytes may be written at `destination`, and nobody else touches them.
#[inline(always)]
unsafe fn zero<P: Piece>(destination: u64, bytes: u32) {
    let mut at = u64::from(lane() * P::BYTES);
    while at < u64::from(bytes) {
        // SAFETY: as in `copy`.
        unsafe { P::ZERO.store(destination + at) };
        at += u64::from(lanes_per_warp() * P::BYTES);
    }
}

/// What one load or store moves. Loads bypass L1: no byte is read twice.
trait Piece: Copy {
    const BYTES: u32;
    const ZERO: Self;

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
struct Quad(u32, u32, u32, u32);

impl Piece for Quad {
    const BYTES: u32 = 16;
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
struct Byte(u16);

/// A piece that fills one register.
macro_rules! scalar {
    ($type:ty, $bytes:literal, $zero:expr, $value:pat => $inner:expr, $wrap:expr, $class:ident, $suffix:literal) => {
        impl Piece for $type {
            const BYTES: u32 = $bytes;
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
