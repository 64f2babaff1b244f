//! Data files with the published figures, their publications, and the decisions fixed
//! before comparing; parsed and checked.

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trimtab::drives::{self, Drive};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::volume::{HostCost, VolumeSpec};

const RESULTS: &[&str] = &[include_str!("results.toml"), include_str!("reviews.toml")];
/// Titles, authors and dates.
const SOURCES: &str = include_str!("sources.toml");
/// Configurations and scoring decisions.
const FROZEN: &str = include_str!("frozen.toml");
/// Drives from reviews, modelled only for this comparison.
const REVIEWED: &[&str] = &[
    include_str!("drives/adata-xpg-atom-50-1tb.toml"),
    include_str!("drives/crucial-p1-1tb.toml"),
    include_str!("drives/crucial-p5-1tb.toml"),
    include_str!("drives/lexar-nm710-1tb.toml"),
    include_str!("drives/lexar-nm790-2tb.toml"),
    include_str!("drives/msi-spatium-m480-play-2tb.toml"),
    include_str!("drives/samsung-870-qvo-4tb.toml"),
    include_str!("drives/seagate-firecuda-510-1tb.toml"),
    include_str!("drives/silicon-power-xd80-2tb.toml"),
    include_str!("drives/team-cardea-a440-pro-2tb.toml"),
    include_str!("drives/wd-blue-sn550-1tb.toml"),
    include_str!("drives/wd-blue-sn580-1tb.toml"),
];

/// Modelled figures by their published name.
pub type ModelledFigures = BTreeMap<&'static str, f64>;

/// All configurations and published results.
#[derive(Debug)]
pub struct PublishedData {
    /// The published files.
    pub results: toml::Table,
    /// Configurations in the order of the table.
    pub configurations: Vec<Configuration>,
    /// Figures that follow from others.
    pub identities: Vec<FigureIdentity>,
    /// Numbers in the published tables that are settings, not results, by table.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Scores under earlier decisions, oldest first.
    pub history: Vec<PastScore>,
    sources: BTreeMap<String, Publication>,
    filesystems: BTreeMap<String, Filesystem>,
}

/// Score under earlier decisions. Counts: within, as read only, off, not produced.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PastScore {
    /// Date of the revised decision.
    pub until: toml::value::Datetime,
    /// Difference from the current decisions.
    pub why: String,
    /// Predictions.
    pub predicted: [usize; 4],
    /// Predictions on drives held out.
    pub held_out: [usize; 4],
    /// Fits.
    pub fitted: [usize; 4],
}

/// A published result and its model configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Table of the published file, which determines the workload.
    pub of: PublishedWorkload,
    /// Index of the result in its table, from 0; `None` if there is only one.
    pub number: Option<usize>,
    /// Row name.
    pub name: String,
    /// Publication: a key of the sources.
    pub source: String,
    /// Date after which the entry must not change because of model results.
    pub frozen: toml::value::Datetime,
    /// The modelled drive.
    pub drive: String,
    /// Drive whose TRIM costs replace its own, by a rule.
    pub trim_of: Option<String>,
    /// Reason why no drive parameter was fitted; predictions are then scored separately.
    pub held_out: Option<String>,
    /// Parameters chosen with knowledge of the results, besides those fitted to one
    /// figure.
    #[serde(default)]
    pub chosen: Vec<String>,
    /// Figures that were failed predictions and became fits, with an explanation.
    #[serde(default)]
    pub missed_before: BTreeMap<String, String>,
    /// Figures that are shown but not scored, with the reason.
    #[serde(default)]
    pub unscored: BTreeMap<String, String>,
    /// Filesystem: a key of `filesystem`. Empty for block workloads on the drive itself.
    #[serde(default)]
    pub filesystem: String,
    /// Settings of the CrystalDiskMark rounds, as in `drive simulate --workload
    /// crystal:…`.
    pub rounds: Option<String>,
    /// Pre-filled share of the filesystem, in per cent.
    #[serde(default)]
    pub fill_percent: u8,
    /// Fitted figures with their parameter: a field of the drive, `filesystem.` or
    /// `rounds.`.
    #[serde(default)]
    pub fitted: BTreeMap<String, String>,
    /// Figures published in words, with the range they are read as.
    #[serde(default)]
    pub read_as: BTreeMap<String, [f64; 2]>,
    /// Explanations of misses, and other remarks.
    #[serde(default)]
    pub remarks: BTreeMap<String, String>,
}

