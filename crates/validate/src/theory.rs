//! Formulas for steady-state write amplification.
//!
//! `u` is utilisation: mapped pages over physical pages, excluding physical pages that an
//! implementation holds free. `b` is pages per erase block. All results count host plus
//! relocated page programs per host page write. Writes are page-sized and uniform over
//! all mapped pages unless stated otherwise. Sources: Desnoyers, "Analytic modeling of
//! SSD write performance" (2012); Xiang and Kurkoski (2012); Bux and Iliadis,
//! "Performance of greedy garbage collection in flash-based solid-state drives" (2010);
//! Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives" (2013); Frankie et al., "Solid state disk object-based
//! storage with trim commands" (2012).

/// Principal branch of Lambert's W, w e^w = x for x >= -1/e, by Halley's iteration.
#[must_use]
pub fn lambert_w0(x: f64) -> f64 {
    // Near the branch point -1/e, w = -1 + p - p^2/3 + 11 p^3/72 with p = sqrt(2 (e x +
    // 1)).
    let p = libm::sqrt((2.0 * (std::f64::consts::E * x + 1.0)).max(0.0));
    let mut w = if x < 0.25 {
        -1.0 + p - p * p / 3.0 + 11.0 / 72.0 * p * p * p
    } else {
        libm::log(1.0 + x)
    };
    if p < 1e-5 {
        return w;
    }
    for _ in 0..50 {
        let e = libm::exp(w);
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if libm::fabs(step) <= 1e-15 * (1.0 + libm::fabs(w)) {
            break;
        }
    }
    w
}

/// Root in `low..high` of the decreasing function `f`.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) > 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// FIFO: alpha / (alpha + W(-alpha e^-alpha)), alpha = 1/u. Desnoyers eq. 4.
#[must_use]
pub fn fifo(u: f64) -> f64 {
    let alpha = 1.0 / u;
    alpha / (alpha + lambert_w0(-alpha * libm::exp(-alpha)))
}

/// Random victim: 1 / (1 - u).
#[must_use]
pub fn random(u: f64) -> f64 {
    1.0 / (1.0 - u)
}

/// Greedy, mean field for blocks of `b` pages. Victims have one of two adjacent numbers
/// of valid pages, and theta = (b - j - j (H_b - H_j)) / (b u - j), A = 1 / (theta u),
/// for the j at which their shares are between 0 and 1.
#[must_use]
pub fn greedy(u: f64, b: u32) -> f64 {
    let size = f64::from(b);
    // H_b - H_j, from j = b down.
    let mut harmonic = 0.0;
    let mut best = (f64::INFINITY, 1.0);
    for j in (0..=b).rev() {
        let valid = f64::from(j);
        let denominator = size * u - valid;
        if denominator > 0.0 {
            let theta = (size - valid - valid * harmonic) / denominator;
            let shares = [1.0 - harmonic / theta, theta * valid - valid * harmonic];
            // Distance of the shares from 0..1: rounding can put the right j just
            // outside.
            let outside =
                shares.iter().map(|share| (-share).max(share - 1.0).max(0.0)).fold(0.0, f64::max);
            if theta > 0.0 && outside < best.0 {
                best = (outside, 1.0 / (theta * u));
            }
        }
        harmonic += 1.0 / valid.max(1.0);
    }
    best.1
}

/// The emptiest of `d` random blocks of `b` pages. Van Houdt: with G_i the share of
/// blocks with at least i valid pages, theta i (G_i - G_(i+1)) = 1 - G_i^d, sum of G_i =
/// b u, A = 1 / (theta u).
#[must_use]
pub fn d_choices(u: f64, b: u32, d: u32) -> f64 {
    let occupied = |theta: f64| {
        let mut above = 0.0;
        let mut sum = 0.0;
        for i in (1..=b).rev() {
            let weight = theta * f64::from(i);
            above = bisect(above, 1.0, |g| {
                1.0 + weight * above - weight * g - libm::pow(g, f64::from(d))
            });
            sum += above;
        }
        sum
    };
    let theta = bisect(1e-9, 1.0 / u, |theta| occupied(theta) - f64::from(b) * u);
    1.0 / (theta * u)
}

