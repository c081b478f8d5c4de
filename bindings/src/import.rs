//! An import with lists of its own, for languages whose lists do not stay where they are.

use pagelift::id::{HostBlockId, PageId};
use pagelift::import::{Import, ImportGroup, PromptSpan};

use crate::keys::{AnyGroup, of_kind};
use crate::plan::ids;

/// One prompt's imported blocks, group by group.
#[derive(Clone, Debug)]
pub struct OwnedImport {
    /// Its tokens.
    pub span: PromptSpan,
    /// Its groups.
    pub groups: Vec<OwnedGroup>,
}

impl OwnedImport {
    /// Does something with the import as the library has it.
    pub fn with<T>(&self, work: impl FnOnce(&Import<'_>) -> T) -> T {
        let groups: Vec<_> = self.groups.iter().map(OwnedGroup::borrowed).collect();
        work(&Import { span: self.span, groups: &groups })
    }
}

/// The blocks and pages of one group of an import.
#[derive(Clone, Debug)]
pub struct OwnedGroup {
    group: AnyGroup,
    /// `None` where they landed on the device.
    blocks: Option<Vec<HostBlockId>>,
    pages: Vec<PageId>,
}

impl OwnedGroup {
    /// A group whose blocks are in host blocks `blocks`.
    #[must_use]
    pub fn new(group: AnyGroup, blocks: Vec<u32>, pages: Vec<u32>) -> Self {
        Self { group, blocks: Some(ids(blocks)), pages: ids(pages) }
    }

    /// A group whose blocks landed on the device this time.
    #[must_use]
    pub fn landed(group: AnyGroup, pages: Vec<u32>) -> Self {
        Self { group, blocks: None, pages: ids(pages) }
    }

    /// How many blocks and pages it has.
    #[must_use]
    pub fn lengths(&self) -> (usize, usize) {
        (self.blocks.as_ref().map_or(0, Vec::len), self.pages.len())
    }

    fn borrowed(&self) -> ImportGroup<'_> {
        of_kind!(self.group, group => match &self.blocks {
            Some(blocks) => ImportGroup::new(group, blocks, &self.pages),
            None => ImportGroup::landed(group, &self.pages),
        })
    }
}
