//! No two blocks share a byte.
//!
//! A run is one layer's blocks in one extent: pages at `base, base + stride, …`. Two runs may interleave, as layers
//! of a packed slab do, and groups that alias one slab share bytes where they name the *same* block: one physical
//! block belongs to one group at a time, which plans check. Anything else that shares a byte is refused here, so that
//! distinct blocks, layers and pools of a geometry never touch.

use std::sync::Arc;

use super::side::Run;
use crate::error::GeometryError;

/// Refuses runs that share bytes, naming them by `name`.
pub(crate) fn check_apart(mut runs: Vec<Run>, name: impl Fn(&Run) -> Arc<str>) -> Result<(), GeometryError> {
    runs.sort_by_key(|run| run.base);
    for (index, low) in runs.iter().enumerate() {
        let later = runs.iter().skip(index.saturating_add(1));
        // Runs are sorted by base: past the first that begins after `low`'s end, none can touch it.
        for high in later.take_while(|high| high.base < low.end) {
            if share_bytes(low, high) {
                return Err(GeometryError::SharedBytes { first: name(low), second: name(high) });
            }
        }
    }
    Ok(())
}

/// Whether pages of different blocks share a byte. `low.base <= high.base < low.end`.
fn share_bytes(low: &Run, high: &Run) -> bool {
    let gap = high.base.saturating_sub(low.base);
    let aliases = low.pool == high.pool && low.side != high.side;
    if low.stride != high.stride || low.stride < low.page_bytes {
        // Pages at unequal distances meet in more than one way, and a single page has no distance: only single, same
        // blocks may alias.
        let one_block = low.base.saturating_add(low.page_bytes) == low.end
            && high.base.saturating_add(high.page_bytes) == high.end;
        return !(aliases && one_block && low.first_block == high.first_block);
    }
    // Block `i` of `high` begins `phase` bytes after block `i + steps` of `low`.
    let steps = gap.checked_div(low.stride).unwrap_or(0);
    let phase = gap.checked_rem(low.stride).unwrap_or(0);
    let with_same = phase < low.page_bytes;
    // … and may reach into block `i + steps + 1`, where `low` has that block.
    let next_starts = low.stride.saturating_sub(phase);
    let next_base = low.base.saturating_add(steps.saturating_add(1).saturating_mul(low.stride));
    let with_next = high.page_bytes > next_starts && next_base < low.end;
    let same = |steps: u64| {
        aliases && u64::from(high.first_block) == u64::from(low.first_block).saturating_add(steps)
    };
    (with_same && !same(steps)) || (with_next && !same(steps.saturating_add(1)))
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;
    use crate::id::PoolId;

    /// The naive answer: lay out every page.
    fn naive(low: &Run, high: &Run) -> bool {
        let pages = |run: &Run| -> Vec<(u64, u64, u64)> {
            (0..)
                .map(|i| (run.base + i * run.stride, u64::from(run.first_block) + i))
                .map(|(start, block)| (start, start + run.page_bytes, block))
                .take_while(|&(_, end, _)| end <= run.end)
                .take(if run.stride < run.page_bytes { 1 } else { usize::MAX })
                .collect()
        };
        let aliases = low.pool == high.pool && low.side != high.side;
        pages(low)
            .iter()
            .any(|a| pages(high).iter().any(|b| a.0 < b.1 && b.0 < a.1 && !(aliases && a.2 == b.2)))
    }

    fn run(base: u64, stride: u64, count: u64, page: u64, first_block: u32, side: u32) -> Run {
        let end = base + (count - 1) * stride + page;
        Run { base, end, stride, page_bytes: page, first_block, pool: PoolId::new(0, 0), side, layer: 0 }
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_naive_answer(
            base in 0_u64..64, stride in 1_u64..24,
            low in (1_u64..6, 1_u64..24, 0_u32..3), high in (1_u64..6, 1_u64..24, 0_u32..3), sides in 0_u32..2,
        ) {
            let a = run(100, stride, low.0, low.1.min(stride), low.2, 0);
            let b = run(100 + base % (a.end - 100), stride, high.0, high.1.min(stride), high.2, sides);
            proptest::prop_assert_eq!(share_bytes(&a, &b), naive(&a, &b));
        }

        #[test]
        fn the_stride_of_single_blocks_means_nothing(
            gap in 0_u64..24, strides in (0_u64..40, 0_u64..40), pages in (1_u64..24, 1_u64..24),
            first in (0_u32..2, 0_u32..2), sides in 0_u32..2,
        ) {
            let a = run(100, strides.0, 1, pages.0, first.0, 0);
            let b = run(100 + gap % pages.0, strides.1, 1, pages.1, first.1, sides);
            proptest::prop_assert_eq!(share_bytes(&a, &b), naive(&a, &b));
        }
    }
}
