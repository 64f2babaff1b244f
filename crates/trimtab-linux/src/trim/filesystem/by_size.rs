//! Free extents of some sizes alone, asked for one by one, where the filesystem says where they lie (GETFSMAP: ext4, XFS).
//!
//! ext4 takes a group for trimmed only where one request covered all of it, and a request of its own would send all of it again. But one whose least extent
//! is longer than any in the group sends nothing and marks it all the same: so a group of which everything was asked for, and where what is free is what was asked for, is
//! marked, and the next pass passes it over. The least extent that ext4 keeps of the last trim is put back, as these requests say nothing of it.

use super::{Filesystem, Refused, SLOW_MAX, WindowTrim};
use crate::trim::ext4;
use crate::trim::fitrim::fitrim;
use crate::trim::free_space::{Picked, Picking, all_free, pick};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;
use trimtab_sim::policy::{Sizes, TrimRequest};
use trimtab_sim::target::{TrimOutcome, TrimWindow};

/// What is known of free space may be so old.
const AGE_MAX: Duration = Duration::from_secs(1);
/// And so old where a request was put off to find it out, once.
const PUT_OFF_MAX: Duration = Duration::from_secs(60);
/// A moment that was good for a command is over after this.
const MOMENT: Duration = Duration::from_millis(1);

/// What was asked for in windows that are not over: a sum over free extents that does not depend on their order.
#[derive(Debug, Default)]
pub(super) struct Asked {
    windows: BTreeMap<u64, u64>,
    /// Where an extent was cut, which is to go on there.
    cut_at: Option<u64>,
}

/// How free extents of some sizes can be asked for now.
#[derive(Debug)]
pub enum ByWhich {
    /// By their size: what that did.
    Size(BySize),
    /// Only by whole windows: it is not known any more where they lie.
    Window,
    /// What had to be done first took so long that the moment may be over. It is done now.
    PutOff,
}

/// What a request by size did.
#[derive(Debug)]
pub struct BySize {
    /// The one request that was made, if there was something to ask for.
    pub trim: Option<WindowTrim>,
    /// What it covered.
    pub range: Option<TrimWindow>,
    /// As policies want it: how far into the window that was, and what was sent.
    pub outcome: TrimOutcome,
}

