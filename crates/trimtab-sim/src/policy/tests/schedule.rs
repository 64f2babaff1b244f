//! Start of passes: by bytes written, on a schedule.

use super::build;
use super::rig::*;
use crate::policy::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The trigger fires within one step of its threshold, across restarts.
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
        let mut policy = spec.build(&PolicyState::default());
        rig.run(&mut *policy, S);
        let mut lost = 0;
        for i in 0..400 {
            rig.written += 97 << 20;
            if i == reset_at {
                // Reboot: a coarse counter loses the writes after its last step.
                lost = step;
                rig.counter_base = rig.written;
            }
            if i == restart_at {
                policy = spec.build(&policy.state());
            }
            rig.run(&mut *policy, rig.now + 10 * S);
        }
        // The counter was polled every 97 MiB.
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
fn adaptive_with_stuck_counter_uses_longest_interval() {
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
fn adaptive_with_64_gib_counter_steps_fires_at_first_step() {
    // The step exceeds the threshold by far.
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
fn adaptive_keeps_minimum_interval() {
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
fn nightly_runs_at_its_hour_and_catches_up() {
    let mut rig = Rig::new(2, Bytes::MAX, CHEAP, 1);
    let spec: PolicySpec = "batched:nightly=3h".parse().unwrap();
    let mut policy = spec.build(&PolicyState::default());
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
fn adaptive_keeps_minimum_interval_after_restart() {
    let spec: PolicySpec = "adaptive:at-most=1h:at-least=10h".parse().unwrap();
    let mut rig = Rig::new(1, Bytes::MAX, CHEAP, 1);
    let mut policy = spec.build(&PolicyState::default());
    rig.run(&mut *policy, S);
    rig.written += 1 << 40;
    rig.run(&mut *policy, 60 * S);
    assert_eq!(rig.passes.len(), 1, "no minimum interval before the first");
    policy = spec.build(&policy.state());
    rig.written += 1 << 40;
    rig.run(&mut *policy, 3500 * S);
    assert_eq!(rig.passes.len(), 1, "an hour has not passed");
    rig.run(&mut *policy, 3700 * S);
    assert_eq!(rig.passes.len(), 2);
}

#[test]
fn untouched_full_filesystem_is_left_alone() {
    let windows = [TrimWindow { start: 0, len: WINDOW }];
    let observation = |now: u64, written: u64| Observation {
        written: Some(Bytes(written)),
        free: Bytes::ZERO,
        idle_since: Some(Nanos::ZERO),
        ..Observation::of(Nanos::from_secs(now), &windows)
    };
    let mut policy = build("adaptive:at-most=0s:at-least=1d:poll=1s");
    assert!(matches!(policy.decide(&observation(1, 1000)), Action::WaitUntil(_)));
    assert!(
        matches!(policy.decide(&observation(2, 1000)), Action::WaitUntil(_)),
        "nothing was written"
    );
    assert!(
        matches!(policy.decide(&observation(3, 1512)), Action::Trim(_)),
        "all free space was written"
    );
}
