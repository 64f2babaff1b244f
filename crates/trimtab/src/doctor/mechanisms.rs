//! What trims the filesystem now: online discard, fstrim.timer, cron, this program's own daemon. And what they leave out.

use super::filesystem::{self, Online};
use super::{Action, Doctor, Finding, Remedy, Severity, Verdict, VerdictKind, shown};
use crate::host::block::{Stack, device_of_source};
use crate::host::mountinfo::{Mount, unescape};
use crate::host::root::Root;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use trimtab_core::document::quoted;

/// Exists exactly where systemd runs (sd_booted(3)).
const SYSTEMD_RUNS: &str = "/run/systemd/system";
/// Where systemd looks for units, the strongest first.
const UNIT_DIRECTORIES: [&str; 4] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
/// Places of scripts that some distributions install.
const CRON_SCRIPTS: [&str; 4] = ["/etc/cron.daily/fstrim", "/etc/cron.weekly/fstrim", "/etc/cron.weekly/trim", "/etc/cron.monthly/fstrim"];

/// State of a unit, from files alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitState {
    Missing,
    Disabled,
    Masked,
    Enabled,
}

/// Which filesystems fstrim.service visits.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// Those of the first file in the list that names any.
    Listed(Vec<String>),
    /// Those in fstab.
    Fstab,
    /// All mounted ones.
    All,
    /// Not understood.
    Unknown,
}

/// One line of fstab.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FstabEntry {
    mount_point: PathBuf,
    options: String,
}

/// What is configured on this machine.
#[derive(Clone, Debug)]
pub struct Configured {
    timer: UnitState,
    calendar: Option<String>,
    scope: Scope,
    cron: Option<&'static str>,
    own: UnitState,
    fstab: Vec<FstabEntry>,
    swap: Vec<SwapEntry>,
}

/// A line of fstab about swap.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SwapEntry {
    source: PathBuf,
    discards: bool,
}

impl Configured {
    pub fn read(root: &Root) -> Self {
        // Of a recorded tree that has nothing of what ran nobody knows.
        let says_what_ran = root.exists("/run");
        Self::with(root, root.exists(SYSTEMD_RUNS) || !(says_what_ran || root.is_live()))
    }

    /// Where no systemd runs, its units do nothing, whatever files say.
    fn with(root: &Root, systemd: bool) -> Self {
        let unit = |root: &Root, name: &str| if systemd { unit(root, name) } else { (UnitState::Missing, String::new()) };
        let timer = unit(root, "fstrim.timer");
        let service = unit(root, "fstrim.service").1;
        Self {
            timer: timer.0,
            calendar: last_setting(&timer.1, "OnCalendar"),
            scope: last_setting(&service, "ExecStart").map_or(Scope::Unknown, |command| scope(&command)),
            cron: CRON_SCRIPTS.into_iter().find(|script| root.exists(script)),
            own: unit(root, "trimtab.service").0,
            fstab: parse_fstab(&root.read_bytes(Path::new("/etc/fstab"), 1 << 20).unwrap_or_default()),
            swap: parse_swap(&root.read_bytes(Path::new("/etc/fstab"), 1 << 20).unwrap_or_default()),
        }
    }

    /// Whether this program's own service and `fstrim.timer` are enabled.
    pub fn enabled(&self) -> (bool, bool) {
        (self.own == UnitState::Enabled, self.timer == UnitState::Enabled)
    }
}

/// State of a unit, and its text with all drop-ins behind it.
fn unit(root: &Root, name: &str) -> (UnitState, String) {
    let Some(file) = UNIT_DIRECTORIES.iter().map(|d| Path::new(d).join(name)).find(|f| root.link(f).is_some() || root.exists(f)) else {
        return (UnitState::Missing, String::new());
    };
    if root.link(&file).is_some_and(|target| target == Path::new("/dev/null")) {
        return (UnitState::Masked, String::new());
    }
    let mut text = root.read(&file).unwrap_or_default();
    for directory in UNIT_DIRECTORIES.iter().rev() {
        let drop_ins = Path::new(directory).join(format!("{name}.d"));
        for file in root.list(&drop_ins).iter().filter(|f| f.ends_with(".conf")) {
            text.push('\n');
            text.push_str(&root.read(drop_ins.join(file)).unwrap_or_default());
        }
    }
    let wanted =
        |dir: &&str| root.list(dir).iter().any(|w| w.ends_with(".wants") && root.link(Path::new(dir).join(w).join(name)).is_some());
    let enabled = UNIT_DIRECTORIES.iter().any(wanted);
    (if enabled { UnitState::Enabled } else { UnitState::Disabled }, text)
}

/// The last value of `key=`; an empty one resets what came before.
fn last_setting(text: &str, key: &str) -> Option<String> {
    let mut values = text.lines().filter_map(|l| l.trim().strip_prefix(key)?.trim_start().strip_prefix('=').map(str::trim));
    values.next_back().filter(|v| !v.is_empty()).map(str::to_owned)
}