/// FIFO in one log for data of several temperatures: fractions f_k of the pages receive
/// fractions r_k of the writes. A = sum of r_k / (1 - exp(-r_k alpha / (f_k A))),
/// Desnoyers eq. 14. `parts` are pairs (f_k, r_k).
#[must_use]
pub fn fifo_hot_cold(u: f64, parts: &[(f64, f64)]) -> f64 {
    let amplification = |a: f64| -> f64 {
        let part = |(f, r): &(f64, f64)| r / -libm::expm1(-r / (u * f * a));
        parts.iter().map(part).sum()
    };
    bisect(1.0, 1e6, |a| amplification(a) - a)
}

/// Greedy in one log for data of several temperatures: [`fifo_hot_cold`] at k alpha
/// divided by k, k = 1 + 1/(2b). Accurate to 1 or 2 %.
#[must_use]
pub fn greedy_hot_cold(u: f64, b: u32, parts: &[(f64, f64)]) -> f64 {
    let k = 1.0 + 0.5 / f64::from(b);
    fifo_hot_cold(u / k, parts) / k
}

/// Mean mapped share of the user space if a request trims a mapped page with probability
/// `q`, otherwise writes any page: (1 - 2q) / (1 - q). Effective utilisation is this
/// times u, for any formula above. Frankie et al.
#[must_use]
pub fn trim_mapped_share(q: f64) -> f64 {
    (1.0 - 2.0 * q) / (1.0 - q)
}

/// The same if a request trims any page, mapped or not, with probability `q`: 1 - q,
/// because the last request for a page decides. Derived here: each page becomes stale
/// once per as many requests as there are pages, so mapped pages live as long as
/// uniformly written data.
#[must_use]
pub fn trim_any_mapped_share(q: f64) -> f64 {
    1.0 - q
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = include_str!("theory/write-amplification.csv");

    #[test]
    fn lambert_w_solves_its_equation() {
        for x in [-0.367_879, -0.36, -0.2, -0.01, 0.0, 0.5, 1.0, 10.0, 1e6] {
            let w = lambert_w0(x);
            assert!(w >= -1.0 && (w * libm::exp(w) - x).abs() < 1e-9 * (1.0 + x.abs()), "{x}: {w}");
        }
        assert!((lambert_w0(1.0) - 0.567_143_290_409_783_8).abs() < 1e-15);
    }

    /// Checks every row of the published table to its four decimals.
    #[test]
    fn formulas_reproduce_published_table() {
        let mut rows = 0;
        for line in TABLE.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let (policy, workload) = (fields[0], fields[2]);
            let spare: f64 = fields[4].parse().unwrap();
            let u = if fields[3].starts_with("OP") { 1.0 / (1.0 + spare) } else { 1.0 - spare };
            let expected: f64 = fields[6].parse().unwrap();
            let b = fields[1].parse().unwrap_or(0);
            let u = if workload.contains("q=0.2") { u * trim_mapped_share(0.2) } else { u };
            let parts = [(0.2, 0.8), (0.8, 0.2)];
            // Rounding to four decimals, or 1 % if the table's value is approximate.
            let exact = 6e-5;
            let (got, tolerance) = match (policy, workload.starts_with("hot/cold")) {
                ("GREEDY single log", _) => (greedy_hot_cold(u, b, &parts), 1e-2 * expected),
                (_, true) => (fifo_hot_cold(u, &parts), exact),
                ("FIFO/LRW", _) => (fifo(u), exact),
                ("RANDOM", _) => (random(u), exact),
                ("GREEDY", _) => (greedy(u, b), exact),
                _ => (d_choices(u, b, policy.split("d=").nth(1).unwrap().parse().unwrap()), exact),
            };
            assert!((got - expected).abs() < tolerance, "{line}: {got}");
            rows += 1;
        }
        assert!(rows > 60);
    }

    #[test]
    fn formulas_agree_in_limits() {
        // d = 1 is random, large d is greedy, and greedy with large blocks is FIFO.
        assert!((d_choices(0.8, 64, 1) / random(0.8) - 1.0).abs() < 1e-6);
        assert!((d_choices(0.8, 64, 4000) / greedy(0.8, 64) - 1.0).abs() < 1e-3);
        assert!((greedy(0.8, 100_000) / fifo(0.8) - 1.0).abs() < 1e-3);
        assert!((fifo_hot_cold(0.8, &[(0.3, 0.3), (0.7, 0.7)]) / fifo(0.8) - 1.0).abs() < 1e-9);
    }
}