/// One extent's part of the sum.
fn mark_of((start, len): (u64, u64)) -> u64 {
    // The finaliser of SplitMix64, over both.
    let mut word = start.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ len.rotate_left(32);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Filesystem {
    /// Whether free extents of some sizes alone can be asked for. On ext4 not where a part of a group counts as all of it (before Linux 6.6).
    #[must_use]
    pub fn goes_by_size(&self) -> bool {
        let knows = match self.mount.fs_type.as_str() {
            "xfs" => self.layout.granule < Bytes::MAX,
            "ext4" | "ext3" | "ext2" => self.ext4.is_some() && self.layout.tail < Bytes::MAX,
            _ => false,
        };
        knows && !self.map_is_slow()
    }

    /// Asks for the next of the free extents that `request` is for, which was decided at `started`: another limit of commands stops the queue for tens of milliseconds,
    /// and where free space lies has to be read at first.
    pub fn trim_by_size(&mut self, request: &TrimRequest, sizes: Sizes, started: Instant) -> Result<ByWhich, Refused> {
        let window = request.window;
        let whole = self.whole(window);
        if sizes.below == Bytes::MAX && !request.trial && whole.start == window.start {
            self.asked.windows.insert(window.start, 0);
        }
        let Some(picked) = self.pick(request, sizes) else { return Ok(ByWhich::Window) };
        let longest = picked.extents.iter().map(|(_, len)| *len).max().zip(picked.range);
        if let Some((longest, range)) = longest {
            // Where the limit cannot be written (a container), commands are as long as the device takes them.
            let _ = self.limit.set_for(Bytes(longest.min(range.len)), request.command_max);
        }
        self.put_off = !self.put_off && picked.range.is_some() && started.elapsed() > MOMENT;
        if self.put_off {
            return Ok(ByWhich::PutOff);
        }
        let mut asked = picked.reach.saturating_sub(window.start).min(window.len);
        let mut trim = None;
        if let Some(range) = picked.range {
            // A request for all of a group marks it.
            let range = if picked.alone && window == whole && self.ext4.is_some() { whole } else { range };
            let kept = self.last_least();
            let one = self.trim(range, picked.least);
            self.keep_least(kept);
            let one = one?;
            let nothing = one.outcome.returned == Bytes::ZERO && one.outcome.counted.is_none_or(|counted| counted.count == 0);
            let one_group = self.layout.group.is_some_and(|group| window.len <= group.0);
            if nothing && !self.known.anew {
                // It may have been taken meanwhile: nothing that was known before can be told from that.
                self.known.forget();
            } else if nothing && one_group && self.ext4.is_some() {
                // It is taken for trimmed, and so is the rest of it.
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
            || TrimOutcome { asked: Bytes(asked), counted: Some(Amount::default()), ..TrimOutcome::default() },
            |trim: &WindowTrim| TrimOutcome { asked: Bytes(asked), ..trim.outcome.clone() },
        );
        Ok(ByWhich::Size(BySize { trim, range: picked.range, outcome }))
    }

    /// The window that `part` is the rest of.
    fn whole(&self, part: TrimWindow) -> TrimWindow {
        self.layout.windows.iter().copied().filter(|window| window.start <= part.start).max_by_key(|window| window.start).unwrap_or(part)
    }

    fn pick(&mut self, request: &TrimRequest, sizes: Sizes) -> Option<Picked> {
        let granularity = self.ext4.as_ref().map_or(0, |ext4| ext4.granularity);
        let picking = Picking {
            least: request.min_extent.0.max(granularity),
            below: sizes.below.0,
            command_max: request.command_max.0,
            commands_max: request.commands_max,
            cut: Some(self.layout.granule.0).filter(|granule| *granule < u64::MAX),
            begun: self.asked.cut_at == Some(request.window.start),
        };
        let (device, window) = (self.mount.dev, request.window);
        let started = Instant::now();
        // It reads bitmaps, as trims do.
        self.activity.before_trim();
        let last = self.layout.windows.last().map_or(0, |window| window.start.saturating_add(window.len));
        let (mut known, in_groups) = (std::mem::take(&mut self.known), self.ext4.is_some());
        let age_max = if self.put_off { PUT_OFF_MAX } else { AGE_MAX };
        let picked = self.file().and_then(|file| {
            pick(window, picking, |from, end| {
                known.list(file, device, TrimWindow { start: from, len: end.saturating_sub(from) }, last, in_groups, age_max)
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

    /// ext4 keeps the least extent of the last request as if it had been one for all.
    fn keep_least(&self, kept: Option<u64>) {
        if let (Some(ext4), Some(kept)) = (&self.ext4, kept) {
            let _ = ext4.last.restore(if ext4.forget { ext4::FORGOTTEN } else { kept });
        }
    }

    /// All of `window` was asked for: has ext4 mark it, if what is free there is what was asked for. What fails costs no more than that the next pass sends it again.
    fn complete(&mut self, window: TrimWindow, min_extent: Bytes) {
        let sum = self.asked.windows.remove(&window.start);
        let Some((granularity, block_size)) = self.ext4.as_ref().map(|ext4| (ext4.granularity, ext4.block_size)) else { return };
        let device = self.mount.dev;
        self.activity.before_trim();
        let free = self.file().and_then(|file| all_free(file, device, window)).unwrap_or_default();
        let least = min_extent.0.max(granularity);
        let now = free.iter().filter(|(_, len)| *len >= least).fold(0, |sum, extent| sum ^ mark_of(*extent));
        let all: u64 = free.iter().map(|(_, len)| len).sum();
        let above = free.iter().map(|(_, len)| *len).max().unwrap_or(0) + block_size;
        // Where all that is free is one extent, there is no least extent above it; it has its mark from being asked for.
        if sum == Some(now) && !free.is_empty() && above <= all {
            let _ = self.file().and_then(|file| fitrim(file, window, Bytes(above)));
        }
        if let Some(ext4) = &self.ext4 {
            // From here on what has a mark was trimmed with this least extent.
            let _ = ext4.last.restore(ext4::least_blocks(min_extent, granularity, block_size));
        }
        self.activity.after_trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_over_extents_depends_on_each_and_not_on_their_order() {
        let sum = |extents: &[(u64, u64)]| extents.iter().fold(0, |sum, extent| sum ^ mark_of(*extent));
        let all = [(0, 4096), (8192, 4096), (65_536, 1 << 20)];
        let mut turned = all;
        turned.reverse();
        assert_eq!(sum(&all), sum(&turned));
        for changed in [&all[1..], &all[..2], &[(0, 8192), all[1], all[2]], &[(4096, 4096), all[1], all[2]]] {
            assert_ne!(sum(changed), sum(&all), "{changed:?}");
        }
    }
}
