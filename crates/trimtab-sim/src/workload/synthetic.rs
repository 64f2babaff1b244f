//! Synthetic block workloads: sequential, uniform, hot and cold, Zipf; mixed sizes and
//! kinds.

mod steady;

pub use steady::{Collection, Preconditioning, SETTLING};

use crate::setting::Setting;
use crate::workload::{BlockPhase, BlockWorkload, Limit, WorkloadPlan};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::str::FromStr;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::suggest;
use trimtab_drive::{Command, Extent, Ranges, named};

/// Distribution of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// In order, wrapping at the end.
    Sequential,
    /// Uniform over all aligned positions.
    Uniform,
    /// A share of the operations goes to a share of the space, both in (0, 1), uniform
    /// within each part. Hot positions are spread over the whole space.
    HotCold {
        /// Hot share of the space.
        space: f64,
        /// Share of the operations that go to it.
        ops: f64,
    },
    /// Zipf's law: the k-th most popular position is used in proportion to 1 / k^`theta`,
    /// from 0 (uniform) to below 10. A fixed permutation spreads popularity over the
    /// space.
    Zipf {
        /// Exponent.
        theta: f64,
    },
    /// Every position once per round, each round in another random order.
    Shuffled,
    /// Pareto's law: `share` of the positions, in (0, 1), get 1 - `share` of the
    /// operations, and the same holds within them. A fixed permutation spreads them over
    /// the space.
    Pareto {
        /// Share of the positions.
        share: f64,
    },
}

impl Pattern {
    /// Parses `sequential`, `random`, `hot-cold[:SPACE/OPERATIONS]` or `zipf[:EXPONENT]`.
    ///
    /// # Errors
    /// No such workload; `others` are known too.
    pub fn parse(text: &str, others: &[&'static str]) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let number =
            |text: &str| text.parse::<f64>().map_err(|_| format!("'{text}' is not a number"));
        Ok(match (kind, rest) {
            ("sequential", "") => Self::Sequential,
            ("random", "") => Self::Uniform,
            ("hot-cold", "") => Self::HotCold { space: 0.2, ops: 0.8 },
            ("hot-cold", rest) => {
                let (space, ops) = rest
                    .split_once('/')
                    .ok_or("write hot-cold:SPACE/OPERATIONS, such as hot-cold:0.2/0.8")?;
                Self::HotCold { space: number(space)?, ops: number(ops)? }
            }
            ("zipf", "") => Self::Zipf { theta: 0.99 },
            ("zipf", rest) => Self::Zipf { theta: number(rest)? },
            _ => {
                let known = [&["sequential", "random", "hot-cold", "zipf"], others].concat();
                return Err(format!(
                    "there is no workload '{text}'; {}",
                    suggest(kind, "workloads", &known)
                ));
            }
        })
    }
}

/// Sizes of operations in bytes, with weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestSizes(pub Vec<(u32, u32)>);

impl FromStr for RequestSizes {
    type Err = String;

    /// Parses `4KiB`, or several sizes with weights: `4KiB:70,64KiB:30`.
    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let mut bytes = 0;
            Setting::SmallSize(&mut bytes).set(size)?;
            Ok((bytes, weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?))
        };
        text.split(',').map(one).collect::<Result<_, String>>().map(Self)
    }
}

/// Percentages of operations; the rest are writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read_percent: u8,
    /// Trims.
    pub trim_percent: u8,
}

named! {
    "set of trimmed addresses"
    /// Address distribution of trims.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum TrimPattern {
        /// All addresses by the pattern, in use or not. With a share q of trims among
        /// trims and writes of one size at uniform addresses, 1 - q of the space is in
        /// use on average, as the last operation at an address decides.
        #[default]
        All = "all",
        /// Uniform over the addresses in use, whatever the pattern: the mix of Frankie et
        /// al. (2012). On average (1 - 2q) / (1 - q) of the space is in use, for q below
        /// one half.
        InUse = "in-use",
    }
}

/// Settings of a synthetic workload.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticSettings {
    /// Distribution of addresses.
    pub pattern: Pattern,
    /// Mix of operations.
    pub mix: Mix,
    /// Sizes in bytes with their weights. Offsets are aligned to the smallest.
    pub sizes: Vec<(u32, u32)>,
    /// Class of written data.
    pub data: DataClass,
    /// First byte of the space used.
    pub offset: u64,
    /// Bytes of the space used.
    pub span: u64,
    /// Operations kept in flight.
    pub queue_depth: u32,
    /// End condition.
    pub limit: Limit,
}

