//! Latency of a single read: the sum of command, flash, channel and link times.

use super::{Queue, shipped};
use crate::rng::Stream;
use crate::spec::DriveSpec;
use crate::units::Nanos;
use crate::{Command, Device, Extent};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Latency in nanoseconds of a single read of `len` bytes at `offset`, on a drive filled
/// sequentially in native cells with equally fast pages. Dies sense their rows one after
/// another, rows on the same channel cross it one after another, and data reach the host
/// in order.
fn lone_read_ns(spec: &DriveSpec, offset: u64, len: u64) -> f64 {
    let (interface, flash) = (&spec.interface, &spec.flash);
    let geometry = &flash.geometry;
    let row = geometry.page_bytes * u64::from(geometry.planes);
    let (mut dies, mut channels) = (
        vec![0.0_f64; geometry.superblock_dies as usize],
        vec![0.0_f64; geometry.channels as usize],
    );
    let link_ns = |bytes: u64| bytes as f64 / interface.rate_bytes_per_s as f64 * 1e9;
    let (mut at, mut ended) = (offset, link_ns(len));
    while at < offset + len {
        let piece = (row - at % row).min(offset + len - at);
        let die = (at / row) as usize % dies.len();
        dies[die] += flash.nand.read_ns as f64;
        let channel = &mut channels[die % geometry.channels as usize];
        *channel =
            channel.max(dies[die]) + piece as f64 / flash.nand.channel_bytes_per_s as f64 * 1e9;
        ended = ended.max(*channel + link_ns(offset + len - at));
        at += piece;
    }
    (interface.command_overhead_ns + interface.latency_ns) as f64 + ended
}

#[test]
fn lone_read_latency_is_sum_of_its_stages() {
    let (mut wrong, mut compared): (Vec<String>, u32) = (Vec::new(), 0);
    for mut spec in shipped(16) {
        let flash = &mut spec.flash;
        (flash.slc_cache, flash.ftl.mapping_cache_bytes) = (None, None);
        (flash.nand.read_spread_permille, flash.nand.read_retries_per_million) = (0, 0);
        let row = flash.geometry.page_bytes * u64::from(flash.geometry.planes);
        let superblock = row
            * u64::from(flash.geometry.superblock_dies)
            * u64::from(flash.geometry.pages_per_block);
        let mut queue = Queue::new(&spec, 32);
        let filled = spec.capacity_bytes >> 20;
        (0..filled).for_each(|nth| queue.write(nth << 20, 1 << 20));
        let mut now = Nanos(queue.done.iter().max().expect("32 commands").0 + 60_000_000_000);
        queue.ssd.idle(now);
        let mut rng = Stream::new(15, "lone reads");
        for len in [4096, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20] {
            for _ in 0..20 {
                // Stay within a superblock, because the next may lie in another group of
                // dies.
                let blocks = (spec.capacity_bytes / 2 / superblock).max(1);
                let offset = rng.below(blocks) * superblock
                    + rng.below((superblock - len) / 4096 + 1) * 4096;
                let unit = spec.flash.ftl.mapping_unit_bytes;
                let offset = offset / unit.max(4096) * unit.max(4096);
                let done = queue.ssd.submit(now, &Command::Read(Extent { offset, len })).done;
                let (took, expected) = ((done - now).0 as f64, lone_read_ns(&spec, offset, len));
                compared += 1;
                // Rounding to whole nanoseconds.
                if (took - expected).abs() > 40.0 {
                    wrong.push(std::format!(
                        "{}: {len} bytes at {offset} in {took} ns, predicted {expected:.0}",
                        spec.name
                    ));
                }
                now = Nanos(done.0 + 1_000_000);
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
    assert!(compared >= 14 * 140, "{compared}");
}
