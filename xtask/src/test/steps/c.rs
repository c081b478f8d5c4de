//! The C library as its users get it: installed, with programs in C that are linked to it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::driver;
use crate::c::{self, Installed};
use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// What programs are held to.
const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror", "-g"];

/// Stage-and-launch pairs of the test of leaks: a tenth of them under the sanitizer, which is slower.
const PAIRS: u32 = 1_000_000;

/// Threads that make random calls, as many together as one thread does: one for each so many pairs.
const THREADS: &str = "4";
const PAIRS_A_CALL: u32 = 10;

/// Compares the header with the sources, installs the library, and compiles and runs the tests and the example.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    if !["cc", "c++"].into_iter().all(|name| process::succeeds(Command::new(name).arg("--version"))) {
        return Ok(Verdict::skipped("there is no compiler of C and C++", "install g++"));
    }
    c::check(workspace)?;
    let folder = workspace.target().join("c");
    // In a folder with a space, as some users have it.
    let installed = c::install(workspace, &folder.join("installed here"))?;
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).with_context(|| format!("could not make {}", programs.display()))?;
    header_alone(&installed, &programs)?;

    let root = workspace.root().join("c");
    let of = |folder: &str, ending| sources(&root.join(folder), ending);
    let (tests, gpu_tests, examples) = (of("tests", "c")?, of("tests/gpu", "c")?, of("examples", "c")?);
    let random = of("tests/random", "c")?;
    let programs_of = || tests.iter().chain(&gpu_tests).chain(&random).chain(&examples);
    let header = read(&installed.include().join("pagelift.h"))?;
    let helpers = of("tests", "h")?;
    let by_hand = tests.iter().chain(&gpu_tests).chain(&examples).chain(&helpers);
    every_call_is_made(&header, &text_of(by_hand)?, &["pagelift_NAME("])?;
    every_call_is_made(&header, &text_of(&random)?, &["CALL(NAME,", "CALL_AS(NAME,"])?;
    let table = programs.join("documented.inc");
    fs::write(&table, c::table(&header)).with_context(|| format!("could not write {}", table.display()))?;
    let driver = driver::in_software(workspace)?;
    for (kind, flags, pairs) in
        [("plain", &["-O2"][..], PAIRS), ("asan", &["-O1", "-fsanitize=address"], PAIRS / 10)]
    {
        for source in programs_of() {
            let program = programs.join(format!("{}-{kind}", name(source)));
            let mut compiler = c::compiler(&installed);
            compiler
                .args(STRICT)
                .args(flags)
                .arg("-I")
                .arg(&programs)
                .arg(source)
                .args(c::statically(&installed));
            process::run(compiler.arg("-o").arg(&program))?;
            let start = || started(&installed, &program, pairs);
            if !gpu_tests.contains(source) {
                process::run(&mut start())?;
            }
            if random.contains(source) {
                process::run(start().env("PAGELIFT_THREADS", THREADS))?;
            }
            if !tests.contains(source) {
                let mut on_gpu = start();
                on_gpu.env("LD_LIBRARY_PATH", &driver);
                process::run(if gpu_tests.contains(source) { &mut on_gpu } else { on_gpu.arg("--cuda") })?;
            }
        }
    }
    // Examples are linked to the shared library too, as its users do.
    for source in &examples {
        let program = programs.join(format!("{}-shared", name(source)));
        let mut compiler = c::dynamically(&installed);
        process::run(compiler.args(STRICT).arg(source).arg("-o").arg(&program))?;
        process::run(&mut started(&installed, &program, 0))?;
    }
    Ok(Verdict::passed(format!("{} programs", programs_of().count())))
}

fn started(installed: &Installed, program: &Path, pairs: u32) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed.lib());
    // Memory that cannot be had is an error to be returned.
    command.env("ASAN_OPTIONS", "allocator_may_return_null=1:detect_leaks=1");
    command
        .env("PAGELIFT_PAIRS", pairs.to_string())
        .env("PAGELIFT_CALLS", (pairs / PAIRS_A_CALL).to_string());
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

/// Every function of the header is called in some text, in one of these ways.
fn every_call_is_made(header: &str, calls: &str, ways: &[&str]) -> Result<()> {
    let functions: Vec<_> = c::functions(header).collect();
    ensure!(
        functions.len() > 90,
        "the header has {} functions only: is it written otherwise now?",
        functions.len()
    );
    let is_made = |function: &&str| ways.iter().any(|way| calls.contains(&way.replace("NAME", function)));
    let missing: Vec<_> = functions.into_iter().filter(|function| !is_made(function)).collect();
    ensure!(missing.is_empty(), "no program in c/ has {} for {}", ways.join(" or "), missing.join(", "));
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))
}

/// All of these files.
fn text_of<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<String> {
    files.into_iter().map(|file| read(file)).collect()
}

fn name(source: &Path) -> String {
    source.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The sources of a folder.
fn sources(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    let mut sources = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    sources.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    sources.sort();
    ensure!(!sources.is_empty(), "{} has no program", folder.display());
    Ok(sources)
}