/// Reason for refusing settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SyntheticSettingsError(String);

/// A workload with given [`Settings`].
#[derive(Clone, Debug)]
pub struct Synthetic {
    settings: SyntheticSettings,
    /// Alignment of every offset: the smallest size.
    grain: u64,
    /// Number of aligned positions.
    places: u64,
    weight_total: u64,
    next_place: u64,
    zipf: Option<Zipf>,
    spread: Spread,
    /// Positions in use at the beginning, if trims are of those.
    in_use_first: Option<u64>,
    in_use: Option<UsedPositions>,
    kinds: Stream,
    sizes: Stream,
    addresses: Stream,
    seed: u64,
    started: bool,
}

impl Synthetic {
    /// Creates the workload of `settings` under `seed`.
    ///
    /// # Errors
    /// No size, a size of 0 or above the span, shares over 100 %, an exponent out of
    /// range.
    pub fn new(settings: SyntheticSettings, seed: u64) -> Result<Self, SyntheticSettingsError> {
        let grain = check(&settings)?;
        let places = settings.span / grain;
        let zipf = match settings.pattern {
            Pattern::Zipf { theta } => Some(Zipf::new(places, theta)),
            _ => None,
        };
        Ok(Self {
            grain,
            places,
            weight_total: settings.sizes.iter().map(|(_, weight)| u64::from(*weight)).sum(),
            next_place: 0,
            zipf,
            spread: Spread::new(places, seed),
            in_use_first: None,
            in_use: None,
            kinds: Stream::new(seed, "synthetic.kinds"),
            sizes: Stream::new(seed, "synthetic.sizes"),
            addresses: Stream::new(seed, "synthetic.addresses"),
            seed,
            started: false,
            settings,
        })
    }

    /// Switches to trims of [`TrimsOf::InUse`]; the first `in_use` bytes are in use
    /// initially.
    ///
    /// # Errors
    /// At least as many trims as writes: nothing would stay in use.
    pub fn trimming_in_use(mut self, in_use: u64) -> Result<Self, SyntheticSettingsError> {
        let Mix { read_percent, trim_percent } = self.settings.mix;
        if u32::from(trim_percent) * 2 + u32::from(read_percent) >= 100 {
            return Err(SyntheticSettingsError(
                "trims of blocks in use must be fewer than writes, or no block stays in use"
                    .to_string(),
            ));
        }
        self.in_use_first = (trim_percent > 0).then(|| in_use.min(self.settings.span) / self.grain);
        Ok(self)
    }

    /// Aligns offsets to `bytes`, at most the largest size, instead of the smallest size;
    /// 0 changes nothing.
    #[must_use]
    pub fn aligned(mut self, bytes: u64) -> Self {
        if bytes > 0 {
            (self.grain, self.places) = (bytes, self.settings.span / bytes);
            self.spread = Spread::new(self.places, self.seed);
            if let Pattern::Zipf { theta } = self.settings.pattern {
                self.zipf = Some(Zipf::new(self.places, theta));
            }
        }
        self
    }

    /// Starts sequential operations at this offset within the space.
    #[must_use]
    pub const fn starting_at(mut self, offset: u64) -> Self {
        self.next_place = offset / self.grain;
        self
    }

    fn size(&mut self) -> u32 {
        if self.settings.sizes.len() == 1 {
            return self.settings.sizes[0].0;
        }
        let mut draw = self.sizes.below(self.weight_total);
        for (size, weight) in &self.settings.sizes {
            if draw < u64::from(*weight) {
                return *size;
            }
            draw -= u64::from(*weight);
        }
        self.settings.sizes[0].0
    }

    /// Aligned positions in `len` bytes, usually one: divisions are slow.
    #[inline]
    const fn count(&self, len: u64) -> u64 {
        if len == self.grain { 1 } else { len.div_ceil(self.grain) }
    }

