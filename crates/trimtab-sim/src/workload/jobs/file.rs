//! Reads fio job files: the common subset. Everything else is refused with its line.

use super::{Job, JobAddresses, JobMix, JobPace, JobSize};
use crate::workload::synthetic::Pattern;
use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;
use trimtab_drive::usage::suggest;

/// Keys that change the jobs.
const KEYS: [&str; 31] = [
    "ba",
    "blockalign",
    "blocksize",
    "bs",
    "bssplit",
    "buffer_compress_percentage",
    "fdatasync",
    "fsync",
    "io_size",
    "iodepth",
    "loops",
    "norandommap",
    "number_ios",
    "numjobs",
    "offset",
    "percentage_random",
    "ramp_time",
    "random_distribution",
    "randseed",
    "rate",
    "rate_iops",
    "readwrite",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "stonewall",
    "thinktime",
    "time_based",
    "zero_buffers",
];

/// Keys that only choose how fio calls Linux and how it reports.
const NOT_USED: [&str; 26] = [
    "allow_mounted_write",
    "buffered",
    "clat_percentiles",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "description",
    "direct",
    "directory",
    "disk_util",
    "fallocate",
    "filename",
    "fixedbufs",
    "group_reporting",
    "hipri",
    "invalidate",
    "ioengine",
    "lat_percentiles",
    "name",
    "nonvectored",
    "overwrite",
    "percentile_list",
    "randrepeat",
    "refill_buffers",
    "thread",
    "unlink",
];

/// Engines that read and write blocks of a file or device. Others truncate, create or send.
const ENGINES: [&str; 15] = [
    "io_uring",
    "io_uring_cmd",
    "libaio",
    "libblkio",
    "mmap",
    "null",
    "posixaio",
    "psync",
    "pvsync",
    "pvsync2",
    "sg",
    "splice",
    "sync",
    "vsync",
    "xnvme",
];

/// Largest number of clones of a job, and of jobs in a file.
const JOBS_MAX: u64 = 1000;

/// The jobs of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFile {
    /// Jobs in order.
    pub jobs: Vec<Job>,
    /// Keys without effect here, in order of appearance.
    pub not_used: Vec<String>,
}

/// Reason for refusing a job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFileError {
    /// Line, from 1.
    pub line: u32,
    /// Problem, and its solution.
    pub text: String,
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl core::error::Error for JobFileError {}

impl JobFile {
    /// Parses the text of a job file.
    ///
    /// # Errors
    /// A section, key, value or combination is not supported.
    pub fn parse(text: &str) -> Result<Self, JobFileError> {
        let (mut jobs, mut not_used): (Vec<Job>, Vec<String>) = (Vec::new(), Vec::new());
        let mut defaults = JobDraft::new("", 0);
        let mut current: Option<JobDraft> = None;
        let mut in_global = false;
        let mut end = 0;
        for (line, text) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
            end = line;
            let text = text.split([';', '#']).next().unwrap_or("").trim();
            let wrong = |text: String| JobFileError { line, text };
            if text.is_empty() {
                continue;
            }
            if text.starts_with('[') {
                jobs.extend(current.take().map(JobDraft::finish).transpose()?);
                let name = section(text, &jobs).map_err(wrong)?;
                in_global = name == "global";
                if !in_global {
                    let mut draft = defaults.clone();
                    (draft.job.name, draft.job.line) = (name.to_owned(), line);
                    current = Some(draft);
                }
                continue;
            }
            if text == "include" || text.starts_with("include ") {
                let advice =
                    "include is not supported; copy the settings of that file into this one";
                return Err(wrong(advice.to_owned()));
            }
            let draft = if in_global { Some(&mut defaults) } else { current.as_mut() };
            let Some(draft) = draft else {
                return Err(wrong("there is no section yet; write [NAME] first".to_owned()));
            };
            let (key, value) = text
                .split_once('=')
                .map_or((text, None), |(key, value)| (key.trim(), Some(value.trim())));
            if NOT_USED.contains(&key) {
                if !not_used.iter().any(|known| known == key) {
                    not_used.push(key.to_owned());
                }
                if key != "ioengine" {
                    continue;
                }
            }
            if let Err(text) = draft.set(line, key, value) {
                return Err(wrong(format!("{}: {text}", key.escape_debug())));
            }
        }
        jobs.extend(current.map(JobDraft::finish).transpose()?);
        check_clones(&jobs)?;
        if jobs.is_empty() {
            return Err(JobFileError {
                line: end.max(1),
                text: "the file has no job; write [NAME] before its settings".to_owned(),
            });
        }
        Ok(Self { jobs, not_used })
    }
}

