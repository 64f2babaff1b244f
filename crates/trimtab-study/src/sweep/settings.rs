//! Converts settings to a cell. This module alone knows the parameters of a plan.

use super::cell::{SweepCell, SweepCellWork};
use super::value::Value;
use crate::study::ageing::{self, Ageing};
use crate::study::modelled::{Setup, volume_named};
use crate::study::small;
use crate::study::used::FreeExtentLengths;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::{DriveSpec, Medium};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::nearest;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Warning;
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::simulate::{Addresses, Amount, SimulationLoad, SimulationPlan, Trace};
use trimtab_sim::trace::TraceReadOptions;
use trimtab_sim::volume::VolumeSpec;
use trimtab_sim::workload::synthetic::{Mix, Pattern, TrimPattern};

/// Sections of parameters.
pub const SECTIONS: [&str; 4] = ["drive", "policy", "volume", "workload"];
/// Parameters that accept fractions. All others are whole numbers.
const FRACTIONAL: [&str; 11] = [
    "drive.over_provisioning_percent",
    "workload.drive_writes",
    "workload.drive_writes_a_day",
    "workload.fill_percent",
    "workload.span_percent",
    "workload.hot_space",
    "workload.hot_operations",
    "workload.theta",
    "workload.sigma",
    "workload.median_bytes",
    "workload.rate",
];
/// Maximum length of a parameter name, with some reserve.
const KEY_BYTES_MAX: usize = 200;
/// Drive parameters that are not specification fields.
const OF_DRIVES: [&str; 3] = ["name", "capacity", "over_provisioning_percent"];
/// Default share of the filesystem in use, in per cent.
const FILL_OF_FILES: f64 = 60.0;
const DRIVE_WRITES: f64 = 3.0;

/// True if a parameter accepts fractions.
pub(super) fn is_fractional(key: &str) -> bool {
    FRACTIONAL.contains(&key)
}

/// Source of drives and traces.
pub trait Sources {
    /// A trace that can be replayed.
    type Trace: Trace<Error: Display> + Clone;

    /// The drive with that name or path.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    fn drive(&self, name: &str) -> Result<Drive, String>;

    /// The trace in a file, and a hash of its content.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn trace(&self, path: &str, asked: &TraceReplayOptions) -> Result<(Self::Trace, String), String>;
}

/// Options for reading and replaying a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceReplayOptions {
    /// Parse options.
    pub reading: TraceReadOptions,
    /// When to issue requests.
    pub timing: Timing,
}

/// An invalid setting or combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The invalid parameter; `None` if only the combination is invalid.
    pub key: Option<String>,
    /// Description of the error.
    pub text: String,
}

impl SettingError {
    fn of(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: Some(key.into()), text: text.into() }
    }

    fn together(text: impl Into<String>) -> Self {
        Self { key: None, text: text.into() }
    }
}

/// Settings below `drive.` and so on, by local name. Used ones are removed; the rest are unknown.
struct SettingSection<'a> {
    name: &'static str,
    values: BTreeMap<&'a str, &'a Value>,
}

impl<'a> SettingSection<'a> {
    fn of(name: &'static str, settings: &'a [(&'a str, &'a Value)]) -> Self {
        let inside = |key: &'a str| key.strip_prefix(name)?.strip_prefix('.');
        Self { name, values: settings.iter().filter_map(|(key, value)| Some((inside(key)?, *value))).collect() }
    }

    fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    fn take(&mut self, key: &str) -> Option<&'a Value> {
        self.values.remove(key)
    }

    fn number(&mut self, key: &str, from: f64, to: f64) -> Result<Option<f64>, SettingError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = || SettingError::of(self.key(key), format!("{value} is not a number from {from} to {to}"));
        value.number().filter(|number| (from..=to).contains(number)).map(Some).ok_or_else(wrong)
    }

    fn whole(&mut self, key: &str, from: u32, to: u32) -> Result<Option<u32>, SettingError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let wrong = || SettingError::of(self.key(key), format!("{value} is not a whole number from {from} to {to}"));
        let number = if let Value::Integer(number) = value { u32::try_from(*number).ok() } else { None };
        number.filter(|number| (from..=to).contains(number)).map(Some).ok_or_else(wrong)
    }

    fn parsed<P: core::str::FromStr<Err: Display>>(&mut self, key: &str) -> Result<Option<P>, SettingError> {
        let Some(value) = self.take(key) else { return Ok(None) };
        value.to_string().parse().map(Some).map_err(|error: P::Err| SettingError::of(self.key(key), error.to_string()))
    }

    /// Fails if a setting is left. `known` provides a suggestion.
    fn end(&self, what: &str, known: &[&str]) -> Result<(), SettingError> {
        let Some(key) = self.values.keys().next() else { return Ok(()) };
        let hint = nearest(key, known).map_or_else(|| format!("; it has {}", known.join(", ")), |near| format!("; did you mean '{near}'?"));
        Err(SettingError::of(self.key(key), format!("{what} has no parameter '{key}'{hint}")))
    }
}

/// The cell for these settings and this seed. Later settings override earlier ones.
///
/// # Errors
/// The invalid parameter, or the invalid combination.
pub fn resolve<S: Sources>(settings: &[(&str, &Value)], seed: u64, sources: &S) -> Result<SweepCell<S::Trace>, SettingError> {
    check_keys(settings)?;
    for (key, _) in settings {
        let section = key.split('.').next().unwrap_or_default();
        if !SECTIONS.contains(&section) {
            let hint = nearest(section, &SECTIONS)
                .map_or_else(|| format!("sections are {}", SECTIONS.join(", ")), |near| format!("did you mean '{near}'?"));
            return Err(SettingError::of(*key, format!("unknown section '{section}'; {hint}")));
        }
    }
    let drive = match drive(SettingSection::of("drive", settings), sources) {
        Err(wrong) if wrong.key.is_some() => return Err(wrong),
        // Errors of a single parameter come first.
        drive => drive,
    };
    let policy = policy(&mut SettingSection::of("policy", settings))?;
    let mut workload = SettingSection::of("workload", settings);
    let volume = SettingSection::of("volume", settings);
    let name = workload.take("name").map_or_else(|| "random".to_owned(), ToString::to_string);
    if name == ageing::CHURN {
        return files(drive?.drive, policy, workload, volume, seed);
    }
    if let Some(key) = volume.values.keys().next() {
        return Err(SettingError::of(volume.key(key), format!("workload {name} has no filesystem; use churn")));
    }
    let (load, content, amount) = load(&name, &mut workload, sources)?;
    let plan = requests(name, load, amount, policy, &mut workload, seed)?;
    let ModifiedDrive { drive, few } = drive?;
    // Rejects a cell that its run would refuse, so that the plan check reports it.
    trimtab_sim::simulate::check(&drive.spec, &plan).map_err(|refused| SettingError::together(refused.to_string()))?;
    Ok(SweepCell { drive: drive.spec, few, work: SweepCellWork::Requests { plan: Box::new(plan), content } })
}

/// The drive. Unless set, the number of blocks follows from capacity and over-provisioning;
/// the proportions of the named drive remain.
fn drive<S: Sources>(mut section: SettingSection<'_>, sources: &S) -> Result<ModifiedDrive, SettingError> {
    let name = section
        .take("name")
        .ok_or_else(|| SettingError::of("drive.name", "a plan needs a drive: drive.name = \"NAME\" or a specification file"))?;
    let drive = sources.drive(&name.to_string()).map_err(|why| SettingError::of("drive.name", why))?;
    changed_by(drive, section)
}

