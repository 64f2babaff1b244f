//! Mechanisms that currently trim the filesystem: online discard, fstrim.timer,
//! trimtab's own daemon; and the filesystems that they skip.

use super::answer::{Answer, Reason};
use super::conditions;
use super::filesystem::{self, OnlineDiscardMode};
use super::fstrim;
use super::keeper::MountManager;
use super::systemd::{self, Unit, UnitState, WantsDirectories};
use super::timer::Timer;
use super::{DiscardVerdict, Doctor, Finding, Remedy, RemedyAction, Severity, VerdictKind, word};
use crate::host::block::{Bus, Stack, bus, device_of_source};
use crate::host::fstab::{self, FstabEntry};
use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::quoted;

/// Text of the finding in a container: the host's mechanisms are out of sight.
const IN_CONTAINER: &str = "nothing known in this container trims this filesystem; the host may";
/// Code of the finding about a filesystem that nothing trims.
pub const NOTHING_TRIMS: &str = "nothing-trims";
/// Code of the finding about a filesystem type without FITRIM, which fstrim therefore
/// cannot trim.
const NO_FITRIM: &str = "fstrim.no-fitrim";

/// The mechanisms configured on this machine.
#[derive(Clone, Debug)]
pub struct TrimMechanisms {
    timer: Timer,
    own: UnitState,
    fstab: Vec<FstabEntry>,
}

impl TrimMechanisms {
    pub fn read(root: &Root) -> Self {
        Self::with(root, systemd::runs(root))
    }

    /// Ignores all units if systemd does not run.
    fn with(root: &Root, systemd: bool) -> Self {
        let wants = WantsDirectories::read(root);
        Self {
            timer: if systemd { Timer::read(root, &wants) } else { Timer::missing() },
            own: if systemd {
                Unit::read(root, &wants, "trimtab.service").state
            } else {
                UnitState::Missing
            },
            fstab: fstab::read(root),
        }
    }

    /// Returns whether trimtab's own service and `fstrim.timer` are enabled.
    pub fn enabled(&self) -> (bool, bool) {
        (self.own == UnitState::Enabled, self.timer.state == UnitState::Enabled)
    }
}

/// The block devices in use as swap; excludes swap files and memory.
pub fn swap_devices(root: &Root) -> Vec<PathBuf> {
    let table = root.read_bytes(Path::new(mountinfo::SWAPS), TABLE_BYTES_MAX).unwrap_or_default();
    let devices = mountinfo::swap_sources(&table).filter(|source| source.starts_with("/dev"));
    let found = devices.filter_map(|source| device_of_source(root, &source));
    found.filter(|sys| bus(sys) != Bus::Zram).collect()
}

/// Judges a swap area, which has its own discard option. The kernel does not show the
/// option in force; fstab shows the one for the next boot.
pub fn swap(
    doctor: &Doctor<'_>,
    stack: &Stack,
    verdict: &DiscardVerdict,
) -> (Vec<String>, Vec<Finding>) {
    let nothing = (Vec::new(), Vec::new());
    let Some(top) = stack.top_layers().next() else { return nothing };
    if verdict.kind == VerdictKind::NotNeeded || !doctor.swaps().contains(&top.sys) {
        return nothing;
    }
    let device_of = |e: &FstabEntry| {
        device_of_source(
            doctor.root,
            &fstab::tag_link(&e.source).unwrap_or_else(|| e.source.clone()),
        )
    };
    let listed: Vec<&FstabEntry> =
        doctor.mechanisms.fstab.iter().filter(|entry| entry.is_swap()).collect();
    let own = listed.iter().copied().find(|e| device_of(e).is_some_and(|sys| sys == top.sys));
    // A single line most likely belongs to the single area.
    let likely = own.or_else(|| {
        listed.first().copied().filter(|e| listed.len() == 1 && device_of(e).is_none())
    });
    if likely.is_some_and(|entry| entry.has_option("discard")) {
        let vain = if verdict.kind == VerdictKind::Blocked { ", in vain" } else { "" };
        return (vec![format!("swap: its discard option in /etc/fstab{vain}")], Vec::new());
    }
    let word = quoted(&top.node());
    let again = format!("swapoff {word} && swapon --discard {word}");
    let from_now_on = format!("add the option discard to {word} in /etc/fstab");
    let text = "a swap area; no discard option for it in /etc/fstab, and no trim of filesystems \
        comes here";
    let finding = match verdict.kind {
        VerdictKind::Blocked => Finding::new("swap.no-discard", Severity::Note, text),
        _ => Finding::new("swap.no-discard", Severity::Caution, text)
            .remedy(Remedy::run(again).then(from_now_on)),
    };
    (Vec::new(), vec![finding])
}

