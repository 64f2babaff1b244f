//! One filesystem: asks its policy, trims, keeps account and saves the state.

use super::config::Rule;
use super::control::Control;
use super::counter::WriteCounter;
use super::metrics::{Figures, MountVerdict};
use super::state::{FilesystemState, StateFile};
use crate::history::{History, PassEnd, TrimPass};
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use trimtab_drive::discards::Discards;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::doctor::{AcceptedFinding, VerdictKind, trim_refusal};
use trimtab_linux::host::environment::on_battery;
use trimtab_linux::host::processes::boot_id;
use trimtab_linux::session::directories::run_directory;
use trimtab_linux::sys::clock::unix_now;
use trimtab_linux::sys::mount_check::{self, MountCheck};
use trimtab_linux::trim::filesystem::{Filesystem, WindowRefusal};
use trimtab_linux::trim::lock::{DriveBusyError, DriveLocks};
use trimtab_linux::trim::surface::{Account, CallerState, FilesystemSurface, at_least};
use trimtab_sim::policy::{
    Action, Driver, PolicySpec, RefusalAction, RefusalLimits, TrimRequest, TurnResult,
};
use trimtab_sim::target::TrimWindow;

/// A skipped window returns in the next pass. When the drive itself fails, it is left
/// alone for `HOLD_FIRST`, which doubles with each failure up to `HOLD_LAST`.
const PATIENCE: RefusalLimits = RefusalLimits { tries: 3, windows: 3 };
const HOLD_FIRST: Nanos = Nanos::from_secs(3600);
const HOLD_LAST: Nanos = Nanos::from_secs(86_400);
/// Shortest interval between saves of the state during a pass.
const SAVE_EVERY: Duration = Duration::from_secs(2);
/// The same between passes. Only a power failure can lose the kernel's counts since the
/// last save.
const SAVE_IDLE_EVERY: Duration = Duration::from_secs(1800);
/// A longer pause restores the device's own limit until the next request. Each change of
/// the limit stops the device's queue for a moment.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// Interval between attempts to lock a drive that another process is trimming.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// Interval between checks of whether a mount point answers.
const CHECK_EVERY: Nanos = Nanos::from_secs(10);
/// Interval between diagnoses: a layer may start or stop blocking discards without a
/// remount.
pub const DIAGNOSE_EVERY: Duration = Duration::from_secs(3600);

/// State shared by all tasks.
#[derive(Debug)]
pub struct TaskContext {
    /// Directory of the state.
    pub state: PathBuf,
    /// Store of the passes.
    pub history: History,
    /// Findings of the doctor that the configuration accepts.
    pub accepted: RwLock<Vec<AcceptedFinding>>,
}

/// One filesystem.
pub struct Task {
    common: Arc<TaskContext>,
    control: Arc<Control>,
    rule: Rule,
    fs: Filesystem,
    driver: Driver,
    /// Account of the present pass.
    account: Account,
    counter: WriteCounter,
    file: StateFile,
    saved: Instant,
    /// The state saved last.
    remembered: FilesystemState,
    boot: String,
    forget: bool,
    /// Start or resumption of the present pass.
    started: Option<Nanos>,
    /// The last request was refused; the same message is logged once.
    refused: bool,
    /// End of the pause for a failing drive, and the number of earlier pauses.
    hold: Option<Nanos>,
    holds: u32,
    /// End of the last trimmed window.
    trimmed: Instant,
    /// Last answer of the mount point.
    answered: Option<Instant>,
    /// A running check of the mount point.
    check: Option<MountCheck>,
    check_failed: bool,
    /// Time of the last diagnosis, and its text if a layer blocks discards.
    diagnosed: Instant,
    blocked: Option<String>,
    shown: String,
}

/// Logs one line, without control characters. The journal adds the time; without a
/// journal, the line has it.
pub fn say(text: &str) {
    let text = trimtab_linux::output::plain_line(text);
    let mut log = anstream::stderr().lock();
    // A log without a reader stops no trims.
    let _ = if to_journal() {
        writeln!(log, "{text}")
    } else {
        writeln!(log, "{} {text}", chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ"))
    };
}

/// True if standard error is the stream that `JOURNAL_STREAM` names by device and inode
/// (systemd.exec(5)). A process with another standard error may have inherited the
/// variable.
fn to_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(rustix::stdio::stderr())
        .is_ok_and(|stat| named == format!("{}:{}", stat.st_dev, stat.st_ino))
}

