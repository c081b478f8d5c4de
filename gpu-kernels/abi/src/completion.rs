//! How a launch says that it is done.

use crate::table_struct;

/// Values of [`Completion::status`].
pub mod status {
    /// Every job of the table was carried out.
    pub const DONE: u32 = 1;
    /// The table has another [`crate::VERSION`]; nothing was moved.
    pub const WRONG_VERSION: u32 = 2;
}

table_struct! {
    /// One launcher's state between launches, in device memory.
    pub struct Progress {
        /// Ticket of the last plan that ran: the same plan does nothing in a later replay.
        pub done: u64,
        /// Warps of the running launch that have finished.
        pub arrived: u32,
        /// Bad entries met by the running launch.
        pub bad: u32,
        /// Rows mirrored by the running launch; 0 for page jobs.
        pub rows: u32,
        /// Slot-mapping entries skipped by the running launch: padding, unmapped, or not accepted.
        pub skipped: u32,
    }
}

table_struct! {
    /// What the last warp tells the host, in mapped host memory. All else is written before the ticket, which is
    /// stored with system-scope release.
    pub struct Completion {
        /// The ticket of the table that ran.
        pub ticket: u64,
        /// See [`status`].
        pub status: u32,
        /// Device-side entries that were skipped because they made no sense.
        pub bad: u32,
        /// Rows mirrored, counted once whatever the number of layers and segments.
        pub rows: u32,
        /// Slot-mapping entries that were rightly skipped.
        pub skipped: u32,
    }
}
