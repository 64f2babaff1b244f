//! The same fault has the same exit status in every command, and the same JSON shape with
//! `--json`.

use crate::support::{have_root, process, skip, trimtab};
use predicates::prelude::*;
use serde_json::Value;
use std::process::Stdio;

/// A file that every checkout has.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
const BELOW_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml/x");

/// Each fault, its exit status, and the arguments of every command that can meet it.
const FAULTS: &[(&str, i32, &[&[&str]])] = &[
    (
        "a path that is not there",
        1,
        &[
            &["study", "/no/such/path"],
            &["bench", "tree", "/no/such/path"],
            &["bench", "postmark", "/no/such/path"],
            &["bench", "crystal", "/no/such/path"],
            &["bench", "nfs", "/no/such/path"],
            &["bench", "age", "--total", "1GB", "/no/such/path"],
            &["bench", "tree", "null:", "--tar", "/no/such/path"],
            &["doctor", "/no/such/path"],
            &["doctor", "--sysroot", "/no/such/path"],
            &["history", "/no/such/path"],
            &["verify", "/no/such/path"],
            &["trim", "/no/such/path"],
            &["wear", "/no/such/path"],
            &["wear", "--from", "/no/such/path"],
            &["advise", "/no/such/path", "--for", "zfs"],
            &["report", "fleet", "/no/such/path"],
            &["daemon", "--config", "/no/such/path"],
            &["daemon", "--check", "--config", "/no/such/path"],
            &["apply", "idle", "/no/such/path"],
            &["apply", "idle", "/", "--sysroot", "/no/such/path"],
            &["drive", "trace", "/no/such/path"],
            &["drive", "simulate", "--trace", "/no/such/path", "--drive", "intel-x25-m-160gb"],
            &["drive", "show", "/no/such/path.toml"],
            &["drive", "attach", "/no/such/path.toml"],
        ],
    ),
    (
        "a file where a directory is wanted",
        1,
        &[
            &["study", FILE],
            &["bench", "tree", FILE],
            &["bench", "postmark", FILE],
            &["bench", "nfs", FILE],
            &["bench", "age", "--total", "1GB", FILE],
            &["doctor", "--sysroot", FILE],
            &["doctor", "/", "--record", FILE],
            &["verify", FILE],
            &["trim", FILE],
            &["apply", "idle", "/", "--sysroot", FILE],
        ],
    ),
    (
        "a path below a file",
        1,
        &[
            &["study", BELOW_FILE],
            &["bench", "tree", BELOW_FILE],
            &["doctor", BELOW_FILE],
            &["doctor", "--sysroot", BELOW_FILE],
            &["history", BELOW_FILE],
            &["verify", BELOW_FILE],
            &["trim", BELOW_FILE],
            &["advise", BELOW_FILE, "--for", "zfs"],
            &["daemon", "--check", "--config", BELOW_FILE],
            &["daemon", "--config", BELOW_FILE],
            &["apply", "idle", BELOW_FILE],
            &["results", "list", "--store", BELOW_FILE],
            &["drive", "trace", BELOW_FILE],
            &["drive", "show", BELOW_FILE],
            &["drive", "attach", BELOW_FILE],
        ],
    ),
    (
        "a directory where a file is wanted",
        1,
        &[
            &["daemon", "--check", "--config", "/proc"],
            &["daemon", "--config", "/proc"],
            &["results", "list", "--store", "/proc"],
            &["drive", "trace", "/proc"],
            &["drive", "show", "/proc"],
            &["drive", "attach", "/proc"],
            &["drive", "simulate", "--trace", "/proc", "--drive", "intel-x25-m-160gb"],
        ],
    ),
    (
        "a character device",
        1,
        &[
            &["study", "/dev/null"],
            &["bench", "tree", "/dev/null"],
            &["bench", "crystal", "/dev/null"],
            &["doctor", "/dev/null"],
            &["verify", "/dev/null"],
            &["trim", "/dev/null"],
            &["wear", "/dev/null"],
            &["wear", "--from", "/dev/null"],
            &["advise", "/dev/null", "--for", "zfs"],
            &["report", "fleet", "/dev/null"],
            &["daemon", "--check", "--config", "/dev/null"],
            &["apply", "idle", "/", "--sysroot", "/dev/null"],
            &["drive", "trace", "/dev/null"],
            &["results", "list", "--store", "/dev/null"],
        ],
    ),
    (
        "a drive that is not there",
        1,
        &[
            &["study", "drive:no-such-drive"],
            &["bench", "tree", "drive:no-such-drive"],
            &["bench", "postmark", "drive:no-such-drive"],
            &["bench", "crystal", "drive:no-such-drive"],
            &["bench", "age", "--total", "1GB", "drive:no-such-drive"],
            &["drive", "show", "no-such-drive"],
            &["drive", "attach", "no-such-drive"],
            &["drive", "simulate", "--drive", "no-such-drive"],
            &["drive", "status", "no-such-drive"],
            &["drive", "power", "no-such-drive", "cut"],
            &["drive", "detach", "no-such-drive"],
        ],
    ),
    (
        "a run that is not there",
        1,
        &[
            &["results", "show", "12345678"],
            &["results", "compare", "12345678", "12345679"],
            &["results", "report", "12345678"],
            &["results", "export", "12345678"],
            &["results", "delete", "12345678"],
            &["results", "show", "nope"],
            &["results", "show", "study:nope"],
            &["results", "show", ""],
            &["results", "compare", "nope", "last+nope"],
            &["results", "report", "study:"],
            &["results", "export", "last~x"],
            &["results", "delete", "nope"],
            &["results", "list", "--study", "nope"],
        ],
    ),
    (
        "a store that cannot be used",
        1,
        &[
            &["results", "list", "--store", "/no/such/dir/store.db"],
            &[
                "bench",
                "tree",
                "null:",
                "--files",
                "10",
                "--size",
                "100kB",
                "--store",
                "/no/such/dir/store.db",
            ],
        ],
    ),
    (
        "a policy that does not exist",
        2,
        &[
            &["trim", "/", "--policy", "idel"],
            &["apply", "idel", "/"],
            &["study", "null:", "--policies", "idel"],
            &["drive", "simulate", "--drive", "intel-x25-m-160gb", "--trim", "idel"],
            &["drive", "simulate", "--drive", "intel-x25-m-160gb", "--trim", "idel"],
        ],
    ),
    (
        "a policy with a setting out of its range",
        2,
        &[
            &["trim", "/", "--policy", "idle:budget=1h"],
            &["apply", "adaptive:share=150%", "/"],
            &["drive", "simulate", "--drive", "intel-x25-m-160gb", "--trim", "adaptive:share=150%"],
        ],
    ),
    (
        "an unknown option",
        2,
        &[
            &["study", "--no-such-option"],
            &["bench", "tree", "--no-such-option"],
            &["postmark", "--no-such-option"],
            &["drive", "list", "--no-such-option"],
            &["doctor", "--no-such-option"],
            &["verify", "--no-such-option"],
            &["trim", "--no-such-option"],
            &["history", "--no-such-option"],
            &["wear", "--no-such-option"],
            &["advise", "--no-such-option"],
            &["report", "fleet", "--no-such-option"],
            &["daemon", "--no-such-option"],
            &["apply", "--no-such-option"],
            &["results", "list", "--no-such-option"],
            &["completions", "--no-such-option"],
            &["no-such-command"],
        ],
    ),
    (
        "a number that is none",
        2,
        &[
            &["bench", "tree", "--files", "-5"],
            &["wear", "--tbw", "-5TB"],
            &["drive", "simulate", "--drive", "x", "--until-written", "-3x"],
            &["drive", "simulate", "--drive", "x", "--fill", "-5"],
        ],
    ),
];

