//! Write amplification before and after a change of the trim policy.

use super::WafCounters;
use serde::Serialize;
use trimtab_sim::analysis::compare::{ComparisonOptions, compare};
use trimtab_sim::run::Better;

/// Each side is divided into at most this many parts of about equal host writes.
const PARTS: u64 = 10;

/// The last change of the policy of a filesystem, and its effect on a drive below.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyEffect {
    /// Mount point of the filesystem.
    pub path: String,
    /// The policy that was applied, or undone.
    pub policy: String,
    /// The policy was undone.
    pub is_undone: bool,
    /// Time of the change, in seconds since 1970.
    pub unix_s: u64,
    /// Mean write amplification before the change.
    pub waf_before: f64,
    /// Mean write amplification since the change.
    pub waf_after: f64,
    /// 95 % interval of `waf_after / waf_before`; `None` with too few readings.
    pub ratio: Option<[f64; 2]>,
}

impl PolicyEffect {
    /// Compares the write amplification of parts of the time before and after the change.
    /// `None` if one side has no part.
    pub fn new(
        (path, policy): (String, String),
        is_undone: bool,
        unix_s: u64,
        [before, after]: [&[f64]; 2],
    ) -> Option<Self> {
        if before.is_empty() || after.is_empty() {
            return None;
        }
        let compared = compare(before, after, Better::Lower, &ComparisonOptions::default());
        let ratio = compared.interval.map(|interval| [interval.low, interval.high]);
        let (waf_before, waf_after) = (compared.a, compared.b);
        Some(Self { path, policy, is_undone, unix_s, waf_before, waf_after, ratio })
    }
}

