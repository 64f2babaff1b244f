//! Idle trims: foreground latency, number of commands, and termination.

use super::build;
use super::rig::*;
use crate::policy::*;
use alloc::vec::Vec;
use proptest::prelude::*;
use trimtab_drive::discards::Amount;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No foreground request waits longer than the budget on a drive of unknown trim
    /// cost, provided the smallest piece fits the budget.
    #[test]
    fn idle_foreground_wait_stays_within_budget(
        seed: u64,
        command_us in 0..2000_u64,
        // Up to 20 ms per MiB; an OCZ Vertex LE takes 9.
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
        prop_assert_eq!(rig.freed(), 0, "all is trimmed");
    }

    /// If even one TRIM exceeds the budget whatever its size: no wait exceeds two of the
    /// smallest, few commands are sent, the device rests most of the time, everything is
    /// trimmed, and the policy reports that the budget is not met.
    #[test]
    fn idle_sends_few_commands_when_each_exceeds_budget(
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
        prop_assert_eq!(rig.freed(), 0, "all is trimmed");
        let smallest = command_us * 1000 + ns_per_kib * 64;
        // Only a window's mean is known: the last piece may be short, others more
        // expensive.
        prop_assert!(rig.stall_max <= smallest * 4, "waited {} ns, the smallest takes {}", rig.stall_max, smallest);
        let remark = policy.remark();
        prop_assert!(remark.as_ref().is_some_and(|text| text.contains("budget of 5.00 ms")), "{:?}", remark);
        let again = "idle".parse::<PolicySpec>().unwrap().build(&policy.state());
        prop_assert_eq!(again.remark(), remark, "restored from state");
    }
}

#[test]
fn idle_learns_piece_size_from_cost() {
    // At 9 ms per MiB 5.69e5 bytes take 5 ms, minus an error of a few percent. The second
    // drive allows any size, such as whole windows.
    let within = 4_999_000 * 1024 / 9_000;
    for (ns_per_kib, from, to) in [(9_000, within / 10 * 9, within), (0, WINDOW, 1 << 30)] {
        let mut rig = Rig::new(64, Bytes(4096), Drive { ns_per_kib, command_ns: 1000, ..CHEAP }, 1);
        let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
        for _ in 0..10 {
            rig.units.fill(Unit::Freed);
            rig.forced = true;
            rig.run(&mut policy, rig.now + 1000 * S);
        }
        assert!(
            (from..=to).contains(&policy.piece().0),
            "{} at {ns_per_kib} ns/KiB",
            policy.piece()
        );
        let again = IdlePolicy::new(IdleSettings::default(), &policy.state());
        assert_eq!(again.piece(), policy.piece(), "restored from state");
    }
}

#[test]
fn idle_sends_few_commands_at_fixed_cost() {
    // 64 KiB pieces would be 65,536 commands of 6 ms for 4 GiB of undivided windows.
    let mut rig =
        Rig::new(1024, Bytes::MAX, Drive { ns_per_kib: 0, command_ns: 6_000_000, ..CHEAP }, 1);
    let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
    rig.forced = true;
    rig.run(&mut policy, 50_000 * S);
    assert_eq!(rig.freed(), 0);
    assert!(policy.piece().0 >= WINDOW, "{}", policy.piece());
    let whole = rig.commands;
    assert!(whole < 1024 + 500, "{whole} commands for 1024 windows");
}

#[test]
fn idle_sends_few_commands_without_io_scheduler() {
    // As on a loop device or any other without a scheduler: all commands of a window are
    // queued at once, and 64 cheap ones delay other requests by 10 ms or more.
    let drive = Drive { ns_per_kib: 0, command_ns: 200_000, ..CHEAP };
    let mut rig = Rig::new(512, Bytes::MAX, drive, 1);
    rig.first_come = true;
    rig.arrivals = (0..200_000).map(|i| i * 5 * MS).rev().collect();
    let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
    rig.forced = true;
    rig.run(&mut policy, 1000 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands < 512 + 256, "{} commands for 512 windows", rig.commands);
    assert!(
        rig.stall_max <= 13 * MS,
        "at most the 64 commands of the first window: {} ns",
        rig.stall_max
    );
}

