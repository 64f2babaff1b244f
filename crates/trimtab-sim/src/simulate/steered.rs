//! A trim policy between a host and a modelled drive, in virtual time.
//!
//! A TRIM that arrives here reports space freed by the host. Under `online` it reaches
//! the drive at once, under `none` never. Other policies decide when the drive learns of
//! it, window by window. No other request arrives while a policy trims.

use crate::policy::{
    Driver, Observation, PolicySpec, PolicyState, RefusalLimits, Surface, TrimRequest, TrimResponse,
};
use crate::target::{TrimOutcome, TrimWindow};
use alloc::vec::Vec;
use core::convert::Infallible;
use trimtab_drive::discards::Amount;
use trimtab_drive::interface::Interface;
use trimtab_drive::ledger::{Ledger, Sums, UnitMap};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Completion, Device, Extent};

/// Window of a policy: the block group of ext4 with blocks of 4 KiB.
const WINDOW_BYTES: u64 = 128 << 20;

/// A drive under a trim policy.
pub struct SteeredDrive<D> {
    drive: D,
    steering: Option<Steering>,
}

/// Totals of a steered drive.
#[derive(Clone, Debug)]
pub struct Account {
    /// Trims by host and policy.
    pub discards: Sums,
    /// Bytes freed by the host that were never trimmed.
    pub never_told: Bytes,
}

struct Steering {
    /// `None`: trims reach the drive as they arrive.
    driver: Option<Driver>,
    /// Idle time after which the policy repeats its behaviour.
    period: Nanos,
    host: SimulatedHost,
}

/// The host's writes and frees, and the drive's knowledge of them.
struct SimulatedHost {
    interface: Interface,
    /// Data in the host's view: a subset of the ledger's map, disjoint from `untold`.
    used: UnitMap,
    /// Commands sent to the drive and their effect.
    ledger: Ledger,
    /// Freed by the host, not trimmed on the drive.
    untold: UnitMap,
    windows: Vec<TrimWindow>,
    now: Nanos,
    last_done: Nanos,
    /// Lag of the policy's clock: whole idle periods that were skipped.
    skipped: Nanos,
    /// Last completion on the policy's clock.
    last_done_seen: Nanos,
    /// Last request, or last trim of the policy.
    quiet_since: Nanos,
    wait_max: Option<Nanos>,
    written: u64,
    /// Requests excluding TRIMs.
    requests: u64,
}

impl<D: Device> SteeredDrive<D> {
    /// A drive whose host trims for itself; no accounting, no cost.
    pub const fn not(drive: D) -> Self {
        Self { drive, steering: None }
    }

    /// Puts `drive`, possibly used, under `policy` from `now`; without a policy, trims
    /// pass through. The first `mapped` bytes hold data.
    pub fn new(
        drive: D,
        interface: Interface,
        policy: Option<&PolicySpec>,
        now: Nanos,
        mapped: Bytes,
    ) -> Self {
        Self { drive, steering: Some(Steering::new(interface, policy, now, mapped)) }
    }

    /// The drive.
    pub const fn drive(&self) -> &D {
        &self.drive
    }

    /// Completion time of all commands, as far as accounted.
    pub fn busy_until(&self) -> Nanos {
        self.steering
            .as_ref()
            .map_or(Nanos::ZERO, |steering| steering.host.last_done.max(steering.host.now))
    }

    /// Returns the drive, and the totals if kept.
    pub fn into_parts(self) -> (D, Option<Account>) {
        (self.drive, self.steering.map(Steering::account))
    }
}

impl<D: Device> Device for SteeredDrive<D> {
    fn size(&self) -> Bytes {
        self.drive.size()
    }

    fn logical_block(&self) -> u32 {
        self.drive.logical_block()
    }

    /// A policy accepts frees even if the drive does not support TRIM.
    fn supports_trim(&self) -> bool {
        self.drive.supports_trim()
            || self.steering.as_ref().is_some_and(|steering| steering.driver.is_some())
    }

