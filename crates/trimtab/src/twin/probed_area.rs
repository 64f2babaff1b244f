//! The probed part of a real drive: a new file, or a device that may be overwritten.

use crate::drives::below::UnderlyingDrive;
use crate::drives::probed::{PIECE, ProbedDrive};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::fs::IFlags;
use std::path::Path;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_drive::{Command, Extent};
use trimtab_linux::host::mountinfo::Mount;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::{self, Workspace, consent};
use trimtab_linux::sys::{fiemap, interrupt};
use trimtab_linux::target::block::device::{self, DestroyConsent};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_sim::target::BlockTarget as _;
use trimtab_sim::workload;
use trimtab_study::learn::lab::ProbeSession;
use trimtab_study::learn::probes::{AREA_MIN, DEPTH_MAX};

/// Largest number of bytes in flight.
const IN_FLIGHT: u64 = 64 << 20;
/// Extra bytes of the file, so that enough of it is aligned on the drive.
const SLACK_MIN: u64 = 4 * PIECE;
/// File name.
const FILE: &str = "data";

/// Longest rest: by then, a drive has finished its background work.
const REST_MAX: Nanos = Nanos::from_secs(3600);

/// Refuses a rest that is too long.
pub fn check_rest(rest: Nanos) -> anyhow::Result<()> {
    if rest <= REST_MAX {
        return Ok(());
    }
    Err(UsageError::new(format!("a rest of {rest} is too long, because it is repeated"))
        .hint("--rest is at most one hour")
        .into())
}

/// Refuses options about safety or destruction for a modelled drive.
pub fn check_nothing_is_risked(
    target: &str,
    reserve: Option<Bytes>,
    destroy: &DestroyConsent,
) -> anyhow::Result<()> {
    if destroy.is_given() || reserve.is_some() {
        return Err(UsageError::new(format!(
            "{target} is a modelled drive, which has nothing to keep or destroy"
        ))
        .hint("leave out --destroy, --overwrite and --reserve")
        .into());
    }
    Ok(())
}

/// Refuses --destroy and --overwrite for a target that is not a device.
pub fn check_only_devices_are_destroyed(
    target: &str,
    spec: &TargetSpec,
    destroy: &DestroyConsent,
) -> anyhow::Result<()> {
    if destroy.is_given() && !matches!(spec, TargetSpec::Device(_)) {
        let what = format!("{target} is not a device, so nothing can be destroyed on it");
        return Err(UsageError::new(what).hint("leave out --destroy and --overwrite").into());
    }
    Ok(())
}

/// The opened part of the drive.
pub struct ProbedArea {
    /// The drive. Closed before its directory is removed.
    pub drive: ProbedDrive,
    workspace: Option<Workspace>,
    /// Bytes written so far.
    pub written: u64,
}

impl ProbedArea {
    /// Size of the area in bytes; less than requested for a small or fragmented file.
    pub fn area(&self) -> u64 {
        1 << self.drive.info().size.0.ilog2()
    }

    /// See [`Workspace::require_on`].
    pub fn require_on(&self, mount: Option<&Mount>) -> anyhow::Result<()> {
        self.workspace.as_ref().map_or(Ok(()), |workspace| workspace.require_on(mount))
    }
}

/// Size of the file for an area, in bytes.
pub fn file_size(area: u64) -> u64 {
    area + SLACK_MIN.max(area / 16).next_multiple_of(PIECE)
}

/// Request for access to a drive.
pub struct AreaRequest<'a> {
    /// Name of the command.
    pub what: &'a str,
    /// The drive.
    pub below: &'a UnderlyingDrive,
    /// Seed of the data.
    pub seed: u64,
    /// Free space to leave alone, if not the default.
    pub reserve: Option<Bytes>,
    /// Content that may be destroyed.
    pub destroy: DestroyConsent,
    /// Bytes of the area.
    pub area: u64,
    /// Largest number of bytes to write in total.
    pub most: u64,
}

