//! Commands of the host.

use super::engine::{Job, Signal, Transfer};
use super::{Reference, Request, ns};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

impl Reference {
    /// Submits a command at `now`; returns its completion signal.
    pub(super) fn submit(&mut self, now: u64, request: &Request) -> Signal {
        self.pass(now, false);
        let submitted = self.engine.signal();
        self.engine.fired[submitted] = Some(now);
        let mut after = vec![submitted, self.blocked, self.last_started];
        // With a full queue, an earlier command must complete first.
        if let Some(slot) =
            (self.completions.len() + 1).checked_sub(self.interface.queue_depth as usize + 1)
        {
            after.push(self.nth_completion(slot));
        }
        let overhead = match (request, self.interface.write_overhead_ns) {
            (Request::Write(..), Some(ns)) => ns,
            _ => self.interface.command_overhead_ns,
        };
        let started = self.engine.gate(after, overhead);
        self.last_started = started;
        let ended = match *request {
            Request::Write(offset, len) => self.write(started, offset, len),
            Request::Read(offset, len) => self.read(started, offset, len),
            Request::Trim(offset, len) => self.trim(started, offset, len),
            Request::Flush => self.flush(started),
        };
        let completion = self.engine.gate(ended, self.interface.latency_ns);
        self.completions.push(completion);
        completion
    }

    /// Signal of the n-th completion, counted from 0.
    pub(super) fn nth_completion(&mut self, nth: usize) -> Signal {
        // Commands complete out of order.
        let mut pending: Vec<Signal> = self.completions.clone();
        loop {
            let mut times: Vec<u64> =
                pending.iter().filter_map(|signal| self.engine.fired[*signal]).collect();
            times.sort_unstable();
            if let Some(time) = times.get(nth) {
                let signal = self.engine.signal();
                self.engine.fired[signal] = Some(*time);
                return signal;
            }
            let Some(Reverse((time, _, _))) = self.engine.events.peek() else {
                panic!("command {nth} never completes")
            };
            let time = *time;
            self.engine.run_to(time);
            pending.clone_from(&self.completions);
        }
    }

    pub(super) fn write(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let (mut at, end) = (offset, offset + len);
        let (mut after, mut before) = (Vec::new(), started);
        self.to_flush = true;
        while at < end {
            let piece = (end - at).min((256 << 10) - at % (256 << 10));
            let arrived = self
                .engine
                .gate(vec![before, self.link[0]], ns(piece, self.interface.rate_bytes_per_s));
            (self.link[0], before) = (arrived, arrived);
            for unit in at / self.unit..(at + piece) / self.unit {
                let placed = self.place(unit as u32, arrived);
                after.extend(placed);
            }
            at += piece;
        }
        if self.flash.write_cache.bytes == 0 {
            let all = self.engine.gate(after.clone(), 0);
            self.write_out_all(all);
            after.extend(&self.programmed);
        }
        after
    }

    pub(super) fn read(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let place = |unit: u64| {
            self.map.get(&(unit as u32)).map(|(block, slot)| (*block, slot / self.row_slots))
        };
        // Adjacent units of a row form one read: (block, row, first unit, units).
        let mut reads: Vec<(usize, usize, u64, u64)> = Vec::new();
        let mut last = None;
        for unit in offset / self.unit..(offset + len) / self.unit {
            let place = place(unit);
            match (place, reads.last_mut()) {
                (Some(_), Some(read)) if place == last => read.3 += 1,
                (Some((block, row)), _) => reads.push((block, row, unit, 1)),
                (None, _) => {}
            }
            last = place;
        }
        let rate = self.interface.rate_bytes_per_s;
        let link = usize::from(self.interface.full_duplex);
        let sent = self.engine.gate(vec![started, self.link[link]], ns(len, rate));
        self.link[link] = sent;
        let mut ended = vec![sent];
        for (block, row, first, units) in reads {
            let filling = self.heads.iter().any(|head| {
                let next = self.superblocks[block].slots.len();
                head.row.is_some()
                    && head.open == Some(block)
                    && (row * self.row_slots + 1..=(row + 1) * self.row_slots).contains(&next)
            });
            if filling {
                continue;
            }
            let die = block % self.groups * self.group_dies + row % self.group_dies;
            let channel = self.dies + die % self.flash.geometry.channels as usize;
            let slc = self.flash.slc_cache.as_ref().filter(|_| self.superblocks[block].slc);
            let took = slc.map_or(self.flash.nand.read_ns, |slc| slc.read_ns);
            let (sensed, arrived) = (self.engine.signal(), self.engine.signal());
            let wait = self.flash.nand.suspend_ns;
            self.engine.servers[die].jobs.push_back(Job::Read {
                after: vec![started],
                took,
                wait,
                done: sensed,
            });
            let transfer = ns(units * self.unit, self.flash.nand.channel_bytes_per_s);
            self.engine.servers[channel].transfers.push(Transfer {
                after: sensed,
                left: transfer,
                done: arrived,
            });
            // Data reach the host in order, so this piece and all later ones must still
            // cross the link.
            ended.push(self.engine.gate(vec![arrived], ns(offset + len - first * self.unit, rate)));
        }
        ended
    }

    pub(super) fn trim(&mut self, started: Signal, offset: u64, len: u64) -> Vec<Signal> {
        let trim = self.flash.trim.clone();
        let effective = (offset / self.unit..(offset + len) / self.unit)
            .filter(|unit| self.map.remove(&(*unit as u32)).is_some())
            .count();
        let took = trim.command_ns + trim.range_ns + effective as u64 * trim.unit_ns;
        let mut after = vec![started];
        if trim.queued {
            after.push(self.last_trim);
        } else {
            after.extend(&self.completions);
        }
        let done = self.engine.gate(after, took);
        if trim.queued {
            self.last_trim = done
        } else {
            self.blocked = done
        };
        vec![done]
    }

    pub(super) fn flush(&mut self, started: Signal) -> Vec<Signal> {
        if self.flash.write_cache.power_loss_protection {
            return vec![started];
        }
        self.write_out_all(started);
        let mut after = self.programmed.clone();
        after.push(started);
        let took =
            if core::mem::take(&mut self.to_flush) { self.flash.write_cache.flush_ns } else { 0 };
        vec![self.engine.gate(after, took)]
    }
}
