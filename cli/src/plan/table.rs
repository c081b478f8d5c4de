//! A plan for a person.

use comfy_table::{Table, presets};
use indicatif::HumanCount;

use super::explain::Explanation;
use super::words;
use crate::Failure;
use crate::report::{bytes, count, say};

/// Prints an explanation.
pub fn print(explanation: &Explanation) -> Result<(), Failure> {
    let e = explanation;
    let mut whole = table(["plan", e.model.as_str()]);
    let mut row = |what: &str, value: String| {
        whole.add_row([what.to_owned(), value]);
    };
    row(
        "prompt",
        format!("{} tokens, {} imported, resumed at {}", e.prompt_tokens, e.imported_tokens, e.resume_at),
    );
    row(
        "host blocks",
        format!("{} of {} tokens: {} slots, {} holes", e.host_blocks, e.block_tokens, e.capacity, e.holes),
    );
    row("writable page", format!("page {} with {} imported tokens", e.tail_page, e.tail_rows));
    row(
        "lift",
        format!(
            "{} in {} and {}, {} ({})",
            bytes(e.bytes),
            count(e.jobs as u64, "job"),
            count(e.units.into(), "unit"),
            count(e.launches.into(), "launch"),
            e.mode
        ),
    );
    row("job table", format!("{} staged", bytes(e.table_bytes as u64)));
    row(
        "pools",
        format!("{} on the host, {} on the device", bytes(e.host_pool_bytes), bytes(e.device_pool_bytes)),
    );
    let mut groups = table(["group", "page of a layer", "lands on", "lifted", "bytes", "units", "access"]);
    for group in &e.groups {
        let page = words::page(group);
        groups.add_row([
            format!("{}\n{}", group.name, count(group.layers.into(), "layer")),
            format!("{}\n{}", page.0, page.1),
            group.landing.to_owned(),
            words::lifted(group),
            amount(group.bytes, bytes),
            amount(group.units, |units| HumanCount(units).to_string()),
            words::widths(&group.widths),
        ]);
    }
    say(&whole)?;
    say(&groups)
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header);
    table
}

/// A number that means something where there is anything.
fn amount(number: u64, say: impl Fn(u64) -> String) -> String {
    if number == 0 { "–".into() } else { say(number) }
}
