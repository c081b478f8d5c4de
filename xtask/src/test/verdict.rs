//! What became of a step.

use serde::Serialize;

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Verdict {
    /// It ran and all was well.
    Passed {
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// This machine cannot run it.
    Skipped { reason: String, remedy: String },
    /// It ran and something was wrong.
    Failed { reason: String },
}

impl Verdict {
    /// Passed, with something worth knowing.
    pub fn passed(note: impl Into<String>) -> Self {
        Self::Passed { note: Some(note.into()) }
    }

    /// Passed, with nothing to add.
    pub fn plain() -> Self {
        Self::Passed { note: None }
    }

    /// Skipped: why, and what to do so that it runs.
    pub fn skipped(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Skipped { reason: reason.into(), remedy: remedy.into() }
    }

    /// Failed, with the error and its causes.
    pub fn failed(error: &anyhow::Error) -> Self {
        Self::Failed { reason: format!("{error:#}") }
    }

    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed { .. } => "passed",
            Self::Skipped { .. } => "skipped",
            Self::Failed { .. } => "failed",
        }
    }

    /// What else there is to say.
    pub fn detail(&self) -> String {
        match self {
            Self::Passed { note } => note.clone().unwrap_or_default(),
            Self::Skipped { reason, remedy } => format!("{reason}. To run it: {remedy}"),
            Self::Failed { reason } => reason.clone(),
        }
    }
}
