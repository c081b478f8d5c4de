//! Which thread of which block this is: an index that [`emulation`](super::emulation) sets for the OS thread.

use std::cell::Cell;

/// Place of a thread in its launch.
#[derive(Clone, Copy)]
pub(super) struct Index {
    pub(super) thread: u32,
    pub(super) block: u32,
    pub(super) block_dim: u32,
    pub(super) grid_dim: u32,
    pub(super) lanes: u32,
}

thread_local! {
    /// A launch of one thread, until told otherwise.
    static CURRENT: Cell<Index> =
        const { Cell::new(Index { thread: 0, block: 0, block_dim: 1, grid_dim: 1, lanes: 1 }) };
}

/// Calls `body` as the thread at `index`, also if it unwinds.
pub(super) fn at(index: Index, body: impl FnOnce()) {
    struct Restore(Index);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(index));
    body();
}

/// Threads of a warp.
#[must_use]
pub fn lanes_per_warp() -> u32 {
    CURRENT.get().lanes
}

/// Number of the thread within its block.
#[must_use]
pub fn thread_idx_x() -> u32 {
    CURRENT.get().thread
}

/// Number of the block within the launch.
#[must_use]
pub fn block_idx_x() -> u32 {
    CURRENT.get().block
}

/// Threads of a block.
#[must_use]
pub fn block_dim_x() -> u32 {
    CURRENT.get().block_dim
}

/// Blocks of the launch.
#[must_use]
pub fn grid_dim_x() -> u32 {
    CURRENT.get().grid_dim
}
