//! `pagelift digest`: one number for the rows of each group, computed where they lie, and by an independent loop.
//!
//! The import lands and is lifted as `restore` does it. One launch then digests, of each group, the rows that were
//! imported, where they landed, and those that were lifted, on either side.

mod expected;
mod keys;

use std::sync::Arc;
use std::time::Instant;

use pagelift::backends::{AnyBackend, Backend};
use pagelift::geometry::Memory;
use pagelift::id::Ticket;
use pagelift::launcher::{Launcher, LauncherOptions};
use pagelift::plan::{DigestNumber, DigestPlan, Plan as _, PlanCapacity};
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::manifest::{Family, Group, Landing, Lift, Manifest, Side, Span};
use crate::progress::Progress;
use crate::reference::Model;
use crate::restore::{self, Options, RestoreError, World};
use crate::say::{self, number, say};
use crate::setup::Setup;
use crate::{Failure, args, exit};
pub use keys::Keys;

/// Why a run ended early.
#[derive(Debug, Error)]
enum DigestError {
    /// It did not come to the digests.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Rows are not what they must be.
    #[error("group `{group}`: the digest of {what} is {found:#018x}, and must be {expected:#018x}")]
    Differs { group: String, what: String, found: u64, expected: u64 },
}

impl From<pagelift::Error> for DigestError {
    fn from(error: pagelift::Error) -> Self {
        Self::Restore(error.into())
    }
}

impl From<pagelift::error::PlanError> for DigestError {
    fn from(error: pagelift::error::PlanError) -> Self {
        Self::Restore(error.into())
    }
}

impl From<DigestError> for Failure {
    fn from(error: DigestError) -> Self {
        match error {
            DigestError::Restore(error) => error.into(),
            DigestError::Differs { .. } => Self { message: error.to_string(), code: exit::FAILED },
        }
    }
}

/// What the digests are. All of them were what they must be.
#[derive(Debug, Serialize)]
struct Report {
    /// The manifest's model.
    model: String,
    /// Which rows of the writable page were lifted.
    mode: &'static str,
    /// By group.
    groups: Vec<Digests>,
    /// Jobs of the launch.
    jobs: usize,
    /// Bytes that it read.
    bytes: u64,
    /// Whether every digest was right. A run with a wrong one ends with an error instead.
    verified: bool,
    /// What ran the kernels.
    backend: &'static str,
    /// Why that.
    backend_reason: String,
    /// What the random bytes follow from.
    seed: u64,
    /// How long all of it took.
    seconds: f64,
}

/// The digests of one group.
#[derive(Debug, Serialize)]
struct Digests {
    /// The group.
    group: String,
    /// Where its blocks arrived: `host` or `device`.
    landing: &'static str,
    /// Rows that were imported, each counted once whatever its layers.
    imported_rows: u64,
    /// The digest of these, where they landed.
    imported: Hex,
    /// Imported rows among those that were lifted.
    lifted_rows: u64,
    /// The digest of these on the host; `None` where nothing is lifted.
    lifted_host: Option<Hex>,
    /// The digest of these on the device.
    lifted_device: Option<Hex>,
}

/// A digest: as text in JSON, whose numbers need not have 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hex(u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `pagelift digest`.
pub fn command(args: &args::Digest) -> Result<(), Failure> {
    let options = Options { mode: args.mode.into(), seed: args.seed, ..Options::default() };
    let Setup { manifest, backend, backend_reason } = Setup::new(&args.manifest, args.backend)?;
    let progress = Progress::new(args.json);
    let mut report = match &backend {
        AnyBackend::Cpu(cpu) => run(&manifest, cpu, options, progress, |_| {}),
        AnyBackend::Cuda(gpu) => run(&manifest, gpu, options, progress, |_| {}),
    }?;
    report.backend_reason = backend_reason;
    if args.json { say::json(&report) } else { print(&report) }
}

