//! Steps of the search, verified by hand.

use crate::analysis::change_points::*;
use core::f64::consts::PI;

fn near(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= 1e-12 * expected.abs().max(1.0),
        "{got}, expected {expected}"
    );
}

fn all_near(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    got.iter().zip(expected).for_each(|(got, expected)| near(*got, *expected));
}

#[test]
fn medians_and_differences_match_hand_calculation() {
    assert_eq!([median(&mut []), median(&mut [5.0]), median(&mut [9.0, 1.0])], [0.0, 5.0, 5.0]);
    assert_eq!([median(&mut [3.0, 1.0, 2.0]), median(&mut [4.0, 1.0, 3.0, 2.0])], [2.0, 2.5]);
    assert_eq!(median(&mut [8.0, 1.0, 6.0, 2.0, 7.0]), 6.0);
    assert_eq!(
        [around(0, 3, 10), around(5, 3, 10), around(9, 3, 10), around(1, 0, 10)],
        [0..4, 2..9, 6..10, 1..2]
    );
    assert_eq!(
        (differences(&[1.0, 4.0, 2.0], 1), differences(&[1.0, 4.0, 2.0], 2)),
        (vec![3.0, 2.0], vec![1.0])
    );
    let up_to = |n: u32| (1..=n).rev().map(f64::from).collect::<Vec<f64>>();
    // 1 to 9 of ten, 1 to 18 of twenty, all of five.
    assert_eq!([10, 20, 5].map(|n| mean_of_smaller(&up_to(n))), [5.0, 9.5, 3.0]);
}

#[test]
fn outlier_is_replaced_and_step_is_kept() {
    let wave = |i: usize| if i.is_multiple_of(2) { 10.0 } else { 11.0 };
    let mut values: Vec<f64> = (0..40).map(wave).collect();
    values[20] = 100.0;
    let filtered = without_outliers(&values);
    // The median of 11, 10, 11, 100, 11, 10, 11 is 11.
    assert_eq!(filtered[20], 11.0);
    assert!((0..40).filter(|i| *i != 20).all(|i| filtered[i] == values[i]));
    let step: Vec<f64> = (0..40).map(|i| if i < 20 { wave(i) } else { 30.0 + wave(i) }).collect();
    assert_eq!(without_outliers(&step), step);
}

#[test]
fn local_noise_is_never_below_global_noise() {
    // Twenty differences of 0, then nineteen of 2; each estimate uses 15 on either side.
    let two = |i: usize| if i < 20 { 0.0 } else { 2.0 };
    let noise = local_noise(&(0..39).map(two).collect::<Vec<f64>>(), 40);
    let per_difference = libm::sqrt(PI) / 2.0;
    near(noise[0], 0.0);
    near(noise[10], per_difference * 12.0 / 26.0);
    near(noise[38], per_difference * 2.0);
    near(noise[39], per_difference * 2.0);
    // If neighbours always differ by 1 the variance is pi / 4; of a constant it is a
    // millionth.
    let wave = |i: usize| f64::from(u32::from(!i.is_multiple_of(2)));
    all_near(&precision(&(0..40).map(wave).collect::<Vec<f64>>()), &[4.0 / PI; 40]);
    assert!(precision(&[7.0; 40]).iter().all(|p| (p / 1e6 - 1.0).abs() < 1e-9));
    // Twenty zeros, then a wave: 20 of 39 differences are 1; the quiet part uses that.
    let late: Vec<f64> = (0..40).map(|i| if i < 20 { 0.0 } else { wave(i + 1) }).collect();
    let whole = per_difference * 20.0 / 39.0;
    near(precision(&late)[0], 1.0 / (whole * whole));
}

#[test]
fn widening_follows_correlation_of_differences() {
    // Alternating: two steps return to the start, without correlation.
    let wave: Vec<f64> =
        (0..100).map(|i: u32| if i.is_multiple_of(2) { 1.0 } else { -1.0 }).collect();
    near(widening(&wave, &[1.0; 100]), 1.0);
    // Three times the assumed variance counts as such.
    near(widening(&wave, &[3.0; 100]), 3.0);
    // Steps of one, three in five in the same direction: 60 of the 100 differences over
    // two steps are 2. The mean of the smaller 90 is 100 / 90, so r = (10 / 9)^2 - 1,
    // with a standard error of 1 / sqrt(102).
    let mut at = 0.0;
    let mut drift = vec![at];
    for i in 0..101 {
        at += if i % 5 < 3 { 1.0 } else { -1.0 };
        drift.push(at);
    }
    let r = 19.0 / 81.0 + 1.0 / libm::sqrt(102.0);
    near(widening(&drift, &[0.0; 102]), (1.0 + r) / (1.0 - r));
    // More than 0.6 would be a slope.
    let slope: Vec<f64> = (0..100).map(f64::from).collect();
    near(widening(&slope, &[0.0; 100]), 4.0);
    near(widening(&[0.0; 100], &[1.0; 100]), 1.1 / 0.9);
}

#[test]
fn cost_and_residuals_match_hand_calculation() {
    assert_eq!(residuals(&[1.0, 3.0, 10.0, 14.0], &[2]), [-1.0, 1.0, -2.0, 2.0]);
    assert_eq!(residuals(&[1.0, 3.0], &[]), [-1.0, 1.0]);
    // 1 and 3 about 2; all about 5, the last counting twice; 3 and twice 8 about 19/3.
    let sums = Sums::new(&[1.0, 3.0, 8.0], &[1.0, 1.0, 2.0]);
    near(sums.cost(0, 2), 2.0);
    near(sums.cost(0, 3), 16.0 + 4.0 + 2.0 * 9.0);
    near(sums.cost(1, 3), 150.0 / 9.0);
    near(sums.cost(2, 3), 0.0);
}