    #[inline]
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        match &mut self.steering {
            None => self.drive.submit(now, command),
            Some(steering) => steering.submit(&mut self.drive, now, command),
        }
    }

    fn idle(&mut self, until: Nanos) {
        if let Some(steering) = &mut self.steering {
            steering.consult(&mut self.drive, until);
            if steering.host.now >= until {
                return;
            }
            steering.host.now = until;
        }
        self.drive.idle(until);
    }

    #[inline]
    fn prefetch(&self, offset: u64) {
        self.drive.prefetch(offset);
        if let Some(Steering { host, .. }) = &self.steering {
            host.used.prefetch(host.ledger.within(offset, 0).end);
        }
    }
}

impl Steering {
    fn new(interface: Interface, policy: Option<&PolicySpec>, now: Nanos, mapped: Bytes) -> Self {
        let geometry = interface.geometry;
        let mut ledger = Ledger::new(geometry.size, geometry.logical_block);
        ledger.wrote(0, mapped.0);
        let windows = (0..geometry.size.div_ceil(WINDOW_BYTES))
            .map(|n| TrimWindow {
                start: n * WINDOW_BYTES,
                len: WINDOW_BYTES.min(geometry.size - n * WINDOW_BYTES),
            })
            .collect();
        let host = SimulatedHost {
            untold: UnitMap::new(ledger.map().len()),
            used: ledger.map().clone(),
            ledger,
            interface,
            windows,
            now,
            last_done: now,
            skipped: Nanos::ZERO,
            last_done_seen: now,
            quiet_since: now,
            wait_max: None,
            written: 0,
            requests: 0,
        };
        let policy = policy.filter(|policy| !matches!(policy, PolicySpec::Online));
        Self {
            driver: policy.map(|policy| {
                Driver::new(policy.build(&PolicyState::default()), RefusalLimits::ENDLESS)
            }),
            period: policy.map_or(Nanos::MAX, PolicySpec::period).max(Nanos(1)),
            host,
        }
    }

    fn account(self) -> Account {
        let SimulatedHost { untold, ledger, .. } = self.host;
        Account { never_told: Bytes(untold.count() * ledger.unit()), discards: ledger.sums }
    }

    fn submit(
        &mut self,
        drive: &mut impl Device,
        arrival: Nanos,
        command: &Command<'_>,
    ) -> Completion {
        self.consult(drive, arrival);
        let host = &mut self.host;
        host.now = host.now.max(arrival);
        host.quiet_since = host.now;
        host.requests += u64::from(!matches!(command, Command::Trim(_)));
        let completion = match command {
            Command::Read(_) | Command::Flush => host.send(drive, command),
            Command::Write(extent, _) => {
                let completion = host.send(drive, command);
                if completion.result.is_ok() {
                    host.wrote(*extent);
                }
                completion
            }
            Command::Trim(ranges) if self.driver.is_some() => {
                host.freed(ranges, true);
                Completion { done: host.now, result: Ok(()) }
            }
            Command::Trim(ranges) => {
                host.freed(ranges, false);
                Completion { done: host.tell(drive, ranges), result: Ok(()) }
            }
        };
        let waited = completion.done.saturating_sub(arrival);
        host.wait_max = host.wait_max.max(Some(waited));
        completion
    }

    /// Runs all policy decisions due before `until`. After two idle periods, skips whole
    /// ones, so that the cost depends on activity, not on time.
    fn consult(&mut self, drive: &mut impl Device, until: Nanos) {
        let Self { driver: Some(driver), period, host } = self else { return };
        // A trim may end after `until`: its result is reported after waiting requests.
        while let Some(at) = driver
            .ask_at()
            .map(|at| at.saturating_add(host.skipped).max(host.now))
            .filter(|at| *at <= until)
        {
            host.now = at;
            if at.saturating_sub(host.quiet_since).0 / 2 >= period.0 {
                let periods = until.saturating_sub(at).0 / period.0;
                host.skipped += Nanos(periods * period.0);
                host.quiet_since = until;
                if periods > 0 {
                    continue;
                }
            }
            driver.turn(&mut PolicyView { host, drive });
        }
    }
}

impl SimulatedHost {
    fn send(&mut self, drive: &mut impl Device, command: &Command<'_>) -> Completion {
        let completion = drive.submit(self.now, command);
        self.last_done = self.last_done.max(completion.done);
        self.last_done_seen = self.last_done.saturating_sub(self.skipped);
        completion
    }

