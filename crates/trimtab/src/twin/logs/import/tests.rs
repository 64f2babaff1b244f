use super::*;
use proptest::prelude::*;
use serde_json::json;
use trimtab_study::learn::logs::series::LogSeries;

fn csv(text: &str) -> Result<Log, String> {
    of_csv(text.as_bytes())
}

fn series(text: &str) -> LogSeries {
    let log = csv(text).unwrap();
    LogSeries { is_of_unknown_unit: log.is_of_unknown_unit, ..LogSeries::of_rows(&log.rows) }
}

#[test]
fn csv_counters_and_bytes_give_the_same_series() {
    let bytes = series("time_s,host_write_bytes,nand_write_bytes\n1,10,20\n2,10,20\n3,30,90\n");
    let totals = "time_s,host_write_total_bytes,nand_write_total_bytes\n\
        0,500,70\n1,510,90\n2,520,110\n3,550,200\n";
    assert_eq!(series(totals), bytes);
    assert_eq!(bytes.written, [(0.0, 0.0), (1.0, 10.0), (2.0, 20.0), (3.0, 50.0)]);
    assert_eq!(bytes.waf(0.0, 50.0), Some((130.0 / 50.0, None)));
    let rates = series("time_s,host_write_mb_s\n1,1\n2,2\n");
    assert_eq!(rates.written, [(0.0, 0.0), (1.0, 1e6), (2.0, 3e6)]);
}

#[test]
fn csv_counter_reset_keeps_all_other_rows() {
    let log = csv("time_s,host_write_total_bytes\n0,0\n1,100\n2,200\n3,50\n4,150\n").unwrap();
    let series = LogSeries::of_rows(&log.rows);
    // The row of the reset counts as the rate before it.
    assert_eq!((series.bytes(), series.written.last().unwrap().0), (400.0, 4.0));
    assert!(
        log.notes[0]
            .starts_with("host_write_total_bytes went back (reset or wrapped): 1, first line 5; "),
        "{:?}",
        log.notes
    );
    assert!(series.notes[0].contains("host writes: 1, first line 5"), "{:?}", series.notes);
}

#[test]
fn csv_gap_backward_time_and_pause_are_noted_and_bridged() {
    let rows: Vec<String> = (1..=40)
        .map(|nth| match nth {
            10 => "9.5,100".to_owned(),
            11 => "8,100".to_owned(),
            21..=32 => format!("{nth},0"),
            _ => format!("{},100", if nth > 15 { nth + 60 } else { nth }),
        })
        .collect();
    let text = format!("time_s,host_write_bytes\n{}\n", rows.join("\n"));
    // Rows 21 to 32 have the old clock, so time goes back twice.
    let series = series(&text);
    let joined = series.notes.join("\n");
    assert!(joined.contains("time stands still or goes back: 2, first line 12"), "{joined}");
    assert!(joined.contains("gaps in time: 2, first 60 s before line 17"), "{joined}");
    assert!(joined.contains("pauses without a write: 1, first 12 s before line 34"), "{joined}");
    let (time_s, bytes) = *series.written.last().unwrap();
    assert!((bytes / time_s - 100.0).abs() < 5.0, "{time_s} {bytes}");
}

#[test]
fn csv_of_unknown_unit_gives_ratios_only() {
    let text = "time_s,host_write_bytes,nand_write_steps\n1,10,1\n2,10,1\n3,10,4\n";
    assert!(series(text).is_of_unknown_unit);
}

#[test]
fn unusable_csv_names_line_and_column() {
    for (text, expected) in [
        ("time_s,nand_write_bytes\n1,2\n", "no column of host writes"),
        ("seconds,host_write_bytes\n1,2\n", "no column time_s or interval_s"),
        ("time_s,host_write_bytes\n1,2\n2,many\n", "line 3: column host_write_bytes holds 'many'"),
        ("time_s,host_write_bytes\n1,-2\n", "line 2: column host_write_bytes holds '-2'"),
        ("time_s,host_write_bytes\n1,NaN\n", "line 2: column host_write_bytes holds 'NaN'"),
        ("time_s,host_write_bytes\n1,2,3\n", "line 2: 3 fields, but the header has 2"),
        ("time_s,host_write_bytes\n,2\n", "line 2: column time_s is empty"),
        ("time_s,time_s,host_write_bytes\n1,1,2\n", "column time_s appears twice"),
        ("time_s;host_write_bytes\n1;2\n", "columns are separated by ';'; use ','"),
        ("t\0i\0m\0e\0_\0s\0", "not a Parquet file, and not UTF-8 text"),
    ] {
        let problem = csv(text).unwrap_err();
        assert!(problem.starts_with(expected) && !problem.contains('\n'), "{text}: {problem}");
    }
}

#[test]
fn csv_columns_without_use_are_named() {
    let log = csv("# a comment\ntime_s,host_write_bytes,fan_rpm\n1,2,900\n").unwrap();
    assert_eq!(log.notes[0], "columns that are not used: fan_rpm");
    assert_eq!(log.rows[0].place, "line 3");
}

