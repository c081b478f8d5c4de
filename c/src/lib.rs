//! The C interface of pagelift.
//!
//! Functions here are those of `include/pagelift.h`, which cbindgen makes of them: the comments are for readers of that header.
//! A function looks its arguments up, calls [`pagelift`], and says in a [`status::Status`] what came of it.
//!
//! | module | what |
//! |---|---|
//! | [`status`] | what calls answer, and the last error of a thread |
//! | [`handle`] | handles, and the tables that tell good ones from bad ones |
//! | [`foreign`] | the boundary: pointers, and what else C's word is taken for. The only unsafe code |
//! | [`backend`], [`layout`], [`memory`], [`geometry`], [`span`], [`import`], [`plan`], [`rows`], [`reservations`], [`launcher`], [`lifecycle`], [`runner`] | the functions, by subject |
//! | [`held`] | launchers and runners, with their registry |
//!
//! Plans, keys and launchers whose types C chooses when it runs are those of [`pagelift_bindings`].
//!
//! Other modules carry `#[unsafe(no_mangle)]`, which the lint counts as unsafe code; a test sees to it that they have nothing else.
#![allow(
    unsafe_code,
    reason = "names that linkers see; unsafe blocks are in `foreign` only, which a test of this file checks"
)]

pub mod backend;
pub mod foreign;
pub mod geometry;
pub mod handle;
pub mod held;
pub mod import;
pub mod keys;
pub mod launcher;
pub mod layout;
pub mod lifecycle;
pub mod memory;
pub mod plan;
pub mod reservations;
pub mod rows;
pub mod runner;
pub mod span;
pub mod status;

use std::ffi::c_char;

/// The number of this interface. It changes when a program that was compiled with an earlier header would no longer
/// work; the shared library is called `libpagelift.so.N` by it.
pub const PAGELIFT_ABI: u32 = 1;

/// The library's version, such as "0.1.0": text that lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The number of the library's interface: compare it with PAGELIFT_ABI of the header.
#[unsafe(no_mangle)]
pub extern "C" fn pagelift_abi() -> u32 {
    PAGELIFT_ABI
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expects by panicking")]

    use std::fs;
    use std::path::{Path, PathBuf};

    /// Every source below a folder, but for the boundary's.
    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let inner = folders.iter().filter(|path| !path.ends_with("foreign")).flat_map(|path| sources(path));
        inner.chain(files).collect()
    }

    #[test]
    fn unsafe_code_is_in_the_boundary_only() {
        let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        for path in &files {
            let code = fs::read_to_string(path).unwrap();
            for beginning in ["{", "fn", "impl", "trait", "extern"] {
                let found = code.contains(&["unsafe", beginning].join(" "));
                assert!(!found, "{} has unsafe code, which belongs into foreign/", path.display());
            }
        }
        assert!(files.len() > 20, "only {} files", files.len());
    }
}
