//! Packages made from the program under test: contents, installation, removal.

use crate::support::{have_tool, program, skip};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: &str = "etc/trimtab/trimtab.toml";

/// Runs a command that must succeed, and returns its standard output.
fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Packs the program under test as `kinds`, and returns the package with the name `file`.
fn pack(kinds: &str, version: &str, out: &Path, file: &str) -> PathBuf {
    let mut command = Command::new("make");
    // The flags of a make that runs the tests.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
    command
        .args(["-s", "os-packages", "LEVEL=0"])
        .arg(format!("KINDS={kinds}"))
        .arg(format!("VERSION={version}"));
    command.arg(format!("BIN={}", program().display())).arg(format!("OUT={}", out.display()));
    // A fixed date, because a source archive has no commits.
    command
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    run(&mut command);
    out.join(file)
}

/// `dpkg` with a database of its own below `root`. Maintainer scripts run here, for that
/// root.
fn dpkg(root: &Path) -> Command {
    let mut command = Command::new("dpkg");
    command.env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap()));
    command.arg(format!("--root={}", root.display()));
    command.arg(format!("--log={}", root.join("var/log/dpkg.log").display()));
    command.args([
        "--force-script-chrootless",
        "--force-not-root",
        "--force-bad-path",
        "--force-confold",
    ]);
    command
}

fn machine() -> String {
    rustix::system::uname().machine().to_str().unwrap().to_owned()
}

/// An administrator who changed the configuration, also through `apply`, is asked at an
/// upgrade that brings another text. Settings and examples are in `example.toml`.
#[test]
fn shipped_configuration_never_changes() {
    assert_eq!(
        include_str!("../../../../packaging/trimtab.toml"),
        "\
# Configuration of trimtab.service: when to trim each filesystem. As installed, it names none,
# so nothing is trimmed. `trimtab apply` adds filesystems.
#
# All settings, with examples: /usr/share/trimtab/example.toml (below /usr/local after
# `make install`). Check changes with `trimtab daemon --check` and apply them with
# `systemctl reload trimtab`.
"
    );
}

/// One test, because each package takes seconds to compress.
#[test]
fn deb_is_reproducible_complete_and_purged_cleanly() {
    if !have_tool("dpkg-deb") {
        return skip("dpkg-deb");
    }
    let architecture = run(Command::new("dpkg").arg("--print-architecture"));
    let name = format!("trimtab_9.8.7-1_{}.deb", architecture.trim());
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let deb = pack("deb", "9.8.7", one.path(), &name);
    let again = pack("deb", "9.8.7", other.path(), &name);
    assert!(
        fs::read(&deb).unwrap() == fs::read(&again).unwrap(),
        "two packages of one program differ"
    );
    require_contents(&deb);
    require_scripts(&deb);
    require_clean_purge(&deb);
}

/// Every file has the right owner and mode, and nothing is enabled.
fn require_contents(deb: &Path) {
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(deb));
    let mut paths = BTreeSet::new();
    for line in listed.lines() {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let path = columns[5].trim_start_matches("./");
        let mode = match path {
            "usr/bin/trimtab" => "-rwxr-xr-x",
            _ if path.is_empty() || path.ends_with('/') => "drwxr-xr-x",
            _ => "-rw-r--r--",
        };
        assert_eq!((columns[0], columns[1]), (mode, "root/root"), "{line}");
        paths.insert(path);
    }
    for needed in [
        CONFIG,
        "usr/lib/systemd/system/trimtab.service",
        "usr/lib/systemd/system/trimtab-trim@.service",
        "usr/lib/systemd/system/trimtab-trim@.timer",
        "usr/share/bash-completion/completions/trimtab",
        "usr/share/doc/trimtab/copyright",
        "usr/share/doc/trimtab/changelog.gz",
        "usr/share/doc/trimtab/third-party.txt.gz",
        "usr/share/fish/vendor_completions.d/trimtab.fish",
        "usr/share/man/man1/trimtab.1.gz",
        "usr/share/man/man1/trimtab-trim.1.gz",
        "usr/share/trimtab/example.toml",
        "usr/share/trimtab/mixin/alerts.yaml",
        "usr/share/zsh/vendor-completions/_trimtab",
    ] {
        assert!(paths.contains(needed), "{needed}: {paths:?}");
    }
    let guide = include_str!("../../../../docs/guide.md");
    for (at, _) in guide.match_indices("](") {
        let target = guide[at + 2..].split([')', '#']).next().unwrap();
        let page = format!("usr/share/doc/trimtab/{target}");
        let is_foreign = target.is_empty() || target.contains("://");
        assert!(is_foreign || paths.contains(page.as_str()), "{target}");
    }
}

fn require_scripts(deb: &Path) {
    let part = |name: &str| run(Command::new("dpkg-deb").arg("--info").arg(deb).arg(name));
    assert_eq!(part("conffiles"), "/etc/trimtab/trimtab.toml\n");
    let control = part("control");
    assert!(control.contains("\nVersion: 9.8.7-1\n") && !control.contains("@SIZE@"), "{control}");
    for script in ["postinst", "prerm", "postrm"] {
        let text = part(script);
        assert!(
            !text.contains("fstrim") && !text.contains(" enable ") && !text.contains(" start "),
            "{script}: {text}"
        );
    }
}

