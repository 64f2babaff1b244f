//! `fstrim.timer`: whether it starts its service, and the filesystems that the service
//! trims.

use super::answer::{Answer, Reason};
use super::conditions::{self, DOES_NOT_RUN};
use super::fstrim::{self, Machine};
use super::systemd::{Unit, UnitState, WantsDirectories, is_true};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use std::path::Path;

/// The timer that util-linux installs.
const NAME: &str = "fstrim.timer";
/// Triggers that start the service without an earlier run of it.
const TRIGGERS: [&str; 4] = ["OnCalendar", "OnBootSec", "OnStartupSec", "OnActiveSec"];

/// The timer and its service.
#[derive(Clone, Debug)]
pub struct Timer {
    pub state: UnitState,
    /// Schedule, as the unit gives it.
    calendar: Option<String>,
    /// Answers whether the timer runs the service.
    runs: Answer,
    /// The call of fstrim; `None` if the service runs anything else.
    call: Option<fstrim::Call>,
    sandbox: Sandbox,
}

/// Paths that the service's sandbox hides or protects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sandbox {
    /// Hidden or read-only directories, each with the setting.
    closed: Vec<(&'static str, String)>,
    doubt: Option<String>,
}

impl Timer {
    /// A machine without `fstrim.timer`.
    pub fn missing() -> Self {
        Self::absent(UnitState::Missing)
    }

    fn absent(state: UnitState) -> Self {
        let runs = Answer::no(DOES_NOT_RUN, format!("there is no {NAME}"));
        Self { state, calendar: None, runs, call: None, sandbox: Sandbox::default() }
    }

    /// Reads `fstrim.timer`.
    pub fn read(root: &Root, wants: &WantsDirectories) -> Self {
        let timer = Unit::read(root, wants, NAME);
        if matches!(timer.state, UnitState::Missing | UnitState::Masked) {
            return Self::absent(timer.state);
        }
        let name = timer.last("Timer", "Unit").unwrap_or("fstrim.service");
        let service = Unit::read(root, wants, name);
        let calendar = timer.list("Timer", "OnCalendar").first().map(|time| (*time).to_owned());
        Self {
            state: timer.state,
            calendar,
            runs: starts(root, &timer).and(|| serves(root, name, &service)),
            call: match service.list("Service", "ExecStart").as_slice() {
                [command] => call(command),
                _ => None,
            },
            sandbox: Sandbox::of(name, &service),
        }
    }

    /// Filesystems that cannot be trimmed are not reported.
    pub fn is_quiet(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.is_quiet)
    }

    /// Name of the timer in the list of mechanisms.
    pub fn shown(&self) -> String {
        format!("{NAME} ({})", self.calendar.as_deref().unwrap_or("see systemctl cat fstrim.timer"))
    }

    /// Returns whether the timer, once enabled, trims the filesystem whose mounts
    /// `is_same` recognises.
    pub fn trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        self.runs.clone().and(|| self.service_trims(machine, is_same))
    }

    fn service_trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let Some(call) = &self.call else {
            return Answer::maybe("its service is not the one of util-linux");
        };
        let is_open =
            |mount: &Mount| is_same(mount) && self.sandbox.closing(&mount.mount_point).is_none();
        match machine.trims(call, &is_open) {
            Answer::No(reason) => {
                self.closed(machine.mounts, is_same).unwrap_or(Answer::No(reason))
            }
            answer => answer.and(|| self.sandbox.doubt.clone().map_or(Answer::Yes, Answer::Maybe)),
        }
    }

    /// The answer if a sandbox setting keeps the service from the filesystem.
    fn closed(&self, mounts: &[Mount], is_same: &dyn Fn(&Mount) -> bool) -> Option<Answer> {
        let ours: Vec<&Mount> = mounts.iter().filter(|mount| is_same(mount)).collect();
        let setting = self.sandbox.closing(&ours.first()?.mount_point)?;
        let all = ours.iter().all(|mount| self.sandbox.closing(&mount.mount_point).is_some());
        all.then(|| Answer::no(DOES_NOT_RUN, format!("its service cannot write there ({setting})")))
    }
}

