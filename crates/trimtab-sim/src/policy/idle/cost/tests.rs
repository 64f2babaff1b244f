//! Synthetic costs with known parameters, against least squares by normal equations.

use super::*;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

const MIB: f64 = 1_048_576.0;

fn size(rng: &mut Stream) -> f64 {
    65_536.0 * libm::exp(rng.unit() * libm::log(1024.0))
}

/// Weights, intercept, slope and weighted sum of squares by the normal equations. An
/// observation weighs the inverse square of the cost expected from those before it, times
/// 31/32 per later observation.
fn by_normal_equations(samples: &[CostSample]) -> (Vec<f64>, f64, f64, f64) {
    let mut expected: Vec<f64> = Vec::new();
    let mut line = (samples[0].1, 0.0);
    let mut weights = Vec::new();
    for n in 0..samples.len() {
        expected.push(line.0 + line.1 * samples[n].0);
        let age = |i: usize| libm::pow(1.0 - 1.0 / MEMORY, (n - i) as f64);
        weights = (0..=n).map(|i| age(i) / (expected[i] * expected[i])).collect();
        let sum = |term: &dyn Fn(CostSample) -> f64| {
            (0..=n).map(|i| weights[i] * term(samples[i])).sum::<f64>()
        };
        let (w, x, y) = (sum(&|_| 1.0), sum(&|s| s.0 / MIB), sum(&|s| s.1));
        let (xx, xy) = (sum(&|s| s.0 / MIB * s.0 / MIB), sum(&|s| s.0 / MIB * s.1));
        let determinant = w * xx - x * x;
        line = ((xx * y - x * xy) / determinant, (w * xy - x * y) / determinant / MIB);
        // Neither below zero.
        if n == 0 || line.1 < 0.0 {
            line = (y / w, 0.0);
        } else if line.0 < 0.0 {
            line = (0.0, xy / xx / MIB);
        }
    }
    let off = |s: &CostSample| s.1 - line.0 - line.1 * s.0;
    let squares = samples.iter().zip(&weights).map(|(s, weight)| weight * off(s) * off(s)).sum();
    (weights, line.0, line.1, squares)
}

fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * a.abs().max(b.abs())
}

#[test]
fn cost_fit_is_least_squares_with_fading_weights() {
    for seed in 0..50 {
        let mut rng = Stream::new(seed, "costs");
        let mut fit = CostFit::default();
        let samples: Vec<CostSample> = (0..3 + seed * 2)
            .map(|_| (size(&mut rng), rng.normal()))
            .map(|(bytes, deviation)| {
                (bytes, (150_000.0 + 4_000.0 * bytes / MIB) * (1.0 + 0.05 * deviation))
            })
            .collect();
        samples.iter().for_each(|(bytes, nanos)| fit.add(*bytes, *nanos));
        let (weights, fixed, slope, squares) = by_normal_equations(&samples);
        assert!(
            close(fit.line().0, fixed, 1e-6) && (fit.line().1 - slope).abs() * MIB < 1e-2,
            "{seed}: {:?} {fixed} {slope}",
            fit.line()
        );
        assert!(close(fit.weight, weights.iter().sum(), 1e-6), "{seed}");
        // The deviation is that sum plus the one observation of the prior.
        let age = |power: i32| {
            (0..samples.len())
                .map(|n| libm::pow(1.0 - 1.0 / MEMORY, (n as f64) * f64::from(power)))
                .sum::<f64>()
        };
        let freedom = age(1) - 2.0 * age(2) / age(1);
        let variance = (squares + SPREAD * SPREAD) / (1.0 + freedom.max(0.0));
        assert!(
            close(fit.deviation() * fit.deviation(), variance, 1e-6),
            "{seed}: {} {variance}",
            fit.deviation()
        );
    }
}