/// The name in `[NAME]`: `global`, or that of a job after `jobs`.
fn section<'a>(text: &'a str, jobs: &[Job]) -> Result<&'a str, String> {
    let name = text.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(format!("'{}' is not a section; write [NAME]", text.escape_debug()));
    };
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!(
            "'{}' is not a job name; write it without spaces",
            name.escape_debug()
        ));
    }
    if jobs.iter().any(|job| job.name == name) {
        return Err(format!("there are two jobs '{name}'; rename one"));
    }
    if name != "global" && jobs.len() as u64 == JOBS_MAX {
        return Err(format!("the file has more than {JOBS_MAX} jobs; split it"));
    }
    Ok(name)
}

fn check_clones(jobs: &[Job]) -> Result<(), JobFileError> {
    let mut clones = 0;
    for job in jobs {
        clones += u64::from(job.clones);
        if clones > JOBS_MAX {
            let text =
                format!("numjobs: the jobs have more than {JOBS_MAX} clones; reduce numjobs");
            return Err(JobFileError { line: job.line, text });
        }
    }
    Ok(())
}

/// A distribution as written.
#[derive(Clone, Debug)]
enum Distribution {
    Pattern(Pattern),
    Zoned(Vec<(u8, u8)>),
}

impl Distribution {
    /// The key that does not go with this distribution of random requests, and advice.
    fn conflict(
        &self,
        repeats_addresses: bool,
        random_percent: u8,
    ) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Zoned(_) if !repeats_addresses => Some((
                "random_distribution",
                "zones are only supported without a map of used blocks; add norandommap=1",
            )),
            Self::Zoned(_) if random_percent < 100 => {
                Some(("percentage_random", "it is not supported with zones; remove one of them"))
            }
            Self::Pattern(Pattern::Uniform) if !repeats_addresses && random_percent < 100 => {
                Some((
                    "percentage_random",
                    "it is only supported without a map of used blocks; add norandommap=1",
                ))
            }
            _ => None,
        }
    }
}

/// Settings of a section before their combination.
#[derive(Clone, Debug)]
struct JobDraft {
    job: Job,
    random: bool,
    read_percent: u8,
    distribution: Distribution,
    random_percent: u8,
    repeats_addresses: bool,
    bytes_rate: Option<f64>,
    zeros: bool,
    compressible: Option<u8>,
    /// Lines of the keys.
    lines: BTreeMap<String, u32>,
}

impl JobDraft {
    fn new(name: &str, line: u32) -> Self {
        Self {
            job: Job { line, ..Job::new(name) },
            random: false,
            read_percent: 50,
            distribution: Distribution::Pattern(Pattern::Uniform),
            random_percent: 100,
            repeats_addresses: false,
            bytes_rate: None,
            zeros: false,
            compressible: None,
            lines: BTreeMap::new(),
        }
    }

    fn set(&mut self, line: u32, key: &str, value: Option<&str>) -> Result<(), String> {
        let job = &mut self.job;
        let given = || {
            value
                .filter(|value| !value.is_empty())
                .ok_or_else(|| format!("it needs a value; write {key}=VALUE"))
        };
        match key {
            "rw" | "readwrite" => (job.mix, self.random) = mix(given()?)?,
            "rwmixread" => self.read_percent = percent(given()?)?,
            "rwmixwrite" => self.read_percent = 100 - percent(given()?)?,
            "bs" | "blocksize" => (job.block, job.split) = (block(given()?)?, Vec::new()),
            "bssplit" => {
                job.split = split(given()?)?;
                job.block = job.split.iter().map(|(size, _)| *size).max().unwrap_or(0);
            }
            "blockalign" | "ba" => job.align = block(given()?)?,
            "iodepth" => job.depth = number(given()?, 1, 65_536)? as u32,
            "size" => job.size = Some(space(given()?)?),
            "offset" => job.offset = space(given()?)?,
            "io_size" => job.io_size = Some(bytes(given()?)?).filter(|bytes| *bytes > 0),
            "number_ios" => {
                job.requests_max =
                    Some(number(given()?, 0, u64::MAX)?).filter(|requests| *requests > 0)
            }
            "rate_iops" => job.pace = JobPace::Even(rate(given()?)?),
            "rate" => self.bytes_rate = Some(rate(given()?)?),
            "random_distribution" => self.distribution = distribution(given()?)?,
            "percentage_random" => self.random_percent = percent(given()?)?,
            "norandommap" => self.repeats_addresses = flag(value)?,
            "ramp_time" => job.ramp = time(given()?, Nanos::from_secs(1))?,
            "runtime" => {
                job.runtime =
                    Some(time(given()?, Nanos::from_secs(1))?).filter(|time| *time > Nanos::ZERO)
            }
            "time_based" => job.time_based = flag(value)?,
            "loops" => job.loops = number(given()?, 1, u64::from(u32::MAX))?,
            "fsync" | "fdatasync" => job.flush_every = number(given()?, 0, u64::from(u32::MAX))?,
            "zero_buffers" => self.zeros = flag(value)?,
            "buffer_compress_percentage" => self.compressible = Some(percent(given()?)?),
            "randseed" => job.seed = Some(number(given()?, 0, u64::MAX)?),
            "stonewall" | "wait_for_previous" => job.waits = flag(value)?,
            "thinktime" => job.pause = time(given()?, Nanos::from_micros(1))?,
            "ioengine" => {
                let engine = given()?;
                if !ENGINES.contains(&engine) {
                    let advice = format!("write one of {}", ENGINES.join(", "));
                    return Err(unknown(engine, &advice));
                }
            }
            "numjobs" => job.clones = number(given()?, 1, JOBS_MAX)? as u32,
            _ => {
                return Err(format!(
                    "this key is not supported; remove it ({})",
                    suggest(key, "keys", &KEYS)
                ));
            }
        }
        self.lines.insert(key.to_owned(), line);
        Ok(())
    }

