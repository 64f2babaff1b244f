//! Write cache, SLC cache, compression, thermal and endurance throttling.

use super::*;
use crate::ssd::tests::BlockState;

#[test]
fn write_cache_absorbs_its_capacity() {
    let mut host = drive(|_, flash| flash.write_cache.bytes = MIB);
    let fast = host.sequential(0, MIB, DataClass::Random);
    let slow = host.sequential(MIB, 8 * MIB, DataClass::Random);
    assert!(fast > 4e8, "link rate: {fast}");
    assert!((slow / (4.0 * 4096.0 / 600e-6) - 1.0).abs() < 0.15, "flash rate: {slow}");
    let mut without = drive(|_, flash| flash.write_cache.bytes = 0);
    assert!(without.write(0, 4096) > 600_000, "without a cache a write ends with its program");
    assert!(host.ssd.counters().stall_cache_ns > 0);
}

#[test]
fn flush_waits_unless_protected_or_ignored() {
    let took = |protected, flush| {
        let mut host = drive(|_, flash| {
            flash.write_cache =
                WriteCache { power_loss_protection: protected, flush, ..flash.write_cache.clone() };
            flash.geometry.page_bytes = 16 * KIB;
            flash.geometry.blocks_per_plane /= 2;
        });
        host.ssd.track_durability();
        host.write(0, 4096);
        let took = host.flush();
        let padding = host.ssd.counters().nand_written_padding_slots;
        let durable = host.ssd.durable_sequence(host.now) == host.ssd.write_sequence();
        (took, padding, durable)
    };
    let (took_honest, padding, durable) = took(false, FlushBehaviour::WriteOut);
    assert!(took_honest > 600_000 && padding == 3 && durable, "{took_honest} {padding} {durable}");
    let (took_protected, padding, durable) = took(true, FlushBehaviour::WriteOut);
    assert!(
        took_protected < 100_000 && padding == 0 && durable,
        "{took_protected} {padding} {durable}"
    );
    let (took_lying, _, durable) = took(false, FlushBehaviour::Ignored);
    assert!(took_lying < 100_000 && !durable, "{took_lying} {durable}");
}

#[test]
fn power_cut_loses_unflushed_writes() {
    let mut host = drive(|_, _| {});
    host.ssd.track_durability();
    host.write(0, 8192);
    host.flush();
    host.write(0, 4096);
    host.write(MIB, 4096);
    let fates = host.ssd.power_cut(host.now);
    assert_eq!(
        fates
            .iter()
            .map(|fate| (fate.sequence, fate.extent.offset, fate.survives))
            .collect::<Vec<_>>(),
        [(2, 0, false), (3, MIB, false)]
    );
    assert_eq!(host.ssd.block_state(0), BlockState::Mapped, "the flushed version must survive");
    assert_ne!(host.ssd.block_state(MIB), BlockState::Mapped);
    host.ssd.check_invariants().unwrap();
}

#[test]
fn flushes_keep_the_journal_of_writes_short() {
    let mut host = drive(|_, _| {});
    host.ssd.track_durability();
    for nth in 0..1000 {
        host.write(nth % 100 * 4096, 4096);
        host.flush();
    }
    let kept = host.ssd.ftl.journal.as_ref().unwrap().entries.len();
    assert!(kept <= 2, "{kept} writes are kept");
}

#[test]
fn idle_write_out_is_durable_without_flush() {
    let mut host = drive(|_, flash| {
        flash.write_cache.idle_write_out_ns = Some(50 * MS);
        flash.geometry.page_bytes = 16 * KIB;
        flash.geometry.blocks_per_plane /= 2;
    });
    host.ssd.track_durability();
    host.write(0, 4096);
    assert_eq!(host.ssd.durable_sequence(host.now), 0);
    host.idle(100 * MS);
    assert_eq!(host.ssd.durable_sequence(host.now), 1);
}

fn slc(size: SlcSize, when_full: SlcFull, idle_fold_ns: Option<u64>) -> Option<SlcCache> {
    Some(SlcCache { size, program_ns: 150_000, read_ns: 20_000, when_full, idle_fold_ns })
}

