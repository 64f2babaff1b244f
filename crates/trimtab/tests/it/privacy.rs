//! Drive contents and measurements are readable by their owner only, whatever the umask,
//! and all output goes through one writer.

use crate::attached_drive::ok;
use crate::support::process;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program with umask 0.
fn permissive(home: &Path) -> Command {
    let mut command = process();
    let no_umask = || {
        rustix::process::umask(rustix::fs::Mode::empty());
        Ok(())
    };
    // SAFETY: umask is async-signal-safe.
    unsafe { command.pre_exec(no_umask) };
    command.env("TRIMTAB_RUNTIME_DIR", home.join("run")).env("XDG_DATA_HOME", home.join("data"));
    command
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The files below a directory that other users can access.
fn open_to_others(directory: &Path) -> Vec<String> {
    let mode = |path: &Path| {
        std::fs::symlink_metadata(path).map_or(0, |metadata| metadata.permissions().mode() & 0o7777)
    };
    let closed = |path: &Path| {
        path.ancestors()
            .skip(1)
            .take_while(|above| *above != directory)
            .any(|above| mode(above) & 0o077 == 0)
    };
    let open = files(directory).into_iter().filter(|path| mode(path) & 0o077 != 0 && !closed(path));
    open.map(|path| format!("{} {:o}", path.display(), mode(&path))).collect()
}

#[test]
fn own_files_are_private_under_any_umask() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let pid = std::process::id().to_string();
    let mut attach = permissive(scratch.path());
    attach.args([
        "drive",
        "attach",
        "ocz-vertex-le-100gb",
        "--size",
        "1GiB",
        "--speed",
        "off",
        "--no-block",
        "--id",
        "x",
        "--detach-with",
        &pid,
    ]);
    ok(attach.args(["--data", &at("disk"), "--record", &at("recording"), "--nbd", &at("nbd")]));
    let while_attached = open_to_others(scratch.path());
    ok(permissive(scratch.path()).args(["drive", "detach"]));
    assert!(while_attached.is_empty(), "{while_attached:?}");
    ok(permissive(scratch.path()).args(["bench", "tree", "--files", "1", "--tries", "1", "null:"]));
    ok(permissive(scratch.path()).args([
        "--store",
        &at("r.db"),
        "bench",
        "tree",
        "--files",
        "1",
        "--tries",
        "1",
        "null:",
    ]));
    let names: Vec<String> = files(scratch.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    for expected in ["disk", "recording", "results.db", "r.db"] {
        assert!(names.iter().any(|name| name == expected), "{expected}: {names:?}");
    }
    let open = open_to_others(scratch.path());
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn store_keeps_mode_set_by_owner() {
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("r.db");
    let add = || {
        let mut command = permissive(scratch.path());
        ok(command
            .arg("--store")
            .arg(&store)
            .args(["bench", "tree", "--files", "1", "--tries", "1", "null:"]));
    };
    add();
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o640)).unwrap();
    add();
    // Most of the file is then of a deleted run, so it is written again.
    let mut delete = permissive(scratch.path());
    ok(delete.arg("--store").arg(&store).args(["results", "delete", "last", "last~1"]));
    assert_eq!(std::fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o640);
}
