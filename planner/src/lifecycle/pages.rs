//! Pages: which are free, and who holds the others.

use super::request::RequestId;
use crate::error::PlanError;
use crate::id::PageId;
use crate::room::{filled, with_room};

/// All pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pages {
    holders: Vec<Option<RequestId>>,
    free: Vec<u32>,
}

impl Pages {
    pub fn new(count: u32) -> Result<Self, PlanError> {
        let mut free = with_room("free pages", count.into())?;
        free.extend((0..count).rev());
        Ok(Self { holders: filled("pages", None, count.into())?, free })
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    pub fn holder(&self, page: PageId) -> Option<RequestId> {
        *self.holders.get(usize::try_from(page.get()).ok()?)?
    }

    pub fn take(&mut self, by: RequestId) -> Option<PageId> {
        let number = self.free.pop()?;
        *self.holders.get_mut(usize::try_from(number).ok()?)? = Some(by);
        Some(PageId::new(number))
    }

    /// Gives a page back. One that nobody holds stays free once.
    pub fn release(&mut self, page: PageId) {
        let holder = usize::try_from(page.get()).ok().and_then(|index| self.holders.get_mut(index));
        if holder.and_then(Option::take).is_some() {
            self.free.push(page.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::Key;
    use super::*;

    #[test]
    fn a_page_that_is_given_back_twice_is_free_once() {
        let mut pages = Pages::new(2).unwrap();
        let page = pages.take(RequestId::of(Key { slot: 0, generation: 1 })).unwrap();
        (0..2).for_each(|_| pages.release(page));
        assert_eq!((pages.free(), pages.holder(page)), (2, None));
    }
}
