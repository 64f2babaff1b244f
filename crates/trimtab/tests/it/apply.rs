//! `trimtab apply` on directory trees that stand for a system.

use crate::support::trimtab;
use predicates::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FSTAB: &str = "# <what> <where>\nUUID=1 / ext4 errors=remount-ro 0 1\n\
    UUID=2\t/home\txfs\trw,discard\t0\t2\nUUID=3 /my\\040data btrfs subvol=a,discard=async\n\
    UUID=7 /bare btrfs\n";
const MOUNTS: &str = "25 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n\
    26 25 8:2 / /home rw,relatime - xfs /dev/sda2 rw,discard\n\
    27 25 0:40 /a /my\\040data rw - btrfs /dev/sda3 rw,discard=async\n\
    28 25 0:5 / /proc rw - proc proc rw\n29 25 8:4 / /loose rw - ext4 /dev/sda4 rw\n\
    30 25 0:41 / /pool rw - btrfs /dev/sda5 rw,ssd,discard=async\n\
    31 25 0:42 / /off rw - btrfs /dev/sda6 rw,ssd\n\
    32 25 0:43 / /bare rw - btrfs /dev/sda7 rw,ssd,discard=async\n";

struct System(tempfile::TempDir);

impl System {
    fn new() -> Self {
        let system = Self(tempfile::tempdir().unwrap());
        for (path, text) in [("etc/fstab", FSTAB), ("proc/self/mountinfo", MOUNTS)] {
            let path = system.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        system
    }

    fn apply(&self, args: &[&str]) -> assert_cmd::assert::Assert {
        trimtab().arg("apply").arg("--sysroot").arg(self.0.path()).args(args).assert()
    }

    fn json(&self, args: &[&str]) -> Value {
        let run = self.apply(&[args, &["--json"]].concat()).success();
        let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        assert_eq!(document["schema"], "trimtab.apply");
        document
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap_or_default()
    }

    /// Every file and its content.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn walk(directory: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    found.insert(path.display().to_string(), fs::read(&path).unwrap());
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.0.path(), &mut found);
        // The log keeps its entries after an undo.
        found.remove(&self.0.path().join("var/lib/trimtab/journal/log").display().to_string());
        found
    }
}

