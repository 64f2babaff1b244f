//! Class priors: the starting point of a fit, and the distributions of properties that no
//! probe identifies. Also the space of drives for recovery tests. Link, commands and
//! reads of PCIe drives follow the catalogue (drives/measured). The rest is our own
//! estimate, and the shipped specifications lie within it.

use super::ReportedProperties;
use super::candidate::{Candidate, DriveKind, HiddenProperties, NUMBERS, OF_SMALL_PROBES, at};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::VictimPolicy;

/// Prior of a number: its median and the standard deviation of its natural logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Median.
    pub median: f64,
    /// Standard deviation of the logarithm; nine in ten drives lie within 1.64 of it.
    pub sigma: f64,
}

/// A continuous parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Specification field, with its unit.
    pub field: &'static str,
    sata: Prior,
    pcie: Prior,
}

const fn of(field: &'static str, sata: (f64, f64), pcie: (f64, f64)) -> Parameter {
    Parameter {
        field,
        sata: Prior { median: sata.0, sigma: sata.1 },
        pcie: Prior { median: pcie.0, sigma: pcie.1 },
    }
}

/// Field and priors (median, standard deviation of the logarithm) of each parameter, on a
/// SATA and on a PCIe drive, in the order of [`at`]. Each probe lists the fields that it
/// identifies.
#[rustfmt::skip]
pub const PARAMETERS: [Parameter; NUMBERS] = [
    of("interface.rate_bytes_per_s", (450e6, 0.7), (2.3e9, 0.7)),
    of("interface.command_overhead_ns", (9e3, 0.7), (4e3, 0.7)),
    of("interface.write_overhead_ns", (9e3, 0.9), (30e3, 1.1)),
    of("interface.latency_ns", (30e3, 0.6), (12e3, 0.6)),
    of("flash.nand.read_ns", (65e3, 0.45), (60e3, 0.6)),
    of("flash.nand.program_ns", (1.1e6, 0.5), (0.8e6, 0.5)),
    of("flash.nand.channel_bytes_per_s", (170e6, 0.9), (900e6, 0.7)),
    of("flash.nand.suspend_ns", (40e3, 0.7), (40e3, 0.7)),
    of("flash.nand.read_ahead_bytes", (512e3, 1.0), (512e3, 1.0)),
    of("flash.write_cache.bytes", (3e6, 1.2), (8e6, 1.2)),
    of("flash.write_cache.flush_ns", (150e3, 1.2), (100e3, 1.2)),
    of("flash.slc_cache.program_ns", (150e3, 0.4), (110e3, 0.4)),
    of("flash.slc_cache.read_ns", (25e3, 0.3), (24e3, 0.3)),
    of("flash.compression.stored_permille_min", (200.0, 0.5), (200.0, 0.5)),
    of("flash.trim.command_ns", (500e3, 2.0), (60e3, 2.0)),
    of("flash.trim.range_ns", (30e3, 2.0), (3e3, 2.0)),
    of("flash.trim.unit_ns", (20.0, 2.0), (20.0, 2.0)),
    of("flash.trim.gb_ns", (1e6, 2.0), (1e6, 2.0)),
    of("flash.over_provisioning_permille", (95.0, 0.35), (95.0, 0.35)),
    of("flash.nand.erase_ns", (3e6, 0.45), (4e6, 0.45)),
    of("flash.slc_cache.size.dynamic.bytes_min", (13e3, 0.6), (13e3, 0.6)),
    of("flash.slc_cache.size.dynamic.bytes_max", (80e3, 0.7), (80e3, 0.7)),
    of("flash.ftl.mapping_cache_bytes", (100.0, 0.8), (100.0, 0.8)),
];

/// Prior of each number for a drive that reports these properties.
#[must_use]
pub fn priors(reported: &ReportedProperties) -> [Prior; NUMBERS] {
    PARAMETERS.map(|one| if reported.full_duplex { one.pcie } else { one.sata })
}

