//! Running other programs.
//!
//! What they print goes to our standard error, so that our standard output holds nothing but our own report.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a command, passing on everything it prints.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = describe(command);
    eprintln!("$ {shown}");
    let status = command
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .with_context(|| format!("could not start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status}); its messages are above");
    }
    Ok(())
}

/// Runs a command and returns what it wrote to standard output; its standard error is passed on.
pub fn read(command: &mut Command) -> Result<String> {
    let shown = describe(command);
    eprintln!("$ {shown}");
    let output = output(command.stderr(Stdio::inherit()), &shown)?;
    if !output.status.success() {
        bail!("`{shown}` failed ({}); its messages are above", output.status);
    }
    text(output.stdout, &shown)
}

/// Asks a program something in passing: nothing is shown unless it fails, then all it said is part of the error.
pub fn ask(command: &mut Command) -> Result<Answer> {
    let shown = describe(command);
    let output = output(command.stderr(Stdio::piped()), &shown)?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        bail!("`{shown}` failed ({}): {stderr}", output.status);
    }
    Ok(Answer { stdout: text(output.stdout, &shown)?, stderr })
}

/// Whether a command can be run and succeeds.
pub fn succeeds(command: &mut Command) -> bool {
    ask(command).is_ok()
}

/// What [`ask`] got.
pub struct Answer {
    pub stdout: String,
    pub stderr: String,
}

fn output(command: &mut Command, shown: &str) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("could not start `{shown}`"))
}

fn text(bytes: Vec<u8>, shown: &str) -> Result<String> {
    String::from_utf8(bytes).with_context(|| format!("`{shown}` printed something that is not UTF-8"))
}

/// The command as a person would type it, without its environment and the program's folder.
fn describe(command: &Command) -> String {
    let program = command.get_program();
    let name = Path::new(program).file_name().unwrap_or(program);
    let words = std::iter::once(name).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    if word.is_empty() || word.contains([' ', '"', '*', '$', ';', '\t']) {
        format!("'{word}'")
    } else {
        word.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/usr/bin/pip");
        command.args(["install", "a==1.*"]);
        assert_eq!(describe(&command), "pip install 'a==1.*'");
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let error = ask(&mut Command::new("no-such-program-anywhere")).err().unwrap();
        assert!(format!("{error:#}").contains("no-such-program-anywhere"), "{error:#}");
    }
}
