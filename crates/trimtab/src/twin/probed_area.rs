//! The part of a real drive that is probed: a new file, a file or device that is only read, or a device whose content may go.

use crate::drives::below::Below;
use crate::drives::probed::{PIECE, ProbedDrive};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::fd::AsFd;
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
use trimtab_linux::target::block::device::{self, Destroy};
use trimtab_linux::target::block::{BlockFile, BlockOptions};
use trimtab_sim::target::BlockTarget as _;
use trimtab_sim::workload;
use trimtab_study::learn::lab::Lab;
use trimtab_study::learn::probes::{AREA_MIN, DEPTH_MAX};

/// Bytes of operations in flight at once, at most.
const IN_FLIGHT: u64 = 64 << 20;
/// More than the area is made of a file, so that enough of it is aligned on the drive.
const SLACK_MIN: u64 = 4 * PIECE;
/// Bytes read to see whether there is anything.
const LOOKED_AT: Bytes = Bytes(8 << 20);
/// What compresses to less holds nothing.
const EMPTY: f64 = 0.01;
/// The name of the file.
const FILE: &str = "data";

/// For longer no drive is left alone: whatever it does by itself it has done then.
const REST_MAX: Nanos = Nanos::from_secs(3600);

/// Refuses a rest that nobody would wait for.
pub fn check_rest(rest: Nanos) -> anyhow::Result<()> {
    if rest <= REST_MAX {
        return Ok(());
    }
    Err(UsageError::new(format!("a rest of {rest} is too long: it is taken several times")).hint("--rest is an hour at most").into())
}

/// Refuses what is said to keep a real drive safe, or to let it be written over, where there is none.
pub fn check_nothing_is_risked(target: &str, reserve: Option<Bytes>, destroy: &Destroy) -> anyhow::Result<()> {
    if destroy.is_given() || reserve.is_some() {
        return Err(UsageError::new(format!("{target} is a modelled drive: nothing on it is kept or destroyed"))
            .hint("leave out --destroy, --overwrite and --reserve")
            .into());
    }
    Ok(())
}

/// Refuses what lets a device be written over, where something else was named.
pub fn check_only_devices_are_destroyed(target: &str, spec: &TargetSpec, destroy: &Destroy) -> anyhow::Result<()> {
    if destroy.is_given() && !matches!(spec, TargetSpec::Device(_)) {
        let what = format!("{target} is not a device, and nothing in it is destroyed");
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
    /// Bytes of the area that there is: less than was asked for of a file that is small or in pieces.
    pub fn area(&self) -> u64 {
        1 << self.drive.info().size.0.ilog2()
    }

    /// See [`Workspace::require_on`].
    pub fn require_on(&self, mount: Option<&Mount>) -> anyhow::Result<()> {
        self.workspace.as_ref().map_or(Ok(()), |workspace| workspace.require_on(mount))
    }
}

/// Bytes of the file in which an area is looked for.
pub fn file_size(area: u64) -> u64 {
    area + SLACK_MIN.max(area / 16).next_multiple_of(PIECE)
}

/// How the drive is accessed.
pub struct AreaRequest<'a> {
    /// Which command asks.
    pub what: &'a str,
    /// The drive.
    pub below: &'a Below,
    /// Seed of what is written.
    pub seed: u64,
    /// Free space to leave alone, if not the default.
    pub reserve: Option<Bytes>,
    /// What may be destroyed.
    pub destroy: Destroy,
    /// Bytes of the area.
    pub area: u64,
    /// Most bytes that are written in all; `None` if nothing is.
    pub most: Option<u64>,
}

