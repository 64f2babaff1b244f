//! The second and third question of a modelled study: what the policies do to the drive over months, and what data and tuning change.
//! Every cell is a drive of its own, so they are run beside each other.

use super::ageing::{Ageing, CHURN};
use super::checkpoint::{self, Checkpoints};
use super::modelled::Setup;
use super::{Study, Untried, policy};
use crate::output::Context;
use crate::output::progress::Tally;
use crate::session::runner::Header;
use crate::sys::interrupt;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use trimtab_core::data::DataClass;
use trimtab_core::drive::spec::Medium;
use trimtab_core::policy::PolicySpec;
use trimtab_core::run::{Field, Run, TargetKind};
use trimtab_core::units::Bytes;
use trimtab_core::volume::Atime;

/// Key of the setting that says which question a run of tuning belongs to.
pub const QUESTION: &str = "tuning.question";
/// Key of the setting that says what was set.
pub const CHOICE: &str = "tuning.choice";
/// What files hold in the runs of ageing: what no drive can compress.
pub const DATA: DataClass = DataClass::Random;
/// What they hold in comparison: text and programs.
const COMPRESSIBLE: DataClass = DataClass::Compressible(60);
/// Reads for 100 changes, where access times are compared.
const READ_PERCENT: u64 = 1000;
/// As often is the drive written over for a question of tuning, at most.
const TUNING_DRIVE_WRITES: f64 = 2.0;
/// Where partitions used to begin.
const SECTOR_63: Bytes = Bytes(63 * 512);

/// How much of it is done.
#[derive(Debug, Clone)]
pub struct Extent {
    /// How often the drive is written over.
    pub drive_writes: f64,
    /// Shares of the filesystem in use.
    pub fills: Vec<f64>,
    /// Whether to look at ageing.
    pub ageing: bool,
    /// Whether to look at data and tuning.
    pub tuning: bool,
    /// Only the cell of this name.
    pub only: Option<String>,
}

/// One run to make.
#[derive(Debug, Clone)]
struct Cell {
    ageing: Ageing,
    policy: PolicySpec,
}

impl Cell {
    /// What it is, in a few words: `drive:x, idle at 60 % full`.
    fn title(&self) -> String {
        let what = self.ageing.notes.iter().find(|note| note.key == CHOICE).map(|note| format!(", {}", note.value)).unwrap_or_default();
        let drive = self.ageing.setup.label.trim_start_matches("drive:");
        format!("{drive}: {} at {:.0} % full{what}", self.policy.name(), self.ageing.fill * 100.0)
    }

    /// Names everything that decides the result.
    fn name(&self) -> String {
        let setup = &self.ageing.setup;
        let mut header = Header::new(CHURN, Vec::new(), TargetKind::ModelledVolume, &setup.label, self.policy.name(), setup.seed);
        header.policy_settings = self.policy.settings();
        checkpoint::name(header, &format!("{:?}", self.ageing))
    }
}

/// Makes the runs that `study` lacks and puts them into it.
///
/// # Errors
/// A store that cannot be written.
pub fn run(
    context: &Context,
    setup: &Setup,
    policies: &[PolicySpec],
    extent: &Extent,
    checkpoints: &dyn Checkpoints,
    study: &mut Study,
) -> anyhow::Result<()> {
    let mut ageing = if extent.ageing { ageing(setup, policies, extent) } else { Vec::new() };
    let mut tuning = if extent.tuning { tuning(setup, policies, extent) } else { Vec::new() };
    for cells in [&mut ageing, &mut tuning] {
        cells.retain(|cell| extent.only.as_ref().is_none_or(|only| cell.name() == *only));
    }
    let split = ageing.len();
    let cells: Vec<Cell> = ageing.into_iter().chain(tuning).collect();
    let bar = Tally::new(context, "months of churn", cells.len() as u64);
    let results: Vec<anyhow::Result<Option<Run>>> = cells.par_iter().map(|cell| finish(cell, context, checkpoints, &bar)).collect();
    for (at, (cell, result)) in cells.iter().zip(results).enumerate() {
        match result {
            Ok(Some(run)) if at < split => study.ageing.push(run),
            Ok(Some(run)) => study.tuning.push(run),
            Ok(None) => study.complete = false,
            Err(error) => {
                let question = if at < split { "ageing" } else { "tuning" };
                let untried = Untried { policy: format!("{}, {question}", cell.policy.name()), reason: format!("{error:#}") };
                if !study.untried.contains(&untried) {
                    study.untried.push(untried);
                }
            }
        }
    }
    Ok(())
}

