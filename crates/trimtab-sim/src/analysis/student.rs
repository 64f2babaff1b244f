//! Student's t distribution, for the error of a mean of few repeats.

/// Value below which a t variable of `df` degrees of freedom (at least 1, possibly
/// fractional) lies with probability `p`.
///
/// By bisection of the distribution function; relative error 1e-9.
#[must_use]
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if p < 0.5 {
        return -t_quantile(1.0 - p, df);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while t_cdf(high, df) < p && high < 1e12 {
        low = high;
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if t_cdf(middle, df) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Probability that a t variable of `df` degrees of freedom is below `t`, for `t >= 0`.
fn t_cdf(t: f64, df: f64) -> f64 {
    1.0 - 0.5 * incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// Probability that a standard normal variable is below `x`.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

/// The regularised incomplete beta function, by the continued fraction of DLMF 8.17.22
/// (modified Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only on this side.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log1p(-x);
    let nudge = |v: f64| if libm::fabs(v) < 1e-300 { 1e-300 } else { v };
    let (mut c, mut d) = (1.0, 1.0 / nudge(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / nudge(1.0 + term * d);
            c = nudge(1.0 + term / c);
            change *= c * d;
        }
        fraction *= change;
        if libm::fabs(change - 1.0) < 1e-15 {
            break;
        }
    }
    libm::exp(log_front) * fraction / a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_printed_tables() {
        for (p, df, expected) in [
            (0.975, 1.0, 12.706_204_736),
            (0.975, 2.0, 4.302_652_730),
            (0.975, 3.0, 3.182_446_305),
            (0.975, 4.0, 2.776_445_105),
            (0.975, 9.0, 2.262_157_163),
            (0.975, 30.0, 2.042_272_456),
            (0.975, 1e6, 1.959_966_0),
            (0.995, 5.0, 4.032_142_984),
            (0.9, 7.0, 1.414_923_928),
        ] {
            assert!((t_quantile(p, df) - expected).abs() < 1e-6, "{p} {df}: {}", t_quantile(p, df));
            assert!((t_quantile(1.0 - p, df) + expected).abs() < 1e-6);
        }
        assert!(t_quantile(0.5, 3.0).abs() < 1e-9);
        // One degree of freedom is Cauchy, 1 / (pi q); two: (1 - 2 q) / sqrt(2 q (1 -
        // q)).
        let q = 1e-11_f64;
        assert!((t_quantile(1.0 - q, 1.0) * core::f64::consts::PI * q - 1.0).abs() < 1e-4);
        assert!((t_quantile(0.999, 2.0) / (0.998 / libm::sqrt(0.002 * 0.999)) - 1.0).abs() < 1e-9);
        assert!(
            (normal_cdf(-1.959_963_985) - 0.025).abs() < 1e-9
                && (normal_cdf(0.0) - 0.5).abs() < 1e-15
        );
    }
}
