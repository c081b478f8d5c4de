//! Both ends as engines have them, in two processes, with faults: one at a time, and imports by the thousand.

mod decode;
mod faults;
mod many;
mod prefill;

use std::time::Duration;

use pagelift_planner::geometry::Memory;
use pagelift_transport::control::Secret;
use pagelift_transport::descriptors::Descriptor;
use pagelift_transport::lease::Terms;
use pagelift_transport::nixl::Agent;
use pagelift_transport::offer::Offer;
use pagelift_transport::transfer::Destination;
use serde::{Deserialize, Serialize};

use crate::engines::{Bytes, Layout};
use crate::world::{self, Arrangement, BASE, BLOCK, Engine, GroupMeaning, Meaning};

/// Short enough for a test, and long enough for a machine that is busy.
const TERMS: Terms = Terms {
    lease: Duration::from_millis(1000),
    heartbeat: Duration::from_millis(150),
    margin: Duration::from_millis(50),
};

fn secret() -> Secret {
    Secret::new(b"drawn at random!").unwrap()
}

/// What P says of itself when it is asked.
#[derive(Serialize, Deserialize, Debug, Default)]
struct Report {
    held: usize,
    /// What was freed since the last report: the request, and how it ended.
    freed: Vec<(u64, String)>,
    idle: bool,
    process: Process,
}

/// What a process has of the system.
#[derive(Serialize, Deserialize, Debug, Default, Clone, Copy)]
struct Process {
    files: usize,
    kib: u64,
}

impl Process {
    fn own() -> Self {
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        Self { files, kib: line.trim().trim_end_matches(" kB").parse().unwrap() }
    }
}

/// Small groups of four kinds: what is tested is what happens to imports.
fn groups() -> Vec<GroupMeaning> {
    let paged = |tokens_per_row| (Meaning::Paged { tokens_per_row }, BLOCK / tokens_per_row);
    let kinds: [(&str, (Meaning, u32), &[u32]); 4] = [
        ("main", paged(1), &[64]),
        ("compressed", paged(4), &[20, 4]),
        ("ring", (Meaning::Ring, 8), &[28]),
        ("gdn", (Meaning::State, 1), &[100, 300]),
    ];
    kinds.map(|(name, (meaning, rows), segments)| GroupMeaning::new(name, meaning, 2, rows, segments)).into()
}

fn arranged(producer: bool) -> Vec<Arrangement> {
    world::arranged(&groups(), producer, 8)
}

/// An engine's bytes while a transport may read and write them: there are no references to them, only this address.
#[derive(Clone, Copy)]
struct Raw {
    first: *mut u8,
    bytes: usize,
}

/// An engine's memory, its layout, and its offer. The memory is never given back: a transport may outlive a test that fails.
fn engine(producer: bool) -> (Raw, Layout, Offer) {
    let mut engine = Engine::new(Memory::Host, &groups(), &arranged(producer), 1);
    let bytes = Box::leak(std::mem::take(&mut engine.bytes).into_boxed_slice());
    let memory = Raw { first: bytes.as_mut_ptr(), bytes: bytes.len() };
    let offer = engine.offer(memory.first.expose_provenance() as u64);
    let layout = Layout { groups: groups(), placed: engine.groups };
    (memory, layout, offer)
}

fn register(agent: &mut Agent, offer: &Offer) {
    for range in &offer.regions.memory {
        // SAFETY: 1. The memory is never given back. 2. There are no references to it.
        unsafe { agent.register(*range) }.unwrap();
    }
}

impl Raw {
    fn at(self, address: u64, bytes: usize) -> *mut u8 {
        let inside = usize::try_from(address - BASE).unwrap();
        assert!(inside + bytes <= self.bytes);
        self.first.wrapping_add(inside)
    }
}

impl Bytes for Raw {
    fn read(&self, address: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        // SAFETY: the range is inside of the memory, which is never given back, and apart from a new vector. An engine looks at
        // blocks that nothing writes.
        unsafe { std::ptr::copy_nonoverlapping(self.at(address, bytes), into.as_mut_ptr(), bytes) };
        into
    }

    fn write(&self, address: u64, from: &[u8]) {
        // SAFETY: as above; an engine writes blocks that nothing else writes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.at(address, from.len()), from.len()) };
    }
}

impl Destination for Raw {
    type Error = std::convert::Infallible;

    fn zero(&mut self, range: Descriptor) -> Result<(), Self::Error> {
        let base = self.first.expose_provenance() as u64;
        self.write(range.address - base + BASE, &vec![0; usize::try_from(range.bytes).unwrap()]);
        Ok(())
    }

    fn settle(&mut self, device: u64) -> Result<(), Self::Error> {
        panic!("no memory of GPU {device} is read into")
    }
}
