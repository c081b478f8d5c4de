//! `pagelift completions` and `pagelift man`: what a shell and a reader of manuals want.

use clap::{Command, CommandFactory};

use crate::args::{Args, Completions, Man};
use crate::say::say;
use crate::{Failure, exit, text};

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
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| Failure {
            message: format!(
                "there is no command `{}`: expected {}",
                text::shortened(name),
                text::choice(program.get_subcommands().map(Command::get_name))
            ),
            code: exit::USAGE,
        })?,
    };
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|error| Failure { message: error.to_string(), code: exit::FAILED })?;
    say(&String::from_utf8_lossy(&page).trim_end())
}
