//! Designs: which points of the axes are run. Each point is computed from its number.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::rng::{CountedStream, derive_seed};

/// A design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// Method of choosing points.
    pub kind: DesignKind,
    /// Number of points. Given by the axes of a grid.
    pub points: u64,
    /// Seed of the samples.
    pub seed: u64,
}

/// Method of choosing points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesignKind {
    /// Every combination of values.
    Grid,
    /// Uniform and independent samples.
    Random,
    /// A Sobol sequence, Owen-scrambled with the seed (Burley 2020): more even than
    /// random samples for any number of points, best for powers of two.
    Sobol,
}

impl DesignKind {
    /// Their names in plans.
    pub const NAMES: [(&'static str, Self); 3] =
        [("grid", Self::Grid), ("random", Self::Random), ("sobol", Self::Sobol)];
    /// Maximum length and dimensions of the library's sequence.
    const SOBOL: (u64, usize) = (1 << 16, 256);

    /// Checks the number of points over the number of axes.
    ///
    /// # Errors
    /// The limits of the design.
    pub fn check(self, points: u64, axes: usize) -> Result<(), String> {
        let (points_max, axes_max) = Self::SOBOL;
        if self != Self::Sobol || (points <= points_max && axes <= axes_max) {
            return Ok(());
        }
        Err(format!("a Sobol sequence has at most {points_max} points over {axes_max} axes here"))
    }
}

impl Design {
    /// Position of a point on each axis, from 0 to below 1; `None` for a grid, which uses
    /// values.
    #[must_use]
    pub fn unit(&self, point: u64, axes: usize) -> Option<Vec<f64>> {
        let each = |of: &dyn Fn(usize) -> f64| Some((0..axes).map(of).collect());
        match self.kind {
            DesignKind::Grid => None,
            DesignKind::Random => each(&|axis| self.drawn(point, axis, axes)),
            DesignKind::Sobol => each(&|axis| self.sobol(point, axis)),
        }
    }

    fn drawn(&self, point: u64, axis: usize, axes: usize) -> f64 {
        let mut stream = CountedStream::new(self.seed, "sweep.points");
        stream.drawn = point.wrapping_mul(axes as u64).wrapping_add(axis as u64);
        (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn sobol(&self, point: u64, dimension: usize) -> f64 {
        let seed = derive_seed(self.seed, "sweep.sobol") as u32;
        f64::from(sobol_burley::sample(point as u32, dimension as u32, seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(kind: DesignKind, points: u64) -> Design {
        Design { kind, points, seed: 3 }
    }

    /// The integral of the product of (1 + (u - 1/2) / 2) over the unit cube is 1. The
    /// error of random samples is about 1 / sqrt(n) of the spread, that of a Sobol
    /// sequence far less.
    #[test]
    fn sobol_integrates_better_than_random_samples() {
        let off = |kind| {
            let d = design(kind, 1024);
            let f = |point| {
                d.unit(point, 5).unwrap().iter().map(|u| 1.0 + (u - 0.5) / 2.0).product::<f64>()
            };
            ((0..1024).map(f).sum::<f64>() / 1024.0 - 1.0).abs()
        };
        assert!(
            off(DesignKind::Sobol) < 1e-3 && off(DesignKind::Random) < 0.05,
            "{} {}",
            off(DesignKind::Sobol),
            off(DesignKind::Random)
        );
    }

    #[test]
    fn unit_depends_on_seed_and_stays_in_cube() {
        for kind in [DesignKind::Random, DesignKind::Sobol] {
            let (one, other) = (design(kind, 64), Design { seed: 4, ..design(kind, 64) });
            let all = |d: Design| {
                (0..d.points).map(|point| d.unit(point, 4).unwrap()).collect::<Vec<_>>()
            };
            assert!(all(one) == all(one) && all(one) != all(other), "{kind:?}");
            assert!(all(one).iter().flatten().all(|u| (0.0..1.0).contains(u)), "{kind:?}");
        }
        assert!(DesignKind::Sobol.check(1 << 17, 2).is_err());
        assert!(
            DesignKind::Sobol.check(1 << 16, 256).is_ok()
                && DesignKind::Random.check(1 << 20, 1000).is_ok()
        );
    }
}
