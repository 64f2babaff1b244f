//! The policies against a small filesystem of their own, whose trim costs they do not know.

use super::*;
use crate::discards::Amount;
use crate::rng::Stream;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const UNIT: u64 = 64 << 10;
const UNITS_PER_WINDOW: usize = 64;
const WINDOW: u64 = UNIT * UNITS_PER_WINDOW as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Live,
    Freed,
    Trimmed,
}

/// What trims cost on the drive below, and how its write counter behaves.
#[derive(Clone, Copy, Debug)]
struct Drive {
    command_ns: u64,
    ns_per_kib: u64,
    counter_step: u64,
    has_counter: bool,
}

/// Units of a filesystem on such a drive; a foreground that uses it; and the driver of a policy.
struct Rig {
    units: Vec<Unit>,
    windows: Vec<TrimWindow>,
    granule: Bytes,
    tail: Bytes,
    drive: Drive,
    now: u64,
    written: u64,
    counter_base: u64,
    /// Instants at which foreground requests arrive, latest first.
    arrivals: Vec<u64>,
    last_request: u64,
    wait_max: Option<u64>,
    /// Longest wait because of a trim, ever.
    stall_max: u64,
    stall_sum: u64,
    outcome: Option<TrimOutcome>,
    fail_share: f64,
    rng: Stream,
    passes: Vec<u64>,
    written_at_pass: Vec<u64>,
    forced: bool,
    shutting_down: bool,
    /// Commands sent.
    commands: u64,
    /// The filesystem claims this many times the free space that it has.
    scale: u64,
    /// The device takes no larger commands.
    device_max: u64,
    /// All commands of a window are in the device's queue before those who arrive meanwhile.
    first_come: bool,
}

impl Rig {
    fn new(windows: usize, granule: Bytes, drive: Drive, seed: u64) -> Self {
        Self {
            units: vec![Unit::Freed; windows * UNITS_PER_WINDOW],
            windows: (0..windows as u64).map(|i| TrimWindow { start: i * WINDOW, len: WINDOW }).collect(),
            granule,
            tail: Bytes::MAX,
            drive,
            now: 0,
            written: 0,
            counter_base: 0,
            arrivals: Vec::new(),
            last_request: 0,
            wait_max: None,
            stall_max: 0,
            stall_sum: 0,
            outcome: None,
            fail_share: 0.0,
            rng: Stream::new(seed, "rig"),
            passes: Vec::new(),
            written_at_pass: Vec::new(),
            forced: false,
            shutting_down: false,
            commands: 0,
            scale: 1,
            device_max: u64::MAX,
            first_come: false,
        }
    }

    fn free(&self) -> u64 {
        self.units.iter().filter(|u| **u != Unit::Live).count() as u64 * UNIT * self.scale
    }

    fn freed(&self) -> usize {
        self.units.iter().filter(|u| **u == Unit::Freed).count()
    }

    fn write_and_free(&mut self, n: usize) {
        for _ in 0..n {
            let at = self.rng.below(self.units.len() as u64) as usize;
            self.units[at] = if self.rng.chance(0.5) { Unit::Live } else { Unit::Freed };
            self.written += UNIT;
        }
    }

    fn decide(&mut self, policy: &mut dyn Policy) -> Action {
        let counter = Bytes((self.written - self.counter_base) / self.drive.counter_step * self.drive.counter_step);
        let outcome = self.outcome.take();
        let observation = Observation {
            now: Nanos(self.now),
            written: self.drive.has_counter.then_some(counter),
            written_step: Bytes(self.drive.counter_step),
            free: Bytes(self.free()),
            windows: &self.windows,
            granule: self.granule,
            tail: self.tail,
            in_flight: 0,
            idle_since: Some(Nanos(self.last_request)),
            foreground_wait_max: self.wait_max.take().map(Nanos),
            last_trim: outcome.as_ref(),
            forced: core::mem::take(&mut self.forced),
            shutting_down: self.shutting_down,
            on_battery: false,
        };
        policy.decide(&observation)
    }

    /// Serves the foreground requests that arrive until `until`, the drive being busy until `busy` with one command.
    fn serve(&mut self, until: u64, busy: u64) {
        while self.arrivals.last().is_some_and(|at| *at < until) {
            let at = self.arrivals.pop().unwrap_or_default();
            let wait = busy.saturating_sub(at);
            self.stall_max = self.stall_max.max(wait);
            self.stall_sum += wait;
            self.wait_max = Some(self.wait_max.unwrap_or(0).max(wait));
            self.last_request = at + wait;
        }
    }

