//! `fstrim.timer`: whether it runs its service, and which filesystems the service's commands trim.

use super::answer::{Answer, Reason};
use super::command::{self, Command};
use super::conditions::{self, DOES_NOT_RUN};
use super::fstrim::{self, Machine, Parsed, Release};
use super::systemd::{Unit, UnitState, is_true};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use std::path::{Path, PathBuf};

/// Settings of a timer that each add a time to run; an empty one drops all of them.
const TRIGGERS: [&str; 8] =
    ["OnCalendar", "OnBootSec", "OnStartupSec", "OnActiveSec", "OnUnitActiveSec", "OnUnitInactiveSec", "OnClockChange", "OnTimezoneChange"];
/// Those of them that count from a run of the service, and never come before its first run.
const AFTER_A_RUN: [&str; 2] = ["OnUnitActiveSec", "OnUnitInactiveSec"];
/// Where packages install fstrim; a program of that name elsewhere may be anything.
const DIRECTORIES: [&str; 6] = ["", "/sbin", "/usr/sbin", "/bin", "/usr/bin", "/run/current-system/sw/bin"];

/// The timer and its service.
#[derive(Clone, Debug)]
pub struct Timer {
    pub state: UnitState,
    /// When it runs, as the unit says.
    pub calendar: Option<String>,
    /// Whether it runs the service.
    runs: Answer,
    commands: Vec<Step>,
    sandbox: Sandbox,
    release: Release,
    /// A filesystem that cannot be trimmed goes unreported.
    pub is_quiet: bool,
}

/// What one command does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Call {
        call: fstrim::Call,
        may_fail: bool,
        /// The unit's file or drop-in with the command.
        file: Option<PathBuf>,
    },
    /// Succeeds without trimming.
    Idle(String),
    /// Fails, and with it the service.
    Fails(String),
    /// A program or a word that only the machine knows.
    Open { text: String, may_fail: bool },
}

/// What the service's own view of the machine hides from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sandbox {
    /// Directories that are hidden or read-only, with the setting.
    closed: Vec<(PathBuf, String)>,
    doubt: Option<String>,
}

impl Timer {
    pub fn missing() -> Self {
        let runs = Answer::no(DOES_NOT_RUN, "there is no fstrim.timer");
        let (commands, sandbox, release) = (Vec::new(), Sandbox::default(), Release::V2_39);
        Self { state: UnitState::Missing, calendar: None, runs, commands, sandbox, release, is_quiet: false }
    }

    pub fn read(root: &Root) -> Self {
        let timer = Unit::read(root, "fstrim.timer");
        if matches!(timer.state, UnitState::Missing | UnitState::Masked) {
            return Self { state: timer.state, ..Self::missing() };
        }
        let name = timer.last("Timer", "Unit").unwrap_or("fstrim.service");
        let service = Unit::read(root, name);
        let release = Release::read(root, service.vendor("Service", "ExecStart"));
        let values = service.list("Service", "ExecStart");
        let file = |value: &str| service.file_of("Service", "ExecStart", value);
        let of_value = |value: &&str| command::parse(value).into_iter().map(|c| step(c, release, file(value))).collect::<Vec<_>>();
        let commands: Vec<Step> = values.iter().flat_map(of_value).collect();
        let is_quiet = commands.iter().any(|step| matches!(step, Step::Call { call, .. } if call.is_quiet));
        let runs = starts(root, &timer).and(|| serves(root, name, &service, commands.len()));
        let calendar = timer.lists("Timer", |key| TRIGGERS.contains(&key)).into_iter().find(|(key, _)| *key == "OnCalendar");
        let calendar = calendar.map(|(_, value)| value.to_owned());
        Self { state: timer.state, calendar, runs, commands, sandbox: Sandbox::of(&service), release, is_quiet }
    }

    /// Whether it trims the filesystem whose mounts `is_same` recognises, once it is enabled.
    pub fn trims(&self, root: &Root, mounts: &[Mount], is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let machine = Machine { root, mounts, release: self.release };
        self.runs.clone().and(|| self.service_trims(machine, is_same))
    }

