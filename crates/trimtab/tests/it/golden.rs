//! Fingerprints of the model's ageing of each shipped drive. Any changed figure changes a
//! fingerprint, so no model changes unnoticed. For an intended change, run `make golden`
//! and give the reason in the commit.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use trimtab::drives;
use trimtab::drives::simulate::{self, Addresses, Amount, DriveLoad, DriveSimulationPlan};
use trimtab::store::shape::run::RunV1;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::Run;
use trimtab_sim::workload::synthetic::{Mix, Pattern, TrimPattern};

fn fingerprint(figures: &Value) -> String {
    let digest = Sha256::digest(figures.to_string());
    digest.iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The figures that the model decides: no text, no time of day, no cost of the tool
/// itself.
fn figures(run: &Value) -> Value {
    let mut metrics = run["metrics"].clone();
    metrics
        .as_array_mut()
        .unwrap()
        .retain(|metric| !metric["name"].as_str().unwrap().starts_with("overhead"));
    json!([
        run["workload"],
        run["policy"],
        metrics,
        run["phases"],
        run["series"],
        run["counters"],
        run["discards"]
    ])
}

fn of_run(run: &Run) -> Value {
    figures(&serde_json::to_value(RunV1::from(run)).unwrap())
}

fn metric(run: &Run, name: &str) -> String {
    let found = run
        .metrics
        .iter()
        .find(|metric| metric.name == name)
        .and_then(|metric| metric.samples.first());
    found.map_or("-".to_owned(), |value| format!("{value:.4}"))
}

#[test]
fn shipped_drives_match_golden_fingerprints() {
    let mut table = String::new();
    for drive in drives::shipped() {
        // The smallest of these sizes that this drive allows, in the same proportions.
        let sized = |gib: u64| model::sized(drive.spec.clone(), Some(Bytes(gib << 30))).ok();
        let spec = [1, 2, 4, 8, 16, 32]
            .into_iter()
            .find_map(sized)
            .unwrap_or_else(|| panic!("{} at 32 GiB", drive.spec.name));
        let ages = DriveSimulationPlan {
            name: "ageing".into(),
            load: DriveLoad::Synthetic(Addresses {
                pattern: Pattern::Uniform,
                mix: Mix::default(),
                trims_of: TrimPattern::All,
                sizes: vec![(16_384, 1)],
                queue_depth: 8,
                span_permille: 900,
            }),
            data: DataClass::Random,
            fill_permille: 900,
            steady: false,
            until_written: Some(Amount::Capacities(1.5)),
            trim: None,
            seed: 1,
        };
        let (run, _) = simulate::run(&spec, &drive.spec.name, &ages, &mut ()).unwrap();
        let (gib, waf) = (spec.capacity_bytes >> 30, metric(&run, "waf"));
        writeln!(
            table,
            "{:<26} {gib:>3} GiB  waf {waf:<8} {}",
            drive.spec.name,
            fingerprint(&of_run(&run))
        )
        .unwrap();
    }
    insta::assert_snapshot!("drives", table);
}
