//! Named settings. Each owner has one table that defines their text forms.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;
use core::ops::RangeInclusive;
use core::str::FromStr;
use trimtab_drive::units::{Bytes, Nanos, exact};

/// A setting and its name.
pub type NamedSetting<'a> = (&'static str, Setting<'a>);

/// Type of a setting and a reference to its value.
pub enum Setting<'a> {
    /// `yes` or `no`; an empty value means `yes`.
    Flag(&'a mut bool),
    /// From 1% to 100%.
    Percent(&'a mut u32),
    /// A whole number within a range.
    Number(&'a mut u32, RangeInclusive<u32>),
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
pub const ABOVE_0: RangeInclusive<u32> = 1..=u32::MAX;

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
            Self::Number(number, _) | Self::SmallSize(number) => number.to_string(),
            Self::BySize(number) => number.map_or_else(|| BY_SIZE.to_string(), |number| number.to_string()),
            Self::Time(time, _) => exact(**time),
            Self::Size(bytes, ..) => bytes.0.to_string(),
            Self::Rest(bytes) => bytes.map_or_else(|| REST.to_string(), |bytes| bytes.0.to_string()),
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
                let number = value.strip_suffix('%').unwrap_or(value).trim().parse().ok().filter(|number| (1..=100).contains(number));
                *percent = number.ok_or_else(|| format!("'{value}' is not a share such as 75%, from 1% to 100%"))?;
            }
            Self::Number(number, range) => *number = whole(value, &range)?,
            Self::BySize(number) => *number = if value == BY_SIZE { None } else { Some(whole(value, &ABOVE_0)?) },
            Self::Time(time, range) => {
                *time = parsed(value)?;
                if !range.contains(time) {
                    return Err(format!("{value} is not from {} to {}", exact(*range.start()), exact(*range.end())));
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

fn whole(value: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let wrong = || format!("'{value}' is not a whole number from {} to {}", range.start(), range.end());
    value.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}
