//! Where random choices come from: a seed, or the bytes that a fuzzer made up.

/// A source of choices. A failing case is told by its seed, or by its bytes.
pub struct Draw<'a>(Source<'a>);

enum Source<'a> {
    /// The state of splitmix64.
    Seed(u64),
    /// Bytes that are left. A choice takes as few as it needs, so that a fuzzer that changes one byte changes one choice;
    /// where none are left, every choice is the first.
    Bytes(&'a [u8]),
}

impl Draw<'static> {
    /// Endless choices that follow from a seed.
    #[must_use]
    pub const fn seeded(seed: u64) -> Self {
        Self(Source::Seed(seed))
    }
}

impl<'a> Draw<'a> {
    /// The choices that these bytes make, and first choices when they are used up.
    #[must_use]
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// Whether bytes are used up: more choices would all be the first. A seed never is.
    #[must_use]
    pub const fn is_exhausted(&self) -> bool {
        matches!(self.0, Source::Bytes([]))
    }

    /// The bytes that are left, all of them; none of a seed.
    pub fn rest(&mut self) -> &'a [u8] {
        match &mut self.0 {
            Source::Seed(_) => &[],
            Source::Bytes(left) => std::mem::take(left),
        }
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => splitmix64(state),
            Source::Bytes(_) => self.bytes(8),
        }
    }

    /// A number below `end`; 0 where that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let number = match (&mut self.0, end) {
            (_, 0 | 1) => 0,
            (Source::Seed(state), _) => splitmix64(state),
            (Source::Bytes(_), 2..=0x100) => self.bytes(1),
            (Source::Bytes(_), 0x101..=0x1_0000) => self.bytes(2),
            (Source::Bytes(_), _) => self.bytes(8),
        };
        number.checked_rem(end).unwrap_or(0)
    }

    /// The same in 32 bits.
    pub fn small(&mut self, end: u32) -> u32 {
        self.below(u64::from(end)) as u32
    }

    /// True once in `n` times, and never when bytes are used up.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == n.saturating_sub(1)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// `0..count` in random order. It costs two bytes, whatever the count.
    pub fn order(&mut self, count: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        let mut own = self.fork();
        for i in (1..order.len()).rev() {
            order.swap(i, own.below(i as u64 + 1) as usize);
        }
        order
    }

    /// Random bytes, for two of its own.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut own = self.fork();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&own.number().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Endless choices that follow from one of these.
    pub fn fork(&mut self) -> Draw<'static> {
        let seed = match self.0 {
            Source::Seed(_) => self.number(),
            Source::Bytes(_) => self.below(0x1_0000),
        };
        Draw::seeded(seed)
    }

    /// The next `count` bytes as a number, the missing ones zero.
    fn bytes(&mut self, count: usize) -> u64 {
        let Source::Bytes(left) = &mut self.0 else { return 0 };
        let (now, later) = left.split_at(count.min(left.len()));
        *left = later;
        let mut number = [0; 8];
        number[..now.len()].copy_from_slice(now);
        u64::from_le_bytes(number)
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_make_choices_and_then_the_first_ones() {
        let mut draw = Draw::from_bytes(&[7, 3, 1, 2]);
        assert_eq!((draw.below(1), draw.below(5), draw.pick(&[4, 5, 6])), (0, 2, 4));
        assert_eq!((draw.below(0x1_0000), draw.is_exhausted()), (0x201, true));
        assert_eq!((draw.below(100), draw.number(), draw.once_in(3), draw.pick(&[9, 8])), (0, 0, false, 9));
    }

    #[test]
    fn an_order_has_every_number_once() {
        for mut draw in [Draw::seeded(3), Draw::from_bytes(&[1, 2, 3])] {
            let mut order = draw.order(50);
            assert_ne!(order, (0..50).collect::<Vec<_>>());
            order.sort_unstable();
            assert_eq!(order, (0..50).collect::<Vec<_>>());
        }
    }
}
