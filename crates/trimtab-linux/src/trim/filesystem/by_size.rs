//! Trims free extents of selected sizes, one request each, if the filesystem reports its
//! free space (GETFSMAP: ext4, XFS).
//!
//! ext4 marks a group as trimmed only if a single request covered all of it, and such a
//! request would send the whole group again. But a request whose minimum extent is longer
//! than every extent in the group sends nothing and marks the group anyway. So a group is
//! marked once all its extents have been requested and its free space is still the same;
//! the next pass then skips it. The last minimum extent that ext4 keeps is restored,
//! because these requests do not apply to the whole filesystem.

use super::{Filesystem, SLOW_MAX, WindowRefusal, WindowTrim};
use crate::trim::ext4;
use crate::trim::fitrim::fitrim;
use crate::trim::free_space::{ExtentFilter, SelectedExtents, all_free, pick};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::{ExtentSizeClasses, TrimRequest};
use trimtab_sim::target::{TrimOutcome, TrimWindow};

const AGE_MAX: Duration = Duration::from_secs(1);
/// Maximum age after a request was postponed once to read the map.
const PUT_OFF_MAX: Duration = Duration::from_secs(60);
/// A good moment for a command lasts this long.
const MOMENT: Duration = Duration::from_millis(1);

/// The extents requested in unfinished windows, as a hash independent of their order.
#[derive(Debug, Default)]
pub(super) struct RequestedExtents {
    windows: BTreeMap<u64, u64>,
    /// Offset where an extent was cut, at which the next request continues.
    cut_at: Option<u64>,
}

/// The result of a request for extents by size.
#[derive(Debug)]
pub enum SizeRequestResult {
    /// The result of the request.
    Size(Box<SizeTrim>),
    /// The free-space map is not available any more: use whole windows.
    Window,
    /// Preparation took so long that the moment may be over. It is complete now.
    PutOff,
}

/// The result of a request by size.
#[derive(Debug)]
pub struct SizeTrim {
    /// The request that was sent, if there was anything to send.
    pub trim: Option<WindowTrim>,
    /// The range of the request.
    pub range: Option<TrimWindow>,
    /// The outcome for policies: the part of the window covered, and the discards sent.
    pub outcome: TrimOutcome,
}

