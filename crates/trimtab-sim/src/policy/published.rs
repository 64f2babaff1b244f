//! Policies that others have published, re-implemented from their descriptions to be compared with ours. They are built by name; no study runs them of
//! itself, and no help lists them.

mod dtrim;
mod itrim;

pub use dtrim::{DTrim, DTrimSettings};
pub use itrim::{ITrim, ITrimSettings};

use super::{Observation, Policy, State};
use alloc::boxed::Box;
use trimtab_drive::units::{Bytes, Nanos};

/// Which published policy, with which settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// In idle time, large extents first.
    ITrim(ITrimSettings),
    /// Early where a TRIM is cheap, lazily where it is dear.
    DTrim(DTrimSettings),
}

impl Published {
    /// The policy of that name with its defaults.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "itrim" => Some(Self::ITrim(ITrimSettings::default())),
            "dtrim" => Some(Self::DTrim(DTrimSettings::default())),
            _ => None,
        }
    }

    /// Its name, as on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ITrim(_) => "itrim",
            Self::DTrim(_) => "dtrim",
        }
    }

    /// The policy, where it left off if there is a state of it.
    #[must_use]
    pub fn build(&self, state: &State) -> Box<dyn Policy> {
        match *self {
            Self::ITrim(settings) => Box::new(ITrim::new(settings, state)),
            Self::DTrim(settings) => Box::new(DTrim::new(settings, state)),
        }
    }

    /// The same with its defaults.
    #[must_use]
    pub fn defaults(&self) -> Self {
        match self {
            Self::ITrim(_) => Self::ITrim(ITrimSettings::default()),
            Self::DTrim(_) => Self::DTrim(DTrimSettings::default()),
        }
    }

    /// Free extents that it leaves alone are smaller than this.
    #[must_use]
    pub const fn min_extent(&self) -> Bytes {
        match self {
            Self::ITrim(settings) => settings.min_extent,
            Self::DTrim(settings) => settings.min_extent,
        }
    }

    /// A pass begins at the latest this long after the one before.
    #[must_use]
    pub const fn at_least_every(&self) -> Nanos {
        match self {
            Self::ITrim(settings) => settings.at_least_every,
            Self::DTrim(settings) => settings.at_least_every,
        }
    }

    /// Per cent of the free space that is written between two of its passes.
    #[must_use]
    pub const fn share_percent(&self) -> u32 {
        match self {
            Self::ITrim(settings) => settings.share_percent,
            Self::DTrim(settings) => settings.share_percent,
        }
    }

    /// The same with the longest time between two passes, and between two looks, changed by `change`.
    #[must_use]
    pub fn with_calendar(mut self, change: impl Fn(Nanos, Nanos) -> (Nanos, Nanos)) -> Self {
        let (at_least, poll) = match &mut self {
            Self::ITrim(settings) => (&mut settings.at_least_every, &mut settings.poll),
            Self::DTrim(settings) => (&mut settings.at_least_every, &mut settings.poll),
        };
        (*at_least, *poll) = change(*at_least, *poll);
        self
    }
}

/// The least time until the next look.
const LOOK_LEAST: Nanos = Nanos::from_micros(500);

/// Until when a request has to wait so that others have been quiet for `quiet`; `None` if they have.
fn until_quiet(observation: &Observation<'_>, quiet: Nanos) -> Option<Nanos> {
    let now = observation.now;
    let idle = match observation.idle_since {
        Some(since) if observation.in_flight == 0 => now.saturating_sub(since),
        // A busy device is looked at again when it may have been quiet for so long.
        _ => return Some(now.saturating_add(quiet.max(LOOK_LEAST))),
    };
    (idle < quiet).then(|| now.saturating_add(quiet.saturating_sub(idle).max(LOOK_LEAST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_is_counted_from_the_last_request_of_others() {
        const MS: u64 = 1_000_000;
        let at = |idle: Option<u64>, in_flight| Observation {
            idle_since: idle.map(|idle| Nanos(100 * MS - idle)),
            in_flight,
            ..Observation::of(Nanos(100 * MS), &[])
        };
        let wait = |idle, in_flight| until_quiet(&at(idle, in_flight), Nanos(10 * MS)).map(|until| until.0 - 100 * MS);
        assert_eq!([wait(Some(10 * MS), 0), wait(Some(4 * MS), 0)], [None, Some(6 * MS)]);
        assert_eq!(wait(Some(10 * MS - 1), 0), Some(500_000), "never less than half a millisecond");
        assert_eq!([wait(None, 0), wait(Some(90 * MS), 1)], [Some(10 * MS); 2]);
    }
}
