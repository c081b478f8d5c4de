//! The lifecycle's log: a line of JSON for each event, for `pagelift replay`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use pagelift::error::LifecycleError;
use pagelift::lifecycle::{Effect, Event, Lifecycle, LogEntry, LogHeader};
use serde::Serialize;

use super::RestoreError;
use crate::text;

/// Where events are written, if they are.
#[derive(Debug)]
pub struct Log(Option<(String, BufWriter<File>)>);

impl Log {
    /// A log in this file, which begins with what the lifecycle looks after.
    pub fn create(path: Option<&Path>, lifecycle: &Lifecycle) -> Result<Self, RestoreError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = text::path(path);
        let created = File::create(path).map_err(|cause| RestoreError::Log { file: file.clone(), cause })?;
        let mut log = Self(Some((file, BufWriter::new(created))));
        log.line(&LogHeader::of(lifecycle))?;
        Ok(log)
    }

    /// Writes down an event, and what came of it.
    pub fn write(
        &mut self,
        event: &Event<'_>,
        effects: &[Effect],
        refused: Option<&LifecycleError>,
    ) -> Result<(), RestoreError> {
        if self.0.is_none() {
            return Ok(());
        }
        let refused = refused.map(LifecycleError::to_string);
        self.line(&LogEntry { event: event.clone(), effects: effects.to_vec(), refused })
    }

    fn line(&mut self, record: &impl Serialize) -> Result<(), RestoreError> {
        let Some((file, out)) = &mut self.0 else { return Ok(()) };
        let line = serde_json::to_string(record).map_err(std::io::Error::from);
        // What was written is there if the run ends early, too.
        let written = line.and_then(|line| writeln!(out, "{line}"));
        written.map_err(|cause| RestoreError::Log { file: file.clone(), cause })
    }

    /// All of it is in the file.
    pub fn finish(&mut self) -> Result<(), RestoreError> {
        let Some((file, out)) = &mut self.0 else { return Ok(()) };
        out.flush().map_err(|cause| RestoreError::Log { file: file.clone(), cause })
    }
}
