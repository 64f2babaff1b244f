//! Overall response time.

/// A load point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Achieved operations per second.
    pub rate: f64,
    /// Mean response time, in any unit.
    pub response: f64,
}

/// SPECsfs's overall response time (ORT): the area under response time over achieved
/// throughput, by trapezoids from the origin through the points in order, divided by the
/// peak throughput. Points after the peak do not count.
///
/// In the points' unit of response time. `None` without positive throughput.
#[must_use]
pub fn overall_response_time(points: &[Point]) -> Option<f64> {
    let peak = points.iter().enumerate().max_by(|a, b| a.1.rate.total_cmp(&b.1.rate))?;
    if !(peak.1.rate > 0.0 && peak.1.rate.is_finite()) {
        return None;
    }
    let mut area = 0.0;
    let mut before = Point { rate: 0.0, response: 0.0 };
    for point in &points[..=peak.0] {
        area += (point.rate - before.rate) * (point.response + before.response) / 2.0;
        before = *point;
    }
    Some(area / peak.1.rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> alloc::vec::Vec<Point> {
        pairs.iter().map(|&(rate, response)| Point { rate, response }).collect()
    }

    #[test]
    fn ort_area_begins_at_the_origin() {
        // One point: a triangle, not a rectangle.
        assert_eq!(overall_response_time(&points(&[(1000.0, 2.0)])), Some(1.0));
        // Constant response over ten steps: half of the first is missing, so 2 x (1 -
        // 0.05).
        let flat: alloc::vec::Vec<Point> =
            (1..=10).map(|i| Point { rate: 100.0 * f64::from(i), response: 2.0 }).collect();
        assert!((overall_response_time(&flat).unwrap() - 1.9).abs() < 1e-12);
        // By hand: 1000 x 0.5 x 1 + 1000 x 0.5 x (1 + 3) = 2500, over 2000.
        assert_eq!(overall_response_time(&points(&[(1000.0, 1.0), (2000.0, 3.0)])), Some(1.25));
    }

    #[test]
    fn ort_ignores_points_after_the_peak() {
        let rising = points(&[(1000.0, 1.0), (2000.0, 3.0)]);
        let collapsed = points(&[(1000.0, 1.0), (2000.0, 3.0), (1500.0, 50.0)]);
        assert_eq!(overall_response_time(&rising), overall_response_time(&collapsed));
        assert_eq!(overall_response_time(&[]), None);
        assert_eq!(overall_response_time(&points(&[(0.0, 1.0)])), None);
    }
}
