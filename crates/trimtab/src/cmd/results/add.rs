//! `trimtab results add`: stores figures measured elsewhere.

use crate::report::{self, text};
use crate::store;
use crate::store::shape::csv::usual_direction;
use crate::store::shape::run::{RunV1, SCHEMA, VERSION};
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::sys::clock::unix_ms;
use trimtab_sim::run::{Field, Metric, Run, Unit};

/// Store a result that was measured elsewhere, for comparison.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A unit stands behind the value, or ends the name: _per_s, _s, _ns, _MBps, _bytes, _percent.
Units are s, ms, us, ns, MB/s, GB/s, ops/s, B, kB, MB, GB, TB, count, ratio and %.

Examples:
  trimtab results add --name 'EMC VNX, VG8 gateways' --workload specsfs2008 --systems 4 \\
    --metric ops_per_s=497623 --metric 'ort=0.96 ms'
  trimtab results add --name 'Intel 320, noatime' --workload postmark --policy online \\
    --metric total_s=39 --setting files=10000
  trimtab results add --name X --workload tree --metric 'delete+sync=40.6,40.9,41.2 s'")]
pub struct ResultsAddArgs {
    /// The measured drive or system.
    #[arg(long, value_name = "TEXT")]
    name: String,
    /// The workload.
    #[arg(long, value_name = "NAME")]
    workload: String,
    /// A figure with its repeats. May be given several times.
    #[arg(long = "metric", value_name = "NAME=VALUE[,VALUE...] [UNIT]", required = true)]
    metrics: Vec<String>,
    /// Direction of improvement for figures of this name.
    #[arg(long, value_name = "NAME=higher|lower|neither", value_parser = super::key_value)]
    better: Vec<(String, String)>,
    /// Independent systems whose figures are summed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    systems: u32,
    /// The trim policy.
    #[arg(long, value_name = "NAME", default_value = "")]
    policy: String,
    /// A setting of the workload. May be given several times.
    #[arg(long = "setting", value_name = "KEY=VALUE", value_parser = super::key_value)]
    settings: Vec<(String, String)>,
    /// A property of the machine, the drive or the filesystem. May be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::key_value)]
    environment: Vec<(String, String)>,
    /// Date of the measurement: 2026-03-01, or 7d ago.
    #[arg(long, value_name = "WHEN")]
    when: Option<String>,
}

/// Runs the command.
pub fn run(args: &ResultsAddArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let fields = |pairs: &[(String, String)]| pairs.iter().map(|(k, v)| Field::new(k, v)).collect();
    let mut metrics = Vec::new();
    for text in &args.metrics {
        let metric = metric(text)?;
        if metrics.iter().any(|m: &Metric| m.name == metric.name) {
            return Err(UsageError::new(format!("--metric {} is given twice", metric.name)).hint("list its repeats as 1,2,3").into());
        }
        metrics.push(metric);
    }
    for (name, direction) in &args.better {
        let metric = metrics.iter_mut().find(|m| m.name == *name);
        let metric = metric.ok_or_else(|| UsageError::new(format!("--better names '{name}', and there is no --metric of that name")))?;
        metric.better =
            direction.parse().map_err(|_| UsageError::new(format!("--better {name}: '{direction}' is not higher, lower or neither")))?;
    }
    let run = Run {
        workload: args.workload.clone(),
        settings: fields(&args.settings),
        target_label: args.name.clone(),
        policy: args.policy.clone(),
        systems: args.systems,
        started_unix_ms: args.when.as_deref().map(|text| super::instant_of(text, unix_ms())).transpose()?.unwrap_or(0),
        complete: true,
        environment: fields(&args.environment),
        metrics,
        ..Run::empty()
    };
    let id = store::save(context, &run)?;
    context.report_styled(SCHEMA, VERSION, &RunV1::new(&run, Some(id)), || text::render(&report::run::everything(&run)))?;
    context.remark(&format!("kept as {id}"));
    Ok(ExitCode::SUCCESS)
}

