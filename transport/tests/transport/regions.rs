//! Region maps: what of a peer's is refused before an address is worked out.

use pagelift_planner::geometry::{
    GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, SideSpec,
};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::descriptors::ListSide;
use pagelift_transport::error::{RangeFault, RegionError};
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::offer::Offer;
use pagelift_transport::pairing::Peer;
use pagelift_transport::region::{GroupRegions, MemoryRange, Place};

use crate::payload::every_kind;
use crate::world::{Arrangement, BASE, BLOCK, Engine, GroupMeaning, Meaning};

/// What becomes of a map in which something was changed.
fn refused(change: impl FnOnce(&mut Offer)) -> RegionError {
    let mut theirs = every_kind(Memory::Device);
    change(&mut theirs);
    let error = theirs.regions.check(&theirs.schema).unwrap_err();
    assert!(Peer::pair(&every_kind(Memory::Host), &theirs).is_err());
    error
}

#[test]
fn a_page_outside_of_the_listed_memory_is_refused() {
    let group = |offer: &mut Offer| offer.regions.groups.get_mut("gdn").unwrap().clone();
    let set = |offer: &mut Offer, own| offer.regions.groups.insert("gdn".into(), own);
    let changes: [fn(&mut GroupRegions); 8] = [
        |own| own.bases[1] += 1 << 40,
        |own| own.bases[0] = u64::MAX,
        |own| own.bases[0] -= 1 << 19,
        |own| own.page_stride = u64::MAX / 2,
        |own| own.region_bytes[0] += 1 << 30,
        |own| (own.pages, own.pages_per_extent) = (1 << 20, 1 << 20),
        |own| own.memory = Memory::Host,
        |own| own.device = 1,
    ];
    for change in changes {
        let error = refused(|offer| {
            let mut own = group(offer);
            change(&mut own);
            set(offer, own);
        });
        let RegionError::PagesOutside { group, .. } = &error else { panic!("{error}") };
        assert_eq!(&**group, "gdn");
    }
}

#[test]
fn a_row_outside_of_its_page_is_refused() {
    let map = |change: fn(&mut Place)| {
        refused(|offer| {
            let group = offer.regions.groups.get_mut("ring").unwrap();
            change(group.segments.get_mut("slot").unwrap());
        })
    };
    let changes: [fn(&mut Place); 3] =
        [|own| own.offset += 1, |own| own.offset = u64::MAX, |own| own.row_stride = u64::MAX];
    for change in changes {
        let error = map(change);
        assert!(matches!(error, RegionError::RowsOutside { region: 0, .. }), "{error}");
    }
    assert!(matches!(map(|own| own.region = 1), RegionError::NoSuchRegion { region: 1, regions: 1, .. }));
    assert!(matches!(map(|own| own.row_stride -= 1), RegionError::RowsShare { .. }));
}

#[test]
fn memory_is_listed_once_and_in_order() {
    type Change = fn(&mut Vec<MemoryRange>);
    type Fault = fn(&[MemoryRange]) -> RangeFault;
    let there = every_kind(Memory::Device).regions.memory;
    let changes: [(Change, usize, Fault); 7] = [
        (|ranges| ranges.swap(0, 1), 1, |ranges| RangeFault::Unsorted { before: ranges[0] }),
        (|ranges| ranges.push(ranges[0]), 8, |ranges| RangeFault::Unsorted { before: ranges[7] }),
        (|ranges| ranges[1].memory = Memory::Host, 1, |ranges| RangeFault::Unsorted { before: ranges[0] }),
        (|ranges| ranges.insert(3, ranges[3]), 4, |ranges| RangeFault::Shared { before: ranges[3] }),
        (|ranges| ranges[0].bytes += 1 << 20, 1, |ranges| RangeFault::Shared { before: ranges[0] }),
        (|ranges| ranges[0].bytes = 0, 0, |_| RangeFault::Empty),
        (|ranges| ranges[7].bytes = u64::MAX, 7, |_| RangeFault::PastEnd),
    ];
    for (change, index, fault) in changes {
        let mut ranges = there.clone();
        change(&mut ranges);
        let expected = RegionError::Range { index, range: ranges[index], fault: fault(&ranges) };
        assert_eq!(refused(|offer| change(&mut offer.regions.memory)), expected);
    }
}

