//! What numbers mean: steady state, change points, comparison, shares, sensitivity.

pub mod change_points;
pub mod compare;
pub mod fisher;
pub mod steady;
pub mod student;

/// The median of values in order: of an even number the mean of the two in the middle.
///
/// # Panics
/// None at all have no median.
#[must_use]
pub fn middle(sorted: &[f64]) -> f64 {
    let count = sorted.len();
    f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2])
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(super::middle(&[3.0]), 3.0);
        assert_eq!(super::middle(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(super::middle(&[1.0, 2.0, 4.0, 9.0]), 3.0);
    }
}
