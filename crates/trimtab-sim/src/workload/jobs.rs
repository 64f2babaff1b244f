//! Jobs as fio defines them: addresses, mix, rate and limits of independent streams of
//! requests.

mod file;
pub mod load;

pub use file::{JobFile, JobFileError};

use crate::workload::Limit;
use crate::workload::crystal::ASSUMED_RATE;
use crate::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::{Stream, derive_seed};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent, Ranges};

/// Kinds of requests of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobMix {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims.
    Trim,
    /// This percentage of reads, drawn for each request; the rest are writes.
    ReadWrite(u8),
    /// A trim, then a write of the same range.
    TrimWrite,
}

impl JobMix {
    /// Reads and writes with this percentage of reads.
    #[must_use]
    pub const fn of_reads(percent: u8) -> Self {
        match percent {
            0 => Self::Write,
            100 => Self::Read,
            percent => Self::ReadWrite(percent),
        }
    }
}

/// Addresses of a job's requests.
#[derive(Clone, Debug, PartialEq)]
pub enum JobAddresses {
    /// In order, separately for reads and writes.
    Sequential,
    /// Drawn from a pattern; this percentage of the requests, the others follow the last
    /// request.
    Drawn(Pattern, u8),
    /// Zones in order of address: percentage of the requests, percentage of the space.
    /// Uniform within each zone.
    Zoned(Vec<(u8, u8)>),
}

/// Size of a job's space or offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobSize {
    /// Bytes.
    Bytes(u64),
    /// Percentage of the target.
    Percent(u8),
}

impl JobSize {
    fn of(self, target: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(target) * u128::from(percent) / 100) as u64,
        }
    }
}

/// Times of a job's requests, as far as its queue depth allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobPace {
    /// At once.
    Unlimited,
    /// This many requests of each kind per second, at equal intervals.
    Even(f64),
    /// This many requests per second, at intervals drawn from an exponential
    /// distribution.
    Random(f64),
}

/// A job. Its clones run at the same time on the same space.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name.
    pub name: String,
    /// Line of its section, for messages.
    pub line: u32,
    /// True if it starts after all jobs before it have ended.
    pub waits: bool,
    /// Number of clones.
    pub clones: u32,
    /// Kinds of requests.
    pub mix: JobMix,
    /// Addresses.
    pub addresses: JobAddresses,
    /// Size of requests; with `split` the largest.
    pub block: u32,
    /// Sizes of requests with percentages that add up to 100; empty if all have `block`.
    pub split: Vec<(u32, u8)>,
    /// Alignment of offsets; 0 for the smallest size.
    pub align: u32,
    /// Offset of the first sequential request within the space, in whole requests.
    pub starts: u64,
    /// Requests in flight.
    pub depth: u32,
    /// First byte of the space.
    pub offset: JobSize,
    /// Size of the space; `None` for the rest of the target.
    pub size: Option<JobSize>,
    /// Bytes to transfer; `None` for the size of the space.
    pub io_size: Option<u64>,
    /// Largest number of requests.
    pub requests_max: Option<u64>,
    /// Repetitions.
    pub loops: u64,
    /// End after this time, measured from the end of the ramp time.
    pub runtime: Option<Nanos>,
    /// True if the job repeats until its runtime is over.
    pub time_based: bool,
    /// Initial time that is not recorded.
    pub ramp: Nanos,
    /// Times of requests.
    pub pace: JobPace,
    /// Requests at the beginning whose latencies are not recorded, because the queue fills.
    pub latencies_after: u64,
    /// True if latency counts from the due time of a request, not from its issue.
    pub latency_from_due: bool,
    /// A flush after this many writes; 0 for none.
    pub flush_every: u64,
    /// Pause after each request, without requests in flight.
    pub pause: Nanos,
    /// Class of written data; `None` for the caller's.
    pub data: Option<DataClass>,
    /// Seed; `None` for the caller's.
    pub seed: Option<u64>,
}

