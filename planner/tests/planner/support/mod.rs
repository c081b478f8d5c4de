//! What the tests share: a decoder of tables, small hand-made geometries, and random ones with their model.

pub mod decode;
pub mod fixed;
pub mod imports;
pub mod random;

use pagelift_planner::id::{HostBlockId, PageId, Ticket};
use pagelift_planner::plan::{Plan, Staging};

/// Host blocks by their numbers.
pub fn hosts(ids: &[u32]) -> Vec<HostBlockId> {
    ids.iter().copied().map(HostBlockId::new).collect()
}

/// Pages by their numbers.
pub fn pages(ids: &[u32]) -> Vec<PageId> {
    ids.iter().copied().map(PageId::new).collect()
}

/// The table that staging the plan would upload.
pub fn encoded<P: Plan>(plan: &P) -> Vec<u8> {
    let staging =
        Staging { ticket: Ticket::new(1, 0x0102_0304_0506), completion: 0xC0DE_0000, repeat: false };
    let mut table = vec![0xEE; plan.table_bytes()];
    let used = plan.encode(staging, &mut table).expect("a table of `table_bytes` has room");
    assert!(table[used..].iter().all(|&byte| byte == 0xEE), "bytes past the used ones were written");
    table.truncate(used);
    table
}

/// Bytes that the plan copies.
pub fn bytes<P: Plan>(plan: &P) -> u64 {
    plan.bytes().expect("the host knows the bytes of a page plan").get()
}
