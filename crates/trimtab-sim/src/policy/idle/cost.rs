//! Cost of trims: a fixed cost per command and a cost per byte, neither negative, fitted
//! by recursive least squares with forgetting, with the standard error of the fit.
//! Deviations are taken as proportional to the cost: the longer a trim takes, the more
//! the mapped share of its range and concurrent drive activity matter.
//!
//! The cost per free extent is not separate: a Linux discard command is one range.

use crate::policy::PolicyState;
use alloc::format;
use core::fmt;
use trimtab_drive::units::{Bytes, Nanos};

/// Number of observations remembered, with fading weight: enough for two parameters and
/// their error, few enough to follow a drive that fills up.
pub(super) const MEMORY: f64 = 32.0;
/// Standard errors between expectation and upper bound, which one in forty exceeds.
const SIGMAS: f64 = 2.0;
/// Prior for the relative deviation; it counts as one observation.
const SPREAD: f64 = 0.1;
/// Deviations beyond this factor have another cause unless they recur.
pub(super) const GROSS: f64 = 2.0;

/// Learned cost of trims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimCost {
    /// Fixed cost of a command.
    pub command: Nanos,
    /// Cost per MiB.
    pub mib: Nanos,
    /// Standard error of the next command's cost, at the typical size.
    pub error: Nanos,
    /// Shortest and longest measured command, of any size.
    pub measured: (Nanos, Nanos),
    /// Mean duration of all measured commands.
    pub mean: Nanos,
}

impl fmt::Display for TrimCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.error > self.command {
            // Neither cost is known; a bound computed from the error may exceed every
            // measured command.
            return match self.measured {
                (shortest, longest) if shortest < longest => write!(
                    f,
                    "{} per command on average, {shortest} to {longest} (measured, all sizes)",
                    self.mean
                ),
                (_, longest) => write!(f, "{longest} per command (measured)"),
            };
        }
        write!(f, "{} ± {} per command", self.command, self.error)?;
        match self.mib {
            Nanos::ZERO => write!(f, ", whatever its size"),
            mib => write!(f, " and {mib} per MiB"),
        }
    }
}

/// One observation: bytes and nanoseconds.
type CostSample = (f64, f64);

/// The fit: weighted means, and sums of squares around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CostFit {
    /// Number of observations, faded.
    count: f64,
    /// Sum of weights, each the inverse square of the expected cost.
    weight: f64,
    bytes: f64,
    nanos: f64,
    bytes_bytes: f64,
    bytes_nanos: f64,
    nanos_nanos: f64,
    /// Largest measured size in bytes.
    largest: f64,
    /// Size of the last one.
    last: f64,
    /// Shortest and longest observation in nanoseconds, outliers included; `None` before
    /// the first.
    measured: Option<(f64, f64)>,
    /// Number of measured commands, and their time in nanoseconds.
    all: (f64, f64),
    /// An excluded outlier far above the expectation, and the number of observations
    /// since.
    odd: Option<(CostSample, u32)>,
}

impl CostFit {
    /// Adds the mean of `commands`.
    pub(super) fn add_mean(&mut self, commands: f64, bytes: f64, nanos: f64) {
        self.all = (self.all.0 + commands, self.all.1 + commands * nanos);
        self.add(bytes, nanos);
    }

    /// Adds an observation.
    pub(super) fn add(&mut self, bytes: f64, nanos: f64) {
        self.last = bytes;
        let (shortest, longest) = self.measured.unwrap_or((nanos, nanos));
        self.measured = Some((shortest.min(nanos), longest.max(nanos)));
        let Some((lower, upper)) = self.plausible(bytes) else { return self.fit(bytes, nanos) };
        let since = self.odd.map(|(_, since)| since);
        if nanos > upper * GROSS {
            match self.odd.replace(((bytes, nanos), 0)).map(|(odd, _)| odd).zip(since) {
                // Two in a row are a new level: rises are adopted at once, falls as
                // memory fades.
                Some((odd, 0)) => self.begin_again(&[odd, (bytes, nanos)]),
                Some((odd, since)) if f64::from(since) < MEMORY => {
                    self.odd = None;
                    [odd, (bytes, nanos)]
                        .into_iter()
                        .for_each(|(bytes, nanos)| self.fit(bytes, nanos));
                }
                _ => {}
            }
            return;
        }
        if self.count <= 1.0 && nanos * GROSS < lower {
            // The first was the outlier.
            let first = (self.bytes, self.nanos);
            self.begin_again(&[(bytes, nanos)]);
            self.odd = Some((first, 0));
            return;
        }
        self.odd = self.odd.map(|(odd, since)| (odd, since.saturating_add(1)));
        self.fit(bytes, nanos);
    }

