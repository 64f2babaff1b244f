//! Values of parameters as plans give them, and the axes that they stand on.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use trimtab_drive::units::{Bytes, Nanos, exact};

/// What a parameter is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word, a size, a duration.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any number; finite.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// What only specifications of drives have: `{ d-choices = 10 }`.
    Table(toml::Table),
}

impl fmt::Display for Value {
    /// As command lines have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
            Self::Table(table) => {
                let pair = |(key, value): (&String, &toml::Value)| match value {
                    toml::Value::Table(table) => format!("{key}:{}", Self::Table(table.clone())),
                    toml::Value::String(text) => format!("{key}:{text}"),
                    toml::Value::Integer(number) => format!("{key}:{number}"),
                    toml::Value::Float(number) => format!("{key}:{number}"),
                    toml::Value::Boolean(flag) => format!("{key}:{flag}"),
                    _ => key.clone(),
                };
                f.write_str(&table.iter().map(pair).collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl Value {
    /// As a number, if it is one.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// An axis: a parameter, and what it is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The parameter: `drive.over_provisioning_percent`.
    pub key: String,
    /// Its values.
    pub values: Values,
    /// Line of the plan.
    pub line: usize,
}

/// What an axis is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// These, each on the line of the plan.
    List(Vec<(Value, usize)>),
    /// Numbers from one to another.
    Range(Range),
}

/// Numbers from one to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The first.
    pub from: f64,
    /// The last.
    pub to: f64,
    /// So many with equal steps; `None` for all between, where a design draws.
    pub steps: Option<u64>,
    /// Steps are equal factors.
    pub log: bool,
    /// How they are written.
    pub scale: Scale,
}

/// How the numbers of a range are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As whole numbers.
    Integer,
    /// As numbers.
    Number,
    /// As sizes, in bytes.
    Bytes,
    /// As durations, from nanoseconds.
    Nanos,
}

impl Range {
    /// The number at a place from 0 to 1.
    fn at(&self, place: f64) -> Value {
        // The ends are what the plan says, not what comes out of a logarithm.
        let number = if place <= 0.0 {
            self.from
        } else if place >= 1.0 {
            self.to
        } else if self.log {
            self.from * libm::pow(self.to / self.from, place)
        } else {
            self.from + place * (self.to - self.from)
        };
        match self.scale {
            Scale::Number => Value::Number(number),
            Scale::Integer => Value::Integer(libm::round(number) as i64),
            Scale::Bytes => Value::Integer(libm::round(number) as i64),
            Scale::Nanos => Value::Text(exact(Nanos(libm::round(number) as u64))),
        }
    }
}

impl Axis {
    /// How many values it has; `None` if it has all between two.
    #[must_use]
    pub const fn len(&self) -> Option<u64> {
        match &self.values {
            Values::List(values) => Some(values.len() as u64),
            Values::Range(range) => range.steps,
        }
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        matches!(self.len(), Some(0))
    }

    /// The value of that number; the last if there are fewer.
    #[must_use]
    pub fn nth(&self, nth: u64) -> Value {
        match &self.values {
            Values::List(values) => values[(nth as usize).min(values.len() - 1)].0.clone(),
            Values::Range(range) => range.at(nth as f64 / range.steps.unwrap_or(2).saturating_sub(1).max(1) as f64),
        }
    }

    /// The value at a place from 0 to below 1: each of a list takes as much of that as any other.
    #[must_use]
    pub fn at(&self, place: f64) -> Value {
        match (self.len(), &self.values) {
            (Some(n), _) => self.nth(((place * n as f64) as u64).min(n - 1)),
            (None, Values::Range(range)) => range.at(place),
            (None, Values::List(_)) => self.nth(0),
        }
    }

    /// What to try before anything is run: each of a list, the ends of a range; with the line that each stands on.
    #[must_use]
    pub fn probes(&self) -> Vec<(Value, usize)> {
        match &self.values {
            Values::List(values) => values.clone(),
            Values::Range(range) => alloc::vec![(range.at(0.0), self.line), (range.at(1.0), self.line)],
        }
    }

    /// Whether all of its values are numbers, and all of them whole.
    #[must_use]
    pub fn numbers(&self) -> Option<Scale> {
        match &self.values {
            Values::Range(range) if range.scale == Scale::Nanos => None,
            Values::Range(range) => Some(range.scale),
            Values::List(values) if values.iter().all(|(value, _)| matches!(value, Value::Integer(_))) => Some(Scale::Integer),
            Values::List(values) if values.iter().all(|(value, _)| value.number().is_some()) => Some(Scale::Number),
            Values::List(_) => None,
        }
    }
}

/// The two ends of a range, and how its numbers are written: both numbers, both sizes or both durations.
pub(super) fn ends(from: &Value, to: &Value, fractional: bool) -> Result<(f64, f64, Scale), String> {
    if let (Some(a), Some(b)) = (from.number(), to.number()) {
        let whole = |number: f64| libm::floor(number) == number;
        return match fractional {
            true => Ok((a, b, Scale::Number)),
            false if whole(a) && whole(b) => Ok((a, b, Scale::Integer)),
            false => Err(format!("it takes whole numbers only, not from {from} to {to}")),
        };
    }
    let (Value::Text(a), Value::Text(b)) = (from, to) else {
        return Err(format!("from {from} to {to} is not a range: both ends must be numbers, or both sizes, or both durations"));
    };
    match (a.parse::<Bytes>(), b.parse::<Bytes>(), a.parse::<Nanos>(), b.parse::<Nanos>()) {
        (Ok(a), Ok(b), ..) => Ok((a.as_f64(), b.as_f64(), Scale::Bytes)),
        (_, _, Ok(a), Ok(b)) => Ok((a.as_f64(), b.as_f64(), Scale::Nanos)),
        _ => Err(format!("{from} and {to} are neither two sizes nor two durations")),
    }
}
