//! A chart of lines: points that are joined, each series with a colour and a mark of its own.

use crate::picture::svg::{At, Attribute, Svg};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 460.0;
/// The field, and where the legend begins.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 600.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 392.0;
const LEGEND: f64 = 624.0;

/// Colours that colour-blind readers can tell apart.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#1b1f24", "#8a8a00"];

const CSS: &str = "text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; font-size: 12px; \
fill: #1b1f24 } .title { font-size: 16px; font-weight: bold } .quiet { font-size: 11px; fill: #57606a }";

/// A scale along one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// From 0 on.
    Linear,
    /// Equal factors are equally far apart.
    Logarithmic,
}

/// One side of the field.
pub struct Axis {
    pub title: &'static str,
    pub scale: Scale,
    /// Where it is marked, and what is written there.
    pub ticks: Vec<(f64, String)>,
}

/// Points that belong together.
pub struct Series {
    pub name: String,
    /// By `x`.
    pub points: Vec<(f64, f64)>,
}

/// What is drawn.
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Where the figures come from.
    pub note: String,
}

/// An axis with the range that it shows.
struct Placed<'c> {
    axis: &'c Axis,
    range: (f64, f64),
    /// Where its range begins and ends in the picture.
    ends: (f64, f64),
}

impl Chart {
    /// The chart as SVG.
    pub fn draw(&self) -> String {
        let values =
            |of: fn(&(f64, f64)) -> f64| self.series.iter().flat_map(move |one| one.points.iter().map(of));
        let x = Placed::new(&self.x, values(|point| point.0), (LEFT, RIGHT));
        let y = Placed::new(&self.y, values(|point| point.1), (BOTTOM, TOP));
        let mut svg = Svg::default();
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        let root: [Attribute<'_>; 4] = [
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("width", &WIDTH),
            ("height", &HEIGHT),
            ("viewBox", &view),
        ];
        svg.open("svg", &root);
        svg.text("style", &[], CSS);
        svg.leaf("rect", &[("width", &"100%"), ("height", &"100%"), ("fill", &"#ffffff")]);
        svg.text("text", &[("x", &20), ("y", &28), ("class", &"title")], &self.title);
        for (value, words) in &x.axis.ticks {
            let at = At(x.at(*value));
            line(&mut svg, (at, At(TOP)), (at, At(BOTTOM)));
            svg.text("text", &[("x", &at), ("y", &(BOTTOM + 18.0)), ("text-anchor", &"middle")], words);
        }
        for (value, words) in &y.axis.ticks {
            let at = At(y.at(*value));
            line(&mut svg, (At(LEFT), at), (At(RIGHT), at));
            svg.text("text", &[("x", &(LEFT - 8.0)), ("y", &At(at.0 + 4.0)), ("text-anchor", &"end")], words);
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        svg.text(
            "text",
            &[("x", &middle), ("y", &(BOTTOM + 38.0)), ("text-anchor", &"middle")],
            x.axis.title,
        );
        svg.text("text", &[("x", &20), ("y", &(TOP - 8.0))], y.axis.title);
        for (index, series) in self.series.iter().enumerate() {
            draw_series(&mut svg, series, index, &x, &y);
        }
        svg.text("text", &[("x", &20), ("y", &(HEIGHT - 10.0)), ("class", &"quiet")], &self.note);
        svg.finish()
    }
}

impl<'c> Placed<'c> {
    fn new(axis: &'c Axis, values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Self {
        let all = values.chain(axis.ticks.iter().map(|(value, _)| *value));
        let (low, high) = all
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let low = if axis.scale == Scale::Linear { 0.0 } else { low };
        Self { axis, range: (low, high), ends }
    }

    /// Where a value stands.
    fn at(&self, value: f64) -> f64 {
        let scaled = |value: f64| match self.axis.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.ln(),
        };
        let (low, high) = (scaled(self.range.0), scaled(self.range.1));
        let part = if high > low { (scaled(value) - low) / (high - low) } else { 0.5 };
        self.ends.0 + part * (self.ends.1 - self.ends.0)
    }
}

fn line(svg: &mut Svg, from: (At, At), to: (At, At)) {
    let ends: [Attribute<'_>; 5] =
        [("x1", &from.0), ("y1", &from.1), ("x2", &to.0), ("y2", &to.1), ("stroke", &"#d0d7de")];
    svg.leaf("line", &ends);
}

/// The points of a series, joined, and its entry of the legend.
fn draw_series(svg: &mut Svg, series: &Series, index: usize, x: &Placed<'_>, y: &Placed<'_>) {
    let colour = COLOURS[index % COLOURS.len()];
    let points: Vec<(f64, f64)> = series.points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", At(*x), At(*y))).collect();
    svg.open("g", &[("fill", &colour), ("stroke", &colour)]);
    let path = path.join(" ");
    svg.leaf("polyline", &[("points", &path), ("fill", &"none"), ("stroke-width", &1.6)]);
    points.iter().for_each(|point| mark(svg, index, *point));
    let row = TOP + 12.0 + 22.0 * index as f64;
    mark(svg, index, (LEGEND, row));
    svg.close();
    svg.text("text", &[("x", &(LEGEND + 14.0)), ("y", &At(row + 4.0))], &series.name);
}

/// A series' mark: round, square, a diamond or a triangle.
fn mark(svg: &mut Svg, index: usize, (x, y): (f64, f64)) {
    const SIZE: f64 = 4.0;
    let polygon = |corners: &[(f64, f64)]| {
        let corner = |(right, down): &(f64, f64)| format!("{},{}", At(x + right * SIZE), At(y + down * SIZE));
        corners.iter().map(corner).collect::<Vec<_>>().join(" ")
    };
    let corners: &[(f64, f64)] = match index % 4 {
        0 => {
            svg.leaf("circle", &[("cx", &At(x)), ("cy", &At(y)), ("r", &SIZE)]);
            return;
        }
        1 => &[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)],
        2 => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        _ => &[(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)],
    };
    svg.leaf("polygon", &[("points", &polygon(corners))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale, ticks: &[f64]) -> Axis {
        Axis { title: "t", scale, ticks: ticks.iter().map(|tick| (*tick, tick.to_string())).collect() }
    }

    #[test]
    fn points_stand_where_the_scales_say() {
        let chart = Chart {
            title: "a < b".into(),
            x: axis(Scale::Logarithmic, &[1.0, 100.0]),
            y: axis(Scale::Linear, &[10.0]),
            series: vec![Series { name: "one".into(), points: vec![(1.0, 0.0), (10.0, 5.0), (100.0, 10.0)] }],
            note: String::new(),
        };
        let text = chart.draw();
        // From corner to corner, through the middle.
        assert!(text.contains("points=\"64,392 332,222 600,52\""), "{text}");
        assert!(text.contains("a &lt; b") && text.matches("<circle").count() == 4, "{text}");
    }

    #[test]
    fn one_point_stands_in_the_middle() {
        let placed = Placed { axis: &axis(Scale::Logarithmic, &[]), range: (3.0, 3.0), ends: (0.0, 10.0) };
        assert_eq!(placed.at(3.0), 5.0);
    }
}
