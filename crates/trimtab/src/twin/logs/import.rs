//! Readers of logs: the documented table as CSV or Parquet, bandwidth and latency logs of
//! fio, and readings of smartctl.

mod parquet;

use anyhow::Context as _;
use csv::StringRecord;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named;
use trimtab_linux::wear::{self, ReadError, Reading, WafCounters};
use trimtab_study::learn::logs::series::{Row, differences};

/// Longest accepted file: a year of seconds, in several columns.
const BYTES_MAX: u64 = 2 << 30;
/// Larger than any counter in bytes, and any time in nanoseconds.
const VALUE_MAX: f64 = 1e19;
const HINT: &str = "give a CSV or Parquet file with a column time_s, logs of fio (*_bw.*.log, \
    *_lat.*.log) or JSON of smartctl";
/// Entries of a fio log further apart than this many usual spacings have a gap between.
const GAP: f64 = 5.0;

/// What the files say.
#[derive(Debug, Default, PartialEq)]
pub struct Log {
    /// Rows in order.
    pub rows: Vec<Row>,
    /// Remarks of the reader.
    pub notes: Vec<String>,
    /// True if the flash counters have no documented unit.
    pub is_of_unknown_unit: bool,
    /// Median write latency of the last fifth of the rows.
    pub write_latency_us: Option<f64>,
    /// Reads by the host as a share of its bytes.
    pub read_share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogFormat {
    Csv,
    Parquet,
    Fio,
    Smartctl,
}

/// Reads `paths` as one log.
///
/// # Errors
/// The first file that cannot be used, with its line.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Log> {
    let mut files = Vec::new();
    for path in paths {
        let bytes = named::read(path, BYTES_MAX)
            .map_err(|error| of_named(error, path, "cannot read", HINT))?;
        files.push((path.as_path(), bytes));
    }
    let formats: Vec<LogFormat> = files.iter().map(|(_, bytes)| format_of(bytes)).collect();
    if formats.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(UsageError::new("the logs are of different formats and have no common clock")
            .hint("give them one at a time, or merge them into one CSV")
            .into());
    }
    let log = match formats.first() {
        Some(LogFormat::Smartctl) => of_smartctl(&files)?,
        Some(LogFormat::Fio) => of_fio(&files)?,
        Some(LogFormat::Csv | LogFormat::Parquet) if files.len() > 1 => {
            return Err(UsageError::new("more than one table").hint("join their rows").into());
        }
        format => {
            let (path, bytes) = files.pop().context("no log")?;
            let log = match format {
                Some(LogFormat::Parquet) => of_parquet(bytes),
                _ => of_csv(&bytes),
            };
            log.map_err(|problem| wrong(path, &problem))?
        }
    };
    if !log.rows.iter().any(|row| row.written.is_some_and(|bytes| bytes > 0.0)) {
        return Err(wrong(&paths[0], "no row has host writes").into());
    }
    Ok(log)
}

fn wrong(path: &Path, problem: &str) -> UsageError {
    UsageError::new(format!("{}: {problem}", path.display()))
}

fn format_of(bytes: &[u8]) -> LogFormat {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        _ if bytes.starts_with(parquet::MAGIC) => LogFormat::Parquet,
        Some(b'{') => LogFormat::Smartctl,
        Some(b'0'..=b'9') => LogFormat::Fio,
        _ => LogFormat::Csv,
    }
}

/// Columns of a table.
const COLUMNS: [&str; 15] = [
    "time_s",
    "interval_s",
    "host_write_bytes",
    "host_write_total_bytes",
    "host_write_mb_s",
    "host_read_bytes",
    "nand_write_bytes",
    "nand_write_total_bytes",
    "nand_write_steps",
    "nand_write_total_steps",
    "nand_read_bytes",
    "nand_read_total_bytes",
    "nand_read_steps",
    "nand_read_total_steps",
    "write_p50_us",
];

/// Values of the columns, by name.
type Columns = BTreeMap<&'static str, Vec<Option<f64>>>;

fn of_csv(bytes: &[u8]) -> Result<Log, String> {
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
        return Err("not a Parquet file, and not UTF-8 text".to_owned());
    }
    let mut notes = Vec::new();
    let (places, columns) = csv_columns(bytes, &mut notes)?;
    of_columns(&places, &columns, notes)
}

fn of_parquet(bytes: Vec<u8>) -> Result<Log, String> {
    let mut notes = Vec::new();
    let (places, columns) = parquet::columns(bytes, &mut notes)?;
    of_columns(&places, &columns, notes)
}

