//! Months of use under trim policies, as in `study::ageing` but shorter.

use super::predict::{What, WorkloadFigure};
use crate::study::ageing::{Ageing, RATE_STEADY, WAF_STEADY};
use crate::study::metrics::mean;
use crate::study::modelled::{self, Setup};
use crate::study::used::FreeExtentLengths;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use trimtab_drive::data::DataClass;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::runner::RunEnd;

/// Capacity of the scaled-down drives, as in the sensitivity studies.
const SIZE: Bytes = Bytes(1_000_000_000);
/// Number of drive-writes.
const DRIVE_WRITES: f64 = 1.0;

/// Each policy at both fill levels.
pub const CASES: [(&str, f64, &str); 10] = [
    ("none", 0.6, "churn at 60 %, none"),
    ("online", 0.6, "churn at 60 %, online"),
    ("batched", 0.6, "churn at 60 %, batched"),
    ("adaptive", 0.6, "churn at 60 %, adaptive"),
    ("idle", 0.6, "churn at 60 %, idle"),
    ("none", 0.9, "churn at 90 %, none"),
    ("online", 0.9, "churn at 90 %, online"),
    ("batched", 0.9, "churn at 90 %, batched"),
    ("adaptive", 0.9, "churn at 90 %, adaptive"),
    ("idle", 0.9, "churn at 90 %, idle"),
];

/// Random writes per second at the end of the months and their write amplification, for
/// each of [`CASES`]. `None` if the drive cannot be scaled down, fails, or has no TRIM.
pub fn figures(spec: &DriveSpec, seed: u64) -> Option<Vec<WorkloadFigure>> {
    if !spec.flash.trim.supported {
        return None;
    }
    let mut all = Vec::new();
    for (policy, fill, workload) in CASES {
        let drive = Drive {
            spec: spec.clone(),
            sources: BTreeMap::new(),
            alternatives: Vec::new(),
            twin: None,
        };
        let setup = Setup {
            drive,
            label: spec.name.to_owned(),
            volume: modelled::volume_named("ext4"),
            fill,
            fill_class: DataClass::Random,
            used: FreeExtentLengths::default(),
            seed,
        };
        let mut ageing = Ageing::new(setup, fill, DataClass::Random, DRIVE_WRITES);
        (ageing.size, ageing.thorough) = (SIZE, false);
        let policy: PolicySpec = policy.parse().ok()?;
        let (run, end) = ageing.run(&policy, &mut ()).ok()?;
        if end != RunEnd::Complete {
            return None;
        }
        all.push(WorkloadFigure { workload, what: What::Rate, value: mean(&run, RATE_STEADY)? });
        all.push(WorkloadFigure { workload, what: What::Ratio, value: mean(&run, WAF_STEADY)? });
    }
    Some(all)
}

/// The policy with the fastest random writes at a fill level, and the rates with and
/// without.
pub fn best(fill: f64, rate: impl Fn(&str) -> Option<f64>) -> Option<(&'static str, f64, f64)> {
    let at = || CASES.into_iter().filter(|(_, full, _)| *full == fill);
    let none =
        at().find(|(policy, ..)| *policy == "none").and_then(|(_, _, workload)| rate(workload))?;
    let rates = at().filter_map(|(policy, _, workload)| Some((policy, rate(workload)?)));
    let (policy, rate) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((policy, rate, none))
}

#[test]
fn best_policy_has_highest_rate_at_that_fill() {
    let rate = |workload: &str| match workload {
        "churn at 60 %, idle" => Some(300.0),
        "churn at 60 %, none" => Some(100.0),
        "churn at 90 %, batched" => Some(50.0),
        other => other.starts_with("churn at 60").then_some(200.0),
    };
    assert_eq!(best(0.6, rate), Some(("idle", 300.0, 100.0)));
    assert_eq!(best(0.9, rate), None, "the rate without trimming is unknown");
}
