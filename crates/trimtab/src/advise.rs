//! Settings of other programs that delete or discard data, for one drive.

use crate::drives::below::UnderlyingDrive;
use crate::drives::{self, Drive, Source, SourceKind, twins};
use crate::history::events::{EventFilter, Events, HistoryEvent};
use crate::store::{self, Filter};
use crate::target_spec::TargetSpec;
use crate::trim::harm::harm;
use anyhow::{Context as _, bail};
use serde::Serialize;
use trimtab_drive::spec::{DriveSpec, Trim};
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_drive::usage::UsageError;
use trimtab_linux::doctor::discards_online;
use trimtab_linux::host::block::Layer;
use trimtab_linux::host::root::Root;
use trimtab_linux::host::{Place, environment};
use trimtab_linux::output::Context;
use trimtab_linux::output::error::{of_named, one_line};
use trimtab_linux::session::journal::is_denied;
use trimtab_report::run::instant;
use trimtab_sim::analysis::student::t_quantile;
use trimtab_sim::run::{Field, Provenance};
use trimtab_study::study::{policy, policy_events};

const MIB: u64 = 1 << 20;
/// Passes that sent less than this measure the start of a request, not TRIM.
const PASS_BYTES_MIN: u64 = MIB;
/// A value whose interval over the passes spans more than this factor is not stated.
const INTERVAL_MAX: f64 = 10.0;
/// Number of newest passes used.
const PASSES_MAX: usize = 30;

/// A program that deletes or discards.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub title: &'static str,
    /// The extent that it frees at once by default, in bytes.
    extent: u64,
    /// Its deletions send TRIM only on a filesystem with the option discard.
    pub needs_option: bool,
    /// Names of its settings, and the rules for them.
    knobs: &'static [(&'static str, Rule)],
    /// Conditions for an effect.
    pub note: &'static str,
    /// Its documentation.
    pub sources: &'static [&'static str],
}

