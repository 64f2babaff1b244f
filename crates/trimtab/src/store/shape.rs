//! The versioned shapes in which results leave the program and come back: JSON and CSV.
//!
//! `core::run` may change freely; these may not. A change that an older reader would misread gets a new version.

pub mod comparison;
pub mod csv;
pub mod import;
pub mod pictures;
pub mod run;

#[cfg(test)]
pub(crate) mod any_run;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// A float of any value: JSON knows no infinities and no NaN, so these are `"inf"`, `"-inf"` and `null`.
#[derive(Clone, Copy, Debug)]
pub struct Float(pub f64);

impl Serialize for Float {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            // Plus zero: SQLite has no negative zero, and one run must have one text.
            v if v.is_finite() => serializer.serialize_f64(v + 0.0),
            v if v.is_nan() => serializer.serialize_none(),
            v => serializer.serialize_str(if v > 0.0 { "inf" } else { "-inf" }),
        }
    }
}

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyFloat;
        impl Visitor<'_> for AnyFloat {
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
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Float, E> {
                match v {
                    "inf" => Ok(Float(f64::INFINITY)),
                    "-inf" => Ok(Float(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(v), &self)),
                }
            }
        }
        deserializer.deserialize_any(AnyFloat)
    }
}

/// A JSON object that keeps the order of its entries, and doubled keys.
#[derive(Clone, Debug)]
pub struct Entries<K, V>(pub Vec<(K, V)>);

impl<K, V> Entries<K, V> {
    /// There are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Serialize, V: Serialize> Serialize for Entries<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Deserialize<'de> for Entries<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyEntries<K, V>(PhantomData<(K, V)>);
        impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> Visitor<'de> for AnyEntries<K, V> {
            type Value = Entries<K, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(AnyEntries(PhantomData))
    }
}

/// What is looked at once it is read, inside the parser, which then says in which line and column it is wrong.
pub trait Check {
    /// What is wrong with it.
    fn check(&self) -> Result<(), String>;
}

/// A value that was looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Checked<T>(pub T);

impl<'de, T: Deserialize<'de> + Check> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        value.check().map_err(D::Error::custom)?;
        Ok(Self(value))
    }
}

/// A value that is written as its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<T>(pub T);

/// What has a fixed set of named values.
pub trait Named: Copy + 'static {
    /// What the set is called in messages.
    const WHAT: &'static str;
    /// Every value.
    fn all() -> &'static [Self];
    /// The name of a value.
    fn name(self) -> &'static str;

    /// The value of that name, or a message that lists the names.
    fn from_name(name: &str) -> Result<Self, String> {
        Self::all().iter().copied().find(|value| value.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().iter().map(|value| value.name()).collect();
            format!("unknown {} '{}', expected one of {}", Self::WHAT, name.escape_debug(), names.join(", "))
        })
    }
}

macro_rules! named {
    ($($type:ty: $what:literal),+ $(,)?) => {
        $(impl Named for $type {
            const WHAT: &'static str = $what;
            fn all() -> &'static [Self] {
                Self::ALL
            }
            fn name(self) -> &'static str {
                Self::name(self)
            }
        })+
    };
}

named! {
    trimtab_drive::OpKind: "kind of operation",
    trimtab_sim::run::Axis: "axis",
    trimtab_sim::run::Better: "direction",
    trimtab_sim::run::LatencyPart: "part of a latency",
    trimtab_sim::run::Provenance: "provenance",
    trimtab_sim::run::Severity: "severity",
    trimtab_sim::run::TargetKind: "kind of target",
    trimtab_sim::run::Unit: "unit",
}

impl<T: Named> Serialize for Name<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de, T: Named> Deserialize<'de> for Name<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        T::from_name(&name).map(Self).map_err(D::Error::custom)
    }
}
