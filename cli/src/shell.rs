//! `pagelift completions` and `pagelift man`: what a shell and a reader of manuals want.

use std::io;

use clap::CommandFactory;

use crate::args::{Args, Completions, Man};
use crate::say::say;
use crate::{Failure, exit};

/// `pagelift completions`.
pub fn completions(args: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "pagelift", &mut text);
    say(&String::from_utf8_lossy(&text).trim_end())
}

/// `pagelift man`.
pub fn man(args: &Man) -> Result<(), Failure> {
    let mut program = Args::command();
    // Gives subcommands their full names.
    program.build();
    let command = match &args.command {
        Some(name) => program.find_subcommand(name).cloned(),
        None => Some(program),
    };
    let page = |command: clap::Command| {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text)?;
        Ok(text)
    };
    let missing = || io::Error::other("there is no such command");
    let text = command.ok_or_else(missing).and_then(page);
    let text = text.map_err(|error| Failure { message: error.to_string(), code: exit::FAILED })?;
    say(&String::from_utf8_lossy(&text).trim_end())
}