/// A reinstallation keeps a changed configuration, a removal also the state, and a purge
/// nothing.
fn require_clean_purge(deb: &Path) {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path();
    let node_exporter = "var/lib/prometheus/node-exporter";
    for directory in [
        "var/log",
        "etc/cron.d",
        node_exporter,
        "var/lib/dpkg/info",
        "var/lib/dpkg/updates",
        "var/lib/trimtab",
        "etc/systemd/system/multi-user.target.wants",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    run(dpkg(root).arg("--install").arg(deb));
    let version = run(Command::new(root.join("usr/bin/trimtab")).arg("--version"));
    assert!(version.starts_with("trimtab "), "{version}");
    let wanted = root.join("etc/systemd/system/multi-user.target.wants/trimtab.service");
    assert!(fs::symlink_metadata(&wanted).is_err());
    // An administrator enables the daemon, which records its history, and changes the
    // configuration.
    std::os::unix::fs::symlink("/usr/lib/systemd/system/trimtab.service", &wanted).unwrap();
    fs::write(root.join("var/lib/trimtab/history.db"), "history").unwrap();
    fs::write(root.join(CONFIG), "# mine\n").unwrap();
    for name in ["trimtab.prom", "trimtab-wear.prom", "apt.prom"] {
        fs::write(root.join(node_exporter).join(name), "metrics").unwrap();
    }
    fs::write(root.join("etc/cron.d/trimtab-wear"), "job").unwrap();

    run(dpkg(root).arg("--install").arg(deb));
    assert_eq!(fs::read_to_string(root.join(CONFIG)).unwrap(), "# mine\n");

    run(dpkg(root).args(["--remove", "trimtab"]));
    assert!(
        !root.join("usr/bin/trimtab").exists() && !root.join("usr/lib/systemd/system").exists()
    );
    assert!(root.join("var/lib/trimtab/history.db").exists() && root.join(CONFIG).exists());
    assert!(fs::symlink_metadata(&wanted).is_ok());

    run(dpkg(root).args(["--purge", "trimtab"]));
    assert!(!root.join("var/lib/trimtab").exists() && !root.join("etc/trimtab").exists());
    assert!(!root.join("etc/cron.d/trimtab-wear").exists());
    let left: Vec<_> = fs::read_dir(root.join(node_exporter)).unwrap().flatten().collect();
    assert!(left.len() == 1 && left[0].file_name() == "apt.prom", "{left:?}");
    assert!(fs::symlink_metadata(&wanted).is_err());
}

#[test]
fn rpm_marks_configuration_and_requires_nothing() {
    if !have_tool("rpmbuild") {
        return skip("rpm");
    }
    let out = tempfile::tempdir().unwrap();
    let rpm = pack("rpm", "9.8.7", out.path(), &format!("trimtab-9.8.7-1.{}.rpm", machine()));
    let query = |arguments: &[&str]| {
        run(Command::new("rpm").args(["--query", "--package"]).args(arguments).arg(&rpm))
    };
    assert_eq!(query(&["--configfiles"]), "/etc/trimtab/trimtab.toml\n");
    let files = query(&[
        "--queryformat",
        "[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]",
    ]);
    for line in files.lines() {
        assert!(line.contains(" root:root "), "{line}");
        assert!(
            ["drwxr-xr-x", "-rw-r--r--"].iter().any(|mode| line.starts_with(mode))
                || line.ends_with(" /usr/bin/trimtab"),
            "{line}"
        );
    }
    for needed in [
        "/usr/lib/systemd/system/trimtab.service",
        "/usr/share/licenses/trimtab/third-party.txt.gz",
        "/usr/share/man/man1/trimtab.1.gz",
    ] {
        assert!(files.contains(needed), "{needed}: {files}");
    }
    let requires = query(&["--requires"]);
    let foreign = |line: &&str| {
        !line.starts_with("rpmlib(") && !line.starts_with("config(") && *line != "/bin/sh"
    };
    assert_eq!(requires.lines().filter(foreign).count(), 0, "{requires}");
    let scripts = query(&["--scripts"]);
    assert!(
        !scripts.contains("fstrim")
            && !scripts.contains(" enable ")
            && !scripts.contains(" start "),
        "{scripts}"
    );
    let (_, removal) = scripts.split_once("preuninstall scriptlet (using /bin/sh):\n").unwrap();
    let (removal, _) = removal.split_once("\npostuninstall").unwrap();
    let ran = |versions_left: &str| {
        let script = format!("systemctl() {{ echo \"$*\"; }}\n{removal}");
        run(Command::new("sh").args(["-c", &script, "sh", versions_left]))
    };
    assert!(ran("0").starts_with("--no-reload disable --now trimtab.service\n"), "{}", ran("0"));
    assert!(ran("0").contains("stop trimtab-trim@*.timer trimtab-trim@*.service"), "{}", ran("0"));
    assert_eq!(ran("1"), "", "an upgrade leaves the units enabled");
}

#[test]
fn archive_installs_with_its_own_makefile() {
    let out = tempfile::tempdir().unwrap();
    let name = format!("trimtab-9.8.7-linux-{}", machine());
    let archive = pack("archive", "9.8.7", out.path(), &format!("{name}.tar.xz"));
    run(Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(out.path()));
    let image = out.path().join("image");
    let mut command = Command::new("make");
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").env_remove("MFLAGS");
    run(command
        .args(["-s", "install", "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", image.display()))
        .current_dir(out.path().join(&name)));
    assert!(
        run(Command::new(image.join("usr/bin/trimtab")).arg("--version")).starts_with("trimtab ")
    );
    assert!(
        image.join("usr/lib/systemd/system/trimtab.service").exists()
            && image.join(CONFIG).exists()
    );
}