    fn trim(&mut self, request: TrimRequest) {
        let TrimRequest { window, command_max, .. } = request;
        let commands_max = if request.commands_max == 0 || self.tail == Bytes::MAX { u64::MAX } else { request.commands_max };
        assert!(self.windows.iter().any(|w| w.start <= window.start && window.start + window.len <= w.start + w.len), "{window:?}");
        let whole = self.windows.contains(&window);
        let tail = self.windows.iter().any(|w| w.start + w.len == window.start + window.len) && window.len.is_multiple_of(self.tail.0);
        if !whole && !tail {
            assert!(self.granule < Bytes::MAX, "part of a window that cannot be divided");
            assert!(window.start.is_multiple_of(self.granule.0) && window.len.is_multiple_of(self.granule.0), "{window:?}");
        }
        if window.start == 0 {
            self.passes.push(self.now);
            self.written_at_pass.push(self.written);
        }
        let from = self.now;
        let (first, last) = ((window.start / UNIT) as usize, ((window.start + window.len).div_ceil(UNIT)) as usize);
        let failed = self.rng.chance(self.fail_share);
        let (mut commands, mut bytes) = (0, 0);
        let mut at = first;
        while at < last && !failed && commands < commands_max {
            let run = self.units[at..last].iter().take_while(|u| **u != Unit::Live).count();
            // Units may begin before the window, and end behind it.
            let (begin, end) = ((at as u64 * UNIT).max(window.start), ((at + run) as u64 * UNIT).min(window.start + window.len));
            let mut left = end.saturating_sub(begin);
            while left > 0 {
                let len = left.min(command_max.0).min(self.device_max);
                let busy = self.now + self.drive.command_ns + self.drive.ns_per_kib * (len >> 10);
                if !self.first_come {
                    self.serve(busy, busy);
                }
                self.now = busy;
                left -= len;
                commands += 1;
                bytes += len;
            }
            self.serve(self.now, self.now);
            // Those of which all is trimmed, this part the last.
            self.units[at..(end / UNIT).max(at as u64) as usize].fill(Unit::Trimmed);
            at += run.max(1);
        }
        self.commands += commands;
        self.outcome = (!failed).then(|| TrimOutcome {
            asked: Bytes((at as u64 * UNIT).min(window.start + window.len) - window.start),
            returned: Bytes(bytes),
            counted: Some(Amount::new(commands, bytes)),
            took: Nanos(self.now - from),
        });
    }

    /// Runs `policy` until `until`, asking it as the contract says.
    fn run(&mut self, policy: &mut dyn Policy, until: u64) {
        while self.now < until {
            let wait = match self.decide(policy) {
                Action::Trim(request) => {
                    self.trim(request);
                    continue;
                }
                Action::WaitUntil(at) => {
                    assert!(at.0 > self.now, "waiting for {at:?} at {} would never end", self.now);
                    at.0.min(until)
                }
                Action::Nothing => until,
            };
            self.serve(wait, 0);
            self.now = wait;
        }
    }
}

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const DAY: u64 = 86_400 * S;

const CHEAP: Drive = Drive { command_ns: 50_000, ns_per_kib: 1, counter_step: 512, has_counter: true };

