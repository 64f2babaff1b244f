//! Running the matrix of jobs and policies.

use super::checkpoint::Checkpoints;
use super::job::Job;
use super::{Rig, Study, Untried};
use crate::output::progress::Part;
use crate::sys::interrupt;
use std::time::{Duration, Instant};
use trimtab_core::run::{Field, Metric, Provenance, Run};
use trimtab_core::runner::End;
use trimtab_core::units::Nanos;

/// What to run.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// What is studied, as the user named it.
    pub target: String,
    /// The workloads.
    pub jobs: Vec<Job>,
    /// Policies to try; empty for all that are offered.
    pub policies: Vec<String>,
    /// Repeats of each cell. They go round: each repeat visits all cells, so that what changes slowly touches all alike.
    pub repeats: u32,
    /// Only the cell of this name.
    pub only: Option<String>,
    /// No cell begins after this much time; for studies that promise to be quick.
    pub patience: Option<Duration>,
}

/// Runs it. What was finished is kept when the user interrupts or a policy fails; an error means that nothing could be
/// measured at all. A cell is put on the checkpoints when it is finished, and what is there already is not run again.
pub fn run(rig: &mut dyn Rig, matrix: &Matrix, checkpoints: &dyn Checkpoints) -> anyhow::Result<Study> {
    let mut study = Study { target: matrix.target.clone(), complete: true, ..Study::default() };
    let wanted = |policy: &str| matrix.policies.is_empty() || matrix.policies.iter().any(|p| p == policy);
    let mut policies = Vec::new();
    for offer in rig.offers().into_iter().filter(|offer| wanted(&offer.policy)) {
        match offer.obstacle {
            None => policies.push(offer.policy),
            Some(reason) => study.untried.push(Untried { policy: offer.policy, reason }),
        }
    }
    let started = Instant::now();
    let mut cells: Vec<Cell> = Vec::new();
    for job in 0..matrix.jobs.len() {
        cells.extend(policies.iter().map(|policy| Cell::new(rig, matrix, job, policy, checkpoints)));
    }
    cells.retain(|cell| matrix.only.is_none() || cell.name == matrix.only);
    if cells.iter().any(|cell| cell.done < matrix.repeats) {
        warm_up(rig, matrix, &policies)?;
    }
    let total: u64 = cells.iter().map(|cell| u64::from(matrix.repeats.saturating_sub(cell.done))).sum();
    let (mut done, began) = (0, Instant::now());
    'repeats: for repeat in 0..matrix.repeats {
        // There and back again: what drifts steadily adds as much to each.
        if repeat > 0 {
            cells.reverse();
        }
        for cell in cells.iter_mut().filter(|cell| cell.done <= repeat) {
            let (job, policy) = (&cell.job, &cell.policy);
            if interrupt::requested() {
                study.complete = false;
                break 'repeats;
            }
            let late = matrix.patience.is_some_and(|patience| started.elapsed() > patience);
            if late || study.untried.iter().any(|u| u.policy == *policy) {
                if late && repeat == 0 {
                    study.untried.push(Untried {
                        policy: format!("{policy}, {}", matrix.jobs[*job].name()),
                        reason: "there was no time left in a quick study".to_owned(),
                    });
                }
                continue;
            }
            let job = &matrix.jobs[*job];
            let part = Part { title: format!("{} of {total}: {} {policy}", done + 1, job.name()), done, total, began };
            done += 1;
            match rig.run(job, policy, &part) {
                Ok((run, End::Complete)) => cell.finished(run, matrix, checkpoints)?,
                Ok((_, End::Interrupted)) => {}
                Ok((_, End::Failed(error))) => failed(&mut study, policy, error.into())?,
                Err(error) => failed(&mut study, policy, error)?,
            }
        }
    }
    study.complete &= !interrupt::requested();
    // What is not done to its end is kept, too: the next start may go on with it.
    for cell in cells.iter().filter(|cell| cell.begun && cell.done < matrix.repeats) {
        cell.put(checkpoints)?;
    }
    cells.sort_by_key(|cell| (cell.job, policies.iter().position(|p| *p == cell.policy)));
    study.runs = cells.into_iter().filter_map(Cell::merged).collect();
    Ok(study)
}

