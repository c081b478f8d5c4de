//! What is refused: what the library refuses, and what its types would not have let anybody write.

use std::fmt::Debug;

use pagelift::error::BackendError;
use pagelift::geometry::{GroupKind, Lift};
use thiserror::Error as ThisError;

use crate::keys::Way;

/// What a call comes to.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// What is refused.
///
/// ```
/// use pagelift::error::MemoryError;
/// use pagelift_bindings::Error;
/// assert!(matches!(Error::from(MemoryError::Released), Error::Library(pagelift::Error::Memory(_))));
/// ```
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// By the library.
    #[error(transparent)]
    Library(pagelift::Error),
    /// In place of the compiler.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl<E: Into<pagelift::Error>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Library(error.into())
    }
}

/// What the library's types would not have let anybody write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Mismatch {
    /// A call that plans of this type do not have.
    #[error("the call is for {expected}; this is {found}")]
    Plan {
        /// Plans that have it.
        expected: &'static str,
        /// The plan's type.
        found: &'static str,
    },
    /// A route of another direction.
    #[error("the plan copies {expected}, and the route goes {found}")]
    Way {
        /// The plan's.
        expected: Way,
        /// The route's.
        found: Way,
    },
    /// A group of a kind that the call is not for.
    #[error("the group is {}; {rule}", word(*found))]
    Group {
        /// Its kind.
        found: GroupKind,
        /// What the call is for.
        rule: &'static str,
    },
    /// Two sides of different kinds.
    #[error("the sides are of different kinds: one is {}, the other {}", word(*from), word(*to))]
    Sides {
        /// The kind of the source.
        from: GroupKind,
        /// That of the destination.
        to: GroupKind,
    },
    /// A side whose layout is of another kind than its group, or than the other side.
    #[error("the group is {}, and a side's layout {}: they are of different kinds", word(*group), word(*layout))]
    Layout {
        /// The group's kind.
        group: GroupKind,
        /// The layout's.
        layout: GroupKind,
    },
    /// A lift that groups of this kind do not have.
    #[error("lift of a {}", lifts(*group, *found))]
    Lift {
        /// The group's kind.
        group: GroupKind,
        /// What was to be lifted.
        found: Lift,
    },
    /// A number of pages for each request, of a group that is not paged.
    #[error("the group is {}; `each` is for paged groups that are whole on the device", word(*found))]
    Each {
        /// The group's kind.
        found: GroupKind,
    },
    /// A launcher of plans of another type.
    #[error("the launcher was bound with another type of plan, {expected}; this is {found}")]
    Launcher {
        /// What it was bound with.
        expected: &'static str,
        /// The plan's type.
        found: &'static str,
    },
    /// A stream of a backend that has none.
    #[error("the backend `cpu` has no streams: a launch has run when the call returns")]
    NoStreams,
}

fn word(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Paged => "paged",
        GroupKind::Ring => "a ring",
        GroupKind::State => "a state",
    }
}

fn lifts(group: GroupKind, found: Lift) -> String {
    let (groups, expected) = match group {
        GroupKind::Paged => ("paged", "tail, all, none"),
        GroupKind::Ring | GroupKind::State => ("ring or state", "state, none"),
    };
    format!("{groups} group is {}; expected one of {expected}", variant(&found).to_lowercase())
}

/// The name of an error's variant, by which C and Python tell its kind.
///
/// ```
/// use pagelift::error::LaunchError;
/// assert_eq!(pagelift_bindings::error::variant(&LaunchError::NoSlots), "NoSlots");
/// ```
#[must_use]
pub fn variant(error: &dyn Debug) -> String {
    let words = format!("{error:?}");
    words.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// What engines tell apart of a backend's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// There is no driver.
    NoDriver,
    /// Not in a capture, or only there.
    Capture,
    /// The driver refused a call.
    Driver,
    /// A fault took the GPU's context.
    ContextLost,
    /// Anything else.
    Other,
}

impl Trouble {
    /// Which one an error is.
    ///
    /// ```
    /// use pagelift::error::BackendError;
    /// use pagelift_bindings::error::Trouble;
    /// assert_eq!(Trouble::of(&BackendError::NotCapturing), Trouble::Capture);
    /// ```
    #[must_use]
    pub fn of(error: &BackendError) -> Self {
        use BackendError as Why;
        match error {
            Why::NoDriver { .. } => Self::NoDriver,
            Why::Capturing { .. }
            | Why::NotCapturing
            | Why::WaitsForCapture
            | Why::CapturingAnother
            | Why::BatchInCapture => Self::Capture,
            Why::Driver { .. } => Self::Driver,
            Why::ContextLost { .. } | Why::ContextGone => Self::ContextLost,
            _ => Self::Other,
        }
    }
}
