//! What trims the filesystem now: online discard, fstrim.timer, cron, this program's own daemon. And what they leave out.

use super::answer::{Answer, Reason};
use super::filesystem::{self, Online};
use super::fstab::{self, Entry};
use super::fstrim;
use super::systemd::{self, Unit, UnitState};
use super::timer::Timer;
use super::{Action, Doctor, Finding, Remedy, Severity, Verdict, VerdictKind, shown};
use crate::host::block::{Bus, Stack, bus, device_of_source};
use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::quoted;

/// Places of scripts that some distributions install.
const CRON_SCRIPTS: [&str; 4] = ["/etc/cron.daily/fstrim", "/etc/cron.weekly/fstrim", "/etc/cron.weekly/trim", "/etc/cron.monthly/fstrim"];

/// fstrim has nothing to ask this type of filesystem for.
const NO_FITRIM: &str = "fstrim.no-fitrim";

/// What is configured on this machine.
#[derive(Clone, Debug)]
pub struct Configured {
    timer: Timer,
    cron: Option<&'static str>,
    own: UnitState,
    fstab: Vec<Entry>,
}

impl Configured {
    pub fn read(root: &Root) -> Self {
        Self::with(root, systemd::runs(root))
    }

    /// Where no systemd runs, its units do nothing, whatever files say.
    fn with(root: &Root, systemd: bool) -> Self {
        Self {
            timer: if systemd { Timer::read(root) } else { Timer::missing() },
            cron: CRON_SCRIPTS.into_iter().find(|script| root.exists(script)),
            own: if systemd { Unit::read(root, "trimtab.service").state } else { UnitState::Missing },
            fstab: fstab::read(root),
        }
    }

    /// Whether this program's own service and `fstrim.timer` are enabled.
    pub fn enabled(&self) -> (bool, bool) {
        (self.own == UnitState::Enabled, self.timer.state == UnitState::Enabled)
    }
}

/// Whether fstab mounts something there, once and without the option `discard`.
pub fn fstab_lacks_discard(root: &Root, mount_point: &Path) -> bool {
    let entries = fstab::read(root);
    let found: Vec<&Entry> = entries.iter().filter(|entry| entry.target == mount_point).collect();
    matches!(found.as_slice(), [entry] if !entry.has_option("discard"))
}

/// The devices in use as swap, not the files, and not memory.
pub fn swap_devices(root: &Root) -> Vec<PathBuf> {
    let table = root.read_bytes(Path::new(mountinfo::SWAPS), TABLE_BYTES_MAX).unwrap_or_default();
    let devices = mountinfo::swap_sources(&table).filter(|source| source.starts_with("/dev"));
    let found = devices.filter_map(|source| device_of_source(root, &source));
    found.filter(|sys| bus(sys) != Bus::Zram).collect()
}