#[test]
fn same_fault_has_same_status_in_every_command() {
    let scratch = tempfile::tempdir().unwrap();
    for (fault, status, commands) in FAULTS {
        for command in *commands {
            for json in [false, true] {
                let mut process = trimtab();
                process
                    .env("XDG_DATA_HOME", scratch.path())
                    .env("TRIMTAB_RUNTIME_DIR", scratch.path());
                process.args(*command).args(json.then_some("--json"));
                let output = process.output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(*status), "{fault}: {command:?}: {said}");
                assert!(said.starts_with("trimtab: "), "{command:?}: {said}");
                if !json {
                    assert!(output.stdout.is_empty(), "{command:?}");
                    continue;
                }
                let document: Value = serde_json::from_slice(&output.stdout)
                    .unwrap_or_else(|e| panic!("{fault}: {command:?}: {e}"));
                assert_eq!(
                    (document["schema"].as_str(), document["version"].as_u64()),
                    (Some("trimtab.error"), Some(1)),
                    "{command:?}"
                );
                let error = document["error"].as_object().unwrap();
                let mut keys: Vec<&str> = error.keys().map(String::as_str).collect();
                keys.sort_unstable();
                assert_eq!(
                    keys,
                    ["causes", "errno", "exit_status", "hint", "kind", "message"],
                    "{command:?}"
                );
                assert_eq!(error["exit_status"], *status, "{command:?}");
                assert_eq!(
                    error["kind"],
                    if *status == 2 { "usage" } else { "failed" },
                    "{command:?}"
                );
                assert!(!error["message"].as_str().unwrap().is_empty(), "{command:?}");
            }
        }
    }
}

