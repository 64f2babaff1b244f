//! The reserve of free space: checked before, watched meanwhile.

use super::Ground;
use crate::host::discards::Meter;
use anyhow::{Context as _, bail};
use rustix::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trimtab_core::target::{TargetError, TargetResult};
use trimtab_core::units::Bytes;

/// The reserve without `--reserve`: this, and at least one part in [`RESERVE_SHARE`] of the filesystem.
const RESERVE_MIN: Bytes = Bytes(1 << 30);
const RESERVE_SHARE: u64 = 20;

/// Time between two looks at the free space.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Size of the filesystem, and what of it may be used by anyone.
fn sizes(dir: impl AsFd) -> rustix::io::Result<(Bytes, Bytes)> {
    let stat = rustix::fs::fstatvfs(dir)?;
    Ok((Bytes(stat.f_frsize.saturating_mul(stat.f_blocks)), Bytes(stat.f_frsize.saturating_mul(stat.f_bavail))))
}

/// Checks that `space` bytes fit beside the reserve; gives the reserve.
pub fn check(ground: &Ground, reserve: Option<Bytes>, space: Bytes) -> anyhow::Result<Bytes> {
    let path = ground.path.display();
    let (total, free) =
        sizes(&ground.dir).map_err(std::io::Error::from).with_context(|| format!("cannot find out how much is free in {path}"))?;
    let reserve = reserve.unwrap_or(RESERVE_MIN.max(Bytes(total.0 / RESERVE_SHARE)));
    if space.saturating_add(reserve) > free {
        bail!("{space} do not fit in {path}: {}", why_not(total, free, reserve));
    }
    Ok(reserve)
}

/// Why there is no room beside the reserve, and what to do about it.
fn why_not(total: Bytes, free: Bytes, reserve: Bytes) -> String {
    if reserve < free {
        return format!("{free} are free and {reserve} of them stay reserved; free some space, ask for less, or set another --reserve");
    }
    let small = if reserve > total { " (the whole filesystem has less)" } else { "" };
    format!("only {free} are free, and {reserve} have to stay free{small}; free some space, or set a smaller --reserve")
}

/// Watches that a run does not eat into the reserve, whoever else fills the filesystem meanwhile.
#[derive(Debug)]
pub struct Guard {
    dir: OwnedFd,
    path: PathBuf,
    least: Bytes,
    looked: Instant,
}

impl Guard {
    /// Watches the filesystem of `dir`. Half of the reserve may go before it stops a run: a filesystem's own structures take some.
    pub fn new(dir: OwnedFd, path: PathBuf, reserve: Bytes) -> Self {
        Self { dir, path, least: Bytes(reserve.0 / 2), looked: Instant::now() }
    }

    /// Counts the discards that reach the drives of the directory from now on, where they are counted.
    pub fn meter(&self) -> Option<Meter> {
        Meter::start(&self.path).ok()
    }

    /// An error once too little is free, or the directory has been removed. Cheap: looks twice a second at most.
    pub fn check(&mut self) -> TargetResult {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        self.look()
    }

    fn look(&self) -> TargetResult {
        let error = |reason: String, errno: i32| TargetError {
            action: "go on writing in",
            object: self.path.display().to_string(),
            reason,
            errno: Some(errno),
        };
        // A directory without a name of its own is one that somebody has removed; what is still written there goes nowhere.
        let stat = rustix::fs::fstat(&self.dir).map_err(|errno| error(std::io::Error::from(errno).to_string(), errno.raw_os_error()))?;
        if stat.st_nlink == 0 {
            return Err(error("it has been removed meanwhile".to_owned(), libc::ENOENT));
        }
        let (_, free) = sizes(&self.dir).map_err(|errno| error(std::io::Error::from(errno).to_string(), errno.raw_os_error()))?;
        if free < self.least {
            return Err(error(format!("only {free} are free, and half of the reserve is {}", self.least), libc::ENOSPC));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> (tempfile::TempDir, Ground) {
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground::open(dir.path()).unwrap();
        (dir, ground)
    }

    #[test]
    fn what_does_not_fit_beside_the_reserve_is_refused() {
        let (_dir, ground) = ground();
        let (_, free) = sizes(&ground.dir).unwrap();
        assert_eq!(check(&ground, Some(Bytes(1000)), Bytes(1000)).unwrap(), Bytes(1000));
        let error = check(&ground, Some(free), Bytes(1 << 40)).unwrap_err().to_string();
        assert!(error.contains("have to stay free"), "{error}");
        assert!(check(&ground, Some(Bytes::MAX), Bytes::ZERO).is_err());
        assert!(check(&ground, Some(Bytes::ZERO), Bytes::MAX).is_err());
    }

    #[test]
    fn a_reserve_is_never_more_of_what_is_free_than_there_is() {
        let gb = |n: u64| Bytes(n * 100_000_000);
        assert!(why_not(gb(100), gb(50), gb(10)).starts_with("5.00 GB are free and 1.00 GB of them stay reserved"));
        let small = why_not(gb(10), gb(9), gb(11));
        assert!(small.starts_with("only 900 MB are free, and 1.10 GB have to stay free (the whole filesystem has less)"), "{small}");
        assert!(!why_not(gb(20), gb(9), gb(11)).contains("whole filesystem"));
    }

    #[test]
    fn a_guard_stops_a_run_that_others_leave_no_room() {
        let (dir, ground) = ground();
        let guard = |reserve| Guard::new(ground.dir.try_clone().unwrap(), dir.path().into(), reserve);
        assert_eq!(guard(Bytes(1 << 20)).look(), Ok(()));
        let error = guard(Bytes::MAX).look().unwrap_err();
        assert_eq!(error.errno, Some(libc::ENOSPC));
        let guard = guard(Bytes::ZERO);
        drop(dir);
        assert_eq!(guard.look().unwrap_err().errno, Some(libc::ENOENT));
    }
}
