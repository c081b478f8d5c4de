//! A plan of any type.
//!
//! Blocks and pages are numbers here: which of the two a list is follows from the plan's direction.

mod pages;
mod rows;

use std::fmt;
use std::sync::Arc;

use pagelift::backends::Launchable;
use pagelift::geometry::Geometry;
use pagelift::id::{HostBlockId, PageId};
use pagelift::plan::{
    DeviceToDevice, DigestPlan, HostToDevice, MirrorPlan, PagePlan, Plan as _, PlanCapacity, RestorePlan,
    RowCapacity, RowPlan, WriteBackPlan,
};
use pagelift::quantity::Bytes;

pub(crate) use rows::bind;

use crate::keys::Way;
use crate::{Mismatch, Result};

/// A plan of any type.
#[derive(Debug)]
pub enum AnyPlan {
    /// Pages from the host to the device.
    Restore(RestorePlan),
    /// Pages from the device to the host.
    WriteBack(WriteBackPlan),
    /// Pages on the device.
    Across(PagePlan<DeviceToDevice>),
    /// Rows from the host to the device.
    RowsDown(RowPlan<HostToDevice>),
    /// Rows from the device to the host.
    Mirror(MirrorPlan),
    /// Rows on the device.
    RowsAcross(RowPlan<DeviceToDevice>),
    /// Digests.
    Digest(DigestPlan),
}

/// The same for whichever plan it is.
macro_rules! on_plan {
    ($plan:expr, $own:ident => $body:expr) => {
        match $plan {
            $crate::plan::AnyPlan::Restore($own) => $body,
            $crate::plan::AnyPlan::WriteBack($own) => $body,
            $crate::plan::AnyPlan::Across($own) => $body,
            $crate::plan::AnyPlan::RowsDown($own) => $body,
            $crate::plan::AnyPlan::Mirror($own) => $body,
            $crate::plan::AnyPlan::RowsAcross($own) => $body,
            $crate::plan::AnyPlan::Digest($own) => $body,
        }
    };
}
pub(crate) use on_plan;

impl AnyPlan {
    /// A plan of whole blocks.
    ///
    /// # Errors
    /// As [`PagePlan::new`].
    pub fn pages(geometry: Arc<Geometry>, way: Way, capacity: PlanCapacity) -> Result<Self> {
        Ok(match way {
            Way::Down => Self::Restore(PagePlan::new(geometry, capacity)?),
            Way::Up => Self::WriteBack(PagePlan::new(geometry, capacity)?),
            Way::Across => Self::Across(PagePlan::new(geometry, capacity)?),
        })
    }

    /// A plan of rows.
    ///
    /// # Errors
    /// As [`RowPlan::new`].
    pub fn rows(geometry: Arc<Geometry>, way: Way, capacity: RowCapacity) -> Result<Self> {
        Ok(match way {
            Way::Down => Self::RowsDown(RowPlan::new(geometry, capacity)?),
            Way::Up => Self::Mirror(RowPlan::new(geometry, capacity)?),
            Way::Across => Self::RowsAcross(RowPlan::new(geometry, capacity)?),
        })
    }

    /// A plan of digests.
    ///
    /// # Errors
    /// As [`DigestPlan::new`].
    pub fn digests(geometry: Arc<Geometry>, capacity: PlanCapacity) -> Result<Self> {
        Ok(Self::Digest(DigestPlan::new(geometry, capacity)?))
    }

    /// Which type it is of, in words.
    #[must_use]
    pub fn name(&self) -> &'static str {
        fn of<P: Variant>(_: &P) -> &'static str {
            P::WORDS
        }
        on_plan!(self, plan => of(plan))
    }

    /// Jobs planned.
    #[must_use]
    pub fn jobs(&self) -> usize {
        on_plan!(self, plan => plan.jobs())
    }

    /// Bytes that the launch copies, or that digests read; `None` of rows, of which only the device knows.
    #[must_use]
    pub fn bytes(&self) -> Option<Bytes> {
        on_plan!(self, plan => plan.bytes())
    }

    /// Empties a plan of pages or of digests, and keeps its memory.
    ///
    /// # Errors
    /// [`Mismatch::Plan`] for a plan of rows, whose bindings are cleared by name.
    pub fn clear(&mut self) -> Result {
        match self {
            Self::Restore(plan) => plan.clear(),
            Self::WriteBack(plan) => plan.clear(),
            Self::Across(plan) => plan.clear(),
            Self::Digest(plan) => plan.clear(),
            Self::RowsDown(_) | Self::Mirror(_) | Self::RowsAcross(_) => {
                return self.refuse("plans of pages or digests; a plan of rows has bindings to clear");
            }
        }
        Ok(())
    }

    /// As the type that a call is for.
    pub(crate) fn typed<P: Variant>(&mut self) -> Result<&mut P> {
        let mismatch = Mismatch::Plan { expected: P::WORDS, found: self.name() };
        Ok(P::of(self).ok_or(mismatch)?)
    }

    fn refuse<T>(&self, expected: &'static str) -> Result<T> {
        Err(Mismatch::Plan { expected, found: self.name() }.into())
    }
}

impl fmt::Display for AnyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        on_plan!(self, plan => plan.fmt(f))
    }
}

/// A type of plan, among all of them.
pub(crate) trait Variant: Launchable + Sized + Send + Sync + 'static {
    /// In words.
    const WORDS: &'static str;

    fn of(plan: &mut AnyPlan) -> Option<&mut Self>;
}

macro_rules! variants {
    ($($variant:ident($plan:ty), $name:literal;)+) => { $(
        impl Variant for $plan {
            const WORDS: &'static str = $name;

            fn of(plan: &mut AnyPlan) -> Option<&mut Self> {
                match plan {
                    AnyPlan::$variant(own) => Some(own),
                    _ => None,
                }
            }
        }
    )+ };
}

variants! {
    Restore(RestorePlan), "a restore plan";
    WriteBack(WriteBackPlan), "a write-back plan";
    Across(PagePlan<DeviceToDevice>), "a plan of pages on the device";
    RowsDown(RowPlan<HostToDevice>), "a plan of rows from the host";
    Mirror(MirrorPlan), "a mirror plan";
    RowsAcross(RowPlan<DeviceToDevice>), "a plan of rows on the device";
    Digest(DigestPlan), "a digest plan";
}

/// What a number of a block may stand for.
pub(crate) trait Numbered {
    fn numbered(number: u32) -> Self;
}

impl Numbered for HostBlockId {
    fn numbered(number: u32) -> Self {
        Self::new(number)
    }
}

impl Numbered for PageId {
    fn numbered(number: u32) -> Self {
        Self::new(number)
    }
}

/// The blocks or pages of these numbers, where these are: such a list is not copied.
pub(crate) fn ids<B: Numbered>(numbers: Vec<u32>) -> Vec<B> {
    numbers.into_iter().map(B::numbered).collect()
}
