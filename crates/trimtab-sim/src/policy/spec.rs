//! Textual form of a policy: `adaptive:share=50%:at-least=3d`.

use super::{
    AdaptivePolicy, AdaptiveSettings, BatchedPolicy, BatchedSettings, IdlePolicy, IdleSettings,
    ManualPolicy, Policy, PolicyState, Schedule,
};
use crate::run::Field;
use crate::setting::{GivenSettings, NamedSetting, Setting, SettingError};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use trimtab_drive::units::{Bytes, Nanos, exact};
use trimtab_drive::usage::suggest;

// Accepted ranges. Simulations use short periods; values outside are typing errors.
const DAY: Nanos = Nanos::from_secs(86_400);
/// Time between the starts of two passes: up to ten years.
const PERIOD: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos(3660 * DAY.0);
/// Minimum time between two passes; may be zero.
const PAUSE: RangeInclusive<Nanos> = Nanos::ZERO..=Nanos(3660 * DAY.0);
/// A time of day.
const TIME_OF_DAY: RangeInclusive<Nanos> = Nanos::ZERO..=Nanos(DAY.0 - 1_000_000_000);
/// Interval between polls of the counter.
const POLL: RangeInclusive<Nanos> = Nanos::from_millis(1)..=DAY;
/// Latency budget; the minimum is the time of the fastest command.
const BUDGET: RangeInclusive<Nanos> = Nanos::from_micros(10)..=Nanos::from_secs(60);
/// Longest wait for an opportunity.
const PATIENCE: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos(366 * DAY.0);
/// Minimum size of a trimmed free extent.
const MIN_EXTENT: (RangeInclusive<Bytes>, &str) = (Bytes::ZERO..=Bytes(1 << 50), "0 to 1PiB");

/// A policy and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySpec {
    /// Trims on request only.
    None,
    /// The filesystem discards what it frees.
    Online,
    /// Full trims on a schedule.
    Batched(BatchedSettings),
    /// A full trim when enough has been written.
    Adaptive(AdaptiveSettings),
    /// Small pieces in idle time.
    Idle(IdleSettings),
}

impl PolicySpec {
    /// Every policy with its defaults, in the order in which a study runs them.
    pub const NAMES: [&'static str; 5] = ["none", "online", "batched", "adaptive", "idle"];

    /// The policy of a name, with its defaults.
    fn named(name: &str) -> Option<Self> {
        let (batched, adaptive, idle) =
            (BatchedSettings::default(), AdaptiveSettings::default(), IdleSettings::default());
        let all = [
            Self::None,
            Self::Online,
            Self::Batched(batched),
            Self::Adaptive(adaptive),
            Self::Idle(idle),
        ];
        all.into_iter().find(|policy| policy.name() == name)
    }

    /// Interval after which the policy repeats its behaviour on an idle system.
    #[must_use]
    pub const fn period(&self) -> Nanos {
        match self {
            Self::None | Self::Online => Nanos::MAX,
            Self::Batched(settings) => match settings.schedule {
                Schedule::Every(every) => every,
                Schedule::Nightly(_) => DAY,
            },
            Self::Adaptive(settings) => settings.at_least_every,
            Self::Idle(settings) => settings.at_least_every,
        }
    }

    /// Name as on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Online => "online",
            Self::Batched(_) => "batched",
            Self::Adaptive(_) => "adaptive",
            Self::Idle(_) => "idle",
        }
    }

    /// Builds the policy and restores `state`.
    #[must_use]
    pub fn build(&self, state: &PolicyState) -> Box<dyn Policy> {
        match *self {
            Self::None => Box::new(ManualPolicy::none(state)),
            Self::Online => Box::new(ManualPolicy::online(state)),
            Self::Batched(settings) => Box::new(BatchedPolicy::new(settings, state)),
            Self::Adaptive(settings) => Box::new(AdaptivePolicy::new(settings, state)),
            Self::Idle(settings) => Box::new(IdlePolicy::new(settings, state)),
        }
    }

    /// All settings that affect the policy, for reports and the store.
    #[must_use]
    pub fn settings(&self) -> Vec<Field> {
        self.pairs()
            .into_iter()
            .map(|(key, value)| Field::new(format!("policy.{key}"), value))
            .collect()
    }

    fn pairs(mut self) -> Vec<(&'static str, String)> {
        let schedule = match self {
            Self::Batched(s) => Some(match s.schedule {
                Schedule::Every(period) => ("every", exact(period)),
                Schedule::Nightly(time) => ("nightly", exact(time)),
            }),
            _ => None,
        };
        schedule
            .into_iter()
            .chain(self.table().into_iter().map(|(key, setting)| (key, setting.text())))
            .collect()
    }

    /// Settings without the schedule of a batched trim.
    fn table(&mut self) -> Vec<NamedSetting<'_>> {
        let min_extent = |bytes| ("min-extent", Setting::Size(bytes, MIN_EXTENT.0, MIN_EXTENT.1));
        match self {
            Self::None | Self::Online => Vec::new(),
            Self::Batched(s) => {
                vec![min_extent(&mut s.min_extent), ("battery", Setting::Flag(&mut s.on_battery))]
            }
            Self::Adaptive(s) => vec![
                ("share", Setting::Percent(&mut s.share_percent)),
                ("at-most", Setting::Time(&mut s.at_most_every, PAUSE)),
                ("at-least", Setting::Time(&mut s.at_least_every, PERIOD)),
                ("poll", Setting::Time(&mut s.poll, POLL)),
                min_extent(&mut s.min_extent),
                ("battery", Setting::Flag(&mut s.on_battery)),
            ],
            Self::Idle(s) => vec![
                ("budget", Setting::Time(&mut s.budget, BUDGET)),
                ("share", Setting::Percent(&mut s.share_percent)),
                ("at-least", Setting::Time(&mut s.at_least_every, PERIOD)),
                ("patience", Setting::Time(&mut s.patience, PATIENCE)),
                ("poll", Setting::Time(&mut s.poll, POLL)),
                ("finish-within", Setting::Time(&mut s.finish_within, PAUSE)),
                ("complete", Setting::Flag(&mut s.complete)),
                ("battery", Setting::Flag(&mut s.on_battery)),
            ],
        }
    }

    /// Changes settings.
    ///
    /// # Errors
    /// An unknown setting, an invalid value, or settings that exclude each other.
    pub fn set(&mut self, mut given: GivenSettings<'_>) -> Result<(), SettingError> {
        if let Self::Batched(s) = self {
            set_schedule(&mut s.schedule, &mut given)?;
        }
        // A default yields to an explicit value of the other bound.
        let (at_most, default_at_most) =
            (given.has("at-most"), AdaptiveSettings::default().at_most_every);
        given.apply(self.table())?;
        given.end(&format!("trim policy {}", self.name()))?;
        match self {
            Self::Adaptive(s)
                if s.at_most_every > s.at_least_every
                    && (at_most || s.at_most_every != default_at_most) =>
            {
                let (most, least) = (exact(s.at_most_every), exact(s.at_least_every));
                Err(given.wrong("at-most", format!("{most} is longer than at-least, {least}")))
            }
            _ => Ok(()),
        }
    }
}

