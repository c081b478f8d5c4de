//! Counts that must not be mixed: tokens, rows and bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Declares a quantity: a transparent unsigned integer with checked arithmetic only.
macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident($inner:ty), $unit:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// None.
            pub const ZERO: Self = Self(0);

            /// Wraps a count.
            #[must_use]
            pub const fn new(count: $inner) -> Self {
                Self(count)
            }

            /// The count.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// The sum, or `None` where it does not fit.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// The difference, or none where it would be negative.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{} ", $unit), self.0)
            }
        }
    };
}

quantity!(
    /// Tokens, or slots for tokens.
    ///
    /// ```
    /// use pagelift_planner::quantity::Tokens;
    /// assert_eq!(Tokens::new(128).to_string(), "128 tokens");
    /// ```
    Tokens(u64), "tokens");
quantity!(
    /// Rows of a page: what one layer keeps for one token, or for one group of tokens.
    Rows(u32), "rows");
quantity!(
    /// Bytes.
    Bytes(u64), "B");
