//! What the waits of others that were measured beside discards say: a longest wait alone may be chance, and one stall in a second of looking often is.
//!
//! An append is *long* where it takes longer than anybody overlooks and more than twice what half of them take without discards. Whether these come more
//! often beside a policy than without trimming is asked of Fisher's exact test. Where even a tenth of long ones could not be told from none, or a few came
//! and may be chance, nothing can be said, and that is said.

use super::light_work::{BUSY, BUSY_WAIT, SPARSE, SPARSE_WAIT};
use super::table::{mean, samples};
use super::verdict::{BLINK_SECONDS, effective_policy};
use super::{Study, policy};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::{Nanos, three_digits};
use trimtab_sim::analysis::fisher::{Share, more_often};
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{LatencyPart, Provenance, Run, Unit};

/// What comes more often than this by chance proves nothing. Two policies are asked about, so each gets half of the usual 5 %.
const CHANCE_MAX: f64 = 0.025;
/// Long appends of so many must be told from none, or there were too few to look at.
const TENTH: u64 = 10;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Others wait longer beside this policy than chance explains.
    Longer,
    /// There were enough to see it, and it was not seen.
    Alike,
    /// Too few appends, or too few long ones, to tell it from chance.
    TooFew,
}

/// The appends beside one policy against those without trimming.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// What follows.
    pub finding: Finding,
    /// The longest beside the policy, and without trimming, seconds.
    pub longest: (f64, f64),
    /// From when on one is long, seconds.
    pub limit: f64,
    /// The long ones beside the policy, and without trimming.
    pub long: (Share, Share),
    /// How often so many come beside the policy by chance.
    pub chance: f64,
}

/// The longest that one operation of somebody else took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Longest<'a> {
    /// From issue to completion.
    pub seconds: f64,
    /// After which workload.
    pub job: &'a str,
    /// One operation came each time so much had passed: another load has other waits.
    pub every: Nanos,
}

/// The longest wait of others beside `policy`, over all workloads and repeats: the one figure for it wherever it stands. Of the loads the sparser, which
/// only modelled drives have.
pub fn longest<'a>(study: &'a Study, policy: &str) -> Option<Longest<'a>> {
    let of = |metric: &str, every: Nanos| {
        let all = study.runs.iter().filter(|run| effective_policy(run) == policy).flat_map(|run| {
            let waits = samples(run, metric).unwrap_or_default();
            waits.iter().map(|seconds| Longest { seconds: *seconds, job: &run.workload, every })
        });
        all.reduce(|a, b| if b.seconds > a.seconds { b } else { a })
    };
    of(SPARSE_WAIT, SPARSE.interval).or_else(|| of(BUSY_WAIT, BUSY.interval))
}

/// What was measured beside `policy`; `None` where nothing was, where no discard was counted, or where the waits were modelled.
pub fn beside(study: &Study, policy: &str) -> Option<Waits> {
    let (with, without) = (appends(study, policy)?, appends(study, policy::NONE)?);
    let sent = |run: &&Run| samples(run, metrics::DISCARD_COMMANDS).is_some_and(|counts| counts.iter().any(|count| *count > 0.0));
    if policy == policy::NONE || !of(study, policy).any(|run| sent(&run)) {
        return None;
    }
    let seconds = |ns: Nanos| ns.as_secs_f64();
    let limit = (2.0 * seconds(without.percentile(50.0))).max(BLINK_SECONDS);
    let share = |of: &Histogram| {
        let hits = of.buckets().filter(|(wait, _)| seconds(*wait) > limit).map(|(_, count)| count).sum();
        Share { hits, of: of.count() }
    };
    let long = (share(&with), share(&without));
    let chance = more_often(long.0, long.1);
    let most = |policy: &str| of(study, policy).filter_map(|run| samples(run, BUSY_WAIT)).flatten().copied().reduce(f64::max);
    let longest = (most(policy)?, most(policy::NONE)?);
    Some(Waits { finding: finding(long, chance), longest, limit, long, chance })
}

fn finding((with, without): (Share, Share), chance: f64) -> Finding {
    let tenth = Share { hits: with.of.div_ceil(TENTH), of: with.of };
    let enough = more_often(tenth, Share { hits: 0, ..without }) < CHANCE_MAX;
    match () {
        () if chance < CHANCE_MAX => Finding::Longer,
        // No more often than without, as a share.
        () if enough && with.hits * without.of <= without.hits * with.of => Finding::Alike,
        () => Finding::TooFew,
    }
}

fn of<'a>(study: &'a Study, policy: &'a str) -> impl Iterator<Item = &'a Run> {
    let measured =
        |run: &&Run| run.provenance == Provenance::Measured && mean(run, SPARSE_WAIT).is_none() && mean(run, BUSY_WAIT).is_some();
    study.runs.iter().filter(move |run| effective_policy(run) == policy).filter(measured)
}

