//! `trimtab study [TARGET]`.

mod modelled;
mod output;
mod three;

pub use output::print;

use crate::cmd::options::{SafetyArgs, count, file_name, percentage};
use crate::drives::below::UnderlyingDrive;
use crate::drives::twins;
use crate::report;
use crate::report::file::OverwriteMode;
use crate::store;
use crate::study::checkpoint::Checkpoints;
use crate::study::real::{FilesystemLock, Possibilities, RealRig};
use crate::study::record;
use crate::study::run::{self, MeasuredRequest};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::session::journal::{self, MountScope};
use trimtab_linux::session::safety::{self, consent};
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_report::study::Surroundings;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_study::document::Document;
use trimtab_study::study::job::Job;
use trimtab_study::study::scale::{DEFAULT, FULL, QUICK, Scale};
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, policy, small};

/// A quick study starts no run after this time.
const QUICK_PATIENCE: Duration = Duration::from_secs(40);

/// Printed instead of an empty report.
const NOTHING_FINISHED: &str =
    "Interrupted before the first run finished: there is no result, and nothing is kept.";

/// The accepted targets, for errors.
const TAKES: &str = "TARGET is a directory on a mounted filesystem, drive:NAME or drive:FILE.toml; \
    without TARGET, three modelled drives are studied";

/// Arguments of `trimtab study`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Unpacks and deletes a source tree and runs PostMark under each trim policy, then recommends one.

On a directory, the study tries the policies that its filesystem allows: as mounted; batched (FITRIM \
after the files are deleted); online (mounted with discard); none (mounted without). Some of them need \
root or your consent. Without it they are left out, and the result says so. On a modelled drive, \
nothing is written to a real drive, and all policies are tried, including adaptive and idle.

Examples:
  trimtab study                      three modelled drives: no root, no hardware, half a minute
  trimtab study drive:ocz-vertex-le-100gb    one of them in full detail
  trimtab study drive:intel-520-120gb --policies none,online,idle:budget=2ms
  trimtab study /mnt/ssd             a quarter of the published sizes, three repeats
  trimtab study --quick .            a tenth of the published sizes, once: under a minute
  trimtab study --full --yes /home   the published sizes; remounts without asking")]
pub struct StudyArgs {
    /// Study a directory, or a modelled drive: drive:NAME or drive:FILE.toml [default:
    /// compare three modelled drives: the SandForce drive of the articles, a current SATA
    /// drive and a current NVMe drive].
    target: Option<String>,
    /// Use a tenth of the published sizes, once: under a minute.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Use the published sizes, three times: 36,706 files and 493 MB (tree), 10,000 files
    /// and 20,000 transactions (PostMark).
    #[arg(long)]
    full: bool,
    /// Repeat each run N times. Repeats of a modelled run are equal: vary --seed instead.
    #[arg(long, value_name = "N", value_parser = count(1..=1000))]
    repeats: Option<u32>,
    /// Try only these policies. On a modelled drive, 'none' is always tried too: it is the
    /// baseline.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policies: Vec<String>,
    /// Seed of files and writes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Put this filesystem on a modelled drive: ext4 (current), ext4-2011 (Linux 2.6.39)
    /// or desktop-2011 (synchronous catalogue) [default: ext4].
    #[arg(long, value_name = "NAME", value_parser = ["ext4", "ext4-2011", "desktop-2011"])]
    filesystem: Option<String>,
    /// Fill a modelled filesystem to this percentage, 10 to 90, in every part of the
    /// study [default: 60 for deleting; 60 and 90 for ageing, with --quick only 60].
    #[arg(long, value_name = "PERCENT", value_parser = percentage(10..=90))]
    fill: Option<u8>,
    /// Model months of use at this capacity, at most the drive's own. A larger size is
    /// more accurate and slower. Results are stated for the drive's own capacity
    /// [default: 2GB].
    #[arg(long, value_name = "SIZE", value_parser = aged_size)]
    aged_size: Option<Bytes>,
    /// Answer only these questions about a modelled drive: deleting (cost of deletes),
    /// ageing (months of use), assumptions (which one changes the answer) [default: all;
    /// with --quick without assumptions].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_enum)]
    questions: Vec<QuestionArg>,
    /// Continue an interrupted study with the same settings; finished runs are not
    /// repeated. On a directory, only runs on this filesystem count, mounted as it is now
    /// and filled to within 3 % of its present fill.
    #[arg(long)]
    resume: bool,
    /// Write the report to this file, which must not exist [default: trimtab-study.html
    /// next to the store of results, numbered if it exists].
    #[arg(long, value_name = "FILE.html", value_parser = file_name("html"))]
    report: Option<PathBuf>,
    /// Let --report replace an existing file.
    #[arg(long, requires = "report")]
    force: bool,
    /// Print everything, not only the answer: all tables, the evidence, settings and
    /// warnings.
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    safety: SafetyArgs,
}

