//! The C library as its users get it: installed, with programs in C that are linked to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::c::{self, Installed};
use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// What programs are held to.
const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror", "-g"];

/// Stage-and-launch pairs of the test of leaks: a tenth of them under the sanitizer, which is slower.
const PAIRS: u32 = 200_000;

/// Compares the header with the sources, installs the library, and compiles and runs the tests and the example.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    if !["cc", "c++"].into_iter().all(|name| process::succeeds(Command::new(name).arg("--version"))) {
        return Ok(Verdict::skipped("there is no compiler of C and C++", "install g++"));
    }
    c::check(workspace)?;
    let folder = workspace.target().join("c");
    let installed = c::install(workspace, &folder.join("installed"))?;
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).with_context(|| format!("could not make {}", programs.display()))?;
    header_alone(&installed, &programs)?;

    let root = workspace.root().join("c");
    let tests = sources(&root.join("tests"))?;
    let examples = sources(&root.join("examples"))?;
    for source in tests.iter().chain(&examples) {
        for (kind, flags, pairs) in
            [("plain", &["-O2"][..], PAIRS), ("asan", &["-O1", "-fsanitize=address"], PAIRS / 10)]
        {
            let mut compiler = c::compiler(&installed);
            let program = programs.join(format!("{}-{kind}", name(source)));
            process::run(
                compiler
                    .args(STRICT)
                    .args(flags)
                    .arg(source)
                    .args(c::statically(&installed))
                    .arg("-o")
                    .arg(&program),
            )?;
            process::run(&mut started(&program, pairs))?;
        }
    }
    // Examples are linked to the shared library too, as its users do.
    for source in &examples {
        let program = programs.join(format!("{}-shared", name(source)));
        let mut compiler = c::compiler(&installed);
        compiler
            .args(STRICT)
            .arg(source)
            .arg("-L")
            .arg(installed.lib())
            .args(["-lpagelift", "-ldl", "-o"])
            .arg(&program);
        process::run(&mut compiler)?;
        process::run(started(&program, 0).env("LD_LIBRARY_PATH", installed.lib()))?;
    }
    Ok(Verdict::passed(format!("{} programs", tests.len() + examples.len())))
}

fn started(program: &Path, pairs: u32) -> Command {
    let mut command = Command::new(program);
    // Memory that cannot be had is an error to be returned.
    command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=1");
    command.env("PAGELIFT_PAIRS", pairs.to_string());
    command
}

/// The header is taken by itself, by compilers of both languages.
fn header_alone(installed: &Installed, folder: &Path) -> Result<()> {
    for (compiler, standard, file) in [("cc", "-std=c11", "header.c"), ("c++", "-std=c++17", "header.cc")] {
        let source = folder.join(file);
        fs::write(&source, "#include \"pagelift.h\"\nint main(void) { return PAGELIFT_OK; }\n")
            .with_context(|| format!("could not write {}", source.display()))?;
        let mut compiler = Command::new(compiler);
        compiler.args([standard, "-Wpedantic", "-fsyntax-only", "-I"]).arg(installed.include());
        process::run(compiler.args(STRICT).arg(&source))?;
    }
    Ok(())
}

fn name(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The sources of a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    let mut sources = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    ensure!(!sources.is_empty(), "{} has no program", folder.display());
    Ok(sources)
}