/// A figure that follows from others of its row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureIdentity {
    /// Workload.
    pub of: PublishedWorkload,
    /// Figure name.
    pub figure: String,
    /// Figures that add up to it.
    #[serde(default)]
    pub sum: Vec<String>,
    /// The rule does not apply if this figure was not published.
    pub unless_missing: Option<String>,
    /// Explanation.
    pub why: String,
}

/// A publication; `None` means unknown.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// Published title.
    pub title: String,
    /// Published author.
    pub author: Option<String>,
    /// Published date.
    pub date: Option<String>,
    /// Place of publication.
    pub published_at: Option<String>,
    /// Relevant part.
    pub what: Option<String>,
}

impl std::fmt::Display for Publication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\", ", self.title)?;
        match &self.author {
            Some(author) => write!(f, "{author}, ")?,
            None => write!(f, "author not known, ")?,
        }
        match &self.date {
            Some(date) => write!(f, "{date}")?,
            None => write!(f, "date not known")?,
        }
        [&self.published_at, &self.what]
            .into_iter()
            .flatten()
            .try_for_each(|more| write!(f, "; {more}"))
    }
}

/// Kinds of published results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PublishedWorkload {
    /// PostMark.
    Postmark,
    /// Unpack, sync, delete, sync.
    Tree,
    /// A trim of all free space.
    Fstrim,
    /// CrystalDiskMark in rounds.
    CrystalDiskMark,
    /// Filling and deleting, with random writes before and after.
    Ageing,
    /// One stream of sequential writes onto an erased drive until it is full.
    Sustained,
    /// Mean write rates when dirty, after a trim, and erased.
    Recovery,
}

impl Configuration {
    /// True if the drive's name contains `only` or the workload has that name, or without
    /// `only`.
    pub fn is_of(&self, only: Option<&str>) -> bool {
        only.is_none_or(|part| self.drive.contains(part) || self.of.table() == part)
    }
}

impl PublishedWorkload {
    /// Approximate modelling time, for starting the longest first.
    pub const fn work(self) -> u8 {
        match self {
            Self::CrystalDiskMark => 4,
            Self::Ageing => 3,
            Self::Recovery => 2,
            Self::Postmark | Self::Tree => 1,
            Self::Sustained | Self::Fstrim => 0,
        }
    }

    /// Name of the workload's table in the published file.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Postmark => "postmark",
            Self::Tree => "tree",
            Self::Fstrim => "fstrim",
            Self::CrystalDiskMark => "crystaldiskmark",
            Self::Ageing => "ageing",
            Self::Sustained => "sustained",
            Self::Recovery => "recovery",
        }
    }
}

/// A filesystem: a profile with overrides.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filesystem {
    profile: String,
    /// Host costs in per cent of the profile's, for another machine.
    host_percent: Option<u64>,
    atime: Option<String>,
    size_bytes: Option<u64>,
    memory_bytes: Option<u64>,
    transaction_blocks: Option<u32>,
    commit_interval_ms: Option<u64>,
    discard_ranges: Option<u32>,
    write_block_ns: Option<u64>,
    create_ns: Option<u64>,
    open_ns: Option<u64>,
    delete_ns: Option<u64>,
}