fn build(text: &str) -> Box<dyn Policy> {
    text.parse::<PolicySpec>().unwrap().build(&State::default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the policy, the counter and the failures: what is freed gets trimmed, across restarts, within its period.
    #[test]
    fn every_freed_byte_is_eventually_trimmed(
        seed: u64,
        which in prop::sample::select(vec!["batched:every=1d", "batched:nightly=3h", "adaptive:at-least=2d", "idle", "idle:quiet=0s"]),
        divisible: bool,
        has_counter: bool,
        fail_share in 0.0..0.5_f64,
        busy: bool,
        tails: bool,
    ) {
        let granule = if divisible { Bytes(4096) } else { Bytes::MAX };
        let drive = Drive { has_counter, counter_step: 64 << 30, ..CHEAP };
        let mut rig = Rig::new(4, granule, drive, seed);
        rig.tail = if tails { Bytes(4096) } else { Bytes::MAX };
        rig.fail_share = fail_share;
        let spec: PolicySpec = which.parse().unwrap();
        let mut policy = spec.build(&State::default());
        for _ in 0..20 {
            rig.write_and_free(40);
            let pause = rig.rng.below(DAY / 4);
            rig.run(&mut *policy, rig.now + pause);
            policy = spec.build(&policy.state());
        }
        rig.fail_share = 0.0;
        if busy {
            // Never idle: a request every 5 ms, for two minutes. Patience has to get through; after that it is quiet again.
            rig.arrivals = (0..24_000).map(|i| rig.now + i * 5 * MS).rev().collect();
        }
        // Two periods, and the longest wait after failures.
        let until = rig.now + 6 * DAY;
        rig.run(&mut *policy, until);
        prop_assert_eq!(rig.freed(), 0, "{}", which);
    }

    /// On a drive whose trim cost it does not know, within what a smallest piece can keep, nobody waits longer than the budget.
    #[test]
    fn idle_keeps_to_the_budget(
        seed: u64,
        command_us in 0..2000_u64,
        // Up to 20 ms a MiB; an OCZ Vertex LE takes 9.
        ns_per_kib in 0..20_000_u64,
        divisible: bool,
        rate in 1..200_u64,
        tails: bool,
    ) {
        let granule = if divisible { Bytes(4096) } else { Bytes::MAX };
        let drive = Drive { command_ns: command_us * 1000, ns_per_kib, ..CHEAP };
        let mut rig = Rig::new(8, granule, drive, seed);
        rig.tail = if tails { Bytes(4096) } else { Bytes::MAX };
        let mut policy = build("idle");
        rig.forced = true;
        let mut at = 0;
        for _ in 0..2000 {
            at += 1 + rig.rng.below(2 * S / rate);
            rig.arrivals.push(at);
        }
        rig.arrivals.reverse();
        rig.run(&mut *policy, at + 100 * S);
        prop_assert!(rig.stall_max <= 5 * MS, "waited {} ns", rig.stall_max);
        prop_assert_eq!(rig.freed(), 0, "and it is done all the same");
    }

    /// Where one TRIM alone exceeds the budget, whatever its size: nobody waits longer than for two of the smallest, few commands are sent,
    /// the device is left alone most of the time, all is trimmed, and the policy says that the budget is not kept.
    #[test]
    fn idle_where_every_trim_is_dear_does_not_crumble(
        seed: u64,
        command_us in 6_000..40_000_u64,
        ns_per_kib in 0..20_000_u64,
        divisible: bool,
        rate in 1..20_u64,
        tails: bool,
    ) {
        let granule = if divisible { Bytes(4096) } else { Bytes::MAX };
        let drive = Drive { command_ns: command_us * 1000, ns_per_kib, ..CHEAP };
        let mut rig = Rig::new(32, granule, drive, seed);
        rig.tail = if tails { Bytes(4096) } else { Bytes::MAX };
        let mut policy = build("idle");
        rig.forced = true;
        let mut at = 0;
        for _ in 0..1000 {
            at += 1 + rig.rng.below(2 * S / rate);
            rig.arrivals.push(at);
        }
        rig.arrivals.reverse();
        rig.run(&mut *policy, at + 4000 * S);
        prop_assert_eq!(rig.freed(), 0, "it is done");
        let smallest = command_us * 1000 + ns_per_kib * 64;
        // A window's mean is what is known: its last piece may be short, and a larger one as much dearer.
        prop_assert!(rig.stall_max <= smallest * 4, "waited {} ns, the smallest takes {}", rig.stall_max, smallest);
        let remark = policy.remark();
        prop_assert!(remark.as_ref().is_some_and(|text| text.contains("budget of 5.00 ms")), "{:?}", remark);
        let again = "idle".parse::<PolicySpec>().unwrap().build(&policy.state());
        prop_assert_eq!(again.remark(), remark, "and remembers it");
    }

    /// The trigger fires within one step of its threshold, whatever the step, across restarts of policy and counter.
    #[test]
    fn adaptive_fires_within_one_step(
        seed: u64,
        step in prop::sample::select(vec![512, 1 << 10, 32 << 20, 1 << 30]),
        restart_at in 0..400_usize,
        reset_at in 0..400_usize,
    ) {
        // 16 GiB free: the threshold is 12 GiB.
        let mut rig = Rig::new(4, Bytes::MAX, Drive { counter_step: step, ..CHEAP }, seed);
        rig.scale = 1024;
        let spec: PolicySpec = "adaptive:at-most=0s:poll=5s".parse().unwrap();
        let mut policy = spec.build(&State::default());
        rig.run(&mut *policy, S);
        let mut lost = 0;
        for i in 0..400 {
            rig.written += 97 << 20;
            if i == reset_at {
                // A reboot: what came after the last step is lost to a coarse counter.
                lost = step;
                rig.counter_base = rig.written;
            }
            if i == restart_at {
                policy = spec.build(&policy.state());
            }
            rig.run(&mut *policy, rig.now + 10 * S);
        }
        // The counter was looked at every 97 MiB.
        let slack = (97 << 20) + step + lost;
        let threshold = 12_u64 << 30;
        prop_assert!(rig.written_at_pass.len() >= 2, "{:?}", rig.written_at_pass);
        let mut before = 0;
        for at in rig.written_at_pass {
            let written = at - before;
            prop_assert!(written + step >= threshold && written <= threshold + slack + (97 << 20), "after {} of {}", written, threshold);
            before = at;
        }
    }
}

#[test]
fn a_counter_that_never_advances_leaves_the_longest_interval() {
    let mut rig = Rig::new(4, Bytes::MAX, Drive { counter_step: u64::MAX, ..CHEAP }, 1);
    let mut policy = build("adaptive");
    for _ in 0..30 {
        rig.write_and_free(200);
        rig.run(&mut *policy, rig.now + DAY);
    }
    let days: Vec<u64> = rig.passes.iter().map(|at| at / DAY).collect();
    assert_eq!(days, [7, 14, 21, 28]);
}

#[test]
fn a_counter_in_steps_of_64_gib_fires_at_its_first_step() {
    // 100 GB free would be the window sizes of a drive; here the free space is small, so that one step exceeds the threshold by far.
    let mut rig = Rig::new(4, Bytes::MAX, Drive { counter_step: 64 << 30, ..CHEAP }, 1);
    let mut policy = build("adaptive:poll=1s");
    rig.run(&mut *policy, S);
    for gib in 1..=63 {
        rig.written = gib << 30;
        rig.run(&mut *policy, rig.now + 100 * S);
        assert!(rig.passes.is_empty(), "after {gib} GiB the counter has not moved");
    }
    rig.written = 64 << 30;
    rig.run(&mut *policy, rig.now + 100 * S);
    assert_eq!(rig.passes.len(), 1);
}

#[test]
fn adaptive_keeps_its_distance() {
    let mut rig = Rig::new(4, Bytes::MAX, CHEAP, 1);
    let mut policy = build("adaptive:at-most=1h:poll=1s");
    for _ in 0..3600 * 3 {
        rig.write_and_free(250);
        rig.run(&mut *policy, rig.now + S);
    }
    let apart: Vec<u64> = rig.passes.windows(2).map(|w| (w[1] - w[0]) / S).collect();
    assert!(rig.passes.len() == 3 && apart.iter().all(|s| (3600..3602).contains(s)), "{apart:?}");
}

#[test]
fn nightly_is_at_its_time_of_the_day_and_missed_ones_are_made_up_for() {
    let mut rig = Rig::new(2, Bytes::MAX, CHEAP, 1);
    let spec: PolicySpec = "batched:nightly=3h".parse().unwrap();
    let mut policy = spec.build(&State::default());
    rig.run(&mut *policy, 2 * DAY);
    assert_eq!(rig.passes, [3 * 3600 * S, DAY + 3 * 3600 * S]);
    // Off from the evening until noon two days later.
    let state = policy.state();
    rig.now = 3 * DAY + 12 * 3600 * S;
    let mut policy = spec.build(&state);
    rig.run(&mut *policy, 5 * DAY);
    assert_eq!(rig.passes[2..], [3 * DAY + 12 * 3600 * S, 4 * DAY + 3 * 3600 * S]);
}

#[test]
fn at_shutdown_trims_once_and_a_timer_does_not_hold_the_shutdown_up() {
    for (text, passes) in [("batched:shutdown", 1), ("batched:every=1s", 0), ("adaptive", 0), ("idle", 0), ("none", 0)] {
        let mut rig = Rig::new(2, Bytes::MAX, CHEAP, 1);
        let mut policy = build(text);
        rig.decide(&mut *policy);
        rig.shutting_down = true;
        rig.now = 10 * S;
        rig.run(&mut *policy, 20 * S);
        assert_eq!(rig.passes.len(), passes, "{text}");
    }
}

#[test]
fn whoever_asks_gets_a_pass_under_every_policy() {
    for text in PolicySpec::NAMES {
        let mut rig = Rig::new(2, Bytes::MAX, CHEAP, 1);
        let mut policy = build(text);
        rig.run(&mut *policy, S);
        rig.forced = true;
        rig.run(&mut *policy, 100 * S);
        assert_eq!((rig.passes.len(), rig.freed()), (1, 0), "{text}");
        assert_eq!(policy.name(), text);
        assert_eq!(policy.online(), text == "online");
    }
}

#[test]
fn on_battery_only_what_the_user_asks_for_is_trimmed() {
    for text in ["batched:every=1s", "adaptive:at-least=1s", "idle:at-least=1s"] {
        let mut policy = build(text);
        let window = [TrimWindow { start: 0, len: WINDOW }];
        let observation = Observation {
            now: Nanos::from_secs(100),
            written: Some(Bytes(1 << 40)),
            written_step: Bytes(512),
            free: Bytes(1 << 30),
            windows: &window,
            granule: Bytes::MAX,
            tail: Bytes::MAX,
            in_flight: 0,
            idle_since: Some(Nanos::ZERO),
            foreground_wait_max: None,
            last_trim: None,
            forced: false,
            shutting_down: false,
            on_battery: true,
        };
        for now in 100..200 {
            let action = policy.decide(&Observation { now: Nanos::from_secs(now), ..observation.clone() });
            assert!(!matches!(action, Action::Trim(_)), "{text}");
        }
        let action = policy.decide(&Observation { now: Nanos::from_secs(300), forced: true, ..observation.clone() });
        assert!(matches!(action, Action::Trim(_)), "{text}");
    }
}

#[test]
fn a_window_that_fails_is_kept_and_tried_less_and_less_often() {
    let mut rig = Rig::new(1, Bytes::MAX, CHEAP, 1);
    rig.fail_share = 1.0;
    let mut policy = build("none");
    rig.forced = true;
    rig.run(&mut *policy, 1000 * S);
    let at: Vec<u64> = rig.passes.iter().map(|at| at / S).collect();
    assert_eq!(at, [0, 60, 180, 420, 900]);
    assert_eq!(rig.freed(), UNITS_PER_WINDOW);
    rig.fail_share = 0.0;
    rig.run(&mut *policy, 3000 * S);
    assert_eq!(rig.freed(), 0);
}

#[test]
fn idle_learns_how_large_a_piece_may_be() {
    // 9 ms a MiB: 5.69e5 bytes are within 5 ms, and an error of some per cent is left for. And a drive where anything goes, whole windows for instance.
    let within = 4_999_000 * 1024 / 9_000;
    for (ns_per_kib, from, to) in [(9_000, within / 10 * 9, within), (0, WINDOW, 1 << 30)] {
        let mut rig = Rig::new(64, Bytes(4096), Drive { ns_per_kib, command_ns: 1000, ..CHEAP }, 1);
        let mut policy = Idle::new(IdleSettings::default(), &State::default());
        for _ in 0..10 {
            rig.units.fill(Unit::Freed);
            rig.forced = true;
            rig.run(&mut policy, rig.now + 1000 * S);
        }
        assert!((from..=to).contains(&policy.piece().0), "{} at {ns_per_kib} ns/KiB", policy.piece());
        let again = Idle::new(IdleSettings::default(), &policy.state());
        assert_eq!(again.piece(), policy.piece(), "and remembers it");
    }
}

#[test]
fn idle_takes_few_commands_where_their_cost_is_fixed() {
    // 6 ms a command and 64 KiB pieces would be 65,536 commands for these 4 GiB, if windows are not divided.
    let mut rig = Rig::new(1024, Bytes::MAX, Drive { ns_per_kib: 0, command_ns: 6_000_000, ..CHEAP }, 1);
    let mut policy = Idle::new(IdleSettings::default(), &State::default());
    rig.forced = true;
    rig.run(&mut policy, 50_000 * S);
    assert_eq!(rig.freed(), 0);
    assert!(policy.piece().0 >= WINDOW, "{}", policy.piece());
    let whole = rig.commands;
    assert!(whole < 1024 + 500, "{whole} commands for 1024 windows");
}

#[test]
fn idle_sends_few_commands_where_all_are_queued_before_others() {
    // As on a loop device, or any other without a scheduler: a window's commands stand in the queue at once, and 64 of them, cheap as
    // each of them is, make others wait 10 ms and more.
    let drive = Drive { ns_per_kib: 0, command_ns: 200_000, ..CHEAP };
    let mut rig = Rig::new(512, Bytes::MAX, drive, 1);
    rig.first_come = true;
    rig.arrivals = (0..200_000).map(|i| i * 5 * MS).rev().collect();
    let mut policy = Idle::new(IdleSettings::default(), &State::default());
    rig.forced = true;
    rig.run(&mut policy, 1000 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands < 512 + 256, "{} commands for 512 windows", rig.commands);
    assert!(rig.stall_max <= 13 * MS, "64 commands, those of the first window, and no more: {} ns", rig.stall_max);
}

#[test]
fn idle_tries_tails_before_it_sends_a_window_in_commands_that_are_far_too_small() {
    // What the first window costs is known before it is sent: nobody waits for a queue.
    let cheap = Drive { ns_per_kib: 0, command_ns: 200_000, ..CHEAP };
    // And where each command is dear it is known before the first window is sent in 64 of them.
    let dear = Drive { ns_per_kib: 0, command_ns: 148 * MS, ..CHEAP };
    for (drive, stall_max) in [(cheap, MS), (dear, 149 * MS)] {
        let mut rig = Rig::new(512, Bytes::MAX, drive, 1);
        rig.tail = Bytes(4096);
        rig.first_come = true;
        rig.arrivals = (0..200_000).map(|i| i * 5 * MS).rev().collect();
        let mut policy = Idle::new(IdleSettings::default(), &State::default());
        rig.forced = true;
        rig.run(&mut policy, 10_000 * S);
        assert_eq!(rig.freed(), 0);
        assert!(rig.commands <= 512 + 12, "{} commands for 512 windows", rig.commands);
        assert!(rig.stall_max <= stall_max, "{} ns", rig.stall_max);
    }
}

#[test]
fn idle_takes_a_fragmented_window_a_few_commands_at_a_time() {
    let dear = Drive { ns_per_kib: 0, command_ns: 148 * MS, ..CHEAP };
    let cheap = Drive { ns_per_kib: 0, command_ns: 300_000, ..CHEAP };
    for (drive, stall_max) in [(dear, 149 * MS), (cheap, 5 * MS)] {
        let mut rig = Rig::new(16, Bytes::MAX, drive, 1);
        rig.tail = Bytes(4096);
        rig.first_come = true;
        // Thirty-two holes in each window, and the last four windows free as a whole.
        (0..12 * UNITS_PER_WINDOW).step_by(2).for_each(|i| rig.units[i] = Unit::Live);
        rig.arrivals = (0..400_000).map(|i| i * 5 * MS).rev().collect();
        let mut policy = build("idle");
        rig.forced = true;
        rig.run(&mut *policy, 2000 * S);
        assert_eq!(rig.freed(), 0);
        assert!(rig.stall_max <= stall_max, "{} ns", rig.stall_max);
        assert!(rig.commands <= 12 * 32 + 4 + 40, "{}", rig.commands);
    }
}

#[test]
fn idle_is_not_misled_by_one_trial_that_waited_for_others() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    rig.tail = Bytes(4096);
    let mut policy = Idle::new(IdleSettings::default(), &State::default());
    rig.forced = true;
    while !matches!(rig.decide(&mut policy), Action::Trim(_)) {
        rig.now += 100 * MS;
    }
    // The first one took 6 ms.
    rig.outcome = Some(TrimOutcome {
        asked: Bytes(UNIT),
        returned: Bytes(UNIT),
        counted: Some(Amount { count: 1, bytes: Bytes(UNIT) }),
        took: Nanos(6 * MS),
    });
    rig.run(&mut policy, 100 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands <= 64 + 8, "{}", rig.commands);
}