/// A job under a policy.
struct Cell {
    job: usize,
    policy: String,
    /// Its name on the checkpoints, if it has one.
    name: Option<String>,
    runs: Vec<Run>,
    /// Repeats that are done.
    done: u32,
    /// Whether any of them was done now.
    begun: bool,
}

impl Cell {
    fn new(rig: &dyn Rig, matrix: &Matrix, job: usize, policy: &str, checkpoints: &dyn Checkpoints) -> Self {
        let name = rig.cell(&matrix.jobs[job], policy);
        let runs: Vec<Run> = name.as_deref().and_then(|name| checkpoints.find(name)).into_iter().collect();
        let done = runs.iter().map(super::checkpoint::repeats).sum();
        Self { job, policy: policy.to_owned(), name, runs, done, begun: false }
    }

    fn finished(&mut self, run: Run, matrix: &Matrix, checkpoints: &dyn Checkpoints) -> anyhow::Result<()> {
        self.runs.push(run);
        self.done += 1;
        self.begun = true;
        if self.done >= matrix.repeats { self.put(checkpoints) } else { Ok(()) }
    }

    fn put(&self, checkpoints: &dyn Checkpoints) -> anyhow::Result<()> {
        if let (Some(_), Some(run)) = (&self.name, self.clone_merged()) {
            checkpoints.put(&run)?;
        }
        Ok(())
    }

    fn clone_merged(&self) -> Option<Run> {
        Self { policy: self.policy.clone(), name: self.name.clone(), runs: self.runs.clone(), ..*self }.merged()
    }

    fn merged(self) -> Option<Run> {
        let mut run = merge(self.runs)?;
        if let Some(name) = &self.name {
            super::checkpoint::mark(&mut run, name);
        }
        Some(run)
    }
}

/// The first run finds caches cold and the filesystem's structures unmade; it is thrown away where policies are
/// compared. Real targets only have that:
/// a rig that begins each run anew says so.
fn warm_up(rig: &mut dyn Rig, matrix: &Matrix, policies: &[String]) -> anyhow::Result<()> {
    let (Some(job), Some(policy)) = (matrix.jobs.first(), policies.first()) else { return Ok(()) };
    if policies.len() < 2 || !rig.needs_warm_up() {
        return Ok(());
    }
    let part = Part { title: "warming up".to_owned(), done: 0, total: 1, began: Instant::now() };
    match rig.run(job, policy, &part)? {
        (_, End::Failed(error)) => Err(error.into()),
        (_, End::Complete | End::Interrupted) => Ok(()),
    }
}

/// A policy that fails is tried no more; the first one, which only does what anyone may do, must not fail.
fn failed(study: &mut Study, policy: &str, error: anyhow::Error) -> anyhow::Result<()> {
    if policy == super::policy::AS_MOUNTED || policy == super::policy::NONE {
        return Err(error);
    }
    study.untried.push(Untried { policy: policy.to_owned(), reason: format!("{error:#}") });
    Ok(())
}

/// One run out of its repeats: phases one after the other, a sample a repeat, warnings once each, the series of the first.
pub fn merge(runs: Vec<Run>) -> Option<Run> {
    let repeats: u32 = runs.iter().map(super::checkpoint::repeats).sum();
    let mut runs = runs.into_iter();
    let mut merged = runs.next()?;
    merged.settings.retain(|field| field.key != "repeats");
    merged.settings.push(Field::new("repeats", repeats.to_string()));
    for run in runs {
        let offset = match merged.provenance {
            // In virtual time there is no time between two runs.
            Provenance::Modelled => merged.phases.last().map_or(Nanos::ZERO, |last| last.started.saturating_add(last.took)),
            _ => Nanos(run.started_unix_ms.saturating_sub(merged.started_unix_ms).saturating_mul(1_000_000)),
        };
        merged.phases.extend(run.phases.into_iter().map(|mut phase| {
            phase.started = phase.started.saturating_add(offset);
            phase
        }));
        for metric in run.metrics {
            add_samples(&mut merged.metrics, metric);
        }
        for warning in run.warnings {
            if !merged.warnings.iter().any(|w| w.code == warning.code) {
                merged.warnings.push(warning);
            }
        }
        merged.complete &= run.complete;
    }
    Some(merged)
}

