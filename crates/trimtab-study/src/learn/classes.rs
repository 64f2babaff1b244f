//! Class priors: the starting point of a fit, and the distributions of properties that no
//! probe identifies. Also the space of drives for recovery tests. Link, commands and reads of
//! PCIe drives follow the catalogue (drives/measured). The rest is our own estimate, and the
//! shipped specifications lie within it.

use super::ReportedProperties;
use super::candidate::{Candidate, DriveKind, HiddenProperties, NUMBERS, at};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::VictimPolicy;

/// Number of parameters that the probes of the whole drive determine.
pub const SIZES: usize = 7;

/// Prior of a number: its median and the standard deviation of its natural logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// Median.
    pub median: f64,
    /// Standard deviation of the logarithm; nine in ten drives lie within 1.64 of it.
    pub sigma: f64,
}

/// Prior of each number for a drive that reports these properties.
#[must_use]
pub fn priors(reported: &ReportedProperties) -> [Prior; NUMBERS] {
    let pcie = reported.full_duplex;
    let of = |sata: f64, nvme: f64, sigma: f64| Prior { median: if pcie { nvme } else { sata }, sigma };
    let mut all = [Prior { median: 1.0, sigma: 1.0 }; NUMBERS];
    all[at::RATE] = of(450e6, 2.3e9, 0.7);
    all[at::OVERHEAD] = of(9e3, 4e3, 0.7);
    all[at::WRITE_OVERHEAD] = if pcie { Prior { median: 30e3, sigma: 1.1 } } else { Prior { median: 9e3, sigma: 0.9 } };
    all[at::LATENCY] = of(30e3, 12e3, 0.6);
    all[at::READ] = if pcie { Prior { median: 60e3, sigma: 0.6 } } else { Prior { median: 65e3, sigma: 0.45 } };
    all[at::PROGRAM] = of(1.1e6, 0.8e6, 0.5);
    all[at::CHANNEL] = if pcie { Prior { median: 900e6, sigma: 0.7 } } else { Prior { median: 170e6, sigma: 0.9 } };
    all[at::SUSPEND] = of(40e3, 40e3, 0.7);
    all[at::READ_AHEAD] = of(512e3, 512e3, 1.0);
    all[at::CACHE] = of(3e6, 8e6, 1.2);
    all[at::FLUSH] = of(150e3, 100e3, 1.2);
    all[at::SLC_PROGRAM] = of(150e3, 110e3, 0.4);
    all[at::SLC_READ] = of(25e3, 24e3, 0.3);
    all[at::STORED] = of(200.0, 200.0, 0.5);
    all[at::TRIM_COMMAND] = of(500e3, 60e3, 2.0);
    all[at::TRIM_RANGE] = of(30e3, 3e3, 2.0);
    all[at::TRIM_UNIT] = of(20.0, 20.0, 2.0);
    all[at::TRIM_GB] = of(1e6, 1e6, 2.0);
    all
}

/// Priors of the parameters that the probes of the whole drive determine, in the order of
/// `fit::whole::of`. Programs and reads are known better from other probes.
#[must_use]
pub fn sizes() -> [Prior; SIZES] {
    let of = |median: f64, sigma: f64| Prior { median, sigma };
    [of(95.0, 0.35), of(3.5e6, 0.45), of(13e3, 0.6), of(80e3, 0.7), of(1e6, 1.0), of(60e3, 1.0), MAP]
}

/// Share of drives with only part of the map in memory: 7 of the 36 measured models
/// (drives/measured) are DRAM-less NVMe drives.
const WITHOUT_MEMORY: f64 = 0.2;
/// Map memory of DRAM-less drives in the host or the controller, as `Hidden::map_ppm`. Our
/// estimate, around the 128 of `nvme-qlc-dramless-500gb` (64 MB, itself assumed).
const MAP: Prior = Prior { median: 100.0, sigma: 0.8 };
/// Limits of the sampled map memory. Less would be visible to the small probes.
const MAP_PPM: (f64, f64) = (20.0, 600.0);

/// Samples the map memory of a DRAM-less drive.
pub fn map_ppm(random: &mut Stream) -> u32 {
    random.log_normal(MAP.median, MAP.sigma).clamp(MAP_PPM.0, MAP_PPM.1) as u32
}

/// Victim selection policies and the number of drives in ten that use each.
pub const VICTIMS: [(VictimPolicy, f64); 4] =
    [(VictimPolicy::Greedy, 7.0), (VictimPolicy::CostBenefit, 1.0), (VictimPolicy::Fifo, 1.0), (VictimPolicy::DChoices(8), 1.0)];

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