/// Applies the settings that determine the schedule. They are mutually exclusive.
fn set_schedule(
    schedule: &mut Schedule,
    given: &mut GivenSettings<'_>,
) -> Result<(), SettingError> {
    let (mut every, mut nightly) = (Nanos::ZERO, Nanos::ZERO);
    let is_given = [
        given.set("every", Setting::Time(&mut every, PERIOD))?,
        given.set("nightly", Setting::Time(&mut nightly, TIME_OF_DAY))?,
    ];
    *schedule = match is_given {
        [true, false] => Schedule::Every(every),
        [false, true] => Schedule::Nightly(nightly),
        [false, false] => *schedule,
        _ => return Err(given.wrong("every", "only one of every and nightly can be given")),
    };
    Ok(())
}

impl fmt::Display for PolicySpec {
    /// Name and all settings that differ from the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.name().to_string();
        let defaults = Self::named(self.name()).map(Self::pairs).unwrap_or_default();
        for (key, value) in self.pairs() {
            if !defaults.contains(&(key, value.clone())) {
                text.push_str(&format!(":{key}={value}"));
            }
        }
        f.pad(&text)
    }
}

impl FromStr for PolicySpec {
    type Err = SettingError;

    /// Parses `NAME[:KEY=VALUE]…`: `none`, `batched:every=24h`, `batched:nightly=3h`,
    /// `adaptive:share=50%`, `idle:budget=2ms:patience=10s`.
    fn from_str(text: &str) -> Result<Self, SettingError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let unknown = || {
            format!("there is no trim policy '{name}'; {}", suggest(name, "policies", &Self::NAMES))
        };
        let mut policy = Self::named(name).ok_or_else(|| SettingError::together(unknown()))?;
        policy.set(GivenSettings::parse(format!("{name}:"), rest, ':')?)?;
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_spec_display_round_trips() {
        for text in [
            "none",
            "online",
            "batched",
            "batched:every=1d",
            "batched:nightly=3h",
            "batched:battery=yes",
            "adaptive:share=50%:at-least=3d",
            "idle:budget=2500us:patience=10s:complete=yes",
        ] {
            let policy: PolicySpec = text.parse().unwrap();
            assert_eq!(policy.to_string(), text);
        }
        assert_eq!(
            "batched:every=168h".parse::<PolicySpec>().unwrap().to_string(),
            "batched",
            "the default is not repeated"
        );
    }

