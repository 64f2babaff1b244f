//! Whoever runs the cells of a study: modelled ones, which are values, on all processors; those of a real filesystem one after another.

use super::checkpoint::{self, Checkpoints};
use crate::drives::simulate::Unwatched;
use crate::output::Context;
use crate::output::progress::{Part, Tally};
use crate::store::recipe;
use crate::sys::clock::unix_ms;
use crate::sys::interrupt;
use anyhow::anyhow;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_core::policy::PolicySpec;
use trimtab_core::run::Run;
use trimtab_core::runner::End;
use trimtab_core::runner::header::Header;
use trimtab_core::study::cells::{Cell, Question, Work};
use trimtab_core::study::job::Job;
use trimtab_core::study::matrix::Matrix;
use trimtab_core::study::modelled::Setup;
use trimtab_core::study::sensitivity::{self, Breadth, Sensitivity, Trials};
use trimtab_core::study::{Study, Untried, policy};

/// A drive of full size and its copy take memory: so many are run at once.
const FULL_SIZE_AT_ONCE: usize = 4;

/// The name of a cell: the same for all that decides its result.
#[must_use]
pub fn name(cell: &Cell) -> String {
    checkpoint::name(cell.header(), &cell.detail())
}

/// Runs modelled cells, each so often, and puts their runs into `study`. Those that `checkpoints` has are not run again.
///
/// # Errors
/// A store that cannot be written; a drive that nothing can be done on.
pub fn modelled(
    context: &Context,
    mut cells: Vec<Cell>,
    repeats: u32,
    only: Option<&str>,
    checkpoints: &dyn Checkpoints,
    study: &mut Study,
) -> anyhow::Result<()> {
    cells.retain(|cell| only.is_none_or(|only| name(cell) == only));
    let mut matrix = Matrix::new(repeats);
    for cell in &cells {
        let name = name(cell);
        let kept = checkpoints.find(&name);
        matrix.add(cell.untried(), Some(name), kept);
    }
    let bar = Tally::new(context, "runs", matrix.visits().len() as u64);
    let matrix = Beside { cells: &cells, books: Mutex::new(matrix), context, checkpoints, bar: &bar }.run()?;
    let (runs, untried) = matrix.close();
    study.untried.extend(untried);
    for (cell, run) in cells.iter().zip(runs) {
        let list = match cell.question {
            Question::Deleting => &mut study.runs,
            Question::Ageing => &mut study.ageing,
            Question::Tuning => &mut study.tuning,
            Question::Generation => &mut study.kernels,
        };
        list.extend(run);
    }
    Ok(())
}

/// Modelled cells being run beside each other.
struct Beside<'a> {
    cells: &'a [Cell],
    books: Mutex<Matrix>,
    context: &'a Context,
    checkpoints: &'a dyn Checkpoints,
    bar: &'a Tally,
}

impl Beside<'_> {
    fn run(self) -> anyhow::Result<Matrix> {
        let full_size = |at: &usize| matches!(&self.cells[*at].work, Work::Job { brief, .. } if !brief || self.cells[*at].question == Question::Generation);
        let (full, small): (Vec<usize>, Vec<usize>) = self.books().visits().into_iter().partition(full_size);
        for some in full.chunks(FULL_SIZE_AT_ONCE).chain([small.as_slice()]) {
            some.par_iter().try_for_each(|at| self.visit(*at))?;
        }
        for run in self.books().unfinished() {
            self.checkpoints.put(&run)?;
        }
        Ok(self.books.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Each change of the books is whole: a thread that panicked left them as good as before.
    fn books(&self) -> MutexGuard<'_, Matrix> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn visit(&self, at: usize) -> anyhow::Result<()> {
        if interrupt::requested() || self.books().is_given_up(at) {
            return Ok(());
        }
        let cell = &self.cells[at];
        let reason = {
            let _underway = self.context.doing.begin(&cell.title());
            match cell.run(&mut Unwatched) {
                Ok((mut run, End::Complete)) => {
                    stamp(&mut run, cell.setup());
                    let kept = self.books().finished(at, run);
                    self.bar.count();
                    return kept.map_or(Ok(()), |run| self.checkpoints.put(&run));
                }
                Ok((_, End::Interrupted)) => return Ok(()),
                Ok((_, End::Failed(error))) => error.to_string(),
                Err(error) => error.to_string(),
            }
        };
        // The policy that others are compared with does only what anyone may do.
        if cell.question == Question::Deleting && cell.policy == PolicySpec::None {
            return Err(anyhow!(reason));
        }
        self.books().failed(at, reason);
        Ok(())
    }
}

/// Notes when a run was made, and from what.
fn stamp(run: &mut Run, setup: &Setup) {
    run.started_unix_ms = unix_ms();
    run.specification = vec![recipe::command_field()];
    recipe::note_drive(run, &setup.drive);
}