#[test]
fn slc_cache_is_fast_until_full_and_folds_when_idle() {
    let mut host = drive(|_, flash| {
        flash.slc_cache =
            slc(SlcSize::Fixed { bytes: 4 * MIB }, SlcFull::WriteDirect, Some(100 * MS))
    });
    let fresh = host.sequential(0, 3 * MIB, DataClass::Random);
    host.sequential(3 * MIB, 3 * MIB, DataClass::Random);
    let full = host.sequential(6 * MIB, 6 * MIB, DataClass::Random);
    assert!(fresh > 3.0 * full, "{fresh} {full}");
    host.idle(2000 * MS);
    assert!(host.ssd.counters().nand_written_fold_slots > 500);
    let again = host.sequential(12 * MIB, 3 * MIB, DataClass::Random);
    assert!(again > 0.9 * fresh, "{fresh} {again}");
    // Folding first is slower than bypassing the cache.
    let mut folding = drive(|_, flash| {
        flash.slc_cache = slc(SlcSize::Fixed { bytes: 4 * MIB }, SlcFull::FoldFirst, None)
    });
    folding.sequential(0, 8 * MIB, DataClass::Random);
    let folded = folding.sequential(8 * MIB, 8 * MIB, DataClass::Random);
    assert!(folded < full, "{full} {folded}");
}

#[test]
fn dynamic_slc_cache_shrinks_as_drive_fills() {
    let fast_bytes = |filled: u64| {
        let size = SlcSize::Dynamic { bytes_min: MIB, bytes_max: 30 * MIB };
        let mut host =
            drive(|_, flash| flash.slc_cache = slc(size, SlcFull::WriteDirect, Some(10 * MS)));
        host.sequential(0, filled, DataClass::Random);
        host.idle(60_000 * MS);
        let mut bytes = 0;
        let folded = |host: &Host| host.ssd.occupancy().slc_superblocks;
        let mut last = folded(&host);
        for at in (filled..64 * MIB).step_by(128 << 10) {
            host.write(at, 128 * KIB);
            if folded(&host) > last {
                bytes = at - filled;
                last = folded(&host);
            }
        }
        bytes
    };
    let (empty, half) = (fast_bytes(0), fast_bytes(48 * MIB));
    assert!(empty > 3 * half, "{empty} {half}");
}

#[test]
fn heat_throttles_and_idle_time_cools() {
    let thermal = Thermal {
        ambient_mc: 30_000,
        rise_mc_per_gb: 1_000_000,
        cooling_ns: 10_000 * MS,
        throttle_mc: 70_000,
        resume_mc: 60_000,
        throttled_permille: 250,
    };
    let mut host = drive(|_, flash| flash.thermal = Some(thermal));
    let cool = host.sequential(0, 16 * MIB, DataClass::Random);
    assert!(!host.ssd.occupancy().throttled());
    host.fill();
    assert!(host.ssd.occupancy().throttled(), "{:?}", host.ssd.occupancy());
    let hot = host.sequential(0, 4 * MIB, DataClass::Random);
    assert!(hot < 0.4 * cool, "{cool} {hot}");
    host.idle(100_000 * MS);
    assert!(!host.ssd.occupancy().throttled());
    assert_eq!(
        host.ssd.occupancy().temperature_mc,
        Some(30_000 + (host.ssd.occupancy().temperature_mc.unwrap() - 30_000))
    );
    assert!(host.ssd.occupancy().temperature_mc.unwrap() < 31_000);
}

/// The equilibrium temperature extrapolated from two readings matches the data rate.
#[test]
fn two_readings_predict_equilibrium_temperature() {
    let thermal = Thermal {
        ambient_mc: 30_000,
        rise_mc_per_gb: 200_000,
        cooling_ns: 5_000 * MS,
        throttle_mc: 200_000,
        resume_mc: 190_000,
        throttled_permille: 500,
    };
    let mut host = drive(|_, flash| flash.thermal = Some(thermal.clone()));
    host.fill();
    for _ in 0..4 {
        let (from, start, before) =
            (host.ssd.occupancy().temperature_mc.unwrap(), host.now, host.ssd.nand_written());
        host.fill();
        let (to, took) = (host.ssd.occupancy().temperature_mc.unwrap(), host.now - start);
        let gb_per_s = (host.ssd.nand_written().0 - before.0) as f64 / 1e9 / took.as_secs_f64();
        let expected = 30_000.0 + 200_000.0 * gb_per_s * 5.0;
        let said = thermal.heads_for_mc(from, to, took.0).unwrap();
        assert!(
            (said / expected - 1.0).abs() < 0.02,
            "{from} to {to} in {took:?}: {said}, predicted {expected}"
        );
    }
    assert_eq!(thermal.heads_for_mc(30_000, 30_000, 0), None);
}

