//! Idle trims: collisions with foreground requests, order of extents, and what is
//! skipped.

use super::build;
use super::rig::*;
use crate::policy::*;
use crate::target::{TrimOutcome, TrimWindow};
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::discards::Amount;
use trimtab_drive::rng::Stream;

/// Arrival pattern of requests.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Poisson arrivals, per second.
    Random(u64),
    /// Fixed interval in microseconds.
    Regular(u64),
    /// This many within 20 ms, once a second.
    Bursts(u64),
    /// Alternates between 20 s of Poisson arrivals and 20 s without requests.
    InTurns(u64),
}

/// Arrival times over `seconds`, latest first.
fn arrivals(load: Load, seconds: u64, seed: u64) -> Vec<u64> {
    let mut rng = Stream::new(seed, "arrivals");
    let mut gap = |rate: u64| {
        (-libm::log(1.0 - rng.below(1 << 40) as f64 / (1_u64 << 40) as f64) * S as f64
            / rate as f64) as u64
    };
    let mut all: Vec<u64> = match load {
        Load::Random(rate) | Load::InTurns(rate) => {
            let next = |at: &u64| Some(at + gap(rate)).filter(|at| *at < seconds * S);
            let all = core::iter::successors(Some(0), next);
            all.filter(|at| !matches!(load, Load::InTurns(_)) || (at / (20 * S)).is_multiple_of(2))
                .collect()
        }
        Load::Regular(micros) => {
            (0..seconds * 1_000_000 / micros).map(|i| i * micros * 1000).collect()
        }
        Load::Bursts(many) => {
            (0..seconds * many).map(|i| i / many * S + i % many * 20 * MS / many).collect()
        }
    };
    all.reverse();
    all
}

/// Runs a pass over extents of one to sixteen units under a load.
fn pass(
    load: Load,
    drive: Drive,
    policy: &str,
    seconds: u64,
) -> (Rig, alloc::boxed::Box<dyn Policy>) {
    pass_of(load, drive, policy, seconds, 7)
}

fn pass_of(
    load: Load,
    drive: Drive,
    policy: &str,
    seconds: u64,
    seed: u64,
) -> (Rig, alloc::boxed::Box<dyn Policy>) {
    let mut rig = Rig::new(24, Bytes::MAX, drive, 1);
    (rig.tail, rig.first_come, rig.counted, rig.by_size) = (Bytes(4096), true, true, true);
    // Free extents per window: 32 units, eight, four, two, and several single ones.
    let live = [32, 41, 46, 49, 51, 53, 55, 57, 59, 61, 63];
    (0..24).for_each(|window| {
        live.iter().for_each(|unit| rig.units[window * UNITS_PER_WINDOW + unit] = Unit::Live)
    });
    rig.arrivals = arrivals(load, seconds, seed);
    let mut policy = build(policy);
    // The load is known before the trim is requested.
    rig.run(&mut *policy, 5 * S);
    (rig.requests, rig.met) = (0, 0);
    rig.forced = true;
    let step = |rig: &Rig| (rig.now + 50 * S).min(seconds * S);
    rig.run(&mut *policy, step(&rig));
    while policy.pass().running() && rig.now < seconds * S {
        rig.run(&mut *policy, step(&rig));
    }
    (rig, policy)
}

#[test]
fn under_1_percent_of_requests_meet_a_command() {
    let loads = [
        (Load::Random(200), 2 * MS),
        (Load::Random(20), 20 * MS),
        (Load::Regular(5000), 2 * MS),
        (Load::Bursts(50), 2 * MS),
        (Load::Bursts(50), 20 * MS),
        (Load::InTurns(100), 2 * MS),
        (Load::InTurns(100), 20 * MS),
    ];
    for (load, command_ns) in loads {
        let drive = Drive { command_ns, ns_per_kib: 0, ..CHEAP };
        let (mut met, mut requests) = (0, 0);
        for seed in 0..3 {
            let (rig, _) = pass_of(load, drive, "idle:complete=yes", 4000, seed);
            assert_eq!(rig.freed(), 0, "{load:?}, {command_ns} ns: all is trimmed");
            assert!(rig.stall_max <= command_ns, "{load:?}, {command_ns} ns: {} ns", rig.stall_max);
            (met, requests) = (met + rig.met, requests + rig.requests_then);
        }
        // A pass that ends within a gap or two may meet a burst that it could not
        // predict.
        let at_once = if let Load::Bursts(many) = load { many * command_ns / (20 * MS) } else { 0 };
        assert!(
            met * 100 < requests + 3 * 100 * at_once,
            "{load:?}, {command_ns} ns: {met} of {requests}"
        );
    }
}