/// Accepted spellings of units, with the stored unit and the factor to it.
const UNITS: [(&str, Unit, f64); 20] = [
    ("s", Unit::Seconds, 1.0),
    ("ms", Unit::Seconds, 1e-3),
    ("us", Unit::Seconds, 1e-6),
    ("µs", Unit::Seconds, 1e-6),
    ("min", Unit::Seconds, 60.0),
    ("h", Unit::Seconds, 3600.0),
    ("ns", Unit::Nanos, 1.0),
    ("MB/s", Unit::MegabytesPerSecond, 1.0),
    ("GB/s", Unit::MegabytesPerSecond, 1e3),
    ("MiB/s", Unit::MegabytesPerSecond, 1.048_576),
    ("ops/s", Unit::OpsPerSecond, 1.0),
    ("B", Unit::Bytes, 1.0),
    ("kB", Unit::Bytes, 1e3),
    ("MB", Unit::Bytes, 1e6),
    ("GB", Unit::Bytes, 1e9),
    ("TB", Unit::Bytes, 1e12),
    ("MiB", Unit::Bytes, 1_048_576.0),
    ("count", Unit::Count, 1.0),
    ("ratio", Unit::Ratio, 1.0),
    ("%", Unit::Percent, 1.0),
];

/// Unit suffixes of metric names, longest first.
const SUFFIXES: [(&str, Unit); 7] = [
    ("_per_s", Unit::OpsPerSecond),
    ("_MBps", Unit::MegabytesPerSecond),
    ("_seconds", Unit::Seconds),
    ("_percent", Unit::Percent),
    ("_bytes", Unit::Bytes),
    ("_ns", Unit::Nanos),
    ("_s", Unit::Seconds),
];

fn metric(text: &str) -> Result<Metric, UsageError> {
    let fault = |what: String| UsageError::new(format!("--metric '{}': {what}", text.escape_debug()));
    let (name, rest) = text.rsplit_once('=').ok_or_else(|| fault("expected NAME=VALUE".to_owned()))?;
    let (name, rest) = (name.trim(), rest.trim());
    if name.is_empty() {
        return Err(fault("expected NAME=VALUE".to_owned()));
    }
    let last_digit = rest.rfind(|c: char| c.is_ascii_digit());
    let split = last_digit.ok_or_else(|| fault(format!("'{}' is not a number", rest.escape_debug())))? + 1;
    let (values, unit_name) = (&rest[..split], rest[split..].trim());
    let (unit, factor) = if unit_name.is_empty() {
        let suffix = SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix));
        suffix
            .map(|&(_, unit)| (unit, 1.0))
            .ok_or_else(|| fault("no unit".to_owned()).hint("put one behind the value, as in 'ort=0.96 ms'"))?
    } else {
        let known = UNITS.iter().find(|(text, ..)| *text == unit_name);
        known.map(|&(_, unit, factor)| (unit, factor)).ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|u| u.0).collect();
            fault(format!("unknown unit '{}'", unit_name.escape_debug())).hint(format!("units are {}", names.join(", ")))
        })?
    };
    let samples = values
        .split(',')
        .map(|value| match value.trim().parse::<f64>() {
            Ok(v) if v.is_finite() => Ok(v * factor),
            _ => Err(fault(format!("'{}' is not a number", value.trim().escape_debug()))),
        })
        .collect::<Result<Vec<f64>, _>>()?;
    Ok(Metric { name: name.to_owned(), unit, better: usual_direction(unit), samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_argument_parses_name_values_and_unit() {
        for (text, name, unit, samples) in [
            ("ops_per_s=497623", "ops_per_s", Unit::OpsPerSecond, vec![497_623.0]),
            ("ort=0.96 ms", "ort", Unit::Seconds, vec![0.96e-3]),
            ("total_s=39", "total_s", Unit::Seconds, vec![39.0]),
            ("delete+sync=40.5, 41,42.25 s", "delete+sync", Unit::Seconds, vec![40.5, 41.0, 42.25]),
            ("usable=60TB", "usable", Unit::Bytes, vec![60e12]),
            ("waf=1.25 ratio", "waf", Unit::Ratio, vec![1.25]),
            ("a=b=5%", "a=b", Unit::Percent, vec![5.0]),
        ] {
            let got = metric(text).unwrap();
            assert_eq!((got.name.as_str(), got.unit, got.samples), (name, unit, samples), "{text}");
        }
        for (text, expected) in [
            ("x", "expected NAME=VALUE"),
            ("=5 s", "expected NAME=VALUE"),
            ("x=5", "no unit"),
            ("x=5 parsec", "unknown unit 'parsec'"),
            ("x=five s", "'five s' is not a number"),
            ("x=1,,2 s", "'' is not a number"),
            ("x=1e999 s", "'1e999' is not a number"),
        ] {
            let message = metric(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