#[test]
fn exhausted_write_credit_throttles_until_restored() {
    let rule =
        LifeThrottle { credit_bytes: 32 * MIB, earned_bytes_per_s: MIB, throttled_permille: 250 };
    let mut host = drive(|_, flash| flash.life_throttle = Some(rule));
    let rate = |host: &mut Host| host.sequential(0, 8 * MIB, DataClass::Random);
    let fresh = rate(&mut host);
    host.sequential(8 * MIB, 16 * MIB, DataClass::Random);
    assert!(!host.ssd.occupancy().throttled(), "24 of 32 MiB are used up");
    host.sequential(24 * MIB, 16 * MIB, DataClass::Random);
    assert!(host.ssd.occupancy().throttled());
    let throttled = rate(&mut host);
    assert!(throttled < 0.35 * fresh, "{fresh} {throttled}");
    host.idle(20_000 * MS);
    assert!(host.ssd.occupancy().throttled(), "20 of 32 MiB are restored");
    host.idle(20_000 * MS);
    assert!(!host.ssd.occupancy().throttled() && rate(&mut host) > 0.9 * fresh);
    host.sequential(0, 32 * MIB, DataClass::Random);
    assert!(host.ssd.occupancy().throttled());
}

#[test]
fn sequential_reads_are_read_ahead() {
    let rate = |read_ahead_bytes| {
        let mut host = drive(|_, flash| flash.nand.read_ahead_bytes = read_ahead_bytes);
        host.fill();
        host.flush();
        host.idle(1000 * MS);
        let start = host.now;
        (0..1024).for_each(|nth| _ = host.read(nth * 16 * KIB, 16 * KIB));
        16.0 * MIB as f64 / (host.now - start).as_secs_f64()
    };
    let (without, with) = (rate(0), rate(256 * KIB));
    assert!(with > 1.5 * without, "{without} {with}");
}

#[test]
fn compressible_data_use_less_flash() {
    let run = |class: DataClass| {
        let mut host = drive(|_, flash| {
            flash.compression = Some(Compression {
                stored_permille_min: 140,
                granularity_bytes: 512,
                engine_bytes_per_s: 0,
            });
            flash.geometry = flash.geometry.clone().with_over_provisioning(64 * MIB, 150);
        });
        let rate = host.sequential(0, 64 * MIB, class);
        let waf = host.waf_of(|host| {
            for _ in 0..40_000 {
                let at = host.rng.below(host.ssd.size().0 / 4096) * 4096;
                host.run(&Command::Write(Extent { offset: at, len: 4096 }, class));
            }
        });
        host.ssd.check_invariants().unwrap();
        (rate, waf)
    };
    let ((zero_rate, zero_waf), (half_rate, half_waf), (random_rate, random_waf)) =
        (run(DataClass::Zero), run(DataClass::Compressible(50)), run(DataClass::Random));
    // 140 per mille of eight 512-byte parts rounds up to two parts: a quarter.
    assert!((zero_waf - 0.25).abs() < 0.02, "{zero_waf}");
    // Half the size at half the utilisation: c A(c u), where A(0.43) is only just above
    // 1.
    assert!((0.5..0.56).contains(&half_waf), "{half_waf}");
    assert!(random_waf > 2.0, "{random_waf}");
    assert!(
        zero_rate > 3.5 * random_rate && half_rate > 1.8 * random_rate,
        "{zero_rate} {half_rate} {random_rate}"
    );
    // A measured class behaves like the equivalent synthetic one.
    assert!((run(DataClass::Measured(500)).1 - half_waf).abs() < 1e-9);
}

#[test]
fn compression_engine_limits_write_rate() {
    let mut host = drive(|_, flash| {
        flash.compression = Some(Compression {
            stored_permille_min: 100,
            granularity_bytes: 512,
            engine_bytes_per_s: 10_000_000,
        });
    });
    let rate = host.sequential(0, 4 * MIB, DataClass::Zero);
    assert!((rate / 10e6 - 1.0).abs() < 0.05, "{rate}");
}

/// A card without heat sink overheats under sustained writes, but not within its SLC
/// cache.
#[test]
fn shipped_nvme_throttles_under_sustained_writes() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../drives/nvme-tlc-500gb.toml"
    ))
    .unwrap();
    let spec = file::parse(&text).unwrap().spec;
    let thermal = spec.flash.thermal.clone().unwrap();
    let mut ssd = Ssd::new(&spec, 1).unwrap();
    let mut now = Nanos(0);
    let mut throttled_at = None;
    for at in 0..8 * (spec.capacity_bytes >> 22) {
        let offset = (at << 22) % (spec.capacity_bytes >> 22 << 22);
        now = ssd
            .submit(now, &Command::Write(Extent { offset, len: 4 << 20 }, DataClass::Random))
            .done;
        if ssd.occupancy().throttled() {
            throttled_at = Some((at << 22) as f64 / 1e9);
            break;
        }
    }
    let gb = throttled_at.expect("must throttle");
    assert!((100.0..1000.0).contains(&gb), "{gb} GB");
    assert!(ssd.occupancy().temperature_mc.unwrap() >= thermal.throttle_mc - 100);
}
