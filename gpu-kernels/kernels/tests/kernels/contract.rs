//! When a launch does something, when it does nothing, and what it tells the host.

use pagelift_abi::{flags, status, Completion, Progress, RowsArgs, TableHeader};

use crate::faults::mla;
use crate::launch::PLAIN;
use crate::layout::World;
use crate::memory::{address, assert_same};
use crate::pages::{args, reference, table, Work};
use crate::rows::{Arrays, Mirror};
use crate::table::Table;

fn world() -> World {
    World::new(&[mla(4, 4, 3)], 1)
}

fn one_block() -> Work {
    Work {
        route: 0,
        blocks: vec![(2, 1)],
        source_row: 0,
        destination_row: 0,
        rows: 3,
        zero: false,
        list: false,
    }
}

/// Runs a table by each page kernel after `prepare`, and gives the destination before and after to `judge`.
fn with_table(prepare: impl Fn(&mut Table), judge: impl Fn(&[u8], &[u8], &[u8], &Table)) {
    let mut world = world();
    let want = reference(&world, &[one_block()]);
    let before = world.destination.bytes().to_vec();
    let mut table = table(&world, &[one_block()]);
    prepare(&mut table);
    PLAIN.pages(args(&mut world, &mut table));
    judge(&before, world.destination.bytes(), &want, &table);
}

#[test]
fn a_ticket_is_carried_out_and_reported() {
    with_table(
        |table| table.set(|header| header.ticket = 7),
        |_, after, want, table| {
            assert_same(after, want);
            assert_eq!(
                table.answer(),
                Completion { ticket: 7, status: status::DONE, ..Completion::default() }
            );
            assert_eq!(table.progress, Progress { done: 7, ..Progress::default() });
        },
    );
}

#[test]
fn nothing_staged_writes_nothing_at_all() {
    with_table(
        // Even a flag and another version, in memory that nobody ever wrote.
        |table| {
            table.set(|header| {
                *header = TableHeader { ticket: 0, version: 0, flags: flags::REPEAT, ..*header };
            });
        },
        |before, after, _, table| {
            assert_same(after, before);
            assert_eq!((table.answer(), table.progress), Default::default());
        },
    );
}

#[test]
fn a_ticket_that_was_carried_out_writes_nothing_at_all() {
    with_table(
        |table| table.progress.done = 1,
        |before, after, _, table| {
            assert_same(after, before);
            assert_eq!(table.answer(), Completion::default());
            assert_eq!(table.progress, Progress { done: 1, ..Progress::default() });
        },
    );
}

#[test]
fn a_replay_does_nothing_and_the_next_ticket_is_carried_out() {
    let mut world = world();
    let (before, want) = (world.destination.clone(), reference(&world, &[one_block()]));
    let mut table = table(&world, &[one_block()]);
    for (ticket, works) in [(1, true), (1, false), (1, false), (2, true), (2, false)] {
        world.destination.bytes_mut().copy_from_slice(before.bytes());
        *table.completion = Completion::default();
        table.set(|header| header.ticket = ticket);
        PLAIN.pages(args(&mut world, &mut table));
        assert_same(world.destination.bytes(), if works { &want } else { before.bytes() });
        assert_eq!(table.answer().ticket, if works { ticket } else { 0 });
    }
}

#[test]
fn a_plan_staged_as_repeat_runs_in_every_replay() {
    let mut world = world();
    let (before, want) = (world.destination.clone(), reference(&world, &[one_block()]));
    let mut table = table(&world, &[one_block()]);
    table.set(|header| header.flags = flags::REPEAT);
    for _ in 0..3 {
        world.destination.bytes_mut().copy_from_slice(before.bytes());
        *table.completion = Completion::default();
        PLAIN.pages(args(&mut world, &mut table));
        assert_same(world.destination.bytes(), &want);
        assert_eq!((table.answer().ticket, table.progress.arrived), (1, 0));
    }
}

#[test]
fn another_version_moves_nothing_and_says_so() {
    with_table(
        |table| table.set(|header| header.version += 1),
        |before, after, _, table| {
            assert_same(after, before);
            let answer = Completion { ticket: 1, status: status::WRONG_VERSION, ..Completion::default() };
            assert_eq!((table.answer(), table.progress.done), (answer, 1));
        },
    );
}

