//! `Condition…=` and `Assert…=` of systemd units.

use super::answer::Answer;
use super::systemd::{Unit, is_true};
use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::Path;

/// Code of the finding about a unit that is enabled but does not run.
pub const DOES_NOT_RUN: &str = "fstrim.does-not-run";
/// Directories that a recorded tree covers completely: a file absent below them does not
/// exist.
const RECORDED: [&str; 5] = ["/etc", "/proc", "/sys", "/run", "/usr/lib/systemd"];

/// Returns whether the unit starts: all conditions and assertions hold, and at least one of
/// those marked `|`.
pub fn hold(root: &Root, unit: &Unit) -> Answer {
    let mut answer = Answer::Yes;
    for prefix in ["Condition", "Assert"] {
        let mut any: Option<Answer> = None;
        for (key, given) in unit.lists("Unit", |key| key.starts_with(prefix)) {
            let kind = key.strip_prefix(prefix).unwrap_or(key);
            let (triggers, value) = after(given, '|');
            let (negated, value) = after(value, '!');
            let shown = format!("{key}={}{value}", if negated { "!" } else { "" });
            let one = match test(root, kind, value) {
                Some(true) if !negated => Answer::Yes,
                Some(false) if negated => Answer::Yes,
                Some(_) => Answer::no(DOES_NOT_RUN, format!("{shown} is not met")).said_in(unit.file_of("Unit", key, given)),
                None => Answer::maybe(format!("it is open whether {shown} is met")),
            };
            if triggers {
                any = Some(any.map_or(one.clone(), |known| known.or(|| one)));
            } else {
                answer = answer.and(|| one);
            }
        }
        answer = answer.and(|| any.unwrap_or(Answer::Yes));
    }
    answer
}

/// Strips a leading mark; returns whether it was present.
fn after(value: &str, mark: char) -> (bool, &str) {
    match value.trim_start().strip_prefix(mark) {
        Some(rest) => (true, rest.trim_start()),
        None => (false, value),
    }
}

/// Evaluates one condition without its marks; `None` if files alone do not decide it.
fn test(root: &Root, kind: &str, value: &str) -> Option<bool> {
    if value.contains('%') {
        return None;
    }
    match kind {
        "PathExists" => exists(root, value),
        "PathIsDirectory" => exists(root, value).and_then(|there| if there { root.is_directory(value) } else { Some(false) }),
        "PathIsSymbolicLink" => exists_itself(root, value).map(|there| there && root.link(value).is_some()),
        "DirectoryNotEmpty" => exists(root, value).map(|there| there && !root.list(value).is_empty()),
        "FileNotEmpty" => exists(root, value).map(|there| there && root.read_bytes(Path::new(value), 1).is_ok_and(|b| !b.is_empty())),
        "Virtualization" => virtualization(root, value),
        "KernelCommandLine" => kernel_command_line(root, value),
        "Host" => {
            let host = root.read("/proc/sys/kernel/hostname").or_else(|| root.read("/etc/hostname"))?;
            (!value.contains(['*', '?', '['])).then(|| host.eq_ignore_ascii_case(value))
        }
        "ACPower" => {
            let supplies = root.list("/sys/class/power_supply");
            let is_battery = |name: &String| root.read(format!("/sys/class/power_supply/{name}/type")).is_none_or(|kind| kind == "Battery");
            // With a battery, the result varies over time.
            (root.exists("/sys/class/power_supply") && !supplies.iter().any(is_battery)).then(|| is_true(value))
        }
        _ => None,
    }
}

/// Returns whether a path exists; `None` if a recorded tree does not cover it.
fn exists(root: &Root, path: &str) -> Option<bool> {
    if root.exists(path) {
        return Some(true);
    }
    (root.is_this_machine() || RECORDED.iter().any(|directory| Path::new(path).starts_with(directory))).then_some(false)
}

fn exists_itself(root: &Root, path: &str) -> Option<bool> {
    if root.link(path).is_some() { Some(true) } else { exists(root, path) }
}

/// Looks for a word on the kernel command line: `KEY=VALUE` exactly, or `KEY` with any value.
fn kernel_command_line(root: &Root, wanted: &str) -> Option<bool> {
    let line = root.read("/proc/cmdline")?;
    let matches = |word: &str| match wanted.contains('=') {
        true => word == wanted,
        false => word.split('=').next() == Some(wanted),
    };
    Some(line.split_ascii_whitespace().any(matches))
}

