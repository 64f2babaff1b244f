//! `trimtab report fleet`: every figure against a count over the input, and hostile
//! input.

use crate::support::trimtab;
use crate::sysroot::unpack;
use predicates::str::contains;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A collection of documents in a private directory.
struct Collection(tempfile::TempDir);

impl Collection {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn add(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join("hosts").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn hosts(&self) -> PathBuf {
        self.0.path().join("hosts")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The report as JSON, and the exit status.
    fn report(&self) -> (i32, Value) {
        let output =
            trimtab().args(["report", "fleet", "--json"]).arg(self.hosts()).output().unwrap();
        (
            output.status.code().unwrap(),
            serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        )
    }

    /// The page, written to a new file.
    fn page(&self, name: &str) -> String {
        let output = self.at(name);
        trimtab()
            .args(["report", "fleet", "--quiet"])
            .arg(self.hosts())
            .arg("--output")
            .arg(&output)
            .output()
            .unwrap();
        fs::read_to_string(output).unwrap()
    }
}

fn doctor(diagnoses: &[Value]) -> String {
    json!({ "schema": "trimtab.doctor", "version": 1, "diagnoses": diagnoses, "not_judged": [], "full": [] }).to_string()
}

fn wear(drives: &[Value], failures: &[Value]) -> String {
    json!({ "schema": "trimtab.wear", "version": 1, "drives": drives, "failures": failures })
        .to_string()
}

/// A diagnosis of a filesystem on one drive below a dm-crypt volume.
fn diagnosis(
    subject: &str,
    drive: &str,
    kind: &str,
    trimmed_by: &[&str],
    findings: &[Value],
) -> Value {
    let at: &[&str] = if kind == "blocked" { &["dm-0 home [crypt]"] } else { &[] };
    json!({
        "subject": subject, "verdict": { "kind": kind, "at": at, "reaches": [], "text": format!("TRIM {kind}") },
        "filesystem": { "name": subject, "kind": "ext4", "findings": [] },
        "layers": [
            { "name": "dm-0 home", "kind": "crypt", "findings": [] },
            { "name": format!("{drive} (Example 1)"), "kind": "nvme", "findings": findings },
        ],
        "trimmed_by": trimmed_by, "is_verdict_accepted": false, "later_field": { "x": 1 },
    })
}

fn drive(device: &str, hours: u64, used: u64, waf: f64, left: Option<f64>) -> Value {
    json!({
        "subject": device, "model": "Example 1", "host_written_bytes": 1_000_000_000_000_u64, "nand_written_bytes": null,
        "waf_lifetime": { "value": waf, "low": 1, "high": null }, "used_percent": used, "power_on_hours": hours,
        "since": null, "life_left": left.map(|days| json!({ "days": days, "low_days": 1, "high_days": null, "basis": "host writes" })),
    })
}

/// Pseudo-random numbers below `n`.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Hosts with random documents; every fifth lacks one of the two.
fn random_hosts(collection: &Collection, hosts: u64) -> Vec<(String, Value)> {
    let mut numbers = Numbers(7);
    let mut all = Vec::new();
    for host in 0..hosts {
        let name = format!("web{host}");
        let (mut diagnoses, mut drives) = (Vec::new(), Vec::new());
        for nth in 0..=numbers.below(3) {
            let kind = ["blocked", "reaches", "reaches", "unknown"][numbers.below(4) as usize];
            let policy: &[&str] =
                [&["fstrim.timer (weekly)"][..], &["online: the discard mount option"], &[]]
                    [numbers.below(3) as usize];
            let severity = ["note", "serious"][numbers.below(2) as usize];
            let fault =
                json!({ "code": "drive.known-fault", "severity": severity, "text": "a fault" });
            let faults: &[Value] = if numbers.below(4) == 0 { &[fault] } else { &[] };
            diagnoses.push(diagnosis(
                &format!("/srv/{nth}"),
                &format!("nvme{nth}n1"),
                kind,
                policy,
                faults,
            ));
            let left = (numbers.below(2) == 0).then(|| numbers.below(4000) as f64);
            let (hours, used, waf) =
                (numbers.below(50_000), numbers.below(120), numbers.below(700) as f64 / 100.0);
            drives.push(drive(&format!("/dev/nvme{nth}n1"), hours, used, waf, left));
        }
        let (doctor, wear) = (
            doctor(&diagnoses),
            wear(&drives, &[json!({ "subject": "/dev/sdz", "why": "asleep" })]),
        );
        // Both layouts of a collection.
        let names = if host % 2 == 0 {
            [format!("{name}/doctor.json"), format!("{name}/wear.json")]
        } else {
            [format!("{name}-doctor.json"), format!("{name}.wear.json")]
        };
        if host % 5 != 3 {
            collection.add(&names[0], &doctor);
            all.push((name.clone(), serde_json::from_str(&doctor).unwrap()));
        }
        if host % 5 != 4 {
            collection.add(&names[1], &wear);
            all.push((name.clone(), serde_json::from_str(&wear).unwrap()));
        }
    }
    all
}

/// The same figures, counted from the documents alone.
fn counted(documents: &[(String, Value)]) -> Value {
    let of = |schema: &str| {
        documents
            .iter()
            .filter(move |(_, document)| document["schema"] == schema)
            .collect::<Vec<_>>()
    };
    let hosts: BTreeSet<&String> = documents.iter().map(|(host, _)| host).collect();
    let list = |documents: &[&(String, Value)], key: &str| -> Vec<(String, Value)> {
        documents
            .iter()
            .flat_map(|(host, document)| {
                document[key].as_array().unwrap().iter().map(|one| (host.clone(), one.clone()))
            })
            .collect()
    };
    let (doctors, wears) = (of("trimtab.doctor"), of("trimtab.wear"));
    let (diagnoses, drives) = (list(&doctors, "diagnoses"), list(&wears, "drives"));
    let blocked: Vec<_> =
        diagnoses.iter().filter(|(_, one)| one["verdict"]["kind"] == "blocked").collect();
    let faults = |harmed: bool| {
        let is = |one: &Value| {
            one["layers"][1]["findings"]
                .as_array()
                .unwrap()
                .iter()
                .any(|f| (f["severity"] != "note") == harmed)
        };
        diagnoses.iter().filter(|(_, one)| is(one)).count()
    };
    let days_left = |drive: &Value| -> Option<f64> {
        let (hours, used) =
            (drive["power_on_hours"].as_f64().unwrap(), drive["used_percent"].as_f64().unwrap());
        let mean =
            if used == 0.0 { None } else { Some((hours / 24.0 * (100.0 - used) / used).max(0.0)) };
        drive["life_left"]["days"].as_f64().or(mean)
    };
    let count = |is: &dyn Fn(&Value) -> bool| drives.iter().filter(|(_, drive)| is(drive)).count();
    json!({
        "hosts": hosts.len(),
        "hosts_without_doctor": hosts.len() - doctors.len(),
        "hosts_without_wear": hosts.len() - wears.len(),
        "subjects": diagnoses.len(),
        "blocked": blocked.len(),
        "hosts_blocked": blocked.iter().map(|(host, _)| host).collect::<BTreeSet<_>>().len(),
        "unknown": diagnoses.iter().filter(|(_, one)| one["verdict"]["kind"] == "unknown").count(),
        "drives": drives.len(),
        "wears_fast": count(&|drive| days_left(drive).is_some_and(|days| drive["power_on_hours"].as_f64().unwrap() + days * 24.0 < 5.0 * 8760.0)),
        "ending": count(&|drive| days_left(drive).is_some_and(|days| days < 180.0)),
        "waf_high": count(&|drive| drive["waf_lifetime"]["value"].as_f64().unwrap() > 5.0),
        "readings_old": 0,
        "harmed": faults(true),
        "faults_avoided": faults(false),
        "drives_unread": wears.len(),
        "files_unread": 0,
    })
}

#[test]
fn figures_of_a_fleet_are_those_of_its_documents() {
    let collection = Collection::new();
    let documents = random_hosts(&collection, 60);
    let (status, report) = collection.report();
    let expected = counted(&documents);
    assert_eq!((status, &report["counts"]), (0, &expected));
    assert!(
        ["blocked", "wears_fast", "ending", "waf_high", "harmed"]
            .iter()
            .all(|key| expected[*key].as_u64() > Some(3)),
        "{expected}"
    );

    // Each policy's drives and median, from the two documents of each host.
    let mut wafs: BTreeMap<Option<String>, Vec<f64>> = BTreeMap::new();
    for (host, document) in
        documents.iter().filter(|(_, document)| document["schema"] == "trimtab.wear")
    {
        let doctor = documents
            .iter()
            .find(|(other, document)| other == host && document["schema"] == "trimtab.doctor");
        for (nth, drive) in document["drives"].as_array().unwrap().iter().enumerate() {
            let by =
                doctor.map(|(_, document)| match &document["diagnoses"][nth]["trimmed_by"][0] {
                    Value::String(by) => by.clone(),
                    _ => "nothing".to_owned(),
                });
            wafs.entry(by).or_default().push(drive["waf_lifetime"]["value"].as_f64().unwrap());
        }
    }
    let policies = report["policies"].as_array().unwrap();
    assert_eq!(policies.len(), wafs.len());
    for (by, mut wafs) in wafs {
        let found =
            policies.iter().find(|policy| policy["trimmed_by"].as_str() == by.as_deref()).unwrap();
        wafs.sort_by(f64::total_cmp);
        let (low, high) = (wafs[(wafs.len() - 1) / 2], wafs[wafs.len() / 2]);
        assert_eq!(found["drives"], wafs.len());
        assert!(
            (found["waf_median"].as_f64().unwrap() - (low + high) / 2.0).abs() < 1e-9,
            "{by:?}: {found}"
        );
    }

    // The page and the first screen show the same counts.
    let page = collection.page("fleet.html");
    let screen = trimtab()
        .args(["report", "fleet"])
        .arg(collection.hosts())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    for (label, key) in [
        ("TRIM blocked", "blocked"),
        ("wears too fast", "wears_fast"),
        ("ending", "ending"),
        ("harmed by TRIM", "harmed"),
    ] {
        let count = expected[key].to_string();
        assert!(
            page.contains(&format!("<th scope=\"row\">{label}</th><td>{count}</td>")),
            "{label} {count}"
        );
        let row = screen.lines().find(|line| line.starts_with(label)).unwrap();
        assert_eq!(row[label.len()..].split_whitespace().next(), Some(count.as_str()), "{row}");
    }
    // Each is in its own table and, folded, in the one of all drives.
    let rows = |id: &str| {
        page.split(id)
            .nth(1)
            .unwrap()
            .split("</section>")
            .next()
            .unwrap()
            .matches("<tr><th scope=\"row\">")
            .count() as u64
    };
    assert_eq!(rows("<h2>Worst problems, at most ten</h2>"), 10);
    let blocked = expected["blocked"].as_u64().unwrap();
    assert_eq!(rows("<h2>Blocked TRIM</h2>"), blocked + 1, "one layer, and one row for each");
    let all = page.split("<h2>All drives</h2>").nth(1).unwrap().split("</details>").next().unwrap();
    assert_eq!(
        all.matches("<tr><th scope=\"row\">").count() as u64,
        expected["drives"].as_u64().unwrap()
    );
}

#[test]
fn worst_problems_are_ordered_by_harm_then_by_time_left() {
    let collection = Collection::new();
    let fault = json!({ "code": "drive.trim-loses-data", "severity": "serious", "text": "TRIM is known to lose data" });
    collection.add(
        "a/doctor.json",
        doctor(&[
            diagnosis("/", "nvme0n1", "blocked", &[], &[]),
            diagnosis("/b", "nvme1n1", "reaches", &[], &[fault]),
        ]),
    );
    // 2,000 h used 40 %: 3,000 h or 125 days are left.
    // 10,000 h and 700 days are 1,117 days or 3.06 years.
    let drives = [
        drive("/dev/nvme0n1", 10_000, 3, 1.0, Some(700.0)),
        drive("/dev/nvme1n1", 2000, 40, 1.0, None),
        drive("/dev/nvme2n1", 20_000, 100, 1.0, None),
    ];
    collection.add("a/wear.json", wear(&drives, &[]));
    let (_, report) = collection.report();
    let worst: Vec<(&str, &str)> = report["worst"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["problem"].as_str().unwrap(), one["subject"].as_str().unwrap()))
        .collect();
    let expected = [
        ("harmed", "nvme1n1 (Example 1)"),
        ("ending", "/dev/nvme2n1"),
        ("ending", "/dev/nvme1n1"),
        ("wears-fast", "/dev/nvme0n1"),
        ("blocked", "/"),
    ];
    assert_eq!(worst, expected);
    assert_eq!(report["worst"][2]["life_left_days"], 125.0);
    let screen = trimtab()
        .args(["report", "fleet"])
        .arg(collection.hosts())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    for said in [
        "the rated life is used up",
        "ends in 125 days",
        "after 3.06 years of service, 5 are planned",
        "TRIM blocked at dm-0 home [crypt]",
    ] {
        assert!(screen.contains(said), "{said}:\n{screen}");
    }
    assert_eq!(report["layers"], json!([{ "kind": "crypt", "subjects": 1, "hosts": 1 }]));
}

/// Oracle: a year is 365 days. Of 100 h at 10 %, 900 h or 37.5 days were left. After 29
/// days, these are 8.5 days; after 365 days, they ended 327.5 days ago.
#[test]
fn old_reading_is_marked_and_without_hours_no_life_is_known() {
    let collection = Collection::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let taken = |days: u64, hours: u64, used: u64| {
        let mut one = drive("/dev/nvme0n1", hours, used, 1.0, None);
        one["taken_unix_s"] = json!(now - days * 86_400);
        wear(&[one], &[])
    };
    collection.add("new/wear.json", taken(29, 100, 10));
    collection.add("old/wear.json", taken(365, 100, 10));
    collection.add("hourless/wear.json", taken(0, 0, 94));
    collection.add("worn/wear.json", taken(10, 100, 100));
    let mut future = drive("/dev/nvme0n1", 100, 10, 1.0, None);
    future["taken_unix_s"] = json!(now + 90 * 86_400);
    collection.add("future/wear.json", wear(&[future], &[]));
    let (_, report) = collection.report();
    assert_eq!(
        (&report["counts"]["readings_old"], &report["counts"]["ending"]),
        (&json!(2), &json!(4))
    );
    let hourless = report["drives"]
        .as_array()
        .unwrap()
        .iter()
        .find(|drive| drive["host"] == "hourless")
        .unwrap();
    assert_eq!(
        (&hourless["life_left_days"], &hourless["wears_fast"]),
        (&Value::Null, &json!(false))
    );
    let screen = trimtab()
        .args(["report", "fleet"])
        .arg(collection.hosts())
        .assert()
        .success()
        .get_output()
        .stdout
        .clone();
    let screen = String::from_utf8(screen).unwrap();
    let problem = |host: &str| {
        screen
            .lines()
            .find(|line| line.starts_with(host) && line.contains("/dev/"))
            .unwrap()
            .to_owned()
    };
    assert!(
        problem("old ")
            .ends_with("the rated life ended 328 days ago, if the rate stayed (read 365 days ago)"),
        "{screen}"
    );
    assert!(problem("new ").ends_with("the rated life ends in 8.50 days"), "{screen}");
    assert!(problem("worn ").ends_with("the rated life is used up"), "{screen}");
    assert!(
        problem("future ")
            .ends_with("37.5 days (dated 90.0 days in the future: its clock is wrong)"),
        "{screen}"
    );
    assert!(
        collection
            .page("old.html")
            .replace('\u{a0}', " ")
            .contains("ended 328 days ago (read 365 days ago)")
    );
}

#[test]
fn newest_reading_is_used_and_deeper_directories_are_named() {
    let collection = Collection::new();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let reading = |days: i64, used: u64| {
        let mut one = drive("/dev/nvme0n1", 100, used, 1.0, None);
        one["taken_unix_s"] = json!(now as i64 - days * 86_400);
        wear(&[one], &[])
    };
    collection.add("h1/a-wear.json", reading(40, 1));
    collection.add("h1/b-wear.json", reading(2, 7));
    collection.add("h1/c-wear.json", reading(3, 5));
    collection.add("h1/d-wear.json", reading(-400, 9));
    collection.add("site2/h2/wear.json", reading(1, 1));
    collection.add(".git/objects/x.json", "{");
    let (status, report) = collection.report();
    assert_eq!((status, &report["drives"][0]["used_percent"]), (1, &json!(7)), "{report:#}");
    let unread: Vec<(&str, &str)> = report["files_unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let file = one["file"].as_str().unwrap().rsplit("hosts/").next().unwrap();
            (file, one["why"].as_str().unwrap())
        })
        .collect();
    let files: BTreeSet<&str> = unread.iter().map(|(file, _)| *file).collect();
    let expected = ["h1/a-wear.json", "h1/c-wear.json", "h1/d-wear.json", "site2/h2"];
    assert_eq!(files, BTreeSet::from(expected), "{unread:?}");
    let (_, why) = unread.iter().find(|(file, _)| *file == "site2/h2").unwrap();
    assert!(why.contains("is not read") && why.contains("hosts/site2' as PATH"), "{why}");
}

