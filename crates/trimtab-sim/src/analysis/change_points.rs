//! Change points: permanent level changes of a noisy series (knees of a filling drive).
//!
//! The method is optimal partitioning (Jackson et al. 2005; PELT is its pruned form): it
//! splits the series into segments of constant level that minimise the weighted squared
//! error plus a penalty per cut. Measured series violate that model, so:
//!
//! 1. Isolated outliers (garbage collection, a sync) more than 4 robust standard
//!    deviations from the running median of 7 are replaced by it (Hampel filter).
//!    Deviations of 4 or more values remain.
//! 2. A first, lenient search finds candidate cuts, so that steps do not count as noise.
//!    The residuals give the noise, from differences of neighbours in a window of 31, so
//!    that an erratic segment is judged by its own noise, but never below the noise of
//!    the whole. It is widened for correlation: differences over two steps against one
//!    give the lag-1 correlation r (plus one standard error), and the long-run variance
//!    is (1 + r) / (1 - r) times the variance.
//! 3. The penalty per cut is [`ChangePointOptions::penalty`] x ln(n) in units of that
//!    variance. The default, 10, was set by simulation of 12,000 stationary series of
//!    each kind with 10 to 300 values. False knees: none in normal noise, 0.02 % in
//!    uniform and log-normal noise and with spikes, 0.4 % in correlated noise (r = 0.5),
//!    0.6 % for series that jump between two values. A step in the middle of 40 values
//!    was found in 95 % of series at 4 standard deviations and in all at 6.
//! 4. Cuts between levels that differ by less than [`ChangePointOptions::step_min`] are
//!    removed, smallest first.
//!
//! A steady slope has no knee; this method returns steps where it is steep.
//!
//! Not every change point is a knee: a level that alternates (collection in waves)
//! changes often but never permanently. [`knees`] omits the changes within such a
//! section.

use alloc::vec;
use alloc::vec::Vec;

/// Sensitivity of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePointOptions {
    /// Minimum number of values between two change points.
    pub segment_min: usize,
    /// Smallest level change, relative to the higher level.
    pub step_min: f64,
    /// Cost of a change point: this times ln(n), in units of the noise variance.
    pub penalty: f64,
}

impl Default for ChangePointOptions {
    fn default() -> Self {
        Self { segment_min: 5, step_min: 0.05, penalty: 10.0 }
    }
}

/// A change of level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Median level since the previous change point, or the start.
    pub before: f64,
    /// Median level until the next change point, or the end.
    pub after: f64,
}

/// Maximum values searched; longer series are averaged in groups first.
const SEARCHED_MAX: usize = 1500;
/// Penalty of the first pass, which only separates steps from noise.
const CANDIDATE_PENALTY: f64 = 3.0;
/// Values on either side in the running median of the outlier filter.
const HAMPEL_REACH: usize = 3;
/// Robust standard deviations from the running median that make an outlier.
const HAMPEL_LIMIT: f64 = 4.0;
/// Differences on either side in the local noise estimate.
const NOISE_REACH: usize = 15;
/// Normal standard deviation over mean absolute difference of neighbours: sqrt(pi) / 2.
const SD_PER_MEAN_DIFFERENCE: f64 = 0.886_226_925_452_758;

/// Change points of `values`, in order. Non-finite values count as missing.
#[must_use]
pub fn change_points(values: &[f64], options: &ChangePointOptions) -> Vec<ChangePoint> {
    let (places, present): (Vec<usize>, Vec<f64>) =
        values.iter().copied().enumerate().filter(|(_, v)| v.is_finite()).unzip();
    let segment_min = options.segment_min.max(2);
    if present.len() < 2 * segment_min {
        return Vec::new();
    }
    let group = present.len().div_ceil(SEARCHED_MAX);
    let grouped: Vec<f64> =
        present.chunks(group).map(|c| c.iter().sum::<f64>() / c.len() as f64).collect();
    let filtered = without_outliers(&grouped);
    let mut cuts: Vec<usize> =
        search(&filtered, options.penalty, segment_min.div_ceil(group).max(2))
            .iter()
            .map(|cut| cut * group)
            .collect();
    if group > 1 {
        for i in 0..cuts.len() {
            let start = if i == 0 { 0 } else { cuts[i - 1] };
            let end = cuts.get(i + 1).copied().unwrap_or(present.len());
            cuts[i] = best_cut(&present, start, cuts[i], end, 2 * group);
        }
    }
    drop_small_steps(&present, &mut cuts, options.step_min);
    let levels = levels(&present, &cuts);
    cuts.iter()
        .zip(levels.windows(2))
        .map(|(&cut, l)| ChangePoint { index: places[cut], before: l[0], after: l[1] })
        .collect()
}

