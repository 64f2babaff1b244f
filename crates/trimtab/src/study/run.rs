//! Runs the cells of a study: modelled ones on all processors; those of a real filesystem
//! one after another.

use super::checkpoint::{self, Checkpoints};
use super::snapshot_cache::SnapshotCache;
use crate::drives::crew;
use crate::drives::memory::MemoryBudget;
use crate::store::recipe;
use anyhow::anyhow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressPart, ProgressUnit};
use trimtab_linux::session::runner::SilentObserver;
use trimtab_linux::sys::clock::unix_ms;
use trimtab_linux::sys::interrupt;
use trimtab_report::study::untried_reason;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Run;
use trimtab_sim::runner::RunEnd;
use trimtab_sim::volume::VolumeSpec;
use trimtab_study::study::cells::{Question, StudyCell, StudyExtent};
use trimtab_study::study::job::Job;
use trimtab_study::study::matrix::Matrix;
use trimtab_study::study::modelled::Setup;
use trimtab_study::study::problem::StudyError;
use trimtab_study::study::sensitivity::Sensitivity;
use trimtab_study::study::trials::{self, Breadth, Trials};
use trimtab_study::study::untried::{OmissionReason, OmittedPart, StudyPart};
use trimtab_study::study::used::FreeExtentLengths;
use trimtab_study::study::{Study, policy};

/// The name of a cell: a hash of everything that determines its result.
pub fn name(cell: &StudyCell) -> String {
    checkpoint::name(cell.header(), &cell.detail())
}

/// The study of a modelled drive, before it runs.
pub struct ModelledStudy<'a> {
    /// The cells to run.
    pub cells: Vec<StudyCell>,
    /// Repeats of each cell.
    pub repeats: u32,
    /// Finished cells, which are not run again.
    pub checkpoints: &'a Checkpoints,
    /// Assumptions to vary one at a time.
    pub assumptions: Option<Assumptions>,
    /// The study that collects the runs.
    pub study: Study,
}

/// Assumptions to vary one at a time.
pub struct Assumptions {
    trials: Trials,
    cell: String,
}

impl<'a> ModelledStudy<'a> {
    /// Adds trials of assumptions, unless an earlier study finished them.
    pub fn assume(
        &mut self,
        setup: Setup,
        policies: &[PolicySpec],
        (breadth, extent): (Breadth, &StudyExtent),
    ) {
        let cell = checkpoint::name(
            trials::header(&setup),
            &trials::detail(&setup, policies, breadth, extent),
        );
        if !setup.trims() {
            return;
        }
        self.study.sensitivity = self.checkpoints.sensitivity(&cell);
        if self.study.sensitivity.is_some() {
            return;
        }
        match Trials::new(&setup, policies, breadth, extent, &mut layout) {
            Ok(trials) => self.assumptions = trials.map(|trials| Assumptions { trials, cell }),
            // A failed sensitivity run never discards completed runs.
            Err(problem) => self.study.untried.push(no_assumptions(problem.to_string())),
        }
    }
}

/// The layout of a filesystem in use. Studies of several drives share it.
fn layout(volume: &VolumeSpec, fill: f64, seed: u64) -> Result<FreeExtentLengths, StudyError> {
    static KNOWN: Mutex<BTreeMap<String, FreeExtentLengths>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match known.entry(format!("{volume:?} {fill} {seed}")) {
        Entry::Occupied(layout) => Ok(layout.get().clone()),
        Entry::Vacant(place) => {
            Ok(place.insert(FreeExtentLengths::by_churn(volume, fill, seed)?).clone())
        }
    }
}

fn no_assumptions(reason: String) -> OmittedPart {
    OmittedPart { part: StudyPart::Assumptions, reason: OmissionReason::Obstacle(reason) }
}

/// Runs studies of modelled drives together: all their cells, on all processors.
///
/// # Errors
/// The store cannot be written; a drive cannot run any cell.
pub fn modelled(context: &Context, all: Vec<ModelledStudy<'_>>) -> anyhow::Result<Vec<Study>> {
    let under_way: Vec<RunningStudy<'_>> = all.into_iter().map(RunningStudy::new).collect();
    let tasks = in_order(&under_way);
    let bar = Progress::new(context, "runs", ProgressUnit::Items, tasks.len() as u64);
    let budget = MemoryBudget::of_this_machine();
    let snapshots = SnapshotCache::of(
        tasks.iter().flat_map(|task| under_way[task.study].cells_of(&task.what)),
        budget.total(),
    );
    let tasks = Mutex::new(tasks);
    let next = |thread: usize| {
        let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Alternates between large cells, which need memory, and small ones.
        if thread.is_multiple_of(2) { tasks.pop_front() } else { tasks.pop_back() }
    };
    crew::run(crew::processors(), next, |task: Task| {
        let study = &under_way[task.study];
        let _memory = budget.take(task.memory.min(budget.total().0));
        match task.what {
            TaskKind::Visit(at) => study.visit(at, &snapshots)?,
            TaskKind::Trial(at) => study.try_out(at, &snapshots),
        }
        bar.advance(1);
        Ok(())
    })?;
    drop(bar);
    under_way.into_iter().map(RunningStudy::close).collect()
}

