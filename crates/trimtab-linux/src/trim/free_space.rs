//! Free space of a mounted filesystem (GETFSMAP: ext4 and XFS), used to find the part of
//! a window that a given number of discard commands covers.

use crate::host::mountinfo::DevNumber;
use crate::sys::fsmap::{self, FsmapExtent};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_sim::target::TrimWindow;

/// Records per call when looking for a few commands.
const RECORDS: usize = 256;
/// Records kept in [`FreeSpaceCache`].
const RECORDS_KNOWN: usize = 1024;
/// Records per call when listing all extents: ext4 lists all groups' metadata per call.
const RECORDS_MANY: usize = 8192;
/// Maximum number of calls per window. The remainder is trimmed as one extent.
const CALLS_MAX: usize = 64;

/// The start of `window` that at most this many commands trim, but at least one extent.
/// Ends at the end of a free extent, or with the window if that needs no more commands.
pub fn first_commands(
    file: impl AsFd,
    device: DevNumber,
    window: TrimWindow,
    picking: ExtentFilter,
) -> Result<TrimWindow, Errno> {
    let picked =
        pick(window, picking, |from, end| free_extents::<RECORDS>(&file, device, from, end))?;
    Ok(TrimWindow { len: picked.reach.saturating_sub(window.start).min(window.len), ..window })
}

/// Free extents, and the offset from which more may follow.
pub type FreeExtentList = (Vec<FsmapExtent>, Option<u64>);

/// A short-lived cache of free extents: each query makes ext4 list the metadata of all
/// groups, which delays other threads on the CPU. Space used since the query is harmless,
/// because only free space is discarded; space freed since is trimmed next time.
#[derive(Debug, Default)]
pub struct FreeSpaceCache {
    from: u64,
    to: u64,
    extents: Vec<FsmapExtent>,
    read: Option<Instant>,
    /// The last answer came from a new query, not from the cache.
    pub is_fresh: bool,
}

impl FreeSpaceCache {
    /// Bytes per query, unless the window is longer.
    const SPAN: u64 = 8 << 30;

    /// Free extents of `window`. Queries beyond the window, up to `last`, to fill the
    /// cache. With `cut`, extents end with the window, as in ext4, where a request sees
    /// only the part in its group. Cached extents may be up to `age_max` old.
    ///
    /// # Errors
    /// The filesystem's error.
    pub fn list(
        &mut self,
        file: impl AsFd,
        device: DevNumber,
        window: TrimWindow,
        last: u64,
        cut: bool,
        age_max: Duration,
    ) -> Result<FreeExtentList, Errno> {
        let (from, end) = (window.start, window.start.saturating_add(window.len));
        self.is_fresh = self.read.is_none_or(|read| read.elapsed() > age_max)
            || !(self.from..self.to).contains(&from);
        if self.is_fresh {
            self.read = None;
            let to = from.saturating_add(Self::SPAN).min(last).max(end);
            let (extents, next) = free_extents::<RECORDS_KNOWN>(file, device, from, to)?;
            *self = Self {
                from,
                to: next.unwrap_or(to),
                extents,
                read: Some(Instant::now()),
                is_fresh: true,
            };
        }
        Ok(self.between(from, end, cut))
    }

    /// The extents as the filesystem reports them for `from..end`: an earlier one starts
    /// at `from`.
    fn between(&self, from: u64, end: u64, cut: bool) -> FreeExtentList {
        let first = self.extents.partition_point(|extent| extent.end() <= from);
        let those = self
            .extents
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(|extent| extent.start < end);
        let ends = |extent: &FsmapExtent| if cut { extent.end().min(end) } else { extent.end() };
        let part = |extent: &FsmapExtent| FsmapExtent {
            start: extent.start.max(from),
            len: ends(extent) - extent.start.max(from),
            free: extent.free,
        };
        (those.map(part).collect(), Some(self.to).filter(|to| *to < end))
    }

    /// Makes the next call query the filesystem.
    pub fn forget(&mut self) {
        self.read = None;
    }
}

/// The free extents to select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentFilter {
    /// Minimum length in bytes.
    pub least: u64,
    /// Upper bound of the length in bytes, exclusive.
    pub below: u64,
    /// Maximum size of a command in bytes.
    pub command_max: u64,
    /// Maximum number of commands; 0 for no limit.
    pub commands_max: u64,
    /// Extents may be cut at multiples of this.
    pub cut: Option<u64>,
    /// The window starts inside an extent that was begun; its rest is sent whatever its
    /// length.
    pub begun: bool,
}

