//! pagelift.
