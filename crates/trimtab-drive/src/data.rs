//! Data classes: compressibility decides how much flash a write costs on some
//! controllers.

pub mod content;

use crate::rng::Stream;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// Class of the data in a write.
///
/// Modelled drives use only the class and never see bytes. Real targets generate fresh
/// bytes of the class for every write, because a repeated random block compresses and
/// deduplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataClass {
    /// All bytes 0x00.
    #[default]
    Zero,
    /// Incompressible: fresh pseudo-random bytes.
    Random,
    /// Random bytes of which this percentage (0 to 100) can be compressed away.
    Compressible(u8),
    /// Printable random text, as written by PostMark.
    Text,
    /// Live data whose compressed size was measured, in per mille (0 to 1000) of the
    /// original.
    Measured(u16),
}

impl DataClass {
    /// Share of its size that an ideal block compressor cannot remove, in per mille.
    ///
    /// Text drawn uniformly from 95 characters has an entropy of log2(95)/8 = 82.1 % of
    /// its size.
    #[must_use]
    pub const fn incompressible_permille(self) -> u16 {
        match self {
            Self::Zero => 0,
            Self::Random => 1000,
            Self::Compressible(percent) => {
                let percent = if percent > 100 { 100 } else { percent };
                (100 - percent as u16) * 10
            }
            Self::Text => 821,
            Self::Measured(permille) => {
                if permille > 1000 {
                    1000
                } else {
                    permille
                }
            }
        }
    }

    /// Fills `buffer` with fresh bytes of this class, using one draw from `rng`.
    pub fn fill(self, rng: &mut Stream, buffer: &mut [u8]) {
        content::fill_keyed(self, rng.next_u64(), buffer);
    }
}

impl fmt::Display for DataClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.pad("zero"),
            Self::Random => f.pad("random"),
            Self::Compressible(percent) => f.pad(&format!("{percent}% compressible")),
            Self::Text => f.pad("text"),
            Self::Measured(permille) => f.pad(&format!("measured {permille}/1000")),
        }
    }
}

impl FromStr for DataClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "zero" => Ok(Self::Zero),
            "random" => Ok(Self::Random),
            "text" => Ok(Self::Text),
            _ if text.starts_with("measured ") => text
                .strip_prefix("measured ")
                .and_then(|share| share.strip_suffix("/1000"))
                .and_then(|permille| permille.parse().ok())
                .filter(|permille| *permille <= 1000)
                .map(Self::Measured)
                .ok_or_else(|| {
                    format!("measured data need a share such as 'measured 420/1000', not '{text}'")
                }),
            _ => text
                .trim_end_matches("compressible")
                .trim()
                .strip_suffix('%')
                .and_then(|percent| percent.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Compressible)
                .ok_or_else(|| {
                    let mut message =
                        "data must be zero, random, text or a compressible share such as 40%, not "
                            .to_string();
                    message.push_str(text);
                    message
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn fill_random_is_fresh_and_compressible_has_zeros() {
        let mut rng = Stream::new(1, "data");
        let (mut a, mut b) = (vec![0; 4099], vec![0; 4099]);
        DataClass::Random.fill(&mut rng, &mut a);
        DataClass::Random.fill(&mut rng, &mut b);
        assert_ne!(a, b);
        DataClass::Compressible(75).fill(&mut rng, &mut a[..4096]);
        let zeros = a[..4096].iter().filter(|b| **b == 0).count();
        assert!((3072..3200).contains(&zeros), "{zeros}");
    }

    #[test]
    fn data_class_round_trips_through_text() {
        for class in [
            DataClass::Zero,
            DataClass::Random,
            DataClass::Text,
            DataClass::Compressible(40),
            DataClass::Measured(421),
        ] {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("101%".parse::<DataClass>().is_err());
        assert!("measured 1001/1000".parse::<DataClass>().is_err());
    }
}
