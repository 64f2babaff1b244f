//! Wear-out of a modelled drive as the result of a run, with its endurance.

use crate::run::{Better, Field, Metric, Run, Severity, Unit, Warning, metrics};
use crate::runner::{RunEnd, RunOutcome};
use alloc::format;
use alloc::string::String;
use alloc::string::ToString as _;
use alloc::vec;
use trimtab_drive::Refusal;
use trimtab_drive::model::Model;
use trimtab_drive::units::Bytes;

/// Code of the warning that the drive wore out.
pub const WORN_OUT: &str = "drive.worn-out";

/// End of a run on `drive`. A write refused because of wear completes the run.
#[must_use]
pub fn concluded(end: RunEnd, drive: &dyn Model) -> RunEnd {
    match end {
        RunEnd::Failed(error)
            if error.errno == Refusal::ReadOnly.errno()
                && counter(&drive.counters(), READ_ONLY) != 0 =>
        {
            RunEnd::Complete
        }
        other => other,
    }
}

/// `outcome` with its [`concluded`] end.
#[must_use]
pub fn conclude(outcome: RunOutcome, drive: &dyn Model) -> RunOutcome {
    RunOutcome { end: concluded(outcome.end, drive), ..outcome }
}

const READ_ONLY: &str = "now_read_only";

fn counter<'a>(counters: impl IntoIterator<Item = (&'a String, &'a u64)>, name: &str) -> u64 {
    counters.into_iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
}

/// True if the drive counters of `run` report wear-out.
#[must_use]
pub fn is_worn_out(run: &Run) -> bool {
    of_run(run, READ_ONLY) != 0
}

fn of_run(run: &Run, name: &str) -> u64 {
    counter(run.counters.iter().map(|(name, value)| (name, value)), name)
}

/// Adds host writes until the first retirement and until wear-out to `run`.
pub fn describe(run: &mut Run) {
    let (first, written, retired) = (
        of_run(run, "first_retired_written_bytes"),
        of_run(run, "host_written_bytes"),
        of_run(run, "now_worn_out_superblocks"),
    );
    let figure = |name, bytes: u64| Metric::single(name, Unit::Bytes, Better::Higher, bytes as f64);
    if retired > 0 {
        run.metrics.push(figure(metrics::FIRST_RETIRED_WRITTEN, first));
    }
    if is_worn_out(run) {
        run.metrics.push(figure(metrics::WORN_OUT_WRITTEN, written));
        let facts = vec![
            Field::new("written-bytes", written.to_string()),
            Field::new("retired-superblocks", retired.to_string()),
        ];
        let text = format!(
            "the drive wore out after {} of host writes and takes no more: \
                {retired} superblocks are retired, the first after {}. The run ends there",
            Bytes(written),
            Bytes(first)
        );
        run.warnings.push(Warning::new(WORN_OUT, Severity::Note, text).with(facts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::passes::tests::RequestList;
    use crate::simulate::{Addresses, Amount, SimulationLoad, SimulationPlan, run, shipped};
    use crate::workload::synthetic::{Mix, Pattern, TrimPattern};
    use trimtab_drive::data::DataClass;

    /// A random write run on a drive whose superblocks survive `erase_limit` erases.
    fn worn(erase_limit: u32, separate_gc: bool, fill_permille: u32) -> (Run, RunEnd) {
        let mut spec = shipped("crucial-m4-128gb", Bytes(256 << 20));
        let flash = &mut spec.flash;
        flash.ftl.wear.erase_limit = Some(erase_limit);
        flash.ftl.streams.separate_gc = separate_gc;
        let addresses = Addresses {
            pattern: Pattern::Uniform,
            mix: Mix::default(),
            trims_of: TrimPattern::All,
            sizes: vec![(65_536, 1)],
            queue_depth: 8,
            span_permille: 1000,
        };
        let plan: SimulationPlan<RequestList> = SimulationPlan {
            name: "random".into(),
            load: SimulationLoad::Synthetic(addresses),
            data: DataClass::Random,
            fill_permille,
            steady: false,
            until_written: Some(Amount::Capacities(1000.0)),
            trim: None,
            seed: 1,
        };
        let mut simulated = run(&spec, &plan, &mut ()).unwrap();
        let end = simulated.end.clone();
        let header = crate::run::Run::new(
            "simulate",
            vec![],
            crate::run::TargetKind::ModelledDrive,
            "x",
            "",
            1,
        );
        let mut run =
            header.into_run(core::mem::take(&mut simulated.recorded), end == RunEnd::Complete);
        simulated.describe(&mut run);
        (run, end)
    }

    #[test]
    fn worn_out_drive_completes_run_with_its_endurance() {
        for (separate_gc, fill_permille) in [(true, 1000), (false, 1000), (false, 0)] {
            let (run, end) = worn(6, separate_gc, fill_permille);
            assert_eq!(end, RunEnd::Complete);
            let value = |name: &str| {
                run.metrics
                    .iter()
                    .find(|metric| metric.name == name)
                    .map(|metric| metric.samples[0])
            };
            let (first, worn) = (
                value(metrics::FIRST_RETIRED_WRITTEN).unwrap(),
                value(metrics::WORN_OUT_WRITTEN).unwrap(),
            );
            let raw = 256.0 * 1.0735 * 1_048_576.0;
            // The erases of all superblocks limit flash writes.
            let flash = of_run(&run, "nand_written_bytes") as f64;
            assert!(flash < 6.7 * raw && flash > 4.0 * raw, "{flash} of {raw}");
            assert!(first <= worn && worn < flash && worn > raw, "{first} {worn} {flash}");
            assert_eq!(worn, of_run(&run, "host_written_bytes") as f64);
            assert!(
                run.warnings.iter().any(|warning| warning.code == WORN_OUT),
                "{:?}",
                run.warnings
            );
            assert!(
                run.series
                    .iter()
                    .any(|series| series.name == metrics::WRITE_RATE && !series.y.is_empty()),
                "no curve until wear-out"
            );
        }
    }

    #[test]
    fn drive_that_survives_one_erase_is_a_result() {
        let (run, end) = worn(1, false, 1000);
        assert_eq!((end, is_worn_out(&run)), (RunEnd::Complete, true));
    }
}