/// A unit of work.
struct Task {
    study: usize,
    what: TaskKind,
    memory: u64,
}

enum TaskKind {
    /// The visit with this index.
    Visit(usize),
    /// The small study that varies this assumption.
    Trial(usize),
}

/// All tasks, those with most memory first.
fn in_order(all: &[RunningStudy<'_>]) -> VecDeque<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for (study, under_way) in all.iter().enumerate() {
        // A snapshot for other cells is kept in addition.
        let memory = |at: usize| under_way.cells[at].memory().0 / 2 * 3;
        let visits = under_way.visits.iter();
        tasks.extend(visits.map(|at| Task {
            study,
            what: TaskKind::Visit(*at),
            memory: memory(*at),
        }));
        tasks.extend((0..under_way.trials.len()).map(|at| Task {
            study,
            what: TaskKind::Trial(at),
            memory: 0,
        }));
    }
    tasks.sort_by_key(|task| std::cmp::Reverse(task.memory));
    tasks.into()
}

/// A modelled study in progress.
struct RunningStudy<'a> {
    cells: Vec<StudyCell>,
    /// Cells to run, in order.
    visits: Vec<usize>,
    books: Mutex<Matrix>,
    checkpoints: &'a Checkpoints,
    study: Study,
    assumptions: Option<Assumptions>,
    /// The cells of each small study, and its result.
    trials: Vec<Result<Vec<StudyCell>, StudyError>>,
    said: Mutex<BTreeMap<usize, anyhow::Result<Vec<Run>>>>,
}

impl<'a> RunningStudy<'a> {
    fn new(asked: ModelledStudy<'a>) -> Self {
        let mut matrix = Matrix::new(asked.repeats);
        for cell in &asked.cells {
            let name = name(cell);
            let kept = asked.checkpoints.find(&name);
            matrix.add(cell.part(), Some(name), kept);
        }
        let trials = asked
            .assumptions
            .as_ref()
            .map(|all| all.trials.studies().collect())
            .unwrap_or_default();
        Self {
            visits: matrix.visits(),
            cells: asked.cells,
            books: Mutex::new(matrix),
            checkpoints: asked.checkpoints,
            study: asked.study,
            assumptions: asked.assumptions,
            trials,
            said: Mutex::default(),
        }
    }

    /// Each change of the results is complete, so the lock is usable after a panic.
    fn books(&self) -> MutexGuard<'_, Matrix> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cells of a task.
    fn cells_of(&self, what: &TaskKind) -> &[StudyCell] {
        match what {
            TaskKind::Visit(at) => std::slice::from_ref(&self.cells[*at]),
            TaskKind::Trial(at) => self.trials[*at].as_deref().unwrap_or_default(),
        }
    }

