//! Writes SVG: elements, attributes and text, escaped, each element on a line of its own.

use std::fmt::{self, Display, Write};

/// A document that is being written.
#[derive(Debug, Default)]
pub struct Svg {
    out: String,
    open: Vec<&'static str>,
}

/// A coordinate, to a tenth of a unit.
#[derive(Clone, Copy, Debug)]
pub struct At(pub f64);

impl Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 * 10.0).round() / 10.0;
        // Zero has no sign.
        write!(f, "{}", if tenths == 0.0 { 0.0 } else { tenths })
    }
}

/// An attribute and its value.
pub type Attribute<'a> = (&'static str, &'a dyn Display);

impl Svg {
    /// Opens an element, which [`Svg::close`] ends.
    pub fn open(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.tag(name, attributes, ">\n");
        self.open.push(name);
    }

    /// Ends the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.indent();
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push_str(">\n");
        }
    }

    /// An element without content.
    pub fn leaf(&mut self, name: &'static str, attributes: &[Attribute<'_>]) {
        self.tag(name, attributes, "/>\n");
    }

    /// An element that holds text.
    pub fn text(&mut self, name: &'static str, attributes: &[Attribute<'_>], text: &str) {
        self.tag(name, attributes, ">");
        escape(text, &mut self.out);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push_str(">\n");
    }

    /// The document, whose elements are all ended.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }

    fn tag(&mut self, name: &str, attributes: &[Attribute<'_>], end: &str) {
        self.indent();
        self.out.push('<');
        self.out.push_str(name);
        let mut value = String::new();
        for (attribute, display) in attributes {
            value.clear();
            // Writing to a string does not fail.
            let _ = write!(value, "{display}");
            self.out.push(' ');
            self.out.push_str(attribute);
            self.out.push_str("=\"");
            escape(&value, &mut self.out);
            self.out.push('"');
        }
        self.out.push_str(end);
    }

    fn indent(&mut self) {
        self.out.extend(std::iter::repeat_n("  ", self.open.len()));
    }
}

/// Appends text as XML has it. What XML has no character for becomes one that says so.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Svg};

    #[test]
    fn elements_nest_and_text_is_escaped() {
        let mut svg = Svg::default();
        svg.open("svg", &[("viewBox", &"0 0 1 1")]);
        svg.open("g", &[("id", &"a\"<&>\u{1}\u{ffff}")]);
        svg.leaf("rect", &[("x", &At(1.26)), ("y", &At(-0.01))]);
        svg.text("text", &[], "1 < 2 & 3");
        let text = svg.finish();
        assert_eq!(
            text,
            "<svg viewBox=\"0 0 1 1\">\n  <g id=\"a&quot;&lt;&amp;&gt;\u{fffd}\u{fffd}\">\n    \
             <rect x=\"1.3\" y=\"0\"/>\n    <text>1 &lt; 2 &amp; 3</text>\n  </g>\n</svg>\n"
        );
    }
}
