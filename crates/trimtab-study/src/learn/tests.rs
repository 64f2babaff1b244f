mod churn;
mod predict;
mod recovery;

use self::predict::{Prediction, ResidualDeviation, What, WorkloadFigure};
use super::candidate::{Candidate, at};
use super::fit::{self, FitResult, SequentialEvaluator};
use super::lab::ProbeSession;
use super::probes::whole::{self, ProbeRegion};
use super::probes::{self, Findings, ProbePlan};
use super::{Budget, ReportedProperties, invert, summary};
use crate::study::small::SmallDrive;
use alloc::format;
use trimtab_drive::data::DataClass;
use trimtab_drive::model;
use trimtab_drive::spec::twin::Known;
use trimtab_drive::spec::{
    Compression, DriveSpec, Flash, Geometry, Interface, NandTiming, SlcCache, SlcFull, SlcSize,
    Trim, WriteCache,
};
use trimtab_drive::{Command, Extent};
use trimtab_sim::runner::Observer;
use trimtab_sim::target::drive::DriveTarget;

/// A drive that differs from its class in every respect. TRIMs are expensive per range.
fn drive(change: impl FnOnce(&mut Flash)) -> DriveSpec {
    let capacity_bytes = 4 << 30;
    let geometry = Geometry {
        channels: 4,
        dies_per_channel: 2,
        superblock_dies: 8,
        pages_per_block: 128,
        ..Geometry::default()
    };
    let mut flash = Flash {
        geometry: geometry.with_over_provisioning(capacity_bytes, 120),
        nand: NandTiming {
            read_ns: 83_000,
            program_ns: 1_370_000,
            channel_bytes_per_s: 310_000_000,
            ..NandTiming::default()
        },
        write_cache: WriteCache { bytes: 2 << 20, flush_ns: 230_000, ..WriteCache::default() },
        trim: Trim {
            command_ns: 410_000,
            range_ns: 93_000,
            unit_ns: 55,
            gb_ns: 2_900_000,
            bytes_min: 16 << 10,
            ..Trim::default()
        },
        ..Flash::default()
    };
    flash.ftl.mapping_unit_bytes = 8192;
    change(&mut flash);
    let interface = Interface {
        rate_bytes_per_s: 430_000_000,
        command_overhead_ns: 7_700,
        latency_ns: 41_000,
        ..Interface::default()
    };
    DriveSpec {
        name: "x".into(),
        description: "x".into(),
        capacity_bytes,
        logical_block_bytes: 512,
        interface,
        flash,
    }
}

fn plan(spec: &DriveSpec, budget: Budget) -> ProbePlan {
    ProbePlan::new(budget, ReportedProperties::of(spec), 96 << 20, 1).unwrap()
}

