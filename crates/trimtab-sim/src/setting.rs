//! Named settings, the only parser of `KEY=VALUE`. Each owner defines names, value types
//! and ranges, by a table or by one call per setting.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display};
use core::ops::RangeInclusive;
use core::str::FromStr;
use trimtab_drive::units::{Bytes, Nanos, exact};
use trimtab_drive::usage::suggest;

/// An invalid setting or combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// Path of the invalid setting; `None` if only the combination is invalid.
    pub key: Option<String>,
    /// Description of the error.
    pub text: String,
}

impl SettingError {
    /// The setting `key` is invalid.
    pub fn of(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: Some(key.into()), text: text.into() }
    }

    /// The combination is invalid.
    pub fn together(text: impl Into<String>) -> Self {
        Self { key: None, text: text.into() }
    }
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.iter().try_for_each(|key| write!(f, "{key}: "))?;
        f.write_str(&self.text)
    }
}

impl core::error::Error for SettingError {}

impl From<SettingError> for String {
    fn from(error: SettingError) -> Self {
        error.to_string()
    }
}

/// Settings as given by the user. The owner applies each one; [`Self::end`] rejects the
/// rest. Dashes and underscores in keys are the same.
#[derive(Clone, Debug)]
pub struct GivenSettings<'a> {
    /// Precedes keys in error messages: `volume.`, `idle:`.
    path: String,
    pairs: Vec<(&'a str, String)>,
    known: Vec<&'static str>,
}

impl<'a> GivenSettings<'a> {
    /// Settings by key. A later one overrides an earlier one.
    pub fn new(
        path: impl Into<String>,
        pairs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Self {
        let mut given = Self { path: path.into(), pairs: Vec::new(), known: Vec::new() };
        for (key, value) in pairs {
            given.remove(key);
            given.pairs.push((key, value));
        }
        given
    }

    /// Parses `KEY[=VALUE]` separated by `separator`; a missing value is empty.
    ///
    /// # Errors
    /// A key is given twice.
    pub fn parse(
        path: impl Into<String>,
        text: &'a str,
        separator: char,
    ) -> Result<Self, SettingError> {
        let mut given = Self::new(path, []);
        for part in text.split(separator).filter(|_| !text.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if given.remove(key).is_some() {
                return Err(given.wrong(key, "is given twice"));
            }
            given.pairs.push((key, value.to_string()));
        }
        Ok(given)
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.pairs.iter().position(|(other, _)| other.replace('_', "-") == key.replace('_', "-"))
    }

    fn remove(&mut self, key: &str) -> Option<(&'a str, String)> {
        self.position(key).map(|at| self.pairs.remove(at))
    }

    /// True if `key` is given and has not been applied yet.
    pub fn has(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// The error that `key` is invalid.
    pub fn wrong(&self, key: &str, text: impl Into<String>) -> SettingError {
        SettingError::of(format!("{}{key}", self.path), text)
    }

    /// The first key that has not been applied yet.
    pub fn first(&self) -> Option<&'a str> {
        self.pairs.first().map(|(key, _)| *key)
    }

    fn applied<T>(
        &mut self,
        key: &'static str,
        apply: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingError> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let Some((given, value)) = self.remove(key) else { return Ok(None) };
        apply(&value).map(Some).map_err(|text| self.wrong(given, text))
    }

    /// Applies a setting. False if it is not given.
    ///
    /// # Errors
    /// The value is invalid; the message describes valid ones.
    pub fn set(&mut self, key: &'static str, setting: Setting<'_>) -> Result<bool, SettingError> {
        self.applied(key, |value| setting.set(value)).map(|set| set.is_some())
    }

    /// Applies a mandatory setting.
    ///
    /// # Errors
    /// It is not given, or the value is invalid.
    pub fn need(&mut self, key: &'static str, setting: Setting<'_>) -> Result<(), SettingError> {
        if self.set(key, setting)? { Ok(()) } else { Err(self.wrong(key, "is missing")) }
    }

    /// A setting without a default.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn option<T: FromStr<Err: Display>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, SettingError> {
        self.applied(key, parsed)
    }

