//! `validate volume`: the modelled filesystem against real ext4.

use crate::{skip, validate};

/// Bytes written do not depend on machine load. The other figures do, so only `make
/// validate` judges them.
#[test]
fn volume_writes_within_15_percent_of_ext4() {
    const LIMIT: f64 = 0.15;
    if !rustix::process::geteuid().is_root() {
        return skip::skip("root: ext4 over a loop device");
    }
    let out = validate().args(["volume", "--sizes", "4GiB", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = document["volume-validation"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "two workloads, with and without discard");
    for row in rows {
        assert!(row["real"]["written"].as_u64() > Some(500_000_000), "{row}");
        assert_eq!(
            row["real"]["discards"].as_u64() > Some(0),
            row["discard"].as_bool().unwrap(),
            "{row}"
        );
        let [real, model] = ["real", "model"].map(|side| row[side]["written"].as_f64().unwrap());
        assert!((real - model).abs() <= LIMIT * real, "{row}");
    }
}
