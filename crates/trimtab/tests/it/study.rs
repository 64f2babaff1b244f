//! `trimtab study DIR` on real filesystems.

use crate::support::{LoopMount, process, run, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use trimtab_linux::session::discard_option::mount_of;

pub(crate) fn options(path: &Path) -> (String, String) {
    let mount = mount_of(path).unwrap();
    (mount.options, mount.fs_options)
}

pub(crate) fn is_clean(path: &Path) -> bool {
    std::fs::read_dir(path).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found")
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[test]
fn ext4_study_has_one_table_and_restores_mount() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard,noatime") else {
        return skip("root, loop devices and mkfs");
    };
    let before = options(&mount.path());
    let output = trimtab()
        .args(["study", "--quick", "--reserve", "0", "--yes", "--json"])
        .arg(mount.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["schema"], &json["version"]), (&"trimtab.study".into(), &3.into()));
    let untried: Vec<&str> = json["untried"]
        .as_array()
        .unwrap()
        .iter()
        .map(|offer| offer["policy"].as_str().unwrap())
        .collect();
    assert_eq!(untried, ["adaptive", "idle"]);
    let runs = json["runs"].as_array().unwrap();
    let cells: Vec<String> = runs
        .iter()
        .map(|run| {
            format!("{} {}", run["workload"].as_str().unwrap(), run["policy"].as_str().unwrap())
        })
        .collect();
    let expected = [
        "tree as-mounted",
        "tree batched",
        "tree online",
        "postmark as-mounted",
        "postmark batched",
        "postmark online",
    ];
    assert_eq!(cells, expected);
    let discarded = |cell: usize| {
        let metrics = runs[cell]["metrics"].as_array().unwrap();
        metrics.iter().find(|m| m["name"] == "discard.bytes").unwrap()["samples"][0]
            .as_f64()
            .unwrap()
    };
    // One repeat recommends nothing. No discards without a trim, and at least the tree's
    // size with one.
    assert_eq!(
        (&json["use"], &json["verdict"]["rule"]),
        (&serde_json::Value::Null, &"too_few_repeats".into())
    );
    assert_eq!(discarded(0), 0.0);
    assert!(discarded(1) >= 49e6 && discarded(2) >= 49e6, "{} {}", discarded(1), discarded(2));
    assert_eq!(options(&mount.path()), before);
    assert!(is_clean(&mount.path()));
}

/// Regression: the study asked for permission to remount and locked drives before it
/// detected the read-only mount.
#[test]
fn readonly_mount_is_refused_before_any_question() {
    let Some(mount) = LoopMount::new("ext4", 256, "ro,nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let path = mount.path();
    let shown = path.to_str().unwrap();
    for args in [
        &["study", shown][..],
        &["study", "--full", "--yes", shown],
        &["bench", "tree", shown],
        &["verify", shown],
    ] {
        let output = trimtab().args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            said.starts_with(&format!("trimtab: cannot write in {shown}: it is mounted read-only")),
            "{args:?}: {said}"
        );
    }
}

/// The number of repeats of a run, and the note about reused repeats.
type Repeats = (String, Option<String>);

/// A store, and studies of memory-backed filesystems that write to it.
struct Studies(tempfile::TempDir);