/// What changing one assumption at a time says, as a run: a kept one, or a new one, which is then kept. `None` if the drive takes no TRIM, if another cell is
/// wanted, or if the user interrupted.
///
/// # Errors
/// A drive or a filesystem that cannot be made.
pub fn assumptions(
    context: &Context,
    setup: &Setup,
    policies: &[PolicySpec],
    breadth: Breadth,
    checkpoints: &dyn Checkpoints,
    only: Option<&str>,
) -> anyhow::Result<Option<Run>> {
    let cell = checkpoint::name(sensitivity::header(setup), &sensitivity::detail(setup, policies, breadth));
    if only.is_some_and(|only| only != cell) || !setup.trims() {
        return Ok(None);
    }
    if let Some(run) = checkpoints.find(&cell) {
        return Ok(Some(run));
    }
    let Some(trials) = Trials::new(setup, policies, breadth)? else { return Ok(None) };
    let Some(sensitivity) = try_all(context, trials)? else { return Ok(None) };
    let mut run = sensitivity.as_run(setup);
    stamp(&mut run, setup);
    checkpoint::mark(&mut run, &cell);
    checkpoints.put(&run)?;
    Ok(Some(run))
}

fn try_all(context: &Context, trials: Trials) -> anyhow::Result<Option<Sensitivity>> {
    let studies: Vec<_> = trials.studies().collect();
    let bar = Tally::new(context, "assumptions", studies.len() as u64);
    let said: Vec<_> = studies
        .par_iter()
        .map(|cells| {
            let runs = cells.as_ref().map_err(|problem| anyhow!("{problem}")).and_then(|cells| small_study(cells));
            bar.count();
            runs
        })
        .collect();
    let mut runs = Vec::new();
    for (at, said) in said.into_iter().enumerate() {
        match said {
            Ok(Some(all)) => runs.push(Some(all)),
            Ok(None) => return Ok(None),
            Err(error) if at == 0 => return Err(error),
            Err(_) => runs.push(None),
        }
    }
    Ok(trials.judge(runs))
}

/// The runs of a small study; `None` if the user interrupted.
fn small_study(cells: &[Cell]) -> anyhow::Result<Option<Vec<Run>>> {
    let run = |cell: &Cell| match interrupt::requested() {
        true => Ok(None),
        false => match cell.run(&mut Unwatched)? {
            (run, End::Complete) => Ok(Some(run)),
            _ => Ok(None),
        },
    };
    cells.iter().map(run).collect()
}

/// A policy that can be tried, or why it cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub policy: String,
    /// Why it cannot be tried here; `None` if it can.
    pub obstacle: Option<String>,
}

/// A real filesystem on which a job can be run under a policy.
pub trait Rig {
    /// All policies, in the order of the table; the one that others are compared with comes first.
    fn offers(&self) -> Vec<Offer>;

    /// What is known of a run of `job` under `policy` before it begins, and whatever else decides its result.
    fn identity(&self, job: &Job, policy: &str) -> (Header, String);

    /// Whether a run of the same cell was measured on what is here now, as far as that can change.
    fn accepts(&self, _earlier: &Run) -> bool {
        true
    }

    /// These runs, of so many that were found, were finished earlier and are taken: notes that in them, and says so.
    fn takes(&self, _found: usize, _taken: &mut [Run]) {}

    /// Runs `job` once under `policy`, from a state that is the same for all policies as far as that is possible.
    /// `part` is for progress. An error means that nothing was measured.
    fn run(&mut self, job: &Job, policy: &str, part: &Part) -> anyhow::Result<(Run, End)>;
}

