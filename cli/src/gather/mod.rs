//! `pagelift gather`: blocks and rows of a manifest's pools, gathered by the library and by an independent loop.
//!
//! | file | what is gathered |
//! |---|---|
//! | `blocks` | whole blocks that the host lists, to the other memory, of all groups in one launch |
//! | `rows` | rows that an index list on the device names, into a compact buffer there, by 32- and by 64-bit indices |

mod blocks;
mod error;
mod rows;

use std::time::Instant;

use pagelift::backends::{AnyBackend, Backend};
use pagelift::plan::{DeviceToDevice, Direction, HostToDevice};
use serde::Serialize;

use crate::manifest::{Family, Footprint, Group, Manifest, Memory, mix};
use crate::progress::Progress;
use crate::reference::Model;
use crate::restore::World;
use crate::say::{self, bytes, count, number, say, table};
use crate::setup::{self, Setup};
use crate::{Failure, args};
use blocks::BlocksGathered;
pub use error::GatherError;
use rows::RowsGathered;

/// Blocks and rows that are gathered where nothing is said.
const BLOCKS: u32 = 8;
const ROWS: u32 = 100;

/// What a run is asked for, besides the manifest.
#[derive(Clone, Copy, Debug)]
struct Options<'a> {
    /// The only group; all that can be gathered where there is none.
    group: Option<&'a str>,
    /// Where blocks and rows come from.
    from: Memory,
    /// Blocks of each group, where that is asked for.
    blocks: Option<u32>,
    /// Entries of each index list, where that is asked for.
    rows: Option<u32>,
    /// What the random bytes and indices follow from.
    seed: u64,
}

/// What was gathered. All of it was right.
#[derive(Debug, Serialize)]
struct Report {
    /// The manifest's model.
    model: String,
    /// Where blocks and rows came from: `host` or `device`.
    from: String,
    /// Block gathers, by group.
    blocks: Vec<BlocksGathered>,
    /// Row gathers, by width of the index and by group.
    rows: Vec<RowsGathered>,
    /// Launches: one for all block gathers, one for all row gathers of each width.
    launches: u32,
    /// Bytes that were compared: all pools, and all compact buffers after each launch.
    bytes_verified: u64,
    /// Whether every byte was right. A run with a wrong one ends with an error instead.
    verified: bool,
    /// What ran the kernels.
    backend: &'static str,
    /// Why that.
    backend_reason: String,
    /// What the random bytes and indices follow from.
    seed: u64,
    /// How long all of it took.
    seconds: f64,
}

/// `pagelift gather`.
pub fn command(args: &args::Gather) -> Result<(), Failure> {
    let options = Options {
        group: args.group.as_deref(),
        from: args.from.into(),
        blocks: args.blocks,
        rows: args.rows,
        seed: args.seed,
    };
    let Setup { manifest, backend, backend_reason } = Setup::new(&args.manifest, args.backend)?;
    let progress = Progress::new(args.json);
    let mut report = match &backend {
        AnyBackend::Cpu(cpu) => run(&manifest, cpu, options, progress),
        AnyBackend::Cuda(gpu) => run(&manifest, gpu, options, progress),
    }?;
    report.backend_reason = backend_reason;
    if args.json { say::json(&report) } else { print(&report) }
}

/// Gathers in the direction that is asked for.
fn run<B: Backend>(
    manifest: &Manifest,
    backend: &B,
    options: Options<'_>,
    progress: Progress,
) -> Result<Report, GatherError> {
    match options.from {
        Memory::Host => run_from::<HostToDevice, B>(manifest, backend, options, progress),
        Memory::Device => run_from::<DeviceToDevice, B>(manifest, backend, options, progress),
    }
}