fn probed(
    spec: &DriveSpec,
    plan: &ProbePlan,
) -> (Findings, DriveTarget<alloc::boxed::Box<dyn model::Model>>) {
    let mut target = DriveTarget::new(model::build(spec, 1).unwrap(), probes::DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    let found = probes::run(&mut lab, plan, &mut ()).unwrap();
    (found, target)
}

fn learned(spec: &DriveSpec, plan: &ProbePlan) -> FitResult {
    fit::fit(&probed(spec, plan).0, None, plan, &SequentialEvaluator, &mut ()).unwrap()
}

#[test]
fn probes_match_calculated_times() {
    let spec = drive(|_| {});
    let found = probed(&spec, &plan(&spec, Budget::Small)).0;
    let host = 7_700.0 + 41_000.0;
    let link = |bytes: f64| bytes / 0.43;
    let trim = |ranges: f64, units: f64, bytes: f64| {
        host + 410_000.0 + ranges * 93_000.0 + units * 55.0 + bytes * 2.9e-3
    };
    let short = 65_536.0;
    for (name, expected_ns) in [
        ("trimmed read 4096 q1", host + link(4096.0)),
        ("trimmed read 524288 q1", host + link(524_288.0)),
        ("trimmed read block deep", 7_700.0),
        ("read 4096 q1", host + 83_000.0 + 8192.0 / 0.31 + link(4096.0)),
        ("trim one", trim(1.0, 8.0, short)),
        ("trim one again", trim(1.0, 0.0, short)),
        ("trim few", trim(8.0, 64.0, 8.0 * short)),
        ("trim few again", trim(8.0, 0.0, 8.0 * short)),
        ("trim long", trim(1.0, 256.0, 2_097_152.0)),
        ("write 65536 q1", host + link(65_536.0)),
    ] {
        let value = found.ns(name).unwrap_or_else(|| panic!("no {name}"));
        assert!(
            (value / expected_ns - 1.0).abs() < 0.01,
            "{name}: {value}, {expected_ns} by arithmetic"
        );
    }
    // Eight dies program 32 KiB each in 1.37 ms: 5.2 ns per byte. A flush waits for one
    // program.
    let rate = found.ns("burst 33554432").unwrap();
    assert!((rate / (1_370_000.0 / (8.0 * 32_768.0)) - 1.0).abs() < 0.02, "{rate}");
    assert_eq!((found.trim_least, found.trim_granularity), (Some((8192, 16384)), Some(8192)));
    // Writes below a mapping unit take as long as a full one.
    assert_eq!(invert::unit_written(&found), Some(8192));
}

/// A free flush leaves 2 MiB to program in 11 ms. Reads during a TRIM take at most 4
/// reads.
#[test]
fn reads_during_queued_trims_do_not_wait_for_flushed_writes() {
    let spec = drive(|flash| {
        flash.write_cache.power_loss_protection = true;
        flash.trim = Trim {
            queued: true,
            command_ns: 10_000,
            range_ns: 1000,
            unit_ns: 0,
            gb_ns: 0,
            ..flash.trim.clone()
        };
    });
    let found = probed(&spec, &plan(&spec, Budget::Small)).0;
    let lone = 7_700.0 + 41_000.0 + 83_000.0 + 8192.0 / 0.31 + 4096.0 / 0.43;
    for name in ["reads beside trim many", "reads beside trim all"] {
        let beside = found.ns(name).unwrap();
        assert!((lone..4.0 * lone).contains(&beside), "{name}: {beside}, {lone} alone");
    }
}

#[test]
fn probes_respect_write_limit() {
    for limit in [24 << 20, 96 << 20, 1 << 30] {
        let spec = drive(|_| {});
        let plan = ProbePlan::new(Budget::Small, ReportedProperties::of(&spec), limit, 1).unwrap();
        let (found, target) = probed(&spec, &plan);
        // Uses the drive's own counter.
        let written = target.drive().written().0;
        assert_eq!(written, found.written);
        assert!(written <= limit, "{written} of {limit}");
    }
    let spec = drive(|_| {});
    assert_eq!(
        ProbePlan::new(Budget::Small, ReportedProperties::of(&spec), (24 << 20) - 1, 1),
        None
    );
    assert_eq!(ProbePlan::write_limit(120_000_000_000), 1_200_000_000);
    assert_eq!(ProbePlan::write_limit(2_000_000_000_000), 4_000_000_000);
}

#[test]
fn fit_recovers_drive_unlike_its_class() {
    let spec = drive(|_| {});
    let plan = plan(&spec, Budget::Small);
    let fitted = learned(&spec, &plan);
    let kind = fitted.best.kind;
    assert_eq!(
        (kind.unit_bytes, kind.trim_bytes_min, kind.trim_queued, kind.slc, kind.compresses),
        (8192, 16384, false, false, false)
    );
    for (number, value, within) in [
        (at::RATE, 430e6, 0.02),
        (at::OVERHEAD, 7700.0, 0.02),
        (at::LATENCY, 41e3, 0.03),
        (at::READ, 83e3, 0.08),
        (at::PROGRAM, 1.37e6, 0.05),
        (at::CACHE, (2 << 20) as f64, 0.15),
        (at::TRIM_COMMAND, 410e3, 0.1),
        (at::TRIM_RANGE, 93e3, 0.1),
        (at::TRIM_UNIT, 55.0, 0.1),
        (at::TRIM_GB, 2.9e6, 0.1),
    ] {
        let off = fitted.best.number(number) / value - 1.0;
        assert!(
            off.abs() < within,
            "{}: {}, {value} in truth",
            super::classes::PARAMETERS[number].field,
            fitted.best.number(number)
        );
    }
    assert_eq!(fitted.members.len(), fit::MEMBERS);
    assert!(fitted.misfit < 1.0, "{}", fitted.misfit);
    let parameters = summary::parameters(&fitted, &plan);
    let of = |field: &str| parameters.iter().find(|one| one.field == field).unwrap();
    assert_eq!(
        (of("flash.trim.range_ns").known, of("flash.nand.erase_ns").known),
        (Known::Measured, Known::Typical)
    );
    for one in &parameters {
        assert!(one.low <= one.estimate && one.estimate <= one.high, "{one:?}");
    }
    // With a filesystem log before each flush, the log may account for the whole flush
    // time.
    let logged = ProbePlan { reach: probes::AccessPath { flushes: false, ..plan.reach }, ..plan };
    let flush = |plan: &ProbePlan| {
        summary::parameters(&fitted, plan)
            .into_iter()
            .find(|one| one.field == "flash.write_cache.flush_ns")
            .unwrap()
    };
    assert_eq!(
        (flush(&plan).known, flush(&logged).known, flush(&logged).low),
        (Known::Measured, Known::Bounded, 0)
    );
    // A repetition gives identical results.
    let again = learned(&spec, &plan);
    assert_eq!((again.best, again.members), (fitted.best, fitted.members));
}

/// The link carries 90 MB/s and eight dies program 191 MB/s (32 KiB each in 1.37 ms), so
/// write rates do not reveal compression; compressed reads transfer less over a channel.
/// Pages of three bits have three types: a twin may be unsure of that, but must not
/// exclude it.
#[test]
fn compression_is_found_from_reads_on_slow_link() {
    let mut spec = drive(|flash| {
        flash.compression = Some(Compression {
            stored_permille_min: 250,
            granularity_bytes: 512,
            engine_bytes_per_s: 0,
        });
        flash.geometry.bits_per_cell = 3;
        flash.geometry.pages_per_block = 192;
        flash.geometry = flash.geometry.clone().with_over_provisioning(4 << 30, 120);
        flash.nand.read_spread_permille = 300;
        flash.nand.channel_bytes_per_s = 150_000_000;
    });
    spec.interface.rate_bytes_per_s = 90_000_000;
    let plan = plan(&spec, Budget::Small);
    let found = probed(&spec, &plan).0;
    let written = found.ns("write zeros").unwrap() / found.ns("write random").unwrap();
    assert!((written - 1.0).abs() < 0.01, "{written}");
    let fitted = learned(&spec, &plan);
    assert!(fitted.best.kind.compresses, "{:?}", fitted.best.kind);
    let parameters = summary::parameters(&fitted, &plan);
    let stored =
        parameters.iter().find(|one| one.field == "flash.compression.stored_permille_min").unwrap();
    assert!(stored.low <= 250 && stored.high >= 250, "{stored:?}");
    let like = |one: &&Candidate| one.kind.compresses && one.hidden.bits_per_cell == 3;
    let like = fitted.members.iter().filter(like).count();
    assert!(like >= 6, "{like} of {} are as the drive is", fitted.members.len());
}

#[test]
fn whole_drive_probes_show_slc_cache_and_native_cells() {
    // An eighth in SLC mode; eight dies write 32 KiB rows in 0.3 ms there, natively in
    // 1.37 ms.
    let slc = SlcCache {
        size: SlcSize::Fixed { bytes: 1 << 27 },
        program_ns: 300_000,
        read_ns: 20_000,
        when_full: SlcFull::WriteDirect,
        idle_fold_ns: Some(2_000_000_000),
    };
    let mut spec = drive(|flash| flash.slc_cache = Some(slc));
    spec.capacity_bytes = 1 << 30;
    spec.interface.rate_bytes_per_s = 2_000_000_000;
    let flash = &mut spec.flash;
    flash.ftl.mapping_unit_bytes = 4096;
    flash.nand.channel_bytes_per_s = 2_000_000_000;
    flash.geometry.pages_per_block = 24;
    flash.geometry = flash.geometry.clone().with_over_provisioning(1 << 30, 600);
    let whole = ProbeRegion::all(spec.capacity_bytes);
    let plan = ProbePlan {
        whole: Some(whole),
        ..ProbePlan::new(Budget::Full, ReportedProperties::of(&spec), 96 << 20, 1).unwrap()
    };
    let mut target = DriveTarget::new(model::build(&spec, 1).unwrap(), probes::DEPTH_MAX);
    let found = probes::run_whole(&mut ProbeSession::new(&mut target), &plan, &mut ()).unwrap();
    assert_eq!(target.drive().written().0, found.written);
    assert!(
        found.written <= whole.written_max() && found.written > 2 * whole.bytes,
        "{}",
        found.written
    );
    let row = 8.0 * 32_768.0;
    for (name, expected_ns) in [
        ("fill 2", 0.3e6 / row),
        ("fill 3", 0.3e6 / row),
        ("fill 6", 1.37e6 / row),
        ("fill 32", 1.37e6 / row),
    ] {
        let value = found.ns(name).unwrap();
        assert!(
            (value / expected_ns - 1.0).abs() < 0.1,
            "{name}: {value}, {expected_ns} by arithmetic"
        );
    }
    // The whole cache, an eighth of the drive, is available after a long rest only.
    let fast = |rest: &str| {
        (1..=10)
            .filter(|nth| found.ns(&format!("after a {rest} rest {nth}")).unwrap() < 0.7e6 / row)
            .count()
    };
    assert!(fast("long") >= 9, "{}", fast("long"));
    assert!(fast("short") < 5, "{}", fast("short"));
    // With spare space, a random write is one write; later it is more.
    let (first, last) = (found.ns("collected 2").unwrap(), found.ns("collected 16").unwrap());
    assert!(last > 1.2 * first, "{first} {last}");
}

/// Findings of the whole-drive probes on a 1 GiB drive with the proportions of `spec`.
fn probed_whole(spec: &DriveSpec, plan: &ProbePlan) -> Findings {
    let small = SmallDrive::of(spec, whole::SIZE).unwrap().spec;
    let mut target = DriveTarget::new(model::build(&small, 2).unwrap(), probes::DEPTH_MAX);
    let at_that_size =
        ProbePlan { whole: Some(plan.whole.unwrap().on(small.capacity_bytes)), ..*plan };
    probes::run_whole(&mut ProbeSession::new(&mut target), &at_that_size, &mut ()).unwrap()
}

/// Finds spare space, which small probes cannot identify, on a fully written drive, and
/// reports the source of each value.
#[test]
#[ignore = "a minute of processor time: make soak"]
fn full_budget_finds_spare_space() {
    let spec =
        drive(|flash| flash.geometry = flash.geometry.clone().with_over_provisioning(4 << 30, 210));
    let mut plan =
        ProbePlan::new(Budget::Full, ReportedProperties::of(&spec), 96 << 20, 1).unwrap();
    let part = probed(&spec, &plan).0;
    let before = fit::fit(&part, None, &plan, &SequentialEvaluator, &mut ()).unwrap();
    plan.whole = Some(ProbeRegion::all(spec.capacity_bytes));
    let found = probed_whole(&spec, &plan);
    let after = fit::fit(&part, Some(&found), &plan, &SequentialEvaluator, &mut ()).unwrap();
    assert_eq!(
        (after.best.kind.dies(), after.best.kind.row_bytes()),
        (before.best.kind.dies(), before.best.kind.row_bytes())
    );
    assert!(after.whole.unwrap().misfit < 0.1, "{:?}", after.whole);
    let spare = after.best.spare_permille();
    assert!((195..=225).contains(&spare), "{spare}");
    let of = |fitted: &FitResult| {
        let all = summary::parameters(fitted, &plan);
        all.into_iter().find(|one| one.field == "flash.over_provisioning_permille").unwrap()
    };
    assert_eq!(
        (of(&before).known, of(&after).known, of(&after).source.as_str()),
        (Known::Typical, Known::Measured, "collection")
    );
    assert!(of(&after).low <= 210 && of(&after).high >= 210, "{:?}", of(&after));
}

/// With half of the map in memory, every second random read waits for a map page, which
/// is read and crosses the channel. Reads in a 64th part wait once for each of its few
/// pages. Runs twice, because modified map pages are written first.
#[test]
fn whole_drive_reads_wait_for_map_as_calculated() {
    let spec = drive(|flash| flash.ftl.mapping_cache_bytes = Some(1 << 20));
    let flash = &spec.flash;
    let map_bytes = spec.capacity_bytes / flash.ftl.mapping_unit_bytes * 4;
    let plan = ProbePlan {
        whole: Some(ProbeRegion::all(spec.capacity_bytes)),
        ..plan(&spec, Budget::Full)
    };
    let mut target = DriveTarget::new(model::build(&spec, 1).unwrap(), probes::DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target);
    lab.stream(
        4,
        (0..spec.capacity_bytes >> 20).map(|nth| {
            Command::Write(Extent { offset: nth << 20, len: 1 << 20 }, DataClass::Random)
        }),
    )
    .unwrap();
    let mut found = || {
        let mut found = probes::Findings::default();
        whole::map(&mut lab, &plan, &mut found).unwrap();
        found
    };
    let (_, found) = (found(), found());
    let waits = found.ns("read in 1/1 q1").unwrap() - found.ns("read in 1/64 q1").unwrap();
    let page = flash.geometry.page_bytes;
    let lookup =
        flash.nand.read_ns as f64 + page as f64 * 1e9 / flash.nand.channel_bytes_per_s as f64;
    let once = (map_bytes / 64).div_ceil(page) as f64 / 192.0;
    let expected = lookup * (1.0 - (1 << 20) as f64 / map_bytes as f64 - once);
    assert!((waits / expected - 1.0).abs() < 0.15, "{waits} for {expected}");
}

/// The kernel sends no flush to a drive without a volatile cache.
#[test]
fn unsent_flushes_identify_no_times() {
    let spec = drive(|_| {});
    let sent = plan(&spec, Budget::Small);
    let not_sent =
        ProbePlan { reach: probes::AccessPath { sends_flushes: false, ..sent.reach }, ..sent };
    let sigmas = |plan: &ProbePlan| {
        let mut target = DriveTarget::new(model::build(&spec, 1).unwrap(), probes::DEPTH_MAX);
        let found = probes::run(&mut ProbeSession::new(&mut target), plan, &mut ()).unwrap();
        found
            .observations
            .into_iter()
            .map(|one| (one.name, one.sigma))
            .collect::<alloc::vec::Vec<_>>()
    };
    for ((name, sigma), (_, not_sent)) in sigmas(&sent).into_iter().zip(sigmas(&not_sent)) {
        let flush = ["burst flush", "flush", "flush small"].contains(&name.as_str());
        assert_eq!(not_sent, if flush { 10.0 } else { sigma }, "{name}");
    }
}

#[test]
fn stopped_fit_returns_none() {
    struct Stopped;
    impl Observer for Stopped {
        fn stopped(&self) -> bool {
            true
        }
    }
    let spec = drive(|_| {});
    let plan = plan(&spec, Budget::Small);
    let found = probed(&spec, &plan).0;
    assert!(fit::fit(&found, None, &plan, &SequentialEvaluator, &mut Stopped).is_none());
}

#[test]
fn prediction_interval_excludes_a_twentieth_per_side() {
    let figure = |value: u32| {
        alloc::vec![WorkloadFigure { workload: "x", what: What::Rate, value: f64::from(value) }]
    };
    let shown: alloc::vec::Vec<_> = (0..101).map(|value| figure(value * 37 % 101)).collect();
    let all = predict::predictions(&shown);
    // The 5.1st of 101 on either side.
    assert!(
        (all[0].low - 4.1).abs() < 1e-9
            && (all[0].high - 95.9).abs() < 1e-9
            && all[0].median == 50.0,
        "{all:?}"
    );
    assert!(
        all[0].holds(4.11, 0.0)
            && !all[0].holds(4.0, 0.0)
            && all[0].holds(96.3, 0.005)
            && !all[0].holds(96.5, 0.005)
    );
    assert!(predict::predictions(&[]).is_empty());
}

/// The minimum and maximum of eight draws exclude two in nine of the next draws. The
/// interval of a twin must still cover nine in ten.
#[test]
fn prediction_interval_of_few_members_exceeds_their_range() {
    let mut random = trimtab_drive::rng::Stream::new(3, "a few members");
    for (members, cases) in [(8, 4000), (16, 4000), (19, 4000), (32, 4000), (64, 4000)] {
        let mut draw = || random.log_normal(7.0, 0.3);
        let held = (0..cases).filter(|_| {
            let shown: alloc::vec::Vec<_> = (0..members)
                .map(|_| {
                    alloc::vec![WorkloadFigure { workload: "x", what: What::Rate, value: draw() }]
                })
                .collect();
            predict::predictions(&shown)[0].holds(draw(), 0.0)
        });
        let held = held.count() as f64 / f64::from(cases);
        assert!((0.88..=0.92).contains(&held), "{members}: {held}");
    }
    let same = alloc::vec![alloc::vec![WorkloadFigure { workload: "x", what: What::Ratio, value: 0.0 }]; 3];
    assert_eq!(predict::predictions(&same)[0].high, 0.0, "zero has no spread");
}

/// A deviation of a tenth with an equal spread widens the interval by the root of two.
#[test]
fn widened_adds_residual_deviation_of_model() {
    let tenth = libm::log(1.1);
    let one = Prediction {
        workload: "x",
        what: What::Rate,
        median: 100.0,
        low: 100.0 / 1.1,
        high: 110.0,
    };
    let of = |part: f64, whole: f64| ResidualDeviation { part, whole };
    assert_eq!(one.widened(of(0.0, 1.0)), one);
    let wide = one.widened(of(tenth / 1.645, 0.0));
    let half = libm::exp(core::f64::consts::SQRT_2 * tenth);
    assert!(
        (wide.high - 100.0 * half).abs() < 1e-9
            && (wide.low - 100.0 / half).abs() < 1e-9
            && wide.median == 100.0,
        "{wide:?}"
    );
    // Predictions that depend on garbage collection use the residual of the whole-drive
    // probes.
    let sure = Prediction { workload: "churn at 60 %, none", low: 100.0, high: 100.0, ..one }
        .widened(of(1.0, tenth / 1.645));
    assert!((sure.high - 110.0).abs() < 1e-9, "{sure:?}");
}

/// A queued TRIM of one range costs host, command and range, if units and bytes are free.
#[test]
fn unprobed_workloads_match_calculated_figures() {
    let expensive = |flash: &mut Flash| {
        flash.trim = Trim {
            queued: true,
            unit_ns: 0,
            gb_ns: 0,
            range_bytes_max: 1 << 40,
            ..flash.trim.clone()
        };
    };
    let figures = predict::figures(&drive(expensive), 1).unwrap();
    let of = |workload: &str, what: What| {
        figures.iter().find(|one| one.workload == workload && one.what == what).unwrap().value
    };
    let trim = 7_700.0 + 41_000.0 + 410_000.0 + 93_000.0;
    assert!((of("trims", What::Mean) / trim - 1.0).abs() < 0.02, "{}", of("trims", What::Mean));
    // One at a time, a second holds as many as fit (Little's law).
    for name in ["mixed, 1 in flight", "trims"] {
        assert!((of(name, What::Rate) * of(name, What::Mean) / 1e9 - 1.0).abs() < 0.01, "{name}");
    }
    // With 8 KiB units, a 4 KiB write costs a program of two, over eight 32 KiB dies in
    // 1.37 ms.
    let most = 8.0 * 4.0 / 1.37e-3;
    assert!(
        of("random writes in the end", What::Rate) < most,
        "{}",
        of("random writes in the end", What::Rate)
    );
    assert_eq!(predict::figures(&drive(expensive), 1).unwrap(), figures);
}
