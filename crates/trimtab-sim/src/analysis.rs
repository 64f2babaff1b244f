//! Statistics: steady state, change points, comparison, shares, sensitivity.

pub mod change_points;
pub mod compare;
pub mod fisher;
pub mod steady;
pub mod student;

/// Median of sorted values; the mean of the middle two if their number is even.
///
/// # Panics
/// If `sorted` is empty.
#[must_use]
pub fn middle(sorted: &[f64]) -> f64 {
    let count = sorted.len();
    f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2])
}

/// The knee is the lowest load whose p99 latency exceeds this many times that of the
/// lowest load.
pub const LATENCY_KNEE: f64 = 10.0;

/// Index of the knee among the p99 latencies of ascending loads; `None` without one.
#[must_use]
pub fn latency_knee(p99: &[f64]) -> Option<usize> {
    let low = p99.first()?;
    p99.iter().position(|p99| *p99 > LATENCY_KNEE * low)
}

#[cfg(test)]
mod tests {
    #[test]
    fn latency_knee_is_the_first_load_above_ten_times_the_lowest() {
        assert_eq!(super::latency_knee(&[1.0, 2.0, 10.0, 10.1, 5.0, 50.0]), Some(3));
        assert_eq!(super::latency_knee(&[1.0, 9.0]), None);
        assert_eq!(super::latency_knee(&[]), None);
    }

    #[test]
    fn middle_returns_the_median() {
        assert_eq!(super::middle(&[3.0]), 3.0);
        assert_eq!(super::middle(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(super::middle(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