/// Share of drives with only part of the map in memory: 7 of the 36 measured models
/// (drives/measured) are DRAM-less NVMe drives.
const WITHOUT_MEMORY: f64 = 0.2;
/// Limits of the sampled map memory. Less would be visible to the small probes. Its prior
/// is our estimate, around the 128 of `nvme-qlc-dramless-500gb` (64 MB, itself assumed).
const MAP_PPM: (f64, f64) = (20.0, 600.0);

/// Victim selection policies and the number of drives in ten that use each.
pub const VICTIMS: [(VictimPolicy, f64); 4] = [
    (VictimPolicy::Greedy, 7.0),
    (VictimPolicy::CostBenefit, 1.0),
    (VictimPolicy::Fifo, 1.0),
    (VictimPolicy::DChoices(8), 1.0),
];

/// Pages per block.
pub const PAGES: [u32; 3] = [192, 384, 768];

/// Bits per cell; drives with an SLC cache have one more.
#[must_use]
pub const fn bits(slc: bool) -> [u8; 2] {
    if slc { [3, 4] } else { [2, 3] }
}

/// Share of drives with the larger number of bits, without an SLC cache and with one.
const MANY_BITS: [f64; 2] = [0.4, 0.35];

/// Ratio of program times of four-bit and three-bit cells. Our estimate, from the shipped
/// specifications (2.2 ms against 0.56 and 1.38).
const FOUR_BITS_SLOWER: f64 = 2.2;

/// Sets the native program time that matches the number of bits if it is hidden behind an
/// SLC cache. On other drives, program times are visible and bits are not.
#[must_use]
pub fn programs_as_bits(mut candidate: Candidate) -> Candidate {
    if candidate.kind.slc && candidate.hidden.bits_per_cell == bits(true)[1] {
        candidate.logs[at::PROGRAM] += libm::log(FOUR_BITS_SLOWER);
    }
    candidate
}

/// As [`rarity`], for bits per cell.
#[must_use]
pub fn rarity_of_bits(found: u8, slc: bool) -> f64 {
    let many = MANY_BITS[usize::from(slc)];
    -2.0 * libm::log(if found == bits(slc)[1] { many } else { 1.0 - many })
}

/// As [`rarity`], for hidden properties.
#[must_use]
pub fn rarity_of_hidden(candidate: &Candidate, reported: &ReportedProperties) -> f64 {
    let hidden = &candidate.hidden;
    let less = |chance: f64| -2.0 * libm::log(chance);
    let victim = VICTIMS
        .iter()
        .find(|(victim, _)| *victim == hidden.victim)
        .map_or(0.05, |(_, of_ten)| of_ten / 10.0);
    let either = |is: bool, chance: f64| less(if is { chance } else { 1.0 - chance });
    let slc = |direct: f64| {
        rarity_of_bits(hidden.bits_per_cell, true) + either(hidden.slc_direct, direct)
    };
    less(victim)
        + either(hidden.separate_gc, 0.7)
        + either(hidden.maps_in_part, WITHOUT_MEMORY)
        + if candidate.kind.slc { slc(if reported.full_duplex { 0.99 } else { 0.6 }) } else { 0.0 }
}