impl Task {
    /// Opens the filesystem mounted at `mount_point`. Fails if it has another mount id or
    /// cannot be trimmed; then the figures hold the doctor's verdict. Figures with a
    /// verdict save a diagnosis in that case.
    pub fn open(
        common: Arc<TaskContext>,
        control: Arc<Control>,
        rule: Rule,
        mount_point: &Path,
        mount_id: u32,
    ) -> anyhow::Result<Self> {
        let mut fs = Filesystem::open(mount_point)?;
        anyhow::ensure!(
            fs.mount().id == mount_id,
            "{} was remounted in between",
            mount_point.display()
        );
        let shown = mount_point.display().to_string();
        let verdict = control.figures().verdict.take();
        *control.figures() = Figures {
            mount_point: shown.clone(),
            fs_type: fs.mount().fs_type.clone(),
            policy: rule.policy.name().to_owned(),
            verdict: verdict.clone(),
            interval: Some(rule.policy.period()).filter(|period| *period != Nanos::MAX),
            ..Figures::default()
        };
        let obstacle = fs.obstacle().map(|obstacle| obstacle.to_string());
        // Every change of the mount table repeats a failed start, so its verdict is kept.
        let blocked = if obstacle.is_some() && verdict.is_some() {
            None
        } else {
            diagnose(&fs, &common, &control)
        };
        if let Some(why) = obstacle.or_else(|| refusal(&fs, &rule, &common)) {
            anyhow::bail!("{shown} is not trimmed: {why}");
        }
        // A blocked filesystem still accepts trims: a pool that keeps them, a mirror with
        // one leg that refuses them.
        blocked.iter().for_each(|text| say(&format!("{shown}: {text}")));
        fs.release();
        let file = StateFile::new(&common.state, fs.id());
        let counter = WriteCounter::choose(fs.root(), fs.mount(), fs.stack());
        let boot = boot_id();
        let (remembered, set_aside) = file.load();
        set_aside.iter().for_each(|set_aside| say(&format!("{shown}: {set_aside}")));
        let remembered = remembered.for_counter(counter.name(), counter.restarts_at_boot(), &boot);
        let driver = Driver::new(rule.policy.build(&remembered.state()), PATIENCE);
        let is_same_policy = remembered.policy == rule.policy.name();
        let first_seen = remembered.first_seen_unix_s.filter(|_| is_same_policy);
        control.figures().last_pass_unix_s = remembered.last_pass_unix_s;
        control.figures().first_seen_unix_s = first_seen.or(Some(unix_now().0 / 1_000_000_000));
        let mut task = Self {
            common,
            control,
            rule,
            fs,
            driver,
            account: Account::default(),
            counter,
            file,
            saved: Instant::now(),
            forget: remembered.forget,
            remembered,
            boot,
            started: None,
            refused: false,
            hold: None,
            holds: 0,
            trimmed: Instant::now(),
            answered: None,
            check: None,
            check_failed: false,
            diagnosed: Instant::now(),
            blocked,
            shown,
        };
        if task.driver.running() {
            task.begin_pass("continues a pass that was interrupted");
        }
        Ok(task)
    }

    /// The task's plan, for the journal.
    pub fn introduction(&self) -> String {
        let later = if self.fs.sends_later() {
            "; it is mounted with discard, so it queues trims and sends them later"
        } else {
            ""
        };
        format!(
            "{} [{}]: {}, by {}, in {}{later}",
            self.shown,
            self.fs.mount().fs_type,
            self.rule.policy,
            self.counter.name(),
            self.fs.layout().unit
        )
    }

    /// Runs until stopped, or until the filesystem is gone.
    pub fn run(mut self) {
        // Limits left by a killed daemon; a process that trims the drive now restores
        // them itself.
        if let Ok(_locks) = DriveLocks::take(self.fs.stack(), &run_directory()) {
            self.recover_limits();
        }
        let why = loop {
            if self.control.stopped() {
                break "asked to stop".to_owned();
            }
            match self.turn() {
                TaskStep::Again => {}
                TaskStep::Until(instant) => self.control.sleep_until(instant),
                TaskStep::Sleep => self.control.sleep(Duration::MAX),
                TaskStep::Over(why) => break why,
            }
        };
        if self.driver.running() && self.started.is_some() {
            self.end_pass(PassEnd::Stopped(why));
        }
        self.save();
    }