impl Studies {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str], path: &Path) -> std::process::Command {
        let mut study = process();
        study
            .args(["study", "--quick", "--reserve", "0", "--json", "--store"])
            .arg(self.0.path().join("r.db"))
            .args(args)
            .arg(path);
        study
    }

    /// The ids of the study's runs, each run's repeats and reuse note, and the messages.
    fn study(&self, args: &[&str], path: &Path) -> (Vec<String>, Vec<Repeats>, String) {
        let output = self.command(args, path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let runs = json["runs"].as_array().unwrap();
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let ids = runs.iter().map(|run| text(&run["id"]).unwrap()).collect();
        let taken = |run: &serde_json::Value| text(&run["environment"]["study.taken"]);
        (
            ids,
            runs.iter()
                .map(|run| (text(&run["settings"]["repeats"]).unwrap(), taken(run)))
                .collect(),
            said,
        )
    }

    /// Starts a study and interrupts it once it has stored `runs` runs.
    fn interrupted(&self, args: &[&str], path: &Path, runs: usize) {
        let mut child =
            self.command(args, path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while self.listed().len() < runs {
            assert!(
                child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(60),
                "it ended before"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        signal(&child, rustix::process::Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }

    fn listed(&self) -> Vec<String> {
        let output = trimtab()
            .args(["results", "list", "--json", "--store"])
            .arg(self.0.path().join("r.db"))
            .output()
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        json["runs"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn study_resume_states_reused_runs_and_their_time() {
    let Some(mount) = LoopMount::tmpfs(512) else { return skip("root") };
    let (studies, path) = (Studies::new(), mount.path());
    let before = studies.listed().len();
    assert_eq!(before, 0);
    studies.interrupted(&["--repeats", "2"], &path, 1);
    let there = studies.listed().len();
    let (shown, runs, said) = studies.study(&["--repeats", "3", "--resume"], &path);
    let taken: Vec<&String> = runs.iter().filter_map(|(_, taken)| taken.as_ref()).collect();
    assert_eq!(taken.len(), there, "{said}");
    assert!(taken[0].contains(" repeat") && taken[0].contains("started 20"), "{taken:?}");
    assert!(
        said.contains(&format!("Reused from an interrupted study: tree as-mounted, {}", taken[0])),
        "{said}"
    );
    assert!(runs.iter().all(|(repeats, _)| repeats == "3"), "{runs:?}");
    // Runs of three repeats replace the partial runs that they continue.
    assert_eq!(studies.listed(), shown);
    let show = |args: &[&str]| {
        trimtab()
            .args(["results", "show", "study:last"])
            .args(args)
            .arg("--store")
            .arg(studies.0.path().join("r.db"))
            .assert()
    };
    show(&["--details"])
        .success()
        .stdout(contains("Reused from an interrupted study").and(contains(taken[0].as_str())));
    // That study is complete, so a new request measures again.
    let (again, runs, said) = studies.study(&["--repeats", "3", "--resume"], &path);
    assert!(
        runs.iter().all(|(_, taken)| taken.is_none()) && again.iter().all(|id| !shown.contains(id)),
        "{said}"
    );
    assert_eq!(studies.listed().len(), 4);
}

/// A field of the ext4 superblock, from dumpe2fs.
fn ext4_says(device: &str, what: &str) -> String {
    let all = run("dumpe2fs", &["-h", device]).unwrap();
    let line = all
        .lines()
        .find(|line| {
            line.starts_with("Filesystem") && line.split(':').next().unwrap().ends_with(what)
        })
        .unwrap();
    line.split_once(':').unwrap().1.trim().to_owned()
}

#[test]
fn study_reuses_only_runs_of_same_mount_fill_and_options() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let (path, device) = (mount.path(), mount.device());
    let at = path.to_str().unwrap();
    let only = ["--repeats", "2", "--policies", "as-mounted"];
    let resume = ["--repeats", "2", "--policies", "as-mounted", "--resume"];
    type Change<'a> = (&'a str, &'a dyn Fn());
    let changes: [Change<'_>; 3] = [
        ("fill", &|| std::fs::write(path.join("more"), vec![1; 100 << 20]).unwrap()),
        ("options", &|| mount.remount("noatime")),
        ("filesystem", &|| {
            run("umount", &[at]).unwrap();
            let (uuid, made) = (ext4_says(&device, "UUID"), ext4_says(&device, "created"));
            std::thread::sleep(Duration::from_millis(1100));
            run("mkfs", &["-t", "ext4", "-q", "-F", "-U", &uuid, &device]).unwrap();
            assert!(ext4_says(&device, "UUID") == uuid && ext4_says(&device, "created") != made);
            run("mount", &["-o", "nodiscard", &device, at]).unwrap();
        }),
    ];
    for (what, change) in changes {
        let studies = Studies::new();
        studies.interrupted(&only, &path, 1);
        change();
        let (_, runs, said) = studies.study(&resume, &path);
        assert!(runs.iter().all(|(_, taken)| taken.is_none()), "{what}: {runs:?}");
        assert!(said.contains("everything is measured"), "{what}: {said}");
    }
}

#[test]
fn study_without_fitrim_measures_as_mounted_only() {
    let Some(mount) = LoopMount::tmpfs(512) else { return skip("root") };
    let expected = contains("Only 'as-mounted (nodiscard)' was tried")
        .and(contains("no FITRIM"))
        .and(contains("tree: delete-sync"))
        .and(
            contains("Ageing\nNot measured")
                .and(contains("State of the drive's blocks\nNot measured")),
        )
        .and(contains("postmark: transactions"));
    trimtab()
        .args(["study", "--quick", "--details", "--reserve", "0"])
        .arg(mount.path())
        .assert()
        .success()
        .stdout(expected);
    let screen = contains("Untried  batched").and(contains("no FITRIM")).and(contains("--details"));
    trimtab()
        .args(["study", "--quick", "--reserve", "0"])
        .arg(mount.path())
        .assert()
        .success()
        .stdout(screen);
    for option in [["--fill", "50"], ["--filesystem", "ext4"], ["--questions", "ageing"]] {
        let refused = trimtab().args(["study", "--quick"]).args(option).arg(mount.path()).assert();
        refused.code(2).stderr(contains(option[0]).and(contains("is for modelled drives")));
    }
    let none = ["study", "--quick", "--reserve", "0", "--policies", "online"];
    trimtab()
        .args(none)
        .arg(mount.path())
        .assert()
        .code(2)
        .stderr(contains("none of these policies can be tried"));
}

/// Regression: without discard the study left out 'none', then reported that none of zero
/// policies could be tried.
#[test]
fn study_of_none_on_nodiscard_mount_is_as_mounted() {
    let Some(mount) = LoopMount::tmpfs(512) else { return skip("root") };
    let (ids, _, said) = Studies::new().study(&["--policies", "none,as-mounted"], &mount.path());
    assert!(!ids.is_empty() && said.contains("'none' is 'as-mounted' here"), "{said}");
}

#[test]
fn study_without_yes_does_not_remount() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else {
        return skip("root, loop devices and mkfs");
    };
    let study = ["study", "--quick", "--reserve", "0", "--policies", "as-mounted,online"];
    trimtab()
        .args(study)
        .arg(mount.path())
        .assert()
        .success()
        .stdout(contains("remounting needs your consent (--yes)"));
}

#[test]
fn study_of_wrong_target_is_refused_in_one_line() {
    let file = tempfile::NamedTempFile::new().unwrap();
    trimtab().arg("study").arg(file.path()).assert().code(1).stderr(contains("needs a directory"));
    trimtab().args(["study", "/no/such/place"]).assert().code(1).stderr(contains("there is no"));
    trimtab()
        .args(["study", "--policies", "sometimes", "."])
        .assert()
        .code(2)
        .stderr(contains("sometimes"));
}
