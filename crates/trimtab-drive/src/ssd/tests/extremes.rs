//! Extreme values of every field never panic; commands past the drive's clock are
//! refused.

use super::small;
use crate::data::DataClass;
use crate::rng::Stream;
use crate::spec::*;
use crate::ssd::*;

const HOUR_NS: u64 = 3_600_000_000_000;
const TIB: u64 = 1 << 40;
/// Cases per test.
const CASES: u64 = 3000;

/// Draws the minimum, the maximum or a typical value.
fn any(rng: &mut Stream, low: u64, high: u64, ordinary: u64) -> u64 {
    [low, high, ordinary][rng.below(3) as usize]
}

fn duration(rng: &mut Stream) -> u64 {
    any(rng, 0, HOUR_NS, 100_000)
}

fn rate(rng: &mut Stream) -> u64 {
    any(rng, 1000, TIB, 500_000_000)
}

fn optional(rng: &mut Stream) -> Option<u64> {
    rng.chance(0.6).then(|| duration(rng))
}

fn interface(rng: &mut Stream) -> Interface {
    Interface {
        rate_bytes_per_s: rate(rng),
        full_duplex: rng.chance(0.5),
        queue_depth: any(rng, 1, 65_536, 32) as u32,
        command_overhead_ns: duration(rng),
        write_overhead_ns: optional(rng),
        latency_ns: duration(rng),
    }
}

fn extreme(rng: &mut Stream) -> DriveSpec {
    small(|spec, flash| {
        spec.interface = interface(rng);
        flash.geometry.bits_per_cell = [1, 3, 8][rng.below(3) as usize];
        flash.nand = NandTiming {
            read_ns: duration(rng).max(1),
            program_ns: duration(rng).max(1),
            erase_ns: duration(rng).max(1),
            channel_bytes_per_s: rate(rng),
            suspend_ns: optional(rng),
            suspend_step_ns: any(rng, 0, 1_000_000_000, 300_000) as u32,
            read_spread_permille: any(rng, 0, 1000, 300) as u16,
            read_retries_per_million: any(rng, 0, 1_000_000, 1000) as u32,
            read_retry_ns: duration(rng),
            read_ahead_bytes: any(rng, 0, 1 << 30, 128 << 10),
        };
        flash.ftl.victim = [
            VictimPolicy::Greedy,
            VictimPolicy::CostBenefit,
            VictimPolicy::Fifo,
            VictimPolicy::Random,
        ][rng.below(4) as usize];
        flash.ftl.mapping_cache_bytes = rng.chance(0.3).then_some(4096);
        flash.ftl.gc.step_ns = any(rng, 0, 1_000_000_000, 0) as u32;
        flash.ftl.gc.idle_delay_ns = optional(rng);
        flash.ftl.gc.idle_free = any(rng, 0, u64::from(u32::MAX), 6) as u32;
        flash.ftl.gc.idle_valid_max_permille = any(rng, 0, 1000, 500) as u16;
        flash.ftl.wear.static_spread_max = rng.chance(0.5).then_some(2);
        flash.ftl.wear.erase_limit = rng.chance(0.2).then_some(20);
        flash.write_cache = WriteCache {
            bytes: any(rng, 0, 1 << 20, 64 << 10),
            flush_ns: duration(rng),
            idle_write_out_ns: optional(rng),
            power_loss_protection: rng.chance(0.3),
            ..WriteCache::default()
        };
        if flash.geometry.bits_per_cell > 1 && rng.chance(0.7) {
            let size = if rng.chance(0.5) {
                SlcSize::Fixed { bytes: 64 << 10 }
            } else {
                SlcSize::Dynamic {
                    bytes_min: any(rng, 0, 64 << 10, 16 << 10),
                    bytes_max: any(rng, 64 << 10, u64::MAX, 128 << 10),
                }
            };
            let when_full = if rng.chance(0.5) { SlcFull::FoldFirst } else { SlcFull::WriteDirect };
            flash.slc_cache = Some(SlcCache {
                size,
                program_ns: duration(rng).max(1),
                read_ns: duration(rng).max(1),
                when_full,
                idle_fold_ns: optional(rng),
            });
        }
        flash.thermal = rng.chance(0.5).then(|| Thermal {
            ambient_mc: any(rng, 0, 100_000, 40_000) as i32,
            rise_mc_per_gb: any(rng, 0, 1_000_000, 500) as u32,
            cooling_ns: any(rng, 1_000_000, 1000 * HOUR_NS, 90_000_000_000),
            throttle_mc: 100_001,
            resume_mc: 100_001,
            throttled_permille: any(rng, 1, 1000, 800) as u16,
        });
        flash.life_throttle = rng.chance(0.5).then(|| LifeThrottle {
            credit_bytes: any(rng, 1, 1 << 60, 1 << 20),
            earned_bytes_per_s: any(rng, 0, TIB, 1 << 20),
            throttled_permille: any(rng, 1, 1000, 500) as u16,
        });
        flash.trim = Trim {
            queued: rng.chance(0.5),
            command_ns: duration(rng),
            range_ns: duration(rng),
            unit_ns: duration(rng),
            gb_ns: duration(rng),
            ranges_per_command_max: any(rng, 1, 1 << 20, 64) as u32,
            range_bytes_max: any(rng, 512, 1 << 60, 1 << 25),
            bytes_min: any(rng, 0, TIB, 4096),
            alignment_bytes: any(rng, 0, TIB, 4096),
            ..flash.trim.clone()
        };
    })
}