/// How long each append took beside `policy`.
fn appends(study: &Study, policy: &str) -> Option<Histogram> {
    let phases = of(study, policy).flat_map(|run| &run.phases).filter(|phase| phase.name == BUSY.phase);
    let latencies = phases.flat_map(|phase| &phase.latencies).filter(|latency| latency.part == LatencyPart::Total);
    let mut all = Histogram::new();
    latencies.for_each(|latency| all.merge(&latency.histogram));
    (all.count() > 0).then_some(all)
}

impl Waits {
    /// Behind a longest wait: whether it is one that means something. Empty where that is not in doubt.
    pub fn mark(&self) -> &'static str {
        match (self.finding, self.long.0.hits) {
            (Finding::TooFew, 0) => " (too few to say)",
            (Finding::TooFew, _) => " (may be chance)",
            // The longest is one event; that it is longer says nothing where no more of them were long.
            (Finding::Alike, _) if self.longest.0 > 1.5 * self.longest.1 => " (long no more often)",
            (Finding::Longer, _) if self.longest.0 <= self.longest.1 => " (long more often)",
            (Finding::Longer | Finding::Alike, _) => "",
        }
    }

    /// The figures behind it.
    pub fn evidence(&self, policy: &str) -> String {
        let (with, without) = self.long;
        format!(
            "beside '{policy}' {} of {} appends of others took longer than {}, without trimming {} of {}: {}",
            with.hits,
            with.of,
            quantity(self.limit, Unit::Seconds),
            without.hits,
            without.of,
            match self.finding {
                Finding::Longer => format!("more than chance explains ({})", self.chance_in_words()),
                Finding::Alike => "no more often".to_owned(),
                Finding::TooFew if with.hits == 0 => "too few to say".to_owned(),
                Finding::TooFew => format!("too few to say ({})", self.chance_in_words()),
            }
        )
    }

    fn chance_in_words(&self) -> String {
        let percent = self.chance * 100.0;
        if percent < 0.01 {
            "it happens in less than 0.01 % of cases".to_owned()
        } else {
            format!("it happens in {} % of cases", three_digits(percent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn share(hits: u64, of: u64) -> Share {
        Share { hits, of }
    }

    /// n over k.
    fn choose(n: u64, k: u64) -> f64 {
        (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
    }

    #[test]
    fn insignificant_worst_latency_is_marked() {
        let waits = |finding, with, without| Waits {
            finding,
            longest: (with, without),
            limit: 0.05,
            long: (share(2, 60), share(2, 60)),
            chance: 0.6,
        };
        // Seen: "costs nothing measurable" beside 224 ms against 78 ms.
        assert_eq!(waits(Finding::Alike, 0.224, 0.078).mark(), " (long no more often)");
        assert_eq!(waits(Finding::Alike, 0.08, 0.078).mark(), "");
        assert_eq!(waits(Finding::Longer, 0.224, 0.078).mark(), "");
        assert_eq!(waits(Finding::Longer, 0.078, 0.224).mark(), " (long more often)");
    }

    #[test]
    fn what_may_be_chance_is_said_to_be_too_few() {
        let found = |with: (u64, u64), without: (u64, u64)| {
            let long = (share(with.0, with.1), share(without.0, without.1));
            finding(long, more_often(long.0, long.1))
        };
        // None of 52 without. One of 63 is chance in 63 of 115 cases; three in 39,711 of 246,905, 16 %; seven in 1.2 %.
        assert_eq!(found((1, 63), (0, 52)), Finding::TooFew);
        assert!((more_often(share(3, 63), share(0, 52)) - choose(63, 3) / choose(115, 3)).abs() < 1e-12);
        assert_eq!(found((3, 63), (0, 52)), Finding::TooFew);
        assert!(choose(63, 7) / choose(115, 7) < CHANCE_MAX && choose(63, 5) / choose(115, 5) > CHANCE_MAX);
        assert_eq!((found((5, 63), (0, 52)), found((7, 63), (0, 52))), (Finding::TooFew, Finding::Longer));
        // As often without: the filesystem is slow, not the discards.
        assert_eq!(found((40, 100), (40, 100)), Finding::Alike);
        assert_eq!(found((0, 63), (0, 52)), Finding::Alike);
        // Too few to have seen a tenth: of 20 two would be long, by chance in 190 of 780 cases.
        assert!((more_often(share(2, 20), share(0, 20)) - 190.0 / 780.0).abs() < 1e-12);
        assert_eq!(found((0, 20), (0, 20)), Finding::TooFew);
        // 5 of 50 against none of 50: 2.8 %. 6 of 51: 1.3 %.
        assert!(choose(50, 5) / choose(100, 5) > CHANCE_MAX && choose(51, 6) / choose(102, 6) < CHANCE_MAX);
        assert_eq!((found((0, 50), (0, 50)), found((0, 51), (0, 51))), (Finding::TooFew, Finding::Alike));
        // All of few are enough.
        assert_eq!(found((20, 20), (0, 20)), Finding::Longer);
    }
}