/// The extents selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SelectedExtents {
    /// The range to request; `None` if there is nothing to request.
    pub range: Option<TrimWindow>,
    /// Minimum extent of the request: 0 if it covers only a part of an extent.
    pub least: Bytes,
    /// Everything before this offset has been handled.
    pub reach: u64,
    /// The extents in the range, each as start and length.
    pub extents: Vec<(u64, u64)>,
    /// The last extent was cut.
    pub is_cut: bool,
    /// The window has no other free extent.
    pub alone: bool,
}

/// Selects the next free extents of `window` within the command limit, but at least one.
/// No extent between them is longer than selected; shorter ones may be.
///
/// `ask` lists the free extents between two offsets, and returns the offset to continue
/// from if there are more.
pub fn pick(
    window: TrimWindow,
    picking: ExtentFilter,
    mut ask: impl FnMut(u64, u64) -> Result<FreeExtentList, Errno>,
) -> Result<SelectedExtents, Errno> {
    let end = window.start.saturating_add(window.len);
    let left = if picking.commands_max == 0 { u64::MAX } else { picking.commands_max };
    let mut picker =
        ExtentSelector { picking, window, left, seen: 0, found: SelectedExtents::default() };
    let mut from = window.start;
    for _ in 0..CALLS_MAX {
        let (extents, next) = ask(from, end)?;
        if extents.iter().any(|extent| picker.is_full(*extent)) {
            return Ok(picker.found);
        }
        match next {
            Some(next) => from = next,
            None => {
                (picker.found.reach, picker.found.alone) = (end, picker.seen == 1);
                return Ok(picker.found);
            }
        }
    }
    picker.found.reach = from;
    Ok(picker.found)
}

/// All free extents of `window`, each as start and length.
pub fn all_free(
    file: impl AsFd,
    device: DevNumber,
    window: TrimWindow,
) -> Result<Vec<(u64, u64)>, Errno> {
    let end = window.start.saturating_add(window.len);
    let (mut from, mut all) = (window.start, Vec::new());
    loop {
        let (extents, next) = free_extents::<RECORDS>(&file, device, from, end)?;
        all.extend(extents.iter().map(|extent| (extent.start, extent.len)));
        match next {
            Some(next) => from = next,
            None => return Ok(all),
        }
    }
}

struct ExtentSelector {
    picking: ExtentFilter,
    window: TrimWindow,
    /// Commands left.
    left: u64,
    seen: usize,
    found: SelectedExtents,
}

impl ExtentSelector {
    /// Adds the next free extent if it matches. Returns true when nothing more fits.
    fn is_full(&mut self, extent: FsmapExtent) -> bool {
        let ExtentFilter { least, below, cut, begun, .. } = self.picking;
        let (begin, end) = (
            extent.start.max(self.window.start),
            extent.end().min(self.window.start.saturating_add(self.window.len)),
        );
        if end <= begin {
            return false;
        }
        self.seen += 1;
        let begun = begun && begin == self.window.start;
        if !begun && !(least.max(1)..below).contains(&extent.len) {
            return extent.len >= below && self.close();
        }
        let command = self.picking.command_max.max(1);
        let commands = (end - begin).div_ceil(command);
        if commands > self.left {
            if let Some(unit) = cut.filter(|_| self.left > 0) {
                let cut_end = (begin.saturating_add(self.left.saturating_mul(command)) / unit
                    * unit)
                    .max((begin / unit + 1) * unit);
                if self.found.range.is_none() && cut_end < end {
                    self.take(extent, begin, cut_end, Bytes::ZERO);
                    self.found.is_cut = true;
                    return self.close();
                }
            }
            if self.found.range.is_some() {
                return self.close();
            }
        }
        self.left = self.left.saturating_sub(commands);
        self.take(extent, begin, end, if begun { Bytes::ZERO } else { Bytes(self.picking.least) });
        // The full length of an extent that was begun is unknown.
        begun && self.close()
    }

    fn take(&mut self, extent: FsmapExtent, begin: u64, end: u64, least: Bytes) {
        let start = self.found.range.map_or(begin, |range| range.start);
        self.found.range = Some(TrimWindow { start, len: end - start });
        self.found.least = least;
        self.found.extents.push((extent.start, extent.len));
    }