/// An error says what to do next.
#[test]
fn refusal_of_a_wrong_argument_names_the_next_step() {
    let scratch = tempfile::tempdir().unwrap();
    let text = scratch.path().join("notes.toml");
    std::fs::write(&text, "notes\n").unwrap();
    let text = text.to_str().unwrap();
    let plan = scratch.path().join("plan.toml");
    let axes = "[base]\ndrive = \"crucial-m4-128gb\"\n[axes]\npolicy = [\"none\"]\n";
    std::fs::write(&plan, axes).unwrap();
    let plan = plan.to_str().unwrap();
    let simulate = ["drive", "simulate", "--drive", "crucial-m4-128gb"];
    let with = |more: [&'static str; 2]| [&simulate[..], &more].concat();
    for (args, next) in [
        (with(["--trace", "/tmp"]), "'/tmp' is a directory; name the file of a trace"),
        (with(["--workload", "zipf:-2"]), "below 10, as in zipf:1.1"),
        (vec!["apply", "idle", "/no/such/path"], "name a mount point of 'findmnt'"),
        (
            vec!["study", "--report", "/no/such/path/x.html"],
            "No such file or directory (os error 2); name a file in a directory that exists",
        ),
        (vec!["advise", "null:", "--for", "zfs"], "a block device or drive:NAME"),
        (vec!["sweep", "merge", text, "--output", "x"], "run 'trimtab sweep run PLAN"),
        (vec!["sweep", "run", plan, "--output", text], "name a directory, or a path that"),
        (vec!["drive", "show", text], "'trimtab drive show NAME --toml' prints"),
    ] {
        let output = trimtab().env("XDG_DATA_HOME", scratch.path()).args(&args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(next) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

#[test]
fn unwritable_output_error_keeps_its_errno() {
    let scratch = tempfile::tempdir().unwrap();
    let here = || {
        let mut process = trimtab();
        process.env("XDG_DATA_HOME", scratch.path());
        process
    };
    here().args(["bench", "tree", "null:", "--files", "10", "--size", "100kB"]).assert().success();
    for command in
        [["results", "report", "last", "--output"], ["results", "export", "last", "--output"]]
    {
        let run = here().args(command).args(["/no/such/dir/out", "--json"]).assert().code(1);
        let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        assert_eq!(document["error"]["errno"], 2, "{document}");
    }
}

#[test]
fn interrupt_has_status_130_and_json_document() {
    let dir = tempfile::tempdir().unwrap();
    let simulate =
        ["drive", "simulate", "--drive", "intel-x25-m-160gb", "--until-written", "1000x", "--json"];
    let tree = ["bench", "tree", "null:", "--tries", "500", "--json"];
    for args in [&simulate[..], &tree] {
        let child = process()
            .args(args)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1500));
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::INT,
        )
        .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{args:?}");
        // Commands that store partial results print them as their document.
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let of_error =
            document["schema"] == "trimtab.error" && document["error"]["kind"] == "interrupted";
        assert!(of_error || document["complete"] == false, "{document}");
    }
}

#[test]
fn daemon_check_reports_place_and_names_unmounted() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("t.toml");
    let check = || {
        let mut process = trimtab();
        process.args(["daemon", "--check", "--config"]).arg(&config);
        process
    };
    let write = |text: &str| {
        std::fs::write(&config, text).unwrap();
        std::fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .unwrap();
    };
    write(
        "[[filesystem]]\npath = \"home\"\npolicy = \"idel\"\n[[filesystem]]\n\
            path = \"/\"\npolicy = \"adaptive:share=150%\"\n",
    );
    let run = check().assert().code(2).stdout("");
    let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(
        said.contains("t.toml:2: path: 'home' is not an absolute path")
            && said.lines().count() == 1,
        "{said}"
    );
    let run = check().arg("--json").assert().code(2);
    let document: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(
        (document["right"].as_bool(), document["errors"].as_array().unwrap().len()),
        (Some(false), 1),
        "{document}"
    );
    write(
        "[[filesystem]]\npath = \"/\"\npolicy = \"idle\"\n[[filesystem]]\n\
            path = \"/no/such/mount\"\npolicy = \"none\"\n",
    );
    let absent = predicate::str::contains("/no/such/mount: none; not mounted now");
    check().assert().success().stdout(absent.and(predicate::str::contains("not mounted").count(1)));
}

