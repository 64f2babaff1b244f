//! Published CrystalDiskMark rounds, with the simulation of `drive simulate`: one run per
//! kind of data, and one with TRIM.

use super::spec::{Configuration, ModelledFigures, PublishedData, number};
use anyhow::Context as _;
use trimtab::drives::simulate::{self, Amount, DriveLoad};
use trimtab::drives::{Drive, crew};
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_linux::session::runner::SilentObserver;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_sim::analysis::change_points::{ChangePoint, ChangePointOptions, change_points};
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Run;
use trimtab_sim::run::metrics;
use trimtab_sim::runner::RunEnd;

/// Write tests of the published profile.
const WRITES: [&str; 4] =
    ["seq1m-q1.write", "rnd512k-q1.write", "rnd4k-q1.write", "rnd4k-q32.write"];
const SEQUENTIAL: &str = WRITES[0];
/// Tests with a published drop at the first knee.
const FALLING: [&str; 2] = [WRITES[1], WRITES[3]];
const SEQUENTIAL_READ: &str = "seq1m-q1.read";

/// Relative deviation above which a round is not at the level.
const LEVEL_BAND: f64 = 0.03;
/// Minimum relative step of a knee; small because the model has little noise.
const STEP_MIN: f64 = 0.02;

#[derive(Clone, Copy)]
struct Knee {
    /// Bytes written, midway between the adjacent passes.
    written: f64,
    /// Rate after the knee, in 10^6 bytes per second.
    after: f64,
}

/// Rounds of one kind of data under one policy.
struct PublishedRounds(Run);

impl PublishedRounds {
    fn metric(&self, test: &str, what: &str) -> Option<f64> {
        let name = format!("{test}.{what}");
        self.0.metrics.iter().find(|metric| metric.name == name)?.samples.first().copied()
    }

    /// Points of a series: bytes written, rate.
    fn points(&self, name: &str) -> Vec<(f64, f64)> {
        let series = self.0.series.iter().find(|series| series.name == name);
        series
            .map(|series| {
                series.x.iter().map(|x| *x as f64).zip(series.y.iter().copied()).collect()
            })
            .unwrap_or_default()
    }

    /// Mean of a series between two amounts written.
    fn mean(&self, name: &str, from: f64, to: f64) -> Option<f64> {
        average(
            self.points(name).into_iter().filter(|(x, _)| (from..to).contains(x)).map(|(_, y)| y),
        )
    }

    /// Mean rate of a test in the last fifth of the bytes written.
    fn late(&self, test: &str) -> Option<f64> {
        let name = format!("{test}.rate");
        let end = self.points(&name).last()?.0;
        self.mean(&name, end * 0.8, f64::INFINITY)
    }

    /// Bytes written when a test reached its final level.
    fn level_from(&self, test: &str) -> Option<f64> {
        let late = self.late(test)?;
        let off = |(_, rate): &(f64, f64)| (rate / late - 1.0).abs() > LEVEL_BAND;
        self.points(&format!("{test}.rate-of-round"))
            .into_iter()
            .rfind(off)
            .map(|(written, _)| written)
    }

    /// Permanent level changes of a test.
    fn knees(&self, test: &str) -> Vec<Knee> {
        let (written, rates): (Vec<f64>, Vec<f64>) =
            self.points(&format!("{test}.rate")).into_iter().unzip();
        let knees = change_points(
            &rates,
            &ChangePointOptions { step_min: STEP_MIN, ..ChangePointOptions::default() },
        );
        let knee = |point: ChangePoint| {
            Some(Knee {
                written: written
                    .get(point.index.checked_sub(1)?..=point.index)?
                    .iter()
                    .sum::<f64>()
                    / 2.0,
                after: point.after,
            })
        };
        knees.into_iter().filter_map(knee).collect()
    }
}

/// A set of rounds and its share of the published amount.
#[derive(Clone)]
struct Variant {
    data: DataClass,
    trim: PolicySpec,
    /// Position of the last level change: 1/5 of the amount, with TRIM 1/40, with zeros
    /// none.
    share: f64,
}

const VARIANTS: [Variant; 3] = [
    Variant { data: DataClass::Random, trim: PolicySpec::None, share: 0.5 },
    Variant { data: DataClass::Random, trim: PolicySpec::Online, share: 0.25 },
    Variant { data: DataClass::Zero, trim: PolicySpec::None, share: 0.1 },
];

