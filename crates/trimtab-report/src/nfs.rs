//! A run of the NFS mix over several loads: response time over throughput.

use super::run::document as of_run;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Run, Unit};
use trimtab_study::document::{Chart, ChartLine, Document, Section, SectionBlock, Table};
use trimtab_study::study::metrics::mean;

/// A report about one run. `trimtab results show` prints the rest.
#[must_use]
pub fn document(run: &Run) -> Document {
    let mean = |name: &str| mean(run, name);
    let shown = |name: &str, unit| mean(name).map_or_else(String::new, |v| quantity(v, unit));
    let mut table = Table::new("", &["load", "requested", "achieved", "response", "99 %"]);
    let mut points = Vec::new();
    for load in run.metrics.iter().filter_map(|m| m.name.strip_suffix(".requested")) {
        let of = |what: &str| format!("{load}.{what}");
        if let (Some(rate), Some(response)) = (mean(&of("rate")), mean(&of("response"))) {
            points.push((rate, response));
        }
        table.row([
            load.to_owned(),
            shown(&of("requested"), Unit::OpsPerSecond),
            shown(&of("rate"), Unit::OpsPerSecond),
            shown(&of("response"), Unit::Nanos),
            shown(&of("response.p99"), Unit::Nanos),
        ]);
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let slowest = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let (scale, unit) = if slowest < 1e6 { (1e3, "µs") } else { (1e6, "ms") };
    points.iter_mut().for_each(|point| point.1 /= scale);
    let mut blocks = vec![SectionBlock::Table(table)];
    if points.len() > 1 {
        let (lines, y_label) = (
            vec![ChartLine { name: "response".to_owned(), points }],
            format!("mean response time, {unit}"),
        );
        let title = "Response time over throughput";
        blocks.push(SectionBlock::Chart(Chart::lines(
            title,
            "operations/s achieved",
            &y_label,
            lines,
            Vec::new(),
        )));
    }
    if mean("ort").is_some() {
        blocks.push(SectionBlock::Text(format!(
            "Peak {}, overall response time {}: the area under the curve from the \
                origin, divided by the peak.",
            shown("peak.rate", Unit::OpsPerSecond),
            shown("ort", Unit::Seconds)
        )));
    }
    let mut document = of_run(run);
    document.sections.retain(|section| section.title == "Warnings");
    document.sections.insert(0, Section::new("Response time over throughput", blocks));
    document
}
