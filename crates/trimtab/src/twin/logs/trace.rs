//! The pattern of writes from a block trace.

use std::collections::HashMap;
use std::path::Path;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::interrupt;
use trimtab_sim::trace::{TraceOpKind, TraceReadOptions};
use trimtab_study::learn::logs::load::Pattern;
use trimtab_study::learn::logs::repeat::UNIT;
use trimtab_vssd::trace::TraceSource;

/// Most distinct units in memory: about 2 GB.
const UNITS_MAX: usize = 50_000_000;
/// Fewer writes show no pattern.
const WRITES_MIN: u64 = 1000;
/// Writes that continue the one before, above this share, make the model unlike the trace.
const SEQUENTIAL_MAX: f64 = 0.1;
/// The hottest zone is this power of two smaller than all units.
const ZONES: u32 = 16;

/// Writes of a trace.
#[derive(Debug)]
pub struct TracedLoad {
    /// Zones of units with similar numbers of writes.
    pub pattern: Pattern,
    /// Mean size of a write, in whole units.
    pub request: Bytes,
    /// Reads as a share of the bytes.
    pub read_share: f64,
    /// Differences between the trace and the model's run.
    pub notes: Vec<String>,
}

/// Reads the trace at `path` of a drive with `used` bytes in use.
///
/// # Errors
/// The trace cannot be read, has too few writes, or more units than are in use.
pub fn read(path: &Path, reading: &TraceReadOptions, used: Bytes) -> anyhow::Result<TracedLoad> {
    let shown = path.display();
    let mut source = TraceSource::open(path, reading)?;
    // Every other write ranks the units, and the others are counted by rank: the counts that
    // made a unit hot by chance do not count.
    let mut units: HashMap<u64, [u32; 2]> = HashMap::new();
    let (mut writes, mut written, mut read, mut trims) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut sequential, mut end) = (0_u64, None);
    for event in source.by_ref() {
        interrupt::check()?;
        let event = event?;
        match event.kind {
            TraceOpKind::Read => read += event.len,
            TraceOpKind::Trim => trims += 1,
            TraceOpKind::Flush => {}
            TraceOpKind::Write => {
                let last = (event.offset + event.len - 1) / UNIT;
                for unit in event.offset / UNIT..=last {
                    units.entry(unit).or_default()[(writes % 2) as usize] += 1;
                }
                if units.len() > UNITS_MAX {
                    let problem = format!("{shown} writes more than {UNITS_MAX} different 4 KiB");
                    return Err(UsageError::new(problem).hint("give its beginning").into());
                }
                sequential += u64::from(end == Some(event.offset));
                end = Some(event.offset + event.len);
                (writes, written) = (writes + 1, written + event.len);
            }
        }
    }
    if writes < WRITES_MIN {
        let problem = format!("{shown} has {writes} writes, and a pattern needs {WRITES_MIN}");
        return Err(UsageError::new(problem).into());
    }
    let space = used.0 / UNIT;
    if units.len() as u64 > space {
        let problem = format!(
            "{shown} writes to {} different places of 4 KiB, more than the used {used}",
            units.len()
        );
        return Err(UsageError::new(problem)
            .hint("check --used, and that it is this drive")
            .into());
    }
    let mut notes = source.warnings();
    let sequential = sequential as f64 / writes as f64;
    if sequential > SEQUENTIAL_MAX {
        notes.push(format!(
            "{:.0} % of the trace's writes continue the write before; the repeated run writes at \
             random, which costs more collection",
            100.0 * sequential
        ));
    }
    if trims > 0 {
        notes.push("the trace has trims, which the repeated run does not have".to_owned());
    }
    Ok(TracedLoad {
        pattern: zones(units.into_iter().collect(), space),
        request: Bytes((written / writes).div_ceil(UNIT) * UNIT),
        read_share: read as f64 / (read + written) as f64,
        notes,
    })
}

