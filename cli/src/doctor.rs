//! What this build and this machine can do.

use comfy_table::{Table, presets};
use pagelift::backends::{Backend, open};
use serde::Serialize;

use crate::{Failure, args, exit, report, restore};

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    found: String,
}

/// What `doctor` found.
#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    backend: &'static str,
    backend_reason: &'static str,
    processors: usize,
    available_memory: Option<u64>,
    findings: Vec<Finding>,
}

/// `pagelift doctor`.
pub fn command(args: &args::Doctor) -> Result<(), Failure> {
    let opened = open(args.backend.into())
        .map_err(|error| Failure { message: error.to_string(), code: exit::UNABLE })?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let available_memory = restore::available_memory();
    let memory = available_memory
        .map_or_else(|| "the system does not say".into(), |free| report::bytes(free) + " available");
    let finding = |what, found| Finding { what, found };
    let findings = vec![
        finding("backend", format!("{}: {}", opened.backend.name(), opened.reason)),
        finding("processors", processors.to_string()),
        finding("memory", memory),
        finding("CUDA", "not in this build".into()),
        finding("kernels", "embedded as PTX for sm_80 and sm_90; the same source runs on the CPU".into()),
    ];
    let found = Findings {
        version: env!("CARGO_PKG_VERSION"),
        backend: opened.backend.name(),
        backend_reason: opened.reason,
        processors,
        available_memory,
        findings,
    };
    if args.json {
        return report::print_json(&found);
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(["pagelift", found.version]);
    for finding in &found.findings {
        table.add_row([finding.what, &finding.found]);
    }
    report::say(&table)
}
