//! What can be wrong, by domain. Every error says what was expected, what came, and where.

mod geometry;
mod layout;
mod lifecycle;
mod plan;
mod span;

pub use geometry::GeometryError;
pub(crate) use geometry::segment_words;
pub use layout::LayoutError;
pub use lifecycle::{LifecycleError, Resource};
pub use plan::PlanError;
pub use span::SpanError;
