//! Sobol' sensitivity indices from matrices A, B, and A with one column of B.
//!
//! The first-order index of an input is the share of the variance that disappears if only
//! that input is known. The total-order index is the share that remains if all other
//! inputs are known. Estimators: first order by Saltelli et al., "Variance based
//! sensitivity analysis of model output" (2010), table 2 (b); total order by Jansen,
//! "Analysis of variance designs for model output" (1999), table 2 (f) there.

use alloc::vec::Vec;

/// Figures of one base point of the design.
#[derive(Clone, Debug, PartialEq)]
pub struct DesignSample {
    /// At the row of A.
    pub a: f64,
    /// At the row of B.
    pub b: f64,
    /// At the row of A with one column of B, for each input.
    pub mixed: Vec<f64>,
}

/// Indices of one input, between 0 and 1 except for estimation noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Indices {
    /// First order: the input alone.
    pub first: f64,
    /// Total order: the input with all its interactions.
    pub total: f64,
    /// Standard error of the total-order index, from the spread over base points.
    pub total_error: f64,
}

/// The indices of each input. `None` with fewer than two samples, or for a constant
/// figure.
#[must_use]
pub fn indices(samples: &[DesignSample]) -> Option<Vec<Indices>> {
    let n = samples.len() as f64;
    let inputs = samples.first()?.mixed.len();
    let mean = samples.iter().map(|sample| sample.a + sample.b).sum::<f64>() / (2.0 * n);
    let square = |x: f64| x * x;
    let variance =
        samples.iter().map(|sample| square(sample.a - mean) + square(sample.b - mean)).sum::<f64>()
            / (2.0 * n - 1.0);
    if samples.len() < 2 || variance.is_nan() || variance <= f64::EPSILON * square(mean) {
        return None;
    }
    let of = |input: usize| {
        // Centring does not change the estimate, only its noise.
        let first = samples.iter().map(|s| (s.b - mean) * (s.mixed[input] - s.a)).sum::<f64>()
            / n
            / variance;
        let halves: Vec<f64> =
            samples.iter().map(|s| 0.5 * square(s.a - s.mixed[input]) / variance).collect();
        let total = halves.iter().sum::<f64>() / n;
        let spread = halves.iter().map(|half| square(half - total)).sum::<f64>() / (n - 1.0);
        Indices { first, total, total_error: libm::sqrt(spread / n) }
    };
    Some((0..inputs).map(of).collect())
}