/// Samples the properties that small probes cannot identify. SLC caches exist for cells
/// of three or more bits.
#[must_use]
pub fn with_hidden_drawn(
    mut candidate: Candidate,
    random: &mut Stream,
    reported: &ReportedProperties,
) -> Candidate {
    let slc = candidate.kind.slc;
    let [few, many] = bits(slc);
    let bits_per_cell = if random.chance(MANY_BITS[usize::from(slc)]) { many } else { few };
    let least = 1000 * random.between(5, 25);
    let slc_shrinks = !random.chance(0.5);
    let more = if slc_shrinks {
        1000.0 * random.between(20, 150) as f64
    } else {
        PARAMETERS[at::SLC_MORE].sata.median
    };
    let [spare, erase] = [at::SPARE, at::ERASE].map(|number| priors(reported)[number]);
    let spare = libm::floor(random.log_normal(spare.median, spare.sigma).clamp(70.0, 280.0));
    let pages_per_block = PAGES[random.below(PAGES.len() as u64) as usize];
    let erase = libm::floor(random.log_normal(erase.median, erase.sigma));
    let slc_direct = reported.full_duplex || random.chance(0.6);
    let victim = match random.below(10) {
        0..=6 => VictimPolicy::Greedy,
        7 => VictimPolicy::CostBenefit,
        8 => VictimPolicy::Fifo,
        _ => VictimPolicy::DChoices(8),
    };
    let separate_gc = random.chance(0.7);
    let maps_in_part = random.chance(WITHOUT_MEMORY);
    let map = PARAMETERS[at::MAP].sata;
    let map = if maps_in_part {
        random.log_normal(map.median, map.sigma).clamp(MAP_PPM.0, MAP_PPM.1)
    } else {
        map.median
    };
    for (number, value) in [
        (at::SPARE, spare),
        (at::ERASE, erase),
        (at::SLC_LEAST, least as f64),
        (at::SLC_MORE, more),
        (at::MAP, libm::floor(map)),
    ] {
        candidate.logs[number] = libm::log(value);
    }
    candidate.hidden = HiddenProperties {
        bits_per_cell,
        pages_per_block,
        slc_shrinks,
        slc_direct,
        victim,
        separate_gc,
        maps_in_part,
    };
    candidate
}

/// The commonest discrete hidden properties.
#[must_use]
pub const fn common(slc: bool) -> HiddenProperties {
    HiddenProperties {
        bits_per_cell: bits(slc)[0],
        pages_per_block: PAGES[1],
        slc_shrinks: false,
        slc_direct: true,
        victim: VictimPolicy::Greedy,
        separate_gc: true,
        maps_in_part: false,
    }
}

struct KindProbabilities {
    suspends: f64,
    protected: f64,
    slc: f64,
    folds: f64,
    compresses: f64,
    queued: f64,
    spread: f64,
}

const fn chances(pcie: bool) -> KindProbabilities {
    KindProbabilities {
        suspends: if pcie { 0.6 } else { 0.3 },
        protected: 0.25,
        slc: 0.5,
        folds: 0.5,
        compresses: if pcie { 0.02 } else { 0.3 },
        queued: if pcie { 0.7 } else { 0.25 },
        spread: 0.5,
    }
}

/// Penalty for a rare kind: minus twice the logarithm of its share, up to a constant.
#[must_use]
pub fn rarity(kind: &DriveKind, reported: &ReportedProperties) -> f64 {
    let chances = chances(reported.full_duplex);
    let either = |is: bool, chance: f64| -2.0 * libm::log(if is { chance } else { 1.0 - chance });
    let off = |value: u64, low: u64, high: u64| {
        libm::log2((value as f64 / high as f64).max(low as f64 / value as f64).max(1.0))
    };
    // One drive in five has each doubling beyond the common value.
    let arrangement = off(kind.channels.into(), 4, 10)
        + off(kind.dies_per_channel.into(), 1, 8)
        + off(kind.planes.into(), 1, 4)
        // SATA drives started with 4 KiB pages.
        + 2.0 * off(kind.page_bytes, if reported.full_duplex { 16 << 10 } else { 4 << 10 }, 16 << 10)
        + off(kind.unit_bytes, 4096, 32 << 10);
    3.2 * arrangement
        + if kind.unit_bytes > 4096 { 2.2 } else { 0.0 }
        + either(kind.suspends, chances.suspends)
        + either(kind.protected, chances.protected)
        + either(kind.slc, chances.slc)
        + if kind.slc {
            either(kind.folds, chances.folds)
        } else {
            either(kind.compresses, chances.compresses)
        }
        + either(kind.trim_queued, chances.queued)
        + either(kind.read_spread_permille > 0, chances.spread)
}

