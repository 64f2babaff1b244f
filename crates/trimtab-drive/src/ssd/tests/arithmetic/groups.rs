//! Steady random writes with narrow superblocks, several of them open on one die.

use super::*;
use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

const PAGE: u64 = 4096;
/// Times to program a page, read a page, and erase a block of 128 pages, in milliseconds.
const PROGRAM_MS: f64 = 0.5;
const READ_MS: f64 = 0.05;
const ERASE_MS: f64 = 3.0;
const DIES: usize = 8;

/// Eight dies on four channels with one superblock per die, 80 % utilisation, `free`
/// superblocks kept free. The geometry matches the MQSim comparison.
fn spec(free: u32) -> DriveSpec {
    small(|spec, flash| {
        flash.geometry = Geometry {
            channels: 4,
            dies_per_channel: 2,
            planes: 1,
            page_bytes: PAGE,
            pages_per_block: 128,
            blocks_per_plane: 64,
            superblock_dies: 1,
            bits_per_cell: 1,
        };
        flash.nand = NandTiming {
            read_ns: (READ_MS * 1e6) as u64,
            program_ns: (PROGRAM_MS * 1e6) as u64,
            erase_ns: (ERASE_MS * 1e6) as u64,
            channel_bytes_per_s: 400_000_000,
            read_ahead_bytes: 0,
            ..NandTiming::default()
        };
        flash.ftl.gc = GarbageCollection {
            free_low: free,
            free_high: free,
            idle_delay_ns: None,
            ..flash.ftl.gc.clone()
        };
        flash.write_cache = WriteCache { bytes: 0, ..WriteCache::default() };
        spec.capacity_bytes = (flash.geometry.raw_bytes() as f64 * 0.8 / PAGE as f64) as u64 * PAGE;
        spec.interface = Interface {
            rate_bytes_per_s: 4_000_000_000,
            queue_depth: 1024,
            command_overhead_ns: 0,
            latency_ns: 0,
            ..Interface::default()
        };
    })
}

/// Steady random writes at queue depth 32: rate per second, write amplification, and rows
/// of each eight that fall on the busiest die.
fn steady(free: u32) -> (f64, f64, f64) {
    let spec = spec(free);
    let pages = spec.capacity_bytes / PAGE;
    let mut ssd = Ssd::new(&spec, 1).unwrap();
    let mut rng = Stream::new(7, "groups");
    let mut under_way: BinaryHeap<Reverse<Nanos>> = (0..32).map(|_| Reverse(Nanos(0))).collect();
    let mut write = |ssd: &mut Ssd, page: u64| {
        let Reverse(now) = under_way.pop().unwrap();
        let done = ssd
            .submit(
                now,
                &Command::Write(Extent { offset: page * PAGE, len: PAGE }, DataClass::Random),
            )
            .done;
        under_way.push(Reverse(done));
        now
    };
    (0..pages).for_each(|page| _ = write(&mut ssd, page));
    (0..4 * pages).for_each(|_| _ = write(&mut ssd, rng.below(pages)));
    let (before, start) = (ssd.counters().clone(), write(&mut ssd, 0));
    let count = 2 * pages;
    let (mut end, mut most) = (start, 0);
    for _ in 0..count {
        end = write(&mut ssd, rng.below(pages));
        let mut open = [0_u64; DIES];
        ssd.ftl.frontiers[..DIES].iter().for_each(|frontier| open[frontier.lies_on as usize] += 1);
        most += open.iter().max().unwrap();
    }
    ssd.check_invariants().unwrap();
    (
        count as f64 / (end - start).as_secs_f64(),
        ssd.waf_since(&before).unwrap(),
        most as f64 / count as f64,
    )
}

/// The eight open superblocks take rows in turn, and those on the same die wait for each
/// other, while owed time is spread over all dies. With enough free superblocks on every
/// die, all dies stay busy.
#[test]
fn dies_with_several_open_superblocks_limit_rate() {
    let mut rates = Vec::new();
    for free in [2, 9, 17] {
        let (rate, waf, most) = steady(free);
        let background_ms = (waf - 1.0) * (READ_MS + PROGRAM_MS) + waf * ERASE_MS / 128.0;
        let expected = DIES as f64 / (most * PROGRAM_MS + background_ms) * 1e3;
        assert!(
            (rate / expected - 1.0).abs() < 0.06,
            "{free} free: {rate:.0}/s, WAF {waf:.3}, {most:.2} of eight on a die: {expected:.0}/s"
        );
        rates.push(rate * (PROGRAM_MS + background_ms) / 8e3);
    }
    // Relative to the rate with all dies always busy.
    assert!(rates[0] > 0.68 && rates[1] > 0.86 && rates[2] > 0.95, "{rates:?}");
}
