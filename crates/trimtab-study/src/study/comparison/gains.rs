//! What a policy gains over months of use, for the rate of random writes and for the life of the drive.

use crate::study::metrics::{AgeingFigures, Metrics};
use alloc::vec::Vec;
use serde::Serialize;

/// A gain counts from here on: random writes this much faster, or this much less wear.
pub const GAIN: f64 = 1.05;
/// Beyond this many sessions of a hundred trimming never catches up: it was not done at nine of ten looks, hours apart.
const BEHIND_MAX: f64 = 90.0;

/// What a policy gains at one fill against another policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gain<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The policy that it is compared with.
    pub baseline: &'static str,
    /// How full.
    pub fill: &'a str,
    /// Random writes in steady state against those under the baseline.
    pub rate: f64,
    /// Whether both rates are steady.
    pub steady: bool,
    /// Those writes per second, under the policy and under the baseline.
    pub rates: (f64, f64),
    /// Bytes that can be written before the drive is worn out, against those under the baseline; `None` for a medium
    /// that does not wear.
    pub life: Option<f64>,
}

impl Gain<'_> {
    /// Whether random writes are faster.
    pub fn is_faster(&self) -> bool {
        self.rate >= GAIN
    }

    /// The factor for the drive's life, if that is a gain.
    pub fn longer_life(&self) -> Option<f64> {
        self.life.filter(|life| *life >= GAIN)
    }

    /// Whether it is one.
    pub fn counts(&self) -> bool {
        self.is_faster() || self.longer_life().is_some()
    }

    /// The larger of both.
    pub fn best(&self) -> f64 {
        self.life.unwrap_or(1.0).max(self.rate)
    }
}

/// What each aged policy gains against `baseline` at each fill.
pub fn gains<'a>(metrics: &Metrics<'a>, baseline: &'static str) -> Vec<Gain<'a>> {
    let gain = |mine: &AgeingFigures<'a>| {
        let base = metrics.aged(baseline, mine.fill)?;
        let rates = (mine.rate?, base.rate?);
        let life = base.cycles.zip(mine.cycles).filter(|(_, mine)| *mine > 0.0).map(|(base, mine)| base / mine);
        let steady = mine.steady && base.steady;
        let (policy, fill, rate) = (mine.policy, mine.fill, rates.0 / rates.1);
        (rates.1 > 0.0).then_some(Gain { policy, baseline, fill, rate, steady, rates, life })
    };
    metrics.ageing.iter().filter_map(gain).collect()
}

/// A policy whose trims were never done in time, and at which fill.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Behind<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The fill.
    pub fill: &'a str,
    /// In how many of a hundred sessions.
    pub percent: f64,
}

/// The policies whose trimming is never done.
pub fn behind<'a>(metrics: &Metrics<'a>) -> Vec<Behind<'a>> {
    let all = metrics.ageing.iter().filter_map(|figures| {
        let percent = figures.behind_percent.filter(|percent| *percent >= BEHIND_MAX)?;
        Some(Behind { policy: figures.policy, fill: figures.fill, percent })
    });
    all.collect()
}

/// How much of the time of use a policy trims.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeTrimming {
    /// Trimming, seconds.
    pub seconds: f64,
    /// Of all, seconds.
    pub of_seconds: f64,
}

impl TimeTrimming {
    /// The share, in per cent.
    pub fn percent(self) -> f64 {
        100.0 * self.seconds / self.of_seconds
    }
}

/// How much of the time `policy` trims, at the fill where it is most; `None` where that is not known.
pub fn time_trimming(metrics: &Metrics<'_>, policy: &str) -> Option<TimeTrimming> {
    let of_seconds = metrics.days? * 86_400.0;
    let all = metrics.ageing.iter().filter(|figures| figures.policy == policy).filter_map(|figures| figures.trim_seconds);
    Some(TimeTrimming { seconds: all.reduce(f64::max)?, of_seconds })
}
