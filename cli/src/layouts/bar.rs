//! A page to scale, in text.

use std::fmt::Write;

use super::Placed;
use crate::say::{exact_bytes, number};

/// Characters of a page.
const WIDTH: u64 = 64;
/// What runs are drawn with, in turn.
const SHADES: [char; 4] = ['█', '▒', '▓', '░'];
/// What is nobody's.
const PADDING: char = '·';

/// A run of the page: one segment, or several whose rows lie side by side.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    name: String,
    row_bytes: u64,
    start: u64,
    end: u64,
}

/// Draws a page of `rows` rows and `page_bytes` bytes, and says what each part of it is.
pub fn draw(segments: &[Placed], rows: u32, page_bytes: u64) -> String {
    let runs = runs(segments, rows);
    let shade = |index: usize| SHADES.get(index % SHADES.len()).copied().unwrap_or(PADDING);
    let mut cells = vec![PADDING; WIDTH as usize];
    let cell = |byte: u64| (u128::from(byte) * u128::from(WIDTH) / u128::from(page_bytes.max(1))) as usize;
    for (index, run) in runs.iter().enumerate() {
        // A run that is narrower than a character has one all the same.
        let (first, end) = (cell(run.start), cell(run.end).max(cell(run.start) + 1));
        cells.iter_mut().take(end).skip(first).for_each(|cell| *cell = shade(index));
    }
    let mut text = format!("\n  {}\n", cells.into_iter().collect::<String>());
    let widest = runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0);
    for (index, Run { name, row_bytes, start, end }) in runs.iter().enumerate() {
        let rows = if rows == 1 { String::new() } else { format!("{rows} rows of ") };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {} {name:widest$}  {rows}{}, at {} to {}",
            shade(index),
            exact_bytes(*row_bytes),
            number(*start),
            number(*end)
        );
    }
    let used = runs.iter().map(|run| run.end).max().unwrap_or(0);
    if used < page_bytes {
        let _ = writeln!(text, "  {PADDING} padding, at {} to {}", number(used), number(page_bytes));
    }
    text
}

/// The runs of a page, in its order.
fn runs(segments: &[Placed], rows: u32) -> Vec<Run> {
    let mut runs: Vec<(Run, String)> = Vec::new();
    let mut segments: Vec<&Placed> = segments.iter().collect();
    segments.sort_by_key(|segment| segment.offset);
    for Placed { name, row_bytes, offset, row_stride } in segments {
        let row_bytes = u64::from(*row_bytes);
        let end = offset + u64::from(rows.saturating_sub(1)) * u64::from(*row_stride) + row_bytes;
        match runs.last_mut() {
            Some((last, first)) if *offset < last.end => {
                last.name = format!("{first} … {name}, side by side");
                last.row_bytes += row_bytes;
                last.end = last.end.max(end);
            }
            _ => runs.push((Run { name: name.clone(), row_bytes, start: *offset, end }, name.clone())),
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

#[cfg(test)]
mod tests {
    use super::{Placed, draw};

    fn placed(name: &str, offset: u64, row_bytes: u32, row_stride: u32) -> Placed {
        Placed { name: name.into(), row_bytes, offset, row_stride }
    }

    #[test]
    fn segments_have_their_share_of_the_page() {
        let page = [placed("key", 0, 96, 96), placed("scale", 1536, 32, 32)];
        let text = draw(&page, 16, 2048);
        let bar: String = "█".repeat(48) + &"▒".repeat(16);
        assert!(text.starts_with(&format!("\n  {bar}\n")), "{text}");
        assert!(text.contains("▒ scale  16 rows of 32 B, at 1,536 to 2,048"), "{text}");
    }

    #[test]
    fn narrow_segments_and_padding_are_seen() {
        let page = [placed("key", 0, 4000, 4000), placed("scale", 4000, 1, 1)];
        let text = draw(&page, 1, 8000);
        let bar: String = "█".repeat(32) + "▒" + &"·".repeat(31);
        assert!(text.contains(&bar) && text.contains("· padding, at 4,001 to 8,000"), "{text}");
    }

    #[test]
    fn rows_side_by_side_are_one_run() {
        let keys = [placed("k.0", 0, 32, 64), placed("k.1", 32, 32, 64)];
        let page = [&keys[..], &[placed("scale", 384, 8, 8), placed("v.0", 256, 32, 32)]].concat();
        let text = draw(&page, 4, 416);
        assert!(text.contains("█ k.0 … k.1, side by side  4 rows of 64 B, at 0 to 256"), "{text}");
        assert!(text.contains("▒ v.0 ") && text.contains("▓ scale "), "{text}");
    }
}
