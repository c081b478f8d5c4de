//! `pagelift.h`: what cbindgen makes of the sources, with the names that C wants.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use cbindgen::{Builder, Config};

use crate::workspace::Workspace;

fn place(workspace: &Workspace) -> PathBuf {
    workspace.root().join("c/include/pagelift.h")
}

/// Makes the header anew.
pub fn write(workspace: &Workspace) -> Result<()> {
    let to = place(workspace);
    fs::write(&to, made(workspace)?).with_context(|| format!("could not write {}", to.display()))
}

/// Fails unless the committed header is the one that cbindgen makes.
pub fn check(workspace: &Workspace) -> Result<()> {
    let of = place(workspace);
    let committed = fs::read_to_string(&of).with_context(|| format!("could not read {}", of.display()))?;
    let made = made(workspace)?;
    if committed == made {
        return Ok(());
    }
    let differs = committed.lines().zip(made.lines()).position(|(committed, made)| committed != made);
    let line = differs.unwrap_or(committed.lines().count().min(made.lines().count())) + 1;
    bail!("c/include/pagelift.h differs from the sources in line {line}; run cargo xtask c --header")
}

/// The function that a line of a header begins, without `pagelift_`.
pub fn function(line: &str) -> Option<&str> {
    let (before, _) = line.split_once('(').filter(|_| !line.starts_with([' ', '/', '#']))?;
    before.rsplit([' ', '*']).next()?.strip_prefix("pagelift_")
}

/// The functions of a header.
pub fn functions(header: &str) -> impl Iterator<Item = &str> {
    header.lines().filter_map(function)
}

fn made(workspace: &Workspace) -> Result<String> {
    let folder = workspace.root().join("c");
    let settings = folder.join("cbindgen.toml");
    let config = match Config::from_file(&settings) {
        Ok(config) => config,
        Err(error) => bail!("{}: {error}", settings.display()),
    };
    let bindings = Builder::new()
        .with_crate(&folder)
        .with_config(config)
        .generate()
        .context("cbindgen took the sources")?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    Ok(in_c(&String::from_utf8(text).context("cbindgen wrote text")?))
}

/// What cbindgen cannot be told: pointers with a type of their own in Rust are plain ones in C, types are written as functions are, and
/// statuses and constants have short names.
fn in_c(text: &str) -> String {
    let mut pointers = HashMap::new();
    let mut kept: Vec<&str> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        match pointer(line) {
            Some((name, target)) => {
                pointers.insert(name.to_owned(), target.to_owned());
                // Its documentation is for readers of Rust, and a blank line follows it.
                while kept.last().is_some_and(|line| line.starts_with("//")) {
                    kept.pop();
                }
                lines.next_if_eq(&"");
            }
            None => kept.push(line),
        }
    }
    let mut written = String::new();
    for line in kept {
        for (name, after) in words(line) {
            match pointers.get(name) {
                // A star stands at the name that follows.
                Some(target) => {
                    let after = after.strip_prefix(' ').unwrap_or(after);
                    written.push_str(&snake(target));
                    written.push_str(after);
                }
                None => {
                    written.push_str(&snake(name));
                    written.push_str(after);
                }
            }
        }
        written.push('\n');
    }
    written
}

/// `typedef const uint32_t *pagelift_In_u32;` is a pointer `const uint32_t *` by that name.
fn pointer(line: &str) -> Option<(&str, &str)> {
    let (target, name) = line.strip_prefix("typedef ")?.strip_suffix(';')?.split_once('*')?;
    let ours = ["pagelift_In_", "pagelift_Out_", "pagelift_Text"].iter().any(|ours| name.starts_with(ours));
    let target = &line["typedef ".len()..][..target.len() + 1];
    ours.then_some((name, target))
}

/// Pairs of a name and what is between it and the next one.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let in_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let name = rest.find(|letter| !in_name(letter)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name);
        let next = after.find(in_name).unwrap_or(after.len());
        let (between, after) = after.split_at(next);
        rest = after;
        Some((name, between))
    })
}

/// A name of ours as C has it.
fn snake(name: &str) -> String {
    // A target of a pointer may be of several words.
    if name.contains(' ') {
        return words(name).map(|(name, after)| snake(name) + after).collect();
    }
    if let Some(status) = name.strip_prefix("PAGELIFT_STATUS_") {
        return format!("PAGELIFT_{status}");
    }
    let Some(own) = name.strip_prefix("pagelift_") else { return name.to_owned() };
    if own.starts_with("PAGELIFT_") {
        return own.to_owned();
    }
    let mut snake = String::from("pagelift");
    for letter in own.chars() {
        if letter.is_uppercase() || snake == "pagelift" {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_names_are_those_of_c() {
        let text = "\
// For Rust.\ntypedef const pagelift_SideSpec *pagelift_In_SideSpec;\n\ntypedef uint64_t *pagelift_Out_u64;\n\n\
#define pagelift_PAGELIFT_ABI 1\nPAGELIFT_STATUS_OK = 0,\nPAGELIFT_TICKET_STATE_DONE = 1,\n\
int pagelift_launcher_id(pagelift_In_SideSpec side, pagelift_Out_u64 id); // Neither Word nor pagelift_launcher_stage\n";
        let expected = "\
#define PAGELIFT_ABI 1\nPAGELIFT_OK = 0,\nPAGELIFT_TICKET_STATE_DONE = 1,\n\
int pagelift_launcher_id(const pagelift_side_spec *side, uint64_t *id); // Neither Word nor pagelift_launcher_stage\n";
        assert_eq!(in_c(text), expected);
    }
}