    fn wrote(&mut self, extent: Extent) {
        let units = self.ledger.touched(extent.offset, extent.len);
        self.written += extent.len;
        // Overwrites, the most frequent writes, change none of the three.
        if self.used.insert(units.clone()) > 0 {
            self.untold.remove(units);
            self.ledger.wrote(extent.offset, extent.len);
        }
    }

    /// Records ranges freed by the host; `held_back` withholds them from the drive.
    fn freed(&mut self, ranges: &[Extent], held_back: bool) {
        for extent in ranges {
            let units = self.ledger.within(extent.offset, extent.len);
            if units.start >= units.end {
                continue;
            }
            let mut from = units.start;
            if held_back {
                while let Some(run) = self.used.next_run(from, units.end) {
                    from = run.end;
                    self.untold.insert(run);
                }
            }
            self.used.remove(units);
        }
    }

    /// Trims for the host or the policy; returns the completion time.
    fn tell(&mut self, drive: &mut impl Device, extents: &[Extent]) -> Nanos {
        self.quiet_since = self.now;
        let mut done = self.now;
        let mut refused = self.interface.geometry.discard_granularity == 0;
        for command in self.interface.trim.commands(extents) {
            let completion = self.send(drive, &Command::trim(&command));
            done = done.max(completion.done);
            refused |= completion.result.is_err();
        }
        self.ledger.command();
        for extent in extents {
            if refused {
                self.ledger.refused(extent.len);
            } else {
                self.ledger.trimmed(extent.offset, extent.len);
            }
        }
        done
    }
}

/// The drive and its host, as a policy sees them.
struct PolicyView<'a, D> {
    host: &'a mut SimulatedHost,
    drive: &'a mut D,
}

impl<D: Device> Surface for PolicyView<'_, D> {
    type Refusal = Infallible;

    fn look(&mut self) -> Observation<'_> {
        let host = &mut *self.host;
        let in_flight = u32::from(host.last_done > host.now);
        Observation {
            written: Some(Bytes(host.written)),
            free: Bytes((host.used.len() - host.used.count()) * host.ledger.unit()),
            granule: Bytes(host.ledger.unit()),
            by_size: true,
            requests: Some(host.requests),
            in_flight,
            idle_since: (in_flight == 0).then_some(host.last_done_seen),
            foreground_wait_max: host.wait_max.take(),
            ..Observation::of(host.now.saturating_sub(host.skipped), &host.windows)
        }
    }

    fn trim(&mut self, request: TrimRequest) -> TrimResponse<Infallible> {
        TrimResponse::Done { outcome: self.host.trim_window(self.drive, request), waited: None }
    }
}

