//! What this build and this machine can do, and what to do next.

mod gpu;
mod nixl;

use std::path::PathBuf;
use std::time::Instant;

use pagelift::backends::{AnyBackend, Backend as _, Cuda, open};
use serde::Serialize;

use crate::manifest::Draft;
use crate::restore::RestoreError;
use crate::{Failure, args, exit, say, setup, text};
pub use gpu::Gpu;
use nixl::Nixl;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct Finding {
    what: &'static str,
    found: String,
}

/// Whether a manifest fits in this machine's memory.
#[derive(Debug, Serialize)]
struct Fit {
    /// Its file.
    manifest: String,
    /// Bytes that a run of it takes.
    needed_memory: u64,
    /// Whether they are available; `None` where the system does not say what is.
    fits: Option<bool>,
}

/// What it comes to.
#[derive(Debug, Serialize)]
struct Verdict {
    /// Whether this build and machine can run what was asked about.
    ready: bool,
    /// In words.
    summary: String,
    /// What to do next.
    next: String,
}

/// What `doctor` found.
#[derive(Debug, Serialize)]
struct Findings {
    version: &'static str,
    backend: &'static str,
    backend_reason: String,
    processors: usize,
    available_memory: Option<u64>,
    /// `None` where no GPU can run the kernels.
    gpu: Option<Gpu>,
    /// `None` where NIXL is not built in, or not here.
    nixl: Option<Nixl>,
    findings: Vec<Finding>,
    manifests: Vec<Fit>,
    verdict: Verdict,
}

/// `pagelift doctor`.
pub fn command(args: &args::Doctor) -> Result<(), Failure> {
    let begun = Instant::now();
    let opened = open(args.backend.into())
        .map_err(|error| Failure { message: error.to_string(), code: exit::UNABLE })?;
    let took = begun.elapsed();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let available_memory = setup::available_memory();
    let memory = available_memory
        .map_or_else(|| "the system does not say".into(), |free| say::bytes(free) + " available");
    let (backend, gpu) = match &opened.backend {
        AnyBackend::Cuda(gpu) => (gpu.name(), Ok(Gpu::look(gpu, took))),
        // Nobody has looked for a GPU where the CPU was asked for.
        AnyBackend::Cpu(cpu) if args.backend == args::Backend::Cpu => {
            let begun = Instant::now();
            let gpu = Cuda::open(0).map(|gpu| Gpu::look(&gpu, begun.elapsed()));
            (cpu.name(), gpu.map_err(|error| error.to_string()))
        }
        AnyBackend::Cpu(cpu) => (cpu.name(), Err(opened.reason.clone())),
    };
    let finding = |what, found| Finding { what, found };
    let mut findings = vec![
        finding("backend", format!("{backend}: {}", opened.reason)),
        finding("processors", processors.to_string()),
        finding("memory", memory),
        gpu::registration(),
        finding("kernels", "embedded as PTX for sm_80 and sm_90; the same source runs on the CPU".into()),
    ];
    let gpu = match gpu {
        Ok(gpu) => {
            findings.extend(gpu.findings());
            Some(gpu)
        }
        Err(reason) => {
            findings.push(finding("CUDA", reason));
            None
        }
    };
    let nixl = match Nixl::look() {
        Ok(nixl) => {
            findings.push(finding("NIXL", nixl.words()));
            Some(nixl)
        }
        Err(reason) => {
            findings.push(finding("NIXL", reason));
            None
        }
    };
    let manifests =
        args.manifests.iter().map(|path| fit(path, available_memory)).collect::<Result<Vec<_>, _>>()?;
    let found = Findings {
        version: env!("CARGO_PKG_VERSION"),
        backend,
        backend_reason: opened.reason,
        processors,
        available_memory,
        verdict: verdict(backend, available_memory, &manifests),
        gpu,
        nixl,
        findings,
        manifests,
    };
    if args.json {
        say::json(&found)?
    } else {
        print(&found)?
    }
    if found.verdict.ready {
        return Ok(());
    }
    Err(Failure { message: found.verdict.summary, code: exit::UNABLE })
}

/// Looks at a manifest, and not at its pools.
fn fit(path: &PathBuf, available: Option<u64>) -> Result<Fit, Failure> {
    let draft = Draft::load(path).map_err(RestoreError::from)?;
    let needed_memory = setup::needed_memory(draft.footprint());
    let fits = available.map(|available| needed_memory <= available);
    Ok(Fit { manifest: text::path(path), needed_memory, fits })
}

/// What the findings come to.
fn verdict(backend: &str, available: Option<u64>, manifests: &[Fit]) -> Verdict {
    let too_large: Vec<String> =
        manifests.iter().filter(|fit| fit.fits == Some(false)).map(|fit| fit.manifest.clone()).collect();
    let ready = too_large.is_empty();
    let room = match available {
        Some(bytes) => format!("imports of up to {}", say::bytes(bytes)),
        None => "imports of a size that the system does not tell".to_owned(),
    };
    let summary = match (ready, manifests.len()) {
        (false, _) => format!("too little memory for {}", text::names(&too_large)),
        (true, 0) => format!("ready to run {room} on {backend}"),
        (true, _) => format!("ready to run all of these on {backend}"),
    };
    let first = manifests.iter().find(|fit| fit.fits != Some(false));
    let next = match (ready, first) {
        (false, _) => "give the pools fewer blocks, or look at the import by `pagelift plan MANIFEST`".into(),
        (true, Some(fit)) => format!("pagelift restore {}", fit.manifest),
        (true, None) => "pagelift restore MANIFEST; `pagelift doctor MANIFEST` says whether one fits".into(),
    };
    Verdict { ready, summary, next }
}

/// Prints findings for a person.
fn print(found: &Findings) -> Result<(), Failure> {
    let mut table = say::table(["pagelift", found.version]);
    for finding in &found.findings {
        table.add_row([finding.what, &finding.found]);
    }
    for Fit { manifest, needed_memory, fits } in &found.manifests {
        let fits = match fits {
            Some(true) => "fits",
            Some(false) => "does not fit",
            None => "may fit",
        };
        table.add_row([manifest.as_str(), &format!("takes {}: {fits}", say::bytes(*needed_memory))]);
    }
    table.add_row(["verdict", &found.verdict.summary]);
    table.add_row(["next", &found.verdict.next]);
    say::say(&table)
}

#[cfg(test)]
mod tests {
    use super::{Fit, verdict};

    fn fit(needed_memory: u64, available: u64) -> Fit {
        Fit {
            manifest: format!("{needed_memory}.json"),
            needed_memory,
            fits: Some(needed_memory <= available),
        }
    }

    #[test]
    fn one_manifest_that_does_not_fit_decides() {
        let found = verdict("cpu", Some(10), &[fit(10, 10), fit(11, 10)]);
        assert!(!found.ready && found.summary.contains("`11.json`") && !found.summary.contains("`10.json`"));
        let found = verdict("cpu", Some(10), &[fit(3, 10), fit(10, 10)]);
        assert!(found.ready && found.next == "pagelift restore 3.json", "{}", found.next);
    }

    #[test]
    fn without_manifests_the_memory_is_said() {
        let found = verdict("cpu", Some(3 << 30), &[]);
        assert!(found.ready && found.summary.contains("3.00 GiB on cpu"), "{}", found.summary);
        assert!(verdict("cpu", None, &[]).ready);
    }
}