/// For commands of a tenth of the budget, a pass used to take 200 times its commands,
/// with the same foreground wait as `fstrim`.
#[test]
fn cheap_commands_do_not_wait_for_gaps() {
    let command_ns = 150_000;
    for load in [Load::Random(200), Load::Random(2000), Load::Regular(5000), Load::InTurns(100)] {
        let (rig, _) =
            pass(load, Drive { command_ns, ns_per_kib: 0, ..CHEAP }, "idle:complete=yes", 4000);
        assert_eq!(rig.freed(), 0, "{load:?}: all is trimmed");
        assert!(
            rig.stall_max <= command_ns,
            "{load:?}: a request waits for one command, not {} ns",
            rig.stall_max
        );
        let last = rig.sent.iter().rfind(|sent| sent.1 > 0).map_or(0, |sent| sent.0);
        // Gaps are learned for a second; then come 240 extents.
        assert!(last - rig.passes[0] < 2 * S, "{load:?}: {} ms", (last - rig.passes[0]) / MS);
    }
}

/// Under fio with eight requests always in flight, 1,557 discards in 15 s delayed reads by
/// up to 67 ms: the small ones were cheap, the large ones were not.
#[test]
fn cheap_commands_wait_while_requests_are_in_flight() {
    let windows: Vec<_> =
        (0..64).map(|nth| TrimWindow { start: nth << 27, len: 1 << 27 }).collect();
    let mut policy = build("idle:complete=yes");
    let outcome = TrimOutcome {
        asked: Bytes(1 << 27),
        counted: Some(Amount::new(1, 65_536)),
        took: Nanos(50_000),
        ..TrimOutcome::default()
    };
    let mut sends = |ms: u64, in_flight: u32, last: bool| {
        let action = policy.decide(&Observation {
            by_size: true,
            requests: Some(ms),
            in_flight,
            idle_since: (in_flight == 0).then(|| Nanos::from_millis(ms)),
            forced: ms == 0,
            last_trim: Some(&outcome).filter(|_| last),
            ..Observation::of(Nanos::from_millis(ms), &windows)
        });
        matches!(action, Action::Trim(_))
    };
    let (mut last, mut sent) = (false, 0);
    for ms in 0..20_000 {
        last = sends(ms, 0, last);
        sent += u32::from(last);
        if sent == 12 && last {
            break;
        }
    }
    assert_eq!(sent, 12, "the cost is known");
    assert!(sends(20_000, 0, true), "cheap commands follow each other");
    // One is within the account of collisions.
    last = true;
    let sent = (20_001..20_051).filter(|ms| {
        last = sends(*ms, 8, last);
        last
    });
    assert!(sent.count() <= 1, "requests are in flight");
}

#[test]
fn cheap_commands_stay_within_share_over_passes() {
    let drive = Drive { command_ns: 900_000, ns_per_kib: 0, ..CHEAP };
    let (mut rig, mut policy) = pass(Load::Random(200), drive, "idle:complete=yes", 400);
    assert_eq!(rig.freed(), 0);
    // Repeated passes; everything is freed again before each.
    let (begun, commands, requests, met) = (rig.now, rig.commands, rig.requests, rig.met);
    while rig.now < 390 * S {
        rig.units
            .iter_mut()
            .filter(|unit| **unit == Unit::Trimmed)
            .for_each(|unit| *unit = Unit::Freed);
        rig.forced = !policy.pass().running();
        rig.run(&mut *policy, rig.now + S);
    }
    let (time, commands) = (rig.now - begun, rig.commands - commands);
    assert!(commands > 500, "{commands}");
    assert!(
        commands * drive.command_ns * 1000 <= time * 7,
        "{commands} commands in {} s",
        time / S
    );
    let (met, requests) = (rig.met - met, rig.requests - requests);
    assert!(met * 100 < requests, "{met} of {requests}");
}