#[test]
fn daemon_lines_have_time_unless_journal_adds_it() {
    if !have_root() {
        return skip("root");
    }
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("t.toml");
    let state = dir.path().join("state");
    std::fs::write(
        &config,
        format!(
            "[daemon]\nstate = {state:?}\n[[filesystem]]\npath = \"/no/such/mount\"\n\
        policy = \"idle\"\n"
        ),
    )
    .unwrap();
    std::fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let lines = |journal: bool| {
        let file = std::fs::File::create(dir.path().join("log")).unwrap();
        let stat = rustix::fs::fstat(&file).unwrap();
        let mut command = process();
        command.args(["daemon", "--config"]).arg(&config).env("TRIMTAB_RUNTIME_DIR", dir.path());
        // As systemd sets it: for this standard error, or inherited and naming another
        // file.
        let inode = if journal { stat.st_ino } else { stat.st_ino + 1 };
        command
            .env("JOURNAL_STREAM", format!("{}:{inode}", stat.st_dev))
            .stderr(file)
            .stdout(Stdio::null());
        let mut daemon = command.spawn().unwrap();
        let log = || std::fs::read_to_string(dir.path().join("log")).unwrap();
        while !log().ends_with('\n') && daemon.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        log()
    };
    let own = lines(false);
    assert!(
        predicate::str::is_match(
            r"(?m)^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ /no/such/mount is not mounted"
        )
        .unwrap()
        .eval(&own),
        "{own}"
    );
    let journal = lines(true);
    assert!(journal.starts_with("/no/such/mount is not mounted"), "{journal}");
}

/// Collects every option of `command` and its subcommands, with the command path.
fn options(command: &clap::Command, path: &[String], found: &mut Vec<(Vec<String>, String)>) {
    for arg in command
        .get_arguments()
        .filter(|arg| arg.get_action().takes_values() && !arg.is_positional())
    {
        found.extend(arg.get_long().map(|long| (path.to_vec(), format!("--{long}"))));
    }
    for sub in command.get_subcommands() {
        options(sub, &[path, &[sub.get_name().to_owned()]].concat(), found);
    }
}

