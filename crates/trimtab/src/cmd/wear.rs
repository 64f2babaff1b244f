//! `trimtab wear`: host and NAND writes, write amplification, and life left of drives.

mod calibrate;

use crate::apply::{self, PolicyChange, PolicyChangeKind, System};
use crate::cmd::options::{SafetyArgs, positive};
use crate::daemon::metrics;
use crate::report::wear_metrics::render;
use anyhow::Context as _;
use clap::builder::{PathBufValueParser, TypedValueParser};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::block::Layer;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::error::{FailureKind, one_line};
use trimtab_linux::output::{self, Context};
use trimtab_linux::session::journal::{self, MountScope};
use trimtab_linux::trim::resume::state_directory;
use trimtab_linux::wear::Reading;
use trimtab_linux::wear::assessment::{
    DriveWear, Failure, Outcome, add_ocp_log, all_drives, assess, drives_of, from_file, of_drive,
    require_same_drive,
};
use trimtab_linux::wear::effect::PolicyEffect;
use trimtab_linux::wear::history::{self, WearHistory};
use trimtab_linux::wear::outlook::Warranty;
use trimtab_report::wear::text;

const EXAMPLES: &str = "\
Examples:
  trimtab wear                         every drive of this machine
  trimtab wear /home                   the drives below /home
  trimtab wear /dev/sdb --device sat   a drive behind a USB bridge
  trimtab wear /dev/nvme0n1 --tbw 600TB
  trimtab wear --from drive.json --before last-month.json
  smartctl --json -x /dev/sda | trimtab wear --from -
  trimtab wear --calibrate /srv --most 4GiB   the unit of a counter that smartctl does not know
  trimtab wear --json | jq '.drives[].waf_lifetime.value'

Reads through smartctl (package smartmontools, version 7.0 or later), which knows the units of \
each vendor. Without smartctl, only NVMe drives are read. A disk that sleeps is not woken. A \
drive that does not answer is given up after 10 s. Nothing is written to a drive, except with \
--calibrate.

One reading of each drive a day is kept in /var/lib/trimtab/wear.json. Rates and the life left \
come from --before, else from the oldest reading of the last 30 days or, if there is none, the \
newest older one. After a counter started over, only readings since then count. Without such a \
reading, they are not known. The daemon reads NVMe drives every day. For other drives, run the \
command daily, for example from cron with --quiet.

A counter whose unit is not documented is shown as a raw number and never converted. Write \
amplification is NAND writes divided by host writes; the range in parentheses is what whole \
steps of the two counters leave open. NVMe drives count NAND writes in the log of the Open \
Compute Project (C0h), if they have it.

After 'trimtab apply', the mean write amplification before and since is compared (95 % \
interval), if there are readings of both times.

--calibrate says first how much it writes, removes its file, and gives no unit if other programs \
write more than a fifth of all data.

Exit status: 0 all drives were read, or a unit was found; 1 at least one was not or the readings \
cannot be kept, 2 wrong usage.";

/// A warranty limit below this lacks its unit.
const TBW_MIN: Bytes = Bytes(1_000_000_000);