    fn begin_again(&mut self, samples: &[CostSample]) {
        let Self { last, measured, all, .. } = *self;
        *self = Self { last, measured, all, ..Self::default() };
        samples.iter().for_each(|(bytes, nanos)| self.fit(*bytes, *nanos));
    }

    fn fit(&mut self, bytes: f64, nanos: f64) {
        let keep = 1.0 - 1.0 / MEMORY;
        let expected = if self.known() { self.expected(bytes) } else { nanos }.max(1.0);
        let weight = 1.0 / (expected * expected);
        self.count = self.count * keep + 1.0;
        self.weight = self.weight * keep + weight;
        // Exactly 1 for the first.
        let share = weight / self.weight;
        let (off_bytes, off_nanos) = (bytes - self.bytes, nanos - self.nanos);
        self.bytes += off_bytes * share;
        self.nanos += off_nanos * share;
        self.bytes_bytes = self.bytes_bytes * keep + weight * off_bytes * (bytes - self.bytes);
        self.bytes_nanos = self.bytes_nanos * keep + weight * off_bytes * (nanos - self.nanos);
        self.nanos_nanos = self.nanos_nanos * keep + weight * off_nanos * (nanos - self.nanos);
        self.largest = self.largest.max(bytes);
    }

    pub(super) fn known(&self) -> bool {
        self.count > 0.0
    }

    /// Number of observations, faded.
    pub(super) const fn count(&self) -> f64 {
        self.count
    }

    /// Largest measured size in bytes.
    pub(super) const fn largest(&self) -> f64 {
        self.largest
    }

    /// Size for estimates: the mean, or the last if that was larger.
    pub(super) fn typical(&self) -> f64 {
        self.bytes.max(self.last)
    }

    /// Nanoseconds per command and per byte: least squares with neither negative.
    pub(super) fn line(&self) -> (f64, f64) {
        let slope =
            if self.varied() { (self.bytes_nanos / self.bytes_bytes).max(0.0) } else { 0.0 };
        let fixed = self.nanos - slope * self.bytes;
        if fixed >= 0.0 {
            return (fixed, slope);
        }
        // Through the origin.
        let (product, square) = (
            self.bytes_nanos + self.weight * self.bytes * self.nanos,
            self.bytes_bytes + self.weight * self.bytes * self.bytes,
        );
        (0.0, product / square)
    }

    pub(super) fn expected(&self, bytes: f64) -> f64 {
        let (fixed, slope) = self.line();
        fixed + slope * bytes
    }

    /// Range of plausible costs, from no byte cost to byte cost only.
    fn plausible(&self, bytes: f64) -> Option<(f64, f64)> {
        let in_proportion =
            if self.bytes > 0.0 { self.nanos * bytes / self.bytes } else { self.nanos };
        let expected = self.expected(bytes);
        self.known().then(|| {
            (
                expected.min(self.nanos).min(in_proportion),
                expected.max(self.nanos).max(in_proportion),
            )
        })
    }

    /// Information lost by fading: sum of squared weights over their sum, times `count`.
    fn fading(&self) -> f64 {
        (2.0 - self.count / MEMORY) / (2.0 - 1.0 / MEMORY)
    }

    /// Standard deviation of one observation from the line, relative to its cost.
    fn deviation(&self) -> f64 {
        let (fixed, slope) = self.line();
        let off = self.nanos - fixed - slope * self.bytes;
        let squares = self.nanos_nanos - 2.0 * slope * self.bytes_nanos
            + slope * slope * self.bytes_bytes
            + self.weight * off * off;
        let freedom = (self.count - 2.0 * self.fading()).max(0.0);
        libm::sqrt((squares.max(0.0) + SPREAD * SPREAD) / (freedom + 1.0))
    }

    /// Standard error of a prediction for `bytes` in nanoseconds.
    pub(super) fn error(&self, bytes: f64) -> f64 {
        self.error_around(bytes, self.expected(bytes), self.deviation())
    }

    fn error_around(&self, bytes: f64, expected: f64, deviation: f64) -> f64 {
        let off = bytes - self.bytes;
        let leverage = if self.varied() { off * off / self.bytes_bytes } else { 0.0 };
        let unknown =
            if self.known() { self.fading() * (1.0 / self.weight + leverage) } else { 0.0 };
        deviation * libm::sqrt(expected * expected + unknown)
    }

    /// True if more than one size was measured.
    pub(super) fn varied(&self) -> bool {
        self.bytes_bytes > 0.0
    }

    /// Upper bound for `bytes`: [`SIGMAS`] standard errors above the expectation, limited
    /// by both costs being non-negative. With a single known size, that limit is the
    /// whole bound.
    pub(super) fn upper(&self, bytes: f64) -> f64 {
        self.uppers()(bytes)
    }