    /// An aligned offset with room for `len` bytes.
    fn place(&mut self, len: u64) -> u64 {
        let last = self.places - self.count(len);
        match self.settings.pattern {
            Pattern::Sequential => {
                let place = if self.next_place > last { 0 } else { self.next_place };
                self.next_place = place + self.count(len);
                place
            }
            Pattern::Uniform => self.addresses.below(last + 1),
            Pattern::HotCold { space, ops } => {
                let hot = ((self.places as f64 * space) as u64).clamp(1, self.places.max(2) - 1);
                // Without a branch, which would be unpredictable.
                let (first, places) =
                    if self.addresses.chance(ops) { (0, hot) } else { (hot, self.places - hot) };
                let rank = first + self.addresses.below(places);
                self.spread.place(rank.min(self.places - 1)).min(last)
            }
            Pattern::Zipf { .. } => {
                let rank = self.zipf.as_ref().map_or(0, |zipf| zipf.rank(&mut self.addresses));
                self.spread.place(rank).min(last)
            }
            Pattern::Shuffled => {
                let rank = if self.next_place < self.places { self.next_place } else { 0 };
                if rank < self.next_place {
                    self.spread = Spread::new(self.places, self.addresses.next_u64());
                }
                self.next_place = rank + 1;
                self.spread.place(rank).min(last)
            }
            Pattern::Pareto { share } => {
                let power = libm::log(share) / libm::log1p(-share);
                let rank = self.places as f64 * libm::pow(self.addresses.unit(), power);
                self.spread.place((rank as u64).min(self.places - 1)).min(last)
            }
        }
    }

    /// The range of the next operation, for callers that choose its kind.
    pub fn draw(&mut self) -> Extent {
        let len = u64::from(self.size());
        Extent { offset: self.settings.offset + self.place(len) * self.grain, len }
    }
}

/// Validates settings; returns the smallest size.
fn check(settings: &SyntheticSettings) -> Result<u64, SyntheticSettingsError> {
    let sizes = || settings.sizes.iter().map(|(size, _)| u64::from(*size));
    let smallest = sizes().min().unwrap_or(0);
    let shares = u32::from(settings.mix.read_percent) + u32::from(settings.mix.trim_percent);
    let problem = if smallest == 0 || settings.sizes.iter().all(|(_, weight)| *weight == 0) {
        "a workload needs operation sizes above 0, and at least one weight above 0"
    } else if sizes().max().unwrap_or(0) > settings.span / smallest * smallest {
        "the largest operation does not fit into the space used"
    } else if shares > 100 {
        "the shares of reads and trims add up to more than 100 percent"
    } else if settings.queue_depth == 0 {
        "the queue depth must be at least 1"
    } else {
        match settings.pattern {
            Pattern::HotCold { space, ops }
                if !(space > 0.0 && space < 1.0 && ops > 0.0 && ops < 1.0) =>
            {
                "the hot shares of space and operations must lie between 0 and 1"
            }
            Pattern::Zipf { theta } if !(0.0..10.0).contains(&theta) => {
                "the Zipf exponent must be at least 0 and below 10, as in zipf:1.1"
            }
            Pattern::Pareto { share } if !(share > 0.0 && share < 1.0) => {
                "the Pareto share must lie between 0 and 1"
            }
            _ => return Ok(smallest),
        }
    };
    Err(SyntheticSettingsError(problem.to_string()))
}

impl BlockWorkload for Synthetic {
    fn plan(&self) -> WorkloadPlan {
        let write_share =
            u64::from(100 - self.settings.mix.read_percent - self.settings.mix.trim_percent);
        let (written, ops) = match self.settings.limit {
            Limit::Bytes(bytes) => {
                (Bytes((u128::from(bytes.0) * u128::from(write_share) / 100) as u64), None)
            }
            Limit::Ops(ops) => {
                let largest =
                    self.settings.sizes.iter().map(|(size, _)| u64::from(*size)).max().unwrap_or(0);
                (Bytes(ops.saturating_mul(largest)), Some(ops))
            }
            Limit::Time(_) | Limit::Stream => (Bytes::MAX, None),
        };
        WorkloadPlan { written, space: Bytes(self.settings.span), ops }
    }

    fn next_phase(&mut self) -> Option<BlockPhase> {
        if self.started {
            return None;
        }
        self.started = true;
        self.in_use =
            self.in_use_first.map(|first| UsedPositions::new(self.places, first, self.seed));
        let name = match self.settings.pattern {
            Pattern::Sequential => "sequential",
            // Names as on the command line.
            Pattern::Uniform => "random",
            Pattern::HotCold { .. } => "hot-cold",
            Pattern::Zipf { .. } => "zipf",
            Pattern::Shuffled => "shuffled",
            Pattern::Pareto { .. } => "pareto",
        };
        Some(BlockPhase {
            name: name.to_string(),
            queue_depth: self.settings.queue_depth,
            limit: self.settings.limit,
            record: true,
            idle_before: Nanos::ZERO,
        })
    }

