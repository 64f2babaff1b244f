//! Files shipped for service managers: they parse, use valid program options, and grant
//! the program the rights it needs.

use crate::support::{LoopMount, have_tool, process, program, skip, trimtab, unavailable};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn units() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(packaging().join("systemd")).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    assert_eq!(all.len(), 3);
    all
}

/// Section, key and value of every line.
fn settings(unit: &Path) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in
        fs::read_to_string(unit).unwrap().lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            section = name.to_owned();
        } else {
            let (key, value) =
                line.split_once('=').unwrap_or_else(|| panic!("{}: {line}", unit.display()));
            found.push((section.clone(), key.to_owned(), value.to_owned()));
        }
    }
    found
}

#[test]
fn commands_in_units_are_valid() {
    let mut commands = BTreeSet::new();
    for unit in units() {
        let all = settings(&unit);
        assert!(
            all.iter().any(|(section, key, _)| section == "Unit" && key == "Description"),
            "{}",
            unit.display()
        );
        commands.extend(
            all.into_iter().filter(|(_, key, _)| key.starts_with("Exec")).map(|(.., value)| value),
        );
    }
    let script = fs::read_to_string(packaging().join("openrc/trimtab")).unwrap();
    let started = script
        .lines()
        .filter_map(|l| l.trim().strip_prefix("\"${command}\" "))
        .map(|l| format!("/usr/bin/trimtab {l}"));
    commands.extend(started);
    let ours: Vec<&str> =
        commands.iter().filter_map(|c| c.strip_prefix("/usr/bin/trimtab ")).collect();
    assert!(ours.len() >= 4, "{commands:?}");
    for arguments in ours {
        let arguments = arguments.split(" >").next().unwrap().replace("\"${TRIMTAB_CONFIG}\"", "x");
        // The help appears only if all arguments before it are valid.
        trimtab().args(arguments.split_ascii_whitespace()).arg("--help").assert().success();
    }
}

/// A minimal Debian has no kill(1), and a filesystem that is not mounted is none of the
/// unit's.
#[test]
fn units_need_only_a_shell_and_a_mount_point() {
    use std::os::unix::process::ExitStatusExt as _;
    let of = |unit: &str, key: &str| -> Vec<String> {
        let all = settings(&packaging().join("systemd").join(unit));
        all.into_iter().filter(|(_, k, _)| k == key).map(|(.., value)| value).collect()
    };
    let reload = of("trimtab.service", "ExecReload").pop().unwrap();
    let mut main = Command::new("sleep").arg("60").spawn().unwrap();
    let mut sh = Command::new("/bin/sh");
    sh.args(["-c", &reload]).env("MAINPID", main.id().to_string()).env("PATH", "");
    let done = sh.status();
    let _ = main.kill();
    assert!(done.unwrap().success(), "{reload}");
    assert_eq!(main.wait().unwrap().signal(), Some(1), "{reload}");
    assert_eq!(of("trimtab-trim@.service", "ConditionPathIsMountPoint"), ["%f"]);
}

