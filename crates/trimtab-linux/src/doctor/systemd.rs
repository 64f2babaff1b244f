//! systemd units, from files alone: which file takes precedence, the drop-ins, and the
//! settings in force.

use crate::host::root::{Root, TABLE_BYTES_MAX, printable};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// This directory exists exactly if systemd is running (sd_booted(3)).
const SYSTEMD_RUNS: &str = "/run/systemd/system";
/// systemd's unit directories, highest precedence first.
const DIRECTORIES: [&str; 11] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];
/// Targets that every boot reaches.
const TARGETS: [&str; 8] =
    ["timers", "multi-user", "graphical", "default", "basic", "sysinit", "local-fs", "paths"];

/// State of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitState {
    Missing,
    Disabled,
    Masked,
    Enabled,
}

/// One assignment in a unit file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitSetting {
    section: String,
    key: String,
    value: String,
}

/// A unit with its drop-ins.
#[derive(Clone, Debug)]
pub struct Unit {
    pub state: UnitState,
    /// The reason why an enabled unit may not start.
    pub doubt: Option<String>,
    settings: Vec<UnitSetting>,
}

/// Returns whether systemd manages the machine; assumed for a recorded tree without
/// `/run`.
pub fn runs(root: &Root) -> bool {
    root.exists(SYSTEMD_RUNS) || !(root.is_live() || root.exists("/run"))
}

/// This directory exists exactly if OpenRC has booted the machine.
const OPENRC_RUNS: &str = "/run/openrc";
/// Command that starts trimtab's service now and at each boot, with systemd.
pub const ENABLE: &str = "systemctl enable --now trimtab.service";

/// Instruction to start the daemon at each boot, with the machine's service manager.
pub fn boot_start(root: &Root) -> String {
    if runs(root) {
        format!("enable trimtab.service: {ENABLE}")
    } else if root.exists(OPENRC_RUNS) {
        "start trimtab daemon at each boot: rc-update add trimtab".to_owned()
    } else {
        "start 'trimtab daemon' at each boot".to_owned()
    }
}

impl Unit {
    pub fn missing() -> Self {
        Self { state: UnitState::Missing, doubt: None, settings: Vec::new() }
    }

    pub fn read(root: &Root, wants: &WantsDirectories, name: &str) -> Self {
        let exists = |file: &PathBuf| root.link(file).is_some() || root.exists(file);
        let find = |name: &str| {
            DIRECTORIES.iter().map(|directory| Path::new(directory).join(name)).find(exists)
        };
        let Some(file) = find(name) else { return Self::missing() };
        if is_masked(root, &file) {
            return Self { state: UnitState::Masked, ..Self::missing() };
        }
        let files = std::iter::once(file).chain(drop_ins(root, name));
        let settings = files.flat_map(|file| parse(&text_of(root, &file))).collect();
        let (state, doubt) = match wants.target_of(root, name) {
            None => (UnitState::Disabled, None),
            Some(target) if TARGETS.iter().any(|known| target == format!("{known}.target")) => {
                (UnitState::Enabled, None)
            }
            Some(target) => (UnitState::Enabled, Some(format!("only {target} starts {name}"))),
        };
        Self { state, doubt, settings }
    }

    /// All values of a list; an empty value clears the values before it.
    pub fn list<'a>(&'a self, section: &str, key: &str) -> Vec<&'a str> {
        self.lists(section, |one| one == key).into_iter().map(|(_, value)| value).collect()
    }

    /// The same for several keys that form one list.
    pub fn lists<'a>(
        &'a self,
        section: &str,
        is_key: impl Fn(&str) -> bool,
    ) -> Vec<(&'a str, &'a str)> {
        let mut values = Vec::new();
        for setting in self.settings.iter().filter(|s| s.section == section && is_key(&s.key)) {
            if setting.value.is_empty() {
                values.clear();
            } else {
                values.push((setting.key.as_str(), setting.value.as_str()));
            }
        }
        values
    }

    /// The value in force of a single-value setting.
    pub fn last(&self, section: &str, key: &str) -> Option<&str> {
        self.settings
            .iter()
            .rfind(|s| s.section == section && s.key == key)
            .map(|s| s.value.as_str())
            .filter(|v| !v.is_empty())
    }
}

