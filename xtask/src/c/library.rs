//! Builds the library, and puts it where compilers and pkg-config look.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::PACKAGE;
use crate::process;
use crate::workspace::Workspace;

/// An installed library.
pub struct Installed {
    prefix: PathBuf,
}

impl Installed {
    /// The folder of the header.
    pub fn include(&self) -> PathBuf {
        self.prefix.join("include")
    }

    /// The folder of the libraries.
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib")
    }
}

/// A compiler of C that finds the header.
pub fn compiler(installed: &Installed) -> Command {
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-I"]).arg(installed.include());
    compiler
}

/// A compiler of C that links to the shared library, as `pkg-config` says where there is one.
pub fn dynamically(installed: &Installed) -> Command {
    if !process::succeeds(Command::new("pkg-config").arg("--version")) {
        let mut compiler = compiler(installed);
        compiler.arg("-L").arg(installed.lib()).args(["-Wl,--no-as-needed", "-lpagelift", "-ldl"]);
        return compiler;
    }
    // What it says is for a shell: names of folders may have spaces.
    let line = r#"eval "exec cc -std=c11 \"\$@\" $(pkg-config --cflags --libs pagelift) -ldl""#;
    let mut compiler = Command::new("sh");
    compiler.args(["-c", line, "cc"]).env("PKG_CONFIG_PATH", installed.lib().join("pkgconfig"));
    compiler
}

/// What links a program to the static library; `pagelift.pc.in` says the same.
pub fn statically(installed: &Installed) -> Vec<OsString> {
    let archive = installed.lib().join("libpagelift.a").into_os_string();
    let needed = ["-lpthread", "-ldl", "-lm"].map(OsString::from);
    [archive].into_iter().chain(needed).collect()
}

/// Builds the library in release and installs it below `prefix`.
pub fn install(workspace: &Workspace, prefix: &Path) -> Result<Installed> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    let files = built(&mut cargo, "pagelift_c")?;
    let file = |ending: &str| {
        let found = files.iter().find(|file| file.extension().is_some_and(|extension| extension == ending));
        found.with_context(|| format!("cargo built no library that ends with .{ending}"))
    };
    let root = workspace.root().join("c");
    let [lib, include, config] = ["lib", "include", "lib/pkgconfig"].map(|folder| prefix.join(folder));
    for folder in [&lib, &include, &config] {
        fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    }
    copy(file("a")?, &lib.join("libpagelift.a"))?;
    let source = read(&root.join("src/lib.rs"))?;
    let versioned = format!("libpagelift.so.{}", abi(&source)?);
    copy(file("so")?, &lib.join(&versioned))?;
    let link = lib.join("libpagelift.so");
    if link.is_symlink() {
        fs::remove_file(&link).with_context(|| format!("could not remove {}", link.display()))?;
    }
    std::os::unix::fs::symlink(&versioned, &link)
        .with_context(|| format!("could not make {}", link.display()))?;
    copy(&root.join("include/pagelift.h"), &include.join("pagelift.h"))?;
    let version = workspace.version(PACKAGE)?;
    let text = read(&root.join("pagelift.pc.in"))?;
    let text = text.replace("@VERSION@", &version);
    let to = config.join("pagelift.pc");
    fs::write(&to, text).with_context(|| format!("could not write {}", to.display()))?;
    Ok(Installed { prefix: prefix.to_owned() })
}

/// Builds a library by a command of cargo's, and asks which files it is.
pub fn built(cargo: &mut Command, library: &str) -> Result<Vec<PathBuf>> {
    let said = process::read(cargo.args(["--message-format", "json-render-diagnostics"]))?;
    let files = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours = message["reason"] == "compiler-artifact" && message["target"]["name"] == library;
        let files = message["filenames"].as_array().filter(|_| ours)?;
        Some(files.iter().filter_map(|file| file.as_str().map(PathBuf::from)).collect())
    };
    // With `cargo rustc` the last message is that of what was asked for.
    said.lines().rev().find_map(files).with_context(|| format!("cargo did not say where {library} lies"))
}

/// The number of the interface, as `c/build.rs` reads it too.
fn abi(source: &str) -> Result<u32> {
    let number =
        source.split_once("pub const PAGELIFT_ABI: u32 = ").and_then(|(_, rest)| rest.split_once(';'));
    number.and_then(|(number, _)| number.parse().ok()).context("c/src/lib.rs does not say PAGELIFT_ABI")
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    // A program that has the old one open keeps that.
    if to.exists() {
        fs::remove_file(to).with_context(|| format!("could not remove {}", to.display()))?;
    }
    fs::copy(from, to).map(drop).with_context(|| format!("could not copy {}", from.display()))
}
