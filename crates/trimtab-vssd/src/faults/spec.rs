//! Fault specifications: `--fault write-error:p=0.001`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;
use trimtab_drive::Extent;
use trimtab_drive::named;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::setting::{GivenSettings, Setting};

named! {
    "kind of request"
    /// The requests that a fault affects.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RequestFilter {
        /// Reads.
        Read = "read",
        /// Writes and zero-writes.
        Write = "write",
        /// TRIM.
        Trim = "trim",
        /// Flushes.
        Flush = "flush",
        /// All requests.
        Any = "any",
    }
}

impl RequestFilter {
    /// `self` covers requests of `kind`.
    pub fn includes(self, kind: Self) -> bool {
        self == Self::Any || self == kind
    }
}

/// The condition under which a matching request is hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// With this probability.
    Chance(f64),
    /// If it overlaps this range.
    Range(Extent),
}

/// The drive's misbehaviour on TRIM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TrimLie {
    /// Reports success and does nothing: data and mapping stay.
    Ignore,
    /// Obeys for this share of the ranges, chosen at random, and ignores the others.
    Half(f64),
    /// Drops the mapping, but reads still return the old data.
    Stale,
    /// Reads of trimmed space return this byte.
    Pattern(u8),
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The power fails on `trimtab drive power cut`: every later request fails, and the
    /// volatile cache is lost.
    PowerCut {
        /// The requests that `--within` counts.
        on: RequestFilter,
        /// Share of the volatile pages that reach the flash anyway, decided page by page.
        keep: f64,
    },
    /// Requests fail with an I/O error.
    Error {
        /// The affected requests.
        on: RequestFilter,
        /// The condition.
        when: Trigger,
    },
    /// Requests take longer.
    Latency {
        /// The affected requests.
        on: RequestFilter,
        /// Probability.
        chance: f64,
        /// Additional latency.
        add: Duration,
    },
    /// Misbehaviour on TRIM.
    Trim(TrimLie),
    /// Flushes are acknowledged but not carried out.
    IgnoreFlush,
}

/// Default share of volatile pages that survive a power cut.
pub const KEEP_DEFAULT: f64 = 0.5;

const SHARE: RangeInclusive<f64> = 0.0..=1.0;

/// Grammar of fault specifications, for help and error messages.
pub const GRAMMAR: &str = "  power-cut[:on=KIND][,keep=SHARE]
      'trimtab drive power DRIVE cut' keeps SHARE (0 to 1) of the cached pages [0.5]; its --within
      counts requests of KIND [any]. Without this fault, writes before a cut are safe
  read-error|write-error|trim-error|flush-error:p=P|range=OFFSET+LENGTH
      with probability P, or in a range
  latency:p=P,add=TIME[,on=KIND]
      requests of KIND (read, write, trim, flush or any) take TIME longer with probability P
  trim:ignore|half[=SHARE]|stale|pattern=BYTE
      TRIM obeyed not at all, in part, or not seen by reads
  flush:ignore
      flushes answered but not carried out";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut given = GivenSettings::parse(format!("{kind}:"), rest, ',')?;
        let fault = match kind {
            "power-cut" => {
                let mut keep = KEEP_DEFAULT;
                given.set("keep", Setting::Fraction(&mut keep, SHARE))?;
                Self::PowerCut { on: on(&mut given)?, keep }
            }
            "read-error" => Self::error(RequestFilter::Read, &mut given)?,
            "write-error" => Self::error(RequestFilter::Write, &mut given)?,
            "trim-error" => Self::error(RequestFilter::Trim, &mut given)?,
            "flush-error" => Self::error(RequestFilter::Flush, &mut given)?,
            "latency" => {
                let (mut chance, mut add) = (0.0, Nanos::ZERO);
                given.need("p", Setting::Fraction(&mut chance, SHARE))?;
                given.need("add", Setting::time(&mut add))?;
                Self::Latency { chance, add: Duration::from_nanos(add.0), on: on(&mut given)? }
            }
            "trim" => return trim_lie(rest).map(Self::Trim),
            "flush" if given.option::<String>("ignore")?.is_some() => Self::IgnoreFlush,
            _ => return Err(format!("'{text}' is not a fault; these are:\n{GRAMMAR}")),
        };
        given.end(&format!("fault {kind}"))?;
        Ok(fault)
    }
}

