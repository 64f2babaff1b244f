//! Sensitivity of a figure to the axes of a full grid.
//!
//! The first-order index of an input is the share of the variance that disappears if only
//! that input is known. The total-order index is the share that remains if all other
//! inputs are known.

use alloc::vec::Vec;

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
}
