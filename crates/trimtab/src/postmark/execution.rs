//! Runs on real directories: checks them, runs, cleans up, and collects the results.

use super::announce::{AnnouncedRun, Announcer};
use super::classic::{Stamps, Totals};
use super::config::PostmarkConfig;
use super::details;
use super::directories::{Locations, LockedDirectory, Names, hold, in_the_way};
use crate::store::recipe::starts_now;
use anyhow::{Context as _, bail};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::{ClosedPipeGuard, Context};
use trimtab_linux::session::safety::consent;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_linux::target::dir::{Calls, DirOptions, Fsync};
use trimtab_sim::run::RunRecording;
use trimtab_sim::run::{Field, Run, TargetKind, Warning};
use trimtab_sim::runner::{RunEnd, RunOutcome, files};
use trimtab_sim::target::{FileTarget as _, TargetError};
use trimtab_sim::workload::FileWorkload as _;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_sim::workload::postmark::{Leftover, Postmark, PostmarkCounts, PostmarkSettings};

/// One run with all its measurements.
#[derive(Clone, Debug)]
pub struct PostmarkRunRecord {
    /// Its configuration.
    pub config: PostmarkConfig,
    /// Start of the run.
    pub started_unix_ms: u64,
    /// Figures of the report.
    pub totals: Totals,
    /// Counts.
    pub counts: PostmarkCounts,
    /// The seconds of the original's report.
    pub stamps: Stamps,
    /// Phases, latencies, series.
    pub recorded: RunRecording,
    /// The machine and disturbances of the run, if observed.
    pub surroundings: Option<(Vec<Field>, Vec<Warning>)>,
}

