//! What a process holds, as the system says.

use serde::Serialize;

/// A process at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Held {
    /// Bytes of memory that are resident.
    pub resident_bytes: u64,
    /// Files that are open.
    pub files: u64,
}

impl Held {
    /// By a process, by its id.
    pub fn by(process: u32) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count);
        Self { resident_bytes: kibibytes.unwrap_or(0).saturating_mul(1024), files: files as u64 }
    }
}
