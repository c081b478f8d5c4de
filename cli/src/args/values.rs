//! Values that several commands take, and their limits.

#[cfg(feature = "nixl")]
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::ValueEnum;
use pagelift::backends::Choice;
use pagelift::plan::TailRows;
#[cfg(feature = "nixl")]
use pagelift_transport::nixl::AgentOptions;

/// What runs the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The best one that this build and this machine have.
    Auto,
    /// The CPU.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
}

impl From<Backend> for Choice {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Auto => Self::Auto,
            Backend::Cpu => Self::Cpu,
            Backend::Cuda => Self::Cuda,
        }
    }
}

/// Which rows of the partly filled last block are lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The whole block; what lies in its holes means nothing.
    Whole,
    /// The imported rows.
    Exact,
    /// The imported rows, and zeros after them.
    ExactZeroed,
}

impl From<Mode> for TailRows {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Whole => Self::Whole,
            Mode::Exact => Self::Exact,
            Mode::ExactZeroed => Self::ExactZeroed,
        }
    }
}

/// A parameter of NIXL's plugin: its name, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "nixl", derive(serde::Serialize, serde::Deserialize))]
pub struct Parameter(String, String);

impl FromStr for Parameter {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text.split_once('=').unwrap_or_default();
        if name.is_empty() {
            return Err("expected a name and a value, such as num_threads=4");
        }
        Ok(Self(name.into(), value.into()))
    }
}

#[cfg(feature = "nixl")]
impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.0, self.1)
    }
}

#[cfg(feature = "nixl")]
impl Parameter {
    /// Those of a plugin that suit imports, and these, which go before them.
    #[must_use]
    pub fn with<'p>(plugin: &'p str, given: &'p [Self]) -> Vec<(&'p str, &'p str)> {
        let own = AgentOptions::over("", plugin).parameters.iter().copied();
        own.chain(given.iter().map(|Self(name, value)| (name.as_str(), value.as_str()))).collect()
    }
}

/// The most tokens that are generated: each has a step or a part of one, and rows of its own.
pub(super) const MOST_TOKENS: u64 = 1 << 20;
/// The most runs of a median.
pub(super) const MOST_REPEATS: u64 = 10_000;
/// The largest index of a GPU: the driver's are not negative.
pub(super) const MOST_GPU: u64 = i32::MAX as u64;
/// The largest seed: every reader of JSON holds it exactly.
pub(super) const MOST_SEED: u64 = (1 << 53) - 1;

/// Reads a whole number of this range.
pub(super) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}
