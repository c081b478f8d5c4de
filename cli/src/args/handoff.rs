//! A hand-off between two engines, at either end.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::values::{Backend, MOST_GPU, MOST_SEED, MOST_TOKENS, Mode, Parameter, whole};

/// Reads an address and a port.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:7700 or [::1]:7700 (names are not looked up)"
    })
}

/// Reads the address and port of somebody who listens.
fn address_of_another(text: &str) -> Result<SocketAddr, &'static str> {
    let found = address(text)?;
    if found.port() == 0 {
        Err("nobody listens at port 0; the other side says which it has")
    } else {
        Ok(found)
    }
}

/// What both sides of a hand-off are told.
#[derive(Clone, Debug, ClapArgs)]
pub struct Hand {
    /// A file with the secret that both sides know, 16 random bytes or more. (Or name it by PAGELIFT_SECRET_FILE.) On one
    /// machine, a file of this user's is made and used unless another is named.
    #[arg(long, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Tensor-parallel ranks: a process is started for each, and each rank of D reads from the same rank of P.
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_RANKS))]
    pub tp: u32,
    /// Be this rank of --tp, and no other: it is for whoever starts the ranks itself.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_RANKS))]
    pub rank: Option<u32>,
    /// The process that has started this rank, and with which it ends; the program says so to itself.
    #[arg(long, hide = true)]
    pub parent: Option<i32>,
    /// What becomes of the partly filled last block. D's decides what is read; P arranges its pools as D's are with that policy.
    #[arg(long, value_enum, default_value_t = Policy::Lift)]
    pub policy: Policy,
    /// NIXL's plugin that carries bytes.
    #[arg(long, default_value = "UCX", value_name = "NAME")]
    pub plugin: String,
    /// A parameter of the plugin, such as `num_threads=4`; may be given more than once, and goes before what is set for imports.
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    pub parameters: Vec<Parameter>,
    /// What runs the kernels. With `cuda`, pages are in the memory of a GPU, and host pools are pinned.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Index of the GPU, in the driver's order; where there are several (`0,1`), ranks take them in turns.
    #[arg(long, default_value = "0", value_name = "N", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole::<u32>(0..=MOST_GPU))]
    pub gpu: Vec<u32>,
    /// Seconds to wait for the other side, anew with each import that begins or goes on, and for reads.
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
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = address)]
    pub listen: SocketAddr,
    /// Write the addresses to this file once all ranks listen, as `--from` takes them.
    #[arg(long, value_name = "FILE")]
    pub ready: Option<PathBuf>,
    /// Imports to serve; then it ends.
    #[arg(long, default_value_t = 1, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=MOST_REQUESTS))]
    pub requests: u32,
    /// Seed of how the pools are arranged, where it is not to be that of --seed.
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, value_parser = whole::<u64>(0..=MOST_SEED))]
    pub arrangement: Option<u64>,
    /// Milliseconds for which blocks are held after D was last heard of.
    #[arg(long, default_value_t = 30_000, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_MILLISECONDS))]
    pub lease: u64,
    /// Milliseconds between D's heartbeats.
    #[arg(long, default_value_t = 5_000, value_name = "MS", allow_negative_numbers = true, value_parser = whole::<u64>(1..=MOST_MILLISECONDS))]
    pub heartbeat: u64,
    /// Milliseconds before a lease ends at which D gives it up, for clocks drift.
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
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', required = true, value_parser = address_of_another)]
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
    /// The most bytes of one read, 64 MiB unless said otherwise: smaller ones tell more exactly what is valid when one fails.
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

/// The most ranks.
const MOST_RANKS: u64 = 64;
/// The most imports that one run serves.
const MOST_REQUESTS: u64 = 1 << 20;
/// The longest wait: a day.
const MOST_SECONDS: u64 = 86_400;
/// The longest lease.
const MOST_MILLISECONDS: u64 = 86_400_000;