    /// Inlined, so that the result is built in place.
    #[inline(always)]
    fn next_op(&mut self) -> Option<Command<'static>> {
        let len = self.size();
        let place = self.place(u64::from(len));
        let Mix { read_percent, trim_percent } = self.settings.mix;
        let draw =
            if read_percent == 0 && trim_percent == 0 { 100 } else { self.kinds.below(100) as u8 };
        let reads = draw < read_percent;
        let trims = !reads && draw < read_percent + trim_percent;
        let count = self.count(u64::from(len));
        let place = match &mut self.in_use {
            Some(in_use) if trims => in_use.take(count),
            Some(in_use) if !reads => in_use.put(place, count),
            _ => Some(place),
        };
        // Nothing is in use: a write changes that.
        let (place, trims) = match (place, &mut self.in_use) {
            (Some(place), _) => (place, trims),
            (None, Some(in_use)) => (in_use.put(0, count).unwrap_or(0), false),
            (None, None) => (0, trims),
        };
        let extent = Extent { offset: self.settings.offset + place * self.grain, len: len.into() };
        Some(if reads {
            Command::Read(extent)
        } else if trims {
            Command::Trim(Ranges::One(extent))
        } else {
            Command::Write(extent, self.settings.data)
        })
    }
}

/// Positions in use as a bitmap, with random selection.
#[derive(Clone, Debug)]
struct UsedPositions {
    bits: Vec<u64>,
    places: u64,
    used: u64,
    draws: Stream,
}

impl UsedPositions {
    fn new(places: u64, first: u64, seed: u64) -> Self {
        let words = places.div_ceil(64) as usize;
        let mut in_use = Self {
            bits: alloc::vec![0; words],
            places,
            used: 0,
            draws: Stream::new(seed, "synthetic.trims"),
        };
        in_use.put(0, first.min(places));
        in_use
    }

    const fn bit(place: u64) -> (usize, u64) {
        ((place / 64) as usize, 1 << (place % 64))
    }

    fn put(&mut self, place: u64, count: u64) -> Option<u64> {
        for place in place..place + count {
            let (word, bit) = Self::bit(place);
            self.used += u64::from(self.bits[word] & bit == 0);
            self.bits[word] |= bit;
        }
        Some(place)
    }

    /// Selects and clears `count` positions from a random one in use, uniformly. `None`
    /// if nothing is in use. Retries until it hits: on average `places` over those in
    /// use.
    fn take(&mut self, count: u64) -> Option<u64> {
        if self.used == 0 {
            return None;
        }
        let drawn = loop {
            let place = self.draws.below(self.places);
            let (word, bit) = Self::bit(place);
            if self.bits[word] & bit != 0 {
                break place;
            }
        };
        let first = drawn.min(self.places.saturating_sub(count));
        for place in first..(first + count).min(self.places) {
            let (word, bit) = Self::bit(place);
            self.used -= u64::from(self.bits[word] & bit != 0);
            self.bits[word] &= !bit;
        }
        Some(first)
    }
}

/// Zipf-distributed ranks by rejection-inversion (Hoermann and Derflinger 1996): the
/// exact discrete law in constant time, without a table.
///
/// A uniform draw below the integral of x^-theta is inverted and rounded to a rank. It is
/// accepted with the probability that gives each rank its exact frequency; less than a
/// third of the draws are repeated.
#[derive(Clone, Debug)]
struct Zipf {
    places: u64,
    exponent: f64,
    /// Integral at both ends of the range of draws.
    low: f64,
    high: f64,
    /// A rank this close above its draw is always accepted.
    squeeze: f64,
}

