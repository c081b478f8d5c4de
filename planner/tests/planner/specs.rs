//! Spans, layouts, pools and groups that cannot be: the error that says what is wrong.

use pagelift_planner::error::{GeometryError, LayoutError, SpanError};
use pagelift_planner::geometry::*;
use pagelift_planner::import::{PromptSpan, Recurrence};
use pagelift_planner::layout::{
    ConvOrder, GdnShape, PagedLayout, RingLayout, Segment, StateLayout, StatePart,
};
use pagelift_planner::plan::{DeviceToDevice, DeviceToHost, HostToDevice};
use pagelift_planner::quantity::Tokens;
use proptest::prelude::*;

use crate::fixed::{DEVICE, HOST, blocks_outermost, layers_outermost, paged, pool, prompt};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn spans_never_panic(prompt: u64, imported: u64, resume: u64, block: u64) {
        let [prompt, imported, resume, block] = [prompt, imported, resume, block].map(Tokens::new);
        for span in [
            PromptSpan::new(prompt, Recurrence::None),
            PromptSpan::new(prompt, Recurrence::State),
            PromptSpan::explicit(prompt, imported, resume),
        ].into_iter().flatten() {
            if let Ok(blocks) = span.in_blocks_of(block) {
                let (slots, imported) = (u128::from(block.get()), u128::from(span.imported().get()));
                let received = imported.div_ceil(slots);
                prop_assert_eq!(u128::from(blocks.received()), received);
                prop_assert_eq!(u128::from(blocks.capacity().get()), received * slots);
                prop_assert_eq!(u128::from(blocks.holes().get()), received * slots - imported);
                let tail = u128::from(span.resume_at().get()) / slots;
                prop_assert_eq!(u128::from(blocks.tail_page()), tail);
                prop_assert_eq!(u128::from(blocks.tail_tokens().get()), imported - tail * slots);
            }
        }
    }

    #[test]
    fn spans_in_small_blocks_never_panic(prompt in 0_u64..1 << 34, back in 0_u64..3, block in 0_u64..9) {
        let prompt = Tokens::new(prompt);
        let resume = Tokens::new(prompt.get().saturating_sub(back));
        for imported in [resume, Tokens::new(resume.get() + 1)] {
            if let Ok(span) = PromptSpan::explicit(prompt, imported, resume) {
                let _ = span.in_blocks_of(Tokens::new(block));
            }
        }
    }
}

#[test]
fn spans() {
    let explicit = |p, i, r| PromptSpan::explicit(Tokens::new(p), Tokens::new(i), Tokens::new(r)).map(|_| ());
    assert_eq!(PromptSpan::new(Tokens::ZERO, Recurrence::None), Err(SpanError::EmptyPrompt));
    assert_eq!(explicit(0, 0, 0), Err(SpanError::EmptyPrompt));
    assert_eq!(explicit(9, 10, 9), Err(SpanError::ImportedPastPrompt { imported: 10, prompt: 9 }));
    for (imported, resume_at) in [(9, 9), (9, 7), (5, 6), (5, 3), (0, 1)] {
        let error = SpanError::ResumeOutOfPlace { resume_at, imported, prompt: 9 };
        assert_eq!(explicit(9, imported, resume_at), Err(error));
    }
    for (imported, resume_at) in [(9, 8), (8, 8), (5, 5), (5, 4), (0, 0), (1, 0)] {
        assert_eq!(explicit(9, imported, resume_at), Ok(()));
    }
    assert_eq!(prompt(9).in_blocks_of(Tokens::ZERO), Err(SpanError::EmptyBlock));
    let tokens = 1 << 33;
    let too_many = Err(SpanError::TooManyBlocks { tokens, block_tokens: 2 });
    assert_eq!(prompt(tokens).in_blocks_of(Tokens::new(2)), too_many);
    // With huge blocks the slots themselves would not fit.
    let block = (1 << 63) + 1;
    let too_many = Err(SpanError::TooManyBlocks { tokens: u64::MAX, block_tokens: block });
    assert_eq!(prompt(u64::MAX).in_blocks_of(Tokens::new(block)), too_many);
}