#[test]
fn idle_does_not_try_for_ever_where_the_device_divides_commands() {
    // Two commands of half a piece each, at a cost that would allow twice the piece.
    for device_max in [256 << 10, 384 << 10, 2 << 20] {
        for command_ns in [300_000, 700_000, 1_000_000] {
            let mut rig = Rig::new(64, Bytes::MAX, Drive { command_ns, ns_per_kib: 0, ..CHEAP }, 1);
            (rig.tail, rig.device_max) = (Bytes(4096), device_max);
            let mut policy = build("idle");
            rig.forced = true;
            rig.run(&mut *policy, 100 * S);
            assert_eq!(rig.freed(), 0);
            assert!(rig.commands <= 64 * WINDOW.div_ceil(device_max) + 160, "{} of {device_max}", rig.commands);
        }
    }
}

#[test]
fn idle_asks_for_quiet_again_when_the_load_is_gone() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    let mut policy = Idle::new(IdleSettings::default(), &State::default());
    rig.arrivals = (0..10_000).map(|i| i * MS).rev().collect();
    rig.forced = true;
    rig.run(&mut policy, 10 * S);
    rig.forced = true;
    rig.run(&mut policy, 1000 * S);
    // A request, and 20 ms later a pass that is asked for: it waits.
    rig.last_request = rig.now - 20 * MS;
    rig.forced = true;
    let action = rig.decide(&mut policy);
    assert!(matches!(action, Action::WaitUntil(_)), "{action:?} {policy:?}");
}

