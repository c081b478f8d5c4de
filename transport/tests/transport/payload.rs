//! Schemas: what is refused, and in which words.

use std::collections::BTreeSet;
use std::sync::Arc;

use pagelift_planner::geometry::{
    GeometryBuilder, GroupSpec, Landing, Memory, Paged, PagedLift, PoolSpec, Region, Ring, SideSpec, State,
    StateLift,
};
use pagelift_planner::layout::{GdnShape, PagedLayout, PleShape, RingLayout, SsmShape, StateLayout};
use pagelift_planner::quantity::Tokens;
use pagelift_transport::error::{OfferError, PairError, RegionError, SchemaError};
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::offer::Offer;
use pagelift_transport::pairing::Peer;
use proptest::prelude::*;
use serde_json::Value;

/// An offer of every kind of group, on one rank of two: main, indexer, compressed keys, ring, GDN, SSM, PLE and drafts.
pub fn every_kind(memory: Memory) -> Offer {
    let mut builder = GeometryBuilder::new();
    let landing = if memory == Memory::Host { Landing::Host } else { Landing::Device };
    let mut facts = Vec::new();
    macro_rules! group {
        ($kind:ident, $lift:expr, $layout:expr, $facts:expr) => {{
            let (layout, facts_of): (_, GroupFacts) = ($layout.unwrap(), $facts);
            let name = format!("{}", facts.len());
            let page = layout.page_bytes().get();
            let before = facts.len() as u64 * 0x10_0000;
            let region = Region::new(0x10_0000 + before, 4 * 2 * page);
            let pool = builder.pool(PoolSpec::new(&name, memory, 4, &[region])).unwrap();
            let side = SideSpec::packed(pool, &[region.address()], &[0, 4 * page], page, layout);
            let (host, device) = if memory == Memory::Host { (Some(side), None) } else { (None, Some(side)) };
            let spec = GroupSpec::<$kind> {
                name: NAMES[facts.len()].into(),
                layers: 2,
                landing,
                lift: $lift,
                host,
                device,
            };
            builder.group(spec).unwrap();
            facts.push(facts_of);
        }};
    }
    const NAMES: [&str; 8] = ["main", "indexer", "compressed", "ring", "gdn", "ssm", "ple", "draft"];
    let said = |name: &str| GroupFacts::new(name, memory);
    let gdn = GdnShape { conv_dim: 8, v_heads: 2, v_dim: 2, k_dim: 2, spec: 2, tp: 2 };
    let ssm = SsmShape { kernel: 4, inner: 8, groups: 1, state: 2, heads: 2, head_dim: 2, spec: 0, tp: 2 };
    let ple = PleShape { kernel: 4, ngram: 2, spec: 0, hidden: 4, hc: 1 };
    group!(
        Paged,
        PagedLift::None,
        PagedLayout::fp8_ds_mla(16),
        said("main").segment("latent", Element::Mixed("fp8_ds_mla".into()), &[656]).whole_on_every_rank()
    );
    group!(
        Paged,
        PagedLift::None,
        PagedLayout::indexer_fp8(16),
        said("indexer")
            .segment("key", Element::E4m3, &[128])
            .segment("scale", Element::F32, &[1])
            .whole_on_every_rank()
    );
    group!(
        Paged,
        PagedLift::None,
        PagedLayout::qsa_compressed_bf16(16),
        said("compressed").segment("key", Element::Bf16, &[128])
    );
    group!(
        Ring,
        StateLift::None,
        RingLayout::builder(8, 256).build(),
        said("ring").segment("slot", Element::Bf16, &[128])
    );
    group!(
        State,
        StateLift::None,
        StateLayout::gdn(gdn, None),
        said("gdn")
            .segment("conv", Element::Bf16, &[5, 4])
            .segment("temporal", Element::F32, &[1, 2, 2])
            .live_blocks(4)
    );
    group!(
        State,
        StateLift::None,
        StateLayout::ssm(ssm, None),
        said("ssm").segment("conv", Element::Bf16, &[3, 6]).segment("ssm", Element::F32, &[1, 2, 2])
    );
    group!(
        State,
        StateLift::None,
        StateLayout::ple(ple, None),
        said("ple").segment("conv", Element::Bf16, &[6, 4]).whole_on_every_rank()
    );
    group!(
        Paged,
        PagedLift::None,
        PagedLayout::mla_bf16(16),
        said("draft").segment("latent", Element::Bf16, &[576]).draft()
    );
    let exchange = Exchange::new(Tokens::new(16)).rank(1, 2);
    Offer::of(&builder.build().unwrap(), &exchange, &facts, Region::address).unwrap()
}

/// Every field of a document that is no object: the way to it, in the words of the comparison.
pub fn leaves(at: &str, value: &Value, found: &mut Vec<(String, Vec<String>)>, way: &[String]) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                let way: Vec<String> = way.iter().chain([name]).cloned().collect();
                leaves(&at, field, found, &way);
            }
        }
        _ => found.push((at.to_owned(), way.to_vec())),
    }
}