/// The rule for the value of a setting.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Bytes a second that keep the drive busy with TRIM for the accepted share of time.
    Rate,
    /// The longest extent whose TRIM takes the accepted time, up to this.
    Longest(u64),
    /// The shortest extent with an effect, but not below this default.
    Shortest(u64),
    /// Words for on and off: on if TRIM of the longest extent that stays in force takes
    /// the accepted time.
    Switch([&'static str; 2]),
    /// This value, for this reason.
    Fixed(&'static str, &'static str),
}

/// The programs, by the name on the command line.
pub const PROGRAMS: &[(&str, Program)] = &[
    (
        "rocksdb",
        Program {
            title: "RocksDB",
            extent: 64 * MIB,
            needs_option: true,
            knobs: &[
                ("rate_bytes_per_sec", Rule::Rate),
                ("bytes_max_delete_chunk", Rule::Longest(64 * MIB)),
            ],
            note: "arguments of NewSstFileManager; while deleted files take more than \
                    max_trash_db_ratio (0.25) of the database, RocksDB deletes at once, without \
                    the rate; deletions send TRIM only on a filesystem that is mounted with the \
                    option discard",
            sources: &["https://github.com/facebook/rocksdb/wiki/Slow-Deletion"],
        },
    ),
    (
        "pebble",
        Program {
            title: "Pebble",
            extent: 2 * MIB,
            needs_option: true,
            knobs: &[("TargetByteDeletionRate", Rule::Rate)],
            note: "an option of Open in releases to v2.1; later versions have the function \
                    DeletionPacing.BaselineRate instead; deletions send TRIM only on a filesystem \
                    that is mounted with the option discard",
            sources: &["https://pkg.go.dev/github.com/cockroachdb/pebble/v2#Options"],
        },
    ),
    (
        "ceph",
        Program {
            title: "Ceph BlueStore",
            // Objects of RBD, RGW and CephFS are this long by default.
            extent: 4 * MIB,
            needs_option: false,
            knobs: &[
                ("bdev_enable_discard", Rule::Switch(["true", "false"])),
                (
                    "bdev_async_discard_threads",
                    Rule::Fixed("1", "0 would discard inside the transaction"),
                ),
            ],
            note: "set with 'ceph config set osd NAME VALUE'; no setting limits the rate",
            sources: &["https://github.com/ceph/ceph/blob/main/src/common/options/global.yaml.in"],
        },
    ),
    (
        "zfs",
        Program {
            title: "OpenZFS",
            extent: 128 * MIB,
            needs_option: false,
            knobs: &[
                ("autotrim", Rule::Switch(["on", "off"])),
                ("zpool trim -r", Rule::Rate),
                ("zfs_trim_extent_bytes_max", Rule::Longest(128 * MIB)),
                ("zfs_trim_extent_bytes_min", Rule::Shortest(32_768)),
            ],
            note: "autotrim is a property of the pool, the rate holds for each device, and \
                zfs_* are module parameters",
            sources: &[
                "https://openzfs.github.io/openzfs-docs/man/v2.4/8/zpool-trim.8.html",
                "https://openzfs.github.io/openzfs-docs/man/v2.4/4/zfs.4.html",
            ],
        },
    ),
    (
        "fstrim",
        Program {
            title: "fstrim",
            extent: 128 * MIB,
            needs_option: false,
            knobs: &[
                ("--minimum", Rule::Shortest(0)),
                ("queue/discard_max_bytes", Rule::Longest(1 << 31)),
                (
                    "OnCalendar",
                    Rule::Fixed("weekly", "sufficient for most systems, says fstrim(8)"),
                ),
            ],
            note: "fstrim has no rate: the kernel's limit in /sys/block/DRIVE splits its \
                requests; OnCalendar is in fstrim.timer",
            sources: &[
                "https://man7.org/linux/man-pages/man8/fstrim.8.html",
                "https://docs.kernel.org/block/queue-sysfs.html",
            ],
        },
    ),
];

/// Limits that the user accepts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Share of time that the drive may be busy with TRIM, in per cent.
    pub share_percent: f64,
    /// Time that one TRIM may take, in nanoseconds.
    pub wait_ns: u64,
}

/// Cost of TRIM by a specification.
#[derive(Clone, Debug, Serialize)]
struct TrimCost {
    trim: Trim,
    mapping_unit_bytes: u64,
}

/// A complete trim of a filesystem.
#[derive(Clone, Debug, Serialize)]
struct Pass {
    id: Option<String>,
    /// The id is one of `trimtab results`, else one of the history.
    in_study: bool,
    unix_ms: u64,
    sent_bytes: u64,
    sent_commands: u64,
    request_seconds: f64,
}

impl TrimCost {
    /// TRIM of one extent of mapped data, as in docs/method/ssd.md.
    fn seconds(&self, bytes: u64) -> f64 {
        let units = bytes.div_ceil(self.mapping_unit_bytes);
        self.trim.took_ns([bytes], units) as f64 / 1e9
    }
}

/// Smallest and largest of several values.
fn span(all: &[f64]) -> Option<[f64; 2]> {
    let ends =
        || all.iter().fold([f64::INFINITY, 0.0], |[low, high], one| [one.min(low), one.max(high)]);
    (all.len() > 1).then(ends)
}

/// Rounds to the two leading digits, or to a whole number.
fn two_digits(value: f64, round: fn(f64) -> f64) -> f64 {
    let step = 10_f64.powi((value.max(10.0).log10() as i32) - 1);
    round(value / step) * step
}

/// Knowledge about TRIM of one drive.
#[derive(Debug, Serialize)]
pub struct Evidence {
    /// `specification`, `twin`, `passes` or `kernel`.
    kind: &'static str,
    /// The evidence in words.
    pub text: String,
    /// The cost of TRIM is typical of the class, not known for this drive.
    is_assumed: bool,
    /// The mounted filesystem discards deleted files at once.
    pub discards_online: Option<bool>,
    /// Bytes a second that the drive's link moves, if a specification states it.
    link_bytes_per_s: Option<u64>,
    /// The drive accepts TRIM.
    takes_trim: bool,
    /// Discards that are shorter have no effect.
    granularity_bytes: u64,
    /// By the specification, then by others that explain the drive equally well.
    costs: Vec<TrimCost>,
    passes: Vec<Pass>,
    /// The command that measures the drive, if nothing has.
    pub measure: Option<String>,
}