impl AreaRequest<'_> {
    /// Opens what `spec` names, after everything that has to be in order before something is written there.
    pub fn open(&self, context: &Context, spec: &TargetSpec) -> anyhow::Result<ProbedArea> {
        match (spec, self.most) {
            (TargetSpec::Directory(path), Some(most)) => self.in_directory(context, path, most),
            (TargetSpec::File(path), None) => self.on_file(path),
            (TargetSpec::Device(path), _) => self.on_device(context, path),
            (other, Some(_)) => Err(not_written(other)),
            (other, None) => Err(other.refused(format!("{other} is neither a file nor a device, so there is nothing to read")).into()),
        }
    }

    /// The same for whoever writes all of the area, from one end to the other, and no part of it before. Pieces are taken as they come: of so many nearly all lie
    /// as they should.
    pub fn open_unwritten(&self, context: &Context, spec: &TargetSpec) -> anyhow::Result<ProbedArea> {
        let most = self.most.unwrap_or_default();
        let pieces = (0..self.area / PIECE).map(|nth| nth * PIECE).collect();
        match spec {
            TargetSpec::Directory(path) => {
                let amount = workload::Plan { written: Bytes(most), space: Bytes(self.area), ops: None };
                let workspace = self.workspace(context, path, &amount)?;
                let (dir, dir_path) = workspace.subdirectory("run")?;
                self.write_in_place(&dir);
                let file = BlockFile::create(dir, &dir_path, FILE, Bytes(self.area), &self.options())?;
                let drive = ProbedDrive::new(file, pieces).guarded(workspace.guard()?);
                Ok(ProbedArea { drive, workspace: Some(workspace), written: 0 })
            }
            TargetSpec::Device(path) => {
                let own = device::OwnData { seed: self.seed, class: DataClass::Random };
                let claim = device::claim(path, true, &self.destroy, Some(own))?;
                self.announce(context, path, most)?;
                let file = BlockFile::open_claim(claim, &self.options())?;
                Ok(ProbedArea { drive: ProbedDrive::new(file, pieces), workspace: None, written: 0 })
            }
            other => Err(not_written(other)),
        }
    }

    fn options(&self) -> BlockOptions {
        BlockOptions { queue_depth_max: DEPTH_MAX, bytes_in_flight_max: IN_FLIGHT, seed: self.seed, ..BlockOptions::default() }
    }

    /// A file of our own, written once, so that its places are known and are its own.
    fn in_directory(&self, context: &Context, path: &Path, most: u64) -> anyhow::Result<ProbedArea> {
        let size = file_size(self.area);
        let amount = workload::Plan { written: Bytes(most), space: Bytes(size), ops: None };
        let workspace = self.workspace(context, path, &amount)?;
        let (dir, dir_path) = workspace.subdirectory("run")?;
        self.write_in_place(&dir);
        let file = BlockFile::create(dir, &dir_path, FILE, Bytes(size), &self.options())?;
        let mut drive = ProbedDrive::new(file, (0..size / PIECE).map(|nth| nth * PIECE).collect()).guarded(workspace.guard()?);
        write_all(&mut drive, size)?;
        let extents =
            drive.file().extents().with_context(|| format!("cannot find out where on the drive a file in {} lies", path.display()))?;
        let pieces = self.largest(&extents, size).ok_or_else(|| {
            let (size, area) = (Bytes(size), Bytes(AREA_MIN));
            let what =
                format!("{} is so fragmented that a file of {size} has no {area} in whole pieces of 1 MiB on the drive", path.display());
            UsageError::missing(what).hint("free some space that lies together, or name a directory on another filesystem of the drive")
        })?;
        drive.set_pieces(pieces);
        Ok(ProbedArea { drive, workspace: Some(workspace), written: size })
    }

    /// A directory of our own, on the drive that was looked at.
    fn workspace(&self, context: &Context, path: &Path, amount: &workload::Plan) -> anyhow::Result<Workspace> {
        let workspace = safety::prepare(context, self.reserve, path, self.what, amount)?;
        workspace.require_on(self.below.mount.as_ref())?;
        Ok(workspace)
    }

    /// As a drive sees it; checksums and copies would be measured instead.
    fn write_in_place(&self, dir: &impl AsFd) {
        if self.below.fs_type.as_deref() == Some("btrfs") {
            let _ = rustix::fs::ioctl_setflags(dir, IFlags::NOCOW);
        }
    }

    /// The pieces of the whole area or, where not so much of a file lies in whole ones, of a half of it, a quarter …
    fn largest(&self, extents: &[fiemap::Extent], size: u64) -> Option<Vec<u64>> {
        let mut areas = std::iter::successors(Some(self.area), |area| Some(area / 2)).take_while(|area| *area >= AREA_MIN);
        areas.find_map(|area| ProbedDrive::pieces(extents, self.below.start, size, area))
    }

    /// A file of the user's, which is read.
    fn on_file(&self, path: &Path) -> anyhow::Result<ProbedArea> {
        let file = BlockFile::open_file(path, false, &self.options())?;
        let size = file.info().size.0;
        let extents = file.extents().with_context(|| format!("cannot find out where on the drive {} lies", path.display()))?;
        let pieces = self.largest(&extents, size).ok_or_else(|| {
            let what = format!("{} has no {} that lie on the drive in whole pieces of 1 MiB", path.display(), Bytes(AREA_MIN));
            UsageError::missing(what).hint("name a larger file, or one that is neither compressed nor shared nor sparse")
        })?;
        holding(ProbedDrive::new(file, pieces), size, path)
    }

    /// A device: read, or written to where the user has named it twice.
    fn on_device(&self, context: &Context, path: &Path) -> anyhow::Result<ProbedArea> {
        let writes = self.most.is_some();
        let own = device::OwnData { seed: self.seed, class: DataClass::Random };
        let claim = device::claim(path, writes, &self.destroy, Some(own))?;
        if let Some(most) = self.most {
            self.announce(context, path, most)?;
        }
        let file = BlockFile::open_claim(claim, &self.options())?;
        let size = file.info().size.0;
        let whole = fiemap::Extent { logical: 0, physical: 0, len: size, flags: 0 };
        let pieces = ProbedDrive::pieces(&[whole], self.below.start, size, self.area).ok_or_else(|| {
            UsageError::missing(format!("{} is too small: it has less than {} in whole pieces of 1 MiB", path.display(), Bytes(self.area)))
        })?;
        let mut drive = ProbedDrive::new(file, pieces);
        if !writes {
            return holding(drive, size, path);
        }
        // As a drive in use, it holds something everywhere.
        write_all(&mut drive, self.area)?;
        Ok(ProbedArea { drive, workspace: None, written: self.area })
    }

    fn announce(&self, context: &Context, path: &Path, most: u64) -> anyhow::Result<()> {
        consent::to_destroy(context, self.what, path, Bytes(most), Some(self.below.capacity()))
    }
}

fn not_written(other: &TargetSpec) -> anyhow::Error {
    other.refused(format!("{other} is neither a directory nor a device, so nothing is written to it")).into()
}

fn write_all(drive: &mut ProbedDrive, size: u64) -> anyhow::Result<()> {
    let commands = (0..size / PIECE).map(|nth| Command::Write(Extent { offset: nth * PIECE, len: PIECE }, DataClass::Random));
    let mut lab = Lab::new(drive);
    let written = lab.stream(4, commands.take_while(|_| !interrupt::requested())).and_then(|_| lab.one(Command::Flush));
    // What is refused because somebody lost patience is no fault of the drive.
    interrupt::check()?;
    written?;
    Ok(())
}

/// What is read; an error if there is nothing, which many drives answer without looking.
fn holding(mut drive: ProbedDrive, size: u64, path: &Path) -> anyhow::Result<ProbedArea> {
    let share = drive.file().compressed_share(Bytes(size), LOOKED_AT)?;
    if share < EMPTY {
        let what = format!("{} holds zeros, and a drive may give these without reading any", path.display());
        return Err(UsageError::missing(what).hint("name a file or device that holds data").into());
    }
    Ok(ProbedArea { drive, workspace: None, written: 0 })
}