#[test]
fn invalid_number_is_refused_in_one_line_with_expected() {
    use trimtab::cmd::cli;
    let whole = cli::command();
    let mut all = Vec::new();
    options(&whole, &[], &mut all);
    let (mut numbers, mut parser) = (0, cli::command());
    for (path, option) in all {
        let words = |value: &str| -> Vec<String> {
            ["trimtab".to_owned()]
                .into_iter()
                .chain(path.iter().cloned())
                .chain([format!("{option}={value}")])
                .collect()
        };
        let mut refused = |value: &str| {
            parser
                .try_get_matches_from_mut(words(value))
                .err()
                .filter(|error| error.kind() == clap::error::ErrorKind::ValueValidation)
        };
        // Skip options that accept any text or no number at all.
        if refused("abc").is_none()
            || ["1", "60", "4096", "0.5", "10s", "4096:8192", "0+4096"]
                .into_iter()
                .all(|value| refused(value).is_some())
        {
            continue;
        }
        numbers += 1;
        for value in ["-5", "abc", "NaN", "", "99999999999999999999999"] {
            let error =
                refused(value).unwrap_or_else(|| panic!("{path:?} {option} takes '{value}'"));
            let said = cli::said(&error, &words(value), &whole).unwrap().to_string();
            says_what_is_wanted(&said, &path, &option, value);
        }
        // The program itself prints the same; checked for every eighth option.
        if numbers % 8 == 0 {
            let refused =
                trimtab().args(&words("abc")[1..]).env("HOME", "/nonexistent").assert().code(2);
            says_what_is_wanted(
                &String::from_utf8(refused.get_output().stderr.clone()).unwrap(),
                &path,
                &option,
                "abc",
            );
        }
    }
    assert!(numbers > 80, "{numbers} options want a number or something like it");
}

#[track_caller]
fn says_what_is_wanted(said: &str, path: &[String], option: &str, value: &str) {
    let what = format!("{path:?} {option}={value}: {said}");
    assert_eq!(said.lines().count(), 1, "{what}");
    assert!(said.contains(&format!("invalid value '{value}' for '{option} <")), "{what}");
    for riddle in ["digit", "literal", "target type", "empty string", "not in "] {
        assert!(!said.contains(riddle), "{what}");
    }
    let wanted = said.split("': ").nth(1).unwrap_or_default();
    assert!(wanted.len() > "; 'trimtab --help' says more".len() + 10, "{what}");
}

/// Regression: a benchmark ran to its end before it found no space for its result, and
/// the error for a missing target suggested `null:`, which no study accepts.
#[test]
fn unusable_store_or_target_is_refused_before_run() {
    let missing =
        trimtab().args(["study", "/no/such/path"]).assert().code(1).get_output().stderr.clone();
    let missing = String::from_utf8(missing).unwrap();
    assert!(missing.contains("drive:NAME") && !missing.contains("null:"), "{missing}");
    for force in [&[][..], &["--force"][..]] {
        let mut study = trimtab();
        study
            .args(["study", "--quick", "drive:intel-x25-m-160gb", "--report", "/proc/x.html"])
            .args(force);
        study
            .assert()
            .code(1)
            .stdout("")
            .stderr(predicate::str::contains("cannot write /proc/x.html"));
    }
    let Some(full) = crate::support::LoopMount::tmpfs(8) else { return skip("root and tmpfs") };
    let store = full.path().join("results.db");
    let bench = |store: &std::path::Path| {
        let mut command = trimtab();
        command
            .args(["bench", "tree", "null:", "--files", "10", "--size", "100kB", "--store"])
            .arg(store);
        command
    };
    // A directory that others may write to was also detected late.
    bench(&store)
        .assert()
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains("others may write to it"));
    std::fs::set_permissions(full.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    bench(&store).assert().success();
    std::fs::write(full.path().join("ballast"), vec![0x5a; 6 << 20]).unwrap();
    for store in [store.clone(), full.path().join("another.db")] {
        let said = predicate::str::contains("free there, and a run takes up to")
            .and(predicate::str::contains("--store"));
        bench(&store).assert().code(1).stdout("").stderr(said);
        trimtab()
            .args(["study", "--quick", "drive:intel-x25-m-160gb", "--store"])
            .arg(&store)
            .assert()
            .code(1)
            .stdout("");
    }
    assert!(!full.path().join("another.db").exists());
}

