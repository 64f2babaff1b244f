//! Studies of shipped drives: no panic and plausible figures. CI runs quick studies of one
//! drive of each kind; `make soak` sets TRIMTAB_STUDIES=full for full ones of every drive
//! (full:ocz selects drives by the start of their names).

use crate::first_screens::by_rule;
use crate::support::trimtab;
use serde_json::Value;
use std::path::PathBuf;

/// An SSD that compresses, two early ones, and one with an SLC cache.
const KINDS: [&str; 4] =
    ["ocz-vertex-le-100gb", "corsair-p128", "crucial-m4-128gb", "nvme-tlc-500gb"];

fn shipped() -> Vec<PathBuf> {
    let drives = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(drives).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    all.sort();
    assert!(all.len() >= 14);
    all
}

/// The limit on 4 KiB random writes per second from the link and the command processor,
/// computed from the drive's file alone.
fn host_writes_max(file: &toml::Table) -> Option<f64> {
    let number = |name: &str| file["interface"].get(name)?.as_integer().map(|value| value as f64);
    let overhead = number("write_overhead_ns").or_else(|| number("command_overhead_ns"))?;
    Some((number("rate_bytes_per_s")? / 4096.0).min(1e9 / overhead.max(1.0)))
}

/// Bounds on 4 KiB random writes per second at write amplification `waf`, computed from
/// the drive's file alone and limited to `host`. The lower bound programs everything in
/// the slower mode, and a die waits for incoming data and for relocation reads unit by
/// unit. The upper bound programs everything in the faster mode, reads relocated data a
/// row at once, and never waits for a channel.
fn writes_at(file: &toml::Table, waf: f64, host: f64) -> Option<(f64, f64)> {
    let number = |part: &str, name: &str| {
        file["flash"].get(part)?.get(name)?.as_integer().map(|value| value as f64)
    };
    let (geometry, nand) = (|name| number("geometry", name), |name| number("nand", name));
    let dies = geometry("channels")? * geometry("dies_per_channel")?;
    let units_of_row = geometry("planes")? * geometry("page_bytes")? / 4096.0;
    let transfer = 4096.0 * 1e9 / nand("channel_bytes_per_s")?;
    let (slow, erase) = (nand("program_ns")?, nand("erase_ns")? / geometry("pages_per_block")?);
    let fast = slow.min(number("slc_cache", "program_ns").unwrap_or(slow));
    let moved = (waf - 1.0).max(0.0);
    let on_channel = (waf + moved) * transfer / geometry("channels")?;
    let longest = (waf * ((slow + erase) / units_of_row + transfer)
        + moved * (nand("read_ns")? + transfer))
        / dies;
    let shortest = (waf * (fast + erase) + moved * nand("read_ns")?) / units_of_row / dies;
    Some((host.min(1e9 / longest.max(on_channel)), host.min(1e9 / shortest)))
}

fn metric(run: &Value, name: &str) -> Option<f64> {
    let metrics = run["metrics"].as_array()?;
    metrics.iter().find(|metric| metric["name"] == name)?["samples"][0].as_f64()
}

/// Asserts the invariants of every run of every drive.
fn plausible(name: &str, part: &str, run: &Value, file: &toml::Table) {
    for metric in run["metrics"].as_array().unwrap() {
        for sample in metric["samples"].as_array().unwrap() {
            let value = sample.as_f64().unwrap_or_else(|| panic!("{name}: {metric} is no number"));
            assert!(value.is_finite() && value >= 0.0, "{name}: {metric}");
        }
    }
    let Some(host) = host_writes_max(file) else { return };
    if let (Some(rate), Some(waf)) =
        (metric(run, "random-write.steady-state"), metric(run, "random-write.steady-state.waf"))
    {
        // Under load no flash work is deferred to idle time, so the interface and the
        // flash bound the rate.
        assert!(
            rate > 1.0 && rate <= host * 1.02,
            "{name}: {rate:.0}/s, and the link and the processor take {host:.0}/s"
        );
        let (least, most) = writes_at(file, waf, host).unwrap();
        assert!(
            rate <= most * 1.05,
            "{name}: {rate:.0}/s at WAF {waf:.2}, and the flash takes {most:.0}/s at most"
        );
        // Only TRIM reduces the rate further: data do not compress and the partition is
        // aligned. Heat and endurance throttling account for little.
        let trims = metric(run, "random-write.steady-state.trim-time").unwrap() / 100.0;
        let policy = &run["policy"];
        let least = least * (1.0 - trims);
        assert!(
            (0.0..1.0).contains(&trims) && (policy != "none" || trims == 0.0),
            "{name}, {policy}: {trims} of the time in TRIM"
        );
        assert!(
            part != "ageing" || rate >= least * 0.95,
            "{name}, {policy}: {rate:.0}/s at WAF {waf:.2}, and the flash takes \
                {least:.0}/s at least"
        );
        let wear = metric(run, "erase-cycles.per-tb").unwrap();
        // With compressible data the months may not fill the flash once. A warning must
        // then mark the rate as not steady.
        let warned = |code: &str| {
            run["warnings"].as_array().unwrap().iter().any(|warning| warning["code"] == code)
        };
        assert!(
            wear > 0.0 || warned("steady-state.not-reached"),
            "{name}: nothing is erased at WAF {waf}, and that is called steady"
        );
        let mapped = metric(run, "mapped.steady").unwrap();
        assert!(
            (50.0..=100.0).contains(&mapped),
            "{name}: {mapped} % believed in use of a filesystem that is 60 % full"
        );
    }
    if let Some(wait) = metric(run, "sparse-load.wait.longest.seconds") {
        assert!(wait < 60.0, "{name}: one append takes {wait} s");
    }
}