    /// Asks the policy once, and carries out its answer.
    fn turn(&mut self) -> TaskStep {
        let was_running = self.driver.running();
        if !was_running && !self.answers() {
            return TaskStep::Until(unix_now().saturating_add(CHECK_EVERY));
        }
        // Only checks existence; windows are read when a pass begins.
        if !was_running && let Err(errno) = self.fs.file() {
            self.control.set_gone(true);
            return TaskStep::Over(std::io::Error::from(errno).to_string());
        }
        self.diagnose_again();
        let world = self.world();
        let forced = self.control.take_forced();
        if let Some(until) = self.hold {
            if !forced && unix_now() < until {
                return TaskStep::Until(until);
            }
            self.hold = None;
            if was_running {
                self.begin_pass("retries");
            }
        }
        let follows = was_running && (forced || self.driver.another_follows());
        if forced {
            self.driver.force();
        }
        let action = self.driver.decide(&mut FilesystemSurface {
            fs: &mut self.fs,
            world,
            account: &mut self.account,
            only: None,
        });
        let running = self.driver.running();
        // Each pass has its own account.
        let next_one = running && follows && !self.driver.another_follows();
        if next_one && self.hold.is_none() {
            self.end_pass(PassEnd::Complete);
        }
        if (running && !was_running) || next_one {
            // The first window comes from the last reading and may be gone; then nothing
            // is discarded there. New windows have higher addresses.
            if let Err(error) = self.fs.refresh() {
                self.control.set_gone(true);
                return TaskStep::Over(format!("{error:#}"));
            }
            self.begin_pass(if next_one {
                "begins another pass, which was requested"
            } else {
                "begins a pass"
            });
        }
        let next = match action {
            Action::Trim(request) => self.trim(world, request),
            Action::WaitUntil(instant) => TaskStep::Until(instant),
            Action::Nothing => TaskStep::Sleep,
        };
        if !running && was_running && self.hold.is_none() {
            self.end_pass(PassEnd::Complete);
        }
        if !matches!(next, TaskStep::Again) {
            self.pause(&next);
        }
        // Saved from the first turn on, so that later writes count even if this process
        // is killed.
        if !self.driver.running()
            && (self.remembered.numbers.is_empty() || self.saved.elapsed() >= SAVE_IDLE_EVERY)
        {
            self.save();
        }
        next
    }

    /// Repeats a diagnosis that is too old. Logs a changed reason of a blocked
    /// filesystem.
    fn diagnose_again(&mut self) {
        if self.diagnosed.elapsed() < DIAGNOSE_EVERY {
            return;
        }
        self.diagnosed = Instant::now();
        let blocked = diagnose(&self.fs, &self.common, &self.control);
        blocked
            .iter()
            .filter(|_| blocked != self.blocked)
            .for_each(|text| say(&format!("{}: {text}", self.shown)));
        self.blocked = blocked;
    }

    /// True if the mount point answers. A child process checks it, so that this thread
    /// cannot hang in the kernel. Logs changes.
    fn answers(&mut self) -> bool {
        if self.answered.is_some_and(|at| at.elapsed() < Duration::from_nanos(CHECK_EVERY.0)) {
            return true;
        }
        let Some(mut check) = self
            .check
            .take()
            .or_else(|| MountCheck::start(self.fs.stack().place_to_check(self.fs.mount())).ok())
        else {
            return true;
        };
        let answers = check.answers_within(mount_check::PATIENCE);
        if answers == self.check_failed {
            let said =
                if answers { "answers again" } else { "does not answer; paused until it does" };
            say(&format!("{}: {said}", self.shown));
        }
        self.check_failed = !answers;
        self.answered = answers.then(Instant::now);
        self.check = (!answers).then_some(check);
        self.control.figures().silent = !answers;
        answers
    }

    fn world(&mut self) -> CallerState {
        CallerState {
            written: self.counter.read(self.fs.root()),
            on_battery: on_battery(self.fs.root()) == Some(true),
        }
    }

    /// Closes the filesystem, so that it can be unmounted, and for a long pause restores
    /// the device's limit.
    fn pause(&mut self, next: &TaskStep) {
        self.fs.release();
        let soon = unix_now()
            .saturating_add(Nanos(u64::try_from(LONG_PAUSE.as_nanos()).unwrap_or(u64::MAX)));
        let short = matches!(next, TaskStep::Until(instant) if *instant <= soon);
        // Many short pauses in a row count as a long one.
        if !short || self.trimmed.elapsed() > LONG_PAUSE {
            self.unlimit();
        }
    }

    fn unlimit(&mut self) {
        for remark in self.fs.unlimit_commands() {
            say(&format!("{}: {remark}", self.shown));
        }
    }

    fn begin_pass(&mut self, what: &str) {
        self.started = Some(unix_now());
        self.account = Account::default();
        self.refused = false;
        self.control.figures().running = true;
        let min_extent = min_extent(&self.rule.policy);
        self.forget = self.fs.prepare(min_extent, self.forget);
        say(&format!(
            "{}: {what}, {} windows, {} free",
            self.shown,
            self.fs.layout().windows.len(),
            self.fs.free().unwrap_or_default()
        ));
    }