    /// The job of all settings together.
    fn finish(self) -> Result<Job, JobFileError> {
        let Self {
            mut job,
            random,
            read_percent,
            distribution,
            random_percent,
            repeats_addresses,
            bytes_rate,
            zeros,
            compressible,
            lines,
        } = self;
        let wrong = |key: &str, text: &str| {
            let line = lines.get(key).copied().unwrap_or(job.line);
            Err(JobFileError { line, text: format!("{key}: {text}") })
        };
        if job.time_based && job.runtime.is_none() {
            return wrong("time_based", "it needs an end; add runtime=TIME");
        }
        if job.time_based && job.requests_max.is_some() {
            return wrong("number_ios", "fio ignores it with time_based; remove one of them");
        }
        if !job.split.is_empty() {
            if !random || !repeats_addresses || job.mix == JobMix::TrimWrite {
                return wrong(
                    "bssplit",
                    "it is only supported for random requests without a map of used blocks, \
                        except trimwrite; set rw=randwrite, randread or randrw and add \
                        norandommap=1",
                );
            }
            if bytes_rate.is_some() {
                return wrong("rate", "it is not supported with bssplit; set rate_iops");
            }
        } else if job.io_size.is_some_and(|bytes| bytes % u64::from(job.block) != 0) {
            return wrong("io_size", "it is not a multiple of bs; set a multiple");
        }
        if let Some(per_second) = bytes_rate {
            if job.pace != JobPace::Unlimited {
                return wrong("rate", "it excludes rate_iops; remove one of them");
            }
            job.pace = JobPace::Even(per_second / f64::from(job.block));
        }
        if let JobMix::ReadWrite(percent) = &mut job.mix {
            *percent = read_percent;
        }
        if random
            && let Some((key, text)) = distribution.conflict(repeats_addresses, random_percent)
        {
            return wrong(key, text);
        }
        job.addresses = match distribution {
            _ if !random => JobAddresses::Sequential,
            Distribution::Zoned(zones) => JobAddresses::Zoned(zones),
            Distribution::Pattern(Pattern::Uniform) if !repeats_addresses => {
                JobAddresses::Drawn(Pattern::Shuffled, 100)
            }
            Distribution::Pattern(pattern) => JobAddresses::Drawn(pattern, random_percent),
        };
        job.data = match compressible {
            _ if zeros => Some(DataClass::Zero),
            Some(percent) => Some(DataClass::Compressible(percent)),
            None => None,
        };
        Ok(job)
    }
}

fn mix(text: &str) -> Result<(JobMix, bool), String> {
    const KINDS: [(&str, JobMix, bool); 11] = [
        ("read", JobMix::Read, false),
        ("write", JobMix::Write, false),
        ("trim", JobMix::Trim, false),
        ("rw", JobMix::ReadWrite(50), false),
        ("readwrite", JobMix::ReadWrite(50), false),
        ("randread", JobMix::Read, true),
        ("randwrite", JobMix::Write, true),
        ("randtrim", JobMix::Trim, true),
        ("randrw", JobMix::ReadWrite(50), true),
        ("trimwrite", JobMix::TrimWrite, false),
        ("randtrimwrite", JobMix::TrimWrite, true),
    ];
    let known = KINDS.iter().find(|(name, ..)| *name == text);
    known.map(|(_, mix, random)| (*mix, *random)).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|(name, ..)| *name).collect();
        unknown(text, &format!("write one of {}", names.join(", ")))
    })
}

fn unknown(text: &str, advice: &str) -> String {
    format!("'{}' is not supported; {advice}", text.escape_debug())
}

