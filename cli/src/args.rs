//! The command line.

use std::net::SocketAddr;
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
    /// Be a prefill engine: fill pools with the manifest's import, export it over NIXL, and end when it was read.
    Prefill(Prefill),
    /// Be a decode engine: read an import from `pagelift prefill`, lift its last block, generate tokens, and verify every byte of
    /// every pool.
    Decode(Decode),
    /// Hand caches from a process to another over NIXL: how fast that is beside one large read, what of it is pagelift's own
    /// cost, and whether many at a time last.
    #[cfg(feature = "nixl")]
    Load(Load),
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

/// What both sides of a hand-off are told.
#[derive(Clone, Debug, ClapArgs)]
pub struct Hand {
    /// A file with the secret that both sides know, 16 random bytes or more. (Or name it by PAGELIFT_SECRET_FILE.) On one
    /// machine, a file of this user's is made and used unless another is named.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Tensor-parallel ranks: a process is started for each, and each of D reads from its like of P.
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_RANKS))]
    pub tp: u32,
    /// Be this rank of --tp, and no other: it is for whoever starts the ranks itself.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_RANKS))]
    pub rank: Option<u32>,
    /// What becomes of the partly filled last block: the same on both sides, for it decides which blocks their lists name.
    #[arg(long, value_enum, default_value_t = Policy::Lift)]
    pub policy: Policy,
    /// NIXL's plugin that carries bytes.
    #[arg(long, default_value = "UCX", value_name = "NAME")]
    pub plugin: String,
    /// What runs the kernels. With `cuda`, pages are in the memory of a GPU, and host pools are pinned.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Index of the GPU, in the driver's order; where there are several (`0,1`), ranks take them in turns.
    #[arg(long, default_value = "0", value_name = "N", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_GPU))]
    pub gpu: Vec<u32>,
    /// Seconds to wait for the other side, and for reads.
    #[arg(long, default_value_t = 120, value_name = "SECONDS", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_SECONDS))]
    pub timeout: u64,
    /// Seed of the random bytes: the same on both sides.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
}

#[cfg(feature = "nixl")]
impl Hand {
    /// The GPU of a rank.
    #[must_use]
    pub fn gpu_of(&self, rank: u32) -> u32 {
        self.gpu.iter().cycle().nth(rank as usize).copied().unwrap_or(0)
    }
}

/// Arguments of `prefill`.
#[derive(Debug, ClapArgs)]
pub struct Prefill {
    /// The import: a JSON file as manifests/README.md describes it.
    pub manifest: PathBuf,
    /// Where to listen; rank N at the port that is N higher. Port 0 is one that the system chooses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Write the addresses to this file once all ranks listen, as `--from` takes them.
    #[arg(long, value_name = "FILE")]
    pub ready: Option<PathBuf>,
    /// Imports to serve; then it ends.
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_REQUESTS))]
    pub requests: u32,
    /// What the arrangement of the pools follows from, where that is not to be the seed.
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub arrangement: Option<u64>,
    /// Milliseconds for which blocks are held after D was last heard of.
    #[arg(long, default_value_t = 30_000, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_MILLISECONDS))]
    pub lease: u64,
    /// Milliseconds between D's heartbeats.
    #[arg(long, default_value_t = 5_000, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_MILLISECONDS))]
    pub heartbeat: u64,
    /// Milliseconds by which D stops believing in a lease before it ends.
    #[arg(long, default_value_t = 1_000, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_MILLISECONDS))]
    pub margin: u64,
    /// Play a fault.
    #[arg(long, value_enum, value_name = "FAULT")]
    pub inject: Option<ExportFault>,
    #[command(flatten)]
    pub hand: Hand,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What may go wrong with an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFault {
    /// A byte changes after its digest was taken.
    Spoil,
}

/// Arguments of `decode`.
#[derive(Debug, ClapArgs)]
pub struct Decode {
    /// The import: the manifest that `pagelift prefill` was given.
    pub manifest: PathBuf,
    /// Where P listens: one address for each rank, or that of the first, whose others are at the ports after it.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', required = true)]
    pub from: Vec<SocketAddr>,
    /// Which rows of the partly filled last block are lifted.
    #[arg(long, value_enum, default_value_t = Mode::Whole)]
    pub mode: Mode,
    /// Tokens to generate after the restore; the first replays the prompt's last one.
    #[arg(long, default_value_t = 0, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_TOKENS))]
    pub generate: u32,
    /// The request's number, by which P knows it.
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub request: u64,
    /// The most bytes of one read: smaller ones tell more exactly what is valid when one fails.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_SEED))]
    pub most_bytes: Option<u64>,
    /// Write the lifecycle's events to this file, for `pagelift replay`.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub hand: Hand,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What becomes of a partly filled last block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// It is read into the host pool, and lifted.
    Lift,
    /// It is left out, and computed again.
    RoundDown,
    /// All of the import lands in pages, of which there are made to be enough; nothing is lifted.
    Direct,
}

