//! The C library as its users get it.

mod documented;
mod header;
mod library;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

pub use documented::table;
pub use header::{check, functions};
pub use library::{Installed, built, compiler, dynamically, install, statically};

use crate::workspace::Workspace;

/// The package that is the library.
const PACKAGE: &str = "pagelift-c";

#[derive(clap::Args)]
#[group(required = true)]
pub struct Args {
    /// Build the library in release and install it in this folder: `lib`, `include` and `lib/pkgconfig` below it.
    #[arg(long, value_name = "FOLDER")]
    prefix: Option<PathBuf>,
    /// Make `c/include/pagelift.h` anew, by cbindgen.
    #[arg(long)]
    header: bool,
}

pub fn main(workspace: &Workspace, args: &Args) -> Result<ExitCode> {
    if args.header {
        header::write(workspace)?;
    }
    if let Some(prefix) = &args.prefix {
        let prefix =
            std::path::absolute(prefix).with_context(|| format!("{} is no path", prefix.display()))?;
        install(workspace, &prefix)?;
        println!(
            "installed in {0}; PKG_CONFIG_PATH={0}/lib/pkgconfig lets pkg-config find it",
            prefix.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}