#[test]
fn idle_finds_out_even_if_most_groups_have_nothing_to_send() {
    // As after a pass of somebody else: tails of all windows but one send nothing.
    let mut rig = Rig::new(64, Bytes::MAX, Drive { command_ns: 148 * MS, ns_per_kib: 0, ..CHEAP }, 1);
    rig.tail = Bytes(4096);
    rig.units[..60 * UNITS_PER_WINDOW].fill(Unit::Live);
    rig.units[62 * UNITS_PER_WINDOW..].fill(Unit::Live);
    let mut policy = build("idle");
    rig.forced = true;
    rig.run(&mut *policy, 1000 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands < 2 + 40, "{} commands for two windows", rig.commands);
}

#[test]
fn idle_does_not_try_for_ever_where_pieces_are_not_to_be_large() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    rig.tail = Bytes(4096);
    let mut policy = build("idle:piece-max=1MiB");
    rig.forced = true;
    rig.run(&mut *policy, 100 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands <= 64 * 4 + 8, "{}", rig.commands);
}

#[test]
fn idle_does_not_try_for_ever_where_nothing_is_free_or_trials_fail() {
    for fail_share in [0.0, 1.0] {
        let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
        rig.tail = Bytes(4096);
        rig.fail_share = fail_share;
        if fail_share == 0.0 {
            rig.units.fill(Unit::Live);
        }
        let mut policy = build("idle");
        rig.forced = true;
        rig.run(&mut *policy, 1000 * S);
        rig.fail_share = 0.0;
        rig.units.fill(Unit::Freed);
        rig.forced = true;
        rig.run(&mut *policy, rig.now + 10_000 * S);
        assert_eq!(rig.freed(), 0);
    }
}

