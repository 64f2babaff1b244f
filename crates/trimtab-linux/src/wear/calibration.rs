//! The unit of a counter of writes: a known amount is written, and the counter is read in
//! between.

use super::ReadError;
use super::ata::Attribute;
use super::names::{Side, write_name};
use super::nvme::HEALTH_LOG;
use super::value::{Fields, count};
use crate::host::health::DATA_UNIT_BYTES;
use crate::sys::interrupt;
use anyhow::{Context as _, bail, ensure};
use serde::Serialize;
use serde_json::Value;
use trimtab_drive::units::Bytes;

/// A calibration stops once the unit of every counter that moved is known this well.
const PRECISION: f64 = 0.02;
/// Readings in a row that may fail.
const FAILURES_MAX: usize = 3;
/// More than this share of the drive's writes by other programs hides the counter's unit.
const FOREIGN_SHARE_MAX: f64 = 0.2;
/// Units of the counters in smartmontools' drive database are 2^n bytes, 512 B to 64 GiB,
/// or 10^n.
const POWERS: std::ops::RangeInclusive<u32> = 9..=36;
const DECIMALS: [u64; 3] = [1_000_000, 1_000_000_000, 1_000_000_000_000];

/// More steps can still tell the unit of such a counter.
const ONE_STEP: &str = "it took only one step; allow more with --most";

/// A counter as the drive reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCount {
    /// Number of the ATA attribute; `None` for NVMe.
    pub id: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub raw: u64,
}

/// The counters of a document of smartctl that may count writes: those whose names say so
/// or are unknown, or the attribute `only`.
///
/// # Errors
/// If the document is not of smartctl.
pub fn counters(document: &[u8], only: Option<u64>) -> Result<Vec<RawCount>, ReadError> {
    let document: Value = serde_json::from_slice(document).map_err(ReadError::NotJson)?;
    let may_count = |attribute: &Attribute| match only {
        Some(id) => attribute.id == id,
        None => write_name(&attribute.name).is_some() || attribute.name.starts_with("Unknown"),
    };
    let attributes = Attribute::all(&document, &mut Fields::default());
    let of_attribute = |Attribute { id, name, raw, .. }: Attribute| {
        raw.map(|raw| RawCount { id: Some(id), name, raw })
    };
    let units = count(&document[HEALTH_LOG]["data_units_written"]).filter(|_| only.is_none());
    let nvme = units.map(|raw| RawCount { id: None, name: "data_units_written".into(), raw });
    let found: Vec<_> =
        attributes.into_iter().filter(may_count).filter_map(of_attribute).chain(nvme).collect();
    if found.is_empty() {
        super::refuse(&document)?;
    }
    Ok(found)
}

/// State at one reading. Bytes count from the start.
#[derive(Debug)]
struct Sample {
    /// Written by us, and durable.
    ours: u64,
    /// Written to the drive according to the kernel, before and after the reading.
    drive: [u64; 2],
    counters: Vec<RawCount>,
}

impl Sample {
    /// Fewest and most bytes that the drive may have counted since `before`.
    fn written_since(&self, before: &Self) -> [f64; 2] {
        let ours = self.ours - before.ours;
        let [low, high] = [
            self.drive[0].saturating_sub(before.drive[1]),
            self.drive[1].saturating_sub(before.drive[0]),
        ];
        [ours.min(low) as f64, ours.max(high) as f64]
    }

    fn raw(&self, of: &RawCount) -> Option<u64> {
        let is_it = |count: &&RawCount| count.id == of.id && count.name == of.name;
        self.counters.iter().find(is_it).map(|count| count.raw)
    }
}