/// Questions that a study answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum QuestionArg {
    Deleting,
    Ageing,
    Assumptions,
}

fn aged_size(text: &str) -> Result<Bytes, String> {
    const LEAST: Bytes = Bytes(100_000_000);
    let size: Bytes = text.parse().map_err(|error| format!("{error}"))?;
    if size < LEAST { Err(format!("write a size of at least {LEAST}")) } else { Ok(size) }
}

impl StudyArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        MountScope::of_targets(self.target.as_deref())
    }

    fn asks(&self, question: QuestionArg) -> bool {
        self.questions.is_empty() || self.questions.contains(&question)
    }

    /// The fills to study: the requested one, or `otherwise`.
    fn fills(&self, otherwise: Vec<f64>) -> Vec<f64> {
        self.fill.map_or(otherwise, |percent| vec![f64::from(percent) / 100.0])
    }

    /// The capacity at which use is modelled.
    fn aged(&self) -> Bytes {
        self.aged_size.unwrap_or(small::SIZE)
    }

    /// Refuses options that apply only to modelled drives.
    fn check_for_directory(&self, target: &str) -> anyhow::Result<()> {
        let given = [
            ("--filesystem", self.filesystem.is_some()),
            ("--fill", self.fill.is_some()),
            ("--aged-size", self.aged_size.is_some()),
        ];
        let hint = "on a directory a study measures only deleting, on the filesystem as it is; \
            'trimtab bench age' ages a real drive";
        let question = self.questions.iter().find(|question| **question != QuestionArg::Deleting);
        let option = given
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
            .or(question.map(|_| "--questions ageing"));
        match option {
            Some(option) => Err(UsageError::new(format!(
                "{option} is for modelled drives, and {target} is a directory"
            ))
            .hint(hint)
            .into()),
            None => Ok(()),
        }
    }
}

/// Opens the store of finished runs, from which an interrupted study resumes.
fn checkpoints(args: &StudyArgs, context: &Context, target: &str) -> anyhow::Result<Checkpoints> {
    let kept = Checkpoints::open(context, target, args.resume)?;
    if args.resume {
        context.remark(&match kept.found() {
            0 => "No finished run of this study to continue from.".to_owned(),
            n => format!("Finished runs of {target} that may be reused: {n}."),
        });
    }
    Ok(kept)
}

/// Runs the study, keeps the runs, prints the report.
pub fn run(args: &StudyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    each_once(&args.policies)?;
    crate::store::check(context)?;
    if let Some(report) = &args.report {
        report::file::check(report, args.force)?;
    }
    let Some(target) = args.target.as_deref() else { return three::run(args, context) };
    let path = match TargetSpec::resolve_as(target, TAKES)? {
        TargetSpec::Directory(path) => path,
        TargetSpec::Drive(name) => return modelled::run(args, context, &name),
        other => {
            return Err(other
                .refused(format!(
                    "a study needs a directory on a mounted filesystem, and {other} is not one"
                ))
                .into());
        }
    };
    let began = Instant::now();
    args.check_for_directory(target)?;
    safety::TargetDirectory::open(&path)?;
    of_directories(&args.policies)?;
    twin_below(context, &path, args.safety.reserve).iter().for_each(|said| context.remark(said));
    // Before mount options are read: another study may have changed them.
    let _alone = FilesystemLock::on(&path)?;
    nobody_changes_it(&args.reach())?;
    let mut possibilities = Possibilities::find(&path)?;
    let (policies, remarks) = possibilities.named(&args.policies);
    remarks.iter().for_each(|remark| context.remark(remark));
    possibilities.ask(context, &policies)?;
    possibilities.lock(&path, &policies);
    let is_wanted = |policy: &String| policies.is_empty() || policies.contains(policy);
    let tried = possibilities
        .offers()
        .iter()
        .filter(|o| o.obstacle.is_none() && is_wanted(&o.policy))
        .count();
    if tried == 0 {
        let obstacles = possibilities
            .offers()
            .into_iter()
            .filter(|o| is_wanted(&o.policy))
            .filter_map(|o| o.obstacle);
        let reasons: Vec<String> = obstacles
            .map(|reason| trimtab_report::study::untried_reason(&reason).to_owned())
            .collect();
        return Err(UsageError::new(format!(
            "none of these policies can be tried on {target}: {}",
            reasons.join("; ")
        ))
        .into());
    }
    let (scale, jobs) = scale(args, context, &path, tried)?;
    let workspace =
        safety::prepare(context, args.safety.reserve, &path, "study", &scale.plan(&jobs, tried))?;
    possibilities.require_of(&workspace)?;
    possibilities.announce(context);
    let mut rig = RealRig::new(context, target, &path, workspace, possibilities, scale != QUICK);
    let asked = MeasuredRequest {
        target: target.to_owned(),
        jobs,
        policies,
        repeats: scale.repeats,
        patience: (args.quick && args.repeats.is_none()).then_some(QUICK_PATIENCE),
    };
    let study = run::real(&mut rig, &asked, &checkpoints(args, context, target)?)?;
    let workspace = rig.into_workspace();
    workspace.close_after(conclude(args, context, &[study], began))
}