/// Fills the drive, overwrites it at random with reads, TRIMs and flushes, and idles up
/// to years. Returns the number of commands accepted, and refused because the clock had
/// ended.
fn used(drive: &mut dyn Device, rng: &mut Stream) -> (u64, u64) {
    let (size, block) = (drive.size().0, u64::from(drive.logical_block()));
    let blocks = size / block;
    let (mut now, mut done, mut refused) = (Nanos(0), 0, 0);
    let mut run = |drive: &mut dyn Device, now: &mut Nanos, wait: bool, command: &Command<'_>| {
        let completion = drive.submit(*now, command);
        assert!(completion.done >= *now);
        match completion.result {
            Err(Refusal::ClockEnd) => refused += 1,
            _ => done += 1,
        }
        if wait {
            *now = completion.done;
        }
    };
    run(
        drive,
        &mut now,
        rng.chance(0.5),
        &Command::Write(Extent { offset: 0, len: size }, DataClass::Random),
    );
    for _ in 0..60 {
        let len = rng.between(1, (blocks / 20).max(1));
        let extent = Extent { offset: rng.below(blocks - len + 1) * block, len: len * block };
        let wait = rng.chance(0.5);
        match rng.below(12) {
            0 => run(drive, &mut now, wait, &Command::Read(extent)),
            1 => run(drive, &mut now, wait, &Command::trim(&[extent])),
            2 => run(drive, &mut now, wait, &Command::Flush),
            3 => {
                let kinds = if rng.chance(0.1) { 4 } else { 3 };
                let rest = [1, HOUR_NS, 40_000 * HOUR_NS, u64::MAX / 2][rng.below(kinds) as usize];
                now = Nanos(now.0.saturating_add(rest));
                drive.idle(now);
            }
            _ => run(drive, &mut now, wait, &Command::Write(extent, DataClass::Random)),
        }
    }
    run(drive, &mut now, true, &Command::trim(&[Extent { offset: 0, len: size }]));
    drive.idle(Nanos(u64::MAX));
    assert_eq!(drive.submit(Nanos(u64::MAX), &Command::Flush).result, Err(Refusal::ClockEnd));
    (done, refused)
}

#[test]
fn extreme_ssd_never_panics_and_refuses_past_clock_end() {
    let mut rng = Stream::new(21, "extremes");
    let (mut tried, mut done, mut ended) = (0, 0, 0);
    for nth in 0..CASES {
        let spec = extreme(&mut rng);
        // Some combinations of extremes are invalid.
        let Ok(mut ssd) = Ssd::new(&spec, nth) else { continue };
        tried += 1;
        if rng.chance(0.3) {
            ssd.track_durability();
        }
        let (completed, refused) = used(&mut ssd, &mut rng);
        done += completed;
        ended += u64::from(refused > 0);
        ssd.check_invariants().unwrap_or_else(|broken| panic!("case {nth}: {broken}\n{spec:?}"));
        ssd.power_cut(Nanos(u64::MAX));
    }
    assert!(
        tried > CASES / 2 && done > 30 * tried && (tried / 50..tried).contains(&ended),
        "{tried} tried, {done} done, {ended} to the end"
    );
}
