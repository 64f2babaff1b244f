//! Whole zones rewritten in order: measured runs, and the same runs on the model.

use super::data;
use super::model::{Host, Marks, UNIT, small};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;

/// Measured runs: figures computed from the raw logs of SSD-iq, commit 8a0a3f4.
pub const ZONES: &str = include_str!("zones.csv");
/// Units of a command: 512 KiB.
const COMMAND: u64 = 128;
/// Time of a command that waits for nothing: the median of five units is 240 us; their
/// data sheets explain 80 us of it.
const COMMAND_NS: u64 = 240_000;

/// A measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneRun {
    /// Unit.
    pub unit: String,
    /// Experiment of the publication.
    pub experiment: String,
    /// Size of a zone.
    pub zone_mib: f64,
    /// Zones that are written at the same time.
    pub open: usize,
    /// Written bytes over the size of the drive.
    pub drive_writes: f64,
    /// The result.
    pub outcome: ZoneOutcome,
}

/// Result of a run, of the measured drive or the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ZoneOutcome {
    /// Rate of the second half in MB/s.
    pub rate_mbs: f64,
    /// WAF of collection in the second half, without metadata.
    pub gc_waf: Option<f64>,
}

/// Parses `csv`.
///
/// # Errors
/// The first line that lacks a figure.
pub fn parse(csv: &str) -> Result<Vec<ZoneRun>, String> {
    let of = |row: data::Fields<'_>| {
        Ok(ZoneRun {
            unit: row.text("drive").to_owned(),
            experiment: row.text("experiment").to_owned(),
            zone_mib: row.number("zone_MiB")?,
            open: row.number("active_zones")? as usize,
            drive_writes: row.number("drive_writes")?,
            outcome: ZoneOutcome {
                rate_mbs: row.number("last_half_MBs")?,
                gc_waf: row.optional("phys_read_per_host_write").map(|reads| 1.0 + reads),
            },
        })
    };
    data::rows(csv).map(of).collect()
}

/// Zones in the order in which they are rewritten: `open` at a time, each from its first
/// unit to its last, then another one that is not open.
struct Rewriter {
    zones: u64,
    zone_units: u64,
    /// Open zones and their next unit.
    open: Vec<(u64, u64)>,
    stream: Stream,
}

impl Rewriter {
    fn new(zones: u64, zone_units: u64, open: usize, seed: u64) -> Self {
        let mut rewriter =
            Self { zones, zone_units, open: Vec::new(), stream: Stream::new(seed, "ssd-iq zones") };
        for _ in 0..open.min(zones as usize) {
            let zone = rewriter.closed();
            rewriter.open.push((zone, 0));
        }
        rewriter
    }

    fn closed(&mut self) -> u64 {
        loop {
            let zone = self.stream.below(self.zones);
            if self.open.iter().all(|(open, _)| *open != zone)
                || self.open.len() as u64 >= self.zones
            {
                return zone;
            }
        }
    }

    /// First unit and number of units of the next command.
    fn next(&mut self) -> (u64, u64) {
        let nth = self.stream.below(self.open.len() as u64) as usize;
        let (zone, at) = self.open[nth];
        let count = COMMAND.min(self.zone_units - at);
        let next =
            if at + count == self.zone_units { (self.closed(), 0) } else { (zone, at + count) };
        self.open[nth] = next;
        (zone * self.zone_units + at, count)
    }
}

/// Runs `run` on `spec`, [scaled](small) to `pages` times 2 GiB, zones likewise.
///
/// # Errors
/// If the specification is invalid.
pub fn run(
    spec: &DriveSpec,
    run: &ZoneRun,
    pages: u32,
    seed: u64,
) -> Result<ZoneOutcome, SpecError> {
    let small = small(spec, pages)?;
    let units = small.capacity_bytes / UNIT;
    let scale = small.capacity_bytes as f64 / spec.capacity_bytes as f64;
    let zone_units = ((run.zone_mib * scale * 256.0) as u64).clamp(1, units);
    let mut host = Host::new(Ssd::new(&small, seed)?, 1);
    host.fill_in_order(units);
    host.command_ns = COMMAND_NS;
    let mut zones = Rewriter::new(units / zone_units, zone_units, run.open, seed);
    let total = (run.drive_writes * units as f64) as u64;
    let (mut written, mut half) = (0, None);
    while written < total {
        let (from, count) = zones.next();
        host.write(from, count);
        written += count;
        if half.is_none() && written >= total / 2 {
            half = Some((Marks::new(&host), written));
        }
    }
    let Some((marks, before)) = half else { return Ok(ZoneOutcome::default()) };
    let floor = 1.0 + f64::from(host.ssd.layout().metadata_permille) / 1000.0;
    let gc_waf = host.ssd.waf_since(&marks.counters).map(|waf| waf / floor);
    Ok(ZoneOutcome { rate_mbs: marks.rate(&host, written - before), gc_waf })
}
