//! Filters for the cells of a sweep: `policy.name=idle`, `drive.over_provisioning_percent=10..28`.

use super::plan::Plan;
use super::value::Value;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::suggest;

/// Conditions that must all hold. An empty filter accepts every cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    axis: usize,
    said: String,
    allowed: AllowedValues,
}

#[derive(Clone, Debug, PartialEq)]
enum AllowedValues {
    /// Matches the text or the number of one of these.
    These(Vec<String>),
    /// Matches numbers of a closed interval.
    Between(f64, f64),
}

impl Filter {
    /// Parses `AXIS=VALUE`, `AXIS=VALUE,VALUE` or `AXIS=FROM..TO`.
    ///
    /// # Errors
    /// A condition is malformed, names an unknown axis, or excludes all values of an axis.
    pub fn parse(plan: &Plan, texts: &[String]) -> Result<Self, String> {
        let conditions = texts.iter().map(|text| Condition::parse(plan, text)).collect::<Result<_, _>>()?;
        Ok(Self { conditions })
    }

    /// True if a cell with these axis values passes.
    #[must_use]
    pub fn passes(&self, values: &[Value]) -> bool {
        self.conditions.iter().all(|condition| condition.allowed.has(&values[condition.axis]))
    }

    /// True if cells with this value on that axis can pass.
    #[must_use]
    pub fn lets(&self, axis: usize, value: &Value) -> bool {
        self.conditions.iter().filter(|condition| condition.axis == axis).all(|condition| condition.allowed.has(value))
    }

    /// The filter in words; `None` if it is empty.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let all: Vec<&str> = self.conditions.iter().map(|condition| condition.said.as_str()).collect();
        (!all.is_empty()).then(|| format!("only cells with {}", all.join(" and ")))
    }
}

impl Condition {
    fn parse(plan: &Plan, text: &str) -> Result<Self, String> {
        let keys: Vec<&str> = plan.axes.iter().map(|axis| axis.key.as_str()).collect();
        let Some((key, value)) = text.split_once('=').map(|(key, value)| (key.trim(), value.trim())).filter(|(_, value)| !value.is_empty())
        else {
            return Err(format!("'{text}' is not a condition: AXIS=VALUE, AXIS=VALUE,VALUE or AXIS=FROM..TO"));
        };
        let Some(axis) = keys.iter().position(|known| *known == key || known.strip_suffix(".name") == Some(key)) else {
            return Err(format!("the plan has no axis '{key}'; {}", suggest(key, "axes", &keys)));
        };
        let allowed = match value.split_once("..").map(|(from, to)| (number(from), number(to))) {
            Some((Some(from), Some(to))) if from <= to => AllowedValues::Between(from, to),
            Some(_) => return Err(format!("{key}: '{value}' is not a range of numbers, sizes or durations from low to high")),
            None => AllowedValues::These(value.split(',').map(|one| one.trim().to_owned()).collect()),
        };
        // A continuous axis has no list of values.
        let listed = plan.axes[axis].len().map(|len| (0..len).any(|nth| allowed.has(&plan.axes[axis].nth(nth))));
        match listed {
            Some(false) => Err(format!("{key}: no cell has {value}")),
            _ => Ok(Self { axis, said: format!("{} = {value}", keys[axis]), allowed }),
        }
    }
}

impl AllowedValues {
    fn has(&self, value: &Value) -> bool {
        let written = value.to_string();
        let is = value.number().or_else(|| number(&written));
        match self {
            Self::These(all) => all.iter().any(|one| *one == written || (is.is_some() && number(one) == is)),
            Self::Between(from, to) => is.is_some_and(|is| (*from..=*to).contains(&is)),
        }
    }
}

/// The value of a number, the bytes of a size, or the nanoseconds of a duration.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.parse::<f64>().ok().filter(|number| number.is_finite());
    plain.or_else(|| text.parse::<Bytes>().ok().map(|size| size.as_f64())).or_else(|| text.parse::<Nanos>().ok().map(|time| time.as_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "[base]\ndrive.name = \"intel-x25-m-160gb\"\n[axes]\npolicy = [\"none\", \"idle\", \"batched:every=1h\"]\n\
                        drive.capacity = [\"8GiB\", \"16GiB\"]\nworkload.read_percent = { from = 0, to = 80, steps = 5 }\n";

    fn numbers(said: &[&str]) -> Result<Vec<u64>, String> {
        let plan = Plan::parse(PLAN).unwrap();
        let filter = Filter::parse(&plan, &said.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())?;
        Ok((0..plan.cells()).filter(|cell| filter.passes(&plan.place(*cell).values)).collect())
    }

    #[test]
    fn filter_matches_words_numbers_sizes_and_ranges() {
        // 3 policies, 2 capacities, 5 read shares: the last axis changes first.
        let all: Vec<u64> = (0..30).collect();
        let those = |keep: fn(u64, u64, u64) -> bool| all.iter().copied().filter(|n| keep(n / 10, n / 5 % 2, n % 5)).collect::<Vec<_>>();
        assert_eq!(numbers(&[]).unwrap(), all);
        assert_eq!(numbers(&["policy=idle"]).unwrap(), those(|policy, _, _| policy == 1));
        assert_eq!(numbers(&["policy.name = none, batched:every=1h"]).unwrap(), those(|policy, _, _| policy != 1));
        assert_eq!(numbers(&["drive.capacity=17179869184"]).unwrap(), those(|_, capacity, _| capacity == 1));
        assert_eq!(
            numbers(&["drive.capacity=8GiB..9GiB", "workload.read_percent=20..60"]).unwrap(),
            those(|_, c, reads| c == 0 && (1..4).contains(&reads))
        );
    }

    #[test]
    fn parse_rejects_invalid_conditions() {
        for (said, why) in [
            ("policy", "is not a condition"),
            ("policy=", "is not a condition"),
            ("polcy.name=idle", "did you mean 'policy.name'?"),
            ("policy=adaptive", "policy: no cell has adaptive"),
            ("workload.read_percent=60..20", "is not a range"),
            ("workload.read_percent=nan", "no cell has nan"),
            ("drive.capacity=1GiB..2GiB", "no cell has"),
        ] {
            let refused = numbers(&[said]).unwrap_err();
            assert!(refused.contains(why), "{said}: {refused}");
        }
    }
}
