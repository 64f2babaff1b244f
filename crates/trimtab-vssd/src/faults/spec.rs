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

/// The moment of a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerCutMoment {
    /// Only on `trimtab drive power cut`.
    OnDemand,
    /// At this request.
    At(u64),
    /// At one of this many requests, chosen at random.
    Within(u64),
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// The power fails: every later request fails, and the volatile cache is lost.
    PowerCut {
        /// The moment.
        cut: PowerCutMoment,
        /// The requests that are counted.
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
        /// Number of hits that succeed first.
        after: u64,
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
pub const GRAMMAR: &str = "  power-cut[:at=N|within=N][,on=KIND][,keep=SHARE]   the N-th request, or a random one of the first N; without
                                                     either, 'trimtab drive power DRIVE cut' does (which
                                                     works without this, too; writes before it are then safe)
  read-error|write-error|trim-error|flush-error:p=P|range=OFFSET+LENGTH[,after=N]
  latency:p=P,add=TIME[,on=KIND]                     KIND is read, write, trim, flush or any
  trim:ignore|half[=SHARE]|stale|pattern=BYTE        TRIM obeyed not at all, in part, or not seen by reads
  flush:ignore                                       flushes answered but not carried out";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut given = GivenSettings::parse(format!("{kind}:"), rest, ',')?;
        let fault = match kind {
            "power-cut" => {
                let (mut at, mut within, mut keep) = (0_u64, 0_u64, KEEP_DEFAULT);
                let is_given = (
                    given.set("at", Setting::Number(&mut at, 1..=u64::MAX))?,
                    given.set("within", Setting::Number(&mut within, 1..=u64::MAX))?,
                );
                let cut = match is_given {
                    (false, false) => PowerCutMoment::OnDemand,
                    (true, false) => PowerCutMoment::At(at),
                    (false, true) => PowerCutMoment::Within(within),
                    (true, true) => {
                        return Err("power-cut takes at=N or within=N, not both".to_owned());
                    }
                };
                given.set("keep", Setting::Fraction(&mut keep, SHARE))?;
                Self::PowerCut { cut, on: on(&mut given)?, keep }
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
            "trim" => Self::Trim(trim_lie(&mut given)?),
            "flush" if given.option::<String>("ignore")?.is_some() => Self::IgnoreFlush,
            _ => return Err(format!("'{text}' is not a fault; these are:\n{GRAMMAR}")),
        };
        given.end(&format!("fault {kind}"))?;
        Ok(fault)
    }
}

impl Fault {
    fn error(on: RequestFilter, given: &mut GivenSettings<'_>) -> Result<Self, String> {
        let (mut p, mut after) = (0.0, 0_u64);
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
        given.set("after", Setting::Number(&mut after, 0..=u64::MAX))?;
        Ok(Self::Error { on, when, after })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PowerCut { cut, on, keep } => {
                match cut {
                    PowerCutMoment::OnDemand => write!(f, "power-cut:keep={keep}")?,
                    PowerCutMoment::At(n) => write!(f, "power-cut:at={n},keep={keep}")?,
                    PowerCutMoment::Within(n) => write!(f, "power-cut:within={n},keep={keep}")?,
                }
                if on == RequestFilter::Any { Ok(()) } else { write!(f, ",on={on}") }
            }
            Self::Error { on, when, after } => {
                match when {
                    Trigger::Chance(p) => write!(f, "{on}-error:p={p}")?,
                    Trigger::Range(range) => {
                        write!(f, "{on}-error:range={}+{}", range.offset, range.len)?
                    }
                }
                if after == 0 { Ok(()) } else { write!(f, ",after={after}") }
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

fn trim_lie(given: &mut GivenSettings<'_>) -> Result<TrimLie, String> {
    let (mut ignore, mut stale, mut share) = (false, false, 0.5);
    given.apply([("ignore", Setting::Flag(&mut ignore)), ("stale", Setting::Flag(&mut stale))])?;
    let half = given.option::<String>("half")?;
    if let Some(text) = half.as_ref().filter(|text| !text.is_empty()) {
        Setting::Fraction(&mut share, SHARE).set(text)?;
    }
    let parsed = |byte: &str| {
        byte.strip_prefix("0x").map_or_else(|| byte.parse(), |hex| u8::from_str_radix(hex, 16))
    };
    let wrong = |byte| move |_| format!("pattern={byte} is not a byte such as 0xA5");
    let pattern = given
        .option::<String>("pattern")?
        .map(|byte| parsed(&byte).map_err(wrong(byte)))
        .transpose()?;
    match (ignore, half.is_some(), stale, pattern) {
        (true, false, false, None) => Ok(TrimLie::Ignore),
        (false, true, false, None) => Ok(TrimLie::Half(share)),
        (false, false, true, None) => Ok(TrimLie::Stale),
        (false, false, false, Some(byte)) => Ok(TrimLie::Pattern(byte)),
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
            "power-cut:at=7,keep=0,on=flush",
            "power-cut:within=100,keep=1",
            "read-error:p=0.001",
            "write-error:range=4096+8192,after=3",
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
            ("power-cut:at=0", "power-cut:at: '0' is not a whole number from 1"),
            ("power-cut:at=1,within=2", "not both"),
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
