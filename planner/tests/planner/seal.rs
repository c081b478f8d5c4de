//! A page is sealed when all its rows are safe, and not before.

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::lifecycle::OpenPage;
use pagelift_planner::quantity::Rows;
use proptest::prelude::*;

proptest! {
    #[test]
    fn seals_exactly_when_every_row_is_durable(
        rows in 1_u32..40, imported in 0_u32..50, steps in prop::collection::vec(0_u32..50, 0..8),
    ) {
        let mut page =
            OpenPage::new(PageId::new(1), HostBlockId::new(2), Rows::new(rows), Rows::new(imported));
        let mut durable = imported.min(rows);
        for end in steps {
            page.durable_up_to(Rows::new(end));
            durable = durable.max(end.min(rows));
            prop_assert_eq!(page.durable().get(), durable);
        }
        match page.seal() {
            Ok(sealed) => {
                prop_assert_eq!(durable, rows);
                prop_assert_eq!((sealed.page(), sealed.block()), (PageId::new(1), HostBlockId::new(2)));
            }
            Err(page) => {
                prop_assert!(durable < rows);
                prop_assert_eq!(page.durable().get(), durable);
            }
        }
    }
}
