//! `Condition…=` and `Assert…=` of systemd units.

use super::answer::Answer;
use super::systemd::Unit;
use crate::host::mountinfo::{self, Mount};
use crate::host::root::{Root, TABLE_BYTES_MAX};
use std::path::Path;

/// Code of the finding about a unit that is enabled but does not run.
pub const DOES_NOT_RUN: &str = "fstrim.does-not-run";
/// Directories that a recorded tree covers completely: a file absent below them does not
/// exist.
const RECORDED: [&str; 5] = ["/etc", "/proc", "/sys", "/run", "/usr/lib/systemd"];

/// Returns whether the unit starts: all conditions and assertions hold, and at least one
/// of those marked `|`.
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
                Some(_) => Answer::no(DOES_NOT_RUN, format!("{shown} is not met")),
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
        "Virtualization" if value == "container" => {
            (!is_stray_mark(root)).then(|| container(root).is_some())
        }
        _ => None,
    }
}

/// Returns whether a path exists; `None` if a recorded tree does not cover it.
fn exists(root: &Root, path: &str) -> Option<bool> {
    if root.exists(path) {
        return Some(true);
    }
    (root.is_this_machine()
        || RECORDED.iter().any(|directory| Path::new(path).starts_with(directory)))
    .then_some(false)
}

/// The file that Docker leaves in a container's root directory.
const DOCKER_MARK: &str = "/.dockerenv";

/// Docker's mark is on a machine that has its own root filesystem: a disk image was made
/// from a container's files. Some releases of systemd take such a machine for a
/// container.
fn is_stray_mark(root: &Root) -> bool {
    let is_own = |mount: &Mount| {
        mount.dev.major != 0 && mount.root == Path::new("/") && mount.mount_point == Path::new("/")
    };
    root.exists(DOCKER_MARK)
        && mountinfo::read(root).is_ok_and(|mounts| {
            mounts.iter().rfind(|mount| mount.mount_point == Path::new("/")).is_some_and(is_own)
        })
}

/// The manager of the container that the machine is; `None` outside of containers.
pub fn container(root: &Root) -> Option<String> {
    if let Some(name) = root.read("/run/systemd/container") {
        return Some(name);
    }
    let marks = [("/run/.containerenv", "podman"), ("/proc/vz", "openvz"), (DOCKER_MARK, "docker")];
    let is_mark = |file: &str| root.exists(file) && (file != DOCKER_MARK || !is_stray_mark(root));
    let found =
        marks.into_iter().find(|(file, _)| is_mark(file)).filter(|_| !root.exists("/proc/bc"));
    let wsl = || {
        root.read("/proc/sys/kernel/osrelease")
            .filter(|release| release.contains("Microsoft") || release.contains("WSL"))
    };
    let of_first = || is_marked_by_first_process(root).then(|| "other".to_owned());
    found
        .map(|(_, name)| name.to_owned())
        .or_else(|| wsl().map(|_| "wsl".to_owned()))
        .or_else(of_first)
}

/// The environment of process 1 names a container manager. The rest of it may hold
/// secrets and is not recorded.
fn is_marked_by_first_process(root: &Root) -> bool {
    let file = Path::new("/proc/1/environ");
    let environment =
        root.unrecorded(|| root.read_bytes(file, TABLE_BYTES_MAX)).unwrap_or_default();
    let entry = environment.split(|byte| *byte == 0).find(|entry| entry.starts_with(b"container="));
    entry.inspect(|entry| root.keep(file, entry)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::systemd::WantsDirectories;

    fn judged(files: &[(&str, &str)], conditions: &str) -> char {
        let directory = tempfile::tempdir().unwrap();
        let unit = format!("[Unit]\n{conditions}");
        for (path, text) in
            files.iter().copied().chain([("/etc/systemd/system/a.service", unit.as_str())])
        {
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
        for (environment, expected) in [
            ("TOKEN=x\0container=lxc\0PASSWORD=y\0", Some("container=lxc")),
            ("TOKEN=x\0MY_container=y\0", None),
        ] {
            std::fs::write(machine.path().join("proc/1/environ"), environment).unwrap();
            let (live, tree) =
                (Root::recording_of(machine.path()).unwrap(), tempfile::tempdir().unwrap());
            assert_eq!(container(&live).as_deref(), expected.map(|_| "other"));
            live.recording().unwrap().write(tree.path()).unwrap();
            assert_eq!(
                std::fs::read_to_string(tree.path().join("proc/1/environ")).ok().as_deref(),
                expected
            );
            assert_eq!(
                container(&Root::recorded(tree.path()).unwrap()).as_deref(),
                expected.map(|_| "other")
            );
        }
    }

    #[test]
    fn conditions_combine_like_systemd() {
        let files = [("/etc/fstab", "x")];
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
            ("ConditionVirtualization=!container", 'y'),
            ("ConditionVirtualization=vm", '?'),
            ("ConditionACPower=true", '?'),
        ] {
            assert_eq!(judged(&files, conditions), expected, "{conditions}");
        }
    }

    #[test]
    fn condition_detects_container() {
        let container = [("/run/systemd/container", "lxc\n")];
        assert_eq!(judged(&container, "ConditionVirtualization=!container"), 'n');
        assert_eq!(judged(&container, "ConditionVirtualization=container"), 'y');
        assert_eq!(judged(&container, "ConditionVirtualization=lxc"), '?');
    }
}
