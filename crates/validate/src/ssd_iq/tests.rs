use super::*;
use crate::ssd_iq::cases::Kind;
use trimtab_study::learn::logs::fit::{Statement, fit};
use trimtab_study::learn::logs::series::{LogSeries, Row};

/// Figures of `case` on the shipped drive of its unit at `pages` pages.
fn figures_of(case: &Case, pages: u32) -> Vec<Figure> {
    let values = case.predict(&drive(&case.unit, false).unwrap().spec, pages, 1).unwrap();
    let predictions = score::with_intervals(&case.unit, &values, &[], &Errors::default());
    score::figures(case, &predictions, &case.measured, true)
}

/// The measured run of `unit` with `used` per cent of the drive, after a sequential fill.
fn uniform_run(unit: &str, experiment: &str, used: f64) -> Case {
    let is = |case: &&Case| {
        let Kind::Run(pattern, run) = &case.kind else { return false };
        let same = (&*case.unit, &*case.experiment, &**pattern) == (unit, experiment, "uniform");
        same && (run.used * 100.0 - used).abs() < 1.0 && run.start == model::Start::Sequential
    };
    let mut case = Measurements::embedded().unwrap().cases().iter().find(is).unwrap().clone();
    // Two and a half drive writes are steady under uniform writes.
    let Kind::Run(_, run) = &mut case.kind else { unreachable!() };
    run.drive_writes = 2.5;
    case
}

/// Runs that count as hits must stay hits, at one page: short enough for a debug build.
#[test]
fn ssd_iq_hits_stay_hits() {
    for (unit, experiment, used) in [
        ("mp0", "op02", 50.0),
        ("mp0", "op02", 80.0),
        ("mp0", "op02", 100.0),
        ("i1", "init07", 100.0),
    ] {
        let case = uniform_run(unit, experiment, used);
        for figure in figures_of(&case, 1) {
            let scored = ["steady MB/s", "WAF of collection"].contains(&figure.figure)
                || (unit == "mp0" && figure.figure.starts_with("cliff"));
            assert!(!scored || figure.hit, "{figure:?}");
        }
    }
}

