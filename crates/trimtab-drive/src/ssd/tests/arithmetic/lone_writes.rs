//! Latency of a single write during idle folding or collection.

use super::{Arithmetic, Queue, shipped};
use crate::rng::Stream;
use crate::spec::Flash;
use crate::units::Nanos;
use crate::{Command, Device};
use alloc::string::String;
use alloc::vec::Vec;

/// Relocation time of one row on its die, and its channel transfer time, in nanoseconds.
fn relocation(flash: &Flash, row: f64) -> (f64, f64) {
    (
        (flash.nand.read_ns + flash.nand.program_ns) as f64,
        row / flash.nand.channel_bytes_per_s as f64 * 1e9,
    )
}

/// Maximum latency in nanoseconds of a 4 KiB write plus flush during background work:
/// their own time on processor, link, channel and die, plus the relocation of one row for
/// the operation in flight.
fn longest_flushed_write_ns(arithmetic: &Arithmetic<'_>) -> f64 {
    let (interface, flash) = (arithmetic.interface, arithmetic.flash);
    let commands = (interface.overhead_of_writes_ns()
        + interface.command_overhead_ns
        + 2 * interface.latency_ns) as f64;
    let (die, transfer) = relocation(flash, arithmetic.row);
    let own = commands
        + 4096.0 / interface.rate_bytes_per_s as f64 * 1e9
        + transfer
        + flash.nand.program_ns as f64
        + flash.write_cache.flush_ns as f64;
    // A mapping cache miss reads one page and writes back another.
    let map = if flash.ftl.mapping_cache_bytes.is_some() { die + 2.0 * transfer } else { 0.0 };
    own + map + die + 2.0 * transfer
}

/// Maximum latency of a cached write: it waits for no die except on a mapping cache miss.
fn longest_cached_write_ns(arithmetic: &Arithmetic<'_>) -> f64 {
    let (interface, flash) = (arithmetic.interface, arithmetic.flash);
    let (_, transfer) = relocation(flash, arithmetic.row);
    let read = (flash.nand.read_ns
        + flash.nand.suspend_ns.unwrap_or(flash.nand.program_ns.max(flash.nand.erase_ns)))
        as f64;
    let map = if flash.ftl.mapping_cache_bytes.is_some() { read + transfer } else { 0.0 };
    (interface.overhead_of_writes_ns() + interface.latency_ns) as f64
        + 4096.0 / interface.rate_bytes_per_s as f64 * 1e9
        + map
        + 1.0
}

#[test]
fn lone_write_during_idle_gc_waits_for_one_operation() {
    let mut wrong: Vec<String> = Vec::new();
    let mut met = 0;
    for mut spec in shipped(16) {
        let flash = &mut spec.flash;
        flash.nand.erase_ns *= 16;
        let arithmetic = Arithmetic::new(&spec);
        let (cached, flushed) =
            (longest_cached_write_ns(&arithmetic), longest_flushed_write_ns(&arithmetic));
        let mut queue = Queue::new(&spec, 32);
        let mut rng = Stream::new(9, "lone writes");
        let size = spec.capacity_bytes;
        (0..size >> 21).for_each(|nth| queue.write(nth << 20, 1 << 20));
        let fold_ns = (arithmetic.superblock / arithmetic.row / arithmetic.dies
            * relocation(flash_of(&spec), arithmetic.row).0) as u64;
        let delay_ns = flash_of(&spec)
            .slc_cache
            .as_ref()
            .map_or(flash_of(&spec).ftl.gc.idle_delay_ns, |slc| slc.idle_fold_ns);
        let Some(delay_ns) = delay_ns else { continue };
        let before = met;
        let mut longest = [0.0_f64; 2];
        for _ in 0..150 {
            // Leave a random number of rows in the open superblocks.
            let (at, count) =
                (rng.below(size >> 21), rng.between(1, 1 + arithmetic.superblock as u64 / 32768));
            (0..count.min(3000)).for_each(|nth| queue.write((at << 20) + nth % 32 * 32768, 32768));
            // Drives without SLC cache need garbage to collect.
            if flash_of(&spec).slc_cache.is_none() {
                (0..2000).for_each(|_| queue.write(rng.below(size / 4096) * 4096, 4096));
            }
            let quiet = *queue.done.iter().max().unwrap();
            // Lands in the first folds or collections.
            let now = quiet + Nanos(delay_ns + rng.below(4 * fold_ns));
            queue.now = now;
            queue.ssd.idle(now);
            met += u32::from(queue.ssd.clock.quiet_from() > now.0);
            queue.write(rng.below(size / 4096) * 4096, 4096);
            let written = *queue.done.iter().max().unwrap();
            let flush = queue.ssd.submit(written, &Command::Flush).done;
            longest[0] = longest[0].max((written - now).0 as f64);
            longest[1] = longest[1].max((flush - now).0 as f64);
            queue.now = flush;
        }
        assert!(
            met - before > 40 || flash_of(&spec).slc_cache.is_none(),
            "{}: idle work ran in only {} cases",
            spec.name,
            met - before
        );
        if longest[0] > cached || longest[1] > flushed {
            wrong.push(std::format!(
                "{}: maximum write {:.0} ns (limit {cached:.0}), with flush {:.0} ns \
                    (limit {flushed:.0})",
                spec.name,
                longest[0],
                longest[1]
            ));
        }
        queue.ssd.check_invariants().unwrap();
    }
    assert!(met > 360, "idle work ran in only {met} cases");
    assert!(wrong.is_empty(), "{met} cases with idle work\n{}", wrong.join("\n"));
}

fn flash_of(spec: &crate::spec::DriveSpec) -> &Flash {
    &spec.flash
}
