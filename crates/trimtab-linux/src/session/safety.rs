//! Real drives are precious: what every command that writes goes through first.
//!
//! Writes stay inside a directory that this program made, which is gone afterwards. Free space keeps a reserve. How much
//! will be written is said first, and much of it needs consent. What a crashed run left behind is found on the next start.

pub mod consent;
pub mod names;
pub mod space;
pub mod workspace;

pub use self::space::Guard;
pub use self::workspace::Workspace;

use crate::host::root::Root;
use crate::host::{self, block, fstab};
use crate::output::Context;
use crate::sys::beneath;
use anyhow::Context as _;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::StatVfsMountFlags;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_sim::workload::Plan;

/// A directory that a command is about to write into; looked at, nothing made yet.
#[derive(Debug)]
pub struct Ground {
    /// The directory.
    pub dir: OwnedFd,
    /// Its path without links.
    pub path: PathBuf,
    /// Size of the smallest drive below it; `None` if what is written does not wear a drive (memory), or none can be found.
    pub drive: Option<Bytes>,
}

impl Ground {
    /// Looks at `path`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let dir =
            OwnedFd::from(beneath::Dir::open(path).with_context(|| format!("cannot use {} as a directory to write in", path.display()))?);
        require_writable(&dir, path)?;
        fstab::require_mounted(path)?;
        let path = beneath::named::real_path(&dir).with_context(|| format!("cannot find out where {} is", path.display()))?;
        let place = Root::live().and_then(|root| host::Place::of_path(&root, &path)).ok();
        let drive = place.and_then(|place| drive_size(&place.stack));
        Ok(Self { dir, path, drive })
    }

    /// The directory to make things in.
    fn directory(&self) -> anyhow::Result<beneath::Dir> {
        let fd = self.dir.try_clone().context("cannot keep the directory open")?;
        Ok(beneath::Dir::from_fd(fd, &self.path))
    }
}

/// An error if what `dir` is on is mounted read-only: found out before anything is looked at, remarked or asked.
pub fn require_writable(dir: impl AsFd, path: &Path) -> anyhow::Result<()> {
    let stat = rustix::fs::fstatvfs(dir).with_context(|| format!("cannot look at {}", path.display()))?;
    if !stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    Err(UsageError::missing(format!("cannot write in {}: it is mounted read-only", path.display()))
        .hint("name a directory that can be written to")
        .into())
}

/// The smallest drive; without one, the smallest device of the filesystem, unless all of it is in memory.
fn drive_size(stack: &block::Stack) -> Option<Bytes> {
    let in_memory =
        |layer: &block::Layer| matches!(&layer.kind, block::Kind::File { fs_type, .. } if fs_type == "tmpfs" || fs_type == "ramfs");
    let smallest = stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min();
    if smallest.is_some() || stack.layers.iter().any(in_memory) {
        return smallest;
    }
    stack.top_layers().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min()
}

/// Everything that has to be in order before a command writes `plan` below `path`, and the directory to write in.
/// `reserve` is free space to leave alone, if not the default; `what` completes the sentence "TRIMTAB: `what` writes up to …".
pub fn prepare(context: &Context, reserve: Option<Bytes>, path: &Path, what: &str, plan: &Plan) -> anyhow::Result<Workspace> {
    let ground = Ground::open(path)?;
    workspace::deal_with_leftovers(context, &ground)?;
    let reserve = space::check(&ground, reserve, plan.space)?;
    consent::announce_and_ask(context, &ground, what, plan)?;
    crate::sys::interrupt::install().context("cannot catch signals")?;
    crate::sys::interrupt::check()?;
    Workspace::create(&ground, reserve)
}
