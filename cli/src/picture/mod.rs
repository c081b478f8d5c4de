//! The picture of an import: for each group its host blocks along the prompt, and below them the pages on the GPU.
//!
//! | file | question |
//! |---|---|
//! | `scene` | what is in which block, and what is copied where? |
//! | `axis` | where does a token stand? |
//! | `strip` | how is a row of blocks drawn? |
//! | `style` | what does each thing look like? |
//! | `svg` | how is that written? |

mod axis;
mod scene;
mod strip;
mod style;
pub mod svg;

use crate::plan::{Explained, Explanation, Planned, words};
use crate::say::{bytes, count, number};
use axis::Axis;
use scene::{Fill, Lane, Strip};
use strip::Pen;
use svg::{At, Svg};

const WIDTH: f64 = 1180.0;
const MARGIN: f64 = 24.0;
/// Where the strips begin, and how wide they are at most.
const STRIP: f64 = 262.0;
const STRIP_WIDTH: f64 = 630.0;
/// Where the notes begin.
const NOTES: f64 = 918.0;
/// Where the first lane begins.
const TOP: f64 = 132.0;
/// Heights of a lane of rows, and of one of a single page.
const ROWS: f64 = 134.0;
const WHOLE: f64 = 104.0;
/// Height of a row of the legend, and its columns.
const LEGEND_ROW: f64 = 24.0;
const COLUMNS: usize = 4;

/// Draws a planned import.
pub fn draw(planned: &Planned<'_>, explanation: &Explanation) -> String {
    let lanes = scene::lanes(planned);
    let heights = lanes.iter().map(|lane| match lane.strip {
        Strip::Rows { .. } => ROWS,
        Strip::Whole { .. } => WHOLE,
    });
    let bottom = TOP + heights.clone().sum::<f64>();
    let axis = axis(&lanes, explanation);

    let mut svg = Svg::default();
    let fills = used(&lanes);
    let height = bottom + LEGEND_ROW * fills.len().div_ceil(COLUMNS) as f64 + 46.0;
    let view = format!("0 0 {} {}", At(WIDTH), At(height));
    svg.open(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("width", &At(WIDTH)),
            ("height", &At(height)),
            ("viewBox", &view),
            ("role", &"img"),
            ("aria-labelledby", &"title"),
        ],
    );
    svg.text("title", &[("id", &"title")], &format!("Restoring {}", explanation.model));
    style::define(&mut svg);
    svg.leaf("rect", &[("width", &At(WIDTH)), ("height", &At(height)), ("fill", &"#ffffff")]);
    header(&mut svg, explanation);
    ruler(&mut svg, &axis, explanation);

    let mut y = TOP;
    for (lane, height) in lanes.iter().zip(heights) {
        rule(&mut svg, y);
        if let Some(group) = explanation.groups.get(lane.group) {
            svg.open("g", &[("class", &"group"), ("data-group", &group.name)]);
            about(&mut svg, group, y);
            let mut pen = Pen { svg: &mut svg, axis: &axis, y };
            pen.strip(&lane.strip);
            if matches!(lane.strip, Strip::Rows { .. }) {
                pen.resume(explanation.imported.resume_at);
            }
            notes(&mut svg, group, y);
            svg.close();
        }
        y += height;
    }
    legend(&mut svg, &fills, bottom);
    svg.finish()
}

/// The axis along which all groups' blocks lie: in steps of the largest of them.
fn axis(lanes: &[Lane], explanation: &Explanation) -> Axis {
    let blocks = lanes.iter().flat_map(|lane| match &lane.strip {
        Strip::Rows { host, device, .. } => host.iter().chain(device).collect(),
        Strip::Whole { .. } => Vec::new(),
    });
    let (mut largest, mut end) = (explanation.imported.block_tokens, explanation.imported.prompt_tokens);
    for block in blocks {
        largest = largest.max(block.tokens.end.saturating_sub(block.tokens.start));
        end = end.max(block.tokens.end);
    }
    Axis::new(STRIP, STRIP_WIDTH, largest, end.div_ceil(largest.max(1)))
}

/// Title and numbers.
fn header(svg: &mut Svg, e: &Explanation) {
    let line = |svg: &mut Svg, class: &'static str, y: f64, text: &str| {
        svg.text("text", &[("class", &class), ("x", &At(MARGIN)), ("y", &At(y))], text);
    };
    let class = if e.model.chars().count() <= 90 { "title" } else { "name" };
    line(svg, class, 36.0, &clipped(&e.model, 130));
    let holes = if e.imported.holes == 0 { "no holes".into() } else { count(e.imported.holes, "hole") };
    let imported = format!(
        "{} tokens, {} imported in {} of {} with {holes}; decoding resumes at token {}, on page {}, which has {}.",
        number(e.imported.prompt_tokens),
        number(e.imported.imported_tokens),
        count(e.imported.host_blocks.into(), "block"),
        number(e.imported.block_tokens),
        number(e.imported.resume_at),
        number(e.imported.tail_page.into()),
        count(e.imported.tail_tokens, "imported token"),
    );
    line(svg, "lead", 58.0, &imported);
    let lifted = match e.launches {
        0 => "Nothing is lifted.".to_owned(),
        _ => format!(
            "One launch lifts {} in {} and {}, from a job table of {} (mode {}).",
            bytes(e.bytes),
            count(e.jobs as u64, "job"),
            count(e.units.into(), "unit"),
            bytes(e.table_bytes as u64),
            e.mode
        ),
    };
    line(svg, "lead", 76.0, &lifted);
}

