//! Where the free space of a mounted filesystem lies (GETFSMAP: ext4 and XFS): how far into a window a number of discard commands
//! reaches.

use crate::host::mountinfo::DevNumber;
use crate::sys::fsmap::{self, Extent};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};
use trimtab_drive::units::Bytes;
use trimtab_sim::target::TrimWindow;

/// Records asked for at a time when a few commands are looked for.
const RECORDS: usize = 256;
/// Records that are remembered for a moment.
const RECORDS_KNOWN: usize = 1024;
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

/// Free extents, and from where on there may be more.
pub type Listed = (Vec<Extent>, Option<u64>);

/// What is known of where free space lies, for a moment: asking costs a call in which ext4 lists the metadata of all groups, and whoever shares the processor
/// waits for that. What was taken since is no harm, since the filesystem discards only what is free; what was freed since comes the next time.
#[derive(Debug, Default)]
pub struct Known {
    from: u64,
    to: u64,
    extents: Vec<Extent>,
    read: Option<Instant>,
    /// The last answer was asked for anew.
    pub anew: bool,
}

impl Known {
    /// So much is asked for at once, or a whole window.
    const SPAN: u64 = 8 << 30;

    /// Free extents of `window`, which is asked for with what lies behind it, up to `last`. With `cut` they end where it does, as in ext4, where no request finds
    /// more of one than there is in a group. What is known may be as old as `age_max`.
    ///
    /// # Errors
    /// What the filesystem says.
    pub fn list(
        &mut self,
        file: impl AsFd,
        device: DevNumber,
        window: TrimWindow,
        last: u64,
        cut: bool,
        age_max: Duration,
    ) -> Result<Listed, Errno> {
        let (from, end) = (window.start, window.start.saturating_add(window.len));
        self.anew = self.read.is_none_or(|read| read.elapsed() > age_max) || !(self.from..self.to).contains(&from);
        if self.anew {
            self.read = None;
            let to = from.saturating_add(Self::SPAN).min(last).max(end);
            let (extents, next) = free_extents::<RECORDS_KNOWN>(file, device, from, to)?;
            *self = Self { from, to: next.unwrap_or(to), extents, read: Some(Instant::now()), anew: true };
        }
        Ok(self.between(from, end, cut))
    }

    /// As the filesystem itself would say it: what begins before `from` begins there.
    fn between(&self, from: u64, end: u64, cut: bool) -> Listed {
        let first = self.extents.partition_point(|extent| extent.end() <= from);
        let those = self.extents.get(first..).unwrap_or_default().iter().take_while(|extent| extent.start < end);
        let ends = |extent: &Extent| if cut { extent.end().min(end) } else { extent.end() };
        let part =
            |extent: &Extent| Extent { start: extent.start.max(from), len: ends(extent) - extent.start.max(from), free: extent.free };
        (those.map(part).collect(), Some(self.to).filter(|to| *to < end))
    }

    /// The next question is asked anew.
    pub fn forget(&mut self) {
        self.read = None;
    }
}

/// Which free extents are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picking {
    /// Shorter ones are left out.
    pub least: u64,
    /// So are those of this length and longer.
    pub below: u64,
    /// The largest command.
    pub command_max: u64,
    /// How many commands; 0 for any number.
    pub commands_max: u64,
    /// They may be cut at multiples of this.
    pub cut: Option<u64>,
    /// The window begins in the middle of one that was begun, whose rest is sent whatever its length.
    pub begun: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picked {
    /// What to ask for; `None` if there is nothing.
    pub range: Option<TrimWindow>,
    /// Its least extent: none where a part of one is asked for.
    pub least: Bytes,
    /// So far nothing is left to ask for.
    pub reach: u64,
    /// The extents in the range, each its start and length.
    pub extents: Vec<(u64, u64)>,
    /// The last was cut.
    pub is_cut: bool,
    /// Nothing else is free in the window.
    pub alone: bool,
}