#[test]
fn cut_is_made_if_it_saves_more_than_the_penalty() {
    // The error of a single segment is 6 x 4.5^2 = 121.5.
    let values = [0.0, 0.0, 0.0, 9.0, 9.0, 9.0];
    assert_eq!(optimal_partition(&values, &[1.0; 6], 121.0, 2), [3]);
    assert!(optimal_partition(&values, &[1.0; 6], 122.0, 2).is_empty());
    assert_eq!(optimal_partition(&values, &[2.0; 6], 242.0, 2), [3]);
    // No segment is shorter than the minimum.
    assert!(optimal_partition(&values, &[1.0; 6], 1.0, 4).is_empty());
    let three = [0.0, 0.0, 9.0, 9.0, 9.0, 2.0, 2.0];
    assert_eq!(optimal_partition(&three, &[1.0; 7], 1.0, 2), [2, 5]);
}

#[test]
fn best_cut_is_exact_within_its_reach() {
    let values = [7.0, 7.0, 0.0, 0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 5.0];
    // The step of 2..10 is at 6.
    assert_eq!(best_cut(&values, 2, 4, 10, 2), 6);
    assert_eq!(best_cut(&values, 2, 4, 10, 1), 5);
    assert_eq!(best_cut(&values, 2, 8, 10, 2), 6);
    assert_eq!(best_cut(&values, 2, 8, 10, 1), 7);
    // Both sides keep at least one value.
    assert_eq!(
        [best_cut(&[1.0, 5.0, 5.0, 5.0], 0, 2, 4, 9), best_cut(&[1.0, 1.0, 1.0, 5.0], 0, 2, 4, 9)],
        [1, 3]
    );
}

#[test]
fn small_steps_are_dropped_smallest_first() {
    assert_eq!(levels(&[1.0, 3.0, 10.0, 14.0], &[2]), [2.0, 12.0]);
    let values = [100.0, 100.0, 104.0, 104.0, 200.0, 200.0];
    let kept = |step_min| {
        let mut cuts = vec![2, 4];
        drop_small_steps(&values, &mut cuts, step_min);
        cuts
    };
    // 4 of 104 are 3.85 %; then 100 and 104 remain, with a median of 102, against 200: 49
    // %.
    assert_eq!(
        [kept(0.038), kept(0.039), kept(0.489), kept(0.491)],
        [vec![2, 4], vec![4], vec![4], vec![]]
    );
    // A step of exactly the minimum stays, down as well as up.
    for values in [[1.0, 2.0], [2.0, 1.0], [-1.0, -2.0]] {
        let mut cuts = vec![1];
        drop_small_steps(&values, &mut cuts, 0.5);
        assert_eq!(cuts, [1], "{values:?}");
        drop_small_steps(&values, &mut cuts, 0.500_001);
        assert!(cuts.is_empty(), "{values:?}");
    }
}

#[test]
fn swings_requires_even_and_regular_alternation() {
    let of = |levels: &[f64], values: &[usize]| -> Vec<Stretch> {
        levels
            .iter()
            .zip(values.iter().cycle())
            .map(|(&level, &values)| Stretch { level, values })
            .collect()
    };
    let even = |levels: &[f64]| swings(&of(levels, &[5]));
    // Three turns need four segments.
    assert!(even(&[0.0, 10.0, 0.0, 10.0]) && !even(&[0.0, 10.0, 0.0]));
    // Segments on the same side are merged, and the extreme counts.
    assert!(
        even(&[0.0, 10.0, 8.0, 0.0, 10.0])
            && even(&[0.0, 8.0, 10.0, 0.0, 10.0])
            && even(&[10.0, 0.0, 2.0, 10.0, 0.0])
    );
    assert!(!even(&[0.0, 10.0, 8.0, 0.0]));
    // At most 35 % of the distance may be missing; half of it is not a peak.
    assert!(
        even(&[0.0, 10.0, 0.0, 6.5])
            && !even(&[0.0, 10.0, 0.0, 6.4])
            && even(&[0.0, 10.0, 3.5, 10.0])
            && !even(&[0.0, 10.0, 3.6, 10.0])
    );
    // A level exactly in the middle counts as low.
    assert!(
        swings(&of(&[0.0, 10.0, 0.0, 5.0, 0.0, 10.0], &[5, 5, 2, 1, 2, 5]))
            && !even(&[0.0, 10.0, 5.0, 10.0, 0.0])
    );
    // A segment more than twice as long as the longest other is not part of a wave.
    assert!(
        swings(&of(&[0.0, 10.0, 0.0, 10.0], &[5, 5, 5, 10]))
            && !swings(&of(&[0.0, 10.0, 0.0, 10.0], &[5, 5, 5, 11]))
    );
    // Segments on one side count with their total length.
    assert!(
        !swings(&of(&[0.0, 10.0, 0.0, 10.0, 9.0], &[5, 5, 5, 5, 6]))
            && swings(&of(&[0.0, 10.0, 0.0, 10.0, 9.0], &[5, 5, 5, 5, 5]))
    );
}
