//! Who holds which blocks and pages, and when a page may be called sealed.

mod page;
mod reservations;

pub use page::{OpenPage, SealedPage};
pub use reservations::Reservations;
pub(crate) use reservations::Together;
