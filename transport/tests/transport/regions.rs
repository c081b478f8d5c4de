//! Region maps: what of a peer's is refused before an address is worked out.

use pagelift_planner::geometry::{
    GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, SideSpec,
};
use pagelift_planner::layout::PagedLayout;
use pagelift_planner::quantity::Tokens;
use pagelift_transport::descriptors::ListSide;
use pagelift_transport::error::RegionError;
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
    let outside = |what| RegionError::Outside { group: "gdn".into(), what };
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
        assert_eq!(error, outside("a page"));
    }
}

#[test]
fn a_row_outside_of_its_page_is_refused() {
    let changes: [fn(&mut Place); 4] = [
        |own| own.offset += 1,
        |own| own.offset = u64::MAX,
        |own| own.region = 1,
        |own| own.row_stride = u64::MAX,
    ];
    for change in changes {
        let error = refused(|offer| {
            let group = offer.regions.groups.get_mut("ring").unwrap();
            change(group.segments.get_mut("slot").unwrap());
        });
        assert_eq!(error, RegionError::Outside { group: "ring".into(), what: "a segment" });
    }
}

#[test]
fn memory_is_listed_once_and_in_order() {
    let changes: [fn(&mut Vec<MemoryRange>); 5] = [
        |ranges| ranges.swap(0, 1),
        |ranges| ranges.push(ranges[0]),
        |ranges| ranges[0].bytes = 0,
        |ranges| ranges[7].bytes = u64::MAX,
        |ranges| ranges[0].bytes += 1 << 20,
    ];
    for change in changes {
        assert_eq!(refused(|offer| change(&mut offer.regions.memory)), RegionError::Ranges);
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
    assert!(matches!(map(|own| own.segments.clear()), RegionError::Segments { .. }));
    assert!(matches!(map(|own| own.region_bytes.clear()), RegionError::Outside { .. }));
    let error = refused(|offer| drop(offer.regions.groups.remove("ple")));
    assert_eq!(error, RegionError::Unpaired { group: "ple".into() });
}

#[test]
fn only_pages_without_padding_make_a_block_together() {
    let padded = refused(|offer| {
        let group = offer.regions.groups.get_mut("draft").unwrap();
        (group.rows, group.pages_per_block) = (8, 2);
    });
    // Its pages are twice as large as 8 rows: half of each is nobody's.
    assert_eq!(padded, RegionError::NotDense { group: "draft".into(), pages: 2 });
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
