//! `pagelift plan`: what an import would do, in numbers and as a picture, without any of its memory.

mod dry;
mod explain;
mod table;
pub mod words;

use std::fs;

use pagelift::plan::{RestorePlan, TailRows};

use crate::manifest::{Draft, Manifest};
use crate::restore::{AnyKey, RestoreError};
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
        let picture = picture::draw(&planned, &explanation);
        fs::write(path, picture).map_err(|error| Failure {
            message: format!("{}: the picture cannot be written: {error}", text::path(path)),
            code: exit::USAGE,
        })?;
    }
    if args.json { say::json(&explanation) } else { table::print(&explanation, args.svg.as_deref()) }
}

/// Plans the lift of a manifest's import.
pub fn of(manifest: &Manifest, mode: TailRows) -> Result<Planned<'_>, RestoreError> {
    let (geometry, keys) = dry::geometry(manifest)?;
    let plan = dry::lift(manifest, &keys, geometry, mode)?;
    Ok(Planned { manifest, keys, plan })
}
