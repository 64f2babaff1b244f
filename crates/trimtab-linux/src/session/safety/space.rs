//! The reserve of free space: checked before a run and monitored during it.

use super::TargetDirectory;
use anyhow::{Context as _, bail};
use rustix::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_sim::target::{TargetError, TargetResult};

/// Default reserve: this, or one part in [`RESERVE_SHARE`] of the filesystem if that is
/// more.
const RESERVE_MIN: Bytes = Bytes(1 << 30);
const RESERVE_SHARE: u64 = 20;

/// Interval between checks of the free space.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Returns the size of the filesystem, and the free space available to unprivileged
/// users.
fn sizes(dir: impl AsFd) -> rustix::io::Result<(Bytes, Bytes)> {
    let stat = rustix::fs::fstatvfs(dir)?;
    Ok((
        Bytes(stat.f_frsize.saturating_mul(stat.f_blocks)),
        Bytes(stat.f_frsize.saturating_mul(stat.f_bavail)),
    ))
}

/// Size and free space of the filesystem, and the reserve.
fn budget(
    dir: impl AsFd,
    path: &Path,
    reserve: Option<Bytes>,
) -> anyhow::Result<(Bytes, Bytes, Bytes)> {
    let found = sizes(dir);
    let (total, free) =
        found.with_context(|| format!("cannot find out how much is free in {}", path.display()))?;
    Ok((total, free, reserve.unwrap_or(RESERVE_MIN.max(Bytes(total.0 / RESERVE_SHARE)))))
}

/// Checks that `space` bytes fit in addition to the reserve. Returns the reserve.
pub fn check(
    ground: &TargetDirectory,
    reserve: Option<Bytes>,
    space: Bytes,
) -> anyhow::Result<Bytes> {
    let path = ground.path.display();
    let (total, free, reserve) = budget(&ground.dir, &ground.path, reserve)?;
    if space.saturating_add(reserve) > free {
        bail!("{space} do not fit in {path}: {}", why_not(total, free, reserve, space));
    }
    Ok(reserve)
}

/// Returns how much can be written at `path` without touching the reserve. Valid only
/// until another process writes.
///
/// # Errors
/// The free space cannot be determined.
pub fn usable(path: &Path, reserve: Option<Bytes>) -> anyhow::Result<Bytes> {
    let (_, free, reserve) = budget(TargetDirectory::open(path)?.dir, path, reserve)?;
    Ok(Bytes(free.0.saturating_sub(reserve.0)))
}

/// Explains why `space` does not fit in addition to the reserve, and suggests a remedy.
/// The remedy never exceeds the size of the filesystem.
fn why_not(total: Bytes, free: Bytes, reserve: Bytes, space: Bytes) -> String {
    let wanted = space.saturating_add(reserve);
    let missing = Bytes(wanted.0.saturating_sub(free.0));
    let is = if free == Bytes::ZERO {
        "nothing is free: the filesystem is full".to_owned()
    } else {
        format!("only {free} are free")
    };
    if wanted > total {
        // Deleting files cannot help.
        let kept = if reserve == Bytes::ZERO {
            String::new()
        } else {
            format!(", and {reserve} have to stay free")
        };
        let step = match space < free {
            true => format!("set --reserve to {} or less", rounded_down(free.0 - space.0)),
            false => "ask for less, or name a directory on a larger one".to_owned(),
        };
        return format!("{is}, the whole filesystem has {total}{kept}; {step}");
    }
    if reserve == Bytes::ZERO || space > free {
        // It would not fit even without the reserve.
        let kept = if reserve == Bytes::ZERO {
            String::new()
        } else {
            format!(" ({reserve} of it stay free: --reserve)")
        };
        return format!(
            "{is}; delete something, {missing} at least{kept}, or name a directory \
                on another filesystem"
        );
    }
    format!(
        "{is}, and {reserve} have to stay free; delete something, {missing} at \
            least, ask for less, or set another --reserve"
    )
}

/// Rounded down to the digits that are shown, so that the shown size is accepted.
fn rounded_down(bytes: u64) -> Bytes {
    let step = 10_u64.pow(bytes.max(1).ilog10().saturating_sub(2));
    Bytes(bytes / step * step)
}

/// Monitors the reserve during a run, because other processes may also fill the
/// filesystem.
#[derive(Debug)]
pub struct Guard {
    dir: OwnedFd,
    path: PathBuf,
    least: Bytes,
    looked: Instant,
}

impl Guard {
    /// Monitors the filesystem of `dir`. A run stops once less than half of the reserve
    /// is free, because the filesystem's own structures also take space.
    pub fn new(dir: OwnedFd, path: PathBuf, reserve: Bytes) -> Self {
        Self { dir, path, least: Bytes(reserve.0 / 2), looked: Instant::now() }
    }