#[test]
fn impossible_drive_settings_are_refused_before_run() {
    let simulate = |drive: &str| {
        let mut command = trimtab();
        command.args([
            "drive",
            "simulate",
            "--workload",
            "random",
            "--trims",
            "10",
            "--capacity",
            "1GiB",
            "--drive",
            drive,
        ]);
        command
    };
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old.toml");
    let text = "name = \"old\"\ndescription = \"x\"\ncapacity_bytes = 64_000_000_000\n\
        [flash.trim]\nsupported = false\n";
    std::fs::write(&old, text).unwrap();
    let said = predicate::str::contains("old.toml does not support TRIM")
        .and(predicate::str::contains("leave --trims out"));
    simulate(old.to_str().unwrap()).assert().code(2).stdout("").stderr(said);
    let simulate = ["drive", "simulate", "--drive", "ocz-vertex-le-100gb"];
    for (args, said) in [
        (
            ["--reads", "100"],
            "never ends; leave a share for writes; for reads alone, use 'bench load",
        ),
        (["--capacity", "1"], "a size of 1 B is not possible; "),
        (["--capacity", "512TB"], "TB is possible for this drive"),
    ] {
        trimtab().args(simulate).args(args).assert().code(2).stderr(predicate::str::contains(said));
    }
    let plain = tempfile::tempdir().unwrap();
    std::fs::write(plain.path().join("plain.csv"), "x").unwrap();
    let mut show = trimtab();
    let show = show.current_dir(plain.path()).args(["drive", "show", "plain.csv"]);
    show.assert().failure().stderr(predicate::str::contains("a drive file must end in .toml"));
    // An engine that compresses one byte per second would need over an hour for 4 KiB.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("slow.toml");
    let show = |engine: u64| {
        let drive = "name = \"slow\"\ndescription = \"t\"\ncapacity_bytes = 1073741824\n\
            [flash.compression]\nstored_permille_min = 140\ngranularity_bytes = 4096\n";
        std::fs::write(&file, format!("{drive}engine_bytes_per_s = {engine}\n")).unwrap();
        trimtab().args(["drive", "show"]).arg(&file).assert()
    };
    let said = predicate::str::contains("flash.compression.engine_bytes_per_s")
        .and(predicate::str::contains("1000000"));
    show(1).code(2).stdout("").stderr(said);
    show(1_000_000).success();
    for fill in ["0", "9", "91"] {
        trimtab()
            .args(["study", "drive:intel-x25-m-160gb", "--fill", fill])
            .assert()
            .code(2)
            .stderr(predicate::str::contains("from 10 to 90"));
    }
}

/// Regression: "No space left on device" did not name the report, and the JSON lacked
/// `use`.
#[test]
fn unwritable_report_is_named_and_result_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let mut study = trimtab();
    study.args([
        "study",
        "--quick",
        "drive:ocz-vertex-le-100gb",
        "--policies",
        "none",
        "--questions",
        "deleting",
        "--json",
        "--store",
    ]);
    let output =
        study.arg(dir.path().join("s.db")).args(["--report", "/dev/full"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot write /dev/full: No space left on device")
            && said.contains("the runs are kept"),
        "{said}"
    );
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A single policy has nothing to compare with.
    assert_eq!(json["use"], Value::Null);
    assert!(json.as_object().unwrap().contains_key("use"), "null, and not left out");
    assert_eq!(
        (&json["verdict"]["recommendation"], &json["verdict"]["rule"]),
        (&"unknown".into(), &"too_little".into())
    );
    let export = |place: &str| {
        let mut export = trimtab();
        export
            .args(["results", "export", "--output", place, "--store"])
            .arg(dir.path().join("s.db"))
            .assert()
    };
    let full = export("/dev/full");
    full.code(1)
        .stderr(predicates::str::contains("cannot write /dev/full: No space left on device"));
}

#[test]
fn full_standard_output_is_named() {
    for args in [&["drive", "list"][..], &["drive", "list", "--json"], &["trim", "--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = process().args(args).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        let expected = "trimtab: cannot write standard output: No space left on device";
        assert!(said.starts_with(expected) && said.lines().count() == 1, "{args:?}: {said}");
    }
}

/// Every row of docs/errors.md: invocation, status and a part of the answer.
#[test]
fn errors_page_quotes_actual_messages() {
    let page = include_str!("../../../../docs/errors.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split(" | ").collect())
        .collect();
    assert!(rows.len() >= 10);
    for row in rows {
        let words = row[0].trim_matches(['|', '`', ' ']).split_whitespace().skip(1);
        let refused = trimtab().args(words).assert().code(row[1].parse::<i32>().unwrap());
        let answer = row[2].trim_end_matches(['|', ' ']).trim_matches('`').to_owned();
        refused.stdout("").stderr(predicate::str::contains(answer));
    }
}
