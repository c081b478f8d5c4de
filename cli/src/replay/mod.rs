//! `pagelift replay`: a lifecycle's log is played again, and every effect compared.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use pagelift::error::LifecycleError;
use pagelift::lifecycle::{Lifecycle, LifecycleCounters, LogEntry, LogHeader};
use serde::Serialize;
use thiserror::Error;

use crate::say::{count, number, say, table};
use crate::{Failure, args, exit, say, text};

/// What a log's replay came to.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Replayed {
    /// Effects that were compared.
    pub effects: u64,
    /// Requests that had not ended when the log did.
    pub requests: u64,
    /// Pages and host blocks that they held.
    pub pages_held: u64,
    /// Those blocks.
    pub blocks_held: u64,
    /// What the lifecycle counted.
    #[serde(flatten)]
    pub counters: LifecycleCounters,
}

/// Why a log cannot be played, or what came out otherwise.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{file}: {cause}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A line that is no record.
    #[error("{file}, line {line}: {cause}; expected {expected}")]
    Record {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// What is wrong with it.
        cause: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// Its options cannot be.
    #[error("{file}: {cause}")]
    Options {
        /// The file.
        file: String,
        /// What is wrong with them.
        cause: LifecycleError,
    },
    /// Something else came of an event.
    #[error(
        "{file}, line {line}: played again, the event comes to\n    {found}\nand in the log to\n    {logged}"
    )]
    Differs {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// What came of it.
        found: String,
        /// What the log says.
        logged: String,
    },
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        let code = if matches!(error, ReplayError::Differs { .. }) { exit::FAILED } else { exit::USAGE };
        Self { message: error.to_string(), code }
    }
}

/// `pagelift replay`.
pub fn command(args: &args::Replay) -> Result<(), Failure> {
    let replayed = replay(&args.log)?;
    if args.json { say::json(&replayed) } else { print(&replayed) }
}

/// Plays a log.
fn replay(path: &Path) -> Result<Replayed, ReplayError> {
    let file = text::path(path).to_string();
    let read = |cause| ReplayError::Read { file: file.clone(), cause };
    let lines = BufReader::new(File::open(path).map_err(read)?).lines();
    let mut lines = (1..).zip(lines);
    let wrong = |line, cause: &dyn ToString, expected| ReplayError::Record {
        file: file.clone(),
        line,
        cause: cause.to_string(),
        expected,
    };
    let mut lifecycle = match lines.next() {
        None => return Err(wrong(1, &"the file is empty", HEADER)),
        Some((number, line)) => {
            let line = line.map_err(read)?;
            let header: LogHeader =
                serde_json::from_str(&line).map_err(|error| wrong(number, &error, HEADER))?;
            if header.pagelift_lifecycle_log != LogHeader::VERSION {
                let cause = format!("the log has version {}", header.pagelift_lifecycle_log);
                return Err(wrong(number, &cause, "version 1"));
            }
            let options = header.options;
            Lifecycle::new(options).map_err(|cause| ReplayError::Options { file: file.clone(), cause })?
        }
    };
    let mut effects = 0;
    for (number, line) in lines {
        let line = line.map_err(read)?;
        let logged: LogEntry<'_> =
            serde_json::from_str(&line).map_err(|error| wrong(number, &error, ENTRY))?;
        let found = lifecycle.record(logged.event.clone());
        effects += found.effects.len() as u64;
        if found != logged {
            let text = |entry: &LogEntry<'_>| serde_json::to_string(entry).unwrap_or_default();
            let (found, logged) = (text(&found), text(&logged));
            return Err(ReplayError::Differs { file, line: number, found, logged });
        }
    }
    let views = || lifecycle.requests().filter_map(|request| lifecycle.request(request));
    let options = lifecycle.options();
    Ok(Replayed {
        effects,
        requests: views().count() as u64,
        pages_held: u64::from(options.pages).saturating_sub(lifecycle.free_pages() as u64),
        blocks_held: u64::from(options.blocks).saturating_sub(lifecycle.available_blocks() as u64),
        counters: lifecycle.counters(),
    })
}

const HEADER: &str = "the header of a lifecycle's log";
const ENTRY: &str = "an event with its effects";

fn print(replayed: &Replayed) -> Result<(), Failure> {
    let Replayed { effects, requests, pages_held, blocks_held, counters } = *replayed;
    let mut table = table(["replayed", "every effect as in the log"]);
    let events = format!(
        "{}, {} refused, {} twice, {} late",
        number(counters.events),
        counters.refused,
        counters.duplicate,
        counters.late
    );
    let ended =
        format!("{} finished, {} aborted, {} failed", counters.finished, counters.aborted, counters.failed);
    let blocks = format!(
        "{} published, {} known already, {} evicted",
        counters.published, counters.known, counters.evicted
    );
    let held = format!("{}, {}", count(pages_held, "page"), count(blocks_held, "host block"));
    for (what, value) in [
        ("events", events),
        ("effects", number(effects)),
        ("imports", format!("{} lifted, {} withheld", counters.lifted, counters.withheld)),
        ("ended", ended),
        ("preempted", format!("{}, {} resumed", counters.preempted, counters.resumed)),
        ("blocks", blocks),
        ("left", format!("{}, with {held}", count(requests, "request"))),
    ] {
        table.add_row([what.to_owned(), value]);
    }
    say(&table)
}
