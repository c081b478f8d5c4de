//! `pagelift plan`: what an import would do, in numbers and as a picture, without any of its memory.

mod dry;
mod explain;
mod table;
pub mod words;

use std::fs;
use std::path::Path;

use pagelift::plan::{RestorePlan, TailRows};

use crate::manifest::{Draft, Manifest};
use crate::restore::{self, AnyKey, RestoreError};
use crate::{Failure, args, exit, picture, say, text};
pub use dry::geometry;
pub use explain::{Explained, Explanation};

/// An import's plan, and what it was made for.
#[derive(Debug)]
pub struct Planned<'m> {
    pub manifest: &'m Manifest,
    /// By group.
    pub keys: Vec<AnyKey>,
    pub plan: RestorePlan,
}

/// `pagelift plan`.
pub fn command(args: &args::Plan) -> Result<(), Failure> {
    let manifest = Draft::load(&args.manifest).and_then(Draft::assign).map_err(RestoreError::from)?;
    let planned = of(&manifest, args.mode.into())?;
    let explanation = Explanation::of(&planned, args.mode.into())?;
    if let Some(path) = &args.svg {
        write(path, &args.manifest, &picture::draw(&planned, &explanation))?;
    }
    if args.json { say::json(&explanation) } else { table::print(&explanation) }
}

/// Writes a picture, but not over the manifest that it shows.
fn write(path: &Path, manifest: &Path, picture: &str) -> Result<(), Failure> {
    let failure = |problem: String| {
        let message = format!("{}: the picture cannot be written: {problem}", text::path(path));
        Failure { message, code: exit::USAGE }
    };
    if fs::canonicalize(path).is_ok_and(|path| fs::canonicalize(manifest).is_ok_and(|from| from == path)) {
        return Err(failure("this is the manifest; name another file".into()));
    }
    fs::write(path, picture).map_err(|error| failure(error.to_string()))
}

/// Plans the lift of a manifest's import.
pub fn of(manifest: &Manifest, mode: TailRows) -> Result<Planned<'_>, RestoreError> {
    let (geometry, keys) = dry::geometry(manifest)?;
    let span = restore::span_of(manifest)?;
    let plan = restore::plan(manifest, &keys, geometry, span, mode)?;
    Ok(Planned { manifest, keys, plan })
}
