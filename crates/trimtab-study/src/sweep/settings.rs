//! Converts settings to a cell. This module alone knows the parameters of a plan.

use super::cell::{SweepCell, SweepCellWork};
use super::value::Value;
use crate::study::ageing::{self, Ageing};
use crate::study::modelled::{Setup, volume_named};
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
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::suggest;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::Warning;
use trimtab_sim::setting::{GivenSettings, Setting, SettingError};
use trimtab_sim::simulate::few;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::simulate::{Addresses, Amount, SimulationLoad, SimulationPlan, Trace};
use trimtab_sim::trace::TraceReadOptions;
use trimtab_sim::volume::VolumeSpec;
use trimtab_sim::workload::synthetic::{Mix, Pattern, RequestSizes, TrimPattern};

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
    fn trace(
        &self,
        path: &str,
        asked: &TraceReplayOptions,
    ) -> Result<(Self::Trace, String), String>;
}

/// Options for reading and replaying a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceReplayOptions {
    /// Parse options.
    pub reading: TraceReadOptions,
    /// When to issue requests.
    pub timing: Timing,
}

/// The values below `drive.` and so on, by local name. Later ones override earlier ones.
fn section<'a>(name: &str, settings: &'a [(&'a str, &'a Value)]) -> BTreeMap<&'a str, &'a Value> {
    let inside = |key: &'a str| key.strip_prefix(name)?.strip_prefix('.');
    settings.iter().filter_map(|(key, value)| Some((inside(key)?, *value))).collect()
}

fn given<'a>(name: &str, settings: &'a [(&'a str, &'a Value)]) -> GivenSettings<'a> {
    GivenSettings::new(
        format!("{name}."),
        section(name, settings).into_iter().map(|(key, value)| (key, value.to_string())),
    )
}

/// The cell for these settings and this seed. Later settings override earlier ones.
///
/// # Errors
/// The invalid parameter, or the invalid combination.
pub fn resolve<S: Sources>(
    settings: &[(&str, &Value)],
    seed: u64,
    sources: &S,
) -> Result<SweepCell<S::Trace>, SettingError> {
    check_keys(settings)?;
    for (key, _) in settings {
        let section = key.split('.').next().unwrap_or_default();
        if !SECTIONS.contains(&section) {
            return Err(SettingError::of(
                *key,
                format!("unknown section '{section}'; {}", suggest(section, "sections", &SECTIONS)),
            ));
        }
    }
    let drive = match drive(section("drive", settings), sources) {
        Err(wrong) if wrong.key.is_some() => return Err(wrong),
        // Errors of a single parameter come first.
        drive => drive,
    };
    let policy = policy(given("policy", settings))?;
    let (mut workload, volume) = (given("workload", settings), given("volume", settings));
    let name = workload.option("name")?.unwrap_or_else(|| "random".to_owned());
    if name == ageing::CHURN {
        return files(drive?.drive, policy, workload, volume, seed);
    }
    if let Some(key) = volume.first() {
        return Err(volume.wrong(key, format!("workload {name} has no filesystem; use churn")));
    }
    let (load, content, amount) = load(&name, &mut workload, sources)?;
    let plan = requests(name, load, amount, policy, &mut workload, seed)?;
    let ModifiedDrive { drive, few } = drive?;
    // Rejects a cell that its run would refuse, so that the plan check reports it.
    trimtab_sim::simulate::check(&drive.spec, &plan)
        .map_err(|refused| SettingError::together(refused.to_string()))?;
    Ok(SweepCell {
        drive: drive.spec,
        few,
        work: SweepCellWork::Requests { plan: Box::new(plan), content },
    })
}

/// The drive. Unless set, the number of blocks follows from capacity and
/// over-provisioning; the proportions of the named drive remain.
fn drive<S: Sources>(
    mut section: DriveSettings<'_>,
    sources: &S,
) -> Result<ModifiedDrive, SettingError> {
    let name = section.remove("name").ok_or_else(|| {
        SettingError::of(
            "drive.name",
            "a plan needs a drive: drive.name = \"NAME\" or a specification file",
        )
    })?;
    let drive =
        sources.drive(&name.to_string()).map_err(|why| SettingError::of("drive.name", why))?;
    changed_by(drive, section)
}

/// `drive` with changed parameters, named as in plans: `drive.capacity`.
///
/// # Errors
/// The invalid parameter, or the invalid combination.
pub fn changed_drive(
    drive: Drive,
    settings: &[(&str, &Value)],
) -> Result<ModifiedDrive, SettingError> {
    check_keys(settings)?;
    changed_by(drive, section("drive", settings))
}

