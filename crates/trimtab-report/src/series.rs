//! The series of a run as charts.

use trimtab_drive::units::three_digits;
use trimtab_sim::analysis::change_points::{ChangePointOptions, knees};
use trimtab_sim::run::{Axis, Run, Series, Unit};
use trimtab_study::document::{Chart, ChartLine, Mark, SectionBlock};

/// The legend names further series of a chart.
const TITLE_NAMES: usize = 6;

/// Charts of a run's series; series with the same axis and unit share one. Rates over
/// bytes written have their knees marked.
pub fn charts(run: &Run) -> Vec<SectionBlock> {
    let mut groups: Vec<(Axis, Unit, Vec<&Series>)> = Vec::new();
    // A run shorter than a step of the series has no values.
    for series in run.series.iter().filter(|series| !series.y.is_empty()) {
        match groups.iter_mut().find(|(axis, unit, _)| (*axis, *unit) == (series.axis, series.unit))
        {
            Some((_, _, group)) => group.push(series),
            None => groups.push((series.axis, series.unit, vec![series])),
        }
    }
    groups.into_iter().map(|(axis, unit, group)| chart(axis, unit, &group)).collect()
}

/// The same series of several runs, each labelled by its run.
pub fn together(name: &str, found: &[(&str, &Series)]) -> SectionBlock {
    let named: Vec<Series> = found
        .iter()
        .map(|(label, series)| Series { name: (*label).to_owned(), ..(*series).clone() })
        .collect();
    let first = &named[0];
    match chart(first.axis, first.unit, &named.iter().collect::<Vec<_>>()) {
        SectionBlock::Chart(chart) => {
            let over = if first.axis == Axis::Time { "time" } else { "bytes written" };
            SectionBlock::Chart(Chart { title: format!("{name} over {over}"), ..chart })
        }
        other => other,
    }
}

fn chart(axis: Axis, unit: Unit, group: &[&Series]) -> SectionBlock {
    let (x_label, x_scale) = match axis {
        Axis::Time => ("time, s", 1e-9),
        Axis::BytesWritten => ("written, GB (10^9 bytes)", 1e-9),
    };
    let (y_label, y_scale) = axis_of(unit);
    let lines = group.iter().map(|series| ChartLine {
        name: series.name.clone(),
        points: series
            .x
            .iter()
            .zip(&series.y)
            .map(|(x, y)| (*x as f64 * x_scale, y * y_scale))
            .collect(),
    });
    let knees =
        group.iter().filter(|series| axis == Axis::BytesWritten && series.name.ends_with("rate"));
    let marks = knees.flat_map(|series| knees_of(series, x_scale, y_scale)).collect();
    let names: Vec<&str> = group.iter().map(|series| series.name.as_str()).collect();
    let title = format!(
        "{}{} over {}",
        names[..names.len().min(TITLE_NAMES)].join(", "),
        if names.len() > TITLE_NAMES { " …" } else { "" },
        if axis == Axis::Time { "time" } else { "bytes written" }
    );
    SectionBlock::Chart(Chart::lines(title, x_label, y_label, lines.collect(), marks))
}

/// Label of an axis for a unit, and the factor for its values.
fn axis_of(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Seconds => ("s", 1.0),
        Unit::Nanos => ("ms", 1e-6),
        Unit::MegabytesPerSecond => ("MB/s (10^6 bytes/s)", 1.0),
        Unit::OpsPerSecond => ("operations/s", 1.0),
        Unit::Bytes => ("GB (10^9 bytes)", 1e-9),
        Unit::Count => ("count", 1.0),
        Unit::Ratio => ("ratio", 1.0),
        Unit::Percent => ("%", 1.0),
    }
}

fn knees_of(series: &Series, x_scale: f64, y_scale: f64) -> Vec<Mark> {
    let found = knees(&series.y, &ChangePointOptions::default());
    found
        .iter()
        .map(|knee| Mark {
            x: series.begins_at(knee.index) as f64 * x_scale,
            label: format!(
                "{} → {}",
                three_digits(knee.before * y_scale),
                three_digits(knee.after * y_scale)
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_study::document::ChartKind;

    #[test]
    fn falling_rate_has_its_knee_marked() {
        // Each value belongs to the gigabyte that ends at its place.
        let x: Vec<u64> = (0..200).map(|i| (i + 1) * 1_000_000_000).collect();
        let y: Vec<f64> =
            (0..200).map(|i| if i < 80 { 190.0 } else { 60.0 } + f64::from(i % 3)).collect();
        let series = Series {
            name: "write.rate".into(),
            axis: Axis::BytesWritten,
            x,
            unit: Unit::MegabytesPerSecond,
            y,
        };
        let SectionBlock::Chart(chart) = chart(series.axis, series.unit, &[&series]) else {
            panic!("a chart")
        };
        let ChartKind::Lines { marks, .. } = chart.kind else { panic!("lines") };
        assert_eq!(marks, [Mark { x: 80.0, label: "191 → 61.0".into() }]);
    }
}