    fn visit(&self, at: usize, snapshots: &SnapshotCache) -> anyhow::Result<()> {
        if self.books().is_given_up(at) {
            return Ok(());
        }
        let cell = &self.cells[at];
        let mut beginning = |setup: &Setup| snapshots.take(setup, || setup.in_use());
        let reason = match cell.run_from(&mut beginning, &mut SilentObserver) {
            Ok((mut run, RunEnd::Complete)) => {
                stamp(&mut run, cell.setup());
                let kept = self.books().finished(at, run);
                return kept.map_or(Ok(()), |run| self.checkpoints.put(&run));
            }
            Ok((_, RunEnd::Interrupted)) => return Ok(()),
            Ok((_, RunEnd::Failed(error))) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // The baseline policy uses only basic operations, so its failure ends the study.
        if cell.question == Question::Deleting && cell.policy == PolicySpec::None {
            return Err(anyhow!(reason));
        }
        self.books().failed(at, reason);
        Ok(())
    }

    /// Runs a small study with one assumption varied; without a result if the user
    /// interrupts.
    fn try_out(&self, at: usize, snapshots: &SnapshotCache) {
        let said = match &self.trials[at] {
            Ok(cells) => small_study(cells, snapshots).transpose(),
            Err(problem) => Some(Err(anyhow!("{problem}"))),
        };
        if let Some(said) = said {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(at, said);
        }
    }

    /// Collects the runs into the study.
    fn close(mut self) -> anyhow::Result<Study> {
        let matrix = self.books.into_inner().unwrap_or_else(PoisonError::into_inner);
        for run in matrix.unfinished() {
            self.checkpoints.put(&run)?;
        }
        let (runs, untried) = matrix.close();
        self.study.untried.extend(untried);
        for (cell, run) in self.cells.iter().zip(runs) {
            if let Some(run) = run {
                self.study.add(cell.question, run);
            }
        }
        let said = self.said.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(assumptions) = self.assumptions.filter(|_| said.len() == self.trials.len()) {
            match assumptions.judged(said.into_values()) {
                Ok(sensitivity) => self.study.sensitivity = sensitivity,
                Err(error) => self.study.untried.push(no_assumptions(format!("{error:#}"))),
            }
        }
        self.study.complete &= !interrupt::requested();
        Ok(self.study)
    }
}

impl Assumptions {
    /// Combines the results of all small studies.
    fn judged(
        self,
        said: impl Iterator<Item = anyhow::Result<Vec<Run>>>,
    ) -> anyhow::Result<Option<Sensitivity>> {
        let cell = self.cell;
        Ok(self.trials.judge(said)?.map(|sensitivity| Sensitivity { cell, ..sensitivity }))
    }
}

/// Records the time and the sources of a run.
fn stamp(run: &mut Run, setup: &Setup) {
    run.started_unix_ms = unix_ms();
    run.specification = vec![recipe::command_field()];
    recipe::note_drive(run, &setup.drive);
}

/// The runs of a small study; `None` if the user interrupted.
fn small_study(cells: &[StudyCell], snapshots: &SnapshotCache) -> anyhow::Result<Option<Vec<Run>>> {
    let mut beginning = |setup: &Setup| snapshots.take(setup, || setup.in_use());
    let mut run = |cell: &StudyCell| match interrupt::requested() {
        true => Ok(None),
        false => match cell.run_from(&mut beginning, &mut SilentObserver)? {
            (run, RunEnd::Complete) => Ok(Some(run)),
            _ => Ok(None),
        },
    };
    cells.iter().map(&mut run).collect()
}

/// A policy, and the reason if it cannot be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub policy: String,
    /// The reason why it cannot be tried here; `None` if it can.
    pub obstacle: Option<OmissionReason>,
}

/// A real filesystem that can run a job under a policy.
pub trait Rig {
    /// All policies in table order; the baseline comes first.
    fn offers(&self) -> Vec<Offer>;

    /// The header of a run of `job` under `policy`, and other details that determine its
    /// result.
    fn identity(&self, job: &Job, policy: &str) -> (Run, String);

    /// True if an earlier run of the same cell is still valid for the present filesystem.
    fn accepts(&self, _earlier: &Run) -> bool {
        true
    }

    /// Called with the reused runs, of `_found` candidates; marks and announces them.
    fn takes(&self, _found: usize, _taken: &mut [Run]) {}

    /// Runs `job` once under `policy`, from a starting state that is the same for all
    /// policies if possible. `part` is for progress. An error means that nothing was
    /// measured.
    fn run(
        &mut self,
        job: &Job,
        policy: &str,
        part: &ProgressPart,
    ) -> anyhow::Result<(Run, RunEnd)>;
}

/// Request for a study on a real filesystem.
#[derive(Debug, Clone)]
pub struct MeasuredRequest {
    /// The target as the user named it.
    pub target: String,
    /// The workloads.
    pub jobs: Vec<Job>,
    /// Policies to try; empty for all offers.
    pub policies: Vec<String>,
    /// Repeats of each cell. Each repeat visits all cells, so that slow changes affect
    /// all equally.
    pub repeats: u32,
    /// No cell starts after this time; for quick studies.
    pub patience: Option<Duration>,
}

