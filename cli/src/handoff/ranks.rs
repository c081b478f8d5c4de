//! A process for each rank: `--tp N` starts them, waits for all, and reports what they did.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::error::HandoffError;
use super::prefill::{beside, say_ready};
use crate::manifest::mix;
use crate::{Failure, args, say};

/// Where a rank listens: each at a port of its own.
pub const fn address(first: SocketAddr, rank: u32) -> SocketAddr {
    let mut address = first;
    if first.port() != 0 {
        address.set_port(first.port().saturating_add(rank as u16));
    }
    address
}

/// Where a rank of P is: the one address of a list that is its own, or so many ports after the only one.
pub fn of_list(list: &[SocketAddr], rank: u32) -> Result<SocketAddr, HandoffError> {
    let found = match list {
        [first] => Some(address(*first, rank)),
        list => list.get(rank as usize).copied(),
    };
    found.ok_or_else(|| {
        HandoffError::Usage(format!("--from has {} addresses, and none for rank {rank}", list.len()))
    })
}

/// What the bytes of a rank follow from.
pub const fn seed(seed: u64, rank: u32) -> u64 {
    if rank == 0 { seed } else { mix(seed ^ ((rank as u64) << 48)) }
}

/// The ranks' processes. They end with this one's failure.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended is not there to be killed.
            let _: std::io::Result<()> = child.kill();
            let _: std::io::Result<std::process::ExitStatus> = child.wait();
        }
    }
}

/// Starts this program again for each rank, with the same arguments and some more.
fn start(ranks: u32, more: impl Fn(u32) -> Vec<OsString>) -> Result<Ranks, HandoffError> {
    let failed = |rank, error: std::io::Error| HandoffError::Rank { rank, why: error.to_string() };
    let program = std::env::current_exe().map_err(|error| failed(0, error))?;
    let mut children = Ranks(Vec::new());
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.args(own_arguments()).args(more(rank)).stdin(Stdio::null()).stdout(Stdio::piped());
        children.0.push(command.spawn().map_err(|error| failed(rank, error))?);
    }
    Ok(children)
}

/// This process's arguments, without those that each rank has of its own.
fn own_arguments() -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut all = std::env::args_os().skip(1);
    while let Some(argument) = all.next() {
        let text = argument.to_string_lossy();
        if text == "--ready" {
            all.next();
        } else if text != "--json" && !text.starts_with("--ready=") {
            kept.push(argument);
        }
    }
    kept
}

impl Ranks {
    /// Waits for all of them, and returns their reports.
    fn reports(&mut self) -> Result<Vec<Value>, HandoffError> {
        let mut reports = Vec::new();
        for (rank, child) in (0..).zip(&mut self.0) {
            let wrong = |why: String| HandoffError::Rank { rank, why };
            let mut text = String::new();
            if let Some(mut out) = child.stdout.take() {
                out.read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
            }
            let status = child.wait().map_err(|error| wrong(error.to_string()))?;
            if !status.success() {
                return Err(wrong(format!("it has ended with {status}, for the reason that it gave")));
            }
            reports.push(serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?);
        }
        Ok(reports)
    }

    /// Whether one has ended already.
    fn ended(&mut self) -> Option<u32> {
        let mut all = (0..).zip(&mut self.0);
        all.find_map(|(rank, child)| matches!(child.try_wait(), Ok(Some(_))).then_some(rank))
    }
}

fn arguments(rank: u32) -> Vec<OsString> {
    vec!["--json".into(), "--rank".into(), rank.to_string().into()]
}

/// All ranks of P.
pub fn prefill(args: &args::Prefill) -> Result<(), Failure> {
    let file = |path: &Path, rank: u32| beside(path, &format!("rank{rank}"));
    let own = args.ready.as_deref().map(Path::to_owned);
    let mut ranks = start(args.hand.tp, |rank| {
        let mut more = arguments(rank);
        if let Some(ready) = &own {
            more.extend(["--ready".into(), file(ready, rank).into()]);
        }
        more
    })?;
    if let Some(ready) = &own {
        let files: Vec<PathBuf> = (0..args.hand.tp).map(|rank| file(ready, rank)).collect();
        let mut addresses = Vec::new();
        while addresses.len() < files.len() {
            addresses = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
            if let Some(rank) = ranks.ended() {
                return Err(HandoffError::Rank { rank, why: "it has ended before it listened".into() }.into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        for file in files {
            // It was this program's own.
            let _: std::io::Result<()> = std::fs::remove_file(file);
        }
        let addresses: Vec<&str> = addresses.iter().map(|address| address.trim()).collect();
        say_ready(ready, addresses.join(","))?;
    }
    let reports = ranks.reports()?;
    counted(&reports, args.hand.tp)?;
    report(args.json, &reports, "exported")
}

/// Each request was read by each rank, once.
fn counted(reports: &[Value], ranks: u32) -> Result<(), HandoffError> {
    let mut by_request: BTreeMap<String, u32> = BTreeMap::new();
    for report in reports {
        for export in report["exports"].as_array().into_iter().flatten() {
            *by_request.entry(export["request"].to_string()).or_default() += 1;
        }
    }
    match by_request.into_iter().find(|(_, reads)| *reads != ranks) {
        None => Ok(()),
        Some((request, reads)) => Err(HandoffError::Miscounted { request, reads, ranks }),
    }
}

/// All ranks of D.
pub fn decode(args: &args::Decode) -> Result<(), Failure> {
    let reports = start(args.hand.tp, arguments)?.reports()?;
    report(args.json, &reports, "handed over")
}

fn report(as_json: bool, reports: &[Value], what: &str) -> Result<(), Failure> {
    if as_json {
        say::json(&json!({ "ranks": reports, "verified": true }))
    } else {
        let line = |report: &Value| {
            let bytes = report["bytes_verified"].as_u64().unwrap_or(0);
            let rank = &report["rank"];
            format!("rank {rank}: {what}, every byte of {} of pools verified", say::bytes(bytes))
        };
        say::say(&reports.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}