pub fn at<'a>(document: &'a mut Value, way: &[String]) -> &'a mut Value {
    way.iter().fold(document, |value, name| value.get_mut(name).unwrap())
}

/// Another value of the same sort.
pub fn other(field: &str, value: &Value) -> Value {
    let name = field.rsplit('.').next().unwrap();
    match value {
        Value::Number(number) => (number.as_u64().unwrap() + 1).into(),
        Value::Bool(own) => (!own).into(),
        Value::Null => "ds".into(),
        Value::Array(own) => own.iter().cloned().chain([1.into()]).collect::<Vec<Value>>().into(),
        Value::String(own) => match (name, own.as_str()) {
            ("kind", "state") => "ring".into(),
            ("kind", _) => "state".into(),
            ("sharing", "whole") => "sharded".into(),
            ("sharing", _) => "whole".into(),
            ("conv_order", _) => "ds".into(),
            ("element", "bf16") => "f16".into(),
            ("element", _) => "e5m2".into(),
            ("mixed", _) => "another".into(),
            _ => panic!("no other value of {field}"),
        },
        Value::Object(_) => unreachable!(),
    }
}

#[test]
fn case_24_each_field_that_differs_is_refused_by_name_and_with_both_values() {
    let ours = every_kind(Memory::Host);
    let schema = serde_json::to_value(&ours.schema).unwrap();
    let mut fields = Vec::new();
    leaves("", &schema, &mut fields, &[]);
    // Eight groups with their segments: none of these was left out of the document.
    assert!(fields.len() > 100, "only {} fields", fields.len());
    for (field, way) in fields {
        let mut changed = schema.clone();
        let value = at(&mut changed, &way);
        let (before, after) = (value.clone(), other(&field, value));
        *value = after.clone();
        let theirs = Offer { schema: serde_json::from_value(changed).unwrap(), ..every_kind(Memory::Device) };
        let error = Peer::pair(&ours, &theirs).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(&format!("`{field}`")), "{field}: {told}");
        assert!(told.contains(&format!("is {before} here and {after} there")), "{field}: {told}");
    }
}

#[test]
fn case_24_groups_and_segments_of_one_side_alone_are_refused_by_name() {
    let ours = every_kind(Memory::Host);
    let names: Vec<_> = ours.schema.groups.keys().cloned().collect();
    for name in names {
        let mut theirs = every_kind(Memory::Device);
        theirs.schema.groups.remove(&name);
        let told = Peer::pair(&ours, &theirs).unwrap_err().to_string();
        assert!(told.contains(&format!("`groups.{name}` is present here and absent there")), "{told}");
        let mut theirs = every_kind(Memory::Device);
        let group = theirs.schema.groups.get_mut(&name).unwrap();
        let (segment, own) = group.segments.pop_first().unwrap();
        group.segments.insert("else".into(), own);
        let told = Peer::pair(&ours, &theirs).unwrap_err().to_string();
        assert!(told.contains(&format!("`groups.{name}.segments.{segment}` is present here")), "{told}");
        assert!(told.contains(&format!("`groups.{name}.segments.else` is absent here")), "{told}");
    }
}