/// True for a link to `/dev/null` and for an empty file.
fn is_masked(root: &Root, file: &Path) -> bool {
    root.link(file).is_some_and(|target| target == Path::new("/dev/null"))
        || root.read(file).is_some_and(|text| text.is_empty())
}

/// Drop-ins by file name, each from the directory with the highest precedence; omits
/// masked ones.
fn drop_ins(root: &Root, name: &str) -> Vec<PathBuf> {
    let kind = name.rsplit_once('.').map_or(name, |(_, kind)| kind);
    let mut by_name = BTreeMap::new();
    for of in [format!("{name}.d"), format!("{kind}.d")] {
        for directory in DIRECTORIES.iter().map(|directory| Path::new(directory).join(&of)) {
            for file in root.list(&directory).into_iter().filter(|file| file.ends_with(".conf")) {
                let path = directory.join(&file);
                by_name.entry(file).or_insert(path);
            }
        }
    }
    by_name.into_values().filter(|file| !is_masked(root, file)).collect()
}

/// The directories of links with which targets pull in units, highest precedence first.
/// Read once for all units.
#[derive(Debug)]
pub struct WantsDirectories(Vec<(PathBuf, String)>);

impl WantsDirectories {
    pub fn read(root: &Root) -> Self {
        let of = |directory: &&'static str| {
            let names = root
                .list(directory)
                .into_iter()
                .filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
            names.map(|name| (Path::new(directory).join(&name), name)).collect::<Vec<_>>()
        };
        Self(DIRECTORIES.iter().flat_map(of).collect())
    }

    /// The target whose `.wants` or `.requires` names the unit; a link to `/dev/null`
    /// there masks directories of lower precedence.
    fn target_of(&self, root: &Root, name: &str) -> Option<String> {
        let mut by_target: BTreeMap<&str, bool> = BTreeMap::new();
        for (directory, wants) in &self.0 {
            if let Some(target) = root.link(directory.join(name)) {
                by_target.entry(wants).or_insert(target != Path::new("/dev/null"));
            }
        }
        let mut targets: Vec<String> = by_target
            .into_iter()
            .filter(|(_, wanted)| *wanted)
            .filter_map(|(wants, _)| Some(wants.rsplit_once('.')?.0.to_owned()))
            .collect();
        // A target that every boot reaches is preferred.
        targets.sort_by_key(|target| {
            !TARGETS.iter().any(|known| *target == format!("{known}.target"))
        });
        targets.into_iter().next()
    }
}

