//! Random reads of many dies reach the rate of a simulation with work-conserving
//! channels.

use super::*;
use crate::ssd::tests::small;
use alloc::collections::BinaryHeap;
use alloc::vec;
use core::cmp::Reverse;

const READ_NS: u64 = 60_000;
/// Transfer time of 4 KiB at 400 MB/s.
const TRANSFER_NS: u64 = 10_240;
const READS: u64 = 40_000;

fn dies_on_channels(channels: u32, dies_per_channel: u32) -> DriveSpec {
    small(|spec, flash| {
        flash.geometry = Geometry {
            channels,
            dies_per_channel,
            planes: 1,
            page_bytes: 4096,
            pages_per_block: 64,
            blocks_per_plane: 24,
            superblock_dies: channels * dies_per_channel,
            bits_per_cell: 3,
        };
        flash.nand = NandTiming {
            read_ns: READ_NS,
            channel_bytes_per_s: 400_000_000,
            read_ahead_bytes: 0,
            ..NandTiming::default()
        };
        spec.interface = Interface {
            rate_bytes_per_s: 100_000_000_000,
            full_duplex: true,
            queue_depth: 1024,
            command_overhead_ns: 0,
            write_overhead_ns: None,
            latency_ns: 0,
        };
        spec.capacity_bytes = 16 * flash.geometry.superblock_bytes() as u64;
    })
}

/// Closed-loop random read rate of a full drive, in reads per second.
fn rate_of_model(spec: &DriveSpec, depth: usize) -> f64 {
    let mut ssd = Ssd::new(spec, 1).unwrap();
    let mut now = Nanos(0);
    for offset in (0..spec.capacity_bytes).step_by(1 << 16) {
        now = ssd
            .submit(now, &Command::Write(Extent { offset, len: 1 << 16 }, DataClass::Random))
            .done;
    }
    now = ssd.submit(now, &Command::Flush).done + Nanos(1_000_000_000);
    ssd.idle(now);
    let (mut rng, began) = (crate::rng::Stream::new(1, "reads"), now);
    let mut in_flight: BinaryHeap<Reverse<Nanos>> = BinaryHeap::new();
    for _ in 0..READS {
        if in_flight.len() == depth {
            now = in_flight.pop().unwrap().0;
        }
        let offset = rng.below(spec.capacity_bytes / 4096) * 4096;
        in_flight.push(Reverse(ssd.submit(now, &Command::Read(Extent { offset, len: 4096 })).done));
    }
    let end = in_flight.into_iter().map(|Reverse(done)| done).max().unwrap();
    ssd.check_invariants().unwrap();
    READS as f64 * 1e9 / (end - began).0 as f64
}

/// The same rate for dies and channels as FIFO queues: whole pages cross a channel in the
/// order in which they were read.
fn rate_of_queues(channels: usize, dies: usize, depth: usize) -> f64 {
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Sensed(usize),
        Crossed(usize),
    }
    let mut rng = crate::rng::Stream::new(2, "queues");
    let (mut waiting, mut ready) = (vec![0_u32; dies], vec![0_u32; channels]);
    let mut events: BinaryHeap<Reverse<(u64, u64, Event)>> = BinaryHeap::new();
    let (mut order, mut given, mut done, mut end) = (0, 0, 0, 0);
    let mut ask = |now: u64,
                   waiting: &mut Vec<u32>,
                   events: &mut BinaryHeap<Reverse<(u64, u64, Event)>>,
                   order: &mut u64| {
        let die = rng.below(dies as u64) as usize;
        waiting[die] += 1;
        if waiting[die] == 1 {
            *order += 1;
            events.push(Reverse((now + READ_NS, *order, Event::Sensed(die))));
        }
    };
    while given < depth as u64 {
        ask(0, &mut waiting, &mut events, &mut order);
        given += 1;
    }
    while let Some(Reverse((now, _, event))) = events.pop() {
        let channel = match event {
            Event::Sensed(die) => {
                waiting[die] -= 1;
                if waiting[die] > 0 {
                    order += 1;
                    events.push(Reverse((now + READ_NS, order, Event::Sensed(die))));
                }
                ready[die % channels] += 1;
                if ready[die % channels] > 1 {
                    continue;
                }
                die % channels
            }
            Event::Crossed(channel) => {
                (done, end) = (done + 1, now);
                ready[channel] -= 1;
                if given < READS {
                    ask(now, &mut waiting, &mut events, &mut order);
                    given += 1;
                }
                if ready[channel] == 0 {
                    continue;
                }
                channel
            }
        };
        order += 1;
        events.push(Reverse((now + TRANSFER_NS, order, Event::Crossed(channel))));
    }
    assert_eq!(done, READS);
    READS as f64 * 1e9 / end as f64
}

#[test]
fn random_reads_reach_rate_of_work_conserving_channels() {
    for (channels, dies_per_channel, depth) in
        [(8, 4, 32), (4, 8, 64), (1, 4, 8), (2, 2, 4), (8, 1, 32)]
    {
        let rate = rate_of_model(&dies_on_channels(channels, dies_per_channel), depth);
        let expected =
            rate_of_queues(channels as usize, (channels * dies_per_channel) as usize, depth);
        std::println!(
            "{channels} x {dies_per_channel}, {depth} in flight: {rate:.0}, {expected:.0} by queues"
        );
        assert!(
            (rate / expected - 1.0).abs() < 0.02,
            "{channels} x {dies_per_channel}, {depth}: {rate} of {expected}"
        );
    }
}
