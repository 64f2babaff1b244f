//! Mends what the doctor finds at one path, the lowest fault first, each step asked about; then proves it.

use super::{Mending, can_be_taken_back, told};
use anyhow::{Context as _, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::{Diagnosis, Doctor, Finding, Remedy, Step, VerdictKind};
use trimtab_linux::host::Place;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{BLOCKED, one_line};
use trimtab_linux::session::safety::{self, consent};
use trimtab_linux::sys::interrupt;
use trimtab_linux::trim::verify::{self, Options};
use trimtab_sim::workload::Plan;

/// How much the proof frees, as much is kept beside it.
const PROOF_SIZE: Bytes = Bytes(4 << 20);

/// What became of one remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done,
    Declined,
    /// It was only shown.
    Planned,
}

/// A remedy, and what became of it.
#[derive(Debug, Serialize)]
pub struct Mended {
    pub code: &'static str,
    pub text: String,
    pub outcome: Outcome,
    /// What was done, or would be.
    pub does: Vec<String>,
    /// Steps of the remedy that are for people.
    pub by_hand: Vec<Step>,
    /// Whether anything of it is for `--undo`.
    pub can_be_taken_back: bool,
    #[serde(skip)]
    pub remedy: Vec<Step>,
}

/// What a proof showed in the end.
#[derive(Debug, Serialize)]
pub struct Proved {
    pub verdict: Option<verify::verdict::VerdictKind>,
    pub text: String,
}

/// What became of all of it.
#[derive(Debug, Serialize)]
pub struct Report {
    pub subject: String,
    pub dry_run: bool,
    pub steps: Vec<Mended>,
    pub proof: Option<Proved>,
    /// What is left to people, in the order in which it makes sense.
    pub by_hand: Vec<Step>,
    pub diagnosis: Diagnosis,
}

/// Mends one path, or plans it; proves that it helped.
pub fn run(path: &Path, dry_run: bool, reserve: Option<Bytes>, context: &Context) -> anyhow::Result<Report> {
    let mut steps = Vec::new();
    let diagnosis = if dry_run { planned(path, &mut steps)? } else { mended(path, context, &mut steps)? };
    let any = steps.iter().any(|step| step.outcome == Outcome::Done);
    let reaches = diagnosis.verdict.kind == VerdictKind::Reaches && diagnosis.filesystem.is_some();
    let proof = (any && reaches).then(|| proof(path, reserve, context));
    Ok(Report { subject: diagnosis.subject.clone(), dry_run, by_hand: by_hand(&steps, &diagnosis), steps, proof, diagnosis })
}

impl Report {
    /// The proof shows that TRIM does not reach the drive, whatever the diagnosis says.
    pub fn is_disproved(&self) -> bool {
        self.proof.as_ref().and_then(|proof| proof.verdict).is_some_and(|verdict| verdict.exit_status() == BLOCKED)
    }
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
        does: remedy.actions.iter().map(|action| told(action).does).collect(),
        by_hand: remedy.steps.iter().skip(remedy.actions.len()).cloned().collect(),
        can_be_taken_back: remedy.actions.iter().any(can_be_taken_back),
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
        mending.step(action, &|said| context.remark(said)).with_context(|| told(action).does)?;
    }
    Ok(())
}

fn question(diagnosis: &Diagnosis, finding: &Finding, remedy: &Remedy) -> String {
    let mut text = format!("{}: {}. ", diagnosis.subject, finding.text);
    for action in &remedy.actions {
        let told = told(action);
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
