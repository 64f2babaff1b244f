//! Drives from data sheets, with spare space and program time fitted to measured runs.

use super::data::Measured;
use super::model::{Run, Start};
use super::offered::Sweep;
use super::run;
use super::sheets;
use anyhow::Context as _;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::datasheet::Prior;
use trimtab_study::learn::logs::repeat::with_raw;

/// Fresh rates further from the data sheet than this factor say more about the host.
const SHEET_FACTOR: f64 = 1.25;
/// Steps of the search for the spare space: 0.2 % of the flash.
const SEARCH_STEPS: u32 = 8;

/// What measured runs say about the two fitted parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Training {
    /// Fresh rate in MB/s, which shows the program time.
    pub fresh_mbs: Option<f64>,
    /// Used share and steady rate in MB/s of uniform writes, which show the spare space.
    pub steady: Option<(f64, f64)>,
}

/// The runs of `unit` that may be used, without experiment `left_out`. The fullest
/// uniform runs decide; without any, the ceiling of a sweep of offered load.
pub fn training(
    unit: &str,
    rows: &[Measured],
    sweeps: &[Sweep],
    left_out: Option<&str>,
) -> Training {
    let used = |experiment: &str| left_out != Some(experiment);
    let uniform: Vec<(&Measured, &Run)> = rows
        .iter()
        .filter(|row| {
            row.unit == unit && row.pattern == "uniform" && row.steady && used(&row.experiment)
        })
        .filter_map(|row| Some((row, row.run.as_ref().ok()?)))
        .collect();
    let fullest = uniform.iter().map(|(_, run)| run.used).fold(0.0, f64::max);
    let full = uniform.iter().filter(|(_, run)| run.used > fullest - 0.01);
    let ceilings =
        sweeps.iter().filter(|sweep| sweep.unit == unit && used(&sweep.set)).flat_map(|sweep| {
            sweep.steps.iter().filter(|step| !step.met).map(|step| step.writes * 4096.0 / 1e6)
        });
    Training {
        fresh_mbs: uniform.iter().map(|(row, _)| row.outcome.fresh_mbs).reduce(f64::max),
        steady: median(full.map(|(row, _)| row.outcome.steady_mbs).collect())
            .map(|mbs| (fullest, mbs))
            .or_else(|| median(ceilings.collect()).map(|mbs| (1.0, mbs))),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The drive that the data sheet of `unit` and `prior` give, fitted to `training`.
///
/// # Errors
/// If the data sheet is impossible.
pub fn drive(
    unit: &str,
    prior: &Prior,
    training: &Training,
    seed: u64,
) -> anyhow::Result<DriveSpec> {
    let mut sheet = sheets::of(unit).with_context(|| format!("no data sheet of unit {unit}"))?;
    if let (Some(fresh), Some(stated)) = (training.fresh_mbs, sheet.sequential_write_mbs)
        && (1.0 / SHEET_FACTOR..SHEET_FACTOR).contains(&(fresh / stated))
    {
        sheet.sequential_write_mbs = Some(fresh);
    }
    let spec = sheet.drive(prior)?.spec;
    let Some((used, steady_mbs)) = training.steady else { return Ok(spec) };
    let run = Run {
        pattern: super::load::Pattern::Uniform,
        scattered: false,
        start: Start::Sequential,
        used,
        drive_writes: 2.5,
        depth: 512,
        request_units: 1,
    };
    let (mut low, mut high) = (1.03, 1.55);
    for _ in 0..SEARCH_STEPS {
        let middle = f64::midpoint(low, high);
        let rate = run::run(&with_raw(&spec, middle), &run, 1, seed)
            .map_or(0.0, |outcome| outcome.steady_mbs);
        if rate < steady_mbs { low = middle } else { high = middle }
    }
    Ok(with_raw(&spec, high))
}

/// `count` draws of the class values. Each value takes every `count`-th part of its range
/// once.
pub fn priors(count: u32, seed: u64) -> Vec<Prior> {
    let mut stream = Stream::new(seed, "ssd-iq priors");
    let columns: [Vec<f64>; 7] = std::array::from_fn(|_| {
        let mut parts: Vec<u32> = (0..count).collect();
        stream.shuffle(&mut parts);
        parts.into_iter().map(|part| (f64::from(part) + stream.unit()) / f64::from(count)).collect()
    });
    (0..count as usize)
        .map(|nth| Prior::draw(std::array::from_fn(|field| columns[field][nth])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd_iq::{data, offered};

    #[test]
    fn training_without_an_experiment_ignores_its_runs() {
        let rows = data::parse(data::STEADY).unwrap();
        let sweeps = offered::parse(offered::LATENCY).unwrap();
        let rate = |left_out| training("s0", &rows, &sweeps, left_out).steady.unwrap().1;
        assert_eq!(rate(None), 292.6);
        // The ceiling of the sweep is 76,532 writes of 4 KiB a second.
        assert!((rate(Some("wa14")) / 313.5 - 1.0).abs() < 0.001);
        assert_eq!(training("m0", &rows, &[], Some("op02")), Training::default());
    }

    #[test]
    fn calibrated_drive_shows_its_steady_rate() {
        let training = Training { fresh_mbs: Some(1500.0), steady: Some((1.0, 400.0)) };
        let spec = drive("s0", &Prior::MEDIAN, &training, 1).unwrap();
        let run = Run {
            pattern: crate::ssd_iq::load::Pattern::Uniform,
            scattered: false,
            start: Start::Sequential,
            used: 1.0,
            drive_writes: 2.5,
            depth: 512,
            request_units: 1,
        };
        let outcome = run::run(&spec, &run, 1, 2).unwrap();
        assert!((outcome.steady_mbs / 400.0 - 1.0).abs() < 0.03, "{outcome:?}");
        assert!((outcome.fresh_mbs / 1500.0 - 1.0).abs() < 0.03, "{outcome:?}");
    }

    #[test]
    fn priors_cover_each_part_of_a_range_once() {
        let mut waits: Vec<u32> =
            priors(4, 1).iter().map(|prior| prior.die_wait_permille).collect();
        waits.sort_unstable();
        for (nth, wait) in (0..).zip(waits) {
            assert!((250 + 50 * nth..=300 + 50 * nth).contains(&wait), "{wait}");
        }
    }
}