impl Job {
    /// Sequential reads of 4 KiB over the whole target, one at a time: fio's defaults.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_string(),
            line: 0,
            waits: false,
            clones: 1,
            mix: JobMix::Read,
            addresses: JobAddresses::Sequential,
            block: 4096,
            split: Vec::new(),
            align: 0,
            starts: 0,
            depth: 1,
            offset: JobSize::Bytes(0),
            size: None,
            io_size: None,
            requests_max: None,
            loops: 1,
            runtime: None,
            time_based: false,
            ramp: Nanos::ZERO,
            pace: JobPace::Unlimited,
            latencies_after: 0,
            latency_from_due: false,
            flush_every: 0,
            pause: Nanos::ZERO,
            data: None,
            seed: None,
        }
    }

    /// The enterprise workload of JESD219A: mixed sizes with 40 % reads, half of them on
    /// the first twentieth of the space. Sizes are rounded up to blocks of the target.
    #[must_use]
    pub fn jesd219(name: &str, logical_block: u32) -> Self {
        const SIZES: [(u32, u8); 12] = [
            (512, 4),
            (1024, 1),
            (1536, 1),
            (2048, 1),
            (2560, 1),
            (3072, 1),
            (3584, 1),
            (4096, 67),
            (8192, 10),
            (16_384, 7),
            (32_768, 3),
            (65_536, 3),
        ];
        let mut split: Vec<(u32, u8)> = Vec::new();
        for (size, share) in SIZES {
            let size = size.next_multiple_of(logical_block);
            match split.last_mut().filter(|(last, _)| *last == size) {
                Some((_, sum)) => *sum += share,
                None => split.push((size, share)),
            }
        }
        Self {
            mix: JobMix::ReadWrite(40),
            addresses: JobAddresses::Zoned(vec![(50, 5), (30, 15), (20, 80)]),
            block: split.last().map_or(0, |(size, _)| *size),
            align: logical_block.max(4096),
            split,
            depth: 256,
            ..Self::new(name)
        }
    }

    /// True if the job writes or trims.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.mix != JobMix::Read
    }

    /// Time after which no request is issued, from the start of the job.
    #[must_use]
    pub fn ends_after(&self) -> Nanos {
        self.runtime.map_or(Nanos::MAX, |runtime| self.ramp.saturating_add(runtime))
    }

    /// First byte and size of the space on a target of `target` bytes, in whole requests.
    ///
    /// # Errors
    /// The space does not fit on the target, or no request fits into the space.
    fn space(&self, target: Bytes, logical_block: u32) -> Result<(u64, u64), String> {
        let wrong = |text: String| Err(format!("job '{}': {text}", self.name));
        let block = u64::from(self.block);
        let mut sizes = self.split.iter().map(|(size, _)| *size).chain([self.block]);
        if let Some(size) = sizes.find(|size| !size.is_multiple_of(logical_block)) {
            return wrong(format!(
                "bs is {size} bytes, but the target has blocks of {logical_block} \
                    bytes; set a multiple"
            ));
        }
        let offset = match self.offset {
            JobSize::Bytes(bytes) if bytes % u64::from(logical_block) != 0 => {
                return wrong(format!(
                    "offset is {bytes} bytes, but the target has blocks of \
                        {logical_block} bytes; set a multiple"
                ));
            }
            offset => offset.of(target.0) / u64::from(logical_block) * u64::from(logical_block),
        };
        let rest = target.0.saturating_sub(offset);
        let size = self.size.map_or(rest, |size| size.of(target.0));
        if size > rest {
            return wrong(format!(
                "size is {size} bytes from offset {offset}, but the target has {}; \
                    set a smaller size",
                target.0
            ));
        }
        if !self.align.is_multiple_of(logical_block) || self.align > self.block {
            return wrong(format!(
                "blockalign is {} bytes; set a multiple of {logical_block}, the target's \
                    blocks, up to {block}",
                self.align
            ));
        }
        if size < block {
            return wrong(format!(
                "size is {size} bytes, less than one request of {block}; set a \
                    larger size or a smaller bs"
            ));
        }
        Ok((offset, size / block * block))
    }

    /// Bytes of one clone of a job of several sizes on a space of `span` bytes.
    fn split_bytes(&self, span: u64) -> u64 {
        if self.time_based || self.split.is_empty() {
            return u64::MAX;
        }
        self.io_size.unwrap_or(span).saturating_mul(self.loops)
    }

    /// Requests of one clone on a space of `span` bytes: whole passes over the space up
    /// to `io_size`, at least `loops`.
    fn requests(&self, span: u64) -> u64 {
        if self.time_based {
            return u64::MAX;
        }
        if !self.split.is_empty() {
            return self.requests_max.unwrap_or(u64::MAX).saturating_mul(self.loops);
        }
        let block = u64::from(self.block);
        let pass = span / block;
        let wanted = self.io_size.map_or(pass, |bytes| bytes / block);
        let passes = self.loops.max(wanted.div_ceil(pass));
        let most = self.requests_max.unwrap_or(u64::MAX).saturating_mul(self.loops);
        let requests = wanted.saturating_mul(self.loops).min(pass.saturating_mul(passes)).min(most);
        requests.saturating_mul(if self.mix == JobMix::TrimWrite { 2 } else { 1 })
    }

    /// Upper bound of the bytes that all clones write on a target of `target` bytes.
    /// Timed jobs are assumed to write at [`ASSUMED_RATE`].
    #[must_use]
    pub fn written_max(&self, target: Bytes) -> Bytes {
        if !self.writes() {
            return Bytes::ZERO;
        }
        let (requests, bytes) = self
            .space(target, 1)
            .map_or((0, 0), |(_, span)| (self.requests(span), self.split_bytes(span)));
        let in_time = self.ends_after().as_secs_f64() * ASSUMED_RATE.as_f64();
        Bytes(
            requests
                .saturating_mul(u64::from(self.block))
                .min(bytes)
                .min(in_time as u64)
                .saturating_mul(u64::from(self.clones)),
        )
    }

    /// The requests of clone `nth` of all clones of all jobs, on a target of this size.
    ///
    /// # Errors
    /// The job does not fit on the target, or its settings contradict each other.
    fn stream(
        &self,
        nth: u64,
        target: Bytes,
        logical_block: u32,
        data: DataClass,
        seed: u64,
    ) -> Result<JobStream, String> {
        let space = self.space(target, logical_block)?;
        let (offset, span) = space;
        let seed = derive_seed(self.seed.unwrap_or(seed), &format!("job.{nth}"));
        let data = self.data.unwrap_or(data);
        let draws = self.draws(space, data, seed)?;
        let follow_percent = match self.addresses {
            JobAddresses::Drawn(_, percent) => 100 - percent,
            _ => 0,
        };
        Ok(JobStream {
            mix: self.mix,
            pace: self.pace,
            flush_every: self.flush_every,
            sequential: self.addresses == JobAddresses::Sequential,
            follow_percent,
            space,
            requests_left: self.requests(span),
            bytes_left: self.split_bytes(span),
            data,
            draws,
            follows: offset,
            choices: Stream::new(seed, "job.choices"),
            issued: [0; KINDS],
            due: Nanos::ZERO,
            chosen: None,
            trimmed: None,
            flush_due: false,
        })
    }

    /// One source of addresses for reads and one for writes, one for all, or one for each
    /// zone.
    fn draws(
        &self,
        (offset, span): (u64, u64),
        data: DataClass,
        seed: u64,
    ) -> Result<Vec<(u8, Synthetic)>, String> {
        let synthetic = |pattern, offset, span, seed| {
            let settings = SyntheticSettings {
                pattern,
                mix: Mix::default(),
                sizes: if self.split.is_empty() {
                    vec![(self.block, 1)]
                } else {
                    self.split.iter().map(|(size, share)| (*size, u32::from(*share))).collect()
                },
                data,
                offset,
                span,
                queue_depth: 1,
                limit: Limit::Stream,
            };
            Synthetic::new(settings, seed)
                .map(|drawn| drawn.aligned(self.align.into()).starting_at(self.starts))
                .map_err(|error| format!("job '{}': {error}", self.name))
        };
        let mut draws = Vec::new();
        match &self.addresses {
            JobAddresses::Sequential => {
                for _ in 0..2 {
                    draws.push((100, synthetic(Pattern::Sequential, offset, span, seed)?));
                }
            }
            JobAddresses::Drawn(pattern, _) => {
                draws.push((100, synthetic(*pattern, offset, span, seed)?));
            }
            JobAddresses::Zoned(zones) => {
                let block = u64::from(self.block);
                let (mut space, mut requests) = (0, 0);
                for (nth, (of_requests, of_space)) in (1..).zip(zones) {
                    let bound = |percent: u64| {
                        (u128::from(span / block) * u128::from(percent) / 100) as u64 * block
                    };
                    let (from, to) = (bound(space), bound(space + u64::from(*of_space)));
                    space += u64::from(*of_space);
                    requests += *of_requests;
                    if to == from {
                        return Err(format!(
                            "job '{}': a zone has no room for a request; set a larger size",
                            self.name
                        ));
                    }
                    let zone = synthetic(Pattern::Uniform, offset + from, to - from, seed ^ nth)?;
                    draws.push((requests, zone));
                }
            }
        }
        Ok(draws)
    }
}

