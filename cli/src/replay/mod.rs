//! `pagelift replay`: a lifecycle's log is played again, and every effect compared.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use pagelift::error::LifecycleError;
use pagelift::lifecycle::{Lifecycle, LifecycleCounters, LogEntry, LogHeader};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::file::{self, Unopened};
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
        cause: io::Error,
    },
    /// It is no file.
    #[error("{file} is {kind}: expected the file of a lifecycle's log")]
    NotAFile {
        /// The path.
        file: String,
        /// What it leads to.
        kind: &'static str,
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
        expected: Cow<'static, str>,
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

/// Bytes of a line: an admission of a million hashes has as many.
const LINE_BYTES: u64 = 32 << 20;

/// The lines of a log.
struct Lines {
    file: String,
    reader: BufReader<File>,
    line: Vec<u8>,
    number: usize,
}

impl Lines {
    fn open(path: &Path) -> Result<Self, ReplayError> {
        let name = text::path(path).to_string();
        match file::open(path) {
            Ok(file) => Ok(Self { file: name, reader: BufReader::new(file), line: Vec::new(), number: 0 }),
            Err(Unopened::System(cause)) => Err(ReplayError::Read { file: name, cause }),
            Err(Unopened::Irregular(kind)) => Err(ReplayError::NotAFile { file: name, kind }),
        }
    }

    /// Goes to the next line, if there is one.
    fn advance(&mut self) -> Result<bool, ReplayError> {
        self.line.clear();
        let read = self.reader.by_ref().take(LINE_BYTES + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|cause| ReplayError::Read { file: self.file.clone(), cause })?;
        self.number += usize::from(read > 0);
        if read as u64 > LINE_BYTES {
            return Err(self.wrong("the line is too long", format!("at most {LINE_BYTES} bytes")));
        }
        Ok(read > 0)
    }

    /// The line as what belongs there.
    fn record<'l, T: Deserialize<'l>>(&'l self, expected: &'static str) -> Result<T, ReplayError> {
        // The parser knows no other lines, and calls each the first: without its end, no error lies on a second.
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        serde_json::from_slice(line).map_err(|error| {
            let (text, column) = (error.to_string(), error.column());
            let cause = text.strip_suffix(&format!(" at line 1 column {column}")).unwrap_or(&text);
            self.wrong(&format!("column {column}: {cause}"), expected)
        })
    }

    fn wrong(&self, cause: &str, expected: impl Into<Cow<'static, str>>) -> ReplayError {
        let (file, line) = (self.file.clone(), self.number.max(1));
        ReplayError::Record { file, line, cause: cause.into(), expected: expected.into() }
    }
}

/// What all versions of a header have.
#[derive(Deserialize)]
struct Version {
    pagelift_lifecycle_log: u32,
}

/// Makes the lifecycle that a log begins with.
fn lifecycle(lines: &mut Lines) -> Result<Lifecycle, ReplayError> {
    if !lines.advance()? {
        return Err(lines.wrong("the file is empty", HEADER));
    }
    // The version first: a log of another version should not be refused for what is new in it.
    let Version { pagelift_lifecycle_log: version } = lines.record(HEADER)?;
    if version != LogHeader::VERSION {
        let expected = format!("version {}", LogHeader::VERSION);
        return Err(lines.wrong(&format!("the log has version {version}"), expected));
    }
    let header: LogHeader = lines.record(HEADER)?;
    let file = || lines.file.clone();
    Lifecycle::new(header.options).map_err(|cause| ReplayError::Options { file: file(), cause })
}

/// Plays a log.
fn replay(path: &Path) -> Result<Replayed, ReplayError> {
    let mut lines = Lines::open(path)?;
    let mut lifecycle = lifecycle(&mut lines)?;
    let mut effects = 0;
    while lines.advance()? {
        let logged: LogEntry<'_> = lines.record(ENTRY)?;
        let found = lifecycle.record(logged.event.clone());
        effects += found.effects.len() as u64;
        if found != logged {
            let text = |entry: &LogEntry<'_>| serde_json::to_string(entry).unwrap_or_default();
            let (found, logged) = (text(&found), text(&logged));
            let (file, line) = (lines.file, lines.number);
            return Err(ReplayError::Differs { file, line, found, logged });
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
