//! Properties that hold after every command, on drives of every kind.

mod arithmetic;
mod effects;
mod extremes;
mod fingerprint;
mod mechanisms;
mod reference;

use self::fingerprint::fingerprint;
use super::check::BlockState;
use super::*;
use crate::data::DataClass;
use crate::spec::*;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

mod wear_out;

/// A small drive: 64 KiB superblocks of 4 KiB units, modified by `change`.
pub(super) fn small(change: impl FnOnce(&mut DriveSpec, &mut Flash)) -> DriveSpec {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes: 1,
        page_bytes: 4096,
        pages_per_block: 16,
        blocks_per_plane: 48,
        superblock_dies: 1,
        bits_per_cell: 3,
    };
    let mut flash = Flash { geometry, ..Flash::default() };
    flash.write_cache.bytes = 64 << 10;
    let mut spec = DriveSpec {
        name: "small".into(),
        description: String::new(),
        capacity_bytes: 2 << 20,
        logical_block_bytes: 512,
        interface: Interface::default(),
        flash: flash.clone(),
    };
    change(&mut spec, &mut flash);
    spec.flash = flash;
    spec
}

fn any_policy() -> impl Strategy<Value = VictimPolicy> {
    prop_oneof![
        Just(VictimPolicy::Greedy),
        Just(VictimPolicy::CostBenefit),
        Just(VictimPolicy::Fifo),
        Just(VictimPolicy::Random),
        (1_u32..6).prop_map(VictimPolicy::DChoices),
    ]
}

prop_compose! {
    fn any_geometry()(
        shape in prop_oneof![Just((1, 1, 1, 1)), Just((2, 2, 2, 4)), Just((2, 2, 1, 1)), Just((4, 1, 2, 2))],
        page_bytes in prop_oneof![Just(4096_u64), Just(16384)],
    ) -> Geometry {
        let (channels, dies_per_channel, planes, superblock_dies) = shape;
        Geometry { channels, dies_per_channel, planes, page_bytes, pages_per_block: 12, blocks_per_plane: 1, superblock_dies, bits_per_cell: 3 }
    }
}

prop_compose! {
    /// Specifications with random combinations of features.
    fn any_spec()(
        geometry in any_geometry(),
        victim in any_policy(),
        separate_gc in any::<bool>(),
        unit in prop_oneof![4 => Just(4096_u64), 2 => Just(16384), 1 => Just(2048)],
        extra in prop_oneof![3 => Just(0_u8), 2 => Just(1), 2 => Just(2), 1 => Just(3)],
        cache in prop_oneof![Just(0_u64), Just(128 << 10), Just(1 << 20)],
        protected in any::<bool>(),
        wear in (any::<bool>(), proptest::option::of(2_u32..10), proptest::option::of(20_u32..60)),
        trim in (any::<bool>(), prop_oneof![Just(0_u64), Just(32768)]),
        slack in 1_u32..20,
    ) -> DriveSpec {
        small(|spec, flash| {
            flash.geometry = geometry;
            flash.ftl.victim = victim;
            flash.ftl.streams.separate_gc = separate_gc;
            flash.ftl.mapping_unit_bytes = unit;
            flash.write_cache = WriteCache { bytes: cache, power_loss_protection: protected, ..WriteCache::default() };
            flash.ftl.wear = Wear { dynamic: wear.0, static_spread_max: wear.1, erase_limit: wear.2, erase_limit_spread_permille: 300 };
            flash.trim.queued = trim.0;
            flash.trim.alignment_bytes = trim.1;
            match extra {
                1 => flash.compression = Some(Compression { stored_permille_min: 100, granularity_bytes: 512, engine_bytes_per_s: 0 }),
                2 => {
                    let size = if slack % 2 == 0 { SlcSize::Fixed { bytes: 256 << 10 } } else { SlcSize::Dynamic { bytes_min: 64 << 10, bytes_max: 1 << 20 } };
                    let when_full = if slack % 3 == 0 { SlcFull::FoldFirst } else { SlcFull::WriteDirect };
                    flash.slc_cache = Some(SlcCache { size, program_ns: 200_000, read_ns: 25_000, when_full, idle_fold_ns: Some(1_000_000) });
                }
                3 => flash.ftl.mapping_cache_bytes = Some(32 << 10),
                _ => {}
            }
            spec.capacity_bytes = 100 * 16384 - 2048;
            // The minimum number of superblocks that validation accepts, plus some slack.
            let mut blocks = 1;
            loop {
                flash.geometry.blocks_per_plane = blocks;
                spec.flash = flash.clone();
                match spec.validate() {
                    Ok(()) => break,
                    Err(error) => assert!(blocks < 4096, "{error}"),
                }
                blocks += 1;
            }
            flash.geometry.blocks_per_plane += slack / 4;
        })
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u16),
    Read(u64, u64),
    Trim(Vec<(u64, u64)>),
    Flush,
    Idle(u64),
    PowerCut(u64),
}