/// First-order and total-order index of each axis of a full grid, with equally likely
/// values. Exact except for variation between grid values. `values` are in the order of
/// nested loops over axes of lengths `lens`. `None` if a value is missing, or for a
/// constant figure.
#[must_use]
pub fn of_grid(values: &[f64], lens: &[usize]) -> Option<Vec<(f64, f64)>> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>()
            / values.len().max(1) as f64
    };
    let (all, middle) = (variance(values), mean(values));
    if values.len() != lens.iter().product::<usize>()
        || values.is_empty()
        || all.is_nan()
        || all <= f64::EPSILON * middle * middle
    {
        return None;
    }
    let of = |axis: usize| {
        let stride: usize = lens[axis + 1..].iter().product();
        let len = lens[axis];
        let nth = |at: usize| at / stride % len;
        let slice = |keep: &dyn Fn(usize) -> bool| {
            (0..values.len()).filter(|at| keep(*at)).map(|at| values[at]).collect::<Vec<f64>>()
        };
        let known: Vec<f64> = (0..len).map(|n| mean(&slice(&|at| nth(at) == n))).collect();
        // With all other inputs known: the values along the axis from each starting
        // point.
        let lines = (0..values.len()).filter(|at| nth(*at) == 0);
        let left: Vec<f64> = lines
            .map(|from| {
                variance(&(0..len).map(|n| values[from + n * stride]).collect::<Vec<f64>>())
            })
            .collect();
        (variance(&known) / all, mean(&left) / all)
    };
    Some((0..lens.len()).map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::f64::consts::PI;
    use trimtab_study::sweep::design::{Design, DesignKind};

    fn samples(inputs: usize, cells: u64, f: impl Fn(&[f64]) -> f64) -> Vec<DesignSample> {
        let design = Design { kind: DesignKind::Sensitivity, points: cells, seed: 1 };
        let at = |point: u64| f(&design.unit(point, inputs).unwrap());
        let each = inputs as u64 + 2;
        let sample = |base: u64| DesignSample {
            a: at(base * each),
            b: at(base * each + 1),
            mixed: (2..each).map(|i| at(base * each + i)).collect(),
        };
        (0..cells).map(sample).collect()
    }

    /// Ishigami's function, a = 7 and b = 0.1, has known indices (Ishigami and Homma
    /// 1990).
    #[test]
    fn indices_match_ishigami_formula() {
        let (a, b) = (7.0, 0.1);
        let f = |u: &[f64]| {
            let x: Vec<f64> = u.iter().map(|u| PI * (2.0 * u - 1.0)).collect();
            libm::sin(x[0])
                + a * libm::pow(libm::sin(x[1]), 2.0)
                + b * libm::pow(x[2], 4.0) * libm::sin(x[0])
        };
        let pi4 = libm::pow(PI, 4.0);
        let variance = a * a / 8.0 + b * pi4 / 5.0 + b * b * pi4 * pi4 / 18.0 + 0.5;
        let (v1, v2) = (0.5 * libm::pow(1.0 + b * pi4 / 5.0, 2.0), a * a / 8.0);
        let v13 = b * b * pi4 * pi4 * (1.0 / 18.0 - 1.0 / 50.0);
        let expected = [
            (v1 / variance, (v1 + v13) / variance),
            (v2 / variance, v2 / variance),
            (0.0, v13 / variance),
        ];
        let got = indices(&samples(3, 4096, f)).unwrap();
        for (index, (first, total)) in got.iter().zip(expected) {
            assert!(
                (index.first - first).abs() < 0.02 && (index.total - total).abs() < 0.02,
                "{got:?}, expected {expected:?}"
            );
        }
        // With few points, the error matches the reported standard error.
        let few = indices(&samples(3, 128, f)).unwrap();
        for (index, (_, total)) in few.iter().zip(expected) {
            assert!((index.total - total).abs() < 4.0 * index.total_error + 0.01, "{few:?}");
        }
    }

    /// Sobol's g-function: V_i = 1 / (3 (1 + a_i)²), total_i = V_i times the product of
    /// (1 + V_j) over the others, divided by the product of (1 + V) - 1.
    #[test]
    fn indices_match_g_function_formula() {
        let a = [0.0, 1.0, 4.5, 9.0];
        let f = |u: &[f64]| {
            u.iter().zip(a).map(|(u, a)| ((4.0 * u - 2.0).abs() + a) / (1.0 + a)).product()
        };
        let v = a.map(|a: f64| 1.0 / (3.0 * (1.0 + a) * (1.0 + a)));
        let all: f64 = v.iter().map(|v| 1.0 + v).product();
        let got = indices(&samples(4, 4096, f)).unwrap();
        for (index, v) in got.iter().zip(v) {
            let total = v * all / (1.0 + v) / (all - 1.0);
            assert!(
                (index.first - v / (all - 1.0)).abs() < 0.02 && (index.total - total).abs() < 0.02,
                "{got:?}"
            );
        }
    }

    /// x + y with variances 2/3 and 5/4 has exact shares; those of x y are calculated by
    /// hand.
    #[test]
    fn indices_of_a_grid_are_exact() {
        let grid = |f: &dyn Fn(f64, f64) -> f64| {
            (0..3)
                .flat_map(|x| (0..4).map(move |y| f(f64::from(x), f64::from(y))))
                .collect::<Vec<_>>()
        };
        let near = |got: Vec<(f64, f64)>, expected: [(f64, f64); 2]| {
            assert!(
                got.iter()
                    .zip(expected)
                    .all(|(a, b)| (a.0 - b.0).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12),
                "{got:?} {expected:?}"
            );
        };
        let (vx, vy) = (2.0 / 3.0, 5.0 / 4.0);
        near(
            of_grid(&grid(&|x, y| x + y), &[3, 4]).unwrap(),
            [(vx / (vx + vy), vx / (vx + vy)), (vy / (vx + vy), vy / (vx + vy))],
        );
        // E x = 1, E y = 3/2: V(E[xy|x]) = (9/4) vx, V(E[xy|y]) = vy, and vx vy together.
        let (a, b, ab) = (2.25 * vx, vy, vx * vy);
        near(
            of_grid(&grid(&|x, y| x * y), &[3, 4]).unwrap(),
            [
                (a / (a + b + ab), (a + ab) / (a + b + ab)),
                (b / (a + b + ab), (b + ab) / (a + b + ab)),
            ],
        );
        assert_eq!((of_grid(&[1.0; 12], &[3, 4]), of_grid(&[1.0, 2.0], &[3, 4])), (None, None));
    }

    /// Two points: mean 1 and variance 4/3; half sums 1/2 and 2 give 0.375 and 1.5.
    #[test]
    fn indices_need_at_least_two_points() {
        let sample = |a, b, mixed| DesignSample { a, b, mixed: alloc::vec![mixed] };
        let both = [sample(0.0, 2.0, 1.0), sample(2.0, 0.0, 0.0)];
        let index = indices(&both).unwrap()[0];
        assert!(
            (index.first - 1.125).abs() < 1e-12 && (index.total - 0.9375).abs() < 1e-12,
            "{index:?}"
        );
        // Both are 0.5625 off the mean: a variance of 2 x 0.5625^2, over two.
        assert!((index.total_error - 0.5625).abs() < 1e-12, "{index:?}");
        assert_eq!(indices(&both[..1]), None);
    }

    #[test]
    fn indices_of_constant_figure_are_none() {
        assert_eq!(indices(&samples(2, 16, |_| 3.0)), None);
        assert_eq!(indices(&[]), None);
    }
}
