//! Metrics of a PostMark run, from its phases and counts.

use super::{PostmarkCounts, phase};
use crate::run::metrics;
use crate::run::{Better, Metric, Phase, Unit};
use alloc::vec::Vec;
use trimtab_drive::OpKind;

/// Metrics of all tries among `phases`; `transactions` are those completed in each try.
///
/// The total is creation, transactions and deletion, as in the original's report;
/// directories are excluded. Byte rates divide by the total too. Unlike the original,
/// times are not rounded and bytes are exact; MB is 10^6 bytes.
#[must_use]
pub fn metrics(phases: &[Phase], transactions: &[u64]) -> Vec<Metric> {
    let named =
        |name: &str| -> Vec<&Phase> { phases.iter().filter(|phase| phase.name == name).collect() };
    let (create, mixed, delete) =
        (named(phase::CREATE), named(phase::TRANSACTIONS), named(phase::DELETE));
    let tries: Vec<[&Phase; 3]> =
        create.iter().zip(&mixed).zip(&delete).map(|((c, t), d)| [*c, *t, *d]).collect();
    let seconds =
        |phases: &[&Phase]| phases.iter().map(|phase| phase.took.as_secs_f64()).sum::<f64>();
    let ops = |phase: &Phase, kind| {
        phase.ops.iter().filter(|(k, _)| *k == kind).map(|(_, n)| *n as f64).sum::<f64>()
    };
    let bytes = |of: fn(&Phase) -> f64| {
        move |t: &[&Phase; 3]| t.iter().map(|phase| of(phase)).sum::<f64>() / 1e6 / seconds(t)
    };
    let each = |figure: &dyn Fn(&[&Phase; 3]) -> f64| {
        tries.iter().map(figure).filter(|value| value.is_finite()).collect::<Vec<f64>>()
    };
    let transaction_rates = mixed
        .iter()
        .zip(transactions)
        .map(|(phase, n)| *n as f64 / phase.took.as_secs_f64())
        .filter(|v| v.is_finite());
    let all = [
        ("total.seconds", Unit::Seconds, Better::Lower, each(&|t| seconds(t))),
        ("transactions.seconds", Unit::Seconds, Better::Lower, each(&|t| seconds(&t[1..2]))),
        ("transactions.rate", Unit::OpsPerSecond, Better::Higher, transaction_rates.collect()),
        ("create.seconds", Unit::Seconds, Better::Lower, each(&|t| seconds(&t[..1]))),
        (
            "create.rate",
            Unit::OpsPerSecond,
            Better::Higher,
            each(&|t| ops(t[0], OpKind::Create) / seconds(&t[..1])),
        ),
        (metrics::DELETE_SECONDS, Unit::Seconds, Better::Lower, each(&|t| seconds(&t[2..]))),
        (
            "delete.rate",
            Unit::OpsPerSecond,
            Better::Higher,
            each(&|t| ops(t[2], OpKind::Delete) / seconds(&t[2..])),
        ),
        (
            metrics::READ_RATE,
            Unit::MegabytesPerSecond,
            Better::Higher,
            each(&bytes(|phase| phase.read.as_f64())),
        ),
        (
            "written.rate",
            Unit::MegabytesPerSecond,
            Better::Higher,
            each(&bytes(|phase| phase.written.as_f64())),
        ),
    ];
    Metric::measured(all)
}

impl PostmarkCounts {
    /// As name and value, for results; totals in single precision follow the exact ones.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 12] {
        [
            ("created", self.created.into()),
            ("created.alone", self.created_alone.into()),
            ("created.mixed", self.created_mixed().into()),
            ("read", self.read.into()),
            ("appended", self.appended.into()),
            ("deleted", self.deleted.into()),
            ("deleted.alone", self.deleted_alone().into()),
            ("deleted.mixed", self.deleted_mixed.into()),
            ("read.bytes", self.bytes_read.0),
            ("written.bytes", self.bytes_written.0),
            ("read.bytes.single-precision", self.bytes_read_single as u64),
            ("written.bytes.single-precision", self.bytes_written_single as u64),
        ]
    }
}
