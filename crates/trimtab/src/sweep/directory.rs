//! The directory of a sweep: which plan it is of, what is finished, and the results once all is.

use super::journal::{self, Journal};
use super::{Checked, parquet};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::{Dir, umask};
use trimtab_study::sweep::detail;
use trimtab_study::sweep::table::{self, Column, Outcome, Row};
use trimtab_study::sweep::{MODEL, Plan, short_hash};

/// A table of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A row a cell.
    Cells,
    /// A row for each point of each series that the plan keeps.
    Series,
    /// A row for each bucket of each histogram, where the plan keeps them.
    Histograms,
}

impl Part {
    const fn file(self) -> &'static str {
        match self {
            Self::Cells => RESULTS,
            Self::Series => "series.parquet",
            Self::Histograms => "histograms.parquet",
        }
    }
}

/// What a sweep is, in its directory.
const ABOUT: &str = "sweep.json";
/// The plan's text.
const PLAN: &str = "plan.toml";
/// The results, once all cells are finished.
pub const RESULTS: &str = "results.parquet";
/// Nothing else that is read from there is longer.
const BYTES_MAX: u64 = 4 << 20;

/// What a sweep is: what is the same for all of its shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// `trimtab.sweep`.
    pub schema: String,
    /// Version of the shape of this file and of the table.
    pub version: u32,
    /// What the plan is called.
    pub name: String,
    /// Hash of the plan's text.
    pub plan: String,
    /// Version of the program.
    pub tool_version: String,
    /// The model: version, and hash of what it is made of.
    pub model: String,
    /// Hashes of the drives and traces that the plan names.
    pub inputs: BTreeMap<String, String>,
    /// Cells of the plan.
    pub cells: u64,
}

impl About {
    /// Of a plan that is about to run here.
    #[must_use]
    pub fn of(checked: &Checked) -> Self {
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

    /// In what two differ whose cells can not stand in one table.
    fn difference(&self, other: &Self) -> Option<String> {
        let inputs = || self.inputs.iter().find(|(name, hash)| other.inputs.get(*name) != Some(hash)).map(|(name, _)| name.clone());
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

/// One of several shares of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub number: u64,
    /// Of how many.
    pub of: u64,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The numbers of its cells: every so many-th, so that all shards take about as long.
    pub fn cells(self, all: u64) -> impl Iterator<Item = u64> {
        let step = usize::try_from(self.of).unwrap_or(usize::MAX);
        (self.number - 1..all).step_by(step)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if (1..=of).contains(&number) && of <= 1_000_000 => Ok(Self { number, of }),
            _ => Err("expected a shard such as 1/8: which, of how many".to_owned()),
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
    /// What it is of.
    pub about: About,
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
    /// For a plan that is to be run; made if it is not there. What other plans left there stays, and cells that are the same are found again.
    ///
    /// # Errors
    /// A directory that cannot be made, or that others may write to.
    pub fn of_plan(path: &Path, checked: &Checked) -> anyhow::Result<Self> {
        Self::make(path, &About::of(checked), &checked.text, checked.plan.clone())
    }

    /// What stands there now, if it is of another plan or model.
    #[must_use]
    pub fn of_another(path: &Path, checked: &Checked) -> Option<About> {
        let there = Dir::open(path).ok().and_then(|dir| about_in(&dir).ok());
        there.filter(|about| *about != About::of(checked))
    }

    fn make(path: &Path, about: &About, text: &str, plan: Plan) -> anyhow::Result<Self> {
        let cannot = || format!("cannot use the directory {}", path.display());
        let dir = Dir::open_or_make(path).with_context(cannot)?;
        dir.require_unshared().with_context(cannot)?;
        let made = Self { dir, about: about.clone(), plan };
        let old = about_in(&made.dir).ok();
        if old.as_ref() != Some(about) {
            // What is there is of another plan or model; it is in the way of nobody but who reads it as this one's.
            for part in [Part::Cells, Part::Series, Part::Histograms] {
                made.remove(part.file())?;
            }
            made.write(PLAN, text.as_bytes())?;
            let mut json = serde_json::to_string_pretty(about)?;
            json.push('\n');
            made.write(ABOUT, json.as_bytes())?;
        }
        Ok(made)
    }

    /// One that is there.
    ///
    /// # Errors
    /// No sweep is there, or one that this version cannot read.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let none = || {
            UsageError::missing(format!("{} is not the directory of a sweep", path.display()))
                .hint("'trimtab sweep run PLAN --output DIR' makes one")
        };
        let dir = Dir::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        if dir.look(ABOUT)?.is_none() {
            return Err(none().into());
        }
        let about = about_in(&dir)?;
        if about.version != table::SCHEMA {
            let what = format!("{} has version {}; this program reads {}", shown(&dir, ABOUT), about.version, table::SCHEMA);
            return Err(UsageError::missing(what).into());
        }
        let text = text_in(&dir, PLAN)?;
        let plan = Plan::parse(&text).with_context(|| format!("cannot read {}", shown(&dir, PLAN)))?;
        if about.plan != short_hash(&text) || about.cells != plan.cells() {
            let what = format!("{} and {} are not of the same sweep", shown(&dir, ABOUT), PLAN);
            return Err(UsageError::missing(what).hint("'trimtab sweep run' with the plan writes both again").into());
        }
        Ok(Self { dir, about, plan })
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.dir
            .write_atomically(name, mode(), |file| file.write_all(bytes))
            .with_context(|| format!("cannot write {}", shown(&self.dir, name)))
    }

    fn remove(&self, name: &str) -> anyhow::Result<()> {
        if self.dir.look(name)?.is_some() {
            self.dir.remove_ours(name).with_context(|| format!("cannot remove {}", shown(&self.dir, name)))?;
        }
        Ok(())
    }

    fn journal_name(&self, shard: Shard) -> String {
        format!("cells-{}-{}-of-{}.jsonl", &self.about.plan[..8], shard.number, shard.of)
    }

    /// The journal of a shard, to be written to, with what is in it.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn journal(&self, shard: Shard) -> anyhow::Result<(Journal, Vec<Row>)> {
        Journal::open(&self.dir, &self.journal_name(shard))
    }

