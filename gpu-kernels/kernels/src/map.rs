//! Page-map changes.

use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, thread_idx_x};
use pagelift_abi::{MapArgs, MapChange, TableHeader, VERSION};
use pagelift_device::{read, read_at, write};

/// Each thread applies its share of the changes. A plan changes an entry at most once, so that their order is free; to
/// apply them again changes nothing.
///
/// # Safety
///
/// 1. The condition of [`pagelift_apply_map`](crate::pagelift_apply_map()).
#[inline(always)]
pub(crate) unsafe fn apply_map(args: &MapArgs) {
    // SAFETY: (1) is ours.
    let header: TableHeader = unsafe { read(args.table) };
    if header.version != VERSION {
        return;
    }
    let changes = args.table + u64::from(header.changes_at);
    let threads = u64::from(grid_dim_x()) * u64::from(block_dim_x());
    let mut at = u64::from(block_idx_x()) * u64::from(block_dim_x()) + u64::from(thread_idx_x());
    while at < u64::from(header.changes) {
        // SAFETY: the table has that many changes (1).
        let MapChange { entry, block } = unsafe { read_at(changes, at) };
        if u64::from(entry) < args.entries {
            // SAFETY: the entry exists (1), and no other thread has a change for it.
            unsafe { write(args.maps + u64::from(entry) * 4, block) };
        }
        at += threads;
    }
}