/// The table as Parquet: whole numbers as integers where a column has no others.
fn parquet(names: &[&str], rows: &[&[Option<f64>]]) -> Vec<u8> {
    use trimtab_study::sweep::table::{Cells, Column};
    let columns: Vec<Column> = names
        .iter()
        .enumerate()
        .map(|(nth, name)| {
            let values: Vec<Option<f64>> = rows.iter().map(|row| row[nth]).collect();
            let is_whole = values.iter().flatten().all(|value| value.fract() == 0.0);
            let whole = || values.iter().map(|value| value.map(|value| value as i64)).collect();
            let values = if is_whole { Cells::Counters(whole()) } else { Cells::Numbers(values) };
            Column { name: (*name).into(), values }
        })
        .collect();
    crate::sweep::parquet::file("log", &columns, &[]).unwrap()
}

#[test]
fn parquet_gives_the_same_log_as_csv() {
    let names = ["time_s", "host_write_bytes", "nand_write_total_bytes", "fan_rpm"];
    let rows: &[&[Option<f64>]] = &[
        &[Some(0.5), Some(10.0), Some(20.0), Some(1.0)],
        &[Some(1.5), None, Some(40.0), None],
        &[Some(2.5), Some(30.0), Some(90.0), Some(1.0)],
    ];
    let text = "time_s,host_write_bytes,nand_write_total_bytes,fan_rpm\n\
        0.5,10,20,1\n1.5,,40,\n2.5,30,90,1\n";
    let mut log = of_parquet(parquet(&names, rows)).unwrap();
    assert_eq!(log.rows[2].place, "row 3");
    for (nth, row) in (2..).zip(&mut log.rows) {
        row.place = format!("line {nth}");
    }
    assert_eq!(log, csv(text).unwrap());
}

/// Oracle: files that pandas and pyarrow wrote (`make.py`).
#[test]
fn parquet_of_pandas_gives_the_same_log_as_its_csv() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/logs");
    let mut log = of_parquet(std::fs::read(format!("{directory}/log.parquet")).unwrap()).unwrap();
    let expected = csv(&std::fs::read_to_string(format!("{directory}/log.csv")).unwrap()).unwrap();
    for (nth, row) in (2..).zip(&mut log.rows) {
        row.place = format!("line {nth}");
    }
    assert_eq!(log, expected);
    let times = std::fs::read(format!("{directory}/timestamps.parquet")).unwrap();
    assert!(of_parquet(times).unwrap_err().contains("column time_s is not a number"));
    let zstd = std::fs::read(format!("{directory}/zstd.parquet")).unwrap();
    let expected = "compressed with zstd; write it uncompressed or with Snappy";
    assert_eq!(of_parquet(zstd).unwrap_err(), expected);
}

#[test]
fn unusable_parquet_names_row_and_column() {
    let wrong = |names: &[&str], row: &[Option<f64>], expected: &str| {
        let problem = of_parquet(parquet(names, &[row])).unwrap_err();
        assert!(problem.starts_with(expected) && !problem.contains('\n'), "{problem}");
    };
    let names = ["time_s", "host_write_bytes"];
    wrong(&names, &[Some(1.0), Some(-2.0)], "row 1: column host_write_bytes holds -2");
    wrong(&names, &[None, Some(2.0)], "row 1: column time_s is empty");
    wrong(&["seconds", "host_write_bytes"], &[Some(1.0); 2], "no column time_s");
    let whole = parquet(&names, &[&[Some(1.0), Some(2.0)]]);
    for end in 4..whole.len() {
        assert!(of_parquet(whole[..end].to_vec()).is_err());
    }
}

fn fio(files: &[(&str, &str)]) -> Result<Log, String> {
    let files: Vec<(&Path, Vec<u8>)> =
        files.iter().map(|(name, text)| (Path::new(name), text.as_bytes().to_vec())).collect();
    of_fio(&files).map_err(|problem| problem.to_string())
}

/// fio writes KiB/s, and its averages carry the time of their end.
#[test]
fn fio_jobs_add_up() {
    let jobs = [
        ("a_bw.1.log", "1000, 100, 1, 0, 0\n2000, 100, 1, 0, 0\n3000, 300, 1, 0, 0\n"),
        (
            "a_bw.2.log",
            "1001, 50, 1, 0, 0\n1001, 150, 0, 0, 0\n2001, 50, 1, 0, 0\n3002, 50, 1, 0, 0\n",
        ),
        ("a_clat.1.log", "3000, 1500, 1, 0, 0\n"),
    ];
    let log = fio(&jobs).unwrap();
    let written: Vec<f64> = log.rows.iter().map(|row| row.written.unwrap() / 1024.0).collect();
    for (written, expected) in written.iter().zip([150.0, 150.0, 350.0]) {
        assert!((written - expected).abs() < 1.0, "{written}, expected {expected}");
    }
    assert_eq!((log.rows.len(), log.write_latency_us), (3, Some(1.5)));
    assert!((log.read_share - 150.0 / 800.0).abs() < 0.001);
}

