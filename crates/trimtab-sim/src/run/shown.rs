//! Readable forms of a run's figures, and selection of the main ones.

use super::{LatencyPart, Metric, Phase, Run, Unit, metrics};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};

/// A setting for display: times and sizes with three digits, counts with separators.
#[must_use]
pub fn readable(key: &str, value: &str) -> String {
    let count = |digits: &str| digits.parse::<u64>().ok();
    match (value.strip_suffix("ns").and_then(count), count(value)) {
        (Some(ns), _) => Nanos(ns).to_string(),
        (None, Some(bytes)) if is_size(key) => Bytes(bytes).to_string(),
        (None, Some(n)) => grouped(n),
        (None, None) => value.to_owned(),
    }
}

/// A property of the environment for display. Serial numbers get no separators.
#[must_use]
pub fn readable_place(key: &str, value: &str) -> String {
    let size = value.parse().ok().filter(|_| is_size(key)).map(|bytes| Bytes(bytes).to_string());
    size.unwrap_or_else(|| value.to_owned())
}

/// True if the setting of this name is a number of bytes.
fn is_size(key: &str) -> bool {
    const SIZES: [&str; 12] = [
        "bytes",
        "live",
        "median",
        "largest",
        "session",
        "capacity",
        "random-write-file",
        "discard-max",
        "request-max",
        "bytes-per-inode",
        "memory",
        "min-extent",
    ];
    let name = key.rsplit('.').next().unwrap_or(key);
    SIZES.contains(&name) || name.ends_with("_bytes")
}

/// Value with its unit.
#[must_use]
pub fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => Nanos((value * 1e9).max(0.0) as u64).to_string(),
        Unit::Nanos => Nanos(value.max(0.0) as u64).to_string(),
        Unit::Bytes => Bytes(value.max(0.0) as u64).to_string(),
        Unit::MegabytesPerSecond => format!("{} MB/s", three_digits(value)),
        Unit::OpsPerSecond => format!("{}/s", three_digits(value)),
        // A mean, or a rate per unit.
        Unit::Count if libm::trunc(value) != value && value.abs() < 1000.0 => three_digits(value),
        // Counts are not rounded.
        Unit::Count => format!(
            "{}{}",
            if value <= -0.5 { "-" } else { "" },
            grouped((value.abs() + 0.5) as u64)
        ),
        Unit::Ratio => format!("{}×", three_digits(value)),
        Unit::Percent => format!("{} %", three_digits(value)),
    }
}

/// A ratio with three significant digits: 0.0160, 0.983, 64.2.
#[must_use]
pub fn ratio(value: f64) -> String {
    let decimals = match value {
        v if v >= 999.5 => return three_digits(v),
        // Values that round up have the decimals of the larger one.
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.09995 => 3,
        v if v >= 0.009_995 => 4,
        _ => return format!("{value:.2e}"),
    };
    format!("{value:.decimals$}")
}

/// The main metric: the first summary metric that exists, otherwise the first of all.
#[must_use]
pub fn headline(metrics: Vec<Metric>) -> Option<Metric> {
    const SUMS: [&str; 10] = [
        "random-write.steady-state",
        "read-0%.4KiB.iops",
        "foreground.seconds",
        "delete+sync.seconds",
        "transactions.rate",
        metrics::WRITE_RATE_STEADY,
        metrics::WAF_LAST_QUARTER,
        metrics::WAF,
        "peak.rate",
        "random-write.rate",
    ];
    let sum = SUMS.iter().find_map(|name| metrics.iter().position(|metric| metric.name == *name));
    metrics.into_iter().nth(sum.unwrap_or(0))
}

/// Temperature and wear of the drives, if reported: "drive 41 °C, then 46 °C; 3 % of its
/// rated life used". The environment has reasons for missing values.
#[must_use]
pub fn health(run: &Run) -> Option<String> {
    let value = |key: &str| {
        run.environment.iter().find(|field| field.key == key).map(|field| field.value.as_str())
    };
    let reported = |key: String| value(&key).filter(|value| !value.starts_with("n/a"));
    let of = |drive: &str| {
        let before = reported(format!("{drive}.temperature"));
        let after =
            reported(format!("{drive}.temperature.after")).filter(|after| Some(*after) != before);
        let warm: Vec<&str> = before.into_iter().chain(after).collect();
        let parts: Vec<String> = (!warm.is_empty())
            .then(|| warm.join(", then "))
            .into_iter()
            .chain(reported(format!("{drive}.wear")).map(str::to_owned))
            .collect();
        (!parts.is_empty()).then(|| format!("{} {}", drive.replace('.', " "), parts.join("; ")))
    };
    let several = (0..)
        .map(|n| format!("drive.{n}"))
        .take_while(|drive| value(&format!("{drive}.name")).is_some());
    let each: Vec<String> = core::iter::once("drive".to_owned())
        .chain(several)
        .filter_map(|drive| of(&drive))
        .collect();
    (!each.is_empty()).then(|| each.join("; "))
}

/// Phases grouped by name, in order of first appearance.
#[must_use]
pub fn by_name(phases: &[Phase]) -> Vec<(&str, Vec<&Phase>)> {
    let mut groups: Vec<(&str, Vec<&Phase>)> = Vec::new();
    for phase in phases {
        match groups.iter_mut().find(|(name, _)| *name == phase.name) {
            Some((_, group)) => group.push(phase),
            None => groups.push((&phase.name, vec![phase])),
        }
    }
    groups
}

/// Latencies by phase and operation kind, named `PHASE KIND`; tries and rounds merged.
/// Excludes phases with one operation, which have no distribution.
#[must_use]
pub fn histograms(phases: &[Phase], parts: &[LatencyPart]) -> Vec<(String, Histogram)> {
    let mut histograms = Vec::new();
    for (name, group) in by_name(phases) {
        for (kind, part) in
            OpKind::ALL.iter().flat_map(|kind| parts.iter().map(move |part| (*kind, *part)))
        {
            let mut merged = Histogram::new();
            for phase in &group {
                for latency in phase.latencies.iter().filter(|l| l.kind == kind && l.part == part) {
                    merged.merge(&latency.histogram);
                }
            }
            if merged.count() > group.len() as u64 {
                let part = if part == LatencyPart::Total {
                    String::new()
                } else {
                    format!(", {}", part.name())
                };
                histograms.push((format!("{name} {}{part}", kind.name()), merged));
            }
        }
    }
    histograms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits() {
        assert_eq!(
            [0.00123, 0.0161, 0.1234, 1.0, 12.34, 640.0, 216_147.2].map(ratio),
            ["1.23e-3", "0.0161", "0.123", "1.00", "12.3", "640", "216,000"]
        );
        // Once "0.1000", "1.000", "10.00" and "100.0".
        assert_eq!(
            [0.099_96, 0.9996, 9.996, 99.96, 999.6].map(ratio),
            ["0.100", "1.00", "10.0", "100", "1,000"]
        );
    }
}