    /// Ends the selection with the extents found.
    fn close(&mut self) -> bool {
        let end = self.found.range.map(|range| range.start.saturating_add(range.len));
        self.found.reach = end.unwrap_or(0);
        end.is_some()
    }
}

/// Free space that a trim would send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendableSpace {
    /// Bytes.
    pub bytes: u64,
    /// Number of free extents, or of parts where windows cut them.
    pub extents: u64,
}

/// The free extents of at least `least` bytes in the windows, each cut at the borders of
/// its window. The windows must be ordered and disjoint.
pub fn sendable(
    file: impl AsFd,
    device: DevNumber,
    windows: &[TrimWindow],
    least: u64,
) -> Result<SendableSpace, Errno> {
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else {
        return Ok(SendableSpace::default());
    };
    let end = last.start.saturating_add(last.len);
    let mut sum = SendableSpace::default();
    let mut from = first.start;
    loop {
        let (extents, next) = free_extents::<RECORDS_MANY>(&file, device, from, end)?;
        extents.iter().for_each(|extent| sum.add(*extent, windows, least));
        match next {
            Some(next) => from = next,
            None => return Ok(sum),
        }
    }
}

impl SendableSpace {
    fn add(&mut self, extent: FsmapExtent, windows: &[TrimWindow], least: u64) {
        let behind = windows.partition_point(|w| w.start.saturating_add(w.len) <= extent.start);
        for window in windows[behind..].iter().take_while(|w| w.start < extent.end()) {
            let (start, end) = (
                extent.start.max(window.start),
                extent.end().min(window.start.saturating_add(window.len)),
            );
            if end.saturating_sub(start) >= least.max(1) {
                self.bytes = self.bytes.saturating_add(end - start);
                self.extents += 1;
            }
        }
    }
}