/// Gathers, rows in direction `D`.
fn run_from<D: Direction, B: Backend>(
    manifest: &Manifest,
    backend: &B,
    options: Options<'_>,
    progress: Progress,
) -> Result<Report, GatherError> {
    let started = Instant::now();
    let chosen = chosen(manifest, options)?;
    let (blocks, entries) = match (options.blocks, options.rows) {
        (None, None) => (Some(BLOCKS), ROWS),
        (blocks, rows) => (blocks, rows.unwrap_or(0)),
    };
    let buffers =
        if entries > 0 { rows::sizes(manifest, &chosen, options.from, entries)? } else { Vec::new() };
    // Each buffer has an image that it is compared with.
    let compact = buffers.iter().fold(0_u64, |sum, size| sum.saturating_add(size.bytes().saturating_mul(2)));
    let pools = manifest.footprint();
    setup::check_memory(Footprint { bookkeeping: pools.bookkeeping.saturating_add(compact), ..pools })?;
    let (mut world, buffers) = World::with(manifest, backend, progress, |builder, keys, memory| {
        buffers
            .into_iter()
            .map(|size| size.place::<D>(builder, keys, memory, backend))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let mut model = Model::new(manifest, options.seed);
    world.fill(&model, progress)?;

    let (mut launches, mut bytes_verified) = (0, 0);
    let mut gathered = Vec::new();
    for width in rows::WIDTHS {
        if !buffers.is_empty() {
            let mut random = mix(options.seed.wrapping_add(u64::from(width.bytes())));
            let done = rows::run(&mut world, backend, &buffers, (entries, width), &mut random)?;
            launches += 1;
            bytes_verified += done.bytes_verified;
            gathered.extend(done.gathered);
        }
    }
    let blocks = match blocks {
        Some(count) => {
            blocks::run(&mut world, &mut model, backend, &chosen, (options.from, count), mix(options.seed))?
        }
        None => Vec::new(),
    };
    launches += u32::from(!blocks.is_empty());
    if blocks.is_empty() && gathered.is_empty() {
        return Err(GatherError::Nothing);
    }
    // Also that nothing else was written, and that no row was changed by being read.
    bytes_verified += world.verify(&model, "verify", progress)?;
    Ok(Report {
        model: manifest.model().into(),
        from: options.from.to_string(),
        blocks,
        rows: gathered,
        launches,
        bytes_verified,
        verified: true,
        backend: backend.name(),
        backend_reason: String::new(),
        seed: options.seed,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The group that is asked for, or all.
fn chosen<'m>(manifest: &'m Manifest, options: Options<'_>) -> Result<Vec<&'m Group>, GatherError> {
    let Some(name) = options.group else { return Ok(manifest.groups().iter().collect()) };
    let group = manifest.groups().iter().find(|group| group.name == name);
    let unknown = || GatherError::UnknownGroup {
        name: name.into(),
        known: manifest.groups().iter().map(|group| group.name.clone()).collect(),
    };
    let group = group.ok_or_else(unknown)?;
    let impossible = |what: String| Err(GatherError::Impossible { group: group.name.clone(), what });
    if options.blocks.is_some() && (group.host.is_none() || group.device.is_none()) {
        let only = if group.host.is_some() { Memory::Host } else { Memory::Device };
        return impossible(format!(
            "it lies on the {only} only, so there are no blocks to gather: use --rows"
        ));
    }
    if options.rows.is_some() && !rows::has_rows(group, options.from) {
        return impossible(match group.shape.family {
            Family::State => "it is a state and has no rows: use --blocks".into(),
            _ => format!("it does not lie on the {}: use the other --from", options.from),
        });
    }
    Ok(vec![group])
}

/// Prints a report for a person.
fn print(report: &Report) -> Result<(), Failure> {
    say(&format!("{}, gathered from the {}", report.model, report.from))?;
    if !report.blocks.is_empty() {
        let mut blocks = table(["blocks of", "from", "to", "rows", "bytes"]);
        for done in &report.blocks {
            blocks.add_row([
                done.group.clone(),
                count(done.sources as u64, "block"),
                count(done.destinations as u64, "block"),
                number(done.rows),
                bytes(done.bytes),
            ]);
        }
        say(&blocks)?;
    }
    if !report.rows.is_empty() {
        let mut rows = table(["rows of", "index list", "copied", "skipped", "bytes"]);
        for done in &report.rows {
            rows.add_row([
                done.group.clone(),
                format!("{} of {} {} entries", done.count, done.entries, done.index),
                number(done.rows),
                number(done.skipped),
                bytes(done.bytes),
            ]);
        }
        say(&rows)?;
    }
    say(&format!(
        "{} on {} ({}); every byte of {} is as an independent loop has it.",
        count(report.launches.into(), "launch"),
        report.backend,
        report.backend_reason,
        bytes(report.bytes_verified),
    ))
}

#[cfg(test)]
mod tests;
