//! A plan for a person.

use std::path::Path;

use super::explain::Explanation;
use super::words;
use crate::say::{bytes, count, number, say, table};
use crate::{Failure, text};

/// Prints an explanation, and where its picture is.
pub fn print(explanation: &Explanation, picture: Option<&Path>) -> Result<(), Failure> {
    let e = explanation;
    let mut whole = table(["plan", e.model.as_str()]);
    let mut row = |what: &str, value: String| {
        whole.add_row([what.to_owned(), value]);
    };
    e.imported.rows().into_iter().for_each(|(what, value)| row(what, value));
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
    if let Some(path) = picture {
        row("picture", text::path(path));
    }
    let mut groups = table(["group", "page of a layer", "lands on", "lifted", "bytes", "units", "access"]);
    for group in &e.groups {
        let page = words::page(group);
        groups.add_row([
            format!("{}\n{}", group.name, count(group.layers.into(), "layer")),
            format!("{}\n{}", page.0, page.1),
            group.landing.to_owned(),
            words::lifted(group),
            amount(group.bytes, bytes),
            amount(group.units, number),
            words::widths(&group.widths),
        ]);
    }
    say(&whole)?;
    say(&groups)
}

/// A number that means something where there is anything.
fn amount(amount: u64, words: impl Fn(u64) -> String) -> String {
    if amount == 0 { "–".into() } else { words(amount) }
}
