//! What a step does: header, jobs, block lists and page-map changes.

use crate::table_struct;

/// 'No block' in a page map, 'no slot' in a slot mapping.
pub const NONE: i32 = -1;

/// Bits of [`TableHeader::flags`].
pub mod flags {
    /// Run in every replay, not only in the first one after staging.
    pub const REPEAT: u32 = 1;
}

/// Bits of [`crate::RowJob::flags`].
pub mod row_job {
    /// The destination is a compact buffer: entry `i` goes to row `i` of block 0, and no page map is read. See
    /// [`crate::RowJob`].
    pub const COMPACT: u32 = 1;
}

/// Bits of [`crate::PageJob::flags`].
pub mod job {
    /// Write zeros to the destination rows; there is no source.
    pub const ZERO: u32 = 1;
    /// `source` is the first entry in the table's block list and `destination` the number of entries.
    pub const LIST: u32 = 2;
}

table_struct! {
    /// The head of a job table. Jobs follow it directly.
    pub struct TableHeader {
        /// Number of the staged plan, counted from 1; 0 means that nothing was ever staged.
        pub ticket: u64,
        /// Device address of the [`crate::Completion`] that the launch writes when it has ended.
        pub completion: u64,
        /// [`crate::VERSION`].
        pub version: u32,
        /// See [`flags`].
        pub flags: u32,
        /// Jobs that follow. Entries past them are never read.
        pub jobs: u32,
        /// Units of all page jobs; unused by row jobs, whose counts are read on the device.
        pub units: u32,
        /// Bytes from the start of the table to the first [`BlockPair`].
        pub indices_at: u32,
        /// Bytes from the start of the table to the first [`MapChange`].
        pub changes_at: u32,
        /// Number of map changes.
        pub changes: u32,
        /// Zero.
        pub reserved: u32,
    }
}

table_struct! {
    /// Whole rows of blocks, all layers and segments of one route: one per (import, group), not one per layer.
    pub struct PageJob {
        /// Index of the route.
        pub route: u32,
        /// Units of the jobs before this one.
        pub units_before: u32,
        /// Source block, or first entry of the block list ([`job::LIST`]).
        pub source: u32,
        /// Destination block, or entries in the block list ([`job::LIST`]).
        pub destination: u32,
        /// First row in each source block.
        pub source_row: u32,
        /// First row in each destination block.
        pub destination_row: u32,
        /// Rows of each block.
        pub rows: u32,
        /// See [`job`].
        pub flags: u32,
    }
}

table_struct! {
    /// One entry of a block list.
    pub struct BlockPair {
        /// Source block.
        pub source: u32,
        /// Destination block.
        pub destination: u32,
    }
}

table_struct! {
    /// A change of one page-map entry, applied when its plan is staged. A plan changes an entry at most once: the changes
    /// of a plan are applied in no order.
    pub struct MapChange {
        /// Index into the concatenated page maps.
        pub entry: u32,
        /// The block, or [`NONE`].
        pub block: i32,
    }
}

table_struct! {
    /// Rows of one route that only the device knows: the mirror of what a step wrote, or a gather by an index list, so
    /// that replaying a graph needs no host code.
    ///
    /// Entry `i` of the slot mapping names the slot that token `i` of the step was written to. It is mirrored when
    /// all of this holds, and skipped or counted as bad otherwise:
    ///
    /// - `i` is below the count read on the device, and below the end of the last query;
    /// - the slot is not negative (padding), and its page is neither `null_page` nor, where there is a map, unmapped;
    /// - the token is among the accepted ones of its request, where counts are given;
    /// - it completes a row: `(slot + 1) % tokens_per_row == 0`. A token that does not is counted neither way: its row
    ///   comes with the token that completes it.
    ///
    /// Bad are a count or last start out of `0..=capacity` (each once a job; it is forced into that range), and an entry
    /// whose page or block is past its side, whose request is not found, or has accepted fewer than no tokens or more than
    /// it had. Bad too is each entry that would be looked up, in a job whose `tokens_per_row` does not divide `page_slots`, or whose
    /// `map_rows` does not divide the rows of page and block.
    ///
    /// # Gathers
    ///
    /// With [`row_job::COMPACT`], the 'slot mapping' is an index list: entry `i` names the row that goes to row `i` of
    /// block 0 of the destination, where `i` is below `block_rows`; past that it is bad. No map is read, and `map` and
    /// `map_rows` mean nothing. `page_slots` are the rows of a source block and `tokens_per_row` is 1, as a rule; else
    /// indices count tokens, as above. A row may be gathered any number of times. What is skipped or bad leaves its
    /// row of the destination as it was.
    ///
    /// A row job has fewer than 2³² units (`capacity · layers · segments`), and its pages fewer than 2³² slots: the
    /// kernel numbers both in 32 bits, and takes larger slots for bad.
    pub struct RowJob {
        /// Address of the slot mapping: `capacity` entries of `slot_bytes`, signed.
        pub slots: u64,
        /// Address of one `i32`, the valid entries; 0 means that all `capacity` entries are.
        pub count: u64,
        /// Address of `i32[requests + 1]`, where each request's tokens begin; 0 for none.
        pub query_starts: u64,
        /// Address of `i32[requests]`, how many tokens of each request were accepted; 0 for 'all'. Needs
        /// `query_starts`.
        pub accepted: u64,
        /// Index of the route.
        pub route: u32,
        /// Entries that the slot mapping has room for.
        pub capacity: u32,
        /// Requests that `query_starts` and `accepted` have room for.
        pub requests: u32,
        /// Bytes of a slot: 4 or 8.
        pub slot_bytes: u32,
        /// Token slots of a page (of a ring: its slots).
        pub page_slots: u32,
        /// Slots that make one row.
        pub tokens_per_row: u32,
        /// Index of this group's first entry in the concatenated page maps.
        pub map: u32,
        /// A page that stands for 'no page', or [`NONE`].
        pub null_page: i32,
        /// Rows that one map entry stands for: those of the smaller of page and block, whose rows differ by a power of
        /// two. Row `r` of a page uses entry `map + (page · page_rows + r) / map_rows`; an entry `e` stands for rows
        /// `e · map_rows ..` of the destination, counted through all blocks.
        pub map_rows: u32,
        /// Rows of a destination block.
        pub block_rows: u32,
        /// See [`row_job`].
        pub flags: u32,
        /// Zero.
        pub reserved: u32,
    }
}