/// A swap area discards by an option of its own. The kernel does not show it; fstab says what it is set to at the next boot.
pub fn swap(doctor: &Doctor<'_>, stack: &Stack, verdict: &Verdict) -> (Vec<String>, Vec<Finding>) {
    let nothing = (Vec::new(), Vec::new());
    let Some(top) = stack.top_layers().next() else { return nothing };
    if verdict.kind == VerdictKind::NotNeeded || !doctor.swaps().contains(&top.sys) {
        return nothing;
    }
    let device = top.node();
    let device_of = |e: &Entry| device_of_source(doctor.root, &by_link(&e.source));
    let listed: Vec<&Entry> = doctor.mechanisms.fstab.iter().filter(|entry| entry.is_swap()).collect();
    let own = listed.iter().copied().find(|e| device_of(e).is_some_and(|sys| sys == top.sys));
    // The only line is most likely that of the only area; but nobody's line is changed on that.
    let likely = own.or_else(|| listed.first().copied().filter(|e| listed.len() == 1 && device_of(e).is_none()));
    if likely.is_some_and(Entry::swap_discards) {
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
fn swap_remedy(device: &str, entry: Option<&Entry>) -> Remedy {
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
    let timer = timer_trims(doctor, mount);
    let in_vain = verdict.kind == VerdictKind::Blocked && verdict.reaches.is_empty();
    if configured.timer.state == UnitState::Enabled {
        let scheduled = format!("fstrim.timer ({})", configured.timer.calendar.as_deref().unwrap_or("see systemctl cat fstrim.timer"));
        match &timer {
            // Once a layer that blocks is mended, the timer trims.
            Answer::No(reason) if reason.code == fstrim::NO_DISCARDS && in_vain => by.push(scheduled),
            Answer::Yes => by.push(scheduled),
            Answer::No(reason) if reason.code == NO_FITRIM => {}
            Answer::No(reason) => {
                let finding = left_out(reason, mount);
                // Where another mechanism trims, nothing is missing.
                findings.push(if by.is_empty() { finding } else { Finding::new(finding.code, Severity::Note, finding.text) });
            }
            Answer::Maybe(doubt) => {
                let text = format!("fstrim.timer may trim this filesystem: {doubt}");
                findings.push(Finding::new("fstrim.may-be", Severity::Note, text));
            }
        }
    }
    let open = configured.timer.state == UnitState::Enabled && matches!(timer, Answer::Maybe(_));
    if by.is_empty() && !open && filesystem::can_discard(&mount.fs_type) {
        findings.push(nothing_trims(configured, &timer, writable(doctor, mount), verdict));
    } else {
        stacked(online, configured, &by, &mut findings);
    }
    if verdict.kind == VerdictKind::Blocked && configured.timer.is_quiet && configured.timer.state == UnitState::Enabled {
        let text = "fstrim.service runs with --quiet-unsupported and does not report that this filesystem cannot be trimmed";
        findings.push(Finding::new("fstrim.quiet", Severity::Note, text));
    }
    if in_vain {
        by.iter_mut().for_each(|mechanism| mechanism.push_str(", in vain"));
    }
    (by, findings)
}

/// Whether fstrim.timer trims a filesystem, once it is enabled: any mount of it will do.
fn timer_trims(doctor: &Doctor<'_>, mount: &Mount) -> Answer {
    let is_same = |m: &Mount| m.dev == mount.dev || (m.fs_type == mount.fs_type && m.source == mount.source);
    let visited = || doctor.mechanisms.timer.trims(doctor.root, &doctor.mounts, &is_same);
    match filesystem::takes_fitrim(&mount.fs_type) {
        Some(true) => visited(),
        Some(false) => Answer::no(NO_FITRIM, "its driver takes no FITRIM"),
        None => visited().and(|| Answer::maybe(format!("it is not known whether {} takes FITRIM", mount.fs_type))),
    }
}

/// fstrim.timer is enabled and leaves the filesystem out.
fn left_out(reason: &Reason, mount: &Mount) -> Finding {
    let text = format!("fstrim.timer skips this filesystem: {}", reason.text);
    let shown = quoted(&shown(&mount.mount_point));
    match reason.code {
        "fstrim.notrim" => Finding::new(reason.code, Severity::Note, text),
        "fstrim.not-in-fstab" => {
            Finding::new(reason.code, Severity::Caution, text).remedy(format!("add {shown} to /etc/fstab, or let trimtab daemon watch it"))
        }
        code => Finding::new(code, Severity::Caution, text).remedy(format!("let trimtab daemon watch {shown}")),
    }
}

/// A mount of the same filesystem that can be written, if there is one.
fn writable<'a>(doctor: &'a Doctor<'_>, mount: &'a Mount) -> &'a Mount {
    let others = || doctor.mounts.iter().find(|other| other.dev == mount.dev && other.is_writable());
    if mount.is_writable() { mount } else { others().unwrap_or(mount) }
}

fn nothing_trims(configured: &Configured, timer: &Answer, mount: &Mount, verdict: &Verdict) -> Finding {
    let text = "nothing trims this filesystem";
    // Whatever is enabled now would be in vain, or might do damage.
    if verdict.kind == VerdictKind::Unknown || verdict.kind == VerdictKind::Blocked && verdict.reaches.is_empty() {
        return Finding::new("nothing-trims", Severity::Note, text);
    }
    let remedy: Remedy = match configured.timer.state {
        UnitState::Disabled if *timer == Answer::Yes => {
            Remedy::from("systemctl enable --now fstrim.timer, or trimtab daemon").done_by([Action::Timer])
        }
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
    if online == Online::Sync && (configured.timer.state == UnitState::Enabled || configured.own == UnitState::Enabled) {
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
        assert_eq!((without.enabled(), without.timer.state), ((false, false), UnitState::Missing));
    }
}
