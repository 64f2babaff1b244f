//! Idle trims on every shipped drive with TRIM: learned cost, latency, commands.

use crate::op::Payload;
use crate::policy::{PolicySpec, PolicyState};
use crate::volume::steered::*;
use crate::volume::{Age, VolumeSpec};
use alloc::format;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{Model, build, sized};
use trimtab_drive::shipped;
use trimtab_drive::spec::DriveSpec;

type Target = SteeredVolume<Box<dyn Model>>;

/// A filesystem of a few GiB, 60 % full with free extents of 512 KiB, all written before.
fn in_use(spec: &DriveSpec) -> Target {
    let spec = [4_u64, 8, 16, 32]
        .into_iter()
        .find_map(|gib| sized(spec.clone(), Some(Bytes(gib << 30))).ok())
        .unwrap();
    let mut volume_spec = VolumeSpec::ext4();
    volume_spec.mkfs.discard = false;
    let mut volume = Volume::format(build(&spec, 1).unwrap(), volume_spec, Nanos::ZERO).unwrap();
    let age = Age {
        fill: 0.6,
        free_extent: Bytes(512 << 10),
        class: DataClass::Random,
        write: true,
        seed: 1,
    };
    volume.age_like(&age, &[]).unwrap();
    volume.write_free(1.0, DataClass::Random, 1);
    let now = volume.now();
    let mut target = SteeredVolume::new(volume, policy("none"), Bytes(1024));
    target.idle_until(now + Nanos::from_secs(60));
    target
}

fn policy(text: &str) -> Box<dyn Policy> {
    text.parse::<PolicySpec>().unwrap().build(&PolicyState::default())
}

/// Syncs a small file every 50 ms, or until the pass ends. Returns sorted durations.
fn files(target: &mut Target, most: usize, during_pass: bool) -> Vec<Nanos> {
    let mut took = Vec::new();
    while took.len() < most && (!during_pass || took.is_empty() || target.pass_under_way()) {
        let due = target.now() + Nanos::from_millis(50);
        target.idle_until(due);
        let (path, began) = (format!("f{}", due.0), target.now());
        target.create(&path, &Payload::Fill { len: BLOCK, class: DataClass::Random }).unwrap();
        target.volume_mut().fsync(&path).unwrap();
        took.push(target.now() - began);
    }
    took.sort_unstable();
    took
}

/// Waits for a pass. Returns its commands and its duration.
fn pass(target: &mut Target) -> (u64, Nanos) {
    let began = target.now();
    while target.log().trims == 0 || target.pass_under_way() {
        let next = target.now() + Nanos::from_millis(100);
        target.idle_until(next);
    }
    (target.log().sent.count, target.now() - began)
}

/// Specified nanoseconds per command with one range, and per MiB.
fn nominal(spec: &DriveSpec) -> (f64, f64) {
    let trim = &spec.flash.trim;
    let command = trim.command_ns
        + trim.range_ns
        + spec.interface.latency_ns
        + spec.interface.command_overhead_ns;
    let mib = (trim.unit_ns << 20) as f64 / 4096.0 + trim.gb_ns as f64 * 1.048_576e-3;
    (command as f64, mib)
}

/// `TRIMTAB_IDLE_FILES=20000` and `--nocapture` give the figures of docs/idle-trims.csv.
#[test]
fn idle_trim_learns_shipped_drives_without_extra_commands() {
    let most =
        std::env::var("TRIMTAB_IDLE_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for drive in shipped::drives().into_iter().filter(|drive| drive.spec.flash.trim.supported) {
        let name = &drive.spec.name;
        let used = in_use(&drive.spec);
        let begun = |policy| {
            let mut target = used.fork(policy);
            target.force();
            target
        };
        let undisturbed = files(&mut used.fork(policy("idle")), 20, false);
        let mut concurrent = begun(policy("idle"));
        let (began, disturbed) = (concurrent.now(), files(&mut concurrent, most, true));
        let (took_concurrent, sent_concurrent) =
            (concurrent.now() - began, concurrent.log().sent.count);
        let mut alone = begun(policy("idle"));
        let ((at_once, _), (sent, took)) = (pass(&mut begun(policy("none"))), pass(&mut alone));

        let (command, mib) = nominal(&drive.spec);
        let learned = alone.policy().learned().unwrap();
        let (size, error) = (used.volume().drive().size(), learned.error.as_f64());
        let share = |share: f64| disturbed[((disturbed.len() - 1) as f64 * share) as usize].0;
        std::println!(
            "{name},{},{command},{mib},{},{},{},{at_once},{sent},{},{},{sent_concurrent},{},{},{},{}",
            size.0,
            learned.command.0,
            learned.error.0,
            learned.mib.0,
            took.0,
            took_concurrent.0,
            share(0.5),
            share(0.9),
            share(0.99),
            share(1.0)
        );
        assert!(
            (learned.command.as_f64() - command).abs() <= 2.0 * error,
            "{name}: {learned}, nominal {command} ns"
        );
        // Half a MiB is the typical size here.
        assert!(
            (learned.mib.as_f64() - mib).abs() / 2.0 <= 2.0 * error,
            "{name}: {learned}, nominal {mib} ns per MiB"
        );
        assert!(error <= (command + mib / 2.0) * 0.1, "{name}: the error is too large: {learned}");

        // A sync is five requests, and each may meet a command.
        let smallest = command + mib / 16.0;
        let expensive = smallest > 5e6;
        let wait = if expensive { 2.2 * smallest } else { 5e6 };
        let (longest, without) =
            (disturbed[disturbed.len() - 1], undisturbed[undisturbed.len() - 1]);
        assert!(
            longest.as_f64() <= without.as_f64() + 5.0 * wait,
            "{name}: {longest}, {without} without a trim"
        );
        assert_eq!(alone.policy().remark().is_some(), expensive, "{name}");
        // At high byte cost, extents of 512 KiB are split into about eight.
        let commands_max = if expensive { at_once * 9 } else { at_once + at_once / 20 + 60 };
        assert!(sent <= commands_max, "{name}: {sent} commands, {at_once} at once");
        // Commands, bytes, rests seven times as long if expensive, and waits for polls.
        let costs = sent as f64 * command + alone.log().sent.bytes.as_f64() / 1_048_576.0 * mib;
        let rests = if expensive { 8.0 } else { 1.0 };
        assert!(
            took.as_f64() <= costs * rests * 1.1 + 1e9,
            "{name}: {took} for {sent} commands of {command} ns"
        );
    }
}