/// Arguments of `trimtab wear`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Read the drives below these mount points, directories or devices [default: all
    /// drives].
    paths: Vec<PathBuf>,
    /// Read every drive of this machine.
    #[arg(long, conflicts_with = "paths")]
    all: bool,
    /// Read files written by 'smartctl --json' or 'nvme --output-format=json'; - is
    /// standard input.
    #[arg(
        long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["paths", "all", "device"]
    )]
    from: Vec<PathBuf>,
    /// Compare with this earlier reading of the same drive, a file as for --from.
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Also write metrics for Prometheus' node exporter into this file.
    #[arg(long, value_name = "FILE.prom", value_parser = prom_file())]
    metrics: Option<PathBuf>,
    /// Tell smartctl how the drive is connected, for drives behind RAID controllers and
    /// USB bridges: smartctl's option -d.
    #[arg(long, value_name = "TYPE")]
    device: Option<String>,
    /// Compare host writes with this warranty limit, such as 600TB.
    #[arg(long, value_name = "SIZE")]
    tbw: Option<Bytes>,
    /// Compare host writes with a warranty of N drive writes per day.
    #[arg(long, value_name = "N", conflicts_with = "tbw", value_parser = positive)]
    dwpd: Option<f64>,
    /// Years of that warranty.
    #[arg(
        long, value_name = "N", default_value_t = 5.0, requires = "dwpd", value_parser = positive
    )]
    years: f64,
    /// Write to a file in this directory, and find the unit of the counters that move.
    #[arg(
        long, requires = "paths",
        conflicts_with_all = ["all", "from", "before", "metrics", "tbw", "dwpd"]
    )]
    calibrate: bool,
    /// Write at most this much; 3 steps of the counter are enough.
    #[arg(long, value_name = "SIZE", default_value = "8GiB", requires = "calibrate")]
    most: Bytes,
    /// Calibrate this attribute instead of those that may count writes.
    #[arg(long, value_name = "ID", requires = "calibrate")]
    attribute: Option<u64>,
    #[command(flatten)]
    safety: SafetyArgs,
}

impl Args {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        MountScope::Paths(self.paths.clone())
    }

    fn warranty(&self) -> Result<Option<Warranty>, UsageError> {
        match (self.tbw, self.dwpd) {
            (Some(limit), _) if limit < TBW_MIN => {
                Err(UsageError::new(format!("--tbw {limit} is no limit of a drive"))
                    .hint("give the whole limit with its unit, such as 600TB"))
            }
            (Some(limit), _) => Ok(Some(Warranty::Tbw(limit))),
            (None, writes) => Ok(writes.map(|writes| Warranty::Dwpd { writes, years: self.years })),
        }
    }

    fn require_device(&self) -> Result<(), UsageError> {
        let is_type = |kind: &str| {
            kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b",+/:._-".contains(&byte))
        };
        match &self.device {
            Some(kind) if kind.is_empty() || !is_type(kind) => {
                Err(UsageError::new(format!("--device '{kind}' is no type of smartctl"))
                    .hint("give one such as sat or megaraid,0"))
            }
            _ => Ok(()),
        }
    }

    fn readings(&self, history: Option<&WearHistory>) -> anyhow::Result<Vec<Outcome>> {
        if !self.from.is_empty() {
            return Ok(self
                .from
                .iter()
                .map(|path| (path.display().to_string(), from_file(path)))
                .collect());
        }
        let root = Root::live().context("cannot open /")?;
        let paths: Vec<&Path> = self.paths.iter().map(PathBuf::as_path).collect();
        let drives = if paths.is_empty() { all_drives(&root)? } else { drives_of(&root, &paths)? };
        Ok(drives
            .iter()
            .map(|layer| {
                let mut outcome = of_drive(&root, layer, self.device.as_deref());
                outcome.iter_mut().for_each(|reading| add_ocp_log(layer, reading, history));
                (layer.node(), outcome)
            })
            .collect())
    }
}

fn prom_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| metrics::require_name(&path).map(|()| path))
}

#[derive(Serialize)]
struct Report {
    drives: Vec<DriveWear>,
    failures: Vec<Failure>,
}

