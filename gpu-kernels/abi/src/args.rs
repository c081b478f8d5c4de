//! The argument of each kernel: addresses, by value, fixed when a graph is captured.

use crate::table_struct;

table_struct! {
    /// Argument of `pagelift_copy_pages`.
    pub struct PagesArgs {
        /// Address of the [`crate::TableHeader`], followed by [`crate::PageJob`]s.
        pub table: u64,
        /// Address of the [`crate::Route`]s.
        pub routes: u64,
        /// Address of the [`crate::SegmentPair`]s.
        pub segments: u64,
        /// Address of the bases.
        pub bases: u64,
        /// Address of the launcher's [`crate::Progress`].
        pub progress: u64,
    }
}

table_struct! {
    /// Argument of `pagelift_copy_rows`.
    pub struct RowsArgs {
        /// Address of the [`crate::TableHeader`], followed by [`crate::RowJob`]s.
        pub table: u64,
        /// Address of the [`crate::Route`]s.
        pub routes: u64,
        /// Address of the [`crate::SegmentPair`]s.
        pub segments: u64,
        /// Address of the bases.
        pub bases: u64,
        /// Address of the launcher's [`crate::Progress`].
        pub progress: u64,
        /// Address of the concatenated page maps, `i32` each.
        pub maps: u64,
    }
}

table_struct! {
    /// Argument of `pagelift_digest`.
    ///
    /// Its jobs are [`crate::PageJob`]s that are only read: the source side of the route, `source` and `source_row`.
    /// `destination_row` is the logical number of the first row, which a list's entries go on counting, so that equal
    /// content in another order of blocks has another digest. Of the flags [`crate::job::LIST`] alone has a meaning, and
    /// of a list's entries their source.
    ///
    /// The route's pairs are never contiguous (`rows_log2`), and their destination fields say what a run is logically:
    /// `destination_base` the number of its segment, `destination_offset` the bytes of the row before it, a multiple
    /// of 4. So a row that lies in several pieces on one side and in one on the other has one digest, where each piece
    /// but the last is a multiple of 4 bytes. A pair that is otherwise is a bad entry, and not in the digest. `width`
    /// is the widest access that is aligned for every source row.
    pub struct DigestArgs {
        /// Address of the [`crate::TableHeader`], followed by [`crate::PageJob`]s.
        pub table: u64,
        /// Address of the [`crate::Route`]s.
        pub routes: u64,
        /// Address of the [`crate::SegmentPair`]s.
        pub segments: u64,
        /// Address of the bases.
        pub bases: u64,
        /// Address of the launcher's [`crate::Progress`].
        pub progress: u64,
        /// Address of one `u64` for each job, to which its digest is added: 0 where the host set it to that when it
        /// staged the job, which is its affair. A table that is marked [`crate::flags::REPEAT`] adds again and again.
        pub digests: u64,
    }
}

table_struct! {
    /// Argument of `pagelift_apply_map`.
    pub struct MapArgs {
        /// Address of the [`crate::TableHeader`] whose changes are applied.
        pub table: u64,
        /// Address of the concatenated page maps, `i32` each.
        pub maps: u64,
        /// Entries of all maps together: changes past them are ignored.
        pub entries: u64,
    }
}