/// The section of the job file, without keys at their default.
impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let random = self.addresses != JobAddresses::Sequential;
        let rw = match self.mix {
            JobMix::Read => "read",
            JobMix::Write => "write",
            JobMix::Trim => "trim",
            JobMix::ReadWrite(_) => "rw",
            JobMix::TrimWrite => "trimwrite",
        };
        write!(f, "rw={}{rw} ", if random { "rand" } else { "" })?;
        if self.split.is_empty() {
            write!(f, "bs={}", self.block)?;
        } else {
            let sizes = self.split.iter().map(|(size, share)| format!("{size}/{share}"));
            write!(f, "bssplit={}", sizes.collect::<Vec<_>>().join(":"))?;
        }
        write!(f, " iodepth={}", self.depth)?;
        let mut key = |given: bool, key: &str, value: &dyn fmt::Display| {
            if given { write!(f, " {key}={value}") } else { Ok(()) }
        };
        key(self.align > 0, "blockalign", &self.align)?;
        if let JobMix::ReadWrite(percent) = self.mix {
            key(true, "rwmixread", &percent)?;
        }
        match &self.addresses {
            JobAddresses::Sequential | JobAddresses::Drawn(Pattern::Shuffled, _) => {}
            JobAddresses::Drawn(pattern, percent) => {
                key(true, "norandommap", &1)?;
                match pattern {
                    Pattern::Zipf { theta } => {
                        key(true, "random_distribution", &format!("zipf:{theta}"))?
                    }
                    Pattern::Pareto { share } => {
                        key(true, "random_distribution", &format!("pareto:{share}"))?
                    }
                    _ => {}
                }
                key(*percent < 100, "percentage_random", percent)?;
            }
            JobAddresses::Zoned(zones) => {
                let zones: Vec<String> =
                    zones.iter().map(|(requests, space)| format!("{requests}/{space}")).collect();
                key(true, "norandommap", &1)?;
                key(true, "random_distribution", &format!("zoned:{}", zones.join(":")))?;
            }
        }
        let time = |time: Nanos| format!("{}us", time.0 / 1000);
        key(self.offset != JobSize::Bytes(0), "offset", &self.offset)?;
        self.size.iter().try_for_each(|size| key(true, "size", size))?;
        self.io_size.iter().try_for_each(|bytes| key(true, "io_size", bytes))?;
        self.requests_max.iter().try_for_each(|requests| key(true, "number_ios", requests))?;
        key(self.loops > 1, "loops", &self.loops)?;
        self.runtime.iter().try_for_each(|runtime| key(true, "runtime", &time(*runtime)))?;
        key(self.time_based, "time_based", &1)?;
        key(self.ramp > Nanos::ZERO, "ramp_time", &time(self.ramp))?;
        match self.pace {
            JobPace::Unlimited => {}
            JobPace::Even(per_second) if libm::trunc(per_second) == per_second => {
                key(true, "rate_iops", &per_second)?
            }
            JobPace::Even(per_second) => {
                key(true, "rate", &libm::round(per_second * f64::from(self.block)))?
            }
            JobPace::Random(per_second) => {
                key(true, "rate_process=poisson rate_iops", &per_second)?
            }
        }
        key(self.flush_every > 0, "fsync", &self.flush_every)?;
        key(self.pause > Nanos::ZERO, "thinktime", &time(self.pause))?;
        match self.data {
            Some(DataClass::Zero) => key(true, "zero_buffers", &1)?,
            Some(DataClass::Compressible(percent)) => {
                key(true, "buffer_compress_percentage", &percent)?
            }
            _ => {}
        }
        self.seed.iter().try_for_each(|seed| key(true, "randseed", seed))?;
        key(self.clones > 1, "numjobs", &self.clones)?;
        key(self.waits, "stonewall", &1)
    }
}