/// A value and its interval.
struct Figure(f64, Option<[f64; 2]>);

/// The value of a setting.
enum Value {
    Unknown,
    Fixed(&'static str),
    /// A number and its unit.
    Number(Figure, &'static str),
}

/// The advice on one setting.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// Its name in the program.
    pub name: &'static str,
    /// `None`: not known.
    pub value: Option<serde_json::Value>,
    /// Unit of a number.
    pub unit: &'static str,
    /// Interval of a number.
    pub interval: Option<[u64; 2]>,
    /// The reason.
    pub why: String,
}

impl Setting {
    fn new(name: &'static str, value: Value, why: String) -> Self {
        let (value, interval, unit) = match value {
            Value::Unknown => (None, None, ""),
            Value::Fixed(word) => (Some(word.into()), None, ""),
            Value::Number(Figure(number, interval), unit) => {
                let whole = interval.map(|ends| ends.map(|end| end as u64));
                (Some((number as u64).into()), whole, unit)
            }
        };
        Self { name, value, unit, interval, why }
    }
}

impl Evidence {
    /// Finds what is known about the target's drive.
    pub fn of(target: &TargetSpec, context: &Context) -> anyhow::Result<Self> {
        let path = match target {
            TargetSpec::Drive(name) => return Ok(Self::of_drive(&drives::load(name)?)),
            TargetSpec::Directory(path) | TargetSpec::File(path) | TargetSpec::Device(path) => path,
            TargetSpec::Null(_) => {
                return Err(target
                    .refused("null: has no drive".to_owned())
                    .hint("name a directory, a file, a block device or drive:NAME")
                    .into());
            }
        };
        let root = Root::live().context("cannot open /")?;
        let hint = "name a directory, a file or a block device";
        let place = Place::of_path(&root, path)
            .map_err(|error| of_named(error, path, "cannot find the drive of", hint))?;
        if let Some(mount) = &place.mount
            && let Some(why) = harm(&root, mount, &place.stack)
        {
            bail!("no settings for {}: {why}", path.display());
        }
        let tops: Vec<_> = place.stack.top_layers().collect();
        let [top, ..] = &tops[..] else {
            let what = format!("'{}' is not on a block device", path.display());
            return Err(UsageError::missing(what).hint(hint).into());
        };
        let online = place.mount.as_ref().map(|mount| discards_online(&root, mount, &place.stack));
        let kernel = Self { discards_online: online, ..Self::of_kernel(&root, &tops, &top.node()) };
        if !kernel.takes_trim {
            return Ok(kernel);
        }
        let passes = newest_passes(&root, &place, context);
        if !passes.is_empty() {
            let text = shown(&passes);
            return Ok(Self { kind: "passes", text, passes, ..kernel });
        }
        if let Ok(below) = UnderlyingDrive::of_path(&root, path)
            && let Some(twin) = twins::of(context, &below)
        {
            let known = Self::of_drive(&twin.drive);
            let notes = twin.origin().map(|from| twins::mismatches(from, &twin.drive, &below));
            let mut text = known.text;
            text.extend(twin.origin().map(|from| format!("; learned {}", from.learned)));
            notes.into_iter().flatten().for_each(|note| text += &format!("; {note}"));
            let granularity_bytes = known.granularity_bytes.max(kernel.granularity_bytes);
            let discards_online = kernel.discards_online;
            return Ok(Self { text, granularity_bytes, discards_online, ..known });
        }
        let measure = Some(match &place.mount {
            Some(mount) => format!("sudo trimtab trim {}", mount.mount_point.display()),
            None => format!("sudo trimtab drive learn {}", path.display()),
        });
        Ok(Self { measure, ..kernel })
    }