#[test]
fn regular_load_gaps_hold_commands_without_collisions() {
    // 4.5 ms between requests fit a 1 ms command: one per gap, hardly any collisions.
    let (rig, _) = pass(
        Load::Regular(5000),
        Drive { command_ns: MS, ns_per_kib: 0, ..CHEAP },
        "idle:complete=yes",
        3000,
    );
    let (first, last) = (
        rig.sent.first().map_or(0, |sent| sent.0),
        rig.sent.iter().rfind(|sent| sent.1 > 0).map_or(0, |sent| sent.0),
    );
    // At random times, the limit would allow at most seven per second.
    let per_second = rig.commands as f64 / ((last - first) as f64 / S as f64);
    assert!(per_second > 20.0, "{per_second} commands per second");
    assert!(rig.met <= 8, "{}", rig.met);
}

#[test]
fn largest_extents_are_sent_first() {
    let (rig, _) = pass(
        Load::Random(200),
        Drive { command_ns: 150_000, ns_per_kib: 0, ..CHEAP },
        "idle:complete=yes",
        3000,
    );
    let sent: Vec<(u64, u64)> = rig.sent.iter().copied().filter(|sent| sent.1 > 0).collect();
    let all: u64 = sent.iter().map(|sent| sent.1).sum();
    // After trials: two of ten extents hold 32 and 8 of the 53 free units in each window.
    let half = sent[..sent.len() / 2].iter().map(|sent| sent.1).sum::<u64>();
    assert!(half * 100 >= all * 75, "{half} of {all} with half of the commands");
    let sizes: Vec<u64> = sent.iter().map(|sent| sent.1).collect();
    let last = &sizes[sizes.len() - 24 * 8..];
    assert!(last.iter().all(|size| *size <= 2 * UNIT), "the smallest last: {last:?}");
}

#[test]
fn extents_not_worth_their_latency_are_left_with_remark() {
    let drive = Drive { command_ns: 100 * MS, ns_per_kib: 0, ..CHEAP };
    let load = Load::Random(50);
    let (rig, policy) = pass(load, drive, "idle", 40_000);
    let (freed, remark) = (rig.freed(), policy.remark().unwrap_or_default());
    assert!(freed > 0 && freed < 24 * 53, "{freed}");
    assert!(remark.contains("were skipped: on average a command for them took 100 ms"), "{remark}");
    assert!(!policy.pass().running(), "and the pass is over");
    // With `complete`, it sends all.
    let (rig, policy) = pass(load, drive, "idle:complete=yes", 40_000);
    assert_eq!(
        (rig.freed(), policy.remark().filter(|remark| remark.contains("were skipped"))),
        (0, None::<String>)
    );
    // Without a foreground load, it sends all as well.
    let mut rig = Rig::new(24, Bytes::MAX, drive, 1);
    (rig.tail, rig.counted, rig.by_size, rig.forced) = (Bytes(4096), true, true, true);
    (0..24 * UNITS_PER_WINDOW).step_by(2).for_each(|unit| rig.units[unit] = Unit::Live);
    let mut policy = build("idle");
    rig.run(&mut *policy, 4000 * S);
    assert_eq!(rig.freed(), 0);
}

#[test]
fn pass_ends_within_finish_within() {
    let drive = Drive { command_ns: 20 * MS, ns_per_kib: 0, ..CHEAP };
    let spans = ["idle:complete=yes", "idle:finish-within=60s"].map(|policy| {
        let (rig, _) = pass(Load::Random(100), drive, policy, 3000);
        assert_eq!(rig.freed(), 0, "{policy}");
        (rig.sent[rig.sent.len() - 1].0 - rig.passes[0]) / S
    });
    assert!(spans[0] > 200 && spans[1] <= 60, "{spans:?} s");
}