/// The next free extents of `window` that are looked for, as many as commands are left for, and one at least. None in between is longer than looked for; shorter ones may be.
///
/// `ask` lists free extents from one byte to another, and says where to ask on if that was not all.
pub fn pick(window: TrimWindow, picking: Picking, mut ask: impl FnMut(u64, u64) -> Result<Listed, Errno>) -> Result<Picked, Errno> {
    let end = window.start.saturating_add(window.len);
    let left = if picking.commands_max == 0 { u64::MAX } else { picking.commands_max };
    let mut picker = Picker { picking, window, left, seen: 0, found: Picked::default() };
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

/// All free extents of `window`: start and length.
pub fn all_free(file: impl AsFd, device: DevNumber, window: TrimWindow) -> Result<Vec<(u64, u64)>, Errno> {
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

/// Picks extents one after another.
struct Picker {
    picking: Picking,
    window: TrimWindow,
    /// Commands.
    left: u64,
    /// Free extents so far.
    seen: usize,
    found: Picked,
}

impl Picker {
    /// Takes the next free extent, if it is looked for. True if that was all there is room for.
    fn is_full(&mut self, extent: Extent) -> bool {
        let Picking { least, below, cut, begun, .. } = self.picking;
        let (begin, end) = (extent.start.max(self.window.start), extent.end().min(self.window.start.saturating_add(self.window.len)));
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
                let cut_end = (begin.saturating_add(self.left.saturating_mul(command)) / unit * unit).max((begin / unit + 1) * unit);
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
        // Of one that was begun nothing is known of its length.
        begun && self.close()
    }

    fn take(&mut self, extent: Extent, begin: u64, end: u64, least: Bytes) {
        let start = self.found.range.map_or(begin, |range| range.start);
        self.found.range = Some(TrimWindow { start, len: end - start });
        self.found.least = least;
        self.found.extents.push((extent.start, extent.len));
    }

    /// No more than what was found.
    fn close(&mut self) -> bool {
        let end = self.found.range.map(|range| range.start.saturating_add(range.len));
        self.found.reach = end.unwrap_or(0);
        end.is_some()
    }
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
fn free_extents<const N: usize>(file: impl AsFd, device: DevNumber, from: u64, end: u64) -> Result<Listed, Errno> {
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

    /// The range (start and length), how far nothing is left, and whether the last was cut; `None` for the end of the window.
    fn picked(extents: &[(u64, u64)], window: TrimWindow, picking: Picking) -> (Option<(u64, u64)>, Option<u64>, bool) {
        let left = if picking.commands_max == 0 { u64::MAX } else { picking.commands_max };
        let mut picker = Picker { picking, window, left, seen: 0, found: Picked::default() };
        let full = extents.iter().any(|&(start, len)| picker.is_full(Extent { start, len, free: true }));
        let Picked { range, reach, is_cut, .. } = picker.found;
        (range.map(|range| (range.start, range.len)), full.then_some(reach), is_cut)
    }

    #[test]
    fn what_is_known_of_more_is_told_as_if_it_had_been_asked_for() {
        let extents = [(10, 5), (20, 100), (200, 30)].map(|(start, len)| Extent { start, len, free: true }).to_vec();
        let known = Known { from: 0, to: 210, extents, read: None, anew: false };
        let told = |from, end| {
            let (extents, next) = known.between(from, end, from == 50);
            (extents.iter().map(|extent| (extent.start, extent.len)).collect::<Vec<_>>(), next)
        };
        assert_eq!(told(0, 15), (vec![(10, 5)], None));
        assert_eq!(told(15, 120), (vec![(20, 100)], None));
        assert_eq!(told(50, 300), (vec![(50, 70), (200, 30)], Some(210)));
        assert_eq!(told(130, 190), (vec![], None));
        assert_eq!(told(15, 100), (vec![(20, 100)], None));
        assert_eq!(told(50, 100), (vec![(50, 50)], None), "cut");
    }

    #[test]
    fn extents_of_some_sizes_are_picked_one_after_another() {
        let all = TrimWindow { start: 0, len: 1000 };
        let holes = [(10, 5), (20, 100), (200, 30), (300, 4), (400, 40), (500, 90)];
        let picking = |commands_max| Picking { least: 20, below: 90, command_max: 1000, commands_max, cut: None, begun: false };
        assert_eq!(picked(&holes, all, picking(1)), (Some((200, 30)), Some(230), false));
        // A shorter one in between is left out by the least extent of the request; a longer one ends it.
        assert_eq!(picked(&holes, all, picking(2)), (Some((200, 240)), Some(440), false));
        assert_eq!(picked(&holes, all, picking(0)), (Some((200, 240)), Some(440), false));
        assert_eq!(picked(&holes, TrimWindow { start: 440, len: 560 }, picking(1)), (None, None, false));
        // What is longer than a command is sent whole where it cannot be cut, and nothing else with it.
        let small = Picking { command_max: 10, ..picking(2) };
        assert_eq!(picked(&holes, all, small), (Some((200, 30)), Some(230), false));
        // And else cut behind as many commands as there are, at whole units, of which there is one at least.
        assert_eq!(picked(&holes, all, Picking { cut: Some(8), ..small }), (Some((200, 16)), Some(216), true));
        assert_eq!(picked(&holes, all, Picking { cut: Some(8), command_max: 1, ..small }), (Some((200, 8)), Some(208), true));
        // The rest of one that was begun goes whatever its length.
        let rest = Picking { cut: Some(8), begun: true, ..small };
        assert_eq!(picked(&[(216, 14), (400, 40)], TrimWindow { start: 216, len: 784 }, rest), (Some((216, 14)), Some(230), false));
        assert_eq!(
            picked(&[(216, 14), (400, 40)], TrimWindow { start: 216, len: 784 }, Picking { begun: false, ..rest }).0,
            Some((400, 16))
        );
    }

    #[test]
    fn a_filesystem_without_the_call_says_so() {
        let Ok(shm) = std::fs::File::open("/dev/shm") else { return crate::skip::skip("/dev/shm") };
        let window = TrimWindow { start: 0, len: 1 << 20 };
        let counting = Counting { least: 0, command_max: u64::MAX, commands_max: 1 };
        assert!(first_commands(&shm, DevNumber { major: 0, minor: 1 }, window, counting).is_err());
    }
}