#[test]
fn shipped_drive_studies_state_possible_figures() {
    let asked = std::env::var("TRIMTAB_STUDIES").unwrap_or_default();
    let (size, begin_with) = asked.split_once(':').unwrap_or((&asked, ""));
    let full = size == "full";
    let mut studied = 0;
    let dir = tempfile::tempdir().unwrap();
    for path in shipped() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with(begin_with) || !full && !KINDS.contains(&name.as_str()) {
            continue;
        }
        studied += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let file: toml::Table = toml::from_str(&text).unwrap();
        let mut command = trimtab();
        command.args(["study", &format!("drive:{name}"), "--json", "--quiet"]);
        if !full {
            command.args([
                "--quick",
                "--policies",
                "none,batched",
                "--questions",
                "deleting,ageing",
                "--aged-size",
                "1GB",
            ]);
        }
        command
            .arg("--store")
            .arg(dir.path().join("s.db"))
            .arg("--report")
            .arg(dir.path().join("r.html"))
            .arg("--force");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("panicked"), "{name}: {said}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let store = dir.path().join("s.db");
        let shown = trimtab()
            .args(["results", "show", "study:last", "--details"])
            .arg("--store")
            .arg(store)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        for nonsense in ["NaN", " inf", "(0 ", " -1 "] {
            assert!(
                !shown.is_empty() && !shown.contains(nonsense),
                "{name}: {nonsense} in {shown}"
            );
        }
        for gain in json["verdict"]["gains"].as_array().unwrap() {
            let (rate, rates) = (
                gain["rate"].as_f64().unwrap(),
                [&gain["rates"][0], &gain["rates"][1]].map(|rate| rate.as_f64().unwrap()),
            );
            assert!((rates[0] / rates[1] / rate - 1.0).abs() < 1e-9, "{name}: {gain}");
        }
        let recommended = json["use"].as_str().filter(|used| *used != "none");
        let trims =
            !json["untried"].as_array().unwrap().iter().any(|part| part["reason"] == "no_trim");
        assert!(
            !trims || recommended == by_rule(&json, "60%"),
            "{name}: {recommended:?}, and the rule says {:?}",
            by_rule(&json, "60%")
        );
        for other in json["verdict"]["other_fills"].as_array().unwrap() {
            let (fill, chosen) =
                (other["fill"].as_str().unwrap(), other["recommendation"].as_str());
            let by_rule = by_rule(&json, fill);
            assert!(
                !trims || by_rule.is_none() || chosen == by_rule,
                "{name} at {fill}: {chosen:?}, and the rule says {by_rule:?}"
            );
        }
        let parts = ["runs", "ageing"];
        let runs = parts
            .iter()
            .flat_map(|part| json[*part].as_array().unwrap().iter().map(move |run| (*part, run)));
        assert!(runs.clone().count() >= 2, "{name}: {} runs", runs.count());
        runs.for_each(|(part, run)| plausible(&name, part, run, &file));
    }
    assert!(studied >= if full { 1 } else { KINDS.len() }, "{studied} drives");
}

/// Regression: the rule compared the longest append, which depends on the seed: of eight
/// seeds, five recommended idle trims for this drive and three online discard.
#[test]
fn seeds_give_same_recommendation() {
    let full = std::env::var("TRIMTAB_STUDIES").is_ok_and(|asked| asked.starts_with("full"));
    let dir = tempfile::tempdir().unwrap();
    let seeds = if full { vec![1, 2, 3, 4, 5, 6, 7, 8] } else { vec![1, 5] };
    let recommended = |seed: &i32| {
        let mut command = trimtab();
        command.args(["study", "drive:ocz-vertex-le-100gb", "--quick", "--json", "--quiet"]);
        command.args(["--policies", "none,online,batched,idle", "--force"]);
        command.args(["--seed", &seed.to_string(), "--store"]).arg(dir.path().join("s.db"));
        let output = command.arg("--report").arg(dir.path().join("r.html")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["use"].as_str(), by_rule(&json, "60%"), "seed {seed}");
        json["use"].as_str().map(str::to_owned)
    };
    let all: Vec<_> = seeds.iter().map(recommended).collect();
    assert!(all.iter().all(|one| one.as_deref() == Some("idle")), "{seeds:?}: {all:?}");
}
