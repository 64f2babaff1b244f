//! Durations and sizes with units, including formatting and parsing.
//!
//! `MB` is 10^6 bytes and `MiB` is 2^20 bytes, everywhere.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::str::FromStr;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize,
            serde::Deserialize
        )]
        #[serde(transparent)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Zero.
            pub const ZERO: Self = Self(0);
            /// The largest value; used for "never" and "no limit".
            pub const MAX: Self = Self(u64::MAX);

            /// Difference, limited to zero.
            #[must_use]
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// Sum, limited to [`Self::MAX`].
            #[must_use]
            pub const fn saturating_add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }

            /// Sum, or `None` on overflow.
            #[must_use]
            pub const fn checked_add(self, other: Self) -> Option<Self> {
                match self.0.checked_add(other.0) {
                    Some(v) => Some(Self(v)),
                    None => None,
                }
            }

            /// Converts to a float, for rates and ratios.
            #[must_use]
            pub const fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.checked_add(other.0).expect(concat!(stringify!($name), " sum exceeds 64 bits")))
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.checked_sub(other.0).expect(concat!(stringify!($name), " difference below zero")))
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                *self = *self - other;
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

quantity! {
    /// A duration, or a time since the start of a target's clock, in nanoseconds.
    Nanos
}
quantity! {
    /// A size, or an offset, in bytes.
    Bytes
}

impl Nanos {
    /// From microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }
    /// From milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }
    /// From whole seconds.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }
    /// In seconds.
    #[must_use]
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Nanos {
    /// Formats three significant digits with a suitable unit, or two units: `850 ns`,
    /// `12.3 µs`, `5.00 ms`, `1.21 s`, `6 min`, `6 min 17 s`, `2 h 5 min`, `10.4 days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0;
        let text = match ns {
            // Zero gets no sub-second unit.
            0 => "0 s".to_string(),
            1..=999 => format!("{ns} ns"),
            // Values that round to 1000 take the next unit.
            1_000..=999_499 => format!("{} µs", three_digits(ns as f64 / 1e3)),
            999_500..=999_499_999 => format!("{} ms", three_digits(ns as f64 / 1e6)),
            999_500_000..=119_999_999_999 => format!("{} s", three_digits(ns as f64 / 1e9)),
            120_000_000_000..=7_199_999_999_999 => {
                let s = ns / 1_000_000_000;
                two(s / 60, "min", s % 60, "s")
            }
            7_200_000_000_000..=172_799_999_999_999 => {
                let m = ns / 60_000_000_000;
                two(m / 60, "h", m % 60, "min")
            }
            _ => format!("{} days", three_digits(ns as f64 / 86_400e9)),
        };
        f.pad(&text)
    }
}

/// Formats `6 min 17 s`, or only the larger unit if the smaller is zero.
fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    if small == 0 {
        format!("{large} {large_unit}")
    } else {
        format!("{large} {large_unit} {small} {small_unit}")
    }
}

impl fmt::Display for Bytes {
    /// Formats in decimal units with three digits: `512 B`, `4.10 kB`, `493 MB`, `1.80
    /// TB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let text = match self.0 {
            0..=999 => format!("{} B", self.0),
            // Values that round to 1000 take the next unit.
            1_000..=999_499 => format!("{} kB", three_digits(b / 1e3)),
            999_500..=999_499_999 => format!("{} MB", three_digits(b / 1e6)),
            999_500_000..=999_499_999_999 => format!("{} GB", three_digits(b / 1e9)),
            _ => format!("{} TB", three_digits(b / 1e12)),
        };
        f.pad(&text)
    }
}

/// Formats a whole number with thousands separators: 36,706.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats three significant digits (`1.21`, `12.3`, `123`, `1,230`, `27,900`), or two
/// below one (`0.98`, `0.016`, `0.0040`, `3.2e-4`).
#[must_use]
pub fn three_digits(value: f64) -> String {
    let magnitude = if value < 0.0 { -value } else { value };
    if (999.5..1e18).contains(&magnitude) {
        let mut step = 10_u64;
        while magnitude / step as f64 >= 999.5 {
            step *= 10;
        }
        // Round half up.
        let rounded = (magnitude / step as f64 + 0.5) as u64 * step;
        return format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(rounded));
    }
    if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.0995 || magnitude == 0.0 {
        format!("{value:.2}")
    } else if magnitude >= 0.00995 {
        format!("{value:.3}")
    } else if magnitude >= 0.000_995 {
        format!("{value:.4}")
    } else {
        format!("{value:.1e}")
    }
}

/// Formats in the largest unit that gives a whole number, for parsing: `5ms`, `90s`,
/// `7d`.
#[must_use]
pub fn exact(duration: Nanos) -> String {
    const UNITS: [(&str, u64); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let fits = |(_, ns): &&(&str, u64)| duration.0 != 0 && duration.0.is_multiple_of(*ns);
    let (unit, ns) = UNITS.iter().find(fits).unwrap_or(&("s", 1_000_000_000));
    format!("{}{unit}", duration.0 / ns)
}

/// Parse error of a size or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not {expected}")]
pub struct ParseQuantityError {
    /// Input text.
    pub text: String,
    /// Expected format, with an example.
    pub expected: &'static str,
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Parses `4096`, `4KiB`, `1.8TB`, `500 MB`. `k` to `E` are decimal, `Ki` to `Ei`
    /// binary.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let factor = |unit: &str| {
            let prefix = unit.strip_suffix('b').unwrap_or(unit);
            let (letter, base) =
                prefix.strip_suffix('i').map_or((prefix, 1000_u64), |letter| (letter, 1024));
            let power =
                ["", "k", "m", "g", "t", "p", "e"].iter().position(|known| *known == letter)?;
            // A fraction of a byte lacks its unit.
            let whole = power > 0 || prefix.is_empty() && !text.contains('.');
            whole.then(|| base.pow(power as u32))
        };
        scaled(text, factor).map(Self).map_err(|too_large| ParseQuantityError {
            text: text.to_string(),
            expected: if too_large {
                "a size below 18.4 EB"
            } else {
                "a size such as 4096, 4KiB, 500MB or 1.8TB"
            },
        })
    }
}

