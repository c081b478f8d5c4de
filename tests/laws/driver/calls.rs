//! Which calls are made of the driver, and in which order.

use std::sync::Arc;

use pagelift::Error;
use pagelift::backends::{Backend as _, Cuda, CudaDriver};
use pagelift::error::BackendError;
use pagelift::geometry::Memory;
use pagelift::id::PageId;
use pagelift::launcher::{Launcher, TicketState};
use pagelift::memory::Registry;
use pagelift::plan::DigestPlan;
use pagelift_fake_driver::Machine;

use super::{ASK, LAUNCH, Pages, ROOM, STATE, Small, UPLOAD, machine, map, mirrors, open};
use crate::backends::software;
use crate::tickets::slots;

#[test]
fn a_step_makes_few_calls_and_in_this_order() {
    let (machine, engine) = machine();
    let gpu = open(&machine).unwrap();
    let mut small = Small::new(&gpu).unwrap();
    let mut pages = Pages::new(&gpu, &mut small).unwrap();
    let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
    let mut digests = DigestPlan::new(Arc::clone(&small.geometry), ROOM).unwrap();
    let mut digest = Launcher::bind(&gpu, &small.memory, &mut digests, slots(2)).unwrap();
    let calls = machine.calls();
    // What a first launch would load is loaded, and nothing waits for all of the GPU.
    assert!(calls.contains(&"cuModuleGetFunction") && !calls.contains(&"cuCtxSynchronize"), "{calls:?}");

    engine.enter();
    let _ = machine.calls();
    let ticket = pages.stage(&small, 1, 0).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, UPLOAD]);
    pages.graph.replay(&gpu.stream()).unwrap();
    assert_eq!(machine.calls(), [ASK, "cuGraphLaunch"]);
    assert_eq!(pages.launcher.state(ticket), TicketState::Pending);
    machine.run();
    assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
    assert_eq!(pages.launcher.counters().done, 1);
    assert_eq!(machine.calls(), [""; 0]);
    pages.launcher.launch(&mut small.memory).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, LAUNCH]);
    pages.launcher.wait().unwrap();
    let exchange = "cuThreadExchangeStreamCaptureMode";
    assert_eq!(machine.calls(), [ASK, STATE, ASK, exchange, "cuStreamSynchronize", exchange]);
    // Map changes come before the table, and so do zeros for results: what has a table may run.
    map(&mut rows, &small, 1, 2);
    mirror.stage(&small.memory, &mut rows).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, LAUNCH, ASK, UPLOAD]);
    digests.device(small.digests, &[PageId::new(0)], 16).unwrap();
    digest.stage(&small.memory, &mut digests).unwrap();
    assert_eq!(machine.calls(), [ASK, STATE, ASK, "cuMemsetD8Async", ASK, UPLOAD]);

    // A thread with another context, or none, has it back after each call.
    engine.leave();
    let _ = machine.calls();
    let (push, pop) = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2");
    pages.stage(&small, 1, 0).unwrap();
    assert_eq!(machine.calls(), [ASK, push, STATE, pop, ASK, push, UPLOAD, pop]);

    // A launcher waits before it frees anything.
    drop(digest);
    let calls = machine.calls();
    let first = |name| calls.iter().position(|call| *call == name);
    assert!(first("cuStreamSynchronize") < first("cuMemFree_v2"), "{calls:?}");
}

#[test]
fn calls_that_a_driver_lacks_are_named() {
    for lacks in [&["cuGraphLaunch"][..], &["cuStreamIsCapturing", "cuMemHostAlloc"], &["cuGetErrorName"]] {
        let machine = Machine::new(1);
        lacks.iter().for_each(|name| machine.lack(name));
        let error = software(&machine).unwrap_err();
        assert!(matches!(error, BackendError::NoDriver { .. }), "{error}");
        let words = error.to_string();
        assert!(lacks.iter().all(|name| words.contains(name)), "{words}");
        assert_eq!(machine.calls(), [""; 0]);
    }
}

#[test]
fn what_the_drivers_compiler_says_is_kept() {
    let (machine, _engine) = machine();
    let gpu = open(&machine).unwrap();
    assert_eq!(gpu.load_log(), "ptxas info    : run by an emulation, in no registers");
}

#[test]
fn a_driver_without_gpus_is_opened_and_has_none() {
    let machine = Machine::new(0);
    let driver = software(&machine).unwrap();
    assert_eq!(driver.devices().unwrap(), 0);
    let error = Cuda::open_with(&driver, 0).unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::NoDevice { ordinal: 0, devices: 0 })), "{error}");
}

#[test]
fn a_gpu_is_known_by_its_uuid_and_its_place() {
    let (machine, _engine) = machine();
    let gpu = open(&machine).unwrap();
    let uuid = gpu.uuid();
    let digits = uuid.strip_prefix("GPU-").unwrap();
    assert_eq!(digits.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(digits.chars().all(|digit| digit == '-' || digit.is_ascii_hexdigit()), "{uuid}");
    assert_eq!(gpu.bus(), "0000:00:00.0");
}

/// Waits until launches see what others have written.
const FLUSH: &str = "cuFlushGPUDirectRDMAWrites";

#[test]
fn what_others_have_written_is_waited_for_where_the_gpu_does_not_order_it() {
    let machine = Machine::new(1);
    let gpu = Cuda::open_with(&software(&machine).unwrap(), 0).unwrap();
    let _ = machine.calls();
    gpu.settle_remote_writes().unwrap();
    assert!(machine.calls().contains(&FLUSH));
    // SAFETY: (1) as `software`; the call that is left out is not made.
    let older =
        unsafe { CudaDriver::from_symbols(|name| (name != FLUSH).then(|| machine.symbol(name)).flatten()) };
    let gpu = Cuda::open_with(&older.unwrap(), 0).unwrap();
    assert_eq!(gpu.settle_remote_writes(), Err(BackendError::RemoteWrites));
    let mut memory = Registry::new();
    memory.allocate(&gpu, Memory::Host, 64).unwrap();
    memory.settle_remote_writes().unwrap();
    memory.allocate(&gpu, Memory::Device, 64).unwrap();
    let refused = memory.settle_remote_writes();
    assert!(matches!(refused, Err(Error::Backend(BackendError::RemoteWrites))), "{refused:?}");
}

#[test]
fn a_registry_waits_once_for_each_gpu_that_it_has_memory_of() {
    let machine = Machine::new(3);
    let driver = software(&machine).unwrap();
    let gpus = [0, 1, 2].map(|ordinal| Cuda::open_with(&driver, ordinal).unwrap());
    let mut memory = Registry::new();
    let flushes = |memory: &Registry| {
        let _ = machine.calls();
        memory.settle_remote_writes().unwrap();
        machine.calls().into_iter().filter(|call| *call == FLUSH).count()
    };
    let mut regions = Vec::new();
    for (gpu, expected) in [(0, 1), (2, 2), (0, 2)] {
        memory.allocate(&gpus[gpu], Memory::Host, 64).unwrap();
        regions.push(memory.allocate(&gpus[gpu], Memory::Device, 64).unwrap());
        assert_eq!(flushes(&memory), expected);
    }
    memory.release(regions[1]).unwrap();
    assert_eq!(flushes(&memory), 1);
}
