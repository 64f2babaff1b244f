//! The target of the tests: opened, described and closed.

use super::CrystalWatch;
use crate::bench::finish;
use crate::cmd::bench::crystal::BenchCrystalArgs;
use crate::drives;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::Path;
use trimtab_drive::model::{self, Model};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::host::cached::DirectWatch;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::{Guard, Workspace, consent};
use trimtab_linux::target::block::{BlockFile, BlockOptions, device};
use trimtab_linux::target::null::NullBlocks;
use trimtab_sim::run::{TargetKind, Warning};
use trimtab_sim::runner::{RunOutcome, blocks};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::BlockTarget as _;
use trimtab_sim::target::drive::DriveTarget;
use trimtab_sim::workload::BlockWorkload as _;
use trimtab_sim::workload::crystal::{ASSUMED_RATE, Crystal, CrystalSettings};

/// Bytes read back to measure the compressibility of the data.
const SAMPLE: Bytes = Bytes(32 << 20);
/// Name of the test file.
const FILE: &str = "data";

/// A target with its resources.
pub enum CrystalTarget {
    /// A file or a device.
    Real {
        /// Comes first, so that it is closed before its directory is removed.
        target: Box<BlockFile>,
        /// Its directory, if this program created it.
        workspace: Option<Workspace>,
        /// Observes the machine during the run.
        observer: Box<EnvironmentRecorder>,
        /// Warnings found so far about distorted figures.
        found: Vec<Warning>,
    },
    /// A modelled drive.
    Modelled(DriveTarget<Box<dyn Model>>),
    /// Nothing.
    Null(NullBlocks),
}

impl CrystalTarget {
    /// Checks everything first, then opens the target of `spec`.
    pub fn open(
        request: &BenchCrystalArgs,
        context: &Context,
        spec: &TargetSpec,
        settings: &CrystalSettings,
        workload: &Crystal,
    ) -> anyhow::Result<Self> {
        let (queue_depth_max, bytes_in_flight_max) = workload.in_flight_max();
        let options = BlockOptions {
            queue_depth_max,
            bytes_in_flight_max,
            seed: request.seed,
            verify: request.verify,
            direct: !request.buffered,
            ..BlockOptions::default()
        };
        let opening = Opening { request, context, settings, workload, options };
        let target = match spec {
            TargetSpec::Directory(path) => opening.directory(path)?,
            TargetSpec::File(path) => opening.file(path)?,
            TargetSpec::Device(path) => opening.device(path)?,
            TargetSpec::Drive(name) => on_drive(request, name, queue_depth_max)?,
            TargetSpec::Null(size) => Self::Null(NullBlocks::new(*size)),
        };
        target.check(request, settings)?;
        Ok(target)
    }

    /// Fails if the tests do not fit on the target.
    fn check(&self, request: &BenchCrystalArgs, settings: &CrystalSettings) -> anyhow::Result<()> {
        let info = match self {
            Self::Real { target, .. } => target.info(),
            Self::Modelled(target) => target.info(),
            Self::Null(target) => target.info(),
        };
        if settings.size > info.size {
            return Err(UsageError::new(format!("{} has {}, but the tests need {}", request.target, info.size, settings.size))
                .hint("set --size")
                .into());
        }
        let smallest = settings.profile.tests().iter().map(|test| test.block).min().unwrap_or(0);
        if !smallest.is_multiple_of(info.block_size) {
            let problem = format!("{} has blocks of {} bytes, but the tests use {smallest}", request.target, info.block_size);
            return Err(UsageError::new(problem).into());
        }
        Ok(())
    }

    /// Runs the workload on the target.
    pub fn run(&mut self, mut workload: Crystal, watch: &mut CrystalWatch<'_>) -> RunOutcome {
        match self {
            Self::Real { target, .. } => blocks::run(&mut workload, target.as_mut(), watch),
            Self::Modelled(target) => worn_out::conclude(blocks::run(&mut workload, target, watch), target.drive().as_ref()),
            Self::Null(target) => blocks::run(&mut workload, target, watch),
        }
    }

    /// The kind of the target.
    pub fn kind(&self) -> TargetKind {
        match self {
            Self::Real { target, .. } => target.kind(),
            Self::Modelled(_) => TargetKind::ModelledDrive,
            Self::Null(_) => TargetKind::Null,
        }
    }

    /// True if the target is a real drive.
    pub fn is_real(&self) -> bool {
        matches!(self, Self::Real { .. })
    }

