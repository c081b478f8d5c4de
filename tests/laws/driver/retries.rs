//! What has failed is done again: stages, changes of the map, waits, digests and launches.

use std::sync::Arc;

use pagelift::Error;
use pagelift::error::{BackendError, LaunchError, MemoryError};
use pagelift::geometry::Memory;
use pagelift::id::PageId;
use pagelift::launcher::{Launcher, TicketState};
use pagelift::plan::{DigestPlan, RowBinding};

use super::{LAUNCH, ROOM, SOME, Small, UPLOAD, entered, map, mirrors, unmap};
use crate::tickets::slots;

fn is_some(error: &Error) -> bool {
    matches!(error, Error::Backend(BackendError::Driver { code: SOME, .. }))
}

#[test]
fn a_stage_that_fails_leaves_the_plan_before() {
    for after in 0..4 {
        let (machine, _engine, _gpu, small, mut pages) = entered();
        let before = pages.stage(&small, 0, 1).unwrap();
        machine.fail(after, SOME);
        let error = pages.stage(&small, 3, 2).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert_eq!(pages.launcher.counters().staged, 1);
        pages.replay().unwrap();
        assert!(matches!(pages.launcher.state(before), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 1, 0, 0]);

        // Both slots are free.
        let again = [pages.stage(&small, 2, 0).unwrap(), pages.stage(&small, 3, 2).unwrap()];
        let full = pages.stage(&small, 0, 0).unwrap_err();
        assert!(matches!(full, Error::Launch(LaunchError::RingFull { .. })), "{full}");
        pages.replay().unwrap();
        assert_eq!(pages.launcher.state(again[0]), TicketState::Superseded);
        assert!(matches!(pages.launcher.state(again[1]), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 1, 4, 0]);
    }
}

#[test]
fn map_changes_whose_stage_fails_are_staged_again() {
    for after in 0..6 {
        let (machine, _engine, gpu, mut small, mut pages) = entered();
        for (block, page) in [(0, 0), (1, 1)] {
            pages.stage(&small, block, page).unwrap();
            pages.replay().unwrap();
        }
        let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
        map(&mut rows, &small, 0, 3);
        let before = mirror.stage(&small.memory, &mut rows).unwrap();
        unmap(&mut rows, &small, 0);
        map(&mut rows, &small, 1, 3);
        machine.fail(after, SOME);
        let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert_eq!(rows.page_map().pending().len(), 2);
        // The plan before runs, by the map before; or by the new one, where its changes were enqueued.
        mirror.launch(&mut small.memory).unwrap();
        mirror.wait().unwrap();
        assert!(matches!(mirror.state(before), TicketState::Done(_)));
        assert_eq!(small.blocks().unwrap(), [1, 2, 3, if after < 4 { 1 } else { 2 }]);

        let again = mirror.stage(&small.memory, &mut rows).unwrap();
        assert_eq!(rows.page_map().pending().len(), 0);
        mirror.launch(&mut small.memory).unwrap();
        mirror.wait().unwrap();
        assert!(matches!(mirror.state(again), TicketState::Done(_)));
        assert_eq!(small.blocks().unwrap(), [1, 2, 3, 2]);
    }
}

/// A call that fails may have enqueued something all the same, which reads the slot.
#[test]
fn a_slot_of_changes_that_fail_is_waited_for_before_it_is_used_again() {
    let (machine, _engine, gpu, mut small, _pages) = entered();
    let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
    map(&mut rows, &small, 0, 3);
    const SYNC: &str = "cuStreamSynchronize";
    // The launch of the changes fails, and so does the wait after it.
    let _ = machine.calls();
    machine.fail(3, SOME);
    machine.fail(8, SOME);
    let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
    assert!(is_some(&error) && !machine.spare(), "{error}");
    let made = machine.calls();
    assert_eq!((made[3], made[8]), (LAUNCH, SYNC), "{made:?}");
    // The next stage waits first, and fails where it cannot.
    machine.fail(2 + 4, SOME);
    let error = mirror.stage(&small.memory, &mut rows).unwrap_err();
    assert!(is_some(&error) && !machine.spare(), "{error}");
    let made = machine.calls();
    assert!(made.contains(&SYNC) && !made.contains(&LAUNCH) && !made.contains(&UPLOAD), "{made:?}");
    mirror.stage(&small.memory, &mut rows).unwrap();
    let made = machine.calls();
    let first = |name| made.iter().position(|call| *call == name).unwrap();
    assert!(first(SYNC) < first(LAUNCH) && first(LAUNCH) < first(UPLOAD), "{made:?}");
    mirror.launch(&mut small.memory).unwrap();
    mirror.wait().unwrap();
    // And then it waits no more.
    let _ = machine.calls();
    mirror.stage(&small.memory, &mut rows).unwrap();
    assert!(!machine.calls().contains(&SYNC));
}