    /// Limits that the kernel reports for the devices `tops`; `name` is that of the first.
    fn of_kernel(root: &Root, tops: &[&Layer], name: &str) -> Self {
        let queue = |limit: &str| -> Vec<u64> {
            tops.iter().map(|top| root.read_u64(top.queue().join(limit)).unwrap_or(0)).collect()
        };
        let granularity = queue("discard_granularity").into_iter().max().unwrap_or(0);
        let longest = queue("discard_max_bytes").into_iter().min().unwrap_or(0);
        let takes_trim = granularity > 0 && longest > 0;
        let text = if takes_trim {
            format!(
                "not measured; {name} accepts discards of {granularity} to {longest} B (kernel)"
            )
        } else {
            format!("{name} accepts no discards (kernel); see 'trimtab doctor'")
        };
        Self {
            kind: "kernel",
            text,
            is_assumed: false,
            discards_online: None,
            link_bytes_per_s: None,
            takes_trim,
            granularity_bytes: granularity,
            costs: Vec::new(),
            passes: Vec::new(),
            measure: None,
        }
    }

    fn of_drive(drive: &Drive) -> Self {
        let cost = |spec: &DriveSpec| {
            let flash = Some(&spec.flash).filter(|flash| flash.trim.supported)?;
            let mapping_unit_bytes = flash.ftl.mapping_unit_bytes;
            Some(TrimCost { trim: flash.trim.clone(), mapping_unit_bytes })
        };
        let members = drive.twin.iter().flat_map(|twin| &twin.members);
        let others = drive.alternatives.iter().map(|other| &other.spec).chain(members);
        let costs: Vec<_> = std::iter::once(&drive.spec).chain(others).filter_map(cost).collect();
        let granularity = costs.first().map_or(0, |cost| {
            cost.trim.bytes_min.max(cost.trim.alignment_bytes).max(cost.mapping_unit_bytes)
        });
        let kind = if drive.twin.is_some() { "twin" } else { "specification" };
        let source = drive.source_of("flash.trim.command_ns");
        let is_assumed = source.is_none_or(|source| source.kind == SourceKind::Assumed);
        let source = source.map_or_else(|| "assumed".to_owned(), Source::shown);
        let text = match (&drive.spec.name, costs.len()) {
            (name, 0) => format!("the drive '{name}' accepts no TRIM"),
            (name, 1) => format!("{kind} '{name}'; TRIM costs {source}"),
            (name, n) => format!("{kind} '{name}' in {n} variants; TRIM costs {source}"),
        };
        Self {
            kind,
            text,
            is_assumed,
            discards_online: None,
            link_bytes_per_s: Some(drive.spec.interface.rate_bytes_per_s),
            takes_trim: !costs.is_empty(),
            granularity_bytes: granularity,
            costs,
            passes: Vec::new(),
            measure: None,
        }
    }

    /// Mean length of a command of the passes.
    fn command_bytes(&self) -> f64 {
        let sum = |of: fn(&Pass) -> u64| self.passes.iter().map(of).sum::<u64>() as f64;
        sum(|pass| pass.sent_bytes) / sum(|pass| pass.sent_commands).max(1.0)
    }

    /// Seconds of TRIM of an extent: by the drive's own specification, with the interval of
    /// all; or by the sums over the passes, with their interval (docs/howto/fleet.md).
    /// `None` if nothing is measured.
    fn seconds(&self, bytes: u64) -> Option<Figure> {
        if self.passes.is_empty() {
            let all: Vec<_> = self.costs.iter().map(|cost| cost.seconds(bytes)).collect();
            return Some(Figure(*all.first()?, span(&all)));
        }
        let sum = |of: &dyn Fn(&Pass) -> f64| self.passes.iter().map(of).sum::<f64>();
        let (n, took) = (self.passes.len() as f64, sum(&|pass| pass.request_seconds));
        let byte_s = took / sum(&|pass| pass.sent_bytes as f64);
        let error = |pass: &Pass| pass.request_seconds - byte_s * pass.sent_bytes as f64;
        let squares = sum(&|pass| error(pass).powi(2));
        // On a log scale, so that both ends are positive.
        let half = || t_quantile(0.975, n - 1.0) * (squares * n / (n - 1.0)).sqrt() / took;
        let factor = if n > 1.0 { half().exp() } else { 1.0 };
        let (mean, bytes) = (self.command_bytes(), bytes as f64);
        let most = byte_s * mean.max(bytes);
        Some(Figure(most, Some([byte_s * mean.min(bytes) / factor, most * factor])))
    }

