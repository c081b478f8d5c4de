//! Commands that take a manifest's import, or its pools, on one machine.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::values::{Backend, MOST_SEED, MOST_TOKENS, Mode, whole};
use crate::manifest::Memory;
use crate::restore::Fault;

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

/// The most blocks, or rows, that are gathered.
const MOST_GATHERED: u64 = 1 << 20;