#[test]
fn numbers_that_do_not_fit_the_group_are_refused() {
    let map = |change: fn(&mut GroupRegions)| {
        refused(|offer| change(offer.regions.groups.get_mut("main").unwrap()))
    };
    assert!(matches!(map(|own| own.pages = 0), RegionError::Zero { what: "pages", .. }));
    assert!(matches!(map(|own| own.pages_per_block = 0), RegionError::Zero { .. }));
    assert!(matches!(map(|own| own.rows = 8), RegionError::Rows { rows: 8, pages: 1, expected: 16, .. }));
    assert!(matches!(map(|own| own.bases.truncate(1)), RegionError::Bases { expected: 2, found: 1, .. }));
    let many = map(|own| own.pages = 1 << 31);
    assert!(matches!(many, RegionError::TooManyPages { found: 0x8000_0000, most: 0x7fff_ffff, .. }));
    assert!(matches!(map(|own| own.segments.clear()), RegionError::Segments { lacks: "region map", .. }));
    assert!(matches!(map(|own| own.region_bytes.clear()), RegionError::NoSuchRegion { regions: 0, .. }));
    let error = refused(|offer| drop(offer.regions.groups.remove("ple")));
    assert_eq!(error, RegionError::Unpaired { group: "ple".into(), lacks: "region map" });
    let error = refused(|offer| {
        let group = offer.regions.groups["ple"].clone();
        offer.regions.groups.insert("more".into(), group);
    });
    assert_eq!(error, RegionError::Unpaired { group: "more".into(), lacks: "schema" });
    let error = map(|own| {
        let place = own.segments["latent"];
        own.segments.insert("more".into(), place);
    });
    let (group, segment) = ("main".into(), "more".into());
    assert_eq!(error, RegionError::Segments { group, segment, lacks: "schema" });
}

#[test]
fn what_is_refused_says_what_was_expected_what_came_and_where() {
    let memory = |change: fn(&mut Vec<MemoryRange>)| refused(|offer| change(&mut offer.regions.memory));
    let draft = |change: fn(&mut GroupRegions)| {
        refused(|offer| change(offer.regions.groups.get_mut("draft").unwrap()))
    };
    let place = |change: fn(&mut Place)| {
        refused(|offer| {
            let group = offer.regions.groups.get_mut("draft").unwrap();
            group.segments.values_mut().for_each(change);
        })
    };
    let told = [
        memory(|own| own[2].bytes = 0),
        memory(|own| own[7].bytes = u64::MAX),
        memory(|own| own.swap(0, 1)),
        memory(|own| own[0].bytes += 1 << 20),
        draft(|own| own.pages = 1 << 31),
        draft(|own| (own.rows, own.pages_per_block) = (8, 2)),
        draft(|own| own.segments.clear()),
        place(|own| own.region = 3),
        place(|own| own.row_stride -= 1),
        place(|own| own.offset += 1),
        draft(|own| own.bases[1] += 1 << 20),
        draft(|own| own.memory = Memory::Host),
        refused(|offer| drop(offer.regions.groups.remove("draft"))),
    ];
    let words = [
        "range 2 of the region map's memory, 0 bytes at 0x300000 of device memory 0, is empty",
        "range 7 of the region map's memory, 18446744073709551615 bytes at 0x800000 of device memory 0, ends past 64 bits",
        "range 1 of the region map's memory, 83968 bytes at 0x100000 of device memory 0, \
         comes after 16896 bytes at 0x200000 of device memory 0, which is later",
        "range 1 of the region map's memory, 16896 bytes at 0x200000 of device memory 0, \
         shares bytes with the one before it, 1132544 bytes at 0x100000 of device memory 0",
        "group `draft`: its pool has 2147483648 pages; at most 2147483647 can be numbered",
        "group `draft`: a block is 2 pages of 18432 bytes, and the rows of a page have 9216: \
         only pages without padding may be several",
        "group `draft`: the region map lacks segment `latent`; schema and region map must have the same segments",
        "group `draft`: segment `latent` lies in region 3, counted from 0, of a page that has 1",
        "group `draft`: rows of segment `latent` are 1151 bytes apart, and have 1152: they share bytes",
        "group `draft`: 16 rows of segment `latent`, 1152 bytes each and 1152 apart from byte 1 on, \
         end past the 18432 bytes of region 0 of a page",
        "group `draft`: the pages of layer 1, region 0, extent 0 are 73728 bytes at 0x912000 of device memory 0, \
         outside of the region map's memory; the nearest range before them is 147456 bytes at 0x800000 of device memory 0",
        "group `draft`: the pages of layer 0, region 0, extent 0 are 73728 bytes at 0x800000 of host memory, \
         outside of the region map's memory",
        "group `draft`: the region map lacks it; schema and region map must have the same groups",
    ];
    for (told, words) in told.iter().zip(words) {
        let rule = "; ranges must be sorted by memory, GPU and address, and must not share a byte";
        let rule = if matches!(told, RegionError::Range { .. }) { rule } else { "" };
        assert_eq!(told.to_string(), format!("{words}{rule}"));
    }
}

