//! TRIM.

use super::*;

#[test]
fn trim_takes_specified_time() {
    let mut host = drive(|spec, flash| {
        spec.interface.command_overhead_ns = 0;
        spec.interface.latency_ns = 0;
        flash.trim = Trim {
            command_ns: 1_000_000,
            range_ns: 20_000,
            unit_ns: 300,
            gb_ns: 1_000_000_000,
            ..Trim::default()
        };
    });
    host.fill();
    host.idle(1000 * MS);
    let ranges = [
        Extent { offset: 0, len: MIB },
        Extent { offset: 4 * MIB, len: MIB },
        Extent { offset: 8 * MIB, len: 4096 },
    ];
    let covered = 2 * MIB + 4096;
    assert_eq!(host.run(&Command::trim(&ranges)), 1_000_000 + 3 * 20_000 + 513 * 300 + covered);
    // The second TRIM unmaps nothing; its other costs remain.
    assert_eq!(host.run(&Command::trim(&ranges)), 1_000_000 + 3 * 20_000 + covered);
    let counters = host.ssd.counters();
    assert_eq!((counters.trim_effective_units, counters.trim_repeated_units), (513, 513));
    assert_eq!(
        (counters.trim_asked_bytes, counters.trim_ignored_bytes, counters.trim_ranges),
        (2 * covered, 0, 6)
    );
}

#[test]
fn unqueued_trim_blocks_other_commands() {
    let waited = |queued| {
        let mut host =
            drive(|_, flash| flash.trim = Trim { queued, command_ns: 50 * MS, ..Trim::default() });
        host.fill();
        host.flush();
        host.idle(1000 * MS);
        // A slow read is in flight when the TRIM arrives; another read follows.
        let first =
            host.ssd.submit(host.now, &Command::Read(Extent { offset: 0, len: 128 * KIB })).done;
        let trim = host
            .ssd
            .submit(host.now, &Command::trim(&[Extent { offset: 32 * MIB, len: MIB }]))
            .done;
        let second =
            host.ssd.submit(host.now, &Command::Read(Extent { offset: MIB, len: 4096 })).done;
        (first - host.now, trim - host.now, second - host.now, host.ssd.counters().stall_trim_ns)
    };
    let (first, trim, second, stalled) = waited(false);
    assert!(trim.0 >= first.0 + 50 * MS && second > trim, "{first} {trim} {second}");
    assert!(stalled > 50 * MS);
    let (_, trim, second, stalled) = waited(true);
    assert!(trim.0 >= 50 * MS && second.0 < 5 * MS && stalled == 0, "{trim} {second} {stalled}");
}

#[test]
fn small_and_misaligned_trims_are_ignored() {
    let mut host = drive(|_, flash| {
        flash.trim.bytes_min = 64 * KIB;
        flash.trim.alignment_bytes = 32 * KIB;
    });
    host.fill();
    host.trim(0, 32 * KIB);
    assert_eq!(host.ssd.counters().trim_ignored_bytes, 32 * KIB);
    // 16 KiB at each end lie outside the alignment.
    host.trim(16 * KIB, 96 * KIB);
    let counters = host.ssd.counters();
    assert_eq!((counters.trim_effective_units, counters.trim_ignored_bytes), (16, 64 * KIB));
}

#[test]
fn submit_invalid_trim_returns_reason() {
    let mut host =
        drive(|_, flash| flash.trim = Trim { ranges_per_command_max: 2, ..Trim::default() });
    let range = Extent { offset: 0, len: 4096 };
    let mut refused =
        |command: Command<'_>| host.ssd.submit(Nanos(0), &command).result.unwrap_err();
    assert_eq!(refused(Command::trim(&[range; 3])), Refusal::TooManyRanges);
    assert_eq!(refused(Command::Read(Extent { offset: 100, len: 4096 })), Refusal::Misaligned);
    assert_eq!(refused(Command::Read(Extent { offset: 64 * MIB, len: 512 })), Refusal::OutOfRange);
    assert_eq!(
        refused(Command::Write(Extent { offset: u64::MAX - 511, len: 512 }, DataClass::Zero)),
        Refusal::OutOfRange
    );
    let mut without = drive(|_, flash| flash.trim.supported = false);
    assert_eq!(
        without.ssd.submit(Nanos(0), &Command::trim(&[range])).result,
        Err(Refusal::TrimUnsupported)
    );
    assert_eq!(host.ssd.counters().host_read_bytes, 0, "refused commands are not counted");
}

#[test]
fn trim_of_long_range_counts_as_several() {
    let mut host = drive(|spec, flash| {
        (spec.interface.command_overhead_ns, spec.interface.latency_ns) = (0, 0);
        flash.trim = Trim {
            range_bytes_max: MIB,
            ranges_per_command_max: 4,
            command_ns: 1000,
            range_ns: 10,
            unit_ns: 0,
            gb_ns: 0,
            ..Trim::default()
        };
    });
    // Nine ranges in three commands.
    assert_eq!(host.trim(0, 9 * MIB), 3 * 1000 + 9 * 10);
}

#[test]
fn trims_reduce_write_amplification() {
    let waf = |trimmed: bool| {
        let mut host = drive(|_, flash| {
            flash.geometry = flash.geometry.clone().with_over_provisioning(64 * MIB, 150)
        });
        host.fill();
        if trimmed {
            host.trim(32 * MIB, 32 * MIB);
        }
        host.waf_of(|host| {
            for _ in 0..60_000 {
                let at = host.rng.below(host.ssd.size().0 / 8192) * 4096;
                host.write(at, 4096);
            }
        })
    };
    let (without, with) = (waf(false), waf(true));
    assert!(with < 1.2 && without > 2.0, "{without} {with}");
}