/// What to run on a real filesystem.
#[derive(Debug, Clone)]
pub struct Asked {
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
///
/// # Errors
/// As said; or a store that cannot be written.
pub fn real(rig: &mut dyn Rig, asked: &Asked, checkpoints: &dyn Checkpoints) -> anyhow::Result<Study> {
    let started = Instant::now();
    let mut study = Study { target: asked.target.clone(), complete: true, ..Study::default() };
    let wanted = |policy: &str| asked.policies.is_empty() || asked.policies.iter().any(|p| p == policy);
    let mut policies = Vec::new();
    for offer in rig.offers().into_iter().filter(|offer| wanted(&offer.policy)) {
        match offer.obstacle {
            None => policies.push(offer.policy),
            Some(reason) => study.untried.push(Untried { policy: offer.policy, reason }),
        }
    }
    let (cells, mut matrix) = cells(rig, asked, &policies, checkpoints)?;
    let visits = matrix.visits();
    if !visits.is_empty() {
        warm_up(rig, asked, &policies)?;
    }
    let (total, began) = (visits.len() as u64, Instant::now());
    for (done, at) in visits.into_iter().enumerate() {
        let (job, policy) = cells[at];
        if interrupt::requested() {
            break;
        }
        let late = asked.patience.is_some_and(|patience| started.elapsed() > patience);
        let no_time = Untried { policy: format!("{policy}, {}", job.name()), reason: "there was no time left in a quick study".to_owned() };
        if late && matrix.is_untouched(at) && !matrix.is_given_up(at) && !study.untried.contains(&no_time) {
            study.untried.push(no_time);
        }
        if late || matrix.is_given_up(at) {
            continue;
        }
        let done = done as u64;
        let part = Part { title: format!("{} of {total}: {} {policy}", done + 1, job.name()), done, total, began };
        let error = match rig.run(job, policy, &part) {
            Ok((run, End::Complete)) => {
                if let Some(run) = matrix.finished(at, run) {
                    checkpoints.put(&run)?;
                }
                continue;
            }
            Ok((_, End::Interrupted)) => continue,
            Ok((_, End::Failed(error))) => error.into(),
            Err(error) => error,
        };
        // A policy that fails is tried no more; the first one, which only does what anyone may do, must not fail.
        if [policy::AS_MOUNTED, policy::NONE].contains(&policy.as_str()) {
            return Err(error);
        }
        matrix.failed(at, format!("{error:#}"));
    }
    study.complete = !interrupt::requested();
    for run in matrix.unfinished() {
        checkpoints.put(&run)?;
    }
    let (runs, untried) = matrix.close();
    study.runs = runs.into_iter().flatten().collect();
    study.untried.extend(untried);
    Ok(study)
}

/// Every job under every policy, and the books of these cells with what was finished earlier.
fn cells<'a>(
    rig: &dyn Rig,
    asked: &'a Asked,
    policies: &'a [String],
    checkpoints: &dyn Checkpoints,
) -> anyhow::Result<(Vec<(&'a Job, &'a String)>, Matrix)> {
    let named = asked.jobs.iter().flat_map(|job| policies.iter().map(move |policy| (job, policy))).map(|(job, policy)| {
        let (header, detail) = rig.identity(job, policy);
        (job, policy, checkpoint::name(header, &detail))
    });
    let named: Vec<_> = named.filter(|(_, _, name)| asked.only.as_ref().is_none_or(|only| only == name)).collect();
    let mut taken: Vec<Run> =
        named.iter().filter_map(|(_, _, name)| checkpoints.find(name)).filter(|earlier| rig.accepts(earlier)).collect();
    rig.takes(checkpoints.found(), &mut taken);
    let mut matrix = Matrix::new(asked.repeats);
    for run in &taken {
        checkpoints.put(run)?;
    }
    for (_, policy, name) in &named {
        let kept = taken.iter().find(|run| checkpoint::cell_of(run) == Some(name.as_str())).cloned();
        matrix.add(*policy, Some(name.clone()), kept);
    }
    Ok((named.into_iter().map(|(job, policy, _)| (job, policy)).collect(), matrix))
}

/// The first run finds caches cold and the filesystem's structures unmade; it is thrown away where policies are compared.
fn warm_up(rig: &mut dyn Rig, asked: &Asked, policies: &[String]) -> anyhow::Result<()> {
    let (Some(job), Some(policy)) = (asked.jobs.first(), policies.first()) else { return Ok(()) };
    if policies.len() < 2 {
        return Ok(());
    }
    let part = Part { title: "warming up".to_owned(), done: 0, total: 1, began: Instant::now() };
    match rig.run(job, policy, &part)? {
        (_, End::Failed(error)) => Err(error.into()),
        (_, End::Complete | End::Interrupted) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::checkpoint::NotKept;
    use trimtab_core::run::{Better, Metric, TargetKind, Unit};
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

        fn identity(&self, job: &Job, policy: &str) -> (Header, String) {
            (Header::new(job.name(), Vec::new(), TargetKind::Directory, "x", policy, 1), String::new())
        }

        fn run(&mut self, job: &Job, policy: &str, _part: &Part) -> anyhow::Result<(Run, End)> {
            self.log.push(policy.to_owned());
            if policy == policy::ONLINE && self.log.iter().filter(|p| *p == policy).count() > 1 {
                anyhow::bail!("the device is gone");
            }
            let mut run = self.identity(job, policy).0.into_run(Recorded::default(), true);
            let samples = vec![self.log.len() as f64];
            run.metrics.push(Metric { name: "n".into(), unit: Unit::Count, better: Better::Neither, samples });
            Ok((run, End::Complete))
        }
    }

    fn asked(policies: &[&str], patience: Option<Duration>) -> Asked {
        let job = Job::postmark(&Settings { number: 5, transactions: 5, ..Settings::default() }).unwrap();
        let policies = policies.iter().map(|p| (*p).to_owned()).collect();
        Asked { target: "x".into(), jobs: vec![job], policies, repeats: 3, only: None, patience }
    }

    #[test]
    fn repeats_go_there_and_back_and_a_policy_that_fails_is_tried_no_more() {
        let mut rig = Fake::default();
        let study = real(&mut rig, &asked(&[], None), &NotKept).unwrap();
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
        assert_eq!(real(&mut rig, &asked(&["as-mounted"], None), &NotKept).unwrap().runs[0].metrics[0].samples, [1.0, 2.0, 3.0]);
        let study = real(&mut Fake::default(), &asked(&["as-mounted"], Some(Duration::ZERO)), &NotKept).unwrap();
        assert!(study.runs.is_empty());
        let untried: Vec<_> = study.untried.iter().map(|u| u.policy.as_str()).collect();
        assert_eq!(untried, ["as-mounted, postmark"]);
    }
}