    fn trim(&mut self, world: CallerState, request: TrimRequest) -> TaskStep {
        let locks = loop {
            match DriveLocks::take(self.fs.stack(), &run_directory()) {
                Ok(locks) => break locks,
                Err(error) if error.is::<DriveBusyError>() && !self.control.stopped() => {
                    self.fs.release();
                    self.control.sleep(BUSY_RETRY);
                }
                Err(error) if error.is::<DriveBusyError>() => return TaskStep::Again,
                Err(error) => return TaskStep::Over(format!("{error:#}")),
            }
        };
        self.recover_limits();
        let before = (self.account.discards.clone(), self.account.trimming);
        let surface = &mut FilesystemSurface {
            fs: &mut self.fs,
            world,
            account: &mut self.account,
            only: None,
        };
        let turn = self.driver.carry_out(surface, request);
        drop(locks);
        self.trimmed = Instant::now();
        self.note(&before);
        match turn {
            TurnResult::Refused { tried, reason, then } => self.refused(tried, reason, then),
            _ => {
                self.refused = false;
                self.holds = 0;
                if self.saved.elapsed() >= SAVE_EVERY {
                    self.save();
                }
                TaskStep::Again
            }
        }
    }

    /// Restores limits that an interrupted trim lowered. Call while holding the drives'
    /// locks.
    fn recover_limits(&mut self) {
        for file in self.fs.recover_limits() {
            say(&format!(
                "{}: restored {}, which an interrupted trim had lowered",
                self.shown,
                file.display()
            ));
        }
    }

    fn refused(
        &mut self,
        tried: TrimWindow,
        reason: WindowRefusal,
        then: RefusalAction,
    ) -> TaskStep {
        let which = format!("{} at {}", Bytes(tried.len), tried.start);
        if !std::mem::replace(&mut self.refused, then == RefusalAction::Again) {
            say(&format!("{}: {which} was refused: {reason}", self.shown));
        }
        match then {
            RefusalAction::Again => TaskStep::Again,
            RefusalAction::LeftOut => {
                say(&format!("{}: {which} is skipped in this pass", self.shown));
                TaskStep::Again
            }
            RefusalAction::GiveUp => self.leave_alone(),
            RefusalAction::Never => {
                self.control.set_gone(reason.is_gone());
                TaskStep::Over(reason.to_string())
            }
        }
    }

    /// Pauses for a drive that fails everywhere. The pass continues here later, or when
    /// the user requests it.
    fn leave_alone(&mut self) -> TaskStep {
        let wait = Nanos(HOLD_FIRST.0.saturating_mul(1 << self.holds.min(10)).min(HOLD_LAST.0));
        self.holds += 1;
        let until = unix_now().saturating_add(wait);
        self.hold = Some(until);
        self.end_pass(PassEnd::Stopped(format!("the drive fails; paused for {wait}")));
        TaskStep::Until(until)
    }

    /// Adds the last request to the figures.
    fn note(&self, (before, trimming): &(Discards, Nanos)) {
        let now = &self.account.discards;
        let sent = |d: &Discards| d.accepted.unwrap_or_default();
        let mut figures = self.control.figures();
        figures.carried_out += now.carried_out().since(before.carried_out());
        figures.refused += now.refused.since(before.refused);
        figures.sent += sent(now).since(sent(before));
        figures.trimming_seconds += self.account.trimming.saturating_sub(*trimming).as_secs_f64();
        figures.wait_seconds_max =
            figures.wait_seconds_max.max(self.account.wait_during.map_or(0.0, Nanos::as_secs_f64));
        figures.latencies.merge(&self.fs.take_latencies());
    }