#[test]
fn only_pages_without_padding_make_a_block_together() {
    let padded = refused(|offer| {
        let group = offer.regions.groups.get_mut("draft").unwrap();
        (group.rows, group.pages_per_block) = (8, 2);
    });
    // Its pages are twice as large as 8 rows: half of each is nobody's.
    let RegionError::NotDense { group, pages: 2, page_bytes, row_bytes } = padded else { panic!("{padded}") };
    assert_eq!((&*group, page_bytes), ("draft", 2 * row_bytes));
    let mut dense = every_kind(Memory::Device);
    let group = dense.regions.groups.get_mut("draft").unwrap();
    (group.rows, group.pages_per_block, group.pages, group.pages_per_extent) = (8, 2, 8, 8);
    (group.page_stride, group.region_bytes[0]) = (group.page_stride / 2, group.region_bytes[0] / 2);
    dense.regions.check(&dense.schema).unwrap();
}

#[test]
fn case_22_memory_that_groups_share_is_listed_once() {
    // Two groups alias one slab from its first byte, and a third has a pool of its own in the second half of it.
    let layout = PagedLayout::mla_bf16(16).unwrap();
    let page = layout.page_bytes().get();
    let mut builder = GeometryBuilder::new();
    let slab = Region::new(0x10000, 8 * page);
    let pool = builder.pool(PoolSpec::new("slab", Memory::Device, 4, &[slab])).unwrap();
    let half = Region::new(0x10000 + 4 * page, 4 * page);
    let other = builder.pool(PoolSpec::new("other", Memory::Device, 4, &[half])).unwrap();
    for (name, pool, base) in [("a", pool, 0x10000), ("b", pool, 0x10000), ("c", other, half.address())] {
        let side = SideSpec::packed(pool, &[base], &[0], page, layout.clone());
        let (landing, lift) = (Landing::Device, PagedLift::None);
        let spec = GroupSpec::<Paged> {
            name: name.into(),
            layers: 1,
            landing,
            lift,
            host: None,
            device: Some(side),
        };
        builder.group(spec).unwrap();
    }
    let fact =
        |name| GroupFacts::new(name, Memory::Device).segment("latent", Element::Bf16, &[576]).on_device(3);
    let facts = ["a", "b", "c"].map(fact);
    let exchange = Exchange::new(Tokens::new(16));
    // Where this process reaches the slab by other addresses than kernels do, the map has its own.
    let address = |region: Region| region.address() + 0x5000;
    let offer = Offer::of(&builder.build().unwrap(), &exchange, &facts, address).unwrap();
    let range = MemoryRange { memory: Memory::Device, device: 3, address: 0x15000, bytes: 8 * page };
    assert_eq!(offer.regions.memory, [range]);
    assert_eq!(offer.regions.groups["c"].bases, [half.address() + 0x5000]);
}

#[test]
fn a_base_that_the_transport_cannot_reach_is_refused_by_its_address() {
    let layout = PagedLayout::mla_bf16(16).unwrap();
    let (page, mut builder) = (layout.page_bytes().get(), GeometryBuilder::new());
    let region = Region::new(0x10000, 8 * page);
    let pool = builder.pool(PoolSpec::new("pool", Memory::Host, 4, &[region])).unwrap();
    let side = SideSpec::packed(pool, &[0x10000], &[0, 4 * page], page, layout);
    let (name, landing, lift) = ("main".into(), Landing::Host, PagedLift::None);
    let spec = GroupSpec::<Paged> { name, layers: 2, landing, lift, host: Some(side), device: None };
    builder.group(spec).unwrap();
    let facts = [GroupFacts::new("main", Memory::Host).segment("latent", Element::Bf16, &[576])];
    let exchange = Exchange::new(Tokens::new(16));
    let error = Offer::of(&builder.build().unwrap(), &exchange, &facts, |_| u64::MAX - 0xff).unwrap_err();
    let words =
        "group `main`: its base at 0x22000 has no address for the transport: it would be past 64 bits";
    assert_eq!(error.to_string(), words);
}

#[test]
fn segments_that_a_peer_says_share_bytes_name_none_past_its_memory() {
    let meaning = Meaning::Paged { tokens_per_row: 1 };
    let groups = [GroupMeaning::new("g", meaning, 1, BLOCK, &[100, 1])];
    let ours = Engine::new(Memory::Host, &groups, &[Arrangement::plain(2)], 1);
    let mut theirs = Engine::new(Memory::Device, &groups, &[Arrangement::plain(1)], 2).offer(BASE);
    // In the first half of each of its pages the second segment follows the first, as in ours; in the last it would end
    // 8 bytes behind the page.
    let group = theirs.regions.groups.get_mut("g").unwrap();
    group.segments.get_mut("s1").unwrap().offset = 8 * 100;
    group.region_bytes[0] = 16 * 100;
    group.page_stride = 16 * 100;
    theirs.regions.memory[0].bytes = 6 * 16 * 100;
    let peer = Peer::pair(&ours.offer(BASE), &theirs).unwrap();
    let memory = theirs.regions.memory[0];
    for list in peer.lists() {
        for entry in list.descriptors(ListSide::Remote) {
            assert!(entry.address >= memory.address);
            assert!(entry.address + entry.bytes <= memory.address + memory.bytes, "{entry:?}");
        }
    }
}
