use super::*;

/// Runs that count as hits and must stay hits, at one page per erase block: (unit, experiment,
/// pattern, used share in per cent). Short enough for a debug build.
const HITS: [(&str, &str, &str, f64); 4] = [
    ("mp0", "op02", "uniform", 50.0),
    ("mp0", "op02", "uniform", 80.0),
    ("mp0", "op02", "uniform", 100.0),
    ("i1", "init07", "uniform", 100.0),
];

#[test]
fn open_hits_stay_hits() {
    let rows = data::parse(data::STEADY).unwrap();
    for (unit, experiment, pattern, used) in HITS {
        let row = rows
            .iter()
            .filter(|row| (&*row.unit, &*row.experiment, &*row.pattern) == (unit, experiment, pattern))
            .find(|row| {
                let run = row.run.as_ref().unwrap();
                (run.used * 100.0 - used).abs() < 1.0 && run.start == model::Start::Sequential
            })
            .unwrap();
        // Two and a half drive writes are steady under uniform writes.
        let mut run = row.run.clone().unwrap();
        run.drive_writes = 2.5;
        let outcome = model::run(&drive(unit, false).unwrap().spec, &run, 1, 1).unwrap();
        for figure in score::figures(row, &outcome, None, false) {
            let scored =
                ["steady MB/s", "WAF of collection"].contains(&figure.figure) || (unit == "mp0" && figure.figure.starts_with("cliff"));
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
    let outcome = |seed| model::run(&spec, &run, 1, seed).unwrap();
    assert_eq!(outcome(1), outcome(1));
    assert_ne!(outcome(1), outcome(2));
}

#[test]
fn every_unit_has_a_drive_and_a_data_sheet() {
    for (unit, name) in UNITS {
        for from_data_sheet in [false, true] {
            let drive = drive(unit, from_data_sheet).unwrap();
            assert_eq!(drive.spec.name, name);
            assert!(drive.sources.values().any(|source| source.kind == SourceKind::Published), "{unit}");
        }
        // A data sheet decides the capacity within 0.5 %, and no parameter is fitted to it.
        let (shipped, sheet) = (drive(unit, false).unwrap(), drive(unit, true).unwrap());
        assert!((shipped.spec.capacity_bytes as f64 / sheet.spec.capacity_bytes as f64 - 1.0).abs() < 0.005, "{unit}");
        assert!(sheet.sources.values().all(|source| source.kind != SourceKind::Fitted), "{unit}");
    }
}