fn add_samples(metrics: &mut Vec<Metric>, metric: Metric) {
    match metrics.iter_mut().find(|m| m.name == metric.name) {
        Some(known) => known.samples.extend(metric.samples),
        None => metrics.push(metric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::runner::Header;
    use crate::study::checkpoint::NoShelf;
    use crate::study::{Offer, policy};
    use trimtab_core::run::{Better, TargetKind, Unit};
    use trimtab_core::runner::recorder::Recorded;
    use trimtab_core::workload::postmark::Settings;

    /// Notes what is run; `online` fails after its first run.
    #[derive(Default)]
    struct Fake {
        log: Vec<String>,
    }

    impl Rig for Fake {
        fn offers(&self) -> Vec<Offer> {
            let offer = |policy: &str, obstacle: Option<&str>| Offer { policy: policy.into(), obstacle: obstacle.map(Into::into) };
            vec![offer(policy::AS_MOUNTED, None), offer(policy::BATCHED, Some("needs root")), offer(policy::ONLINE, None)]
        }

        fn needs_warm_up(&self) -> bool {
            true
        }

        fn run(&mut self, job: &Job, policy: &str, _part: &Part) -> anyhow::Result<(Run, End)> {
            self.log.push(policy.to_owned());
            if policy == policy::ONLINE && self.log.iter().filter(|p| *p == policy).count() > 1 {
                anyhow::bail!("the device is gone");
            }
            let header = Header::new(job.name(), Vec::new(), TargetKind::Directory, "x", policy, 1);
            let mut run = header.into_run(Recorded::default(), true);
            let samples = vec![self.log.len() as f64];
            run.metrics.push(Metric { name: "n".into(), unit: Unit::Count, better: Better::Neither, samples });
            Ok((run, End::Complete))
        }
    }

    fn matrix(policies: &[&str], patience: Option<Duration>) -> Matrix {
        let job = Job::postmark(&Settings { number: 5, transactions: 5, ..Settings::default() }).unwrap();
        let policies = policies.iter().map(|p| (*p).to_owned()).collect();
        Matrix { target: "x".into(), jobs: vec![job], policies, repeats: 3, only: None, patience }
    }

    #[test]
    fn repeats_go_there_and_back_and_a_policy_that_fails_is_tried_no_more() {
        let mut rig = Fake::default();
        let study = run(&mut rig, &matrix(&[], None), &NoShelf).unwrap();
        // One to warm up, there, back, and there again without the policy that failed.
        assert_eq!(rig.log, ["as-mounted", "as-mounted", "online", "online", "as-mounted", "as-mounted"]);
        let cells: Vec<_> = study.runs.iter().map(|r| (r.policy.as_str(), r.metrics[0].samples.clone())).collect();
        assert_eq!(cells, [("as-mounted", vec![2.0, 5.0, 6.0]), ("online", vec![3.0])]);
        let untried: Vec<_> = study.untried.iter().map(|u| (u.policy.as_str(), u.reason.as_str())).collect();
        assert_eq!(untried, [("batched", "needs root"), ("online", "the device is gone")]);
    }

    #[test]
    fn one_policy_alone_needs_no_warming_up_and_no_patience_means_no_runs() {
        let mut rig = Fake::default();
        assert_eq!(run(&mut rig, &matrix(&["as-mounted"], None), &NoShelf).unwrap().runs[0].metrics[0].samples, [1.0, 2.0, 3.0]);
        let study = run(&mut Fake::default(), &matrix(&["as-mounted"], Some(Duration::ZERO)), &NoShelf).unwrap();
        assert!(study.runs.is_empty());
        assert_eq!(study.untried[0].policy, "as-mounted, postmark");
    }
}