    /// Least and most seconds of TRIM of an extent to decide by: the interval of the
    /// passes, or the drive's own specification.
    fn bounds(&self, bytes: u64) -> Option<[f64; 2]> {
        let Figure(s, ends) = self.seconds(bytes)?;
        Some(ends.filter(|_| !self.passes.is_empty()).unwrap_or([s, s]))
    }

    /// The longest power of two from 1 MiB to `most` whose TRIM takes at most `wait_s`.
    fn longest(&self, most: u64, wait_s: f64) -> Option<Figure> {
        let fits = |seconds: &dyn Fn(u64) -> Option<f64>| {
            let mut lengths = std::iter::successors(Some(most), |length| Some(length / 2))
                .take_while(|length| *length >= MIB);
            lengths.find(|length| seconds(*length).is_some_and(|s| s <= wait_s)).unwrap_or(0) as f64
        };
        let all: Vec<_> = if self.passes.is_empty() {
            self.costs.iter().map(|cost| fits(&|bytes| Some(cost.seconds(bytes)))).collect()
        } else {
            [1, 0].map(|end| fits(&|bytes| Some(self.bounds(bytes)?[end]))).to_vec()
        };
        let value = *all.first()?;
        (value > 0.0).then(|| Figure(value, span(&all)))
    }

    /// The settings of a program.
    pub fn settings(&self, program: &Program, limits: Limits) -> Vec<Setting> {
        program.knobs.iter().map(|knob| self.setting(knob, program, limits)).collect()
    }