/// Truncation of sampled values, so that no drive lies outside the market.
const SIGMAS_MAX: f64 = 1.8;

/// Samples a drive of the class.
pub fn draw(random: &mut Stream, reported: &ReportedProperties) -> Candidate {
    let pcie = reported.full_duplex;
    let chances = chances(pcie);
    let slc = random.chance(chances.slc);
    let mut logs = [0.0; NUMBERS];
    for (log, prior) in logs.iter_mut().zip(priors(reported)).take(OF_SMALL_PROBES) {
        *log =
            libm::log(prior.median) + prior.sigma * random.normal().clamp(-SIGMAS_MAX, SIGMAS_MAX);
    }
    // Writes occupy a SATA processor as long as reads or longer, most PCIe ones far
    // longer.
    if !pcie {
        logs[at::WRITE_OVERHEAD] =
            logs[at::OVERHEAD] + if random.chance(0.5) { 0.0 } else { random.unit() };
    }
    // At most one kind of TRIM cost is high; the others are close to zero.
    let expensive = random.below(5) as usize;
    for number in [at::TRIM_COMMAND, at::TRIM_RANGE, at::TRIM_UNIT, at::TRIM_GB] {
        if number != at::TRIM_COMMAND + expensive {
            logs[number] =
                logs[number].min(libm::log(priors(reported)[number].median)) - random.unit();
        } else {
            logs[number] =
                logs[number].max(libm::log(priors(reported)[number].median)) + random.unit();
        }
    }
    let unit_bytes = 4096 << [0, 0, 0, 1, 2, 3][random.below(6) as usize];
    let kind = DriveKind {
        channels: 8 >> random.below(2),
        dies_per_channel: 1 << random.between(0, 3),
        planes: 1 << random.between(0, 2),
        page_bytes: 16 << 10,
        unit_bytes,
        suspends: random.chance(chances.suspends),
        protected: random.chance(chances.protected),
        slc,
        folds: true,
        read_spread_permille: if random.chance(chances.spread) {
            random.between(100, 400) as u16
        } else {
            0
        },
        compresses: !slc && !pcie && random.chance(chances.compresses),
        trim_queued: random.chance(chances.queued),
        trim_bytes_min: if random.chance(0.7) { 0 } else { 8192 << random.below(5) },
        trim_alignment_bytes: if random.chance(0.8) { 0 } else { unit_bytes * 2 },
    };
    programs_as_bits(with_hidden_drawn(
        Candidate { kind, logs, hidden: common(slc) },
        random,
        reported,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use trimtab_drive::shipped;

    /// Native four-bit cells take 2.2 times as long as three-bit cells (the shipped 2.2
    /// ms against 0.56 and 1.38), so bits and program times behind an SLC cache are
    /// sampled together.
    #[test]
    fn drawn_native_program_time_matches_bits_per_cell() {
        let reported = ReportedProperties::of(&shipped::named("nvme-tlc-500gb").unwrap().spec);
        let mut random = Stream::new(1, "bits");
        let drawn: Vec<Candidate> = (0..2000).map(|_| draw(&mut random, &reported)).collect();
        let mean = |slc: bool, bits: u8| {
            let of =
                drawn.iter().filter(|one| one.kind.slc == slc && one.hidden.bits_per_cell == bits);
            let logs: Vec<f64> = of.map(|one| one.logs[at::PROGRAM]).collect();
            assert!(logs.len() > 200);
            logs.iter().sum::<f64>() / logs.len() as f64
        };
        assert!((libm::exp(mean(true, 4) - mean(true, 3)) / 2.2 - 1.0).abs() < 0.12);
        assert!(
            (libm::exp(mean(false, 3) - mean(false, 2)) - 1.0).abs() < 0.12,
            "visible without an SLC cache"
        );
    }
}
