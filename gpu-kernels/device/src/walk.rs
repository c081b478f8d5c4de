//! Which pieces of some rows a lane takes, and where they lie.
//!
//! A piece is what one access moves. The pieces of all rows are counted through, and lane `l` of 32 takes pieces
//! `l, l + 32, …`: short rows share one round of the lanes, and no lane is idle because a row ends.
//!
//! From one piece of a lane to its next it is always the same number of rows and bytes, but for a row's end that may lie
//! between. So a step is an addition or two, and only the first piece takes divisions.

/// Rows of one length that lie at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Address of the first row.
    pub address: u64,
    /// Bytes from one row to the next: at least those of a row, but where there is only one.
    pub stride: u32,
}

/// A lane's way through rows.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    /// Address of the lane's piece.
    address: u64,
    /// Where in its row that lies.
    column: u32,
    /// Bytes of a row.
    row_bytes: u32,
    /// What a step adds to the address, and to the column.
    step: u64,
    columns: u32,
    /// What it adds besides to the address where a row ends on the way: the bytes between two rows.
    gap: u32,
}

impl Walk {
    /// Begins at byte `first` of the bytes of `rows`, each of `row_bytes` bytes, and goes on by `round` bytes a step.
    #[inline(always)]
    pub(crate) fn new(rows: Rows, row_bytes: u32, first: u32, round: u32) -> Self {
        // Rows without bytes have no pieces either.
        let divide = |bytes: u32| {
            let whole = bytes.checked_div(row_bytes).unwrap_or(0);
            (whole, bytes - whole * row_bytes)
        };
        let ((row, column), (whole, columns)) = (divide(first), divide(round));
        let bytes = |row: u32, column: u32| u64::from(row) * u64::from(rows.stride) + u64::from(column);
        Self {
            address: rows.address + bytes(row, column),
            column,
            row_bytes,
            step: bytes(whole, columns),
            columns,
            // A single row may say any stride.
            gap: rows.stride.wrapping_sub(row_bytes),
        }
    }

    /// Address of the lane's piece.
    #[inline(always)]
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Goes on to the lane's next piece, whether or not there is one.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        self.address = self.address.wrapping_add(self.step);
        // It overflows only past the end of the one row of nearly 4 GiB.
        self.column = self.column.wrapping_add(self.columns);
        if self.column >= self.row_bytes {
            self.column -= self.row_bytes;
            self.address = self.address.wrapping_add(u64::from(self.gap));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where byte `n` of the bytes of all rows lies.
    fn naive(rows: Rows, row_bytes: u32, n: u64) -> u64 {
        let row_bytes = u64::from(row_bytes);
        rows.address + n / row_bytes * u64::from(rows.stride) + n % row_bytes
    }

    #[test]
    fn steps_are_divisions() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |end: u32| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % u64::from(end)) as u32
        };
        for _ in 0..20_000 {
            // Rows of a few bytes up to some rounds, now and then without a gap.
            let most = 1 << (1 + below(14));
            let row_bytes = 1 + below(most);
            let gap = below(3) * below(1 << 20);
            let rows = Rows { address: u64::from(below(u32::MAX)) << 16, stride: row_bytes + gap };
            let (first, round) = (below(1024), below(2048));
            let mut walk = Walk::new(rows, row_bytes, first, round);
            for step in 0..60 {
                let n = u64::from(first) + step * u64::from(round);
                assert_eq!(
                    walk.address(),
                    naive(rows, row_bytes, n),
                    "{rows:?} of {row_bytes}, step {step} of {round}"
                );
                walk.advance();
            }
        }
    }

    #[test]
    fn one_row_may_be_as_long_as_32_bits_say() {
        let rows = Rows { address: 1 << 40, stride: 0 };
        let (row_bytes, first) = (u32::MAX - 15, u32::MAX - 1055);
        let mut walk = Walk::new(rows, row_bytes, first, 512);
        for step in 0..3 {
            assert_eq!(walk.address(), (1 << 40) + u64::from(first) + step * 512);
            walk.advance();
        }
    }

    #[test]
    fn one_row_needs_no_stride() {
        let mut walk = Walk::new(Rows { address: 1 << 40, stride: 0 }, 4096, 16, 512);
        for step in 0..8 {
            assert_eq!(walk.address(), (1 << 40) + 16 + step * 512);
            walk.advance();
        }
    }
}
