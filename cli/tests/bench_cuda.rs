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
    let beside = ["kernel in order", "kernel on a branch", "memcpys on a branch", "a batch on a branch"];
    let figures = report["figures"].as_array().unwrap();
    for figure in figures {
        let (letter, work) = (figure["figure"].as_str().unwrap(), figure["work"].as_str().unwrap());
        let ways = figure["ways"].as_array().unwrap();
        let count =
            |names: &[&str]| ways.iter().filter(|way| names.iter().any(|name| way["way"] == *name)).count();
        // Copies that the host does not know, and works that move nothing.
        let unknown = work.starts_with("8192 rows") && !work.contains("1,024") || work.contains("indexer's");
        let expected = match letter {
            "h" => [1, 0, 0],
            "i" => [0, 0, 0],
            "j" => [0, 0, 4],
            _ if unknown => [1, 0, 0],
            _ => [1, 3, 0],
        };
        assert_eq!([count(&["kernel, not in a graph"]), count(&plain), count(&beside)], expected, "{figure}");
        let restored = ways.iter().filter(|way| way["restored_microseconds"].is_number()).count();
        assert_eq!(restored, expected[2]);
    }
    assert_eq!(figures.iter().filter(|figure| figure["figure"] == "j").count(), 2);
}
