//! What a hand-off did, on either side.

use std::net::SocketAddr;

use pagelift::import::Policy;
use pagelift_transport::lease::RankEnd;
use pagelift_transport::nixl::Library;
use pagelift_transport::notice::ReadOutcome;
use serde::Serialize;

use super::error::HandoffError;
use super::facts::RankOf;
use super::reads::Came;
use crate::Failure;
use crate::manifest::Manifest;
use crate::restore::Report;
use crate::say::{bytes, count, say, seconds, table};

/// What a rank of P did.
#[derive(Debug, Serialize)]
pub struct PrefillReport {
    /// The manifest's model.
    pub model: String,
    /// The rank, and how many there are.
    pub rank: u32,
    pub ranks: u32,
    /// Where it listened.
    pub address: String,
    /// Cache groups.
    pub groups: usize,
    /// Ranges of memory that were registered.
    pub regions: usize,
    /// Bytes that an import reads.
    pub bytes_exported: u64,
    /// By the order in which they became free.
    pub exports: Vec<ExportReport>,
    /// Bytes of all pools, every one of which was compared when all exports were free.
    pub bytes_verified: u64,
    /// Whether every byte was right. A run with a wrong one ends with an error instead.
    pub verified: bool,
    /// NIXL's library.
    pub nixl: Option<String>,
    /// What ran the kernels.
    pub backend: &'static str,
    /// Why that.
    pub backend_reason: String,
    /// What the bytes follow from.
    pub seed: u64,
    /// How long all of it took.
    pub seconds: f64,
}

/// An export that is free.
#[derive(Clone, Debug, Serialize)]
pub struct ExportReport {
    /// The request.
    pub request: u64,
    /// Tokens that D has imported.
    pub imported_tokens: u64,
    /// Blocks whose digests were sent.
    pub digests: usize,
    /// How it ended: `read`, `failed`, `cancelled`, `expired` or `gone`.
    pub end: &'static str,
    /// Whether all of it was read.
    #[serde(skip)]
    pub read: bool,
}

/// An end in one word.
pub const fn ended(end: RankEnd) -> &'static str {
    match end {
        RankEnd::Heard(ReadOutcome::Read) => "read",
        RankEnd::Heard(ReadOutcome::Failed) => "failed",
        RankEnd::Heard(ReadOutcome::Cancelled) => "cancelled",
        RankEnd::Expired => "expired",
        RankEnd::Gone => "gone",
    }
}

impl PrefillReport {
    pub fn new(
        manifest: &Manifest,
        rank: RankOf,
        address: SocketAddr,
        exports: Vec<ExportReport>,
        library: &Library,
    ) -> Self {
        Self {
            model: manifest.model().into(),
            rank: rank.rank,
            ranks: rank.ranks,
            address: address.to_string(),
            groups: manifest.groups().len(),
            regions: 0,
            bytes_exported: manifest.handed_over(),
            exports,
            bytes_verified: 0,
            verified: true,
            nixl: library.version().map(str::to_owned),
            backend: "",
            backend_reason: String::new(),
            seed: 0,
            seconds: 0.0,
        }
    }

    /// Refuses exports that were not read to their end.
    pub fn check(&self) -> Result<(), HandoffError> {
        let wrong: Vec<&ExportReport> = self.exports.iter().filter(|export| !export.read).collect();
        match wrong.first() {
            None => Ok(()),
            Some(first) => Err(HandoffError::NotRead {
                failed: wrong.len() as u64,
                all: self.exports.len() as u64,
                why: format!("that of request {} has ended as {}", first.request, first.end),
            }),
        }
    }

    /// Prints it for a person.
    pub fn print(&self) -> Result<(), Failure> {
        let mut table = table(["exported", self.model.as_str()]);
        let exports = self.exports.iter().filter(|export| export.read).count();
        let digests: usize = self.exports.iter().map(|export| export.digests).sum();
        let nixl = self.nixl.as_deref().unwrap_or("of a version that it does not tell");
        for (what, value) in [
            ("rank", format!("{} of {}, at {}", self.rank, self.ranks, self.address)),
            (
                "caches",
                format!("{} in {}", count(self.groups as u64, "group"), count(self.regions as u64, "range")),
            ),
            ("exports", format!("{exports} read, of {} each", bytes(self.bytes_exported))),
            ("digests", format!("{} sent", count(digests as u64, "block"))),
            ("verified", format!("every byte of {} of pools is as it was", bytes(self.bytes_verified))),
            ("NIXL", nixl.to_owned()),
            ("backend", format!("{} ({})", self.backend, self.backend_reason)),
            ("time", seconds(self.seconds)),
        ] {
            table.add_row([what.to_owned(), value]);
        }
        say(&table)
    }
}

/// What a rank of D did: what `restore` reports, and how the blocks came.
#[derive(Debug, Serialize)]
pub struct DecodeReport {
    /// The rank, and how many there are.
    pub rank: u32,
    pub ranks: u32,
    /// Where P was.
    pub from: String,
    /// What became of the partly filled last block.
    pub policy: Policy,
    /// Prompt tokens that were computed here before the last one.
    pub left_tokens: u32,
    /// Reads.
    pub reads: usize,
    /// Their bytes.
    pub bytes_read: u64,
    /// Bytes of D's blocks that P has no block for.
    pub bytes_zeroed: u64,
    /// Blocks whose digests are equal on both sides.
    pub digests_compared: usize,
    /// From the connection to P's offer, its lists made ready.
    pub pair_seconds: f64,
    /// From the question to P to the last byte.
    pub import_seconds: f64,
    /// From P's answer to the last byte.
    pub read_seconds: f64,
    /// NIXL's library.
    pub nixl: Option<String>,
    /// As `restore` reports it.
    #[serde(flatten)]
    pub restored: Report,
}

impl DecodeReport {
    pub fn new(
        rank: RankOf,
        from: SocketAddr,
        policy: Policy,
        came: Came,
        restored: Report,
        library: &Library,
    ) -> Self {
        Self {
            rank: rank.rank,
            ranks: rank.ranks,
            from: from.to_string(),
            policy,
            left_tokens: 0,
            reads: came.reads,
            bytes_read: came.bytes,
            bytes_zeroed: came.zeroed,
            digests_compared: came.digests,
            pair_seconds: 0.0,
            import_seconds: came.seconds,
            read_seconds: came.read_seconds,
            nixl: library.version().map(str::to_owned),
            restored,
        }
    }

    /// Prints it for a person.
    pub fn print(&self) -> Result<(), Failure> {
        let mut table = table(["handed over", self.restored.model.as_str()]);
        let rate =
            if self.read_seconds > 0.0 { self.bytes_read as f64 / self.read_seconds / 1e9 } else { 0.0 };
        let reads = count(self.reads as u64, "read");
        for (what, value) in [
            ("rank", format!("{} of {}, from {}", self.rank, self.ranks, self.from)),
            (
                "reads",
                format!(
                    "{} in {reads}, {}: {rate:.2} GB/s",
                    bytes(self.bytes_read),
                    seconds(self.read_seconds)
                ),
            ),
            ("digests", format!("{} equal on both sides", count(self.digests_compared as u64, "block"))),
        ] {
            table.add_row([what.to_owned(), value]);
        }
        say(&table)?;
        self.restored.print()
    }
}
