//! What ageing adds to the verdict: what a policy gains over months, for the rate and for the life of the drive, and what would change the choice.

use super::ageing::{BEHIND, BURST, CYCLES_PER_TB, RATE_STEADY, TRIM_TIME, WAF_STEADY};
use super::cells::{CHOICE, QUESTION};
use super::months::{fills, is_steady, setting, spaced};
use super::table::mean;
use super::{Study, policy};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Run, Unit};

/// A gain counts from here on: random writes this much faster, or this much less wear.
pub const GAIN: f64 = 1.05;

/// What a policy gains over none at one fill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain<'a> {
    /// How full.
    pub fill: &'a str,
    /// Random writes in steady state against those under `none`.
    pub rate: f64,
    /// Whether both rates are steady.
    pub steady: bool,
    /// Those writes per second, under the policy and under `none`.
    pub rates: (f64, f64),
    /// Bytes that can be written before the drive is worn out, against those under `none`; `None` for a medium that does not wear.
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
    fn best(&self) -> f64 {
        self.life.unwrap_or(1.0).max(self.rate)
    }
}

fn cell<'a>(study: &'a Study, fill: &str, policy: &str) -> Option<&'a Run> {
    study.ageing.iter().find(|run| run.policy == policy && setting(run, "fill") == Some(fill))
}

/// What `policy` gains at each fill.
pub fn gains<'a>(study: &'a Study, policy: &str) -> Vec<Gain<'a>> {
    let gain = |fill: &'a str| {
        let (mine, none) = (cell(study, fill, policy)?, cell(study, fill, policy::NONE)?);
        let rates = (mean(mine, RATE_STEADY)?, mean(none, RATE_STEADY)?);
        let cycles = mean(none, CYCLES_PER_TB).zip(mean(mine, CYCLES_PER_TB)).filter(|(_, mine)| *mine > 0.0);
        let steady = is_steady(mine) && is_steady(none);
        (rates.1 > 0.0).then(|| Gain { fill, rate: rates.0 / rates.1, steady, rates, life: cycles.map(|(none, mine)| none / mine) })
    };
    fills(&study.ageing).into_iter().filter_map(gain).collect()
}

/// Whether months of churn were looked at under no policy and under another.
pub fn looked(study: &Study) -> bool {
    policies(study).iter().any(|policy| !gains(study, policy).is_empty())
}

/// Policies other than `none` that were aged.
fn policies(study: &Study) -> Vec<&str> {
    let mut policies: Vec<&str> = Vec::new();
    for run in &study.ageing {
        if run.policy != policy::NONE && !policies.contains(&run.policy.as_str()) {
            policies.push(&run.policy);
        }
    }
    policies
}

/// Whether any policy gains anything that counts.
pub fn any_gain(study: &Study) -> bool {
    policies(study).iter().any(|policy| gains(study, policy).iter().any(Gain::counts))
}

/// Whether `policy` gains anything that counts, or was not looked at over months.
pub fn is_worth_it(study: &Study, policy: &str) -> bool {
    let gains = gains(study, policy);
    gains.is_empty() || gains.iter().any(Gain::counts)
}

/// Whether `a` gains more than `b` by what counts, at some fill, and less at none.
pub fn beats(study: &Study, a: &str, b: &str) -> bool {
    let (a, b) = (gains(study, a), gains(study, b));
    let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a.best() / b.best()).collect();
    ratios.iter().any(|ratio| *ratio >= GAIN) && ratios.iter().all(|ratio| *ratio > 1.0 / GAIN)
}

/// How much of the time of use a policy trims.
#[derive(Debug, Clone, Copy, PartialEq)]
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

/// From here on it is told before anything is applied, in per cent.
const TRIMMING_TOLD_PERCENT: f64 = 1.0;

/// How much of the time `policy` trims, at the fill where it is most; `None` where that is too little to tell, or not known.
pub fn time_trimming(study: &Study, policy: &str) -> Option<TimeTrimming> {
    let of_seconds = super::answer::days(study)? * 86_400.0;
    let all = study.ageing.iter().filter(|run| run.policy == policy).filter_map(|run| mean(run, TRIM_TIME));
    let seconds = all.reduce(f64::max)?;
    Some(TimeTrimming { seconds, of_seconds }).filter(|time| time.percent() > TRIMMING_TOLD_PERCENT)
}

/// A sentence on what `policy` gains over months; empty if that was not looked at.
pub fn sentence(study: &Study, policy: &str) -> String {
    let gains = gains(study, policy);
    let at = |gain: &Gain<'_>| {
        let faster = gain
            .is_faster()
            .then(|| format!("{} 4 KiB random writes a second under load instead of {}", whole(gain.rates.0), whole(gain.rates.1)));
        let life = gain.longer_life().map(|life| format!("{}× the drive's life", three_digits(life)));
        let all: Vec<String> = faster.into_iter().chain(life).collect();
        format!("{} at {}", all.join(" and "), spaced(gain.fill))
    };
    match gains.iter().filter(|gain| gain.counts()).map(at).collect::<Vec<_>>() {
        _ if gains.is_empty() => String::new(),
        all if all.is_empty() => format!("Over {} it makes no measurable difference to the drive.", super::answer::time_of_use(study)),
        all => format!("After {} of churn that means {} full, against no trimming.", super::answer::time_of_use(study), all.join("; ")),
    }
}

/// A policy whose trims were never done in time, and at which fill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behind<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The fill.
    pub fill: &'a str,
    /// In how many of a hundred sessions.
    pub percent: f64,
}

/// Beyond this the trimming never catches up: it was not done at nine of ten looks, hours apart.
const BEHIND_MAX: f64 = 90.0;

