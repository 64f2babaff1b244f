//! A sweep of offered rates: achieved rate and latency of each step, and the knee.

use super::run::document as of_run;
use trimtab_drive::units::{Nanos, three_digits};
use trimtab_sim::analysis::LATENCY_KNEE;
use trimtab_sim::run::Run;
use trimtab_sim::runner::jobs::{FIGURES, RATE};
use trimtab_study::document::{Document, Section, SectionBlock, Table};

/// Suffix of a step's offered rate.
pub const OFFERED: &str = ".offered";
/// Name of the offered rate at the knee.
pub const KNEE_RATE: &str = "knee.offered";
/// Name of the share of the closed loop's rate at the knee.
pub const KNEE_PERCENT: &str = "knee.percent";

/// A report about one run. `trimtab results show` prints the rest.
#[must_use]
pub fn document(run: &Run) -> Document {
    let value = |name: &str| run.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.samples[0]);
    let rate = |name: &str| value(name).map_or_else(String::new, three_digits);
    let latency = |name: &str| value(name).map_or_else(String::new, |ns| Nanos(ns as u64).to_string());
    let mut table = Table::new("", &["step and operation", "offered IOPS (all)", "achieved IOPS", "p50", "p99", "p99.9"]);
    for name in run.metrics.iter().filter_map(|metric| metric.name.strip_suffix(RATE)) {
        let step = name.rsplit_once('.').map_or(name, |(step, _)| step);
        let of = |at: usize| latency(&format!("{name}{}", FIGURES[at]));
        let rates = [rate(&format!("{step}{OFFERED}")), rate(&format!("{name}{RATE}"))];
        table.row([name.to_owned()].into_iter().chain(rates).chain([of(3), of(4), of(5)]));
    }
    let rule = format!("the lowest offered load whose p99 exceeds {LATENCY_KNEE} times that of the lowest load");
    let knee = match (value(KNEE_PERCENT), value(KNEE_RATE)) {
        (Some(percent), Some(rate)) => {
            format!("Knee at {percent} % of the closed loop, {} IOPS: {rule}.", three_digits(rate))
        }
        _ => format!("No knee in these steps ({rule})."),
    };
    let blocks = vec![SectionBlock::Table(table), SectionBlock::Text(knee)];
    let mut document = of_run(run);
    document.sections.retain(|section| section.title == "Warnings");
    document.sections.insert(0, Section::new("Latency against offered load", blocks));
    document
}