#[test]
fn idle_finds_out_when_a_budget_can_be_kept_after_all() {
    let mut rig = Rig::new(64, Bytes(4096), Drive { ns_per_kib: 0, command_ns: 8_000_000, ..CHEAP }, 1);
    let mut policy = Idle::new(IdleSettings::default(), &State::default());
    rig.forced = true;
    rig.run(&mut policy, 1000 * S);
    assert!(policy.remark().is_some());
    rig.drive.command_ns = 1_000_000;
    rig.units.fill(Unit::Freed);
    rig.forced = true;
    rig.run(&mut policy, rig.now + 1000 * S);
    assert_eq!((rig.freed(), policy.remark()), (0, None));
}

#[test]
fn idle_waits_for_quiet_but_less_where_there_never_is_any() {
    let mut rig = Rig::new(4, Bytes(4096), CHEAP, 1);
    let mut policy = build("idle:patience=1d");
    // A request every 5 ms for a minute: 100 ms of quiet do not come.
    rig.arrivals = (0..12_000).map(|i| i * 5 * MS).rev().collect();
    rig.forced = true;
    rig.run(&mut *policy, 60 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.passes[0] > 400 * MS, "not before it had waited for more quiet: {:?}", rig.passes);
}

/// What a policy says of a pass while it is under way, and what it remembers of it.
#[test]
fn every_policy_says_where_its_pass_stands_also_after_a_restart() {
    let mut now: Box<dyn Policy> = Box::new(Now::new(Bytes::ZERO, &State::default()));
    assert_eq!((now.name(), now.running()), ("now", false));
    for text in PolicySpec::NAMES.into_iter().chain(["now"]) {
        let (spec, is_now) = (text.parse::<PolicySpec>().unwrap_or(PolicySpec::None), text == "now");
        let build = |state: &State| if is_now { Box::new(Now::new(Bytes::ZERO, state)) } else { spec.build(state) };
        let mut policy = if is_now { core::mem::replace(&mut now, build(&State::default())) } else { build(&State::default()) };
        let mut rig = Rig::new(3, Bytes::MAX, CHEAP, 1);
        rig.now = S;
        let said = |policy: &dyn Policy| (policy.running(), policy.another_follows(), policy.remark());
        assert_eq!(said(&*policy), (false, false, None), "{text}");
        let ask = |rig: &mut Rig, policy: &mut dyn Policy| {
            rig.forced = true;
            match rig.decide(policy) {
                Action::Trim(request) => rig.trim(request),
                other => panic!("{text}: {other:?}"),
            }
        };
        ask(&mut rig, &mut *policy);
        assert_eq!(said(&*policy), (true, false, None), "{text}");
        let mut again = build(&policy.state());
        assert_eq!((said(&*again), again.state()), ((true, false, None), policy.state()), "{text}");
        ask(&mut rig, &mut *policy);
        assert_eq!(said(&*policy), (true, true, None), "{text}");
        again = build(&policy.state());
        assert_eq!((said(&*again), again.state()), ((true, true, None), policy.state()), "{text}");
        // What is under way is gone over to its end, and then once more.
        rig.run(&mut *again, 100 * S);
        assert_eq!((said(&*again), rig.freed(), rig.passes.len()), ((false, false, None), 0, 2), "{text}");
    }
}