/// Observed: 3,400 requests of one extent each took seven times the allotted time. A
/// repeated pass sent 5.4 GB where 2.71 GB were free.
#[test]
fn after_finish_within_remaining_extents_are_sent_once() {
    let windows = [0, 1, 2].map(|nth| TrimWindow { start: nth << 27, len: 1 << 27 });
    let mut policy = build("idle:finish-within=10s");
    let asked = |bytes| Some(TrimOutcome { asked: Bytes(bytes), ..TrimOutcome::default() });
    let seen = |seconds: u64| Observation {
        by_size: true,
        requests: Some(seconds * 100),
        in_flight: 1,
        ..Observation::of(Nanos::from_secs(seconds), &windows)
    };
    let mut last = None;
    for second in 0..10 {
        let outcome = last.take();
        let action = policy.decide(&Observation {
            forced: second == 0,
            last_trim: outcome.as_ref(),
            ..seen(second)
        });
        if let Action::Trim(request) = action {
            assert!(request.sizes.is_some(), "{second} s: {request:?}");
            last = asked(1 << 20);
        }
    }
    // The round for 16 MiB and more continues where it was. The last one sends the rest.
    let large = Bytes(16 << 20);
    let expected = windows
        .map(|window| (window, 0, large, Bytes::MAX))
        .into_iter()
        .chain(windows.map(|window| (window, 1, Bytes::ZERO, large)));
    for (window, round, min_extent, below) in expected {
        let outcome = last.take();
        let Action::Trim(request) =
            policy.decide(&Observation { last_trim: outcome.as_ref(), ..seen(10) })
        else {
            panic!("it waits")
        };
        let end = |window: TrimWindow| window.start + window.len;
        assert_eq!(end(request.window), end(window));
        let sizes = Some(ExtentSizeClasses { below, round, rounds: 2 });
        let whole = TrimRequest::whole(request.window, min_extent);
        assert_eq!(request, TrimRequest { sizes, ..whole });
        last = asked(request.window.len);
    }
    // A pass requested during the current one has ten seconds of its own.
    let outcome = last.take();
    let action =
        policy.decide(&Observation { forced: true, last_trim: outcome.as_ref(), ..seen(10) });
    assert!(!matches!(action, Action::Trim(TrimRequest { commands_max: 0, .. })), "{action:?}");
    let mut unlimited = 0;
    for second in 20..60 {
        let outcome = last.take();
        let Action::Trim(request) =
            policy.decide(&Observation { last_trim: outcome.as_ref(), ..seen(second) })
        else {
            break;
        };
        unlimited += u64::from(request.commands_max == 0);
        last = asked(request.window.len);
    }
    assert!(!policy.pass().running());
    assert_eq!(unlimited, 6);
}

/// A command limit stops the queue twice: to lower the limit and to restore it.
#[test]
fn cheap_groups_need_no_command_limit_after_trials() {
    const GROUP: u64 = 128 << 20;
    let windows: Vec<TrimWindow> =
        (0..40).map(|nth| TrimWindow { start: nth * GROUP, len: GROUP }).collect();
    let mut policy = build("idle");
    let (mut last, mut tried) = (None, 0);
    for ms in 0..1000 {
        let outcome: Option<TrimOutcome> = last.take();
        let seen = Observation::of(Nanos::from_millis(ms), &windows);
        let seen = Observation {
            by_size: true,
            requests: Some(0),
            idle_since: Some(Nanos::ZERO),
            tail: Bytes(4096),
            free: Bytes(40 * GROUP),
            ..seen
        };
        let action =
            policy.decide(&Observation { forced: ms == 0, last_trim: outcome.as_ref(), ..seen });
        let Action::Trim(request) = action else { continue };
        if !request.trial {
            assert!(request.command_max >= Bytes(GROUP), "{request:?}");
            assert_eq!(tried, 16 << 20);
            return;
        }
        // No extent is shorter than a group, and a tail costs 0.3 ms.
        let sent = if request.sizes.is_some() { 0 } else { request.window.len };
        tried = tried.max(sent);
        let counted = Some(trimtab_drive::discards::Amount::new(u64::from(sent > 0), sent));
        last = Some(TrimOutcome {
            asked: Bytes(request.window.len),
            counted,
            took: Nanos(300_000),
            ..TrimOutcome::default()
        });
    }
    panic!("no group was sent, {tried} tried");
}