/// The run of a cell: a kept one, or a new one, which is then kept. `None` if it was interrupted.
fn finish(cell: &Cell, context: &Context, checkpoints: &dyn Checkpoints, bar: &Tally) -> anyhow::Result<Option<Run>> {
    if interrupt::requested() {
        return Ok(None);
    }
    let name = cell.name();
    let make = || {
        let _underway = context.doing.begin(&cell.title());
        let (mut run, end) = cell.ageing.run(&cell.policy)?;
        run.started_unix_ms = crate::sys::clock::unix_ms();
        run.settings.push(Field::new("repeats", "1"));
        Ok((run, end))
    };
    let run = checkpoint::found_or_made(checkpoints, &name, make)?;
    if run.is_some() {
        bar.count();
    }
    Ok(run)
}

fn trims(setup: &Setup) -> bool {
    matches!(&setup.drive.spec.medium, Medium::Flash(flash) if flash.trim.supported)
}

/// Each policy at each fill.
fn ageing(setup: &Setup, policies: &[PolicySpec], extent: &Extent) -> Vec<Cell> {
    let possible = policies.iter().filter(|policy| trims(setup) || matches!(policy, PolicySpec::None));
    let at = |fill: f64, policy: &PolicySpec| {
        let ageing = Ageing::new(setup.clone(), fill, DATA, extent.drive_writes);
        Cell { ageing: Ageing { pictured: true, ..ageing }, policy: *policy }
    };
    possible.flat_map(|policy| extent.fills.iter().map(move |fill| at(*fill, policy))).collect()
}

/// One thing changed at a time.
fn tuning(setup: &Setup, policies: &[PolicySpec], extent: &Extent) -> Vec<Cell> {
    let batched = policies.iter().find(|policy| policy.name() == policy::BATCHED && trims(setup));
    let policy = batched.copied().unwrap_or(PolicySpec::None);
    let fill = extent.fills.first().copied().unwrap_or(0.6);
    let cell = |setup: Setup, class, question: &str, choice: &str| {
        let mut ageing = Ageing::new(setup, fill, class, extent.drive_writes.min(TUNING_DRIVE_WRITES));
        ageing.notes = vec![Field::new(QUESTION, question), Field::new(CHOICE, choice)];
        Cell { ageing, policy }
    };
    let mut cells = Vec::new();
    for (class, choice) in [(DATA, "incompressible"), (COMPRESSIBLE, "compressible by 60 %")] {
        cells.push(cell(setup.clone(), class, "data", choice));
    }
    for (start, choice) in [(Bytes(1 << 20), "partition from 1 MiB on"), (SECTOR_63, "partition from sector 63 on")] {
        let mut moved = setup.clone();
        moved.volume.start = start;
        cells.push(cell(moved, DATA, "alignment", choice));
    }
    for atime in [Atime::Strict, Atime::Relative, Atime::Never] {
        let mut changed = setup.clone();
        changed.volume.atime = atime;
        let mut cell = cell(changed, DATA, "access times", &atime.to_string());
        cell.ageing.mix.read_percent = READ_PERCENT;
        cell.ageing.drive_writes = extent.drive_writes.min(1.0);
        cells.push(cell);
    }
    cells
}
