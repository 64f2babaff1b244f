//! Discards: of freed space by each transaction, and of all free space on request.

use super::alloc::split_by_group;
use super::freed::FreedExtents;
use super::group::GROUP_BLOCKS;
use super::spec::BLOCK;
use super::{Discard, Volume};
use crate::policy::TrimRequest;
use crate::target::{TrimOutcome, TrimWindow};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use trimtab_drive::discards::Amount;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Device, Extent};

/// Worker for online discards after the commit.
#[derive(Clone, Debug, Default)]
pub(super) struct OnlineDiscards {
    /// Freed extents not yet started.
    queue: VecDeque<(u32, u32)>,
    /// Remaining part of the current extent: position and end.
    extent: Option<(u32, u32)>,
    /// Discard in flight: reserved blocks and completion time.
    pub(super) in_flight: Option<((u32, u32), Nanos)>,
}

impl OnlineDiscards {
    /// Time of the next step; `None` if idle.
    pub(super) fn next(&self) -> Option<Nanos> {
        match self.in_flight {
            Some((_, done)) => Some(done),
            None => (self.extent.is_some() || !self.queue.is_empty()).then_some(Nanos::ZERO),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ActiveTrim {
    window: TrimWindow,
    /// Minimum free extent, in blocks.
    min_extent: u32,
    /// Extents from this length on are skipped.
    max_extent: u32,
    /// Selects extents by size.
    by_size: bool,
    /// The last round: all sizes will have been sent.
    last: bool,
    command_max: u64,
    commands_left: u64,
    /// The first run continues an extent, which is sent to its end regardless of limits.
    inside: bool,
    /// Remaining blocks of the window.
    next: u32,
    end: u32,
    pub(super) in_flight: Option<((u32, u32), Nanos)>,
    /// Eligible free runs of the current group, in reverse order.
    runs: Vec<(u32, u32)>,
    /// The current group, if the window covers all of it.
    whole: Option<u32>,
    began: Nanos,
    run: TrimRun,
}

impl ActiveTrim {
    pub(super) fn next(&self) -> Nanos {
        self.in_flight.map_or(Nanos::ZERO, |(_, done)| done)
    }
}

/// Result of a FITRIM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimRun {
    /// Outcome.
    pub outcome: TrimOutcome,
    /// Discard commands refused by the drive.
    pub refused: u64,
}

impl<D: Device + ?Sized> Volume<D> {
    /// Discards blocks in commands of the maximum size. Returns the last completion time.
    fn discard(&mut self, start: u32, len: u32) -> (Nanos, u64, u64) {
        let most = (self.spec.discard_max.0 / BLOCK).max(1) * BLOCK;
        let (mut at, end) = (self.offset(start), self.offset(start) + u64::from(len) * BLOCK);
        let refused = self.queue.traffic.discards_refused;
        let (mut done, mut commands) = (self.now, 0);
        while at < end {
            let range = Extent { offset: at, len: most.min(end - at) };
            done = self.queue.trim(done, &[range]);
            at += range.len;
            commands += 1;
        }
        (done, commands, self.queue.traffic.discards_refused - refused)
    }

    /// Sends one command with ranges from the end of `left`. Returns its completion time.
    pub(super) fn discard_next(&mut self, left: &mut Vec<(u32, u32)>) -> Nanos {
        let ranges = (self.spec.discard_ranges.max(1) as usize).min(left.len());
        if ranges == 1 {
            let Some((start, len)) = left.pop() else { return self.now };
            return self.discard(start, len).0;
        }
        let taken = left.split_off(left.len() - ranges);
        let extents: Vec<Extent> = taken
            .iter()
            .rev()
            .map(|(start, len)| Extent {
                offset: self.offset(*start),
                len: u64::from(*len) * BLOCK,
            })
            .collect();
        self.queue.trim(self.now, &extents)
    }

    /// Frees the blocks of a committed transaction and queues them for online discard.
    pub(super) fn release(&mut self, freed: FreedExtents) {
        let online =
            self.spec.discard == Discard::FreedAndFollowing && self.queue.drive.supports_trim();
        for (start, len) in freed.iter() {
            self.space.give(start, len);
            if self.spec.discard == Discard::Off {
                // Online discard trims these, so the next FITRIM need not.
                split_by_group(start, len, |group, _, _| self.space.groups[group].mark_freed());
            }
        }
        if online {
            self.discards.queue.extend(freed.into_order());
        }
    }

    /// Step of the online discard worker: ends the discard in flight and sends the next.
    pub(super) fn online_discard_step(&mut self) {
        if let Some(((start, len), _)) = self.discards.in_flight.take() {
            self.space.give(start, len);
        }
        loop {
            let Some((from, end)) = self
                .discards
                .extent
                .take()
                .or_else(|| self.discards.queue.pop_front().map(|(s, n)| (s, s + n)))
            else {
                return;
            };
            // Skip blocks allocated since; include free space up to the end of the group.
            let (group, base) =
                ((from / GROUP_BLOCKS) as usize, from / GROUP_BLOCKS * GROUP_BLOCKS);
            let Some((start, len)) =
                self.space.groups[group].runs_from(from - base, end - base).next()
            else {
                continue;
            };
            let run = (base + start, len);
            if run.0 + len < end {
                self.discards.extent = Some((run.0 + len, end));
            }
            self.space.take(run.0, len);
            let (done, ..) = self.discard(run.0, len);
            self.discards.in_flight = Some((run, done));
            return;
        }
    }

    /// True if online discards are pending or in flight.
    #[must_use]
    pub fn discarding(&self) -> bool {
        self.discards.next().is_some() || self.commit.is_some()
    }

    // FITRIM.

    pub(super) fn trim_windows(&self) -> Vec<TrimWindow> {
        let window = |group| TrimWindow {
            start: u64::from(group * GROUP_BLOCKS) * BLOCK,
            len: u64::from(self.layout.group_blocks(group)) * BLOCK,
        };
        (0..self.layout.groups).map(window).collect()
    }

    /// Starts trimming the free extents of a window, in parallel with the foreground;
    /// [`take_trimmed`](Self::take_trimmed) returns the result. One trim at a time. After
    /// `commands_max` commands it ends early, at the end of the current free extent.
    ///
    /// With `sizes`, extents are sent one by one, as from a map of free space, which does
    /// not use ext4's marks. The last round marks the group unless something was freed
    /// there since.
    ///
    /// As in ext4: a group marked as trimmed is skipped, and only a window that covers
    /// the whole group sets the mark. A free extent that begins in the window is sent to
    /// its own end.
    pub fn begin_trim(&mut self, request: TrimRequest) {
        let TrimRequest { window, min_extent, sizes, command_max, commands_max, .. } = request;
        let (below, last) =
            sizes.map_or((Bytes::MAX, false), |sizes| (sizes.below, sizes.are_last()));
        assert!(self.trimming.is_none(), "one trim at a time");
        let blocks = u64::from(self.layout.blocks);
        let first = window.start.div_ceil(BLOCK).min(blocks) as u32;
        let end = (window.start.saturating_add(window.len) / BLOCK).min(blocks) as u32;
        self.trimmed = None;
        let min_extent = min_extent.0.div_ceil(BLOCK).clamp(1, u64::from(GROUP_BLOCKS)) as u32;
        if last && min_extent < self.last_min_extent {
            // Existing marks are from a larger minimum.
            self.space.groups.iter_mut().for_each(|group| group.trimmed = false);
            self.last_min_extent = min_extent;
        }
        self.trimming = Some(ActiveTrim {
            window,
            min_extent,
            max_extent: below.0.div_ceil(BLOCK).min(u64::from(u32::MAX)) as u32,
            by_size: sizes.is_some(),
            last,
            command_max: command_max.0,
            commands_left: if commands_max == 0 { u64::MAX } else { commands_max },
            inside: false,
            next: first,
            end: end.max(first),
            in_flight: None,
            runs: Vec::new(),
            whole: None,
            began: self.now,
            run: TrimRun::default(),
        });
    }

    /// True while a FITRIM is in progress.
    #[must_use]
    pub const fn trimming(&self) -> bool {
        self.trimming.is_some()
    }

    /// Result of the last FITRIM, returned once.
    pub const fn take_trimmed(&mut self) -> Option<TrimRun> {
        self.trimmed.take()
    }

    /// Step of FITRIM: ends the discard in flight and sends the next.
    pub(super) fn trim_step(&mut self) {
        let Some(mut trim) = self.trimming.take() else { return };
        if let Some(((start, len), _)) = trim.in_flight.take() {
            self.space.give(start, len);
        }
        loop {
            if let Some((start, len)) = trim.runs.pop() {
                let inside = core::mem::take(&mut trim.inside);
                // Some of it may have been allocated since the group was searched.
                let (group, at) = ((start / GROUP_BLOCKS) as usize, start % GROUP_BLOCKS);
                let group = &self.space.groups[group];
                let free = if group.is_free(at) { (group.next_used(at) - at).min(len) } else { 0 };
                if free == 0 || (free < trim.min_extent && !inside) {
                    continue;
                }
                if trim.commands_left == 0 && !inside {
                    let asked = (u64::from(start) * BLOCK).saturating_sub(trim.window.start);
                    self.end_trim(trim, asked);
                    return;
                }
                self.send_trim(&mut trim, start, free);
                self.trimming = Some(trim);
                return;
            }
            if let Some(group) =
                trim.whole.take().map(|group| &mut self.space.groups[group as usize])
            {
                group.trimmed = !trim.by_size || (trim.last && !group.touched);
            }
            if trim.next >= trim.end {
                let asked = trim.window.len;
                self.end_trim(trim, asked);
                return;
            }
            self.next_group(&mut trim);
        }
    }

    fn end_trim(&mut self, mut trim: ActiveTrim, asked: u64) {
        trim.run.outcome.asked = Bytes(asked);
        trim.run.outcome.took = self.now.saturating_sub(trim.began);
        if !trim.by_size || trim.last {
            self.last_min_extent = trim.min_extent;
        }
        self.trimmed = Some(trim.run);
    }

    /// Collects the runs to trim in the next group of the window.
    fn next_group(&mut self, trim: &mut ActiveTrim) {
        let group = trim.next / GROUP_BLOCKS;
        let base = group * GROUP_BLOCKS;
        let last = (base + self.layout.group_blocks(group)).min(trim.end);
        let (from, to) = (trim.next - base, last - base);
        trim.next = last;
        let state = &mut self.space.groups[group as usize];
        // A mark from a larger minimum does not cover smaller extents.
        if state.trimmed && trim.min_extent >= self.last_min_extent {
            return;
        }
        if trim.by_size && trim.max_extent == u32::MAX && from == 0 {
            state.touched = false;
        }
        // As many as commands remain, plus one that shows that there are more.
        let most = usize::try_from(trim.commands_left).unwrap_or(usize::MAX).saturating_add(1);
        let runs = state
            .runs_from(from, to)
            .filter(|(_, len)| (trim.min_extent..trim.max_extent).contains(len))
            .take(most);
        trim.runs = runs.map(|(start, len)| (base + start, len)).collect();
        if trim.runs.len() == most {
            trim.next = trim.runs.last().map_or(last, |(start, len)| start + len);
        } else {
            // Selection by size visits a group in several requests.
            trim.whole = ((from == 0 || trim.last) && to == self.layout.group_blocks(group))
                .then_some(group);
        }
        trim.runs.reverse();
    }

    fn send_trim(&mut self, trim: &mut ActiveTrim, start: u32, len: u32) {
        let most = (trim.command_max / BLOCK).clamp(1, u64::from(GROUP_BLOCKS)) as u32;
        // One command at a time, so that other requests get their turn in between.
        let n = len.min(most);
        if len > n {
            trim.runs.push((start + n, len - n));
            trim.inside = true;
        }
        self.space.take(start, n);
        let (done, commands, refused) = self.discard(start, n);
        trim.in_flight = Some(((start, n), done));
        trim.commands_left = trim.commands_left.saturating_sub(commands.max(1));
        let bytes = u64::from(n) * BLOCK;
        let outcome = &mut trim.run.outcome;
        outcome.returned += Bytes(bytes);
        let taken = Amount {
            count: commands - refused,
            bytes: if refused == 0 { Bytes(bytes) } else { Bytes::ZERO },
        };
        outcome.counted = Some(outcome.counted.unwrap_or_default() + taken);
        trim.run.refused += refused;
    }
}
