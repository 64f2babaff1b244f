//! `trimtab doctor PATH --fix` and `trimtab doctor --undo`.

use super::{Args, exit_code, no_character_device};
use crate::mend::{self, Mending};
use anyhow::{Context as _, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::doctor::{Diagnosis, Doctor, Finding, Remedy, Step, VerdictKind};
use trimtab_linux::host::Place;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{BLOCKED, one_line};
use trimtab_linux::output::lines::prose;
use trimtab_linux::session::safety::{self, consent};
use trimtab_linux::sys::interrupt;
use trimtab_linux::trim::verify::{self, Options};
use trimtab_sim::workload::Plan;

/// How much the proof frees, as much is kept beside it.
const PROOF_SIZE: Bytes = Bytes(4 << 20);

/// What became of one remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Done,
    Declined,
    /// It was only shown.
    Planned,
}

#[derive(Debug, Serialize)]
struct Mended {
    code: &'static str,
    text: String,
    outcome: Outcome,
    /// What was done, or would be.
    does: Vec<String>,
    /// Steps of the remedy that are for people.
    by_hand: Vec<Step>,
    /// Whether anything of it is for `--undo`.
    can_be_taken_back: bool,
    #[serde(skip)]
    remedy: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Proved {
    verdict: Option<verify::verdict::VerdictKind>,
    text: String,
}

#[derive(Serialize)]
struct Report {
    subject: String,
    dry_run: bool,
    steps: Vec<Mended>,
    proof: Option<Proved>,
    /// What is left to people, in the order in which it makes sense.
    by_hand: Vec<Step>,
    diagnosis: Diagnosis,
}

/// Mends, proves, prints, and exits with the verdict of the end.
pub fn fix(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let [path] = args.paths.as_slice() else {
        return Err(UsageError::new("--fix mends one path at a time").hint("give one mount point, directory or device").into());
    };
    ensure!(
        rustix::process::geteuid().is_root(),
        "--fix needs root: run with sudo; without it, trimtab doctor {} shows the steps",
        path.display()
    );
    no_character_device(path)?;
    if !args.dry_run && !consent::can_be_given(context) {
        return Err(UsageError::new("--fix asks before each step, and there is no terminal to ask on")
            .hint("say --yes, or --dry-run")
            .into());
    }
    interrupt::install().context("cannot catch signals")?;
    interrupt::must_finish();
    let mut steps = Vec::new();
    let diagnosis = if args.dry_run { planned(path, &mut steps)? } else { mended(path, context, &mut steps)? };
    let any = steps.iter().any(|step| step.outcome == Outcome::Done);
    let reaches = diagnosis.verdict.kind == VerdictKind::Reaches && diagnosis.filesystem.is_some();
    let proof = (any && reaches).then(|| proof(path, args.reserve, context));
    let lost = proof.as_ref().and_then(|proof| proof.verdict).is_some_and(|verdict| verdict.exit_status() == BLOCKED);
    let code = if lost { ExitCode::from(BLOCKED) } else { exit_code(std::slice::from_ref(&diagnosis)) };
    let report =
        Report { subject: diagnosis.subject.clone(), dry_run: args.dry_run, by_hand: by_hand(&steps, &diagnosis), steps, proof, diagnosis };
    context.report("doctor-fix", 1, &report, || text(&report))?;
    Ok(code)
}

fn examined(path: &Path) -> anyhow::Result<Diagnosis> {
    let root = Root::live().context("cannot open /")?;
    let doctor = Doctor::new(&root).context("cannot read the mount table (/proc/self/mountinfo)")?;
    doctor.examine_path(path).with_context(|| format!("cannot examine '{}'", path.display()))
}

/// What would be done now. What is due after that shows only then.
fn planned(path: &Path, steps: &mut Vec<Mended>) -> anyhow::Result<Diagnosis> {
    let diagnosis = examined(path)?;
    for (finding, remedy) in diagnosis.actionable() {
        // A partition and its drive have one queue.
        if steps.iter().all(|step| step.remedy != remedy.steps) {
            steps.push(of(finding, remedy, Outcome::Planned));
        }
    }
    Ok(diagnosis)
}

fn of(finding: &Finding, remedy: &Remedy, outcome: Outcome) -> Mended {
    Mended {
        code: finding.code,
        text: finding.text.clone(),
        outcome,
        does: remedy.actions.iter().map(|action| mend::told(action).does).collect(),
        by_hand: remedy.steps.iter().skip(remedy.actions.len()).cloned().collect(),
        can_be_taken_back: remedy.actions.iter().any(mend::can_be_taken_back),
        remedy: remedy.steps.clone(),
    }
}

/// Mends the lowest fault, looks again, and so on. Gives the diagnosis of the end.
fn mended(path: &Path, context: &Context, steps: &mut Vec<Mended>) -> anyhow::Result<Diagnosis> {
    let mut mending = None;
    let mut subject = None;
    loop {
        let diagnosis = examined(path)?;
        // A path below others' directories may lead elsewhere meanwhile.
        let subject = subject.get_or_insert_with(|| diagnosis.subject.clone());
        ensure!(*subject == diagnosis.subject, "'{}' led to {subject} and leads to {} now", path.display(), diagnosis.subject);
        // What was done once and has not helped is not done again.
        let next = diagnosis.actionable().find(|(_, remedy)| steps.iter().all(|step| step.remedy != remedy.steps));
        let Some((finding, remedy)) = next else { return Ok(diagnosis) };
        interrupt::check()?;
        let outcome = match consent::ask(context, &question(&diagnosis, finding, remedy))? {
            true => Outcome::Done,
            false => Outcome::Declined,
        };
        if outcome == Outcome::Done {
            let mending = match &mut mending {
                Some(mending) => mending,
                none => none.insert(Mending::begin(&diagnosis.subject)?),
            };
            carry_out(mending, remedy, context).with_context(|| failed(steps))?;
        }
        steps.push(of(finding, remedy, outcome));
    }
}

fn failed(steps: &[Mended]) -> String {
    match steps.iter().filter(|step| step.outcome == Outcome::Done).count() {
        0 => "the step failed".to_owned(),
        _ => "the step failed, and those before it hold (trimtab doctor --undo undoes them)".to_owned(),
    }
}

fn carry_out(mending: &mut Mending, remedy: &Remedy, context: &Context) -> anyhow::Result<()> {
    for action in &remedy.actions {
        mending.step(action, &|said| context.remark(said)).with_context(|| mend::told(action).does)?;
    }
    Ok(())
}

fn question(diagnosis: &Diagnosis, finding: &Finding, remedy: &Remedy) -> String {
    let mut text = format!("{}: {}. ", diagnosis.subject, finding.text);
    for action in &remedy.actions {
        let told = mend::told(action);
        text += &format!("Step: {}; ", told.does);
        text.extend(told.costs.map(|costs| format!("{costs}; ")));
        text += &format!("{}. ", told.lasts);
    }
    format!("{text}Do it?")
}

/// The same proof as that of `trimtab verify`, as small as it can be. What keeps it from being made is no failure of the mending.
fn proof(path: &Path, reserve: Option<Bytes>, context: &Context) -> Proved {
    match prove(path, reserve, context) {
        Ok(proof) => Proved { text: proof.text, verdict: Some(proof.verdict) },
        Err(error) => Proved { text: format!("no proof was made: {}", one_line(&error)), verdict: None },
    }
}

fn prove(path: &Path, reserve: Option<Bytes>, context: &Context) -> anyhow::Result<verify::Proof> {
    let place = Place::of_path(&Root::live()?, path)?;
    let directory: PathBuf = match &place.mount {
        Some(mount) if !path.is_dir() => mount.mount_point.clone(),
        _ => path.to_owned(),
    };
    let options = Options { size: PROOF_SIZE, wait: Duration::ZERO, lock_wait: Duration::from_secs(30), as_mounted: false };
    let space = verify::space(&directory, &options)?;
    let plan = Plan { written: Bytes(space.0.saturating_mul(verify::TRIES.into())), space, ops: None };
    let workspace = safety::prepare(context, reserve, &directory, "the proof", &plan)?;
    let proof = verify::prove(&workspace, &options, |busy| context.remark(&busy.to_string()));
    if let Err(error) = workspace.close() {
        context.remark(&format!("{error:#}"));
    }
    proof
}

/// What remains of remedies that were carried out, and what the end still asks for.
fn by_hand(steps: &[Mended], diagnosis: &Diagnosis) -> Vec<Step> {
    let done: Vec<&Mended> = steps.iter().filter(|step| step.outcome == Outcome::Done).collect();
    let mut all: Vec<Step> = done.iter().flat_map(|step| step.by_hand.clone()).collect();
    let planned = |step: &Step| steps.iter().any(|one| one.outcome == Outcome::Planned && one.remedy.contains(step));
    let left = diagnosis.to_do.iter().filter(|step| !planned(step)).cloned();
    all.extend(left.collect::<Vec<_>>());
    let mut once = Vec::new();
    all.into_iter().for_each(|step| {
        if !once.contains(&step) {
            once.push(step);
        }
    });
    once
}

fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut say = |line: String| text += &prose(&line);
    for step in &report.steps {
        let lead = match step.outcome {
            Outcome::Done => "done",
            Outcome::Declined => "left as it is",
            Outcome::Planned => "would do",
        };
        say(format!("{lead}: {}", step.does.join("; then ")));
    }
    if report.steps.is_empty() {
        say("nothing to mend that --fix may do".to_owned());
    }
    if let Some(proof) = &report.proof {
        say(format!("proof: {}", proof.text));
    }
    say(format!("{}: {}", report.subject, report.diagnosis.verdict.text));
    report.by_hand.iter().for_each(|step| say(format!("by hand: {}", step.text())));
    if report.steps.iter().any(|step| step.outcome == Outcome::Done && step.can_be_taken_back) {
        say("trimtab doctor --undo undoes it".to_owned());
    }
    if report.dry_run {
        say("dry run: nothing has been changed".to_owned());
    }
    text
}

#[derive(Serialize)]
struct Undone {
    subject: String,
    dry_run: bool,
    steps: Vec<String>,
}

/// Takes the last mending back.
pub fn undo(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    ensure!(rustix::process::geteuid().is_root(), "--undo needs root: run with sudo");
    interrupt::install().context("cannot catch signals")?;
    interrupt::must_finish();
    let taken = mend::take_back(args.dry_run, &|said| context.remark(said))?;
    let report = Undone { subject: taken.subject, dry_run: args.dry_run, steps: taken.lines };
    context.report("doctor-undo", 1, &report, || {
        let mut text = prose(&format!("{}:", report.subject));
        report.steps.iter().for_each(|step| text += &prose(step));
        if report.dry_run {
            text += &prose("dry run: nothing has been changed");
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}