#[test]
fn case_06_what_an_engine_says_must_fit_its_geometry() {
    let layout = PagedLayout::indexer_fp8(16).unwrap();
    let page = layout.page_bytes().get();
    let mut builder = GeometryBuilder::new();
    let pool = builder.pool(PoolSpec::new("p", Memory::Host, 4, &[Region::new(0x1000, 4 * page)])).unwrap();
    let host = Some(SideSpec::packed(pool, &[0x1000], &[0], page, layout));
    let (name, landing, lift) = ("keys".into(), Landing::Host, PagedLift::None);
    builder.group(GroupSpec::<Paged> { name, layers: 1, landing, lift, host, device: None }).unwrap();
    let geometry = builder.build().unwrap();
    let keys = || GroupFacts::new("keys", Memory::Host).segment("key", Element::E4m3, &[128]);
    let whole = || keys().segment("scale", Element::F32, &[1]);
    let said = |tokens, facts: &[GroupFacts]| {
        Offer::of(&geometry, &Exchange::new(Tokens::new(tokens)), facts, Region::address)
    };
    for (tokens, pages) in [(16, 1), (32, 2), (64, 4)] {
        let offer = said(tokens, &[whole()]).unwrap();
        assert_eq!(offer.regions.groups["keys"].pages_per_block, pages);
        assert_eq!(u64::from(offer.schema.groups["keys"].rows), tokens);
    }
    let group = || Arc::<str>::from("keys");
    let refused = |tokens, facts: &[GroupFacts]| match said(tokens, facts).unwrap_err() {
        OfferError::Schema(error) => error,
        error => panic!("{error}"),
    };
    for tokens in [0, 8, 24, 48] {
        let uneven = SchemaError::UnevenBlock { group: group(), block_tokens: tokens, page_tokens: 16 };
        assert_eq!(refused(tokens, &[whole()]), uneven);
    }
    let nothing = SchemaError::NothingSaid { group: group(), segment: "scale".into() };
    assert_eq!(refused(16, &[keys()]), nothing);
    let other = SchemaError::NoSuchSegment { group: group(), segment: "else".into() };
    assert_eq!(refused(16, &[whole().segment("else", Element::U8, &[1])]), other);
    // 4 bytes are one f32, and neither one bf16 nor nothing.
    for (element, shape) in [(Element::Bf16, &[1][..]), (Element::F32, &[2]), (Element::F32, &[0])] {
        let error = refused(16, &[keys().segment("scale", element, shape)]);
        assert!(matches!(error, SchemaError::Shape { row_bytes: 4, .. }), "{error}");
    }
    assert_eq!(refused(16, &[whole(), whole()]), SchemaError::GroupTwice { group: group() });
    let device = GroupFacts::new("keys", Memory::Device).other_segments(Element::U8, &[1]);
    assert_eq!(refused(16, &[device]), SchemaError::NoSuchSide { group: group(), memory: "device" });
    let absent = refused(16, &[GroupFacts::new("main", Memory::Host)]);
    assert_eq!(absent, SchemaError::NoSuchGroup { group: "main".into() });
    let zero = refused(16, &[whole().live_blocks(0)]);
    assert_eq!(zero, SchemaError::Zero { group: group(), field: "live_blocks" });
    let rank = Exchange::new(Tokens::new(16)).rank(2, 2);
    let error = Offer::of(&geometry, &rank, &[whole()], Region::address).unwrap_err();
    assert_eq!(error, OfferError::Schema(SchemaError::Rank { rank: 2, tp: 2 }));
}

#[test]
fn engines_that_agree_pair_whatever_their_memory_is() {
    let peer = Peer::pair(&every_kind(Memory::Host), &every_kind(Memory::Device)).unwrap();
    let groups: BTreeSet<&str> = peer.lists().iter().map(|list| &**list.group()).collect();
    assert_eq!(groups.len(), 8);
}

#[test]
fn case_24_ranks_must_be_the_same() {
    let (ours, mut theirs) = (every_kind(Memory::Host), every_kind(Memory::Device));
    theirs.rank = 0;
    let error = Peer::pair(&ours, &theirs).unwrap_err();
    assert_eq!(error, PairError::Ranks { ours: 1, theirs: 0 });
}

#[test]
fn an_offer_of_another_version_is_refused_by_its_version_alone() {
    let text = String::from_utf8(every_kind(Memory::Host).to_json().unwrap()).unwrap();
    let text = text.replace("\"version\":1", "\"version\":2,\"new\":{}");
    let error = Offer::parse(text.as_bytes()).unwrap_err();
    assert_eq!(error, OfferError::Schema(SchemaError::Version { ours: 1, theirs: 2 }));
}

#[test]
fn both_sides_parallel_in_a_way_that_is_not_built_are_refused() {
    for field in ["pp", "pcp", "dcp"] {
        let text = String::from_utf8(every_kind(Memory::Host).to_json().unwrap()).unwrap();
        let text = text.replace(&format!("\"{field}\":1"), &format!("\"{field}\":2"));
        let error = Offer::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error, OfferError::Schema(SchemaError::Parallel { field, found: 2 }));
    }
}

#[test]
fn an_offer_comes_back_as_it_was_sent() {
    let offer = every_kind(Memory::Device);
    assert_eq!(Offer::parse(&offer.to_json().unwrap()).unwrap(), offer);
}

#[test]
fn a_producer_of_mixed_memory_is_refused_by_name() {
    let (ours, mut theirs) = (every_kind(Memory::Host), every_kind(Memory::Device));
    let host = every_kind(Memory::Host);
    theirs.regions.groups.insert("ring".into(), host.regions.groups["ring"].clone());
    theirs.regions.memory.splice(0..0, host.regions.memory);
    let error = Peer::pair(&ours, &theirs).unwrap_err();
    let told = error.to_string();
    assert!(matches!(error, PairError::Region(RegionError::MixedMemory { .. })), "{told}");
    assert!(told.contains("`ring` in host memory") && told.contains("device memory"), "{told}");
    // One's own memory may be mixed: some groups land on the host and others on the device.
    Peer::pair(&theirs, &ours).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn anything_else_is_refused_in_words(
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        length in any::<prop::sample::Index>(),
    ) {
        let mut text = every_kind(Memory::Device).to_json().unwrap();
        let place = cut.index(text.len());
        text[place] = byte;
        if byte.is_multiple_of(2) {
            text.truncate(length.index(text.len()));
        }
        // What is still an offer fits together, and pairs or is refused; anything else has a reason.
        match Offer::parse(&text) {
            Ok(offer) => drop(Peer::pair(&every_kind(Memory::Host), &offer)),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
