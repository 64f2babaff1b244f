//! The target of a benchmark of blocks: a device or a file, a modelled drive, or nothing.

use super::purge::{Purge, PurgeMethod};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use trimtab_drive::model::Model;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::{Workspace, consent};
use trimtab_linux::target::block::device::{self, DestroyConsent, OwnData};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::run::{Field, TargetKind, Warning};
use trimtab_sim::runner::blocks::{self, Recording};
use trimtab_sim::runner::{Events, RunOutcome};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::target::{BlockInfo, BlockTarget};
use trimtab_sim::workload::BlockWorkload;

/// A device or a file.
pub struct RealBlocks {
    /// Comes first, so that it is closed before its directory is removed.
    pub file: BlockFile,
    /// Its directory, if this program created it.
    pub workspace: Option<Workspace>,
    /// Observes the machine during the run.
    pub observer: EnvironmentRecorder,
    /// Warnings found so far about distorted figures.
    pub found: Vec<Warning>,
    /// The purge before the run, to be repeated, and its facts.
    pub purge: Option<(Purge, Vec<Field>)>,
}

impl RealBlocks {
    /// A target that was not purged.
    pub fn new(
        file: BlockFile,
        workspace: Option<Workspace>,
        observer: EnvironmentRecorder,
    ) -> Self {
        Self { file, workspace, observer, found: Vec::new(), purge: None }
    }

    /// Size of the smallest drive below, if it is known.
    pub fn drive_size(&self) -> Option<Bytes> {
        drive_size(&self.observer)
    }
}

/// An open target.
pub enum BenchBlocks {
    /// A device or a file.
    Real(Box<RealBlocks>),
    /// A modelled drive.
    Modelled(DriveTarget<Box<dyn Model>>),
    /// Nothing.
    Null(NullBlocks),
}

impl BenchBlocks {
    /// Opens the device or file of `spec` at `path`, after consent if it is written. A
    /// device is purged after both consents.
    /// `plan` returns the bytes to write and the options for a target of its size, and of
    /// its blocks if they are known; its error ends the command before anything is written.
    pub fn open(
        context: &Context,
        what: &str,
        (spec, path): (&TargetSpec, &Path),
        (destroy, own): (&DestroyConsent, Option<OwnData>),
        writes: bool,
        purge: Option<PurgeMethod>,
        plan: impl FnOnce(Bytes, Option<u32>) -> anyhow::Result<(Bytes, BlockOptions)>,
    ) -> anyhow::Result<Self> {
        let writes = writes || purge.is_some();
        let claim = match spec {
            TargetSpec::Device(_) => Some(device::claim(path, writes, destroy, own)?),
            _ => writes.then(|| device::claim_file(path, destroy, own)).transpose()?,
        };
        let observer = EnvironmentRecorder::start(path)
            .with_context(|| format!("cannot access {}", path.display()))?;
        let (written, options) = plan(
            claim.as_ref().map_or(Bytes::ZERO, device::Claim::size),
            claim.as_ref().and_then(device::Claim::block_size),
        )?;
        let purge = purge
            .zip(claim.as_ref())
            .map(|(method, claim)| Purge::prepare(method, path.display().to_string(), claim))
            .transpose()?;
        if writes {
            consent::to_destroy(context, what, path, written, drive_size(&observer))?;
        }
        let purge = purge
            .map(|purge| {
                purge.ask(context, what)?;
                let facts = purge.run(context)?;
                anyhow::Ok((purge, facts))
            })
            .transpose()?;
        let file = match claim {
            Some(claim) => BlockFile::open_claim(claim, &options)?,
            None => BlockFile::open_file(path, false, &options)?,
        };
        Ok(Self::Real(Box::new(RealBlocks { purge, ..RealBlocks::new(file, None, observer) })))
    }

    /// The device or file.
    pub fn real(&self) -> Option<&RealBlocks> {
        if let Self::Real(real) = self { Some(real) } else { None }
    }

    /// Properties of the target.
    pub fn info(&self) -> &BlockInfo {
        match self {
            Self::Real(real) => real.file.info(),
            Self::Modelled(target) => target.info(),
            Self::Null(target) => target.info(),
        }
    }

    /// Kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Real(real) => real.file.kind(),
            Self::Modelled(_) => TargetKind::ModelledDrive,
            Self::Null(_) => TargetKind::Null,
        }
    }

    /// The engine and the purge of a real target, as settings of the run.
    pub fn settings(&self) -> Vec<Field> {
        let Some(real) = self.real() else { return Vec::new() };
        let engine = Field::new("engine", real.file.engine());
        real.purge.iter().flat_map(|(_, facts)| facts.clone()).chain([engine]).collect()
    }

    /// Warnings about figures from this target, and counters of a model.
    pub fn facts(&self) -> (Vec<Warning>, Vec<(String, u64)>) {
        match self {
            Self::Real(real) => {
                ([real.file.warnings(), real.found.as_slice()].concat(), Vec::new())
            }
            Self::Modelled(target) => (Vec::new(), target.drive().counters().into_iter().collect()),
            Self::Null(_) => (Vec::new(), Vec::new()),
        }
    }

    /// Runs a workload.
    pub fn run<E>(&mut self, workload: &mut dyn BlockWorkload, events: &mut E) -> RunOutcome
    where
        E: Events<DriveTarget<Box<dyn Model>>> + for<'a> Events<dyn BlockTarget + 'a>,
    {
        match self {
            Self::Real(real) => blocks::run_dyn(workload, &mut real.file, Recording::Full, events),
            Self::Modelled(target) => {
                worn_out::conclude(target.run(workload, events), target.drive().as_ref())
            }
            Self::Null(target) => blocks::run_dyn(workload, target, Recording::Full, events),
        }
    }

    /// Closes the target; returns the observer, and the directory, which is removed after
    /// the run is stored.
    pub fn close(self) -> (Option<EnvironmentRecorder>, Option<Workspace>) {
        match self {
            Self::Real(real) => {
                let RealBlocks { file, workspace, observer, .. } = *real;
                drop(file);
                (Some(observer), workspace)
            }
            _ => (None, None),
        }
    }
}

fn drive_size(observer: &EnvironmentRecorder) -> Option<Bytes> {
    observer.place().stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min()
}
