//! Possible recommendations of a study.

use super::policy;
use alloc::format;
use alloc::string::String;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trimtab_sim::policy::PolicySpec;

/// A recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recommendation {
    /// Use this policy; `none` if trimming has a cost and no gain.
    Use(&'static str),
    /// Trimming has no measurable cost or gain.
    NoDifference,
    /// Every policy with a gain would trim without end.
    NeverDone,
    /// Discards do not reach the device; fix that first.
    Blocked,
    /// A policy was run, but none of its discards was counted, so it cannot be judged.
    NotTested,
    /// Drives that fit a twin's measurements lead to different recommendations, or none
    /// explains them.
    Undecided,
    /// Too few repeats to tell a difference from chance.
    TooFewRepeats,
    /// Too few results.
    Unknown,
}

impl Recommendation {
    const OTHERS: [Self; 7] = [
        Self::NoDifference,
        Self::NeverDone,
        Self::Blocked,
        Self::NotTested,
        Self::Undecided,
        Self::TooFewRepeats,
        Self::Unknown,
    ];

    /// The recommended policy, as named in runs.
    pub const fn policy(self) -> Option<&'static str> {
        match self {
            Self::Use(policy) => Some(policy),
            _ => None,
        }
    }

    /// The policy, if it trims.
    pub fn trimming_policy(self) -> Option<&'static str> {
        self.policy().filter(|name| *name != policy::NONE)
    }

    /// True if the study was complete, so that a confidence applies.
    pub const fn is_answer(self) -> bool {
        !matches!(self, Self::Blocked | Self::NotTested | Self::TooFewRepeats | Self::Unknown)
    }

    /// Name in documents: the policy, or `no_difference` and the like.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Use(policy) => policy,
            Self::NoDifference => "no_difference",
            Self::NeverDone => "never_done",
            Self::Blocked => "blocked",
            Self::NotTested => "not_tested",
            Self::Undecided => "undecided",
            Self::TooFewRepeats => "too_few_repeats",
            Self::Unknown => "unknown",
        }
    }
}

impl Serialize for Recommendation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Recommendation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        let policies = PolicySpec::NAMES.into_iter().map(Self::Use);
        let found = policies.chain(Self::OTHERS).find(|one| one.code() == code);
        found.ok_or_else(|| D::Error::custom(format!("unknown recommendation '{code}'")))
    }
}