/// Runs the study. Finished runs are kept if the user interrupts or a policy fails; an
/// error means that nothing could be measured. Finished cells go to the checkpoints and
/// are not run again.
///
/// # Errors
/// Nothing could be measured, or the store cannot be written.
pub fn real(
    rig: &mut dyn Rig,
    asked: &MeasuredRequest,
    checkpoints: &Checkpoints,
) -> anyhow::Result<Study> {
    let started = Instant::now();
    let mut study = Study { target: asked.target.clone(), complete: true, ..Study::default() };
    let wanted =
        |policy: &str| asked.policies.is_empty() || asked.policies.iter().any(|p| p == policy);
    let mut policies = Vec::new();
    for offer in rig.offers().into_iter().filter(|offer| wanted(&offer.policy)) {
        match offer.obstacle {
            None => policies.push(offer.policy),
            Some(reason) => {
                study.untried.push(OmittedPart { part: StudyPart::policy(offer.policy), reason })
            }
        }
    }
    let (cells, mut matrix) = cells(rig, asked, &policies, checkpoints)?;
    let visits = matrix.visits();
    if !visits.is_empty() {
        warm_up(rig, asked, &policies)?;
    }
    let total = visits.len() as u64;
    for (done, at) in visits.into_iter().enumerate() {
        let (job, policy) = cells[at];
        if interrupt::requested() {
            break;
        }
        let late = asked.patience.is_some_and(|patience| started.elapsed() > patience);
        let part = StudyPart::Workload { policy: policy.clone(), workload: job.name().to_owned() };
        let no_time = OmittedPart { part, reason: OmissionReason::NoTime };
        if late
            && matrix.is_untouched(at)
            && !matrix.is_given_up(at)
            && !study.untried.contains(&no_time)
        {
            study.untried.push(no_time);
        }
        if late || matrix.is_given_up(at) {
            continue;
        }
        let done = done as u64;
        let part = ProgressPart {
            title: format!("{} of {total}: {} {policy}", done + 1, job.name()),
            done,
            total,
        };
        let error = match rig.run(job, policy, &part) {
            Ok((run, RunEnd::Complete)) => {
                if let Some(run) = matrix.finished(at, run) {
                    checkpoints.put(&run)?;
                }
                continue;
            }
            Ok((_, RunEnd::Interrupted)) => continue,
            Ok((_, RunEnd::Failed(error))) => error.into(),
            Err(error) => error,
        };
        // A policy that fails is not tried again. The baseline uses only basic operations
        // and must not fail.
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
    if study.complete && study.runs.is_empty() {
        return Err(nothing_measured(&study, asked.patience, started.elapsed()));
    }
    Ok(study)
}

/// The error of a study without a run: the first reason.
fn nothing_measured(study: &Study, patience: Option<Duration>, took: Duration) -> anyhow::Error {
    let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let late = study.untried.iter().any(|part| part.reason == OmissionReason::NoTime);
    match patience.filter(|_| late) {
        Some(patience) => anyhow!(
            "nothing was measured: the preparations took {}, and a quick study starts no run \
                after {}; run it without --quick, or when the machine is less busy",
            nanos(took),
            nanos(patience)
        ),
        None => {
            let reasons = study.untried.iter().map(|part| untried_reason(&part.reason));
            anyhow!("nothing was measured: {}", reasons.take(1).collect::<Vec<_>>().join(""))
        }
    }
}

/// Every job under every policy, and the results of these cells that are already
/// finished.
fn cells<'a>(
    rig: &dyn Rig,
    asked: &'a MeasuredRequest,
    policies: &'a [String],
    checkpoints: &Checkpoints,
) -> anyhow::Result<(Vec<(&'a Job, &'a String)>, Matrix)> {
    let named =
        asked.jobs.iter().flat_map(|job| policies.iter().map(move |policy| (job, policy))).map(
            |(job, policy)| {
                let (header, detail) = rig.identity(job, policy);
                (job, policy, checkpoint::name(header, &detail))
            },
        );
    let named: Vec<_> = named.collect();
    let mut taken: Vec<Run> = named
        .iter()
        .filter_map(|(_, _, name)| checkpoints.find(name))
        .filter(|earlier| rig.accepts(earlier))
        .collect();
    rig.takes(checkpoints.found(), &mut taken);
    let mut matrix = Matrix::new(asked.repeats);
    for run in &taken {
        checkpoints.put(run)?;
    }
    for (_, policy, name) in &named {
        let kept =
            taken.iter().find(|run| checkpoint::cell_of(run) == Some(name.as_str())).cloned();
        matrix.add(StudyPart::policy(policy.as_str()), Some(name.clone()), kept);
    }
    Ok((named.into_iter().map(|(job, policy, _)| (job, policy)).collect(), matrix))
}