/// Permanent change points of `values`. Sections that alternate between the same two
/// levels, with at least three turns, count as one level without change points.
#[must_use]
pub fn knees(values: &[f64], options: &ChangePointOptions) -> Vec<ChangePoint> {
    let found = change_points(values, options);
    let Some(first) = found.first() else { return found };
    let starts: Vec<usize> = [0].into_iter().chain(found.iter().map(|c| c.index)).collect();
    let ends = found.iter().map(|c| c.index).chain([values.len()]);
    let levels = [first.before].into_iter().chain(found.iter().map(|c| c.after));
    let stretches: Vec<Stretch> = starts
        .iter()
        .zip(ends)
        .zip(levels)
        .map(|((&start, end), level)| Stretch { level, values: end - start })
        .collect();
    let mut cuts: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < stretches.len() {
        if at > 0 {
            cuts.push(starts[at]);
        }
        // Longest alternating section from here.
        let swinging = (at + 4..=stretches.len()).rev().find(|&end| swings(&stretches[at..end]));
        at = swinging.unwrap_or(at + 1);
    }
    let present = |range: core::ops::Range<usize>| {
        values[range].iter().copied().filter(|v| v.is_finite()).collect::<Vec<f64>>()
    };
    let edges: Vec<usize> =
        [0].into_iter().chain(cuts.iter().copied()).chain([values.len()]).collect();
    let levels: Vec<f64> =
        edges.windows(2).map(|edge| median(&mut present(edge[0]..edge[1]))).collect();
    let change = |(&index, level): (&usize, &[f64])| ChangePoint {
        index,
        before: level[0],
        after: level[1],
    };
    let step = |c: &ChangePoint| {
        libm::fabs(c.after - c.before)
            >= options.step_min * libm::fabs(c.before).max(libm::fabs(c.after))
    };
    cuts.iter().zip(levels.windows(2)).map(change).filter(step).collect()
}

/// A segment of constant level.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    level: f64,
    values: usize,
}

/// Minimum turns of an alternation.
const TURNS_MIN: usize = 3;
/// Tolerance of peaks and troughs, relative to the distance between the extremes.
const UNEVEN_MAX: f64 = 0.35;
/// Maximum length of a wave's segment relative to the longest other.
const LONGER_MAX: usize = 2;

/// True if the level alternates between two levels.
fn swings(stretches: &[Stretch]) -> bool {
    let low = stretches.iter().map(|s| s.level).fold(f64::INFINITY, f64::min);
    let high = stretches.iter().map(|s| s.level).fold(f64::NEG_INFINITY, f64::max);
    let (reach, middle) = (high - low, low + (high - low) / 2.0);
    // Extreme of each stay above and below the middle.
    let mut extremes: Vec<f64> = Vec::new();
    let mut lasted: Vec<usize> = Vec::new();
    for s in stretches {
        match (extremes.last_mut(), lasted.last_mut()) {
            (Some(last), Some(length)) if (*last > middle) == (s.level > middle) => {
                *last = if s.level > middle { last.max(s.level) } else { last.min(s.level) };
                *length += s.values;
            }
            _ => {
                extremes.push(s.level);
                lasted.push(s.values);
            }
        }
    }
    let even = extremes
        .iter()
        .all(|&e| (if e > middle { high - e } else { e - low }) <= UNEVEN_MAX * reach);
    let mut sorted = lasted;
    sorted.sort_unstable();
    let regular =
        sorted.len() >= 2 && sorted[sorted.len() - 1] <= LONGER_MAX * sorted[sorted.len() - 2];
    extremes.len() > TURNS_MIN && even && regular
}

/// Median; reorders `values`. 0 if empty.
fn median(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return 0.0;
    }
    let (below, &mut middle, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return middle;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    lower + (middle - lower) / 2.0
}

/// Indices within `reach` of `i`, limited to a series of `n`.
fn around(i: usize, reach: usize, n: usize) -> core::ops::Range<usize> {
    i.saturating_sub(reach)..(i + reach + 1).min(n)
}

