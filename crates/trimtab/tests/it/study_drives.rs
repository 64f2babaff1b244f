//! A study of every shipped drive: no panic, no nonsense. Quick ones in CI; `make soak` asks for full ones with TRIMTAB_STUDIES=full.

use crate::support::trimtab;
use serde_json::Value;
use std::path::PathBuf;

fn shipped() -> Vec<PathBuf> {
    let drives = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives");
    let mut all: Vec<PathBuf> = std::fs::read_dir(drives).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    all.sort();
    assert!(all.len() >= 15);
    all
}

/// The most 4 KiB random writes a second that the link and the command processor can take, and that the flash can take with all dies
/// programming without a pause, in the faster mode if there are two. From the file of the drive alone.
fn writes_max(file: &toml::Table) -> Option<(f64, f64)> {
    let number = |path: &[&str]| {
        let (last, parents) = path.split_last()?;
        let table = parents.iter().try_fold(file, |table, part| table.get(*part)?.as_table())?;
        table.get(*last)?.as_integer().map(|value| value as f64)
    };
    let geometry = |name| number(&["flash", "geometry", name]);
    let dies = geometry("channels")? * geometry("dies_per_channel")?;
    let row = geometry("planes")? * geometry("page_bytes")?;
    let program = number(&["flash", "nand", "program_ns"])?.min(number(&["flash", "slc_cache", "program_ns"]).unwrap_or(f64::MAX));
    let flash = dies * row / program * 1e9 / 4096.0;
    let link = number(&["interface", "rate_bytes_per_s"])? / 4096.0;
    let overhead = number(&["interface", "write_overhead_ns"]).or_else(|| number(&["interface", "command_overhead_ns"]))?;
    let commands = 1e9 / overhead.max(1.0);
    Some((link.min(commands), flash))
}

fn metric(run: &Value, name: &str) -> Option<f64> {
    let metrics = run["metrics"].as_array()?;
    metrics.iter().find(|metric| metric["name"] == name)?["samples"][0].as_f64()
}

/// What must hold of every run of every drive.
fn plausible(name: &str, run: &Value, file: &toml::Table) {
    for metric in run["metrics"].as_array().unwrap() {
        for sample in metric["samples"].as_array().unwrap() {
            let value = sample.as_f64().unwrap_or_else(|| panic!("{name}: {metric} is no number"));
            assert!(value.is_finite() && value >= 0.0, "{name}: {metric}");
        }
    }
    let Some((host, flash)) = writes_max(file) else { return };
    if let (Some(rate), Some(waf)) = (metric(run, "random-write.steady-state"), metric(run, "random-write.steady-state.waf")) {
        // All that is programmed has to be programmed by somebody: under load nothing is left to idle time.
        assert!(rate > 1.0 && rate <= host * 1.1, "{name}: {rate:.0}/s, and the link and the processor take {host:.0}/s");
        // The work of a collection is counted when it is decided and done later. Where victims are drawn, each frees another amount: write amplification and
        // rate of a window belong to different ones, and only their means over long go together.
        let drawn = file["flash"].get("ftl").and_then(|ftl| ftl.get("victim")).is_some_and(|victim| victim.as_str() == Some("random"));
        let programmed = if drawn { rate } else { rate * waf.max(1.0) };
        assert!(programmed <= flash * 1.1, "{name}: {rate:.0}/s at WAF {waf:.2}, and the flash takes {flash:.0}/s");
        let wear = metric(run, "erase-cycles.per-tb").unwrap();
        assert!(wear > 0.0, "{name}: nothing is erased");
        let mapped = metric(run, "mapped.steady").unwrap();
        assert!((50.0..=100.0).contains(&mapped), "{name}: {mapped} % believed in use of a filesystem that is 60 % full");
    }
    if let Some(wait) = metric(run, "sparse-load.wait.longest.seconds") {
        assert!(wait < 60.0, "{name}: one append takes {wait} s");
    }
}

#[test]
fn every_shipped_drive_can_be_studied_and_says_nothing_impossible() {
    let full = std::env::var("TRIMTAB_STUDIES").is_ok_and(|size| size == "full");
    let dir = tempfile::tempdir().unwrap();
    for path in shipped() {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let file: toml::Table = toml::from_str(&text).unwrap();
        let mut command = trimtab();
        command.args(["study", &format!("drive:{name}"), "--json", "--quiet"]);
        if !full {
            command.args(["--quick", "--policies", "none,batched", "--questions", "deleting,ageing"]);
        }
        command.arg("--store").arg(dir.path().join("s.db")).arg("--report").arg(dir.path().join("r.html")).arg("--force");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("panicked"), "{name}: {said}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let verdict = json["verdict"].as_str().unwrap();
        for nonsense in ["NaN", " inf", "(0 ", "-1 "] {
            assert!(!verdict.contains(nonsense), "{name}: {verdict}");
        }
        // "555417 4 KiB random writes a second, steady under load, instead of 555417"
        let between = " 4 KiB random writes a second, steady under load, instead of ";
        for (at, _) in verdict.match_indices(between) {
            let (gained, without) = (verdict[..at].rsplit(' ').next(), verdict[at + between.len()..].split([' ', ';']).next());
            assert_ne!(gained, without, "{name}: {verdict}");
        }
        let runs: Vec<&Value> = ["runs", "ageing", "tuning", "kernels"].iter().flat_map(|part| json[*part].as_array().unwrap()).collect();
        assert!(runs.len() >= 2, "{name}: {} runs", runs.len());
        runs.iter().for_each(|run| plausible(&name, run, &file));
    }
}
