//! Where the free space of a mounted filesystem lies (GETFSMAP: ext4 and XFS): how far into a window a number of discard commands
//! reaches.

use crate::host::mountinfo::DevNumber;
use crate::sys::fsmap::{self, Extent};
use rustix::fd::AsFd;
use rustix::io::Errno;
use trimtab_core::target::TrimWindow;

/// Records asked for at a time when a few commands are looked for.
const RECORDS: usize = 256;
/// Records asked for at a time when all are wanted. ext4 lists the metadata of all groups for each request.
const RECORDS_MANY: usize = 8192;
/// Times that it is asked for one window. What is not known after that is trimmed as one.
const CALLS_MAX: usize = 64;

/// How commands are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counting {
    /// Free extents below this are not sent.
    pub least: u64,
    /// The largest command.
    pub command_max: u64,
    /// How many commands.
    pub commands_max: u64,
}

/// The part of `window` from its start that at most so many commands trim (one extent at least). It ends where a free extent ends, and is
/// all of `window` if that is not more.
pub fn first_commands(file: impl AsFd, device: DevNumber, window: TrimWindow, counting: Counting) -> Result<TrimWindow, Errno> {
    let end = window.start.saturating_add(window.len);
    let mut cut = Cut { counting, sent: 0, end: None };
    let mut from = window.start;
    for _ in 0..CALLS_MAX {
        let (extents, next) = free_extents::<RECORDS>(&file, device, from, end)?;
        if let Some(cut) = extents.iter().find_map(|extent| cut.next(*extent)) {
            return Ok(up_to(window, cut));
        }
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(window)
}

/// The part of `window` before `end`.
fn up_to(window: TrimWindow, end: u64) -> TrimWindow {
    TrimWindow { start: window.start, len: end.saturating_sub(window.start).min(window.len) }
}

/// Free space that a trim would send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sendable {
    /// Bytes.
    pub bytes: u64,
    /// Free extents, or parts of them where windows cut them.
    pub extents: u64,
}

/// The free extents of at least `least` bytes in the windows, each cut at the borders of its window. The windows are in order and do not overlap.
pub fn sendable(file: impl AsFd, device: DevNumber, windows: &[TrimWindow], least: u64) -> Result<Sendable, Errno> {
    let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return Ok(Sendable::default()) };
    let end = last.start.saturating_add(last.len);
    let mut sum = Sendable::default();
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

impl Sendable {
    fn add(&mut self, extent: Extent, windows: &[TrimWindow], least: u64) {
        let behind = windows.partition_point(|w| w.start.saturating_add(w.len) <= extent.start);
        for window in windows[behind..].iter().take_while(|w| w.start < extent.end()) {
            let (start, end) = (extent.start.max(window.start), extent.end().min(window.start.saturating_add(window.len)));
            if end.saturating_sub(start) >= least.max(1) {
                self.bytes = self.bytes.saturating_add(end - start);
                self.extents += 1;
            }
        }
    }
}

/// Counts commands extent by extent.
struct Cut {
    counting: Counting,
    sent: u64,
    /// Where the extents end that fit.
    end: Option<u64>,
}

impl Cut {
    /// Where to stop, if `extent` does not fit any more.
    fn next(&mut self, extent: Extent) -> Option<u64> {
        if extent.len < self.counting.least.max(1) {
            return None;
        }
        self.sent = self.sent.saturating_add(extent.len.div_ceil(self.counting.command_max.max(1)));
        if let Some(end) = self.end.filter(|_| self.sent > self.counting.commands_max) {
            return Some(end);
        }
        self.end = Some(extent.end());
        None
    }
}

/// The first free extents from `from` on, and where to ask on, if there may be more before `end`.
fn free_extents<const N: usize>(file: impl AsFd, device: DevNumber, from: u64, end: u64) -> Result<(Vec<Extent>, Option<u64>), Errno> {
    let (mut extents, next) = fsmap::extents::<N>(file, (device.major, device.minor), from, end)?;
    extents.retain(|extent| extent.free);
    Ok((extents, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(extents: &[(u64, u64)], counting: Counting) -> Option<u64> {
        let mut cut = Cut { counting, sent: 0, end: None };
        extents.iter().find_map(|&(start, len)| cut.next(Extent { start, len, free: true }))
    }

    #[test]
    fn a_window_is_cut_behind_the_last_extent_that_fits() {
        let holes = [(10, 5), (20, 1), (30, 5), (40, 20)];
        let counting = |commands_max| Counting { least: 2, command_max: 10, commands_max };
        assert_eq!(cut(&holes, counting(1)), Some(15));
        // The one of a single byte is not sent.
        assert_eq!(cut(&holes, counting(2)), Some(35));
        // The last one is two commands.
        assert_eq!(cut(&holes, counting(3)), Some(35));
        assert_eq!(cut(&holes, counting(4)), None);
        let window = TrimWindow { start: 10, len: 90 };
        assert_eq!([0, 10, 15, 100, 200].map(|end| up_to(window, end).len), [0, 0, 5, 90, 90]);
        assert_eq!(up_to(window, 15).start, 10);
        // One extent at least, however many commands that is.
        assert_eq!(cut(&[(0, 100), (200, 1)], Counting { least: 0, ..counting(1) }), Some(100));
    }

    #[test]
    fn what_would_be_sent_is_cut_at_the_borders_of_windows() {
        let windows = [TrimWindow { start: 100, len: 100 }, TrimWindow { start: 200, len: 100 }, TrimWindow { start: 400, len: 100 }];
        let sum = |extents: &[(u64, u64)], least| {
            let mut sum = Sendable::default();
            extents.iter().for_each(|&(start, len)| sum.add(Extent { start, len, free: true }, &windows, least));
            (sum.bytes, sum.extents)
        };
        assert_eq!(sum(&[(0, 1000)], 0), (300, 3));
        assert_eq!(sum(&[(0, 105), (190, 20), (300, 100)], 0), (5 + 20, 3));
        assert_eq!(sum(&[(0, 105), (190, 20), (450, 7)], 10), (20, 2), "each part by itself has to be long enough");
        assert_eq!(sum(&[(190, 10), (200, 10)], 0), (20, 2), "what ends at a border is not in the next window");
        assert_eq!(sum(&[(250, 150), (500, 5), (0, 100)], 0), (50, 1), "nothing outside of all");
    }

    #[test]
    fn a_filesystem_without_the_call_says_so() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        let window = TrimWindow { start: 0, len: 1 << 20 };
        let counting = Counting { least: 0, command_max: u64::MAX, commands_max: 1 };
        assert!(first_commands(&shm, DevNumber { major: 0, minor: 1 }, window, counting).is_err());
    }
}