/// The outcome for one counter.
#[derive(Debug, Serialize)]
pub struct CounterUnit {
    /// Number of the ATA attribute; `None` for NVMe.
    pub id: Option<u64>,
    /// Its name.
    pub name: String,
    /// Raw values at the start and at the end.
    pub raw: [u64; 2],
    /// Largest step of the raw value that fits all its changes; 0 if it did not move.
    pub raw_step: u64,
    /// Fewest and most bytes that 1 of the raw value stands for.
    pub bytes: Option<[f64; 2]>,
    /// The only usual unit in that interval.
    pub unit_bytes: Option<u64>,
    /// The line for smartmontools' drive database.
    pub drivedb: Option<String>,
    /// The reason why there is no unit.
    pub why: Option<&'static str>,
}

/// The outcome for all counters.
#[derive(Debug, Serialize)]
pub struct Calibration {
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that other programs wrote to the drive at the same time.
    pub foreign_bytes: u64,
    /// Readings that failed and were left out.
    pub failed_readings: usize,
    /// The counters.
    pub counters: Vec<CounterUnit>,
}

/// Access to the drive under calibration.
pub struct Access<'a> {
    /// Writes this many bytes and makes them durable.
    pub write: &'a mut dyn FnMut(u64) -> anyhow::Result<()>,
    /// Returns the bytes written to the drive according to the kernel.
    pub written: &'a mut dyn FnMut() -> anyhow::Result<u64>,
    /// Reads the counters.
    pub counters: &'a mut dyn FnMut() -> anyhow::Result<Vec<RawCount>>,
}

impl std::fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl Calibration {
    /// Writes portions until the units are known, at most `most` bytes.
    ///
    /// # Errors
    /// If the drive has no such counter, cannot be written or read, or other programs
    /// write too much.
    pub fn run(most: u64, portion: u64, access: &mut Access<'_>) -> anyhow::Result<Self> {
        let (mut samples, mut ours, mut failed, mut failed_now) = (Vec::new(), 0, 0, 0);
        let start = (access.written)()?;
        loop {
            let before = (access.written)()?;
            match (access.counters)() {
                Ok(counters) => {
                    let drive = [before, (access.written)()?].map(|now| now.saturating_sub(start));
                    failed_now = 0;
                    samples.push(Sample { ours, drive, counters });
                }
                Err(error) if samples.is_empty() || failed_now == FAILURES_MAX => {
                    let doing = format!("cannot read the counters after {}", Bytes(ours));
                    return Err(error.context(doing));
                }
                Err(_) => (failed, failed_now) = (failed + 1, failed_now + 1),
            }
            ensure!(
                samples.iter().any(|sample| !sample.counters.is_empty()),
                "the drive shows no counter that may count writes; name one with --attribute"
            );
            let is_known = |unit: &CounterUnit| match unit.bytes {
                Some([low, high]) => high <= low * (1.0 + PRECISION),
                None => unit.why != Some(ONE_STEP),
            };
            let units = units(&samples);
            let has_moved = units.iter().any(|unit| unit.bytes.is_some());
            if ours >= most || has_moved && units.iter().all(is_known) {
                return Self::new(&samples, units, failed);
            }
            interrupt::check()?;
            let next = portion.min(most - ours);
            (access.write)(next)
                .with_context(|| format!("cannot write after {}: no unit is known", Bytes(ours)))?;
            ours += next;
        }
    }

    fn new(samples: &[Sample], counters: Vec<CounterUnit>, failed: usize) -> anyhow::Result<Self> {
        let (ours, drive) = samples.last().map_or((0, 0), |last| (last.ours, last.drive[1]));
        let foreign_bytes = drive.saturating_sub(ours);
        if foreign_bytes as f64 > FOREIGN_SHARE_MAX * drive as f64 {
            bail!(
                "other programs wrote {} to the drive while {} were written for the calibration: \
                    stop them and try again",
                Bytes(foreign_bytes),
                Bytes(ours)
            );
        }
        Ok(Self { written_bytes: ours, foreign_bytes, failed_readings: failed, counters })
    }
}

