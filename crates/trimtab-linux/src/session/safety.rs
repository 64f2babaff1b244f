//! Safety checks of every command that writes to a real drive.
//!
//! Writes stay inside a directory that this program makes and removes afterwards. A
//! reserve of free space remains. The amount to write is announced first, and large
//! amounts need consent. The next start finds what a crashed run left behind.

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
use trimtab_sim::workload::WorkloadPlan;

/// A directory that a command will write to. It has been inspected; nothing has been
/// created yet.
#[derive(Debug)]
pub struct TargetDirectory {
    /// The directory.
    pub dir: OwnedFd,
    /// Its path with all links resolved.
    pub path: PathBuf,
    /// Size of the smallest drive below it; `None` if it is in memory, which does not
    /// wear, or if no drive can be found.
    pub drive: Option<Bytes>,
}

impl TargetDirectory {
    /// Opens and inspects `path`.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let dir = match beneath::Dir::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                let what = format!("{} is not a directory", path.display());
                return Err(UsageError::missing(what)
                    .hint("name a directory on the filesystem")
                    .into());
            }
            dir => OwnedFd::from(dir.with_context(|| {
                format!("cannot use {} as a directory to write in", path.display())
            })?),
        };
        require_writable(&dir, path)?;
        fstab::require_mounted(path)?;
        let path = beneath::named::real_path(&dir)
            .with_context(|| format!("cannot find out where {} is", path.display()))?;
        let place = Root::live().and_then(|root| host::Place::of_path(&root, &path)).ok();
        let drive = place.and_then(|place| drive_size(&place.stack));
        Ok(Self { dir, path, drive })
    }

    /// Returns a second descriptor of the directory, to create entries in it.
    fn directory(&self) -> anyhow::Result<beneath::Dir> {
        let fd = self.dir.try_clone().context("cannot keep the directory open")?;
        Ok(beneath::Dir::from_fd(fd, &self.path))
    }
}

/// Fails if the filesystem of `dir` is mounted read-only. Call before any other check,
/// remark or question.
pub fn require_writable(dir: impl AsFd, path: &Path) -> anyhow::Result<()> {
    let stat =
        rustix::fs::fstatvfs(dir).with_context(|| format!("cannot look at {}", path.display()))?;
    if !stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Ok(());
    }
    Err(UsageError::missing(format!("cannot write in {}: it is mounted read-only", path.display()))
        .hint("name a directory that can be written to")
        .into())
}

/// Returns the size of the smallest drive. Without drives, returns that of the smallest
/// device of the filesystem, or `None` if the filesystem is in memory.
fn drive_size(stack: &block::Stack) -> Option<Bytes> {
    let in_memory = |layer: &block::Layer| matches!(&layer.kind, block::LayerKind::File { fs_type, .. } if fs_type == "tmpfs" || fs_type == "ramfs");
    let smallest = stack.drives().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min();
    if smallest.is_some() || stack.layers.iter().any(in_memory) {
        return smallest;
    }
    stack.top_layers().map(|layer| layer.size).filter(|size| *size > Bytes::ZERO).min()
}

/// Runs all checks before a command writes `plan` below `path`, and creates the
/// workspace. `reserve` overrides the free space to keep. `what` completes the sentence
/// "TRIMTAB: `what` writes up to …".
pub fn prepare(
    context: &Context,
    reserve: Option<Bytes>,
    path: &Path,
    what: &str,
    plan: &WorkloadPlan,
) -> anyhow::Result<Workspace> {
    let ground = TargetDirectory::open(path)?;
    workspace::deal_with_leftovers(context, &ground)?;
    let reserve = space::check(&ground, reserve, plan.space)?;
    consent::announce_and_ask(context, &ground, what, plan)?;
    crate::sys::interrupt::install().context("cannot catch signals")?;
    crate::sys::interrupt::check()?;
    Workspace::create(&ground, reserve)
}