/// The policies whose trimming is never done.
pub fn behind(study: &Study) -> Vec<Behind<'_>> {
    let all = study.ageing.iter().filter_map(|run| {
        let percent = mean(run, BEHIND).filter(|percent| *percent >= BEHIND_MAX)?;
        Some(Behind { policy: &run.policy, fill: setting(run, "fill")?, percent })
    });
    all.collect()
}

/// A line for each policy whose trimming is never done.
pub fn never_done(study: &Study) -> Vec<String> {
    let line = |behind: &Behind<'_>| {
        format!(
            "'{}' never gets done at {} full: when the next work began, hours later, its trimming was still under way {:.0} times out of 100, so it is not recommended",
            behind.policy,
            spaced(behind.fill),
            behind.percent
        )
    };
    behind(study).iter().map(line).collect()
}

/// Whether the trims of `policy` are done before the next is due, as far as that was looked at.
pub fn finishes(study: &Study, policy: &str) -> bool {
    behind(study).iter().all(|behind| behind.policy != policy)
}

fn whole(value: f64) -> String {
    quantity(value, Unit::OpsPerSecond).trim_end_matches("/s").to_owned()
}

/// A line for each fill: every policy beside the others.
pub fn evidence(study: &Study) -> Vec<String> {
    let line = |fill: &str| {
        let cells = study.ageing.iter().filter(|run| setting(run, "fill") == Some(fill));
        let each: Vec<String> = cells
            .filter_map(|run| {
                let cycles = mean(run, CYCLES_PER_TB)
                    .map_or_else(String::new, |cycles| format!(", erase cycles per TB: {}", super::months::erase_cycles(cycles)));
                Some(format!(
                    "'{}' {} writes/s{}, WAF {}{cycles}",
                    run.policy,
                    whole(mean(run, RATE_STEADY)?),
                    asides(run),
                    three_digits(mean(run, WAF_STEADY)?)
                ))
            })
            .collect();
        format!("churn at {} full, 4 KiB random writes under load: {}", spaced(fill), each.join("; "))
    };
    fills(&study.ageing).into_iter().map(line).collect()
}

/// What stands in brackets behind a rate under load: that it is not steady, and the rate of a burst.
fn asides(run: &Run) -> String {
    let burst = mean(run, BURST).map(|burst| format!("{} in a burst after idling", whole(burst)));
    let all: Vec<String> = (!is_steady(run)).then(|| "not steady".to_owned()).into_iter().chain(burst).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join("; ")) }
}

/// What would change the choice of `chosen`, as far as the runs show it.
pub fn changes(study: &Study, chosen: &str, stall: Option<(f64, f64)>, stall_limit: f64) -> Vec<String> {
    let mut changes = Vec::new();
    if let Some((batched, _)) = stall.filter(|_| chosen == policy::IDLE) {
        let same = !beats(study, policy::IDLE, policy::BATCHED) && looked(study);
        let gains = if same { ", and over months it gains as much" } else { "" };
        changes.push(format!(
            "'batched' would do where an append may take {} now and then (the limit here is {}){gains}; a drive whose TRIM is cheaper or queued has shorter waits",
            quantity(batched, Unit::Seconds),
            quantity(stall_limit, Unit::Seconds)
        ));
    }
    let gains = gains(study, chosen);
    for gain in gains.iter().filter(|gain| !gain.counts()) {
        changes.push(format!(
            "at {} full trimming makes no measurable difference to the drive (random writes {}×)",
            spaced(gain.fill),
            three_digits(gain.rate)
        ));
    }
    changes.extend(data(study));
    changes.extend(alignment(study));
    changes
}

fn choice<'a>(study: &'a Study, question: &str, at: usize) -> Option<&'a Run> {
    study.tuning.iter().filter(|run| setting(run, QUESTION) == Some(question)).nth(at)
}

/// Compressible data leave a compressing drive so much spare flash that trimming matters less.
fn data(study: &Study) -> Option<String> {
    let (first, second) = (choice(study, "data", 0)?, choice(study, "data", 1)?);
    let (a, b) = (mean(first, WAF_STEADY)?, mean(second, WAF_STEADY)?);
    let what = setting(second, CHOICE)?;
    if b <= a / GAIN {
        Some(format!(
            "the drive compresses: with data {what} its write amplification is {} instead of {}, it has more spare flash, and trimming matters less",
            three_digits(b),
            three_digits(a)
        ))
    } else {
        Some(format!(
            "what the data are like makes no difference on this drive (write amplification {} and {})",
            three_digits(a),
            three_digits(b)
        ))
    }
}

/// What a partition that begins at sector 63 costs.
pub struct Misaligned<'a> {
    /// How many times slower 4 KiB random writes are.
    pub times: f64,
    /// The policy under which that was tried.
    pub policy: &'a str,
    /// That is more than any policy gains at any fill.
    pub most: bool,
}

/// What a partition at sector 63 costs, if it costs something.
pub fn misaligned(study: &Study) -> Option<Misaligned<'_>> {
    let (aligned, moved) = (choice(study, "alignment", 0)?, choice(study, "alignment", 1)?);
    let (a, b) = (mean(aligned, RATE_STEADY)?, mean(moved, RATE_STEADY)?);
    let times = Some(a / b).filter(|times| b > 0.0 && *times > GAIN)?;
    let most = study.ageing.iter().flat_map(|run| gains(study, &run.policy)).all(|gain| gain.rate < times);
    Some(Misaligned { times, policy: &moved.policy, most })
}

/// A misaligned partition can cost more than any policy gains.
fn alignment(study: &Study) -> Option<String> {
    misaligned(study).map(|Misaligned { times, policy, .. }| {
        format!(
            "a partition that begins at sector 63 makes 4 KiB random writes {}× slower (tried under '{policy}'): check the alignment first ('trimtab doctor')",
            three_digits(times)
        )
    })
}