fn flag(value: Option<&str>) -> Result<bool, String> {
    match value {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => Err(unknown(other, "write 0 or 1")),
    }
}

fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let advice = || unknown(text, &format!("write a whole number from {least} to {most}"));
    text.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(advice)
}

fn percent(text: &str) -> Result<u8, String> {
    text.strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| unknown(text, "write at most 100"))
}

/// A number of bytes with fio's suffixes: `k`, `ki` and `kb` are 1024, `kib` is 1000.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || unknown(text, "write one size such as 4k, 1m or 10g");
    let lower = text.to_lowercase();
    let (digits, suffix) =
        lower.split_at(lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len()));
    let power = |letter: &str| "kmgtp".find(letter).map(|at| at as u32 + 1);
    let factor = match suffix.len() {
        0 => Some(1),
        1 if suffix == "b" => Some(1),
        _ if !suffix.is_ascii() => None,
        _ => power(&suffix[..1]).and_then(|power| match &suffix[1..] {
            "" | "i" | "b" => Some(1024_u64.pow(power)),
            "ib" => Some(1000_u64.pow(power)),
            _ => None,
        }),
    };
    digits
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .ok_or_else(wrong)
}

fn block(text: &str) -> Result<u32, String> {
    let small = u32::try_from(bytes(text)?).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
    small.ok_or_else(|| unknown(text, "write one size from 1 byte to 1g"))
}

/// Sizes with percentages of the requests.
fn split(text: &str) -> Result<Vec<(u32, u8)>, String> {
    let one = |part: &str| {
        let (size, share) = part.split_once('/')?;
        Some((block(size).ok()?, share.parse().ok()?))
    };
    let sizes: Option<Vec<(u32, u8)>> = text.split(':').map(one).collect();
    sizes
        .filter(|sizes| sizes.iter().map(|(_, share)| u32::from(*share)).sum::<u32>() == 100)
        .ok_or_else(|| {
            unknown(text, "write SIZE/PERCENT:SIZE/PERCENT…, percentages that add up to 100")
        })
}

fn space(text: &str) -> Result<JobSize, String> {
    if text.ends_with('%') {
        percent(text).map(JobSize::Percent)
    } else {
        bytes(text).map(JobSize::Bytes)
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match bytes(text)? {
        0 => Err(unknown(text, "write a rate above 0")),
        rate => Ok(rate as f64),
    }
}

/// A time with fio's suffixes; without one in `unit`.
fn time(text: &str, unit: Nanos) -> Result<Nanos, String> {
    let wrong = || unknown(text, "write a time such as 30s, 500ms or 5m");
    let (digits, suffix) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match suffix {
        "" => unit.0,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(wrong()),
    };
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .map(Nanos)
        .ok_or_else(wrong)
}

fn distribution(text: &str) -> Result<Distribution, String> {
    let (kind, value) = text.split_once(':').unwrap_or((text, ""));
    let within = |default: f64, range: core::ops::Range<f64>, advice: &str| {
        let number = if value.is_empty() { Some(default) } else { value.parse().ok() };
        number
            .filter(|number| *number > range.start && *number < range.end)
            .ok_or_else(|| unknown(text, advice))
    };
    match kind {
        "random" if value.is_empty() => Ok(Distribution::Pattern(Pattern::Uniform)),
        "zipf" => {
            let theta = within(1.1, 0.0..10.0, "write zipf:EXPONENT, above 0 and below 10")?;
            Ok(Distribution::Pattern(Pattern::Zipf { theta }))
        }
        "pareto" => {
            let power = within(0.2, 0.0..1.0, "write pareto:SHARE, above 0 and below 1")?;
            Ok(Distribution::Pattern(Pattern::Pareto { share: power }))
        }
        "zoned" => zones(value).ok_or_else(|| {
            unknown(
                text,
                "write zoned:REQUESTS/SPACE:REQUESTS/SPACE…, percentages above 0 that \
                each add up to 100",
            )
        }),
        _ => Err(unknown(
            text,
            "write random, zipf:EXPONENT, pareto:SHARE or zoned:REQUESTS/SPACE:…",
        )),
    }
}

fn zones(text: &str) -> Option<Distribution> {
    let zone = |text: &str| {
        let (requests, space) = text.split_once('/')?;
        Some((requests.parse::<u8>().ok()?, space.parse::<u8>().ok().filter(|space| *space > 0)?))
    };
    let zones: Vec<(u8, u8)> = text.split(':').map(zone).collect::<Option<_>>()?;
    let sum = |of: fn(&(u8, u8)) -> u8| zones.iter().map(|zone| u32::from(of(zone))).sum::<u32>();
    (sum(|zone| zone.0) == 100 && sum(|zone| zone.1) == 100).then_some(Distribution::Zoned(zones))
}