impl From<Policy> for pagelift::import::Policy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Lift => Self::LiftTail,
            Policy::RoundDown => Self::RoundDown,
            Policy::Direct => Self::LandOnDevice,
        }
    }
}

#[cfg(feature = "nixl")]
impl Prefill {
    /// How long exports are held.
    pub const fn terms(&self) -> pagelift_transport::lease::Terms {
        let milliseconds = std::time::Duration::from_millis;
        pagelift_transport::lease::Terms {
            lease: milliseconds(self.lease),
            heartbeat: milliseconds(self.heartbeat),
            margin: milliseconds(self.margin),
        }
    }
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

/// Arguments of `load`.
#[cfg(feature = "nixl")]
#[derive(Debug, ClapArgs)]
pub struct Load {
    /// Where the prefill engine's blocks lie: `host`, or `device:N` for the memory of GPU N.
    #[arg(long, default_value = "host", value_name = "PLACE")]
    pub from: Place,
    /// Where the decode engine's blocks lie: `host`, `device:N`, or `lift:N` for a pinned host pool whose tails GPU N lifts; with
    /// `lift` the CPU lifts them.
    #[arg(long, default_value = "host", value_name = "PLACE")]
    pub into: Place,
    /// Leave the partly filled last block out, to be computed again.
    #[arg(long)]
    pub round_down: bool,
    /// Caches to hand over, by their names, separated by commas; without it, all of them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Pairs of processes, one after the other, that each median is of: what memory a process is given makes a difference.
    #[arg(long, default_value_t = 5, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=100))]
    pub pairs: u32,
    /// Rounds of an import and a large read for each pair.
    #[arg(long, default_value_t = 9, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_REPEATS))]
    pub rounds: u32,
    /// The size of these imports, in MiB: as many blocks as that takes.
    #[arg(long, default_value_t = 128, value_name = "MIB", allow_negative_numbers = true, value_parser = whole::<u64>(1..=2048))]
    pub mebibytes: u64,
    /// Imports that the own cost is a median of.
    #[arg(long, default_value_t = 200, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_REPEATS))]
    pub imports: u32,
    /// Seconds of many imports at a time; 0 for none.
    #[arg(long, default_value_t = 60, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(0..=86_400))]
    pub seconds: u64,
    /// How many are in flight.
    #[arg(long, default_value_t = 64, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=4096))]
    pub in_flight: u32,
    /// How many of a hundred are given up.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>(0..=100))]
    pub aborts: u32,
    /// Of how many of a hundred one block is compared.
    #[arg(long, default_value_t = 10, value_name = "PERCENT", allow_negative_numbers = true, value_parser = whole::<u32>(0..=100))]
    pub compare: u32,
    /// Seed of all that is random.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub seed: u64,
    /// Write the results to this path with `.md`, `.json` and `.svg` at its end.
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Be the prefill engine; the program calls itself so.
    #[arg(long, hide = true)]
    pub serve: Option<String>,
}

/// Where blocks lie that are handed over.
#[cfg(feature = "nixl")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Place {
    /// In memory of the host.
    Host,
    /// In that of a GPU.
    Device(u32),
    /// In memory of the host that a GPU reaches, or the CPU; the last block is lifted from there.
    Lift(Option<u32>),
}

#[cfg(feature = "nixl")]
impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let gpu = |text: &str| whole::<u32>(0..=MOST_GPU)(text);
        match text.split_once(':') {
            None if text == "host" => Ok(Self::Host),
            None if text == "lift" => Ok(Self::Lift(None)),
            Some(("device", number)) => gpu(number).map(Self::Device),
            Some(("lift", number)) => gpu(number).map(|number| Self::Lift(Some(number))),
            _ => Err("expected `host`, `device:N`, `lift` or `lift:N`".into()),
        }
    }
}

#[cfg(feature = "nixl")]
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Device(gpu) => write!(f, "device:{gpu}"),
            Self::Lift(None) => f.write_str("lift"),
            Self::Lift(Some(gpu)) => write!(f, "lift:{gpu}"),
        }
    }
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
/// The most ranks.
const MOST_RANKS: u64 = 64;
/// The most imports that one run serves.
const MOST_REQUESTS: u64 = 1 << 20;
/// The longest wait: a day.
const MOST_SECONDS: u64 = 86_400;
/// The longest lease.
const MOST_MILLISECONDS: u64 = 86_400_000;
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
