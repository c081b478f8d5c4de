//! Measurements of the kernels, and of the budget that is enough.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;

use super::values::{Backend, MOST_GPU, MOST_REPEATS, MOST_SEED, whole};
use crate::bench::Figure;

/// Arguments of `bench`.
#[derive(Debug, ClapArgs)]
pub struct Bench {
    /// Measure these figures only.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FIGURES")]
    pub only: Vec<Figure>,
    /// Budgets to measure with: multiprocessors of a GPU, threads of a CPU; `all` for every one.
    #[arg(long, value_delimiter = ',', value_name = "BUDGETS", default_value = "1,2,4,8,16,32,all")]
    pub budgets: Vec<Budget>,
    /// Runs per median.
    #[arg(long, default_value_t = 21, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_REPEATS))]
    pub repeats: u32,
    /// Write the report, and pictures of it, into this folder too.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Run a reduced workload, to try the command: its timings mean nothing.
    #[arg(long)]
    pub small: bool,
    /// What runs the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Seed of the random bytes and pages.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// How many multiprocessors a launch may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many.
    Workers(NonZeroU32),
    /// All that there are.
    All,
}

impl FromStr for Budget {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::Workers).map_err(|_| "expected a positive number, or `all`"),
        }
    }
}

/// Arguments of `calibrate`.
#[derive(Debug, ClapArgs)]
pub struct Calibrate {
    /// Index of the GPU, in the driver's order.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_GPU))]
    pub gpu: u32,
    /// Measure again what was measured before.
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}