    fn setting(
        &self,
        (name, rule): &(&'static str, Rule),
        program: &Program,
        limits: Limits,
    ) -> Setting {
        let wait_s = limits.wait_ns as f64 / 1e9;
        let (value, why) = match *rule {
            Rule::Switch([_, off]) if !self.takes_trim => (Value::Fixed(off), "no TRIM".to_owned()),
            _ if !self.takes_trim => (Value::Unknown, "no TRIM: nothing to limit".to_owned()),
            Rule::Rate => self.rate(program.extent, limits.share_percent / 100.0),
            Rule::Longest(most) => self.longest_setting(most, program.extent, wait_s),
            Rule::Shortest(default) => self.shortest(default, program.title),
            Rule::Switch(words) => self.switch(words, program, wait_s),
            Rule::Fixed(value, why) => (Value::Fixed(value), why.to_owned()),
        };
        match value {
            Value::Number(Figure(_, Some([low, high])), _)
                if !self.passes.is_empty() && high > low * INTERVAL_MAX =>
            {
                Setting::new(name, Value::Unknown, format!("not known: {why}"))
            }
            value => Setting::new(name, value, why),
        }
    }

    /// Seconds of TRIM of an extent, in words.
    fn takes(&self, bytes: u64) -> Option<String> {
        let shown = |seconds: f64| Nanos((seconds * 1e9) as u64);
        let Figure(s, ends) = self.seconds(bytes)?;
        Some(match ends.filter(|_| !self.passes.is_empty()) {
            Some([least, most]) => {
                let length = grouped(self.command_bytes() as u64);
                format!("{} to {} (trims of {length} B a command)", shown(least), shown(most))
            }
            None => shown(s).to_string(),
        })
    }

    fn of_extent(&self, bytes: u64) -> String {
        let assumed = if self.is_assumed { "assumed: " } else { "" };
        self.takes(bytes).map_or_else(
            || "not measured".to_owned(),
            |time| format!("{assumed}TRIM of {} B takes {time}", grouped(bytes)),
        )
    }

    /// The reason if TRIM of an extent may take the accepted time or longer.
    fn undecided(&self, bytes: u64, wait_s: f64) -> String {
        let (why, wait) = (self.of_extent(bytes), Nanos((wait_s * 1e9) as u64));
        if self.passes.is_empty() { why } else { format!("not known: {why}; --wait is {wait}") }
    }

    fn rate(&self, extent: u64, share: f64) -> (Value, String) {
        let why = self.of_extent(extent);
        let Some(Figure(s, ends)) = self.seconds(extent) else { return (Value::Unknown, why) };
        let rate = |seconds: f64| share * extent as f64 / seconds;
        let slowest = rate(ends.map_or(s, |ends| ends[1]));
        if self.link_bytes_per_s.is_some_and(|link| slowest >= link as f64) {
            return (Value::Unknown, format!("no limit needed; {why}"));
        }
        // The evidence allows no more than two digits.
        let interval = ends.map(|[low, high]| {
            [two_digits(rate(high), f64::floor), two_digits(rate(low), f64::ceil)]
        });
        (Value::Number(Figure(two_digits(rate(s), f64::floor), interval), "B/s"), why)
    }

    fn longest_setting(&self, most: u64, default: u64, wait_s: f64) -> (Value, String) {
        if let Some(longest) = self.longest(most, wait_s) {
            let why = self.of_extent(longest.0 as u64);
            return (Value::Number(longest, "B"), why);
        }
        let why = match self.takes(default) {
            Some(time) if self.bounds(MIB).is_some_and(|ends| ends[0] > wait_s) => {
                let default = default / MIB;
                format!(
                    "{}: give a longer --wait; default {default} MiB: {time}",
                    self.of_extent(MIB)
                )
            }
            _ => self.undecided(MIB, wait_s),
        };
        (Value::Unknown, why)
    }

    fn shortest(&self, default: u64, title: &str) -> (Value, String) {
        let unit = self.granularity_bytes;
        let shown = grouped(unit);
        let why = if unit < default {
            format!("{title}'s default; the drive's unit of {shown} B is smaller")
        } else {
            format!("the drive ignores less than {shown} B")
        };
        (Value::Number(Figure(unit.max(default) as f64, None), "B"), why)
    }

    fn switch(
        &self,
        [on, off]: [&'static str; 2],
        program: &Program,
        wait_s: f64,
    ) -> (Value, String) {
        let settable = program.knobs.iter().find_map(|(_, rule)| match rule {
            Rule::Longest(most) => Some(self.longest(*most, wait_s)?.0 as u64),
            _ => None,
        });
        let extent = settable.unwrap_or(program.extent);
        match self.bounds(extent) {
            Some([_, most]) if most <= wait_s => (Value::Fixed(on), self.of_extent(extent)),
            Some([least, _]) if least > wait_s => (Value::Fixed(off), self.of_extent(extent)),
            _ => (Value::Unknown, self.undecided(extent, wait_s)),
        }
    }
}

/// The newest passes on the filesystem of `place`, and in studies of one like it.
fn newest_passes(root: &Root, place: &Place, context: &Context) -> Vec<Pass> {
    let Some(mount) = &place.mount else { return Vec::new() };
    let known = |passes: anyhow::Result<Vec<Pass>>| {
        passes.unwrap_or_else(|error| {
            let why = one_line(&error);
            let why = if is_denied(&error) { "run with sudo" } else { &why };
            context.remark(&format!("earlier trims cannot be read: {why}"));
            Vec::new()
        })
    };
    let here = environment::capture(root, place, &mount.mount_point);
    let mut passes = known(passes(&mount.mount_point, context));
    passes.extend(known(studied(&here, context)));
    passes.sort_by_key(|pass| pass.unix_ms);
    passes.split_off(passes.len().saturating_sub(PASSES_MAX))
}

/// The newest complete passes on a filesystem whose discards the drive counted.
fn passes(mount_point: &std::path::Path, context: &Context) -> anyhow::Result<Vec<Pass>> {
    let wish = EventFilter { path: Some(mount_point), limit: PASSES_MAX };
    let events = Events::read(&wish, context)?.events;
    let pass = |event: HistoryEvent| {
        let is_counted = event.outcome == "complete" && !event.sent_is_minimum;
        Some(Pass {
            id: event.id.filter(|_| is_counted),
            in_study: false,
            unix_ms: event.unix_ms,
            sent_bytes: event.sent_bytes.filter(|bytes| *bytes >= PASS_BYTES_MIN)?,
            sent_commands: event.sent_commands?,
            request_seconds: event.request_seconds.filter(|seconds| *seconds > 0.0)?,
        })
        .filter(|pass| pass.id.is_some())
    };
    Ok(events.into_iter().filter_map(pass).collect())
}

/// Trims in measured studies of the filesystem. Size, mount point and model identify it:
/// names of devices change.
fn studied(here: &[Field], context: &Context) -> anyhow::Result<Vec<Pass>> {
    const SAME: [&str; 5] = ["mount.point", "fs.type", "fs.size", "drive.model", "drive.size"];
    let Some(store) = store::open_to_read(context)? else { return Ok(Vec::new()) };
    let mut passes = Vec::new();
    for summary in store.list(&Filter::default())?.iter().rev() {
        if summary.study.is_none()
            || summary.provenance != Provenance::Measured
            || summary.policy != policy::BATCHED
        {
            continue;
        }
        let run = store.load(summary.id)?;
        let is_same = |key: &&str| Field::find(&run.environment, key) == Field::find(here, key);
        if !run.complete || !SAME.iter().all(is_same) {
            continue;
        }
        for phase in run.phases.iter().filter(|phase| phase.name == policy_events::TRIM) {
            let accepted = phase.discards.as_ref().and_then(|discards| discards.accepted);
            let Some(accepted) = accepted.filter(|a| a.bytes.0 >= PASS_BYTES_MIN) else { continue };
            passes.push(Pass {
                id: Some(summary.id.short()),
                in_study: true,
                unix_ms: run.started_unix_ms,
                sent_bytes: accepted.bytes.0,
                sent_commands: accepted.count,
                request_seconds: phase.took.as_secs_f64(),
            });
        }
        if passes.len() >= PASSES_MAX {
            break;
        }
    }
    Ok(passes)
}

/// The passes in words, oldest first.
fn shown(passes: &[Pass]) -> String {
    let count = |place: &str, in_study: bool| {
        let mut of = passes.iter().filter(|pass| pass.in_study == in_study);
        let (n, last) = (of.clone().count(), of.next_back()?);
        let s = if n == 1 { "" } else { "s" };
        let id = last.id.as_deref().unwrap_or_default();
        let at = instant(last.unix_ms);
        Some(format!("{n} complete trim{s} in {place}, latest {id} of {at}"))
    };
    let counts = [count("the history", false), count("studies", true)];
    format!(
        "{}; they sent {} in {:.3} s of requests; space freed for long may cost less TRIM than \
            files just deleted",
        counts.into_iter().flatten().collect::<Vec<_>>().join("; "),
        Bytes(passes.iter().map(|pass| pass.sent_bytes).sum()),
        passes.iter().map(|pass| pass.request_seconds).sum::<f64>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trims of commands of these lengths, 100 each, on a drive that takes 2 ms for a
    /// command and 1 ms for 64 MiB.
    fn trims(lengths: &[u64]) -> Evidence {
        let pass = |length: &u64| Pass {
            id: None,
            in_study: false,
            unix_ms: 0,
            sent_bytes: 100 * length,
            sent_commands: 100,
            request_seconds: 100.0 * true_seconds(*length),
        };
        Evidence {
            kind: "passes",
            text: String::new(),
            is_assumed: false,
            discards_online: None,
            link_bytes_per_s: None,
            takes_trim: true,
            granularity_bytes: 4096,
            costs: Vec::new(),
            passes: lengths.iter().map(pass).collect(),
            measure: None,
        }
    }

    fn true_seconds(length: u64) -> f64 {
        0.002 + 0.001 * length as f64 / (64 * MIB) as f64
    }

    #[test]
    fn bounds_by_trims_contain_the_cost_of_every_extent() {
        for lengths in [&[MIB][..], &[1 << 30], &[MIB, 16 * MIB], &[4096 * MIB, MIB, 64 * MIB]] {
            let evidence = trims(lengths);
            for power in 12..=31 {
                let [least, most] = evidence.bounds(1 << power).unwrap();
                let truth = true_seconds(1 << power);
                assert!(least <= truth * 1.001 && truth <= most * 1.001, "{lengths:?} {power}");
            }
        }
    }

    #[test]
    fn trims_of_other_lengths_decide_only_what_they_bound() {
        let decision = |length: u64, program: usize, name: &str, wait_ns: u64| {
            let limits = Limits { share_percent: 5.0, wait_ns };
            let settings = trims(&[length]).settings(&PROGRAMS[program].1, limits);
            let setting = settings.into_iter().find(|one| one.name == name).unwrap();
            (setting.value.map(|value| value.to_string()), setting.why)
        };
        let ceph =
            |length: u64, ms: u64| decision(length, 2, "bdev_enable_discard", ms * 1_000_000);
        // 4 MiB take 2.0625 ms. By commands of 64 KiB, up to 64 times 2 ms; by commands of
        // 4 GiB, up to their 66 ms, and at least a thousandth.
        for (length, wait_ms, expected) in [
            (64 << 10, 10, None),
            (64 << 10, 200, Some("\"true\"")),
            (64 << 10, 1, Some("\"false\"")),
            (4 << 30, 10, None),
            (4 << 30, 67, Some("\"true\"")),
            (4 * MIB, 2, Some("\"false\"")),
        ] {
            let (value, why) = ceph(length, wait_ms);
            assert_eq!(value.as_deref(), expected, "{length} {wait_ms}: {why}");
        }
        let (value, why) = decision(64 << 10, 0, "rate_bytes_per_sec", 10_000_000);
        assert!(value.is_none() && why.starts_with("not known: TRIM of 67,108,864 B"), "{why}");
        let (value, why) = decision(4 << 30, 4, "queue/discard_max_bytes", 10_000_000);
        assert_eq!(value, None);
        assert_eq!(
            why,
            "not known: TRIM of 1,048,576 B takes 16.1 µs to 66.0 ms (trims of 4,294,967,296 B a \
                command); --wait is 10.0 ms"
        );
    }

    #[test]
    fn trims_of_one_length_are_pooled_by_sums() {
        let mut evidence = trims(&[64 * MIB; 3]);
        // 100, 100 and 400 commands: 0.3, 0.6 and 1.2 s, which is 3.5 ms for a command.
        (evidence.passes[2].sent_bytes, evidence.passes[2].sent_commands) = (25_600 * MIB, 400);
        (evidence.passes[1].request_seconds, evidence.passes[2].request_seconds) = (0.6, 1.2);
        let Figure(s, _) = evidence.seconds(64 * MIB).unwrap();
        assert!((s - 0.0035).abs() < 1e-9, "{s}");
        // Errors of -0.05, 0.25 and -0.2 s: their root mean square over 2.1 s, times 4.3027.
        let half = 4.302_652_73 * (0.105_f64 * 1.5).sqrt() / 2.1;
        let [least, most] = evidence.bounds(64 * MIB).unwrap();
        assert!((most - 0.0035 * half.exp()).abs() < 1e-8, "{most}");
        assert!((least - 0.0035 / half.exp()).abs() < 1e-8, "{least}");
    }
}