/// Observed on a Vertex LE: short extents and the last 256 KiB of each group hold data
/// and cost 0.261 ms per 4 KiB; other free space was never written and costs one command.
/// In 56 KiB pieces one extent took 2,000 commands of 3.56 ms, and requests waited 5 s.
#[test]
fn cheap_free_groups_are_not_split_for_costly_extents() {
    const GROUP: u64 = 128 << 20;
    const HOLE: u64 = 512 << 10;
    const WRITTEN: u64 = 256 << 10;
    let windows: Vec<TrimWindow> =
        (0..40).map(|nth| TrimWindow { start: nth * GROUP, len: GROUP }).collect();
    let mut policy = build("idle:complete=yes");
    let (mut last, mut stalls, mut waited, mut requests, mut now) =
        (None::<TrimOutcome>, Vec::new(), None, 0, 0);
    for look in 0..4_000_000 {
        let outcome = last.take();
        let observation = Observation {
            by_size: true,
            requests: Some(requests),
            idle_since: Some(Nanos(now - now % (5 * MS))),
            tail: Bytes(4096),
            free: Bytes(40 * GROUP),
            forced: look == 0,
            foreground_wait_max: waited.take().map(Nanos),
            last_trim: outcome.as_ref(),
            ..Observation::of(Nanos(now), &windows)
        };
        match policy.decide(&observation) {
            Action::Trim(request) => {
                let sizes =
                    request.sizes.map_or(0..u64::MAX, |sizes| request.min_extent.0..sizes.below.0);
                let [is_hole, is_group] =
                    [HOLE, GROUP].map(|len| request.sizes.is_some() && sizes.contains(&len));
                let (bytes, mapped) = match (is_group, is_hole) {
                    (true, _) => (request.window.len, WRITTEN),
                    (_, true) => (HOLE, HOLE),
                    _ if request.sizes.is_none() => {
                        (request.window.len, request.window.len.min(WRITTEN))
                    }
                    _ => (0, 0),
                };
                let commands = bytes.div_ceil(request.command_max.0.max(1));
                let took = commands * 3_560_000 + mapped / 4096 * 261_000;
                if is_group {
                    stalls.push(took / MS);
                }
                last = Some(TrimOutcome {
                    asked: Bytes(request.window.len),
                    counted: Some(trimtab_drive::discards::Amount::new(commands, bytes)),
                    took: Nanos(took),
                    ..TrimOutcome::default()
                });
                // A request that arrives during the trim waits for all of it.
                waited = Some(took).filter(|took| *took > 5 * MS);
                now += took;
            }
            Action::WaitUntil(until) => now = until.0,
            Action::Nothing => break,
        }
        requests = now / (5 * MS);
        if stalls.len() == 40 {
            break;
        }
    }
    assert_eq!(stalls.len(), 40);
    // 16.7 ms for written data, plus commands: sqrt(128 MiB / 64 KiB) = 45, or 161 ms,
    // and fewer once foreground requests are seen to wait for all of them. 2,048 take
    // 7,291 ms.
    assert!(stalls.iter().all(|ms| *ms < 250), "{stalls:?} ms");
    assert!(stalls[2..].iter().all(|ms| *ms < 60), "{stalls:?} ms");
}

/// Observed with small writes: a trim ended after 4 of 551 MB, all of them trials,
/// because foreground requests had waited for these.
#[test]
fn largest_extents_are_sent_whatever_the_foreground_wait() {
    for seed in 0..3 {
        let drive = Drive { command_ns: 2 * S, ns_per_kib: 0, ..CHEAP };
        let (rig, policy) = pass_of(Load::Random(50), drive, "idle", 200_000, seed);
        assert!(!policy.pass().running(), "the pass is over");
        // At least 32 of 53 units per window; a write or two may arrive during the pass.
        assert!(rig.freed() <= 24 * 21 + 8, "{} units were left", rig.freed());
        let remark = policy.remark().unwrap_or_default();
        assert!(!remark.contains("TB"), "{remark}");
    }
}