/// Lands and lifts an import, lets `spoil` do what tests do to its memory, and digests it.
fn run<B: Backend>(
    manifest: &Manifest,
    backend: &B,
    options: Options<'_>,
    progress: Progress,
    spoil: impl FnOnce(&mut World<'_>),
) -> Result<Report, DigestError> {
    let started = Instant::now();
    let (mut world, keys) = World::with(manifest, backend, progress, |builder, groups, _| {
        groups.iter().map(|group| Keys::of(builder, *group)).collect::<Result<Vec<_>, _>>()
    })?;
    let mut model = Model::new(manifest, options.seed);
    world.fill(&model, progress)?;
    restore::import(&mut world, &mut model, backend, options, progress)?;
    spoil(&mut world);

    let lists =
        || manifest.groups().iter().map(|group| group.host_blocks().len() + group.device_pages().len());
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    // Whole blocks and the rest of the last one, of each of a group's three digests; and all their blocks.
    let capacity = PlanCapacity {
        jobs: small(manifest.groups().len().saturating_mul(6)),
        list_entries: small(lists().sum::<usize>().saturating_mul(2)),
    };
    let mut plan = DigestPlan::new(Arc::clone(&world.geometry), capacity)?;
    let asked = manifest
        .groups()
        .iter()
        .zip(&keys)
        .map(|(group, keys)| Asked::add(&mut plan, keys, group, manifest.span()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut launcher = Launcher::bind(backend, &world.memory, &mut plan, LauncherOptions::default())?;
    let ticket = launcher.stage(&world.memory, &mut plan)?;
    launcher.launch(&mut world.memory)?;
    launcher.wait()?;
    restore::done("digests", launcher.state(ticket))?;
    let mut groups = Vec::new();
    for (group, asked) in manifest.groups().iter().zip(asked) {
        groups.push(asked.check(group, &model, &launcher, ticket)?);
    }
    Ok(Report {
        model: manifest.model().into(),
        mode: restore::mode_name(options.mode),
        groups,
        jobs: plan.jobs(),
        bytes: plan.bytes().map_or(0, |bytes| bytes.get()),
        verified: true,
        backend: backend.name(),
        backend_reason: String::new(),
        seed: options.seed,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// The digests that were asked for, of one group.
struct Asked {
    landing: Memory,
    imported_rows: u64,
    imported: DigestNumber,
    /// The first of the lifted rows, how many there are, and their digests on the host and on the device.
    lifted: Option<(u64, u64, [DigestNumber; 2])>,
}

impl Asked {
    /// Asks for a group's digests.
    fn add(plan: &mut DigestPlan, keys: &Keys, group: &Group, span: &Span) -> Result<Self, DigestError> {
        let rows = group.imported_rows(span);
        let (landing, blocks) = match group.landing {
            Landing::Host => (Memory::Host, group.host_blocks()),
            Landing::Gpu => (Memory::Device, group.device_pages()),
        };
        let imported = keys.digest(plan, landing, blocks, rows)?;
        let lifted = match (&group.host, &group.device) {
            (Some(host), Some(device)) if group.lift != Lift::None => {
                let first = first_lifted(group, device, span);
                let count = rows.saturating_sub(first);
                let skipped = usize::try_from(first / u64::from(host.rows.max(1))).unwrap_or(usize::MAX);
                let blocks = group.host_blocks().get(skipped..).unwrap_or_default();
                let on_host = keys.digest(plan, Memory::Host, blocks, count)?;
                let on_device = keys.digest(plan, Memory::Device, group.device_pages(), count)?;
                Some((first, count, [on_host, on_device]))
            }
            _ => None,
        };
        Ok(Self { landing, imported_rows: rows, imported, lifted })
    }

    /// Reads the digests, and compares them with what the producer's rows must have.
    fn check<B: Backend>(
        self,
        group: &Group,
        model: &Model<'_>,
        launcher: &Launcher<B, DigestPlan>,
        ticket: Ticket,
    ) -> Result<Digests, DigestError> {
        let contents = model.contents();
        let read = |number, what: String, expected| match launcher.digest(ticket, number)? {
            found if found == expected => Ok(Hex(found)),
            found => Err(DigestError::Differs { group: group.name.clone(), what, found, expected }),
        };
        let landing = self.landing.name();
        let expected = expected::digest(contents, group, 0..self.imported_rows);
        let imported = read(
            self.imported,
            format!("its {} imported rows on the {landing}", self.imported_rows),
            expected,
        )?;
        let mut lifted = (0, [None, None]);
        if let Some((first, rows, numbers)) = self.lifted {
            let expected = expected::digest(contents, group, first..first.saturating_add(rows));
            let side = |memory: Memory| format!("its {rows} lifted rows on the {}", memory.name());
            let [host, device] = numbers;
            lifted = (
                rows,
                [
                    Some(read(host, side(Memory::Host), expected)?),
                    Some(read(device, side(Memory::Device), expected)?),
                ],
            );
        }
        let (lifted_rows, [lifted_host, lifted_device]) = lifted;
        let (group, imported_rows) = (group.name.clone(), self.imported_rows);
        Ok(Digests { group, landing, imported_rows, imported, lifted_rows, lifted_host, lifted_device })
    }
}

/// The first row of the request that lies in the group's device pages: the start of a host block too.
fn first_lifted(group: &Group, device: &Side, span: &Span) -> u64 {
    match group.shape.family {
        Family::Tokens { .. } => group.first_page(span).saturating_mul(device.rows.into()),
        Family::Ring | Family::State => 0,
    }
}

/// Prints a report for a person.
fn print(report: &Report) -> Result<(), Failure> {
    let mut table = say::table([
        "group",
        "imported rows",
        "where they landed",
        "lifted rows",
        "on the host",
        "on the device",
    ]);
    let hex = |digest: Option<Hex>| digest.map_or_else(|| "–".to_owned(), |digest| digest.to_string());
    for group in &report.groups {
        table.add_row([
            group.group.clone(),
            number(group.imported_rows),
            format!("{} on the {}", group.imported, group.landing),
            number(group.lifted_rows),
            hex(group.lifted_host),
            hex(group.lifted_device),
        ]);
    }
    say(&format!("{}, lifted in mode {}", report.model, report.mode))?;
    say(&table)?;
    say(&format!(
        "{} read in {} by one launch on {} ({}); every digest is that of an independent loop.",
        say::bytes(report.bytes),
        say::count(report.jobs as u64, "job"),
        report.backend,
        report.backend_reason
    ))
}

#[cfg(test)]
mod tests;
