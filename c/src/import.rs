//! The blocks and pages of one import, as C lists them.

use pagelift::plan;
use pagelift_bindings::import::{OwnedGroup, OwnedImport};

use crate::foreign::In;
use crate::keys::{GroupKey, Keys};
use crate::span::PromptSpan;
use crate::status::{Outcome, bad_value};

/// The blocks and pages of one group of an import.
///
/// A paged group's blocks are those from the prompt's first on, in order, up to that of `resume_at`; its pages are the
/// writable one where it lifts the tail, and all up to it where it lifts all. A ring or a state has one block and one
/// page.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ImportGroup {
    /// The group.
    pub group: GroupKey,
    /// Its host blocks.
    pub blocks: In<u32>,
    /// How many.
    pub blocks_count: usize,
    /// Its pages.
    pub pages: In<u32>,
    /// How many.
    pub pages_count: usize,
    /// 1 where its blocks landed on the device this time, though it usually lands on the host: nothing is lifted, and
    /// `blocks` is empty. 0 otherwise.
    pub landed: u32,
    /// 0.
    pub reserved: u32,
}

/// One prompt's imported blocks, group by group.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// sizeof(pagelift_import).
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Its tokens.
    pub span: PromptSpan,
    /// Its groups.
    pub groups: In<ImportGroup>,
    /// How many.
    pub groups_count: usize,
}

/// Reads what C lists, of a geometry with these keys.
pub fn read(import: In<Import>, keys: &Keys) -> Outcome<OwnedImport> {
    let Import { span, groups, groups_count, reserved, .. } = import.sized("import")?;
    if reserved != 0 {
        return Err(bad_value("import->reserved", reserved, "0"));
    }
    let groups = groups.list(groups_count, "import->groups")?.into_iter().map(|group| group.read(keys));
    Ok(OwnedImport { span: span.span()?, groups: groups.collect::<Outcome<_>>()? })
}

impl ImportGroup {
    fn read(self, keys: &Keys) -> Outcome<OwnedGroup> {
        let landed = match (self.landed, self.reserved) {
            (0, 0) => false,
            (1, 0) => true,
            (landed, 0) => return Err(bad_value("group->landed", landed, "0 or 1")),
            (_, reserved) => return Err(bad_value("group->reserved", reserved, "0")),
        };
        let key = *keys.group(self.group)?;
        let pages = self.pages.list(self.pages_count, "group->pages")?;
        if !landed {
            return Ok(OwnedGroup::new(key, self.blocks.list(self.blocks_count, "group->blocks")?, pages));
        }
        if self.blocks_count > 0 {
            let expected = "0 for a group that has landed";
            return Err(bad_value("group->blocks_count", self.blocks_count, expected));
        }
        Ok(OwnedGroup::landed(key, pages))
    }
}

/// Which rows of a partly filled page are lifted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TailRows {
    /// All of the final block; rows after the imported ones mean nothing.
    Whole = 0,
    /// The imported rows; others are left alone.
    Exact = 1,
    /// The imported rows, and zeros after them.
    ExactZeroed = 2,
}

/// As Rust has it.
pub fn tail_rows(mode: u32) -> Outcome<plan::TailRows> {
    match mode {
        0 => Ok(plan::TailRows::Whole),
        1 => Ok(plan::TailRows::Exact),
        2 => Ok(plan::TailRows::ExactZeroed),
        _ => Err(bad_value("mode", mode, "a pagelift_tail_rows")),
    }
}
