//! A volume as a clock and a target of trims.

use super::group::GROUP_BLOCKS;
use super::ops::{errno, refused};
use super::{BLOCK, Volume};
use crate::policy::TrimRequest;
use crate::target::{Clock, TargetResult, TrimOutcome, TrimWindow};
use alloc::format;
use trimtab_drive::Device;
use trimtab_drive::units::{Bytes, Nanos};

impl<D: Device> Clock for Volume<D> {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.on_any().idle(instant);
    }
}

impl Volume<dyn Device + '_> {
    #[inline(never)]
    fn idle(&mut self, instant: Nanos) {
        self.run_until(instant);
    }

    /// Runs until `until`, or until the running FITRIM has ended.
    #[inline(never)]
    pub(super) fn await_trim(&mut self, until: Nanos) {
        self.run_until_trimmed(until);
    }

    /// Waits for the running FITRIM.
    #[inline(never)]
    fn finish_trim(&mut self) {
        while self.trimming() {
            self.step();
        }
    }
}

impl<D: Device> Volume<D> {
    /// Trims the free extents of at least `min_extent` in `window`, blocking.
    ///
    /// # Errors
    /// `min_extent` exceeds a group, or the device refuses the discard.
    pub fn trim(&mut self, window: TrimWindow, min_extent: Bytes) -> TargetResult<TrimOutcome> {
        if min_extent.0 > u64::from(GROUP_BLOCKS) * BLOCK {
            return Err(refused(
                "trim",
                format!("extents of at least {} bytes", min_extent.0),
                errno::EINVAL,
            ));
        }
        self.on_any().finish_trim();
        self.begin_trim(TrimRequest::whole(window, min_extent));
        self.on_any().finish_trim();
        let run = self.take_trimmed().unwrap_or_default();
        if run.refused > 0 {
            return Err(refused(
                "trim",
                format!("{} bytes at {}", window.len, window.start),
                errno::EOPNOTSUPP,
            ));
        }
        Ok(run.outcome)
    }
}