/// `drive` with changed parameters, named as in plans: `drive.capacity`.
///
/// # Errors
/// The invalid parameter, or the invalid combination.
pub fn changed_drive(drive: Drive, settings: &[(&str, &Value)]) -> Result<ModifiedDrive, SettingError> {
    check_keys(settings)?;
    changed_by(drive, SettingSection::of("drive", settings))
}

/// Rejects overlong names, because each dot means a nested table.
fn check_keys(settings: &[(&str, &Value)]) -> Result<(), SettingError> {
    match settings.iter().find(|(key, _)| key.len() > KEY_BYTES_MAX) {
        Some((key, _)) => {
            let begin: String = key.chars().take(30).collect();
            Err(SettingError::of(format!("{begin}…"), format!("no parameter has a name of more than {KEY_BYTES_MAX} bytes")))
        }
        None => Ok(()),
    }
}

/// A drive with other parameters.
#[derive(Clone, Debug)]
pub struct ModifiedDrive {
    /// The drive.
    pub drive: Drive,
    /// Warning if the capacity leaves too few superblocks for reliable figures.
    pub few: Option<Warning>,
}

fn changed_by(drive: Drive, mut section: SettingSection<'_>) -> Result<ModifiedDrive, SettingError> {
    let capacity = section.parsed::<Bytes>("capacity")?;
    let asked = section.number("over_provisioning_percent", 0.1, 10_000.0)?.map(|percent| libm::round(percent * 10.0) as u32);
    let made = at_capacity(drive.clone(), capacity, asked, &section)?;
    // The full-size drive with the same other settings.
    let full = capacity.and_then(|_| at_capacity(drive, None, asked, &section).ok());
    let few = full.and_then(|full| few::superblocks(&full.spec, &made.spec));
    Ok(ModifiedDrive { drive: made, few })
}

/// `drive` at a capacity, with over-provisioning in per mille if `asked`, and with the remaining
/// fields of `section`. Shrinks superblocks if there would be too few and their pages are not set.
fn at_capacity(drive: Drive, capacity: Option<Bytes>, asked: Option<u32>, section: &SettingSection<'_>) -> Result<Drive, SettingError> {
    let as_is = of_capacity(drive.clone(), capacity, asked, section);
    if capacity.is_none() || section.values.contains_key("flash.geometry.pages_per_block") {
        return as_is;
    }
    let smaller = || model::smaller_superblocks(&drive.spec).map(|spec| Drive { spec, ..drive.clone() });
    as_is.or_else(|wrong| match wrong.key {
        Some(_) => Err(wrong),
        None => smaller().find_map(|drive| of_capacity(drive, capacity, asked, section).ok()).ok_or(wrong),
    })
}

/// As [`at_capacity`], with unchanged superblocks.
fn of_capacity(mut drive: Drive, capacity: Option<Bytes>, asked: Option<u32>, section: &SettingSection<'_>) -> Result<Drive, SettingError> {
    let before = drive.spec.clone();
    let spare = drive.spec.flash().map(|flash| model::over_provisioning_permille(&flash.geometry, drive.spec.capacity_bytes));
    if let Some(capacity) = capacity {
        drive.spec = model::scaled(drive.spec, capacity);
    }
    for (field, value) in &section.values {
        drive.spec = with_field(drive.spec, field, value).map_err(|text| SettingError::of(section.key(field), text))?;
    }
    let shaped = section.values.keys().any(|field| field.starts_with("flash.geometry."));
    let blocks = section.values.contains_key("flash.geometry.blocks_per_plane");
    match &mut drive.spec.medium {
        Medium::Flash(_) if asked.is_some() && blocks => {
            let key = "drive.over_provisioning_percent";
            return Err(SettingError::of(key, "conflicts with drive.flash.geometry.blocks_per_plane, which determines it"));
        }
        Medium::Flash(flash) if asked.is_some() || shaped && !blocks => {
            let permille = asked.or(spare).unwrap_or(0);
            flash.geometry = flash.geometry.clone().with_over_provisioning(drive.spec.capacity_bytes, permille);
        }
        Medium::Disk(_) if asked.is_some() => {
            return Err(SettingError::of("drive.over_provisioning_percent", format!("{} is a hard disk and has none", drive.spec.name)));
        }
        _ => {}
    }
    drive.spec.validate().map_err(|error| SettingError::together(error.to_string()))?;
    // Knowledge about a learned drive does not apply to a changed one.
    if drive.spec != before {
        drive.twin = None;
    }
    Ok(drive)
}

