//! A whole case in memory: plans run by a backend over random bytes, and every byte compared with a naive reference.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use pagelift::backends::{Backend, Cpu, Emulated, Shape as LaunchShape};
use pagelift::error::PlanError;
use pagelift::launcher::{Counters, Launcher, LauncherOptions, Report, TicketState};
use pagelift::plan::{DeviceToDevice, DeviceToHost, HostToDevice, Plan, PlanCapacity, RowCapacity};

use crate::arrays::{Arrays, Scratch, Target};
use crate::digests::{DigestCall, DigestSession, digest_of};
use crate::draw::Draw;
use crate::ids::Free;
use crate::memory::Pools;
use crate::pages::{Call, Calls, Session};
use crate::rows::{Binds, RowCall, RowSession};
use crate::shape::{Scale, Shape};
use crate::world::{CompactWay, World};
use crate::{STAGING, bytes, encoded};

/// What cases did, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Jobs of the plans that were launched.
    pub jobs: u64,
    /// Bytes that they copied.
    pub copied: u64,
    /// Bytes that were compared.
    pub compared: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.copied += other.copied;
        self.compared += other.compared;
    }
}

/// Plays a case on one of the backends, and panics where a byte is not what it should be.
pub fn run(draw: &mut Draw) -> Tally {
    let blocks = draw.pick(&[1, 1, 2, 5]);
    let warps = draw.pick(&[1, 4]);
    let seed = draw.below(0x1_0000);
    let emulated = |lanes| Emulated { shape: LaunchShape { blocks, warps, lanes }, seed };
    match draw.below(4) {
        0 => run_on(draw, cpu(1)),
        1 => run_on(draw, cpu(2)),
        2 => run_on(draw, &emulated(32)),
        _ => run_on(draw, &emulated(1)),
    }
}

/// The engine with one thread or two.
pub fn cpu(threads: usize) -> &'static Cpu {
    static CPUS: [OnceLock<Cpu>; 2] = [const { OnceLock::new() }; 2];
    CPUS[threads - 1].get_or_init(|| Cpu::with_threads(threads).unwrap())
}

/// Plays a case on this backend.
pub fn run_on(draw: &mut Draw, backend: &impl Backend) -> Tally {
    let kind = draw.below(9);
    let size = 1 + draw.small(5);
    let shape = Shape::draw(draw, &Scale::in_memory(size));
    let (world, mut pools) = Pools::new(draw, &shape, backend);
    match kind {
        0..=2 => pages::<HostToDevice>(draw, backend, &world, &mut pools),
        3 => pages::<DeviceToHost>(draw, backend, &world, &mut pools),
        4 => pages::<DeviceToDevice>(draw, backend, &world, &mut pools),
        5 => rows::<DeviceToDevice>(draw, backend, &world, &mut pools),
        6 | 7 => rows::<DeviceToHost>(draw, backend, &world, &mut pools),
        _ => digests(draw, backend, &world, &mut pools),
    }
}

/// Options that vary what should make no difference.
pub fn options(draw: &mut Draw) -> LauncherOptions {
    let workers = draw.pick(&[None, NonZeroU32::new(1), NonZeroU32::new(3)]);
    LauncherOptions { slots: 1 + draw.small(4), workers, repeat: draw.once_in(3) }
}

/// A buffer with less room than the table needs takes nothing of it.
fn small_buffers<P: Plan>(draw: &mut Draw, plan: &P) {
    let needed = encoded(plan).len();
    let room = draw.small(needed as u32) as usize;
    let mut buffer = vec![0xEE; room];
    assert_eq!(plan.encode(STAGING, &mut buffer), Err(PlanError::Buffer { needed, room }));
    assert!(buffer.iter().all(|&byte| byte == 0xEE), "a table that does not fit was written in part");
}

/// Counts a plan that was staged.
fn count_staged<P: Plan>(counted: &mut Counters, plan: &P) {
    counted.staged += 1;
    counted.jobs += plan.jobs() as u64;
    counted.bytes = counted.bytes.map(|sum| sum + bytes(plan));
}

