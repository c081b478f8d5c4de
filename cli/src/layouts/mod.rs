//! `pagelift layouts`: the layouts that a manifest may name, as the library lays them out.

mod bar;
mod catalogue;

use std::path::Path;

use pagelift::geometry::Memory;
use pagelift::layout::Segment;
use pagelift::plan::{Plan as _, TailRows};
use serde::Serialize;
use serde_json::{Value, json};

use crate::manifest::{Draft, Group};
use crate::plan::{self, words};
use crate::restore::RestoreError;
use crate::say::{self, exact_bytes, say};
use crate::{Failure, args, exit, text};
use catalogue::{BLOCK_TOKENS, Entry, SPECULATIVE_TOKENS};

/// A layout, and a page of it.
#[derive(Debug, Serialize)]
struct Layout {
    /// Its `kind` in a manifest.
    name: &'static str,
    /// Whose it is.
    from: &'static str,
    /// What a page holds.
    about: &'static str,
    /// `paged`, `ring` or `state`.
    kind: &'static str,
    /// Tokens of a row; `None` for rings and states.
    tokens_per_row: Option<u32>,
    /// Rows of the example's page.
    rows: u32,
    /// Bytes of a row of all segments.
    row_bytes: u64,
    /// Bytes of the example's page.
    page_bytes: u64,
    /// What the page holds.
    segments: Vec<Placed>,
    /// Bytes of one access, each width that occurs, the widest first.
    widths: Vec<u32>,
    /// Its fields in a manifest.
    fields: Vec<Field>,
    /// An example, as a manifest has it.
    example: Value,
    /// The same, as it was written.
    #[serde(skip)]
    source: &'static str,
}

/// A segment of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// Its name.
    pub name: String,
    /// Bytes of a row of it.
    pub row_bytes: u32,
    /// Where its first row begins.
    pub offset: u64,
    /// Bytes from one row to the next.
    pub row_stride: u32,
}

/// A field of a layout in a manifest.
#[derive(Debug, Serialize)]
struct Field {
    name: &'static str,
    meaning: &'static str,
}

/// All layouts.
#[derive(Debug, Serialize)]
struct Layouts {
    /// Tokens of a block in the examples.
    block_tokens: u32,
    /// Draft tokens of a step in the examples.
    speculative_tokens: u32,
    layouts: Vec<Layout>,
}

/// `pagelift layouts`.
pub fn command(args: &args::Layouts) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        let unknown = || Failure {
            message: format!(
                "there is no layout `{}`: expected {}",
                text::shortened(name),
                text::choice(catalogue::all().map(|entry| entry.name))
            ),
            code: exit::USAGE,
        };
        let layout = Layout::of(catalogue::find(name).ok_or_else(unknown)?)?;
        return if args.json { say::json(&layout) } else { describe(&layout) };
    }
    let layouts = catalogue::all().map(Layout::of).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        let (block_tokens, speculative_tokens) = (BLOCK_TOKENS, SPECULATIVE_TOKENS);
        return say::json(&Layouts { block_tokens, speculative_tokens, layouts });
    }
    list(&layouts)
}

impl Layout {
    /// Lays out a page of the entry's example.
    fn of(entry: Entry) -> Result<Self, RestoreError> {
        let Entry { name, from, about, fields, example } = entry;
        let manifest = Draft::parse(sample(example).to_string().as_bytes(), Path::new(name))?.assign()?;
        let planned = plan::of(&manifest, TailRows::Whole)?;
        let explanation = plan::Explanation::of(&planned, TailRows::Whole)?;
        let (group, key) = (manifest.groups().first(), planned.keys.first());
        let geometry = planned.plan.geometry();
        let segments =
            key.and_then(|key| geometry.block_segments(key.id(), Memory::Host)).unwrap_or_default();
        let explained = explanation.groups.into_iter().next();
        let placed = |segment: &Segment| Placed {
            name: segment.name().into(),
            row_bytes: segment.row_bytes(),
            offset: segment.offset(),
            row_stride: segment.row_stride(),
        };
        Ok(Self {
            name,
            from,
            about,
            kind: group.map_or("", |group| group.shape.family.name()),
            tokens_per_row: explained.as_ref().and_then(|group| group.tokens_per_row),
            rows: key.and_then(|key| key.block_rows(geometry, Memory::Host)).unwrap_or(0),
            row_bytes: segments.iter().map(|segment| u64::from(segment.row_bytes())).sum(),
            page_bytes: group.and_then(page_bytes).unwrap_or(0),
            segments: segments.iter().map(placed).collect(),
            widths: explained.map(|group| group.widths).unwrap_or_default(),
            fields: fields.iter().map(|(name, meaning)| Field { name, meaning }).collect(),
            example: parsed(example),
            source: example,
        })
    }
}

