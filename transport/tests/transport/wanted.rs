//! From a lifecycle's effects to block tables.

use pagelift_planner::geometry::{
    Geometry, GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, Ring,
    SideSpec, State, StateLift,
};
use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::import::{Policy, Recurrence};
use pagelift_planner::layout::{PagedLayout, RingLayout, StateLayout, StatePart};
use pagelift_planner::lifecycle::{
    Admission, ContentHash, Effect, Event, FrameLimits, GroupFrames, Lifecycle, LifecycleOptions, Rank,
    Ranks, Read, RequestId,
};
use pagelift_planner::quantity::Tokens;
use pagelift_transport::consumer::{ConsumerEvent, End, Failure, posted};
use pagelift_transport::error::WantedError;
use pagelift_transport::plan::{BlockTable, BlockTables};
use pagelift_transport::wanted::WantedBy;

/// Main of blocks and pages of 16 tokens; keys whose blocks have 16 and whose pages 8; states; a ring; and keys that land on the
/// device, in pages of 8.
fn world() -> (Geometry, Vec<GroupFrames>) {
    let mut builder = GeometryBuilder::new();
    let mut cursor = 0x10000;
    macro_rules! group {
        ($kind:ident, $name:literal, $landing:expr, $lift:expr, $host:expr, $device:expr) => {{
            let mut side = |layout: Option<_>, memory| {
                layout.map(|layout: Result<_, _>| {
                    let layout = layout.unwrap();
                    #[allow(clippy::redundant_closure_call, reason = "layouts of three types")]
                    let page = (|layout: &<$kind as pagelift_planner::geometry::Kind>::Layout| {
                        layout.page_bytes().get()
                    })(&layout);
                    let region = Region::new(cursor, 64 * page);
                    cursor += 0x10000;
                    let name = format!("{} in {memory:?}", $name);
                    let pool = builder.pool(PoolSpec::new(&name, memory, 64, &[region])).unwrap();
                    SideSpec::packed(pool, &[region.address()], &[0], page, layout)
                })
            };
            let (host, device) = (side($host, Memory::Host), side($device, Memory::Device));
            let (name, landing, lift) = ($name.into(), $landing, $lift);
            builder.group(GroupSpec::<$kind> { name, layers: 1, landing, lift, host, device }).unwrap()
        }};
    }
    let keys = |tokens| PagedLayout::builder(tokens).segment("key", 4).build();
    let ring = || Some(RingLayout::builder(4, 16).build());
    let state = || Some(StateLayout::new(&[StatePart::new("state", 32)], None));
    let (host, device) = (Landing::Host, Landing::Device);
    let main = group!(Paged, "main", host, PagedLift::Tail, Some(keys(16)), Some(keys(16)));
    let whole = group!(Paged, "whole", host, PagedLift::All, Some(keys(16)), Some(keys(8)));
    let gdn = group!(State, "gdn", host, StateLift::State, state(), state());
    let ring = group!(Ring, "ring", host, StateLift::State, ring(), ring());
    let landed = group!(Paged, "landed", device, PagedLift::None, None, Some(keys(8)));
    let blocks = |first: u32| (first..first + 20).map(HostBlockId::new).collect::<Vec<_>>();
    let pages = |first: u32| (first..first + 20).map(PageId::new).collect::<Vec<_>>();
    let whole = GroupFrames::Whole { group: whole, blocks: blocks(20), pages: pages(10), each: 8 };
    let frames = vec![
        GroupFrames::Paged { group: main, blocks: blocks(30), pages: pages(40) },
        GroupFrames::ReadOnly(Box::new(whole)),
        GroupFrames::State { group: gdn, blocks: blocks(1), pages: pages(5) },
        GroupFrames::Ring { group: ring, blocks: blocks(7), pages: pages(3) },
        GroupFrames::Whole { group: landed, blocks: Vec::new(), pages: pages(0), each: 10 },
    ];
    (builder.build().unwrap(), frames)
}

fn lifecycle(pages: u32) -> Lifecycle {
    Lifecycle::new(LifecycleOptions {
        ranks: 1,
        writers: Ranks::first(1),
        block_tokens: 16,
        recurrence: Recurrence::State,
        requests: 2,
        blocks: 12,
        pages,
        keep: 0,
        draft_lag: 0,
        retries: 0,
        limits: FrameLimits::default(),
    })
    .unwrap()
}

/// Admits a prompt whose first blocks have these names, and says what is to be read of it.
fn admit(lifecycle: &mut Lifecycle, prompt: u64, policy: Policy) -> (RequestId, std::ops::Range<u32>) {
    let hashes: Vec<_> = (0..prompt / 16).map(|block| ContentHash::new(block.into())).collect();
    let admission = Admission { prompt: Tokens::new(prompt), policy, producer: true, hashes: hashes.into() };
    lifecycle.apply(&Event::Admit(admission)).unwrap();
    let effects = lifecycle.effects();
    let read = effects.iter().find_map(|effect| match effect {
        Effect::Read { request, first, end } => Some((*request, *first..*end)),
        _ => None,
    });
    read.unwrap()
}

fn tables(
    lifecycle: &Lifecycle,
    (request, reads): (RequestId, std::ops::Range<u32>),
    frames: &[GroupFrames],
    geometry: &Geometry,
) -> Result<BlockTables, WantedError> {
    let view = lifecycle.request(request).unwrap();
    WantedBy { geometry, frames, block_tokens: Tokens::new(16), view }.tables(request, reads)
}

