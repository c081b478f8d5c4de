//! How the program prints what it has to say, and how numbers read.

use std::fmt;
#[cfg(feature = "nixl")]
use std::fs::File;
use std::io::{self, Write};
#[cfg(feature = "nixl")]
use std::sync::OnceLock;

use comfy_table::{Table, presets};
use indicatif::{HumanBytes, HumanCount};
use serde::Serialize;

use crate::{Failure, exit};

/// Standard output as it was, where that was taken away from libraries.
#[cfg(feature = "nixl")]
static APART: OnceLock<File> = OnceLock::new();

/// From now on nothing but what is said here goes to standard output: UCX writes its warnings there, and what reads a result would
/// not understand them. They go to standard error.
#[cfg(feature = "nixl")]
pub fn keep_results_apart() -> Result<(), Failure> {
    let apart = || {
        let own = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map(|()| File::from(own))
    };
    let own = apart().map_err(|error| {
        let message = format!("standard output cannot be kept for the result: {error}");
        Failure { message, code: exit::FAILED }
    })?;
    // It is done once.
    let _: Result<(), File> = APART.set(own);
    Ok(())
}

/// Prints a line.
pub fn line(text: &impl fmt::Display) -> io::Result<()> {
    #[cfg(feature = "nixl")]
    if let Some(mut apart) = APART.get() {
        return apart.write_all(format!("{text}\n").as_bytes());
    }
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints a result. A reader that has seen enough is no failure.
pub fn say(text: &impl fmt::Display) -> Result<(), Failure> {
    match line(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let message = format!("the result cannot be printed: {error}");
            Err(Failure { message, code: exit::FAILED })
        }
        _ => Ok(()),
    }
}

/// Says something beside the result, on standard error: where nobody takes that, it is lost.
pub fn note(text: impl fmt::Display) {
    let _: io::Result<()> = writeln!(io::stderr().lock(), "{text}");
}

/// Prints any result as one JSON object.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Failure { message: error.to_string(), code: exit::FAILED })?;
    say(&text)
}

/// An empty table with these headings.
pub fn table<'h>(headings: impl IntoIterator<Item = &'h str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(headings);
    table
}

/// The same table as Markdown has it.
pub fn markdown(mut table: Table) -> String {
    table.load_style(presets::ASCII_MARKDOWN).to_string()
}

/// A number, its digits in groups of three.
pub fn number(number: u64) -> String {
    HumanCount(number).to_string()
}

/// So many of something.
pub fn count(count: u64, word: &str) -> String {
    let words = match word.strip_suffix('y') {
        _ if count == 1 => word.to_owned(),
        Some(stem) => format!("{stem}ies"),
        None if word.ends_with("ch") => format!("{word}es"),
        None => format!("{word}s"),
    };
    format!("{} {words}", number(count))
}

/// A time, as a person reads it.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.1} µs", seconds * 1e6),
        ..1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// Bytes, as a person reads them.
pub fn bytes(count: u64) -> String {
    HumanBytes(count).to_string()
}

/// Bytes, to the byte.
pub fn exact_bytes(count: u64) -> String {
    format!("{} B", number(count))
}

#[cfg(test)]
mod tests {
    use super::{count, seconds};

    #[test]
    fn counts_and_times_are_words() {
        assert_eq!(
            [count(1, "launch"), count(2, "launch"), count(0, "hole"), count(32_019, "token")],
            ["1 launch", "2 launches", "0 holes", "32,019 tokens"]
        );
        assert_eq!([count(1, "entry"), count(3, "entry")], ["1 entry", "3 entries"]);
        assert_eq!(
            [0.000_003_4, 0.000_46, 0.001, 0.99, 1.25].map(seconds),
            ["3.4 µs", "460.0 µs", "1.0 ms", "990.0 ms", "1.2 s"]
        );
    }
}