/// True if the name of a drive is the path of a file.
#[must_use]
pub fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

fn with_field(mut spec: DriveSpec, field: &str, value: &Value) -> Result<DriveSpec, String> {
    let value = field_value(field, value)?;
    let whole = |max: u64| {
        value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n <= max).ok_or_else(|| format!("{value:?} is not a valid size"))
    };
    let (section, rest) = field.split_once('.').unwrap_or((field, ""));
    match (section, &mut spec.medium) {
        ("capacity_bytes", _) if rest.is_empty() => spec.capacity_bytes = whole(u64::MAX)?,
        ("logical_block_bytes", _) if rest.is_empty() => spec.logical_block_bytes = whole(u64::from(u32::MAX))? as u32,
        ("interface", _) => spec.interface = changed(&spec.interface, rest, value)?,
        ("flash", Medium::Flash(flash)) => *flash = changed(flash, rest, value)?,
        ("disk", Medium::Disk(disk)) => *disk = changed(disk, rest, value)?,
        ("flash" | "disk", _) => return Err(format!("{} has no [{section}] section", spec.name)),
        _ => {
            let known: Vec<&str> =
                OF_DRIVES.into_iter().chain(["capacity_bytes", "logical_block_bytes", "interface", "flash", "disk"]).collect();
            return Err(format!("a drive has no parameter '{field}'{}", meant(section, &known)));
        }
    }
    Ok(spec)
}

fn field_value(field: &str, value: &Value) -> Result<toml::Value, String> {
    let whole = |number: u64| i64::try_from(number).map(toml::Value::Integer).map_err(|_| format!("{number} is too large"));
    match value {
        Value::Text(text) if field.ends_with("bytes") => whole(text.parse::<Bytes>().map_err(|error| error.to_string())?.0),
        Value::Text(text) if field.ends_with("_ns") => {
            whole(text.parse::<trimtab_drive::units::Nanos>().map_err(|error| error.to_string())?.0)
        }
        Value::Text(text) => Ok(toml::Value::String(text.clone())),
        Value::Integer(number) => Ok(toml::Value::Integer(*number)),
        Value::Number(number) => Ok(toml::Value::Float(*number)),
        Value::Flag(flag) => Ok(toml::Value::Boolean(*flag)),
        Value::Table(table) => Ok(toml::Value::Table(table.clone())),
    }
}

fn changed<P: serde::Serialize + serde::de::DeserializeOwned>(part: &P, field: &str, value: toml::Value) -> Result<P, String> {
    let mut table = toml::Table::try_from(part).map_err(|error| error.to_string())?;
    let (path, last) = field.rsplit_once('.').unwrap_or(("", field));
    let mut place = &mut table;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let inner = place.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        if !inner.is_table() {
            *inner = toml::Value::Table(toml::Table::new());
        }
        place = inner.as_table_mut().ok_or("it is not a table")?;
    }
    place.insert(last.to_owned(), value);
    table.try_into().map_err(|error: toml::de::Error| readable(error.message()))
}

