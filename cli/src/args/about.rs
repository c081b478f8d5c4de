//! Commands that say what there is, and what has been.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap_complete::Shell;

use super::Backend;

/// Arguments of `layouts`.
#[derive(Debug, ClapArgs)]
pub struct Layouts {
    /// The layout to describe; all are listed without it.
    pub name: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, ClapArgs)]
pub struct Doctor {
    /// Imports of which to say whether they fit in this machine's memory.
    pub manifests: Vec<PathBuf>,
    /// What would run the kernels.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `replay`.
#[derive(Debug, ClapArgs)]
pub struct Replay {
    /// The log: a line of JSON for what the lifecycle looks after, and one for each event.
    pub log: PathBuf,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `completions`.
#[derive(Debug, ClapArgs)]
pub struct Completions {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, ClapArgs)]
pub struct Man {
    /// The command to print the page of; without it, that of the program.
    pub command: Option<String>,
}