impl Variant {
    fn run(
        &self,
        drive: &Drive,
        label: &str,
        loops: &simulate::loops::Loops,
        written: f64,
        seed: u64,
    ) -> anyhow::Result<PublishedRounds> {
        let plan = simulate::DriveSimulationPlan {
            name: "crystal".to_owned(),
            load: DriveLoad::Crystal(loops.clone()),
            data: self.data,
            fill_permille: 0,
            steady: false,
            until_written: Some(Amount::Bytes(Bytes((written * self.share) as u64))),
            trim: Some(self.trim),
            seed,
        };
        let (run, end) = simulate::run(&drive.spec, label, &plan, &mut SilentObserver)?;
        if end == RunEnd::Complete { Ok(PublishedRounds(run)) } else { Err(InterruptError.into()) }
    }
}

/// Levels, knees and the gain from TRIM.
pub fn rounds(
    plan: &PublishedData,
    configuration: &Configuration,
    drive: &Drive,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let published = plan.published(configuration)?;
    let advertised =
        published.get("advertised_write_MBps").and_then(number).context("no advertised rate")?;
    let settings = configuration.rounds.as_deref().unwrap_or_default();
    let loops: simulate::loops::Loops = settings.parse().map_err(anyhow::Error::msg)?;
    let written = plan.setting(configuration.of, "written_total_TB")? * 1e12;
    let runs = crew::map(&VARIANTS, |variant| {
        variant.run(drive, &configuration.drive, &loops, written, seed)
    });
    let runs: Vec<PublishedRounds> = runs.into_iter().collect::<anyhow::Result<_>>()?;
    let [random, trimmed, zero] = &runs[..] else { unreachable!("as many runs as variants") };
    Ok(figures(random, trimmed, zero, advertised))
}

fn figures(
    random: &PublishedRounds,
    trimmed: &PublishedRounds,
    zero: &PublishedRounds,
    advertised: f64,
) -> ModelledFigures {
    let firsts: Vec<Knee> =
        FALLING.iter().filter_map(|test| random.knees(test).first().copied()).collect();
    let knee_1 = average(firsts.iter().map(|knee| knee.written));
    let knee_2 = WRITES.iter().filter_map(|test| random.level_from(test)).reduce(f64::max);
    let read = |rounds: &PublishedRounds| {
        rounds.mean(&format!("{SEQUENTIAL_READ}.rate"), 0.0, f64::INFINITY)
    };
    let gains = FALLING
        .iter()
        .filter_map(|test| Some((trimmed.late(test)? / random.late(test)? - 1.0) * 100.0));
    let between = || random.mean(&format!("{SEQUENTIAL}.rate"), knee_1?, knee_2?);
    [
        ("read_sequential_compressible_MBps", read(zero)),
        (
            "read_incompressible_penalty_percent",
            read(random)
                .zip(read(zero))
                .map(|(random, zero)| without_rounding_errors((1.0 - random / zero) * 100.0)),
        ),
        ("write_sequential_compressible_MBps", zero.metric(SEQUENTIAL, metrics::RATE_MAX)),
        ("write_sequential_incompressible_max_MBps", random.metric(SEQUENTIAL, metrics::RATE_MAX)),
        ("write_incompressible_knee_1_GB", knee_1.map(|bytes| bytes / 1e9)),
        ("write_incompressible_after_knee_1_MBps", average(firsts.iter().map(|knee| knee.after))),
        ("write_sequential_between_knees_MBps", between()),
        ("write_incompressible_knee_2_GB", knee_2.map(|bytes| bytes / 1e9)),
        (
            "write_sequential_incompressible_steady_percent_of_advertised",
            random.late(SEQUENTIAL).map(|rate| rate / advertised * 100.0),
        ),
        ("trim_gain_percent", average(gains)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Rounds away binary noise, because equal rates are means of many values.
fn without_rounding_errors(percent: f64) -> f64 {
    (percent * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::spec::PublishedWorkload;
    use super::*;

    /// Levels after the first knee stay within 1 % with twice the amount, so a part of
    /// the published amount is sufficient.
    #[test]
    fn levels_are_independent_of_number_of_rounds() {
        let plan = PublishedData::shipped().unwrap();
        let configuration = plan
            .configurations
            .iter()
            .find(|c| c.of == PublishedWorkload::CrystalDiskMark)
            .unwrap();
        let drive = plan.drive(configuration).unwrap();
        let loops: simulate::loops::Loops = "space=41.3GB".parse().unwrap();
        let levels = |gb: f64| {
            let variant = Variant { share: 1.0, ..VARIANTS[1] };
            let rounds = variant.run(&drive, "intel", &loops, gb * 1e9, 1).unwrap();
            WRITES.map(|test| rounds.late(test).unwrap())
        };
        for (short, long) in levels(90.0).into_iter().zip(levels(180.0)) {
            // A round averages some hundred collections; the score tolerates 25 %.
            assert!((short / long - 1.0).abs() < 0.01, "{short} and {long}");
        }
    }
}
