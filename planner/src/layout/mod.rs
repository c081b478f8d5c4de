//! What lies inside one page or block.
//!
//! Three kinds, because three different things may be done with them:
//!
//! | kind | content | may be copied |
//! |---|---|---|
//! | [`PagedLayout`] | rows, one per token or per group of tokens | whole, or some rows |
//! | [`RingLayout`] | one page per request, slot = position % slots | whole, or some slots |
//! | [`StateLayout`] | one page per request, indivisible | whole only: it has no notion of rows |

mod dense;
mod families;
mod paged;
mod ring;
mod segment;
mod state;

pub use dense::{DenseShape, HeadOrder, KvRegions, KvScales};
pub use families::{GdnShape, PleShape, SsmShape};
pub use paged::{PagedLayout, PagedLayoutBuilder};
pub use ring::RingLayout;
pub use segment::Segment;
pub use state::{ConvOrder, StateLayout, StatePart};

/// The most segments of a page. Kernels find a unit's segment by counting along.
pub(crate) const MAX_SEGMENTS: usize = 1024;

/// What the geometry needs to know of any layout.
pub(crate) struct Shape<'a> {
    /// Rows of a page; 1 for states.
    pub rows: u32,
    /// Slots of a page that a slot mapping counts in.
    pub slots: u32,
    /// Slots that make one row.
    pub slots_per_row: u32,
    /// The runs of rows.
    pub segments: &'a [Segment],
    /// Bytes of each region of a page.
    pub region_bytes: &'a [u64],
    /// Of states with a convolution.
    pub conv_order: Option<ConvOrder>,
}

pub(crate) mod sealed {
    /// Lowers a layout to rows and segments.
    pub trait Lower {
        #[expect(private_interfaces, reason = "sealed: nobody outside can call it")]
        fn shape(&self) -> super::Shape<'_>;
    }
}
