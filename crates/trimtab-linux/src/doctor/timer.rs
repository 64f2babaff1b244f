//! systemd timers whose services trim: whether a timer starts its service, and the
//! filesystems that the service's commands trim.

use super::answer::{Answer, Reason};
use super::command::{self, ServiceCommand};
use super::conditions::{self, DOES_NOT_RUN};
use super::fstrim::{self, Machine};
use super::shell;
use super::systemd::{self, Unit, UnitState, WantsDirectories, is_true};
use crate::host::mountinfo::Mount;
use crate::host::root::Root;
use std::path::Path;

/// Timer settings that each add a trigger; an empty one clears all of them.
const TRIGGERS: [&str; 8] = [
    "OnCalendar",
    "OnBootSec",
    "OnStartupSec",
    "OnActiveSec",
    "OnUnitActiveSec",
    "OnUnitInactiveSec",
    "OnClockChange",
    "OnTimezoneChange",
];
/// Triggers that count from a run of the service, and therefore never cause its first
/// run.
const AFTER_A_RUN: [&str; 2] = ["OnUnitActiveSec", "OnUnitInactiveSec"];
/// Upper limit far above the timers of any real machine.
const TIMERS_MAX: usize = 256;
/// The timer that util-linux installs.
const OF_UTIL_LINUX: &str = "fstrim.timer";

/// A timer and its service.
#[derive(Clone, Debug)]
pub struct Timer {
    pub name: String,
    pub state: UnitState,
    /// Schedule, as the unit gives it.
    pub calendar: Option<String>,
    /// Answers whether the timer runs the service.
    runs: Answer,
    commands: Vec<CommandEffect>,
    sandbox: Sandbox,
    /// Filesystems that cannot be trimmed are not reported.
    pub is_quiet: bool,
}

