//! Where tokens stand: to scale, but for one long run of blocks that is left out.

use std::ops::Range;

/// Blocks that are shown before and after the break, and the most that are shown without one.
const BEFORE: u64 = 2;
const AFTER: u64 = 3;
const MOST: u64 = BEFORE + AFTER + 1;
/// Width of the break.
const BREAK: f64 = 80.0;
/// The widest block.
const WIDEST: f64 = 420.0;

/// Positions of tokens along the prompt.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Tokens of the largest blocks.
    block: u64,
    /// The tokens that are shown.
    windows: Vec<Range<u64>>,
    start: f64,
    /// Width of a token.
    token: f64,
}

impl Axis {
    /// The axis of `blocks` blocks of `block` tokens each, `width` wide from `start` on.
    pub fn new(start: f64, width: f64, block: u64, blocks: u64) -> Self {
        let (block, blocks) = (block.max(1), blocks.max(1));
        let tokens = |from: u64, to: u64| from.saturating_mul(block)..to.saturating_mul(block);
        let (windows, shown, room) = if blocks > MOST {
            let last = tokens(blocks.saturating_sub(AFTER), blocks);
            (vec![tokens(0, BEFORE), last], BEFORE + AFTER, width - BREAK)
        } else {
            (vec![tokens(0, blocks)], blocks, width)
        };
        let token = (room / shown as f64).min(WIDEST) / block as f64;
        Self { block, windows, start, token }
    }

    /// Where a range of tokens lies, if all of it is shown.
    pub fn span(&self, tokens: &Range<u64>) -> Option<(f64, f64)> {
        let mut x = self.start;
        for window in &self.windows {
            if window.start <= tokens.start && tokens.end <= window.end {
                let at = |token: u64| x + token.saturating_sub(window.start) as f64 * self.token;
                return Some((at(tokens.start), at(tokens.end)));
            }
            x += window.end.saturating_sub(window.start) as f64 * self.token + BREAK;
        }
        None
    }

    /// Where a token stands, if it is shown.
    pub fn at(&self, token: u64) -> Option<f64> {
        self.span(&(token..token.saturating_add(1))).map(|(x, _)| x)
    }

    /// The break, where there is one.
    pub fn gap(&self) -> Option<(f64, f64)> {
        let [first, _] = self.windows.as_slice() else { return None };
        let (_, end) = self.span(first)?;
        Some((end, end + BREAK))
    }

    /// The borders of the blocks that are shown, and where they lie.
    pub fn borders(&self) -> Vec<(u64, f64)> {
        let mut borders = Vec::new();
        for window in &self.windows {
            let step = usize::try_from(self.block).unwrap_or(usize::MAX);
            for token in (window.start..=window.end).step_by(step) {
                borders.extend(self.span(&(token..token)).map(|(x, _)| (token, x)));
            }
        }
        borders
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn blocks_are_to_scale_and_long_runs_are_left_out() {
        let short = Axis::new(10.0, 600.0, 16, 5);
        assert_eq!(short.span(&(16..24)), Some((130.0, 190.0)));
        assert_eq!((short.gap(), short.at(79), short.at(80)), (None, Some(602.5), None));

        let long = Axis::new(0.0, 580.0, 64, 501);
        assert_eq!(long.span(&(64..128)), Some((100.0, 200.0)));
        assert_eq!(long.gap(), Some((200.0, 280.0)));
        assert_eq!(long.span(&(498 * 64..499 * 64)), Some((280.0, 380.0)));
        assert_eq!((long.span(&(128..192)), long.span(&(64..192))), (None, None));
        let borders: Vec<u64> = long.borders().into_iter().map(|(token, _)| token / 64).collect();
        assert_eq!(borders, vec![0, 1, 2, 498, 499, 500, 501]);
    }

    #[test]
    fn one_block_is_no_wider_than_it_reads_well() {
        assert_eq!(Axis::new(0.0, 600.0, 1600, 1).span(&(0..1600)), Some((0.0, 420.0)));
    }
}