/// Lists the mechanisms that trim `mount`, and the problems found in them.
pub fn judge(
    doctor: &Doctor<'_>,
    mount: &Mount,
    stack: &Stack,
    verdict: &DiscardVerdict,
) -> (Vec<String>, Vec<Finding>) {
    if verdict.kind == VerdictKind::NotNeeded {
        return (Vec::new(), Vec::new());
    }
    let configured = &doctor.mechanisms;
    let online = filesystem::online(doctor.root, mount, stack);
    let mut by = Vec::new();
    let mut findings = Vec::new();
    match online {
        OnlineDiscardMode::Off => {}
        OnlineDiscardMode::Sync => by.push("online: the discard mount option".to_owned()),
        OnlineDiscardMode::Async => by.push("online: btrfs discard=async".to_owned()),
        OnlineDiscardMode::Thread => by.push("online: the discard thread of f2fs".to_owned()),
    }
    let mut open = false;
    if configured.own == UnitState::Enabled {
        match own_trims(doctor, mount) {
            Answer::Yes => by.push("trimtab.service".to_owned()),
            Answer::No(_) => {}
            Answer::Maybe(doubt) => {
                open = true;
                let text = format!("trimtab.service may trim this filesystem: {doubt}");
                findings.push(Finding::new("fstrim.may-be", Severity::Note, text));
            }
        }
    }
    let timer = timer_trims(doctor, &configured.timer, mount);
    let in_vain = verdict.is_in_vain;
    if configured.timer.state == UnitState::Enabled {
        match &timer {
            // The timer trims as soon as the blocking layer is fixed.
            Answer::No(reason) if reason.code == fstrim::NO_DISCARDS && in_vain => {
                by.push(configured.timer.shown())
            }
            Answer::Yes => by.push(configured.timer.shown()),
            Answer::No(reason) if reason.code == NO_FITRIM => {}
            Answer::No(reason) => findings.push(left_out(reason, doctor, mount, by.is_empty())),
            Answer::Maybe(doubt) => {
                let text = format!("fstrim.timer may trim this filesystem: {doubt}");
                findings.push(Finding::new("fstrim.may-be", Severity::Note, text));
            }
        }
    }
    open |= configured.timer.state == UnitState::Enabled && matches!(timer, Answer::Maybe(_));
    if by.is_empty() && !open && filesystem::can_discard(&mount.fs_type) {
        let is_advised = findings.iter().any(|finding| finding.remedy.is_some());
        let finding = nothing_trims(doctor, &timer, writable(doctor, mount), verdict);
        // The cause that keeps the timer from running has its own remedy.
        findings.push(if is_advised { Finding { remedy: None, ..finding } } else { finding });
    } else {
        stacked(online, configured, &by, &mut findings);
    }
    if in_vain && configured.timer.is_quiet() && configured.timer.state == UnitState::Enabled {
        let text = "fstrim.service runs with --quiet-unsupported and does not report that this \
            filesystem cannot be trimmed";
        findings.push(Finding::new("fstrim.quiet", Severity::Note, text));
    }
    if in_vain {
        by.iter_mut().for_each(|mechanism| mechanism.push_str(", in vain"));
    }
    (by, findings)
}

