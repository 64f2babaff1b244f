//! A modelled drive that wears out still gives a result, with the bytes it wrote until
//! then.

use crate::support::trimtab;
use serde_json::Value;
use std::path::Path;

/// 32 MiB of flash; each superblock lasts about 20 erases.
const SPEC: &str = "name = \"mortal\"\ndescription = \"a small SSD that wears out\"\n\
    capacity_bytes = 25165824\n[flash.geometry]\nchannels = 2\ndies_per_channel = 1\n\
    planes = 1\npage_bytes = 4096\npages_per_block = 32\nblocks_per_plane = 128\n\
    superblock_dies = 2\n[flash.ftl.streams]\nseparate_gc = SEPARATE\n[flash.ftl.wear]\n\
    erase_limit = 20\n[flash.write_cache]\nbytes = 65536\n[sources]\n\
    flash = \"assumed: all of it\"\n";
/// The bytes that its flash accepts in 22 erases, the most that any superblock survives.
const FLASH_LIFE: f64 = 22.0 * 33_554_432.0;

fn spec(directory: &Path, separate_gc: bool) -> String {
    let path = directory.join("mortal.toml");
    std::fs::write(&path, SPEC.replace("SEPARATE", &separate_gc.to_string())).unwrap();
    path.display().to_string()
}

fn value(run: &Value, name: &str) -> f64 {
    let metric = run["metrics"]
        .as_array()
        .unwrap()
        .iter()
        .find(|metric| metric["name"] == name)
        .unwrap_or_else(|| panic!("{name}"));
    metric["samples"][0].as_f64().unwrap()
}

/// Checks the reported end of life in `run`.
fn check(run: &Value) {
    let (worn, first) = (value(run, "worn-out.written"), value(run, "first-retired.written"));
    assert!(first > 1e8 && worn > first, "{first} {worn}");
    let flash = run["counters"]["nand_written_bytes"].as_f64().unwrap();
    assert!(flash > 0.5 * FLASH_LIFE && flash <= FLASH_LIFE, "{flash} bytes to the flash");
    assert!(
        run["counters"]["erases_of_a_superblock_max"].as_u64().unwrap() <= 22,
        "{}",
        run["counters"]
    );
    let warnings = run["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["code"] == "drive.worn-out"), "{warnings:?}");
}

#[test]
fn drive_simulate_of_worn_out_drive_is_a_result() {
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("store.db").display().to_string();
    for separate_gc in [true, false] {
        let drive = spec(scratch.path(), separate_gc);
        let simulate =
            ["drive", "simulate", "--drive", &drive, "--until-written", "10GB", "--store", &store];
        let assert = trimtab().args(simulate).arg("--json").assert().success();
        let run: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        check(&run);
        let rates = run["series"]
            .as_array()
            .unwrap()
            .iter()
            .find(|series| series["name"] == "write.rate")
            .expect("the curve until then");
        assert!(rates["x"].as_array().unwrap().len() > 3, "{rates}");
        let shown = trimtab().args(simulate).assert().success();
        let shown = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
        assert!(shown.contains("wore out after"), "{shown}");
        let kept = trimtab()
            .args(["results", "show", "last", "--json", "--store", &store])
            .assert()
            .success();
        check(&serde_json::from_slice(&kept.get_output().stdout).unwrap());
    }
}

/// Oracles: the erases that the flash survives divided by the measured WAF; and the
/// writes of a drive that wears out under the same workload.
#[test]
fn jesd219_states_endurance_that_drive_then_has() {
    let scratch = tempfile::tempdir().unwrap();
    let drive = spec(scratch.path(), true);
    let simulate = |until: &str| {
        let workload = ["--workload", "jesd219", "--until-written", until, "--json", "--quiet"];
        let mut command = trimtab();
        command.args(["drive", "simulate", "--drive", &drive]).args(workload);
        let assert = command.assert().success();
        serde_json::from_slice::<Value>(&assert.get_output().stdout).unwrap()
    };
    let run = simulate("6x");
    let (endurance, waf) = (value(&run, "endurance.written"), value(&run, "waf.last-quarter"));
    assert!((endurance * waf / (20.0 * 33_554_432.0) - 1.0).abs() < 1e-9, "{endurance} {waf}");
    let worn = simulate("1000x");
    let written = value(&worn, "worn-out.written");
    assert!((0.7..1.2).contains(&(written / endurance)), "{written} of {endurance}");
    let (endurance, waf) = (value(&worn, "endurance.written"), value(&worn, "waf.last-quarter"));
    assert!((endurance * waf / (20.0 * 33_554_432.0) - 1.0).abs() < 1e-9, "{endurance} {waf}");
}

#[test]
fn bench_of_worn_out_modelled_drive_is_a_result() {
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("store.db").display().to_string();
    let target = format!("drive:{}", spec(scratch.path(), false));
    let rounds = [
        "bench",
        "crystal",
        "--size",
        "16MiB",
        "--loop-until-written",
        "10GB",
        "--json",
        "--store",
        &store,
        &target,
    ];
    let assert = trimtab().args(rounds).assert().success();
    check(&serde_json::from_slice(&assert.get_output().stdout).unwrap());
}

#[test]
fn sweep_cell_of_worn_out_drive_has_columns() {
    let scratch = tempfile::tempdir().unwrap();
    let (plan, out) =
        (scratch.path().join("plan.toml"), scratch.path().join("out").display().to_string());
    let drive = spec(scratch.path(), false);
    let text = format!(
        "name = \"mortal\"\n[base]\ndrive.name = \"{drive}\"\n\
            workload.name = \"random\"\nworkload.until_written = \"10GB\"\n[axes]\n\
            drive.flash.ftl.wear.erase_limit = [10, 20]\n"
    );
    std::fs::write(&plan, text).unwrap();
    trimtab().args(["sweep", "run", plan.to_str().unwrap(), "--output", &out]).assert().success();
    let table = trimtab().args(["sweep", "export", &out]).assert().success();
    let table = String::from_utf8_lossy(&table.get_output().stdout).into_owned();
    let mut lines = table.lines();
    let column = lines
        .next()
        .unwrap()
        .split(',')
        .position(|name| name == "worn_out_written_bytes")
        .expect("a column");
    let written: Vec<f64> =
        lines.map(|line| line.split(',').nth(column).unwrap().parse().unwrap()).collect();
    assert!(written.len() == 2 && written[1] > 1.8 * written[0], "{written:?}");
}
