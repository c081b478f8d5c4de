//! Which compiler on this machine can build PTX.
//!
//! It takes the library's source, of exactly the compiler's own version: Debian has the pair as packages, rustup as a
//! component.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::semver::Version;
use serde::{Deserialize, Serialize};

use crate::process;
use crate::workspace::{Workspace, cargo_program};

/// What to do when there is none.
pub const INSTALL: &str = "install Debian's rustc-web and rust-web-src, or run `rustup toolchain install nightly \
                           --component rust-src`, or set PAGELIFT_PTX_RUSTC to a rustc that has its library's source";

/// What tells one compiler from another. LLVM counts: distributions build rustc with their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    pub release: String,
    pub commit: String,
    pub llvm: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let commit = self.commit.get(..9).unwrap_or(&self.commit);
        write!(f, "rustc {} ({commit}, LLVM {})", self.release, self.llvm)
    }
}

/// A compiler that can build PTX.
#[derive(Clone, Debug)]
pub struct Compiler {
    pub rustc: PathBuf,
    pub cargo: OsString,
    pub identity: Identity,
    /// The folder that holds the library's source.
    pub library: PathBuf,
}

/// The compiler to use, or why there is none: the recorded one if it is here, else the first usable one.
pub fn choose(workspace: &Workspace, recorded: Option<&Identity>) -> Result<Compiler> {
    let minimum = workspace.minimum_rust()?;
    if let Some(rustc) = std::env::var_os("PAGELIFT_PTX_RUSTC") {
        let place = Place { rustc: rustc.into(), cargo: cargo_program() };
        return inspect(&place, &minimum).context("PAGELIFT_PTX_RUSTC is set");
    }
    let mut usable = Vec::new();
    let mut refused = Vec::new();
    for place in places() {
        match inspect(&place, &minimum) {
            Ok(compiler) => usable.push(compiler),
            Err(error) => refused.push(format!("{error:#}")),
        }
    }
    let wanted = usable.iter().position(|compiler| Some(&compiler.identity) == recorded).unwrap_or(0);
    if wanted < usable.len() {
        return Ok(usable.swap_remove(wanted));
    }
    bail!("no compiler here can build PTX ({})", refused.join("; "))
}

struct Place {
    rustc: PathBuf,
    cargo: OsString,
}

/// Where a compiler may be, best first.
fn places() -> Vec<Place> {
    let mut places = vec![Place { rustc: "/usr/bin/rustc".into(), cargo: cargo_program() }];
    let listed = process::ask(Command::new("rustup").args(["toolchain", "list", "--quiet"]));
    let toolchains = listed.map(|answer| answer.stdout).unwrap_or_default();
    // Only those that are installed: naming another would make rustup download it.
    let names = toolchains.split_whitespace().filter(|name| name.starts_with("nightly"));
    for name in names.chain(["stable"].into_iter().filter(|stable| toolchains.contains(stable))) {
        let rustc = process::ask(Command::new("rustup").args(["which", "--toolchain", name, "rustc"]));
        if let Ok(answer) = rustc {
            let rustc = PathBuf::from(answer.stdout.trim());
            let cargo = rustc.with_file_name(format!("cargo{}", std::env::consts::EXE_SUFFIX));
            places.push(Place { rustc, cargo: cargo.into() });
        }
    }
    places
}

fn inspect(place: &Place, minimum: &Version) -> Result<Compiler> {
    let rustc = &place.rustc;
    let shown = rustc.display();
    let version = process::ask(Command::new(rustc).arg("-vV"))
        .map_err(|_| anyhow::anyhow!("{shown} is not a rustc that runs"))?;
    let identity = parse_identity(&version.stdout).with_context(|| format!("{shown} -vV"))?;
    let release = Version::parse(&identity.release).with_context(|| format!("{shown} -vV"))?;
    if (release.major, release.minor) < (minimum.major, minimum.minor) {
        bail!("{shown} is {release}, older than {minimum}");
    }
    let sysroot = process::ask(Command::new(rustc).args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.stdout.trim()).join("lib/rustlib/src/rust");
    if !library.join("library/core/src/lib.rs").is_file() {
        bail!("{shown} has no library source at {}", library.display());
    }
    Ok(Compiler { rustc: rustc.clone(), cargo: place.cargo.clone(), identity, library })
}

fn parse_identity(version: &str) -> Result<Identity> {
    let field = |name: &str| {
        let value = version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(|value| value.trim().to_owned()).with_context(|| format!("no line '{name}: …'"))
    };
    Ok(Identity { release: field("release")?, commit: field("commit-hash")?, llvm: field("LLVM version")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_read_from_the_verbose_version() {
        let text = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\nbinary: rustc\n\
                    commit-hash: ac68faa20c58\ncommit-date: 2026-05-25\nhost: x86_64-unknown-linux-gnu\n\
                    release: 1.96.0\nLLVM version: 22.1.8\n";
        let identity = parse_identity(text).unwrap();
        assert_eq!(identity.to_string(), "rustc 1.96.0 (ac68faa20, LLVM 22.1.8)");
        assert!(parse_identity("rustc 1.2.3").unwrap_err().to_string().contains("release"));
    }
}
