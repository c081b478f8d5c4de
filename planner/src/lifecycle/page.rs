//! A page from writable to sealed.

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
/// let mut page = OpenPage::new(PageId::new(3), HostBlockId::new(250), Rows::new(128), Rows::new(19));
/// page.durable_up_to(Rows::new(127));
/// let page = page.seal().expect_err("one row is not safe yet");
/// let mut page = page;
/// page.durable_up_to(Rows::new(128));
/// assert_eq!(page.seal().map(|sealed| sealed.block()), Ok(HostBlockId::new(250)));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct OpenPage {
    page: PageId,
    block: HostBlockId,
    rows: Rows,
    durable: Rows,
}

/// A page whose rows are all safe in the host pool: its copy on the device may be dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct SealedPage {
    page: PageId,
    block: HostBlockId,
}

impl OpenPage {
    /// A page of `rows` rows, of which the first `imported` arrived in its host block.
    #[must_use]
    pub fn new(page: PageId, block: HostBlockId, rows: Rows, imported: Rows) -> Self {
        Self { page, block, rows, durable: imported.min(rows) }
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
