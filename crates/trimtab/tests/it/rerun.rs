//! Results contain their inputs, and a rerun reproduces modelled results byte for byte.

use crate::support::{LoopMount, process, skip, trimtab};
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;
use std::path::{Path, PathBuf};

struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("r.db")
    }

    fn trimtab(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = trimtab();
        command.args(args).arg("--store").arg(self.store());
        command
    }

    fn made(&self, args: &[&str]) {
        self.trimtab(args).arg("--quiet").assert().success();
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.trimtab(args).arg("--json").output().unwrap().stdout).unwrap()
    }

    /// Asserts that a rerun prints exactly the stored run.
    fn check(&self, run: &str) {
        self.check_with(run, &[]);
    }

    /// The same with `inputs`, the files that the user names.
    fn check_with(&self, run: &str, inputs: &[&str]) {
        let text = |args: &[&str]| self.trimtab(args).arg("--json").output().unwrap();
        let again = text(&[&["results", "rerun", run], inputs].concat());
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
        let stored = text(&["results", "show", run]).stdout;
        assert_eq!(String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&stored));
    }
}

const SIMULATE: [&str; 10] = [
    "drive",
    "simulate",
    "--drive",
    "ocz-vertex-le-100gb",
    "--capacity",
    "1GB",
    "--until-written",
    "1x",
    "--trim",
    "batched:every=1h",
];

#[test]
fn rerun_of_simulation_is_identical_to_the_byte() {
    let scratch = Scratch::new();
    let other = SIMULATE
        .map(|word| if word == "ocz-vertex-le-100gb" { "ocz-vertex-le-200gb" } else { word });
    for simulate in [SIMULATE, other] {
        scratch.made(&[&simulate[..], &["--seed", "7"]].concat());
    }
    for run in ["last", "last~1"] {
        scratch.check(run);
        scratch
            .trimtab(&["results", "rerun", run])
            .assert()
            .success()
            .stdout(contains("the same to the byte"));
    }
    let runs: Vec<Value> =
        ["last~1", "last"].iter().map(|run| scratch.json(&["results", "show", run])).collect();
    let command: Vec<String> =
        serde_json::from_str(runs[0]["specification"]["command"].as_str().unwrap()).unwrap();
    assert_eq!(command, [&SIMULATE[..], &["--seed", "7"]].concat());
    // The stored drive file is the shipped file of that name.
    for (run, name) in runs.iter().zip(["ocz-vertex-le-100gb", "ocz-vertex-le-200gb"]) {
        let file = scratch.0.path().join("drive.toml");
        std::fs::write(&file, run["specification"]["drive"].as_str().unwrap()).unwrap();
        let fields = |reference: &str| -> Vec<Value> {
            let shown = scratch.json(&["drive", "show", reference]);
            shown["fields"]
                .as_array()
                .unwrap()
                .iter()
                .map(|field| serde_json::json!([field["field"], field["value"]]))
                .collect()
        };
        assert_eq!(fields(file.to_str().unwrap()), fields(name));
    }
    assert_ne!(runs[0]["specification"]["drive.hash"], runs[1]["specification"]["drive.hash"]);
    assert_eq!(runs[0]["policy_settings"]["policy.every"], "1h");
}

