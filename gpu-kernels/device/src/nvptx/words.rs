//! Reads of whole runs, word by word.

use super::lanes::{Byte, Piece, Quad};
use crate::{lane, lanes_per_warp};

/// Hands the calling lane its share of a run's 4-byte words: the number of each, and its bytes, the first one lowest.
/// The lanes of a warp together see each word once. A last word of fewer bytes is filled up with zeros, and nothing
/// behind the run is read.
///
/// # Safety
///
/// 1. `width` is 16, 8, 4, 2 or 1, and `source` and `bytes` are multiples of it.
/// 2. `bytes` bytes at `source` may be read, and nobody writes them before the launch has ended.
#[inline(always)]
pub unsafe fn each_word(source: u64, bytes: u32, width: u32, each: impl FnMut(u32, u32)) {
    // SAFETY: (1, 2) are ours.
    unsafe {
        match width {
            16 => whole::<Quad>(source, bytes, each),
            8 => whole::<u64>(source, bytes, each),
            4 => whole::<u32>(source, bytes, each),
            2 => parts::<u16>(source, bytes, each),
            _ => parts::<Byte>(source, bytes, each),
        }
    }
}

/// The calling lane's share, in pieces of one or more words.
///
/// # Safety
///
/// 1. `source` and `bytes` are multiples of `P`'s size.
/// 2. `bytes` bytes may be read at `source`, and nobody writes them.
#[inline(always)]
unsafe fn whole<P: Words>(source: u64, bytes: u32, mut each: impl FnMut(u32, u32)) {
    let first = lane() * P::BYTES;
    let (mut source, mut word) = (source + u64::from(first), first / 4);
    let mut left = bytes.saturating_sub(first);
    while left > 0 {
        // As in a copy: the loads of a turn are issued before the first is waited for. They are fewer here, for what is
        // done to the words takes registers too.
        let two = left > P::ROUND;
        // SAFETY: a piece that begins before the end lies within the run, and is aligned, as all are multiples of its
        // size (1); (2) allows the access.
        let (a, b) =
            unsafe { (P::load(source), if two { P::load(source + u64::from(P::ROUND)) } else { P::ZERO }) };
        a.words(word, &mut each);
        if two {
            b.words(word + P::ROUND / 4, &mut each);
        }
        source += u64::from(2 * P::ROUND);
        word += 2 * (P::ROUND / 4);
        left = left.saturating_sub(2 * P::ROUND);
    }
}

/// The calling lane's share, each word put together from pieces.
///
/// # Safety
///
/// 1. The conditions of [`whole`].
#[inline(always)]
unsafe fn parts<P: Part>(source: u64, bytes: u32, mut each: impl FnMut(u32, u32)) {
    let mut at = lane() * 4;
    while at < bytes {
        let end = bytes.min(at.saturating_add(4));
        let (mut word, mut piece) = (0, at);
        while piece < end {
            // SAFETY: (1) the piece begins within the run, at a multiple of its size.
            let bits = unsafe { P::load(source + u64::from(piece)) }.bits();
            word |= bits << (8 * (piece - at));
            piece += P::BYTES;
        }
        each(at / 4, word);
        let Some(next) = at.checked_add(4 * lanes_per_warp()) else { break };
        at = next;
    }
}

/// A piece of whole words.
trait Words: Piece {
    /// Hands over its words, the first of which has the number `first`.
    fn words(self, first: u32, each: &mut impl FnMut(u32, u32));
}

impl Words for Quad {
    #[inline(always)]
    fn words(self, first: u32, each: &mut impl FnMut(u32, u32)) {
        each(first, self.0);
        each(first + 1, self.1);
        each(first + 2, self.2);
        each(first + 3, self.3);
    }
}

impl Words for u64 {
    #[inline(always)]
    fn words(self, first: u32, each: &mut impl FnMut(u32, u32)) {
        each(first, self as u32);
        each(first + 1, (self >> 32) as u32);
    }
}

impl Words for u32 {
    #[inline(always)]
    fn words(self, first: u32, each: &mut impl FnMut(u32, u32)) {
        each(first, self);
    }
}

/// A piece of a word.
trait Part: Piece {
    /// Its bits, lowest first.
    fn bits(self) -> u32;
}

impl Part for u16 {
    #[inline(always)]
    fn bits(self) -> u32 {
        self.into()
    }
}

impl Part for Byte {
    #[inline(always)]
    fn bits(self) -> u32 {
        // `ld.u8` fills the rest of the register with zeros.
        self.0.into()
    }
}
