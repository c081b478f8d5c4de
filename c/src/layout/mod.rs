//! What pages look like.

mod paged;
mod per_request;
mod sizes;

use pagelift_bindings::keys::AnyLayout;

pub use paged::{DenseShape, HeadOrder, KvRegions, KvScales, PagedLayoutSpec, Segment};
pub use per_request::{ConvOrder, GdnShape, PleShape, RingLayoutSpec, SsmShape, StateLayoutSpec, StatePart};
pub use sizes::LayoutFacts;

use crate::foreign::Out;
use crate::handle::{Handle, keep, object};
use crate::status::{Outcome, Status, answer};

/// What a block or page of one layer looks like. Layouts do not change; they are copied into whatever uses them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Meaningless but to this library; 0 is none.
    pub value: u64,
}

impl Layout {
    /// What it stands for.
    pub const fn handle(self) -> Handle<AnyLayout> {
        Handle::new(self.value)
    }
}

object!(AnyLayout, Layout);

/// Makes a layout and its handle.
fn made<L: Into<AnyLayout>>(out: Out<Layout>, make: impl FnOnce() -> Outcome<L>) -> Status {
    answer(|| {
        let out = out.ready("layout")?;
        let layout = make()?;
        out.put(Layout { value: keep(layout.into())? });
        Ok(())
    })
}

/// Which kind a layout or a group is of.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages of rows, one for each token or group of tokens.
    Paged = 0,
    /// One page for each request, overwritten in turn.
    Ring = 1,
    /// One page for each request, copied whole or not at all.
    State = 2,
}

/// An offset that means: after the one before.
pub const PAGELIFT_AFTER: u64 = u64::MAX;
