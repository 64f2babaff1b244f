//! Parameter values of plans, and the axes they form.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use trimtab_drive::units::{Bytes, Nanos, exact};

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word, size or duration.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// Any finite number.
    Number(f64),
    /// A boolean.
    Flag(bool),
    /// A table, which only drive specifications have: `{ d-choices = 10 }`.
    Table(toml::Table),
}

impl fmt::Display for Value {
    /// Formats the value as on a command line.
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
    /// The value as a number, if it is one.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// An axis: a parameter and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The parameter: `drive.over_provisioning_percent`.
    pub key: String,
    /// Its values.
    pub values: Values,
    /// Line of the plan.
    pub line: usize,
}

/// Values of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Individual values with their lines in the plan.
    List(Vec<(Value, usize)>),
    /// A range of numbers.
    Range(Range),
}

/// A range of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// The first.
    pub from: f64,
    /// The last.
    pub to: f64,
    /// Number of equal steps.
    pub steps: u64,
    /// Steps are equal factors instead of equal differences.
    pub log: bool,
    /// Notation.
    pub scale: NumberNotation,
}

/// Notation of the numbers of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberNotation {
    /// Whole numbers, and sizes in bytes.
    Integer,
    /// Numbers.
    Number,
    /// Durations from nanoseconds.
    Nanos,
}

impl Range {
    /// The number at a position from 0 to 1.
    fn at(&self, place: f64) -> Value {
        // Returns the ends exactly as written, without logarithmic rounding.
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
            NumberNotation::Number => Value::Number(number),
            NumberNotation::Integer => Value::Integer(libm::round(number) as i64),
            NumberNotation::Nanos => Value::Text(exact(Nanos(libm::round(number) as u64))),
        }
    }
}

impl Axis {
    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match &self.values {
            Values::List(values) => values.len() as u64,
            Values::Range(range) => range.steps,
        }
    }

    /// True without values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value with that index, or the last one.
    #[must_use]
    pub fn nth(&self, nth: u64) -> Value {
        match &self.values {
            Values::List(values) => values[(nth as usize).min(values.len() - 1)].0.clone(),
            Values::Range(range) => range.at(nth as f64 / (range.steps - 1) as f64),
        }
    }

    /// Values to try before a run: all of a list, or the ends of a range, with their
    /// lines.
    #[must_use]
    pub fn probes(&self) -> Vec<(Value, usize)> {
        match &self.values {
            Values::List(values) => values.clone(),
            Values::Range(range) => {
                alloc::vec![(range.at(0.0), self.line), (range.at(1.0), self.line)]
            }
        }
    }

    /// Notation if all values are numbers.
    #[must_use]
    pub fn numbers(&self) -> Option<NumberNotation> {
        match &self.values {
            Values::Range(range) if range.scale == NumberNotation::Nanos => None,
            Values::Range(range) => Some(range.scale),
            Values::List(values)
                if values.iter().all(|(value, _)| matches!(value, Value::Integer(_))) =>
            {
                Some(NumberNotation::Integer)
            }
            Values::List(values) if values.iter().all(|(value, _)| value.number().is_some()) => {
                Some(NumberNotation::Number)
            }
            Values::List(_) => None,
        }
    }
}

/// The ends and the notation of a range. Both ends must be numbers, sizes or durations.
pub(super) fn ends(
    from: &Value,
    to: &Value,
    fractional: bool,
) -> Result<(f64, f64, NumberNotation), String> {
    if let (Some(a), Some(b)) = (from.number(), to.number()) {
        let whole = |number: f64| libm::floor(number) == number;
        return match fractional {
            true => Ok((a, b, NumberNotation::Number)),
            false if whole(a) && whole(b) => Ok((a, b, NumberNotation::Integer)),
            false => Err(format!("needs whole numbers, not {from} to {to}")),
        };
    }
    let (Value::Text(a), Value::Text(b)) = (from, to) else {
        return Err(format!(
            "from {from} to {to} is not a range: both ends must be numbers, or both \
                sizes, or both durations"
        ));
    };
    match (a.parse::<Bytes>(), b.parse::<Bytes>(), a.parse::<Nanos>(), b.parse::<Nanos>()) {
        (Ok(a), Ok(b), ..) => Ok((a.as_f64(), b.as_f64(), NumberNotation::Integer)),
        (_, _, Ok(a), Ok(b)) => Ok((a.as_f64(), b.as_f64(), NumberNotation::Nanos)),
        _ => Err(format!("{from} and {to} are neither two sizes nor two durations")),
    }
}