fn mark_of((start, len): (u64, u64)) -> u64 {
    // The finaliser of SplitMix64, over start and length.
    let mut word = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ len.rotate_left(32);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Filesystem {
    /// Free extents can be requested by size. Not before Linux 6.6 on ext4, where
    /// trimming a part marks the whole group.
    pub fn goes_by_size(&self) -> bool {
        let knows = match self.mount.fs_type.as_str() {
            "xfs" => self.layout.granule < Bytes::MAX,
            "ext4" | "ext3" | "ext2" => self.ext4.is_some() && self.layout.tail < Bytes::MAX,
            _ => false,
        };
        knows && !self.map_is_slow()
    }

    /// Trims the next free extents for `request`, which was decided at `started`.
    /// Postpones if preparing took too long: changing the command limit stops the queue
    /// for tens of milliseconds, and the free-space map may have to be read.
    pub fn trim_by_size(
        &mut self,
        request: &TrimRequest,
        sizes: ExtentSizeClasses,
        started: Instant,
    ) -> Result<SizeRequestResult, WindowRefusal> {
        let window = request.window;
        let whole = self.whole(window);
        if sizes.below == Bytes::MAX && !request.trial && whole.start == window.start {
            self.asked.windows.insert(window.start, 0);
        }
        let Some(picked) = self.pick(request, sizes) else { return Ok(SizeRequestResult::Window) };
        let longest = picked.extents.iter().map(|(_, len)| *len).max().zip(picked.range);
        if let Some((longest, range)) = longest {
            // If the limit is not writable (container), commands are as long as the
            // device accepts.
            let _ = self.limit.set_for(Bytes(longest.min(range.len)), request.command_max);
        }
        self.put_off = !self.put_off && picked.range.is_some() && started.elapsed() > MOMENT;
        if self.put_off {
            return Ok(SizeRequestResult::PutOff);
        }
        let mut asked = picked.reach.saturating_sub(window.start).min(window.len);
        let mut trim = None;
        if let Some(range) = picked.range {
            // A request for the whole group marks it as trimmed.
            let range =
                if picked.alone && window == whole && self.ext4.is_some() { whole } else { range };
            let kept = self.last_least();
            let one = self.trim(range, picked.least);
            self.keep_least(kept);
            let one = one?;
            let nothing = one.outcome.returned == Bytes::ZERO
                && one.outcome.counted.is_none_or(|counted| counted.count == 0);
            let one_group = self.layout.group.is_some_and(|group| window.len <= group.0);
            if nothing && !self.known.is_fresh {
                // The extent may have been used since; the old map proves nothing.
                self.known.forget();
            } else if nothing && one_group && self.ext4.is_some() {
                // ext4 considers the whole group trimmed.
                asked = window.len;
                self.asked.windows.remove(&whole.start);
            }
            if let Some(sum) = self.asked.windows.get_mut(&whole.start).filter(|_| !request.trial) {
                *sum = picked.extents.iter().fold(*sum, |sum, extent| sum ^ mark_of(*extent));
            }
            trim = Some(one);
        }
        self.asked.cut_at = picked.is_cut.then_some(picked.reach);
        if sizes.are_last() && asked == window.len {
            self.complete(whole, request.min_extent);
        }
        let outcome = trim.as_ref().map_or_else(
            || TrimOutcome {
                asked: Bytes(asked),
                counted: Some(Amount::default()),
                ..TrimOutcome::default()
            },
            |trim: &WindowTrim| TrimOutcome { asked: Bytes(asked), ..trim.outcome.clone() },
        );
        Ok(SizeRequestResult::Size(Box::new(SizeTrim { trim, range: picked.range, outcome })))
    }

    /// The window that `part` belongs to.
    fn whole(&self, part: TrimWindow) -> TrimWindow {
        self.layout
            .windows
            .iter()
            .copied()
            .filter(|window| window.start <= part.start)
            .max_by_key(|window| window.start)
            .unwrap_or(part)
    }

    fn pick(&mut self, request: &TrimRequest, sizes: ExtentSizeClasses) -> Option<SelectedExtents> {
        let granularity = self.ext4.as_ref().map_or(0, |ext4| ext4.granularity);
        let picking = ExtentFilter {
            least: request.min_extent.0.max(granularity),
            below: sizes.below.0,
            command_max: request.command_max.0,
            commands_max: request.commands_max,
            cut: Some(self.layout.granule.0).filter(|granule| *granule < u64::MAX),
            begun: self.asked.cut_at == Some(request.window.start),
        };
        let (device, window) = (self.mount.dev, request.window);
        let started = Instant::now();
        // Reading the map reads bitmaps, as trims do.
        self.activity.before_trim();
        let last =
            self.layout.windows.last().map_or(0, |window| window.start.saturating_add(window.len));
        let (mut known, in_groups) = (std::mem::take(&mut self.known), self.ext4.is_some());
        let age_max = if self.put_off { PUT_OFF_MAX } else { AGE_MAX };
        let picked = self.file().and_then(|file| {
            pick(window, picking, |from, end| {
                known.list(
                    file,
                    device,
                    TrimWindow { start: from, len: end.saturating_sub(from) },
                    last,
                    in_groups,
                    age_max,
                )
            })
        });
        self.known = known;
        self.activity.after_trim();
        match picked {
            Ok(_) => self.map_took(started.elapsed()),
            Err(_) => self.slow_maps = SLOW_MAX,
        }
        picked.ok()
    }

    /// Restores the minimum extent: ext4 applies that of the last request to all groups.
    fn keep_least(&self, kept: Option<u64>) {
        if let (Some(ext4), Some(kept)) = (&self.ext4, kept) {
            let _ = ext4.last.restore(if ext4.forget { ext4::FORGOTTEN } else { kept });
        }
    }

    /// Called after all of `window` was requested: makes ext4 mark it as trimmed if its
    /// free space is what was requested. On failure, the next pass sends it again.
    fn complete(&mut self, window: TrimWindow, min_extent: Bytes) {
        let sum = self.asked.windows.remove(&window.start);
        let Some((granularity, block_size)) =
            self.ext4.as_ref().map(|ext4| (ext4.granularity, ext4.block_size))
        else {
            return;
        };
        let device = self.mount.dev;
        self.activity.before_trim();
        let free = self.file().and_then(|file| all_free(file, device, window)).unwrap_or_default();
        let least = min_extent.0.max(granularity);
        let now = free
            .iter()
            .filter(|(_, len)| *len >= least)
            .fold(0, |sum, extent| sum ^ mark_of(*extent));
        let all: u64 = free.iter().map(|(_, len)| len).sum();
        let above = free.iter().map(|(_, len)| *len).max().unwrap_or(0) + block_size;
        // A single extent has no minimum above it; its own request has marked the group.
        if sum == Some(now) && !free.is_empty() && above <= all {
            let _ = self.file().and_then(|file| fitrim(file, window, Bytes(above)));
        }
        if let Some(ext4) = &self.ext4 {
            // From here on, the marks stand for this minimum extent.
            let _ = ext4.last.restore(ext4::least_blocks(min_extent, granularity, block_size));
        }
        self.activity.after_trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extent_sum_depends_on_extents_not_on_order() {
        let sum =
            |extents: &[(u64, u64)]| extents.iter().fold(0, |sum, extent| sum ^ mark_of(*extent));
        let all = [(0, 4096), (8192, 4096), (65_536, 1 << 20)];
        let mut turned = all;
        turned.reverse();
        assert_eq!(sum(&all), sum(&turned));
        for changed in
            [&all[1..], &all[..2], &[(0, 8192), all[1], all[2]], &[(4096, 4096), all[1], all[2]]]
        {
            assert_ne!(sum(changed), sum(&all), "{changed:?}");
        }
    }
}