/// Numbers of tokens above the strips, and the token that is computed first.
fn ruler(svg: &mut Svg, axis: &Axis, e: &Explanation) {
    let y = TOP - 10.0;
    svg.text(
        "text",
        &[("class", &"quiet"), ("x", &At(STRIP - 12.0)), ("y", &At(y)), ("text-anchor", &"end")],
        "token",
    );
    for (token, x) in axis.borders() {
        svg.text(
            "text",
            &[("class", &"quiet"), ("x", &At(x)), ("y", &At(y)), ("text-anchor", &"middle")],
            &number(token),
        );
    }
    let Some(x) = axis.at(e.imported.resume_at) else { return };
    let label = format!("resume at {}", number(e.imported.resume_at));
    svg.text(
        "text",
        &[("class", &"resume-label"), ("x", &At(x)), ("y", &At(y - 18.0)), ("text-anchor", &"middle")],
        &label,
    );
}

/// What a group is.
fn about(svg: &mut Svg, group: &Explained, y: f64) {
    let mut line = |class: &'static str, row: u8, text: &str| {
        let y = y + 26.0 + f64::from(row) * 16.0;
        svg.text("text", &[("class", &class), ("x", &At(MARGIN)), ("y", &At(y))], text);
    };
    line("name", 0, &clipped(&group.name, 17));
    line("quiet", 1, &count(group.layers.into(), "layer"));
    let (rows, segments) = words::page(group);
    line("quiet", 2, &clipped(&rows, 30));
    let mut rest = segments.as_str();
    for row in 3..5 {
        let (first, after) = broken(rest, 30);
        line("quiet", row, &if row == 4 && !after.is_empty() { clipped(rest, 30) } else { first.to_owned() });
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
}

/// What the launch does with a group.
fn notes(svg: &mut Svg, group: &Explained, y: f64) {
    let mut row = 0.0;
    let mut line = |class: &'static str, text: &str| {
        let y = y + 26.0 + row * 16.0;
        row += 1.0;
        svg.text("text", &[("class", &class), ("x", &At(NOTES)), ("y", &At(y))], text);
    };
    let lifted = words::lifted(group);
    let mut rest = lifted.as_str();
    while !rest.is_empty() {
        let (first, after) = broken(rest, 30);
        line("strong", first);
        rest = after;
    }
    if group.bytes > 0 {
        line("quiet", &bytes(group.bytes));
    }
    if group.units > 0 {
        let units = count(group.units, "unit");
        let access = if group.widths.is_empty() {
            String::new()
        } else {
            format!(", {} an access", words::widths(&group.widths))
        };
        line("quiet", &format!("{units}{access}"));
    }
}

/// What is painted somewhere, in the order of the legend.
fn used(lanes: &[Lane]) -> Vec<Fill> {
    let used = |fill: &Fill| lanes.iter().any(|lane| lane.strip.fills().any(|used| used == *fill));
    style::FILLS.into_iter().filter(used).collect()
}

/// What each fill means.
fn legend(svg: &mut Svg, fills: &[Fill], y: f64) {
    rule(svg, y);
    let column = (WIDTH - 2.0 * MARGIN) / COLUMNS as f64;
    svg.open("g", &[("class", &"legend")]);
    for (index, fill) in fills.iter().enumerate() {
        let x = MARGIN + column * (index % COLUMNS) as f64;
        let y = y + 18.0 + LEGEND_ROW * (index / COLUMNS) as f64;
        let swatch: [svg::Attribute<'_>; 7] = [
            ("class", &"frame"),
            ("x", &At(x)),
            ("y", &At(y)),
            ("width", &20),
            ("height", &13),
            ("style", &format!("fill: {}", fill.paint())),
            ("stroke-dasharray", &if *fill == Fill::Untouched { "3 2" } else { "none" }),
        ];
        svg.leaf("rect", &swatch);
        svg.text("text", &[("x", &At(x + 28.0)), ("y", &At(y + 10.5))], fill.words());
    }
    svg.close();
    let y = y + 30.0 + LEGEND_ROW * fills.len().div_ceil(COLUMNS) as f64;
    let note = "Widths are to scale along the prompt, and inside a single page by bytes. Numbers are block and page ids \
                in their pools, the same for every layer; in a ring, its slots.";
    svg.text("text", &[("class", &"quiet"), ("x", &At(MARGIN)), ("y", &At(y))], note);
}

/// A line across the picture.
fn rule(svg: &mut Svg, y: f64) {
    let line: [svg::Attribute<'_>; 5] = [
        ("class", &"rule"),
        ("x1", &At(MARGIN)),
        ("x2", &At(WIDTH - MARGIN)),
        ("y1", &At(y)),
        ("y2", &At(y)),
    ];
    svg.leaf("line", &line);
}

/// The text, or its beginning where it is longer than `most` characters.
fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// The text up to the last space among its first `most` characters, and what follows.
fn broken(text: &str, most: usize) -> (&str, &str) {
    let end = text.char_indices().nth(most).map_or(text.len(), |(end, _)| end);
    if end == text.len() {
        return (text, "");
    }
    let space = text.get(..end).and_then(|start| start.rfind(' '));
    let at = space.unwrap_or(end);
    (text.get(..at).unwrap_or(text), text.get(at..).unwrap_or("").trim_start())
}

#[cfg(test)]
mod tests {
    use super::{broken, clipped};

    #[test]
    fn lines_break_at_spaces_and_end_with_an_ellipsis() {
        assert_eq!(broken("keys 128 B + scales 4 B", 14), ("keys 128 B +", "scales 4 B"));
        assert_eq!(broken("short", 14), ("short", ""));
        assert_eq!(broken("ééééé", 3), ("ééé", "éé"));
        assert_eq!((clipped("éééé", 3), clipped("abc", 3)), ("éé…".into(), "abc".into()));
    }
}