/// What a launcher has counted when the last plan has done this.
fn with(counted: Counters, Report { rows, skipped, bad }: Report) -> Counters {
    let and = |sum: Option<u64>, more: u32| sum.map(|sum| sum + u64::from(more));
    Counters {
        done: counted.done + 1,
        rows: and(counted.rows, rows),
        skipped: and(counted.skipped, skipped),
        bad: counted.bad + u64::from(bad),
        ..counted
    }
}

/// Page plans: filled, staged once or twice, launched any number of times, cleared, and filled again.
pub fn pages<D: Calls>(draw: &mut Draw, backend: &impl Backend, world: &World, pools: &mut Pools) -> Tally {
    let mut session = Session::<D>::new(world, PlanCapacity { jobs: 48, list_entries: 96 });
    let options = options(draw);
    let mut launcher = Launcher::bind(backend, &pools.memory, &mut session.plan, options).unwrap();
    let (mut tally, mut counted) = (Tally::default(), Counters { bytes: Some(0), ..Counters::default() });
    for round in 0..3 {
        if round > 0 && draw.is_exhausted() {
            break;
        }
        session.clear();
        let mut free = Free::all(draw, world);
        for _ in 0..1 + draw.below(5) {
            session.call(Call::draw::<D>(draw, world, &mut free));
        }
        small_buffers(draw, &session.plan);
        let before = pools.image();
        let overwrites = draw.once_in(3) && options.slots > 1;
        let overwritten = overwrites.then(|| launcher.stage(&pools.memory, &mut session.plan).unwrap());
        for _ in 0..1 + overwritten.iter().len() {
            count_staged(&mut counted, &session.plan);
        }
        let ticket = launcher.stage(&pools.memory, &mut session.plan).unwrap();
        pools.assert_is(&before);
        assert_eq!(launcher.state(ticket), TicketState::Pending);
        for launch in 0..1 + draw.below(2) {
            pools.fill(draw);
            let mut expected = pools.image();
            if launch == 0 || options.repeat {
                expected.apply(session.moves());
                tally.jobs += session.plan.jobs() as u64;
                tally.copied += bytes(&session.plan);
            }
            launcher.launch(&mut pools.memory).unwrap();
            counted.launches += 1;
            assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
            pools.assert_is(&expected);
            tally.compared += expected.bytes() as u64;
        }
        if let Some(ticket) = overwritten {
            assert_eq!(launcher.state(ticket), TicketState::Superseded);
        }
        counted.done += 1;
        counted.superseded += u64::from(overwritten.is_some());
        assert_eq!(launcher.counters(), counted);
    }
    tally
}

/// Row plans: mirrors and gathers by index lists, with page maps that change, and arrays that are partly nonsense.
pub fn rows<D: Binds>(draw: &mut Draw, backend: &impl Backend, world: &World, pools: &mut Pools) -> Tally {
    let mut scratch = Scratch::new(pools, backend);
    let mut session = RowSession::<D>::new(world, RowCapacity { jobs: 16, changes: 64 });
    let options = options(draw);
    let mut launcher = Launcher::bind(backend, &pools.memory, &mut session.plan, options).unwrap();
    let mut bound = bind_all(draw, world, &mut scratch, &mut session);
    let (mut tally, mut last) = (Tally::default(), None);
    let mut counted = Counters { rows: Some(0), skipped: Some(0), ..Counters::default() };
    for round in 0..4 {
        if round > 0 && draw.is_exhausted() {
            break;
        }
        let stages = last.is_none() || draw.once_in(2);
        if stages {
            for _ in 0..draw.below(10) {
                let call = RowCall::draw::<D>(draw, world);
                if let Some(call @ (RowCall::Map { .. } | RowCall::MapRows { .. } | RowCall::Unmap { .. })) =
                    call
                {
                    session.call(&call);
                }
            }
            small_buffers(draw, &session.plan);
            let before = pools.image();
            let ticket = launcher.stage(&pools.memory, &mut session.plan).unwrap();
            pools.assert_is(&before);
            session.staged();
            count_staged(&mut counted, &session.plan);
            assert_eq!(launcher.state(ticket), TicketState::Pending);
            if let Some((_, report)) = last.replace((ticket, Report::default())) {
                counted = with(counted, report);
            }
        }
        // The step writes its rows, and then says which they are: after staging, as a replay would.
        pools.fill(draw);
        for arrays in &mut bound {
            arrays.step(draw);
            arrays.write(pools, &scratch);
        }
        let mut expected = pools.image();
        let (ticket, report) = last.as_mut().unwrap();
        if stages || options.repeat {
            *report = Report::default();
            let mut moves = Vec::new();
            bound.iter().for_each(|arrays| arrays.expect(world, &session.map, &mut moves, report));
            expected.apply(&moves);
            tally.jobs += bound.len() as u64;
            tally.copied += moves.iter().map(|piece| piece.bytes).sum::<u64>();
        }
        launcher.launch(&mut pools.memory).unwrap();
        counted.launches += 1;
        assert_eq!(launcher.state(*ticket), TicketState::Done(*report));
        assert_eq!(launcher.counters(), with(counted, *report));
        pools.assert_is(&expected);
        tally.compared += expected.bytes() as u64;
    }
    tally
}