fn scope(command: &str) -> Scope {
    let mut words = command.split_ascii_whitespace();
    while let Some(word) = words.next() {
        match word {
            "--listed-in" | "-I" => return words.next().map_or(Scope::Unknown, listed),
            "--fstab" | "-A" => return Scope::Fstab,
            "--all" | "-a" => return Scope::All,
            _ => {
                if let Some(files) = word.strip_prefix("--listed-in=") {
                    return listed(files);
                }
                // Old units: fstrim -av, -Av.
                if word.starts_with('-') && !word.starts_with("--") {
                    match (word.contains('A'), word.contains('a')) {
                        (true, _) => return Scope::Fstab,
                        (_, true) => return Scope::All,
                        _ => {}
                    }
                }
            }
        }
    }
    Scope::Unknown
}

fn listed(files: &str) -> Scope {
    Scope::Listed(files.split(':').map(str::to_owned).collect())
}

fn parse_fstab(bytes: &[u8]) -> Vec<FstabEntry> {
    let entry = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty()).collect();
        let [source, target, _, rest @ ..] = fields.as_slice() else { return None };
        let mount_point = PathBuf::from(OsString::from_vec(unescape(target)));
        let options = rest.first().map(|o| String::from_utf8_lossy(o).into_owned()).unwrap_or_default();
        (!source.starts_with(b"#") && mount_point.is_absolute()).then_some(FstabEntry { mount_point, options })
    };
    bytes.split(|&b| b == b'\n').filter_map(entry).collect()
}

/// Whether fstab mounts something there, once and without the option `discard`.
pub fn fstab_lacks_discard(root: &Root, mount_point: &Path) -> bool {
    let entries = parse_fstab(&root.read_bytes(Path::new("/etc/fstab"), 1 << 20).unwrap_or_default());
    let found: Vec<&FstabEntry> = entries.iter().filter(|entry| entry.mount_point == mount_point).collect();
    matches!(found.as_slice(), [entry] if !entry.options.split(',').any(|option| option == "discard"))
}

/// The swap areas of fstab.
fn parse_swap(bytes: &[u8]) -> Vec<SwapEntry> {
    let entry = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty()).collect();
        let [source, _, b"swap", rest @ ..] = fields.as_slice() else { return None };
        let options = rest.first().map(|o| String::from_utf8_lossy(o).into_owned()).unwrap_or_default();
        let discards = options.split(',').any(|o| o == "discard" || o == "discard=pages" || o == "discard=once");
        (!source.starts_with(b"#")).then(|| SwapEntry { source: PathBuf::from(OsString::from_vec(unescape(source))), discards })
    };
    bytes.split(|&b| b == b'\n').filter_map(entry).collect()
}

/// A swap area discards by an option of its own. The kernel does not show it; fstab says what it is set to at the next boot.
pub fn swap(doctor: &Doctor<'_>, stack: &Stack, verdict: &Verdict) -> (Vec<String>, Vec<Finding>) {
    let nothing = (Vec::new(), Vec::new());
    let Some(top) = stack.top_layers().next() else { return nothing };
    if verdict.kind == VerdictKind::NotNeeded || !doctor.swaps().contains(&top.sys) {
        return nothing;
    }
    let device = format!("/dev/{}", top.name);
    let device_of = |e: &SwapEntry| device_of_source(doctor.root, &by_link(&e.source));
    let listed = &doctor.mechanisms.swap;
    let own = listed.iter().find(|e| device_of(e).is_some_and(|sys| sys == top.sys));
    // The only line is most likely that of the only area; but nobody's line is changed on that.
    let likely = own.or_else(|| listed.first().filter(|e| listed.len() == 1 && device_of(e).is_none()));
    if likely.is_some_and(|e| e.discards) {
        return (vec!["swap: its discard option in /etc/fstab".to_owned()], Vec::new());
    }
    let text = "a swap area; no discard option for it in /etc/fstab, and no trim of filesystems comes here";
    let finding = match verdict.kind {
        VerdictKind::Blocked => Finding::new("swap.no-discard", Severity::Note, text),
        _ => Finding::new("swap.no-discard", Severity::Caution, text).remedy(swap_remedy(&device, own)),
    };
    (Vec::new(), vec![finding])
}

/// The link that udev makes for what fstab calls `UUID=…` and the like.
fn by_link(source: &Path) -> PathBuf {
    const TAGS: [(&str, &str); 4] = [("UUID=", "uuid"), ("LABEL=", "label"), ("PARTUUID=", "partuuid"), ("PARTLABEL=", "partlabel")];
    let text = source.to_str().unwrap_or_default();
    let link = |(tag, kind): &(&str, &str)| {
        Some(Path::new("/dev/disk").join(format!("by-{kind}")).join(text.strip_prefix(tag)?.trim_matches('"')))
    };
    // No value leads out of the directory of links.
    let plain = |link: &PathBuf| link.parent().is_some_and(|directory| directory.parent() == Some(Path::new("/dev/disk")));
    TAGS.iter().find_map(link).filter(plain).unwrap_or_else(|| source.to_owned())
}

