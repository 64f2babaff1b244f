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

#[cfg(test)]
mod tests {
    #[test]
    fn middle_returns_the_median() {
        assert_eq!(super::middle(&[3.0]), 3.0);
        assert_eq!(super::middle(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(super::middle(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
