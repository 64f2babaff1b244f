//! Fault specifications: `--fault write-error:p=0.001`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use trimtab_drive::Extent;
use trimtab_drive::units::{Bytes, Nanos};

/// The requests that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFilter {
    /// Reads.
    Read,
    /// Writes and zero-writes.
    Write,
    /// TRIM.
    Trim,
    /// Flushes.
    Flush,
    /// All requests.
    Any,
}

impl RequestFilter {
    const ALL: [(&'static str, Self); 5] =
        [("read", Self::Read), ("write", Self::Write), ("trim", Self::Trim), ("flush", Self::Flush), ("any", Self::Any)];

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
    /// Some blocks of the drive are no longer writable.
    WornOut {
        /// Share of such blocks, decided block by block.
        share: f64,
        /// Size of a block in bytes.
        block: u64,
    },
    /// The drive becomes read-only after this many bytes.
    ReadOnly {
        /// Bytes written until then.
        after: u64,
    },
}

/// Default share of volatile pages that survive a power cut.
pub const KEEP_DEFAULT: f64 = 0.5;

/// Grammar of fault specifications, for help and error messages.
pub const GRAMMAR: &str = "  power-cut[:at=N|within=N][,on=KIND][,keep=SHARE]   the N-th request, or a random one of the first N; without
                                                     either, 'trimtab drive power DRIVE cut' does (which
                                                     works without this, too; writes before it are then safe)
  read-error|write-error|trim-error|flush-error:p=P|range=OFFSET+LENGTH[,after=N]
  latency:p=P,add=TIME[,on=KIND]                     KIND is read, write, trim, flush or any
  trim:ignore|half[=SHARE]|stale|pattern=BYTE        TRIM obeyed not at all, in part, or not seen by reads
  flush:ignore                                       flushes answered but not carried out
  worn-out:share=SHARE[,block=SIZE]                  blocks that can no longer be written
  read-only:after=SIZE                               end of life once SIZE has been written";

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut options = FaultOptions::parse(rest)?;
        let fault = match kind {
            "power-cut" => {
                let cut = match (options.take("at"), options.take("within")) {
                    (None, None) => PowerCutMoment::OnDemand,
                    (Some(n), None) => PowerCutMoment::At(positive(&n)?),
                    (None, Some(n)) => PowerCutMoment::Within(positive(&n)?),
                    (Some(_), Some(_)) => return Err("power-cut takes at=N or within=N, not both".to_owned()),
                };
                let keep = options.take("keep").map_or(Ok(KEEP_DEFAULT), |share| probability(&share))?;
                Self::PowerCut { cut, on: options.on()?, keep }
            }
            "read-error" => Self::error(RequestFilter::Read, &mut options)?,
            "write-error" => Self::error(RequestFilter::Write, &mut options)?,
            "trim-error" => Self::error(RequestFilter::Trim, &mut options)?,
            "flush-error" => Self::error(RequestFilter::Flush, &mut options)?,
            "latency" => Self::Latency {
                chance: probability(&options.need("p")?)?,
                add: options.need("add")?.parse::<Nanos>().map_err(|error| error.to_string()).map(|add| Duration::from_nanos(add.0))?,
                on: options.on()?,
            },
            "trim" => Self::Trim(trim_lie(&mut options)?),
            "flush" if options.take("ignore").is_some() => Self::IgnoreFlush,
            "worn-out" => {
                let block = options.take("block").map_or(Ok(1 << 20), |block| size(&block))?;
                if block < 512 {
                    return Err("a block has at least 512 bytes".to_owned());
                }
                Self::WornOut { share: probability(&options.need("share")?)?, block }
            }
            "read-only" => Self::ReadOnly { after: size(&options.need("after")?)? },
            _ => return Err(format!("'{text}' is not a fault; these are:\n{GRAMMAR}")),
        };
        options.done()?;
        Ok(fault)
    }
}