/// Shortens a parser message: suggests the likely field instead of listing all.
fn readable(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let Some((unknown, known)) = line.split_once(", expected ") else { return line.to_owned() };
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    match (unknown.starts_with("unknown "), quoted(unknown).first(), quoted(known)) {
        (true, Some(name), known) if !known.is_empty() => {
            format!("{}{}", unknown.replace('`', "'"), meant(name, &known.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        _ => line.to_owned(),
    }
}

fn meant(word: &str, known: &[&str]) -> String {
    nearest(word, known).map_or_else(|| format!("; there are {}", known.join(", ")), |near| format!("; did you mean '{near}'?"))
}

/// The policy; `None` for the workload's own, which trims immediately.
fn policy(section: &mut SettingSection<'_>) -> Result<Option<PolicySpec>, SettingError> {
    let name = section.take("name").map(ToString::to_string);
    let Some(mut text) = name else {
        return match section.values.keys().next() {
            Some(key) => Err(SettingError::of(section.key(key), "needs a policy: set policy.name")),
            None => Ok(None),
        };
    };
    let mut policy: PolicySpec =
        text.parse().map_err(|error: trimtab_sim::policy::ParsePolicyError| SettingError::of("policy.name", error.to_string()))?;
    for (key, value) in &section.values {
        text = format!("{text}:{key}={value}");
        policy =
            text.parse().map_err(|error: trimtab_sim::policy::ParsePolicyError| SettingError::of(section.key(key), error.to_string()))?;
    }
    Ok(Some(policy))
}

/// The requests of a workload, a hash of its input, and the default amount to write.
#[expect(clippy::type_complexity, reason = "three things that belong together once")]
fn load<S: Sources>(
    name: &str,
    section: &mut SettingSection<'_>,
    sources: &S,
) -> Result<(SimulationLoad<S::Trace>, String, Option<Amount>), SettingError> {
    let three = Some(Amount::Capacities(DRIVE_WRITES));
    let of_name = |text: String| SettingError::of("workload.name", text);
    let (kind, rest) = name.split_once(':').unwrap_or((name, ""));
    let share = |text: &str| text.parse::<f64>().map_err(|_| of_name(format!("'{text}' is not a number")));
    let pattern = match (kind, rest) {
        ("sequential", "") => Pattern::Sequential,
        ("random", "") => Pattern::Uniform,
        ("hot-cold", rest) => {
            let (space, ops) = if rest.is_empty() {
                ("0.2", "0.8")
            } else {
                rest.split_once('/').ok_or_else(|| of_name("write hot-cold:SPACE/OPERATIONS".into()))?
            };
            let space = section.number("hot_space", 0.0, 1.0)?.map_or_else(|| share(space), Ok)?;
            Pattern::HotCold { space, ops: section.number("hot_operations", 0.0, 1.0)?.map_or_else(|| share(ops), Ok)? }
        }
        ("zipf", rest) => {
            let theta = section.number("theta", 0.0, 10.0)?;
            Pattern::Zipf { theta: theta.map_or_else(|| share(if rest.is_empty() { "0.99" } else { rest }), Ok)? }
        }
        ("crystal", rest) => return Ok((SimulationLoad::Crystal(rest.parse().map_err(of_name)?), String::new(), three)),
        ("trace", path) if !path.is_empty() => {
            let asked = asked(section)?;
            let (trace, content) = sources.trace(path, &asked).map_err(of_name)?;
            return Ok((SimulationLoad::Trace(trace), content, None));
        }
        _ => {
            let known = ["sequential", "random", "hot-cold", "zipf", "crystal", "trace:FILE", ageing::CHURN];
            return Err(of_name(format!("there is no workload '{name}'{}", meant(kind, &known))));
        }
    };
    Ok((SimulationLoad::Synthetic(addresses(pattern, section)?), String::new(), three))
}

fn asked(section: &mut SettingSection<'_>) -> Result<TraceReplayOptions, SettingError> {
    let timing = match (section.number("rate", 0.001, 1e9)?, section.whole("closed_loop", 1, 65_536)?) {
        (Some(rate), None) => Timing::Rate(rate),
        (None, Some(depth)) => Timing::ClosedLoop(depth),
        (None, None) => Timing::Recorded,
        (Some(_), Some(_)) => {
            return Err(SettingError::of("workload.closed_loop", "a trace takes either workload.rate or workload.closed_loop, not both"));
        }
    };
    let reading =
        TraceReadOptions { format: section.parsed("format")?, volume: section.parsed("volume")?, events: section.parsed("events")? };
    Ok(TraceReplayOptions { reading, timing })
}

fn addresses(pattern: Pattern, section: &mut SettingSection<'_>) -> Result<Addresses, SettingError> {
    let sizes = match section.take("size") {
        None => alloc::vec![(4096, 1)],
        Some(value) => sizes(&value.to_string()).map_err(|text| SettingError::of("workload.size", text))?,
    };
    let trims_of = match section.take("trims_of").map(ToString::to_string).as_deref() {
        None | Some("all") => TrimPattern::All,
        Some("in-use") => TrimPattern::InUse,
        Some(other) => return Err(SettingError::of("workload.trims_of", format!("must be 'all' or 'in-use', not '{other}'"))),
    };
    Ok(Addresses {
        pattern,
        mix: Mix {
            read_percent: section.whole("read_percent", 0, 99)?.unwrap_or(0) as u8,
            trim_percent: section.whole("trim_percent", 0, 99)?.unwrap_or(0) as u8,
        },
        trims_of,
        sizes,
        queue_depth: section.whole("queue_depth", 1, 65_536)?.unwrap_or(32),
        span_permille: libm::round(section.number("span_percent", 0.1, 100.0)?.unwrap_or(100.0) * 10.0) as u32,
    })
}

/// Parses `4KiB`, or several sizes with weights: `4KiB:70,64KiB:30`.
fn sizes(text: &str) -> Result<Vec<(u32, u32)>, String> {
    let one = |part: &str| {
        let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
        let bytes: Bytes = size.parse().map_err(|error: trimtab_drive::units::ParseQuantityError| error.to_string())?;
        let bytes = u32::try_from(bytes.0).ok().filter(|bytes| *bytes > 0).ok_or_else(|| format!("{size} is not an operation size"))?;
        Ok((bytes, weight.parse().map_err(|_| format!("'{weight}' is not a weight"))?))
    };
    text.split(',').map(one).collect()
}

fn requests<T>(
    name: String,
    load: SimulationLoad<T>,
    amount: Option<Amount>,
    trim: Option<PolicySpec>,
    section: &mut SettingSection<'_>,
    seed: u64,
) -> Result<SimulationPlan<T>, SettingError> {
    let (of_addresses, of_crystal) = (matches!(load, SimulationLoad::Synthetic(_)), matches!(load, SimulationLoad::Crystal(_)));
    let amount = match (section.parsed::<Amount>("until_written")?, section.number("drive_writes", 0.001, 1e6)?) {
        (Some(_), Some(_)) => {
            return Err(SettingError::of("workload.until_written", "conflicts with workload.drive_writes: set only one of them"));
        }
        (Some(amount), None) => Some(amount),
        (None, Some(times)) => Some(Amount::Capacities(times)),
        (None, None) => amount,
    };
    let fill = section.number("fill_percent", 0.0, 100.0)?.unwrap_or(if of_addresses { 100.0 } else { 0.0 });
    let plan = SimulationPlan {
        data: section.parsed("data")?.unwrap_or(DataClass::Random),
        fill_permille: libm::round(fill * 10.0) as u32,
        until_written: amount,
        trim: trim.or(of_crystal.then_some(PolicySpec::None)),
        seed,
        load,
        name,
    };
    let common = ["name", "data", "drive_writes", "until_written", "fill_percent"];
    let more: &[&str] = match &plan.load {
        SimulationLoad::Synthetic(addresses) => match addresses.pattern {
            Pattern::HotCold { .. } => {
                &["hot_space", "hot_operations", "size", "read_percent", "trim_percent", "trims_of", "queue_depth", "span_percent"]
            }
            Pattern::Zipf { .. } => &["theta", "size", "read_percent", "trim_percent", "trims_of", "queue_depth", "span_percent"],
            _ => &["size", "read_percent", "trim_percent", "trims_of", "queue_depth", "span_percent"],
        },
        SimulationLoad::Trace(_) => &["format", "volume", "events", "rate", "closed_loop"],
        SimulationLoad::Crystal(_) => &[],
    };
    section.end(&format!("workload {}", plan.name), &[&common, more].concat())?;
    Ok(plan)
}

fn files<T>(
    drive: Drive,
    policy: Option<PolicySpec>,
    mut section: SettingSection<'_>,
    mut of_volume: SettingSection<'_>,
    seed: u64,
) -> Result<SweepCell<T>, SettingError> {
    let volume = volume(&mut of_volume)?;
    let fill = section.number("fill_percent", 1.0, 95.0)?.unwrap_or(FILL_OF_FILES) / 100.0;
    let data = section.parsed("data")?.unwrap_or(DataClass::Random);
    let drive_writes = section.number("drive_writes", 0.01, 1e4)?.unwrap_or(DRIVE_WRITES);
    let label = format!("drive:{}", drive.spec.name);
    let spec = drive.spec.clone();
    let setup = Setup { drive, label, volume, fill: 0.0, fill_class: data, used: FreeExtentLengths::default(), seed };
    let mut ageing = Ageing::new(setup, fill, data, drive_writes);
    ageing.daily = section.number("drive_writes_a_day", 1e-4, 1e4)?.unwrap_or(ageing::DAILY);
    ageing.size = section.parsed("aged_size")?.unwrap_or(small::SIZE);
    ageing.mix.median = section.number("median_bytes", 1.0, 1e12)?.unwrap_or(ageing.mix.median);
    ageing.mix.sigma = section.number("sigma", 0.0, 10.0)?.unwrap_or(ageing.mix.sigma);
    ageing.mix.append_percent = section.whole("append_percent", 0, 99)?.map_or(ageing.mix.append_percent, u64::from);
    ageing.mix.read_percent = section.whole("read_percent", 0, 100_000)?.map_or(ageing.mix.read_percent, u64::from);
    let known = [
        "name",
        "fill_percent",
        "data",
        "drive_writes",
        "drive_writes_a_day",
        "aged_size",
        "median_bytes",
        "sigma",
        "append_percent",
        "read_percent",
    ];
    section.end("workload churn", &known)?;
    let policy = policy.unwrap_or(PolicySpec::None);
    if policy != PolicySpec::None && spec.flash().is_none_or(|flash| !flash.trim.supported) {
        return Err(SettingError::together(format!("{} does not support TRIM, so no policy but none can be tried: {policy}", spec.name)));
    }
    Ok(SweepCell { drive: spec, few: None, work: SweepCellWork::Files { ageing: Box::new(ageing), policy } })
}

fn volume(section: &mut SettingSection<'_>) -> Result<VolumeSpec, SettingError> {
    let names = ["ext4", "ext4-2011", "desktop-2011"];
    let name = section.take("name").map_or_else(|| names[0].to_owned(), ToString::to_string);
    if !names.contains(&name.as_str()) {
        return Err(SettingError::of("volume.name", format!("there is no filesystem '{name}'{}", meant(&name, &names))));
    }
    let mut volume = volume_named(&name);
    for (key, value) in core::mem::take(&mut section.values) {
        let dashed = key.replace('_', "-");
        let known = VolumeSpec::setting_names();
        if !known.contains(&dashed.as_str()) {
            return Err(SettingError::of(section.key(key), format!("a volume has no setting '{key}'{}", meant(&dashed, &known))));
        }
        volume.set(&dashed, &value.to_string()).map_err(|text| SettingError::of(section.key(key), text))?;
    }
    Ok(volume)
}