/// Message: the twin that was found, and its file.
fn found(kept: &twins::StoredTwin) -> String {
    let learned = kept
        .origin()
        .map(|origin| format!(" ({}, learned on {})", origin.model, origin.learned))
        .unwrap_or_default();
    format!(
        "This drive has a twin{learned}: 'trimtab study drive:{}' models months of use.",
        kept.path.display()
    )
}

/// Message: the twin of the drive below `path`, or how to learn one. `None` unless
/// exactly one solid-state drive is below.
fn twin_below(context: &Context, path: &Path, reserve: Option<Bytes>) -> Option<String> {
    let below = UnderlyingDrive::of_path(&Root::live().ok()?, path).ok()?;
    let learn = || match crate::twin::learn::command(&below, path, reserve) {
        Ok(command) => {
            format!(
                "Months of use on this drive: unknown; learn its model (a twin) with '{command}'"
            )
        }
        Err(why) => format!(
            "Months of use on this drive: unknown; its model (a twin) cannot be learned on {}: \
                {why}",
            path.display()
        ),
    };
    Some(twins::of(context, &below).map_or_else(learn, |kept| found(&kept)))
}

/// Refuses a mount whose options another process has changed for a while: the study would
/// restore the changed ones at its end.
fn nobody_changes_it(reach: &MountScope) -> anyhow::Result<()> {
    // A trim's change of a drive's limits does not matter here; a lock covers it.
    let changed = journal::changed_now(reach)
        .context("cannot see what other processes of trimtab have changed")?;
    match changed.first() {
        None => Ok(()),
        Some(change) => anyhow::bail!("{change}; wait until it has ended"),
    }
}

/// Refuses a policy that is named twice, even with other settings: runs, tables and the
/// verdict identify policies by name.
fn each_once(policies: &[String]) -> Result<(), UsageError> {
    let name = |policy: &String| policy.split(':').next().unwrap_or_default().to_owned();
    let names: Vec<String> = policies.iter().map(name).collect();
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(()),
        Some((_, twice)) => Err(UsageError::new(format!("the policy '{twice}' is named twice"))
            .hint("a study tries each policy once; run another study for other settings")),
    }
}

/// Refuses a policy that a study of a directory cannot try.
fn of_directories(policies: &[String]) -> Result<(), UsageError> {
    const REAL: [&str; 4] = [policy::AS_MOUNTED, policy::NONE, policy::BATCHED, policy::ONLINE];
    let Some(untried) = policies.iter().find(|name| !REAL.contains(&name.as_str())) else {
        return Ok(());
    };
    untried.parse::<PolicySpec>().map_err(|error| UsageError::new(error.to_string()))?;
    Err(UsageError::new(format!("a study of a directory cannot try the policy '{untried}'"))
        .hint(format!("it tries {}; a modelled drive takes all of them", REAL.join(", "))))
}

/// The requested scale; without a request the default, or a quick study where the default
/// needs consent that cannot be given.
fn scale(
    args: &StudyArgs,
    context: &Context,
    path: &Path,
    policies: usize,
) -> anyhow::Result<(Scale, Vec<Job>)> {
    let chosen = match (args.quick, args.full) {
        (true, _) => QUICK,
        (_, true) => FULL,
        _ => DEFAULT,
    };
    let with_repeats =
        |scale: Scale| Scale { repeats: args.repeats.unwrap_or(scale.repeats), ..scale };
    let chosen = with_repeats(chosen);
    let jobs = chosen.jobs(args.seed)?;
    let needs_consent = |plan: &WorkloadPlan, drive| consent::reason(plan.written, drive);
    let asked_for = args.quick || args.full || args.repeats.is_some();
    if !asked_for && !consent::can_be_given(context) {
        let drive = safety::TargetDirectory::open(path)?.drive;
        if let Some(reason) = needs_consent(&chosen.plan(&jobs, policies), drive) {
            let quick = with_repeats(QUICK);
            let written = chosen.plan(&jobs, policies).written;
            context.remark(&format!(
                "The default study would write {written}; {reason}. Without consent \
                    (--yes), a quick study runs instead."
            ));
            return Ok((quick, quick.jobs(args.seed)?));
        }
    }
    Ok((chosen, jobs))
}

