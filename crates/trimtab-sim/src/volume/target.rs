//! A volume as a target of file workloads and trim policies.

use super::group::GROUP_BLOCKS;
use super::{BLOCK, TrimRun, Volume};
use crate::op::Payload;
use crate::policy::TrimRequest;
use crate::target::{Clock, FileTarget, TargetError, TargetResult, TrimOutcome, TrimWindow};
use alloc::format;
use alloc::string::ToString;
use trimtab_drive::Device;
use trimtab_drive::units::{Bytes, Nanos};

impl<D: Device> Clock for Volume<D> {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.run_until(instant);
    }
}

impl<D: Device> FileTarget for Volume<D> {
    fn make_dir(&mut self, path: &str) -> TargetResult {
        self.op_make_dir(path)
    }

    fn remove_dir(&mut self, path: &str) -> TargetResult {
        self.op_remove_dir(path)
    }

    fn create(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.op_create(path, payload)
    }

    fn append(&mut self, path: &str, payload: &Payload<'_>) -> TargetResult {
        self.op_append(path, payload)
    }

    fn read(&mut self, path: &str, len: u64) -> TargetResult {
        self.op_read(path, len)
    }

    fn delete(&mut self, path: &str) -> TargetResult {
        self.op_delete(path)
    }

    fn sync(&mut self) -> TargetResult {
        self.op_sync()
    }
}

impl<D: Device> Volume<D> {
    /// Trims the free extents of at least `min_extent` in `window`, blocking.
    ///
    /// # Errors
    /// `min_extent` exceeds a group, or the device refuses the discard.
    pub fn trim(&mut self, window: TrimWindow, min_extent: Bytes) -> TargetResult<TrimOutcome> {
        if min_extent.0 > u64::from(GROUP_BLOCKS) * BLOCK {
            return Err(TargetError {
                action: "trim",
                object: format!("extents of at least {} bytes", min_extent.0),
                reason: "Invalid argument".to_string(),
                errno: Some(22),
            });
        }
        while self.trimming() {
            self.step();
        }
        self.begin_trim(TrimRequest::whole(window, min_extent));
        while self.trimming() {
            self.step();
        }
        let TrimRun { outcome, refused, .. } = self.take_trimmed().unwrap_or_default();
        if refused > 0 {
            return Err(TargetError {
                action: "trim",
                object: format!("{} bytes at {}", window.len, window.start),
                reason: "Operation not supported".to_string(),
                errno: Some(95),
            });
        }
        Ok(outcome)
    }
}