/// True if both mounts are of the same filesystem.
fn is_same(mount: &Mount, other: &Mount) -> bool {
    other.dev == mount.dev || (other.fs_type == mount.fs_type && other.source == mount.source)
}

/// Returns whether a timer, once enabled, trims a filesystem through any of its mounts.
fn timer_trims(doctor: &Doctor<'_>, timer: &Timer, mount: &Mount) -> Answer {
    with_fitrim(mount, || timer.trims(doctor.machine(), &|other| is_same(mount, other)))
}

/// Returns whether trimtab's own service trims a filesystem through any of its mounts.
fn own_trims(doctor: &Doctor<'_>, mount: &Mount) -> Answer {
    match &doctor.kept {
        None => Answer::maybe("its configuration is not known here"),
        Some(kept) if kept.iter().any(|other| is_same(mount, other)) => Answer::Yes,
        Some(_) => Answer::no("trimtab.not-configured", "its configuration does not name it"),
    }
}

/// Returns whether a visit trims: no for a filesystem type without FITRIM.
fn with_fitrim(mount: &Mount, visited: impl FnOnce() -> Answer) -> Answer {
    match filesystem::takes_fitrim(&mount.fs_type) {
        Some(true) => visited(),
        Some(false) => Answer::no(NO_FITRIM, "its driver takes no FITRIM"),
        None => visited().and(|| {
            Answer::maybe(format!("it is not known whether {} takes FITRIM", mount.fs_type))
        }),
    }
}

/// Reports that the enabled fstrim.timer skips the filesystem. `matters`: no other
/// mechanism trims it.
fn left_out(reason: &Reason, doctor: &Doctor<'_>, mount: &Mount, matters: bool) -> Finding {
    let text = format!("fstrim.timer skips this filesystem: {}", reason.text);
    let is_vain = reason.code == fstrim::NO_DISCARDS || !writable(doctor, mount).is_writable();
    if !matters || is_vain || reason.code == "fstrim.notrim" {
        return Finding::new(reason.code, Severity::Note, text);
    }
    let listed = reason.code == "fstrim.not-in-fstab"
        && MountManager::of(doctor.root, mount) == MountManager::Fstab;
    let remedy = match listed && !is_in_container(doctor.root) {
        true => Remedy::by_hand(format!("add {} to /etc/fstab", word(&mount.mount_point))),
        false => watched(doctor, writable(doctor, mount)),
    };
    Finding::new(reason.code, Severity::Caution, text).remedy(remedy)
}

/// The remedy for a filesystem in a container: its host can trim it, and the container
/// usually may not.
fn on_the_host() -> Remedy {
    Remedy::by_hand("trim on the host of the container, where the filesystem is mounted, too")
}

/// True in a container, except WSL, which controls its drives like a separate machine.
fn is_in_container(root: &Root) -> bool {
    conditions::container(root).is_some_and(|name| name != "wsl")
}

/// The remedy that lets the daemon trim the filesystem from now on, or a person
/// occasionally.
fn watched(doctor: &Doctor<'_>, mount: &Mount) -> Remedy {
    let point = word(&mount.mount_point);
    if !filesystem::can_discard(&mount.fs_type) {
        return Remedy::run(format!("trimtab trim {point}"));
    }
    if is_in_container(doctor.root) {
        return on_the_host();
    }
    let keeper = MountManager::of(doctor.root, mount);
    if keeper != MountManager::Fstab {
        return Remedy::run(format!("trimtab trim {point}")).then(format!(
            "or let it discard online: {}",
            keeper.keeping(mount, "discard").line()
        ));
    }
    let enable = systemd::ENABLE;
    let by_hand = systemd::boot_start(doctor.root);
    let apply = || Remedy::run(format!("trimtab apply idle {point}"));
    let has_systemd = systemd::runs(doctor.root);
    let remedy = match (doctor.mechanisms.own, own_trims(doctor, mount) == Answer::Yes) {
        (UnitState::Enabled, _) => apply(),
        (_, true) if has_systemd => Remedy::run(enable),
        (_, true) => Remedy::by_hand(by_hand),
        _ if has_systemd => apply().then_run(enable),
        _ => apply().then(by_hand),
    };
    remedy.then(format!("or trim it now and then: trimtab trim {point}"))
}