/// The call of fstrim in a service; `None` for any other program, and for words that
/// systemd expands.
fn call(command: &str) -> Option<fstrim::Call> {
    let mut words = command.split_ascii_whitespace();
    let program = words.next()?.trim_start_matches('-');
    fstrim::parse(words).filter(|_| program.rsplit('/').next() == Some("fstrim"))
}

/// Returns whether the timer starts.
fn starts(root: &Root, timer: &Unit) -> Answer {
    let triggers = timer.lists("Timer", |key| key.starts_with("On"));
    let has_time = match triggers.as_slice() {
        [] => Answer::no(DOES_NOT_RUN, format!("{NAME} has no time to run (OnCalendar=)")),
        some if some.iter().any(|(key, _)| TRIGGERS.contains(key)) => Answer::Yes,
        _ => Answer::maybe(format!("{NAME} needs a first run of its service")),
    };
    let doubt = timer.doubt.clone().map_or(Answer::Yes, Answer::Maybe);
    has_time.and(|| renamed(conditions::hold(root, timer), NAME)).and(|| doubt)
}

/// Returns whether the service starts when the timer triggers.
fn serves(root: &Root, name: &str, service: &Unit) -> Answer {
    match service.state {
        UnitState::Missing => return Answer::no(DOES_NOT_RUN, format!("there is no {name}")),
        UnitState::Masked => return Answer::no(DOES_NOT_RUN, format!("{name} is masked")),
        _ if service.list("Service", "ExecStart").is_empty() => {
            return Answer::no(DOES_NOT_RUN, "its service has no command that trims");
        }
        _ => {}
    }
    let before = ["ExecCondition", "ExecStartPre"]
        .into_iter()
        .find(|key| !service.list("Service", key).is_empty());
    let asked = before.map_or(Answer::Yes, |key| Answer::maybe(format!("{key} of {name} decides")));
    renamed(conditions::hold(root, service), name).and(|| asked)
}

/// Names the unit in a reason.
fn renamed(answer: Answer, unit: &str) -> Answer {
    match answer {
        Answer::No(reason) => {
            Answer::No(Reason { text: format!("{unit} does not start: {}", reason.text), ..reason })
        }
        other => other,
    }
}

/// Settings of a sandbox whose effect on fstrim is not examined.
const DOUBTFUL: &str = "
    RootDirectory RootImage CapabilityBoundingSet ReadWritePaths ReadOnlyPaths ReadOnlyDirectories InaccessiblePaths
    InaccessibleDirectories TemporaryFileSystem";

impl Sandbox {
    fn of(name: &str, service: &Unit) -> Self {
        let last = |key: &str| service.last("Service", key).unwrap_or_default();
        let (home, mut closed) = (last("ProtectHome"), Vec::new());
        if is_true(home) || ["read-only", "tmpfs"].contains(&home) {
            closed.extend(
                ["/home", "/root", "/run/user"].map(|path| (path, format!("ProtectHome={home}"))),
            );
        }
        if last("ProtectSystem") == "strict" {
            closed.push(("/", "ProtectSystem=strict".to_owned()));
        }
        let truly = ["PrivateDevices", "PrivateUsers", "DynamicUser"]
            .into_iter()
            .find(|key| is_true(last(key)));
        let other = DOUBTFUL.split_ascii_whitespace().find(|key| !last(key).is_empty());
        let user = Some("User").filter(|_| !["", "root", "0"].contains(&last("User")));
        let key = truly.or(other).or(user);
        Self { closed, doubt: key.map(|key| format!("{name} has {key}={}", last(key))) }
    }

    /// The setting that keeps the service from trimming the filesystem mounted there.
    fn closing(&self, mount_point: &Path) -> Option<&str> {
        self.closed
            .iter()
            .find(|(path, _)| mount_point.starts_with(path))
            .map(|(_, setting)| setting.as_str())
    }
}
