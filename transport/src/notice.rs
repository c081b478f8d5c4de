//! What D tells P when nothing of an import reads P's blocks any more: one short line for each rank.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::NoticeError;

/// Blocks that a producer has exported for one import. The number is the producer's; its incarnation tells it from a
/// process of the same name that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportId {
    /// A number that the producer's process drew when it began.
    pub incarnation: u64,
    /// Which of its exports.
    pub number: u64,
}

impl fmt::Display for ExportId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { incarnation, number } = self;
        write!(f, "export {number} of incarnation {incarnation:016x}")
    }
}

/// How a rank's reads ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadOutcome {
    /// All bytes are there, or none were wanted.
    Read,
    /// Some are not.
    Failed,
    /// Nobody wants them any more.
    Cancelled,
}

/// A rank of D reads an export no more. It is sent exactly once for each rank of an import.
///
/// ```
/// use pagelift_transport::notice::{ExportId, Notice, ReadOutcome};
/// let export = ExportId { incarnation: 0x5eed, number: 7 };
/// let notice = Notice { export, rank: 1, outcome: ReadOutcome::Read };
/// assert_eq!(notice.to_string(), "pagelift1 0000000000005eed 7 1 read");
/// assert_eq!(Notice::parse(notice.to_string().as_bytes())?, notice);
/// # Ok::<(), pagelift_transport::error::NoticeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// What it has read.
    pub export: ExportId,
    /// The rank.
    pub rank: u32,
    /// How it ended.
    pub outcome: ReadOutcome,
}

/// What every notice begins with.
const BEGINNING: &str = "pagelift1";

impl Notice {
    /// The longest notice: two numbers of 64 bits, one of 32, and words.
    pub const MOST_BYTES: usize = 80;

    /// The notice that a peer sent.
    ///
    /// # Errors
    /// [`NoticeError`] for anything else.
    pub fn parse(text: &[u8]) -> Result<Self, NoticeError> {
        if text.len() > Self::MOST_BYTES {
            return Err(NoticeError { bytes: text.len() });
        }
        Self::fields(text)
            .filter(|own| own.to_string().as_bytes() == text)
            .ok_or(NoticeError { bytes: text.len() })
    }

    fn fields(text: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(text).ok()?.split(' ');
        words.next().filter(|word| *word == BEGINNING)?;
        let incarnation = u64::from_str_radix(words.next()?, 16).ok()?;
        let number = u64::from_str(words.next()?).ok()?;
        let rank = u32::from_str(words.next()?).ok()?;
        let outcome = match words.next()? {
            "read" => ReadOutcome::Read,
            "failed" => ReadOutcome::Failed,
            "cancelled" => ReadOutcome::Cancelled,
            _ => return None,
        };
        Some(Self { export: ExportId { incarnation, number }, rank, outcome })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { export: ExportId { incarnation, number }, rank, outcome } = self;
        let outcome = match outcome {
            ReadOutcome::Read => "read",
            ReadOutcome::Failed => "failed",
            ReadOutcome::Cancelled => "cancelled",
        };
        write!(f, "{BEGINNING} {incarnation:016x} {number} {rank} {outcome}")
    }
}
