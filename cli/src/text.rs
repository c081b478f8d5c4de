//! Text of files and paths, as it may be shown on a terminal.

use std::fmt::Write;
use std::path::Path;

/// Characters of unknown text that a message shows at most.
const SHOWN: usize = 60;

/// Whether a character moves the cursor, changes the terminal, or reorders what is written around it.
pub fn is_control(c: char) -> bool {
    let reorders = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    );
    c.is_control() || reorders
}

/// The text with its control characters written as escapes.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_control(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// The beginning of the text, with its control characters written as escapes.
pub fn shortened(text: &str) -> String {
    let mut chars = text.chars();
    let mut out = escaped(&chars.by_ref().take(SHOWN).collect::<String>());
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// A path with its control characters written as escapes.
pub fn path(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// Words in backquotes, as a choice: `` `a`, `b` or `c` ``.
pub fn choice<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// The first names in backquotes, and how many more there are.
pub fn names(names: &[String]) -> String {
    const MOST: usize = 8;
    let mut out = String::new();
    for (index, name) in names.iter().take(MOST).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        // Writing to a string does not fail.
        let _ = write!(out, "{comma}`{name}`");
    }
    match names.len().saturating_sub(MOST) {
        0 => out,
        more => format!("{out} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{choice, escaped, names, path, shortened};

    #[test]
    fn nothing_that_a_terminal_would_obey_is_left() {
        assert_eq!(escaped("a\u{1b}[31m\r\nb\u{202e}é"), "a\\u{1b}[31m\\r\\nb\\u{202e}é");
        assert_eq!(path(Path::new("x\u{7}\u{9b}.json")), "x\\u{7}\\u{9b}.json");
        assert_eq!(shortened(&"x".repeat(100)), format!("{}…", "x".repeat(60)));
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(choice(["a", "b", "c"]), "`a`, `b` or `c`");
        assert_eq!((choice(["a"]), choice([])), ("`a`".to_owned(), String::new()));
        let many: Vec<String> = (0..10).map(|index| index.to_string()).collect();
        assert_eq!(names(&many), "`0`, `1`, `2`, `3`, `4`, `5`, `6`, `7` and 2 more");
        assert_eq!(names(&many[..2]), "`0`, `1`");
    }
}
