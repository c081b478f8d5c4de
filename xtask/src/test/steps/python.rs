//! The Python package as its users get it: a wheel, built by maturin, in a virtual environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::test::Verdict;
use crate::workspace::Workspace;

/// What builds the wheel; `python/pyproject.toml` asks for the same.
const MATURIN: &str = "maturin>=1.9.4,<2";

/// What the tests need besides the wheel. PyTorch is not among them: its tests are for machines with a GPU.
const TESTS: &[&str] = &["numpy", "pytest"];

/// What a Python has to be able to do: the package needs 3.10, and the step virtual environments with pip.
const ABLE: &str = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";

/// Builds the wheel, installs it in a clean environment, and runs the tests there.
pub fn run(workspace: &Workspace) -> Result<Verdict> {
    let Some(python) = ["python3", "python"].into_iter().find(|name| able(name)) else {
        return Ok(Verdict::skipped(
            "there is no Python of version 3.10 or later with venv and pip",
            "install python3-venv",
        ));
    };
    let folder = workspace.target().join("python");
    let tools = folder.join("tools");
    if !process::succeeds(Command::new(program(&tools, "maturin")).arg("--version")) {
        let installed = environment(python, &tools).and_then(|()| install(&tools, &[MATURIN.into()]));
        if let Err(error) = installed {
            return Ok(Verdict::skipped(format!("maturin could not be installed ({error:#})"), "reach PyPI"));
        }
    }
    let wheel = build(workspace, &tools, &folder.join("wheels"))?;
    let clean = folder.join("clean");
    environment(python, &clean)?;
    let packages = TESTS.iter().map(PathBuf::from).chain([wheel]);
    install(&clean, &packages.collect::<Vec<_>>())?;
    let mut tests = Command::new(program(&clean, "python"));
    tests
        .args(["-m", "pytest"])
        .arg(workspace.root().join("python/tests"))
        // Elsewhere than the sources, so that what is imported is what was installed.
        .current_dir(&folder)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    process::run(&mut tests)?;
    Ok(Verdict::plain())
}

fn able(python: &str) -> bool {
    process::succeeds(Command::new(python).args(["-c", ABLE]))
}

/// Makes a virtual environment anew.
fn environment(python: &str, folder: &Path) -> Result<()> {
    process::run(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))
}

fn program(environment: &Path, name: &str) -> PathBuf {
    environment.join("bin").join(name)
}

fn install(environment: &Path, packages: &[PathBuf]) -> Result<()> {
    let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    process::run(Command::new(program(environment, "python")).args(arguments).args(packages))
}

/// Builds the only wheel of a folder.
fn build(workspace: &Workspace, tools: &Path, wheels: &Path) -> Result<PathBuf> {
    if wheels.is_dir() {
        fs::remove_dir_all(wheels).with_context(|| format!("could not remove {}", wheels.display()))?;
    }
    let mut maturin = Command::new(program(tools, "maturin"));
    maturin
        .args(["build", "--release", "--locked", "--compatibility", "linux", "--manifest-path"])
        .arg(workspace.root().join("python/Cargo.toml"))
        .arg("--out")
        .arg(wheels)
        .arg("--interpreter")
        .arg(program(tools, "python"))
        .current_dir(workspace.root())
        .env("CARGO_TARGET_DIR", workspace.target());
    process::run(&mut maturin)?;
    let made = fs::read_dir(wheels).with_context(|| format!("could not list {}", wheels.display()))?;
    let made = made.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    match <[PathBuf; 1]>::try_from(made) {
        Ok([wheel]) => Ok(wheel),
        Err(made) => bail!("maturin made {} files in {}, expected a wheel", made.len(), wheels.display()),
    }
}