/// Binds groups that have rows, and some ways into buffers.
fn bind_all<'w, D: Binds>(
    draw: &mut Draw,
    world: &'w World,
    scratch: &mut Scratch,
    session: &mut RowSession<'w, D>,
) -> Vec<Arrays<'w>> {
    let mut all = Vec::new();
    let with_rows = world.groups.iter().enumerate().filter(|(_, group)| group.has_rows());
    for (group, _) in with_rows.filter(|_| D::BINDS) {
        let arrays = Arrays::draw(draw, world, Target::Mirror { group }, 13, scratch);
        assert!(session.call(&RowCall::Bind { group, binding: arrays.binding }));
        all.push(arrays);
    }
    for (way, CompactWay { from, to, .. }) in D::ways(world).compact.iter().enumerate() {
        if !draw.once_in(3) {
            continue;
        }
        let arrays = Arrays::draw(draw, world, Target::Compact { from, to }, to.rows.min(13), scratch);
        // Another way may lead to the same buffer.
        if session.call(&RowCall::Gather { way, list: arrays.binding }) {
            all.push(arrays);
        }
    }
    all
}

/// Digest plans: the digests of whatever lies in memory, which stays as it is.
pub fn digests(draw: &mut Draw, backend: &impl Backend, world: &World, pools: &mut Pools) -> Tally {
    let mut session = DigestSession::new(world, PlanCapacity { jobs: 48, list_entries: 96 });
    let options = LauncherOptions { repeat: false, ..options(draw) };
    let mut launcher = Launcher::bind(backend, &pools.memory, &mut session.plan, options).unwrap();
    let (mut tally, mut counted) = (Tally::default(), Counters { bytes: Some(0), ..Counters::default() });
    for round in 0..3 {
        if round > 0 && draw.is_exhausted() {
            break;
        }
        session.clear();
        let calls = (0..1 + draw.below(6)).filter_map(|_| session.call(&DigestCall::draw(draw, world)));
        let calls: Vec<_> = calls.collect();
        small_buffers(draw, &session.plan);
        let ticket = launcher.stage(&pools.memory, &mut session.plan).unwrap();
        count_staged(&mut counted, &session.plan);
        pools.fill(draw);
        let mut expected = pools.image();
        launcher.launch(&mut pools.memory).unwrap();
        assert_eq!(launcher.state(ticket), TicketState::Done(Report::default()));
        (counted.launches, counted.done) = (counted.launches + 1, counted.done + 1);
        assert_eq!(launcher.counters(), counted);
        for (number, rows) in &calls {
            let digest = digest_of(rows, |address, bytes| expected.read(address, bytes));
            assert_eq!(launcher.digest(ticket, *number).unwrap(), digest);
        }
        pools.assert_is(&expected);
        tally.jobs += session.plan.jobs() as u64;
        tally.compared += expected.bytes() as u64;
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_cases_are_as_the_reference_says() {
        let mut tally = Tally::default();
        for seed in 0..300 {
            tally += run(&mut Draw::seeded(seed));
        }
        assert!(tally.jobs > 500 && tally.copied > 1 << 20, "{tally:?}");
    }

    #[test]
    fn a_case_without_choices_ends() {
        for kind in 0..9 {
            run(&mut Draw::from_bytes(&[0, 0, 0, 0, 0, kind]));
        }
    }
}
