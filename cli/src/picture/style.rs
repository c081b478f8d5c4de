//! How things look: colours that colour-blind readers can tell apart, and patterns that tell them apart without colour.

use super::scene::Fill;
use super::svg::Svg;

/// Rules for classes of text, and of what is drawn again and again.
const CSS: &str = "text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; font-size: 11px; fill: #1b1f24 } \
.title { font-size: 18px; font-weight: bold } .lead { font-size: 12.5px; fill: #3d444d } \
.name { font-size: 14px; font-weight: bold } .strong { font-weight: bold } .quiet { fill: #57606a } \
.id { font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round } \
.rule { stroke: #d0d7de; stroke-width: 1 } .frame { fill: none; stroke: #3d444d; stroke-width: 1 } \
.cell { stroke: #3d444d; stroke-width: 0.5; stroke-opacity: 0.5 } \
.break { fill: none; stroke: #57606a; stroke-width: 1.2 } \
.arrow { stroke: #1b1f24; stroke-width: 1.4; fill: none } .resume { stroke: #b3261e; stroke-width: 1.2; stroke-dasharray: 4 3 } \
.resume-label { fill: #b3261e; font-weight: bold }";

/// All fills, in the order of the legend.
pub const FILLS: [Fill; 7] =
    [Fill::Imported, Fill::Hole, Fill::Lifted, Fill::LiftedHole, Fill::Zeroed, Fill::Landed, Fill::Untouched];

impl Fill {
    /// What it is painted with.
    pub const fn paint(self) -> &'static str {
        match self {
            Self::Imported => "#9ecbf0",
            Self::Hole => "url(#hole)",
            Self::Lifted => "#12976f",
            Self::LiftedHole => "url(#lifted-hole)",
            Self::Zeroed => "url(#zeroed)",
            Self::Landed => "#e69f00",
            Self::Untouched => "#ffffff",
        }
    }

    /// Its class, for whoever reads the file.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Hole => "hole",
            Self::Lifted => "lifted",
            Self::LiftedHole => "lifted-hole",
            Self::Zeroed => "zeroed",
            Self::Landed => "landed",
            Self::Untouched => "untouched",
        }
    }

    /// What it means.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Imported => "imported into the host pool",
            Self::Hole => "hole: no imported row",
            Self::Lifted => "copied to the GPU by the launch",
            Self::LiftedHole => "hole, copied with its block: means nothing",
            Self::Zeroed => "zeroed by the launch",
            Self::Landed => "landed on the GPU: not lifted",
            Self::Untouched => "reserved, left as it was",
        }
    }
}

/// Writes style rules, patterns and the arrow's head.
pub fn define(svg: &mut Svg) {
    svg.text("style", &[], CSS);
    svg.open("defs", &[]);
    let pattern = |svg: &mut Svg, id: &'static str, ground: &'static str, line: &'static str| {
        let attributes: [super::svg::Attribute<'_>; 5] = [
            ("id", &id),
            ("width", &6),
            ("height", &6),
            ("patternUnits", &"userSpaceOnUse"),
            ("patternTransform", &"rotate(45)"),
        ];
        svg.open("pattern", &attributes);
        svg.leaf("rect", &[("width", &6), ("height", &6), ("fill", &ground)]);
        svg.leaf("rect", &[("width", &1.6), ("height", &6), ("fill", &line)]);
        svg.close();
    };
    pattern(svg, "hole", "#ffffff", "#b8c0c8");
    pattern(svg, "lifted-hole", "#e3f4ee", "#7cc4ac");
    let dots: [super::svg::Attribute<'_>; 4] =
        [("id", &"zeroed"), ("width", &7), ("height", &7), ("patternUnits", &"userSpaceOnUse")];
    svg.open("pattern", &dots);
    svg.leaf("rect", &[("width", &7), ("height", &7), ("fill", &"#f7ec8a")]);
    svg.leaf("circle", &[("cx", &3.5), ("cy", &3.5), ("r", &1.3), ("fill", &"#6b6100")]);
    svg.close();
    let head: [super::svg::Attribute<'_>; 7] = [
        ("id", &"head"),
        ("viewBox", &"0 0 10 10"),
        ("refX", &9),
        ("refY", &5),
        ("markerWidth", &8),
        ("markerHeight", &8),
        ("orient", &"auto"),
    ];
    svg.open("marker", &head);
    svg.leaf("path", &[("d", &"M0 0 L10 5 L0 10 z"), ("fill", &"#1b1f24")]);
    svg.close();
    svg.close();
}
