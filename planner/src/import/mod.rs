//! Which blocks of a prompt arrive, and which page is written next.

mod policy;
mod span;

pub use policy::{Arrival, Decision, Policy};
pub use span::{BlockSpan, PromptSpan, Recurrence};

use crate::geometry::{GroupKey, Kind};
use crate::id::{GroupId, HostBlockId, PageId};

/// One prompt's imported blocks, group by group.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// Its tokens.
    pub span: PromptSpan,
    /// Its blocks.
    pub groups: &'a [ImportGroup<'a>],
}

/// The endpoints of one group of an import.
///
/// What the lists must hold follows from the group and the tokens:
///
/// | group | host blocks | pages |
/// |---|---|---|
/// | paged, lifts the tail | all up to that of `resume_at` | the writable one |
/// | paged, lifts all | the same | all up to the writable one |
/// | ring or state, lifts its state | one | one |
/// | lifts nothing, or [landed](ImportGroup::landed) | any | any |
///
/// Where host blocks are larger than pages, a tail is the last block's: its pages up to the writable one.
///
/// A page is named once, for it is written. A host block may be named at several positions, also of one import: it is only
/// read, and engines name their null block wherever a window has passed.
#[derive(Clone, Copy, Debug)]
pub struct ImportGroup<'a> {
    pub(crate) group: GroupId,
    pub(crate) geometry: u64,
    pub(crate) blocks: &'a [HostBlockId],
    pub(crate) pages: &'a [PageId],
    pub(crate) landed: bool,
}

impl<'a> ImportGroup<'a> {
    /// A group of any kind with its host blocks and its pages, as the table above says: a paged group's blocks from the
    /// prompt's first on, in order; a ring's or state's one block and one page.
    #[must_use]
    pub fn new<K: Kind>(group: GroupKey<K>, blocks: &'a [HostBlockId], pages: &'a [PageId]) -> Self {
        Self { group: group.id, geometry: group.geometry, blocks, pages, landed: false }
    }

    /// A group whose blocks landed on the device this time, though it usually lands on the host: nothing is lifted.
    #[must_use]
    pub fn landed<K: Kind>(group: GroupKey<K>, pages: &'a [PageId]) -> Self {
        Self { group: group.id, geometry: group.geometry, blocks: &[], pages, landed: true }
    }
}