#[test]
fn unusable_fio_log_says_how_to_record_one() {
    for (files, expected) in [
        ([("a_bw.1.log", "1, 9, 1, 0\n1, 9, 1, 0\n2, 9, 1, 0\n")], "set log_avg_msec=1000"),
        ([("a_lat.1.log", "1000, 9, 1, 0\n")], "write_bw_log=NAME"),
        ([("a.log", "1000, 9, 1, 0\n")], "keep fio's names"),
        ([("a_bw.1.log", "1000, 9, 1, 0\n2000, 9, 7, 0\n")], "a_bw.1.log: line 2: not a line"),
    ] {
        let problem = fio(&files).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
}

fn reading(serial: &str, time: u64, host: u64, nand: u64) -> String {
    json!({
        "serial_number": serial, "local_time": { "time_t": time }, "smartctl": { "exit_status": 0 },
        "data_units_written": host, "physical_media_units_written": { "hi": 0, "lo": nand },
    })
    .to_string()
}

fn smartctl(documents: &[String]) -> Result<Log, String> {
    of_smartctl(&[(Path::new("s.json"), documents.concat().into_bytes())])
        .map_err(|problem| problem.to_string())
}

/// A data unit is 512,000 bytes; flash writes are counted in bytes.
#[test]
fn smartctl_readings_give_host_and_flash_bytes() {
    let t = 1_700_000_000;
    let documents = [
        reading("a", t, 1000, 1_000_000_000),
        reading("a", t + 120, 3000, 4_072_000_000),
        reading("a", t + 60, 2000, 2_024_000_000),
    ];
    let log = smartctl(&documents).unwrap();
    let rows: Vec<_> =
        log.rows.iter().map(|row| (row.time_s, row.written, row.nand_written)).collect();
    let t = t as f64;
    assert_eq!(
        rows,
        [(t + 60.0, Some(512e6), Some(1_024e6)), (t + 120.0, Some(512e6), Some(2_048e6)),]
    );
    let other = [reading("a", 1_700_000_000, 1, 1), reading("b", 1_700_000_060, 2, 2)];
    assert_eq!(
        smartctl(&other).unwrap_err(),
        "s.json: document 2 is of another drive than the first"
    );
    let said = [("Device is in STANDBY mode, exit(2)", "asleep"), ("open failed", "exit status 2")];
    let failed = said.map(|(said, _)| {
        json!({ "smartctl": { "exit_status": 2, "messages": [{ "string": said }] } }).to_string()
    });
    let [first, last, middle] = &documents;
    let with_failed = [first, &failed[0], middle, &failed[1], last].map(String::clone);
    let left_out = smartctl(&with_failed).unwrap();
    assert_eq!(left_out.rows.len(), 2);
    for ((_, why), nth) in said.into_iter().zip([2, 4]) {
        let named = format!("s.json: document {nth} is left out");
        let is_it = |note: &String| note.starts_with(&named) && note.contains(why);
        assert!(left_out.notes.iter().any(is_it), "{:?}", left_out.notes);
    }
    assert!(
        smartctl(&failed).unwrap_err().starts_with("no reading can be used; s.json: document 1")
    );
    assert!(smartctl(&["{\"a\":".to_owned()]).unwrap_err().starts_with("s.json: document 1: EOF"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No text panics, and what is accepted has finite, ascending progress.
    #[test]
    fn arbitrary_text_gives_a_finite_series_or_an_error(
        header in prop::sample::subsequence(COLUMNS.to_vec(), 1..8),
        rows in prop::collection::vec(
            prop::collection::vec("(|[0-9]{1,12}|-?[0-9]{1,3}\\.[0-9]|1e[0-9]{1,2}|x)", 8), 0..30),
    ) {
        let line = |row: &Vec<String>| row[..header.len()].join(",");
        let text = format!("{}\n{}\n", header.join(","),
            rows.iter().map(line).collect::<Vec<_>>().join("\n"));
        if let Ok(log) = csv(&text) {
            let series = LogSeries::of_rows(&log.rows);
            for pair in series.written.windows(2) {
                prop_assert!(pair[1].0.is_finite() && pair[1].1.is_finite());
                prop_assert!(pair[0].1 <= pair[1].1, "{:?}", pair);
            }
        }
    }

    /// Rows in any interval keep their bytes and time.
    #[test]
    fn regular_rows_keep_bytes_and_time(
        step in 1_u32..100, bytes in prop::collection::vec(1_u64..1_000_000_000, 2..200),
    ) {
        let rows: String = (1..).zip(&bytes)
            .map(|(nth, bytes): (u32, _)| format!("{},{bytes}\n", nth * step)).collect();
        let series = series(&format!("time_s,host_write_bytes\n{rows}"));
        prop_assert!(series.notes.is_empty(), "{:?}", series.notes);
        prop_assert_eq!(series.bytes(), bytes.iter().sum::<u64>() as f64);
        prop_assert_eq!(series.written.last().unwrap().0, f64::from(step) * bytes.len() as f64);
    }

    /// fio's text or other text never panics.
    #[test]
    fn arbitrary_fio_text_gives_a_log_or_an_error(text in "([0-9]{1,5}, ?[0-9]{1,20}, ?[0-4](, 0)?\\n){0,20}") {
        let _ = fio(&[("a_bw.1.log", &text)]);
    }
}
