//! The directory of a sweep: its plan, its finished cells, and its results.

use super::journal::{self, SweepJournal};
use super::{ValidatedPlan, parquet};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::{Dir, umask};
use trimtab_study::sweep::table::{self, CellOutcome, SweepRow};
use trimtab_study::sweep::{MODEL, Plan, short_hash};

/// File that describes the sweep.
const ABOUT: &str = "sweep.json";
/// File with the plan's text.
const PLAN: &str = "plan.toml";
/// File of the results, written once all cells are finished.
pub const RESULTS: &str = "results.parquet";
/// Largest description or plan, in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Description of a sweep, equal for all of its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepDescription {
    /// `trimtab.sweep`.
    pub schema: String,
    /// Version of this file's and the table's format.
    pub version: u32,
    /// Name of the plan.
    pub name: String,
    /// Hash of the plan's text.
    pub plan: String,
    /// Version of the program.
    pub tool_version: String,
    /// Version and source hash of the model.
    pub model: String,
    /// Hashes of the drives and traces that the plan names.
    pub inputs: BTreeMap<String, String>,
    /// Cells of the plan.
    pub cells: u64,
}

impl SweepDescription {
    /// The description of a plan.
    pub fn of(checked: &ValidatedPlan) -> Self {
        Self {
            schema: "trimtab.sweep".to_owned(),
            version: table::SCHEMA,
            name: checked.plan.name.clone(),
            plan: short_hash(&checked.text),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            model: MODEL.to_owned(),
            inputs: checked.files.inputs(),
            cells: checked.plan.cells(),
        }
    }

    /// The difference that keeps the cells of two sweeps from sharing a table; `None` if
    /// they can.
    fn difference(&self, other: &Self) -> Option<String> {
        let inputs = || {
            self.inputs
                .iter()
                .find(|(name, hash)| other.inputs.get(*name) != Some(hash))
                .map(|(name, _)| name.clone())
        };
        if self.version != other.version {
            Some(format!("schema {} and {}", self.version, other.version))
        } else if self.model != other.model {
            Some(format!("models {} and {}", self.model, other.model))
        } else if self.plan != other.plan {
            Some(format!("plans ({} and {})", self.plan, other.plan))
        } else if let Some(input) = inputs() {
            Some(format!("{input}: other content"))
        } else {
            (self != other).then(|| "settings".to_owned())
        }
    }
}