#[test]
fn a_pass_of_the_user_is_remembered_as_what_it_is() {
    // Neither battery nor schedule hold it back, also not after a restart.
    let window = [TrimWindow { start: 0, len: WINDOW }, TrimWindow { start: WINDOW, len: WINDOW }];
    let observation = |forced| Observation {
        now: Nanos::from_secs(100),
        written: None,
        written_step: Bytes(512),
        free: Bytes(1 << 30),
        windows: &window,
        granule: Bytes::MAX,
        tail: Bytes::MAX,
        in_flight: 0,
        idle_since: Some(Nanos::ZERO),
        foreground_wait_max: None,
        last_trim: None,
        forced,
        shutting_down: false,
        on_battery: true,
    };
    for text in PolicySpec::NAMES {
        let mut policy = build(text);
        assert!(matches!(policy.decide(&observation(true)), Action::Trim(_)), "{text}");
        let mut again = text.parse::<PolicySpec>().unwrap().build(&policy.state());
        assert!(matches!(again.decide(&observation(false)), Action::Trim(_)), "{text}");
    }
}

#[test]
fn a_trigger_that_has_fired_keeps_its_distance_after_a_restart() {
    let spec: PolicySpec = "adaptive:at-most=1h:at-least=10h".parse().unwrap();
    let mut rig = Rig::new(1, Bytes::MAX, CHEAP, 1);
    let mut policy = spec.build(&State::default());
    rig.run(&mut *policy, S);
    rig.written += 1 << 40;
    rig.run(&mut *policy, 60 * S);
    assert_eq!(rig.passes.len(), 1, "the first needs no distance");
    policy = spec.build(&policy.state());
    rig.written += 1 << 40;
    rig.run(&mut *policy, 3500 * S);
    assert_eq!(rig.passes.len(), 1, "an hour has not passed");
    rig.run(&mut *policy, 3700 * S);
    assert_eq!(rig.passes.len(), 2);
}