/// The first free extents from `from` on, and the offset to continue from, if any.
fn free_extents<const N: usize>(
    file: impl AsFd,
    device: DevNumber,
    from: u64,
    end: u64,
) -> Result<FreeExtentList, Errno> {
    let (mut extents, next) = fsmap::extents::<N>(file, (device.major, device.minor), from, end)?;
    extents.retain(|extent| extent.free);
    Ok((extents, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(extents: &[(u64, u64)], counting: ExtentFilter) -> Option<u64> {
        picked(extents, TrimWindow { start: 0, len: 1000 }, counting).1
    }

    #[test]
    fn first_commands_ends_after_last_fitting_extent() {
        let holes = [(10, 5), (20, 1), (30, 5), (40, 20)];
        let counting = |commands_max| ExtentFilter {
            least: 2,
            below: u64::MAX,
            command_max: 10,
            commands_max,
            cut: None,
            begun: false,
        };
        assert_eq!(cut(&holes, counting(1)), Some(15));
        // The extent of a single byte is not sent.
        assert_eq!(cut(&holes, counting(2)), Some(35));
        // The last extent takes two commands.
        assert_eq!(cut(&holes, counting(3)), Some(35));
        assert_eq!(cut(&holes, counting(4)), None);
        // At least one extent, however many commands it takes.
        assert_eq!(cut(&[(0, 100), (200, 1)], ExtentFilter { least: 0, ..counting(1) }), Some(100));
    }

    #[test]
    fn sendable_cuts_extents_at_window_borders() {
        let windows = [
            TrimWindow { start: 100, len: 100 },
            TrimWindow { start: 200, len: 100 },
            TrimWindow { start: 400, len: 100 },
        ];
        let sum = |extents: &[(u64, u64)], least| {
            let mut sum = SendableSpace::default();
            extents.iter().for_each(|&(start, len)| {
                sum.add(FsmapExtent { start, len, free: true }, &windows, least)
            });
            (sum.bytes, sum.extents)
        };
        assert_eq!(sum(&[(0, 1000)], 0), (300, 3));
        assert_eq!(sum(&[(0, 105), (190, 20), (300, 100)], 0), (5 + 20, 3));
        assert_eq!(
            sum(&[(0, 105), (190, 20), (450, 7)], 10),
            (20, 2),
            "each part by itself has to be long enough"
        );
        assert_eq!(
            sum(&[(190, 10), (200, 10)], 0),
            (20, 2),
            "what ends at a border is not in the next window"
        );
        assert_eq!(sum(&[(250, 150), (500, 5), (0, 100)], 0), (50, 1), "nothing outside of all");
    }

    /// The range (start and length), the offset handled, and whether the last extent was
    /// cut; `None` for the end of the window.
    fn picked(
        extents: &[(u64, u64)],
        window: TrimWindow,
        picking: ExtentFilter,
    ) -> (Option<(u64, u64)>, Option<u64>, bool) {
        let left = if picking.commands_max == 0 { u64::MAX } else { picking.commands_max };
        let mut picker =
            ExtentSelector { picking, window, left, seen: 0, found: SelectedExtents::default() };
        let full = extents
            .iter()
            .any(|&(start, len)| picker.is_full(FsmapExtent { start, len, free: true }));
        let SelectedExtents { range, reach, is_cut, .. } = picker.found;
        (range.map(|range| (range.start, range.len)), full.then_some(reach), is_cut)
    }

    #[test]
    fn cached_list_equals_direct_query() {
        let extents = [(10, 5), (20, 100), (200, 30)]
            .map(|(start, len)| FsmapExtent { start, len, free: true })
            .to_vec();
        let known = FreeSpaceCache { from: 0, to: 210, extents, read: None, is_fresh: false };
        let list = |from, end| {
            let (extents, next) = known.between(from, end, from == 50);
            (extents.iter().map(|extent| (extent.start, extent.len)).collect::<Vec<_>>(), next)
        };
        assert_eq!(list(0, 15), (vec![(10, 5)], None));
        assert_eq!(list(15, 120), (vec![(20, 100)], None));
        assert_eq!(list(50, 300), (vec![(50, 70), (200, 30)], Some(210)));
        assert_eq!(list(130, 190), (vec![], None));
        assert_eq!(list(15, 100), (vec![(20, 100)], None));
        assert_eq!(list(50, 100), (vec![(50, 50)], None), "cut");
    }

    #[test]
    fn pick_selects_extents_by_size_in_order() {
        let all = TrimWindow { start: 0, len: 1000 };
        let holes = [(10, 5), (20, 100), (200, 30), (300, 4), (400, 40), (500, 90)];
        let picking = |commands_max| ExtentFilter {
            least: 20,
            below: 90,
            command_max: 1000,
            commands_max,
            cut: None,
            begun: false,
        };
        assert_eq!(picked(&holes, all, picking(1)), (Some((200, 30)), Some(230), false));
        // The minimum extent skips a shorter one in between; a longer one ends the range.
        assert_eq!(picked(&holes, all, picking(2)), (Some((200, 240)), Some(440), false));
        assert_eq!(picked(&holes, all, picking(0)), (Some((200, 240)), Some(440), false));
        assert_eq!(
            picked(&holes, TrimWindow { start: 440, len: 560 }, picking(1)),
            (None, None, false)
        );
        // An extent longer than a command is sent whole and alone if it cannot be cut,
        // ...
        let small = ExtentFilter { command_max: 10, ..picking(2) };
        assert_eq!(picked(&holes, all, small), (Some((200, 30)), Some(230), false));
        // ... and otherwise cut after the available commands, at a multiple of the unit.
        assert_eq!(
            picked(&holes, all, ExtentFilter { cut: Some(8), ..small }),
            (Some((200, 16)), Some(216), true)
        );
        assert_eq!(
            picked(&holes, all, ExtentFilter { cut: Some(8), command_max: 1, ..small }),
            (Some((200, 8)), Some(208), true)
        );
        // The rest of an extent that was begun is sent whatever its length.
        let rest = ExtentFilter { cut: Some(8), begun: true, ..small };
        assert_eq!(
            picked(&[(216, 14), (400, 40)], TrimWindow { start: 216, len: 784 }, rest),
            (Some((216, 14)), Some(230), false)
        );
        assert_eq!(
            picked(
                &[(216, 14), (400, 40)],
                TrimWindow { start: 216, len: 784 },
                ExtentFilter { begun: false, ..rest }
            )
            .0,
            Some((400, 16))
        );
    }

    #[test]
    fn free_extents_on_tmpfs_is_unsupported() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        let window = TrimWindow { start: 0, len: 1 << 20 };
        let picking = ExtentFilter {
            least: 0,
            below: u64::MAX,
            command_max: u64::MAX,
            commands_max: 1,
            cut: None,
            begun: false,
        };
        assert!(first_commands(&shm, DevNumber { major: 0, minor: 1 }, window, picking).is_err());
    }
}