    fn service_trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let is_open = |mount: &Mount| is_same(mount) && self.sandbox.closing(&mount.mount_point).is_none();
        let mut answer = Answer::no(DOES_NOT_RUN, "its service has no command that trims");
        let mut best: Option<Answer> = None;
        let mut doubt: Option<String> = None;
        for step in &self.commands {
            let (this, fails) = match step {
                Step::Call { call, may_fail, file } => {
                    (machine.trims(call, &is_open).said_in(file.clone()), !may_fail && machine.fails(call))
                }
                Step::Idle(text) => (Answer::no(DOES_NOT_RUN, text.clone()), false),
                Step::Fails(text) => (Answer::no(DOES_NOT_RUN, text.clone()), true),
                Step::Open { text, .. } => (Answer::maybe(text.clone()), false),
            };
            let this = match (&doubt, this) {
                (Some(doubt), Answer::Yes) => Answer::maybe(doubt.clone()),
                (_, this) => this,
            };
            best = Some(best.map_or(this.clone(), |known| known.or(|| this)));
            if let Step::Open { text, may_fail: false } = step {
                // If it fails, the next commands do not run.
                doubt.get_or_insert_with(|| text.clone());
            }
            if fails {
                break;
            }
        }
        if let Some(best) = best {
            answer = best;
        }
        match answer {
            Answer::No(_) => self.closed(machine.mounts, is_same).unwrap_or(answer),
            answer => answer.and(|| self.sandbox.doubt.clone().map_or(Answer::Yes, Answer::Maybe)),
        }
    }

    /// The service cannot reach the filesystem, by a setting of its own.
    fn closed(&self, mounts: &[Mount], is_same: &dyn Fn(&Mount) -> bool) -> Option<Answer> {
        let ours: Vec<&Mount> = mounts.iter().filter(|mount| is_same(mount)).collect();
        let setting = self.sandbox.closing(&ours.first()?.mount_point)?;
        let all = ours.iter().all(|mount| self.sandbox.closing(&mount.mount_point).is_some());
        all.then(|| Answer::no(DOES_NOT_RUN, format!("fstrim.service cannot write there ({setting})")))
    }
}

/// Whether the timer runs.
fn starts(root: &Root, timer: &Unit) -> Answer {
    let triggers = timer.lists("Timer", |key| TRIGGERS.contains(&key));
    let certain = |(key, value): &(&str, &str)| *key != "OnCalendar" || recurs(value);
    let has_time = match triggers.as_slice() {
        [] => Answer::no(DOES_NOT_RUN, "fstrim.timer has no time to run (OnCalendar=)"),
        some if some.iter().all(|(key, _)| AFTER_A_RUN.contains(key)) => {
            Answer::maybe("fstrim.timer counts from the last run of its service, and nothing starts that first after a boot")
        }
        some if some.iter().any(certain) => Answer::Yes,
        [(key, value), ..] => Answer::maybe(format!("it is open whether {key}={value} recurs")),
    };
    let doubt = timer.doubt.clone().map_or(Answer::Yes, Answer::Maybe);
    has_time.and(|| renamed(conditions::hold(root, timer), "fstrim.timer")).and(|| doubt)
}

/// A calendar expression with a star, a word, or a day of the week or time alone comes again.
fn recurs(calendar: &str) -> bool {
    const WORDS: [&str; 9] = ["minutely", "hourly", "daily", "weekly", "monthly", "quarterly", "semiannually", "yearly", "annually"];
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let lower = calendar.to_ascii_lowercase();
    let first = lower.split_ascii_whitespace().next().unwrap_or_default();
    let is_day = DAYS.iter().any(|day| first.starts_with(day));
    let is_date = |word: &str| word.bytes().filter(|b| *b == b'-').count() == 2 && !word.contains('*');
    let is_time = first.contains(':') && first.bytes().all(|b| b.is_ascii_digit() || b":*/,.".contains(&b));
    WORDS.contains(&first) || ((is_day || is_time || first.contains('*')) && !lower.split_ascii_whitespace().any(is_date))
}

/// Whether the service starts when the timer runs.
fn serves(root: &Root, name: &str, service: &Unit, commands: usize) -> Answer {
    if name.contains('%') {
        return Answer::maybe(format!("the timer starts {name}"));
    }
    match service.state {
        UnitState::Missing => return Answer::no(DOES_NOT_RUN, format!("there is no {name}")),
        UnitState::Masked => return Answer::no(DOES_NOT_RUN, format!("{name} is masked")),
        _ => {}
    }
    let is_oneshot = service.last("Service", "Type").is_some_and(|kind| kind == "oneshot");
    if commands > 1 && !is_oneshot {
        return Answer::no(DOES_NOT_RUN, format!("systemd refuses {name}: it has several commands and is not Type=oneshot"));
    }
    let before =
        service.lists("Service", |key| key == "ExecCondition").into_iter().chain(service.lists("Service", |key| key == "ExecStartPre"));
    let open = before.flat_map(|(key, value)| command::parse(value).into_iter().map(move |command| (key, command)));
    let mut open = open.filter(|(key, command)| *key == "ExecCondition" || !command.may_fail && !is_harmless(&command.program));
    let asked = open.next().map_or(Answer::Yes, |(key, command)| Answer::maybe(format!("{key}={} decides", command.program)));
    renamed(conditions::hold(root, service), name).and(|| asked)
}