impl AreaRequest<'_> {
    /// Checks everything first, then opens the target of `spec`.
    pub fn open(&self, context: &Context, spec: &TargetSpec) -> anyhow::Result<ProbedArea> {
        match spec {
            TargetSpec::Directory(path) => self.in_directory(context, path),
            TargetSpec::Device(path) => self.on_device(context, path),
            other => Err(not_written(other)),
        }
    }

    /// The same for a caller that writes the whole area in order before any other access.
    /// Pieces are used as they come; nearly all of them are aligned.
    pub fn open_unwritten(
        &self,
        context: &Context,
        spec: &TargetSpec,
    ) -> anyhow::Result<ProbedArea> {
        match spec {
            TargetSpec::Directory(path) => {
                let (drive, workspace) = self.new_file(context, path, self.area)?;
                Ok(ProbedArea { drive, workspace: Some(workspace), written: 0 })
            }
            TargetSpec::Device(path) => {
                let own = device::OwnData { seed: self.seed, class: DataClass::Random };
                let claim = device::claim(path, true, &self.destroy, Some(own))?;
                self.announce(context, path)?;
                let drive = ProbedDrive::new(
                    BlockFile::open_claim(claim, &self.options())?,
                    pieces(self.area),
                );
                Ok(ProbedArea { drive, workspace: None, written: 0 })
            }
            other => Err(not_written(other)),
        }
    }

    fn options(&self) -> BlockOptions {
        BlockOptions {
            queue_depth_max: DEPTH_MAX,
            bytes_in_flight_max: IN_FLIGHT,
            seed: self.seed,
            ..BlockOptions::default()
        }
    }

    /// Creates a file and writes it once, so that its blocks are allocated and known.
    fn in_directory(&self, context: &Context, path: &Path) -> anyhow::Result<ProbedArea> {
        let size = file_size(self.area);
        let (mut drive, workspace) = self.new_file(context, path, size)?;
        write_all(&mut drive, size)?;
        let extents = drive
            .file()
            .extents()
            .with_context(|| format!("cannot map a file in {} to the drive", path.display()))?;
        let pieces = self.largest(&extents, size).ok_or_else(|| {
            let (size, area) = (Bytes(size), Bytes(AREA_MIN));
            let what = format!(
                "{} is so fragmented that a file of {size} does not contain {area} \
                    in whole pieces of 1 MiB on the drive",
                path.display()
            );
            UsageError::missing(what).hint(
                "free contiguous space, or name a directory on another filesystem of the drive",
            )
        })?;
        drive.set_pieces(pieces);
        Ok(ProbedArea { drive, workspace: Some(workspace), written: size })
    }

    /// Creates a file on the drive that was examined, in a directory of its own.
    fn new_file(
        &self,
        context: &Context,
        path: &Path,
        size: u64,
    ) -> anyhow::Result<(ProbedDrive, Workspace)> {
        let amount =
            workload::WorkloadPlan { written: Bytes(self.most), space: Bytes(size), ops: None };
        let workspace = safety::prepare(context, self.reserve, path, self.what, &amount)?;
        workspace.require_on(self.below.mount.as_ref())?;
        let (dir, dir_path) = workspace.subdirectory("run")?;
        // Copy-on-write and checksums would otherwise be measured.
        if self.below.fs_type.as_deref() == Some("btrfs") {
            let _ = rustix::fs::ioctl_setflags(&dir, IFlags::NOCOW);
        }
        let file = BlockFile::create(dir, &dir_path, FILE, Bytes(size), &self.options())?;
        Ok((ProbedDrive::new(file, pieces(size)).guarded(workspace.guard()?), workspace))
    }

    /// The pieces of the whole area, or of half, a quarter, … if the file has too few
    /// whole pieces.
    fn largest(&self, extents: &[fiemap::FileExtent], size: u64) -> Option<Vec<u64>> {
        let mut areas = std::iter::successors(Some(self.area), |area| Some(area / 2))
            .take_while(|area| *area >= AREA_MIN);
        areas.find_map(|area| ProbedDrive::pieces(extents, self.below.start, size, area))
    }

    /// Opens a device, whose content is destroyed.
    fn on_device(&self, context: &Context, path: &Path) -> anyhow::Result<ProbedArea> {
        let own = device::OwnData { seed: self.seed, class: DataClass::Random };
        let claim = device::claim(path, true, &self.destroy, Some(own))?;
        self.announce(context, path)?;
        let file = BlockFile::open_claim(claim, &self.options())?;
        let size = file.info().size.0;
        let whole = fiemap::FileExtent { logical: 0, physical: 0, len: size, flags: 0 };
        let pieces =
            ProbedDrive::pieces(&[whole], self.below.start, size, self.area).ok_or_else(|| {
                UsageError::missing(format!(
                    "{} is too small: it has less than {} in whole pieces of 1 MiB",
                    path.display(),
                    Bytes(self.area)
                ))
            })?;
        let mut drive = ProbedDrive::new(file, pieces);
        // Fills the area, so that the drive holds data everywhere as in use.
        write_all(&mut drive, self.area)?;
        Ok(ProbedArea { drive, workspace: None, written: self.area })
    }

    fn announce(&self, context: &Context, path: &Path) -> anyhow::Result<()> {
        consent::to_destroy(context, self.what, path, Bytes(self.most), Some(self.below.capacity()))
    }
}

/// The pieces of `size` bytes, in order.
fn pieces(size: u64) -> Vec<u64> {
    (0..size / PIECE).map(|nth| nth * PIECE).collect()
}

fn not_written(other: &TargetSpec) -> anyhow::Error {
    other
        .refused(format!("{other} is neither a directory nor a device, so it is not written to"))
        .into()
}

fn write_all(drive: &mut ProbedDrive, size: u64) -> anyhow::Result<()> {
    let commands = (0..size / PIECE)
        .map(|nth| Command::Write(Extent { offset: nth * PIECE, len: PIECE }, DataClass::Random));
    let mut lab = ProbeSession::new(drive);
    let written = lab
        .stream(4, commands.take_while(|_| !interrupt::requested()))
        .and_then(|_| lab.one(Command::Flush));
    // A refusal due to an interrupt is not the drive's fault.
    interrupt::check()?;
    written?;
    Ok(())
}
