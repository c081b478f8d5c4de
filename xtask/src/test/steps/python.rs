//! The Python package as its users get it: a wheel, built by maturin, in a virtual environment of its own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::driver;
use crate::test::Verdict;
use crate::workspace::Workspace;
use crate::{nixl, process};

/// What builds the wheel; `python/pyproject.toml` asks for the same.
const MATURIN: &str = "maturin>=1.9.4,<2";

/// What the tests need besides the wheel. PyTorch is not among them: its tests are for machines with a GPU.
const TESTS: &[&str] = &["numpy", "pytest"];

/// What a Python has to be able to do: the package needs 3.10, and the step virtual environments with pip.
const ABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";

/// Builds the wheel, installs it in a clean environment, and runs the tests there, those of a GPU over the driver in software.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let tools = match tools(workspace)? {
        Ok(tools) => tools,
        Err(lacking) => return Ok(lacking),
    };
    let wheel = build(workspace, &mut maturin(workspace, &tools, &["--release"]))?;
    let clean = clean(workspace, &tools, wheel)?;
    process::run(&mut tests(workspace, &clean, &["."]))?;
    // What takes a GPU, where the driver in software is found: elsewhere it is skipped.
    let driver = driver::in_software(workspace)?;
    let found = "import ctypes; ctypes.CDLL('libcuda.so.1').fake_driver_live";
    process::run(
        Command::new(program(&clean, "python")).args(["-c", found]).env("LD_LIBRARY_PATH", &driver),
    )?;
    let mut on_gpu = tests(workspace, &clean, &["test_gpu.py", "test_gpu_random.py"]);
    process::run(on_gpu.env("LD_LIBRARY_PATH", &driver))?;
    Ok(Verdict::plain())
}

/// The same with NIXL, for the tests that take it. Not optimised: so the step `nixl` has built most of it.
pub fn with_nixl(workspace: &Workspace) -> Result<Verdict> {
    if let Some((reason, remedy)) = nixl::obstacle(workspace) {
        return Ok(Verdict::skipped(reason, remedy));
    }
    let tools = match tools(workspace)? {
        Ok(tools) => tools,
        Err(lacking) => return Ok(lacking),
    };
    let mut maturin = maturin(workspace, &tools, &["--features", "nixl"]);
    let wheel = build(workspace, maturin.envs(nixl::environment(workspace)))?;
    let clean = clean(workspace, &tools, wheel)?;
    // Where it is not built in, its tests would be skipped.
    process::run(Command::new(program(&clean, "python")).args(["-c", "import pagelift.transport"]))?;
    let mut tests = tests(workspace, &clean, &["test_transport.py", "test_stubs.py"]);
    process::run(tests.envs(nixl::environment(workspace)))?;
    Ok(Verdict::plain())
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("python")
}

/// The environment that has maturin; or what this machine lacks for one.
fn tools(workspace: &Workspace) -> Result<Result<PathBuf, Verdict>> {
    let Some(python) = ["python3", "python"].into_iter().find(|name| able(name)) else {
        return Ok(Err(Verdict::skipped(
            "there is no Python of version 3.10 or later with venv and pip",
            "install python3-venv",
        )));
    };
    let tools = folder(workspace).join("tools");
    if !process::succeeds(Command::new(program(&tools, "maturin")).arg("--version")) {
        let installed = environment(python, &tools).and_then(|()| install(&tools, &[MATURIN.into()]));
        if let Err(error) = installed {
            let reason = format!("maturin could not be installed ({error:#})");
            return Ok(Err(Verdict::skipped(reason, "reach PyPI")));
        }
    }
    Ok(Ok(tools))
}

/// A new environment with a wheel, and what the tests need besides.
fn clean(workspace: &Workspace, tools: &Path, wheel: PathBuf) -> Result<PathBuf> {
    let clean = folder(workspace).join("clean");
    environment(program(tools, "python"), &clean)?;
    let packages = TESTS.iter().map(PathBuf::from).chain([wheel]);
    install(&clean, &packages.collect::<Vec<_>>())?;
    Ok(clean)
}

/// Tests, by their files.
fn tests(workspace: &Workspace, clean: &Path, files: &[&str]) -> Command {
    let mut tests = Command::new(program(clean, "python"));
    tests
        .args(["-m", "pytest"])
        .args(files.iter().map(|file| workspace.root().join("python/tests").join(file)))
        // Elsewhere than the sources, so that what is imported is what was installed.
        .current_dir(folder(workspace))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    tests
}

fn able(python: &str) -> bool {
    process::succeeds(Command::new(python).args(["-c", ABLE]))
}

/// Makes a virtual environment anew.
fn environment(python: impl AsRef<OsStr>, folder: &Path) -> Result<()> {
    process::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))
}

fn program(environment: &Path, name: &str) -> PathBuf {
    environment.join("bin").join(name)
}

fn install(environment: &Path, packages: &[PathBuf]) -> Result<()> {
    let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    process::run(Command::new(program(environment, "python")).args(arguments).args(packages))
}

fn maturin(workspace: &Workspace, tools: &Path, options: &[&str]) -> Command {
    let mut maturin = Command::new(program(tools, "maturin"));
    maturin
        .args(["build", "--locked", "--compatibility", "linux", "--manifest-path"])
        .arg(workspace.root().join("python/Cargo.toml"))
        .args(options)
        .arg("--interpreter")
        .arg(program(tools, "python"))
        .current_dir(workspace.root())
        .env("CARGO_TARGET_DIR", workspace.target());
    maturin
}

/// Builds the only wheel of a folder.
fn build(workspace: &Workspace, maturin: &mut Command) -> Result<PathBuf> {
    let wheels = folder(workspace).join("wheels");
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels).with_context(|| format!("could not remove {}", wheels.display()))?;
    }
    process::run(maturin.arg("--out").arg(&wheels))?;
    let made = fs::read_dir(&wheels).with_context(|| format!("could not list {}", wheels.display()))?;
    let made = made.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    match <[PathBuf; 1]>::try_from(made) {
        Ok([wheel]) => Ok(wheel),
        Err(made) => bail!("maturin made {} files in {}, expected a wheel", made.len(), wheels.display()),
    }
}