/// A share of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the share, from 1.
    pub number: u64,
    /// Number of shares.
    pub of: u64,
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Numbers of its cells: every `of`-th one, so that all shards take about the same
    /// time.
    pub fn cells(self, all: u64) -> impl Iterator<Item = u64> {
        let step = usize::try_from(self.of).unwrap_or(usize::MAX);
        (self.number - 1..all).step_by(step)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) && of <= 1_000_000 => {
                Ok(Self { number, of })
            }
            _ => Err("expected a shard such as 1/8 (number/count)".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The directory.
#[derive(Debug)]
pub struct Directory {
    dir: Dir,
    /// Description of the sweep.
    pub about: SweepDescription,
    /// The plan.
    pub plan: Plan,
}

fn mode() -> u32 {
    umask().map_or(0o600, |umask| 0o666 & !umask)
}

fn shown(dir: &Dir, name: &str) -> String {
    dir.path().join(name).display().to_string()
}

impl Directory {
    /// Opens or creates the directory for a plan. Cells of other plans stay, and equal
    /// cells are reused.
    ///
    /// # Errors
    /// The directory cannot be created, is writable by other users, or has the results of
    /// another plan or model.
    pub fn of_plan(path: &Path, checked: &ValidatedPlan) -> anyhow::Result<Self> {
        Self::make(path, &SweepDescription::of(checked), &checked.text, checked.plan.clone())
    }

    /// The present description, if it is of another plan or model.
    pub fn of_another(path: &Path, checked: &ValidatedPlan) -> Option<SweepDescription> {
        let there = Dir::open(path).ok().and_then(|dir| about_in(&dir).ok());
        there.filter(|about| *about != SweepDescription::of(checked))
    }

    fn make(path: &Path, about: &SweepDescription, text: &str, plan: Plan) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use the directory {}", path.display());
        let dir = match Dir::open_or_make(path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(UsageError::missing(format!("{}: {error}", cannot()))
                    .hint("name a directory, or a path that does not exist yet")
                    .into());
            }
            dir => dir.with_context(cannot)?,
        };
        dir.require_unshared().with_context(cannot)?;
        let made = Self { dir, about: about.clone(), plan };
        let old = about_in(&made.dir).ok();
        if old.as_ref() != Some(about) {
            // They belong to another plan or model and would be lost, or mistaken for this
            // one's.
            if made.dir.look(RESULTS)?.is_some() {
                let what = format!(
                    "{} has the results of another plan or model",
                    made.dir.path().display()
                );
                let hint = format!(
                    "name another directory, or remove {} to replace them; equal cells are \
                        reused",
                    shown(&made.dir, RESULTS)
                );
                return Err(UsageError::new(what).hint(hint).into());
            }
            made.write(PLAN, text.as_bytes())?;
            let mut json = serde_json::to_string_pretty(about)?;
            json.push('\n');
            made.write(ABOUT, json.as_bytes())?;
        }
        Ok(made)
    }

    /// Opens an existing sweep.
    ///
    /// # Errors
    /// The directory is not a sweep, or has an unknown version.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let none = || {
            UsageError::missing(format!("{} is not the directory of a sweep", path.display()))
                .hint("run 'trimtab sweep run PLAN --output DIR' to create one")
        };
        let dir = match Dir::open(path) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Err(none().into());
            }
            opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
        };
        if dir.look(ABOUT)?.is_none() {
            return Err(none().into());
        }
        let about = about_in(&dir)?;
        if about.version != table::SCHEMA {
            let what = format!(
                "{} has version {}; this program reads {}",
                shown(&dir, ABOUT),
                about.version,
                table::SCHEMA
            );
            return Err(UsageError::missing(what).into());
        }
        let text = text_in(&dir, PLAN)?;
        let plan =
            Plan::parse(&text).with_context(|| format!("cannot read {}", shown(&dir, PLAN)))?;
        if about.plan != short_hash(&text) || about.cells != plan.cells() {
            let what = format!("{} and {} belong to different sweeps", shown(&dir, ABOUT), PLAN);
            return Err(UsageError::missing(what)
                .hint("run 'trimtab sweep run' with the plan to rewrite both")
                .into());
        }
        Ok(Self { dir, about, plan })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.dir
            .write_atomically(name, mode(), |file| file.write_all(bytes))
            .with_context(|| format!("cannot write {}", shown(&self.dir, name)))
    }

    fn journal_name(&self, shard: Shard) -> String {
        format!("cells-{}-{}-of-{}.jsonl", &self.about.plan[..8], shard.number, shard.of)
    }

    /// Opens the journal of a shard for writing, and returns its rows.
    ///
    /// # Errors
    /// As for [`Journal::open`].
    pub fn journal(&self, shard: Shard) -> anyhow::Result<(SweepJournal, Vec<SweepRow>)> {
        SweepJournal::open(&self.dir, &self.journal_name(shard))
    }

    /// The names of all journals of this plan, or also of others.
    fn journals(&self, others: bool) -> anyhow::Result<Vec<String>> {
        let ours = format!("cells-{}-", &self.about.plan[..8]);
        let names = self.dir.names()?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names
            .filter(|name| {
                name.ends_with(".jsonl") && name.starts_with(if others { "cells-" } else { &ours })
            })
            .collect())
    }

    /// Finished cells of all plans that were run here, by the name of the cell.
    ///
    /// # Errors
    /// A journal of this plan is damaged; damaged ones of other plans are ignored.
    pub fn found(&self) -> anyhow::Result<BTreeMap<String, CellOutcome>> {
        let mut found = BTreeMap::new();
        let ours = self.journals(false)?;
        for name in self.journals(true)? {
            let rows = match journal::read(&self.dir, &name) {
                Ok(rows) => rows,
                Err(error) if ours.contains(&name) => return Err(error),
                Err(_) => continue,
            };
            found.extend(rows.into_iter().map(|row| (row.id, row.outcome)));
        }
        Ok(found)
    }

    /// The rows of this plan in the order of cells, each once.
    ///
    /// # Errors
    /// A journal is damaged; a cell has two different results.
    pub fn rows(&self) -> anyhow::Result<Vec<SweepRow>> {
        let mut rows = BTreeMap::new();
        for name in self.journals(false)? {
            let in_it = journal::read(&self.dir, &name)?;
            put_together(&mut rows, in_it, &shown(&self.dir, &name), self.about.cells)?;
        }
        Ok(rows.into_values().collect())
    }

    /// Writes the results if all cells are finished; returns the rows.
    ///
    /// # Errors
    /// As for [`Directory::rows`]; a file cannot be written.
    pub fn conclude(&self) -> anyhow::Result<Vec<SweepRow>> {
        let rows = self.rows()?;
        if rows.len() as u64 == self.about.cells {
            let bytes =
                parquet::file("sweep", &table::table(&self.plan, &rows), &self.provenance()?)
                    .with_context(|| format!("cannot write {}", shown(&self.dir, RESULTS)))?;
            self.write(RESULTS, &bytes)?;
        }
        Ok(rows)
    }

    /// Provenance of the figures, for the result files: independent of machine and
    /// sharding.
    ///
    /// # Errors
    /// The plan cannot be read.
    fn provenance(&self) -> anyhow::Result<Vec<(String, String)>> {
        let SweepDescription { schema, version, name, plan, tool_version, model, inputs, cells } =
            &self.about;
        let pairs = [
            ("schema", schema.clone()),
            ("version", version.to_string()),
            ("name", name.clone()),
            ("provenance", "modelled".to_owned()),
            ("tool_version", tool_version.clone()),
            ("model", model.clone()),
            ("plan_hash", plan.clone()),
            ("inputs", serde_json::to_string(inputs)?),
            ("cells", cells.to_string()),
            ("plan", text_in(&self.dir, PLAN)?),
        ];
        Ok(pairs.map(|(key, value)| (format!("trimtab.{key}"), value)).into())
    }

    /// Merges the cells of several directories of the same sweep into a new one.
    ///
    /// # Errors
    /// The directories differ in plan, model or inputs; a journal is damaged; a cell has
    /// two different results; a cell is missing.
    pub fn merge(from: &[Self], output: &Path) -> anyhow::Result<(Self, Vec<SweepRow>)> {
        let first = from.first().ok_or_else(|| UsageError::new("nothing to merge"))?;
        let mut rows = BTreeMap::new();
        for other in from {
            if let Some(difference) = first.about.difference(&other.about) {
                let (a, b) = (first.dir.path().display(), other.dir.path().display());
                return Err(UsageError::missing(format!("{a} and {b} differ in {difference}"))
                    .hint("only shards of the same sweep can be merged")
                    .into());
            }
            put_together(
                &mut rows,
                other.rows()?,
                &other.dir.path().display().to_string(),
                first.about.cells,
            )?;
        }
        let missing: Vec<u64> =
            (0..first.about.cells).filter(|cell| !rows.contains_key(cell)).take(4).collect();
        if let Some(cell) = missing.first() {
            let count = first.about.cells - rows.len() as u64;
            let what = format!(
                "{count} of {} cells are missing, the first is cell {cell}",
                first.about.cells
            );
            return Err(UsageError::missing(what)
                .hint("'trimtab sweep status DIR' shows the progress of each")
                .into());
        }
        let merged =
            Self::make(output, &first.about, &text_in(&first.dir, PLAN)?, first.plan.clone())?;
        let (mut journal, there) = merged.journal(Shard::WHOLE)?;
        for row in rows.values().filter(|row| !there.contains(row)) {
            journal.put(row).with_context(|| format!("cannot write into {}", output.display()))?;
        }
        journal.sync()?;
        let rows = merged.conclude()?;
        Ok((merged, rows))
    }
}