impl PostmarkRunRecord {
    /// The run in the common form of all workloads, for reports and the store.
    pub fn to_run(&self) -> Run {
        let settings = self.config.run_settings();
        let label = match &self.config.locations[..] {
            [] => std::env::current_dir()
                .map_or_else(|_| ".".to_owned(), |dir| dir.display().to_string()),
            locations => locations
                .iter()
                .map(|location| location.path().display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        };
        let fields = details::fields(&settings, Fsync::Never);
        let mut header = starts_now(
            "postmark",
            fields,
            TargetKind::Directory,
            &label,
            "as-mounted",
            settings.seed.into(),
        );
        header.started_unix_ms = self.started_unix_ms;
        let mut run = header.into_run(self.recorded.clone(), true);
        if let Some((environment, warnings)) = &self.surroundings {
            run.environment.clone_from(environment);
            run.warnings.clone_from(warnings);
        }
        details::add(&mut run, &settings, std::slice::from_ref(&self.counts));
        run
    }
}

/// The system calls of PostMark.
pub fn dir_options(settings: &PostmarkSettings) -> DirOptions {
    let calls =
        if settings.buffering { Calls::Stdio } else { Calls::Blocks { empty_remainder: true } };
    DirOptions {
        write_block: settings.write_block,
        read_block: settings.read_block,
        calls,
        ..DirOptions::default()
    }
}

/// Runs PostMark in the user's directories; with `observe`, the machine and its other
/// activity are recorded.
pub fn run(
    context: &Context,
    config: &PostmarkConfig,
    observe: bool,
    out: &mut dyn Write,
) -> anyhow::Result<PostmarkRunRecord> {
    let observer = observe.then(|| EnvironmentRecorder::start(config.first_location())).transpose();
    let observer =
        observer.with_context(|| format!("cannot access {}", config.first_location().display()))?;
    let settings = config.run_settings();
    settings.check().map_err(|error| UsageError::new(error.to_string()))?;
    super::check_memory(&settings)?;
    let mut paths: Vec<PathBuf> =
        config.locations.iter().map(|location| location.path().to_owned()).collect();
    if paths.is_empty() {
        paths.push(config.first_location().to_owned());
    }
    let held = hold(&paths)?;
    let number_max = u64::from(settings.number) + u64::from(settings.transactions);
    let taken = in_the_way(&held, Names { number_max, subdirectories: settings.subdirectories })?;
    if let [example, more @ ..] = &taken[..] {
        let (example, advice) =
            (example.display(), "remove what an earlier run left, or set another location");
        match more.len() {
            0 => bail!("{example} is in the way: {advice}"),
            more => bail!("{example} and {more} more files are in the way: {advice}"),
        }
    }
    trimtab_linux::sys::interrupt::install().context("cannot catch signals")?;
    trimtab_linux::sys::interrupt::check()?;

    let run = Postmark::new(&settings)
        .map_err(|error| UsageError::new(error.to_string()))?
        .in_existing_locations();
    let plan = run.plan();
    fits(&held, &plan)?;
    agreed(context, &plan)?;
    let _unfinished = trimtab_linux::sys::interrupt::TemporaryChangeGuard::begin();
    let survives = ClosedPipeGuard::new();
    let started_unix_ms = trimtab_linux::sys::clock::unix_ms();
    let mut seconds = wall_seconds();
    let announcer = Announcer::new(out, &mut seconds, settings.transactions);
    let mut announced = AnnouncedRun::new(run, &announcer);
    let mut places =
        Locations::new(&held, dir_options(&settings)).context("cannot use the locations")?;
    let outcome = files::run(&mut announced, &mut places, &mut &announcer);
    let recorded = ended(outcome, &announced.run, &mut places)?;
    drop(survives);
    let counts = announced.run.counts();
    Ok(PostmarkRunRecord {
        config: config.clone(),
        started_unix_ms,
        totals: Totals::of(&settings, &counts),
        counts,
        stamps: announcer.stamps(),
        recorded,
        surroundings: observer.map(|observer| observer.finish(None)),
    })
}

/// Removes the files of an aborted run, and returns its error.
fn ended(
    outcome: RunOutcome,
    run: &Postmark,
    places: &mut Locations,
) -> anyhow::Result<RunRecording> {
    let cause = match outcome.end {
        RunEnd::Complete => return Ok(outcome.recorded),
        RunEnd::Interrupted => anyhow::Error::new(InterruptError),
        RunEnd::Failed(error) => anyhow::Error::new(error),
    };
    let is_there = |error: TargetError| error.errno != Some(libc::ENOENT);
    let mut left = 0_u64;
    run.for_each_leftover(|leftover| {
        let there = match leftover {
            // A file that could not be removed may never have existed: a read-only
            // filesystem does not tell.
            Leftover::File(path) if places.is_foreign(path) => false,
            Leftover::File(path) => {
                places.delete(path).is_err_and(is_there)
                    && !places.read(path, 0).is_err_and(|error| !is_there(error))
            }
            Leftover::Dir(path) => places.remove_dir(path).is_err_and(is_there),
        };
        left += u64::from(there);
    });
    if left > 0 {
        let what = if left == 1 {
            "a file or directory".to_owned()
        } else {
            format!("{left} files and directories")
        };
        return Err(cause.context(format!("{what} of the run could not be removed")));
    }
    Err(cause)
}

/// Asks for consent to large amounts. Only the absolute limit applies: a share of the
/// drive would stop old scripts on small drives.
fn agreed(context: &Context, plan: &WorkloadPlan) -> anyhow::Result<()> {
    let Some(reason) = consent::reason(plan.written, None) else { return Ok(()) };
    let announcement =
        format!("the run writes up to {}, {} at a time; {reason}", plan.written, plan.space);
    if consent::ask(context, &format!("{announcement}. Continue?"))? {
        return Ok(());
    }
    Err(UsageError::new(announcement).hint("use --yes to allow it").into())
}

/// Fails if the files cannot fit.
fn fits(held: &[LockedDirectory], plan: &WorkloadPlan) -> anyhow::Result<()> {
    let mut free: Option<u64> = Some(0);
    let mut devices = Vec::new();
    for place in held {
        let stat = rustix::fs::fstat(&place.dir).map_err(std::io::Error::from)?;
        let sizes = rustix::fs::fstatvfs(&place.dir).map_err(std::io::Error::from)?;
        if devices.contains(&stat.st_dev) {
            continue;
        }
        devices.push(stat.st_dev);
        // A filesystem that does not report its size may have room.
        let here = (sizes.f_blocks > 0).then(|| sizes.f_frsize.saturating_mul(sizes.f_bavail));
        free = free.zip(here).map(|(sum, here)| sum.saturating_add(here));
    }
    match free.map(Bytes) {
        Some(free) if plan.space > free => {
            bail!(
                "the files need up to {} at a time, but only {free} is free in {}",
                plan.space,
                held[0].path.display()
            )
        }
        _ => Ok(()),
    }
}

/// The wall clock in whole seconds, as the start plus the elapsed time, so that setting
/// the clock does not distort a run's time.
fn wall_seconds() -> impl FnMut() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let start = Instant::now();
    move || i64::try_from((wall + start.elapsed()).as_secs()).unwrap_or(i64::MAX)
}
