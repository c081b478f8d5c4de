//! What is said of a group, in the table and in the picture.

use super::explain::Explained;
use crate::say::{bytes, count, exact_bytes};

/// What a page of one layer holds: its rows, and what a row is.
pub fn page(group: &Explained) -> (String, String) {
    let (block, page) = (group.rows.get("host"), group.rows.get("device"));
    let rows = block.or(page).copied().unwrap_or(0);
    let what = match (group.kind, group.tokens_per_row) {
        ("state", _) => "one state a request".to_owned(),
        ("ring", _) => format!("a ring of {rows} slots"),
        (_, None | Some(1)) => format!("{} a block", count(rows.into(), "row")),
        (_, Some(tokens)) => format!("{} of {tokens} tokens", count(rows.into(), "row")),
    };
    let what = match (block, page) {
        (Some(block), Some(page)) if block != page => format!("{what}, {page} a page"),
        _ => what,
    };
    (what, segments(group.segments.iter().map(|segment| (segment.name.as_str(), segment.row_bytes))))
}

/// The segments of a row, equal ones together.
pub fn segments<'s>(segments: impl Iterator<Item = (&'s str, u32)>) -> String {
    const SHOWN: usize = 4;
    let segments: Vec<(&str, u32)> = segments.collect();
    let words = |run: &[(&str, u32)]| match run {
        [(name, each)] => format!("{name} {}", size((*each).into())),
        [(first, each), .., (last, _)] => format!("{first} … {last} {} each", size((*each).into())),
        [] => String::new(),
    };
    let mut words: Vec<String> = segments.chunk_by(|a, b| a.1 == b.1).map(words).collect();
    let more = words.len().saturating_sub(SHOWN);
    words.truncate(SHOWN);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    words.join(" + ")
}

/// Bytes of a row, to the byte where a person can read that.
pub fn size(count: u64) -> String {
    if count < 10_000 { exact_bytes(count) } else { bytes(count) }
}

/// What of a group is lifted.
pub fn lifted(group: &Explained) -> String {
    let rows = group.rows_lifted.saturating_sub(group.holes_lifted);
    let copied = match (group.kind, rows, group.holes_lifted) {
        (_, 0, _) if group.landing == "gpu" => return "nothing: landed on the GPU".into(),
        (_, 0, _) if group.lift == "none" => return "nothing".into(),
        ("state" | "ring", ..) => return "the whole page".into(),
        (_, 0, 0) => "no rows yet".into(),
        (_, rows, 0) => count(rows, "row"),
        (_, rows, holes) => format!("{} and {}", count(rows, "row"), count(holes, "hole")),
    };
    let pages = match group.pages_lifted {
        0 | 1 => String::new(),
        pages => format!(" on {}", count(pages as u64, "page")),
    };
    let zeroed = match group.rows_zeroed {
        0 => String::new(),
        rows => format!(", {} zeroed", count(rows, "row")),
    };
    format!("{}: {copied}{pages}{zeroed}", group.lift)
}

/// How wide accesses are.
pub fn widths(widths: &[u32]) -> String {
    let widths: Vec<String> = widths.iter().map(u32::to_string).collect();
    if widths.is_empty() { "–".into() } else { format!("{} B", widths.join(", ")) }
}