/// Bytes of a group's host page, rounded up where the layout rounds it.
fn page_bytes(group: &Group) -> Option<u64> {
    let side = group.host.as_ref()?;
    Some(group.shape.page_bytes(side.rows, side.row_padding, side.kv_regions))
}

/// An example as a value.
fn parsed(example: &str) -> Value {
    serde_json::from_str(example).unwrap_or_default()
}

/// A manifest of one group of this layout, one block and one page. The pools' pages are as large and as well aligned as
/// a manifest may have them; nothing lies there.
fn sample(layout: &str) -> Value {
    let layout = parsed(layout);
    let kind = layout["kind"].as_str().unwrap_or_default();
    let lift = if ["ring", "gdn", "ssm", "ple", "state"].contains(&kind) { "state" } else { "all" };
    let pool = |memory: &str| {
        json!({ "name": memory, "memory": memory, "order": "layers-outermost", "layers": 1, "blocks": 1,
            "page_bytes": 1_u64 << 30 })
    };
    let side = |memory: &str| json!({ "pool": memory, "blocks": { "list": [0] } });
    json!({
        "version": 1, "model": "an example", "prompt_tokens": BLOCK_TOKENS, "block_tokens": BLOCK_TOKENS,
        "speculative_tokens": SPECULATIVE_TOKENS, "pools": [pool("host"), pool("device")],
        "groups": [{ "name": "example", "layers": 1, "layout": layout, "landing": "host", "lift": lift,
            "host": side("host"), "device": side("device") }],
    })
}

/// Prints the list for a person.
fn list(layouts: &[Layout]) -> Result<(), Failure> {
    let mut table = say::table(["layout", "from", "tokens a row", "segments", "bytes a row", "access"]);
    for layout in layouts {
        table.add_row([
            layout.name.to_owned(),
            layout.from.to_owned(),
            tokens(layout),
            segments(layout),
            words::size(layout.row_bytes),
            words::widths(&layout.widths),
        ]);
    }
    say(&table)?;
    say(&format!(
        "Sizes of examples: one rank, blocks of {BLOCK_TOKENS} tokens, {SPECULATIVE_TOKENS} draft tokens a step. \
         `pagelift layouts NAME` says more of one."
    ))
}

fn tokens(layout: &Layout) -> String {
    layout.tokens_per_row.map_or_else(|| "one page a request".into(), |tokens| tokens.to_string())
}

fn segments(layout: &Layout) -> String {
    words::segments(layout.segments.iter().map(|segment| (segment.name.as_str(), segment.row_bytes)))
}

/// Prints one layout for a person.
fn describe(layout: &Layout) -> Result<(), Failure> {
    let Layout { name, from, about, .. } = layout;
    say(&format!("{name} ({from})\n\n{about}\n"))?;
    let rows = match layout.kind {
        "state" => "a page".to_owned(),
        "ring" => format!("a page of {} slots", layout.rows),
        _ => format!("a page of {} rows", layout.rows),
    };
    let row = match layout.kind {
        "state" => String::new(),
        "ring" => format!("{} a slot: ", exact_bytes(layout.row_bytes)),
        _ => format!("{} a row: ", exact_bytes(layout.row_bytes)),
    };
    say(&format!("{rows}: {} ({row}{})", exact_bytes(layout.page_bytes), segments(layout)))?;
    say(&bar::draw(&layout.segments, layout.rows, layout.page_bytes))?;
    if layout.fields.is_empty() {
        say(&"fields besides `kind`: none")?;
    } else {
        say(&"fields besides `kind`:")?;
        let widest = layout.fields.iter().map(|field| field.name.len()).max().unwrap_or(0);
        for Field { name, meaning } in &layout.fields {
            say(&format!("  {name:widest$}  {meaning}"))?;
        }
    }
    say(&format!("\nin a manifest: \"layout\": {}", layout.source))
}
