//! What can be wrong, by domain. Every error says what was expected, what came, and where.

mod geometry;
mod layout;
mod lifecycle;
mod options;
mod plan;
mod span;

pub use geometry::GeometryError;
pub(crate) use geometry::segment_words;
pub use layout::LayoutError;
pub use lifecycle::{LifecycleError, Resource};
pub use options::OptionsError;
pub use plan::PlanError;
pub use span::SpanError;
