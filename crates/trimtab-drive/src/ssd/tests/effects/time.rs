//! Latency of reads and writes, and contention.

use super::*;

#[test]
fn read_latency_is_sum_of_its_stages() {
    let mut host = drive(|spec, flash| {
        spec.interface = Interface {
            rate_bytes_per_s: 500_000_000,
            full_duplex: false,
            queue_depth: 32,
            command_overhead_ns: 3_000,
            write_overhead_ns: Some(9_000),
            latency_ns: 11_000,
        };
        flash.nand = NandTiming {
            read_ns: 50_000,
            channel_bytes_per_s: 400_000_000,
            ..NandTiming::default()
        };
    });
    host.fill();
    host.flush();
    host.idle(1000 * MS);
    // Processor, array, channel, link, latency.
    assert_eq!(host.read(0, 4096), 3_000 + 50_000 + 10_240 + 8_192 + 11_000);
    // Unmapped space needs no flash.
    host.trim(MIB, MIB);
    assert_eq!(host.read(MIB, 4096), 3_000 + 8_192 + 11_000);
    // Writes use the write overhead.
    assert_eq!(host.write(0, 4096), 9_000 + 8_192 + 11_000);
}

#[test]
fn dies_work_in_parallel() {
    let rate = |channels, superblock_dies| {
        let mut host = drive(|spec, flash| {
            flash.geometry.channels = channels;
            flash.geometry.superblock_dies = superblock_dies;
            flash.geometry =
                flash.geometry.clone().with_over_provisioning(spec.capacity_bytes, 400);
        });
        host.fill()
    };
    let (two, eight) = (rate(1, 2), rate(4, 8));
    // Two dies on one channel program 4 KiB each per 600 us; eight dies do four times
    // that.
    assert!((two / (2.0 * 4096.0 / 600e-6) - 1.0).abs() < 0.05, "{two}");
    assert!((eight / two - 4.0).abs() < 0.2, "{two} {eight}");
    // The same dies with a superblock each.
    let apart = rate(4, 1);
    assert!((apart / eight - 1.0).abs() < 0.1, "{eight} {apart}");
}

#[test]
fn channel_limits_rate() {
    let mut host = drive(|_, flash| {
        flash.nand.program_ns = 1_000;
        flash.nand.channel_bytes_per_s = 20_000_000;
    });
    let rate = host.fill();
    assert!((rate / 40e6 - 1.0).abs() < 0.05, "two channels of 20 MB/s: {rate}");
}

#[test]
fn randomly_written_data_read_slowly() {
    let read_rate = |scattered: bool| {
        let mut host = drive(|_, flash| {
            flash.geometry.page_bytes = 16 * KIB;
            flash.geometry.blocks_per_plane /= 2;
            flash.nand.read_ahead_bytes = 0;
        });
        host.fill();
        if scattered {
            host.random(40_000);
        }
        host.flush();
        host.idle(1000 * MS);
        let start = host.now;
        (0..64).for_each(|nth| _ = host.read(nth * 128 * KIB, 128 * KIB));
        8.0 * MIB as f64 / (host.now - start).as_secs_f64()
    };
    let (sequential, scattered) = (read_rate(false), read_rate(true));
    assert!(scattered < 0.6 * sequential, "{sequential} {scattered}");
}

#[test]
fn mapping_cache_misses_cost_reads() {
    let latency = |mapping_cache_bytes| {
        let mut host = drive(|_, flash| flash.ftl.mapping_cache_bytes = mapping_cache_bytes);
        host.fill();
        host.flush();
        host.idle(1000 * MS);
        let took: u64 = (0..500)
            .map(|_| {
                let at = host.rng.below(host.ssd.size().0 / 4096) * 4096;
                host.read(at, 4096)
            })
            .sum();
        (
            took / 500,
            host.ssd.counters().nand_read_map_pages,
            host.ssd.counters().nand_written_map_pages,
        )
    };
    let ((all, no_pages, _), (few, pages, written)) = (latency(None), latency(Some(16 * KIB)));
    assert!(no_pages == 0 && pages > 300 && written > 0, "{pages} {written}");
    assert!(few > all + 40_000, "{all} {few}");
}

