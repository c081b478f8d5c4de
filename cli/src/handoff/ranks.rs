//! A process for each rank: `--tp N` starts them, waits for all, and reports what they did.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde_json::{Value, json};

use super::error::HandoffError;
use super::prefill::{beside, not_ready, say_ready};
use crate::manifest::mix;
use crate::{Failure, args, exit, say};

/// Refuses a rank that is none of so many, and addresses that are not one for each rank; and lets a rank end with the process that
/// has started it.
pub fn check(hand: &args::Hand, addresses: &[SocketAddr]) -> Result<(), HandoffError> {
    let last = hand.rank.unwrap_or(hand.tp.saturating_sub(1));
    if last >= hand.tp {
        let ranks = say::count(hand.tp.into(), "rank");
        return Err(HandoffError::Usage(format!("--rank {last} is none of {ranks}; they count from 0")));
    }
    match addresses {
        [first] => drop(address(*first, last)?),
        list if list.len() == hand.tp as usize => {}
        list => {
            return Err(HandoffError::Usage(format!(
                "--from has {} addresses for --tp {}: one for each rank, or that of the first alone",
                list.len(),
                hand.tp
            )));
        }
    }
    let Some(parent) = hand.parent else { return Ok(()) };
    let lonely = |_| HandoffError::Usage("this rank cannot be told when the others are given up".into());
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(lonely)?;
    match getppid().is_some_and(|own| own.as_raw_nonzero().get() == parent) {
        true => Ok(()),
        false => Err(HandoffError::Late("the process that has started this rank is gone".into())),
    }
}

/// Where a rank listens: each at a port of its own.
pub fn address(first: SocketAddr, rank: u32) -> Result<SocketAddr, HandoffError> {
    let mut address = first;
    if first.port() != 0 {
        let port = u16::try_from(rank).ok().and_then(|rank| first.port().checked_add(rank));
        address.set_port(port.ok_or_else(|| {
            HandoffError::Usage(format!("there is no port for rank {rank}, so many after that of {first}"))
        })?);
    }
    Ok(address)
}

/// Where a rank of P is: the one address of a list that is its own, or so many ports after the only one.
pub fn of_list(list: &[SocketAddr], rank: u32) -> Result<SocketAddr, HandoffError> {
    match list {
        [first] => address(*first, rank),
        list => list.get(rank as usize).copied().ok_or_else(|| {
            HandoffError::Usage(format!("--from has {} addresses, and none for rank {rank}", list.len()))
        }),
    }
}

/// What the bytes of a rank follow from.
pub const fn seed(seed: u64, rank: u32) -> u64 {
    if rank == 0 { seed } else { mix(seed ^ ((rank as u64) << 48)) }
}

/// The ranks' processes. They end with this one, however that ends.
struct Ranks(Vec<Rank>);

struct Rank {
    child: Child,
    /// All that it prints, read as it comes: a pipe holds little.
    printed: Option<JoinHandle<std::io::Result<String>>>,
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for Rank { child, .. } in &mut self.0 {
            // One that has ended is not there to be killed.
            let _: std::io::Result<()> = child.kill();
            let _: std::io::Result<ExitStatus> = child.wait();
        }
    }
}

/// Starts this program again for each rank, with the same arguments and some more.
fn start(ranks: u32, more: impl Fn(u32) -> Vec<OsString>) -> Result<Ranks, HandoffError> {
    let program = std::env::current_exe().map_err(|error| failed(0, error))?;
    let mut all = Ranks(Vec::new());
    for rank in 0..ranks {
        let mut command = Command::new(&program);
        command.args(own_arguments(more(rank))).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(rank, error))?;
        let printed = child.stdout.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut text = String::new();
                out.read_to_string(&mut text).map(|_| text)
            })
        });
        all.0.push(Rank { child, printed });
    }
    Ok(all)
}

fn failed(rank: u32, error: impl std::fmt::Display) -> HandoffError {
    HandoffError::Rank { rank, why: error.to_string(), code: exit::FAILED }
}

/// This process's arguments without those that each rank has of its own, which come after the command: nothing but file names
/// comes after `--`.
fn own_arguments(more: Vec<OsString>) -> Vec<OsString> {
    let mut all = std::env::args_os().skip(1);
    let mut kept: Vec<OsString> = all.next().into_iter().chain(more).collect();
    while let Some(argument) = all.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            kept.push(argument);
            kept.extend(all);
            break;
        } else if text == "--ready" {
            all.next();
        } else if text != "--json" && !text.starts_with("--ready=") {
            kept.push(argument);
        }
    }
    kept
}

impl Ranks {
    /// Waits for all of them, and returns their reports. The first that fails is the end of all: what it has not done, the others
    /// would wait for.
    fn reports(mut self) -> Result<Vec<Value>, HandoffError> {
        while self.ended()? < self.0.len() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut reports = Vec::new();
        for (rank, own) in (0..).zip(&mut self.0) {
            let printed = own.printed.take().map(JoinHandle::join);
            let text = printed.and_then(Result::ok).unwrap_or_else(|| Ok(String::new()));
            let text = text.map_err(|error| failed(rank, error))?;
            reports.push(serde_json::from_str(&text).map_err(|error| failed(rank, error))?);
        }
        Ok(reports)
    }

    /// Waits until all listen, and says where, by the files that they write.
    fn listening(&mut self, files: &[PathBuf]) -> Result<String, HandoffError> {
        loop {
            let found: Vec<String> =
                files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
            if found.len() == files.len() {
                return Ok(found.iter().map(|address| address.trim()).collect::<Vec<_>>().join(","));
            }
            // One may have done all that it should by now: its file stays.
            self.ended()?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many have ended, and done what they should.
    fn ended(&mut self) -> Result<usize, HandoffError> {
        let mut ended = 0;
        for (rank, Rank { child, .. }) in (0..).zip(&mut self.0) {
            match child.try_wait().map_err(|error| failed(rank, error))? {
                None => {}
                Some(status) if status.success() => ended += 1,
                Some(status) => {
                    let code = status.code().and_then(|code| u8::try_from(code).ok());
                    let why = match code {
                        Some(_) => format!("it has ended with {status}, for the reason that it gave"),
                        None => format!("it was ended by {status}, and could give no reason"),
                    };
                    return Err(HandoffError::Rank { rank, why, code: code.unwrap_or(exit::FAILED) });
                }
            }
        }
        Ok(ended)
    }
}

fn arguments(rank: u32) -> Vec<OsString> {
    let [own, parent] = [rank, std::process::id()].map(|number| number.to_string().into());
    vec!["--json".into(), "--rank".into(), own, "--parent".into(), parent]
}

/// All ranks of P.
pub fn prefill(args: &args::Prefill) -> Result<(), Failure> {
    let file = |path: &Path, rank: u32| beside(path, &format!("rank{rank}"));
    let own = args.ready.as_deref();
    for (ready, rank) in own.iter().flat_map(|ready| (0..args.hand.tp).map(move |rank| (ready, rank))) {
        not_ready(&file(ready, rank))?;
    }
    let mut ranks = start(args.hand.tp, |rank| {
        let mut more = arguments(rank);
        if let Some(ready) = own {
            more.extend(["--ready".into(), file(ready, rank).into()]);
        }
        more
    })?;
    if let Some(ready) = own {
        let files: Vec<PathBuf> = (0..args.hand.tp).map(|rank| file(ready, rank)).collect();
        let addresses = ranks.listening(&files);
        for file in files {
            // It was this program's own, and need not be there.
            let _: std::io::Result<()> = std::fs::remove_file(file);
        }
        say_ready(ready, addresses?)?;
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
