//! Each call fails in turn, in a run that makes all of them; or takes the context with it.

use std::sync::Arc;

use pagelift::Error;
use pagelift::error::BackendError;
use pagelift::geometry::Memory;
use pagelift::id::PageId;
use pagelift::launcher::{Launcher, TicketState};
use pagelift::plan::DigestPlan;
use pagelift_fake_driver::{Live, Machine, Pace};

use super::{FATAL, NOTHING, Pages, ROOM, SOME, Small, entered, machine, map, mirrors, open};
use crate::device::MODES;
use crate::tickets::slots;

/// Everything once: what is made is handed to `end` before it is dropped.
fn life(machine: &Machine, end: impl FnOnce()) -> Result<(), Error> {
    let gpu = open(machine)?;
    let mut small = Small::new(&gpu)?;
    let mut pages = Pages::new(&gpu, &mut small)?;
    pages.stage(&small, 1, 0)?;
    pages.replay()?;
    pages.stage(&small, 2, 3)?;
    pages.launcher.launch(&mut small.memory)?;
    let (mut mirror, mut rows) = mirrors(&gpu, &small)?;
    map(&mut rows, &small, 0, 3);
    mirror.stage(&small.memory, &mut rows)?;
    mirror.launch(&mut small.memory)?;
    mirror.wait()?;
    let mut digests = DigestPlan::new(Arc::clone(&small.geometry), ROOM)?;
    let mut digest = Launcher::bind(&gpu, &small.memory, &mut digests, slots(1))?;
    let number = digests.device(small.digests, &[PageId::new(0)], 16)?;
    let ticket = digest.stage(&small.memory, &mut digests)?;
    digest.launch(&mut small.memory)?;
    digest.wait()?;
    digest.digest(ticket, number)?;
    assert_eq!((small.pages()?[0], small.pages()?[3], small.blocks()?), (2, 3, [1, 2, 3, 2]));
    let mut own = vec![0_u8; 8192];
    // SAFETY: (1) the vector outlives the buffer, and nobody touches it; (2) nobody else has registered it.
    let registered = unsafe { gpu.register(own.as_mut_ptr(), own.len()) }?;
    end();
    drop(registered);
    Ok(())
}

#[test]
fn any_call_may_fail_and_nothing_is_left() {
    each_call_fails(false);
}

#[test]
fn any_call_may_fail_when_it_has_done_its_work_and_nothing_is_left() {
    each_call_fails(true);
}

/// What nobody can know of, where these say that they have failed: to give back what was not given would take another's.
const UNKNOWABLE: [&str; 2] = ["cuDevicePrimaryCtxRetain", "cuMemHostRegister_v2"];

fn each_call_fails(late: bool) {
    let (mut all, mut used, mut kept) = (usize::MAX, 0, 0);
    for after in 0.. {
        if after >= all {
            break;
        }
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        if all != usize::MAX {
            if late { machine.fail_late(after, SOME) } else { machine.fail(after, SOME) }
        }
        let mut made = Vec::new();
        let result = life(&machine, || made = machine.calls());
        made.extend(machine.calls());
        if all == usize::MAX {
            // The first life counts the calls.
            result.unwrap();
            assert_eq!(machine.live(), NOTHING);
            all = made.len();
            continue;
        }
        assert!(!machine.spare());
        let failed = made[after];
        match result {
            Err(Error::Backend(BackendError::Driver { call, code, .. })) => {
                assert_eq!((call, code), (failed, SOME));
                if !(late && UNKNOWABLE.contains(&failed)) {
                    assert_eq!(machine.live(), NOTHING, "call {after}, {failed}");
                }
                used += 1;
            }
            Err(Error::Backend(BackendError::Module { log, .. })) => {
                assert!(log.contains(failed) && log.contains("999"), "{log}");
                assert_eq!(machine.live(), NOTHING, "call {after}, {failed}");
            }
            // The registry cannot wait, and keeps what launches may still touch, and with it the context and its stream.
            Ok(()) if machine.live() == Live { contexts: 2, streams: 1, device: 2, host: 1, ..NOTHING } => {
                kept += 1;
            }
            // What cannot be let go, as a call for that fails, is all that is left.
            Ok(()) => {
                let Live { contexts, streams, events, graphs, executables, device, host, registered } =
                    machine.live();
                let left =
                    contexts - 1 + streams + events + graphs + executables + device + host + registered;
                assert!(left <= 1, "call {after}, {failed}: {:?}", machine.live());
            }
            Err(other) => panic!("call {after}, {failed}: {other}"),
        }
    }
    assert!(used > 100, "only {used} calls");
    assert!((1..20).contains(&kept), "{kept} calls");
}