    /// Returns an error once too little space is free or the directory has been removed.
    /// Cheap: checks at most twice per second.
    pub fn check(&mut self) -> TargetResult {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        self.look()
    }

    fn look(&self) -> TargetResult {
        let object = self.path.display().to_string();
        let error = |reason: String, errno: i32| {
            TargetError::new("continue to write in", &object, reason, Some(errno))
        };
        let unknown = |errno: rustix::io::Errno| {
            error(std::io::Error::from(errno).to_string(), errno.raw_os_error())
        };
        // A link count of 0 means that another process has removed the directory. Data
        // written there would be lost.
        let stat = rustix::fs::fstat(&self.dir).map_err(unknown)?;
        if stat.st_nlink == 0 {
            return Err(error("it has been removed meanwhile".to_owned(), libc::ENOENT));
        }
        let (_, free) = sizes(&self.dir).map_err(unknown)?;
        if free < self.least {
            return Err(error(
                format!("only {free} are free, and half of the reserve is {}", self.least),
                libc::ENOSPC,
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> (tempfile::TempDir, TargetDirectory) {
        let dir = tempfile::tempdir().unwrap();
        let ground = TargetDirectory::open(dir.path()).unwrap();
        (dir, ground)
    }

    #[test]
    fn space_check_refuses_amount_above_free_less_reserve() {
        let (_dir, ground) = ground();
        let (_, free) = sizes(&ground.dir).unwrap();
        assert_eq!(check(&ground, Some(Bytes(1000)), Bytes(1000)).unwrap(), Bytes(1000));
        let error = check(&ground, Some(free), Bytes(1 << 40)).unwrap_err().to_string();
        assert!(error.contains("stay free"), "{error}");
        assert!(check(&ground, Some(Bytes::MAX), Bytes::ZERO).is_err());
        assert!(check(&ground, Some(Bytes::ZERO), Bytes::MAX).is_err());
    }

    #[test]
    fn no_space_message_advises_a_reserve_that_fits() {
        let gb = |n: u64| Bytes(n * 100_000_000);
        let beside = why_not(gb(100), gb(50), gb(10), gb(45));
        assert!(
            beside.starts_with(
                "only 5.00 GB are free, and 1.00 GB have to stay free; delete something, 500 \
            MB at least"
            ),
            "{beside}"
        );
        // A filesystem smaller than the reserve: deleting files makes no room.
        let small = why_not(gb(10), gb(9), gb(11), gb(1));
        assert_eq!(
            small,
            "only 900 MB are free, the whole filesystem has 1.00 GB, and 1.10 GB \
                have to stay free; set --reserve to 800 MB or less"
        );
        // Regression: "429 MB or less", which was then refused.
        let exact = why_not(Bytes(500_000_000), Bytes(430_999_999), gb(11), Bytes(2_100_000));
        assert!(exact.ends_with("set --reserve to 428 MB or less"), "{exact}");
        let never = why_not(gb(3), gb(2), gb(2), gb(5));
        let all = "only 200 MB are free, the whole filesystem has 300 MB, and 200 MB have to \
            stay free; ask for less, or name a directory on a larger one";
        assert_eq!(never, all);
        for (total, free, reserve, space) in
            [(3, 2, 11, 1), (3, 2, 11, 5), (3, 0, 11, 1), (3, 3, 3, 1)]
        {
            let said = why_not(gb(total), gb(free), gb(reserve), gb(space));
            assert!(!said.contains("delete"), "{said}");
        }
        // Regression: "0 B are free, and 0 B have to stay free; set a smaller --reserve".
        let full = why_not(gb(20), Bytes::ZERO, Bytes::ZERO, gb(1));
        assert!(
            full.starts_with(
                "nothing is free: the filesystem is full; delete something, 100 MB at least, or"
            ),
            "{full}"
        );
        let kept = why_not(gb(20), gb(2), gb(1), gb(3));
        assert!(
            kept.contains(
                "only 200 MB are free; delete something, 200 MB at least (100 MB of it stay \
            free: --reserve)"
            ),
            "{kept}"
        );
    }

    #[test]
    fn guard_below_reserve_returns_enospc() {
        let (dir, ground) = ground();
        let guard =
            |reserve| Guard::new(ground.dir.try_clone().unwrap(), dir.path().into(), reserve);
        assert_eq!(guard(Bytes(1 << 20)).look(), Ok(()));
        let error = guard(Bytes::MAX).look().unwrap_err();
        assert_eq!(error.errno, Some(libc::ENOSPC));
        let guard = guard(Bytes::ZERO);
        drop(dir);
        assert_eq!(guard.look().unwrap_err().errno, Some(libc::ENOENT));
    }
}