#[test]
fn apply_changes_one_fstab_line_and_undo_restores_it() {
    let system = System::new();
    let before = system.files();
    let dry = system.json(&["online", "/", "--dry-run"]);
    assert_eq!(system.files(), before, "a dry run changes nothing");
    let done = system.json(&["online", "/"]);
    assert_eq!(done["changes"], dry["changes"], "what was shown is what is done");
    assert_eq!(
        system.text("etc/fstab"),
        FSTAB.replace("errors=remount-ro", "errors=remount-ro,discard")
    );
    assert!(
        done["changes"][0]["diff"]
            .as_str()
            .unwrap()
            .contains("\n-UUID=1 / ext4 errors=remount-ro 0 1\n+UUID=1 / ext4"),
        "{done}"
    );
    let kept = done["kept"].as_str().unwrap();
    let record: Value = serde_json::from_str(&fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(record["change"]["files"][0]["before"], FSTAB);
    let after = system.files();
    assert_eq!(
        system.json(&["online", "/"])["changes"],
        serde_json::json!([]),
        "a second time there is nothing to do"
    );
    assert_eq!(system.files(), after);
    system.json(&["--undo", "--dry-run"]);
    assert_eq!(system.files(), after);
    let step = predicate::str::contains("once it runs");
    system.apply(&["--undo"]).success().stdout(predicate::str::contains("undone").and(step.not()));
    assert_eq!(system.files(), before);
    system.apply(&["--undo"]).code(1).stderr(predicate::str::contains("nothing to undo"));
}

#[test]
fn apply_writes_daemon_policy_once() {
    let system = System::new();
    let before = system.files();
    // `apply` removes the mount option.
    let done = system.json(&["idle:budget=2ms", "/home"]);
    assert_eq!(done["path"], "/home");
    assert_eq!(system.text("etc/fstab"), FSTAB.replace("rw,discard\t", "rw\t"));
    let config = system.text("etc/trimtab/trimtab.toml");
    assert!(
        config.ends_with("\n[[filesystem]]\npath = \"/home\"\npolicy = \"idle:budget=2ms\"\n"),
        "{config}"
    );
    assert!(
        done["remarks"].to_string().contains("systemctl enable --now trimtab.service"),
        "{done}"
    );
    let file = system.0.path().join("etc/trimtab/trimtab.toml");
    trimtab()
        .args(["daemon", "--check", "--config"])
        .arg(&file)
        .assert()
        .success()
        .stdout(predicate::str::contains("/home: idle:budget=2ms"));

    // btrfs discards by default.
    system.json(&["adaptive", "/my data"]);
    assert!(system.text("etc/fstab").contains("subvol=a,nodiscard"));
    assert!(
        system
            .text("etc/trimtab/trimtab.toml")
            .ends_with("path = \"/my data\"\npolicy = \"adaptive\"\n")
    );
    // With online discard the daemon must not trim, and its rule must say so.
    system.json(&["online", "/home"]);
    assert!(
        system.text("etc/trimtab/trimtab.toml").contains("path = \"/home\"\npolicy = \"online\"\n")
    );
    assert_eq!(system.text("etc/fstab"), FSTAB.replace("discard=async", "nodiscard"));
    system.json(&["none", "/my data"]);
    assert!(system.text("etc/fstab").contains("subvol=a,nodiscard"));
    for _ in 0..4 {
        system.json(&["--undo"]);
    }
    assert_eq!(system.files(), before);
}

#[test]
fn apply_to_another_configuration_advises_no_service() {
    let system = System::new();
    let file = system.0.path().join("mine.toml");
    let done = system.json(&["idle", "/home", "--config", file.to_str().unwrap(), "--dry-run"]);
    let remarks = done["remarks"].to_string();
    let advice = format!("start the daemon with trimtab daemon --config {}", file.display());
    assert!(remarks.contains(&advice) && !remarks.contains("systemctl enable"), "{remarks}");
}

/// Since Linux 6.2 btrfs enables asynchronous discard by default.
#[test]
fn apply_none_on_discarding_default_needs_nodiscard() {
    let system = System::new();
    let before = system.files();
    let one_line = || predicate::str::contains("\n").count(1);
    let refused = predicate::str::contains(
        "/pool is not in /etc/fstab: set the option nodiscard in the configuration that mounts it",
    );
    system.apply(&["none", "/pool"]).code(1).stdout("").stderr(refused.and(one_line()));
    assert_eq!(system.files(), before);
    // Each case leaves one manual step: an option where /off is mounted, and a remount of
    // /bare.
    let off = system.json(&["none", "/off"]);
    assert!(
        off["remarks"].to_string().contains("/off is not in /etc/fstab: set the option nodiscard"),
        "{off}"
    );
    let listed = system.json(&["none", "/bare"]);
    assert!(
        system.text("etc/fstab").contains("UUID=7 /bare btrfs nodiscard\n"),
        "{}",
        system.text("etc/fstab")
    );
    assert!(listed["remarks"].to_string().contains("mount -o remount,nodiscard /bare"), "{listed}");
}

#[test]
fn apply_of_a_daemon_policy_ends_default_discards() {
    let mounts = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        26 25 0:40 / /b rw - btrfs /dev/sda2 rw,discard=async\n\
        27 25 8:3 / /f rw - f2fs /dev/sda3 rw,discard\n\
        28 25 8:4 / /e rw - ext4 /dev/sda4 rw\n29 25 8:5 / /n rw - ntfs3 /dev/sda5 rw\n\
        30 25 0:41 / /loose rw - btrfs /dev/sda6 rw,discard=async\n\
        31 25 8:16 / /z rw - f2fs /dev/sdb rw,discard\n";
    let fstab = "UUID=1 / ext4 rw,discard 0 1\nUUID=2 /b btrfs rw 0 0\nUUID=3 /f f2fs rw 0 0\n\
        UUID=4 /e ext4 rw 0 0\nUUID=5 /n ntfs3 rw 0 0\nUUID=6 /z f2fs rw 0 0\n";
    let after = "UUID=1 / ext4 rw 0 1\nUUID=2 /b btrfs rw,nodiscard 0 0\n\
        UUID=3 /f f2fs rw,nodiscard 0 0\nUUID=4 /e ext4 rw,nodiscard 0 0\n\
        UUID=5 /n ntfs3 rw,discard 0 0\nUUID=6 /z f2fs rw,discard 0 0\n";
    for policy in ["batched", "idle", "adaptive"] {
        let system = with_tables(mounts, fstab);
        let write = |path: &str, text: &str| {
            let path = system.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // Default mount option in the superblock, set by `tune2fs -o discard`.
        for (device, number) in [("sda/sda4", "8:4"), ("sdb", "8:16")] {
            write(&format!("sys/devices/{device}/dev"), number);
            let link = system.0.path().join("sys/dev/block").join(number);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(format!("../../devices/{device}"), link).unwrap();
        }
        write("proc/fs/ext4/sda4/options", "rw\ndiscard\n");
        write("sys/devices/sdb/queue/zoned", "host-managed\n");
        for path in ["/", "/b", "/f", "/e", "/n", "/z"] {
            let said = system.json(&[policy, path])["remarks"].to_string();
            let option = if path == "/n" { "discard" } else { "nodiscard" };
            let remount = format!("mount -o remount,{option} {path}\"");
            assert!(
                said.contains("not in force yet") && said.contains(&remount)
                    || ["/", "/z"].contains(&path),
                "{policy} {path}: {said}"
            );
            assert_eq!(
                said.contains("so the option stays") || said.contains("needs that option"),
                ["/n", "/z"].contains(&path),
                "{said}"
            );
        }
        assert_eq!(system.text("etc/fstab"), after, "{policy}");
        let loose = system.json(&[policy, "/loose"])["remarks"].to_string();
        assert!(
            loose.contains("/loose is not in /etc/fstab: set the option nodiscard"),
            "{policy}: {loose}"
        );
        (0..7).for_each(|_| drop(system.json(&["--undo"])));
        assert_eq!(system.text("etc/fstab"), fstab);
    }
}

/// Regression: `apply --undo` reported "idle is configured already".
#[test]
fn undo_after_early_killed_apply_has_nothing_to_undo() {
    let system = System::new();
    let before = system.files();
    system.apply(&["idle", "/home"]).success();
    // The state between recording the texts and replacing the first file.
    let record = system.0.path().join("var/lib/trimtab/journal/apply-0001.json");
    let text = fs::read_to_string(&record).unwrap();
    fs::write(&record, text.replace("\"finished\": true", "\"finished\": false")).unwrap();
    fs::write(system.0.path().join("etc/fstab"), FSTAB).unwrap();
    fs::remove_file(system.0.path().join("etc/trimtab/trimtab.toml")).unwrap();
    let none = predicate::str::contains("nothing to undo")
        .and(predicate::str::contains("already configured").not());
    system.apply(&["--undo"]).success().stdout(none);
    assert_eq!(system.files(), before);
}

#[test]
fn unusable_record_is_named() {
    let system = System::new();
    system.apply(&["idle", "/home"]).success();
    let record = "var/lib/trimtab/journal/apply-0002.json";
    let place = system.0.path().join(record);
    std::os::unix::fs::symlink("apply-0001.json", &place).unwrap();
    system.apply(&["--undo"]).code(1).stderr(predicate::str::contains(record));
    fs::remove_file(&place).unwrap();
    fs::write(&place, "{}").unwrap();
    system.apply(&["--undo"]).code(1).stderr(predicate::str::contains("move it to another"));
    fs::remove_file(place).unwrap();
    system.apply(&["--undo"]).success();
}

#[test]
fn undo_keeps_other_edits_and_refuses_its_own_line() {
    let system = System::new();
    system.json(&["online", "/"]);
    let changed = system.text("etc/fstab");
    let other = changed.clone() + "/dev/sdz /new ext4 rw 0 2\n";
    fs::write(system.0.path().join("etc/fstab"), &other).unwrap();
    system.json(&["--undo"]);
    assert_eq!(system.text("etc/fstab"), FSTAB.to_owned() + "/dev/sdz /new ext4 rw 0 2\n");
    // The fstab line was edited after the apply: first another option, then this one.
    for (edited, kept) in [
        ("errors=remount-ro,discard,noatime", Some("errors=remount-ro,noatime")),
        ("errors=remount-ro,nodiscard", None),
    ] {
        fs::write(system.0.path().join("etc/fstab"), FSTAB).unwrap();
        system.json(&["online", "/"]);
        let own = changed.replace("errors=remount-ro,discard", edited);
        fs::write(system.0.path().join("etc/fstab"), &own).unwrap();
        let undone = system.apply(&["--undo"]);
        let expected = kept.map(|options| FSTAB.replace("errors=remount-ro", options));
        assert_eq!(system.text("etc/fstab"), expected.unwrap_or_else(|| own.clone()));
        if kept.is_none() {
            let record = predicate::str::contains("rm ")
                .and(predicate::str::contains("journal/apply-0001.json"));
            undone.code(1).stderr(predicate::str::contains("was edited since").and(record));
        } else {
            undone.success();
        }
    }
}

/// A system with this mount table and this fstab.
fn with_tables(mounts: &str, fstab: &str) -> System {
    let system = System::new();
    fs::write(system.0.path().join("proc/self/mountinfo"), mounts).unwrap();
    fs::write(system.0.path().join("etc/fstab"), fstab).unwrap();
    system
}

#[test]
fn apply_changes_all_lines_of_one_btrfs() {
    let mounts = "27 1 0:31 /@ / rw,relatime - btrfs /dev/nvme0n1p3 rw,discard=async,subvol=/@\n\
        36 27 0:31 /@home /home rw,relatime - btrfs /dev/nvme0n1p3 \
        rw,discard=async,subvol=/@home\n\
        37 27 0:32 / /other rw,relatime - btrfs /dev/nvme0n1p4 rw,discard=async\n";
    let fstab = "UUID=2 / btrfs subvol=@,discard=async 0 0\n\
        LABEL=x /home btrfs subvol=@home 0 0\nUUID=2 /snap btrfs noauto,subvol=@s 0 0\n\
        UUID=4 /other btrfs rw 0 0\n";
    let system = with_tables(mounts, fstab);
    fs::write(
        system.0.path().join("proc/cmdline"),
        "root=UUID=2 rootflags=subvol=@,discard=async quiet\n",
    )
    .unwrap();
    let done = system.json(&["none", "/home"]);
    let expected = "UUID=2 / btrfs subvol=@,nodiscard 0 0\n\
        LABEL=x /home btrfs subvol=@home,nodiscard 0 0\n\
        UUID=2 /snap btrfs noauto,subvol=@s,nodiscard 0 0\nUUID=4 /other btrfs rw 0 0\n";
    assert_eq!(system.text("etc/fstab"), expected);
    let remarks = done["remarks"].to_string();
    assert!(
        remarks.contains("its lines for /, /home, /snap all get it; the line for / decides"),
        "{remarks}"
    );
    assert!(
        remarks.contains("rootflags on the kernel command line mounts / with discard=async"),
        "{remarks}"
    );
    assert_eq!(
        system.json(&["none", "/"])["changes"],
        serde_json::json!([]),
        "the same filesystem"
    );
    system.json(&["--undo"]);
    assert_eq!(system.text("etc/fstab"), fstab);
}

#[test]
fn apply_on_bind_mount_changes_line_of_the_filesystem() {
    let mounts = "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 27 8:2 / /data rw - ext4 /dev/sda2 rw\n\
        31 27 8:2 /www /var/www rw - ext4 /dev/sda2 rw\n";
    let fstab =
        "UUID=1 / ext4 rw 0 1\nUUID=2 /data ext4 rw 0 2\n/data/www /var/www none bind 0 0\n";
    let system = with_tables(mounts, fstab);
    let done = system.json(&["online", "/var/www"]);
    assert_eq!(system.text("etc/fstab"), fstab.replace("/data ext4 rw", "/data ext4 rw,discard"));
    assert!(
        done["remarks"].to_string().contains("the line for /data mounts the filesystem"),
        "{done}"
    );
}

#[test]
fn apply_reports_enabled_fstrim_timer() {
    let system = System::new();
    let unit = |name: &str, text: &str| {
        let path = system.0.path().join("usr/lib/systemd/system").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    unit("fstrim.timer", "[Timer]\nOnCalendar=weekly\n[Install]\nWantedBy=timers.target\n");
    unit(
        "fstrim.service",
        "[Service]\nExecStart=/sbin/fstrim --listed-in \
            /etc/fstab:/proc/self/mountinfo --verbose --quiet-unsupported\n",
    );
    let wants = system.0.path().join("etc/systemd/system/timers.target.wants");
    fs::create_dir_all(&wants).unwrap();
    std::os::unix::fs::symlink("/usr/lib/systemd/system/fstrim.timer", wants.join("fstrim.timer"))
        .unwrap();
    for policy in ["idle", "online", "none"] {
        let remarks = system.json(&[policy, "/home", "--dry-run"])["remarks"].to_string();
        assert!(remarks.contains("fstrim.timer is enabled"), "{policy}: {remarks}");
    }
}

#[test]
fn apply_sysroot_writes_nothing_outside_the_tree() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("fstab");
    fs::write(&victim, FSTAB).unwrap();
    let system = System::new();
    fs::remove_file(system.0.path().join("etc/fstab")).unwrap();
    std::os::unix::fs::symlink(&victim, system.0.path().join("etc/fstab")).unwrap();
    let link = system.0.path().join("etc/fstab").display().to_string();
    system
        .apply(&["online", "/"])
        .code(1)
        .stderr(predicate::str::contains(format!("{link} is a link")));
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    system
        .apply(&["online", "/"])
        .code(1)
        .stderr(predicate::str::contains(format!("cannot read {link}")));
    // A symbolic link that leads out of the tree is resolved inside the tree, where its
    // target does not exist.
    let system = System::new();
    std::os::unix::fs::symlink(outside.path(), system.0.path().join("etc/trimtab")).unwrap();
    system.apply(&["idle", "/"]);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(&victim).unwrap(), FSTAB);
}

#[test]
fn apply_bad_input_is_one_line_and_changes_nothing() {
    let system = System::new();
    let before = system.files();
    let one_line = || predicate::str::contains("\n").count(1);
    system
        .apply(&["idel", "/"])
        .code(2)
        .stderr(predicate::str::contains("there is no trim policy 'idel'").and(one_line()));
    let order =
        predicate::str::contains("the policy comes first, then the path; trimtab apply idle /");
    system.apply(&["/", "idle"]).code(2).stderr(order.and(one_line()));
    system
        .apply(&["idle:budget=x", "/"])
        .code(2)
        .stderr(predicate::str::contains("budget").and(one_line()));
    for (path, point) in [("/etc/fstab", "/"), ("/home/user", "/home")] {
        let refused = predicate::str::contains(format!("'{path}' is not a mount point"))
            .and(predicate::str::contains(format!("give {point}")));
        system.apply(&["idle", path]).code(1).stdout("").stderr(refused.and(one_line()));
    }
    system
        .apply(&["idle", "/proc"])
        .code(1)
        .stderr(predicate::str::contains("/proc (proc) is not known to discard").and(one_line()));
    system
        .apply(&["online", "/loose"])
        .code(1)
        .stderr(predicate::str::contains("tune2fs").and(one_line()));
    system.apply(&["idle"]).code(2);
    system.apply(&["idle", "/", "--undo"]).code(2);
    trimtab()
        .args(["apply", "idle", "/", "--sysroot", "/no/such/dir"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("'/no/such/dir' as --sysroot").and(one_line()));
    assert_eq!(system.files(), before);
    let config = system.0.path().join("etc/trimtab");
    fs::create_dir(&config).unwrap();
    fs::write(config.join("trimtab.toml"), "[[filesystem]]\npath = 3\n").unwrap();
    system
        .apply(&["idle", "/home"])
        .code(2)
        .stderr(predicate::str::contains("trimtab.toml:2:").and(one_line()));
    assert_eq!(system.text("etc/fstab"), FSTAB, "not half of it either");
}