    /// Each setting belongs to its own policies only, including at the ends of its range.
    #[test]
    fn policy_settings_round_trip() {
        for (policy, settings) in [
            (
                "batched",
                &[
                    "every=1ms",
                    "every=3660d",
                    "nightly=0s",
                    "nightly=86399s",
                    "min-extent=4096",
                    "battery=yes",
                ][..],
            ),
            (
                "adaptive",
                &[
                    "share=1%",
                    "share=100%",
                    "at-most=0s",
                    "at-least=3660d",
                    "poll=1ms",
                    "poll=1d",
                    "min-extent=4096",
                    "battery=yes",
                ],
            ),
            (
                "idle",
                &[
                    "budget=10us",
                    "budget=1min",
                    "share=1%",
                    "at-least=1ms",
                    "patience=366d",
                    "poll=1ms",
                    "finish-within=3660d",
                    "complete=yes",
                    "battery=yes",
                ],
            ),
        ] {
            for setting in settings {
                let text = format!("{policy}:{setting}");
                let read: PolicySpec =
                    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
                assert_eq!(read.to_string(), text);
                let (key, value) = setting.split_once('=').unwrap();
                assert!(
                    read.settings().contains(&Field::new(format!("policy.{key}"), value)),
                    "{text}: {:?}",
                    read.settings()
                );
            }
        }
        for (text, same) in [
            ("batched:battery=no", "batched"),
            ("batched:battery", "batched:battery=yes"),
            ("idle:battery=off", "idle"),
        ] {
            assert_eq!(text.parse::<PolicySpec>(), same.parse(), "{text}");
        }
        assert!("adaptive:at-most=7d".parse::<PolicySpec>().is_ok(), "both are the same");
        for wrong in [
            "batched:nightly=86400s",
            "batched:every=3661d",
            "idle:patience=367d",
            "adaptive:at-most=3661d:at-least=3660d",
        ] {
            assert!(wrong.parse::<PolicySpec>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_policy_suggests_nearest_name() {
        for (text, nearest) in [
            ("idel", Some("idle")),
            ("Idle", Some("idle")),
            ("adptve:share=5%", Some("adaptive")),
            ("batchd", Some("batched")),
            ("onlin", Some("online")),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("; did you mean '{}'?", nearest.unwrap())), "{error}");
        }
        for text in ["", "now", "sometimes", "x", &"idle".repeat(100)] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(!error.contains("did you mean"), "{error}");
        }
    }

    /// Regression: a plan accepted bounds that contradict each other in name and setting.
    #[test]
    fn set_bound_against_a_bound_in_the_name_is_refused() {
        let with = |name: &str| {
            let mut policy: PolicySpec = name.parse().unwrap();
            policy.set(GivenSettings::new("policy.", [("at_least", "1d".to_string())]))
        };
        assert_eq!(with("adaptive:at-most=2d").unwrap_err().key.as_deref(), Some("policy.at-most"));
        assert_eq!(with("adaptive:at-most=12h"), Ok(()));
        assert_eq!(with("adaptive"), Ok(()));
    }

    #[test]
    fn parse_error_states_valid_values() {
        for (text, part) in [
            ("fastest", "known policies: none, online, batched, adaptive, idle"),
            ("none:share=1%", "no setting 'share'"),
            (
                "batched:share=1%",
                "batched:share: trim policy batched has no setting 'share'; known \
                    settings: every, nightly, min-",
            ),
            ("idle:polll=1s", "did you mean 'poll'?"),
            ("adaptive:share=lots", "75%"),
            ("adaptive:share=0%", "75%"),
            ("adaptive:share=150%", "75%, from 1% to 100%"),
            ("adaptive:share=NaN", "75%"),
            ("adaptive:share=-5%", "75%"),
            ("adaptive:share=5%%", "75%"),
            ("adaptive:share=4294967297%", "75%"),
            ("adaptive:at-most=2d:at-least=1d", "2d is longer than at-least, 1d"),
            ("adaptive:at-most=8d", "8d is longer than at-least, 7d"),
            ("adaptive:at-least=99999d", "from 1ms to 3660d"),
            ("adaptive:poll=1ns", "from 1ms to 1d"),
            ("adaptive:poll=5%:share=1%", "such as 5ms"),
            ("adaptive:share=5%:share=6%", "given twice"),
            ("batched:every=0s", "from 1ms to 3660d"),
            ("batched:every=-1s", "such as 5ms"),
            ("batched:every=inf", "such as 5ms"),
            ("batched:nightly=25h", "is not from 0s to"),
            ("batched:every=1d:nightly=3h", "only one of every and nightly"),
            ("batched:battery=maybe", "neither yes nor no"),
            ("batched:min-extent=-1", "such as 4096"),
            ("batched:min-extent=9999PB", "is not from 0 to 1PiB"),
            ("idle:budget=5", "such as 5ms"),
            ("idle:budget=1h", "from 10us to 1min"),
            ("idle:budget=0s", "from 10us to 1min"),
            ("idle:quiet=1s", "no setting 'quiet'"),
            ("idle:patience=0s", "from 1ms"),
        ] {
            let error = text.parse::<PolicySpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
