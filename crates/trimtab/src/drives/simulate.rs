//! Simulations as runs: the core's plans ([`trimtab_sim::simulate`]) with traces from
//! files.

pub mod traced;

use crate::store::recipe::starts_now;
use traced::TraceInput;
use trimtab_drive::spec::DriveSpec;
use trimtab_linux::host::memory;
use trimtab_sim::run::{Run, TargetKind};
use trimtab_sim::runner::{Observer, RunEnd};
pub use trimtab_sim::simulate::{Addresses, Amount, loops};

/// What to simulate.
pub type DriveSimulationPlan = trimtab_sim::simulate::SimulationPlan<TraceInput>;
/// A workload.
pub type DriveLoad = trimtab_sim::simulate::SimulationLoad<TraceInput>;

/// Runs `plan` on a new drive of `spec`. An interrupted run contains the part until then.
///
/// # Errors
/// Settings are invalid for this drive; a trace cannot be read.
pub fn run(
    spec: &DriveSpec,
    label: &str,
    plan: &DriveSimulationPlan,
    observer: &mut dyn Observer,
) -> anyhow::Result<(Run, RunEnd)> {
    memory::check_drive(spec)?;
    // The run starts here.
    let mut header =
        starts_now("simulate", Vec::new(), TargetKind::ModelledDrive, label, "", plan.seed);
    let mut simulated = trimtab_sim::simulate::run(spec, plan, observer)?;
    header.settings = std::mem::take(&mut simulated.settings);
    (header.policy, header.policy_settings) = std::mem::take(&mut simulated.policy);
    let end = simulated.end.clone();
    let mut run = header.into_run(std::mem::take(&mut simulated.recorded), end == RunEnd::Complete);
    simulated.describe(&mut run);
    Ok((run, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_drive::data::DataClass;
    use trimtab_drive::model;
    use trimtab_drive::units::Bytes;
    use trimtab_sim::simulate::check_amount;
    use trimtab_sim::trace::TraceReadOptions;
    use trimtab_sim::workload::jobs::{Job, JobMix};
    use trimtab_sim::workload::synthetic::{Mix, Pattern, TrimPattern};
    use trimtab_vssd::trace::timing::Timing;

    fn addresses(mix: Mix) -> Addresses {
        Addresses {
            pattern: Pattern::Uniform,
            mix,
            trims_of: TrimPattern::All,
            sizes: vec![(4096, 1)],
            queue_depth: 8,
            span_permille: 1000,
        }
    }

    fn plan() -> DriveSimulationPlan {
        DriveSimulationPlan {
            name: "random".into(),
            load: DriveLoad::Synthetic(addresses(Mix::default())),
            data: DataClass::Random,
            fill_permille: 1000,
            steady: false,
            until_written: Some(Amount::Capacities(2.0)),
            trim: None,
            seed: 1,
        }
    }

    fn small() -> DriveSpec {
        let mut spec =
            model::sized(drives::load("ocz-vertex-le-100gb").unwrap().spec, Some(Bytes(1 << 30)))
                .unwrap();
        spec.name = "small".into();
        spec
    }

    #[test]
    fn amounts_are_absolute_or_in_capacities() {
        assert_eq!("3x".parse(), Ok(Amount::Capacities(3.0)));
        assert_eq!("1.8TB".parse(), Ok(Amount::Bytes(Bytes(1_800_000_000_000))));
        for wrong in ["x", "-1x", "0x", "NaNx", "many"] {
            assert!(wrong.parse::<Amount>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn same_plan_gives_same_run_and_random_writes_amplify() {
        let mut first = run(&small(), "drive:small", &plan(), &mut ()).unwrap().0;
        let mut second = run(&small(), "drive:small", &plan(), &mut ()).unwrap().0;
        (first.started_unix_ms, second.started_unix_ms) = (0, 0);
        assert_eq!(first, second);
        let waf = first.metrics.iter().find(|m| m.name == "waf.last-quarter").unwrap().samples[0];
        assert!((1.5..6.0).contains(&waf), "{waf}");
        let written = first.metrics.iter().find(|m| m.name == "written").unwrap().samples[0];
        assert!((written / 2_147_483_648.0 - 1.0).abs() < 0.01, "{written}");
        assert!(first.series.iter().any(|s| s.name == "write.rate" && s.x.len() > 300));
    }

    fn value(run: &Run, name: &str) -> f64 {
        run.metrics.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("{name}")).samples[0]
    }

    #[test]
    fn steady_start_equals_the_end_of_a_long_run() {
        let waf = |steady: bool, capacities: f64, name: &str| {
            let until_written = Some(Amount::Capacities(capacities));
            let plan = DriveSimulationPlan { steady, until_written, ..plan() };
            value(&run(&small(), "drive:small", &plan, &mut ()).unwrap().0, name)
        };
        let (warm, long) = (waf(true, 1.0, "waf"), waf(false, 8.0, "waf.last-quarter"));
        assert!((warm / long - 1.0).abs() < 0.05, "{warm} {long}");
    }

    #[test]
    fn steady_start_takes_the_deepest_queue() {
        let addresses = Addresses { queue_depth: 128, ..addresses(Mix::default()) };
        let plan = DriveSimulationPlan {
            load: DriveLoad::Synthetic(addresses),
            steady: true,
            until_written: Some(Amount::Capacities(0.01)),
            ..plan()
        };
        let (_, end) = run(&small(), "drive:small", &plan, &mut ()).unwrap();
        assert!(matches!(end, RunEnd::Complete), "{end:?}");
    }

    #[test]
    fn unknown_steady_state_is_refused() {
        let refused = |spec: &DriveSpec, plan: DriveSimulationPlan| {
            let plan = DriveSimulationPlan { steady: true, ..plan };
            run(spec, "drive:small", &plan, &mut ()).unwrap_err().to_string()
        };
        let with = |pattern, mix| {
            let addresses = Addresses { pattern, ..addresses(mix) };
            DriveSimulationPlan { load: DriveLoad::Synthetic(addresses), ..plan() }
        };
        let crystal = DriveLoad::Crystal("".parse().unwrap());
        let text = DataClass::Compressible(50);
        let trims = Mix { trim_percent: 10, ..Mix::default() };
        let tlc = drives::load("sata-tlc-500gb").unwrap().spec;
        for (said, part) in [
            (refused(&small(), DriveSimulationPlan { load: crystal, ..plan() }), "workload"),
            (refused(&small(), DriveSimulationPlan { data: text, ..plan() }), "compresses"),
            (refused(&small(), with(Pattern::Sequential, Mix::default())), "zipf"),
            (refused(&small(), with(Pattern::Uniform, trims)), "no trims"),
            (refused(&tlc, plan()), "SLC cache"),
        ] {
            assert!(said.contains("cannot start steady") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn amounts_above_a_million_drive_writes_are_refused() {
        let load = |text: &str| DriveLoad::Crystal(text.parse().unwrap());
        let until = |amount: &str| Some(amount.parse().unwrap());
        let job = |io_size, loops| {
            let job = Job { mix: JobMix::Write, io_size, loops, ..Job::new("j") };
            DriveSimulationPlan { load: DriveLoad::Jobs(vec![job]), until_written: None, ..plan() }
        };
        for (plan, part) in [
            (
                DriveSimulationPlan { until_written: until("18000000TB"), ..plan() },
                "until-written: ",
            ),
            (
                DriveSimulationPlan { load: load("pass=18446744073709551615:passes=1"), ..plan() },
                ": pass: ",
            ),
            (
                DriveSimulationPlan { load: load("small-pass=1000TB:passes=2"), ..plan() },
                ": small-pass: ",
            ),
            (job(Some(1 << 60), 1), "job 'j': io_size: "),
            (job(None, u64::from(u32::MAX)), "job 'j': loops: "),
        ] {
            let said = run(&small(), "drive:small", &plan, &mut ()).unwrap_err().to_string();
            assert!(said.contains(part) && said.contains("at most 1,000,000 times"), "{said}");
        }
        let (capacity, million) = (Bytes(small().capacity_bytes), until("1000000x").unwrap());
        check_amount("a", million.of(capacity), capacity).unwrap();
    }

    fn counter(run: &Run, name: &str) -> u64 {
        run.counters.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("{name}")).1
    }

    fn crystal(trim: &str) -> Run {
        let plan = DriveSimulationPlan {
            load: DriveLoad::Crystal(
                "size=64MiB:passes=1:pass=64MiB:small-pass=2MiB".parse().unwrap(),
            ),
            fill_permille: 0,
            until_written: Some(Amount::Capacities(4.0)),
            trim: Some(trim.parse().unwrap()),
            ..plan()
        };
        let (run, end) = super::run(&small(), "drive:small", &plan, &mut ()).unwrap();
        assert_eq!(end, RunEnd::Complete);
        run
    }

    #[test]
    fn old_test_files_fill_the_drive_without_trim() {
        let (untold, told) = (crystal("none"), crystal("online"));
        let rounds = value(&untold, "rounds") as usize;
        assert!(rounds > 15, "{rounds}");
        for name in ["waf-of-round", "seq1m-q1.write.rate-of-round"] {
            let series = untold.series.iter().find(|s| s.name == name).unwrap();
            assert_eq!(series.x.len(), rounds, "{name}");
        }
        assert!(value(&untold, "spare-blocks.gone.written") >= 1e9, "not before the drive is full");
        // An overwritten full-size file becomes stale once deleted, not earlier.
        assert_eq!(counter(&untold, "trim.asked.bytes"), 0);
        assert!(counter(&untold, "trim.never-told.bytes") > 800 << 20);
        assert_eq!(counter(&told, "trim.never-told.bytes"), 0);
        assert_eq!(counter(&told, "trim.effective.bytes"), (rounds as u64 - 1) * (64 << 20));
        assert!(
            counter(&untold, "now_mapped_bytes") > 900 << 20
                && counter(&told, "now_mapped_bytes") <= 65 << 20
        );
        assert!(value(&untold, "waf") >= value(&told, "waf"));
    }

    #[test]
    fn trace_replays_at_its_times_until_enough_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.csv");
        std::fs::write(
            &path,
            "0,h,0,Write,0,1048576,1\n10000000,h,0,Read,0,4096,1\n\
            20000000,h,0,Write,1048576,4096,1\n",
        )
        .unwrap();
        let plan = |until_written, path: &std::path::Path| DriveSimulationPlan {
            load: DriveLoad::Trace(TraceInput {
                path: path.to_owned(),
                reading: TraceReadOptions::default(),
                timing: Timing::Recorded,
            }),
            fill_permille: 0,
            until_written,
            ..plan()
        };
        let once = run(&small(), "x", &plan(None, &path), &mut ()).unwrap().0;
        assert_eq!(once.phases[0].written, Bytes((1 << 20) + 4096));
        let seconds = once.phases[0].took.as_secs_f64();
        assert!((2.0..2.1).contains(&seconds), "{seconds}");
        let twice = run(&small(), "x", &plan(Some(Amount::Bytes(Bytes(2 << 20))), &path), &mut ())
            .unwrap()
            .0;
        assert_eq!(
            twice.phases[0].written,
            Bytes((2 << 20) + 4096),
            "the second pass only as far as needed"
        );
        let bad = dir.path().join("bad.csv");
        std::fs::write(&bad, "0,h,0,Write,0,4096,1\n1,h,0,Write,99999999488,4096,1\n").unwrap();
        let error = run(&small(), "x", &plan(None, &bad), &mut ()).err().unwrap().to_string();
        assert!(error.contains("bad.csv, line 2: 4096 bytes at 99999999488"), "{error}");
        std::fs::write(&bad, "0,h,0,Read,0,4096,1\n").unwrap();
        let error = run(&small(), "x", &plan(Some(Amount::Capacities(1.0)), &bad), &mut ())
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("writes nothing"), "{error}");
    }

    /// Native cells of the drive take 16 rows of 32 KiB in 560 µs, 936 MB/s. That heats
    /// it to `40 + 0.55 x 0.936 x 90 = 86` degrees, above the throttle limit of 82. It
    /// stays throttled, at 80 % of the speed and 77 degrees.
    #[test]
    fn rate_before_thermal_throttling_is_not_steady() {
        let spec =
            model::sized(drives::load("nvme-tlc-500gb").unwrap().spec, Some(Bytes(20 << 30)))
                .unwrap();
        let sequential = |capacities| {
            let load = Addresses {
                pattern: Pattern::Sequential,
                sizes: vec![(1 << 20, 1)],
                ..addresses(Mix::default())
            };
            let plan = DriveSimulationPlan {
                load: DriveLoad::Synthetic(load),
                until_written: Some(Amount::Capacities(capacities)),
                fill_permille: 0,
                ..plan()
            };
            run(&spec, "drive:small", &plan, &mut ()).unwrap().0
        };
        let said = |run: &Run, code: &str| run.warnings.iter().any(|warning| warning.code == code);
        let cool = sequential(5.0);
        assert!(
            cool.metrics.iter().all(|metric| metric.name != "write.rate.steady")
                && said(&cool, "steady-state.warming-up")
        );
        let hot = sequential(20.0);
        let (native, steady) = (16.0 * 32_768.0 / 560.0, value(&hot, "write.rate.steady"));
        assert!(
            (steady / (0.8 * native) - 1.0).abs() < 0.05 && !said(&hot, "steady-state.warming-up"),
            "{steady} of {native} MB/s"
        );
    }

    /// The drive may write ten times its capacity to the flash, then programs at half
    /// speed: the rate is the dies' time for a row.
    #[test]
    fn lifetime_throttling_prevents_steady_rate() {
        let mut spec = small();
        let flash = &mut spec.flash;
        let credit_bytes = 10 * spec.capacity_bytes;
        let rule = trimtab_drive::spec::LifeThrottle {
            credit_bytes,
            earned_bytes_per_s: 0,
            throttled_permille: 500,
        };
        flash.life_throttle = Some(rule);
        let (geometry, nand) = (flash.geometry.clone(), flash.nand.clone());
        let sequential = |capacities| {
            let load = Addresses {
                pattern: Pattern::Sequential,
                sizes: vec![(1 << 20, 1)],
                ..addresses(Mix::default())
            };
            let plan = DriveSimulationPlan {
                load: DriveLoad::Synthetic(load),
                until_written: Some(Amount::Capacities(capacities)),
                fill_permille: 0,
                ..plan()
            };
            run(&spec, "drive:small", &plan, &mut ()).unwrap().0
        };
        let early = sequential(5.0);
        let said = early
            .warnings
            .iter()
            .find(|warning| warning.code == "steady-state.life-throttle")
            .expect("the later throttling is reported");
        let left: f64 = said
            .facts
            .iter()
            .find(|fact| fact.key == "credit-left-bytes")
            .unwrap()
            .value
            .parse()
            .unwrap();
        assert!((left / (5.0 * spec.capacity_bytes as f64) - 1.0).abs() < 0.02, "{left}");
        assert!(early.metrics.iter().all(|metric| metric.name != "write.rate.steady"));
        let late = sequential(40.0);
        let row = (geometry.page_bytes * u64::from(geometry.planes)) as f64;
        let die_ns = 2.0 * nand.program_ns as f64
            + nand.erase_ns as f64 / f64::from(geometry.pages_per_block);
        let (expected, steady) =
            (geometry.dies() as f64 * row / die_ns * 1e3, value(&late, "write.rate.steady"));
        assert!(
            (steady / expected - 1.0).abs() < 0.05,
            "{steady} MB/s, arithmetic says {expected}"
        );
    }

    /// Its allowance is 100 MB/s; throttled it writes less, otherwise more. The long-term
    /// rate is the allowance.
    #[test]
    fn half_of_a_swing_is_not_steady() {
        let mut spec = small();
        let flash = &mut spec.flash;
        let rule = trimtab_drive::spec::LifeThrottle {
            credit_bytes: 250_000_000,
            earned_bytes_per_s: 100_000_000,
            throttled_permille: 300,
        };
        flash.life_throttle = Some(rule);
        let sequential = |capacities| {
            let load = Addresses {
                pattern: Pattern::Sequential,
                sizes: vec![(1 << 20, 1)],
                ..addresses(Mix::default())
            };
            let plan = DriveSimulationPlan {
                load: DriveLoad::Synthetic(load),
                until_written: Some(Amount::Capacities(capacities)),
                fill_permille: 0,
                ..plan()
            };
            run(&spec, "drive:small", &plan, &mut ()).unwrap().0
        };
        let steady = |run: &Run| {
            run.metrics
                .iter()
                .find(|metric| metric.name == "write.rate.steady")
                .map(|metric| metric.samples[0])
        };
        let rates: Vec<Option<f64>> = [1.5, 3.0, 6.0, 20.0, 80.0]
            .into_iter()
            .map(|capacities| steady(&sequential(capacities)))
            .collect();
        assert!(rates.iter().flatten().all(|rate| (rate / 100.0 - 1.0).abs() < 0.1), "{rates:?}");
        assert!(rates[0].is_none() && rates[4].is_some(), "{rates:?}");
    }

    #[test]
    fn policy_on_drive_without_trim_is_refused() {
        let mut spec = small();
        let flash = &mut spec.flash;
        flash.trim.supported = false;
        let with = |trim: &str| {
            run(
                &spec,
                "x",
                &DriveSimulationPlan { trim: Some(trim.parse().unwrap()), ..plan() },
                &mut (),
            )
        };
        assert!(with("batched").err().unwrap().to_string().contains("does not support TRIM"));
        assert!(with("none").is_ok());
    }

    #[test]
    fn endless_workload_is_refused() {
        let mut reads = plan();
        reads.load = DriveLoad::Synthetic(addresses(Mix { read_percent: 100, trim_percent: 0 }));
        assert!(run(&small(), "x", &reads, &mut ()).is_err());
    }
}