    /// The same as a function; the part that does not depend on the size is computed
    /// once.
    fn uppers(&self) -> impl Fn(f64) -> f64 {
        let ((fixed, slope), deviation) = (self.line(), self.deviation());
        let level = self.nanos + SIGMAS * self.error(self.bytes);
        move |bytes| {
            let bound = if bytes > self.bytes && self.bytes > 0.0 {
                level * bytes / self.bytes
            } else {
                level
            };
            if !self.varied() {
                return bound;
            }
            let expected = fixed + slope * bytes;
            (expected + SIGMAS * self.error_around(bytes, expected, deviation)).min(bound)
        }
    }

    /// Largest size in `least..=most` whose upper bound fits `limit_ns`; `least` if none
    /// does.
    pub(super) fn largest_within(&self, limit_ns: f64, least: u64, most: u64) -> u64 {
        let (upper, mut fits, mut above) = (self.uppers(), least, most.saturating_add(1));
        while above - fits > 1 {
            let middle = fits + (above - fits) / 2;
            if upper(middle as f64) <= limit_ns { fits = middle } else { above = middle }
        }
        fits
    }

    /// Size expected to take `nanos`; infinite if bytes are free, proportional if not
    /// varied.
    pub(super) fn expected_within(&self, nanos: f64) -> f64 {
        let (fixed, slope) =
            if self.varied() { self.line() } else { (0.0, self.nanos / self.bytes) };
        if slope > 0.0 { (nanos - fixed) / slope } else { f64::INFINITY }
    }

    /// For display; `None` before the first measurement.
    pub(super) fn shown(&self) -> Option<TrimCost> {
        let (fixed, slope) = self.line();
        let nanos = |nanos: f64| Nanos(libm::round(nanos) as u64);
        let mib = Bytes(1 << 20).as_f64();
        let (shortest, longest) = self.measured.unwrap_or((self.nanos, self.nanos));
        self.known().then(|| TrimCost {
            measured: (nanos(shortest), nanos(longest)),
            mean: nanos(if self.all.0 > 0.0 { self.all.1 / self.all.0 } else { self.nanos }),
            command: nanos(fixed),
            mib: nanos(slope * mib),
            error: nanos(self.error(self.typical())),
        })
    }

    /// Saved bit by bit, so that a restart changes no decision.
    pub(super) fn save(&self, what: &str, state: &mut PolicyState) {
        if self.known() {
            self.clone().numbers().into_iter().for_each(|(name, number)| {
                state.set(&format!("idle.{what}.{name}"), number.to_bits())
            });
        }
        if let Some((shortest, longest)) = self.measured.filter(|_| self.known()) {
            state.set(&format!("idle.{what}.shortest"), shortest.to_bits());
            state.set(&format!("idle.{what}.longest"), longest.to_bits());
            state.set(&format!("idle.{what}.all"), self.all.0.to_bits());
            state.set(&format!("idle.{what}.all-nanos"), self.all.1.to_bits());
        }
    }

    /// Restores saved numbers, or the default if they are invalid.
    pub(super) fn restore(what: &str, state: &PolicyState) -> Self {
        let mut fit = Self::default();
        let complete = fit.numbers().into_iter().all(|(name, number)| {
            let kept = state.get(&format!("idle.{what}.{name}")).map(f64::from_bits);
            kept.inspect(|kept| *number = *kept).is_some()
        });
        let kept = |name| state.get(&format!("idle.{what}.{name}")).map(f64::from_bits);
        // Earlier versions did not save these.
        let all = kept("all").zip(kept("all-nanos"));
        fit.all = all
            .filter(|(count, nanos)| [count, nanos].iter().all(|n| (0.0..1e40).contains(*n)))
            .unwrap_or_default();
        fit.measured = kept("shortest").zip(kept("longest")).filter(|(shortest, longest)| {
            0.0 <= *shortest && shortest <= longest && *longest < 1e40
        });
        if complete && fit.is_sound() { fit } else { Self::default() }
    }

    fn numbers(&mut self) -> [(&'static str, &mut f64); 9] {
        [
            ("count", &mut self.count),
            ("weight", &mut self.weight),
            ("bytes", &mut self.bytes),
            ("nanos", &mut self.nanos),
            ("bytes-bytes", &mut self.bytes_bytes),
            ("bytes-nanos", &mut self.bytes_nanos),
            ("nanos-nanos", &mut self.nanos_nanos),
            ("largest", &mut self.largest),
            ("last", &mut self.last),
        ]
    }

    /// A stored file may contain anything.
    fn is_sound(&self) -> bool {
        let positive = [
            self.weight,
            self.bytes,
            self.nanos,
            self.bytes_bytes,
            self.nanos_nanos,
            self.largest,
            self.last,
        ];
        let within = |number: &f64| (0.0..1e40).contains(number);
        positive.iter().all(within)
            && within(&self.bytes_nanos.abs())
            && self.weight > 0.0
            && (1.0..=MEMORY).contains(&self.count)
    }
}

#[cfg(test)]
mod tests;
