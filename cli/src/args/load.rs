//! Hand-offs that are timed, and many at a time.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;

use super::values::{MOST_GPU, MOST_REPEATS, MOST_SEED, Parameter, whole};

/// Arguments of `load`.
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
    /// A parameter of NIXL's plugin UCX in both processes, such as `num_threads=4`; may be given more than once, and goes before
    /// what is set for imports.
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    pub parameters: Vec<Parameter>,
    /// Caches to hand over, by their names, separated by commas (a wrong one lists them); without it, all of them.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Place {
    /// In memory of the host.
    Host,
    /// In that of a GPU.
    Device(u32),
    /// In memory of the host that a GPU reaches, or the CPU; the last block is lifted from there.
    Lift(Option<u32>),
}

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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Device(gpu) => write!(f, "device:{gpu}"),
            Self::Lift(None) => f.write_str("lift"),
            Self::Lift(Some(gpu)) => write!(f, "lift:{gpu}"),
        }
    }
}