#[test]
fn block_tables_are_what_the_frames_say_of_what_the_lifecycle_has_taken() {
    let (geometry, frames) = world();
    let mut lifecycle = lifecycle(2);
    // The second request has slot 1, and blocks after those of the first.
    let first = admit(&mut lifecycle, 20, Policy::LiftTail);
    let second = admit(&mut lifecycle, 43, Policy::LiftTail);
    assert_eq!((first.0.slot(), second.0.slot(), second.1.clone()), (0, 1, 0..3));
    let blocks: Vec<u32> =
        lifecycle.request(second.0).unwrap().blocks().iter().map(|block| block.get()).collect();
    let at = |list: u32| BlockTable::from_first(&blocks.iter().map(|block| list + block).collect::<Vec<_>>());
    let one = |position, block| BlockTable::at(position, vec![Some(block)]);
    // 42 tokens are imported: three blocks, or six pages, the last of which has two of them.
    let expected = BlockTables::new()
        .with("main", at(30))
        .with("whole", at(20))
        .with("gdn", one(2, 1 + blocks[2]))
        .with("ring", one(0, 8))
        .with("landed", BlockTable::from_first(&[10, 11, 12, 13, 14, 15]));
    assert_eq!(tables(&lifecycle, second, &frames, &geometry).unwrap(), expected);
    let nothing = tables(&lifecycle, (first.0, 1..1), &frames, &geometry).unwrap();
    assert_eq!(nothing, BlockTables::new());
}

#[test]
fn what_lands_on_the_device_goes_to_the_pages_of_the_request() {
    let (geometry, frames) = world();
    let mut lifecycle = lifecycle(4);
    let import = admit(&mut lifecycle, 43, Policy::LandOnDevice);
    let pages: Vec<u32> =
        lifecycle.request(import.0).unwrap().pages().map(|(_, page, _)| page.get()).collect();
    let main: Vec<u32> = pages.iter().map(|page| 40 + page).collect();
    let one = |position, page| BlockTable::at(position, vec![Some(page)]);
    let expected = BlockTables::new()
        .with("main", BlockTable::from_first(&main))
        .with("whole", BlockTable::from_first(&[10, 11, 12, 13, 14, 15]))
        .with("gdn", one(2, 5))
        .with("ring", one(0, 3))
        .with("landed", BlockTable::from_first(&[0, 1, 2, 3, 4, 5]));
    assert_eq!(tables(&lifecycle, import, &frames, &geometry).unwrap(), expected);
}

#[test]
fn frames_that_lack_what_a_request_has_are_refused_by_group_and_position() {
    let (geometry, mut frames) = world();
    let mut lifecycle = lifecycle(2);
    let import = admit(&mut lifecycle, 43, Policy::LiftTail);
    let GroupFrames::Whole { each, .. } = &mut frames[4] else { panic!("it is whole") };
    *each = 5;
    let refused = tables(&lifecycle, import.clone(), &frames, &geometry).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "group `landed`: its frames have nothing in device memory for position 5"
    );
    frames.truncate(1);
    let GroupFrames::Paged { blocks, .. } = &mut frames[0] else { panic!("it is paged") };
    blocks.fill(HostBlockId::new(GroupFrames::NONE));
    let refused = tables(&lifecycle, import, &frames, &geometry).unwrap_err();
    assert!(matches!(refused, WantedError::Missing { position: 0, memory: "host", .. }), "{refused}");
}

#[test]
fn what_a_consumer_says_is_what_the_lifecycle_awaits() {
    let (geometry, frames) = world();
    let rank = Rank::new(0);
    for lands in [true, false] {
        let mut lifecycle = lifecycle(2);
        let import = admit(&mut lifecycle, 43, Policy::LiftTail);
        let request = import.0;
        let wanted = tables(&lifecycle, import, &frames, &geometry).unwrap();
        lifecycle.apply(&posted(request, Ranks::first(1), &wanted)).unwrap();
        let end = match lands {
            true => End::Landed { awaited: true, filled: true },
            false => {
                let valid =
                    [("main", 32), ("gdn", 0)].map(|(name, tokens)| (name.into(), Tokens::new(tokens)));
                End::Failed { why: Failure::NoAnswer, valid: valid.into() }
            }
        };
        let event = ConsumerEvent::Ended { id: request, end }.of_lifecycle(rank).unwrap();
        lifecycle.apply(&event).unwrap();
        let received = lifecycle.effects().contains(&Effect::Received { request });
        let valid = lifecycle.effects().iter().find_map(|effect| match effect {
            Effect::Ended { valid, .. } => Some(valid.get()),
            _ => None,
        });
        assert_eq!((received, valid), (lands, (!lands).then_some(0)));
    }
    // Of what wanted nothing, it hears nothing.
    let mut lifecycle = lifecycle(2);
    let (request, _) = admit(&mut lifecycle, 20, Policy::LiftTail);
    // Nobody waits for it, but it was announced.
    let end = End::Landed { awaited: false, filled: true };
    let told = ConsumerEvent::Ended { id: request, end }.of_lifecycle(rank);
    assert!(matches!(told, Some(Event::Read { read: Read::Landed, .. })), "{told:?}");
    for end in [
        End::Landed { awaited: false, filled: false },
        End::Failed { why: Failure::NoAnswer, valid: Vec::new() },
    ] {
        assert_eq!(ConsumerEvent::Ended { id: request, end }.of_lifecycle(rank), None);
    }
}
