//! Mechanisms that are off unless a specification sets them, against arithmetic.

use super::*;
use crate::rng::Stream;

/// Writes 4000 random units on a drive that `change` modifies; 512 fill it first.
fn overwritten(change: impl FnOnce(&mut Flash)) -> Ssd {
    let spec = small(|_, flash| change(flash));
    let mut ssd = Ssd::new(&spec, 1).unwrap();
    let mut stream = Stream::new(1, "overwrites");
    let mut now = Nanos(0);
    for nth in 0..4512_u64 {
        let unit = if nth < 512 { nth } else { stream.below(512) };
        now = ssd
            .submit(
                now,
                &Command::Write(Extent { offset: unit * 4096, len: 4096 }, DataClass::Random),
            )
            .done;
    }
    ssd.check_invariants().unwrap();
    ssd
}

#[test]
fn metadata_multiply_write_amplification_exactly() {
    let (plain, with) =
        (overwritten(|_| {}), overwritten(|flash| flash.ftl.metadata_permille = 100));
    assert!(plain.waf().unwrap() > 1.2);
    assert_eq!(plain.counters().nand_written_gc_slots, with.counters().nand_written_gc_slots);
    assert_eq!(with.nand_written().0, plain.nand_written().0 * 11 / 10);
    assert!((with.waf().unwrap() / plain.waf().unwrap() - 1.1).abs() < 1e-6);
}

#[test]
fn metadata_lengthen_every_program() {
    let program = |permille| {
        let spec = small(|_, flash| flash.ftl.metadata_permille = permille);
        Clock::new(&spec, &spec.flash, &SsdLayout::new(&spec, &spec.flash).unwrap()).now.program
    };
    assert_eq!((program(0), program(100)), (600_000, 660_000));
}

#[test]
fn die_wait_lengthens_collection_only() {
    let (plain, with) =
        (overwritten(|_| {}), overwritten(|flash| flash.ftl.gc.die_wait_permille = 1000));
    assert!(plain.counters().gc_die_ns > 0);
    assert_eq!(with.counters().gc_die_ns, 2 * plain.counters().gc_die_ns);
    // One die: each host program takes the same time, collection twice the time.
    let waited = |ssd: &Ssd| ssd.backlog(Nanos(0)).0 as f64;
    let expected = waited(&plain) + plain.counters().gc_die_ns as f64;
    assert!((waited(&with) / expected - 1.0).abs() < 0.01, "{} {expected}", waited(&with));
}

#[test]
fn overwrite_of_newest_data_stays_in_write_cache() {
    let written = |merge_bytes, units: &[u64]| {
        let mut ssd =
            Ssd::new(&small(|_, flash| flash.write_cache.merge_bytes = merge_bytes), 1).unwrap();
        for unit in units {
            ssd.submit(
                Nanos(0),
                &Command::Write(Extent { offset: unit * 4096, len: 4096 }, DataClass::Random),
            );
        }
        ssd.check_invariants().unwrap();
        assert_eq!(ssd.counters().host_writes, units.len() as u64);
        ssd.counters().nand_written_host_slots
    };
    assert_eq!(written(0, &[1, 1, 1]), 3);
    assert_eq!(written(8192, &[1, 1, 1]), 1);
    // Two units lie between: the previous version is no longer among the newest two.
    assert_eq!(written(8192, &[1, 2, 1]), 2);
    assert_eq!(written(8192, &[1, 2, 3, 1]), 4);
}

#[test]
fn write_cache_smaller_than_its_merged_data_is_refused() {
    let error =
        Ssd::new(&small(|_, flash| flash.write_cache.merge_bytes = 128 << 10), 1).unwrap_err();
    assert!(
        alloc::string::ToString::to_string(&error)
            .starts_with("flash.write_cache.merge_bytes is 131072 bytes"),
        "{error}"
    );
}
