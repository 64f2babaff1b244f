//! Background work while no command arrives.

use super::engine::{Server, Signal};
use super::{Reference, ns};
use core::cmp::Reverse;

impl Reference {
    pub(super) fn worth_collecting(&self) -> bool {
        let most = self.slots as u64 * u64::from(self.flash.ftl.gc.idle_valid_max_permille) / 1000;
        self.fifo.front().is_some_and(|block| self.valid(*block).len() as u64 <= most)
    }

    /// Advances to `until` without commands.
    pub(super) fn pass(&mut self, until: u64, notified: bool) {
        // Stop at the last completion if that is earlier.
        loop {
            self.engine.poll_all();
            if self.completions.iter().all(|signal| self.engine.fired[*signal].is_some()) {
                break;
            }
            match self.engine.events.peek() {
                Some(Reverse((time, _, _))) if *time <= until => {
                    let time = *time;
                    self.engine.run_to(time);
                }
                _ => return self.engine.run_to(until),
            }
        }
        let quiet = self
            .completions
            .iter()
            .filter_map(|signal| self.engine.fired[*signal])
            .max()
            .unwrap_or(0);
        let slc = self.flash.slc_cache.as_ref().and_then(|slc| slc.idle_fold_ns);
        let (out, gc) = (self.flash.write_cache.idle_write_out_ns, self.flash.ftl.gc.idle_delay_ns);
        let first = [slc, out, gc].into_iter().flatten().min().unwrap_or(u64::MAX);
        if until > quiet && (notified || until - quiet > first) {
            self.rest(quiet, until, out, slc, gc);
        }
        self.engine.run_to(until);
    }

    pub(super) fn rest(
        &mut self,
        quiet: u64,
        until: u64,
        out: Option<u64>,
        slc: Option<u64>,
        gc: Option<u64>,
    ) {
        if let Some(delay) = out
            && quiet + delay <= until
            && self.heads.iter().any(|head| head.row.is_some())
        {
            self.engine.run_to(quiet + delay);
            let now = self.instant();
            self.engine.fired[now] = Some(quiet + delay);
            self.write_out_all(now);
        }
        let mut now = self.until_quiet(until).max(quiet);
        if let Some(delay) = slc
            && !self.slc_fifo.is_empty()
        {
            now = now.max(quiet + delay);
            while now < until && !self.slc_fifo.is_empty() {
                self.engine.run_to(now);
                let from = self.instant();
                self.fold(from, false);
                now = self.until_quiet(until);
            }
        }
        if let Some(delay) = gc {
            now = now.max(quiet + delay);
            while now < until
                && self.free() < self.flash.ftl.gc.idle_free as usize
                && self.worth_collecting()
            {
                self.engine.run_to(now);
                let from = self.instant();
                if !self.collect(from, false) {
                    break;
                }
                now = self.until_quiet(until);
            }
        }
        self.engine.run_to(until);
        self.engine.poll_all();
        self.spread_after_idling();
    }

    /// Idle time pays debt. Unfinished idle work delays a program by at most one row.
    fn spread_after_idling(&mut self) {
        let nand = &self.flash.nand;
        let crossed = 2 * ns(self.row_slots as u64 * self.unit, nand.channel_bytes_per_s);
        let rows = (self.rows_open() as u64).max(1);
        let count = self.engine.servers.len();
        for (debt, servers, most) in
            [(0, 0..self.dies, nand.read_ns + nand.program_ns), (1, self.dies..count, crossed)]
        {
            let (debt, servers) = (&mut self.debts[debt], &mut self.engine.servers[servers]);
            // The next program's share is computed from the current debt.
            servers
                .iter_mut()
                .filter(|server| server.is_idle())
                .for_each(|server| server.worked_off = 0);
            debt.uncovered = debt.uncovered.saturating_sub(debt.share * self.programs);
            if servers.iter().all(Server::is_idle) {
                let owed: u64 = servers.iter().map(|server| server.owed).sum();
                debt.idle = debt.idle.min(owed);
                debt.uncovered = debt.uncovered.min(owed - debt.idle);
            }
            debt.share = debt.uncovered.div_ceil(rows) + debt.idle.div_ceil(rows).min(most);
        }
        self.programs = 0;
    }

    /// Creates a signal for the current time.
    pub(super) fn instant(&mut self) -> Signal {
        let now = self.engine.signal();
        self.engine.fired[now] = Some(self.engine.now);
        now
    }

    /// Advances until all work is done, at least to `until`; returns that time.
    pub(super) fn until_quiet(&mut self, until: u64) -> u64 {
        loop {
            self.engine.poll_all();
            if self.engine.quiet() {
                return self.engine.now;
            }
            match self.engine.events.peek() {
                Some(Reverse((time, _, _))) if *time <= until => {
                    let time = *time;
                    self.engine.run_to(time);
                }
                _ => return until,
            }
        }
    }

    /// Advances to a completion; returns its time.
    pub(super) fn completion(&mut self, of: Signal) -> u64 {
        self.engine.run_until(of)
    }
}
