//! Identifiers and references of stored runs.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::varint;
use trimtab_sim::run::Run;

/// The id of a run: 16 hexadecimal digits derived from its content. Saving or importing
/// the same run again therefore gives the same entry, and an altered export is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(u64);

impl RunId {
    /// Number of digits shown in lists.
    pub const SHORT: usize = 8;

    /// The id of `run`: 64-bit FNV-1a with a final mix, over version 1 of the JSON
    /// without the values derived from its histograms.
    pub fn of(run: &Run) -> Self {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        let mut bare = run.clone();
        for latency in bare.phases.iter_mut().flat_map(|phase| std::mem::take(&mut phase.latencies))
        {
            hash.add(latency.kind.name().as_bytes());
            hash.add(latency.part.name().as_bytes());
            hash.add(&buckets(&latency.histogram));
        }
        let json = serde_json::to_vec(&bare).expect("a run holds only what JSON can say");
        hash.add(&json);
        Self(hash.finish())
    }

    /// The same hash of a text.
    pub fn of_text(text: &str) -> Self {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        hash.add(text.as_bytes());
        Self(hash.finish())
    }

    /// The leading digits, as shown in lists.
    pub fn short(self) -> String {
        let mut digits = self.to_string();
        digits.truncate(Self::SHORT);
        digits
    }
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Mixes entropy down from the high bits, which FNV leaves weak (the finaliser of
    /// SplitMix64).
    const fn finish(self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:016x}", self.0))
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.len() == 16
            && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        match u64::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(Self(id)),
            _ => Err(format!("'{}' is not an id of 16 hexadecimal digits", text.escape_debug())),
        }
    }
}

/// A user's reference to a stored run or study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The leading digits of its id, in lower case.
    Prefix(String),
    /// `last` (0), `last~1` …
    Last(u32),
    /// `study:` and the leading digits of a study's id.
    Study(String),
    /// `study:last` (0), `study:last~1` …
    LastStudy(u32),
    /// A text that can name no run. This is not a syntax error: the run simply does not
    /// exist.
    Other(String),
}

impl FromStr for Reference {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::of(text))
    }
}

impl Reference {
    fn of(text: &str) -> Self {
        if let Some(study) = text.strip_prefix("study:") {
            return match Self::of(study) {
                Self::Prefix(prefix) => Self::Study(prefix),
                Self::Last(back) => Self::LastStudy(back),
                Self::Study(_) | Self::LastStudy(_) | Self::Other(_) => {
                    Self::Other(text.to_owned())
                }
            };
        }
        let back = match text.strip_prefix("last") {
            Some("") => Some(0),
            Some(rest) => rest.strip_prefix('~').and_then(|n| n.parse().ok()),
            None => None,
        };
        if let Some(back) = back {
            return Self::Last(back);
        }
        let digits = (1..=16).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
        if digits { Self::Prefix(text.to_ascii_lowercase()) } else { Self::Other(text.to_owned()) }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => f.write_str(prefix),
            Self::Last(0) => f.write_str("last"),
            Self::Last(n) => write!(f, "last~{n}"),
            Self::Study(prefix) => write!(f, "study:{prefix}"),
            Self::LastStudy(0) => f.write_str("study:last"),
            Self::LastStudy(n) => write!(f, "study:last~{n}"),
            Self::Other(text) => write!(f, "{}", text.escape_debug()),
        }
    }
}

/// The buckets of a histogram: for each, the difference from the previous value, and the
/// count, as LEB128.
fn buckets(histogram: &Histogram) -> Vec<u8> {
    let (mut bytes, mut before) = (Vec::new(), 0);
    for (value, count) in histogram.buckets() {
        varint::push(&mut bytes, value.0 - before);
        varint::push(&mut bytes, count);
        before = value.0;
    }
    bytes
}
