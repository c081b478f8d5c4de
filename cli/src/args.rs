//! The command line.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use pagelift::backends::Choice;
use pagelift::plan::TailRows;

use crate::bench::Figure;
use crate::manifest::Memory;
use crate::restore::Fault;

/// Restores imported KV-cache pages, and proves every byte.
#[derive(Debug, Parser)]
#[command(name = "pagelift", version, about = "Restores imported KV-cache pages, and proves every byte")]
#[command(
    after_help = "Exit codes: 0 done, 1 a byte was wrong or a step failed, 2 wrong usage or manifest, 3 this \
                        machine or build cannot do it."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Land an import, lift its last block into a page, generate tokens, and verify every byte of every pool.
    Restore(Restore),
    /// Explain an import without running it: what is lifted, how, and what that takes. It needs none of the pools'
    /// memory.
    Plan(Plan),
    /// Land and lift an import, print one digest for the rows of each group on both sides, and check that they agree.
    Digest(Digest),
    /// Gather blocks, and rows by index lists, of the manifest's pools, and verify every byte of them.
    Gather(Gather),
    /// Compare the kernels with plain copies and copy engines: medians, by multiprocessor budget.
    Bench(Bench),
    /// Find the smallest multiprocessor budget that is nearly as fast as the best, for each direction, and keep it for this
    /// GPU and link.
    Calibrate(Calibrate),
    /// List the layouts that a manifest may name, or describe one.
    Layouts(Layouts),
    /// Say what this build and this machine can do, and what to do next.
    Doctor(Doctor),
    /// Play a lifecycle's log again, and compare every effect.
    Replay(Replay),
    /// Print completions for a shell.
    Completions(Completions),
    /// Print a manual page: `pagelift man | man -l -`.
    Man(Man),
}

/// Arguments of `restore`.
#[derive(Debug, ClapArgs)]
pub struct Restore {
    /// The import: a JSON file as manifests/README.md describes it.
    pub manifest: PathBuf,
    /// What runs the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Which rows of the partly filled last block are lifted.
    #[arg(long, value_enum, default_value_t = Mode::Whole)]
    pub mode: Mode,
    /// Tokens to generate after the restore; the first replays the prompt's last one.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_TOKENS))]
    pub generate: u32,
    /// Play a fault, at a moment that follows from the seed.
    #[arg(long, value_enum, value_name = "FAULT")]
    pub inject: Option<Fault>,
    /// Write the lifecycle's events to this file, for `pagelift replay`.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Seed of the random bytes.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `digest`.
#[derive(Debug, ClapArgs)]
pub struct Digest {
    /// The import: a JSON file as manifests/README.md describes it.
    pub manifest: PathBuf,
    /// What runs the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Which rows of the partly filled last block are lifted.
    #[arg(long, value_enum, default_value_t = Mode::Whole)]
    pub mode: Mode,
    /// Seed of the random bytes.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `gather`.
#[derive(Debug, ClapArgs)]
pub struct Gather {
    /// The pools: a JSON file as manifests/README.md describes it.
    pub manifest: PathBuf,
    /// Only this group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// Where blocks and rows come from: blocks go to the other memory, rows to a compact buffer on the device.
    #[arg(long, value_enum, default_value_t = Source::Host)]
    pub from: Source,
    /// Blocks to gather from each group, at most its share of a pool. 8 where neither this nor --rows is given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_GATHERED))]
    pub blocks: Option<u32>,
    /// Entries of each index list of rows to gather. 100 where neither this nor --blocks is given.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_GATHERED))]
    pub rows: Option<u32>,
    /// What runs the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Seed of the random bytes and indices.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

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

/// Where blocks and rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Host blocks.
    Host,
    /// Pages on the device.
    Device,
}

impl From<Source> for Memory {
    fn from(source: Source) -> Self {
        match source {
            Source::Host => Self::Host,
            Source::Device => Self::Device,
        }
    }
}

/// Arguments of `plan`.
#[derive(Debug, ClapArgs)]
pub struct Plan {
    /// The import: a JSON file as manifests/README.md describes it.
    pub manifest: PathBuf,
    /// Which rows of the partly filled last block are lifted.
    #[arg(long, value_enum, default_value_t = Mode::Whole)]
    pub mode: Mode,
    /// Write a picture of the import to this file, too.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
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

/// Arguments of `layouts`.
#[derive(Debug, ClapArgs)]
pub struct Layouts {
    /// The layout to describe; all are listed without it.
    pub name: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Imports of which to say whether they fit in this machine's memory.
    pub manifests: Vec<PathBuf>,
    /// What would run the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// The log: a line of JSON for what the lifecycle looks after, and one for each event.
    pub log: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `completions`.
#[derive(Debug, ClapArgs)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, ClapArgs)]
pub struct Man {
    /// The command to print the page of; without it, that of the program.
    pub command: Option<String>,
}

/// The most tokens that are generated: each has a step or a part of one, and rows of its own.
const MOST_TOKENS: u64 = 1 << 20;
/// The most blocks, or rows, that are gathered.
const MOST_GATHERED: u64 = 1 << 20;
/// The most runs of a median.
const MOST_REPEATS: u64 = 10_000;
/// The largest index of a GPU: the driver's are not negative.
const MOST_GPU: u64 = i32::MAX as u64;
/// The largest seed: every reader of JSON holds it exactly.
const MOST_SEED: u64 = (1 << 53) - 1;

/// Reads a whole number of this range.
fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

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