/// Detects containers by the files that their managers leave, and virtual machines by the CPU
/// flag and the firmware's names.
fn virtualization(root: &Root, wanted: &str) -> Option<bool> {
    if is_stray_mark(root) {
        // Some releases of systemd take the machine for a container then, others do not.
        return None;
    }
    let container = container(root);
    let machine = virtual_machine(root);
    let is_any = if container.is_some() { Some(true) } else { machine };
    match wanted {
        "container" => Some(container.is_some()),
        "vm" if container.is_some() => Some(false),
        "vm" => machine,
        "private-users" => None,
        _ if wanted.eq_ignore_ascii_case("yes") || is_true(wanted) => is_any,
        _ if ["no", "0", "false", "off"].contains(&wanted) => is_any.map(|is_any| !is_any),
        // The name of a specific technology.
        name => match (container, machine) {
            (Some(known), _) if known == name => Some(true),
            (_, Some(false)) => Some(false),
            _ => None,
        },
    }
}

/// The file that Docker leaves in a container's root directory.
const DOCKER_MARK: &str = "/.dockerenv";

/// Docker's mark is on a machine that has its own root filesystem: a disk image was made from
/// a container's files.
fn is_stray_mark(root: &Root) -> bool {
    let is_own = |mount: &Mount| mount.dev.major != 0 && mount.root == Path::new("/") && mount.mount_point == Path::new("/");
    root.exists(DOCKER_MARK)
        && mountinfo::read(root).is_ok_and(|mounts| mounts.iter().rfind(|mount| mount.mount_point == Path::new("/")).is_some_and(is_own))
}

/// The manager of the container that the machine is; `None` outside of containers.
pub fn container(root: &Root) -> Option<String> {
    if let Some(name) = root.read("/run/systemd/container") {
        return Some(name);
    }
    let marks = [("/run/.containerenv", "podman"), ("/proc/vz", "openvz"), (DOCKER_MARK, "docker")];
    let is_mark = |file: &str| root.exists(file) && (file != DOCKER_MARK || !is_stray_mark(root));
    let found = marks.into_iter().find(|(file, _)| is_mark(file)).filter(|_| !root.exists("/proc/bc"));
    let wsl = || root.read("/proc/sys/kernel/osrelease").filter(|release| release.contains("Microsoft") || release.contains("WSL"));
    let of_first = || is_marked_by_first_process(root).then(|| "other".to_owned());
    found.map(|(_, name)| name.to_owned()).or_else(|| wsl().map(|_| "wsl".to_owned())).or_else(of_first)
}

/// The environment of process 1 names a container manager. The rest of it may hold secrets and
/// is not recorded.
fn is_marked_by_first_process(root: &Root) -> bool {
    let file = Path::new("/proc/1/environ");
    let environment = root.unrecorded(|| root.read_bytes(file, TABLE_BYTES_MAX)).unwrap_or_default();
    let entry = environment.split(|byte| *byte == 0).find(|entry| entry.starts_with(b"container="));
    entry.inspect(|entry| root.keep(file, entry)).is_some()
}

