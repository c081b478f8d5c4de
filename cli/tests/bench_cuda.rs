//! `bench` on a GPU in software: every way of every work, and also those that a CPU has not.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use pagelift::backends::{Cuda, CudaDriver};
use pagelift_cli::rehearse;
use pagelift_fake_driver::{Machine, Pace};
use serde_json::Value;

#[test]
fn every_way_writes_the_right_bytes() {
    let machine = Machine::new(1);
    machine.pace(Pace::Random);
    // SAFETY: (1) the machine's calls have the driver's signatures and keep its promises, and are functions of this program.
    let driver = unsafe { CudaDriver::from_symbols(|name| machine.symbol(name)) }.unwrap();
    let gpu = Cuda::open_with(&driver, 0).unwrap();
    let report: Value = serde_json::from_str(&rehearse::measure(&gpu).unwrap()).unwrap();
    let plain = ["a graph of memcpys", "a memcpy a piece", "a batch of memcpys"];
    for figure in report["figures"].as_array().unwrap() {
        let ways = figure["ways"].as_array().unwrap();
        let has = |name: &&&str| ways.iter().any(|way| way["way"] == **name);
        let found = plain.iter().filter(has).count();
        let work = figure["work"].as_str().unwrap();
        // Copies that the host does not know, and works that move nothing.
        let unknown = work.starts_with("8192 rows") && !work.contains("1,024") || work.contains("indexer's");
        let nothing = ["h", "i"].iter().any(|letter| figure["figure"] == *letter);
        assert_eq!(
            ways.iter().filter(|way| way["way"] == "kernel, not in a graph").count(),
            usize::from(figure["figure"] != "i")
        );
        assert_eq!(found, if unknown || nothing { 0 } else { 3 }, "{figure}");
    }
}