#[test]
fn a_count_of_zero_moves_nothing_and_completes() {
    with_table(
        // The units of an earlier plan may still stand there.
        |table| table.set(|header| header.jobs = 0),
        |before, after, _, table| {
            assert_same(after, before);
            assert_eq!((table.answer().ticket, table.answer().status), (1, status::DONE));
        },
    );
}

#[test]
fn jobs_and_list_entries_past_their_counts_are_never_read() {
    let mut world = world();
    let listed = |blocks: &[(u32, u32)]| Work { blocks: blocks.to_vec(), list: true, ..one_block() };
    let works = [listed(&[(0, 0), (3, 2)]), listed(&[(1, 3)])];
    // The first job alone is counted. The second one's entry follows in the list, and then there is poison.
    let (want, first) = (reference(&world, &works[..1]), table(&world, &works[..1]));
    let units = {
        let mut units = 0;
        let mut first = first;
        first.set(|header| units = header.units);
        units
    };
    let mut table = table(&world, &works);
    table.set(|header| (header.jobs, header.units) = (1, units));
    PLAIN.pages(args(&mut world, &mut table));
    assert_same(world.destination.bytes(), &want);
}

#[test]
fn a_block_past_the_end_is_counted_once_and_never_written() {
    for (source, destination, zero, bad) in
        [(4, 0, false, 1), (0, 4, false, 1), (u32::MAX, u32::MAX, false, 1), (0, 4, true, 1), (4, 0, true, 0)]
    {
        let mut world = world();
        let good = Work { blocks: vec![(1, 1), (2, 2)], list: true, zero, ..one_block() };
        let mut want = reference(&world, std::slice::from_ref(&good));
        let zeroed = Work { blocks: vec![(0, 0)], ..good.clone() };
        if zero && bad == 0 {
            // There is no source to be past the end.
            want = reference(&world, &[good.clone(), zeroed]);
        }
        let blocks = vec![(1, 1), (source, destination), (2, 2)];
        let mut table = table(&world, &[Work { blocks, ..good }]);
        PLAIN.pages(args(&mut world, &mut table));
        assert_same(world.destination.bytes(), &want);
        assert_eq!((table.answer().bad, table.progress.bad), (bad, 0));
    }
}

#[test]
fn row_counts_are_those_of_one_launch_and_a_replay_does_nothing() {
    let mut world = world();
    let mirror = Mirror {
        slots: vec![0, -1, 4, 99],
        tokens_per_row: 1,
        page_slots: 3,
        map: vec![2, 0, -1, -1],
        null_page: -1,
        ..Mirror::default()
    };
    let mut arrays = Arrays::new(&mirror);
    let mut table = Table::new(&[arrays.job(&mirror, 0, 0)], 0, &[], &[]);
    let mut maps = mirror.map.clone();
    for (ticket, runs) in [(1, true), (1, false), (2, true)] {
        *table.completion = Completion::default();
        table.set(|header| header.ticket = ticket);
        let [routes, segments, bases] = world.geometry();
        let (table_at, progress, maps) = (table.address(), table.progress_address(), address(&mut maps));
        PLAIN.rows(RowsArgs { table: table_at, routes, segments, bases, progress, maps });
        let answer = Completion { ticket, status: status::DONE, bad: 1, rows: 2, skipped: 1 };
        assert_eq!(table.answer(), if runs { answer } else { Completion::default() });
        assert_eq!(table.progress, Progress { done: ticket, ..Progress::default() });
    }
}

#[test]
fn row_jobs_of_another_version_move_nothing() {
    let mut world = world();
    let before = world.destination.clone();
    let mirror = Mirror {
        slots: vec![0],
        tokens_per_row: 1,
        page_slots: 3,
        map: vec![2; 4],
        null_page: -1,
        ..Mirror::default()
    };
    let mut arrays = Arrays::new(&mirror);
    let mut table = Table::new(&[arrays.job(&mirror, 0, 0)], 0, &[], &[]);
    table.set(|header| header.version = 0);
    let [routes, segments, bases] = world.geometry();
    let (table_at, progress, maps) = (table.address(), table.progress_address(), address(&mut [2, 2, 2, 2]));
    PLAIN.rows(RowsArgs { table: table_at, routes, segments, bases, progress, maps });
    assert_same(world.destination.bytes(), before.bytes());
    assert_eq!(
        table.answer(),
        Completion { ticket: 1, status: status::WRONG_VERSION, ..Completion::default() }
    );
}