/// Write amplification of each part of the time between readings. Parts end at readings
/// that show a new step of the NAND counter, so that coarse steps add little error.
pub(super) fn parts(readings: &[&WafCounters]) -> Vec<f64> {
    let is_step = |pair: &&[&WafCounters]| pair[1].nand > pair[0].nand;
    let ends: Vec<&WafCounters> = readings.windows(2).filter(is_step).map(|pair| pair[1]).collect();
    let (Some(mut start), Some(last)) = (ends.first().copied(), ends.last()) else {
        return Vec::new();
    };
    let host_bytes = ((last.host - start.host) / PARTS).max(1);
    let mut parts = Vec::new();
    for end in ends {
        let host = end.host - start.host;
        if host >= host_bytes {
            parts.push((end.nand - start.nand) as f64 / host as f64);
            start = end;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wear::history::WearHistory;
    use crate::wear::{Reading, WafUnit};
    use trimtab_drive::data::DataClass;
    use trimtab_drive::model::{self, Model};
    use trimtab_drive::rng::Stream;
    use trimtab_drive::shipped;
    use trimtab_drive::units::{Bytes, Nanos};
    use trimtab_drive::{Command, Extent};

    const DAY_S: u64 = 86_400;
    /// Five of 100 are expected at most; more than ten happen in 1 % of samples.
    const FALSE_ALARMS_MAX: usize = 10;
    const GIB: f64 = (1_u64 << 30) as f64;

    /// Daily readings of a drive. The policy changes in the middle. `written` returns host
    /// and NAND bytes before a day, counted in `steps`.
    fn around(
        days: u64,
        steps: [f64; 2],
        mut written: impl FnMut(u64) -> [f64; 2],
    ) -> [Vec<f64>; 2] {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        let mut last = Reading::default();
        for day in 0..2 * days {
            let [host, nand] = written(day);
            let counted = |bytes: f64, step: f64| ((bytes / step).floor() * step) as u64;
            let counters = WafCounters {
                host: counted(host, steps[0]),
                nand: counted(nand, steps[1]),
                unit: WafUnit::Bytes,
                host_step: steps[0] as u64,
                nand_step: steps[1] as u64,
                source: "log".into(),
            };
            last = Reading {
                serial: Some("S".into()),
                taken_unix_s: Some((day + 1) * DAY_S),
                waf_counters: Some(counters),
                ..Reading::default()
            };
            history.add(&last);
        }
        history.around(&last, 0, days * DAY_S + 1).unwrap()
    }

    /// A drive that writes 64 GiB on a usual day, with `noise` in its write amplification.
    fn history(days: u64, wafs: [f64; 2], noise: f64, steps: [f64; 2], seed: u64) -> [Vec<f64>; 2] {
        let mut random = Stream::new(seed, "wear");
        let mut unit = || random.unit();
        let (mut host, mut nand) = (unit() * 1000.0 * GIB, unit() * 1000.0 * GIB);
        around(days, steps, |day| {
            let before = [host, nand];
            let bytes = (0.4 + 1.2 * unit()) * 64.0 * GIB;
            host += bytes;
            nand += bytes * wafs[usize::from(day >= days)] * (1.0 + noise * (2.0 * unit() - 1.0));
            before
        })
    }

    /// A modelled SSD of 256 MiB under random writes of 4 KiB to `shares` of its blocks; the
    /// rest is trimmed when the policy changes. Returns the parts and the ratio of the write
    /// amplifications by the model's exact counters.
    fn modelled(days: u64, shares: [f64; 2], seed: u64) -> ([Vec<f64>; 2], f64) {
        const BLOCK: u64 = 4096;
        let spec = shipped::drive("sata-tlc-500gb").spec;
        let spec = model::sized(spec, Some(Bytes(256 << 20))).unwrap();
        let mut ssd = model::build(&spec, seed).unwrap();
        let mut random = Stream::new(seed, "modelled");
        let (blocks, mut now) = (spec.capacity_bytes / BLOCK, Nanos::ZERO);
        let used = shares.map(|share| (share * blocks as f64) as u64);
        let extent = |from: u64, to: u64| Extent { offset: from * BLOCK, len: (to - from) * BLOCK };
        let mut submit = |ssd: &mut dyn Model, command: &Command<'_>| {
            let done = ssd.submit(now, command);
            assert_eq!(done.result, Ok(()));
            now = done.done;
        };
        let write = |block| Command::Write(extent(block, block + 1), DataClass::Random);
        (0..used[0]).for_each(|block| submit(&mut *ssd, &write(block)));
        (0..3 * blocks).for_each(|_| submit(&mut *ssd, &write(random.below(used[0]))));
        let mut exact = Vec::new();
        // Ten steps of the NAND counter on each side at a write amplification of two.
        let steps = [512_000.0, days as f64 * 8.0 * (1 << 20) as f64 / 10.0];
        let parts = around(days, steps, |day| {
            let (host, nand) = ssd.written();
            if day % days == 0 {
                exact.push([host, nand]);
            }
            if day == days && used[1] < used[0] {
                submit(&mut *ssd, &Command::trim(&[extent(used[1], used[0])]));
            }
            for _ in 0..410 + random.below(1229) {
                submit(&mut *ssd, &write(random.below(used[usize::from(day >= days)])));
            }
            [host as f64, nand as f64]
        });
        let (host, nand) = ssd.written();
        exact.push([host, nand]);
        let waf = |side: usize| {
            let [from, to] = [exact[side], exact[side + 1]];
            (to[1] - from[1]) as f64 / (to[0] - from[0]) as f64
        };
        (parts, waf(1) / waf(0))
    }

    /// The figures are in docs/howto/fleet.md.
    #[test]
    #[ignore = "20 s; part of make soak"]
    fn change_of_a_tenth_is_found_on_a_modelled_drive() {
        let count = |shares| {
            let runs = (0..100).map(|seed| modelled(100, shares, seed));
            runs.fold((0, 0.0), |(different, sum), (parts, exact)| {
                let [low, high] = effect(&parts).ratio.unwrap();
                (different + usize::from(high < 1.0 || low > 1.0), sum + exact / 100.0)
            })
        };
        let (found, less) = count([0.95, 0.934]);
        let (false_alarms, same) = count([0.95, 0.95]);
        println!("found {found}, ratio {less:.3}; false alarms {false_alarms}, ratio {same:.3}");
        assert!((0.88..0.92).contains(&less) && (same - 1.0).abs() < 0.02, "{less} {same}");
        assert!(found >= 75 && false_alarms <= FALSE_ALARMS_MAX, "{found} {false_alarms}");
    }

    fn effect([before, after]: &[Vec<f64>; 2]) -> PolicyEffect {
        let names = ("/".to_owned(), "idle".to_owned());
        PolicyEffect::new(names, false, 0, [before, after]).unwrap()
    }

    /// Share of 100 histories in which the write amplification is called different.
    fn different(days: u64, after: f64, noise: f64, steps: [f64; 2]) -> usize {
        let is_different = |seed: &u64| {
            let [low, high] =
                effect(&history(days, [2.0, after], noise, steps, *seed)).ratio.unwrap();
            high < 1.0 || low > 1.0
        };
        (0..100).filter(is_different).count()
    }

    /// 100 days on each side, in which the NAND counter takes ten steps.
    #[test]
    fn change_of_a_tenth_is_found_in_ten_steps_of_the_counter() {
        let steps = [512_000.0, 1280.0 * GIB];
        let (found, false_alarms) =
            (different(100, 1.8, 0.1, steps), different(100, 2.0, 0.1, steps));
        println!("ten steps: found {found} of 100, false alarms {false_alarms}");
        assert!(found >= 75 && false_alarms <= FALSE_ALARMS_MAX, "{found} {false_alarms}");
    }

    /// A counter of bytes, and write amplification that varies by up to a quarter from day
    /// to day.
    #[test]
    fn change_of_a_tenth_is_found_in_sixty_days_of_a_fine_counter() {
        let steps = [512_000.0, 1.0];
        let (found, false_alarms) =
            (different(60, 1.8, 0.25, steps), different(60, 2.0, 0.25, steps));
        println!("bytes: found {found} of 100, false alarms {false_alarms}");
        assert!(found >= 75 && false_alarms <= FALSE_ALARMS_MAX, "{found} {false_alarms}");
    }

    #[test]
    fn effect_without_noise_is_the_ratio_of_the_rates() {
        let [before, after] = history(20, [3.0, 1.5], 0.0, [1.0, 1.0], 1);
        let effect = effect(&[before, after]);
        assert!(
            (effect.waf_before - 3.0).abs() < 1e-6 && (effect.waf_after - 1.5).abs() < 1e-6,
            "{effect:?}"
        );
        assert!(effect.ratio.is_some_and(|[low, high]| low > 0.499 && high < 0.501), "{effect:?}");
    }

    #[test]
    fn counters_that_started_over_begin_a_new_history() {
        let directory = tempfile::tempdir().unwrap();
        let mut history = WearHistory::open(directory.path()).unwrap();
        let reading = |day: u64, host: u64, source: &str| Reading {
            serial: Some("S".into()),
            taken_unix_s: Some(day * DAY_S),
            waf_counters: Some(WafCounters {
                host,
                nand: 2 * host,
                unit: WafUnit::Bytes,
                host_step: 1,
                nand_step: 1,
                source: source.into(),
            }),
            ..Reading::default()
        };
        for (day, host, source) in
            [(1, 9, "other"), (2, 90, "a"), (3, 95, "a"), (4, 1, "a"), (5, 2, "a"), (6, 4, "a")]
        {
            history.add(&reading(day, host, source));
        }
        let now = reading(9, 9, "a");
        assert_eq!(history.around(&now, 0, 5 * DAY_S), Some([vec![], vec![2.0]]));
        assert_eq!(history.around(&now, 0, 20 * DAY_S), Some([vec![2.0, 2.0], vec![]]));
        assert_eq!(history.around(&now, 6 * DAY_S, 20 * DAY_S), Some([vec![], vec![]]));
    }
}
