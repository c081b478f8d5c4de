//! A page is sealed when all its rows are safe, and not before.

use pagelift_planner::id::{HostBlockId, PageId};
use pagelift_planner::lifecycle::OpenPage;
use pagelift_planner::quantity::Rows;
use proptest::prelude::*;

fn page(rows: u32) -> OpenPage {
    OpenPage::new(PageId::new(1), HostBlockId::new(2), Rows::new(rows))
}

/// 19 rows of a page of 128, the other way round: it would be sealed at once.
#[test]
fn no_more_rows_arrive_than_a_page_has() {
    let error = page(19).with_imported(Rows::new(128)).unwrap_err();
    assert_eq!(error.to_string(), "the number of imported rows is 128; expected 0 to 19");
    let page = page(128).with_imported(Rows::new(19)).unwrap();
    assert_eq!(page.durable(), Rows::new(19));
    assert!(page.seal().is_err());
}

proptest! {
    #[test]
    fn seals_exactly_when_every_row_is_durable(
        (rows, imported) in (1_u32..40).prop_flat_map(|rows| (Just(rows), 0..=rows)),
        steps in prop::collection::vec(0_u32..50, 0..8),
    ) {
        let mut page = page(rows).with_imported(Rows::new(imported)).unwrap();
        let mut durable = imported;
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