impl Fault {
    fn error(on: RequestFilter, given: &mut GivenSettings<'_>) -> Result<Self, String> {
        let mut p = 0.0;
        let when = match (
            given.set("p", Setting::Fraction(&mut p, SHARE))?,
            given.option::<String>("range")?,
        ) {
            (true, None) => Trigger::Chance(p),
            (false, Some(range)) => {
                let (offset, len) = range
                    .split_once('+')
                    .ok_or_else(|| format!("a range is OFFSET+LENGTH, not '{range}'"))?;
                let extent = Extent { offset: size(offset)?, len: size(len)? };
                extent
                    .offset
                    .checked_add(extent.len)
                    .ok_or_else(|| format!("the range {range} ends beyond 2^64 bytes"))?;
                Trigger::Range(extent)
            }
            _ => return Err("an error takes p=P or range=OFFSET+LENGTH".to_owned()),
        };
        Ok(Self::Error { on, when })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PowerCut { on: RequestFilter::Any, keep } => write!(f, "power-cut:keep={keep}"),
            Self::PowerCut { on, keep } => write!(f, "power-cut:keep={keep},on={on}"),
            Self::Error { on, when: Trigger::Chance(p) } => write!(f, "{on}-error:p={p}"),
            Self::Error { on, when: Trigger::Range(range) } => {
                write!(f, "{on}-error:range={}+{}", range.offset, range.len)
            }
            Self::Latency { on, chance, add } => {
                write!(f, "latency:p={chance},add={}ns,on={on}", add.as_nanos())
            }
            Self::Trim(TrimLie::Ignore) => f.write_str("trim:ignore"),
            Self::Trim(TrimLie::Half(share)) => write!(f, "trim:half={share}"),
            Self::Trim(TrimLie::Stale) => f.write_str("trim:stale"),
            Self::Trim(TrimLie::Pattern(byte)) => write!(f, "trim:pattern={byte}"),
            Self::IgnoreFlush => f.write_str("flush:ignore"),
        }
    }
}

fn on(given: &mut GivenSettings<'_>) -> Result<RequestFilter, String> {
    Ok(given.option("on")?.unwrap_or(RequestFilter::Any))
}

fn trim_lie(text: &str) -> Result<TrimLie, String> {
    match text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value))) {
        ("ignore", None) => Ok(TrimLie::Ignore),
        ("stale", None) => Ok(TrimLie::Stale),
        ("half", share) => {
            let mut obeyed = 0.5;
            share.map_or(Ok(()), |share| Setting::Fraction(&mut obeyed, SHARE).set(share))?;
            Ok(TrimLie::Half(obeyed))
        }
        ("pattern", Some(byte)) => byte
            .strip_prefix("0x")
            .map_or_else(|| byte.parse(), |hex| u8::from_str_radix(hex, 16))
            .map(TrimLie::Pattern)
            .map_err(|_| format!("pattern={byte} is not a byte such as 0xA5")),
        _ => Err("trim takes one of ignore, half, stale, pattern=BYTE".to_owned()),
    }
}

fn size(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|bytes| bytes.0).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_round_trips_through_text() {
        for text in [
            "power-cut:keep=0.5",
            "power-cut:keep=0,on=flush",
            "read-error:p=0.001",
            "write-error:range=4096+8192",
            "latency:p=0.5,add=500000000ns,on=any",
            "trim:ignore",
            "trim:half=0.25",
            "trim:stale",
            "trim:pattern=165",
            "flush:ignore",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        assert_eq!("trim:pattern=0xA5".parse(), Ok(Fault::Trim(TrimLie::Pattern(0xA5))));
    }

    #[test]
    fn parse_of_wrong_fault_names_the_error() {
        for (text, expected) in [
            ("explode", "is not a fault"),
            ("power-cut:keep=2", "power-cut:keep: '2' is not a number from 0 to 1"),
            ("read-error", "takes p=P or range"),
            ("read-error:p=2", "read-error:p: '2' is not a number from 0 to 1"),
            ("read-error:p=0.1,p=0.2", "given twice"),
            ("read-error:range=5", "OFFSET+LENGTH"),
            ("latency:p=0.1", "latency:add: is missing"),
            ("latency:p=0.1,add=5", "not a duration"),
            ("trim:ignore,stale", "one of"),
            ("trim:pattern=300", "not a byte"),
            ("latency:p=0.1,add=1ms,x=1", "fault latency has no setting 'x'"),
            ("latency:p=0.1,add=1ms,on=x", "kind of request"),
            ("flush", "is not a fault"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