/// Adds rows. A cell may occur twice with the same result.
fn put_together(
    rows: &mut BTreeMap<u64, SweepRow>,
    more: Vec<SweepRow>,
    whose: &str,
    cells: u64,
) -> anyhow::Result<()> {
    for row in more {
        if row.cell >= cells {
            return Err(UsageError::missing(format!(
                "{whose} has cell {} of a plan with {cells}",
                row.cell
            ))
            .into());
        }
        match rows.get(&row.cell) {
            Some(known) if *known != row => {
                return Err(UsageError::missing(format!(
                    "{whose} has a different result for cell {}",
                    row.cell
                ))
                .into());
            }
            Some(_) => {}
            None => drop(rows.insert(row.cell, row)),
        }
    }
    Ok(())
}

fn text_in(dir: &Dir, name: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = dir.open_read(name).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", shown(dir, name)))?;
    Ok(text)
}

fn about_in(dir: &Dir) -> anyhow::Result<SweepDescription> {
    let about: SweepDescription = serde_json::from_str(&text_in(dir, ABOUT)?)
        .with_context(|| format!("cannot read {}", shown(dir, ABOUT)))?;
    // The hash becomes part of file names.
    let is_hash = about.plan.len() == 32 && about.plan.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash {
        Ok(about)
    } else {
        Err(UsageError::missing(format!("{}: 'plan' is not a hash", shown(dir, ABOUT))).into())
    }
}