/// The first run finds cold caches and missing filesystem structures; it is discarded if
/// policies are compared.
fn warm_up(rig: &mut dyn Rig, asked: &MeasuredRequest, policies: &[String]) -> anyhow::Result<()> {
    let (Some(job), Some(policy)) = (asked.jobs.first(), policies.first()) else { return Ok(()) };
    if policies.len() < 2 {
        return Ok(());
    }
    let part = ProgressPart { title: "warming up".to_owned(), done: 0, total: 1 };
    match rig.run(job, policy, &part)? {
        (_, RunEnd::Failed(error)) => Err(error.into()),
        (_, RunEnd::Complete | RunEnd::Interrupted) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_sim::run::RunRecording;
    use trimtab_sim::run::{Better, Metric, TargetKind, Unit};
    use trimtab_sim::workload::postmark::PostmarkSettings;

    /// Logs the runs; `online` fails after its first run.
    #[derive(Default)]
    struct Fake {
        log: Vec<String>,
    }

    impl Rig for Fake {
        fn offers(&self) -> Vec<Offer> {
            let offer = |policy: &str, obstacle: Option<&str>| Offer {
                policy: policy.into(),
                obstacle: obstacle.map(|text| OmissionReason::Obstacle(text.into())),
            };
            vec![
                offer(policy::AS_MOUNTED, None),
                offer(policy::BATCHED, Some("needs root")),
                offer(policy::ONLINE, None),
            ]
        }

        fn identity(&self, job: &Job, policy: &str) -> (Run, String) {
            (Run::new(job.name(), Vec::new(), TargetKind::Directory, "x", policy, 1), String::new())
        }

        fn run(
            &mut self,
            job: &Job,
            policy: &str,
            _part: &ProgressPart,
        ) -> anyhow::Result<(Run, RunEnd)> {
            self.log.push(policy.to_owned());
            if policy == policy::ONLINE && self.log.iter().filter(|p| *p == policy).count() > 1 {
                anyhow::bail!("the device is gone");
            }
            let mut run = self.identity(job, policy).0.into_run(RunRecording::default(), true);
            let samples = vec![self.log.len() as f64];
            run.metrics.push(Metric {
                name: "n".into(),
                unit: Unit::Count,
                better: Better::Neither,
                samples,
            });
            Ok((run, RunEnd::Complete))
        }
    }

    fn study_of(rig: &mut Fake, asked: &MeasuredRequest) -> Study {
        outcome_of(rig, asked).unwrap()
    }

    /// Runs the study with a store of its own.
    fn outcome_of(rig: &mut Fake, asked: &MeasuredRequest) -> anyhow::Result<Study> {
        let directory = tempfile::tempdir().unwrap();
        let store = Some(directory.path().join("store.db"));
        let context = Context { yes: true, store, ..Context::new(false, true, false) };
        real(rig, asked, &Checkpoints::open(&context, "x", false).unwrap())
    }

    fn asked(policies: &[&str], patience: Option<Duration>) -> MeasuredRequest {
        let job = Job::postmark(&PostmarkSettings {
            number: 5,
            transactions: 5,
            ..PostmarkSettings::default()
        })
        .unwrap();
        let policies = policies.iter().map(|p| (*p).to_owned()).collect();
        MeasuredRequest { target: "x".into(), jobs: vec![job], policies, repeats: 3, patience }
    }

    #[test]
    fn repeats_alternate_and_failed_policy_is_dropped() {
        let mut rig = Fake::default();
        let study = study_of(&mut rig, &asked(&[], None));
        // Warm-up, forward, backward, and forward again without the failed policy.
        assert_eq!(
            rig.log,
            ["as-mounted", "as-mounted", "online", "online", "as-mounted", "as-mounted"]
        );
        let cells: Vec<_> =
            study.runs.iter().map(|r| (r.policy.as_str(), r.metrics[0].samples.clone())).collect();
        assert_eq!(cells, [("as-mounted", vec![2.0, 5.0, 6.0]), ("online", vec![3.0])]);
        let untried = [("batched", "needs root"), ("online", "the device is gone")];
        let untried = untried.map(|(policy, why)| OmittedPart {
            part: StudyPart::policy(policy),
            reason: OmissionReason::Obstacle(why.into()),
        });
        assert_eq!(study.untried, untried);
    }

    #[test]
    fn single_policy_needs_no_warm_up() {
        let mut rig = Fake::default();
        assert_eq!(
            study_of(&mut rig, &asked(&["as-mounted"], None)).runs[0].metrics[0].samples,
            [1.0, 2.0, 3.0]
        );
    }

    /// Regression: a study whose warm-up took all its time succeeded without a result.
    #[test]
    fn study_without_a_run_is_an_error() {
        let late = asked(&["as-mounted"], Some(Duration::ZERO));
        let error = outcome_of(&mut Fake::default(), &late).unwrap_err().to_string();
        assert!(error.starts_with("nothing was measured: the preparations took"), "{error}");
        let refused = asked(&["batched"], None);
        let error = outcome_of(&mut Fake::default(), &refused).unwrap_err().to_string();
        assert_eq!(error, "nothing was measured: needs root");
    }
}
