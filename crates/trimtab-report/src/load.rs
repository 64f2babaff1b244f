//! A sweep of offered rates: achieved rate and latency of each step, and the knee.

use trimtab_drive::units::{Nanos, three_digits};
use trimtab_sim::analysis::LATENCY_KNEE;
use trimtab_sim::run::{Field, Run};
use trimtab_sim::runner::jobs::{FIGURES, RATE};
use trimtab_study::document::{Section, SectionBlock, Table};

/// Workload of these runs.
pub const WORKLOAD: &str = "load";
/// Title of the section.
pub const TITLE: &str = "Latency against offered load";
/// Setting: percentage of reads.
pub const READ_PERCENT: &str = "read-percent";
/// Suffix of a step's offered rate.
pub const OFFERED: &str = ".offered";
/// Name of the offered rate at the knee.
pub const KNEE_RATE: &str = "knee.offered";
/// Name of the share of the closed loop's rate at the knee.
pub const KNEE_PERCENT: &str = "knee.percent";

/// Code of the warning that the target changed while it was measured.
pub const CHANGED: &str = "load.changed";

/// The steps and the knee of a run.
#[must_use]
pub fn section(run: &Run) -> Section {
    let value = |name: &str| {
        run.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.samples[0])
    };
    let rate = |value: Option<f64>| value.map_or_else(String::new, three_digits);
    let latency =
        |name: &str| value(name).map_or_else(String::new, |ns| Nanos(ns as u64).to_string());
    let reads = Field::find(&run.settings, READ_PERCENT)
        .and_then(|percent| percent.parse().ok())
        .unwrap_or(0.0)
        / 100.0;
    let mut table = Table::new(
        "",
        &["step and operation", "offered IOPS", "achieved IOPS", "p50", "p99", "p99.9"],
    );
    for name in run.metrics.iter().filter_map(|metric| metric.name.strip_suffix(RATE)) {
        let (step, operation) = name.rsplit_once('.').unwrap_or((name, ""));
        let share = if operation == "read" { reads } else { 1.0 - reads };
        let offered = value(&format!("{step}{OFFERED}")).map(|all| all * share);
        let of = |at: usize| latency(&format!("{name}{}", FIGURES[at]));
        table.row([
            name.to_owned(),
            rate(offered),
            rate(value(&format!("{name}{RATE}"))),
            of(3),
            of(4),
            of(5),
        ]);
    }
    let steps = table.rows.iter().filter_map(|row| row[0].split('.').next());
    let mut steps = steps.filter(|step| step.starts_with("load-"));
    let lowest = steps.next().unwrap_or("the lowest load");
    let highest: Option<u32> = steps.next_back().and_then(|step| step[5..].parse().ok());
    let rule =
        format!("the lowest offered load whose p99 exceeds {LATENCY_KNEE} times that of {lowest}");
    let mixed = if reads > 0.0 && reads < 1.0 { " of reads and writes" } else { "" };
    let knee = match (value(KNEE_PERCENT), value(KNEE_RATE)) {
        (Some(percent), Some(rate)) => {
            // Only a saturated target has its knee at the lowest load.
            let (at, rule) = if lowest == format!("load-{percent}") {
                ("at or below", "the lowest load already saturates the target")
            } else {
                ("at", rule.as_str())
            };
            format!(
                "Knee {at} {percent} % of the closed loop, {} IOPS{mixed}: {rule}.",
                three_digits(rate)
            )
        }
        _ if run.warnings.iter().any(|warning| warning.code == CHANGED) => {
            "No knee is stated: the target changed while it was measured.".to_owned()
        }
        _ => match highest {
            Some(percent) => format!(
                "No step is a knee ({rule}): the knee lies above {percent} % of the closed loop's \
                 rate; try --steps {},{percent},{},{}.",
                &lowest[5..],
                percent + 10,
                percent + 20
            ),
            None => format!("No knee in these steps ({rule})."),
        },
    };
    Section::new(TITLE, vec![SectionBlock::Table(table), SectionBlock::Text(knee)])
}
