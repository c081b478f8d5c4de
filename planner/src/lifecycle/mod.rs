//! When a page may be called sealed.

mod page;

pub use page::{OpenPage, SealedPage};
