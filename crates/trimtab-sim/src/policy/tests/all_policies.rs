//! Properties of every policy.

use super::build;
use super::rig::*;
use crate::policy::*;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every policy trims all freed space in its period, across restarts and failures.
    #[test]
    fn every_freed_byte_is_eventually_trimmed(
        seed: u64,
        which in prop::sample::select(vec!["batched:every=1d", "batched:nightly=3h", "adaptive:at-least=2d", "idle", "idle:patience=1s"]),
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
        let mut policy = spec.build(&PolicyState::default());
        for _ in 0..20 {
            rig.write_and_free(40);
            let pause = rig.rng.below(DAY / 4);
            rig.run(&mut *policy, rig.now + pause);
            policy = spec.build(&policy.state());
        }
        rig.fail_share = 0.0;
        if busy {
            // A request every 5 ms for two minutes, then idle. Patience must get through.
            rig.arrivals = (0..24_000).map(|i| rig.now + i * 5 * MS).rev().collect();
        }
        // Two periods plus the longest retry delay.
        let until = rig.now + 6 * DAY;
        rig.run(&mut *policy, until);
        prop_assert_eq!(rig.freed(), 0, "{}", which);
    }
}

#[test]
fn forced_pass_runs_under_every_policy() {
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
fn battery_allows_forced_passes_only() {
    for text in ["batched:every=1s", "adaptive:at-least=1s", "idle:at-least=1s"] {
        let mut policy = build(text);
        let window = [TrimWindow { start: 0, len: WINDOW }];
        let observation = Observation {
            written: Some(Bytes(1 << 40)),
            free: Bytes(1 << 30),
            idle_since: Some(Nanos::ZERO),
            on_battery: true,
            ..Observation::of(Nanos::from_secs(100), &window)
        };
        for now in 100..200 {
            let action =
                policy.decide(&Observation { now: Nanos::from_secs(now), ..observation.clone() });
            assert!(!matches!(action, Action::Trim(_)), "{text}");
        }
        let action = policy.decide(&Observation {
            now: Nanos::from_secs(300),
            forced: true,
            ..observation.clone()
        });
        assert!(matches!(action, Action::Trim(_)), "{text}");
    }
}

#[test]
fn failed_window_is_kept_and_retried_with_backoff() {
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

/// Reported state of a pass in progress, and the state stored for it.
#[test]
fn pass_progress_survives_restart_under_every_policy() {
    let mut now: Box<dyn Policy> =
        Box::new(ManualPolicy::now(Bytes::ZERO, &PolicyState::default()));
    assert_eq!((now.name(), now.pass().running()), ("now", false));
    for text in PolicySpec::NAMES.into_iter().chain(["now"]) {
        let (spec, is_now) =
            (text.parse::<PolicySpec>().unwrap_or(PolicySpec::None), text == "now");
        let build = |state: &PolicyState| {
            if is_now { Box::new(ManualPolicy::now(Bytes::ZERO, state)) } else { spec.build(state) }
        };
        let mut policy = if is_now {
            core::mem::replace(&mut now, build(&PolicyState::default()))
        } else {
            build(&PolicyState::default())
        };
        let mut rig = Rig::new(3, Bytes::MAX, CHEAP, 1);
        rig.now = S;
        let said = |policy: &dyn Policy| {
            (policy.pass().running(), policy.pass().another_follows(), policy.remark())
        };
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
        // The pass in progress ends, then one more follows.
        rig.run(&mut *again, 100 * S);
        assert_eq!(
            (said(&*again), rig.freed(), rig.passes.len()),
            ((false, false, None), 0, 2),
            "{text}"
        );
    }
}

#[test]
fn forced_pass_stays_forced_after_restart() {
    // Neither battery nor schedule delays it, even after a restart.
    let window = [TrimWindow { start: 0, len: WINDOW }, TrimWindow { start: WINDOW, len: WINDOW }];
    let observation = |forced| Observation {
        free: Bytes(1 << 30),
        idle_since: Some(Nanos::ZERO),
        forced,
        on_battery: true,
        ..Observation::of(Nanos::from_secs(100), &window)
    };
    for text in PolicySpec::NAMES {
        let mut policy = build(text);
        assert!(matches!(policy.decide(&observation(true)), Action::Trim(_)), "{text}");
        let mut again = text.parse::<PolicySpec>().unwrap().build(&policy.state());
        assert!(matches!(again.decide(&observation(false)), Action::Trim(_)), "{text}");
    }
}
