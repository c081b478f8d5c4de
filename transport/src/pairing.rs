//! Which bytes of a block of P become which bytes of a block of D.
//!
//! Groups pair by name. Their pages may have different sizes, and their segments other places and strides; so a block is
//! read in *steps* of as many rows as the smaller page has, and a step in *pieces* that lie together on both sides.

use std::collections::BTreeMap;
use std::sync::Arc;

use pagelift_planner::geometry::GroupKind;

use crate::descriptors::ListPair;
use crate::error::PairError;
use crate::offer::Offer;
use crate::region::{GroupRegions, Place};
use crate::schema::GroupSchema;

/// The most pieces of a step of one layer. Rows that lie apart on either side are a piece each: engines with such layouts
/// read by other means.
pub const MOST_PIECES: usize = 1 << 14;

/// An engine that may be read from: both offers, checked against each other, and what follows from them for every import.
#[derive(Clone, Debug)]
pub struct Peer {
    pub(crate) groups: BTreeMap<Arc<str>, PairedGroup>,
    pub(crate) lists: Vec<ListPair>,
}

/// A group of both sides.
#[derive(Clone, Debug)]
pub(crate) struct PairedGroup {
    pub kind: GroupKind,
    /// Tokens and rows of a block.
    pub block_tokens: u64,
    pub block_rows: u32,
    pub tokens_per_row: u64,
    /// Rows that are read together.
    pub step_rows: u32,
    pub remote: GroupRegions,
    pub local: GroupRegions,
    /// Which of the peer's lists are of this group.
    pub lists: std::ops::Range<usize>,
}

/// Bytes that lie together on both sides, of one step of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub bytes: u64,
    pub remote: Spot,
    pub local: Spot,
}

/// Where a piece begins in a page's first step, and how much later in each step after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub region: u32,
    pub offset: u64,
    pub step: u64,
}

impl Peer {
    /// Pairs this side's offer with the one that a peer sent.
    ///
    /// # Errors
    /// Where their schemas differ or their ranks, either offer does not fit together, the peer's groups lie in memories of
    /// different kinds, or layouts differ so much that their rows would have to be read one by one.
    pub fn pair(ours: &Offer, theirs: &Offer) -> Result<Self, PairError> {
        ours.schema.compare(&theirs.schema)?;
        if ours.rank != theirs.rank {
            return Err(PairError::Ranks { ours: ours.rank, theirs: theirs.rank });
        }
        ours.regions.check(&ours.schema)?;
        theirs.regions.check(&theirs.schema)?;
        theirs.regions.one_memory()?;
        let (mut groups, mut lists) = (BTreeMap::new(), Vec::new());
        for (name, schema) in &ours.schema.groups {
            let side = |offer: &Offer| offer.regions.groups.get(name).cloned();
            let (Some(local), Some(remote)) = (side(ours), side(theirs)) else { continue };
            let first = lists.len();
            let (rows, other) = (local.rows.min(remote.rows), local.rows.max(remote.rows));
            if other.checked_rem(rows) != Some(0) {
                return Err(PairError::Steps { group: name.clone(), ours: local.rows, theirs: remote.rows });
            }
            let pieces = pieces(name, schema, rows, &local, &remote)?;
            lists.extend(ListPair::by_size(name, schema.layers, rows, pieces, &local, &remote)?);
            let group = PairedGroup {
                kind: schema.kind,
                block_tokens: schema.block_tokens.into(),
                block_rows: schema.rows,
                tokens_per_row: schema.tokens_per_row.into(),
                step_rows: rows,
                remote,
                local,
                lists: first..lists.len(),
            };
            groups.insert(name.clone(), group);
        }
        Ok(Self { groups, lists })
    }

    /// The descriptor lists of this pair of engines, to be prepared once.
    #[must_use]
    pub fn lists(&self) -> &[ListPair] {
        &self.lists
    }
}

/// The pieces of a step of `rows` rows, in the order in which they lie there.
fn pieces(
    name: &Arc<str>,
    schema: &GroupSchema,
    rows: u32,
    local: &GroupRegions,
    remote: &GroupRegions,
) -> Result<Vec<Piece>, PairError> {
    let scattered = || PairError::Scattered { group: name.clone(), most: MOST_PIECES };
    let mut found: Vec<Piece> = Vec::new();
    for (segment, own) in &schema.segments {
        let (Some(here), Some(there)) = (local.segments.get(segment), remote.segments.get(segment)) else {
            continue;
        };
        let bytes = u64::from(own.row_bytes);
        // Where rows follow each other on both sides, a step of them is one run.
        let together = here.row_stride == bytes && there.row_stride == bytes;
        let (runs, bytes) = match bytes.checked_mul(rows.into()) {
            Some(all) if together => (1, all),
            _ => (rows, bytes),
        };
        for row in 0..runs {
            let spot = |place: &Place| {
                let before = u64::from(row).checked_mul(place.row_stride)?;
                let offset = place.offset.checked_add(before)?;
                Some(Spot { region: place.region, offset, step: place.row_stride.checked_mul(rows.into())? })
            };
            let (Some(remote), Some(local)) = (spot(there), spot(here)) else { return Err(scattered()) };
            found.push(Piece { bytes, remote, local });
        }
        // Rows of several segments may join, so there may be more before that.
        if found.len() > MOST_PIECES.saturating_mul(64) {
            return Err(scattered());
        }
    }
    found.sort_unstable_by_key(|piece| (piece.remote.region, piece.remote.offset));
    // A page of one step has no second one in which what joins here would lie apart.
    let one_step = local.rows == rows && remote.rows == rows;
    let mut joined: Vec<Piece> = Vec::with_capacity(found.len());
    for piece in found {
        match joined.last_mut() {
            Some(last) if last.joins(&piece, one_step) => last.bytes = last.bytes.saturating_add(piece.bytes),
            _ => joined.push(piece),
        }
    }
    if joined.len() > MOST_PIECES { Err(scattered()) } else { Ok(joined) }
}

impl Piece {
    /// Whether the other begins where this one ends, on both sides and in every step.
    fn joins(&self, next: &Self, one_step: bool) -> bool {
        let follows = |own: &Spot, other: &Spot| {
            own.region == other.region
                && own.offset.checked_add(self.bytes) == Some(other.offset)
                && (one_step || own.step == other.step)
        };
        follows(&self.remote, &next.remote) && follows(&self.local, &next.local)
    }
}