#[test]
fn layouts() {
    let build =
        |block, per_row| PagedLayout::builder(block).tokens_per_row(per_row).segment("row", 16).build();
    let uneven = |block_tokens, tokens_per_row| Err(LayoutError::UnevenRows { block_tokens, tokens_per_row });
    for (block, per_row) in [(0, 1), (4, 0), (0, 0), (6, 4), (3, 4)] {
        assert_eq!(build(block, per_row), uneven(block, per_row));
    }
    assert_eq!(PagedLayout::builder(4).build(), Err(LayoutError::NoSegments));
    assert_eq!(
        PagedLayout::builder(4).segment("a", 0).build(),
        Err(LayoutError::EmptyRow { segment: "a".into() })
    );
    assert_eq!(
        PagedLayout::builder(4).segment("a", 4).segment("a", 4).build(),
        Err(LayoutError::NameTwice { segment: "a".into() })
    );
    assert_eq!(
        Segment::new("a", 0, 8, 7),
        Err(LayoutError::RowsOverlap { segment: "a".into(), row_bytes: 8, row_stride: 7 })
    );
    assert_eq!(
        PagedLayout::builder(4).segment("a", 4).page_bytes(15).build(),
        Err(LayoutError::PageTooSmall { needed: 16, page_bytes: 15 })
    );
    let at = |name, offset| Segment::new(name, offset, 8, 16).unwrap();
    let two = |offset| PagedLayout::builder(4).segment_at(at("a", 0)).segment_at(at("b", offset)).build();
    assert!(two(8).is_ok(), "rows of two segments may alternate");
    // Each region goes on where its own last segment ends, whatever was placed in another meanwhile.
    let apart = PagedLayout::builder(4).segment("a", 8).segment_at(at("k", 0).in_region(1)).segment("b", 8);
    let apart = apart.next_region().segment("c", 8).build().unwrap();
    let offsets: Vec<_> = apart.segments().iter().map(|s| (s.region(), s.offset())).collect();
    assert_eq!(offsets, [(0, 0), (1, 0), (0, 32), (1, 64)]);
    let overlap = LayoutError::SegmentsOverlap { first: "a".into(), second: "b".into() };
    for offset in [0, 7, 9, 16, 39, 41] {
        assert_eq!(two(offset), Err(overlap.clone()), "offset {offset}");
    }
    assert!(PagedLayout::builder(u32::MAX).segment_at(at("a", u64::MAX - 99)).build().is_err());
    let wide = PagedLayout::builder(4).row_padding(1).segment("a", u32::MAX).build();
    assert_eq!(wide, Err(LayoutError::Overflow { what: "row stride" }));
    let many = Err(LayoutError::Overflow { what: "the number of segments" });
    assert_eq!(PagedLayout::qsa_main_bf16(4, u32::MAX), many);
    assert_eq!(PagedLayout::qsa_main_bf16(4, 1025), many);
    assert!(PagedLayout::qsa_main_bf16(4, 1024).is_ok());
    assert_eq!(PagedLayout::qsa_main_bf16(4, 0), Err(LayoutError::NoSegments));
    assert_eq!(RingLayout::builder(0, 4).build(), Err(LayoutError::NoSlots));
    assert_eq!(RingLayout::builder(4, 0).build(), Err(LayoutError::EmptyRow { segment: "slot".into() }));
    assert_eq!(StateLayout::new(&[], None), Err(LayoutError::NoSegments));
    let parts = [StatePart::new("conv", 8), StatePart::new("temporal", 8)];
    let small = LayoutError::PageTooSmall { needed: 16, page_bytes: 15 };
    assert_eq!(StateLayout::new(&parts, Some(15)), Err(small));
    let shared = LayoutError::SegmentsOverlap { first: "conv".into(), second: "temporal".into() };
    assert_eq!(StateLayout::at(&[("conv", 0, 8), ("temporal", 7, 8)], None), Err(shared));
}