/// Zones of the `units` with their two counts, within `space` units.
fn zones(mut units: Vec<(u64, [u32; 2])>, space: u64) -> Pattern {
    let total: u64 = units.iter().map(|(_, [_, counted])| u64::from(*counted)).sum();
    units.retain(|(_, [ranked, _])| *ranked > 0);
    units.sort_unstable_by_key(|(unit, [ranked, _])| (std::cmp::Reverse(*ranked), *unit));
    let mut zones = Vec::new();
    let (mut from, mut rest) = (0, total);
    for nth in (0..=ZONES).rev() {
        let end = units.len() >> nth;
        if end == from {
            continue;
        }
        let writes: u64 =
            units[from..end].iter().map(|(_, [_, counted])| u64::from(*counted)).sum();
        zones.push(((end - from) as f64 / space as f64, writes as f64 / total as f64));
        (from, rest) = (end, rest - writes);
    }
    zones.push(((space - from as u64) as f64 / space as f64, rest as f64 / total as f64));
    Pattern::Zones(zones)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;
    use trimtab_drive::rng::Stream;

    const UNITS: u64 = 10_000;

    /// Write shares of the hottest eighth and half of the space in a trace of `count` writes
    /// of 8 KiB; the share `hot` goes to every eighth unit. Zones end at powers of two.
    fn shares(count: u32, hot: f64) -> [f64; 2] {
        let mut stream = Stream::new(7, "trace");
        let mut text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n".to_owned();
        for _ in 0..count {
            let is_hot = stream.unit() < hot;
            let place = if is_hot { stream.below(UNITS / 8) * 8 } else { stream.below(UNITS) };
            writeln!(text, "/dev/sda write {} 8192", place * 8192).unwrap();
        }
        let file = tempfile::Builder::new().suffix(".iolog").tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let used = Bytes(UNITS * 8192);
        let load = read(file.path(), &TraceReadOptions::default(), used).unwrap();
        assert_eq!((load.request, load.notes.len()), (Bytes(8192), 0));
        let Pattern::Zones(mut zones) = load.pattern else { panic!("no zones") };
        let sum = |of: fn(&(f64, f64)) -> f64| zones.iter().map(of).sum::<f64>();
        assert!((sum(|zone| zone.0) - 1.0).abs() < 1e-9 && (sum(|zone| zone.1) - 1.0).abs() < 1e-9);
        zones.sort_by(|a, b| (b.1 / b.0).total_cmp(&(a.1 / a.0)));
        [0.125, 0.5].map(|part| {
            let mut left = part;
            let one = |zone: &(f64, f64)| {
                let taken = zone.0.min(left);
                left -= taken;
                zone.1 * taken / zone.0
            };
            zones.iter().map(one).sum()
        })
    }

    /// Oracle: the shares that were drawn. A short trace of uniform writes has no hot part.
    #[test]
    fn zones_have_the_shares_of_the_trace() {
        let near = |got: [f64; 2], expected: [f64; 2], by: f64| {
            let off = got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < by);
            assert!(off, "{got:?}, expected {expected:?}");
        };
        near(shares(3_000, 0.0), [0.125, 0.5], 0.05);
        near(shares(100_000, 0.0), [0.125, 0.5], 0.03);
        let hot = 0.8;
        let rest = 1.0 - hot;
        // Enough to write every unit, so that a zone ends at an eighth of the space.
        near(shares(400_000, hot), [hot + rest * 0.125, hot + rest * 0.5], 0.05);
    }

    #[test]
    fn trace_of_another_drive_is_refused() {
        let file = tempfile::Builder::new().suffix(".iolog").tempfile().unwrap();
        let head = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n";
        let write = |count: u64| -> String {
            (0..count).map(|n| format!("/dev/sda write {} 4096\n", n * 4096)).collect()
        };
        let refused = |count: u64, used: u64| {
            std::fs::write(file.path(), format!("{head}{}", write(count))).unwrap();
            read(file.path(), &TraceReadOptions::default(), Bytes(used)).map(|load| load.notes)
        };
        assert!(refused(999, 1 << 30).unwrap_err().to_string().contains("has 999 writes"));
        assert!(refused(2000, 1 << 20).unwrap_err().to_string().contains("more than the used"));
        assert!(refused(2000, 1 << 30).unwrap()[0].starts_with("100 % of the trace's writes"));
    }
}
