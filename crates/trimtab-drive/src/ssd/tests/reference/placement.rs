//! Placement of units.

use super::engine::{Job, Signal};
use super::{Reference, Row, ns};
use crate::spec::{SlcFull, SlcSize};
use alloc::vec;
use alloc::vec::Vec;

impl Reference {
    pub(super) fn capacity(&self, block: usize) -> usize {
        if self.superblocks[block].slc { self.slc_slots } else { self.slots }
    }

    pub(super) fn valid(&self, block: usize) -> Vec<u32> {
        let held = |(slot, unit): (usize, &Option<u32>)| {
            unit.filter(|unit| self.map.get(unit) == Some(&(block, slot)))
        };
        self.superblocks[block].slots.iter().enumerate().filter_map(held).collect()
    }

    pub(super) fn free(&self) -> usize {
        self.superblocks.iter().filter(|block| block.free).count()
    }

    pub(super) fn slc_used(&self) -> usize {
        self.superblocks.iter().filter(|block| block.slc && !block.free).count()
    }

    pub(super) fn slc_limit(&self) -> usize {
        let Some(slc) = &self.flash.slc_cache else { return 0 };
        let blocks = |bytes: u64| {
            (bytes.div_ceil(self.slc_slots as u64 * self.unit) as usize).min(self.superblocks.len())
        };
        match slc.size {
            SlcSize::Fixed { bytes } => blocks(bytes),
            SlcSize::Dynamic { bytes_min, bytes_max } => {
                let unmapped = (self.units as usize - self.map.len()) / self.slots;
                (blocks(bytes_min) + unmapped).min(blocks(bytes_max))
            }
        }
    }

    pub(super) fn room(&self, head: usize) -> usize {
        self.heads[head]
            .open
            .map_or(0, |block| self.capacity(block) - self.superblocks[block].slots.len())
    }

    pub(super) fn host_heads(&self) -> usize {
        self.groups * (1 + usize::from(self.flash.slc_cache.is_some()))
    }

    pub(super) fn host_head(&self) -> usize {
        if let Some(slc) = &self.flash.slc_cache {
            let head = self.groups + self.turn[1];
            let folds = slc.when_full == SlcFull::FoldFirst && !self.slc_fifo.is_empty();
            if self.room(head) > 0 || self.slc_used() < self.slc_limit() || folds {
                return head;
            }
        }
        self.turn[0]
    }

    /// Places a unit whose data arrive at `arrived`; returns the signals for its cache
    /// place.
    pub(super) fn place(&mut self, unit: u32, arrived: Signal) -> Vec<Signal> {
        let at = self.host_head();
        if self.room(at) == 0 {
            self.open(at, arrived);
        }
        if self.heads[at].row.is_none() {
            self.take_place(at, arrived);
        }
        let row = self.heads[at].row.as_mut().unwrap();
        row.after.push(arrived);
        let mut placed = row.placed.clone();
        placed.push(arrived);
        if self.push(at, Some(unit)) {
            self.program(at);
            if self.groups > 1 {
                let turn = &mut self.turn[at / self.groups];
                *turn = (*turn + 1) % self.groups;
            }
        }
        self.close_if_full(at);
        placed
    }

    /// Puts a unit into the next slot; returns true if that fills a row.
    pub(super) fn push(&mut self, at: usize, unit: Option<u32>) -> bool {
        let block = self.heads[at].open.unwrap();
        if let Some(unit) = unit {
            self.map.insert(unit, (block, self.superblocks[block].slots.len()));
        }
        self.superblocks[block].slots.push(unit);
        self.superblocks[block].slots.len().is_multiple_of(self.row_slots)
    }

    pub(super) fn close_if_full(&mut self, at: usize) -> bool {
        let full = self.room(at) == 0;
        if full {
            let block = self.heads[at].open.take().unwrap();
            if self.superblocks[block].slc { &mut self.slc_fifo } else { &mut self.fifo }
                .push_back(block);
        }
        full
    }

