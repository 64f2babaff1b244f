//! Which assumption decides: what follows where each is another.

use super::ensemble::Ensemble;
use super::recommendation::Recommendation;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What a modelled study assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Assumption {
    /// Superblocks kept free in idle time.
    FreeSuperblocks,
    /// Idle time before garbage is collected.
    IdleDelay,
    /// Spare space of the drive.
    SpareSpace,
    /// The cost of a TRIM.
    TrimCost,
    /// Memory of the host.
    HostMemory,
    /// Median size of files.
    FileSize,
    /// Bytes written a day.
    DailyWrites,
    /// The filesystem.
    Filesystem,
    /// How full the filesystem is.
    Fill,
}

/// An assumption, and what follows where it is another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The assumption.
    pub assumption: Assumption,
    /// Its value in the study.
    pub assumed: String,
    /// Other values.
    pub tried: Vec<Tried>,
}

/// An assumption changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Its other value.
    pub value: String,
    /// What is recommended then.
    pub recommended: Recommendation,
}

/// What small studies with other assumptions recommend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// All that decides it, hashed: a study that is resumed takes it as it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cell: String,
    /// What the small study with all assumptions as they are recommends; `None` where none is changed.
    pub recommended: Option<Recommendation>,
    /// The assumptions.
    pub rows: Vec<Row>,
    /// Of a twin, what other drives that explain the measurements come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ensemble: Option<Ensemble>,
}

impl Sensitivity {
    /// The values of `row` that change the recommendation.
    pub fn changing<'a>(&self, row: &'a Row) -> impl Iterator<Item = &'a Tried> {
        let recommended = self.recommended;
        row.tried.iter().filter(move |tried| Some(tried.recommended) != recommended)
    }

    /// The assumptions on which the recommendation depends.
    pub fn decisive(&self) -> Vec<&Row> {
        self.rows.iter().filter(|row| self.changing(row).next().is_some()).collect()
    }
}
