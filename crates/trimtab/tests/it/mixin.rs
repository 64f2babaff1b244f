//! Rules and dashboards for Prometheus and Grafana (`packaging/mixin`), and the metrics
//! they use.

use crate::support::{have_tool, skip};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trimtab::daemon::metrics::{Figures, MountVerdict, render};

const DASHBOARDS: [&str; 3] = ["fleet.json", "host.json", "drive.json"];

fn mixin() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/mixin")
}

fn read(name: &str) -> String {
    fs::read_to_string(mixin().join(name)).unwrap()
}

/// Runs promtool, which must find no fault.
fn require_promtool(args: &[&str], input: &str) {
    let mut promtool = Command::new("promtool");
    let mut child = promtool
        .args(args)
        .current_dir(mixin())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    assert!(output.status.success(), "promtool {args:?}: {said}\n{input}");
}

/// `promtool check metrics` accepts names, types and help of this text.
pub fn require_clean_metrics(text: &str) {
    if !have_tool("promtool") {
        return skip("promtool");
    }
    require_promtool(&["check", "metrics"], text);
}

/// Expressions of all panels of the dashboards.
fn expressions() -> Vec<String> {
    let mut found = Vec::new();
    for name in DASHBOARDS {
        let dashboard: Value = serde_json::from_str(&read(&format!("dashboards/{name}"))).unwrap();
        for target in dashboard["panels"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|panel| panel["targets"].as_array().unwrap())
        {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{name}: {target}");
            found.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn promtool_accepts_rules_alerts_and_dashboards() {
    if !have_tool("promtool") {
        return skip("promtool");
    }
    require_promtool(&["check", "rules", "rules.yaml", "alerts.yaml"], "");
    require_promtool(&["test", "rules", "alerts_test.yaml"], "");
    // JSON is YAML. Grafana replaces its own variables.
    let rules = expressions().into_iter().enumerate();
    let rules: Vec<Value> =
        rules.map(|(number, expr)| json!({ "record": format!("r{number}"), "expr": expr.replace("$__rate_interval", "5m") })).collect();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("dashboards.yaml");
    fs::write(&file, json!({ "groups": [{ "name": "dashboards", "rules": rules }] }).to_string())
        .unwrap();
    require_promtool(&["check", "rules", file.to_str().unwrap()], "");
}

/// What the daemon writes for a filesystem.
fn metrics_of_daemon() -> String {
    let verdict = Some(MountVerdict { kind: "reaches", layers: String::new() });
    let (mount_point, fs_type, policy) = ("/".into(), "ext4".into(), "idle".into());
    let last_pass_unix_s = Some(0);
    let known =
        Figures { mount_point, fs_type, policy, verdict, last_pass_unix_s, ..Figures::default() };
    render(&[known])
}

/// Names of the metrics that the daemon and `wear` write.
fn written() -> BTreeSet<String> {
    let text = metrics_of_daemon() + &crate::wear::metrics_of_drive();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// The node exporter refuses a metric that two files describe. Other exporters use other
/// names, because all begin with the name of the program.
#[test]
fn no_metric_is_in_two_files() {
    let types = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.strip_prefix("# TYPE ")?.to_owned())).collect()
    };
    let files = [types(&metrics_of_daemon()), types(&crate::wear::metrics_of_drive())];
    let all: BTreeSet<&String> = files.iter().flatten().collect();
    assert_eq!(all.len(), files[0].len() + files[1].len(), "{files:?}");
    assert!(all.iter().all(|line| line.starts_with("trimtab_")), "{all:?}");
}

/// `TRIMTAB_SOAK_HOSTS=1000` sets the number of hosts.
#[test]
fn alerts_of_thirty_days_name_each_fault_and_no_other_host() {
    if !["promtool", "prometheus", "python3"].into_iter().all(have_tool) {
        return skip("prometheus and python3");
    }
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("trimtab.prom");
    let drives = [crate::wear::metrics_of_drive(), crate::wear::metrics_of_unread_drive()];
    fs::write(&file, metrics_of_daemon() + &drives.concat()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/thirty_days.py");
    let hosts = std::env::var("TRIMTAB_SOAK_HOSTS").unwrap_or_else(|_| "20".to_owned());
    let mut command = Command::new("python3");
    let output = command.arg(script).arg(mixin()).arg(hosts).arg(file).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    eprintln!("{said}");
}

#[test]
fn mixin_names_only_metrics_that_are_written() {
    let rules = read("rules.yaml");
    let recorded =
        rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).map(str::to_owned);
    let known: BTreeSet<String> = written().into_iter().chain(recorded).collect();
    let texts = [rules.clone(), read("alerts.yaml"), read("alerts_test.yaml")]
        .into_iter()
        .chain(expressions());
    let mut used = BTreeSet::new();
    for text in texts {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let names = text.split(|c| !is_of_name(c)).map(|name| name.trim_end_matches(':'));
        let names = names.map(|name| name.trim_end_matches("_bucket"));
        used.extend(names.filter(|name| name.contains("trimtab_")).map(str::to_owned));
    }
    let unknown: Vec<&String> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "neither written nor recorded: {unknown:?}");
    // The dashboards show everything that is written.
    let unused: Vec<&String> = known.difference(&used).collect();
    assert!(unused.is_empty(), "shown nowhere: {unused:?}");
}

#[test]
fn alerts_are_tested_and_name_valid_commands() {
    let (alerts, tests) = (read("alerts.yaml"), read("alerts_test.yaml"));
    let parts: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(parts.len() >= 10, "{}", parts.len());
    for part in parts {
        let name = part.lines().next().unwrap();
        let tested = tests.contains(&format!(
            "        alertname: {name}\n        exp_alerts:\n          - exp_labels:"
        ));
        let is_told =
            ["summary: ", "description: ", "runbook: "].iter().all(|key| part.contains(key));
        assert!(tested && is_told, "{name}");
        let (_, runbook) = part.split_once("runbook: ").unwrap();
        let runbook = runbook
            .replace("{{ $labels.mountpoint }}", "/")
            .replace("{{ $labels.device }}", "/dev/sda");
        let commands = runbook
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|command| command.trim_start_matches("sudo "));
        let ours: Vec<&str> = commands.filter(|command| command.starts_with("trimtab ")).collect();
        assert!(!ours.is_empty(), "{name}: {runbook}");
        for command in ours {
            let parsed = trimtab::cmd::cli::command().try_get_matches_from(command.split(' '));
            assert!(parsed.is_ok(), "{name}: {command}: {parsed:?}");
        }
    }
}

#[test]
fn dashboards_match_output_of_their_script() {
    if !have_tool("python3") {
        return skip("python3");
    }
    let scratch = tempfile::tempdir().unwrap();
    let status = Command::new("python3")
        .arg(mixin().join("make_dashboards.py"))
        .arg(scratch.path())
        .status()
        .unwrap();
    assert!(status.success());
    for name in DASHBOARDS {
        let made = fs::read_to_string(scratch.path().join(name)).unwrap();
        assert!(
            made == read(&format!("dashboards/{name}")),
            "{name}: run packaging/mixin/make_dashboards.py"
        );
    }
    assert_eq!(fs::read_dir(mixin().join("dashboards")).unwrap().count(), DASHBOARDS.len());
}
