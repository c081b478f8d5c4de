//! `cargo xtask ptx`: the kernels' PTX, which is committed so that nobody needs its compiler to use pagelift.

mod budget;
mod build;
mod check;
mod compiler;
mod entries;
mod inputs;
mod lint;
mod ptxas;
mod recipe;
mod record;
mod text;

use std::process::ExitCode;

use anyhow::{Context, Result};

pub use self::check::{assembled, committed, rebuilt};
use crate::test;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask ptx`.
#[derive(clap::Args)]
pub struct Args {
    /// Change nothing: check what is committed, rebuild and assemble it as far as this machine can.
    #[arg(long)]
    check: bool,
    /// With --check: fail if anything had to be skipped.
    #[arg(long, requires = "check")]
    strict: bool,
}

/// Builds or checks the PTX.
pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    if args.check {
        return test::ptx_only(workspace, args.strict);
    }
    build(workspace).map(|()| ExitCode::SUCCESS)
}

/// Builds the PTX and writes it, with its record, beside the kernels' sources.
///
/// Nothing is written unless the PTX is sound.
fn build(workspace: &Workspace) -> Result<()> {
    let recorded = record::read(workspace).ok().map(|record| record.compiler);
    let compiler = compiler::choose(workspace, recorded.as_ref()).context(compiler::INSTALL)?;
    eprintln!("building PTX with {}", compiler.identity);
    let files = check::build_all(workspace, &compiler)?;
    check::structure(workspace, &files)?;
    record::write(workspace, &compiler.identity, &files)?;
    println!("wrote {}", record::folder(workspace)?.display());
    Ok(())
}
