//! A group's blocks in a row along the prompt, its pages below them, and arrows between them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::axis::Axis;
use super::scene::{Block, Fill, Page, Strip};
use super::svg::{At, Attribute, Svg};
use crate::say;

/// Height of a block, and of the space between blocks and pages.
const BLOCK: f64 = 30.0;
const SPACE: f64 = 32.0;
/// From the top of a lane to its blocks.
const ABOVE: f64 = 18.0;
/// A single page, and the space between its side and the other.
const PAGE: f64 = 24.0;
const PAGE_SPACE: f64 = 22.0;
/// Width of a single page.
const PAGE_WIDTH: f64 = 260.0;
/// Room for its id before it.
const PAGE_LABEL: f64 = 66.0;
/// Width of a digit of an id, and of a letter of a label, or more.
const DIGIT: f64 = 7.0;

impl Strip {
    /// What is drawn in it.
    pub fn fills(&self) -> impl Iterator<Item = Fill> {
        let fills: BTreeSet<Fill> = match self {
            Self::Rows { host, device, .. } => {
                host.iter().chain(device).flat_map(|block| &block.parts).map(|(_, fill)| *fill).collect()
            }
            Self::Whole { host, device, .. } => host.iter().chain(device).map(|page| page.fill).collect(),
        };
        fills.into_iter()
    }
}

/// Draws at one lane of the picture.
#[derive(Debug)]
pub struct Pen<'a> {
    pub svg: &'a mut Svg,
    pub axis: &'a Axis,
    /// Where the lane begins.
    pub y: f64,
}