fn of_columns(places: &[String], columns: &Columns, notes: Vec<String>) -> Result<Log, String> {
    let mut log = Log { notes, ..Log::default() };
    let column = |name: &str| columns.get(name);
    let intervals = column("interval_s");
    let times: Vec<f64> = match (column("time_s"), intervals) {
        (Some(times), _) => required("time_s", times, places)?,
        (None, Some(intervals)) => required("interval_s", intervals, places)?
            .into_iter()
            .scan(0.0, |time, interval| {
                *time += interval;
                Some(*time)
            })
            .collect(),
        _ => return Err(format!("no column time_s or interval_s; {HINT}")),
    };
    // A counter's first value is only a beginning.
    let is_total = column("host_write_total_bytes").is_some();
    let notes = &mut log.notes;
    let mut of = |names: [&'static str; 2]| -> Option<Vec<Option<f64>>> {
        let [interval, total] = names;
        let counter = |values: &Vec<Option<f64>>| {
            let placed: Vec<_> = places.iter().cloned().zip(values.iter().copied()).collect();
            differences(total, &placed, notes)
        };
        column(interval).cloned().or_else(|| column(total).map(counter))
    };
    let mut written = of(["host_write_bytes", "host_write_total_bytes"]);
    let in_bytes = of(["nand_write_bytes", "nand_write_total_bytes"]);
    let in_steps = of(["nand_write_steps", "nand_write_total_steps"]);
    log.is_of_unknown_unit = in_bytes.is_none() && in_steps.is_some();
    let nand_read = if log.is_of_unknown_unit {
        of(["nand_read_steps", "nand_read_total_steps"])
    } else {
        of(["nand_read_bytes", "nand_read_total_bytes"])
    };
    let nand = in_bytes.or(in_steps);
    if written.is_none()
        && let Some(rates) = column("host_write_mb_s")
    {
        written = Some(bytes_of_rates(rates, &times, intervals));
    }
    let written = written.ok_or(
        "no column of host writes (host_write_bytes, host_write_total_bytes or \
         host_write_mb_s). Their bytes place the log in drive writes",
    )?;
    let value = |values: &Option<Vec<Option<f64>>>, nth| at(values.as_ref()?, nth);
    for (nth, (place, time_s)) in places.iter().zip(&times).enumerate() {
        if is_total && nth == 0 {
            continue;
        }
        let counted_s = nth.checked_sub(1).map(|before| time_s - times[before]);
        log.rows.push(Row {
            place: place.clone(),
            time_s: *time_s,
            covers_s: intervals
                .and_then(|intervals| at(intervals, nth))
                .or(counted_s.filter(|passed_s| is_total && *passed_s > 0.0)),
            written: at(&written, nth),
            nand_written: value(&nand, nth),
            nand_read: value(&nand_read, nth),
        });
    }
    let sum = |values: &[Option<f64>]| values.iter().flatten().sum::<f64>();
    let reads = column("host_read_bytes").map_or(0.0, |values| sum(values));
    log.read_share = reads / (reads + sum(&written)).max(1.0);
    log.write_latency_us = column("write_p50_us").and_then(|values| late_median(values));
    if !log.is_of_unknown_unit && nand.is_none() {
        log.notes.push("the log has no NAND counters".to_owned());
    }
    Ok(log)
}

/// Bytes written in each interval, from rates in MB/s. Without intervals, a row covers the
/// time since the row before, and the first row as much as the second.
fn bytes_of_rates(
    rates: &[Option<f64>],
    times: &[f64],
    intervals: Option<&Vec<Option<f64>>>,
) -> Vec<Option<f64>> {
    let covers = |nth: usize| match (intervals, nth.checked_sub(1)) {
        (Some(intervals), _) => at(intervals, nth),
        (None, Some(before)) => Some(times[nth] - times[before]),
        (None, None) => times.get(1).map(|next| next - times[0]),
    };
    let bytes = |(nth, rate): (usize, &Option<f64>)| {
        Some((*rate)? * 1e6 * covers(nth).filter(|time_s| *time_s > 0.0)?)
    };
    rates.iter().enumerate().map(bytes).collect()
}

/// A value of a column; `None` where it is empty or too short.
fn at(values: &[Option<f64>], nth: usize) -> Option<f64> {
    values.get(nth).copied().flatten()
}

/// Names of the rows and values of the known columns.
fn csv_columns(bytes: &[u8], notes: &mut Vec<String>) -> Result<(Vec<String>, Columns), String> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    let broken = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("line {line}: {len} fields, but the header has {expected_len}")
            }
            _ => format!("line {line}: {error}"),
        }
    };
    let header = reader.headers().map_err(broken)?.clone();
    if header.len() == 1 && header[0].contains(';') {
        return Err("columns are separated by ';'; use ','".to_owned());
    }
    let known = known_columns(&header.iter().collect::<Vec<_>>(), notes)?;
    let (mut places, mut columns) = (Vec::new(), Columns::new());
    known.iter().flatten().for_each(|name| drop(columns.insert(name, Vec::new())));
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(broken)? {
        let line = record.position().map_or(0, csv::Position::line);
        places.push(format!("line {line}"));
        for (name, text) in known.iter().zip(&record) {
            let Some(name) = name else { continue };
            let value = match text {
                "" => None,
                text => Some(
                    text.parse::<f64>().ok().filter(|value| is_possible(name, *value)).ok_or_else(
                        || {
                            format!(
                                "line {line}: column {name} holds '{text}', not a number from 0 \
                                 to {VALUE_MAX:e}"
                            )
                        },
                    )?,
                ),
            };
            columns.entry(name).or_default().push(value);
        }
    }
    Ok((places, columns))
}

