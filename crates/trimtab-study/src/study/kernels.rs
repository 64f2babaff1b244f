//! What online discard costs with another generation of the filesystem: of today's ext4, or of the one that first could discard. They send different
//! commands for the same files, so that a slowdown says little without the kernel it was seen on.

use super::cells::{Cell, Question, Work};
use super::job::Job;
use super::modelled::{self, Setup};
use super::scale::Scale;
use super::table::{jobs, mean};
use super::used::Used;
use super::{Problem, Study, policy};
use crate::document::{Block, Section, Table};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::units::three_digits;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Run, Unit};

/// Key of the environment that names the generation.
pub const GENERATION: &str = "fs.generation";

/// The workloads on the other generation's filesystem, without discards and with online discard. None where online discard is not tried.
///
/// # Errors
/// A filesystem that cannot be made.
pub fn cells(setup: &Setup, policies: &[PolicySpec], scale: Scale) -> Result<Vec<Cell>, Problem> {
    if !setup.trims() || !policies.contains(&PolicySpec::Online) {
        return Ok(Vec::new());
    }
    let mut other = setup.clone();
    other.volume = modelled::volume_named(if setup.volume.journal.converts_after_write { "ext4-2011" } else { "ext4" });
    other.used = Used::by_churn(&other.volume, other.fill, setup.seed)?;
    let cell = |job: &Job, policy: PolicySpec| Cell {
        question: Question::Generation,
        work: Work::Job { setup: Box::new(other.clone()), job: job.clone(), brief: true },
        policy,
    };
    let jobs = scale.jobs(setup.seed)?;
    Ok(jobs.iter().flat_map(|job| [PolicySpec::None, PolicySpec::Online].map(|policy| cell(job, policy))).collect())
}

/// The generation of a run.
pub fn generation(run: &Run) -> &str {
    Field::find(&run.environment, GENERATION).unwrap_or("?")
}

/// A time without discards and with online discard.
fn pair(runs: &[Run], job: &str, metric: &str) -> Option<(f64, f64)> {
    let of = |policy: &str| runs.iter().find(|run| run.workload == job && run.policy == policy).and_then(|run| mean(run, metric));
    of(policy::NONE).zip(of(policy::ONLINE)).filter(|(none, _)| *none > 0.0)
}

/// "40.4 s, 532×, with ext4 of Linux 2.6.39": the same time on the other generation; `None` if that was not looked at.
pub fn other(study: &Study, job: &str, metric: &str) -> Option<String> {
    let (none, online) = pair(&study.kernels, job, metric)?;
    let name = generation(study.kernels.first()?);
    Some(format!("{}, {}×, with {name}", quantity(online, Unit::Seconds), three_digits(online / none)))
}

/// How much longer all of the deleting of `job` takes with online discard on the other generation, and its name.
pub fn ratio<'a>(study: &'a Study, job: &str) -> Option<(f64, &'a str)> {
    let pairs = Job::deleting(job).iter().filter_map(|phase| pair(&study.kernels, job, &format!("{phase}.seconds")));
    let (none, online) = pairs.reduce(|a, b| (a.0 + b.0, a.1 + b.1))?;
    Some((online / none, generation(study.kernels.first()?)))
}

/// Both generations beside each other.
pub fn section(study: &Study) -> Option<Section> {
    let mut table = Table::new(
        "Deleting with online discard, against none, by the generation of the filesystem. Today's sends the free space around what was freed again, after the commit; that of 2011 sent what was freed, inside the commit.",
        &["work", "filesystem", "without", "with", "ratio", "discards"],
    );
    for job in jobs(&study.kernels) {
        for phase in super::job::Job::deleting(job) {
            for runs in [&study.runs, &study.kernels] {
                let Some((none, online)) = pair(runs, job, &format!("{phase}.seconds")) else { continue };
                let run = runs.iter().find(|run| run.workload == job && run.policy == policy::ONLINE);
                let discards = run.and_then(|run| mean(run, metrics::DISCARD_COMMANDS)).map_or_else(String::new, |n| format!("{n:.0}"));
                table.row([
                    format!("{job}: {phase}"),
                    run.map_or("", generation).to_owned(),
                    quantity(none, Unit::Seconds),
                    quantity(online, Unit::Seconds),
                    format!("{}×", three_digits(online / none)),
                    discards,
                ]);
            }
        }
    }
    (!study.kernels.is_empty()).then(|| Section::new("Kernel generation", vec![Block::Table(table)]))
}