/// Offsets and lengths in 512-byte blocks, modulo the drive size.
fn any_step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![3 => 1_u64..16, 3 => Just(8), 2 => Just(32), 1 => 1_u64..700];
    let at = prop_oneof![2 => 0_u64..4000, 1 => (0_u64..400).prop_map(|unit| unit * 8)];
    prop_oneof![
        12 => (at.clone(), len.clone(), prop_oneof![Just(0_u16), Just(1000), 0_u16..1000]).prop_map(|(at, len, class)| Step::Write(at, len, class)),
        2 => (at.clone(), len.clone()).prop_map(|(at, len)| Step::Read(at, len)),
        3 => proptest::collection::vec((at, len), 1..4).prop_map(Step::Trim),
        1 => Just(Step::Flush),
        1 => prop_oneof![Just(10_000_u64), Just(100_000_000), Just(5_000_000_000)].prop_map(Step::Idle),
        1 => (0_u64..3_000_000).prop_map(Step::PowerCut),
    ]
}

/// Possible content of each block, as version numbers of writes; 0 means none.
struct Shadow {
    /// Version that a read returns now.
    versions: Vec<u64>,
    /// Writes that may be lost: sequence number, block, version, previous version.
    pending: Vec<(u64, usize, u64)>,
    /// Version that is certainly on flash.
    durable: Vec<u64>,
}

fn extent_of(spec: &DriveSpec, at: u64, len: u64) -> Extent {
    let blocks = spec.capacity_bytes / 512;
    let at = at % blocks;
    Extent { offset: at * 512, len: len.min(blocks - at) * 512 }
}

