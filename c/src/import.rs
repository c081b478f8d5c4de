//! The blocks and pages of one import, as C lists them.

use pagelift::id::{HostBlockId, PageId};
use pagelift::import;
use pagelift::plan;

use crate::foreign::In;
use crate::keys::{AnyGroup, GroupKey, Keys, of_kind};
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

/// An import as it was read, with copies of its lists.
pub struct ReadImport {
    span: import::PromptSpan,
    groups: Vec<ReadGroup>,
}

struct ReadGroup {
    group: AnyGroup,
    blocks: Vec<HostBlockId>,
    pages: Vec<PageId>,
    landed: bool,
}

/// A list of host blocks.
pub fn blocks(list: In<u32>, count: usize, what: &str) -> Outcome<Vec<HostBlockId>> {
    Ok(list.list(count, what)?.into_iter().map(HostBlockId::new).collect())
}

/// A list of pages.
pub fn pages(list: In<u32>, count: usize, what: &str) -> Outcome<Vec<PageId>> {
    Ok(list.list(count, what)?.into_iter().map(PageId::new).collect())
}

impl ReadImport {
    /// Reads what C lists, of a geometry with these keys.
    pub fn of(import: In<Import>, keys: &Keys) -> Outcome<Self> {
        let Import { span, groups, groups_count, reserved, .. } = import.sized("import")?;
        if reserved != 0 {
            return Err(bad_value("import->reserved", reserved, "0"));
        }
        let read = |group: ImportGroup| {
            let landed = match (group.landed, group.reserved) {
                (0, 0) => false,
                (1, 0) => true,
                (landed, 0) => return Err(bad_value("group->landed", landed, "0 or 1")),
                (_, reserved) => return Err(bad_value("group->reserved", reserved, "0")),
            };
            if landed && group.blocks_count > 0 {
                return Err(bad_value(
                    "group->blocks_count",
                    group.blocks_count,
                    "0 for a group that has landed",
                ));
            }
            Ok(ReadGroup {
                group: *keys.group(group.group)?,
                blocks: blocks(group.blocks, group.blocks_count, "group->blocks")?,
                pages: pages(group.pages, group.pages_count, "group->pages")?,
                landed,
            })
        };
        let groups = groups.list(groups_count, "import->groups")?.into_iter().map(read);
        Ok(Self { span: span.span()?, groups: groups.collect::<Outcome<_>>()? })
    }

    /// Does something with the import as Rust has it.
    pub fn with<T>(&self, work: impl FnOnce(&import::Import<'_>) -> T) -> T {
        let groups: Vec<_> = self.groups.iter().map(ReadGroup::borrowed).collect();
        work(&import::Import { span: self.span, groups: &groups })
    }
}

impl ReadGroup {
    fn borrowed(&self) -> import::ImportGroup<'_> {
        of_kind!(self.group, key => if self.landed {
            import::ImportGroup::landed(key, &self.pages)
        } else {
            import::ImportGroup::new(key, &self.blocks, &self.pages)
        })
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