/// The known columns of a header.
fn known_columns(
    header: &[&str],
    notes: &mut Vec<String>,
) -> Result<Vec<Option<&'static str>>, String> {
    let known: Vec<Option<&'static str>> =
        header.iter().map(|name| COLUMNS.into_iter().find(|known| known == name)).collect();
    let unused: Vec<&str> = header
        .iter()
        .zip(&known)
        .filter(|(_, known)| known.is_none())
        .map(|(name, _)| *name)
        .collect();
    if !unused.is_empty() {
        notes.push(format!("columns that are not used: {}", unused.join(", ")));
    }
    let twice = known
        .iter()
        .enumerate()
        .find_map(|(nth, name)| name.filter(|_| known[..nth].contains(name)));
    match twice {
        Some(twice) => Err(format!("column {twice} appears twice")),
        None => Ok(known),
    }
}

/// True if the column `name` can hold `value`.
fn is_possible(name: &str, value: f64) -> bool {
    value.abs() <= VALUE_MAX && (value >= 0.0 || name == "time_s")
}

fn required(name: &str, values: &[Option<f64>], places: &[String]) -> Result<Vec<f64>, String> {
    let one = |(value, place): (&Option<f64>, &String)| {
        value.ok_or_else(|| format!("{place}: column {name} is empty"))
    };
    values.iter().zip(places).map(one).collect()
}

/// Median of the values in the last fifth.
fn late_median(values: &[Option<f64>]) -> Option<f64> {
    let mut late: Vec<f64> = values[values.len() * 4 / 5..].iter().copied().flatten().collect();
    late.sort_by(f64::total_cmp);
    late.get(late.len() / 2).copied()
}

/// An entry of a fio log: time in ms, value, and direction (0 read, 1 write, 2 trim).
type FioEntry = (f64, f64, u8);

fn fio_entries(bytes: &[u8]) -> Result<Vec<FioEntry>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let one = |(line, text): (usize, &str)| {
        let mut fields = text.split(',').map(str::trim);
        let mut number = || fields.next()?.parse::<u64>().ok();
        let entry = (number(), number(), number());
        match entry {
            (Some(time), Some(value), Some(direction @ 0..=2)) => {
                Ok((time as f64, value as f64, direction as u8))
            }
            _ => Err(format!(
                "line {line}: not a line of a fio log (time in ms, value, direction, block size)"
            )),
        }
    };
    (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()).map(one).collect()
}

fn of_fio(files: &[(&Path, Vec<u8>)]) -> Result<Log, UsageError> {
    let mut log = Log::default();
    let (mut bandwidth, mut latencies) = (Vec::new(), Vec::new());
    for (path, bytes) in files {
        let entries = fio_entries(bytes).map_err(|problem| wrong(path, &problem))?;
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        if name.contains("_bw.") {
            bandwidth.push((path, entries));
        } else if name.contains("_lat.") || name.contains("_clat.") {
            latencies.extend(entries);
        } else if name.contains("_slat.") || name.contains("_iops.") {
            log.notes.push(format!("{name} is not used"));
        } else {
            return Err(wrong(path, "the name does not tell what the log holds")
                .hint("keep fio's names: NAME_bw.1.log, NAME_lat.1.log, NAME_clat.1.log"));
        }
    }
    let spacing = spacing_ms(bandwidth.iter().flat_map(|(_, entries)| {
        entries.windows(2).filter(|pair| pair[0].2 == pair[1].2).map(|pair| pair[1].0 - pair[0].0)
    }));
    let Some((path, _)) = bandwidth.first() else {
        return Err(wrong(files[0].0, "no bandwidth log among the logs")
            .hint("record one with write_bw_log=NAME and log_avg_msec=1000"));
    };
    if spacing < 2.0 {
        return Err(wrong(path, "one entry per request: fio gives no bytes per interval")
            .hint("set log_avg_msec=1000 in the job"));
    }
    // Bytes written and read in each interval, summed over jobs.
    let mut sums: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    let mut trims = 0;
    for (_, entries) in &bandwidth {
        let mut last: [Option<f64>; 2] = [None; 2];
        for (time, kib_s, direction) in entries {
            let Some(last) = last.get_mut(usize::from(*direction)) else {
                trims += 1;
                continue;
            };
            let passed = time - last.unwrap_or(0.0);
            let covers = if passed > GAP * spacing || passed < 0.0 { spacing } else { passed };
            *last = Some(*time);
            let sum = sums.entry((time / spacing).round() as u64).or_default();
            sum[usize::from(*direction)] += kib_s * 1024.0 * covers / 1000.0;
        }
    }
    if trims > 0 {
        log.notes.push("the log has trims, which the repeated run does not have".to_owned());
    }
    let total = |direction: usize| sums.values().map(|sum| sum[direction]).sum::<f64>();
    log.read_share = total(0) / (total(0) + total(1)).max(1.0);
    log.rows = sums
        .iter()
        .map(|(nth, [_, written])| {
            let time_s = *nth as f64 * spacing / 1000.0;
            let place = format!("{time_s:.0} s");
            Row { place, time_s, written: Some(*written), ..Row::default() }
        })
        .collect();
    let writes = latencies.iter().filter(|entry| entry.2 == 1);
    log.write_latency_us =
        late_median(&writes.map(|entry| Some(entry.1 / 1000.0)).collect::<Vec<_>>());
    log.notes.push("logs of fio have no NAND counters".to_owned());
    Ok(log)
}