    /// How operations are submitted.
    pub fn engine(&self) -> Option<&'static str> {
        match self {
            Self::Real { target, .. } => Some(target.engine()),
            _ => None,
        }
    }

    /// A guard for the reserve of free space, if there is one.
    pub fn guard(&self) -> anyhow::Result<Option<Guard>> {
        match self {
            Self::Real { workspace: Some(workspace), .. } => workspace.guard().map(Some),
            _ => Ok(None),
        }
    }

    /// The compressibility of the written data, read back from the target.
    pub fn compressed_share(&mut self, settings: &CrystalSettings) -> anyhow::Result<Option<f64>> {
        match self {
            Self::Real { target, .. } => target.compressed_share(settings.size, SAMPLE).map(Some),
            _ => Ok(None),
        }
    }

    /// Bytes that were verified, if requested.
    pub fn verified(&self) -> Option<Bytes> {
        match self {
            Self::Real { target, .. } => target.verified(),
            _ => None,
        }
    }

    /// Warnings about figures from this target.
    pub fn warnings(&self) -> Vec<Warning> {
        match self {
            Self::Real { target, found, .. } => target.warnings().iter().chain(found).cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Starts counting what reaches the drives below; `None` if nothing is measured or the
    /// counters are not visible.
    pub fn direct_watch(&self) -> Option<DirectWatch> {
        match self {
            Self::Real { observer, .. } => DirectWatch::start(observer).ok(),
            _ => None,
        }
    }

    /// Adds a warning, if any.
    pub fn add_warning(&mut self, warning: Option<Warning>) {
        if let Self::Real { found, .. } = self {
            found.extend(warning);
        }
    }

    /// Counters of a model.
    pub fn counters(&self) -> Vec<(String, u64)> {
        match self {
            Self::Modelled(target) => target.drive().counters().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Bytes to write before a level can count as steady: the whole drive, if its size is known.
    pub fn steady_size(&self, settings: &CrystalSettings) -> Bytes {
        match self {
            Self::Real { observer, .. } => {
                let drives = observer.place().stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO);
                drives.min().unwrap_or(settings.size)
            }
            Self::Modelled(target) => target.info().size,
            Self::Null(_) => settings.size,
        }
    }

    /// Closes the target; returns the observer, and the directory, which is removed after the run
    /// is stored.
    pub fn close(self) -> (Option<EnvironmentRecorder>, Option<Workspace>) {
        match self {
            Self::Real { workspace, observer, .. } => (Some(*observer), workspace),
            _ => (None, None),
        }
    }
}

/// "bench crystal", with the assumption behind its announced amount.
fn what(workload: &Crystal) -> String {
    if workload.is_timed() { format!("bench crystal, on a drive of {ASSUMED_RATE}/s,") } else { "bench crystal".to_owned() }
}

/// Options for opening a real target.
struct Opening<'a> {
    request: &'a BenchCrystalArgs,
    context: &'a Context,
    settings: &'a CrystalSettings,
    workload: &'a Crystal,
    options: BlockOptions,
}

impl Opening<'_> {
    /// A new file in a workspace.
    fn directory(&self, path: &Path) -> anyhow::Result<CrystalTarget> {
        let (workspace, observer) =
            finish::begin(self.context, self.request.safety.reserve, path, &what(self.workload), &self.workload.plan())?;
        let (dir, dir_path) = workspace.subdirectory("run")?;
        let target = BlockFile::create(dir, &dir_path, FILE, self.settings.size, &self.options)?;
        Ok(CrystalTarget::Real { target: Box::new(target), workspace: Some(workspace), observer: Box::new(observer), found: Vec::new() })
    }

    fn file(&self, path: &Path) -> anyhow::Result<CrystalTarget> {
        let claim =
            self.settings.writes.then(|| device::claim_file(path, &self.request.destroy.named(), Some(self.own_data()))).transpose()?;
        self.claimed(path, claim)
    }

    fn device(&self, path: &Path) -> anyhow::Result<CrystalTarget> {
        let claim = device::claim(path, self.settings.writes, &self.request.destroy.named(), Some(self.own_data()))?;
        self.claimed(path, Some(claim))
    }

    /// A user's file or device, after consent to overwrite it. Without a claim, it is only read.
    fn claimed(&self, path: &Path, claim: Option<device::Claim>) -> anyhow::Result<CrystalTarget> {
        let observer = EnvironmentRecorder::start(path).with_context(|| format!("cannot access {}", path.display()))?;
        if self.settings.writes {
            let drive = observer.place().stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min();
            consent::to_destroy(self.context, &what(self.workload), path, self.workload.plan().written, drive)?;
        }
        let target = match claim {
            Some(claim) => BlockFile::open_claim(claim, &self.options)?,
            None => BlockFile::open_file(path, false, &self.options)?,
        };
        Ok(CrystalTarget::Real { target: Box::new(target), workspace: None, observer: Box::new(observer), found: Vec::new() })
    }

    /// Content that an earlier run of the same command may have left.
    fn own_data(&self) -> device::OwnData {
        device::OwnData { seed: self.request.seed, class: self.settings.data }
    }
}

fn on_drive(request: &BenchCrystalArgs, name: &str, queue_depth_max: u32) -> anyhow::Result<CrystalTarget> {
    let spec = drives::load(name)?.spec;
    let drive = model::build(&spec, request.seed)?;
    Ok(CrystalTarget::Modelled(DriveTarget::new(drive, spec.interface.queue_depth.max(queue_depth_max))))
}
