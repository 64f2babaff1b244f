//! `trimtab volume validate`: the modelled filesystem against the real one, on two sizes, under both workloads.

use crate::support::{self, trimtab};

/// What else the machine does decides what the kernel does, too: each configuration has to agree in most of these, so that its median does.
const RUNS: u32 = 5;
const MOST: u32 = RUNS / 2 + 1;

#[test]
fn the_model_is_within_15_percent_of_real_ext4() {
    if !support::have_root() {
        return support::skip("root: ext4 over a loop device");
    }
    let mut agreed: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
    let mut said = String::new();
    for _ in 0..RUNS {
        let out = trimtab().args(["volume", "validate", "--json"]).output().unwrap();
        said += &String::from_utf8_lossy(&out.stdout);
        let document: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        for row in document["volume-validation"].as_array().unwrap() {
            assert!(row["real"]["written"].as_u64() > Some(500_000_000), "{row}");
            assert_eq!(row["real"]["discards"].as_u64() > Some(0), row["discard"].as_bool().unwrap(), "{row}");
            let often = agreed.entry(format!("{} {} {}", row["size"], row["workload"], row["discard"])).or_default();
            *often += u32::from(row["agrees"].as_bool().unwrap());
        }
        // Two sizes, two workloads, with and without discard.
        if agreed.len() == 8 && agreed.values().all(|often| *often >= MOST) {
            return;
        }
    }
    panic!("each has to agree in {MOST} of {RUNS} runs: {agreed:?}\n{said}");
}
