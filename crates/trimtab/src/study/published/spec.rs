//! The published figures, and on which modelled drive and filesystem each is tried: data files, read and checked.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::volume::{HostCost, VolumeSpec};

/// The published figures, with where each was published.
const RESULTS: &str = include_str!("results.toml");
/// How each is tried.
const CONFIGURATIONS: &str = include_str!("configurations.toml");

/// What is tried, and what was published.
#[derive(Debug)]
pub struct Plan {
    /// The published file.
    pub results: toml::Table,
    /// What is tried, in the order of the table.
    pub configurations: Vec<Configuration>,
    filesystems: BTreeMap<String, Filesystem>,
}

/// One published result and how it is tried.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Table of the published file, which decides the workload.
    pub of: Workload,
    /// Which of its results, from 0; none where there is only one.
    pub number: Option<usize>,
    /// What the row is called.
    pub name: String,
    /// The modelled drive.
    pub drive: String,
    /// The modelled filesystem: an entry of `filesystem`. None with block workloads on the drive itself.
    #[serde(default)]
    pub filesystem: String,
    /// Settings of the rounds of CrystalDiskMark, as in `drive simulate --workload crystal:…`.
    pub rounds: Option<String>,
    /// Share of the filesystem that is in use beforehand, in per cent.
    #[serde(default)]
    pub fill_percent: u8,
    /// Mean length of the free extents between what is in use.
    #[serde(default = "free_extent")]
    pub free_extent_bytes: u64,
    /// Figures that a parameter was fitted on, with the parameter: a field of the drive, or `filesystem.` or `rounds.` and a field of these.
    #[serde(default)]
    pub fitted: BTreeMap<String, String>,
    /// Figures published in words, as the range that the words are taken to mean.
    #[serde(default)]
    pub read_as: BTreeMap<String, [f64; 2]>,
    /// Why a figure is not met, or what else has to be known about it.
    #[serde(default)]
    pub remarks: BTreeMap<String, String>,
}

const fn free_extent() -> u64 {
    16 << 20
}

/// The kinds of published results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
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
}

impl Configuration {
    /// Whether it is of a drive whose name contains `only`, or of the workload of that name. Everything is, without.
    pub fn is_of(&self, only: Option<&str>) -> bool {
        only.is_none_or(|part| self.drive.contains(part) || self.of.table() == part)
    }
}

impl Workload {
    /// Name of its table in the published file.
    pub const fn table(self) -> &'static str {
        match self {
            Self::Postmark => "postmark",
            Self::Tree => "tree",
            Self::Fstrim => "fstrim",
            Self::CrystalDiskMark => "crystaldiskmark",
            Self::Ageing => "ageing",
        }
    }
}

/// A filesystem: a profile and what differs from it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filesystem {
    profile: String,
    /// Costs of the host, in per cent of the profile's: another machine.
    host_percent: Option<u64>,
    atime: Option<String>,
    size_bytes: Option<u64>,
    /// Memory of the machine.
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
            other => bail!("there is no filesystem profile '{other}'"),
        };
        if let Some(percent) = self.host_percent {
            spec.host = scaled(spec.host, percent);
        }
        if let Some(atime) = &self.atime {
            spec.atime = atime.parse().map_err(anyhow::Error::msg)?;
        }
        spec.size = self.size_bytes.map(Bytes);
        spec.writeback.memory = self.memory_bytes.map_or(spec.writeback.memory, Bytes);
        spec.journal.transaction_blocks = self.transaction_blocks.or(spec.journal.transaction_blocks);
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
    filesystem: BTreeMap<String, Filesystem>,
    configuration: Vec<Configuration>,
}

impl Plan {
    /// The shipped plan.
    ///
    /// # Errors
    /// Data files that contradict each other; a test reads the shipped ones.
    pub fn shipped() -> anyhow::Result<Self> {
        let results = RESULTS.parse().context("results.toml")?;
        let File { filesystem, configuration } = toml::from_str(CONFIGURATIONS).context("configurations.toml")?;
        Ok(Self { results, configurations: configuration, filesystems: filesystem })
    }

    /// The published result of a configuration.
    pub fn published(&self, configuration: &Configuration) -> anyhow::Result<&toml::Table> {
        let table = configuration.of.table();
        let result = self.results.get(table).and_then(|kind| kind.get("result"));
        let result = match configuration.number {
            Some(number) => result.and_then(|results| results.get(number)),
            None => result,
        };
        result.and_then(toml::Value::as_table).with_context(|| format!("{table} has no result for {}", configuration.name))
    }

    /// A setting of a kind of results.
    pub fn setting(&self, workload: Workload, key: &str) -> anyhow::Result<f64> {
        let value = self.results.get(workload.table()).and_then(|kind| kind.get("config")).and_then(|config| config.get(key));
        value.and_then(number).with_context(|| format!("{}.config has no number {key}", workload.table()))
    }

    /// The filesystem of a configuration.
    pub fn filesystem(&self, configuration: &Configuration) -> anyhow::Result<VolumeSpec> {
        let name = &configuration.filesystem;
        self.filesystems.get(name).with_context(|| format!("there is no filesystem '{name}'"))?.spec()
    }
}

/// A number of either kind.
pub fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives::{self, SourceKind};

    #[test]
    fn every_configuration_has_its_result_drive_filesystem_and_fitted_fields() {
        let plan = Plan::shipped().unwrap();
        for configuration in &plan.configurations {
            let name = &configuration.name;
            let published = plan.published(configuration).unwrap();
            if configuration.of != Workload::CrystalDiskMark {
                plan.filesystem(configuration).unwrap();
            }
            let drive = drives::load(&configuration.drive).unwrap();
            for (figure, field) in &configuration.fitted {
                let known = published.contains_key(figure) || figure == "delete_and_sync_ratio";
                assert!(known, "{name}: {figure} is not published");
                if !field.starts_with("filesystem.") && !field.starts_with("rounds.") {
                    let source = drive.source_of(field).unwrap_or_else(|| panic!("{name}: {field} has no source"));
                    assert_eq!(source.kind, SourceKind::Fitted, "{name}: {field}");
                }
            }
        }
    }

    #[test]
    fn every_published_result_of_a_drive_is_tried() {
        let plan = Plan::shipped().unwrap();
        for workload in [Workload::Postmark, Workload::Tree, Workload::Fstrim] {
            let results = plan.results[workload.table()]["result"].as_array().unwrap().len();
            let tried = |n: &usize| plan.configurations.iter().any(|c| c.of == workload && c.number == Some(*n));
            assert_eq!((0..results).find(|n| !tried(n)), None, "{workload:?}");
        }
    }
}