#[test]
fn idle_tries_tails_before_tiny_commands() {
    // The trial measures the cost before the first window, so requests do not queue.
    let cheap = Drive { ns_per_kib: 0, command_ns: 200_000, ..CHEAP };
    // An expensive command is detected before the first window is sent in 64 of them.
    let expensive = Drive { ns_per_kib: 0, command_ns: 148 * MS, ..CHEAP };
    for (drive, stall_max) in [(cheap, MS), (expensive, 149 * MS)] {
        let mut rig = Rig::new(512, Bytes::MAX, drive, 1);
        rig.tail = Bytes(4096);
        rig.first_come = true;
        rig.arrivals = (0..200_000).map(|i| i * 5 * MS).rev().collect();
        let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
        rig.forced = true;
        rig.run(&mut policy, 10_000 * S);
        assert_eq!(rig.freed(), 0);
        assert!(rig.commands <= 512 + 12, "{} commands for 512 windows", rig.commands);
        assert!(rig.stall_max <= stall_max, "{} ns", rig.stall_max);
    }
}

#[test]
fn idle_splits_fragmented_window_into_short_requests() {
    let expensive = Drive { ns_per_kib: 0, command_ns: 148 * MS, ..CHEAP };
    let cheap = Drive { ns_per_kib: 0, command_ns: 300_000, ..CHEAP };
    for (drive, stall_max) in [(expensive, 149 * MS), (cheap, 5 * MS)] {
        let mut rig = Rig::new(16, Bytes::MAX, drive, 1);
        rig.tail = Bytes(4096);
        rig.first_come = true;
        // Thirty-two holes in each window; the last four windows are entirely free.
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
fn idle_ignores_a_single_delayed_trial() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    rig.tail = Bytes(4096);
    let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
    rig.forced = true;
    while !matches!(rig.decide(&mut policy), Action::Trim(_)) {
        rig.now += 100 * MS;
    }
    // The first took 6 ms.
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
fn idle_trials_end_when_device_splits_commands() {
    // Two commands of half a piece each, at a cost that would allow twice the piece.
    for device_max in [256 << 10, 384 << 10, 2 << 20] {
        for command_ns in [300_000, 700_000, 1_000_000] {
            let mut rig = Rig::new(64, Bytes::MAX, Drive { command_ns, ns_per_kib: 0, ..CHEAP }, 1);
            (rig.tail, rig.device_max) = (Bytes(4096), device_max);
            let mut policy = build("idle");
            rig.forced = true;
            rig.run(&mut *policy, 100 * S);
            assert_eq!(rig.freed(), 0);
            assert!(
                rig.commands <= 64 * WINDOW.div_ceil(device_max) + 160,
                "{} of {device_max}",
                rig.commands
            );
        }
    }
}

#[test]
fn idle_requires_full_quiet_after_load_ends() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
    rig.arrivals = (0..10_000).map(|i| i * MS).rev().collect();
    rig.forced = true;
    rig.run(&mut policy, 10 * S);
    rig.forced = true;
    rig.run(&mut policy, 1000 * S);
    // A request, and 20 ms later a forced pass: it waits.
    rig.last_request = rig.now - 20 * MS;
    rig.forced = true;
    let action = rig.decide(&mut policy);
    assert!(matches!(action, Action::WaitUntil(_)), "{action:?} {policy:?}");
}

#[test]
fn idle_learns_cost_when_most_groups_have_nothing_free() {
    // As after a pass by another process: tails of all windows but one send nothing.
    let mut rig =
        Rig::new(64, Bytes::MAX, Drive { command_ns: 148 * MS, ns_per_kib: 0, ..CHEAP }, 1);
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
fn idle_trials_end_at_piece_max() {
    let mut rig = Rig::new(64, Bytes::MAX, CHEAP, 1);
    rig.tail = Bytes(4096);
    let settings = IdleSettings { piece_max: Bytes(1 << 20), ..IdleSettings::default() };
    let mut policy = IdlePolicy::new(settings, &PolicyState::default());
    rig.forced = true;
    rig.run(&mut policy, 100 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.commands <= 64 * 4 + 8, "{}", rig.commands);
}

#[test]
fn idle_trials_end_when_nothing_is_free() {
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
fn idle_detects_that_budget_has_become_reachable() {
    let mut rig =
        Rig::new(64, Bytes(4096), Drive { ns_per_kib: 0, command_ns: 8_000_000, ..CHEAP }, 1);
    let mut policy = IdlePolicy::new(IdleSettings::default(), &PolicyState::default());
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
fn idle_shortens_quiet_on_a_busy_device() {
    let mut rig = Rig::new(4, Bytes(4096), CHEAP, 1);
    let mut policy = build("idle:patience=1d");
    // A request every 5 ms for a minute: never 100 ms of quiet.
    rig.arrivals = (0..12_000).map(|i| i * 5 * MS).rev().collect();
    rig.forced = true;
    rig.run(&mut *policy, 60 * S);
    assert_eq!(rig.freed(), 0);
    assert!(rig.passes[0] > 400 * MS, "not before it had waited for more quiet: {:?}", rig.passes);
}

#[test]
fn idle_tries_tails_of_undivided_windows_first() {
    let windows =
        [TrimWindow { start: 0, len: 64 << 20 }, TrimWindow { start: 64 << 20, len: 64 << 20 }];
    let observation = Observation {
        free: Bytes(1 << 30),
        tail: Bytes(4096),
        idle_since: Some(Nanos::ZERO),
        ..Observation::of(Nanos::from_secs(1), &windows)
    };
    let mut policy = build("idle:budget=5ms");
    let mut action = policy.decide(&Observation { forced: true, ..observation.clone() });
    let mut tried = Vec::new();
    let whole = loop {
        let Action::Trim(request) = action else { panic!("{action:?}") };
        if !request.trial {
            break request;
        }
        // At 1 ms each, three or four fit the budget with the error.
        let few = if tried.is_empty() { 1..=1 } else { 2..=3 };
        assert!(
            few.contains(&request.commands_max),
            "one command suffices before the cost is known: {request:?}"
        );
        assert!(
            windows.iter().any(|w| w.start + w.len == request.window.start + request.window.len),
            "{request:?}"
        );
        tried.push(request.window.len);
        // Each takes a millisecond, whatever its size.
        let bytes = request.window.len;
        let outcome = TrimOutcome {
            asked: Bytes(bytes),
            returned: Bytes(bytes),
            counted: Some(Amount::new(1, bytes)),
            took: Nanos::from_millis(1),
        };
        action = policy.decide(&Observation { last_trim: Some(&outcome), ..observation.clone() });
    };
    // The second may cost five times as much per byte, with twice the error of a tenth.
    assert_eq!(
        tried[..2],
        [64 << 10, (65_536.0 * 5.0 / (1.0 + 0.2 * libm::sqrt(2.0))) as u64 / 4096 * 4096]
    );
    assert!(
        tried.len() <= 8
            && tried.windows(2).all(|pair| pair[1] > pair[0] && pair[1] <= pair[0] * 8),
        "{tried:?}"
    );
    assert_eq!((whole.window, whole.commands_max, whole.command_max), (windows[0], 3, Bytes::MAX));
    assert_eq!(
        policy.learned().map(|cost| (cost.command, cost.mib)),
        Some((Nanos::from_millis(1), Nanos::ZERO))
    );
}