/// A writable mount of the same filesystem, if there is one.
fn writable<'a>(doctor: &'a Doctor<'_>, mount: &'a Mount) -> &'a Mount {
    let others =
        || doctor.mounts.iter().find(|other| other.dev == mount.dev && other.is_writable());
    if mount.is_writable() { mount } else { others().unwrap_or(mount) }
}

fn nothing_trims(
    doctor: &Doctor<'_>,
    timer: &Answer,
    mount: &Mount,
    verdict: &DiscardVerdict,
) -> Finding {
    let is_in_container = is_in_container(doctor.root);
    let text = if is_in_container {
        IN_CONTAINER
    } else if own_trims(doctor, mount) == Answer::Yes {
        "neither online discard nor fstrim.timer trims this filesystem; trimtab is configured to, \
            but no systemd unit starts it"
    } else {
        "neither online discard, fstrim.timer nor trimtab trims this filesystem"
    };
    if !mount.is_writable() {
        return Finding::new(NOTHING_TRIMS, Severity::Note, format!("{text} (mounted read-only)"));
    }
    // Enabling a mechanism now would have no effect or might do damage.
    if verdict.kind == VerdictKind::Unknown || verdict.is_in_vain {
        return Finding::new(NOTHING_TRIMS, Severity::Note, text);
    }
    let enable = "systemctl enable --now fstrim.timer";
    let remedy = match doctor.mechanisms.timer.state {
        _ if is_in_container => on_the_host(),
        UnitState::Disabled if *timer == Answer::Yes => {
            Remedy::run(enable).done_by([RemedyAction::Timer])
        }
        UnitState::Masked => Remedy::run("systemctl unmask fstrim.timer").then_run(enable),
        _ => watched(doctor, mount),
    };
    Finding::new(NOTHING_TRIMS, Severity::Caution, text).remedy(remedy)
}

/// Reports several mechanisms that repeat the same work.
fn stacked(
    online: OnlineDiscardMode,
    configured: &TrimMechanisms,
    by: &[String],
    findings: &mut Vec<Finding>,
) {
    if by.len() < 2 {
        return;
    }
    let names = by
        .iter()
        .map(|b| b.split([':', '(']).next().unwrap_or(b).trim())
        .collect::<Vec<_>>()
        .join(", ");
    if online == OnlineDiscardMode::Sync
        && (configured.timer.state == UnitState::Enabled || configured.own == UnitState::Enabled)
    {
        let text = format!(
            "mechanisms stacked ({names}): fstrim sends again what online discard has sent already"
        );
        let remedy = Remedy::by_hand(
            "choose one: for most drives remove the discard option and keep the batches",
        );
        findings.push(Finding::new("stacked", Severity::Caution, text).remedy(remedy));
    } else {
        let text = format!(
            "several mechanisms ({names}); harmless, but the second one finds little to do"
        );
        findings.push(Finding::new("stacked", Severity::Note, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_without_systemd_count_as_missing() {
        let tree = tempfile::tempdir().unwrap();
        let units = tree.path().join("usr/lib/systemd/system");
        let wants = tree.path().join("etc/systemd/system/timers.target.wants");
        std::fs::create_dir_all(&units).unwrap();
        std::fs::create_dir_all(&wants).unwrap();
        std::fs::write(units.join("fstrim.timer"), "[Timer]\nOnCalendar=weekly\n").unwrap();
        std::os::unix::fs::symlink(
            "/usr/lib/systemd/system/fstrim.timer",
            wants.join("fstrim.timer"),
        )
        .unwrap();
        let root = Root::recorded(tree.path()).unwrap();
        assert_eq!(TrimMechanisms::with(&root, true).enabled(), (false, true));
        let without = TrimMechanisms::with(&root, false);
        assert_eq!((without.enabled(), without.timer.state), ((false, false), UnitState::Missing));
    }
}