impl Filesystem {
    fn spec(&self) -> anyhow::Result<VolumeSpec> {
        let mut spec = match self.profile.as_str() {
            "ext4" => VolumeSpec::ext4(),
            "ext4-2011" => VolumeSpec::ext4_2011(),
            "desktop-2011" => VolumeSpec::desktop_2011(),
            other => bail!("unknown filesystem profile '{other}'"),
        };
        if let Some(percent) = self.host_percent {
            spec.host = scaled(spec.host, percent);
        }
        if let Some(atime) = &self.atime {
            spec.atime = atime.parse().map_err(anyhow::Error::msg)?;
        }
        spec.size = self.size_bytes.map(Bytes);
        spec.writeback.memory = self.memory_bytes.map_or(spec.writeback.memory, Bytes);
        spec.journal.transaction_blocks =
            self.transaction_blocks.or(spec.journal.transaction_blocks);
        spec.discard_ranges = self.discard_ranges.unwrap_or(spec.discard_ranges);
        if let Some(ms) = self.commit_interval_ms {
            spec.journal.commit_interval = Nanos::from_millis(ms);
        }
        let host = &mut spec.host;
        for (cost, given) in [
            (&mut host.write_block, self.write_block_ns),
            (&mut host.create, self.create_ns),
            (&mut host.open, self.open_ns),
            (&mut host.delete, self.delete_ns),
        ] {
            *cost = given.map_or(*cost, Nanos);
        }
        Ok(spec)
    }
}

