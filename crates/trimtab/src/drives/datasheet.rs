//! Predictions for a drive that is known by its data sheet alone.

use crate::drives::crew;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::with_short_blocks;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::datasheet::{DataSheet, Prior};
use trimtab_drive::spec::{DriveSpec, SpecError};
use trimtab_drive::ssd::Ssd;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent};

/// Writes in flight.
const DEPTH: usize = 512;
/// Pages per erase block of the scaled-down drive.
const PAGES: u32 = 3;

/// Steady state under uniform writes of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Steady {
    /// Rate in MB/s.
    pub mbs: f64,
    /// Bytes written to flash per byte written by the host.
    pub waf: f64,
}

/// Steady states of `sheet` with the median of its priors, and of `draws` draws of them.
///
/// # Errors
/// If the data sheet is impossible.
pub fn steady_states(sheet: &DataSheet, draws: u32, seed: u64) -> Result<Vec<Steady>, SpecError> {
    let mut stream = Stream::new(seed, "data sheet priors");
    let drawn = (0..draws).map(|_| Prior::draw(std::array::from_fn(|_| stream.unit())));
    let priors: Vec<Prior> = std::iter::once(Prior::MEDIAN).chain(drawn).collect();
    crew::map(&priors, |prior| steady(&sheet.drive(prior)?.spec, seed)).into_iter().collect()
}

/// Fills `spec`, scaled down, in order, writes it twice at random, and measures half a
/// drive write more.
fn steady(spec: &DriveSpec, seed: u64) -> Result<Steady, SpecError> {
    const UNIT: u64 = 4096;
    let small = with_short_blocks(spec, PAGES)?;
    let mut ssd = Ssd::new(&small, seed)?;
    let units = small.capacity_bytes / UNIT;
    let mut completions = [Nanos(0); DEPTH];
    let mut stream = Stream::new(seed, "uniform writes");
    let (fill, total) = (units, units * 7 / 2);
    let measured_from = total - units / 2;
    let mut before = (Nanos(0), ssd.counters().clone());
    for nth in 0..total {
        let slot = (nth % DEPTH as u64) as usize;
        let unit = if nth < fill { nth } else { stream.below(units) };
        let command = Command::Write(Extent { offset: unit * UNIT, len: UNIT }, DataClass::Random);
        completions[slot] = ssd.submit(completions[slot], &command).done;
        if nth == measured_from {
            before = (completions[slot], ssd.counters().clone());
        }
    }
    let last = completions.iter().copied().max().unwrap_or_default();
    let bytes = (total - measured_from) * UNIT;
    let waf = ssd.waf_since(&before.1).unwrap_or(1.0);
    Ok(Steady { mbs: bytes as f64 / (last.0 - before.0.0).max(1) as f64 * 1e3, waf })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate = sequential rate / (1 + relocated share x its cost); the cost is at least 1.
    #[test]
    fn steady_rate_agrees_with_write_amplification() {
        let sheet = DataSheet {
            name: "x".to_owned(),
            capacity_bytes: 960_197_124_096,
            sequential_write_mbs: Some(1700.0),
            random_write_iops: Some(70_000.0),
            ..DataSheet::default()
        };
        let [steady] = steady_states(&sheet, 0, 1).unwrap()[..] else { panic!() };
        let relocated = steady.waf / 1.037 - 1.0;
        let cost = (1700.0 / steady.mbs - 1.0) / relocated;
        assert!((1.3..1.6).contains(&cost), "{steady:?}");
        // The rated 70000 writes a second are 287 MB/s; the class shows 1.08 times as
        // much.
        assert!((steady.mbs / 310.0 - 1.0).abs() < 0.08, "{steady:?}");
    }
}
