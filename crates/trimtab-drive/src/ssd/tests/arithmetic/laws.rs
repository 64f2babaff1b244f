//! Operational laws on every shipped drive under every kind of load: busy time within
//! elapsed time, and busy time equal to the counted work.

use super::*;
use crate::Ranges;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

const DEPTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Load {
    Sequential,
    Random,
    Compressible,
    Reads,
    Mixed,
}

/// Issues `count` commands, [`DEPTH`] in flight; returns the last completion time.
fn under(load: Load, ssd: &mut Ssd, count: u64) -> u64 {
    let size = ssd.size().0;
    let mut rng = Stream::new(21, "laws");
    let mut window: BinaryHeap<Reverse<u64>> = (0..DEPTH).map(|_| Reverse(0)).collect();
    for nth in 0..count {
        let Reverse(now) = window.pop().unwrap();
        let random = Extent {
            offset: rng.below(size / 16384) * 16384,
            len: if load == Load::Mixed { 16384 } else { 4096 },
        };
        let wide = Extent {
            offset: nth * (128 << 10) % (size / (128 << 10) * (128 << 10)),
            len: 128 << 10,
        };
        let kind = rng.below(100);
        let command = match load {
            Load::Sequential => Command::Write(wide, DataClass::Random),
            Load::Random => Command::Write(random, DataClass::Random),
            Load::Compressible => Command::Write(random, DataClass::Compressible(40)),
            Load::Reads => Command::Read(random),
            Load::Mixed if kind < 45 => Command::Read(random),
            Load::Mixed if kind < 90 => Command::Write(random, DataClass::Random),
            Load::Mixed if kind < 97 => Command::Trim(Ranges::One(random)),
            Load::Mixed => Command::Flush,
        };
        window.push(Reverse(ssd.submit(Nanos(now), &command).done.0));
    }
    window.into_iter().map(|Reverse(done)| done).max().unwrap()
}

/// Busy time of dies or channels, including owed time, as reported by the drive.
fn charged(lanes: &crate::ssd::lane::FlashLanes) -> f64 {
    lanes.each.iter().map(|lane| (lane.host_ns + lane.background_ns + lane.owed) as f64).sum()
}

#[test]
fn shipped_drives_obey_operational_laws() {
    let mut wrong = Vec::new();
    for spec in shipped(64) {
        let flash = &spec.flash;
        for load in [Load::Sequential, Load::Random, Load::Compressible, Load::Reads, Load::Mixed] {
            let mut ssd = Ssd::new(&spec, 1).unwrap();
            let count = if load == Load::Sequential {
                2 * spec.capacity_bytes / (128 << 10)
            } else {
                60_000
            };
            let end = under(load, &mut ssd, count) as f64;
            let mut require = |holds: bool, said: String| {
                if !holds {
                    wrong.push(std::format!("{}, {load:?}: {said}", spec.name));
                }
            };
            // Busy time within elapsed time.
            let counters = ssd.counters();
            let link = (counters.host_written_bytes as f64).max(if spec.interface.full_duplex {
                0.0
            } else {
                counters.host_read_bytes as f64
            });
            let busy = [
                ("link", link / spec.interface.rate_bytes_per_s as f64 * 1e9),
                (
                    "processor",
                    counters.host_writes as f64 * spec.interface.overhead_of_writes_ns() as f64
                        + counters.host_reads as f64 * spec.interface.command_overhead_ns as f64,
                ),
            ];
            for (name, busy) in busy {
                // Each transfer is rounded to a nanosecond.
                require(
                    busy <= end + 2.0 * count as f64,
                    std::format!("{name} busy for {busy} ns in {end} ns"),
                );
            }
            ssd.check_invariants().unwrap();
            // Busy time equals counted work, except that SLC programs are not counted
            // separately.
            let direct =
                flash.slc_cache.as_ref().is_some_and(|slc| slc.when_full == SlcFull::WriteDirect);
            if !direct && !matches!(load, Load::Reads | Load::Mixed) {
                let (dies_ns, bytes) = work_of_writes(&spec, counters);
                let channels_ns = bytes / flash.nand.channel_bytes_per_s as f64 * 1e9;
                for (name, charged, counted) in [
                    ("dies", charged(&ssd.clock.dies), dies_ns),
                    ("channels", charged(&ssd.clock.channels), channels_ns),
                ] {
                    require(
                        (charged / counted - 1.0).abs() < 0.02,
                        std::format!("{name} charged {charged:.0} ns, counted {counted:.0}"),
                    );
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
