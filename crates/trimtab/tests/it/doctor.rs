//! `trimtab doctor` on recorded trees: its output, its exit status, and its resistance to
//! hostile trees.

use crate::support::trimtab;
use crate::sysroot::{self, Sysroot, fixtures, unpack};
use predicates::prelude::*;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;
use std::path::Path;
use trimtab_linux::doctor::Doctor;
use trimtab_linux::host::root::Root;
use trimtab_report::diagnosis::render;

fn diagnose(tree: &Sysroot) -> Value {
    let root = Root::recorded(tree.path()).unwrap();
    let doctor = Doctor::new(&root).unwrap();
    serde_json::to_value(doctor.examine_path(Path::new(&tree.expected.subject)).unwrap()).unwrap()
}

/// All findings: code and severity.
fn findings(diagnosis: &Value) -> Vec<(String, String)> {
    let of = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let layers = of(&diagnosis["layers"]).into_iter().chain([diagnosis["filesystem"].clone()]);
    let all = layers.flat_map(|layer| of(&layer["findings"])).chain(of(&diagnosis["mechanisms"]));
    all.map(|f| {
        (f["code"].as_str().unwrap().to_owned(), f["severity"].as_str().unwrap().to_owned())
    })
    .collect()
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

#[test]
fn doctor_of_recorded_machine_has_expected_verdict() {
    let all = fixtures();
    assert!(all.len() >= 12, "{} fixtures", all.len());
    for (name, text) in all {
        let tree = unpack(&text);
        let expected = &tree.expected;
        let diagnosis = diagnose(&tree);
        let verdict = &diagnosis["verdict"];
        assert_eq!(diagnosis["subject"], expected.subject.as_str(), "{name}");
        assert_eq!(verdict["kind"], expected.verdict.as_str(), "{name}: {verdict}");
        if !expected.at.is_empty() {
            assert_eq!(strings(&verdict["at"]), expected.at, "{name}");
        }
        if !expected.reaches.is_empty() {
            assert_eq!(strings(&verdict["reaches"]), expected.reaches, "{name}");
        }
        let found = findings(&diagnosis);
        for code in &expected.findings {
            assert!(found.iter().any(|(c, _)| c == code), "{name}: {code} is not among {found:?}");
        }
        for (code, severity) in &found {
            assert!(
                severity == "note" || expected.findings.contains(code),
                "{name}: unexpected {severity} {code}"
            );
        }
        let to_do = strings(&diagnosis["to_do"]);
        for step in &expected.to_do {
            assert!(to_do.iter().any(|t| t.contains(step)), "{name}: '{step}' is not in {to_do:?}");
        }
        assert_eq!(strings(&diagnosis["trimmed_by"]), expected.trimmed_by, "{name}");
        if expected.verdict == "blocked" {
            assert!(!to_do.is_empty(), "{name}: a blocked verdict says what to do");
            let in_vain = strings(&verdict["reaches"]).is_empty()
                && to_do.iter().any(|t| t.contains("fstrim.timer"));
            assert!(!in_vain, "{name}: {to_do:?}");
        }
    }
}

/// The programs that a remedy's command may start with.
const PROGRAMS: [&str; 27] = [
    "blockdev",
    "cat",
    "cryptsetup",
    "dmsetup",
    "dracut",
    "echo",
    "grep",
    "journalctl",
    "losetup",
    "lvchange",
    "lvs",
    "mdadm",
    "mkinitcpio",
    "mkinitfs",
    "mount",
    "nvme",
    "sg_vpd",
    "swapoff",
    "systemctl",
    "trimtab",
    "umount",
    "update-initramfs",
    "xl",
    "zpool",
    "fstrim",
    "tune2fs",
    "smartctl",
];

#[test]
fn doctor_remedies_separate_commands_from_words() {
    let mut commands = 0;
    for (name, text) in fixtures() {
        let diagnosis = diagnose(&unpack(&text));
        let of = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let layers = of(&diagnosis["layers"]).into_iter().chain([diagnosis["filesystem"].clone()]);
        let found: Vec<Value> = layers
            .flat_map(|layer| of(&layer["findings"]))
            .chain(of(&diagnosis["mechanisms"]))
            .collect();
        for finding in &found {
            let runs = strings(&finding["commands"]);
            for command in &runs {
                commands += 1;
                let first = command.split(' ').next().unwrap();
                assert!(PROGRAMS.contains(&first) && !command.contains(" # "), "{name}: {command}");
                let parsed =
                    std::process::Command::new("sh").args(["-n", "-c", command]).output().unwrap();
                assert!(parsed.status.success(), "{name}: {command}: {parsed:?}");
            }
            for step in strings(&finding["steps"]).iter().filter(|step| !runs.contains(step)) {
                let first = step.split(' ').next().unwrap();
                assert!(!PROGRAMS.contains(&first), "{name}: a command among the words: {step}");
            }
        }
        let daemon = strings(&diagnosis["to_do"])
            .iter()
            .filter(|step| step.starts_with("trimtab apply"))
            .count();
        assert!(daemon <= 1, "{name}: the daemon is advised {daemon} times");
    }
    assert!(commands > 100, "{commands}");
}

#[test]
fn command_stays_on_one_line_in_a_narrow_screen() {
    let (_, text) = fixtures().into_iter().find(|(name, _)| name == "usb-refused-once").unwrap();
    let tree = unpack(&text);
    let mut doctor = trimtab();
    let run = doctor
        .env("COLUMNS", "60")
        .args(["doctor", "--sysroot"])
        .arg(tree.path())
        .arg(&tree.expected.subject)
        .assert()
        .code(3);
    let said = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let command = said.lines().find_map(|line| line.trim_start().strip_prefix("run: ")).unwrap();
    assert!(
        command.starts_with("echo unmap > /sys/")
            && command.ends_with("> /sys/block/sdb/queue/discard_max_bytes"),
        "{said}"
    );
}

#[test]
fn summary_names_the_finding_of_the_verdict() {
    for (fixture, code) in [
        ("usb-unmap-forced", "scsi.mode-against-device"),
        ("usb-limit-above-device", "scsi.limit-above-device"),
        ("luks-without-discards", "crypt.no-allow-discards"),
        ("read-only-device", "device.read-only"),
    ] {
        let (_, text) = fixtures().into_iter().find(|(name, _)| name == fixture).unwrap();
        let tree = unpack(&text);
        let run = trimtab()
            .args(["doctor", "--summary", "--sysroot"])
            .arg(tree.path())
            .arg(&tree.expected.subject)
            .assert();
        let said = String::from_utf8(run.get_output().stdout.clone()).unwrap();
        assert!(said.trim_end().ends_with(code), "{fixture}: {said}");
    }
}

#[test]
fn summary_is_whole_without_a_terminal() {
    let (_, text) =
        fixtures().into_iter().find(|(name, _)| name == "luks-without-discards").unwrap();
    let long = "/srv/a-directory-whose-name-does-not-fit-into-a-column-of-a-terminal";
    let tree = unpack(&text.replace(" /home ", &format!(" {long} ")));
    let run = trimtab()
        .args(["doctor", "--summary", "--sysroot"])
        .arg(tree.path())
        .arg(long)
        .assert()
        .code(3);
    let said = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert!(
        said.contains(long)
            && said.trim_end().ends_with("crypt.no-allow-discards")
            && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn doctor_with_missing_path_judges_the_other_paths() {
    let (_, text) = fixtures().into_iter().find(|(name, _)| name == "nvme").unwrap();
    let tree = unpack(&text);
    let run = |more: &[&str]| {
        let mut doctor = trimtab();
        doctor
            .args(["doctor", "--sysroot"])
            .arg(tree.path())
            .args(["/dev/none", &tree.expected.subject])
            .args(more)
            .assert()
            .code(1)
    };
    let missing =
        || predicate::str::contains("'/dev/none'").and(predicate::str::contains("\n").count(1));
    run(&[]).stdout(predicate::str::contains("verdict: TRIM reaches")).stderr(missing());
    let json = run(&["--json"]).stderr(missing());
    let document: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(
        (
            document["diagnoses"].as_array().unwrap().len(),
            document["not_examined"][0]["path"].as_str()
        ),
        (1, Some("/dev/none"))
    );
    let mut both = trimtab();
    both.args(["doctor", "--sysroot"])
        .arg(tree.path())
        .args(["/dev/none", "/dev/nor"])
        .assert()
        .code(1)
        .stdout("");
}

/// The exit status recorded by the lab for each stack (`truth`) matches the doctor's on
/// its recorded tree. `unrecorded` lists the stacks without a tree.
#[test]
fn lab_stacks_match_status_of_recorded_machines() {
    let recorded = fixtures();
    let lab = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab");
    let mut missing = Vec::new();
    for entry in fs::read_dir(lab.join("stacks")).unwrap() {
        let path = entry.unwrap().path();
        let stack = fs::read_to_string(&path).unwrap();
        let Some(truth) =
            stack.split(['\n', ' ', ';']).find_map(|word| word.strip_prefix("truth="))
        else {
            continue;
        };
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let Some((_, text)) =
            recorded.iter().find(|(recorded, _)| *recorded == format!("vm-{name}"))
        else {
            missing.push(name);
            continue;
        };
        let tree = unpack(text);
        let root = Root::recorded(tree.path()).unwrap();
        let diagnosis =
            Doctor::new(&root).unwrap().examine_path(Path::new(&tree.expected.subject)).unwrap();
        assert_eq!(diagnosis.verdict.kind.exit_status().to_string(), truth, "{name}");
    }
    missing.sort();
    let unrecorded = fs::read_to_string(lab.join("unrecorded")).unwrap();
    assert_eq!(
        missing,
        unrecorded.split_whitespace().collect::<Vec<_>>(),
        "record them, or take them from the list (tests/lab/pack.py)"
    );
}

#[test]
fn doctor_exit_status_matches_verdict() {
    for (fixture, code) in [
        ("sata-queued", 0),
        ("hard-disk", 0),
        ("luks-without-discards", 3),
        ("thin-pool-unprivileged", 4),
    ] {
        let (_, text) = fixtures().into_iter().find(|(name, _)| name == fixture).unwrap();
        let tree = unpack(&text);
        let run = trimtab()
            .arg("doctor")
            .arg("--sysroot")
            .arg(tree.path())
            .arg(&tree.expected.subject)
            .assert()
            .code(code);
        run.stdout(predicate::str::contains("verdict:")).stderr("");
        // All filesystems at once: the exit status is that of the worst verdict.
        trimtab()
            .args(["doctor", "--json", "--sysroot"])
            .arg(tree.path())
            .assert()
            .code(code)
            .stdout(predicate::str::contains("\"schema\": \"trimtab.doctor\""));
    }
}

#[test]
fn doctor_of_several_paths_has_worst_status() {
    let (_, text) =
        fixtures().into_iter().find(|(name, _)| name == "luks-without-discards").unwrap();
    let tree = unpack(&text);
    let json = trimtab()
        .args(["doctor", "--json", "--sysroot"])
        .arg(tree.path())
        .args(["/home", "/dev/nvme0n1"])
        .assert()
        .code(3);
    let document: Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    let kinds: Vec<&str> = document["diagnoses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["verdict"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["blocked", "reaches"]);
    assert_eq!(document["version"], 1);
}

#[test]
fn doctor_bad_input_is_one_line() {
    let one_line = predicate::str::contains("\n").count(1);
    trimtab()
        .args(["doctor", "/no/such/path"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains("'/no/such/path'").and(one_line.clone()));
    trimtab()
        .args(["doctor", "--sysroot", "/no/such/tree"])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("--sysroot").and(one_line.clone()));
    let empty = tempfile::tempdir().unwrap();
    trimtab()
        .args(["doctor", "--sysroot"])
        .arg(empty.path())
        .assert()
        .code(1)
        .stderr(predicate::str::contains("mountinfo").and(one_line));
    trimtab().args(["doctor", "--all", "/"]).assert().code(2);
    trimtab()
        .args(["doctor", "/dev/null"])
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains("'/dev/null' is a character device"));
}

#[test]
fn doctor_of_running_machine_has_a_verdict() {
    let run = trimtab().args(["doctor", "--json", "/"]).assert();
    let output = run.get_output();
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["diagnoses"][0]["subject"], "/");
}

/// A tree whose links lead outside: the doctor never reads the secret, hangs or crashes.
#[test]
fn doctor_of_hostile_tree_reads_nothing_outside() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "TOP-SECRET-CANARY").unwrap();
    let secret = secret.to_str().unwrap();
    let up = "../".repeat(40);
    let sda = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda";
    let text = format!(
        "/proc/self/mountinfo = 27 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            disk {sda} 8:0 99999999999999999999\n\
            part {sda}/sda1 8:1 -5 18446744073709551615\n\
            queue {sda} discard_granularity=-1 discard_max_bytes=99999999999999999999999 \
            rotational=maybe\n{sda}/device/model -> {secret}\n\
            {sda}/device/vendor -> {up}{secret}\n{sda}/device/rev = \\x1b]0;owned\\x07\n\
            /etc/fstab -> {secret}\n/etc/crypttab -> /etc/crypttab\n\
            below {sda}/sda1 sda sda1\nbelow {sda} sda1 sda\n\
            /sys/block/evil -> ../../../../../../../..\n/sys/block/loopy -> loopy\n\
            /sys/class/hwmon -> /\n"
    );
    let tree = unpack(&text);
    fs::create_dir_all(tree.path().join("sys/fs/ext4/sda1/lifetime_write_kbytes")).unwrap();
    let run = trimtab()
        .args(["doctor", "--sysroot"])
        .arg(tree.path())
        .timeout(std::time::Duration::from_secs(20))
        .assert();
    let output = run.get_output();
    assert!(matches!(output.status.code(), Some(0 | 3 | 4)), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(!shown.contains("CANARY") && !shown.contains('\x1b'), "{shown}");
}

fn mutated(text: &str, cuts: &[(usize, u8, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (at, how, junk) in cuts {
        let at = at % lines.len();
        let line = lines[at].clone();
        if line.ends_with(" <<") || line == "." || line.starts_with('#') {
            continue;
        }
        lines[at] = match (how % 5, line.split_once(" = ")) {
            (0, _) => String::new(),
            (1, Some((path, _))) => format!("{path} = {junk}"),
            (2, Some((path, _))) => format!("{path} -> {junk}"),
            (3, Some((path, _))) => {
                format!("{path} -> ../../{}", path.rsplit('/').nth(1).unwrap_or("x"))
            }
            (4, _) => line.replace("8:", "9:"),
            _ => line,
        };
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Recorded machines with lines removed, replaced by junk or turned into links: the
    /// doctor answers and never panics.
    #[test]
    fn doctor_of_damaged_tree_never_panics(
        which in any::<prop::sample::Index>(),
        cuts in proptest::collection::vec((any::<usize>(), any::<u8>(), "[a-z0-9:/. =_,-]{0,30}[a-z0-9]"), 1..12),
    ) {
        let all = fixtures();
        let (name, text) = which.get(&all);
        let Ok(tree) = std::panic::catch_unwind(|| sysroot::unpack(&mutated(text, &cuts))) else { return Ok(()) };
        let root = Root::recorded(tree.path()).unwrap();
        if let Ok(doctor) = Doctor::new(&root) {
            for diagnosis in doctor.survey().diagnoses {
                prop_assert!(!render(&diagnosis).is_empty(), "{name}");
            }
            let _ = doctor.examine_path(Path::new("/"));
        }
    }
}

#[test]
fn anonymous_tree_has_the_verdicts_of_its_machine() {
    let verdicts = |root: &Root| {
        let diagnoses = Doctor::new(root).unwrap().survey().diagnoses;
        let mut kinds: Vec<_> = diagnoses.iter().map(|one| one.verdict.kind.name()).collect();
        kinds.sort_unstable();
        kinds
    };
    let mut changed = Vec::new();
    for (name, text) in fixtures() {
        let tree = unpack(&text);
        let root = Root::recording_of(tree.path()).unwrap();
        verdicts(&root);
        let mut recording = root.recording().unwrap();
        recording.anonymize("web1");
        let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        recording.write(scratch.path()).unwrap();
        let [of_machine, anonymous] =
            [tree.path(), scratch.path()].map(|path| verdicts(&Root::recorded(path).unwrap()));
        if anonymous != of_machine {
            changed.push((name, of_machine, anonymous));
        }
    }
    assert!(changed.is_empty(), "{changed:?}");
}

/// This machine and its recorded tree give the same verdict. A recorded tree cannot be
/// recorded again.
#[test]
fn doctor_record_gives_the_verdict_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let examine = |args: &[&str]| {
        let run = trimtab().args(["doctor", "--json", "/"]).args(args).assert();
        let mut document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        // Only a running machine has this value.
        document["diagnoses"][0]["root_would_add"] = Value::Null;
        (run.get_output().status.code(), document)
    };
    let tree_name = tree.to_str().unwrap();
    let recorded = examine(&["--record", tree_name]);
    let read = examine(&["--sysroot", tree_name]);
    let strip = |mut one: (Option<i32>, Value)| {
        // Counters advance between the two runs.
        one.1["diagnoses"][0]["write_counters"] = Value::Null;
        if let Some(evidence) = one.1["diagnoses"][0]["filesystem"]["evidence"].as_object_mut() {
            evidence.remove("lifetime_write_kbytes");
        }
        one.1["environment"] = Value::Null;
        (one.0, one.1["diagnoses"].clone())
    };
    assert_eq!(strip(recorded), strip(read));
    let anonymous = directory.path().join("anonymous");
    let reported = examine(&["--report", anonymous.to_str().unwrap()]);
    assert_eq!(reported.0, examine(&["--sysroot", anonymous.to_str().unwrap()]).0);
    assert_eq!(strip(examine(&["--sysroot", tree_name])), strip(examine(&[])));
    trimtab()
        .args(["doctor", "/", "--record", tree_name])
        .assert()
        .code(1)
        .stderr(predicate::str::contains("not empty"));
    trimtab().args(["doctor", "/", "--record", "x", "--sysroot", tree_name]).assert().code(2);
}