impl SimulatedHost {
    fn trim_window(&mut self, drive: &mut impl Device, request: TrimRequest) -> TrimOutcome {
        let TrimRequest { window, min_extent, sizes, command_max, commands_max, .. } = request;
        let below = sizes.map_or(Bytes::MAX, |sizes| sizes.below);
        let unit = self.ledger.unit();
        let (mut from, end) =
            (window.start.div_ceil(unit), self.ledger.touched(window.start, window.len).end);
        // A window that starts inside a group continues an earlier one.
        let begun = (!window.start.is_multiple_of(WINDOW_BYTES)).then_some(from);
        let began = self.now;
        let (mut commands, mut bytes) = (0, 0);
        let most = if commands_max == 0 { u64::MAX } else { commands_max };
        let mut asked = window.len;
        while let Some(run) = self.untold.next_run(from, end) {
            let len = (run.end - run.start) * unit;
            if begun != Some(run.start) && !(min_extent.0..below.0).contains(&len) {
                from = run.end;
                continue;
            }
            if commands >= most {
                asked = (run.start * unit).saturating_sub(window.start);
                break;
            }
            // As much as the remaining commands cover.
            let step = (command_max.0 / unit).max(1);
            let units = (run.end - run.start).min(step.saturating_mul(most - commands));
            let mut at = run.start;
            while at < run.start + units {
                let next = (at + step).min(run.start + units);
                self.untold.remove(at..next);
                self.now = self.now.max(
                    self.tell(drive, &[Extent { offset: at * unit, len: (next - at) * unit }]),
                );
                commands += 1;
                at = next;
            }
            bytes += units * unit;
            from = run.start + units;
        }
        TrimOutcome {
            asked: Bytes(asked),
            returned: Bytes(bytes),
            counted: Some(Amount::new(commands, bytes)),
            took: self.now.saturating_sub(began),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::shipped;
    use proptest::prelude::*;
    use trimtab_drive::Ranges;
    use trimtab_drive::data::DataClass;

    const TRIM: Nanos = Nanos::from_secs(1);
    const OTHER: Nanos = Nanos::from_millis(1);

    /// A serial drive with slow trims.
    #[derive(Default)]
    struct Slow(Nanos);

    impl Device for Slow {
        fn size(&self) -> Bytes {
            Bytes(512 << 20)
        }
        fn logical_block(&self) -> u32 {
            512
        }
        fn supports_trim(&self) -> bool {
            true
        }
        fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
            self.0 =
                self.0.max(now) + if matches!(command, Command::Trim(_)) { TRIM } else { OTHER };
            Completion { done: self.0, result: Ok(()) }
        }
        fn idle(&mut self, _until: Nanos) {}
    }

    /// A drive without frees for a hundred years.
    fn over_an_empty_century(policy: &str) -> SteeredDrive<Slow> {
        let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
        let mut drive = SteeredDrive::new(
            Slow::default(),
            Interface::of(&spec),
            Some(&policy.parse().unwrap()),
            Nanos::ZERO,
            Bytes::ZERO,
        );
        let extent = Extent { offset: 0, len: 1 << 20 };
        drive.submit(Nanos::ZERO, &Command::Write(extent, DataClass::Random));
        drive.submit(Nanos::from_secs(CENTURY_S), &Command::Read(extent));
        drive.submit(Nanos::from_secs(CENTURY_S), &Command::trim(&[extent]));
        drive
    }

    const WEEK_S: u64 = 7 * 86_400;
    /// Whole weeks plus a day.
    const CENTURY_S: u64 = 5218 * WEEK_S + 86_400;

    #[test]
    fn skipped_time_keeps_the_phase_of_a_policy() {
        // Passes begin at whole weeks; the century ends a day after one.
        for (days, trimmed) in [(5, 0), (7, 1 << 20)] {
            let mut drive = over_an_empty_century("batched:every=7d");
            drive.idle(Nanos::from_secs(CENTURY_S + days * 86_400));
            assert_eq!(
                drive.into_parts().1.unwrap().discards.effective_bytes(),
                trimmed,
                "after {days} days"
            );
        }
        let mut idle = over_an_empty_century("idle");
        idle.idle(Nanos::from_secs(CENTURY_S + 2 * 86_400));
        assert_eq!(idle.into_parts().1.unwrap().discards.effective_bytes(), 1 << 20);
    }

    #[test]
    fn requests_are_served_between_windows_of_a_pass() {
        let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
        let policy = "batched:every=20s".parse().unwrap();
        let interface = Interface::of(&spec);
        let mut drive =
            SteeredDrive::new(Slow::default(), interface, Some(&policy), Nanos::ZERO, Bytes::ZERO);
        for window in 0..4 {
            let extent = Extent { offset: window * WINDOW_BYTES, len: 1 << 20 };
            drive.submit(Nanos::ZERO, &Command::Write(extent, DataClass::Random));
            drive.submit(Nanos::ZERO, &Command::trim(&[extent]));
        }
        // Four windows from 20 s take a second each.
        let read = |drive: &mut SteeredDrive<Slow>, at_ms| {
            drive
                .submit(Nanos::from_millis(at_ms), &Command::Read(Extent { offset: 0, len: 4096 }))
                .done
        };
        assert_eq!(read(&mut drive, 19_000), Nanos::from_secs(19) + OTHER);
        assert_eq!(read(&mut drive, 20_500), Nanos::from_secs(21) + OTHER);
        assert_eq!(read(&mut drive, 21_500), Nanos::from_secs(22) + OTHER + OTHER);
        drive.idle(Nanos::from_secs(40));
        assert_eq!(drive.into_parts().1.unwrap().discards.effective_bytes(), 4 << 20);
    }

    proptest! {
        /// Rounds by size send every freed page once, largest extents first.
        #[test]
        fn trim_by_size_sends_every_page_once(
            pages in prop::collection::vec(any::<bool>(), 400),
            at in 0_u64..WINDOW_BYTES / 4096,
            commands_max in 0_u64..4,
            piece_pages in 1_u64..9,
        ) {
            const PAGE: u64 = 4096;
            let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
            let mut drive = SteeredDrive::new(Slow::default(), Interface::of(&spec), Some(&PolicySpec::None), Nanos::ZERO, Bytes(512 << 20));
            for (page, _) in (at..).zip(&pages).filter(|(_, freed)| **freed) {
                drive.submit(Nanos::ZERO, &Command::trim(&[Extent { offset: page * PAGE, len: PAGE }]));
            }
            let freed = pages.iter().filter(|freed| **freed).count() as u64 * PAGE;
            let SteeredDrive { drive, steering } = &mut drive;
            let host = &mut steering.as_mut().unwrap().host;
            let (mut sent, mut below) = (0, Bytes::MAX);
            for (round, least) in (0..).zip([8 * PAGE, 3 * PAGE, 0]) {
                for window in host.windows.clone() {
                    let (mut start, end) = (window.start, window.start + window.len);
                    while start < end {
                        let request = TrimRequest {
                            sizes: Some(crate::policy::ExtentSizeClasses { below, round, rounds: 3 }),
                            command_max: Bytes(piece_pages * PAGE),
                            commands_max,
                            ..TrimRequest::whole(TrimWindow { start, len: end - start }, Bytes(least))
                        };
                        let outcome = host.trim_window(drive, request);
                        let counted = outcome.counted.unwrap();
                        prop_assert!(commands_max == 0 || counted.count <= commands_max);
                        prop_assert!(counted.bytes.0 <= counted.count * piece_pages * PAGE);
                        prop_assert!(outcome.asked.0 > 0);
                        sent += counted.bytes.0;
                        start += outcome.asked.0;
                    }
                }
                below = Bytes(least);
            }
            prop_assert_eq!((sent, host.untold.count()), (freed, 0));
        }
    }

    proptest! {
        /// Oracle: a flag per page used by the host and per page mapped by the drive.
        #[test]
        fn never_trimmed_bytes_are_mapped_minus_in_use(
            policy in prop_oneof![Just("none"), Just("online"), Just("batched:every=7ms")],
            ops in prop::collection::vec((any::<bool>(), 0_u64..200, 1_u64..20), 1..80),
        ) {
            const PAGE: u64 = 4096;
            let spec = shipped("ocz-vertex-le-100gb", Bytes(512 << 20));
            let policy: PolicySpec = policy.parse().unwrap();
            let mut drive = SteeredDrive::new(Slow::default(), Interface::of(&spec), Some(&policy), Nanos::ZERO, Bytes(50 * PAGE));
            let mut used: Vec<bool> = (0..220).map(|page| page < 50).collect();
            let mut written = used.clone();
            for (nth, (write, page, pages)) in (0_u64..).zip(ops) {
                let extent = Extent { offset: page * PAGE, len: pages * PAGE };
                let command = if write { Command::Write(extent, DataClass::Random) } else { Command::Trim(Ranges::One(extent)) };
                prop_assert!(drive.submit(Nanos::from_millis(nth), &command).result.is_ok());
                used[page as usize..(page + pages) as usize].fill(write);
                if write {
                    written[page as usize..(page + pages) as usize].fill(true);
                }
            }
            let in_use = used.iter().filter(|used| **used).count() as u64 * PAGE;
            let host = &drive.steering.as_ref().unwrap().host;
            let unit = host.ledger.unit();
            prop_assert_eq!(host.used.count() * unit, in_use);
            let never_told = host.untold.count() * unit;
            prop_assert_eq!(host.ledger.mapped_bytes(), in_use + never_told);
            match policy {
                PolicySpec::Online => prop_assert_eq!(never_told, 0),
                PolicySpec::None => prop_assert_eq!(host.ledger.mapped_bytes(), written.iter().filter(|held| **held).count() as u64 * PAGE),
                _ => {}
            }
        }
    }
}