/// Sets the native program time that matches the number of bits if it is hidden behind an SLC
/// cache. On other drives, program times are visible and bits are not.
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
    let victim = VICTIMS.iter().find(|(victim, _)| *victim == hidden.victim).map_or(0.05, |(_, of_ten)| of_ten / 10.0);
    let either = |is: bool, chance: f64| less(if is { chance } else { 1.0 - chance });
    let slc = |direct: f64| rarity_of_bits(hidden.bits_per_cell, true) + either(hidden.slc_direct, direct);
    less(victim)
        + either(hidden.separate_gc, 0.7)
        + either(hidden.map_ppm > 0, WITHOUT_MEMORY)
        + if candidate.kind.slc { slc(if reported.full_duplex { 0.99 } else { 0.6 }) } else { 0.0 }
}

/// Samples the properties that small probes cannot identify. `slc` determines the bits per
/// cell: SLC caches exist for cells of three or more bits.
pub fn hidden(random: &mut Stream, reported: &ReportedProperties, slc: bool) -> HiddenProperties {
    let [few, many] = bits(slc);
    let bits = if random.chance(MANY_BITS[usize::from(slc)]) { many } else { few };
    let least = 1000 * random.between(5, 25) as u32;
    let most = if random.chance(0.5) { least } else { least + 1000 * random.between(20, 150) as u32 };
    HiddenProperties {
        over_provisioning_permille: random.log_normal(95.0, 0.35).clamp(70.0, 280.0) as u32,
        bits_per_cell: bits,
        pages_per_block: PAGES[random.below(PAGES.len() as u64) as usize],
        erase_ns: random.log_normal(if reported.full_duplex { 4e6 } else { 3e6 }, 0.45) as u64,
        slc_ppm: (least, most),
        slc_direct: reported.full_duplex || random.chance(0.6),
        victim: match random.below(10) {
            0..=6 => VictimPolicy::Greedy,
            7 => VictimPolicy::CostBenefit,
            8 => VictimPolicy::Fifo,
            _ => VictimPolicy::DChoices(8),
        },
        separate_gc: random.chance(0.7),
        map_ppm: if random.chance(WITHOUT_MEMORY) { map_ppm(random) } else { 0 },
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
    let off = |value: u64, low: u64, high: u64| libm::log2((value as f64 / high as f64).max(low as f64 / value as f64).max(1.0));
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
        + if kind.slc { either(kind.folds, chances.folds) } else { either(kind.compresses, chances.compresses) }
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
    for (log, prior) in logs.iter_mut().zip(priors(reported)) {
        *log = libm::log(prior.median) + prior.sigma * random.normal().clamp(-SIGMAS_MAX, SIGMAS_MAX);
    }
    // Writes occupy a SATA processor as long as reads or longer, most PCIe ones far longer.
    if !pcie {
        logs[at::WRITE_OVERHEAD] = logs[at::OVERHEAD] + if random.chance(0.5) { 0.0 } else { random.unit() };
    }
    // At most one kind of TRIM cost is high; the others are close to zero.
    let expensive = random.below(5) as usize;
    for number in [at::TRIM_COMMAND, at::TRIM_RANGE, at::TRIM_UNIT, at::TRIM_GB] {
        if number != at::TRIM_COMMAND + expensive {
            logs[number] = logs[number].min(libm::log(priors(reported)[number].median)) - random.unit();
        } else {
            logs[number] = logs[number].max(libm::log(priors(reported)[number].median)) + random.unit();
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
        read_spread_permille: if random.chance(chances.spread) { random.between(100, 400) as u16 } else { 0 },
        compresses: !slc && !pcie && random.chance(chances.compresses),
        trim_queued: random.chance(chances.queued),
        trim_bytes_min: if random.chance(0.7) { 0 } else { 8192 << random.below(5) },
        trim_alignment_bytes: if random.chance(0.8) { 0 } else { unit_bytes * 2 },
    };
    programs_as_bits(Candidate { kind, logs, hidden: hidden(random, reported, slc) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use trimtab_drive::shipped;

    /// Native four-bit cells take 2.2 times as long as three-bit cells (the shipped 2.2 ms against
    /// 0.56 and 1.38), so bits and program times behind an SLC cache are sampled together.
    #[test]
    fn drawn_native_program_time_matches_bits_per_cell() {
        let reported = ReportedProperties::of(&shipped::named("nvme-tlc-500gb").unwrap().spec).unwrap();
        let mut random = Stream::new(1, "bits");
        let drawn: Vec<Candidate> = (0..2000).map(|_| draw(&mut random, &reported)).collect();
        let mean = |slc: bool, bits: u8| {
            let of = drawn.iter().filter(|one| one.kind.slc == slc && one.hidden.bits_per_cell == bits);
            let logs: Vec<f64> = of.map(|one| one.logs[at::PROGRAM]).collect();
            assert!(logs.len() > 200);
            logs.iter().sum::<f64>() / logs.len() as f64
        };
        assert!((libm::exp(mean(true, 4) - mean(true, 3)) / 2.2 - 1.0).abs() < 0.12);
        assert!((libm::exp(mean(false, 3) - mean(false, 2)) - 1.0).abs() < 0.12, "visible without an SLC cache");
    }
}
