//! Division by numbers that are known when a kernel runs, and not before.

/// `dividend / divisor`, or `None` by 0.
///
/// A division takes a GPU some thirty instructions, one after the other. Nearly every divisor of a table is larger than what
/// it divides (blocks of the only extent), as large (rows of a map's entry and of a page), 1 (tokens of a row) or another
/// power of two (slots of a page): for those there are a few.
#[inline(always)]
pub(crate) fn quotient(dividend: u32, divisor: u32) -> Option<u32> {
    if dividend < divisor {
        Some(0)
    } else if dividend - divisor < divisor {
        Some(1)
    } else if divisor.is_power_of_two() {
        Some(dividend >> divisor.trailing_zeros())
    } else {
        dividend.checked_div(divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::quotient;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_quotient(dividend: u32, divisor: u32, shift in 0_u32..32) {
            for divisor in [divisor, divisor >> shift, 1 << shift, (1 << shift) - 1, dividend, 0] {
                for dividend in [dividend, dividend >> shift, 0, u32::MAX] {
                    prop_assert_eq!(quotient(dividend, divisor), dividend.checked_div(divisor));
                }
            }
        }
    }
}
