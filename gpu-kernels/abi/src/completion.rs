//! How a launch says that it is done.

use crate::table_struct;

/// Values of [`Completion::status`].
pub mod status {
    /// Every job of the table was carried out, but for what was counted as bad.
    pub const DONE: u32 = 1;
    /// The table has another [`crate::VERSION`]; nothing was moved.
    pub const WRONG_VERSION: u32 = 2;
}

table_struct! {
    /// One launcher's state between launches, in device memory.
    pub struct Progress {
        /// Ticket of the last plan that ran: the same plan does nothing in a later replay, unless it is to be repeated.
        pub done: u64,
        /// Warps of the running launch that have finished; on the CPU, lanes.
        pub arrived: u32,
        /// Bad entries met by the running launch.
        pub bad: u32,
        /// Rows copied by the running launch; 0 for page jobs.
        pub rows: u32,
        /// Slot-mapping entries skipped by the running launch: padding, unmapped, or not accepted.
        pub skipped: u32,
    }
}

table_struct! {
    /// What a launch tells the host when it has ended, in mapped host memory. All else is written before the ticket, which
    /// is stored with system-scope release: who loads the ticket with acquire ordering then sees all that was written for it.
    ///
    /// A plan that is repeated answers again, under the same ticket: the host may then see some words of one run and some
    /// of the next.
    pub struct Completion {
        /// The ticket of the table that ran.
        pub ticket: u64,
        /// See [`status`].
        pub status: u32,
        /// Device-side entries that were skipped because they made no sense.
        pub bad: u32,
        /// Rows copied by row jobs, counted once whatever the number of layers and segments.
        pub rows: u32,
        /// Slot-mapping entries that were rightly skipped.
        pub skipped: u32,
    }
}