    /// The names of all journals, of this plan or also of others.
    fn journals(&self, others: bool) -> anyhow::Result<Vec<String>> {
        let ours = format!("cells-{}-", &self.about.plan[..8]);
        let names = self.dir.names()?.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.filter(|name| name.ends_with(".jsonl") && name.starts_with(if others { "cells-" } else { &ours })).collect())
    }

    /// What is finished of any plan that was run here, by the name of its cell.
    ///
    /// # Errors
    /// A journal of this plan that is damaged; those of others are left alone.
    pub fn found(&self) -> anyhow::Result<BTreeMap<String, Outcome>> {
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

    /// The rows of this plan, in the order of their cells, each once.
    ///
    /// # Errors
    /// A damaged journal; two results of one cell.
    pub fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = BTreeMap::new();
        for name in self.journals(false)? {
            let in_it = journal::read(&self.dir, &name)?;
            put_together(&mut rows, in_it, &shown(&self.dir, &name), self.about.cells)?;
        }
        Ok(rows.into_values().collect())
    }

    /// Writes the results, if all cells are finished; how many are.
    ///
    /// # Errors
    /// As [`Directory::rows`]; a file that cannot be written.
    pub fn conclude(&self) -> anyhow::Result<Vec<Row>> {
        let rows = self.rows()?;
        if rows.len() as u64 == self.about.cells {
            let provenance = self.provenance()?;
            // The table of cells comes last: where it is, all is.
            for part in [Part::Histograms, Part::Series, Part::Cells] {
                if let Some(columns) = self.columns(part, &rows) {
                    let bytes =
                        parquet::file(&columns, &provenance).with_context(|| format!("cannot write {}", shown(&self.dir, part.file())))?;
                    self.write(part.file(), &bytes)?;
                }
            }
        }
        Ok(rows)
    }

    /// A table; `None` if the plan keeps nothing that would be in it.
    #[must_use]
    pub fn columns(&self, part: Part, rows: &[Row]) -> Option<Vec<Column>> {
        let keep = &self.plan.keep;
        match part {
            Part::Cells => Some(table::table(&self.plan, rows)),
            Part::Series => keep.series().then(|| detail::series(rows)),
            Part::Histograms => keep.histograms().then(|| detail::histograms(rows)),
        }
    }

    /// Where the figures come from, for the files that hold them: nothing that another machine or another division would write otherwise.
    ///
    /// # Errors
    /// A plan that cannot be read.
    pub fn provenance(&self) -> anyhow::Result<Vec<(String, String)>> {
        let About { schema, version, name, plan, tool_version, model, inputs, cells } = &self.about;
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

    /// Puts the cells of several directories of the same sweep together in a new one.
    ///
    /// # Errors
    /// They are not of the same plan, model or inputs; a damaged journal; two results of one cell; cells that are in none.
    pub fn merge(from: &[Self], output: &Path) -> anyhow::Result<(Self, Vec<Row>)> {
        let first = from.first().ok_or_else(|| UsageError::new("there is nothing to merge"))?;
        let mut rows = BTreeMap::new();
        for other in from {
            if let Some(difference) = first.about.difference(&other.about) {
                let (a, b) = (first.dir.path().display(), other.dir.path().display());
                return Err(UsageError::missing(format!("{a} and {b} differ in {difference}"))
                    .hint("results of unlike sweeps are not put together")
                    .into());
            }
            put_together(&mut rows, other.rows()?, &other.dir.path().display().to_string(), first.about.cells)?;
        }
        let missing: Vec<u64> = (0..first.about.cells).filter(|cell| !rows.contains_key(cell)).take(4).collect();
        if let Some(cell) = missing.first() {
            let count = first.about.cells - rows.len() as u64;
            let what = format!("{count} of {} cells are in none of them, the first is cell {cell}", first.about.cells);
            return Err(UsageError::missing(what).hint("'trimtab sweep status DIR' says how far each is").into());
        }
        let merged = Self::make(output, &first.about, &text_in(&first.dir, PLAN)?, first.plan.clone())?;
        let (mut journal, there) = merged.journal(Shard::WHOLE)?;
        for row in rows.values().filter(|row| !there.contains(row)) {
            journal.put(row).with_context(|| format!("cannot write into {}", output.display()))?;
        }
        journal.sync()?;
        let rows = merged.conclude()?;
        Ok((merged, rows))
    }
}

/// Adds rows. The same cell may come twice, if it says the same.
fn put_together(rows: &mut BTreeMap<u64, Row>, more: Vec<Row>, whose: &str, cells: u64) -> anyhow::Result<()> {
    for row in more {
        if row.cell >= cells {
            return Err(UsageError::missing(format!("{whose} has cell {} of a plan with {cells}", row.cell)).into());
        }
        match rows.get(&row.cell) {
            Some(known) if *known != row => {
                return Err(UsageError::missing(format!("{whose} has another result of cell {}", row.cell)).into());
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

fn about_in(dir: &Dir) -> anyhow::Result<About> {
    let about: About = serde_json::from_str(&text_in(dir, ABOUT)?).with_context(|| format!("cannot read {}", shown(dir, ABOUT)))?;
    // Names of files begin with it.
    let is_hash = about.plan.len() == 32 && about.plan.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(about) } else { Err(UsageError::missing(format!("{}: 'plan' is not a hash", shown(dir, ABOUT))).into()) }
}
