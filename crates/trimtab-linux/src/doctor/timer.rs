//! `fstrim.timer`: whether it starts its service, and the filesystems that the service
//! trims.

use super::answer::{Answer, Reason};
use super::conditions::{self, DOES_NOT_RUN};
use super::fstrim::{self, Machine};
use super::systemd::{Unit, UnitState, WantsDirectories};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;

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
}

impl Timer {
    /// A machine without `fstrim.timer`.
    pub fn missing() -> Self {
        Self::absent(UnitState::Missing)
    }

    fn absent(state: UnitState) -> Self {
        let runs = Answer::no(DOES_NOT_RUN, format!("there is no {NAME}"));
        Self { state, calendar: None, runs, call: None }
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
        self.runs.clone().and(|| match &self.call {
            Some(call) => machine.trims(call, is_same),
            None => Answer::maybe("its service is not the one of util-linux"),
        })
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
    renamed(conditions::hold(root, service), name).and(|| asked).and(|| sandbox(name, service))
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

/// Settings that may keep fstrim from filesystems; their effect is not examined.
const SANDBOX: &str = "
    ProtectHome ProtectSystem PrivateDevices PrivateUsers DynamicUser User RootDirectory RootImage CapabilityBoundingSet
    ReadWritePaths ReadOnlyPaths ReadOnlyDirectories InaccessiblePaths InaccessibleDirectories TemporaryFileSystem";

/// Unknown if the service runs in a sandbox that may hide filesystems from it.
fn sandbox(name: &str, service: &Unit) -> Answer {
    let value = |key: &str| service.last("Service", key).unwrap_or_default();
    let is_set = |key: &&str| !["", "no", "false", "off", "0", "root"].contains(&value(key));
    match SANDBOX.split_ascii_whitespace().find(is_set) {
        Some(key) => Answer::maybe(format!("{name} has {key}={}", value(key))),
        None => Answer::Yes,
    }
}
