//! Fixes the doctor's findings for one path, lowest layer first, with a confirmation for
//! each step; then verifies the result.

use super::{MendRun, can_be_taken_back, told};
use crate::daemon::config::Config;
use crate::daemon::selection;
use anyhow::{Context as _, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trimtab_drive::units::Bytes;
use trimtab_linux::doctor::{Diagnosis, Finding, Remedy, RemedyStep, VerdictKind};
use trimtab_linux::host::Place;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{BLOCKED, one_line};
use trimtab_linux::session::safety::{self, consent};
use trimtab_linux::sys::interrupt;
use trimtab_linux::trim::verify::{self, ProofOptions};
use trimtab_sim::workload::WorkloadPlan;

/// Amount of data that the proof frees; the same amount stays allocated next to it.
const PROOF_SIZE: Bytes = Bytes(4 << 20);

/// Outcome of one remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyOutcome {
    Done,
    Declined,
    /// Only displayed.
    Planned,
}

/// A remedy and its outcome.
#[derive(Debug, Serialize)]
pub struct RemedyResult {
    pub code: &'static str,
    pub text: String,
    pub outcome: RemedyOutcome,
    /// Actions performed or planned.
    pub does: Vec<String>,
    /// Steps of the remedy that a person must do.
    pub by_hand: Vec<RemedyStep>,
    /// True if `--undo` can revert part of it.
    pub can_be_taken_back: bool,
    #[serde(skip)]
    pub remedy: Vec<RemedyStep>,
}

/// Result of the final proof.
#[derive(Debug, Serialize)]
pub struct ProofResult {
    pub verdict: Option<verify::verdict::VerdictKind>,
    pub text: String,
}

/// Outcome of the whole run.
#[derive(Debug, Serialize)]
pub struct FixReport {
    pub subject: String,
    pub dry_run: bool,
    pub steps: Vec<RemedyResult>,
    pub proof: Option<ProofResult>,
    /// Steps left for a person, in order.
    pub by_hand: Vec<RemedyStep>,
    pub diagnosis: Diagnosis,
}

/// Fixes one path, or only plans it; proves the result.
pub fn run(
    path: &Path,
    dry_run: bool,
    reserve: Option<Bytes>,
    context: &Context,
) -> anyhow::Result<FixReport> {
    let mut steps = Vec::new();
    let diagnosis =
        if dry_run { planned(path, &mut steps)? } else { mended(path, context, &mut steps)? };
    let any = steps.iter().any(|step| step.outcome == RemedyOutcome::Done);
    let reaches = diagnosis.verdict.kind == VerdictKind::Reaches && diagnosis.filesystem.is_some();
    let proof = (any && reaches).then(|| proof(path, reserve, context));
    Ok(FixReport {
        subject: diagnosis.subject.clone(),
        dry_run,
        by_hand: by_hand(&steps, &diagnosis),
        steps,
        proof,
        diagnosis,
    })
}

impl FixReport {
    /// True if the proof shows that TRIM does not reach the drive, even if the diagnosis
    /// disagrees.
    pub fn is_disproved(&self) -> bool {
        self.proof
            .as_ref()
            .and_then(|proof| proof.verdict)
            .is_some_and(|verdict| verdict.exit_status() == BLOCKED)
    }
}

fn examined(path: &Path) -> anyhow::Result<Diagnosis> {
    let root = Root::live().context("cannot open /")?;
    let config = Config::of_root(&root).and_then(Result::ok);
    let doctor = selection::doctor(&root, config.as_ref())
        .context("cannot read the mount table (/proc/self/mountinfo)")?;
    doctor.examine_path(path).with_context(|| format!("cannot examine '{}'", path.display()))
}

/// Plans the steps that are possible now. Later steps become visible only after these are
/// done.
fn planned(path: &Path, steps: &mut Vec<RemedyResult>) -> anyhow::Result<Diagnosis> {
    let diagnosis = examined(path)?;
    for (finding, remedy) in diagnosis.actionable() {
        // A partition shares its drive's queue.
        if steps.iter().all(|step| step.remedy != remedy.steps) {
            steps.push(of(finding, remedy, RemedyOutcome::Planned));
        }
    }
    Ok(diagnosis)
}