/// Every command that makes modelled runs, except those covered by other tests.
#[test]
fn rerun_repeats_crystal_age_and_replay_runs() {
    let scratch = Scratch::new();
    let drive = "drive:ocz-vertex-le-100gb";
    let crystal = [
        "bench",
        "crystal",
        "--size",
        "16MiB",
        "--passes",
        "1",
        "--bytes",
        "1MiB",
        "--interval",
        "0s",
        drive,
    ];
    scratch.made(&crystal);
    scratch.check("last");
    scratch.made(&[
        "bench",
        "age",
        "--total",
        "200MB",
        "--rounds",
        "2",
        "--test-size",
        "16MiB",
        "--test-time",
        "1s",
        "--trim",
        "batched:every=1h",
        drive,
    ]);
    scratch.check("last");
    let trace = scratch.0.path().join("trace.csv");
    let line = |n: u64| {
        let kind = ["Write", "Write", "Read"][n as usize % 3];
        format!("{},h,0,{kind},{},65536,1\n", n * 10_000, n * 7 % 4000 * 65536)
    };
    std::fs::write(&trace, (0..5000).map(line).collect::<String>()).unwrap();
    let trace = trace.to_str().unwrap();
    let simulate =
        ["drive", "simulate", "--drive", "ocz-vertex-le-100gb", "--capacity", "1GB", "--workload"];
    let loops = "crystal:size=20MB:pass=2MB:small-pass=1MB:passes=1";
    scratch
        .made(&[&simulate[..], &[loops, "--until-written", "200MB", "--trim", "online"]].concat());
    scratch.check("last");
    let replay = [
        "drive",
        "replay",
        trace,
        "--drive",
        "ocz-vertex-le-100gb",
        "--size",
        "1GB",
        "--fill",
        "20",
        "--rest",
        "2d",
    ];
    let policies = [
        "--trim",
        "recorded",
        "--trim",
        "batched:every=1h",
        "--trim",
        "batched:every=2h",
        "--trim",
        "idle",
    ];
    let document = scratch.json(&[&replay[..], &policies].concat());
    for (back, (policy, every)) in
        [("idle", None), ("batched", Some("2h")), ("batched", Some("1h")), ("recorded", None)]
            .iter()
            .enumerate()
    {
        let name = format!("last~{back}");
        let run = scratch.json(&["results", "show", &name]);
        assert_eq!(
            (run["workload"].as_str(), run["policy"].as_str()),
            (Some("replay"), Some(*policy))
        );
        assert_eq!(run["policy_settings"]["policy.every"].as_str(), *every);
        let printed = &document["replays"][3 - back];
        assert_eq!(run["counters"]["nand_written_bytes"], printed["model"]["nand_written_bytes"]);
        let written = run["phases"][0]["written_bytes"].as_u64().unwrap();
        assert_eq!(
            Some(written),
            printed["requests"]["write"]["bytes"].as_u64(),
            "{}",
            run["phases"]
        );
        // Of 5000 lines every third is a read.
        assert_eq!(written, (5000 - 5000 / 3) * 65536);
        scratch.check_with(&name, &["--input", trace]);
    }
}

#[test]
fn rerun_does_not_need_the_drive_file() {
    let scratch = Scratch::new();
    let file = scratch.0.path().join("mine.toml");
    let toml =
        trimtab().args(["drive", "show", "ocz-vertex-le-100gb", "--toml"]).output().unwrap().stdout;
    std::fs::write(&file, &toml).unwrap();
    let target = format!("drive:{}", file.display());
    scratch.made(&[
        "bench",
        "tree",
        "--files",
        "200",
        "--tries",
        "1",
        "--trim",
        "idle:budget=2ms",
        "--fill",
        "50",
        &target,
    ]);
    scratch.made(&["bench", "postmark", "--number", "100", "--transactions", "100", &target]);
    std::fs::write(
        &file,
        String::from_utf8(toml).unwrap().replace("capacity_bytes", "# capacity_bytes"),
    )
    .unwrap();
    scratch.check("last");
    std::fs::remove_file(&file).unwrap();
    scratch.check("last~1");
}

#[test]
fn rerun_repeats_runs_of_a_study() {
    let scratch = Scratch::new();
    let report = scratch.0.path().join("s.html");
    let study = [
        "study",
        "drive:ocz-vertex-le-100gb",
        "--quick",
        "--policies",
        "none,idle",
        "--questions",
        "deleting,ageing",
        "--report",
    ];
    scratch.made(&[&study[..], &[report.to_str().unwrap()]].concat());
    let list = scratch.json(&["results", "list"]);
    let of = |workload: &str, policy: &str| {
        let runs = list["runs"].as_array().unwrap().iter();
        let found: Vec<&Value> =
            runs.filter(|run| run["workload"] == workload && run["policy"] == policy).collect();
        assert_eq!(found.len(), 1, "{workload} {policy}");
        found[0]["id"].as_str().unwrap().to_owned()
    };
    for (workload, policy) in [("tree", "idle"), ("postmark", "none"), ("churn", "idle")] {
        scratch.check(&of(workload, policy));
    }
    let run = scratch.json(&["results", "show", &of("churn", "idle")]);
    for key in ["volume.metadata-data", "volume.host-delete", "volume.name"] {
        assert!(run["environment"][key].is_string(), "{key}");
    }
    assert!(
        run["specification"]["drive"].as_str().unwrap().contains("name = \"ocz-vertex-le-100gb\"")
    );
    studies_belong_together(&scratch, &list);
}