/// Keeps the runs of one or more studies, writes the report, prints the answer, and
/// returns the exit status.
fn conclude(
    args: &StudyArgs,
    context: &Context,
    studies: &[Study],
    began: Instant,
) -> anyhow::Result<ExitCode> {
    let complete = studies.iter().all(|study| study.complete);
    if !complete && studies.iter().all(Study::is_empty) {
        context.remark(NOTHING_FINISHED);
        return Err(InterruptError.into());
    }
    let kept = record::keep(context, studies);
    let id = kept.as_ref().ok().copied().flatten();
    let mut around =
        Surroundings { took: Some(began.elapsed()), report: None, kept: id.map(|id| id.short()) };
    let verdicts = Verdict::all(studies);
    let report = write_report(args, context, &verdicts, &around);
    around.report =
        report.as_ref().ok().and_then(|path| path.as_ref().map(|path| path.display().to_string()));
    output::print(context, id, &verdicts, &around, args.details)?;
    // The first screen already shows the id and the report's path.
    let first_screen = !args.details && !context.json;
    if let Some(id) =
        kept.context("the result above could not be stored")?.filter(|_| !first_screen)
    {
        let runs: usize = studies.iter().map(|study| study.all().count()).sum();
        let s = if runs == 1 { "" } else { "s" };
        context.remark(&format!(
            "kept as study {} ({runs} run{s}): trimtab results show study:{}",
            id.short(),
            id.short()
        ));
    }
    if !complete {
        context.remark(
            "Interrupted. Finished runs are kept; run the same command with --resume to continue.",
        );
    }
    if let Some(path) = report?.filter(|_| !first_screen) {
        context.remark(&format!("report: {}", path.display()));
    }
    if complete { Ok(ExitCode::SUCCESS) } else { Err(InterruptError.into()) }
}

/// Writes the report as one HTML file and returns its path. A failure does not affect the
/// stored runs.
fn write_report(
    args: &StudyArgs,
    context: &Context,
    verdicts: &[Verdict<'_>],
    around: &Surroundings,
) -> anyhow::Result<Option<PathBuf>> {
    if verdicts.iter().all(|verdict| verdict.study().is_empty()) {
        return Ok(None);
    }
    write_html(args, context, &trimtab_report::study::document(verdicts, around)).map(Some)
}

fn write_html(args: &StudyArgs, context: &Context, document: &Document) -> anyhow::Result<PathBuf> {
    let html = trimtab_report::html::render(document);
    let (path, place) = match &args.report {
        Some(path) => {
            (path.clone(), if args.force { OverwriteMode::Replace } else { OverwriteMode::New })
        }
        None => (store::path(context)?.with_file_name("trimtab-study.html"), OverwriteMode::Free),
    };
    report::file::write(&path, html.as_bytes(), place)
        .context("the report could not be written, but the runs are kept ('trimtab results list')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_policy_of_directory_study_is_not_called_untried() {
        let said = |name: &str| of_directories(&[name.to_owned()]).unwrap_err().to_string();
        assert_eq!(said("onlin"), "there is no trim policy 'onlin'; did you mean 'online'?");
        assert!(
            said("idle:budget=2ms")
                .starts_with("a study of a directory cannot try the policy 'idle:budget=2ms'")
        );
        assert!(of_directories(&["as-mounted", "online"].map(str::to_owned)).is_ok());
    }

    #[test]
    fn policy_named_twice_is_refused() {
        let check = |names: &[&str]| {
            each_once(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert!(check(&[]).is_ok() && check(&["none", "online", "batched:every=1h"]).is_ok());
        assert!(
            check(&["none", "none"]).unwrap_err().to_string().contains("'none' is named twice")
        );
        assert!(
            check(&["idle:budget=2ms", "none", "idle:budget=5ms"])
                .unwrap_err()
                .to_string()
                .contains("'idle' is named twice")
        );
    }
}
