//! Mapping, garbage collection and wear.

use super::*;

#[test]
fn partial_write_of_mapping_unit_reads_and_rewrites_it() {
    let with = |unit: u64| drive(|_, flash| flash.ftl.mapping_unit_bytes = unit);
    let (mut fine, mut coarse) = (with(4096), with(16 * KIB));
    fine.fill();
    coarse.fill();
    let (fine_waf, coarse_waf) =
        (fine.waf_of(|host| _ = host.random(2000)), coarse.waf_of(|host| _ = host.random(2000)));
    assert!(coarse_waf > 3.9 * fine_waf / 1.6 && coarse_waf >= 4.0, "{fine_waf} {coarse_waf}");
    assert!(coarse.ssd.counters().nand_read_rest_rows > 1800);
    assert_eq!(fine.ssd.counters().nand_read_rest_rows, 0);
    // Contiguous small writes are merged.
    let mut merged = with(16 * KIB);
    let waf = merged.waf_of(|host| (0..4096).for_each(|nth| _ = host.write(nth * 4096, 4096)));
    assert!((waf - 1.0).abs() < 0.01, "{waf}");
}

/// Without a write cache, a partial write takes the read of the rest plus a program.
#[test]
fn partial_write_without_cache_waits_for_rest_of_unit() {
    let mut host = drive(|spec, flash| {
        flash.ftl.mapping_unit_bytes = 16 * KIB;
        flash.geometry.page_bytes = 16 * KIB;
        flash.geometry.blocks_per_plane /= 2;
        flash.write_cache.bytes = 0;
        flash.nand.read_ahead_bytes = 0;
        spec.interface = Interface {
            command_overhead_ns: 3_000,
            latency_ns: 11_000,
            rate_bytes_per_s: 500_000_000,
            ..Interface::default()
        };
        (flash.nand.read_ns, flash.nand.program_ns, flash.nand.channel_bytes_per_s) =
            (50_000, 600_000, 400_000_000);
    });
    host.sequential(0, 32 * MIB, DataClass::Random);
    host.idle(1000 * MS);
    let commands = 3_000 + 4096 * 2 + 11_000;
    let row = 16 * KIB * 5 / 2;
    assert_eq!(host.write(0, 4096), commands + 50_000 + row + row + 600_000);
    // Unwritten units need no read.
    host.idle(1000 * MS);
    assert_eq!(host.write(48 * MIB, 4096), commands + row + 600_000);
}

#[test]
fn victim_policies_rank_as_expected() {
    let waf = |victim| {
        let mut host = drive(|_, flash| {
            flash.ftl.victim = victim;
            flash.geometry = flash.geometry.clone().with_over_provisioning(64 * MIB, 200);
        });
        host.fill();
        host.random(60_000);
        host.waf_of(|host| _ = host.random(60_000))
    };
    let [greedy, some, random] =
        [VictimPolicy::Greedy, VictimPolicy::DChoices(3), VictimPolicy::Random].map(waf);
    assert!(greedy < 0.97 * some && some < 0.8 * random, "{greedy} {some} {random}");
    // Under uniform traffic, age carries no information.
    let cost_benefit = waf(VictimPolicy::CostBenefit);
    assert!((0.95..1.3).contains(&(cost_benefit / greedy)), "{greedy} {cost_benefit}");
}

#[test]
fn cost_benefit_beats_greedy_on_hot_cold_data() {
    let waf = |victim| {
        let mut host = drive(|_, flash| {
            flash.ftl.victim = victim;
            flash.geometry = flash.geometry.clone().with_over_provisioning(64 * MIB, 200);
        });
        host.fill();
        let pages = host.ssd.size().0 / 4096;
        let work = |host: &mut Host| {
            for _ in 0..5 * pages {
                let at = if host.rng.chance(0.95) {
                    host.rng.below(pages / 20)
                } else {
                    host.rng.below(pages)
                };
                host.write(at * 4096, 4096);
            }
        };
        work(&mut host);
        host.waf_of(work)
    };
    let [greedy, cost_benefit] = [VictimPolicy::Greedy, VictimPolicy::CostBenefit].map(waf);
    assert!(cost_benefit < greedy, "{greedy} {cost_benefit}");
}