/// A host can send links; root's collection would then read any file of this machine.
#[test]
fn links_in_a_directory_are_listed_and_not_followed() {
    let collection = Collection::new();
    let good = doctor(&[diagnosis("/", "nvme0n1", "blocked", &[], &[])]);
    let outside = collection.at("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("doctor.json"), &good).unwrap();
    collection.add("good/doctor.json", &good);
    symlink(outside.join("doctor.json"), collection.hosts().join("good/wear.json")).unwrap();
    symlink(outside.join("doctor.json"), collection.hosts().join("file-doctor.json")).unwrap();
    symlink(&outside, collection.hosts().join("directory")).unwrap();
    symlink(&outside, collection.at("named")).unwrap();
    let (status, report) = collection.report();
    let unread = report["files_unread"].as_array().unwrap();
    assert_eq!((status, &report["counts"]["hosts"], unread.len()), (1, &json!(1), 3), "{report}");
    assert!(
        unread.iter().all(|one| one["why"].as_str().unwrap().starts_with("is a symbolic link")),
        "{unread:?}"
    );
    trimtab()
        .args(["report", "fleet"])
        .arg(collection.at("named"))
        .assert()
        .success()
        .stdout(contains("Fleet: 1 host"));
}

/// The documents that this program prints, from a recorded machine and from a file of
/// smartctl.
#[test]
fn documents_of_this_program_are_read() {
    let collection = Collection::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/sysroots/luks-without-discards.txt");
    let tree = unpack(&fs::read_to_string(fixture).unwrap());
    let diagnosed = trimtab()
        .args(["doctor", "--all", "--json", "--sysroot"])
        .arg(tree.path())
        .output()
        .unwrap();
    collection.add("one/doctor.json", &diagnosed.stdout);
    let smart = json!({
        "smartctl": { "exit_status": 0 }, "device": { "protocol": "NVMe" }, "model_name": "Example", "power_on_time": { "hours": 876 },
        "nvme_smart_health_information_log": { "percentage_used": 7, "data_units_written": 1000 },
    });
    let smart = collection.at("smart.json").tap(|path| fs::write(path, smart.to_string()).unwrap());
    let read = trimtab().args(["wear", "--json", "--from"]).arg(smart).output().unwrap();
    collection.add("one/wear.json", &read.stdout);
    let (status, report) = collection.report();
    let document: Value = serde_json::from_slice(&diagnosed.stdout).unwrap();
    let blocked = document["diagnoses"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["verdict"]["kind"] == "blocked")
        .count();
    assert!(blocked > 0);
    assert_eq!(
        (status, &report["counts"]["blocked"], &report["layers"][0]["kind"]),
        (0, &json!(blocked), &json!("crypt"))
    );
    let drive = &report["drives"][0];
    assert_eq!(
        (&drive["used_percent"], &drive["host_written_bytes"]),
        (&json!(7), &json!(512_000_000))
    );
    // 36.5 days used 7 %: 484.9 days are left.
    assert_eq!(drive["life_left_days"].as_f64().map(|days| (days * 10.0).round()), Some(4849.0));
}

#[test]
fn figures_that_cannot_be_right_are_left_out() {
    let collection = Collection::new();
    let drives = [drive("/dev/sda", 1 << 60, 5, 1e300, Some(1e300))];
    collection.add("a/wear.json", wear(&drives, &[]));
    let (status, report) = collection.report();
    let drive = &report["drives"][0];
    let left_out = ["waf", "power_on_hours", "life_left_days", "service_years"];
    assert_eq!((status, left_out.map(|key| drive[key].is_null())), (0, [true; 4]), "{drive:#}");
    assert_eq!(report["counts"]["waf_high"], 0);
}

trait Tap: Sized {
    fn tap(self, act: impl FnOnce(&Self)) -> Self {
        act(&self);
        self
    }
}

impl Tap for PathBuf {}

#[test]
fn unusable_files_are_listed_and_the_rest_is_reported() {
    let collection = Collection::new();
    let good = doctor(&[diagnosis("/", "nvme0n1", "reaches", &[], &[])]);
    collection.add("good/doctor.json", &good);
    collection.add("good-doctor.json", &good);
    collection.add("cut/doctor.json", &good[..good.len() / 2]);
    collection.add(
        "deep/doctor.json",
        format!(
            "{{\"schema\":\"trimtab.doctor\",\"version\":1,\"diagnoses\":{}",
            "[".repeat(100_000)
        ),
    );
    collection.add(
        "deep2/wear.json",
        format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
    );
    collection.add(
        "number/wear.json",
        wear(&[], &[]).replace("[]", "[{\"subject\":\"/dev/sda\",\"power_on_hours\":1e999}]"),
    );
    collection.add("later/doctor.json", good.replace("\"version\":1", "\"version\":2"));
    collection.add("foreign/doctor.json", "{\"schema\":\"x\"}");
    collection.add(
        "failed/wear.json",
        json!({ "schema": "trimtab.error", "version": 1, "error": { "message": "no drive" } })
            .to_string(),
    );
    collection.add("empty/wear.json", "");
    fs::File::create(collection.add("huge/doctor.json", "")).unwrap().set_len(1 << 40).unwrap();
    symlink("/dev/zero", collection.hosts().join("zero-doctor.json")).unwrap();
    fs::create_dir_all(collection.hosts().join("pipe")).unwrap();
    assert!(
        std::process::Command::new("mkfifo")
            .arg(collection.hosts().join("pipe/doctor.json"))
            .status()
            .unwrap()
            .success()
    );
    collection.add("notes.txt", "no document");
    let (status, report) = collection.report();
    let unread: BTreeMap<String, &str> = report["files_unread"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (
                one["file"].as_str().unwrap().rsplit("hosts/").next().unwrap().to_owned(),
                one["why"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        (status, &report["counts"]["hosts"], unread.len()),
        (1, &json!(1), 12),
        "{unread:#?}"
    );
    for (file, why) in [
        ("good-doctor.json", "second diagnosis of its host"),
        ("cut/doctor.json", "EOF"),
        ("empty/wear.json", "is empty: the command on that host failed"),
        ("later/doctor.json", "version 2"),
        ("foreign/doctor.json", "not of 'trimtab doctor"),
        ("failed/wear.json", "trimtab failed there: no drive"),
        ("huge/doctor.json", "longer than"),
        ("zero-doctor.json", "cannot be read"),
        ("pipe/doctor.json", "cannot be read"),
    ] {
        assert!(unread[file].contains(why), "{file}: {}", unread[file]);
    }
    let said = trimtab()
        .args(["report", "fleet"])
        .arg(collection.hosts())
        .assert()
        .code(1)
        .get_output()
        .clone();
    let (screen, complaint) =
        (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    assert!(
        complaint.lines().count() == 1
            && complaint.starts_with("trimtab: 12 of the files cannot be used: "),
        "{complaint}"
    );
    assert!(
        screen.contains("7 more; --output FILE.html lists all")
            && screen.contains("files not read"),
        "{screen}"
    );
    assert!(collection.page("all.html").contains("trimtab failed there: no drive"));
}

#[test]
fn collection_without_a_usable_document_fails() {
    let collection = Collection::new();
    trimtab()
        .args(["report", "fleet"])
        .arg(collection.at("nowhere"))
        .assert()
        .code(1)
        .stderr(contains("nowhere"));
    collection.add("notes.txt", "x");
    trimtab()
        .args(["report", "fleet"])
        .arg(collection.hosts())
        .assert()
        .code(1)
        .stderr(contains("no file ends in .json"));
    let only = collection.add("a.json", "[1]");
    trimtab()
        .args(["report", "fleet"])
        .arg(&only)
        .assert()
        .code(1)
        .stdout("")
        .stderr(contains("a.json"));
    for wrong in ["page.pdf", "page"] {
        let refused =
            trimtab().args(["report", "fleet", "--output", wrong]).arg(collection.hosts()).assert();
        refused.code(2).stderr(contains("neither .html nor .parquet"));
    }
}

#[test]
fn text_of_other_hosts_is_no_markup_and_no_control() {
    const EVIL: &str =
        "<script>alert(1)</script><img src=x onerror=y>\u{1b}[2J\u{202e}\"'&\n/x: forged";
    let collection = Collection::new();
    let fault = json!({ "code": "drive.trim-hangs", "severity": "caution", "text": EVIL });
    let mut diagnosis = diagnosis(EVIL, "nvme0n1", "blocked", &[EVIL], &[fault]);
    diagnosis["verdict"]["at"] = json!([format!("{EVIL} [{EVIL}]")]);
    diagnosis["verdict"]["text"] = json!(EVIL);
    collection.add("<b>host\u{1b}[31m/doctor.json", doctor(&[diagnosis]));
    let mut drive = drive(EVIL, 100, 100, 9.0, None);
    drive["model"] = json!(EVIL);
    collection.add(
        "<b>host\u{1b}[31m/wear.json",
        wear(&[drive], &[json!({ "subject": EVIL, "why": EVIL })]),
    );
    collection.add("\u{1b}]0;x\u{7}.json", EVIL);
    let page = collection.page("fleet.html");
    let body = page.split("<body>").nth(1).unwrap().split("<script>").next().unwrap();
    assert!(
        body.contains("&lt;script&gt;alert(1)") && body.contains("&lt;b&gt;host"),
        "the text is shown"
    );
    assert!(
        !body.contains("<img")
            && !body.contains("<b>host")
            && !body.contains('\u{1b}')
            && !body.contains('\u{202e}')
    );
    let mut command = trimtab();
    command
        .env_remove("NO_COLOR")
        .env("CLICOLOR_FORCE", "1")
        .args(["report", "fleet"])
        .arg(collection.hosts());
    let output = command.output().unwrap();
    for bytes in [output.stdout, output.stderr] {
        let text = String::from_utf8(bytes).unwrap();
        let is_style = |rest: &str| {
            rest.starts_with('[')
                && rest[1..]
                    .split_once('m')
                    .is_some_and(|(n, _)| n.len() <= 2 && !["31", "35"].contains(&n))
        };
        let styled = text.match_indices('\u{1b}').all(|(at, _)| is_style(&text[at + 1..]));
        assert!(
            styled
                && !text.contains('\u{7}')
                && !text.contains('\u{202e}')
                && !text.contains("\n/x: forged"),
            "{text}"
        );
    }
}

#[test]
fn parquet_has_a_row_for_each_drive() {
    let collection = Collection::new();
    let documents = random_hosts(&collection, 8);
    let output = collection.at("fleet.parquet");
    trimtab()
        .args(["report", "fleet", "--quiet"])
        .arg(collection.hosts())
        .arg("--output")
        .arg(&output)
        .assert()
        .success();
    trimtab()
        .args(["report", "fleet", "--quiet"])
        .arg(collection.hosts())
        .arg("--output")
        .arg(&output)
        .assert()
        .code(2);
    let reader =
        parquet::file::reader::SerializedFileReader::new(fs::File::open(&output).unwrap()).unwrap();
    use parquet::file::reader::FileReader as _;
    let drives: u64 = documents
        .iter()
        .filter_map(|(_, document)| document["drives"].as_array())
        .map(|drives| drives.len() as u64)
        .sum();
    assert_eq!(reader.metadata().file_metadata().num_rows() as u64, drives);
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned())
        .collect();
    assert!(
        names.starts_with(&["host".to_owned(), "device".to_owned(), "model".to_owned()]),
        "{names:?}"
    );
}