impl fmt::Display for JobSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Jobs that run at the same time, with the requests of their clones.
pub type JobGroup<'a> = Vec<(&'a Job, Vec<JobStream>)>;

/// Largest number of requests in flight of `jobs`.
#[must_use]
pub fn depth_max(jobs: &[Job]) -> u32 {
    let mut depths = vec![0_u32];
    for job in jobs {
        if job.waits {
            depths.push(0);
        }
        if let Some(depth) = depths.last_mut() {
            *depth = depth.saturating_add(job.depth.saturating_mul(job.clones));
        }
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Upper bound of the bytes that `jobs` write on a target of this size.
#[must_use]
pub fn written_max(jobs: &[Job], target: Bytes) -> Bytes {
    jobs.iter().map(|job| job.written_max(target)).fold(Bytes::ZERO, Bytes::saturating_add)
}

/// The groups of `jobs` on a target of this size, in order.
///
/// # Errors
/// A job does not fit on the target.
pub fn groups(
    jobs: &[Job],
    target: Bytes,
    logical_block: u32,
    data: DataClass,
    seed: u64,
) -> Result<Vec<JobGroup<'_>>, String> {
    let (mut groups, mut clones): (Vec<JobGroup<'_>>, _) = (Vec::new(), 0..);
    for job in jobs {
        let numbers = clones.by_ref().take(job.clones as usize);
        let streams = numbers
            .map(|nth| job.stream(nth, target, logical_block, data, seed))
            .collect::<Result<_, _>>()?;
        match groups.last_mut() {
            Some(group) if !job.waits => group.push((job, streams)),
            _ => groups.push(vec![(job, streams)]),
        }
    }
    Ok(groups)
}

/// Next step of a stream.
#[derive(Clone, Copy, Debug)]
pub enum JobStep {
    /// Issue this request, which was due at this time since the start.
    Issue(Command<'static>, Nanos),
    /// Ask again at this time since the start.
    NotBefore(Nanos),
    /// The stream has ended.
    End,
}

/// Reads, writes, trims.
const KINDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
    Trim,
}

/// Requests of one clone of a job.
#[derive(Clone, Debug)]
pub struct JobStream {
    mix: JobMix,
    pace: JobPace,
    flush_every: u64,
    sequential: bool,
    follow_percent: u8,
    /// First byte and size.
    space: (u64, u64),
    requests_left: u64,
    bytes_left: u64,
    data: DataClass,
    /// Sources of addresses: one for reads and one for writes, one for all, or one for
    /// each zone. Each with the percentage of requests up to and including it.
    draws: Vec<(u8, Synthetic)>,
    /// End of the last request.
    follows: u64,
    choices: Stream,
    issued: [u64; KINDS],
    /// Due time of the next request of a random pace.
    due: Nanos,
    /// Kind that waits for its due time.
    chosen: Option<RequestKind>,
    /// Trimmed range to be written next.
    trimmed: Option<Extent>,
    flush_due: bool,
}

impl JobStream {
    /// Next step at `now`, the time since the start.
    pub fn next_step(&mut self, now: Nanos) -> JobStep {
        if self.requests_left == 0 || self.bytes_left == 0 {
            return JobStep::End;
        }
        if core::mem::take(&mut self.flush_due) {
            return JobStep::Issue(Command::Flush, now);
        }
        let kind = self.chosen.unwrap_or_else(|| self.kind());
        let (kind, due) = self.paced(kind, now);
        if due > now {
            self.chosen = Some(kind);
            return JobStep::NotBefore(due);
        }
        self.chosen = None;
        self.requests_left -= 1;
        self.issued[kind as usize] += 1;
        if let JobPace::Random(per_second) = self.pace {
            let gap = -libm::log(1.0 - self.choices.unit()) / per_second * 1e9;
            self.due = self.due.saturating_add(Nanos(gap as u64));
        }
        let writes = self.issued[RequestKind::Write as usize];
        self.flush_due = kind == RequestKind::Write
            && self.flush_every > 0
            && writes.is_multiple_of(self.flush_every);
        let extent = self.extent(kind);
        self.bytes_left = self.bytes_left.saturating_sub(extent.len);
        let command = match kind {
            RequestKind::Read => Command::Read(extent),
            RequestKind::Write => Command::Write(extent, self.data),
            RequestKind::Trim => Command::Trim(Ranges::One(extent)),
        };
        JobStep::Issue(command, due)
    }

    fn kind(&mut self) -> RequestKind {
        match self.mix {
            JobMix::Read => RequestKind::Read,
            JobMix::Write => RequestKind::Write,
            JobMix::Trim => RequestKind::Trim,
            JobMix::ReadWrite(percent) if self.choices.below(100) < u64::from(percent) => {
                RequestKind::Read
            }
            JobMix::ReadWrite(_) => RequestKind::Write,
            JobMix::TrimWrite if self.trimmed.is_some() => RequestKind::Write,
            JobMix::TrimWrite => RequestKind::Trim,
        }
    }

    /// The kind to issue and its due time. Of a mix whose drawn kind is early, the other
    /// kind is issued if it is due first.
    fn paced(&self, kind: RequestKind, now: Nanos) -> (RequestKind, Nanos) {
        let per_second = match self.pace {
            JobPace::Unlimited => return (kind, now),
            JobPace::Random(_) => return (kind, self.due),
            JobPace::Even(per_second) => per_second,
        };
        let due = |kind: RequestKind| {
            Nanos((self.issued[kind as usize] as f64 * 1e9 / per_second) as u64)
        };
        let other = match kind {
            RequestKind::Read => RequestKind::Write,
            RequestKind::Write | RequestKind::Trim => RequestKind::Read,
        };
        if due(kind) > now && matches!(self.mix, JobMix::ReadWrite(_)) && due(other) < due(kind) {
            (other, due(other))
        } else {
            (kind, due(kind))
        }
    }

    fn extent(&mut self, kind: RequestKind) -> Extent {
        if kind == RequestKind::Write
            && let Some(extent) = self.trimmed.take()
        {
            return extent;
        }
        let (offset, span) = self.space;
        let follows =
            self.follow_percent > 0 && self.choices.below(100) < u64::from(self.follow_percent);
        let source = match self.draws.len() {
            1 => 0,
            2 if self.sequential => usize::from(kind != RequestKind::Read),
            _ => {
                let draw = self.choices.below(100);
                self.draws.iter().position(|(up_to, _)| draw < u64::from(*up_to)).unwrap_or(0)
            }
        };
        let mut extent = self.draws[source].1.draw();
        if follows {
            extent.offset =
                if self.follows + extent.len > offset + span { offset } else { self.follows };
        }
        self.follows = extent.offset + extent.len;
        if self.mix == JobMix::TrimWrite {
            self.trimmed = Some(extent);
        }
        extent
    }
}

#[cfg(test)]
mod tests;