impl Zipf {
    fn new(places: u64, theta: f64) -> Self {
        let mut zipf = Self { places, exponent: 1.0 - theta, low: 0.0, high: 0.0, squeeze: 0.0 };
        // The first rank has exactly its own weight, 1, below the integral from there on.
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(places as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// x^-theta.
    fn weight(&self, x: f64) -> f64 {
        libm::exp((self.exponent - 1.0) * libm::log(x))
    }

    /// Integral of x^-theta from 1 to `x`: (x^(1 - theta) - 1) / (1 - theta), or ln x.
    fn integral(&self, x: f64) -> f64 {
        let log = libm::log(x);
        let scaled = self.exponent * log;
        if libm::fabs(scaled) < SERIES_BELOW {
            log * (1.0 + scaled / 2.0 * (1.0 + scaled / 3.0))
        } else {
            libm::expm1(scaled) / self.exponent
        }
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (self.exponent * area).max(-1.0);
        let log = if libm::fabs(scaled) < SERIES_BELOW {
            area * (1.0 - scaled / 2.0 * (1.0 - scaled * (2.0 / 3.0)))
        } else {
            libm::log1p(scaled) / self.exponent
        };
        libm::exp(log)
    }

    fn rank(&self, draws: &mut Stream) -> u64 {
        loop {
            let area = self.high + draws.unit() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = (libm::round(x) as u64).clamp(1, self.places);
            let k = rank as f64;
            if k - x <= self.squeeze || area >= self.integral(k + 0.5) - self.weight(k) {
                return rank - 1;
            }
        }
    }
}

/// Arguments below which a series is more accurate than a quotient of small numbers.
const SERIES_BELOW: f64 = 1e-6;

/// A fixed permutation of `0..places` that scatters neighbours: a four-round Feistel
/// network over the next power of two, with cycle walking. For an odd number of bits one
/// half has one more: the halves change sides each round and are back after four.
#[derive(Clone, Debug)]
struct Spread {
    places: u64,
    /// Bits of the right, larger half.
    right_bits: u32,
    /// Masks of the right and left half.
    masks: [u64; 2],
    keys: [u64; 4],
}

impl Spread {
    fn new(places: u64, seed: u64) -> Self {
        let bits = (64 - places.saturating_sub(1).leading_zeros()).max(2);
        let right_bits = bits.div_ceil(2);
        let mut rng = Stream::new(seed, "synthetic.spread");
        Self {
            places,
            right_bits,
            masks: [right_bits, bits - right_bits].map(|bits| (1 << bits) - 1),
            keys: core::array::from_fn(|_| rng.next_u64()),
        }
    }

    #[inline]
    fn place(&self, rank: u64) -> u64 {
        let mut value = rank;
        loop {
            let (mut left, mut right) = (value >> self.right_bits, value & self.masks[0]);
            for (round, key) in self.keys.into_iter().enumerate() {
                let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (left, right) = (right, left ^ ((mixed >> 32) & self.masks[1 - round % 2]));
            }
            value = (left << self.right_bits) | right;
            if value < self.places {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    fn settings(pattern: Pattern) -> SyntheticSettings {
        SyntheticSettings {
            pattern,
            mix: Mix::default(),
            sizes: vec![(4096, 1)],
            data: DataClass::Random,
            offset: 0,
            span: 4096 * 1000,
            queue_depth: 1,
            limit: Limit::Stream,
        }
    }

    fn histogram(pattern: Pattern, draws: usize) -> Vec<u32> {
        let mut workload = Synthetic::new(settings(pattern), 1).unwrap();
        let mut counts = vec![0; 1000];
        for _ in 0..draws {
            let Some(Command::Write(Extent { offset, .. }, _)) = workload.next_op() else {
                panic!("only writes were asked for")
            };
            counts[(offset / 4096) as usize] += 1;
        }
        counts
    }

    #[test]
    fn sequential_covers_every_position_once_per_round() {
        assert!(histogram(Pattern::Sequential, 3000).iter().all(|n| *n == 3));
    }

    #[test]
    fn uniform_reaches_everything_about_equally() {
        assert!(histogram(Pattern::Uniform, 200_000).iter().all(|n| (120..300).contains(n)));
    }

    #[test]
    fn hot_positions_get_their_share() {
        let mut counts = histogram(Pattern::HotCold { space: 0.1, ops: 0.9 }, 100_000);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u32 = counts[..100].iter().sum();
        assert!((88_000..92_000).contains(&hot), "{hot}");
    }

    /// Chi-square of ranks against 1 / k^theta / H: one bin each for ranks 1 to 10, then
    /// doubling bins. Returns it with its degrees of freedom.
    fn zipf_chi_square(places: u64, theta: f64, draws: u32) -> (f64, u32) {
        let bin = |rank: u64| if rank <= 10 { rank - 1 } else { 10 + u64::from((rank / 11).ilog2()) } as usize;
        let mut expected = vec![0.0; bin(places) + 1];
        // Smallest terms first, for accuracy of the sum.
        (1..=places).rev().for_each(|rank| expected[bin(rank)] += libm::pow(rank as f64, -theta));
        let total: f64 = expected.iter().rev().sum();
        let (zipf, mut stream) = (Zipf::new(places, theta), Stream::new(places, "chi-square"));
        let mut counts = vec![0_u32; expected.len()];
        (0..draws).for_each(|_| counts[bin(zipf.rank(&mut stream) + 1)] += 1);
        // Bins with few draws are merged with their neighbours.
        let (mut chi_square, mut bins, mut pending) = (0.0, 0, (0.0, 0.0));
        for (weight, count) in expected.iter().zip(&counts) {
            pending =
                (pending.0 + weight / total * f64::from(draws), pending.1 + f64::from(*count));
            if pending.0 >= 10.0 {
                chi_square += (pending.1 - pending.0).powi(2) / pending.0;
                (bins, pending) = (bins + 1, (0.0, 0.0));
            }
        }
        assert!(pending.0 < 10.0 && (pending.1 - pending.0).abs() < 30.0, "{pending:?}");
        (chi_square, bins - 1)
    }

    /// Oracle: exact probabilities, within 5 sigma of chi-square (Wilson-Hilferty).
    #[test]
    fn zipf_ranks_follow_exact_probabilities() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.000_000_1, 1.2, 3.0, 9.9] {
            for places in [1, 2, 3, 12, 1000, 3_000_000] {
                let (chi_square, freedom) = zipf_chi_square(places, theta, 400_000);
                if freedom == 0 {
                    continue;
                }
                let n = f64::from(freedom);
                let deviation = (libm::cbrt(chi_square / n) - (1.0 - 2.0 / (9.0 * n)))
                    / libm::sqrt(2.0 / (9.0 * n));
                assert!(
                    deviation < 5.0,
                    "theta {theta}, {places} places: chi-square {chi_square:.1} of {freedom}"
                );
            }
        }
    }

    #[test]
    fn zipf_first_rank_is_as_frequent_as_its_term() {
        // 1 / H(1000, 1) = 1 / 7.485470861 and 1 / H(1000, 0.99) = 1 / 7.728933.
        for (theta, expected) in [(1.0, 1.0 / 7.485_470_861), (0.99, 1.0 / 7.728_933), (0.0, 0.001)]
        {
            let (zipf, mut stream) = (Zipf::new(1000, theta), Stream::new(5, "first"));
            let first = (0..2_000_000).filter(|_| zipf.rank(&mut stream) == 0).count() as f64 / 2e6;
            let deviation = libm::sqrt(expected * (1.0 - expected) / 2e6);
            assert!((first - expected).abs() < 5.0 * deviation, "{theta}: {first}, not {expected}");
        }
    }

    #[test]
    fn invalid_settings_are_refused() {
        let refused = |change: fn(&mut SyntheticSettings)| {
            let mut bad = settings(Pattern::Uniform);
            change(&mut bad);
            assert!(Synthetic::new(bad, 1).is_err());
        };
        refused(|s| s.sizes.clear());
        refused(|s| s.sizes = vec![(0, 1)]);
        refused(|s| s.span = 4095);
        refused(|s| s.queue_depth = 0);
        refused(|s| s.mix = Mix { read_percent: 60, trim_percent: 60 });
        refused(|s| s.pattern = Pattern::Zipf { theta: 10.0 });
        refused(|s| s.pattern = Pattern::Zipf { theta: -0.1 });
        refused(|s| s.pattern = Pattern::Zipf { theta: f64::NAN });
        refused(|s| s.pattern = Pattern::HotCold { space: 0.0, ops: 0.5 });
    }

    /// Mean share of positions in use over the second half of many requests.
    fn share_in_use(trims_of: TrimPattern, trim_percent: u8) -> f64 {
        let mix = Mix { read_percent: 0, trim_percent };
        let mut workload =
            Synthetic::new(SyntheticSettings { mix, ..settings(Pattern::Uniform) }, 7).unwrap();
        if trims_of == TrimPattern::InUse {
            workload = workload.trimming_in_use(4096 * 1000).unwrap();
        }
        workload.next_phase();
        let mut used = vec![true; 1000];
        let (mut sum, mut looks) = (0, 0);
        for nth in 0..400_000 {
            match workload.next_op().unwrap() {
                Command::Write(Extent { offset, .. }, _) => used[(offset / 4096) as usize] = true,
                Command::Trim(Ranges::One(Extent { offset, .. })) => {
                    let place = &mut used[(offset / 4096) as usize];
                    assert!(
                        *place || trims_of == TrimPattern::All,
                        "a trim of a position not in use"
                    );
                    *place = false;
                }
                other => panic!("{other:?} is unexpected"),
            }
            if nth > 200_000 && nth % 500 == 0 {
                sum += used.iter().filter(|used| **used).count();
                looks += 1000;
            }
        }
        sum as f64 / f64::from(looks)
    }

    /// Oracle: 1 - q, and (1 - 2q) / (1 - q) of Frankie et al.
    #[test]
    fn share_in_use_matches_theory_for_both_trim_mixes() {
        for percent in [10, 30, 45] {
            let q = f64::from(percent) / 100.0;
            let (all, in_use) = (
                share_in_use(TrimPattern::All, percent),
                share_in_use(TrimPattern::InUse, percent),
            );
            assert!((all - (1.0 - q)).abs() < 0.006, "{percent}: {all}");
            assert!((in_use - (1.0 - 2.0 * q) / (1.0 - q)).abs() < 0.012, "{percent}: {in_use}");
        }
    }

    /// Oracle: equal shares, within five standard deviations of sampling without
    /// replacement.
    #[test]
    fn hot_addresses_are_scattered_for_any_bit_count() {
        for places in [1 << 14, 1 << 15, (1 << 15) + 1, 3 << 13, 1 << 17] {
            let spread = Spread::new(places, places);
            let (hot, slices) = (places / 5, 32);
            let mut found = [0_u64; 32];
            (0..hot).for_each(|rank| found[(spread.place(rank) * slices / places) as usize] += 1);
            let (n, p, share) = (hot as f64, 1.0 / slices as f64, hot as f64 / places as f64);
            let deviation = libm::sqrt(n * p * (1.0 - p) * (1.0 - share));
            assert!(
                found.iter().all(|found| (*found as f64 - n * p).abs() < 5.0 * deviation),
                "{places}: {found:?}, {deviation:.1}"
            );
            let together =
                (1..hot).filter(|rank| spread.place(*rank) == spread.place(rank - 1) + 1).count();
            assert!(together < 20, "neighbours are apart: {together}");
        }
    }

    proptest! {
        #[test]
        fn spread_is_a_permutation(places in 1_u64..3000, seed in any::<u64>()) {
            let spread = Spread::new(places, seed);
            let mut seen = vec![false; places as usize];
            for rank in 0..places {
                let place = spread.place(rank) as usize;
                prop_assert!(!seen[place]);
                seen[place] = true;
            }
        }

        #[test]
        fn operations_stay_inside_the_span(
            seed in any::<u64>(), offset in 0_u64..100, span in 16_u64..5000,
            kind in 0..6, read in 0_u8..50, trim in 0_u8..50, in_use in any::<bool>(), before in 0_u64..6000,
        ) {

            let pattern = match kind {
                0 => Pattern::Sequential,
                1 => Pattern::Uniform,
                2 => Pattern::HotCold { space: 0.2, ops: 0.8 },
                3 => Pattern::Zipf { theta: 1.2 },
                4 => Pattern::Shuffled,
                _ => Pattern::Pareto { share: 0.2 },
            };
            let settings = SyntheticSettings {
                pattern, mix: Mix { read_percent: read, trim_percent: trim },
                sizes: vec![(4096, 3), (16384, 1), (65536, 1)], data: DataClass::Zero,
                offset: offset * 4096, span: span * 4096, queue_depth: 4, limit: Limit::Stream,
            };
            let mut workload = Synthetic::new(settings, seed).unwrap();
            if in_use {
                let tracking = workload.clone().trimming_in_use(before * 4096);
                prop_assert_eq!(tracking.is_err(), 2 * trim + read >= 100);
                workload = tracking.unwrap_or(workload);
            }
            workload.next_phase();
            for _ in 0..200 {
                let Extent { offset: start, len } = workload.next_op().unwrap().extent().unwrap();
                prop_assert!(start >= offset * 4096 && start + len <= (offset + span) * 4096);
                prop_assert_eq!(start % 4096, 0);
            }
        }
    }
}
