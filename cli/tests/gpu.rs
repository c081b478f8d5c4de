//! `calibrate` and `doctor` on a GPU in software.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by panicking")]

use pagelift::backends::{Cuda, CudaDriver};
use pagelift_cli::rehearse;
use pagelift_fake_driver::{Machine, Pace};
use serde_json::Value;

/// What is said of a GPU in software.
fn said(of: impl FnOnce(&Cuda) -> Result<String, String>) -> Value {
    let machine = Machine::new(1);
    machine.pace(Pace::Random);
    // SAFETY: (1) the machine's calls have the driver's signatures and keep its promises, and are functions of this program.
    let driver = unsafe { CudaDriver::from_symbols(|name| machine.symbol(name)) }.unwrap();
    let gpu = Cuda::open_with(&driver, 0).unwrap();
    serde_json::from_str(&of(&gpu).unwrap()).unwrap()
}

#[test]
fn every_direction_is_calibrated() {
    let record = said(rehearse::calibrate);
    let most = record["multiprocessors"].as_u64().unwrap();
    for direction in ["host_to_device", "device_to_host", "device_to_device"] {
        for pieces in ["pages", "rows"] {
            let speed = &record[direction][pieces];
            let workers = speed["workers"].as_u64().unwrap();
            assert!(
                (1..=most).contains(&workers) && speed["bytes_per_second"].as_u64().unwrap() > 1,
                "{speed}"
            );
        }
    }
    assert!(record["uuid"].as_str().unwrap().starts_with("GPU-"), "{record}");
}

#[test]
fn a_first_launch_is_timed() {
    let found = said(rehearse::look);
    assert!(found["first_launch_seconds"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["load_log"].as_str().unwrap().contains("ptxas info"), "{found}");
    assert!(
        found["load_seconds"].as_f64().unwrap() > 0.0 && !found["calibrated"].as_bool().unwrap(),
        "{found}"
    );
}