/// A wait that fails tells nothing of what is waited for.
#[test]
fn what_cannot_be_waited_for_is_neither_released_nor_freed() {
    for after in 0..6 {
        let (machine, _engine, _gpu, mut small, mut pages) = entered();
        let ticket = pages.stage(&small, 1, 0).unwrap();
        pages.launcher.launch(&mut small.memory).unwrap();
        machine.fail(after, SOME);
        let error = small.memory.release(small.host).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert!(small.memory.region(small.host).is_some());
        small.memory.release(small.host).unwrap();
        assert!(small.memory.region(small.host).is_none());
        assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
    }
}

#[test]
fn digests_are_right_or_gone_where_a_stage_fails() {
    for after in 0..6 {
        let (machine, _engine, gpu, mut small, mut pages) = entered();
        pages.stage(&small, 1, 0).unwrap();
        pages.replay().unwrap();
        let mut plan = DigestPlan::new(Arc::clone(&small.geometry), ROOM).unwrap();
        let mut digest = Launcher::bind(&gpu, &small.memory, &mut plan, slots(2)).unwrap();
        let run = |digest: &mut Launcher<_, _>, small: &mut Small, plan: &mut DigestPlan| {
            let ticket = digest.stage(&small.memory, plan).unwrap();
            digest.launch(&mut small.memory).unwrap();
            digest.wait().unwrap();
            ticket
        };
        let number = plan.device(small.digests, &[PageId::new(0)], 16).unwrap();
        let ticket = run(&mut digest, &mut small, &mut plan);
        let right = digest.digest(ticket, number).unwrap();

        plan.clear();
        let other = plan.device(small.digests, &[PageId::new(0)], 16).unwrap();
        machine.fail(after, SOME);
        let error = digest.stage(&small.memory, &mut plan).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        match digest.digest(ticket, number) {
            Ok(found) => assert_eq!((found, after < 2), (right, true)),
            Err(error) => {
                assert!(matches!(error, Error::Launch(LaunchError::DigestsGone { .. })), "{error}");
                assert!(after >= 2);
            }
        }
        let ticket = run(&mut digest, &mut small, &mut plan);
        assert_eq!(digest.digest(ticket, other).unwrap(), right);
    }
}

#[test]
fn a_launch_that_fails_is_made_again() {
    for after in 0..4 {
        let (machine, _engine, _gpu, mut small, mut pages) = entered();
        let ticket = pages.stage(&small, 1, 1).unwrap();
        machine.fail(after, SOME);
        let error = pages.launcher.launch(&mut small.memory).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        pages.launcher.wait().unwrap();
        assert_eq!(pages.launcher.state(ticket), TicketState::Pending);
        assert_eq!((pages.launcher.counters().launches, small.pages().unwrap()), (0, [0; 4]));
        pages.launcher.launch(&mut small.memory).unwrap();
        pages.launcher.wait().unwrap();
        assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 2, 0, 0]);
    }
}

