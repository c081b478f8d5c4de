//! Job tables as a planner writes them, with poison wherever a kernel has no business.

use pagelift_abi::{BlockPair, Completion, MapChange, Progress, TableHeader, VERSION};
use zerocopy::{Immutable, IntoBytes};

use crate::memory::address;

/// What stands behind each list: as a job, an index or a slot it leads far outside of everything.
const POISON: u64 = 0x7EEE_EEEE_7EEE_EEEE;

/// A job table, and the words by which a launch answers.
pub struct Table {
    words: Vec<u64>,
    pub progress: Progress,
    pub completion: Box<Completion>,
}

impl Table {
    pub fn new<J: IntoBytes + Immutable>(
        jobs: &[J],
        units: u32,
        list: &[BlockPair],
        changes: &[MapChange],
    ) -> Self {
        let mut words = vec![0; size_of::<TableHeader>() / 8];
        let mut append = |bytes: &[u8]| {
            let at = words.len() * 8;
            words.extend(bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())));
            words.extend([POISON; 8]);
            at as u32
        };
        append(jobs.as_bytes());
        let (indices_at, changes_at) = (append(list.as_bytes()), append(changes.as_bytes()));
        let mut table = Self { words, progress: Progress::default(), completion: Box::default() };
        let completion = (&raw mut *table.completion).expose_provenance() as u64;
        table.set(|header| {
            *header = TableHeader {
                ticket: 1,
                completion,
                version: VERSION,
                flags: 0,
                jobs: jobs.len() as u32,
                units,
                indices_at,
                changes_at,
                changes: changes.len() as u32,
                reserved: 0,
            };
        });
        table
    }

    /// Changes the header in place.
    pub fn set(&mut self, change: impl FnOnce(&mut TableHeader)) {
        let mut header = TableHeader::default();
        let length = size_of::<TableHeader>();
        header.as_mut_bytes().copy_from_slice(&self.words.as_bytes()[..length]);
        change(&mut header);
        self.words.as_mut_bytes()[..length].copy_from_slice(header.as_bytes());
    }

    pub fn address(&mut self) -> u64 {
        address(&mut self.words)
    }

    pub fn progress_address(&mut self) -> u64 {
        (&raw mut self.progress).expose_provenance() as u64
    }

    /// What the host sees.
    pub fn answer(&self) -> Completion {
        *self.completion
    }
}