impl Pen<'_> {
    /// Draws a strip.
    pub fn strip(&mut self, strip: &Strip) {
        match strip {
            Strip::Rows { host, device, copies, row_tokens } => {
                self.rows(host, device, copies);
                self.counts(host, device, *row_tokens);
            }
            Strip::Whole { host, device, copied } => self.whole(host.as_ref(), device.as_ref(), *copied),
        }
    }

    fn rows(&mut self, host: &[Block], device: &[Block], copies: &[Range<u64>]) {
        let top = self.y + ABOVE;
        let below = top + BLOCK + SPACE;
        self.row("host pool", "block", top, host);
        self.row("GPU", "page", below, device);
        for (from, to) in copies.iter().filter_map(|tokens| self.axis.span(tokens)) {
            self.arrow(f64::midpoint(from, to), top + BLOCK + 3.0, below - 3.0);
        }
    }

    /// Says how many rows of the last page, or block, are what.
    fn counts(&mut self, host: &[Block], device: &[Block], row_tokens: u64) {
        let (last, y) = match (device.last(), host.last()) {
            (Some(page), _) => (page, self.y + ABOVE + BLOCK + SPACE + BLOCK),
            (None, Some(block)) => (block, self.y + ABOVE + BLOCK),
            (None, None) => return,
        };
        let rows = |tokens: u64| tokens.checked_div(row_tokens).unwrap_or(0);
        let Some((first, fill)) = last.parts.first() else { return };
        let Some(border) = self.axis.at(first.end.min(last.tokens.end.saturating_sub(1))) else { return };
        let whole = first.end >= last.tokens.end;
        let Some((_, end)) = self.axis.span(&last.tokens) else { return };
        let border = if whole { end } else { border };
        let said = |fill: Fill, count| match fill {
            Fill::Imported | Fill::Lifted | Fill::Landed => say::count(count, "row"),
            Fill::Hole | Fill::LiftedHole => say::count(count, "hole"),
            Fill::Zeroed => format!("{} zeroed", say::count(count, "row")),
            Fill::Untouched => format!("{} left alone", say::count(count, "row")),
        };
        self.count(&said(*fill, rows(first.end.saturating_sub(first.start))), border, y, "end");
        if !whole {
            let rest = last.tokens.end.saturating_sub(first.end);
            let fill = last.parts.get(1).map_or(Fill::Untouched, |(_, fill)| *fill);
            self.count(&said(fill, rows(rest)), border, y, "start");
        }
    }

    fn count(&mut self, words: &str, border: f64, y: f64, anchor: &'static str) {
        let x = At(if anchor == "end" { border - 4.0 } else { border + 4.0 });
        let text: [Attribute<'_>; 4] =
            [("class", &"quiet"), ("x", &x), ("y", &At(y + 14.0)), ("text-anchor", &anchor)];
        self.svg.text("text", &text, words);
    }

    /// A line where decoding resumes, through the lane.
    pub fn resume(&mut self, token: u64) {
        let Some(x) = self.axis.at(token) else { return };
        let line: [Attribute<'_>; 5] = [
            ("class", &"resume"),
            ("x1", &At(x)),
            ("x2", &At(x)),
            ("y1", &At(self.y + 4.0)),
            ("y2", &At(self.y + ABOVE + BLOCK + SPACE + BLOCK + 4.0)),
        ];
        self.svg.leaf("line", &line);
    }

    /// One side's blocks.
    fn row(&mut self, side: &str, class: &'static str, y: f64, blocks: &[Block]) {
        if blocks.is_empty() {
            return;
        }
        self.label(side, y + BLOCK / 2.0);
        let start = blocks.first().and_then(|first| self.axis.span(&first.tokens));
        if let Some((x, _)) = start.filter(|(x, _)| class == "page" && *x > super::STRIP) {
            let text: [Attribute<'_>; 4] = [
                ("class", &"quiet"),
                ("x", &At(x - 8.0)),
                ("y", &At(y + BLOCK / 2.0 + 4.0)),
                ("text-anchor", &"end"),
            ];
            self.svg.text("text", &text, "writable page");
        }
        let (mut hidden, mut lifted) = (0_u64, 0_u64);
        for block in blocks {
            if let Some((from, to)) = self.axis.span(&block.tokens) {
                self.block(class, block, (from, to), y);
            } else {
                hidden += 1;
                lifted += u64::from(block.lifted);
            }
        }
        if hidden > 0
            && let Some(gap) = self.axis.gap()
        {
            self.gap(gap, y, hidden, lifted);
        }
    }

    fn block(&mut self, class: &'static str, block: &Block, (from, to): (f64, f64), y: f64) {
        let class = if block.lifted { format!("{class} lifted") } else { class.to_owned() };
        self.svg.open("g", &[("class", &class), ("data-id", &block.id)]);
        let page = class.starts_with("page");
        self.part(Fill::Untouched, (from, to), (y, BLOCK));
        for (tokens, fill) in &block.parts {
            if let Some(span) = self.axis.span(tokens) {
                self.part(*fill, span, (y, BLOCK));
            }
        }
        let untouched = page && block.parts.iter().all(|(_, fill)| *fill == Fill::Untouched);
        self.frame((from, to), (y, BLOCK), untouched);
        let spans = self.widest(block).into_iter().chain([(from, to)]);
        self.id(block.id, spans, y + BLOCK / 2.0);
        self.svg.close();
    }

    /// Where the widest part of a block lies: an id in it is not crossed by the line where decoding resumes.
    fn widest(&self, block: &Block) -> Option<(f64, f64)> {
        let parts = block.parts.iter().filter_map(|(tokens, _)| self.axis.span(tokens));
        parts.reduce(|widest, part| if part.1 - part.0 > widest.1 - widest.0 { part } else { widest })
    }

    /// Says how many blocks the break stands for.
    fn gap(&mut self, (from, to): (f64, f64), y: f64, hidden: u64, lifted: u64) {
        self.svg.open("g", &[("class", &"hidden"), ("data-blocks", &hidden), ("data-lifted", &lifted)]);
        for x in [from + 6.0, to - 6.0] {
            let slash = format!("M{} {} q4 5 0 10 q-4 5 0 10 q4 5 0 10", At(x), At(y));
            self.svg.leaf("path", &[("class", &"break"), ("d", &slash)]);
        }
        let middle = At(f64::midpoint(from, to));
        let text: [Attribute<'_>; 4] = [
            ("class", &"quiet"),
            ("x", &middle),
            ("y", &At(y + BLOCK / 2.0 - 2.0)),
            ("text-anchor", &"middle"),
        ];
        self.svg.text("text", &text, &say::number(hidden));
        let text: [Attribute<'_>; 4] = [
            ("class", &"quiet"),
            ("x", &middle),
            ("y", &At(y + BLOCK / 2.0 + 10.0)),
            ("text-anchor", &"middle"),
        ];
        self.svg.text("text", &text, "more");
        self.svg.close();
    }

    fn whole(&mut self, host: Option<&Page>, device: Option<&Page>, copied: bool) {
        let from = super::STRIP + PAGE_LABEL;
        let to = from + PAGE_WIDTH;
        let top = self.y + ABOVE;
        let below = top + PAGE + PAGE_SPACE;
        if let Some(page) = host {
            self.label("host pool", top + PAGE / 2.0);
            self.page("block", page, false, (from, to), top);
        }
        if let Some(page) = device {
            self.label("GPU", below + PAGE / 2.0);
            self.page("page", page, copied, (from, to), below);
        }
        if copied {
            let x = f64::midpoint(from, to);
            self.arrow(x, top + PAGE + 2.0, below - 2.0);
        }
    }

    /// A page with its parts, to scale.
    fn page(&mut self, class: &'static str, page: &Page, lifted: bool, (from, to): (f64, f64), y: f64) {
        let class = if lifted { format!("{class} lifted") } else { class.to_owned() };
        self.svg.open("g", &[("class", &class), ("data-id", &page.id)]);
        let all: u64 = page.parts.iter().map(|(_, size)| size).sum();
        let mut before = 0_u64;
        let place = |bytes: u64| from + (to - from) * bytes as f64 / all.max(1) as f64;
        for (name, size) in &page.parts {
            let (left, right) = (place(before), place(before + size));
            before += size;
            self.part(page.fill, (left, right), (y, PAGE));
            let cell: [Attribute<'_>; 6] = [
                ("class", &"cell"),
                ("x", &At(left)),
                ("y", &At(y)),
                ("width", &At(right - left)),
                ("height", &At(PAGE)),
                ("fill", &"none"),
            ];
            self.svg.leaf("rect", &cell);
            if right - left > DIGIT * (name.chars().count() + 1) as f64 {
                self.words(name, f64::midpoint(left, right), y + PAGE / 2.0);
            }
        }
        self.frame((from, to), (y, PAGE), page.fill == Fill::Untouched);
        let text: [Attribute<'_>; 4] = [
            ("class", &"quiet"),
            ("x", &At(from - 8.0)),
            ("y", &At(y + PAGE / 2.0 + 4.0)),
            ("text-anchor", &"end"),
        ];
        self.svg.text("text", &text, &format!("{} {}", class.split(' ').next().unwrap_or_default(), page.id));
        self.svg.close();
    }

    fn part(&mut self, fill: Fill, (from, to): (f64, f64), (y, height): (f64, f64)) {
        let rect: [Attribute<'_>; 6] = [
            ("class", &fill.class()),
            ("x", &At(from)),
            ("y", &At(y)),
            ("width", &At(to - from)),
            ("height", &At(height)),
            ("fill", &fill.paint()),
        ];
        self.svg.leaf("rect", &rect);
    }

    fn frame(&mut self, (from, to): (f64, f64), (y, height): (f64, f64), dashed: bool) {
        let rect: [Attribute<'_>; 6] = [
            ("class", &"frame"),
            ("x", &At(from)),
            ("y", &At(y)),
            ("width", &At(to - from)),
            ("height", &At(height)),
            ("stroke-dasharray", &if dashed { "3 2" } else { "none" }),
        ];
        self.svg.leaf("rect", &rect);
    }

    /// Writes an id into the first of some spans that has room for it.
    fn id(&mut self, id: u32, spans: impl IntoIterator<Item = (f64, f64)>, y: f64) {
        let id = id.to_string();
        let room = DIGIT * (id.len() + 1) as f64;
        if let Some((from, to)) = spans.into_iter().find(|(from, to)| to - from >= room) {
            self.words(&id, f64::midpoint(from, to), y);
        }
    }

    fn words(&mut self, words: &str, x: f64, y: f64) {
        let text: [Attribute<'_>; 4] =
            [("class", &"id"), ("x", &At(x)), ("y", &At(y + 3.5)), ("text-anchor", &"middle")];
        self.svg.text("text", &text, words);
    }

    /// Which side a row of blocks is on.
    fn label(&mut self, side: &str, y: f64) {
        let x = At(super::STRIP - 12.0);
        self.svg.text("text", &[("x", &x), ("y", &At(y + 4.0)), ("text-anchor", &"end")], side);
    }

    fn arrow(&mut self, x: f64, from: f64, to: f64) {
        let path = format!("M{} {} V{}", At(x), At(from), At(to));
        self.svg.leaf("path", &[("class", &"arrow"), ("d", &path), ("marker-end", &"url(#head)")]);
    }
}