    fn end_pass(&mut self, ending: PassEnd) {
        let missing = self.fs.stack().missing(self.fs.root()).map(|layer| layer.title());
        let ending = match missing {
            Some(name) if ending == PassEnd::Complete => {
                PassEnd::Stopped(format!("{name} is gone; its last discards are unknown"))
            }
            _ => ending,
        };
        let complete = ending == PassEnd::Complete;
        if complete {
            let before = (self.account.discards.clone(), self.account.trimming);
            self.account.finish(&mut self.fs);
            self.note(&before);
        }
        // Discards of other processes must not be cut to this pass's command length.
        self.unlimit();
        let ended = unix_now();
        let account = std::mem::take(&mut self.account);
        let started = self.started.take().unwrap_or(ended);
        let took = ended.saturating_sub(started);
        say(&self.summary(&account, &ending, took));
        let learned = self.driver.policy().learned().map(|cost| format!("trims take {cost}"));
        for remark in learned.into_iter().chain(self.driver.policy().remark()) {
            say(&format!("{}: {remark}", self.shown));
        }
        let policy = &self.rule.policy;
        let pass = TrimPass {
            by: "daemon",
            policy: policy.name(),
            policy_settings: policy.settings(),
            started,
            took,
            account: &account,
            ending,
        };
        match self.common.history.save(&self.fs, &pass).context("cannot write the history") {
            Ok(set_aside) => set_aside.iter().for_each(|set_aside| say(set_aside)),
            Err(error) => say(&format!("{}: {error:#}", self.shown)),
        }
        if complete {
            self.forget = false;
        }
        {
            let mut figures = self.control.figures();
            figures.running = false;
            if complete {
                figures.passes += 1;
                figures.last_pass_unix_s = Some(ended.0 / 1_000_000_000);
            } else if !self.control.stopped() && !self.control.is_gone() {
                figures.passes_failed += 1;
            }
        }
        self.save();
    }

    fn summary(&self, account: &Account, ending: &PassEnd, took: Nanos) -> String {
        let what = match ending {
            PassEnd::Complete if account.refusals.is_empty() => "pass complete".to_owned(),
            PassEnd::Complete => format!("pass over, {} requests refused", account.refusals.len()),
            PassEnd::Stopped(why) => format!("pass stopped ({why}), continues later"),
        };
        let sent = account.discards.accepted.map_or("sent an uncounted amount".to_owned(), |s| {
            let sent = format!("{} in {} discards reached the drives", s.bytes, s.count);
            at_least(account.is_minimum, &sent)
        });
        let wait = account
            .wait_during
            .filter(|wait| *wait > Nanos::ZERO)
            .map_or(String::new(), |w| format!(", foreground I/O waited up to {w}"));
        format!(
            "{}: {what}: {sent} in {took}, {} of it in requests{wait}",
            self.shown, account.trimming
        )
    }

    fn save(&mut self) {
        self.saved = Instant::now();
        let figures = self.control.figures().clone();
        let remembered = FilesystemState {
            counter: self.counter.name().to_owned(),
            boot: self.boot.clone(),
            last_pass_unix_s: figures.last_pass_unix_s,
            first_seen_unix_s: figures.first_seen_unix_s,
            ..FilesystemState::of(
                self.rule.policy.name(),
                self.driver.policy().state(),
                self.forget,
            )
        };
        if remembered == self.remembered {
            return;
        }
        if let Err(error) = self.file.save(&remembered) {
            say(&format!("{}: cannot save the state: {error}", self.shown));
        }
        self.remembered = remembered;
    }
}

/// Diagnoses the filesystem and notes the verdict in its figures. Returns the verdict's
/// text if a layer blocks discards and the configuration does not accept that.
fn diagnose(fs: &Filesystem, common: &TaskContext, control: &Control) -> Option<String> {
    let mut diagnosis = fs.diagnosis().ok()?;
    diagnosis.accept(&common.accepted.read().unwrap_or_else(PoisonError::into_inner));
    let kind =
        if diagnosis.is_verdict_accepted { "accepted" } else { diagnosis.verdict.kind.name() };
    let verdict = diagnosis.verdict;
    control.figures().verdict = Some(MountVerdict { kind, layers: verdict.at.join(", ") });
    (kind == VerdictKind::Blocked.name()).then_some(verdict.text)
}

/// The reason why a filesystem that accepts trims is not trimmed under this rule.
fn refusal(fs: &Filesystem, rule: &Rule, common: &TaskContext) -> Option<String> {
    let accepted = common.accepted.read().unwrap_or_else(PoisonError::into_inner);
    trim_refusal(fs.root(), fs.mount(), fs.stack(), &accepted)
        .or_else(|| fs.refuses_min_extent(min_extent(&rule.policy)))
}

/// The step after a turn.
enum TaskStep {
    /// Ask the policy again at once.
    Again,
    /// Ask again at this time.
    Until(Nanos),
    /// Ask again when something changes.
    Sleep,
    /// The filesystem can no longer be trimmed.
    Over(String),
}

/// The least extent of a policy, for all its passes: ext4 keeps one value per filesystem.
fn min_extent(policy: &PolicySpec) -> Bytes {
    match policy {
        PolicySpec::None | PolicySpec::Online | PolicySpec::Idle(_) => Bytes::ZERO,
        PolicySpec::Batched(s) => s.min_extent,
        PolicySpec::Adaptive(s) => s.min_extent,
    }
}
