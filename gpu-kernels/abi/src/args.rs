//! The argument of each kernel: addresses, by value, fixed when a graph is captured.

use crate::table_struct;

table_struct! {
    /// Argument of `pagelift_copy_pages` and `pagelift_copy_pages_bulk`.
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