#[test]
fn equal_seeds_predict_equal_outcomes() {
    let rows = data::parse(data::STEADY).unwrap();
    let row = rows.iter().find(|row| row.unit == "mp0" && row.pattern == "zipf 0.8").unwrap();
    let mut run = row.run.clone().unwrap();
    (run.drive_writes, run.used) = (0.2, 0.3);
    let spec = drive("mp0", false).unwrap().spec;
    let outcome = |seed| run::run(&spec, &run, 1, seed).unwrap();
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

/// The knee of one sweep whose drive saturates, and of one whose drive stalls long
/// before.
#[test]
fn ssd_iq_knees_are_within_one_step() {
    for (unit, steps) in [("wd", 5), ("mp0", 3)] {
        let measurements = Measurements::embedded().unwrap();
        let mut sweep =
            measurements.sweeps.iter().find(|sweep| sweep.unit == unit).unwrap().clone();
        sweep.steps.truncate(steps);
        let figures = figures_of(&Case::of_sweep(&sweep), 3);
        let knee = figures.iter().find(|figure| figure.figure == cases::KNEE).unwrap();
        assert!(knee.hit, "{knee:?}");
    }
}

#[test]
fn superblock_size_decides_rate_of_zones() {
    let measurements = Measurements::embedded().unwrap();
    for (unit, mib) in [("mp0", 1024.0), ("s0", 1024.0), ("mp0", 4096.0)] {
        let run =
            measurements.zones.iter().find(|run| run.unit == unit && run.zone_mib == mib).unwrap();
        let figures = figures_of(&Case::of_zones(run), 3);
        assert!(figures.iter().all(|figure| figure.hit), "{figures:?}");
    }
}

/// Predictions that leave a unit or an experiment out do not change with what it
/// measured.
#[test]
fn frozen_predictions_ignore_measured_figures() {
    let case = uniform_run("mp0", "op02", 50.0);
    let mut other = case.clone();
    other.measured.iter_mut().for_each(|(value, _)| value.value *= 2.0);
    let text = |case: &Case| {
        let values = case.predict(&drive("mp0", true).unwrap().spec, 1, 1).unwrap();
        let errors = Errors::embedded("unit");
        let predictions = score::with_intervals("mp0", &values, &[], &errors);
        frozen(std::slice::from_ref(case), &[predictions])
    };
    assert_eq!(text(&case), text(&other));
    assert!(text(&case).lines().count() > 3 && !text(&case).contains("1283"));
}

#[test]
fn every_unit_has_a_drive_and_a_data_sheet() {
    for (unit, name) in UNITS {
        for from_data_sheet in [false, true] {
            let drive = drive(unit, from_data_sheet).unwrap();
            assert_eq!(drive.spec.name, name);
            assert!(
                drive.sources.values().any(|source| source.kind == SourceKind::Published),
                "{unit}"
            );
        }
        // A data sheet decides the capacity within 0.5 %, and no parameter is fitted to
        // it.
        let (shipped, sheet) = (drive(unit, false).unwrap(), drive(unit, true).unwrap());
        assert!(
            (shipped.spec.capacity_bytes as f64 / sheet.spec.capacity_bytes as f64 - 1.0).abs()
                < 0.005,
            "{unit}"
        );
        assert!(sheet.sources.values().all(|source| source.kind != SourceKind::Fitted), "{unit}");
    }
}

/// A log with the measured figures of `case`: its fresh rate up to the cliff, then its
/// steady rate; flash bytes likewise.
fn log_of(case: &Case, used_bytes: f64) -> LogSeries {
    let figure =
        |name: &str| case.measured.iter().find(|(value, _)| value.figure == name).unwrap().0.value;
    let (fresh, steady) = (figure("fresh MB/s"), figure("steady MB/s"));
    // The cliff is stated as the start of a bin of 0.05.
    let cliff = figure("cliff in drive writes") + 0.025;
    // Metadata of this unit: WAF 1.89 with 0.813 flash reads per host byte.
    let (floor, collection) = (1.042, figure("WAF of collection"));
    let (step, mut time_s) = (0.01, 0.0);
    let row = |nth: u32| {
        let is_fresh = f64::from(nth) * step < cliff;
        let bytes = used_bytes * step;
        time_s += bytes / 1e6 / if is_fresh { fresh } else { steady };
        Row {
            time_s,
            written: Some(bytes),
            nand_written: Some(bytes * floor * if is_fresh { 1.0 } else { collection }),
            nand_read: Some(bytes * if is_fresh { 0.0 } else { collection - 1.0 }),
            ..Row::default()
        }
    };
    LogSeries::of_rows(&(1..=250).map(row).collect::<Vec<_>>())
}

/// A twin learned from one run of the 7450 MAX predicts runs at other fills.
#[test]
fn twin_of_one_run_predicts_other_fills() {
    let case = uniform_run("mp0", "op02", 100.0);
    let Kind::Run(_, run) = &case.kind else { unreachable!() };
    let start = drive("mp0", true).unwrap();
    let log = log_of(&case, start.spec.capacity_bytes as f64 * run.used);
    let statement = Statement { run: run.clone(), offered: None };
    let context = ("2026-11-29", 1);
    let found = fit(
        &start,
        &log,
        &statement,
        context,
        &|specs, show| trimtab::drives::crew::map(specs, show),
        &mut (),
    );
    let twin = found.unwrap().unwrap().drive;
    for used in [50.0, 80.0] {
        let case = uniform_run("mp0", "op02", used);
        let values = case.predict(&twin.spec, 1, 2).unwrap();
        for predicted in values
            .iter()
            .filter(|value| ["steady MB/s", "WAF of collection"].contains(&value.figure))
        {
            let name = predicted.figure;
            let (measured, _) =
                case.measured.iter().find(|(value, _)| value.figure == name).unwrap();
            let off = predicted.value / measured.value - 1.0;
            std::println!("{used} % {name}: {off:+.3}");
            assert!(off.abs() < 0.1, "{used} {name}: {off}");
        }
    }
}
