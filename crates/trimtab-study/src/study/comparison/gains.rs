//! Gains of a policy over months of use: random-write rate and drive life.

use crate::study::metrics::{AgeingFigures, Metrics};
use alloc::vec::Vec;
use serde::Serialize;

/// Smallest gain that counts: random writes this much faster, or this much less wear.
pub const GAIN: f64 = 1.05;
/// Percentage of unfinished sessions above which trimming never catches up.
const BEHIND_MAX: f64 = 90.0;

/// Gain of a policy over another at one fill level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The policy that it is compared with.
    pub baseline: &'static str,
    /// Fill level.
    pub fill: &'a str,
    /// Sustained random-write rate relative to the baseline.
    pub rate: f64,
    /// True if both rates are steady.
    pub steady: bool,
    /// Random writes per second under the policy and under the baseline.
    pub rates: (f64, f64),
    /// Drive life in bytes written relative to the baseline; `None` if the medium does
    /// not wear.
    pub life: Option<f64>,
}

impl Gain<'_> {
    /// True if the gain in random-write rate counts.
    pub fn is_faster(&self) -> bool {
        self.rate >= GAIN
    }

    /// The gain in drive life, if it counts.
    pub fn longer_life(&self) -> Option<f64> {
        self.life.filter(|life| *life >= GAIN)
    }

    /// True if either gain counts.
    pub fn counts(&self) -> bool {
        self.is_faster() || self.longer_life().is_some()
    }

    /// The larger of both gains.
    pub fn best(&self) -> f64 {
        self.life.unwrap_or(1.0).max(self.rate)
    }
}

/// Gains of each aged policy over `baseline` at each fill level.
pub fn gains<'a>(metrics: &Metrics<'a>, baseline: &'static str) -> Vec<Gain<'a>> {
    let gain = |mine: &AgeingFigures<'a>| {
        let base = metrics.aged(baseline, mine.fill)?;
        let rates = (mine.rate?, base.rate?);
        let life = base
            .cycles
            .zip(mine.cycles)
            .filter(|(_, mine)| *mine > 0.0)
            .map(|(base, mine)| base / mine);
        let steady = mine.steady && base.steady;
        let (policy, fill, rate) = (mine.policy, mine.fill, rates.0 / rates.1);
        (rates.1 > 0.0).then_some(Gain { policy, baseline, fill, rate, steady, rates, life })
    };
    metrics.ageing.iter().filter_map(gain).collect()
}

/// A policy that never finished its trims in time, with the fill level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverduePolicy<'a> {
    /// The policy.
    pub policy: &'a str,
    /// Fill level.
    pub fill: &'a str,
    /// Percentage of unfinished sessions.
    pub percent: f64,
}

/// Policies that never finish their trims.
pub fn behind<'a>(metrics: &Metrics<'a>) -> Vec<OverduePolicy<'a>> {
    let all = metrics.ageing.iter().filter_map(|figures| {
        let percent = figures.behind_percent.filter(|percent| *percent >= BEHIND_MAX)?;
        Some(OverduePolicy { policy: figures.policy, fill: figures.fill, percent })
    });
    all.collect()
}

/// Share of the time that a policy spends trimming.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrimTimeShare {
    /// Time spent trimming, seconds.
    pub seconds: f64,
    /// Total time, seconds.
    pub of_seconds: f64,
}

impl TrimTimeShare {
    /// The share in per cent.
    pub fn percent(self) -> f64 {
        100.0 * self.seconds / self.of_seconds
    }
}

/// Share of time that `policy` spends trimming at the first fill level; `None` if unknown.
pub fn time_trimming(metrics: &Metrics<'_>, policy: &str) -> Option<TrimTimeShare> {
    let of_seconds = metrics.days? * 86_400.0;
    let seconds = metrics.aged(policy, metrics.fills.first()?)?.trim_seconds?;
    Some(TrimTimeShare { seconds, of_seconds })
}
