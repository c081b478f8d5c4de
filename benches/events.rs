//! What an event costs the host, and an import its memory, with few and with many imports in flight.
//!
//! Each import goes its whole way beside so many others that wait for their ranks: it is admitted, received, lifted by two
//! ranks, decodes a few tokens, and ends. `docs/benchmarks.md` says how to read it.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a bench")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pagelift::import::{Policy, Recurrence};
use pagelift::lifecycle::{
    Admission, Answer, ContentHash, Effect, Event, FrameLimits, Lifecycle, LifecycleOptions, Rank, Ranks,
    Read, RequestId,
};
use pagelift::quantity::Tokens;

const BLOCKS_OF_IMPORT: u32 = 17;
const STEPS: u32 = 4;
/// Admission, posting, a read, two answers, then per step begin, accept and two reports, and an end with two answers.
const EVENTS: u64 = 5 + 4 * STEPS as u64 + 3;

fn lifecycle(imports: u32) -> Lifecycle {
    Lifecycle::new(LifecycleOptions {
        ranks: 2,
        writers: Ranks::first(1),
        block_tokens: 64,
        recurrence: Recurrence::None,
        requests: imports + 1,
        blocks: (imports + 2) * (BLOCKS_OF_IMPORT + 1),
        pages: imports + 2,
        keep: 0,
        draft_lag: 0,
        retries: 1,
        limits: FrameLimits::default(),
    })
    .unwrap()
}

/// Admits a prompt of 1,043 tokens whose content nobody knows.
fn admit(lifecycle: &mut Lifecycle, number: u128) -> RequestId {
    let hashes: [ContentHash; 16] = std::array::from_fn(|n| ContentHash::new(number * 16 + n as u128));
    let (prompt, policy) = (Tokens::new(1_043), Policy::LiftTail);
    let admission = Admission { prompt, policy, producer: true, hashes: hashes.as_slice().into() };
    match lifecycle.apply(&Event::Admit(admission)).unwrap().first() {
        Some(Effect::Admitted { request, .. }) => *request,
        other => panic!("{other:?}"),
    }
}

fn apply(lifecycle: &mut Lifecycle, event: &Event<'_>) {
    black_box(lifecycle.apply(event).unwrap());
}

/// Up to the answers of its ranks.
fn receive(lifecycle: &mut Lifecycle, number: u128) -> RequestId {
    let request = admit(lifecycle, number);
    apply(lifecycle, &Event::Posted { request, ranks: Ranks::first(1), each: 1 });
    apply(lifecycle, &Event::Read { request, rank: Rank::new(0), part: 0, read: Read::Landed });
    request
}

fn serve(lifecycle: &mut Lifecycle, number: u128) {
    let ranks = [0, 1].map(Rank::new);
    let request = receive(lifecycle, number);
    let answer = Answer::Done;
    ranks.iter().for_each(|rank| apply(lifecycle, &Event::Answer { request, round: 1, rank: *rank, answer }));
    for step in 1..=STEPS {
        apply(lifecycle, &Event::Begin { request, tokens: 1 });
        apply(lifecycle, &Event::Accept { request, step, tokens: 1 });
        ranks.iter().for_each(|rank| apply(lifecycle, &Event::Mirrored { request, rank: *rank, step }));
    }
    apply(lifecycle, &Event::Finish { request });
    ranks.iter().for_each(|rank| apply(lifecycle, &Event::Answer { request, round: 2, rank: *rank, answer }));
}

/// Imports that wait for their ranks.
const IN_FLIGHT: [u32; 4] = [10, 100, 1_000, 10_000];

/// A lifecycle with so many imports in flight, and the number of the next.
fn filled(imports: u32) -> (Lifecycle, u128) {
    let mut lifecycle = lifecycle(imports);
    for number in 0..imports.into() {
        receive(&mut lifecycle, number);
    }
    (lifecycle, imports.into())
}

/// What a lifecycle holds for each of its imports: slots, block lists, hashes, and its share of blocks and pages.
fn memory(_: &mut Criterion) {
    for imports in IN_FLIGHT {
        let mut kept = None;
        let counted = allocation_counter::measure(|| kept = Some(filled(imports)));
        let bytes = counted.bytes_current / i64::from(imports);
        println!("events/memory of an import/{imports}: {bytes} B");
        drop(kept);
    }
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(EVENTS));
    for imports in IN_FLIGHT {
        let (mut lifecycle, mut number) = filled(imports);
        group.bench_function(BenchmarkId::new("an import's whole way", imports), |bencher| {
            bencher.iter(|| {
                serve(&mut lifecycle, number);
                number += 1;
            });
        });
    }
    group.finish();
}

criterion_group!(benches, memory, events);
criterion_main!(benches);