    /// Applies all settings of a table.
    ///
    /// # Errors
    /// A value is invalid.
    pub fn apply<'t>(
        &mut self,
        table: impl IntoIterator<Item = NamedSetting<'t>>,
    ) -> Result<(), SettingError> {
        table.into_iter().try_for_each(|(key, setting)| self.set(key, setting).map(drop))
    }

    /// Ends the settings of `owner`.
    ///
    /// # Errors
    /// A setting has not been applied: `owner` does not have it.
    pub fn end(&self, owner: &str) -> Result<(), SettingError> {
        let Some(key) = self.first() else { return Ok(()) };
        Err(self.wrong(
            key,
            format!("{owner} has no setting '{key}'; {}", suggest(key, "settings", &self.known)),
        ))
    }
}

/// A setting and its name.
pub type NamedSetting<'a> = (&'static str, Setting<'a>);

/// Type of a setting and a reference to its value.
pub enum Setting<'a> {
    /// `yes` or `no`; an empty value means `yes`.
    Flag(&'a mut bool),
    /// From 1% to 100%.
    Percent(&'a mut u32),
    /// A percentage within a range, kept in per mille.
    Permille(&'a mut u32, RangeInclusive<f64>),
    /// A whole number within a range.
    Number(&'a mut dyn Text, RangeInclusive<u64>),
    /// A number within a range.
    Fraction(&'a mut f64, RangeInclusive<f64>),
    /// A whole number above 0, or `by size`.
    BySize(&'a mut Option<u32>),
    /// A duration within a range.
    Time(&'a mut Nanos, RangeInclusive<Nanos>),
    /// Bytes within a range, and the range as shown in messages.
    Size(&'a mut Bytes, RangeInclusive<Bytes>, &'static str),
    /// Bytes of a small object.
    SmallSize(&'a mut u32),
    /// Bytes, or `rest of the drive`.
    Rest(&'a mut Option<Bytes>),
    /// A type with its own text form.
    Text(&'a mut dyn Text),
}

/// A type with its own text form.
pub trait Text: Display {
    /// Parses `text` into `self`.
    fn read(&mut self, text: &str) -> Result<(), String>;
}

impl<T: Display + FromStr<Err: Display>> Text for T {
    fn read(&mut self, text: &str) -> Result<(), String> {
        *self = parsed(text)?;
        Ok(())
    }
}

const BY_SIZE: &str = "by size";
const REST: &str = "rest of the drive";
/// Range of a positive count.
pub const ABOVE_0: RangeInclusive<u64> = 1..=u32::MAX as u64;

impl<'a> Setting<'a> {
    /// Any number of bytes.
    pub const fn size(bytes: &'a mut Bytes) -> Self {
        Self::Size(bytes, Bytes::ZERO..=Bytes::MAX, "")
    }

    /// Any duration.
    pub const fn time(time: &'a mut Nanos) -> Self {
        Self::Time(time, Nanos::ZERO..=Nanos::MAX)
    }

    /// The value in the form that [`Self::set`] parses.
    pub fn text(&self) -> String {
        match self {
            Self::Flag(flag) => if **flag { "yes" } else { "no" }.to_string(),
            Self::Percent(percent) => format!("{percent}%"),
            Self::Permille(permille, _) => (f64::from(**permille) / 10.0).to_string(),
            Self::Number(number, _) => number.to_string(),
            Self::Fraction(number, _) => number.to_string(),
            Self::SmallSize(number) => number.to_string(),
            Self::BySize(number) => {
                number.map_or_else(|| BY_SIZE.to_string(), |number| number.to_string())
            }
            Self::Time(time, _) => exact(**time),
            Self::Size(bytes, ..) => bytes.0.to_string(),
            Self::Rest(bytes) => {
                bytes.map_or_else(|| REST.to_string(), |bytes| bytes.0.to_string())
            }
            Self::Text(text) => text.to_string(),
        }
    }

    /// Parses `value`.
    ///
    /// # Errors
    /// A description of valid values.
    pub fn set(self, value: &str) -> Result<(), String> {
        match self {
            Self::Flag(flag) => {
                *flag = match value {
                    "yes" | "true" | "on" | "" => true,
                    "no" | "false" | "off" => false,
                    _ => return Err(format!("'{value}' is neither yes nor no")),
                }
            }
            Self::Percent(percent) => {
                let number = value
                    .strip_suffix('%')
                    .unwrap_or(value)
                    .trim()
                    .parse()
                    .ok()
                    .filter(|number| (1..=100).contains(number));
                *percent = number.ok_or_else(|| {
                    format!("'{value}' is not a share such as 75%, from 1% to 100%")
                })?;
            }
            Self::Permille(permille, range) => {
                *permille = libm::round(within(value, &range, "number")? * 10.0) as u32
            }
            Self::Number(number, range) => {
                number.read(&within(value, &range, "whole number")?.to_string())?
            }
            Self::Fraction(number, range) => *number = within(value, &range, "number")?,
            Self::BySize(number) => {
                *number = if value == BY_SIZE {
                    None
                } else {
                    Some(within(value, &(1..=u32::MAX), "whole number")?)
                }
            }
            Self::Time(time, range) => {
                *time = parsed(value)?;
                if !range.contains(time) {
                    return Err(format!(
                        "{value} is not from {} to {}",
                        exact(*range.start()),
                        exact(*range.end())
                    ));
                }
            }
            Self::Size(bytes, range, said) => {
                *bytes = parsed(value)?;
                if !range.contains(bytes) {
                    return Err(format!("{value} is not from {said}"));
                }
            }
            Self::SmallSize(number) => {
                let Bytes(bytes) = parsed(value)?;
                let small = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                *number = small.ok_or_else(|| format!("{value} is not from 1 byte to 4 GiB"))?;
            }
            Self::Rest(bytes) => *bytes = if value == REST { None } else { Some(parsed(value)?) },
            Self::Text(text) => text.read(value)?,
        }
        Ok(())
    }
}

fn parsed<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn within<T: FromStr + PartialOrd + Display>(
    value: &str,
    range: &RangeInclusive<T>,
    kind: &str,
) -> Result<T, String> {
    let wrong = || format!("'{value}' is not a {kind} from {} to {}", range.start(), range.end());
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_settings_apply_once_and_reject_the_rest() {
        let (mut depth, mut share) = (0_u8, 0);
        let mut given =
            GivenSettings::parse("load:", "queue_depth=7:share=12.5:dept=1", ':').unwrap();
        assert_eq!(given.set("queue-depth", Setting::Number(&mut depth, 1..=9)), Ok(true));
        assert_eq!(
            given.set("queue-depth", Setting::Number(&mut depth, 1..=9)),
            Ok(false),
            "applied before"
        );
        given.need("share", Setting::Permille(&mut share, 0.0..=100.0)).unwrap();
        assert_eq!((depth, share), (7, 125));
        let rest = given.end("a load").unwrap_err();
        assert_eq!(
            rest.to_string(),
            "load:dept: a load has no setting 'dept'; known settings: queue-depth, share"
        );
        let missing = given.need("size", Setting::Flag(&mut false)).unwrap_err();
        assert_eq!(missing.to_string(), "load:size: is missing");
    }

    #[test]
    fn given_setting_error_names_path_and_valid_values() {
        fn error(text: &str, setting: Setting<'_>) -> SettingError {
            GivenSettings::parse("load.", text, ',')
                .and_then(|mut given| given.set("a", setting))
                .unwrap_err()
        }
        for (text, expected) in [
            ("a=0", "load.a: '0' is not a whole number from 1 to 9"),
            ("a=1,a=2", "load.a: is given twice"),
        ] {
            assert_eq!(error(text, Setting::Number(&mut 5_u32, 1..=9)).to_string(), expected);
        }
        for text in ["a=nan", "a=1e400", "a=-0.1", "a="] {
            let wrong = error(text, Setting::Fraction(&mut 0.5, 0.0..=1.0));
            assert!(wrong.text.ends_with("is not a number from 0 to 1"), "{wrong}");
        }
    }
}