/// Median of the positive spacings; 0 without any.
fn spacing_ms(spacings: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = spacings.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

fn of_smartctl(files: &[(&Path, Vec<u8>)]) -> anyhow::Result<Log> {
    let (mut readings, mut failed) = (Vec::new(), Vec::new());
    for (path, bytes) in files {
        let documents = serde_json::Deserializer::from_slice(bytes).into_iter();
        for (nth, document) in (1..).zip(documents) {
            let at = || format!("{}: document {nth}", path.display());
            let document: serde_json::Value =
                document.map_err(|error| UsageError::new(format!("{}: {error}", at())))?;
            match wear::parse(document.to_string().as_bytes()) {
                Ok(reading) => readings.push((at(), reading)),
                Err(error @ (ReadError::NotJson(_) | ReadError::Foreign)) => {
                    return Err(UsageError::new(format!("{}: {error}", at())).into());
                }
                Err(error) => failed.push(format!("{} is left out: {error}", at())),
            }
        }
    }
    if let Some(first) = failed.first().filter(|_| readings.is_empty()) {
        return Err(UsageError::new(format!("no reading can be used; {first}")).into());
    }
    let mut log = of_readings(&readings)?;
    log.notes.extend(failed);
    Ok(log)
}

fn of_readings(readings: &[(String, Reading)]) -> Result<Log, UsageError> {
    let mut log = Log::default();
    if let Some((place, _)) =
        readings.iter().find(|(_, reading)| reading.serial != readings[0].1.serial)
    {
        return Err(UsageError::new(format!("{place} is of another drive than the first")));
    }
    let mut timed: Vec<(u64, &String, &Reading)> = readings
        .iter()
        .filter_map(|(place, reading)| Some((reading.taken_unix_s?, place, reading)))
        .collect();
    if timed.len() < readings.len() {
        log.notes
            .push(format!("{} readings without a time are not used", readings.len() - timed.len()));
    }
    timed.sort_by_key(|(time, ..)| *time);
    timed.dedup_by_key(|(time, ..)| *time);
    let counter = |of: fn(&Reading) -> Option<u64>| {
        timed
            .iter()
            .map(|(_, place, reading)| ((*place).clone(), of(reading).map(|bytes| bytes as f64)))
            .collect::<Vec<_>>()
    };
    let host = counter(|reading| reading.host_written.as_ref().map(|counter| counter.bytes));
    if host.iter().all(|(_, bytes)| bytes.is_none()) {
        return Err(UsageError::new(format!(
            "{}: the drive reports no host writes in bytes",
            readings.first().map_or("no reading", |(place, _)| place)
        )));
    }
    let host = differences("the counter of host writes", &host, &mut log.notes);
    let mut has_nand = false;
    for (nth, pair) in timed.windows(2).enumerate() {
        let written = at(&host, nth + 1);
        let waf = |reading: &Reading| reading.waf_counters.clone();
        let pairs: Option<(WafCounters, WafCounters)> = waf(pair[0].2).zip(waf(pair[1].2));
        let waf = pairs.and_then(|(before, after)| after.since(&before));
        has_nand |= waf.is_some();
        log.rows.push(Row {
            place: pair[1].1.clone(),
            time_s: pair[1].0 as f64,
            covers_s: Some((pair[1].0 - pair[0].0) as f64),
            written,
            nand_written: waf.zip(written).map(|(waf, written)| waf.value * written),
            nand_read: None,
        });
    }
    if !has_nand {
        log.notes.push("the readings have no NAND counters of a known unit".to_owned());
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
