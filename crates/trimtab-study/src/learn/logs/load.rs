//! Write patterns of the measured runs, on a drive of any size.

use alloc::vec::Vec;
use trimtab_drive::rng::Stream;

/// A pattern of 4 KiB writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Pattern {
    /// Every page with the same probability.
    Uniform,
    /// Page ranks with probability 1 / rank^theta.
    Zipf(f64),
    /// Zones: (share of the space, share of the writes). A zone without writes is
    /// read-only.
    Zones(Vec<(f64, f64)>),
}

/// A pattern over `units` mapping units, which stand for `units_real` of the measured
/// drive.
#[derive(Clone, Debug)]
pub struct Load {
    pattern: Pattern,
    units: u32,
    units_real: f64,
    /// Unit of each rank; empty if ranks are addresses.
    scattered: Vec<u32>,
    stream: Stream,
}

impl Load {
    /// A generator of unit numbers below `units`. `scattered` places ranks and zones at
    /// random addresses.
    #[must_use]
    pub fn new(pattern: Pattern, units: u32, units_real: u64, scattered: bool, seed: u64) -> Self {
        let mut order = Vec::new();
        if scattered && pattern != Pattern::Uniform {
            order.extend(0..units);
            Stream::new(seed, "ssd-iq scatter").shuffle(&mut order);
        }
        Self {
            pattern,
            units,
            units_real: units_real as f64,
            scattered: order,
            stream: Stream::new(seed, "ssd-iq writes"),
        }
    }

    /// The next unit.
    pub fn next_unit(&mut self) -> u32 {
        let rank = self.rank().min(self.units - 1);
        self.scattered.get(rank as usize).copied().unwrap_or(rank)
    }

    /// Unit for a rank of the measured drive. The hottest ranks keep a unit each, because
    /// a cache treats one page otherwise than the sum of several; the rest are scaled.
    fn unit_of_rank(&self, rank: f64) -> u32 {
        let units = f64::from(self.units);
        let alone = f64::from(self.units / 1000).min(self.units_real);
        if rank < alone || self.units_real <= units {
            return rank as u32;
        }
        (alone + (rank - alone) * (units - alone) / (self.units_real - alone)) as u32
    }

    fn rank(&mut self) -> u32 {
        match &self.pattern {
            Pattern::Uniform => self.stream.below(u64::from(self.units)) as u32,
            Pattern::Zipf(theta) => {
                let drawn = zipf_rank(self.stream.unit(), *theta, self.units_real);
                self.unit_of_rank(drawn)
            }
            Pattern::Zones(zones) => {
                let mut drawn = self.stream.unit();
                let mut from = 0.0;
                for (space, writes) in zones {
                    if drawn < *writes {
                        let at = from + space * self.stream.unit();
                        return (at * f64::from(self.units)) as u32;
                    }
                    drawn -= writes;
                    from += space;
                }
                self.units - 1
            }
        }
    }
}

/// Rank in `0..pages` for the uniform number `u`, by the inverse of the continuous
/// distribution.
fn zipf_rank(u: f64, theta: f64, pages: f64) -> f64 {
    let left = 1.0 - theta;
    let rank = if left.abs() < 1e-9 {
        libm::pow(pages + 1.0, u)
    } else {
        libm::pow(u * (libm::pow(pages + 1.0, left) - 1.0) + 1.0, 1.0 / left)
    };
    (rank - 1.0).clamp(0.0, pages - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Share of 100,000 writes that fall below each tenth of the ranks.
    fn share_below(pattern: Pattern, limit: u32) -> f64 {
        let mut load = Load::new(pattern, 1000, 1_000_000, false, 1);
        (0..100_000).filter(|_| load.next_unit() < limit).count() as f64 / 100_000.0
    }

    #[test]
    fn load_shares_match_their_distributions() {
        let near = |got: f64, expected: f64| {
            assert!((got - expected).abs() < 0.01, "{got}, expected {expected}")
        };
        near(share_below(Pattern::Uniform, 100), 0.1);
        // Integral of rank^-0.5: the square root of the share of ranks.
        near(share_below(Pattern::Zipf(0.5), 250), 0.5);
        // One unit of 1000 stands alone: ln 2 / ln 10^6.
        near(share_below(Pattern::Zipf(1.0), 1), 0.05);
        near(share_below(Pattern::Zones(vec![(0.9, 0.1), (0.1, 0.9)]), 900), 0.1);
        near(share_below(Pattern::Zones(vec![(0.8, 0.0), (0.2, 1.0)]), 800), 0.0);
    }

    #[test]
    fn scattered_load_writes_as_many_units() {
        let zones = Pattern::Zones(vec![(0.8, 0.0), (0.2, 1.0)]);
        let mut load = Load::new(zones, 1000, 1_000_000, true, 1);
        let written: alloc::collections::BTreeSet<u32> =
            (0..20_000).map(|_| load.next_unit()).collect();
        assert_eq!(written.len(), 200);
        assert!(*written.first().unwrap() < 100 && *written.last().unwrap() >= 900);
    }
}
