//! `trimtab study DIR` on real filesystems.

use crate::support::{LoopMount, process, run, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use trimtab::session::discard_option::{Discard, mount_of};

fn options(path: &Path) -> (String, String) {
    let mount = mount_of(path).unwrap();
    (mount.options, mount.fs_options)
}

fn is_clean(path: &Path) -> bool {
    std::fs::read_dir(path).unwrap().all(|entry| entry.unwrap().file_name() == "lost+found")
}

/// A study under the online policy, disturbed once the filesystem has been remounted and files are there.
fn while_remounted(path: &Path, runtime: &Path) -> Child {
    let child = process()
        .env("TRIMTAB_RUNTIME_DIR", runtime)
        .args(["study", "--policies", "online", "--repeats", "50", "--reserve", "0", "--yes"])
        .arg(path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !Discard::of(&mount_of(path).unwrap()).is_on() || is_clean(path) {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing happens");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(300));
    child
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

#[test]
fn all_policies_of_ext4_end_in_one_table_and_the_mount_is_as_before() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard,noatime") else { return skip("root, loop devices and mkfs") };
    let before = options(&mount.path());
    let output = trimtab().args(["study", "--quick", "--reserve", "0", "--yes", "--json"]).arg(mount.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["schema"], &json["version"]), (&"trimtab.study".into(), &2.into()));
    let untried: Vec<&str> = json["untried"].as_array().unwrap().iter().map(|offer| offer["policy"].as_str().unwrap()).collect();
    assert_eq!(untried, ["adaptive", "idle"]);
    let runs = json["runs"].as_array().unwrap();
    let cells: Vec<String> =
        runs.iter().map(|run| format!("{} {}", run["workload"].as_str().unwrap(), run["policy"].as_str().unwrap())).collect();
    let expected = ["tree as-mounted", "tree batched", "tree online", "postmark as-mounted", "postmark batched", "postmark online"];
    assert_eq!(cells, expected);
    let discarded = |cell: usize| {
        let metrics = runs[cell]["metrics"].as_array().unwrap();
        metrics.iter().find(|m| m["name"] == "discard.bytes").unwrap()["samples"][0].as_f64().unwrap()
    };
    // Nothing without a trim; at least what the tree held with one.
    // With one repeat a policy is recommended all the same; where it is, there is no reason why not.
    assert_eq!((&json["use"], json.get("reason")), (&"batched".into(), None));
    assert_eq!(discarded(0), 0.0);
    assert!(discarded(1) >= 49e6 && discarded(2) >= 49e6, "{} {}", discarded(1), discarded(2));
    assert_eq!(options(&mount.path()), before);
    assert!(is_clean(&mount.path()));
}

/// Seen: leave to remount was asked for, and drives were locked, before somebody found out that nothing can be written there.
#[test]
fn what_is_mounted_read_only_is_refused_before_anything_is_asked_or_remarked() {
    let Some(mount) = LoopMount::new("ext4", 256, "ro,nodiscard") else { return skip("root, loop devices and mkfs") };
    let path = mount.path();
    let shown = path.to_str().unwrap();
    for args in [&["study", shown][..], &["study", "--full", "--yes", shown], &["bench", "tree", shown], &["verify", shown]] {
        let output = trimtab().args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.starts_with(&format!("trimtab: cannot write in {shown}: it is mounted read-only")), "{args:?}: {said}");
    }
}

/// How many repeats a run has, and what is said of those that were taken.
type Repeats = (String, Option<String>);

/// A store, and studies of filesystems in memory into it.
struct Studies(tempfile::TempDir);

impl Studies {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, args: &[&str], path: &Path) -> std::process::Command {
        let mut study = process();
        study.args(["study", "--quick", "--reserve", "0", "--json", "--store"]).arg(self.0.path().join("r.db")).args(args).arg(path);
        study
    }

    /// The ids of its runs, how many repeats each had, how many of them were taken, and what was said.
    fn study(&self, args: &[&str], path: &Path) -> (Vec<String>, Vec<Repeats>, String) {
        let output = self.command(args, path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let runs = json["runs"].as_array().unwrap();
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let ids = runs.iter().map(|run| text(&run["id"]).unwrap()).collect();
        let taken = |run: &serde_json::Value| text(&run["environment"]["study.taken"]);
        (ids, runs.iter().map(|run| (text(&run["settings"]["repeats"]).unwrap(), taken(run))).collect(), said)
    }

    /// Begins a study and interrupts it once so many of its runs are kept.
    fn interrupted(&self, args: &[&str], path: &Path, runs: usize) {
        let mut child = self.command(args, path).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let started = Instant::now();
        while self.listed().len() < runs {
            assert!(child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(60), "it ended before");
            std::thread::sleep(Duration::from_millis(20));
        }
        signal(&child, rustix::process::Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }

    fn listed(&self) -> Vec<String> {
        let output = trimtab().args(["results", "list", "--json", "--store"]).arg(self.0.path().join("r.db")).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        json["runs"].as_array().into_iter().flatten().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn an_interrupted_study_goes_on_with_what_it_had_and_says_what_and_from_when() {
    let Some(mount) = LoopMount::tmpfs(512) else { return skip("root") };
    let (studies, path) = (Studies::new(), mount.path());
    let before = studies.listed().len();
    assert_eq!(before, 0);
    studies.interrupted(&["--repeats", "2"], &path, 1);
    let there = studies.listed().len();
    let (shown, runs, said) = studies.study(&["--repeats", "3", "--resume"], &path);
    let taken: Vec<&String> = runs.iter().filter_map(|(_, taken)| taken.as_ref()).collect();
    assert_eq!(taken.len(), there, "{said}");
    assert!(taken[0].contains(" repeat") && taken[0].contains("begun 20"), "{taken:?}");
    assert!(said.contains(&format!("Taken from an interrupted study: tree as-mounted, {}", taken[0])), "{said}");
    assert!(runs.iter().all(|(repeats, _)| repeats == "3"), "{runs:?}");
    // Three repeats take the place of those that they go on from.
    assert_eq!(studies.listed(), shown);
    let show = |args: &[&str]| {
        trimtab().args(["results", "show", "study:last"]).args(args).arg("--store").arg(studies.0.path().join("r.db")).assert()
    };
    show(&["--details"]).success().stdout(contains("Taken from an interrupted study").and(contains(taken[0].as_str())));
    // That study came to its end: what is asked for again is measured again.
    let (again, runs, said) = studies.study(&["--repeats", "3", "--resume"], &path);
    assert!(runs.iter().all(|(_, taken)| taken.is_none()) && again.iter().all(|id| !shown.contains(id)), "{said}");
    assert_eq!(studies.listed().len(), 4);
}

#[test]
fn a_study_takes_nothing_that_was_measured_on_another_filesystem_or_at_another_fill_or_with_other_options() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let (path, device) = (mount.path(), mount.device());
    let at = path.to_str().unwrap();
    let only = ["--repeats", "2", "--policies", "as-mounted"];
    let resume = ["--repeats", "2", "--policies", "as-mounted", "--resume"];
    type Change<'a> = (&'a str, &'a dyn Fn());
    let changes: [Change<'_>; 4] = [
        ("nothing", &|| ()),
        ("fill", &|| std::fs::write(path.join("more"), vec![1; 100 << 20]).unwrap()),
        ("options", &|| mount.remount("noatime")),
        ("filesystem", &|| {
            run("umount", &[at]).unwrap();
            run("mkfs", &["-t", "ext4", "-q", "-F", &device]).unwrap();
            run("mount", &["-o", "nodiscard", &device, at]).unwrap();
        }),
    ];
    for (what, change) in changes {
        let studies = Studies::new();
        studies.interrupted(&only, &path, 1);
        change();
        let (_, runs, said) = studies.study(&resume, &path);
        let taken = runs.iter().filter(|(_, taken)| taken.is_some()).count();
        assert_eq!((taken > 0, said.contains("all is measured")), (what == "nothing", what != "nothing"), "{what}: {said}");
    }
}

#[test]
fn a_filesystem_that_cannot_trim_is_measured_as_it_is_and_the_rest_explained() {
    let Some(mount) = LoopMount::tmpfs(512) else { return skip("root") };
    let expected = contains("Only 'as-mounted (nodiscard)' could be tried")
        .and(contains("no FITRIM"))
        .and(contains("tree: delete-sync"))
        .and(contains("Ageing\nNot measured").and(contains("State of the drive's blocks\nNot measured")))
        .and(contains("postmark: transactions"));
    trimtab().args(["study", "--quick", "--details", "--reserve", "0"]).arg(mount.path()).assert().success().stdout(expected);
    let screen = contains("Not tried: batched").and(contains("no FITRIM")).and(contains("--details"));
    trimtab().args(["study", "--quick", "--reserve", "0"]).arg(mount.path()).assert().success().stdout(screen);
    for option in [["--fill", "50"], ["--filesystem", "ext4"], ["--questions", "ageing"]] {
        let refused = trimtab().args(["study", "--quick"]).args(option).arg(mount.path()).assert();
        refused.code(2).stderr(contains(option[0]).and(contains("is for modelled drives")));
    }
    let none = ["study", "--quick", "--reserve", "0", "--policies", "online"];
    trimtab().args(none).arg(mount.path()).assert().code(2).stderr(contains("none of these policies can be tried"));
}

#[test]
fn without_consent_nothing_is_remounted_and_the_result_says_so() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let study = ["study", "--quick", "--reserve", "0", "--policies", "as-mounted,online"];
    trimtab().args(study).arg(mount.path()).assert().success().stdout(contains("remounting needs your consent (--yes)"));
}

#[test]
fn an_interrupt_puts_the_mount_option_back() {
    let Some(mount) = LoopMount::new("ext4", 1024, "nodiscard") else { return skip("root, loop devices and mkfs") };
    let before = options(&mount.path());
    let runtime = tempfile::tempdir().unwrap();
    let mut child = while_remounted(&mount.path(), runtime.path());
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(options(&mount.path()), before);
    assert!(is_clean(&mount.path()));
}

/// A filesystem whose study was killed while it was remounted, and the note of that.
struct Killed {
    mount: LoopMount,
    before: (String, String),
    left: (String, String),
    /// Apart from everybody else's: any other command would see it, too.
    runtime: tempfile::TempDir,
}

impl Killed {
    fn new() -> Option<Self> {
        let mount = LoopMount::new("ext4", 1024, "nodiscard")?;
        let before = options(&mount.path());
        let mut killed = Self { left: before.clone(), before, mount, runtime: tempfile::tempdir().unwrap() };
        killed.again();
        Some(killed)
    }

    fn again(&mut self) {
        let mut child = while_remounted(&self.mount.path(), self.runtime.path());
        signal(&child, rustix::process::Signal::KILL);
        child.wait().unwrap();
        self.left = self.now();
        assert_ne!(self.left, self.before);
    }

    fn path(&self) -> PathBuf {
        self.mount.path()
    }

    fn now(&self) -> (String, String) {
        options(&self.path())
    }

    fn trimtab(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = trimtab();
        command.env("TRIMTAB_RUNTIME_DIR", self.runtime.path()).args(args);
        command
    }

    fn doctor(&self) -> assert_cmd::assert::Assert {
        self.trimtab(&["doctor"]).arg(self.path()).assert()
    }

    fn notes(&self) -> Vec<PathBuf> {
        let notes = std::fs::read_dir(self.runtime.path().join("notes")).unwrap();
        notes.map(|entry| entry.unwrap().path()).filter(|path| path.to_string_lossy().contains("mount-")).collect()
    }

    /// Makes the note say something else.
    fn edit(&self, change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>)) {
        let path = &self.notes()[0];
        let mut note: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        change(note.as_object_mut().unwrap());
        std::fs::write(path, note.to_string()).unwrap();
    }
}

fn again() -> impl Predicate<str> {
    contains("discard option of").and(contains("is nodiscard again"))
}

#[test]
fn after_a_kill_the_next_command_on_that_filesystem_puts_the_mount_option_back() {
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    killed.doctor().stdout(contains("left by a killed process").and(again()));
    assert_eq!((killed.now(), killed.notes().len()), (killed.before.clone(), 0));
    killed.doctor().stdout(contains("again").not());
    // A study looks only once that has been put back: what it takes for "before" is what was there before.
    killed.again();
    let study = ["study", "--quick", "--policies", "as-mounted,online", "--reserve", "0", "--yes", "--json"];
    let output = killed.trimtab(&study).arg(killed.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && again().eval(&said), "{said}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["runs"][0]["policy_settings"]["discard"], "nodiscard", "{}", json["runs"][0]["policy_settings"]);
    assert_eq!(killed.now(), killed.before);
    assert!(is_clean(&killed.path()), "what the killed ones left is gone, too");
    // What an administrator has set since stays.
    killed.again();
    killed.mount.remount("nodiscard");
    killed.trimtab(&["results", "list"]).assert().success().stderr(contains("again").not());
    assert_eq!(killed.now(), killed.before);
}

#[test]
fn after_a_kill_a_command_that_does_not_work_on_that_filesystem_changes_nothing_and_says_which_does() {
    let Some(killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let other = tempfile::tempdir().unwrap();
    let elsewhere = other.path().to_str().unwrap().to_owned();
    let remedy = format!("'trimtab doctor {}' puts it back", killed.path().display());
    let others: [&[&str]; 4] =
        [&["results", "list"], &["drive", "list"], &["doctor", &elsewhere], &["study", "--quick", "drive:no-such-drive"]];
    for command in others {
        let output = killed.trimtab(command).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&remedy), "{command:?}: {said}");
        assert_eq!((killed.now(), killed.notes().len()), (killed.left.clone(), 1), "{command:?}");
    }
    killed.doctor().stdout(again());
    assert_eq!(killed.now(), killed.before);
}

#[test]
fn after_a_kill_what_somebody_else_has_mounted_or_changed_since_stays_as_it_is() {
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    let stays = |killed: &Killed, what: &str, why: &str| {
        let there = killed.now();
        assert!(there.1.contains("discard"), "{what}: {there:?}");
        killed.doctor().stdout(contains(why).and(contains("stays as it is")));
        assert_eq!((killed.now(), killed.notes().len()), (there, 0), "{what}");
    };
    killed.mount.remount("noatime,discard");
    stays(&killed, "remounted", "its options have been changed since");
    let (path, device) = (killed.path(), killed.mount.device());
    let path = path.to_str().unwrap();
    let clean = |killed: &mut Killed| {
        run("umount", &[path]).unwrap();
        run("mount", &["-o", "nodiscard", &device, path]).unwrap();
        killed.again();
        run("umount", &[path]).unwrap();
    };
    clean(&mut killed);
    run("mount", &["-o", "discard", &device, path]).unwrap();
    stays(&killed, "the same filesystem", "mounted anew since");
    clean(&mut killed);
    run("mkfs", &["-t", "ext4", "-q", "-F", &device]).unwrap();
    run("mount", &["-o", "discard", &device, path]).unwrap();
    stays(&killed, "another filesystem", "mounted anew since");
    // No mount has the numbers that one of another boot had.
    clean(&mut killed);
    run("mount", &["-o", "nodiscard", &device, path]).unwrap();
    killed.again();
    killed.edit(|note| note["identity"]["boot"] = "another".into());
    stays(&killed, "another boot", "mounted anew since");
}

#[test]
fn an_older_note_that_does_not_say_which_mount_it_is_holds_only_if_all_that_it_says_does() {
    let Some(mut killed) = Killed::new() else { return skip("root, loop devices and mkfs") };
    killed.edit(|note| assert!(note.remove("identity").is_some()));
    killed.doctor().stdout(again());
    assert_eq!(killed.now(), killed.before);
    for (key, value) in [("mount", serde_json::json!(1)), ("device", serde_json::json!([7, 1])), ("mount_point", "/elsewhere".into())] {
        killed.mount.remount("nodiscard");
        killed.again();
        killed.edit(|note| {
            note.remove("identity");
            note[key] = value;
        });
        killed.doctor().stdout(again().not());
        assert_eq!((killed.now(), killed.notes().len()), (killed.left.clone(), 0), "{key}");
    }
}

#[test]
fn what_cannot_be_studied_is_wrong_usage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    trimtab().arg("study").arg(file.path()).assert().code(2).stderr(contains("needs a directory"));
    trimtab().args(["study", "/no/such/place"]).assert().code(1).stderr(contains("there is no"));
    trimtab().args(["study", "--policies", "sometimes", "."]).assert().code(2).stderr(contains("sometimes"));
}