/// The text of a unit file. As in systemd, a carriage return ends a line, with or without
/// a line feed.
fn text_of(root: &Root, file: &Path) -> String {
    let bytes = root.read_bytes(file, TABLE_BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace("\r\n", "\n").replace('\r', "\n");
    printable(text.trim_start_matches('\u{feff}').as_bytes())
}

/// Parses assignments with their section. A backslash continues a line; text outside a
/// section is ignored.
fn parse(text: &str) -> Vec<UnitSetting> {
    let mut settings = Vec::new();
    let (mut section, mut pending) = (None, String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) || (trimmed.is_empty() && pending.is_empty()) {
            continue;
        }
        if let Some(start) = trimmed.strip_suffix('\\') {
            pending.push_str(start);
            pending.push(' ');
            continue;
        }
        pending.push_str(trimmed);
        let line = std::mem::take(&mut pending);
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = Some(name.to_owned());
        } else if let (Some(section), Some((key, value))) = (&section, line.split_once('=')) {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            settings.push(UnitSetting { section: section.clone(), key, value });
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("-> ") {
                Some(target) => symlink(target, path).unwrap(),
                None => std::fs::write(path, text).unwrap(),
            }
        }
        let root = Root::recorded(directory.path()).unwrap();
        (directory, root)
    }

    #[test]
    fn boot_start_names_only_the_service_manager_that_runs() {
        for (file, expected) in [
            (
                "/run/systemd/system/a",
                "enable trimtab.service: systemctl enable --now trimtab.service",
            ),
            ("/run/openrc/a", "start trimtab daemon at each boot: rc-update add trimtab"),
            ("/run/a", "start 'trimtab daemon' at each boot"),
        ] {
            let (_tree, root) = tree(&[(file, "")]);
            assert_eq!(boot_start(&root), expected, "{file}");
        }
    }

    #[test]
    fn drop_in_adds_resets_and_can_be_masked() {
        let (_directory, root) = tree(&[
            (
                "/usr/lib/systemd/system/a.service",
                "[Service]\nExecStart=/bin/one \\\n  --two\n# ExecStart=/bin/no\n",
            ),
            (
                "/usr/lib/systemd/system/a.service.d/10.conf",
                "[Service]\nExecStart=\nExecStart=/bin/vendor\n",
            ),
            ("/etc/systemd/system/a.service.d/10.conf", "-> /dev/null"),
            ("/run/systemd/system/a.service.d/20.conf", "[Service]\nExecStart=/bin/three\n"),
            (
                "/etc/systemd/system/a.service.d/30.conf",
                "ExecStart=/bin/outside\n[Unit]\nExecStart=/bin/elsewhere\n",
            ),
            ("/etc/systemd/system/service.d/05.conf", "[Service]\nNice=5\n"),
        ]);
        let unit = Unit::read(&root, &WantsDirectories::read(&root), "a.service");
        assert_eq!(unit.list("Service", "ExecStart"), ["/bin/one  --two", "/bin/three"]);
        assert_eq!((unit.last("Service", "Nice"), unit.state), (Some("5"), UnitState::Disabled));
    }

    #[test]
    fn unit_file_with_carriage_returns_is_read() {
        let (_directory, root) = tree(&[
            (
                "/usr/lib/systemd/system/a.service",
                "\u{feff}[Service]\r\nExecStart=/bin/one \\\r\n  --two\r\n",
            ),
            ("/etc/systemd/system/a.service.d/10.conf", "[Service]\r\nNice=5\r\n"),
        ]);
        let unit = Unit::read(&root, &WantsDirectories::read(&root), "a.service");
        assert_eq!(
            (unit.list("Service", "ExecStart"), unit.last("Service", "Nice")),
            (vec!["/bin/one  --two"], Some("5"))
        );
    }

    #[test]
    fn unit_state_follows_highest_priority_directory() {
        let timer = "[Timer]\nOnCalendar=weekly\n";
        let (_directory, root) = tree(&[
            ("/usr/lib/systemd/system/a.timer", timer),
            ("/etc/systemd/system/a.timer", "-> /dev/null"),
            ("/usr/lib/systemd/system/b.timer", timer),
            ("/usr/lib/systemd/system/timers.target.wants/b.timer", "-> ../b.timer"),
            ("/etc/systemd/system/timers.target.wants/b.timer", "-> /dev/null"),
            ("/usr/lib/systemd/system/c.timer", timer),
            ("/usr/lib/systemd/system/timers.target.wants/c.timer", "-> ../c.timer"),
            ("/usr/lib/systemd/system/d.timer", timer),
            (
                "/etc/systemd/system/rescue.target.wants/d.timer",
                "-> /usr/lib/systemd/system/d.timer",
            ),
            ("/etc/systemd/system/e.timer", ""),
        ]);
        let state = |name: &str| Unit::read(&root, &WantsDirectories::read(&root), name).state;
        assert_eq!(
            (state("a.timer"), state("b.timer"), state("c.timer")),
            (UnitState::Masked, UnitState::Disabled, UnitState::Enabled)
        );
        assert_eq!((state("e.timer"), state("f.timer")), (UnitState::Masked, UnitState::Missing));
        assert!(
            Unit::read(&root, &WantsDirectories::read(&root), "d.timer").doubt.is_some(),
            "no boot reaches rescue.target"
        );
    }
}