/// Names the unit in a reason.
fn renamed(answer: Answer, unit: &str) -> Answer {
    match answer {
        Answer::No(reason) => Answer::No(Reason { text: format!("{unit} does not start: {}", reason.text), ..reason }),
        other => other,
    }
}

fn is_harmless(program: &str) -> bool {
    ["true", "sleep", "echo"].contains(&name_of(program))
}

fn name_of(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn step(command: Command, release: Release, file: Option<PathBuf>) -> Step {
    let Command { program, arguments, may_fail, open } = command;
    let directory = program.rsplit_once('/').map_or("", |(directory, _)| directory);
    if let Some(word) = open {
        return Step::Open { text: format!("fstrim.service runs {program} with {word}, which only systemd can expand"), may_fail };
    }
    let packaged = DIRECTORIES.contains(&directory) || directory.starts_with("/nix/store/");
    match name_of(&program) {
        "fstrim" if packaged => match fstrim::parse(&arguments, release) {
            Parsed::Call(call) => Step::Call { call, may_fail, file },
            Parsed::Idle(text) => Step::Idle(text),
            Parsed::Fails(text) if may_fail => Step::Idle(text),
            Parsed::Fails(text) => Step::Fails(text),
        },
        "true" | "sleep" | "echo" if packaged => Step::Idle(format!("fstrim.service runs {program} in place of fstrim")),
        "false" if packaged && !may_fail => Step::Fails("fstrim.service runs false".to_owned()),
        _ => Step::Open { text: format!("fstrim.service runs {program}, whose work is not known"), may_fail },
    }
}

impl Sandbox {
    fn of(service: &Unit) -> Self {
        let mut sandbox = Self::default();
        let mut close = |paths: &[&str], setting: &str| {
            sandbox.closed.extend(paths.iter().map(|path| (PathBuf::from(path), setting.to_owned())));
        };
        let last = |key: &str| service.last("Service", key).unwrap_or_default();
        let home = last("ProtectHome");
        if is_true(home) || ["read-only", "tmpfs"].contains(&home) {
            close(&["/home", "/root", "/run/user"], &format!("ProtectHome={home}"));
        }
        match last("ProtectSystem") {
            "strict" => close(&["/"], "ProtectSystem=strict"),
            "full" => close(&["/usr", "/boot", "/efi", "/etc"], "ProtectSystem=full"),
            yes if is_true(yes) => close(&["/usr", "/boot", "/efi"], "ProtectSystem=yes"),
            _ => {}
        }
        if is_true(last("PrivateTmp")) {
            close(&["/tmp", "/var/tmp"], "PrivateTmp=yes");
        }
        for key in ["ReadOnlyPaths", "ReadOnlyDirectories", "InaccessiblePaths", "InaccessibleDirectories", "TemporaryFileSystem"] {
            for value in service.list("Service", key) {
                for path in value.split_ascii_whitespace() {
                    close(&[path.trim_start_matches(['-', '+']).split(':').next().unwrap_or_default()], &format!("{key}={value}"));
                }
            }
        }
        let truly = ["PrivateDevices", "PrivateUsers", "DynamicUser"].into_iter().find(|key| is_true(last(key)));
        let other = ["RootDirectory", "RootImage", "CapabilityBoundingSet", "ReadWritePaths"].into_iter().find(|key| !last(key).is_empty());
        let user = Some("User").filter(|_| !["", "root", "0"].contains(&last("User")));
        let key = truly.or(other).or(user);
        sandbox.doubt = key.map(|key| format!("fstrim.service has {key}={}", last(key)));
        sandbox
    }

    /// The setting that keeps the service from trimming what is mounted there.
    fn closing(&self, mount_point: &Path) -> Option<&str> {
        self.closed.iter().find(|(path, _)| mount_point.starts_with(path)).map(|(_, setting)| setting.as_str())
    }
}