fn units(samples: &[Sample]) -> Vec<CounterUnit> {
    let counters = samples.first().map_or(&[][..], |first| &first.counters);
    counters.iter().map(|counter| unit(counter, samples)).collect()
}

/// The unit of one counter. It shows whole steps: its value `c` of unit `u` and step `s`
/// stands for at least `c·u` and less than `(c + s)·u`. Between two readings `d` apart,
/// the drive therefore counted more than `(d - s)·u` and less than `(d + s)·u`.
fn unit(counter: &RawCount, samples: &[Sample]) -> CounterUnit {
    let known: Vec<(&Sample, u64)> =
        samples.iter().filter_map(|sample| Some((sample, sample.raw(counter)?))).collect();
    let steps = || known.windows(2).map(|pair| pair[1].1.abs_diff(pair[0].1));
    let mut outcome = CounterUnit {
        id: counter.id,
        name: counter.name.clone(),
        raw: [counter.raw, known.last().map_or(counter.raw, |last| last.1)],
        raw_step: steps().fold(0, common_divisor),
        bytes: None,
        unit_bytes: None,
        drivedb: None,
        why: None,
    };
    if known.windows(2).any(|pair| pair[1].1 < pair[0].1) {
        outcome.why = Some("it went back, so it is not a counter");
        return outcome;
    }
    let step = outcome.raw_step;
    if step == 0 {
        outcome.why = Some("it did not move; allow more with --most if it counts writes");
        return outcome;
    }
    let (mut low, mut high) = (0.0_f64, f64::INFINITY);
    for (at, (later, raw)) in known.iter().enumerate() {
        for (earlier, before) in &known[..at] {
            let [fewest, most] = later.written_since(earlier);
            let change = raw - before;
            low = low.max(fewest / (change + step) as f64);
            if change > step {
                high = high.min(most / (change - step) as f64);
            }
        }
    }
    if high.is_infinite() {
        outcome.why = Some(ONE_STEP);
    } else if low >= high {
        outcome.why = Some("it does not follow the bytes written");
    } else {
        outcome.bytes = Some([low, high]);
        let usual: Vec<u64> = match counter.id {
            Some(_) => POWERS.map(|power| 1 << power).chain(DECIMALS).collect(),
            // The specification's, which is too close to 2^19 to tell the two apart soon.
            None => vec![DATA_UNIT_BYTES],
        };
        let mut fitting = usual.into_iter().filter(|unit| (low..=high).contains(&(*unit as f64)));
        outcome.unit_bytes = fitting.next().filter(|_| fitting.next().is_none());
        let is_nand = write_name(&counter.name).is_some_and(|name| name.side == Side::Nand);
        let line = |unit| Some(format!("\"-v {},raw48,{}\"", counter.id?, unit_name(unit)));
        outcome.drivedb = outcome.unit_bytes.filter(|_| !is_nand).and_then(line);
        outcome.why = match outcome.unit_bytes {
            None => Some("no usual unit, or several, are in the interval; allow more with --most"),
            Some(_) if is_nand => Some("it counts writes to flash memory, not those of the host"),
            Some(_) => None,
        };
    }
    outcome
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// The name that smartmontools gives a counter of host writes with this unit.
fn unit_name(bytes: u64) -> String {
    const LETTERS: [&str; 4] = ["K", "M", "G", "T"];
    if bytes == 512 {
        return "Total_LBAs_Written".to_owned();
    }
    let mut name = format!("Host_Writes_{bytes}B");
    for (power, letter) in (1..).zip(LETTERS) {
        for (unit, infix) in [(1024_u64.pow(power), "i"), (1000_u64.pow(power), "")] {
            if bytes.is_multiple_of(unit) && bytes / unit < 1024 {
                let number = if bytes == unit { String::new() } else { (bytes / unit).to_string() };
                name = format!("Host_Writes_{number}{letter}{infix}B");
            }
        }
    }
    name
}

#[cfg(test)]
mod tests;