fn of(finding: &Finding, remedy: &Remedy, outcome: RemedyOutcome) -> RemedyResult {
    RemedyResult {
        code: finding.code,
        text: finding.text.clone(),
        outcome,
        does: remedy.actions.iter().map(|action| told(action).does).collect(),
        by_hand: remedy.steps.iter().skip(remedy.actions.len()).cloned().collect(),
        can_be_taken_back: remedy.actions.iter().any(can_be_taken_back),
        remedy: remedy.steps.clone(),
    }
}

/// Fixes the lowest fault, diagnoses again, and repeats. Returns the final diagnosis.
fn mended(
    path: &Path,
    context: &Context,
    steps: &mut Vec<RemedyResult>,
) -> anyhow::Result<Diagnosis> {
    let mut mending = None;
    let mut subject = None;
    loop {
        let diagnosis = examined(path)?;
        // A path through directories of other users may lead elsewhere by the next pass.
        let subject = subject.get_or_insert_with(|| diagnosis.subject.clone());
        ensure!(
            *subject == diagnosis.subject,
            "'{}' led to {subject} and leads to {} now",
            path.display(),
            diagnosis.subject
        );
        // Skip remedies that were already applied without effect.
        let next = diagnosis
            .actionable()
            .find(|(_, remedy)| steps.iter().all(|step| step.remedy != remedy.steps));
        let Some((finding, remedy)) = next else { return Ok(diagnosis) };
        interrupt::check()?;
        let outcome = match consent::ask(context, &question(&diagnosis, finding, remedy))? {
            true => RemedyOutcome::Done,
            false => RemedyOutcome::Declined,
        };
        if outcome == RemedyOutcome::Done {
            let mending = match &mut mending {
                Some(mending) => mending,
                none => none.insert(MendRun::begin(&diagnosis.subject)?),
            };
            carry_out(mending, remedy, context).with_context(|| failed(steps))?;
        }
        steps.push(of(finding, remedy, outcome));
    }
}

fn failed(steps: &[RemedyResult]) -> String {
    match steps.iter().filter(|step| step.outcome == RemedyOutcome::Done).count() {
        0 => "the step failed".to_owned(),
        _ => "the step failed, and those before it hold (trimtab doctor --undo undoes them)"
            .to_owned(),
    }
}

fn carry_out(mending: &mut MendRun, remedy: &Remedy, context: &Context) -> anyhow::Result<()> {
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

/// Runs the proof of `trimtab verify` at minimum size. If the proof cannot run, the fix
/// still counts as successful.
fn proof(path: &Path, reserve: Option<Bytes>, context: &Context) -> ProofResult {
    match prove(path, reserve, context) {
        Ok(proof) => ProofResult { text: proof.text, verdict: Some(proof.verdict) },
        Err(error) => {
            ProofResult { text: format!("no proof was made: {}", one_line(&error)), verdict: None }
        }
    }
}

fn prove(path: &Path, reserve: Option<Bytes>, context: &Context) -> anyhow::Result<verify::Proof> {
    let place = Place::of_path(&Root::live()?, path)?;
    let directory: PathBuf = match &place.mount {
        Some(mount) if !path.is_dir() => mount.mount_point.clone(),
        _ => path.to_owned(),
    };
    let options = ProofOptions {
        size: PROOF_SIZE,
        wait: Duration::ZERO,
        lock_wait: Duration::from_secs(30),
        as_mounted: false,
    };
    let space = verify::space(&directory, &options)?;
    let plan = WorkloadPlan {
        written: Bytes(space.0.saturating_mul(verify::TRIES.into())),
        space,
        ops: None,
    };
    let workspace = safety::prepare(context, reserve, &directory, "the proof", &plan)?;
    let proof = verify::prove(&workspace, &options, |busy| context.remark(&busy.to_string()));
    if let Err(error) = workspace.close() {
        context.remark(&format!("{error:#}"));
    }
    proof
}

/// Manual steps of the applied remedies, and those of the final diagnosis.
fn by_hand(steps: &[RemedyResult], diagnosis: &Diagnosis) -> Vec<RemedyStep> {
    let done: Vec<&RemedyResult> =
        steps.iter().filter(|step| step.outcome == RemedyOutcome::Done).collect();
    let mut all: Vec<RemedyStep> = done.iter().flat_map(|step| step.by_hand.clone()).collect();
    let planned = |step: &RemedyStep| {
        steps.iter().any(|one| one.outcome == RemedyOutcome::Planned && one.remedy.contains(step))
    };
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