#[test]
fn collection_continues_to_high_watermark() {
    for high in [2, 6] {
        let mut host = drive(|_, flash| flash.ftl.gc.free_high = high);
        host.fill();
        host.random(20_000);
        // The collected superblock is opened at once.
        let most = (0..5_000)
            .map(|_| {
                host.random(1);
                host.ssd.occupancy().free_superblocks
            })
            .max();
        assert_eq!(most, Some(high - 1));
    }
}

#[test]
fn idle_time_runs_collection() {
    let rate = |idle_free| {
        let mut host = drive(|_, flash| {
            flash.ftl.gc.idle_delay_ns = Some(10 * MS);
            flash.ftl.gc.idle_free = idle_free;
        });
        host.fill();
        host.random(40_000);
        host.idle(20_000 * MS);
        (host.ssd.occupancy().free_superblocks, host.random(1000))
    };
    let ((few, slow), (many, fast)) = (rate(0), rate(30));
    assert!(few < 5 && many >= 30, "{few} {many}");
    assert!(fast > 1.2 * slow, "{slow} {fast}");
}

#[test]
fn wear_levelling_bounds_erase_spread() {
    let spread = |dynamic, static_spread_max| {
        let mut host = drive(|_, flash| {
            flash.ftl.wear = Wear {
                dynamic,
                static_spread_max,
                erase_limit: None,
                erase_limit_spread_permille: 0,
            };
        });
        host.fill();
        // Rewrite a sixteenth of the drive and leave the rest unchanged.
        for _ in 0..120_000 {
            let at = host.rng.below(host.ssd.size().0 / 4096 / 16) * 4096;
            host.write(at, 4096);
        }
        let erases = host.ssd.erase_counts();
        erases.iter().max().unwrap() - erases.iter().min().unwrap()
    };
    // Wear levelling is charged in addition to collection.
    let mut host = drive(|_, flash| {
        flash.ftl.wear = Wear {
            dynamic: true,
            static_spread_max: Some(4),
            erase_limit: None,
            erase_limit_spread_permille: 0,
        };
    });
    host.fill();
    for _ in 0..120_000 {
        let at = host.rng.below(host.ssd.size().0 / 4096 / 16) * 4096;
        host.write(at, 4096);
    }
    let (counted, nand) = (host.ssd.counters(), &host.ssd.flash.nand);
    let rows = u64::from(host.ssd.layout.superblock_slots / host.ssd.layout.row_slots);
    assert!(
        counted.levelled_superblocks * rows > counted.nand_written_gc_slots,
        "mostly levelling: {counted:?}"
    );
    assert!(
        counted.nand_read_internal_rows
            <= counted.levelled_superblocks * rows + counted.nand_written_gc_slots,
        "{counted:?}"
    );
    let moved = counted.nand_written_gc_slots + counted.nand_written_wear_slots;
    let work = counted.nand_read_internal_rows * nand.read_ns
        + moved * nand.program_ns
        + counted.erases * 4 * nand.erase_ns;
    let charged = host.ssd.clock.dies.charged_ns;
    assert!(
        (charged as f64 / work as f64 - 1.0).abs() < 0.001,
        "{charged} ns charged, {work} ns of work"
    );

    let (none, dynamic, both) = (spread(false, None), spread(true, None), spread(true, Some(4)));
    assert!(both <= 12 && dynamic > 2 * both, "{none} {dynamic} {both}");
    assert!(dynamic <= none, "{none} {dynamic} {both}");
}

#[test]
fn worn_out_drive_is_read_only_and_readable() {
    let mut host = drive(|_, flash| {
        flash.ftl.wear = Wear {
            dynamic: true,
            static_spread_max: None,
            erase_limit: Some(30),
            erase_limit_spread_permille: 200,
        };
    });
    host.fill();
    let refused = (0..10_000_000).find_map(|_| {
        let at = host.rng.below(host.ssd.size().0 / 4096) * 4096;
        let done = host
            .ssd
            .submit(host.now, &Command::Write(Extent { offset: at, len: 4096 }, DataClass::Random));
        host.now = done.done;
        done.result.err()
    });
    assert_eq!(refused, Some(Refusal::ReadOnly));
    let state = host.ssd.occupancy();
    assert!(state.read_only && state.worn_out_superblocks > 10, "{state:?}");
    assert_eq!(state.mapped_units, host.ssd.size().0 / 4096, "all data must survive");
    host.read(0, MIB);
    host.ssd.check_invariants().unwrap();
    // Erase counts stay within the spread of the limit.
    let most = *host.ssd.erase_counts().iter().max().unwrap();
    assert!((24..=37).contains(&most), "{most}");
}
