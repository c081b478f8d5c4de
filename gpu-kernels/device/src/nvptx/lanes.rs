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
    let first = lane() * P::BYTES;
    let (mut source, mut destination) = (source + u64::from(first), destination + u64::from(first));
    // Bytes from this lane's next piece to the end.
    let mut left = bytes.saturating_sub(first);
    while left > 0 {
        // All loads of a turn are issued before its first store waits for one. There is no separate loop for the last
        // turn, in which one load after the other would be waited for.
        let (two, three, four) = (left > P::ROUND, left > 2 * P::ROUND, left > 3 * P::ROUND);
        // SAFETY: a piece that begins before the end lies within the run, and is aligned, as all are multiples of its
        // size (1); (2) allows the access.
        unsafe {
            let a = P::load::<0>(source);
            let b = if two { P::load::<1>(source) } else { P::ZERO };
            let c = if three { P::load::<2>(source) } else { P::ZERO };
            let d = if four { P::load::<3>(source) } else { P::ZERO };
            a.store::<0>(destination);
            if two {
                b.store::<1>(destination);
            }
            if three {
                c.store::<2>(destination);
            }
            if four {
                d.store::<3>(destination);
            }
        }
        source += u64::from(4 * P::ROUND);
        destination += u64::from(4 * P::ROUND);
        left = left.saturating_sub(4 * P::ROUND);
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
    let first = lane() * P::BYTES;
    let mut destination = destination + u64::from(first);
    let mut left = bytes.saturating_sub(first);
    while left > 0 {
        // SAFETY: as in `copy`.
        unsafe { P::ZERO.store::<0>(destination) };
        destination += u64::from(P::ROUND);
        left = left.saturating_sub(P::ROUND);
    }
}

/// What one load or store moves. Loads bypass L1: no byte is read twice.
///
/// The constant `N` of an access is how many rounds of all lanes it lies behind its address: a part of the instruction,
/// where computed addresses would take two registers each.
pub(super) trait Piece: Copy {
    const BYTES: u32;
    const ZERO: Self;
    /// What all lanes move with one access each.
    const ROUND: u32 = lanes_per_warp() * Self::BYTES;

    /// # Safety
    ///
    /// 1. `address` is a multiple of `BYTES`, and as many may be read `N` rounds behind it.
    unsafe fn load<const N: u32>(address: u64) -> Self;

    /// # Safety
    ///
    /// 1. `address` is a multiple of `BYTES`, and as many may be written `N` rounds behind it.
    unsafe fn store<const N: u32>(self, address: u64);
}

/// Sixteen bytes. (A struct copy of this size would be split in two.)
#[derive(Clone, Copy)]
pub(super) struct Quad(pub(super) u32, pub(super) u32, pub(super) u32, pub(super) u32);

impl Piece for Quad {
    const BYTES: u32 = 16;
    const ZERO: Self = Self(0, 0, 0, 0);

    #[inline(always)]
    unsafe fn load<const N: u32>(address: u64) -> Self {
        let (a, b, c, d);
        // SAFETY: (1) is what the instruction asks for.
        unsafe {
            asm!(
                "ld.global.L1::no_allocate.v4.u32 {{{}, {}, {}, {}}}, [{} + {}];",
                out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
                in(reg64) address,
                const N * Self::ROUND,
                options(nostack, readonly),
            );
        }
        Self(a, b, c, d)
    }

    #[inline(always)]
    unsafe fn store<const N: u32>(self, address: u64) {
        // SAFETY: (1) is what the instruction asks for.
        unsafe {
            asm!(
                "st.global.v4.u32 [{} + {}], {{{}, {}, {}, {}}};",
                in(reg64) address,
                const N * Self::ROUND,
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
            const ZERO: Self = $zero;

            #[inline(always)]
            unsafe fn load<const N: u32>(address: u64) -> Self {
                let value;
                // SAFETY: (1) is what the instruction asks for.
                unsafe {
                    asm!(
                        concat!("ld.global.L1::no_allocate.", $suffix, " {}, [{} + {}];"),
                        out($class) value,
                        in(reg64) address,
                        const N * Self::ROUND,
                        options(nostack, readonly),
                    );
                }
                $wrap(value)
            }

            #[inline(always)]
            unsafe fn store<const N: u32>(self, address: u64) {
                let $value = self;
                // SAFETY: (1) is what the instruction asks for.
                unsafe {
                    asm!(
                        concat!("st.global.", $suffix, " [{} + {}], {};"),
                        in(reg64) address,
                        const N * Self::ROUND,
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
