//! The figures as charts: bandwidth by the size of pieces and by budget, and the host's cost by jobs.

use super::chart::{Axis, Chart, Scale, Series};
use super::draft::USUAL;
use super::figures::Figure;
use super::measure::{KERNEL, Measured};
use super::report::{Measurement, Report};
use crate::say::number;

/// The charts of what was measured, each with the name of its file; none of what was not.
pub fn plots(report: &Report) -> Vec<(&'static str, String)> {
    let note = report.words();
    let charts = [
        ("pieces.svg", pieces(&report.figures, &note)),
        ("budgets.svg", budgets(&report.figures, &note)),
        ("jobs.svg", jobs(&report.figures, &note)),
    ];
    charts.into_iter().filter_map(|(name, chart)| Some((name, chart?.draw()))).collect()
}

/// Bandwidth by the size of pieces, for each way.
fn pieces(figures: &[Measurement], note: &str) -> Option<Chart> {
    let of: Vec<&Measurement> = figures.iter().filter(|one| one.figure == Figure::Pieces).collect();
    let size = |one: &Measurement| one.bytes as f64 / one.fragments.max(1) as f64;
    // Of the kernel, the usual budget and the largest.
    let most = of.first()?.ways.iter().filter_map(|way| way.budget).max();
    let shown = |way: &&Measured| match way.budget {
        Some(budget) => way.way == KERNEL && (budget == USUAL.get() || way.budget == most),
        None => true,
    };
    let series = of.first()?.ways.iter().filter(shown).map(|way| Series {
        name: words(way),
        points: of
            .iter()
            .filter_map(|one| Some((size(one), same(one, way)?.gigabytes_per_second?)))
            .collect(),
    });
    Some(Chart {
        title: "Pieces scattered on both sides, host to GPU".into(),
        x: Axis {
            title: "bytes of a piece",
            scale: Scale::Logarithmic,
            ticks: of.iter().map(|one| (size(one), binary(size(one)))).collect(),
        },
        y: speeds(),
        series: series.collect(),
        note: note.into(),
    })
}

/// Bandwidth beside that of a contiguous copy, by budget, for the first work of each figure.
fn budgets(figures: &[Measurement], note: &str) -> Option<Chart> {
    let mut works: Vec<&Measurement> =
        figures.iter().filter(|one| one.bytes > 0 && one.figure != Figure::Pieces).collect();
    works.dedup_by_key(|one| one.figure);
    let kernels = |one: &Measurement| {
        let kernels = one.ways.iter().filter(|way| way.way == KERNEL);
        kernels.filter_map(|way| Some((f64::from(way.budget?), way.ratio))).collect::<Vec<_>>()
    };
    let ticks = kernels(works.first()?).into_iter().map(|(budget, _)| (budget, number(budget as u64)));
    Some(Chart {
        title: "One launch in a graph, by how many multiprocessors it may use".into(),
        x: Axis { title: "multiprocessors", scale: Scale::Logarithmic, ticks: ticks.collect() },
        y: Axis {
            title: "speed, where 1 is a contiguous copy of as many bytes",
            scale: Scale::Linear,
            ticks: (0..=5)
                .map(|fifths| f64::from(fifths) / 5.0)
                .map(|part| (part, part.to_string()))
                .collect(),
        },
        series: works
            .iter()
            .map(|one| Series {
                name: format!("{}: {}", one.figure.letter(), one.figure.words()),
                points: kernels(one),
            })
            .collect(),
        note: note.into(),
    })
}

/// What a step costs the host, by jobs.
fn jobs(figures: &[Measurement], note: &str) -> Option<Chart> {
    let timed = |one: &Measurement| {
        let of = |way: &Measured| Some((f64::from(way.jobs?), way.host_microseconds));
        one.ways.iter().filter_map(of).collect::<Vec<_>>()
    };
    let steps = figures.iter().filter(|one| one.figure == Figure::I).map(timed);
    // A work of one size is a point of the line of steps that are alike.
    let (alike, in_turns): (Vec<_>, Vec<_>) = steps.partition(|points| points.len() == 1);
    let named = |name: &str, points| Series { name: name.into(), points };
    let series = [
        named("steps alike, one after the other", alike.concat()),
        named("steps of all sizes in turns", in_turns.concat()),
    ];
    let points = series.iter().flat_map(|one| &one.points);
    let most = points.map(|(_, time)| *time).fold(1.0, f64::max);
    let ticks =
        series.first()?.points.iter().map(|(jobs, _)| (*jobs, number(*jobs as u64))).collect::<Vec<_>>();
    if ticks.is_empty() {
        return None;
    }
    let step = 10_f64.powf(most.log10().floor());
    let marks = (0..=10).map(|index| f64::from(index) * step).take_while(|mark| *mark < most + step);
    Some(Chart {
        title: "Planning, staging and replaying a step of imports of three groups".into(),
        x: Axis { title: "jobs", scale: Scale::Linear, ticks },
        y: Axis {
            title: "µs of the host",
            scale: Scale::Linear,
            ticks: marks.map(|mark| (mark, mark.to_string())).collect(),
        },
        series: series.into(),
        note: note.into(),
    })
}

/// Gigabytes a second, up to what PCIe Gen5 carries.
fn speeds() -> Axis {
    let ticks = (0..=6).map(|tens| tens * 10).map(|speed| (f64::from(speed), speed.to_string()));
    Axis { title: "GB/s", scale: Scale::Linear, ticks: ticks.collect() }
}

/// A size in binary units.
fn binary(bytes: f64) -> String {
    let units = [("MiB", 1024.0 * 1024.0), ("KiB", 1024.0)];
    let unit = units.into_iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes} B"), |(words, unit)| format!("{} {words}", bytes / unit))
}

/// A way and its budget.
fn words(way: &Measured) -> String {
    match way.budget {
        Some(budget) => format!("{}, {budget}", way.way),
        None => way.way.into(),
    }
}

/// The same way in another work.
fn same<'m>(one: &'m Measurement, way: &Measured) -> Option<&'m Measured> {
    one.ways.iter().find(|other| (other.way, other.budget) == (way.way, way.budget))
}
