//! File targets on a filesystem that can be trimmed and counted, for testing trim
//! policies.

use super::dir::DirTarget;
use crate::host::discards::Meter;
use crate::sys::clock::nanos;
use crate::sys::interrupt;
use crate::trim::filesystem::Filesystem;
use crate::trim::fitrim;
use crate::trim::surface::{Account, at_once};
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::op::FileOp;
use trimtab_sim::target::{Clock, FileTarget, TargetError, TargetResult, TrimOutcome, TrimTarget};

/// Maximum wait for background discards.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory on a mounted filesystem, trimmed by FITRIM and counted at its devices.
#[derive(Debug)]
pub struct MountedDir {
    dir: DirTarget,
    meter: Option<Meter>,
    /// Discards already reported from the meter's count.
    taken: Amount,
}

impl MountedDir {
    /// Wraps `dir`, with the discard counters of the devices of its filesystem, if they
    /// count.
    pub fn new(dir: DirTarget) -> Self {
        let meter = Meter::start(dir.path()).ok();
        Self { dir, meter, taken: Amount::default() }
    }

    /// The open directory.
    pub fn dir(&self) -> rustix::fd::BorrowedFd<'_> {
        self.dir.dir()
    }
}

impl TrimTarget for MountedDir {
    fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)> {
        let object = self.dir.path().display().to_string();
        let failed = |reason: String, errno: Option<i32>| {
            TargetError::new("trim the filesystem of", &object, reason, errno)
        };
        let mut filesystem = Filesystem::open(self.dir.path())
            .map_err(|error| failed(format!("{error:#}"), None))?;
        filesystem.prepare(Bytes::ZERO, false);
        let before = self.meter.as_ref().and_then(Meter::count);
        let started = Instant::now();
        let windows = filesystem.layout().windows.clone();
        let stop = |account: &Account| interrupt::requested() || !account.refusals.is_empty();
        let account = at_once(&mut filesystem, &windows, Bytes::ZERO, stop);
        if let Some((_, refused)) = account.refusals.first() {
            return Err(failed(refused.to_string(), Some(refused.errno.raw_os_error())));
        }
        if interrupt::requested() {
            return Err(failed("interrupted".to_owned(), Some(libc::EINTR)));
        }
        let took = nanos(started.elapsed());
        let settled = self
            .meter
            .as_ref()
            .map_or_else(fitrim::SettleResult::default, |meter| fitrim::settle(meter, PATIENCE));
        let counted = settled.counted.zip(before).map(|(now, before)| now.since(before));
        Ok((
            TrimOutcome {
                asked: account.discards.asked.bytes,
                returned: account.returned,
                counted,
                took,
            },
            settled.went_on,
        ))
    }

    fn take_discards(&mut self) -> Option<Amount> {
        let now = self.meter.as_ref()?.count()?;
        Some(now.since(std::mem::replace(&mut self.taken, now)))
    }

    fn wait_for_discards(&mut self) -> Nanos {
        self.meter.as_ref().map_or(Nanos::ZERO, |meter| fitrim::settle(meter, PATIENCE).went_on)
    }
}

impl Clock for MountedDir {
    fn now(&mut self) -> Nanos {
        self.dir.now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.dir.idle_until(instant);
    }
}

impl FileTarget for MountedDir {
    fn execute(&mut self, op: &FileOp<'_>) -> TargetResult {
        self.dir.execute(op)
    }
}