fn run(spec: &DriveSpec, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut ssd = Ssd::new(spec, 7).unwrap();
    ssd.track_durability();
    let mut now = Nanos(0);
    let unit = ssd.layout().unit_bytes;
    let blocks = (spec.capacity_bytes / 512) as usize;
    let mut shadow =
        Shadow { versions: vec![0; blocks], pending: Vec::new(), durable: vec![0; blocks] };
    let mut version = 0;
    for step in steps {
        let trimmed_before = ssd.counters().clone();
        let resting = trimmed_units(&ssd);
        match step {
            Step::Write(at, len, class) => {
                let extent = extent_of(spec, *at, *len);
                let first = ssd.write_sequence();
                let done = ssd.submit(now, &Command::Write(extent, DataClass::Measured(*class)));
                prop_assert!(done.done >= now);
                if done.result.is_err() {
                    prop_assert_eq!(done.result, Err(Refusal::ReadOnly));
                    prop_assert!(ssd.occupancy().read_only);
                    return ssd.check_invariants().map_err(TestCaseError::fail);
                }
                version += 1;
                // Sequence numbers follow a command's units in address order.
                let units = extent.offset / unit..(extent.offset + extent.len).div_ceil(unit);
                for (sequence, unit_index) in (first..).zip(units.clone()) {
                    let from = (unit_index * unit).max(extent.offset) / 512;
                    let to = ((unit_index + 1) * unit).min(extent.offset + extent.len) / 512;
                    for block in from as usize..to as usize {
                        shadow.versions[block] = version;
                        shadow.pending.push((sequence, block, version));
                    }
                }
                prop_assert_eq!(ssd.write_sequence() - first, units.end - units.start);
                now = done.done;
            }
            Step::Read(at, len) => {
                now = ssd.submit(now, &Command::Read(extent_of(spec, *at, *len))).done
            }
            Step::Trim(ranges) => {
                let ranges: Vec<Extent> =
                    ranges.iter().map(|(at, len)| extent_of(spec, *at, *len)).collect();
                let done = ssd.submit(now, &Command::trim(&ranges));
                prop_assert_eq!(done.result, Ok(()));
                now = done.done;
                let counted = ssd.counters().since(&trimmed_before);
                prop_assert_eq!(
                    counted.trim_asked_bytes,
                    ranges.iter().map(|range| range.len).sum::<u64>()
                );
            }
            Step::Flush => {
                now = ssd.submit(now, &Command::Flush).done;
                let durable = ssd.durable_sequence(now);
                prop_assert_eq!(
                    durable,
                    ssd.write_sequence(),
                    "a completed flush makes all writes durable"
                );
            }
            Step::Idle(ns) => {
                now += Nanos(*ns);
                ssd.idle(now);
            }
            Step::PowerCut(after) => {
                now += Nanos(*after);
                settle(&mut shadow, &mut ssd, now);
                let fates = ssd.power_cut(now);
                let fate: std::collections::BTreeMap<u64, bool> =
                    fates.iter().map(|fate| (fate.sequence, fate.survives)).collect();
                for (sequence, block, version) in shadow.pending.drain(..) {
                    let survives = *fate.get(&sequence).ok_or_else(|| {
                        TestCaseError::fail("missing fate of a non-durable write")
                    })?;
                    prop_assert!(survives || !spec.flash.write_cache.power_loss_protection);
                    if survives {
                        shadow.durable[block] = version;
                    }
                }
                shadow.versions.copy_from_slice(&shadow.durable);
            }
        }
        if let Err(broken) = ssd.check_invariants() {
            return Err(TestCaseError::fail(std::format!("after {step:?}: {broken}")));
        }
        settle(&mut shadow, &mut ssd, now);
        check_contents(&mut shadow, &ssd, unit)?;
        check_trimmed(&resting, &ssd, step)?;
    }
    Ok(())
}

/// Moves writes that the drive reports as durable from `pending` to `durable`.
fn settle(shadow: &mut Shadow, ssd: &mut Ssd, now: Nanos) {
    let durable = ssd.durable_sequence(now);
    let certain = &mut shadow.durable;
    shadow.pending.retain(|(sequence, block, version)| {
        if *sequence < durable {
            certain[*block] = *version;
        }
        *sequence >= durable
    });
}

/// Trimmed units without a part in the write cache.
fn trimmed_units(ssd: &Ssd) -> Vec<u64> {
    let unit_bytes = ssd.layout().unit_bytes;
    let waiting = |unit: u64| ssd.partial.parts.iter().any(|part| u64::from(part.unit) == unit);
    (0..u64::from(ssd.layout().units))
        .filter(|unit| ssd.block_state(unit * unit_bytes) == BlockState::Trimmed && !waiting(*unit))
        .collect()
}

/// Trimmed data are never relocated: a unit that was trimmed before a step is mapped
/// again only if the step writes it.
fn check_trimmed(resting: &[u64], ssd: &Ssd, step: &Step) -> Result<(), TestCaseError> {
    let unit_bytes = ssd.layout().unit_bytes;
    let written = match step {
        Step::Write(at, len, _) => {
            let extent = extent_of(ssd.spec(), *at, *len);
            extent.offset / unit_bytes..(extent.offset + extent.len).div_ceil(unit_bytes)
        }
        _ => 0..0,
    };
    let relocated = |unit: &&u64| {
        !written.contains(unit) && ssd.block_state(**unit * unit_bytes) == BlockState::Mapped
    };
    match resting.iter().find(relocated) {
        Some(unit) => {
            Err(TestCaseError::fail(std::format!("{step:?} relocated trimmed unit {unit}")))
        }
        None => Ok(()),
    }
}