    pub(super) fn take_place(&mut self, at: usize, now: Signal) {
        if let Some(other) = self.places[self.next_place].1 {
            self.write_out(other, now);
        }
        let place = self.next_place;
        self.next_place = (place + 1) % self.places.len();
        self.places[place].1 = Some(at);
        let placed: Vec<Signal> = self.places[place].0.into_iter().collect();
        self.heads[at].row = Some(Row { place, after: placed.clone(), placed });
    }

    /// Programs the full row of a head.
    pub(super) fn program(&mut self, at: usize) {
        let block = self.heads[at].open.unwrap();
        let mut row = self.heads[at].row.take().unwrap();
        let nth = (self.superblocks[block].slots.len() - 1) / self.row_slots;
        let die = block % self.groups * self.group_dies + nth % self.group_dies;
        let channel = self.dies + die % self.flash.geometry.channels as usize;
        let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
        let took = slc.map_or(self.flash.nand.program_ns, |slc| slc.program_ns);
        let transfer = ns(self.row_slots as u64 * self.unit, self.flash.nand.channel_bytes_per_s);
        let (arrived, ended) = (self.engine.signal(), self.engine.signal());
        // A program waits for all reads submitted earlier.
        row.after
            .extend(self.engine.servers[channel].transfers.iter().map(|transfer| transfer.done));
        let job = |after, took, share, done| Job::Program { after, took, share, done };
        self.engine.servers[channel].jobs.push_back(job(
            row.after,
            transfer,
            self.debts[1].share,
            arrived,
        ));
        self.engine.servers[die].jobs.push_back(job(
            vec![arrived],
            took,
            self.debts[0].share,
            ended,
        ));
        self.places[row.place] = (Some(ended), None);
        self.programmed.push(ended);
        self.programs += 1;
    }

    /// Programs the partial row of a head, padded to a page.
    pub(super) fn write_out(&mut self, at: usize, now: Signal) {
        let Some(row) = &mut self.heads[at].row else { return };
        row.after.push(now);
        let block = self.heads[at].open.unwrap();
        while !self.superblocks[block].slots.len().is_multiple_of(self.page_slots) {
            self.push(at, None);
        }
        self.program(at);
        self.close_if_full(at);
    }

    pub(super) fn write_out_all(&mut self, now: Signal) {
        (0..self.heads.len()).for_each(|at| self.write_out(at, now));
    }

    pub(super) fn open(&mut self, at: usize, now: Signal) {
        if !self.collecting {
            self.make_room(at, now);
            self.turn[at / self.groups] = at % self.groups;
            if self.room(at) > 0 {
                return self.spread();
            }
        }
        let dynamic = self.flash.ftl.wear.dynamic;
        let free = |group: usize| -> Vec<usize> {
            (0..self.superblocks.len())
                .filter(|block| block % self.groups == group && self.superblocks[*block].free)
                .collect()
        };
        let own = self.heads[at].group;
        let open_on = |group: usize| {
            self.heads
                .iter()
                .filter(|head| head.open.is_some_and(|block| block % self.groups == group))
                .count()
        };
        let group = if at >= self.host_heads() {
            (0..self.groups).rev().max_by_key(|group| free(*group).len()).unwrap()
        } else if free(own).is_empty() {
            (0..self.groups)
                .filter(|group| !free(*group).is_empty())
                .min_by_key(|group| open_on(*group))
                .unwrap()
        } else {
            own
        };
        let wear = |block: &usize| {
            (
                if dynamic { self.superblocks[*block].erases } else { 0 },
                self.superblocks[*block].released,
            )
        };
        let block = free(group).into_iter().min_by_key(wear).unwrap();
        let slc = self.flash.slc_cache.is_some() && (self.groups..2 * self.groups).contains(&at);
        let entry = &mut self.superblocks[block];
        (entry.free, entry.slc) = (false, slc);
        self.heads[at].open = Some(block);
        if !self.collecting {
            self.spread();
        }
    }
}