#[test]
fn full_duplex_link_is_not_shared() {
    let took = |full_duplex| {
        let mut host = drive(|spec, flash| {
            spec.interface =
                Interface { rate_bytes_per_s: 10_000_000, full_duplex, ..Interface::default() };
            flash.nand.read_ns = 1000;
        });
        let write = host.ssd.submit(
            Nanos(0),
            &Command::Write(Extent { offset: 0, len: 64 * KIB }, DataClass::Random),
        );
        let read =
            host.ssd.submit(Nanos(0), &Command::Read(Extent { offset: 32 * MIB, len: 64 * KIB }));
        write.done.max(read.done).0
    };
    let (half, full) = (took(false), took(true));
    assert!(half > 19 * full / 10, "{half} {full}");
}

#[test]
fn commands_beyond_queue_depth_wait() {
    let run = |queue_depth| {
        let mut host = drive(|spec, _| spec.interface.queue_depth = queue_depth);
        host.fill();
        host.flush();
        host.idle(1000 * MS);
        let last = (0..64)
            .map(|nth| {
                host.ssd
                    .submit(
                        host.now,
                        &Command::Read(Extent { offset: nth * (MIB - 4096), len: 4096 }),
                    )
                    .done
            })
            .max()
            .unwrap();
        ((last - host.now).0, host.ssd.counters().stall_queue_ns)
    };
    let ((one, waited), (many, not)) = (run(1), run(64));
    assert!(one > 2 * many && waited > 0 && not == 0, "{one} {many} {waited} {not}");
}

#[test]
fn reads_suspend_programs() {
    let latency = |suspend_ns| {
        let mut host = drive(|_, flash| {
            flash.nand.program_ns = 5_000_000;
            flash.nand.suspend_ns = suspend_ns;
            flash.write_cache.bytes = MIB;
        });
        host.fill();
        host.flush();
        host.sequential(0, 512 * KIB, DataClass::Random);
        host.read(32 * MIB, 4096)
    };
    let (waiting, suspending) = (latency(None), latency(Some(20_000)));
    assert!(waiting > 5_000_000 && suspending < 300_000, "{waiting} {suspending}");
}

#[test]
fn page_types_and_retries_spread_read_latency() {
    let read = |spread, retries| {
        let mut host = drive(|_, flash| {
            flash.nand.read_ns = 60_000;
            flash.nand.read_ahead_bytes = 0;
            flash.nand.read_spread_permille = spread;
            flash.nand.read_retries_per_million = retries;
            flash.nand.read_retry_ns = 200_000;
        });
        host.fill();
        host.flush();
        host.idle(1000 * MS);
        let mut took: Vec<u64> = (0..20_000)
            .map(|_| {
                let at = host.rng.below(host.ssd.size().0 / 4096) * 4096;
                host.read(at, 4096)
            })
            .collect();
        took.sort_unstable();
        took
    };
    let (plain, kinds, both) = (read(0, 0), read(600, 0), read(600, 2_000));
    assert_eq!(plain[0], plain[19_999]);
    // Three page types: 18 us below the mean, the mean, 18 us above; 6 of 16 are the
    // first.
    assert_eq!(
        (kinds[0], kinds[10_000], kinds[19_999]),
        (plain[0] - 18_000, plain[0], plain[0] + 18_000)
    );
    let slow = both.iter().filter(|ns| **ns > plain[0] + 18_000).count();
    assert!((20..=60).contains(&slow), "two in a thousand are retried: {slow} of 20000");
    assert_eq!(both[19_800], kinds[19_800], "p99 has no retry");
}