#[test]
fn rerun_repeats_runs_of_a_study_with_assumptions() {
    let scratch = Scratch::new();
    let report = scratch.0.path().join("s.html");
    let study = [
        "study",
        "drive:crucial-m4-128gb",
        "--quick",
        "--policies",
        "none,online",
        "--questions",
        "deleting,assumptions",
        "--report",
    ];
    scratch.made(&[&study[..], &[report.to_str().unwrap()]].concat());
    let shown = scratch.json(&["results", "show", "study:last"]);
    let runs: Vec<&str> =
        shown["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect();
    assert_eq!(runs.len(), 4);
    runs.iter().skip(2).for_each(|id| scratch.check(id));
    assert!(shown["sensitivity"]["rows"].as_array().unwrap().len() >= 9);
}

/// Lists, shows, compares, reports and deletes runs by their study.
fn studies_belong_together(scratch: &Scratch, list: &Value) {
    let ids = |list: &Value| -> Vec<String> {
        list["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect()
    };
    scratch.made(&SIMULATE);
    assert_eq!(ids(&scratch.json(&["results", "list", "--study", "study:last"])), ids(list));
    let studies = scratch.json(&["results", "list", "--studies"]);
    assert_eq!(studies["studies"].as_array().unwrap().len(), 1);
    let id = studies["studies"][0]["id"].as_str().unwrap();
    let shown = scratch.json(&["results", "show", &format!("study:{}", &id[..8])]);
    assert_eq!(
        (shown["schema"].as_str(), shown["id"].as_str(), shown["complete"].as_bool()),
        (Some("trimtab.study"), Some(id), Some(true))
    );
    assert_eq!(
        shown["runs"].as_array().unwrap().len() + shown["ageing"].as_array().unwrap().len(),
        ids(list).len()
    );
    // The id alone suffices.
    scratch.trimtab(&["results", "show", id]).assert().success().stdout(contains("USE  "));
    scratch
        .trimtab(&["results", "compare", "study:last", "last"])
        .assert()
        .code(2)
        .stderr(contains("runs are compared, not studies"));
    // The exported study is the same in another store.
    let there = Scratch::new();
    let export = scratch.trimtab(&["results", "export"]).output().unwrap().stdout;
    there.trimtab(&["results", "import", "-"]).write_stdin(export).assert().success();
    assert_eq!(there.json(&["results", "show", "study:last"]), shown);
    scratch.trimtab(&["results", "delete", "study:last"]).assert().success();
    assert_eq!(ids(&scratch.json(&["results", "list"])).len(), 1);
    scratch
        .trimtab(&["results", "show", "study:last"])
        .assert()
        .code(1)
        .stderr(contains("has no study 'study:last'"));
}

/// Runs can be imported, so the command stored in a run is untrusted.
#[test]
fn rerun_of_imported_command_changes_nothing() {
    let scratch = Scratch::new();
    scratch.made(&SIMULATE);
    let mut run = scratch.json(&["results", "show", "last"]);
    let at = |name: &str| scratch.0.path().join(name).to_str().unwrap().to_owned();
    let (file, report, tree) = (at("precious.img"), at("precious.html"), at("tree"));
    std::fs::create_dir_all(format!("{tree}/etc")).unwrap();
    std::fs::write(format!("{tree}/etc/fstab"), "/dev/x / ext4 rw 0 1\n").unwrap();
    std::fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    std::fs::write(&report, "precious").unwrap();
    let orders = at("orders");
    std::fs::write(&orders, format!("!touch {}\n", at("reached"))).unwrap();
    let drive = "drive:ocz-vertex-le-100gb";
    let commands: [&[&str]; 9] = [
        &[
            "bench",
            "crystal",
            &file,
            "--destroy",
            &file,
            "--only",
            "write",
            "--size",
            "16MiB",
            "--yes",
        ],
        &["bench", "tree", "--files", "5", "--reserve", "0", "--yes", &tree],
        &[
            "bench",
            "postmark",
            "--number",
            "5",
            "--transactions",
            "5",
            "--reserve",
            "0",
            "--yes",
            &tree,
        ],
        &["study", "--quick", "--reserve", "0", "--yes", &tree],
        &[
            "study",
            "--quick",
            "--policies",
            "none",
            "--questions",
            "deleting",
            "--report",
            &report,
            "--force",
            drive,
        ],
        &["postmark", &orders],
        &["apply", "idle", "/", "--sysroot", &tree],
        &["results", "delete", "last"],
        &[
            "drive",
            "attach",
            "ocz-vertex-le-100gb",
            "--size",
            "1GiB",
            "--no-block",
            "--nbd",
            &at("nbd"),
            "--data",
            &at("data"),
        ],
    ];
    for (n, command) in commands.iter().enumerate() {
        run["specification"]["command"] = serde_json::to_string(command).unwrap().into();
        run["seed"] = (n + 100).into();
        run["id"] = Value::Null;
        let path = at("run.json");
        std::fs::write(&path, serde_json::to_vec(&run).unwrap()).unwrap();
        scratch.trimtab(&["results", "import", &path]).assert().success();
        let in_private = |args: &[&str]| {
            scratch.trimtab(args).env("TRIMTAB_RUNTIME_DIR", at("run")).output().unwrap()
        };
        let output = in_private(&["results", "rerun", "last"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Detach in either case, in case the rerun attached a drive.
        let _ = in_private(&["drive", "detach", "--all", "--force"]);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
        let whole = std::fs::read(&file).unwrap().iter().all(|byte| *byte == 0);
        let kept = std::fs::read(&report).unwrap() == b"precious";
        assert!(whole && kept, "{command:?}: {said}");
        assert_eq!(std::fs::read_dir(&tree).unwrap().count(), 1, "{command:?}: {said}");
        assert!(
            ["reached", "nbd", "data", "tree/var"]
                .iter()
                .all(|name| !Path::new(&at(name)).exists()),
            "{command:?}: {said}"
        );
        assert_eq!(
            std::fs::read_to_string(format!("{tree}/etc/fstab")).unwrap(),
            "/dev/x / ext4 rw 0 1\n"
        );
    }
}

#[test]
fn rerun_of_unrepeatable_run_gives_the_reason() {
    let scratch = Scratch::new();
    scratch.made(&["bench", "tree", "--files", "20", "--tries", "1", "null:"]);
    let measured = contains("was measured, and a measurement is never the same again")
        .and(contains("trimtab bench tree --files 20"));
    scratch.trimtab(&["results", "rerun", "last"]).assert().code(1).stderr(measured);
    let entered = r#"{"schema": "trimtab.run", "version": 3, "workload": "tree",
        "target": "elsewhere", "target_label": "x", "provenance": "entered"}"#;
    scratch.trimtab(&["results", "import", "-"]).write_stdin(entered).assert().success();
    scratch.trimtab(&["results", "rerun", "last"]).assert().code(1).stderr(contains("was entered"));
    // An altered run, and a run from a version that did not store its inputs.
    scratch.made(&SIMULATE);
    let mut run = scratch.json(&["results", "show", "last"]);
    run.as_object_mut().unwrap().remove("id");
    run["metrics"][0]["samples"][0] = serde_json::json!(1.5);
    let import = |run: &Value| {
        scratch.trimtab(&["results", "import", "-"]).write_stdin(run.to_string()).assert().success()
    };
    import(&run);
    scratch
        .trimtab(&["results", "rerun", "last"])
        .assert()
        .code(1)
        .stdout(contains("differs in metrics\n"));
    run.as_object_mut().unwrap().remove("specification");
    run["version"] = serde_json::json!(1);
    import(&run);
    scratch
        .trimtab(&["results", "rerun", "last"])
        .assert()
        .code(1)
        .stderr(contains("kept no command and no specification"));
}

/// An imported run names files, which would be read with the rights of the user who
/// reruns it.
#[test]
fn rerun_reads_no_file_that_only_the_run_names() {
    let scratch = Scratch::new();
    let secret = scratch.0.path().join("secret");
    std::fs::write(&secret, "root:hunter2:19000\n").unwrap();
    let secret = secret.to_str().unwrap();
    scratch.made(&SIMULATE);
    let run = scratch.json(&["results", "show", "last"]);
    let commands: [Vec<String>; 3] = [
        ["drive", "replay", secret, "--drive", "ocz-vertex-le-100gb", "--format", "msr"]
            .map(str::to_owned)
            .into(),
        ["bench", "tree", "--tar", secret, "drive:ocz-vertex-le-100gb"].map(str::to_owned).into(),
        ["bench", "tree", &format!("drive:{secret}")].map(str::to_owned).into(),
    ];
    for (n, command) in commands.iter().enumerate() {
        let mut other = run.clone();
        other.as_object_mut().unwrap().remove("id");
        other["seed"] = (1000 + n).into();
        other["specification"]["command"] = serde_json::to_string(command).unwrap().into();
        scratch
            .trimtab(&["results", "import", "-"])
            .write_stdin(other.to_string())
            .assert()
            .success();
        for inputs in [&[][..], &["--input", "other"], &["--input", secret]] {
            let output = scratch
                .trimtab(&[&["results", "rerun", "last"], inputs].concat())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success(), "{command:?}: {said}");
            assert!(!said.contains("hunter2") && !said.contains("root:"), "{command:?}: {said}");
            assert!(
                !inputs.is_empty() || said.contains(&format!("--input {secret}")),
                "{command:?}: {said}"
            );
        }
    }
}

#[test]
fn results_list_shows_and_filters_labels() {
    let scratch = Scratch::new();
    scratch.made(&[
        "bench",
        "tree",
        "--files",
        "20",
        "--tries",
        "1",
        "null:",
        "--label",
        "kernel 6.18",
    ]);
    scratch.made(&[
        "bench",
        "tree",
        "--files",
        "20",
        "--tries",
        "2",
        "null:",
        "--label",
        "kernel 6.19",
    ]);
    let found = scratch.json(&["results", "list", "--label", "6.19"]);
    let runs = found["runs"].as_array().unwrap();
    assert_eq!(
        (runs.len(), runs[0]["label"].as_str(), runs[0]["settings"]["tries"].as_str()),
        (1, Some("kernel 6.19"), Some("2"))
    );
    assert_eq!(runs[0]["metric"]["name"], "delete+sync.seconds");
    let shown = contains("kernel 6.18").and(contains("kernel 6.19"));
    scratch.trimtab(&["results", "list"]).assert().success().stdout(shown);
    // The label travels with the run but is not part of its identity.
    let there = Scratch::new();
    let export = scratch.trimtab(&["results", "export"]).output().unwrap().stdout;
    there.trimtab(&["results", "import", "-"]).write_stdin(export).assert().success();
    assert_eq!(there.json(&["results", "list"]), scratch.json(&["results", "list"]));
}

#[test]
fn measured_run_stores_its_command() {
    let Some(mount) = LoopMount::tmpfs(64) else { return skip("root") };
    let scratch = Scratch::new();
    let path: &Path = &mount.path();
    scratch.made(&[
        "bench",
        "tree",
        "--files",
        "20",
        "--tries",
        "1",
        "--reserve",
        "0",
        path.to_str().unwrap(),
        "--label",
        "x",
    ]);
    let run = scratch.json(&["results", "show", "last"]);
    let command: Vec<String> =
        serde_json::from_str(run["specification"]["command"].as_str().unwrap()).unwrap();
    assert_eq!(
        command,
        [
            "bench",
            "tree",
            "--files",
            "20",
            "--tries",
            "1",
            "--reserve",
            "0",
            path.to_str().unwrap()
        ]
    );
}

#[test]
fn rerun_interrupt_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.made(&[
        "drive",
        "simulate",
        "--drive",
        "ocz-vertex-le-100gb",
        "--capacity",
        "2GB",
        "--until-written",
        "20x",
    ]);
    let temporary = scratch.0.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    let mut again = process()
        .args(["results", "rerun", "last", "--store", scratch.store().to_str().unwrap()])
        .env("TMPDIR", &temporary)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while left() == 0 {
        assert!(again.try_wait().unwrap().is_none(), "it was over before it could be interrupted");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&again),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let output = again.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), left()),
        (Some(130), 0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
