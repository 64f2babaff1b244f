//! Compares the model with the reference on random commands.

use super::{Reference, Request};
use crate::data::DataClass;
use crate::rng::Stream;
use crate::spec::*;
use crate::ssd::Ssd;
use crate::ssd::tests::small;
use crate::units::Nanos;
use crate::{Command, Device, Extent};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

fn pick<T: Copy>(rng: &mut Stream, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// A random small drive within the reference's features.
fn any_spec(rng: &mut Stream) -> DriveSpec {
    small(|spec, flash| {
        let (channels, dies_per_channel) = (pick(rng, &[1, 2, 3]), pick(rng, &[1, 2, 4]));
        let dies = channels * dies_per_channel;
        let superblock_dies = if rng.chance(0.6) { dies } else { pick(rng, &[1, channels]) };
        let (page_bytes, unit) =
            pick(rng, &[(4096, 4096), (16384, 4096), (16384, 16384), (8192, 4096)]);
        flash.geometry = Geometry {
            channels,
            dies_per_channel,
            planes: pick(rng, &[1, 2]),
            page_bytes,
            pages_per_block: rng.between(4, 10) as u32,
            blocks_per_plane: 1,
            superblock_dies,
            bits_per_cell: rng.between(2, 4) as u8,
        };
        flash.ftl.mapping_unit_bytes = unit;
        flash.ftl.victim = VictimPolicy::Fifo;
        flash.ftl.streams.separate_gc = rng.chance(0.6);
        flash.ftl.wear.dynamic = rng.chance(0.5);
        let free_low = rng.between(2, 3) as u32;
        flash.ftl.gc = GarbageCollection {
            die_wait_permille: 0,
            step_ns: 0,
            free_low,
            free_high: free_low + rng.below(3) as u32,
            idle_delay_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
            idle_free: rng.between(2, 8) as u32,
            idle_valid_max_permille: rng.between(300, 1000) as u16,
        };
        flash.nand = NandTiming {
            read_ns: rng.between(10_000, 100_000),
            program_ns: rng.between(100_000, 2_000_000),
            erase_ns: rng.between(100_000, 5_000_000),
            channel_bytes_per_s: rng.between(20_000_000, 1_000_000_000),
            suspend_ns: rng.chance(0.5).then(|| rng.between(1_000, 100_000)),
            read_ahead_bytes: 0,
            ..NandTiming::default()
        };
        let row = page_bytes * u64::from(flash.geometry.planes);
        flash.write_cache = WriteCache {
            merge_bytes: 0,
            bytes: if rng.chance(0.1) { 0 } else { (row * rng.between(1, 12)).max(unit) },
            power_loss_protection: rng.chance(0.2),
            flush: FlushBehaviour::WriteOut,
            flush_ns: rng.below(200_000),
            idle_write_out_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
        };
        flash.trim = Trim {
            queued: rng.chance(0.5),
            command_ns: rng.below(1_000_000),
            range_ns: rng.below(100_000),
            unit_ns: rng.below(1_000),
            gb_ns: 0,
            ..Trim::default()
        };
        spec.interface = Interface {
            rate_bytes_per_s: rng.between(50_000_000, 3_000_000_000),
            full_duplex: rng.chance(0.5),
            queue_depth: pick(rng, &[1, 2, 3, 32]),
            command_overhead_ns: rng.below(20_000),
            write_overhead_ns: rng.chance(0.3).then(|| rng.below(40_000)),
            latency_ns: rng.below(50_000),
        };
        let superblock = flash.geometry.superblock_bytes() as u64;
        spec.capacity_bytes = superblock * rng.between(6, 14) + unit * rng.below(5);
        if rng.chance(0.6) {
            let size = if rng.chance(0.5) {
                SlcSize::Fixed { bytes: superblock * rng.between(1, 3) / 2 }
            } else {
                SlcSize::Dynamic {
                    bytes_min: superblock / 4,
                    bytes_max: superblock * rng.between(1, 4),
                }
            };
            flash.slc_cache = Some(SlcCache {
                size,
                program_ns: rng.between(50_000, 500_000),
                read_ns: rng.between(5_000, 50_000),
                when_full: pick(rng, &[SlcFull::WriteDirect, SlcFull::FoldFirst]),
                idle_fold_ns: rng.chance(0.6).then(|| rng.between(1_000_000, 20_000_000)),
            });
        }
        let slack = rng.below(4) as u32;
        let fits = |blocks| {
            let mut flash = flash.clone();
            flash.geometry.blocks_per_plane = blocks;
            DriveSpec { flash, ..spec.clone() }.validate().is_ok()
        };
        flash.geometry.blocks_per_plane = (1..400).find(|blocks| fits(*blocks)).unwrap() + slack;
    })
}

/// Reads come in small groups.
fn any_request(rng: &mut Stream, unit: u64, units: u64, reading: bool) -> Request {
    let most = pick(rng, &[1, 2, 8, 24, 90]).min(units);
    let len = rng.between(1, most);
    let at = rng.below(units - len + 1);
    match if reading && rng.chance(0.7) { 80 } else { rng.below(100) } {
        0..78 => Request::Write(at * unit, len * unit),
        78..86 => Request::Read(at * unit, len * unit),
        86..93 => Request::Trim(at * unit, len * unit),
        _ => Request::Flush,
    }
}

/// Runs one case; returns the first difference.
fn differs(seed: u64) -> Option<String> {
    let mut rng = Stream::new(seed, "reference");
    let spec = any_spec(&mut rng);
    let (unit, depth) = (spec.flash.ftl.mapping_unit_bytes, pick(&mut rng, &[1, 2, 3, 5, 16]));
    let mut model = Ssd::new(&spec, 1).unwrap();
    let mut reference = Reference::new(&spec);
    let mut window: VecDeque<u64> = VecDeque::new();
    let mut asked = Vec::new();
    let (mut now, mut reading) = (0, false);
    for nth in 0..rng.between(20, 120) {
        let rested = rng.chance(0.08);
        if rested {
            now = window.iter().copied().fold(now, u64::max)
                + pick(&mut rng, &[10_000, 3_000_000, 30_000_000, 300_000_000]);
            let notified = rng.chance(0.5);
            if notified {
                model.idle(Nanos(now));
                reference.pass(now, true);
            }
        }
        let request = any_request(&mut rng, unit, spec.capacity_bytes / unit, reading);
        if window.len() >= depth {
            now = now.max(window.pop_front().unwrap());
        }
        let reads_before = core::mem::replace(&mut reading, matches!(request, Request::Read(..)));
        if reading && (rested || !reads_before) {
            // Programs, also those of idle time, have promised end times, which a
            // concurrent read would break in the reference but not in the model.
            now = window.iter().copied().fold(now, u64::max);
            loop {
                model.idle(Nanos(now));
                reference.pass(now, true);
                let promised = model
                    .clock
                    .dies
                    .each
                    .iter()
                    .chain(&model.clock.channels.each)
                    .map(|lane| lane.free)
                    .max()
                    .unwrap();
                if promised <= now {
                    break;
                }
                now = promised;
            }
        }
        let extent = |offset, len| Extent { offset, len };
        let done = match request {
            Request::Write(offset, len) => {
                model.submit(Nanos(now), &Command::Write(extent(offset, len), DataClass::Random))
            }
            Request::Read(offset, len) => {
                model.submit(Nanos(now), &Command::Read(extent(offset, len)))
            }
            Request::Trim(offset, len) => {
                model.submit(Nanos(now), &Command::trim(&[extent(offset, len)]))
            }
            Request::Flush => model.submit(Nanos(now), &Command::Flush),
        };
        let signal = reference.submit(now, &request);
        window.push_back(done.done.0);
        asked.push((nth, now, request, done.done.0, signal));
    }
    if let Err(broken) = model.check_invariants() {
        return Some(broken);
    }
    for (nth, at, request, done, signal) in asked {
        let expected = reference.completion(signal);
        if expected != done {
            return Some(std::format!(
                "seed {seed}: request {nth} {request:?} submitted at {at}: completed \
                    at {done}, reference {expected}: {spec:#?}"
            ));
        }
    }
    None
}

fn compare(cases: core::ops::Range<u64>) {
    let total = cases.end - cases.start;
    let wrong: Vec<(u64, String)> =
        cases.filter_map(|seed| differs(seed).map(|said| (seed, said))).collect();
    let seeds: Vec<u64> = wrong.iter().map(|(seed, _)| *seed).take(30).collect();
    assert!(wrong.is_empty(), "{} of {total} differ: {seeds:?}\n{}", wrong.len(), wrong[0].1);
}

/// Runs 1000 cases, or the number in `TRIMTAB_REFERENCE_CASES`.
#[test]
fn completions_match_reference_model() {
    let cases = std::env::var("TRIMTAB_REFERENCE_CASES")
        .map_or(1000, |cases| cases.parse().expect("TRIMTAB_REFERENCE_CASES must be a number"));
    compare(0..cases);
}
