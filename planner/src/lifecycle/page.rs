//! A page from writable to droppable.

use crate::error::LifecycleError;
use crate::id::{HostBlockId, PageId};
use crate::quantity::Rows;

/// A page that rows are still written to, or whose rows are not all safe in the host pool yet.
///
/// It counts rows that are *durable*: imported into the host block, or mirrored there by a launch whose ticket is
/// done. Rows become durable in order, because tokens are generated in order.
///
/// ```
/// use pagelift_planner::id::{HostBlockId, PageId};
/// use pagelift_planner::lifecycle::OpenPage;
/// use pagelift_planner::quantity::Rows;
/// let page = OpenPage::new(PageId::new(3), HostBlockId::new(250), Rows::new(128));
/// let mut page = page.with_imported(Rows::new(19))?;
/// page.durable_up_to(Rows::new(127));
/// let page = page.seal().expect_err("one row is not safe yet");
/// let mut page = page;
/// page.durable_up_to(Rows::new(128));
/// assert_eq!(page.seal().map(|sealed| sealed.block()), Ok(HostBlockId::new(250)));
/// # Ok::<(), pagelift_planner::error::LifecycleError>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct OpenPage {
    page: PageId,
    block: HostBlockId,
    rows: Rows,
    durable: Rows,
}

/// A page whose rows are all safe in the host pool: its copy on the device may be dropped.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SealedPage {
    page: PageId,
    block: HostBlockId,
}

impl OpenPage {
    /// A page of `rows` rows, none of which is safe yet.
    #[must_use]
    pub const fn new(page: PageId, block: HostBlockId, rows: Rows) -> Self {
        Self { page, block, rows, durable: Rows::ZERO }
    }

    /// The same page, whose first `imported` rows arrived in its host block.
    ///
    /// # Errors
    /// [`LifecycleError::Range`] where it has fewer rows: it would be sealed at once.
    pub fn with_imported(mut self, imported: Rows) -> Result<Self, LifecycleError> {
        if imported > self.rows {
            let (found, most) = (imported.get().into(), self.rows.get().into());
            return Err(LifecycleError::Range { what: "the number of imported rows", found, least: 0, most });
        }
        self.durable_up_to(imported);
        Ok(self)
    }

    /// The page on the device.
    #[must_use]
    pub const fn page(&self) -> PageId {
        self.page
    }

    /// Its host block.
    #[must_use]
    pub const fn block(&self) -> HostBlockId {
        self.block
    }

    /// Rows that are safe in the host pool.
    #[must_use]
    pub const fn durable(&self) -> Rows {
        self.durable
    }

    /// Notes that rows `0..end` are safe. Fewer than before, or more than the page has, changes nothing beyond that.
    pub fn durable_up_to(&mut self, end: Rows) {
        self.durable = self.durable.max(end.min(self.rows));
    }

    /// Seals the page.
    ///
    /// # Errors
    /// Gives the page back where a row of it is not safe yet.
    pub fn seal(self) -> Result<SealedPage, Self> {
        if self.durable < self.rows {
            return Err(self);
        }
        Ok(SealedPage { page: self.page, block: self.block })
    }
}

impl SealedPage {
    /// The page on the device.
    #[must_use]
    pub const fn page(&self) -> PageId {
        self.page
    }

    /// The host block that holds its rows.
    #[must_use]
    pub const fn block(&self) -> HostBlockId {
        self.block
    }
}

/// Where a page of a request is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageState {
    /// Rows are written to it, or will be.
    Writable,
    /// All of its rows are written and accepted, and some are not safe yet.
    Full,
    /// All of its rows are safe in its host block.
    Sealed,
    /// A copy of a block that others may see: its rows were safe before, and what is written to it stays there.
    Private,
    /// Nobody needs it any more; it is free once all ranks have finished the steps that may read it.
    Droppable,
}

/// The same, with what it takes to go on: a page is sealed only by way of [`OpenPage::seal`].
#[derive(Debug, PartialEq, Eq, Hash)]
enum Life {
    Writable(OpenPage),
    Full(OpenPage),
    Sealed(SealedPage),
    Private,
    Droppable { after: u32 },
}

/// A page that a request holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldPage {
    pub position: u32,
    pub page: PageId,
    life: Life,
}

impl HeldPage {
    /// A page that rows are written to and mirrored from.
    pub fn writable(position: u32, page: PageId, block: HostBlockId, slots: u32) -> Self {
        let open = OpenPage::new(page, block, Rows::new(slots));
        Self { position, page, life: Life::Writable(open) }
    }

    /// A copy of a block that is sealed: another's, or the request's own of before.
    pub const fn copy(position: u32, page: PageId) -> Self {
        Self { position, page, life: Life::Private }
    }

    pub const fn state(&self) -> PageState {
        match self.life {
            Life::Writable(_) => PageState::Writable,
            Life::Full(_) => PageState::Full,
            Life::Sealed(_) => PageState::Sealed,
            Life::Private => PageState::Private,
            Life::Droppable { .. } => PageState::Droppable,
        }
    }

    /// Writable → full: the last of its rows was accepted.
    pub fn fill(&mut self) {
        self.change(|life| match life {
            Life::Writable(open) => Life::Full(open),
            other => other,
        });
    }

    /// Full → sealed: `durable` of its slots are safe, and that is all of them. Whether it is sealed now.
    pub fn seal(&mut self, durable: Rows) -> bool {
        self.change(|life| match life {
            Life::Full(mut open) => {
                open.durable_up_to(durable);
                open.seal().map_or_else(Life::Full, Life::Sealed)
            }
            other => other,
        });
        !matches!(self.life, Life::Writable(_) | Life::Full(_))
    }

    /// Sealed or private → droppable: it is too far behind the page that is written. Steps up to `step` may read it.
    pub fn leave(&mut self, step: u32) {
        self.change(|life| match life {
            Life::Sealed(_) | Life::Private => Life::Droppable { after: step },
            other => other,
        });
    }

    /// Droppable → free: all ranks have finished the steps up to `idle`.
    pub const fn is_free(&self, idle: u32) -> bool {
        matches!(self.life, Life::Droppable { after } if after <= idle)
    }

    fn change(&mut self, into: impl FnOnce(Life) -> Life) {
        let life = std::mem::replace(&mut self.life, Life::Private);
        self.life = into(life);
    }
}

/// For exploring: a state is copied, and each copy goes another way.
impl Clone for Life {
    fn clone(&self) -> Self {
        let open = |page: &OpenPage| OpenPage {
            page: page.page,
            block: page.block,
            rows: page.rows,
            durable: page.durable,
        };
        match self {
            Self::Writable(page) => Self::Writable(open(page)),
            Self::Full(page) => Self::Full(open(page)),
            Self::Sealed(page) => Self::Sealed(SealedPage { page: page.page, block: page.block }),
            Self::Private => Self::Private,
            Self::Droppable { after } => Self::Droppable { after: *after },
        }
    }
}
