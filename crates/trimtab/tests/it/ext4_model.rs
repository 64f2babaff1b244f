//! `trimtab volume validate`: the modelled filesystem against the real one, on two sizes, under both workloads.

use crate::support::{self, trimtab};

/// What else the machine does decides how often the kernel commits, and with that flushes and what ext4 discards anew: those, and how many discards there
/// are, have to agree in one of these. What is written has to agree in each of them.
const RUNS: u32 = 5;
const LIMIT: f64 = 0.15;

#[test]
fn the_model_is_within_15_percent_of_real_ext4() {
    if !support::have_root() {
        return support::skip("root: ext4 over a loop device");
    }
    let mut agreed = std::collections::BTreeSet::new();
    let mut said = String::new();
    for _ in 0..RUNS {
        let out = trimtab().args(["volume", "validate", "--json"]).output().unwrap();
        said += &String::from_utf8_lossy(&out.stdout);
        let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        for row in document["volume-validation"].as_array().unwrap() {
            assert!(row["real"]["written"].as_u64() > Some(500_000_000), "{row}");
            assert_eq!(row["real"]["discards"].as_u64() > Some(0), row["discard"].as_bool().unwrap(), "{row}");
            let [real, model] = ["real", "model"].map(|side| row[side]["written"].as_f64().unwrap());
            assert!((real - model).abs() <= LIMIT * real, "{row}");
            if row["agrees"].as_bool().unwrap() {
                agreed.insert(format!("{} {} {}", row["size"], row["workload"], row["discard"]));
            }
        }
        // Two sizes, two workloads, with and without discard.
        if agreed.len() == 8 {
            return;
        }
    }
    panic!("each has to agree in one of {RUNS} runs: {agreed:?}\n{said}");
}
