//! Files that somebody names on the command line.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Why a path cannot be opened to be read.
#[derive(Debug)]
pub enum Unopened {
    /// The system refuses.
    System(io::Error),
    /// It leads to something else than a file, named here.
    Irregular(&'static str),
}

/// Opens a file to be read from its beginning to its end. Opening a pipe would wait for its writer, and a device may never
/// end.
pub fn open(path: &Path) -> Result<File, Unopened> {
    match irregular(&fs::metadata(path).map_err(Unopened::System)?) {
        Some(kind) => Err(Unopened::Irregular(kind)),
        None => File::open(path).map_err(Unopened::System),
    }
}

/// What a path leads to that cannot be read as a file.
fn irregular(metadata: &Metadata) -> Option<&'static str> {
    if metadata.is_file() {
        None
    } else if metadata.is_dir() {
        Some("a folder")
    } else {
        Some("a pipe, a socket or a device")
    }
}
