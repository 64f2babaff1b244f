//! What written data looks like: to a compressing controller it decides how much flash a write costs.

pub mod content;

use crate::rng::Stream;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

/// The class of the data in a write.
///
/// Modelled drives take the class and never see bytes; real targets generate bytes of that class,
/// fresh for every write, because one repeated random block compresses and deduplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataClass {
    /// All bytes 0x00.
    Zero,
    /// Incompressible: fresh pseudo-random bytes.
    Random,
    /// Random bytes of which this many per cent (0 to 100) can be compressed away.
    Compressible(u8),
    /// Printable random text, as PostMark writes it.
    Text,
    /// Live data, found to keep this many per mille (0 to 1000) of its size when compressed.
    Measured(u16),
}

impl DataClass {
    /// The share of its size, in per mille, that an ideal compressor of small blocks cannot remove.
    ///
    /// Text drawn uniformly from 95 characters carries log2(95)/8 = 82.1 % of its size in entropy.
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

    /// Fills `buffer` with fresh bytes of this class. One draw from `rng` decides all of them.
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
                .ok_or_else(|| format!("measured data keep a share such as 'measured 420/1000', not '{text}'")),
            _ => text
                .trim_end_matches("compressible")
                .trim()
                .strip_suffix('%')
                .and_then(|percent| percent.parse().ok())
                .filter(|percent| *percent <= 100)
                .map(Self::Compressible)
                .ok_or_else(|| {
                    let mut message = "data is zero, random, text or a share that compresses such as 40%, not ".to_string();
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
    fn fill_random_is_fresh_and_compressible_has_its_zeros() {
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
    fn classes_survive_being_written_and_read() {
        for class in [DataClass::Zero, DataClass::Random, DataClass::Text, DataClass::Compressible(40), DataClass::Measured(421)] {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("101%".parse::<DataClass>().is_err());
        assert!("measured 1001/1000".parse::<DataClass>().is_err());
    }
}