impl FromStr for Nanos {
    type Err = ParseQuantityError;

    /// Parses `250us`, `5ms`, `1.5s`, `30min`, `2h`, `7d`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const UNITS: &[(&str, u64)] = &[
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("sec", 1_000_000_000),
            ("min", 60_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
        ];
        scaled(text, |unit| UNITS.iter().find(|(name, _)| *name == unit).map(|(_, ns)| *ns))
            .map(Self)
            .map_err(|too_large| ParseQuantityError {
                text: text.to_string(),
                expected: if too_large {
                    "a duration below 584 years"
                } else {
                    "a duration such as 5ms, 1.5s, 30min, 2h or 7d"
                },
            })
    }
}

/// Parses a non-negative decimal number with a unit of `factor` base units into base
/// units. The error is true if the value exceeds 64 bits.
fn scaled(text: &str, factor: impl Fn(&str) -> Option<u64>) -> Result<u64, bool> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = unit.trim().to_lowercase();
    let factor = factor(&unit).ok_or(false)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(false);
    }
    // Only digits remain, so a parse error means overflow.
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| true)? };
    let mut value = u128::from(whole) * u128::from(factor);
    let mut scale = 1_u128;
    for digit in fraction.chars() {
        scale = scale.checked_mul(10).ok_or(false)?;
        let digit = digit.to_digit(10).ok_or(false)?;
        value = value.checked_add(u128::from(digit) * u128::from(factor) / scale).ok_or(true)?;
    }
    u64::try_from(value).map_err(|_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_parse_with_unit() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4KiB", 4096),
            ("4 kB", 4000),
            ("1.8TB", 1_800_000_000_000),
            ("0.5GiB", 1 << 29),
            (".5k", 500),
            ("2G", 2_000_000_000),
            ("1EB", 1_000_000_000_000_000_000),
            ("1EiB", 1 << 60),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1.2.3", "4QB", "99999999999TB", "19EB", "1e9", ".", "1.8"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn nanos_parse_and_format() {
        assert_eq!("5ms".parse(), Ok(Nanos::from_millis(5)));
        assert_eq!("1.5h".parse(), Ok(Nanos::from_secs(5400)));
        assert!("5".parse::<Nanos>().is_err(), "a duration without a unit is ambiguous");
        let shown: alloc::vec::Vec<String> = [
            850,
            12_340,
            5_000_000,
            1_210_000_000,
            360_000_000_000,
            377_000_000_000,
            7_500_000_000_000,
            900_000_000_000_000,
        ]
        .map(|ns| Nanos(ns).to_string())
        .into();
        assert_eq!(Nanos::ZERO.to_string(), "0 s");
        assert_eq!(
            shown,
            [
                "850 ns",
                "12.3 µs",
                "5.00 ms",
                "1.21 s",
                "6 min",
                "6 min 17 s",
                "2 h 5 min",
                "10.4 days"
            ]
        );
    }

    #[test]
    fn bytes_format_in_decimal_units() {
        assert_eq!(Bytes(493_000_000).to_string(), "493 MB");
        assert_eq!(Bytes(1_800_000_000_000).to_string(), "1.80 TB");
        assert_eq!(Bytes(999).to_string(), "999 B");
        for (below, at, [shown, next]) in [
            (999_499, 999_500, ["999 kB", "1.00 MB"]),
            (999_499_999, 999_500_000, ["999 MB", "1.00 GB"]),
            (999_499_999_999, 999_500_000_000, ["999 GB", "1.00 TB"]),
        ] {
            assert_eq!([below, at].map(|bytes| Bytes(bytes).to_string()), [shown, next]);
        }
        assert_eq!([999_499, 999_500].map(|ns| Nanos(ns).to_string()), ["999 µs", "1.00 ms"]);
    }

    #[test]
    fn three_digits_of_small_values_keep_precision() {
        assert_eq!(
            [
                99.94, 99.96, 999.4, 999.6, 1_234.0, 1_235.0, 27_891.3, -36_706.0, 555_417.0,
                999_600.0, 1e9
            ]
            .map(three_digits),
            [
                "99.9",
                "100",
                "999",
                "1,000",
                "1,230",
                "1,240",
                "27,900",
                "-36,700",
                "555,000",
                "1,000,000",
                "1,000,000,000"
            ]
        );
        assert_eq!(
            [0, 999, 1_000, 36_706, u64::MAX].map(grouped),
            ["0", "999", "1,000", "36,706", "18,446,744,073,709,551,615"]
        );
        assert_eq!(
            [0.0, 0.000_316, 0.004, 0.0161, 0.0996, 0.98, 1.0, 12.34, -0.004].map(three_digits),
            ["0.00", "3.2e-4", "0.0040", "0.016", "0.10", "0.98", "1.00", "12.3", "-0.0040"]
        );
        // Parsed back, values are within 5 % over twenty orders of magnitude.
        let mut value = 1e-12;
        while value < 1e8 {
            let read: f64 = three_digits(value).replace(',', "").parse().unwrap();
            assert!((read / value - 1.0).abs() <= 0.051, "{value} formatted as {read}");
            value *= 1.0137;
        }
    }

    #[test]
    #[should_panic(expected = "below zero")]
    fn nanos_subtraction_is_checked() {
        let _ = Bytes(1) - Bytes(2);
    }
}