/// Effect of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CommandEffect {
    Call {
        call: fstrim::Call,
        may_fail: bool,
    },
    /// Trims nothing, and stops the service unless it may fail.
    Nothing {
        text: String,
        may_fail: bool,
    },
    /// A program or a word that is known only on the machine itself.
    Open {
        text: String,
        may_fail: bool,
    },
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
        Self::absent(OF_UTIL_LINUX, UnitState::Missing)
    }

    fn absent(name: &str, state: UnitState) -> Self {
        let runs = Answer::no(DOES_NOT_RUN, format!("there is no {name}"));
        let (commands, sandbox) = (Vec::new(), Sandbox::default());
        Self {
            name: name.to_owned(),
            state,
            calendar: None,
            runs,
            commands,
            sandbox,
            is_quiet: false,
        }
    }

    /// Reads `fstrim.timer`.
    pub fn read(root: &Root, wants: &WantsDirectories) -> Self {
        Self::named(root, wants, OF_UTIL_LINUX)
    }

    /// Other enabled timers whose services name a trim. Only these are copied to a
    /// recorded tree.
    pub fn others(root: &Root, wants: &WantsDirectories) -> Vec<Self> {
        let is_other = |name: &String| name != OF_UTIL_LINUX && !name.starts_with("trimtab");
        let trims = |name: &String| root.unrecorded(|| Self::named(root, wants, name)).names_trim();
        let mut names = systemd::timers(root).into_iter().filter(is_other);
        let mut found: Vec<Self> = names
            .by_ref()
            .take(TIMERS_MAX)
            .filter(trims)
            .map(|name| Self::named(root, wants, &name))
            .collect();
        if names.next().is_some() {
            let runs = Answer::maybe(format!("there are more than {TIMERS_MAX} timers"));
            found.push(Self { runs, ..Self::absent("another timer", UnitState::Enabled) });
        }
        found
    }

    fn named(root: &Root, wants: &WantsDirectories, timer_name: &str) -> Self {
        let timer = Unit::read(root, wants, timer_name);
        if matches!(timer.state, UnitState::Missing | UnitState::Masked) {
            return Self::absent(timer_name, timer.state);
        }
        let same = timer_name
            .strip_suffix(".timer")
            .map(|stem| format!("{stem}.service"))
            .unwrap_or_default();
        let name = timer.last("Timer", "Unit").unwrap_or(&same);
        let service = Unit::read(root, wants, name);
        let commands: Vec<ServiceCommand> =
            service.list("Service", "ExecStart").into_iter().flat_map(command::parse).collect();
        let count = commands.len();
        let commands: Vec<CommandEffect> = commands
            .into_iter()
            .flat_map(|command| CommandEffect::of(root, name, command))
            .collect();
        let is_quiet = commands
            .iter()
            .any(|step| matches!(step, CommandEffect::Call { call, .. } if call.is_quiet));
        let runs = starts(root, timer_name, &timer).and(|| serves(root, name, &service, count));
        let calendar = timer
            .lists("Timer", |key| TRIGGERS.contains(&key))
            .into_iter()
            .find(|(key, _)| *key == "OnCalendar");
        let calendar = calendar.map(|(_, value)| value.to_owned());
        let sandbox = Sandbox::of(name, &service);
        Self {
            name: timer_name.to_owned(),
            state: timer.state,
            calendar,
            runs,
            commands,
            sandbox,
            is_quiet,
        }
    }

    /// True if the timer is enabled and a command of its service trims or may trim.
    fn names_trim(&self) -> bool {
        let names = |step: &CommandEffect| match step {
            CommandEffect::Call { .. } => true,
            CommandEffect::Open { text, .. } => shell::names_trim(text),
            CommandEffect::Nothing { .. } => false,
        };
        self.state == UnitState::Enabled && self.commands.iter().any(names)
    }

    /// Name of the timer in the list of mechanisms.
    pub fn shown(&self) -> String {
        let when = self
            .calendar
            .as_deref()
            .map_or_else(|| format!("see systemctl cat {}", self.name), str::to_owned);
        format!("{} ({when})", self.name)
    }

    /// Returns whether the timer, once enabled, trims the filesystem whose mounts
    /// `is_same` recognises.
    pub fn trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        self.runs.clone().and(|| self.service_trims(machine, is_same))
    }

    fn service_trims(&self, machine: Machine<'_>, is_same: &dyn Fn(&Mount) -> bool) -> Answer {
        let is_open =
            |mount: &Mount| is_same(mount) && self.sandbox.closing(&mount.mount_point).is_none();
        let mut best: Option<Answer> = None;
        let mut doubt: Option<String> = None;
        for step in &self.commands {
            let (this, fails) = match step {
                CommandEffect::Call { call, may_fail } => {
                    (machine.trims(call, &is_open), !may_fail && machine.fails(call))
                }
                CommandEffect::Nothing { text, may_fail } => {
                    (Answer::no(DOES_NOT_RUN, text.clone()), !may_fail)
                }
                CommandEffect::Open { text, .. } => (Answer::maybe(text.clone()), false),
            };
            let this = match (&doubt, this) {
                (Some(doubt), Answer::Yes) => Answer::maybe(doubt.clone()),
                (_, this) => this,
            };
            best = Some(best.map_or(this.clone(), |known| known.or(|| this)));
            if let CommandEffect::Open { text, may_fail: false } = step {
                // If it fails, the following commands do not run.
                doubt.get_or_insert_with(|| text.clone());
            }
            if fails {
                break;
            }
        }
        let answer = best
            .unwrap_or_else(|| Answer::no(DOES_NOT_RUN, "its service has no command that trims"));
        match answer {
            Answer::No(_) => self.closed(machine.mounts, is_same).unwrap_or(answer),
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

/// Returns whether the timer starts.
fn starts(root: &Root, name: &str, timer: &Unit) -> Answer {
    let triggers = timer.lists("Timer", |key| TRIGGERS.contains(&key));
    let certain = |(key, value): &(&str, &str)| *key != "OnCalendar" || recurs(value);
    let has_time = match triggers.as_slice() {
        [] => Answer::no(DOES_NOT_RUN, format!("{name} has no time to run (OnCalendar=)")),
        some if some.iter().all(|(key, _)| AFTER_A_RUN.contains(key)) => Answer::maybe(format!(
            "{name} counts from the last run of its service, and nothing starts that \
                first after a boot"
        )),
        some if some.iter().any(certain) => Answer::Yes,
        [(key, value), ..] => Answer::maybe(format!("it is open whether {key}={value} recurs")),
    };
    let doubt = timer.doubt.clone().map_or(Answer::Yes, Answer::Maybe);
    has_time.and(|| renamed(conditions::hold(root, timer), name)).and(|| doubt)
}

/// True if a calendar expression recurs: it has a star or a word, or only a day of the
/// week or a time.
fn recurs(calendar: &str) -> bool {
    const WORDS: [&str; 9] = [
        "minutely",
        "hourly",
        "daily",
        "weekly",
        "monthly",
        "quarterly",
        "semiannually",
        "yearly",
        "annually",
    ];
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let lower = calendar.to_ascii_lowercase();
    let first = lower.split_ascii_whitespace().next().unwrap_or_default();
    let is_day = DAYS.iter().any(|day| first.starts_with(day));
    let is_date =
        |word: &str| word.bytes().filter(|b| *b == b'-').count() == 2 && !word.contains('*');
    let is_time =
        first.contains(':') && first.bytes().all(|b| b.is_ascii_digit() || b":*/,.".contains(&b));
    WORDS.contains(&first)
        || ((is_day || is_time || first.contains('*'))
            && !lower.split_ascii_whitespace().any(is_date))
}

/// Returns whether the service starts when the timer triggers.
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
        return Answer::no(
            DOES_NOT_RUN,
            format!("systemd refuses {name}: it has several commands and is not Type=oneshot"),
        );
    }
    let before = service
        .lists("Service", |key| key == "ExecCondition")
        .into_iter()
        .chain(service.lists("Service", |key| key == "ExecStartPre"));
    let open = before.flat_map(|(key, value)| {
        command::parse(value).into_iter().map(move |command| (key, command))
    });
    let mut open = open.filter(|(key, command)| *key == "ExecCondition" || !command.may_fail);
    let asked = open.next().map_or(Answer::Yes, |(key, command)| {
        Answer::maybe(format!("{key}={} decides", command.program))
    });
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

impl CommandEffect {
    /// The steps of one command of a service.
    fn of(root: &Root, service: &str, command: ServiceCommand) -> Vec<Self> {
        let ServiceCommand { program, arguments, may_fail, open } = command;
        let doubt = |text: String| vec![Self::Open { text, may_fail }];
        if let Some(word) = open {
            return doubt(format!(
                "{service} runs {program} with {word}, which only systemd can expand"
            ));
        }
        match (program.rsplit('/').next().unwrap_or(&program), arguments.as_slice()) {
            ("fstrim", _) => vec![fstrim::parse(&arguments).map_or_else(
                |text| Self::Nothing { text, may_fail },
                |call| Self::Call { call, may_fail },
            )],
            ("true" | "sleep" | "echo", _) => Vec::new(),
            (name, words) if shell::names_trim(&format!("{name} {}", words.join(" "))) => doubt(
                format!("{service} runs {program}, whose fstrim or trimtab is not interpreted"),
            ),
            _ if shell::script_names_trim(root, Path::new(&program)) => {
                doubt(format!("{service} runs {program}, a script that names fstrim or trimtab"))
            }
            _ => doubt(format!("{service} runs {program}, whose work is not known")),
        }
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