fn scaled(host: HostCost, percent: u64) -> HostCost {
    let part = |cost: Nanos| Nanos(cost.0 * percent / 100);
    HostCost {
        create: part(host.create),
        open: part(host.open),
        delete: part(host.delete),
        dir: part(host.dir),
        write_block: part(host.write_block),
        read_block: part(host.read_block),
        extent: part(host.extent),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    history: Vec<PastScore>,
    settings: BTreeMap<String, Vec<String>>,
    identity: Vec<FigureIdentity>,
    filesystem: BTreeMap<String, Filesystem>,
    configuration: Vec<Configuration>,
}

impl PublishedData {
    /// Loads the shipped plan.
    ///
    /// # Errors
    /// If the data files are inconsistent; a test loads the shipped ones.
    pub fn shipped() -> anyhow::Result<Self> {
        let mut results = toml::Table::new();
        for text in RESULTS {
            results.extend(text.parse::<toml::Table>().context("published figures")?);
        }
        let sources = toml::from_str(SOURCES).context("sources.toml")?;
        let File { history, settings, identity, filesystem, configuration } =
            toml::from_str(FROZEN).context("frozen.toml")?;
        Ok(Self {
            results,
            configurations: configuration,
            identities: identity,
            settings,
            history,
            sources,
            filesystems: filesystem,
        })
    }

    /// Publication of a configuration's result.
    pub fn source(&self, configuration: &Configuration) -> anyhow::Result<&Publication> {
        let key = &configuration.source;
        self.sources.get(key).with_context(|| format!("unknown source '{key}'"))
    }

    /// Drive of a configuration, with the TRIM costs of another drive if a rule says so.
    pub fn drive(&self, configuration: &Configuration) -> anyhow::Result<Drive> {
        let mut drive = model_of(&configuration.drive)?;
        if let Some(other) = &configuration.trim_of {
            drive.spec.flash.trim = model_of(other)?.spec.flash.trim;
        }
        Ok(drive)
    }

    /// The rule from which a figure follows, if any.
    pub fn identity(
        &self,
        of: PublishedWorkload,
        figure: &str,
        published: &toml::Table,
    ) -> Option<&FigureIdentity> {
        let known = |identity: &&FigureIdentity| {
            let there =
                identity.unless_missing.as_ref().is_none_or(|other| published.contains_key(other));
            identity.of == of && identity.figure == figure && there
        };
        self.identities.iter().find(known)
    }

    /// True if an entry is a result: a number, or words read as one, and not a setting.
    pub fn is_result(&self, configuration: &Configuration, key: &str, value: &toml::Value) -> bool {
        let setting = self
            .settings
            .get(configuration.of.table())
            .is_some_and(|keys| keys.iter().any(|known| known == key));
        !setting
            && (number(value).is_some()
                || value.is_array()
                || configuration.read_as.contains_key(key))
    }

    /// Published result of a configuration.
    pub fn published(&self, configuration: &Configuration) -> anyhow::Result<&toml::Table> {
        let table = configuration.of.table();
        let result = self.results.get(table).and_then(|kind| kind.get("result"));
        let result = match configuration.number {
            Some(number) => result.and_then(|results| results.get(number)),
            None => result,
        };
        result
            .and_then(toml::Value::as_table)
            .with_context(|| format!("{table} has no result for {}", configuration.name))
    }

    /// Setting of a workload.
    pub fn setting(&self, workload: PublishedWorkload, key: &str) -> anyhow::Result<f64> {
        let value = self
            .results
            .get(workload.table())
            .and_then(|kind| kind.get("config"))
            .and_then(|config| config.get(key));
        value
            .and_then(number)
            .with_context(|| format!("{}.config has no number {key}", workload.table()))
    }

    /// Filesystem of a configuration.
    pub fn filesystem(&self, configuration: &Configuration) -> anyhow::Result<VolumeSpec> {
        let name = &configuration.filesystem;
        self.filesystems.get(name).with_context(|| format!("unknown filesystem '{name}'"))?.spec()
    }
}

/// A shipped drive, or one from the reviews.
fn model_of(name: &str) -> anyhow::Result<Drive> {
    for text in REVIEWED {
        let drive = drives::parse(text).map_err(anyhow::Error::msg)?;
        if drive.spec.name == name {
            return Ok(drive);
        }
    }
    drives::load(name)
}

/// Converts a TOML integer or float.
pub fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::laptop_disk;
    use std::collections::BTreeSet;
    use trimtab::drives::SourceKind;

    #[test]
    fn configuration_names_result_source_drive_and_fit() {
        let plan = PublishedData::shipped().unwrap();
        let mut used = BTreeSet::new();
        for configuration in &plan.configurations {
            let name = &configuration.name;
            let published = plan.published(configuration).unwrap();
            plan.source(configuration).unwrap();
            used.insert(&configuration.source);
            let is_disk = configuration.drive == laptop_disk::NAME;
            let drive = (!is_disk).then(|| plan.drive(configuration).unwrap());
            if !configuration.filesystem.is_empty() {
                plan.filesystem(configuration).unwrap();
            }
            let notes =
                [&configuration.remarks, &configuration.missed_before, &configuration.unscored];
            for figure in
                notes.into_iter().flat_map(BTreeMap::keys).chain(configuration.fitted.keys())
            {
                assert!(published.contains_key(figure), "{name}: {figure} is not published");
            }
            for figure in configuration.missed_before.keys() {
                assert!(
                    configuration.fitted.contains_key(figure),
                    "{name}: {figure} is not fitted"
                );
            }
            for field in configuration.fitted.values().chain(&configuration.chosen) {
                if let Some(drive) = &drive
                    && !field.starts_with("filesystem.")
                    && !field.starts_with("rounds.")
                {
                    let source = drive
                        .source_of(field)
                        .unwrap_or_else(|| panic!("{name}: {field} has no source"));
                    assert_eq!(source.kind, SourceKind::Fitted, "{name}: {field}");
                    assert!(
                        configuration.held_out.is_none(),
                        "{name} is held out, but {field} is fitted"
                    );
                }
            }
        }
        let known: BTreeSet<_> = plan.sources.keys().collect();
        assert_eq!(known, used, "sources without a row, or rows without a source");
    }

    /// All results of drives are configured; those of storage systems are listed as
    /// excluded.
    #[test]
    fn every_published_drive_result_is_configured() {
        let plan = PublishedData::shipped().unwrap();
        for workload in [
            PublishedWorkload::Postmark,
            PublishedWorkload::Tree,
            PublishedWorkload::Fstrim,
            PublishedWorkload::Recovery,
        ] {
            let results = plan.results[workload.table()]["result"].as_array().unwrap().len();
            let tried = |n: &usize| {
                plan.configurations.iter().any(|c| c.of == workload && c.number == Some(*n))
            };
            assert_eq!((0..results).find(|n| !tried(n)), None, "{workload:?}");
        }
        for workload in [PublishedWorkload::CrystalDiskMark, PublishedWorkload::Ageing] {
            assert!(plan.configurations.iter().any(|c| c.of == workload), "{workload:?}");
        }
        assert!(
            plan.configurations.iter().filter(|c| c.of == PublishedWorkload::Sustained).count()
                >= 8
        );
    }

    /// Figures declared as sums add up in the published data, to a second per reading.
    #[test]
    fn identities_hold_for_published_figures() {
        let plan = PublishedData::shipped().unwrap();
        let mut checked = 0;
        for configuration in &plan.configurations {
            let published = plan.published(configuration).unwrap();
            for (figure, value) in published {
                let Some(identity) = plan
                    .identity(configuration.of, figure, published)
                    .filter(|i| !i.sum.is_empty())
                else {
                    continue;
                };
                let sum: f64 =
                    identity.sum.iter().map(|part| number(&published[part]).unwrap()).sum();
                assert!(
                    (number(value).unwrap() - sum).abs() <= 1.0,
                    "{}: {figure} and {sum}",
                    configuration.name
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 12);
        let tree = |n: usize, key: &str| number(&plan.results["tree"]["result"][n][key]).unwrap();
        for n in [0, 1] {
            let rate = 493.0 / (tree(n, "unpack_s") + tree(n, "sync_after_unpack_s"));
            assert!((rate / tree(n, "unpack_and_sync_MBps") - 1.0).abs() < 0.005, "{rate}");
        }
        let sustained = plan.configurations.iter().filter(|c| c.of == PublishedWorkload::Sustained);
        for configuration in sustained {
            let published = plan.published(configuration).unwrap();
            let get = |key: &str| published.get(key).and_then(number);
            let (Some(mean), Some(second)) = (get("whole_drive_mean_MBps"), get("second_MBps"))
            else {
                continue;
            };
            let (capacity, slc) = (get("capacity_GB").unwrap(), get("slc_GB").unwrap());
            let until = get("second_until_GB").unwrap_or(capacity);
            let seconds = slc / get("first_MBps").unwrap()
                + (until - slc) / second
                + (capacity - until) / get("third_MBps").unwrap_or(second);
            assert!(
                (capacity / seconds / mean - 1.0).abs() < 0.16,
                "{}: {} and {mean}",
                configuration.name,
                capacity / seconds
            );
        }
    }

    /// The TRIM costs of another drive override those in the drive's own file.
    #[test]
    fn trim_costs_by_rule_come_from_the_other_drive() {
        let plan = PublishedData::shipped().unwrap();
        let mut rules = 0;
        for configuration in plan.configurations.iter().filter(|c| c.trim_of.is_some()) {
            let other = drives::load(configuration.trim_of.as_deref().unwrap()).unwrap();
            let trim = |drive: &Drive| drive.spec.flash.trim.clone();
            assert_eq!(
                trim(&plan.drive(configuration).unwrap()),
                trim(&other),
                "{}",
                configuration.name
            );
            rules += 1;
        }
        assert!(
            rules >= 3 && plan.configurations.iter().filter(|c| c.held_out.is_some()).count() >= 4
        );
    }

    /// Every field of a reviewed drive has a source; fitted fields are declared as
    /// fitted.
    #[test]
    fn reviewed_drives_have_a_source_for_every_field() {
        let plan = PublishedData::shipped().unwrap();
        for text in REVIEWED {
            let drive = drives::parse(text).unwrap();
            let name = &drive.spec.name;
            let configuration = plan
                .configurations
                .iter()
                .find(|c| &c.drive == name)
                .unwrap_or_else(|| panic!("{name} is not compared"));
            for (field, source) in &drive.sources {
                let declared = configuration
                    .fitted
                    .values()
                    .chain(&configuration.chosen)
                    .any(|fitted| fitted == field);
                assert_eq!(source.kind == SourceKind::Fitted, declared, "{name}: {field}");
            }
            for table in [
                "interface",
                "flash.geometry",
                "flash.nand",
                "flash.slc_cache",
                "flash.trim",
                "capacity_bytes",
            ] {
                let some = drive.sources.keys().any(|field| field.starts_with(table));
                assert!(some, "{name}: {table} has no source");
            }
        }
    }
}