/// A block with data is mapped. A block that is not mapped was trimmed or never written,
/// and holds nothing from then on.
fn check_contents(shadow: &mut Shadow, ssd: &Ssd, unit: u64) -> Result<(), TestCaseError> {
    for block in 0..shadow.versions.len() {
        let waiting =
            ssd.partial.parts.iter().any(|part| u64::from(part.unit) == block as u64 * 512 / unit);
        match ssd.block_state(block as u64 * 512) {
            BlockState::Mapped => {}
            BlockState::Trimmed | BlockState::NeverWritten if waiting => {}
            BlockState::Trimmed => (shadow.versions[block], shadow.durable[block]) = (0, 0),
            BlockState::NeverWritten => {
                prop_assert!(
                    shadow.versions[block] == 0,
                    "block {} lost version {}",
                    block,
                    shadow.versions[block]
                );
                (shadow.versions[block], shadow.durable[block]) = (0, 0);
            }
        }
    }
    Ok(())
}

/// Applies `step` without checks; returns its completion time.
fn apply_unchecked(ssd: &mut Ssd, now: Nanos, step: &Step) -> Nanos {
    let spec = ssd.spec().clone();
    match step {
        Step::Write(at, len, class) => {
            ssd.submit(
                now,
                &Command::Write(extent_of(&spec, *at, *len), DataClass::Measured(*class)),
            )
            .done
        }
        Step::Read(at, len) => ssd.submit(now, &Command::Read(extent_of(&spec, *at, *len))).done,
        Step::Trim(ranges) => {
            let ranges: Vec<Extent> =
                ranges.iter().map(|(at, len)| extent_of(&spec, *at, *len)).collect();
            ssd.submit(now, &Command::trim(&ranges)).done
        }
        Step::Flush => ssd.submit(now, &Command::Flush).done,
        Step::Idle(ns) => {
            ssd.idle(now + Nanos(*ns));
            now + Nanos(*ns)
        }
        Step::PowerCut(after) => {
            ssd.power_cut(now + Nanos(*after));
            now + Nanos(*after)
        }
    }
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 400, max_shrink_iters: 4000, ..ProptestConfig::default() }
    )]

    #[test]
    fn invariants_hold_after_every_command(spec in any_spec(), steps in proptest::collection::vec(any_step(), 1..200)) {
        run(&spec, &steps)?;
    }
}

/// Compressed units differ in size: the room that collection leaves in a superblock
/// shared with fresh data may be too small for the next unit.
#[test]
fn compressed_units_find_room_after_collection() {
    let spec = small(|spec, flash| {
        flash.ftl.victim = VictimPolicy::Random;
        flash.ftl.streams.separate_gc = false;
        flash.geometry.pages_per_block = 12;
        flash.geometry.blocks_per_plane = 39;
        flash.compression = Some(Compression {
            stored_permille_min: 100,
            granularity_bytes: 512,
            engine_bytes_per_s: 0,
        });
        spec.capacity_bytes = 1600 << 10;
    });
    for seed in 0..20 {
        let mut ssd = Ssd::new(&spec, seed).unwrap();
        let mut rng = crate::rng::Stream::new(seed, "room");
        let mut now = Nanos(0);
        for _ in 0..5000 {
            let class = if rng.below(10) == 0 { rng.below(1001) } else { 1000 };
            now = apply_unchecked(
                &mut ssd,
                now,
                &Step::Write(rng.below(3200), rng.between(1, 64), class as u16),
            );
        }
        ssd.check_invariants().unwrap();
    }
}