#[test]
fn cost_estimate_coverage_matches_stated_error() {
    // Cost per command, cost per MiB, and the relative deviation of both.
    for (command_ns, mib_ns, share) in [
        (150_000.0, 0.0, 0.05),
        (150_000.0, 4_000.0, 0.2),
        (3_500_000.0, 30_000.0, 0.1),
        (1_000.0, 900.0, 0.15),
    ] {
        let size = |rng: &mut Stream| MIB * (1.0 + 6.0 * rng.unit());
        let (mut within, mut above, mut next, mut lines) = (0, 0, 0, 0);
        for seed in 0..400 {
            let mut rng = Stream::new(seed, "coverage");
            let mut fit = CostFit::default();
            let cost = |bytes: f64, rng: &mut Stream| {
                (command_ns + mib_ns * bytes / MIB) * (1.0 + share * rng.normal())
            };
            for _ in 0..60 {
                let bytes = size(&mut rng);
                let nanos = cost(bytes, &mut rng);
                fit.add(bytes, nanos.max(0.0));
            }
            let bytes = size(&mut rng);
            let (nanos, expected, error) =
                (cost(bytes, &mut rng), fit.expected(bytes), fit.error(bytes));
            within += u32::from((nanos - expected).abs() <= error);
            above += u32::from(nanos > fit.upper(bytes));
            next += 1;
            // At the mean size, the line is known best.
            let truth = command_ns + mib_ns * fit.bytes / MIB;
            lines += u32::from(
                (fit.expected(fit.bytes) - truth).abs()
                    <= SIGMAS * fit.deviation() * libm::sqrt(fit.fading() / fit.weight),
            );
        }
        // A normal deviate lies within one standard error 68.3 % of the time and above
        // two 2.3 %. Three standard deviations of 400 draws are 7 % and 2.3 %.
        let part = |n: u32| f64::from(n) / f64::from(next);
        assert!(
            (0.613..0.753).contains(&part(within)),
            "{command_ns} {mib_ns} {share}: {within} of {next} within one"
        );
        assert!(
            part(above) <= 0.046,
            "{command_ns} {mib_ns} {share}: {above} of {next} above the bound"
        );
        assert!(part(lines) >= 0.92, "{command_ns} {mib_ns} {share}: {lines} of {next} lines");
    }
}

#[test]
fn single_size_bounds_cost_and_costs_are_not_negative() {
    let mut fit = CostFit::default();
    fit.add(65_536.0, 100_000.0);
    // A tenth of one observation, plus the same deviation of the next.
    let level = 100_000.0 * (1.0 + SIGMAS * SPREAD * libm::sqrt(2.0));
    assert!(close(fit.upper(65_536.0), level, 1e-12) && close(fit.upper(4096.0), level, 1e-12));
    assert!(close(fit.upper(655_360.0), level * 10.0, 1e-12), "all of it may be a cost of bytes");
    assert_eq!(fit.largest_within(1e6, 65_536, 1 << 30), (65_536.0 * 1e6 / level) as u64);
    assert_eq!(
        (fit.largest_within(1e5, 65_536, 1 << 30), fit.largest_within(1e9, 65_536, 1 << 20)),
        (65_536, 1 << 20)
    );
    // Decreasing cost: no cost per byte.
    fit.add(131_072.0, 90_000.0);
    assert_eq!(fit.line().1, 0.0);
    assert!(close(fit.line().0, fit.nanos, 1e-12));
    // More than proportional: no cost per command, least squares through the origin.
    let mut fit = CostFit::default();
    let samples = [(1.0, 10.0), (2.0, 30.0), (3.0, 50.0)];
    samples.iter().for_each(|(bytes, nanos)| fit.fit(*bytes, *nanos));
    let (_, fixed, slope, _) = by_normal_equations(&samples);
    assert!(
        fixed == 0.0 && fit.line().0 == 0.0 && close(fit.line().1, slope, 1e-12),
        "{} {slope}",
        fit.line().1
    );
}

#[test]
fn cost_outlier_is_dropped_and_two_in_a_row_are_kept() {
    let cheap = |fit: &mut CostFit, n| (0..n).for_each(|_| fit.add(MIB, 1000.0));
    let mut fit = CostFit::default();
    cheap(&mut fit, 5);
    let before = fit.clone();
    fit.add(MIB, 2001.0);
    assert_eq!((fit.expected(MIB), fit.count), (before.expected(MIB), before.count));
    fit.add(MIB, 9000.0);
    assert!(
        (2001.0..9000.0).contains(&fit.expected(MIB)) && fit.upper(MIB) > 9000.0 && fit.count < 2.0,
        "the drive's cost has changed"
    );
    // Not consecutive: both are part of the cost.
    let mut fit = before.clone();
    fit.add(MIB, 9000.0);
    cheap(&mut fit, 3);
    assert!(close(fit.expected(MIB), 1000.0, 1e-12));
    fit.add(MIB, 9000.0);
    assert!(fit.expected(MIB) > 2000.0 && fit.upper(MIB) > 9000.0, "{fit:?}");
    // Unless the earlier outlier is forgotten.
    let mut fit = before.clone();
    fit.add(MIB, 9000.0);
    cheap(&mut fit, 32);
    fit.add(MIB, 9000.0);
    assert!(close(fit.expected(MIB), 1000.0, 1e-12));
    // Twice the size at twice the cost is not an outlier.
    let mut fit = before;
    fit.add(8.0 * MIB, 8000.0);
    assert!(fit.odd.is_none() && fit.expected(8.0 * MIB) > 7000.0, "{fit:?}");
    // If the first was the outlier the second counts; another like the first restores it.
    let mut fit = CostFit::default();
    fit.add(MIB, 6000.0);
    fit.add(MIB, 50.0);
    assert!(close(fit.expected(MIB), 50.0, 1e-12));
    fit.add(MIB, 6000.0);
    assert!(close(fit.expected(MIB), 6000.0, 1e-12));
}