/// Hampel filter: replaces isolated outliers by the running median.
fn without_outliers(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let running: Vec<f64> =
        (0..n).map(|i| median(&mut values[around(i, HAMPEL_REACH, n)].to_vec())).collect();
    let noise = local_noise(&differences(values, 1), n);
    (0..n)
        .map(|i| {
            if libm::fabs(values[i] - running[i]) > HAMPEL_LIMIT * noise[i] {
                running[i]
            } else {
                values[i]
            }
        })
        .collect()
}

fn differences(values: &[f64], lag: usize) -> Vec<f64> {
    values.windows(lag + 1).map(|w| libm::fabs(w[lag] - w[0])).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean of the smaller nine tenths.
fn mean_of_smaller(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values.truncate((values.len() * 9).div_ceil(10));
    mean(&values)
}

/// Standard deviation around each of `n` values, from the `n - 1` differences of
/// neighbours.
fn local_noise(differences: &[f64], n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| {
            SD_PER_MEAN_DIFFERENCE
                * mean(
                    &differences
                        [around(i.min(differences.len() - 1), NOISE_REACH, differences.len())],
                )
        })
        .collect()
}

/// Inverse noise variance at each value, from differences of neighbours.
///
/// The noise is at least that of the whole series and a thousandth of the typical value,
/// since a series can be quiet for a while.
fn precision(values: &[f64]) -> Vec<f64> {
    let one = differences(values, 1);
    let least = (SD_PER_MEAN_DIFFERENCE * mean(&one)).max(0.001);
    local_noise(&one, values.len())
        .iter()
        .map(|&sd| 1.0 / (sd.max(least) * sd.max(least)))
        .collect()
}

/// Ratio of long-run variance to the estimate from neighbours, due to correlation.
fn widening(noise: &[f64], precision: &[f64]) -> f64 {
    let n = noise.len() as f64;
    let (one, two) =
        (mean_of_smaller(&differences(noise, 1)), mean_of_smaller(&differences(noise, 2)));
    let estimate = if one > 0.0 { (two / one) * (two / one) - 1.0 } else { 0.0 };
    // Plus one standard error; at most 0.6, or a slope would count as noise.
    let r = (estimate + 1.0 / libm::sqrt(n)).clamp(0.0, 0.6);
    // Differences of neighbours underestimate the variance of correlated noise.
    let missed = noise.iter().zip(precision).map(|(v, p)| v * v * p).sum::<f64>() / n;
    missed.max(1.0) * (1.0 + r) / (1.0 - r)
}

/// `values` minus the level of their segment between `cuts`.
fn residuals(values: &[f64], cuts: &[usize]) -> Vec<f64> {
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([values.len()]);
    starts
        .zip(ends)
        .flat_map(|(start, end)| {
            let stretch = &values[start..end];
            let level = mean(stretch);
            stretch.iter().map(move |v| v - level)
        })
        .collect()
}

/// Cuts of a series without outliers.
fn search(values: &[f64], penalty: f64, segment_min: usize) -> Vec<usize> {
    let log = libm::log(values.len().max(30) as f64);
    // In units of the typical size, so that squares neither overflow nor vanish.
    let size = median(&mut values.iter().map(|v| libm::fabs(*v)).collect::<Vec<_>>());
    let size = if size > 0.0 { size } else { 1.0 };
    let values: Vec<f64> = values.iter().map(|v| v / size).collect();
    let candidates =
        optimal_partition(&values, &precision(&values), CANDIDATE_PENALTY * log, segment_min);
    let noise = residuals(&values, &candidates);
    let weights = precision(&noise);
    optimal_partition(&values, &weights, penalty * log * widening(&noise, &weights), segment_min)
}

/// Prefix sums of weights, weighted values and weighted squares.
struct Sums {
    weight: Vec<f64>,
    value: Vec<f64>,
    square: Vec<f64>,
}

impl Sums {
    fn new(values: &[f64], weights: &[f64]) -> Self {
        // Relative to the median, to preserve precision.
        let centre = median(&mut values.to_vec());
        let (mut weight, mut value, mut square) = (vec![0.0], vec![0.0], vec![0.0]);
        let (mut w, mut wv, mut wvv) = (0.0, 0.0, 0.0);
        for (v, &p) in values.iter().map(|v| v - centre).zip(weights) {
            w += p;
            wv += p * v;
            wvv += p * v * v;
            weight.push(w);
            value.push(wv);
            square.push(wvv);
        }
        Self { weight, value, square }
    }