/// Rejects overlong names, because each dot means a nested table.
fn check_keys(settings: &[(&str, &Value)]) -> Result<(), SettingError> {
    match settings.iter().find(|(key, _)| key.len() > KEY_BYTES_MAX) {
        Some((key, _)) => {
            let begin: String = key.chars().take(30).collect();
            Err(SettingError::of(
                format!("{begin}…"),
                format!("no parameter has a name of more than {KEY_BYTES_MAX} bytes"),
            ))
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

/// Settings of a drive, which keep their types.
type DriveSettings<'a> = BTreeMap<&'a str, &'a Value>;

fn changed_by(drive: Drive, mut section: DriveSettings<'_>) -> Result<ModifiedDrive, SettingError> {
    let own = ["capacity", "over_provisioning_percent"]
        .into_iter()
        .filter_map(|key| Some((key, section.remove(key)?.to_string())));
    let mut given = GivenSettings::new("drive.", own.collect::<Vec<_>>());
    let capacity = given.option::<Bytes>("capacity")?;
    let mut permille = 0;
    let asked = given
        .set("over_provisioning_percent", Setting::Permille(&mut permille, 0.1..=10_000.0))?
        .then_some(permille);
    let made = at_capacity(drive.clone(), capacity, asked, &section)?;
    // The full-size drive with the same other settings.
    let full = capacity.and_then(|_| at_capacity(drive, None, asked, &section).ok());
    let few = full.and_then(|full| few::superblocks(&full.spec, &made.spec));
    Ok(ModifiedDrive { drive: made, few })
}

/// `drive` at a capacity, with over-provisioning in per mille if `asked`, and with the
/// remaining fields of `section`. Shrinks superblocks if there would be too few and their
/// pages are not set.
fn at_capacity(
    drive: Drive,
    capacity: Option<Bytes>,
    asked: Option<u32>,
    section: &DriveSettings<'_>,
) -> Result<Drive, SettingError> {
    let as_is = of_capacity(drive.clone(), capacity, asked, section);
    if capacity.is_none() || section.contains_key("flash.geometry.pages_per_block") {
        return as_is;
    }
    let smaller =
        || model::smaller_superblocks(&drive.spec).map(|spec| Drive { spec, ..drive.clone() });
    as_is.or_else(|wrong| match wrong.key {
        Some(_) => Err(wrong),
        None => smaller()
            .find_map(|drive| of_capacity(drive, capacity, asked, section).ok())
            .ok_or(wrong),
    })
}

/// As [`at_capacity`], with unchanged superblocks.
fn of_capacity(
    mut drive: Drive,
    capacity: Option<Bytes>,
    asked: Option<u32>,
    section: &DriveSettings<'_>,
) -> Result<Drive, SettingError> {
    let before = drive.spec.clone();
    let spare = model::over_provisioning_permille(&before.flash.geometry, before.capacity_bytes);
    if let Some(capacity) = capacity {
        drive.spec = model::scaled(drive.spec, capacity);
    }
    for (field, value) in section {
        drive.spec = with_field(drive.spec, field, value)
            .map_err(|text| SettingError::of(format!("drive.{field}"), text))?;
    }
    let shaped = section.keys().any(|field| field.starts_with("flash.geometry."));
    let blocks = section.contains_key("flash.geometry.blocks_per_plane");
    if asked.is_some() && blocks {
        return Err(SettingError::of(
            "drive.over_provisioning_percent",
            "conflicts with drive.flash.geometry.blocks_per_plane, which determines it",
        ));
    }
    if asked.is_some() || shaped && !blocks {
        let geometry = &mut drive.spec.flash.geometry;
        *geometry = geometry
            .clone()
            .with_over_provisioning(drive.spec.capacity_bytes, asked.unwrap_or(spare));
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
        value
            .as_integer()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| *n <= max)
            .ok_or_else(|| format!("{value:?} is not a valid size"))
    };
    let (section, rest) = field.split_once('.').unwrap_or((field, ""));
    match section {
        "capacity_bytes" if rest.is_empty() => spec.capacity_bytes = whole(u64::MAX)?,
        "logical_block_bytes" if rest.is_empty() => {
            spec.logical_block_bytes = whole(u64::from(u32::MAX))? as u32
        }
        "interface" => spec.interface = changed(&spec.interface, rest, value)?,
        "flash" => spec.flash = changed(&spec.flash, rest, value)?,
        _ => {
            let known: Vec<&str> = OF_DRIVES
                .into_iter()
                .chain(["capacity_bytes", "logical_block_bytes", "interface", "flash"])
                .collect();
            return Err(format!(
                "a drive has no setting '{field}'; {}",
                suggest(section, "settings", &known)
            ));
        }
    }
    Ok(spec)
}

fn field_value(field: &str, value: &Value) -> Result<toml::Value, String> {
    let whole = |number: u64| {
        i64::try_from(number)
            .map(toml::Value::Integer)
            .map_err(|_| format!("{number} is too large"))
    };
    match value {
        Value::Text(text) if field.ends_with("bytes") => {
            whole(text.parse::<Bytes>().map_err(|error| error.to_string())?.0)
        }
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

fn changed<P: serde::Serialize + serde::de::DeserializeOwned>(
    part: &P,
    field: &str,
    value: toml::Value,
) -> Result<P, String> {
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
    let quoted =
        |text: &str| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    match (unknown.starts_with("unknown "), quoted(unknown).first(), quoted(known)) {
        (true, Some(name), known) if !known.is_empty() => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("{}; {}", unknown.replace('`', "'"), suggest(name, "names", &known))
        }
        _ => line.to_owned(),
    }
}

/// The policy; `None` for the workload's own, which trims immediately.
fn policy(mut given: GivenSettings<'_>) -> Result<Option<PolicySpec>, SettingError> {
    match (given.option::<PolicySpec>("name")?, given.first()) {
        (Some(mut policy), _) => policy.set(given).map(|()| Some(policy)),
        (None, Some(key)) => Err(given.wrong(key, "needs a policy: set policy.name")),
        (None, None) => Ok(None),
    }
}

/// The requests of a workload, a hash of its input, and the default amount to write.
#[expect(clippy::type_complexity, reason = "three things that belong together once")]
fn load<S: Sources>(
    name: &str,
    given: &mut GivenSettings<'_>,
    sources: &S,
) -> Result<(SimulationLoad<S::Trace>, String, Option<Amount>), SettingError> {
    let three = Some(Amount::Capacities(DRIVE_WRITES));
    let of_name = |text: String| SettingError::of("workload.name", text);
    match name.split_once(':').unwrap_or((name, "")) {
        ("crystal", rest) => {
            Ok((SimulationLoad::Crystal(rest.parse().map_err(of_name)?), String::new(), three))
        }
        ("trace", path) if !path.is_empty() => {
            let asked = asked(given)?;
            let (trace, content) = sources.trace(path, &asked).map_err(of_name)?;
            Ok((SimulationLoad::Trace(trace), content, None))
        }
        _ => {
            let pattern =
                Pattern::parse(name, &["crystal", "trace:FILE", ageing::CHURN]).map_err(of_name)?;
            Ok((SimulationLoad::Synthetic(addresses(pattern, given)?), String::new(), three))
        }
    }
}

fn asked(given: &mut GivenSettings<'_>) -> Result<TraceReplayOptions, SettingError> {
    let (mut rate, mut depth) = (0.0, 0_u32);
    let is_given = (
        given.set("rate", Setting::Fraction(&mut rate, 0.001..=1e9))?,
        given.set("closed_loop", Setting::Number(&mut depth, 1..=65_536))?,
    );
    let timing = match is_given {
        (true, false) => Timing::Rate(rate),
        (false, true) => Timing::ClosedLoop(depth),
        (false, false) => Timing::Recorded,
        (true, true) => {
            return Err(given.wrong(
                "closed_loop",
                "a trace takes either workload.rate or workload.closed_loop, not both",
            ));
        }
    };
    let reading = TraceReadOptions {
        format: given.option("format")?,
        volume: given.option("volume")?,
        events: given.option("events")?,
    };
    Ok(TraceReplayOptions { reading, timing })
}

fn addresses(
    mut pattern: Pattern,
    given: &mut GivenSettings<'_>,
) -> Result<Addresses, SettingError> {
    match &mut pattern {
        Pattern::HotCold { space, ops } => given.apply([
            ("hot_space", Setting::Fraction(space, 0.0..=1.0)),
            ("hot_operations", Setting::Fraction(ops, 0.0..=1.0)),
        ])?,
        Pattern::Zipf { theta } => {
            given.apply([("theta", Setting::Fraction(theta, 0.0..=10.0))])?
        }
        Pattern::Sequential | Pattern::Uniform | Pattern::Shuffled | Pattern::Pareto { .. } => {}
    }
    let sizes = given
        .option::<RequestSizes>("size")?
        .map_or_else(|| alloc::vec![(4096, 1)], |sizes| sizes.0);
    let (mix, trims_of) = (Mix::default(), TrimPattern::default());
    let mut addresses =
        Addresses { pattern, mix, trims_of, sizes, queue_depth: 32, span_permille: 1000 };
    given.apply([
        ("read_percent", Setting::Number(&mut addresses.mix.read_percent, 0..=99)),
        ("trim_percent", Setting::Number(&mut addresses.mix.trim_percent, 0..=99)),
        ("trims_of", Setting::Text(&mut addresses.trims_of)),
        ("queue_depth", Setting::Number(&mut addresses.queue_depth, 1..=65_536)),
        ("span_percent", Setting::Permille(&mut addresses.span_permille, 0.1..=100.0)),
    ])?;
    Ok(addresses)
}

fn requests<T>(
    name: String,
    load: SimulationLoad<T>,
    amount: Option<Amount>,
    trim: Option<PolicySpec>,
    given: &mut GivenSettings<'_>,
    seed: u64,
) -> Result<SimulationPlan<T>, SettingError> {
    let mut drive_writes = 0.0;
    let times = given
        .set("drive_writes", Setting::Fraction(&mut drive_writes, 0.001..=1e6))?
        .then_some(Amount::Capacities(drive_writes));
    let until_written = given.option::<Amount>("until_written")?;
    if until_written.is_some() && times.is_some() {
        return Err(given
            .wrong("until_written", "conflicts with workload.drive_writes: set only one of them"));
    }
    let mut plan = SimulationPlan {
        data: DataClass::Random,
        fill_permille: if matches!(load, SimulationLoad::Synthetic(_)) { 1000 } else { 0 },
        steady: false,
        until_written: until_written.or(times).or(amount),
        trim: trim.or(matches!(load, SimulationLoad::Crystal(_)).then_some(PolicySpec::None)),
        seed,
        load,
        name,
    };
    given.apply([
        ("data", Setting::Text(&mut plan.data)),
        ("fill_percent", Setting::Permille(&mut plan.fill_permille, 0.0..=100.0)),
        ("steady", Setting::Flag(&mut plan.steady)),
    ])?;
    given.end(&format!("workload {}", plan.name))?;
    Ok(plan)
}

fn files<T>(
    drive: Drive,
    policy: Option<PolicySpec>,
    mut given: GivenSettings<'_>,
    of_volume: GivenSettings<'_>,
    seed: u64,
) -> Result<SweepCell<T>, SettingError> {
    let volume = volume(of_volume)?;
    let (mut fill, mut data, mut drive_writes) = (FILL_OF_FILES, DataClass::Random, DRIVE_WRITES);
    given.apply([
        ("fill_percent", Setting::Fraction(&mut fill, 1.0..=95.0)),
        ("data", Setting::Text(&mut data)),
        ("drive_writes", Setting::Fraction(&mut drive_writes, 0.01..=1e4)),
    ])?;
    let label = format!("drive:{}", drive.spec.name);
    let spec = drive.spec.clone();
    let setup = Setup {
        drive,
        label,
        volume,
        fill: 0.0,
        fill_class: data,
        used: FreeExtentLengths::default(),
        seed,
    };
    let mut ageing = Ageing::new(setup, fill / 100.0, data, drive_writes);
    given.apply([
        ("drive_writes_a_day", Setting::Fraction(&mut ageing.daily, 1e-4..=1e4)),
        ("aged_size", Setting::size(&mut ageing.size)),
        ("median_bytes", Setting::Fraction(&mut ageing.mix.median, 1.0..=1e12)),
        ("sigma", Setting::Fraction(&mut ageing.mix.sigma, 0.0..=10.0)),
        ("append_percent", Setting::Number(&mut ageing.mix.append_percent, 0..=99)),
        ("read_percent", Setting::Number(&mut ageing.mix.read_percent, 0..=100_000)),
    ])?;
    given.end("workload churn")?;
    let policy = policy.unwrap_or(PolicySpec::None);
    if policy != PolicySpec::None && !spec.flash.trim.supported {
        return Err(SettingError::together(format!(
            "{} does not support TRIM, so no policy but none can be tried: {policy}",
            spec.name
        )));
    }
    Ok(SweepCell {
        drive: spec,
        few: None,
        work: SweepCellWork::Files { ageing: Box::new(ageing), policy },
    })
}

fn volume(mut given: GivenSettings<'_>) -> Result<VolumeSpec, SettingError> {
    let names = ["ext4", "ext4-2011", "desktop-2011"];
    let name = given.option("name")?.unwrap_or_else(|| names[0].to_owned());
    if !names.contains(&name.as_str()) {
        return Err(given.wrong(
            "name",
            format!("there is no filesystem '{name}'; {}", suggest(&name, "filesystems", &names)),
        ));
    }
    let mut volume = volume_named(&name);
    volume.set(given)?;
    Ok(volume)
}