/// Reads and prints.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let warranty = args.warranty()?;
    args.require_device()?;
    let mut files = std::collections::BTreeSet::new();
    if let Some(twice) = args.from.iter().find(|file| !files.insert(*file)) {
        let what = format!("--from '{}' is named twice", twice.display());
        return Err(UsageError::new(what).hint("name each file once").into());
    }
    if args.calibrate {
        return calibrate::run(args, context);
    }
    let before = args.before.as_deref().map(from_file).transpose()?;
    let opened = args.from.is_empty().then(|| WearHistory::open(&state_directory())).transpose();
    let readings = args.readings(opened.as_ref().ok().and_then(Option::as_ref))?;
    if before.is_some() && readings.len() != 1 {
        let what = format!(
            "--before is the earlier reading of one drive, and {} are named",
            readings.len()
        );
        return Err(UsageError::new(what).hint("name one drive or file").into());
    }
    let mut is_kept = true;
    // A user who may not access the readings keeps none.
    let mut complain_of_history = |what: &str, error: &anyhow::Error| {
        if journal::is_denied(error) {
            return context.remark("the readings belong to root: run with sudo");
        }
        is_kept = false;
        output::complain(&format!("{what}: {}", one_line(error)));
    };
    let mut history = opened.unwrap_or_else(|error| {
        let path = state_directory().join(history::FILE);
        let what = match error.downcast_ref::<std::io::Error>() {
            Some(_) => "no reading is kept".to_owned(),
            None => format!("no reading is kept until you move '{}' away", path.display()),
        };
        complain_of_history(&what, &error);
        None
    });
    let changes = if history.is_some() { policy_changes() } else { Vec::new() };
    let mut report = Report { drives: Vec::new(), failures: Vec::new() };
    for (subject, outcome) in readings {
        match outcome {
            Ok(reading) => {
                before.as_ref().map_or(Ok(()), |before| require_same_drive(before, &reading))?;
                let earlier = before.clone().or_else(|| history.as_ref()?.before(&reading));
                history.iter_mut().for_each(|history| history.add(&reading));
                let policy_effect = history
                    .as_ref()
                    .and_then(|history| effect(&changes, &subject, &reading, history));
                let wear = assess(subject, reading, earlier.as_ref(), warranty.as_ref());
                report.drives.push(DriveWear { policy_effect, ..wear });
            }
            Err(error) => report.failures.push(Failure { subject, error }),
        }
    }
    if let Some(path) = &args.metrics {
        metrics::write(path, &render(&report.drives, &report.failures))?;
    }
    if report.drives.is_empty()
        && let Some(Failure { error, .. }) = report.failures.pop()
    {
        complain(&report.failures);
        return Err(error);
    }
    if let Some(Err(error)) = history.map(|history| history.save()) {
        complain_of_history("this reading is not kept", &error);
    }
    context.report("wear", 1, &report, || text(&report.drives, output::width()))?;
    complain(&report.failures);
    Ok(match report.failures.first() {
        Some(failure) => ExitCode::from(FailureKind::of(&failure.error).exit_status()),
        None if is_kept => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    })
}

/// Policies that `trimtab apply` applied or undid, with the drives below, oldest first.
/// Empty if the journal cannot be read: the wear is known without it.
fn policy_changes() -> Vec<(PolicyChange, Vec<Layer>)> {
    let Ok(system) = System::new(None, None) else { return Vec::new() };
    let mut changes = apply::events(&system).unwrap_or_default();
    changes.retain(|change| change.what != PolicyChangeKind::PutBack);
    let drives = |path: &Path| drives_of(&system.root, &[path]).unwrap_or_default();
    let with_drives = |change: PolicyChange| {
        let below = drives(&change.path);
        (change, below)
    };
    changes.into_iter().map(with_drives).collect()
}

/// The effect of the last change on a drive, since the change before it.
fn effect(
    changes: &[(PolicyChange, Vec<Layer>)],
    node: &str,
    reading: &Reading,
    history: &WearHistory,
) -> Option<PolicyEffect> {
    let is_below = |drives: &[Layer]| drives.iter().any(|drive| drive.node() == node);
    let mut newest = changes.iter().rev().filter(|(_, drives)| is_below(drives));
    let (last, _) = newest.next()?;
    let since = newest.next().map_or(0, |(earlier, _)| earlier.unix_ms / 1000);
    let [before, after] = history.around(reading, since, last.unix_ms / 1000)?;
    let names = (last.path.display().to_string(), last.policy.clone());
    let is_undone = last.what == PolicyChangeKind::Undone;
    PolicyEffect::new(names, is_undone, last.unix_ms / 1000, [&before, &after])
}

fn complain(failures: &[Failure]) {
    failures.iter().for_each(|failure| output::complain(&one_line(&failure.error)));
}