/// The same specification, workload and seed give the same state on every machine. Update
/// the snapshot when the model changes on purpose.
#[test]
fn ssd_results_match_golden_fingerprints() {
    let mut lines = String::new();
    for (name, spec) in golden_specs() {
        let mut ssd = Ssd::new(&spec, 42).unwrap();
        let mut rng = crate::rng::Stream::new(42, "golden");
        let mut now = Nanos(0);
        for nth in 0..12_000 {
            now = apply_unchecked(&mut ssd, now, &golden_step(&mut rng, nth));
        }
        ssd.check_invariants().unwrap();
        let counters = ssd.counters();
        lines += &std::format!(
            "{name}: {:016x} at {} ns, WAF {:.4}, {} collected, {} folded, {} \
                levelled, {} worn out\n",
            fingerprint(&ssd),
            now.0,
            ssd.waf().unwrap(),
            counters.gc_superblocks,
            counters.folded_superblocks,
            counters.levelled_superblocks,
            ssd.occupancy().worn_out_superblocks,
        );
    }
    insta::assert_snapshot!(lines);
}

fn golden_step(rng: &mut crate::rng::Stream, nth: u64) -> Step {
    let (at, len) = (rng.below(4000), rng.between(1, 64));
    match rng.below(100) {
        0..70 => Step::Write(at, len, rng.below(1001) as u16),
        70..85 => Step::Read(at, len),
        85..93 => Step::Trim(vec![(at, len * 8)]),
        93..97 => Step::Flush,
        _ if nth.is_multiple_of(50) => Step::Idle(2_000_000_000),
        _ => Step::Idle(200_000),
    }
}

fn golden_specs() -> Vec<(&'static str, DriveSpec)> {
    let policy = |victim| move |_: &mut DriveSpec, flash: &mut Flash| flash.ftl.victim = victim;
    vec![
        ("greedy", small(policy(VictimPolicy::Greedy))),
        ("cost-benefit", small(policy(VictimPolicy::CostBenefit))),
        ("fifo", small(policy(VictimPolicy::Fifo))),
        ("random", small(policy(VictimPolicy::Random))),
        ("d-choices", small(policy(VictimPolicy::DChoices(3)))),
        (
            "compressing",
            small(|_, flash| {
                flash.compression = Some(Compression {
                    stored_permille_min: 140,
                    granularity_bytes: 512,
                    engine_bytes_per_s: 0,
                })
            }),
        ),
        (
            "slc, coarse mapping",
            small(|_, flash| {
                flash.ftl.mapping_unit_bytes = 8192;
                let size = SlcSize::Dynamic { bytes_min: 64 << 10, bytes_max: 256 << 10 };
                flash.slc_cache = Some(SlcCache {
                    size,
                    program_ns: 200_000,
                    read_ns: 25_000,
                    when_full: SlcFull::WriteDirect,
                    idle_fold_ns: Some(1_000_000),
                });
            }),
        ),
        (
            "wearing",
            small(|_, flash| {
                flash.ftl.wear = Wear {
                    dynamic: true,
                    static_spread_max: Some(8),
                    erase_limit: Some(60),
                    erase_limit_spread_permille: 500,
                };
            }),
        ),
        (
            "hot, with little map memory",
            small(|_, flash| {
                flash.ftl.mapping_cache_bytes = Some(4096);
                flash.thermal = Some(Thermal {
                    ambient_mc: 30_000,
                    rise_mc_per_gb: 500_000,
                    cooling_ns: 1_000_000_000,
                    throttle_mc: 40_000,
                    resume_mc: 35_000,
                    throttled_permille: 300,
                });
            }),
        ),
        (
            "limited for life",
            small(|_, flash| {
                flash.life_throttle = Some(LifeThrottle {
                    credit_bytes: 2 << 20,
                    earned_bytes_per_s: 1 << 20,
                    throttled_permille: 400,
                });
            }),
        ),
    ]
}