    /// Weighted squared error of `start..end` about its mean.
    fn cost(&self, start: usize, end: usize) -> f64 {
        let weight = self.weight[end] - self.weight[start];
        let value = self.value[end] - self.value[start];
        (self.square[end] - self.square[start] - value * value / weight).max(0.0)
    }
}

/// Cuts that minimise error plus penalty, each the first index of a new segment.
fn optimal_partition(
    values: &[f64],
    weights: &[f64],
    penalty: f64,
    segment_min: usize,
) -> Vec<usize> {
    let n = values.len();
    let sums = Sums::new(values, weights);
    // best[t]: least cost of the first t values; from[t]: start of their last segment.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut from = vec![0; n + 1];
    best[0] = 0.0;
    for t in segment_min..=n {
        for s in 0..=t - segment_min {
            if best[s].is_finite() {
                let cost = best[s] + sums.cost(s, t) + penalty;
                if cost < best[t] {
                    best[t] = cost;
                    from[t] = s;
                }
            }
        }
    }
    let mut cuts = Vec::new();
    let mut t = from[n];
    while t > 0 {
        cuts.push(t);
        t = from[t];
    }
    cuts.reverse();
    cuts
}

/// Index within `reach` of `near` that cuts `start..end` with the least squared error.
fn best_cut(values: &[f64], start: usize, near: usize, end: usize, reach: usize) -> usize {
    let sums = Sums::new(&values[start..end], &vec![1.0; end - start]);
    let length = end - start;
    let low = (near - start).saturating_sub(reach).max(1);
    let high = (near - start + reach).min(length - 1);
    let mut best = (f64::INFINITY, near - start);
    for cut in low..=high {
        let cost = sums.cost(0, cut) + sums.cost(cut, length);
        if cost < best.0 {
            best = (cost, cut);
        }
    }
    start + best.1
}

/// Median of every segment between cuts.
fn levels(values: &[f64], cuts: &[usize]) -> Vec<f64> {
    let mut start = 0;
    let ends = cuts.iter().copied().chain([values.len()]);
    ends.map(|end| {
        let level = median(&mut values[start..end].to_vec());
        start = end;
        level
    })
    .collect()
}