/// A call may fail when it has done what it was asked for: the copy into the table, or the change of contexts after it.
#[test]
fn a_plan_whose_stage_fails_and_takes_effect_lends_its_ticket_to_no_other() {
    for elsewhere in [false, true] {
        let (machine, engine, _gpu, small, mut pages) = entered();
        let ran = [(); 2].map(|()| {
            let ticket = pages.stage(&small, 1, 1).unwrap();
            pages.replay().unwrap();
            ticket
        });
        let pending = pages.stage(&small, 0, 0).unwrap();
        if elsewhere {
            machine.enter();
        }
        let _ = machine.calls();
        // Outside of the context, what asks and what copies each change to it and back.
        let (after, failed) = if elsewhere { (7, "cuCtxPopCurrent_v2") } else { (3, UPLOAD) };
        machine.fail_late(after, SOME);
        let error = pages.stage(&small, 3, 2).unwrap_err();
        assert!(is_some(&error) && !machine.spare(), "{error}");
        assert_eq!(machine.calls()[after], failed);
        engine.enter();
        pages.replay().unwrap();
        assert_eq!(small.pages().unwrap(), [0, 2, 4, 0]);
        // It took the slot of one that had run, and ran before the other one.
        for ticket in ran {
            assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
        }
        assert_eq!(pages.launcher.state(pending), TicketState::Superseded);

        let next = pages.stage(&small, 2, 3).unwrap();
        assert_eq!(pages.launcher.state(next), TicketState::Pending);
        pages.replay().unwrap();
        assert!(matches!(pages.launcher.state(next), TicketState::Done(_)));
        assert_eq!(small.pages().unwrap(), [0, 2, 4, 3]);
        let counters = pages.launcher.counters();
        assert_eq!((counters.staged, counters.done, counters.superseded), (4, 3, 1));
    }
}

/// Whichever of two plans the table holds, what its launch reads is there.
#[test]
fn arrays_of_a_plan_whose_stage_fails_are_needed_like_those_of_the_one_before() {
    for late in [false, true] {
        for needed in 0..2 {
            let (machine, _engine, gpu, mut small, _pages) = entered();
            let arrays = [(); 3].map(|()| small.memory.allocate(&gpu, Memory::Device, 64 * 8).unwrap());
            let (mut mirror, mut rows) = mirrors(&gpu, &small).unwrap();
            let mut stage = |mirror: &mut Launcher<_, _>, small: &Small, array: usize| {
                rows.clear_bindings();
                let slots = small.memory.region(arrays[array]).unwrap().address();
                rows.bind(small.main, RowBinding::new(slots, 64)).unwrap();
                mirror.stage(&small.memory, &mut rows)
            };
            stage(&mut mirror, &small, 0).unwrap();
            if late {
                machine.fail_late(3, SOME)
            } else {
                machine.fail(3, SOME)
            }
            let error = stage(&mut mirror, &small, 1).unwrap_err();
            assert!(is_some(&error) && !machine.spare(), "{error}");
            small.memory.release(arrays[needed]).unwrap();
            let error = mirror.launch(&mut small.memory).unwrap_err();
            assert!(matches!(error, Error::Memory(MemoryError::Unregistered { .. })), "{error}");
            // What is staged next reads neither.
            let ticket = stage(&mut mirror, &small, 2).unwrap();
            mirror.launch(&mut small.memory).unwrap();
            mirror.wait().unwrap();
            assert!(matches!(mirror.state(ticket), TicketState::Done(_)));
        }
    }
}

#[test]
fn a_launch_that_runs_and_fails_is_told_by_its_ticket_and_runs_once() {
    let (machine, _engine, _gpu, mut small, mut pages) = entered();
    let ticket = pages.stage(&small, 1, 1).unwrap();
    machine.fail_late(3, SOME);
    let error = pages.launcher.launch(&mut small.memory).unwrap_err();
    assert!(is_some(&error) && !machine.spare(), "{error}");
    pages.launcher.wait().unwrap();
    assert!(matches!(pages.launcher.state(ticket), TicketState::Done(_)));
    assert_eq!(small.pages().unwrap(), [0, 2, 0, 0]);
    // Made again, it finds that done.
    small.memory.write(small.slab, 0, &[9; 4 * super::PAGE as usize]).unwrap();
    pages.launcher.launch(&mut small.memory).unwrap();
    assert_eq!(small.pages().unwrap(), [9; 4]);
}