#[test]
fn cost_decrease_is_learned_as_memory_fades() {
    let mut fit = CostFit::default();
    (0..100).for_each(|_| fit.add(MIB, 8000.0));
    (0..22).for_each(|_| fit.add(MIB, 1000.0));
    // Factor 31/32 per observation: half after 22, sooner since later ones weigh more.
    assert!((1500.0..4500.0).contains(&fit.expected(MIB)), "{}", fit.expected(MIB));
    (0..200).for_each(|_| fit.add(MIB, 1000.0));
    assert!(fit.upper(MIB) < 1200.0, "{}", fit.upper(MIB));
}

#[test]
fn cost_fit_restore_is_exact_and_rejects_garbage() {
    let mut fit = CostFit::default();
    [(65_536.0, 1e5), (1e6, 1.3e5), (3e6, 1.7e5)]
        .iter()
        .for_each(|(bytes, nanos)| fit.add(*bytes, *nanos));
    let mut state = PolicyState::default();
    fit.save("commands", &mut state);
    assert_eq!(
        (CostFit::restore("commands", &state), CostFit::restore("parts", &state)),
        (fit, CostFit::default())
    );
    for (name, value) in
        [("weight", f64::NAN), ("bytes", -1.0), ("nanos", f64::INFINITY), ("largest", f64::NAN)]
    {
        let mut wrong = state.clone();
        wrong.set(&format!("idle.commands.{name}"), value.to_bits());
        assert_eq!(CostFit::restore("commands", &wrong), CostFit::default(), "{name} {value}");
    }
    let mut unknown = PolicyState::default();
    CostFit::default().save("commands", &mut unknown);
    assert_eq!(unknown, PolicyState::default());
}

#[test]
fn cost_display_has_command_error_and_bytes() {
    let mut fit = CostFit::default();
    assert_eq!(fit.shown(), None);
    (0..40).for_each(|n| {
        fit.add(f64::from(1 + n % 8) * MIB, 150_000.0 + 400.0 * f64::from(1 + n % 8))
    });
    let shown = fit.shown().unwrap();
    assert_eq!((shown.command, shown.mib), (Nanos(150_000), Nanos(400)));
    let text = alloc::string::ToString::to_string(&TrimCost { error: Nanos(20_000), ..shown });
    assert_eq!(text, "150 µs ± 20.0 µs per command and 400 ns per MiB");
    let flat = TrimCost { mib: Nanos::ZERO, error: Nanos(20_000), ..shown };
    assert_eq!(
        alloc::string::ToString::to_string(&flat),
        "150 µs ± 20.0 µs per command, whatever its size"
    );
}

/// Once, "at most 55.0 s per command" where no request had taken longer than 14.7 s.
#[test]
fn uncertain_cost_display_is_the_range_of_measured_commands() {
    let mut fit = CostFit::default();
    fit.add_mean(6.0, MIB, 1e6);
    let one = fit.shown().unwrap();
    assert_eq!(one.measured, (Nanos(1_000_000), Nanos(1_000_000)));
    [(2.0, 900e6), (300.0, 14.7e9), (4.0, 2e6), (280.0, 1e9)]
        .into_iter()
        .for_each(|(mib, nanos)| fit.add_mean(1.0, mib * MIB, nanos));
    let shown = fit.shown().unwrap();
    let text = alloc::string::ToString::to_string(&shown);
    assert!(shown.error > shown.command, "{shown:?}");
    // 6 x 1 ms, 900 ms, 14.7 s, 2 ms and 1 s over ten commands.
    assert_eq!(text, "1.66 s per command on average, 1.00 ms to 14.7 s (measured, all sizes)");
    let text = alloc::string::ToString::to_string(&TrimCost { error: Nanos(1_000_001), ..one });
    assert_eq!(text, "1.00 ms per command (measured)");
    // Saved, also over a restart.
    let mut state = PolicyState::default();
    fit.save("commands", &mut state);
    assert_eq!(CostFit::restore("commands", &state).shown(), Some(shown));
}