/// Removes cuts below `step_min` of the higher level, smallest first.
fn drop_small_steps(values: &[f64], cuts: &mut Vec<usize>, step_min: f64) {
    loop {
        let levels = levels(values, cuts);
        let smallest = levels
            .windows(2)
            .map(|l| {
                libm::fabs(l[1] - l[0])
                    / libm::fabs(l[0]).max(libm::fabs(l[1])).max(f64::MIN_POSITIVE)
            })
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match smallest {
            Some((i, step)) if step < step_min => {
                cuts.remove(i);
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    mod arithmetic;

    use super::*;
    use proptest::prelude::*;
    use trimtab_drive::rng::Stream;

    /// A standard normal number (Box-Muller).
    fn normal(rng: &mut Stream) -> f64 {
        libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()))
            * libm::cos(2.0 * core::f64::consts::PI * rng.unit())
    }

    #[derive(Clone, Copy, Debug)]
    enum Noise {
        Normal,
        Uniform,
        HeavyTailed,
        TwoLevels,
        Correlated,
        Spikes,
    }
    use Noise::*;

    /// `n` values about 0 with a standard deviation of about 1.
    fn noise(kind: Noise, n: usize, rng: &mut Stream) -> Vec<f64> {
        let mut state = 0.0;
        (0..n)
            .map(|_| match kind {
                Noise::Normal => normal(rng),
                Noise::Uniform => (rng.unit() - 0.5) * libm::sqrt(12.0),
                Noise::HeavyTailed => (libm::exp(normal(rng)) - 1.65) / 2.16,
                Noise::TwoLevels => {
                    if rng.chance(0.3) {
                        1.53
                    } else {
                        -0.65
                    }
                }
                Noise::Correlated => {
                    state = 0.5 * state + 0.866 * normal(rng);
                    state
                }
                Noise::Spikes => {
                    if rng.chance(0.03) {
                        -8.0
                    } else {
                        0.5 * normal(rng)
                    }
                }
            })
            .collect()
    }

    fn series(levels: &[(usize, f64)], kind: Noise, sd: f64, rng: &mut Stream) -> Vec<f64> {
        let n = levels.iter().map(|l| l.0).sum();
        let level = levels.iter().flat_map(|&(length, level)| core::iter::repeat_n(level, length));
        level.zip(noise(kind, n, rng)).map(|(level, x)| level + sd * x).collect()
    }

    #[test]
    fn stationary_noise_has_no_knees() {
        // A shorter repeat of the module's simulation of 12,000 series.
        for (kind, allowed) in [
            (Normal, 0),
            (Uniform, 0),
            (HeavyTailed, 0),
            (Spikes, 1),
            (Correlated, 5),
            (TwoLevels, 15),
        ] {
            let mut rng = Stream::new(1, "stationary");
            let mut found = 0;
            for n in [10, 20, 40, 100, 300] {
                let of_length = (0..100).filter(|_| {
                    !change_points(
                        &series(&[(n, 100.0)], kind, 10.0, &mut rng),
                        &ChangePointOptions::default(),
                    )
                    .is_empty()
                });
                found += of_length.count();
            }
            assert!(found <= allowed, "{kind:?}: {found} of 500 series");
        }
    }

    #[test]
    fn published_curve_of_a_compressing_drive_is_recognised() {
        // Published: 193 MB/s, erratic between 100 and 160 from 40 GB, 160 from 380 GB.
        let mut rng = Stream::new(3, "sandforce");
        let mut rates = series(&[(12, 193.0)], Uniform, 1.0, &mut rng);
        rates.extend(series(&[(37, 130.0)], Uniform, 17.0, &mut rng));
        rates.extend(series(&[(150, 160.0)], Uniform, 1.0, &mut rng));
        let found = change_points(&rates, &ChangePointOptions::default());
        assert_eq!(found.iter().map(|c| c.index).collect::<Vec<_>>(), [12, 49], "{found:?}");
        assert!((found[0].before - 193.0).abs() < 2.0 && (found[1].after - 160.0).abs() < 2.0);
    }

    #[test]
    fn change_points_find_steps_despite_spikes_and_gaps() {
        let find = |v: &[f64]| {
            change_points(v, &ChangePointOptions::default())
                .iter()
                .map(|c| c.index)
                .collect::<Vec<_>>()
        };
        assert!(
            find(&[]).is_empty()
                && find(&[1.0; 4]).is_empty()
                && find(&[0.0; 50]).is_empty()
                && find(&[5.0; 50]).is_empty()
        );
        let step: Vec<f64> = (0..40).map(|i| if i < 17 { 200.0 } else { 100.0 }).collect();
        assert_eq!(find(&step), [17]);
        let mut spiky = step.clone();
        (spiky[8], spiky[30]) = (2000.0, 0.0);
        assert_eq!(find(&spiky), [17], "isolated outliers are not knees");
        let mut gaps = step;
        (gaps[3], gaps[25], gaps[26]) = (f64::NAN, f64::INFINITY, f64::NAN);
        assert_eq!(find(&gaps), [17], "missing values keep their indices");
        let small: Vec<f64> = (0..40).map(|i| if i < 17 { 100.0 } else { 97.0 }).collect();
        assert!(find(&small).is_empty(), "3 % is below the smallest step");
        assert_eq!(find(&step_of(1e300)), [20]);
        assert_eq!(find(&step_of(1e-250)), [20]);
    }

    #[test]
    fn swinging_level_has_no_knee_and_lasting_change_has() {
        let index = |v: &[f64]| {
            knees(v, &ChangePointOptions::default()).iter().map(|c| c.index).collect::<Vec<_>>()
        };
        let mut rng = Stream::new(11, "waves");
        // Collection in waves: fifteen segments of 20 values, alternating by 30 %.
        let waves: Vec<(usize, f64)> =
            (0..15).map(|i| (20, if i % 2 == 0 { 100.0 } else { 70.0 })).collect();
        let square = series(&waves, Normal, 1.0, &mut rng);
        assert_eq!(
            change_points(&square, &ChangePointOptions::default()).len(),
            14,
            "fourteen changes"
        );
        assert_eq!(index(&square), [0; 0], "but no knee");
        let noisy = |n: usize, shape: &dyn Fn(f64) -> f64, rng: &mut Stream| -> Vec<f64> {
            (0..n).map(|i| shape(i as f64) + 0.5 * normal(rng)).collect()
        };
        let sine = noisy(400, &|t| 100.0 + 20.0 * libm::sin(t / 12.0), &mut rng);
        assert!(
            change_points(&sine, &ChangePointOptions::default()).len() > 5
                && index(&sine).is_empty(),
            "{:?}",
            index(&sine)
        );
        let saw = noisy(300, &|t| 80.0 + (t % 50.0), &mut rng);
        assert_eq!(index(&saw), [0; 0], "a sawtooth");
        // Constant, then waves: a knee at their start. Constant again: one at their end.
        let mut worn = series(&[(60, 300.0)], Normal, 1.0, &mut rng);
        worn.extend(&square[..160]);
        assert_eq!(index(&worn), [60]);
        worn.extend(series(&[(120, 50.0)], Normal, 1.0, &mut rng));
        assert_eq!(index(&worn), [60, 220]);
        // A dip consists of two permanent changes, as on the published drive.
        let dip = series(&[(12, 193.0), (37, 130.0), (150, 160.0)], Normal, 1.0, &mut rng);
        assert_eq!(index(&dip), [12, 49]);
        assert_eq!(index(&step_of(1.0)), [20]);
        assert_eq!(index(&[]), [0; 0]);
    }

    fn step_of(size: f64) -> Vec<f64> {
        (0..40).map(|i| if i < 20 { size } else { size / 2.0 }).collect()
    }

    #[test]
    fn change_points_of_long_series_are_exact() {
        let mut rng = Stream::new(5, "long");
        let values =
            series(&[(31_234, 100.0), (20_001, 80.0), (35_165, 90.0)], Normal, 2.0, &mut rng);
        let found: Vec<usize> = change_points(&values, &ChangePointOptions::default())
            .iter()
            .map(|c| c.index)
            .collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].abs_diff(31_234) <= 3 && found[1].abs_diff(51_235) <= 3, "{found:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn planted_knees_are_found(
            seed in any::<u64>(),
            start in 60.0_f64..100.0,
            stretches in prop::collection::vec((20_usize..80, prop::bool::ANY), 1..5),
            uniform in prop::bool::ANY,
            scale in prop::sample::select(&[1e-6, 1.0, 1e9][..]),
        ) {
            // Alternating by at least 8 standard deviations.
            let mut level = start;
            let levels: Vec<(usize, f64)> = stretches
                .iter()
                .map(|&(length, up)| {
                    level = if up && level < 500.0 || level < 50.0 { level * 1.4 } else { level * 0.6 };
                    (length, level * scale)
                })
                .collect();
            let mut rng = Stream::new(seed, "planted");
            let smallest_step = levels.windows(2).map(|l| (l[1].1 - l[0].1).abs()).fold(f64::INFINITY, f64::min);
            let sd = smallest_step.min(levels[0].1 * 0.3) / 8.0;
            let values = series(&levels, if uniform { Uniform } else { Normal }, sd, &mut rng);
            let found = change_points(&values, &ChangePointOptions::default());
            prop_assert_eq!(found.len(), levels.len() - 1, "{:?}", found);
            let mut at = 0;
            for (knee, pair) in found.iter().zip(levels.windows(2)) {
                at += pair[0].0;
                prop_assert!(knee.index.abs_diff(at) <= 2, "{knee:?} should be at {at}");
                // Six standard errors of a median of uniform noise (sqrt(3 / n), the
                // larger of the two kinds). A knee two values off adds little.
                let error = |length: usize| 6.0 * sd * libm::sqrt(3.0 / length as f64);
                let levels_fit = (knee.before - pair[0].1).abs() <= error(pair[0].0) && (knee.after - pair[1].1).abs() <= error(pair[1].0);
                prop_assert!(levels_fit, "{knee:?} {pair:?}");
            }
        }

        #[test]
        fn change_points_are_ordered_and_within_the_series(values in prop::collection::vec(prop::num::f64::ANY, 0..200)) {
            let found = change_points(&values, &ChangePointOptions::default());
            prop_assert!(found.windows(2).all(|c| c[0].index < c[1].index));
            prop_assert!(found.iter().all(|c| (1..values.len()).contains(&c.index)));
            let knees: Vec<usize> = knees(&values, &ChangePointOptions::default()).iter().map(|c| c.index).collect();
            prop_assert!(knees.iter().all(|index| found.iter().any(|c| c.index == *index)));
        }
    }
}