/// Files below a directory, by their paths in it.
fn installed(root: &Path) -> BTreeSet<String> {
    let listed =
        Command::new("find").arg(root).args(["-type", "f", "-printf", "%P\n"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn make_uninstall_removes_installed_files() {
    // Once, a path with a space failed.
    let image = tempfile::Builder::new().prefix("an image ").tempdir().unwrap();
    let make = |target: &str| {
        let mut command = Command::new("make");
        // The flags of a make that runs the tests.
        command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
        command
            .args(["-s", target, "PREFIX=/opt/t", "OPENRC=yes"])
            .arg(format!("DESTDIR={}", image.path().display()));
        let done = command
            .arg(format!("BIN={}", program().display()))
            .current_dir(packaging().join(".."))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    make("install");
    let page = image.path().join("opt/t/share/man/man1/trimtab-doctor.1");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("\n.SH EXAMPLES\n.nf\n  trimtab doctor "), "{page}");
    assert!(page.contains("\n.fi\n\nWithout "), "{page}");
    let files = installed(image.path());
    let expected = [
        "etc/init.d/trimtab",
        "etc/trimtab/trimtab.toml",
        "opt/t/bin/trimtab",
        "opt/t/lib/systemd/system/trimtab.service",
        "opt/t/share/bash-completion/completions/trimtab",
        "opt/t/share/man/man1/trimtab.1",
        "opt/t/share/man/man1/trimtab-drive-attach.1",
        "opt/t/share/trimtab/mixin/fleet.json",
        "opt/t/share/zsh/site-functions/_trimtab",
    ];
    assert!(expected.iter().all(|path| files.contains(*path)), "{files:?}");
    let unit =
        fs::read_to_string(image.path().join("opt/t/lib/systemd/system/trimtab.service")).unwrap();
    assert!(
        unit.contains("ExecStart=/opt/t/bin/trimtab daemon") && !unit.contains("/usr/bin/trimtab"),
        "{unit}"
    );
    let script = fs::read_to_string(image.path().join("etc/init.d/trimtab")).unwrap();
    assert!(script.contains("\ncommand=\"/opt/t/bin/trimtab\"\n"), "{script}");
    let version =
        Command::new(image.path().join("opt/t/bin/trimtab")).arg("--version").output().unwrap();
    assert!(version.status.success());
    // A changed configuration is neither replaced nor removed.
    let config = image.path().join("etc/trimtab/trimtab.toml");
    fs::write(&config, "# mine\n").unwrap();
    make("install");
    make("uninstall");
    assert_eq!(fs::read_to_string(&config).unwrap(), "# mine\n");
    assert_eq!(installed(image.path()), BTreeSet::from(["etc/trimtab/trimtab.toml".to_owned()]));
    fs::remove_file(&config).unwrap();
    make("install");
    make("uninstall");
    assert_eq!(installed(image.path()), BTreeSet::new());
    let mut find = Command::new("find");
    find.arg(image.path()).args(["-type", "d", "-empty", "-printf", "%P\n"]);
    let left = String::from_utf8(find.output().unwrap().stdout).unwrap();
    let left: BTreeSet<&str> = left.lines().collect();
    assert_eq!(
        left,
        BTreeSet::from(["etc/init.d", "opt/t/bin", "opt/t/lib", "opt/t/share/man/man1"])
    );
}

#[test]
fn daemonset_names_the_image_that_is_built() {
    let image = concat!("localhost/trimtab:", env!("CARGO_PKG_VERSION"));
    let built = format!("podman build -f packaging/container/Containerfile -t {image} ");
    let text = |path: &str| fs::read_to_string(packaging().join(path)).unwrap();
    assert!(text("kubernetes/daemonset.yaml").contains(&format!("image: {image}\n")));
    for path in ["container/Containerfile", "../docs/guide.md"] {
        assert!(text(path).contains(&built), "{path}");
    }
}

#[test]
fn openrc_script_is_valid() {
    let script = packaging().join("openrc/trimtab");
    assert!(Command::new("sh").arg("-n").arg(&script).status().unwrap().success());
    let text = fs::read_to_string(&script).unwrap();
    for needed in ["#!/sbin/openrc-run\n", "\ndepend() {", "supervise-daemon"] {
        assert!(text.contains(needed), "{needed}");
    }
}

#[test]
fn trim_unit_accepts_status_3_and_4_and_has_a_timeout() {
    let unit = settings(&packaging().join("systemd/trimtab-trim@.service"));
    let value = |key: &str| {
        unit.iter()
            .find(|(section, name, _)| section == "Service" && name == key)
            .map(|(_, _, value)| value.as_str())
    };
    assert_eq!(value("SuccessExitStatus"), Some("3 4"));
    // RuntimeMaxSec= has no effect on a oneshot service, which counts as starting while
    // it runs.
    assert_eq!((value("Type"), value("TimeoutStartSec")), (Some("oneshot"), Some("1d")));
}

/// The rating of `systemd-analyze`, if it is installed.
#[test]
fn systemd_analyze_accepts_units_and_rates_them_safe() {
    if !have_tool("systemd-analyze") {
        return unavailable("systemd-analyze");
    }
    let directory = tempfile::tempdir().unwrap();
    let program = program();
    for unit in units() {
        let text = fs::read_to_string(&unit)
            .unwrap()
            .replace("/usr/bin/trimtab", program.to_str().unwrap());
        fs::write(directory.path().join(unit.file_name().unwrap()), text).unwrap();
    }
    for name in ["trimtab.service", "trimtab-trim@home.timer"] {
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(directory.path().join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&verified.stderr).into_owned();
        let about_ours: Vec<&str> = said.lines().filter(|l| l.contains("trimtab")).collect();
        assert!(verified.status.success() && about_ours.is_empty(), "{name}: {said}");
    }
    // An exposure of 2.5 out of 10; systemd-analyze calls everything below 5 "OK".
    for unit in units().iter().filter(|u| u.extension().is_some_and(|e| e == "service")) {
        let rated = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager", "--threshold=25"])
            .arg(unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&rated.stdout).into_owned();
        assert!(
            rated.status.success(),
            "{}: {}",
            unit.display(),
            said.lines().last().unwrap_or_default()
        );
        eprintln!("{}", said.lines().rfind(|l| l.contains("exposure level")).unwrap_or_default());
    }
}

/// The hardening that could block the program, tested without systemd: read-only mounts,
/// few capabilities, and no way to gain more.
#[test]
fn trim_works_with_the_capabilities_of_the_unit() {
    let _guard = crate::support::makes_namespaces();
    if !have_tool("unshare") || !have_tool("setpriv") {
        return skip("unshare and setpriv");
    }
    let unit = settings(&packaging().join("systemd/trimtab.service"));
    let capabilities =
        unit.iter().find(|(_, key, _)| key == "CapabilityBoundingSet").unwrap().2.to_lowercase();
    let bounding: String = capabilities
        .split_ascii_whitespace()
        .map(|c| format!(",+{}", c.trim_start_matches("cap_")))
        .collect();
    for fs_type in ["ext4", "xfs", "btrfs"] {
        let Some(mount) = LoopMount::new(fs_type, 512, "nodiscard") else {
            return skip("root, loop devices and mkfs");
        };
        let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let meter = trimtab_linux::host::discards::Meter::start(&mount.path()).unwrap();
        let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && exec \
            setpriv --bounding-set=\"-all$2\" --inh-caps=-all --no-new-privs \"$3\" trim \
            --policy idle \"$1\"";
        let program = process();
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "slave", "sh", "-c", script, "sh"])
            .arg(mount.path())
            .arg(&bounding)
            .arg(program.get_program())
            .env("TRIMTAB_STATE_DIR", scratch.path())
            .env("TRIMTAB_RUNTIME_DIR", scratch.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{fs_type}: {output:?}");
        let sent = meter.count().unwrap().bytes.0;
        assert!(sent > 400 << 20, "{fs_type}: {sent}");
    }
}

#[test]
fn daemon_check_without_proc_names_proc() {
    let _guard = crate::support::makes_namespaces();
    if !have_tool("unshare") || !crate::support::have_root() {
        return skip("unshare and root");
    }
    let script = "mount -t tmpfs none /proc && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
    command.arg(program()).args(["daemon", "--check", "--config"]);
    let output = command.arg(packaging().join("trimtab.toml")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("/proc is not mounted"), "{said}");
    assert!(said.lines().count() == 1 && !said.contains("apply"), "{said}");
}

/// systemd's `RestrictSUIDSGID=yes` answers openat2 with ENOSYS.
#[test]
fn daemon_check_without_openat2_finds_its_records() {
    if !have_tool("strace") {
        return skip("strace");
    }
    let scratch = tempfile::tempdir().unwrap();
    let state = scratch.path().join("state");
    fs::create_dir_all(state.join("applied")).unwrap();
    let config = scratch.path().join("trimtab.toml");
    fs::write(&config, "").unwrap();
    let mut command = Command::new("strace");
    crate::support::at_home(&mut command);
    command.args(["-f", "-qq", "-o"]).arg(scratch.path().join("calls"));
    command.args(["-e", "trace=openat2", "-e", "inject=openat2:error=ENOSYS"]).arg(program());
    command.args(["daemon", "--check", "--config"]).arg(&config).env("TRIMTAB_STATE_DIR", &state);
    let checked = command.output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && !said.contains("Function not implemented"), "{said}");
}
