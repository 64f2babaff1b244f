//! What a study can recommend.

use super::policy;
use alloc::format;
use alloc::string::String;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use trimtab_sim::policy::PolicySpec;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recommendation {
    /// Use this policy; `none` where trimming costs something and gains nothing.
    Use(&'static str),
    /// Trimming neither costs nor gains anything that can be measured.
    NoDifference,
    /// Every policy that gains something would trim without end.
    NeverDone,
    /// Discards do not arrive; that has to be repaired first.
    Blocked,
    /// A policy was run, but no discard of it was counted: nothing can be said of it.
    NotTested,
    /// Too little could be tried.
    Unknown,
}

impl Recommendation {
    const OTHERS: [Self; 5] = [Self::NoDifference, Self::NeverDone, Self::Blocked, Self::NotTested, Self::Unknown];

    /// The policy that it is about, as runs name it.
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

    /// Whether it answers the question, so that it can be more or less sure.
    pub const fn is_answer(self) -> bool {
        !matches!(self, Self::Blocked | Self::NotTested | Self::Unknown)
    }

    /// Its name in documents: a policy's, or `no_difference` and the like.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Use(policy) => policy,
            Self::NoDifference => "no_difference",
            Self::NeverDone => "never_done",
            Self::Blocked => "blocked",
            Self::NotTested => "not_tested",
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
        found.ok_or_else(|| D::Error::custom(format!("there is no recommendation '{code}'")))
    }
}
