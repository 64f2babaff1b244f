//! `trimtab advise`: prints the discard settings of another program for one drive.

use crate::advise::{Evidence, Limits, PROGRAMS, Program, Setting};
use crate::cmd::options::{one_of, percent};
use crate::target_spec::TargetSpec;
use serde::Serialize;
use std::process::ExitCode;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::session::journal::MountScope;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;

const EXAMPLES: &str = "\
Examples:
  trimtab advise /var/lib/db --for rocksdb
  trimtab advise /dev/nvme0n1 --for zfs --wait 5ms
  trimtab advise drive:sata-tlc-500gb --for pebble --share 2%
  trimtab advise / --for fstrim --json | jq '.settings[]'

Uses the trims of this filesystem in the history and in measured studies, or else a twin of the \
drive, or else only the limits of the kernel: then a value that needs a measurement is missing, \
and the command that measures is named. A rate keeps the drive busy with TRIM for the accepted \
share of time. The interval holds the bounds by all trims (95 %), or spans all specifications \
that explain the drive equally well. Changes nothing.";

/// Arguments of `trimtab advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AdviseArgs {
    /// A directory, a file, a block device or drive:NAME.
    #[arg(value_name = "PATH")]
    target: String,
    /// The program.
    #[arg(long = "for", value_name = "PROGRAM", value_parser = one_of(PROGRAMS))]
    program: Program,
    /// Let the drive be busy with TRIM for this share of time.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = share)]
    share: f64,
    /// Let one TRIM take this long.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    wait: Nanos,
}

fn share(text: &str) -> Result<f64, String> {
    percent(text, 0.01..=100.0, "a share of time, from 0.01% to 100%")
}

impl AdviseArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        MountScope::of_targets([self.target.as_str()])
    }
}

#[derive(Serialize)]
struct Report<'a> {
    program: &'a str,
    target: &'a str,
    settings: Vec<Setting>,
    limits: Limits,
    /// A reason why the settings have no effect.
    caution: Option<String>,
    evidence: Evidence,
    note: &'a str,
    sources: &'a [&'a str],
}

/// Prints the settings.
pub fn run(args: &AdviseArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let takes = "PATH is a directory, a file, a block device or drive:NAME";
    if args.wait == Nanos::ZERO {
        return Err(UsageError::new("--wait 0s allows no TRIM")
            .hint("give 10ms, for example")
            .into());
    }
    let target = TargetSpec::resolve_as(&args.target, takes)?;
    let evidence = Evidence::of(&target, context)?;
    let limits = Limits { share_percent: args.share, wait_ns: args.wait.0 };
    let report = Report {
        program: args.program.title,
        target: &args.target,
        settings: evidence.settings(&args.program, limits),
        limits,
        caution: (args.program.needs_option && evidence.discards_online == Some(false)).then(|| {
            let path = &args.target;
            format!(
                "{path} is on a filesystem without the option discard: these settings change no \
                    TRIM"
            )
        }),
        evidence,
        note: args.program.note,
        sources: args.program.sources,
    };
    context.report("advise", 1, &report, || text(&report))?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report<'_>) -> String {
    let mut table = Table::new("", &[report.program, "value", "interval", "reason"]);
    let number = |n: u64, unit: &str| format!("{n} {unit}").trim_end().to_owned();
    for setting in &report.settings {
        let value = match &setting.value {
            None => "none".to_owned(),
            Some(value) => match (value.as_u64(), value.as_str()) {
                (Some(n), _) => number(n, setting.unit),
                (None, word) => word.unwrap_or_default().to_owned(),
            },
        };
        let interval = setting.interval.map_or_else(String::new, |[low, high]| {
            format!("{low} to {}", number(high, setting.unit))
        });
        table.row([setting.name.to_owned(), value, interval, setting.why.clone()]);
    }
    let limits = report.limits;
    let mut lines = vec![
        format!("Evidence: {}.", report.evidence.text),
        format!(
            "Accepted: TRIM for {} % of the time (--share), {} for one TRIM (--wait).",
            limits.share_percent,
            Nanos(limits.wait_ns)
        ),
    ];
    lines.extend(report.evidence.measure.iter().map(|command| format!("Measure it: {command}")));
    lines.push(format!("Note: {}.", report.note));
    lines.extend(report.sources.iter().map(|source| format!("Source: {source}")));
    let caution =
        report.caution.iter().map(|text| prose(&format!("{text}.")) + "\n").collect::<String>();
    caution + &on_screen(&table) + "\n" + &lines.iter().map(|line| prose(line)).collect::<String>()
}