/// Swap with the option, now and whenever fstab says so.
fn swap_remedy(device: &str, entry: Option<&SwapEntry>) -> Remedy {
    let word = quoted(device);
    let steps = [format!("swapoff {word} && swapon --discard {word}"), format!("add the option discard to {word} in /etc/fstab")];
    let mut actions = vec![Action::SwapDiscard { device: PathBuf::from(device) }];
    actions.extend(entry.filter(|e| e.source.to_str().is_some()).map(|e| Action::SwapFstab { source: e.source.clone() }));
    // Without that line nobody could tell afterwards that it discards.
    Remedy::steps(steps).done_by(actions.into_iter().filter(|_| entry.is_some()))
}

/// Which mechanisms trim `mount`, and what is wrong with them.
pub fn judge(doctor: &Doctor<'_>, mount: &Mount, stack: &Stack, verdict: &Verdict) -> (Vec<String>, Vec<Finding>) {
    if verdict.kind == VerdictKind::NotNeeded {
        return (Vec::new(), Vec::new());
    }
    let configured = &doctor.mechanisms;
    let online = filesystem::online(doctor.root, mount, stack);
    let mut by = Vec::new();
    let mut findings = Vec::new();
    match online {
        Online::Off => {}
        Online::Sync => by.push("online: the discard mount option".to_owned()),
        Online::Async => by.push("online: btrfs discard=async".to_owned()),
        Online::Thread => by.push("online: the discard thread of f2fs".to_owned()),
    }
    if configured.own == UnitState::Enabled {
        by.push("trimtab.service, as far as its configuration names this filesystem".to_owned());
    }
    if let Some(script) = configured.cron {
        by.push(format!("cron: {script}"));
    }
    if configured.timer == UnitState::Enabled {
        match omitted(doctor, mount) {
            None => by.push(format!("fstrim.timer ({})", configured.calendar.as_deref().unwrap_or("see systemctl cat fstrim.timer"))),
            Some(why) => findings.push(why),
        }
    }
    if by.is_empty() && filesystem::can_discard(&mount.fs_type) {
        findings.push(nothing_trims(configured, mount, verdict));
    } else {
        stacked(online, configured, &by, &mut findings);
    }
    if verdict.kind == VerdictKind::Blocked && configured.timer == UnitState::Enabled {
        let text = "fstrim.service runs with --quiet-unsupported and does not report that this filesystem cannot be trimmed";
        findings.push(Finding::new("fstrim.quiet", Severity::Note, text));
    }
    if verdict.kind == VerdictKind::Blocked && verdict.reaches.is_empty() {
        by.iter_mut().for_each(|mechanism| mechanism.push_str(", in vain"));
    }
    (by, findings)
}

/// Why fstrim.service passes this filesystem by; `None` if it does not.
fn omitted(doctor: &Doctor<'_>, mount: &Mount) -> Option<Finding> {
    let configured = &doctor.mechanisms;
    // Any mount of the same filesystem will do: bind mounts, subvolumes.
    let same: Vec<&Mount> =
        doctor.mounts.iter().filter(|m| m.dev == mount.dev || (m.fs_type == mount.fs_type && m.source == mount.source)).collect();
    let entry = configured.fstab.iter().find(|e| same.iter().any(|m| m.mount_point == e.mount_point));
    if let Some(entry) = entry
        && entry.options.split(',').any(|o| o == "X-fstrim.notrim")
    {
        let text = "fstab says X-fstrim.notrim: fstrim.timer passes this filesystem by";
        return Some(Finding::new("fstrim.notrim", Severity::Note, text));
    }
    let fstab_decides = match &configured.scope {
        Scope::All | Scope::Unknown => false,
        Scope::Fstab => true,
        Scope::Listed(files) => match files.iter().find(|f| f.as_str() != "/etc/fstab" || !configured.fstab.is_empty()) {
            Some(file) => file == "/etc/fstab",
            None => true,
        },
    };
    if !fstab_decides || entry.is_some() {
        return None;
    }
    let text = "not in /etc/fstab, so fstrim.timer passes it by without a word";
    let remedy = format!("add {} to /etc/fstab, or let trimtab daemon watch it", quoted(&shown(&mount.mount_point)));
    Some(Finding::new("fstrim.not-in-fstab", Severity::Caution, text).remedy(remedy))
}

