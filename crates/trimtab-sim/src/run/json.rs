//! JSON forms that serde's derives cannot express.
//!
//! Invariants are checked inside the parser, so that error messages include line and
//! column.

use super::{Field, Latency, LatencyPart};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trimtab_drive::OpKind;
use trimtab_drive::histogram::Histogram;
use trimtab_drive::units::Nanos;

/// A type that is validated after parsing.
pub trait Check {
    /// Validates the value.
    ///
    /// # Errors
    /// The fault, for a message.
    fn check(&self) -> Result<(), String>;
}

/// Adds validation on parsing to types that derive serde's traits with `remote = "Self"`.
macro_rules! checked {
    ($($type:ty),+) => {$(
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = Self::deserialize(deserializer)?;
                value.check().map_err(serde::de::Error::custom)?;
                Ok(value)
            }
        }
    )+};
}
pub(crate) use checked;

/// Any float: JSON has no infinities or NaN, so these are `"inf"`, `"-inf"` and `null`.
#[derive(Clone, Copy, Debug)]
pub struct Float(pub f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // Adding 0.0 removes negative zero: equal runs must have one text.
            v if v.is_finite() => serializer.serialize_f64(v + 0.0),
            v if v.is_nan() => serializer.serialize_none(),
            v => serializer.serialize_str(if v > 0.0 { "inf" } else { "-inf" }),
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FloatVisitor;
        impl Visitor<'_> for FloatVisitor {
            type Value = Float;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, null, \"inf\" or \"-inf\"")
            }
            fn visit_f64<E>(self, v: f64) -> Result<Float, E> {
                Ok(Float(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Float, E> {
                Ok(Float(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Float, E> {
                Ok(Float(v as f64))
            }
            fn visit_unit<E>(self) -> Result<Float, E> {
                Ok(Float(f64::NAN))
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Float, E> {
                match v {
                    "inf" => Ok(Float(f64::INFINITY)),
                    "-inf" => Ok(Float(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(Unexpected::Str(v), &self)),
                }
            }
        }
        deserializer.deserialize_any(FloatVisitor)
    }
}

/// Lists of any floats.
pub mod floats {
    use super::{Deserialize, Deserializer, Float, Serializer, Vec};

    pub(in crate::run) fn serialize<S: Serializer>(
        values: &[f64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().copied().map(Float))
    }

    pub(in crate::run) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<Float>::deserialize(deserializer)?.into_iter().map(|value| value.0).collect())
    }
}

/// A key and its value.
pub trait MapEntry {
    /// The key.
    type Key;
    /// The value.
    type Value;
    /// Key and value.
    fn parts(&self) -> (&Self::Key, &Self::Value);
    /// Creates an entry.
    fn of(parts: (Self::Key, Self::Value)) -> Self;
}

impl MapEntry for Field {
    type Key = String;
    type Value = String;
    fn parts(&self) -> (&String, &String) {
        (&self.key, &self.value)
    }
    fn of((key, value): (String, String)) -> Self {
        Self { key, value }
    }
}

impl<K, V> MapEntry for (K, V) {
    type Key = K;
    type Value = V;
    fn parts(&self) -> (&K, &V) {
        (&self.0, &self.1)
    }
    fn of(parts: Self) -> Self {
        parts
    }
}

/// Lists as JSON objects that keep order and duplicate keys.
pub mod entries {
    use super::{Deserialize, Deserializer, MapEntry, Serialize, Serializer, Vec, Visitor, fmt};
    use core::marker::PhantomData;
    use serde::de::MapAccess;

    /// Serializes the object.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<E, S>(entries: &[E], serializer: S) -> Result<S::Ok, S::Error>
    where
        E: MapEntry<Key: Serialize, Value: Serialize>,
        S: Serializer,
    {
        serializer.collect_map(entries.iter().map(E::parts))
    }

    /// Deserializes the object.
    ///
    /// # Errors
    /// Errors of the deserializer.
    pub fn deserialize<'de, E, D>(deserializer: D) -> Result<Vec<E>, D::Error>
    where
        E: MapEntry<Key: Deserialize<'de>, Value: Deserialize<'de>>,
        D: Deserializer<'de>,
    {
        struct EntriesVisitor<E>(PhantomData<E>);
        impl<'de, E: MapEntry<Key: Deserialize<'de>, Value: Deserialize<'de>>> Visitor<'de>
            for EntriesVisitor<E>
        {
            type Value = Vec<E>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<E>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(E::of(entry));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

/// Discards of a phase as one object. Bytes of refusals are not stored.
pub(super) mod discards {
    use super::{Deserialize, Deserializer, Serialize, Serializer, Vec};
    use trimtab_drive::discards::{Amount, Discards};
    use trimtab_drive::units::Bytes;

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Figures {
        asked_commands: u64,
        asked_bytes: u64,
        accepted_commands: Option<u64>,
        accepted_bytes: Option<u64>,
        refused_commands: u64,
        refused_errnos: Vec<i32>,
        effective_bytes: Option<Bytes>,
        freed_bytes: Option<Bytes>,
    }

    pub fn serialize<S: Serializer>(
        discards: &Option<Discards>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let figures = |discards: &Discards| Figures {
            asked_commands: discards.asked.count,
            asked_bytes: discards.asked.bytes.0,
            accepted_commands: discards.accepted.map(|a| a.count),
            accepted_bytes: discards.accepted.map(|a| a.bytes.0),
            refused_commands: discards.refused.count,
            refused_errnos: discards.errnos.clone(),
            effective_bytes: discards.effective,
            freed_bytes: discards.freed,
        };
        discards.as_ref().map(figures).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Discards>, D::Error> {
        let discards = |figures: Figures| Discards {
            asked: Amount::new(figures.asked_commands, figures.asked_bytes),
            accepted: figures
                .accepted_commands
                .zip(figures.accepted_bytes)
                .map(|(count, bytes)| Amount::new(count, bytes)),
            refused: Amount::new(figures.refused_commands, 0),
            errnos: figures.refused_errnos,
            effective: figures.effective_bytes,
            freed: figures.freed_bytes,
        };
        Ok(Option::<Figures>::deserialize(deserializer)?.map(discards))
    }
}

/// Latencies as summary figures and histogram buckets. Only the count is checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LatencyFigures {
    kind: OpKind,
    part: LatencyPart,
    count: Option<u64>,
    min_ns: Option<u64>,
    mean_ns: Option<Float>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p99_9_ns: Option<u64>,
    p99_99_ns: Option<u64>,
    max_ns: Option<u64>,
    buckets: Vec<(Nanos, u64)>,
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let histogram = &self.histogram;
        let p = |percent| Some(histogram.percentile(percent).0);
        LatencyFigures {
            kind: self.kind,
            part: self.part,
            count: Some(histogram.count()),
            min_ns: Some(histogram.min().0),
            mean_ns: Some(Float(histogram.mean_ns())),
            p50_ns: p(50.0),
            p90_ns: p(90.0),
            p99_ns: p(99.0),
            p99_9_ns: p(99.9),
            p99_99_ns: p(99.99),
            max_ns: Some(histogram.max().0),
            buckets: histogram.buckets().collect(),
        }
        .serialize(serializer)
    }
}

impl TryFrom<LatencyFigures> for Latency {
    type Error = String;

    fn try_from(figures: LatencyFigures) -> Result<Self, String> {
        let histogram =
            Histogram::from_buckets(figures.buckets).map_err(|error| error.to_string())?;
        match figures.count {
            Some(count) if count != histogram.count() => {
                Err(format!("count is {count}, but the buckets hold {}", histogram.count()))
            }
            _ => Ok(Self { kind: figures.kind, part: figures.part, histogram }),
        }
    }
}
