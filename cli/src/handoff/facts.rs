//! What both sides say of a manifest's groups that no geometry knows.

use pagelift::geometry::Memory;
use pagelift::quantity::Tokens;
use pagelift_transport::facts::{Element, Exchange, GroupFacts};
use pagelift_transport::offer::Offer;

use super::error::HandoffError;
use super::mapped::Mapped;
use crate::manifest::{Family, Group, LayoutSpec, Lift, Manifest, Side};
use crate::restore::{AnyKey, World};

/// One rank of several.
#[derive(Clone, Copy, Debug)]
pub struct RankOf {
    pub rank: u32,
    pub ranks: u32,
}

/// A side that is exchanged, and the tokens of the blocks that lists name.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'m> {
    pub group: &'m Group,
    pub side: &'m Side,
    pub block_tokens: u32,
}

/// This side's offer of the groups.
pub fn offer(
    world: &World<'_>,
    keys: &[AnyKey],
    exchanged: &[Exchanged<'_>],
    mapped: &Mapped,
    (rank, gpu): (RankOf, u64),
) -> Result<Offer, HandoffError> {
    let block_tokens = Tokens::new(world.manifest.span().block_tokens.into());
    let exchange = Exchange::new(block_tokens).rank(rank.rank, rank.ranks);
    let facts = exchanged.iter().zip(keys).map(|(own, key)| own.facts(world, *key, mapped, gpu));
    let facts: Vec<GroupFacts> = facts.collect();
    Ok(Offer::of(&world.geometry, &exchange, &facts, |region| mapped.address(region))?)
}

impl Exchanged<'_> {
    fn facts(self, world: &World<'_>, key: AnyKey, mapped: &Mapped, gpu: u64) -> GroupFacts {
        let Self { group, side, block_tokens } = self;
        let memory = Memory::from(side.pool.memory);
        let reached = mapped.memory_of(side.pool.index);
        let mut facts = GroupFacts::new(&group.name, memory).reached_in(reached).on_device(gpu);
        if matches!(group.shape.family, Family::Tokens { .. }) {
            facts = facts.in_blocks_of(Tokens::new(block_tokens.into()));
        }
        if is_whole(&group.layout) {
            facts = facts.whole_on_every_rank();
        }
        let view = world.geometry.side_view(key.id(), memory);
        for segment in view.map(|view| view.segments()).unwrap_or_default() {
            let element = element(&group.layout, segment.name());
            let values = segment.row_bytes() / element.bytes();
            facts = facts.segment(segment.name(), element, &[values]);
        }
        facts
    }
}

/// What every rank has all of.
const fn is_whole(layout: &LayoutSpec) -> bool {
    matches!(
        layout,
        LayoutSpec::MlaBf16
            | LayoutSpec::Fp8DsMla
            | LayoutSpec::IndexerFp8
            | LayoutSpec::IndexerMxfp4
            | LayoutSpec::DeepseekV4 { .. }
            | LayoutSpec::DeepseekV41
            | LayoutSpec::QsaCompressedBf16
            | LayoutSpec::QsaCompressedFp8 { .. }
            | LayoutSpec::Ring { .. }
            | LayoutSpec::Ple { .. }
    )
}

/// The values of a segment, where the layout's name says what they are.
fn element(layout: &LayoutSpec, segment: &str) -> Element {
    let scale = segment.ends_with("scale");
    match layout {
        LayoutSpec::Fp8DsMla => Element::Mixed("fp8_ds_mla".into()),
        LayoutSpec::MlaBf16 | LayoutSpec::QsaMainBf16 { .. } | LayoutSpec::QsaCompressedBf16 => Element::Bf16,
        LayoutSpec::IndexerFp8 | LayoutSpec::Dense { .. } if scale => Element::F32,
        LayoutSpec::Dense { element_bytes: 2, .. } => Element::Bf16,
        LayoutSpec::IndexerFp8
        | LayoutSpec::QsaMainFp8 { .. }
        | LayoutSpec::QsaCompressedFp8 { .. }
        | LayoutSpec::Dense { .. } => Element::E4m3,
        _ => Element::U8,
    }
}

/// The side of a group on which an import lands: where its manifest says, or, where all of it is to land on the device, the side
/// to which it would be lifted.
pub fn side_of(group: &Group, on_device: bool) -> Option<&Side> {
    let direct = on_device && group.lift != Lift::None;
    if direct { group.device.as_ref() } else { group.landing_side() }
}

/// The same of all groups.
pub fn landing(manifest: &Manifest, on_device: bool) -> Vec<Exchanged<'_>> {
    let exchanged = |group| {
        let side = side_of(group, on_device)?;
        Some(Exchanged { group, side, block_tokens: side.page_tokens })
    };
    manifest.groups().iter().filter_map(exchanged).collect()
}