impl Fault {
    fn error(on: RequestFilter, options: &mut FaultOptions) -> Result<Self, String> {
        let when = match (options.take("p"), options.take("range")) {
            (Some(p), None) => Trigger::Chance(probability(&p)?),
            (None, Some(range)) => {
                let (offset, len) = range.split_once('+').ok_or_else(|| format!("a range is OFFSET+LENGTH, not '{range}'"))?;
                let extent = Extent { offset: size(offset)?, len: size(len)? };
                extent.offset.checked_add(extent.len).ok_or_else(|| format!("the range {range} ends beyond 2^64 bytes"))?;
                Trigger::Range(extent)
            }
            _ => return Err("an error takes p=P or range=OFFSET+LENGTH".to_owned()),
        };
        let after = options.take("after").map_or(Ok(0), |n| n.parse().map_err(|_| format!("after={n} is not a number")))?;
        Ok(Self::Error { on, when, after })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |on: RequestFilter| RequestFilter::ALL.iter().find(|(_, other)| *other == on).map_or("any", |(name, _)| *name);
        match *self {
            Self::PowerCut { cut, on, keep } => {
                match cut {
                    PowerCutMoment::OnDemand => write!(f, "power-cut:keep={keep}")?,
                    PowerCutMoment::At(n) => write!(f, "power-cut:at={n},keep={keep}")?,
                    PowerCutMoment::Within(n) => write!(f, "power-cut:within={n},keep={keep}")?,
                }
                if on == RequestFilter::Any { Ok(()) } else { write!(f, ",on={}", name(on)) }
            }
            Self::Error { on, when, after } => {
                match when {
                    Trigger::Chance(p) => write!(f, "{}-error:p={p}", name(on))?,
                    Trigger::Range(range) => write!(f, "{}-error:range={}+{}", name(on), range.offset, range.len)?,
                }
                if after == 0 { Ok(()) } else { write!(f, ",after={after}") }
            }
            Self::Latency { on, chance, add } => write!(f, "latency:p={chance},add={}ns,on={}", add.as_nanos(), name(on)),
            Self::Trim(TrimLie::Ignore) => f.write_str("trim:ignore"),
            Self::Trim(TrimLie::Half(share)) => write!(f, "trim:half={share}"),
            Self::Trim(TrimLie::Stale) => f.write_str("trim:stale"),
            Self::Trim(TrimLie::Pattern(byte)) => write!(f, "trim:pattern={byte}"),
            Self::IgnoreFlush => f.write_str("flush:ignore"),
            Self::WornOut { share, block } => write!(f, "worn-out:share={share},block={block}"),
            Self::ReadOnly { after } => write!(f, "read-only:after={after}"),
        }
    }
}

/// `key=value` or `key`, separated by commas.
struct FaultOptions(Vec<(String, String)>);

impl FaultOptions {
    fn parse(text: &str) -> Result<Self, String> {
        let mut found: Vec<(String, String)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if found.iter().any(|(other, _)| other == key) {
                return Err(format!("'{key}' is given twice"));
            }
            found.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self(found))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        let index = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.remove(index).1)
    }

    fn need(&mut self, key: &str) -> Result<String, String> {
        self.take(key).ok_or_else(|| format!("'{key}=' is missing"))
    }

    fn on(&mut self) -> Result<RequestFilter, String> {
        let Some(name) = self.take("on") else { return Ok(RequestFilter::Any) };
        let found = RequestFilter::ALL.iter().find(|(other, _)| *other == name).map(|(_, on)| *on);
        found.ok_or_else(|| format!("on= takes read, write, trim, flush or any, not '{name}'"))
    }

    fn done(self) -> Result<(), String> {
        match self.0.first() {
            Some((key, _)) => Err(format!("'{key}' does not belong here; faults are\n{GRAMMAR}")),
            None => Ok(()),
        }
    }
}

fn trim_lie(options: &mut FaultOptions) -> Result<TrimLie, String> {
    let mut found = Vec::new();
    if options.take("ignore").is_some() {
        found.push(TrimLie::Ignore);
    }
    if let Some(share) = options.take("half") {
        found.push(TrimLie::Half(if share.is_empty() { 0.5 } else { probability(&share)? }));
    }
    if options.take("stale").is_some() {
        found.push(TrimLie::Stale);
    }
    if let Some(byte) = options.take("pattern") {
        let parsed = byte.strip_prefix("0x").map_or_else(|| byte.parse(), |hex| u8::from_str_radix(hex, 16));
        found.push(TrimLie::Pattern(parsed.map_err(|_| format!("pattern={byte} is not a byte such as 0xA5"))?));
    }
    match found.as_slice() {
        [lie] => Ok(*lie),
        _ => Err("trim takes one of ignore, half, stale, pattern=BYTE".to_owned()),
    }
}

fn probability(text: &str) -> Result<f64, String> {
    let valid = |p: &f64| (0.0..=1.0).contains(p);
    text.parse().ok().filter(valid).ok_or_else(|| format!("'{text}' is not a share from 0 to 1"))
}

fn positive(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| format!("'{text}' is not a number from 1"))
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
            "worn-out:share=0.01,block=1048576",
            "read-only:after=1000000",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        assert_eq!("trim:pattern=0xA5".parse(), Ok(Fault::Trim(TrimLie::Pattern(0xA5))));
    }

    #[test]
    fn parse_of_wrong_fault_names_the_error() {
        for (text, expected) in [
            ("explode", "is not a fault"),
            ("power-cut:at=0", "not a number from 1"),
            ("power-cut:at=1,within=2", "not both"),
            ("read-error", "takes p=P or range"),
            ("read-error:p=2", "not a share"),
            ("read-error:p=0.1,p=0.2", "given twice"),
            ("read-error:range=5", "OFFSET+LENGTH"),
            ("latency:p=0.1", "'add=' is missing"),
            ("latency:p=0.1,add=5", "not a duration"),
            ("trim:ignore,stale", "one of"),
            ("trim:pattern=300", "not a byte"),
            ("read-only:after=1MB,x=1", "does not belong here"),
            ("flush", "is not a fault"),
        ] {
            let error = text.parse::<Fault>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
