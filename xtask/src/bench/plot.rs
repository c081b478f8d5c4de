//! The figures as one picture.

use std::fmt::Write;

use super::figures::{DESCRIPTORS, Figures, LISTS, PLAIN, RESERVED};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 270.0;
const BAR: f64 = 18.0;
const OURS: &str = "#0072b2";
const THEIRS: &str = "#999999";

/// Bars, from the top of the picture down.
struct Bars {
    text: String,
    y: f64,
}

/// One bar.
struct Bar<'a> {
    name: &'a str,
    value: f64,
    words: String,
    ours: bool,
}

impl Bars {
    fn say(&mut self, x: f64, style: &str, words: &str) {
        let (y, words) = (self.y, escaped(words));
        // Writing to a string does not fail.
        let _ = writeln!(self.text, r#"<text x="{x:.0}" y="{y:.0}" {style}>{words}</text>"#);
    }

    fn panel(&mut self, title: &str, bars: &[Bar<'_>]) {
        self.y += 34.0;
        self.say(20.0, r#"font-weight="bold""#, title);
        self.y += 10.0;
        let most = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        for bar in bars {
            let width = (WIDTH - LEFT - 150.0) * bar.value / most;
            let (y, colour) = (self.y, if bar.ours { OURS } else { THEIRS });
            let _ = writeln!(
                self.text,
                r#"<rect x="{LEFT:.0}" y="{y:.1}" width="{width:.1}" height="{BAR:.0}" fill="{colour}"/>"#
            );
            self.y += BAR - 4.0;
            self.say(LEFT - 8.0, r#"text-anchor="end""#, bar.name);
            self.say(LEFT + width + 6.0, "", &bar.words);
            self.y += 10.0;
        }
    }
}

/// A picture of all figures; `line` says where they come from.
pub fn svg(figures: &Figures, line: &str) -> String {
    let mut bars = Bars { text: String::new(), y: 6.0 };
    let mut step: Vec<Bar<'_>> = figures
        .step
        .iter()
        .filter(|(name, _)| [RESERVED, LISTS, DESCRIPTORS].contains(&name.as_str()))
        .map(|(name, time)| Bar {
            name,
            value: *time,
            words: format!("{:.2} µs", time / 1e3),
            ours: name != DESCRIPTORS,
        })
        .collect();
    step.sort_by(|a, b| a.value.total_cmp(&b.value));
    bars.panel("Planning a step of 64 imports, 3 groups, 61 layers", &step);
    let names: Vec<String> = figures.jobs.iter().map(|(jobs, _)| format!("{jobs} jobs")).collect();
    let jobs = figures.jobs.iter().zip(&names).map(|((_, time), name)| Bar {
        name,
        value: *time,
        words: format!("{time:.1} ns a job"),
        ours: true,
    });
    bars.panel("Planning and encoding one job", &jobs.collect::<Vec<_>>());
    for (what, ways) in &figures.copies {
        let ways = ways.iter().map(|(name, bandwidth)| Bar {
            name,
            value: *bandwidth,
            words: format!("{bandwidth:.1} GiB/s"),
            ours: name != PLAIN,
        });
        bars.panel(&format!("Lifting on the CPU: {what}"), &ways.collect::<Vec<_>>());
    }
    bars.y += 30.0;
    bars.say(20.0, r##"font-size="11" fill="#555555""##, line);
    let (height, body) = (bars.y + 16.0, bars.text);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {height:.0}" font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222222">
<rect width="100%" height="100%" fill="#ffffff"/>
{body}</svg>
"##
    )
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_a_bar_to_scale() {
        let named = |name: &str, value| (name.to_owned(), value);
        let figures = Figures {
            step: vec![named(DESCRIPTORS, 4000.0), named(RESERVED, 1000.0), named("something else", 9.0)],
            jobs: vec![(12, 10.0)],
            copies: vec![("a page".to_owned(), vec![named("one launch", 2.0), named(PLAIN, 1.0)])],
        };
        let text = svg(&figures, "a < b");
        let widths: Vec<&str> =
            text.split("width=\"").skip(2).filter_map(|rest| rest.split('"').next()).collect();
        // The shortest time first; the longest bar of each panel has all of its width.
        assert_eq!(widths, ["120.0", "480.0", "480.0", "480.0", "240.0"]);
        assert!(text.contains("a &lt; b") && text.contains("4.00 µs"), "{text}");
    }
}