/// A builder with one pool of each memory of 4 blocks, and a group of it that is fine.
fn group_to_be() -> (GeometryBuilder, GroupSpec<Paged>) {
    let layout = PagedLayout::builder(4).segment("row", 16).build().unwrap();
    let mut builder = GeometryBuilder::new();
    let host = pool(&mut builder, Memory::Host, 4, 2 * 4 * 64);
    let device = pool(&mut builder, Memory::Device, 4, 4 * 128);
    let sides = (layers_outermost(host, 0, 2, 4, &layout), blocks_outermost(device, 2, 128, &layout));
    (builder, paged("main", 2, PagedLift::Tail, sides.0, sides.1))
}

/// What makes a fine group a bad one.
type Change<'a> = &'a dyn Fn(&mut GroupSpec<Paged>);

#[test]
fn groups() {
    let refused = |change: Change<'_>| {
        let (mut builder, mut spec) = group_to_be();
        change(&mut spec);
        builder.group(spec).unwrap_err().to_string()
    };
    let cases: [(Change<'_>, &str); 12] = [
        (&|g| g.layers = 0, "main: the number of layers is 0; expected at least 1"),
        (&|g| g.host = None, "group `main` lands on the host, and has no host side"),
        (&|g| g.device = None, "group `main` is lifted, and has no device side"),
        (
            &|g| g.landing = Landing::Device,
            "group `main` lands on the device, so it cannot be lifted from the host",
        ),
        (
            &|g| g.layers = 3,
            "group `main`, host side: expected 3 bases (one for each layer, region and extent), found 2",
        ),
        (
            &|g| g.layers = u32::MAX,
            "group `main`, host side: expected 4294967295 bases (one for each layer, region and extent), found 2",
        ),
        (
            &|g| g.host.as_mut().unwrap().pool = g.device.as_ref().unwrap().pool,
            "group `main`, host side: expected a pool in host memory, pool `device` is in device memory",
        ),
        (
            // A pool of another builder, though one of that number is here too.
            &|g| g.host.as_mut().unwrap().pool = group_to_be().1.host.unwrap().pool,
            "group `main`, host side: pool 0 does not exist in this geometry",
        ),
        (
            &|g| g.device.as_mut().unwrap().block_stride = 63,
            "group `main`, device side: pages of 64 bytes lie only 63 bytes apart",
        ),
        (
            &|g| g.device.as_mut().unwrap().block_stride = u64::MAX,
            "group `main`, device side: a block's end is too large",
        ),
        (
            &|g| g.device.as_mut().unwrap().bases[1] += 1,
            "group `main`, device side: layer 1, extent 0 needs bytes 0x700000000041..0x700000000201, which no \
             single region of the pool holds",
        ),
        (
            &|g| g.host.as_mut().unwrap().bases[0] = u64::MAX,
            "group `main`, host side: a block's end is too large",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(refused(change), expected);
    }
    let (mut builder, spec) = group_to_be();
    builder.group(spec.clone()).unwrap();
    assert_eq!(builder.group(spec), Err(GeometryError::NameTwice { name: "main".into() }));
}

#[test]
fn case_06_and_24_sides_that_do_not_hold_the_same_rows() {
    let layouts = [
        (
            PagedLayout::builder(3).segment("row", 16),
            "rows per block is 4 at the source and 3 at the destination",
        ),
        (
            PagedLayout::builder(12).segment("row", 4),
            "rows per block is 4 at the source and 12 at the destination",
        ),
        (
            PagedLayout::builder(2).segment("row", 32),
            "the list of segments is row×16B at the source and row×32B at the destination",
        ),
        (
            PagedLayout::builder(8).tokens_per_row(2).segment("row", 16),
            "tokens_per_row is 1 at the source and 2 at the destination",
        ),
        (
            PagedLayout::builder(4).segment("row", 15),
            "the list of segments is row×16B at the source and row×15B at the destination",
        ),
        (
            PagedLayout::builder(4).segment("k", 8).segment("v", 8),
            "the list of segments is row×16B at the source and k×8B, v×8B at the destination",
        ),
        (
            PagedLayout::builder(4).segment("v", 16),
            "the list of segments is row×16B at the source and v×16B at the destination",
        ),
    ];
    for (layout, words) in layouts {
        let (mut builder, mut spec) = group_to_be();
        spec.device.as_mut().unwrap().layout = layout.build().unwrap();
        assert_eq!(builder.group(spec).unwrap_err().to_string(), format!("group `main`: {words}"));
    }
}

#[test]
fn case_06_k_and_v_of_the_same_width_are_told_by_their_names() {
    let page = |segments: [&str; 2]| {
        let [first, second] = segments;
        PagedLayout::builder(4).segment(first, 8).segment(second, 8).build().unwrap()
    };
    for (on_device, fits) in [(["k", "v"], true), (["v", "k"], false), (["k", "w"], false)] {
        let (mut builder, mut spec) = group_to_be();
        spec.host.as_mut().unwrap().layout = page(["k", "v"]);
        spec.device.as_mut().unwrap().layout = page(on_device);
        assert_eq!(builder.group(spec).is_ok(), fits, "{on_device:?}");
    }
}

#[test]
fn routes_stay_in_one_group_and_go_the_way_they_say() {
    let (mut builder, spec) = group_to_be();
    let mut other = spec.clone();
    other.name = "other".into();
    let (main, other) = (builder.group(spec).unwrap(), builder.group(other).unwrap());
    let side = |builder: &GeometryBuilder, group| {
        [Memory::Host, Memory::Device].map(|memory| builder.main_side(group, memory).unwrap())
    };
    let ([host, device], [other_host, _]) = (side(&builder, main), side(&builder, other));
    let error = builder.route::<HostToDevice, _>(other_host, device).unwrap_err();
    assert_eq!(
        error.to_string(),
        "group `other`: no route host to device can go from host memory of `other` to device memory of `main`"
    );
    let error = builder.route::<DeviceToHost, _>(host, device).unwrap_err();
    assert_eq!(
        error.to_string(),
        "group `main`: no route device to host can go from host memory of `main` to device memory of `main`"
    );
    assert!(builder.route::<DeviceToDevice, _>(device, host).is_err());
    let (mut foreign, spec) = group_to_be();
    let foreign_group = foreign.group(spec.clone()).unwrap();
    let [foreign_host, foreign_device] = side(&foreign, foreign_group);
    let foreign_key = || Some(GeometryError::ForeignKey);
    assert_eq!(builder.route::<HostToDevice, _>(foreign_host, device).err(), foreign_key());
    assert_eq!(builder.route::<HostToDevice, _>(host, foreign_device).err(), foreign_key());
    assert_eq!(builder.digest(foreign_host).err(), foreign_key());
    assert_eq!(builder.side(foreign_group, spec.host.as_ref().unwrap()).err(), foreign_key());
    assert!(builder.main_side(foreign_group, Memory::Host).is_none());
    // What was refused left nothing in the tables: two routes of each group.
    builder.route::<DeviceToHost, _>(device, host).unwrap();
    assert_eq!(builder.build().unwrap().routes().len(), 5);
}

#[test]
fn rings_go_between_rings_of_as_many_slots() {
    // Which slot a token lies in depends on their number: twice as many is another ring.
    for (slots, fits) in [(8, true), (4, false), (16, false)] {
        let mut builder = GeometryBuilder::new();
        let [host, device] =
            [Memory::Host, Memory::Device].map(|memory| pool(&mut builder, memory, 2, 2 * 256));
        let ring = |slots| RingLayout::builder(slots, 16).build().unwrap();
        let spec = GroupSpec::<Ring> {
            name: "ring".into(),
            layers: 1,
            landing: Landing::Host,
            lift: StateLift::State,
            host: Some(SideSpec::packed(host, &[HOST], &[0], 256, ring(8))),
            device: Some(SideSpec::packed(device, &[DEVICE], &[0], 256, ring(slots))),
        };
        match builder.group(spec) {
            Ok(_) => assert!(fits),
            Err(error) => {
                let text =
                    format!("group `ring`: rows per block is 8 at the source and {slots} at the destination");
                assert_eq!((error.to_string(), fits), (text, false));
            }
        }
    }
}

#[test]
fn pools() {
    let host = |blocks, regions: &[Region]| PoolSpec::new("host", Memory::Host, blocks, regions);
    let refused = |spec: PoolSpec| GeometryBuilder::new().pool(spec).unwrap_err().to_string();
    let region = [Region::new(HOST, 64)];
    assert_eq!(refused(host(0, &region)), "host: the number of blocks is 0; expected at least 1");
    assert_eq!(refused(host(4, &region).extents_of(0)), "host: blocks_per_extent is 0; expected at least 1");
    assert_eq!(
        refused(host(4, &[Region::new(HOST, 0)])),
        "host: the size of a region is 0; expected at least 1"
    );
    assert_eq!(refused(host(4, &[Region::new(u64::MAX, 1)])), "host: a region's end is too large");
    assert_eq!(refused(host((1 << 31) + 1, &region)), "host: the number of blocks is too large");
    assert!(GeometryBuilder::new().pool(host(1 << 31, &region)).is_ok());
    // Case 22: memory registered twice.
    let twice = [Region::new(HOST + 32, 32), Region::new(HOST, 64)];
    assert_eq!(
        refused(host(4, &twice)),
        "host: the region of 64 bytes at 0x1000000000 and host: the region of 32 bytes at 0x1000000020 share bytes"
    );
    let mut builder = GeometryBuilder::new();
    builder.pool(host(4, &region)).unwrap();
    assert_eq!(builder.pool(host(4, &region)), Err(GeometryError::NameTwice { name: "host".into() }));
    // A pool without memory is no error until something is to lie in it.
    assert!(GeometryBuilder::new().pool(host(4, &[])).is_ok());
}

#[test]
fn the_order_of_a_convolution_state_is_never_converted() {
    let shape = GdnShape { conv_dim: 64, v_heads: 2, v_dim: 4, k_dim: 4, spec: 0, tp: 1 };
    let gdn = StateLayout::gdn(shape, None).unwrap();
    let parts = [StatePart::new("conv", 384), StatePart::new("temporal", 128)];
    let unsaid = StateLayout::new(&parts, None).unwrap();
    let build = |on_host: &StateLayout, on_device: &StateLayout| {
        let mut builder = GeometryBuilder::new();
        let mut side = |memory: Memory, base: u64, layout: &StateLayout| {
            let pool = pool(&mut builder, memory, 2, 2 * 512);
            Some(SideSpec::packed(pool, &[base], &[0], 512, layout.clone()))
        };
        let (host, device) = (side(Memory::Host, HOST, on_host), side(Memory::Device, DEVICE, on_device));
        let (name, landing, lift) = ("gdn".into(), Landing::Host, StateLift::State);
        builder.group(GroupSpec::<State> { name, layers: 1, landing, lift, host, device }).map(drop)
    };
    let [sd, ds] = [ConvOrder::Sd, ConvOrder::Ds].map(|order| gdn.clone().with_conv_order(order));
    assert_eq!(gdn, sd, "the usual order");
    for same in [&sd, &ds, &unsaid] {
        build(same, same).unwrap();
    }
    for (from, to) in [(&sd, &ds), (&ds, &sd), (&sd, &unsaid), (&unsaid, &ds)] {
        let (group, error) = ("gdn".into(), build(from, to).unwrap_err());
        let expected = GeometryError::ConvOrder { group, from: from.conv_order(), to: to.conv_order() };
        assert_eq!(error, expected, "{error}");
    }
}