#[test]
fn before_windows_that_cannot_be_divided_their_tails_are_tried_one_command_at_a_time() {
    let windows = [TrimWindow { start: 0, len: 64 << 20 }, TrimWindow { start: 64 << 20, len: 64 << 20 }];
    let observation = Observation {
        now: Nanos::from_secs(1),
        written: None,
        written_step: Bytes(512),
        free: Bytes(1 << 30),
        windows: &windows,
        granule: Bytes::MAX,
        tail: Bytes(4096),
        in_flight: 0,
        idle_since: Some(Nanos::ZERO),
        foreground_wait_max: None,
        last_trim: None,
        forced: false,
        shutting_down: false,
        on_battery: false,
    };
    let mut policy = build("idle:budget=5ms");
    let mut action = policy.decide(&Observation { forced: true, ..observation.clone() });
    let mut tried = Vec::new();
    let whole = loop {
        let Action::Trim(request) = action else { panic!("{action:?}") };
        if !request.trial {
            break request;
        }
        // A millisecond each: three or four of them, with the error of that, are within the budget; the last extent may be more than one.
        let few = if tried.is_empty() { 1..=1 } else { 2..=3 };
        assert!(few.contains(&request.commands_max), "before anything is known one tells enough: {request:?}");
        assert!(windows.iter().any(|w| w.start + w.len == request.window.start + request.window.len), "{request:?}");
        tried.push(request.window.len);
        // Each takes a millisecond, whatever its size.
        let bytes = request.window.len;
        let outcome =
            TrimOutcome { asked: Bytes(bytes), returned: Bytes(bytes), counted: Some(Amount::new(1, bytes)), took: Nanos::from_millis(1) };
        action = policy.decide(&Observation { last_trim: Some(&outcome), ..observation.clone() });
    };
    // The second may cost five times as much if all of the cost is one of bytes, with the error of one observation: a tenth, and two of it.
    assert_eq!(tried[..2], [64 << 10, (65_536.0 * 5.0 / (1.0 + 0.2 * libm::sqrt(2.0))) as u64 / 4096 * 4096]);
    assert!(tried.len() <= 8 && tried.windows(2).all(|pair| pair[1] > pair[0] && pair[1] <= pair[0] * 8), "{tried:?}");
    assert_eq!((whole.window, whole.commands_max, whole.command_max), (windows[0], 3, Bytes::MAX));
    assert_eq!(policy.learned().map(|cost| (cost.command, cost.mib)), Some((Nanos::from_millis(1), Nanos::ZERO)));
}

#[test]
fn a_full_filesystem_that_nobody_writes_to_is_left_alone_and_a_shutdown_is_not_waited_for() {
    let windows = [TrimWindow { start: 0, len: WINDOW }];
    let observation = |now: u64, written: u64| Observation {
        now: Nanos::from_secs(now),
        written: Some(Bytes(written)),
        written_step: Bytes(512),
        free: Bytes::ZERO,
        windows: &windows,
        granule: Bytes::MAX,
        tail: Bytes::MAX,
        in_flight: 0,
        idle_since: Some(Nanos::ZERO),
        foreground_wait_max: None,
        last_trim: None,
        forced: false,
        shutting_down: false,
        on_battery: false,
    };
    let mut policy = build("adaptive:at-most=0s:at-least=1d:poll=1s");
    assert!(matches!(policy.decide(&observation(1, 1000)), Action::WaitUntil(_)));
    assert!(matches!(policy.decide(&observation(2, 1000)), Action::WaitUntil(_)), "nothing was written");
    assert!(matches!(policy.decide(&observation(3, 1512)), Action::Trim(_)), "all that is free was");
    assert_eq!(build("batched:shutdown").decide(&observation(1, 0)), Action::Nothing);
}