fn virtual_machine(root: &Root) -> Option<bool> {
    const NAMES: [&str; 12] =
        ["KVM", "QEMU", "VMware", "VMW", "innotek", "VirtualBox", "Xen", "Bochs", "Parallels", "BHYVE", "Amazon EC2", "Google Compute"];
    if let Some(processor) = root.read("/proc/cpuinfo") {
        let flags = processor.lines().find(|line| line.starts_with("flags"));
        if flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor")) {
            return Some(true);
        }
    }
    let names = ["product_name", "sys_vendor", "board_vendor", "bios_vendor"];
    let names: Vec<String> = names.iter().filter_map(|name| root.read(format!("/sys/class/dmi/id/{name}"))).collect();
    (!names.is_empty()).then(|| names.iter().any(|name| NAMES.iter().any(|known| name.starts_with(known))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::systemd::WantsDirectories;

    fn judged(files: &[(&str, &str)], conditions: &str) -> char {
        let directory = tempfile::tempdir().unwrap();
        let unit = format!("[Unit]\n{conditions}");
        for (path, text) in files.iter().copied().chain([("/etc/systemd/system/a.service", unit.as_str())]) {
            let path = directory.path().join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::recorded(directory.path()).unwrap();
        match hold(&root, &Unit::read(&root, &WantsDirectories::read(&root), "a.service")) {
            Answer::Yes => 'y',
            Answer::No(_) => 'n',
            Answer::Maybe(_) => '?',
        }
    }

    #[test]
    fn record_of_proc_1_environ_keeps_container_entry_only() {
        let machine = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(machine.path().join("proc/1")).unwrap();
        for (environment, expected) in
            [("TOKEN=x\0container=lxc\0PASSWORD=y\0", Some("container=lxc")), ("TOKEN=x\0MY_container=y\0", None)]
        {
            std::fs::write(machine.path().join("proc/1/environ"), environment).unwrap();
            let (live, tree) = (Root::recording_of(machine.path()).unwrap(), tempfile::tempdir().unwrap());
            assert_eq!(container(&live).as_deref(), expected.map(|_| "other"));
            live.recording().unwrap().write(tree.path()).unwrap();
            assert_eq!(std::fs::read_to_string(tree.path().join("proc/1/environ")).ok().as_deref(), expected);
            assert_eq!(container(&Root::recorded(tree.path()).unwrap()).as_deref(), expected.map(|_| "other"));
        }
    }

    #[test]
    fn conditions_combine_like_systemd() {
        let files = [("/etc/fstab", "x"), ("/proc/cmdline", "quiet root=/dev/sda1"), ("/etc/empty", "")];
        for (conditions, expected) in [
            ("", 'y'),
            ("ConditionPathExists=/etc/fstab", 'y'),
            ("ConditionPathExists=!/etc/fstab", 'n'),
            ("ConditionPathExists=! /etc/initrd-release", 'y'),
            ("AssertPathExists=/etc/none", 'n'),
            ("ConditionPathExists=/etc/none\nConditionPathExists=/etc/fstab", 'n'),
            ("ConditionPathExists=|/etc/none\nConditionPathExists=|/etc/fstab", 'y'),
            ("ConditionPathExists=|/etc/none\nConditionPathExists=|!/etc/fstab", 'n'),
            ("ConditionPathExists=|/etc/none\nConditionFoo=|x", '?'),
            ("ConditionPathExists=/etc/none\nConditionVirtualization=", 'y'),
            ("ConditionPathExists=/etc/none\nAssertVirtualization=", 'n'),
            ("ConditionFoo=1", '?'),
            ("ConditionFoo=1\nConditionPathExists=/etc/none", 'n'),
            ("ConditionPathExists=/var/lib/x", '?'),
            ("ConditionPathExists=/etc/%H", '?'),
            ("ConditionFileNotEmpty=/etc/empty", 'n'),
            ("ConditionPathIsDirectory=/etc/fstab", 'n'),
            ("ConditionPathIsDirectory=/etc", 'y'),
            ("ConditionKernelCommandLine=quiet", 'y'),
            ("ConditionKernelCommandLine=root", 'y'),
            ("ConditionKernelCommandLine=root=/dev/sdb1", 'n'),
            ("ConditionKernelCommandLine=!notrim", 'y'),
            ("ConditionVirtualization=!container", 'y'),
            ("ConditionVirtualization=vm", '?'),
            ("ConditionACPower=true", '?'),
        ] {
            assert_eq!(judged(&files, conditions), expected, "{conditions}");
        }
    }

    #[test]
    fn condition_detects_container_vm_and_ac_power() {
        let container = [("/run/systemd/container", "lxc\n")];
        assert_eq!(judged(&container, "ConditionVirtualization=!container"), 'n');
        assert_eq!(judged(&container, "ConditionVirtualization=lxc"), 'y');
        assert_eq!(judged(&container, "ConditionVirtualization=vm"), 'n');
        let vm = [("/proc/cpuinfo", "flags\t: fpu hypervisor\n")];
        assert_eq!((judged(&vm, "ConditionVirtualization=vm"), judged(&vm, "ConditionVirtualization=no")), ('y', 'n'));
        let host = [("/sys/class/dmi/id/sys_vendor", "Dell Inc.\n")];
        assert_eq!((judged(&host, "ConditionVirtualization=vm"), judged(&host, "ConditionVirtualization=kvm")), ('n', 'n'));
        let mains = [("/sys/class/power_supply/AC/type", "Mains\n")];
        let battery = [("/sys/class/power_supply/BAT0/type", "Battery\n")];
        assert_eq!((judged(&mains, "ConditionACPower=true"), judged(&battery, "ConditionACPower=true")), ('y', '?'));
    }
}
