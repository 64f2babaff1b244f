//! Data for the page's script: the charts. Without the script, all of it is still shown.

use super::palette;
use serde_json::{Value, json};
use trimtab_study::document::{Chart, ChartKind, ChartLine};

/// A number with six digits, as short as possible.
fn number(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    if rounded == rounded.trunc() && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

/// True if a logarithmic scale is useful: no value below 0, and those above 0 at least a
/// decade apart.
fn has_log(lines: &[ChartLine]) -> bool {
    let values = || lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let finite = || values().filter(|value| value.is_finite());
    let least = finite().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    finite().all(|value| value >= 0.0) && finite().any(|value| value / least >= 10.0)
}

/// A chart with points.
pub fn chart(chart: &Chart) -> Value {
    let head = |kind: &str| json!({ "kind": kind, "title": chart.title, "x": chart.x_label, "y": chart.y_label });
    let mut value = match &chart.kind {
        ChartKind::Lines { lines, marks } => {
            let looks =
                palette::looks(&lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>());
            let mut value = head("lines");
            let series = lines.iter().zip(looks).map(|(line, look)| {
                let points = line.points.iter().map(|(x, y)| json!([number(*x), number(*y)]));
                json!({ "name": line.name, "look": look, "points": points.collect::<Vec<_>>() })
            });
            value["series"] = series.collect();
            value["marks"] = marks
                .iter()
                .map(|mark| json!({ "x": number(mark.x), "label": mark.label }))
                .collect();
            value["log"] = json!(has_log(lines));
            value
        }
        ChartKind::Dots { axes, dots } => {
            let looks = palette::looks_of_marks(
                &dots.iter().map(|dot| dot.name.as_str()).collect::<Vec<_>>(),
            );
            let mut value = head("dots");
            value["axes"] = json!(axes);
            let dot = |(dot, look): (&trimtab_study::document::ScatterPoint, usize)| {
                let x: Vec<Value> = dot.x.iter().map(|x| x.map_or(Value::Null, number)).collect();
                json!({ "name": dot.name, "look": look, "x": x, "y": number(dot.y), "chosen": dot.chosen })
            };
            value["dots"] = dots.iter().zip(looks).map(dot).collect();
            value
        }
    };
    value["decades"] = json!(true);
    value
}
