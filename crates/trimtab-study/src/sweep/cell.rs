//! One cell of a sweep: exactly the inputs that decide its result.

use super::hash::{MODEL, short_hash};
use crate::study::ageing::Ageing;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::Display;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::run::{Run, TargetKind, Warning};
use trimtab_sim::runner::{Observer, RunEnd};
use trimtab_sim::simulate::{self, SimulationLoad, SimulationPlan, Trace};

/// A cell. Its result does not depend on the machine, the time, or other cells.
#[derive(Clone, Debug)]
pub struct SweepCell<T> {
    /// The drive at the requested size.
    pub drive: DriveSpec,
    /// Warning if the drive is too small to have the write amplification of the original.
    pub few: Option<Warning>,
    /// The workload.
    pub work: SweepCellWork<T>,
}

/// The workload of a cell.
#[derive(Clone, Debug)]
pub enum SweepCellWork<T> {
    /// Requests on the drive itself.
    Requests {
        /// The simulation and its policy.
        plan: Box<SimulationPlan<T>>,
        /// Hash of the content, for a trace.
        content: String,
    },
    /// Files on a filesystem.
    Files {
        /// Months of use.
        ageing: Box<Ageing>,
        /// The trim policy.
        policy: PolicySpec,
    },
}

impl<T: Trace<Error: Display>> SweepCell<T> {
    /// All inputs of the result as text, regardless of the source of drive or trace.
    #[must_use]
    pub fn identity(&self) -> String {
        let drive =
            DriveSpec { name: String::new(), description: String::new(), ..self.drive.clone() };
        let work = match &self.work {
            SweepCellWork::Requests { plan, content } => {
                let load = match &plan.load {
                    SimulationLoad::Trace(trace) => format!("{content} {:?}", trace.fields()),
                    SimulationLoad::Synthetic(addresses) => format!("{addresses:?}"),
                    SimulationLoad::Crystal(loops) => format!("{loops:?}"),
                    SimulationLoad::Jobs(jobs) => format!("{jobs:?}"),
                };
                let SimulationPlan {
                    name: _,
                    load: _,
                    data,
                    fill_permille,
                    steady,
                    until_written,
                    trim,
                    seed,
                } = plan.as_ref();
                let steady = if *steady { " steady" } else { "" };
                format!(
                    "requests {load} {data:?} {fill_permille} {until_written:?} {trim:?} {seed}{steady}"
                )
            }
            SweepCellWork::Files { ageing, policy } => {
                let Ageing { setup, fill, mix, drive_writes, daily, size, thorough } =
                    ageing.as_ref();
                let (volume, seed) = (&setup.volume, setup.seed);
                format!(
                    "files {policy:?} {volume:?} {fill} {mix:?} {drive_writes} \
                        {daily} {size:?} {thorough} {seed}"
                )
            }
        };
        // The warning is stored with the result.
        let said = self.few.as_ref().map_or("", |warning| warning.code.as_str());
        format!("{MODEL}\n{drive:?}\n{work}{said}")
    }

    /// 128 bits of the SHA-256 of its [`identity`](Self::identity), in hexadecimal.
    #[must_use]
    pub fn id(&self) -> String {
        short_hash(self.identity())
    }

    /// Its seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        match &self.work {
            SweepCellWork::Requests { plan, .. } => plan.seed,
            SweepCellWork::Files { ageing, .. } => ageing.setup.seed,
        }
    }

    /// Makes the run. The caller adds the start time.
    ///
    /// # Errors
    /// A drive, a filesystem or a workload cannot be created, or fails. An interruption
    /// is not an error.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<(Run, RunEnd), String> {
        let label = format!("drive:{}", self.drive.name);
        match &self.work {
            SweepCellWork::Requests { plan, .. } => {
                let mut simulated = match simulate::run(&self.drive, plan, observer) {
                    Ok(simulated) => simulated,
                    Err(_) if observer.stopped() => {
                        return Ok((self.empty(&label), RunEnd::Interrupted));
                    }
                    Err(error) => return Err(error.to_string()),
                };
                let mut header = Run::new(
                    "simulate",
                    core::mem::take(&mut simulated.settings),
                    TargetKind::ModelledDrive,
                    &label,
                    "",
                    plan.seed,
                );
                (header.policy, header.policy_settings) = core::mem::take(&mut simulated.policy);
                let end = simulated.end.clone();
                let mut run = header
                    .into_run(core::mem::take(&mut simulated.recorded), end == RunEnd::Complete);
                simulated.describe(&mut run);
                run.warnings.extend(self.few.clone());
                Ok((run, end))
            }
            SweepCellWork::Files { ageing, policy } => {
                ageing.run(policy, observer).map_err(|problem| problem.to_string())
            }
        }
    }

    fn empty(&self, label: &str) -> Run {
        let header = Run::new(
            "simulate",
            alloc::vec::Vec::new(),
            TargetKind::ModelledDrive,
            label,
            "",
            self.seed(),
        );
        header.into_run(trimtab_sim::run::RunRecording::default(), false)
    }

    /// Approximate memory: 4 bytes per mapped unit and per physical place, plus the
    /// workload.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        /// Base memory of a run without a drive: histograms, series, first use of code.
        const BASE: u64 = 8 << 20;
        match &self.work {
            SweepCellWork::Requests { plan, .. } => {
                let places = match &plan.load {
                    SimulationLoad::Synthetic(a)
                        if a.trims_of == trimtab_sim::workload::synthetic::TrimPattern::InUse
                            && a.mix.trim_percent > 0 =>
                    {
                        let smallest = a
                            .sizes
                            .iter()
                            .map(|(size, _)| u64::from(*size))
                            .min()
                            .unwrap_or(4096)
                            .max(1);
                        self.drive.capacity_bytes / smallest / 8
                    }
                    _ => 0,
                };
                // Policy state: blocks in use, mapped blocks and blocks not yet trimmed.
                // Eight blocks share a bit if they are indistinguishable.
                let block = u64::from(self.drive.logical_block_bytes);
                let pages = match &plan.load {
                    SimulationLoad::Synthetic(a) => {
                        a.sizes.iter().all(|(size, _)| u64::from(*size).is_multiple_of(8 * block))
                    }
                    SimulationLoad::Crystal(_) => 4096_u64.is_multiple_of(8 * block),
                    SimulationLoad::Trace(_) | SimulationLoad::Jobs(_) => false,
                };
                let bits = self.drive.capacity_bytes / if pages { 8 * block } else { block };
                let steered = if plan.trim.is_some() { 3 * bits / 8 } else { 0 };
                Bytes(BASE + self.drive.table_bytes() + places + steered)
            }
            // A drive of that size, and copies of drive and filesystem for measurements.
            SweepCellWork::Files { ageing, .. } => {
                let small = crate::study::small::SmallDrive::of(&self.drive, ageing.size);
                Bytes(
                    8 * BASE
                        + 3 * small.map_or_else(
                            |_| self.drive.table_bytes(),
                            |small| small.spec.table_bytes(),
                        ),
                )
            }
        }
    }
}

/// Facts about the drive in addition to its figures.
impl<T> SweepCell<T> {
    /// Over-provisioning (T - U) / U in per cent: as requested or slightly more (whole
    /// superblocks).
    #[must_use]
    pub fn over_provisioning_percent(&self) -> f64 {
        let raw = self.drive.flash.geometry.raw_bytes() as f64;
        100.0 * (raw / self.drive.capacity_bytes as f64 - 1.0)
    }
}
