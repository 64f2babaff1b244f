//! Fisher's exact test, one-sided, for the difference of two shares.

/// Number of hits in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Hits.
    pub hits: u64,
    /// Size of the sample, at least `hits`.
    pub of: u64,
}

/// Probability under equal shares that `b` gets at least its number of hits; small if `b`
/// has them more often than chance explains. 1 if either sample is empty. (R. A. Fisher,
/// *The Design of Experiments*, 1935, § 5: the hypergeometric distribution.)
#[must_use]
pub fn more_often(b: Share, a: Share) -> f64 {
    let (hits, all) = (a.hits + b.hits, a.of + b.of);
    let (least, most) = (hits.saturating_sub(a.of), hits.min(b.of));
    if a.of == 0 || b.of == 0 || b.hits <= least {
        return 1.0;
    }
    // Terms relative to the largest, to avoid overflow: each follows from its neighbour.
    let to_next = |x: u64| {
        ((hits - x) as f64 * (b.of - x) as f64) / ((x + 1) as f64 * (a.of + x + 1 - hits) as f64)
    };
    let mode =
        (((hits + 1) as f64 * (b.of + 1) as f64 / (all + 2) as f64) as u64).clamp(least, most);
    let (mut sum, mut tail) = (0.0, 0.0);
    let mut add = |x: u64, term: f64| {
        sum += term;
        if x >= b.hits {
            tail += term;
        }
    };
    let mut term = 1.0;
    for x in mode..=most {
        add(x, term);
        if x < most {
            term *= to_next(x);
        }
    }
    term = 1.0;
    for x in (least..mode).rev() {
        term /= to_next(x);
        add(x, term);
    }
    tail / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(hits: u64, of: u64) -> Share {
        Share { hits, of }
    }

    fn choose(n: u64, k: u64) -> u128 {
        (0..k).fold(1, |product, i| product * u128::from(n - i) / u128::from(i + 1))
    }

    #[test]
    fn more_often_matches_the_lady_tasting_tea() {
        // Fisher's example: four of eight cups identified: 1 in 70; at least three: 17 in
        // 70.
        assert!((more_often(of(4, 4), of(0, 4)) - 1.0 / 70.0).abs() < 1e-15);
        assert!((more_often(of(3, 4), of(1, 4)) - 17.0 / 70.0).abs() < 1e-15);
        assert_eq!(
            (
                more_often(of(0, 4), of(4, 4)),
                more_often(of(0, 0), of(1, 4)),
                more_often(of(0, 9), of(0, 9))
            ),
            (1.0, 1.0, 1.0)
        );
    }

    #[test]
    fn small_tables_match_enumeration() {
        for (n, m) in (1..12).flat_map(|n| (1..12).map(move |m| (n, m))) {
            for (x, y) in (0..=n).flat_map(|x| (0..=m).map(move |y| (x, y))) {
                let hits = x + y;
                let deals = |x: u64| {
                    if x > hits || hits - x > m { 0 } else { choose(n, x) * choose(m, hits - x) }
                };
                let as_many: u128 = (x..=n.min(hits)).map(deals).sum();
                let expected = as_many as f64 / choose(n + m, hits) as f64;
                let p = more_often(of(x, n), of(y, m));
                assert!(
                    (p - expected).abs() < 1e-12,
                    "{x} of {n} against {y} of {m}: {p}, {expected}"
                );
            }
        }
    }

    #[test]
    fn large_tables_do_not_overflow() {
        // By symmetry, at least half of the hits has probability (1 + middle term) / 2.
        let p = more_often(of(600, 2500), of(600, 2500));
        assert!(p > 0.5 && p < 0.52, "{p}");
        let certain = more_often(of(2500, 2500), of(0, 2500));
        assert!((0.0..1e-300).contains(&certain), "{certain}");
        // All 3 hits in the smaller sample: 50·49·48 of 150·149·148.
        let expected = 50.0 * 49.0 * 48.0 / (150.0 * 149.0 * 148.0);
        assert!((more_often(of(3, 50), of(0, 100)) - expected).abs() < 1e-12);
    }
}