/// The default stream cannot be waited for while one that it waits for is captured.
#[test]
fn what_a_launch_may_still_read_is_not_freed_in_a_capture() {
    let (machine, engine, gpu, small, mut pages) = entered();
    // SAFETY: (1) it is there as long as the context; (2) it is never captured.
    let default = unsafe { gpu.adopt_stream(0) }.unwrap();
    pages.launcher.set_stream(&default).unwrap();
    pages.stage(&small, 2, 1).unwrap();
    let (mut small, Pages { graph, mut launcher, .. }) = (small, pages);
    launcher.launch(&mut small.memory).unwrap();
    let captured = engine.stream(true);
    assert_eq!(captured.begin(MODES[1]), 0);
    let before = machine.live();
    drop(launcher);
    assert_eq!(machine.live(), before);
    drop(captured.end().unwrap());
    gpu.synchronize().unwrap();
    assert_eq!(small.pages().unwrap(), [0, 3, 0, 0]);
    drop(graph);
}

#[test]
fn a_fault_ends_everything_and_frees_nothing() {
    let all = {
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        let mut made = 0;
        life(&machine, || made = machine.calls().len()).unwrap();
        made
    };
    let mut lost = 0;
    for after in 0..all {
        let (machine, _engine) = machine();
        machine.pace(Pace::Early);
        machine.fail(after, FATAL);
        let error = life(&machine, || ()).unwrap_err();
        let made = machine.calls();
        let failed = made[after];
        let words = error.to_string();
        assert!(words.contains(failed) && words.contains("700"), "{failed}: {words}");
        if matches!(error, Error::Backend(BackendError::ContextLost { .. })) {
            let allowed = ["cuCtxPopCurrent_v2", "cuThreadExchangeStreamCaptureMode", "cuStreamSynchronize"];
            let inside = &made[after + 1..];
            let frees = inside.iter().filter(|call| call.contains("Free") || call.contains("Destroy"));
            assert_eq!(frees.count(), 0, "call {after}, {failed}: {inside:?}");
            let more = inside.iter().filter(|call| !allowed.contains(call));
            assert!(more.count() <= 1, "call {after}, {failed}: {inside:?}");
            lost += 1;
        }
    }
    assert!(lost > 100, "only {lost} calls");
}

#[test]
fn what_was_pending_in_a_lost_context_is_lost() {
    let (machine, _engine, gpu, mut small, mut pages) = entered();
    let done = pages.stage(&small, 1, 0).unwrap();
    pages.replay().unwrap();
    let pending = pages.stage(&small, 1, 0).unwrap();
    // Two calls replay the graph, two ask whether anything is captured, and two more come before the wait.
    machine.fail(6, FATAL);
    let error = pages.replay().unwrap_err();
    assert!(matches!(error, Error::Backend(BackendError::ContextLost { .. })), "{error}");
    assert!(matches!(pages.launcher.state(done), TicketState::Done(_)));
    assert_eq!(pages.launcher.state(pending), TicketState::Lost);
    let _ = machine.calls();
    let launched = pages.launcher.launch(&mut small.memory);
    let refused = [
        pages.stage(&small, 1, 0).map(drop),
        launched,
        pages.launcher.wait(),
        pages.replay(),
        small.pages().map(drop),
        small.memory.allocate(&gpu, Memory::Device, 64).map(drop),
        gpu.synchronize(),
        gpu.new_stream().map(drop).map_err(Error::from),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Backend(BackendError::ContextGone)), "{error}");
    }
    assert!(small.memory.bytes(small.host).is_none());
    assert_eq!(machine.calls(), [""; 0]);
}