fn nothing_trims(configured: &Configured, mount: &Mount, verdict: &Verdict) -> Finding {
    let text = "nothing trims this filesystem";
    if verdict.kind == VerdictKind::Blocked && verdict.reaches.is_empty() {
        // Whatever is enabled now would be in vain.
        return Finding::new("nothing-trims", Severity::Note, text);
    }
    let remedy: Remedy = match configured.timer {
        UnitState::Disabled => Remedy::from("systemctl enable --now fstrim.timer, or trimtab daemon").done_by([Action::Timer]),
        UnitState::Masked => "systemctl unmask fstrim.timer and enable it, or trimtab daemon".into(),
        _ => format!("let trimtab daemon watch it, or trim it now and then: trimtab trim {}", quoted(&shown(&mount.mount_point))).into(),
    };
    Finding::new("nothing-trims", Severity::Caution, text).remedy(remedy)
}

/// Several mechanisms do the same work over and over.
fn stacked(online: Online, configured: &Configured, by: &[String], findings: &mut Vec<Finding>) {
    if by.len() < 2 {
        return;
    }
    let names = by.iter().map(|b| b.split([':', '(']).next().unwrap_or(b).trim()).collect::<Vec<_>>().join(", ");
    if online == Online::Sync && (configured.timer == UnitState::Enabled || configured.own == UnitState::Enabled) {
        let text = format!("mechanisms stacked ({names}): fstrim sends again what online discard has sent already");
        let remedy = "choose one: for most drives remove the discard option and keep the batches";
        findings.push(Finding::new("stacked", Severity::Caution, text).remedy(remedy));
    } else {
        let text = format!("several mechanisms ({names}); harmless, but the second one finds little to do");
        findings.push(Finding::new("stacked", Severity::Note, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_of_fstrim_is_read_off_its_command() {
        let list = |files: &[&str]| Scope::Listed(files.iter().map(|f| (*f).to_owned()).collect());
        for (command, expected) in [
            (
                "/sbin/fstrim --listed-in /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported",
                list(&["/etc/fstab", "/proc/self/mountinfo"]),
            ),
            ("/usr/sbin/fstrim -av", Scope::All),
            ("/usr/sbin/fstrim -Av", Scope::Fstab),
            ("/usr/sbin/fstrim --fstab --verbose", Scope::Fstab),
            ("/bin/sh -c true", Scope::Unknown),
        ] {
            assert_eq!(scope(command), expected, "{command}");
        }
    }

    #[test]
    fn tags_are_looked_for_where_udev_links_them() {
        for (source, expected) in [
            ("UUID=5d0e-7a1c", "/dev/disk/by-uuid/5d0e-7a1c"),
            ("LABEL=\"swap\"", "/dev/disk/by-label/swap"),
            ("PARTUUID=1-2", "/dev/disk/by-partuuid/1-2"),
            ("PARTLABEL=s", "/dev/disk/by-partlabel/s"),
            ("LABEL=../../sda", "LABEL=../../sda"),
            ("UUID=/dev/sda", "UUID=/dev/sda"),
            ("/dev/sda2", "/dev/sda2"),
        ] {
            assert_eq!(by_link(Path::new(source)), Path::new(expected));
        }
    }

    #[test]
    fn fstab_is_read_with_its_escapes() {
        let entries = parse_fstab(b"# /dev/sda9 /none ext4\n/dev/sda1\t/  ext4 defaults 0 1\nUUID=x /with\\040space xfs X-fstrim.notrim\n/dev/sda2 none swap sw\nshort line\n");
        assert_eq!(entries.iter().map(|e| e.mount_point.to_str().unwrap()).collect::<Vec<_>>(), ["/", "/with space"]);
    }

    #[test]
    fn without_systemd_its_timers_are_not_spoken_of() {
        let tree = tempfile::tempdir().unwrap();
        let units = tree.path().join("usr/lib/systemd/system");
        let wants = tree.path().join("etc/systemd/system/timers.target.wants");
        std::fs::create_dir_all(&units).unwrap();
        std::fs::create_dir_all(&wants).unwrap();
        std::fs::write(units.join("fstrim.timer"), "[Timer]\nOnCalendar=weekly\n").unwrap();
        std::os::unix::fs::symlink("/usr/lib/systemd/system/fstrim.timer", wants.join("fstrim.timer")).unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        assert_eq!(Configured::with(&root, true).enabled(), (false, true));
        let without = Configured::with(&root, false);
        assert_eq!((without.enabled(), without.timer), ((false, false), UnitState::Missing));
    }

    #[test]
    fn later_settings_win() {
        assert_eq!(last_setting("[Timer]\nOnCalendar=weekly\nOnCalendar=\nOnCalendar = daily\n", "OnCalendar").as_deref(), Some("daily"));
        assert_eq!(last_setting("OnCalendar=weekly\nOnCalendar=\n", "OnCalendar"), None);
    }
}
