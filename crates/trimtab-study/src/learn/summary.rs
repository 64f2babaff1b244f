//! Parameters of an ensemble: estimate, interval and source of each figure.

use super::Observation;
use super::candidate::{Candidate, OF_SMALL_PROBES, at};
use super::classes::{self, PARAMETERS};
use super::fit::{FitResult, OF_THE_RIGHT_KIND};
use super::probes::{self, Probe, ProbePlan};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use trimtab_drive::spec::BITS_PER_CELL_MAX;
use trimtab_drive::spec::twin::{Known, Parameter};

/// Share of the prior uncertainty that a measured, and a bounded, figure must remove.
const MEASURED: f64 = 0.9;
const BOUNDED: f64 = 0.3;

/// Every parameter of the best candidate with its interval and source.
#[must_use]
pub fn parameters(fitted: &FitResult, plan: &ProbePlan) -> Vec<Parameter> {
    let mut all: Vec<Parameter> = (0..OF_SMALL_PROBES)
        .filter(|number| fitted.best.has(*number))
        .map(|number| of_number(fitted, plan, number))
        .collect();
    if plan.reported.trim.is_none() {
        all.retain(|one| !one.field.starts_with("flash.trim"));
    }
    all.extend(of_kinds(fitted, plan));
    all.extend(of_hidden(fitted, plan));
    if fitted.explained < OF_THEIR_OWN_MIN || !fitted.is_explained() {
        bound(&mut all);
    }
    if fitted.misfit_of_all() > OF_THE_RIGHT_KIND {
        bound(all.iter_mut().filter(|one| is_of_the_flash(&one.field)));
    }
    all
}

/// True if another arrangement of dies and rows would change the field.
fn is_of_the_flash(field: &str) -> bool {
    ["flash.nand.", "flash.slc_cache.", "flash.geometry.", "flash.write_cache.", SPARE, MAP]
        .iter()
        .any(|part| field.starts_with(part))
}

/// Downgrades measured parameters to bounded.
pub fn bound<'a>(parameters: impl IntoIterator<Item = &'a mut Parameter>) {
    for one in parameters.into_iter().filter(|one| one.known == Known::Measured) {
        one.known = Known::Bounded;
    }
}

fn of_number(fitted: &FitResult, plan: &ProbePlan, number: usize) -> Parameter {
    let value = |candidate: &Candidate| libm::round(candidate.number(number)) as u64;
    let same = fitted.members.iter().filter(|member| member.has(number));
    let (low, high) = bounds(same.map(value).collect(), value(&fitted.best));
    let nearly = nearly_as_good(fitted).iter().filter(|other| other.has(number)).map(value);
    let (low, high) =
        nearly.fold((low, high), |(low, high), other| (low.min(other), high.max(other)));
    let known = known(fitted.learned[number].min(told_by(
        low,
        high,
        classes::priors(&plan.reported)[number].sigma,
    )));
    let (low, known) = of_cost(PARAMETERS[number].field, (low, high), known);
    let may_be_none = match number {
        at::FLUSH => !tells_flushes(plan, fitted),
        at::STORED => {
            is_a_block(high, plan.reported.logical_block_bytes, fitted.best.kind.unit_bytes)
        }
        _ => false,
    };
    let (low, known) =
        if may_be_none && known != Known::Typical { (0, Known::Bounded) } else { (low, known) };
    Parameter {
        field: PARAMETERS[number].field.to_string(),
        estimate: value(&fitted.best),
        low,
        high,
        known,
        source: source(known, PARAMETERS[number].field, plan),
    }
}

/// Misfit above which a preference for one kind of drive may be a model artefact.
const LEFT_OVER: f64 = 0.1;

/// Kinds that explain the figures nearly as well as the best, if its fit is incomplete.
fn nearly_as_good(fitted: &FitResult) -> &[Candidate] {
    if fitted.misfit > LEFT_OVER { &fitted.kinds } else { &[] }
}

/// Minimum number of distinct members for an interval. With fewer, or if no drive
/// explains the figures, nothing counts as measured.
const OF_THEIR_OWN_MIN: u32 = 8;
/// Ratio of bounds above which a TRIM cost may be zero.
const MAY_BE_NONE: u64 = 4;

/// Lower bound and source of a TRIM cost; bounds too far apart leave only the upper one.
fn of_cost(field: &str, (low, high): (u64, u64), known: Known) -> (u64, Known) {
    if field.starts_with("flash.trim.") && known != Known::Typical && high > MAY_BE_NONE * low {
        (0, Known::Bounded)
    } else {
        (low, known)
    }
}

/// True if the figures reveal the flush time. A filesystem that writes a log before a
/// flush may account for all of it. If the program time that a flush waits for is
/// unknown, only the sum is visible.
fn tells_flushes(plan: &ProbePlan, fitted: &FitResult) -> bool {
    let program = if fitted.best.kind.slc { at::SLC_PROGRAM } else { at::PROGRAM };
    plan.reach.flushes && (fitted.best.kind.protected || fitted.learned[program] >= MEASURED)
}

/// True if the stored size of zeros, in per mille, is at most one block of a mapping
/// unit. Whole blocks are stored, so smaller sizes are indistinguishable.
const fn is_a_block(stored: u64, block_bytes: u32, unit_bytes: u64) -> bool {
    let of_a_block = 1000 * block_bytes as u64 / unit_bytes;
    stored <= of_a_block + of_a_block / 10
}

/// Nine in ten values lie within this many standard deviations.
const NINE_OF_TEN: f64 = 1.645;

/// Share of the prior uncertainty removed if nine in ten members lie between `low` and
/// `high`. Narrow intervals of single kinds do not count if several kinds explain the
/// figures.
pub(super) fn told_by(low: u64, high: u64, sigma: f64) -> f64 {
    let left = libm::log(high.max(1) as f64 / low.max(1) as f64) / (2.0 * NINE_OF_TEN * sigma);
    1.0 - left * left
}

fn bounds(mut values: Vec<u64>, estimate: u64) -> (u64, u64) {
    values.sort_unstable();
    let at = |share: usize| {
        values.get((values.len().saturating_sub(1)) * share / 100).copied().unwrap_or(estimate)
    };
    (at(5).min(estimate), at(95).max(estimate))
}

fn is_about(probe: &Probe, field: &str) -> bool {
    probe.identifies.iter().any(|about| {
        field.strip_prefix(about).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Ratio, at least 1, between measured figures of the probes that identify a field and
/// those of the best drive, if they are unexplained; otherwise 1.
fn unexplained(odd: &[(Observation, f64)], field: &str) -> f64 {
    let of_it = odd.iter().filter(|(one, _)| {
        probes::every().any(|probe| probe.name == one.probe && is_about(probe, field))
    });
    of_it.map(|(one, shown)| (one.value_ns / shown).max(shown / one.value_ns)).fold(1.0, f64::max)
}

fn source(known: Known, field: &str, plan: &ProbePlan) -> String {
    let names: Vec<&str> = probes::all_of(plan)
        .filter(|probe| is_about(probe, field))
        .map(|probe| probe.name)
        .collect();
    if known != Known::Typical && !names.is_empty() {
        return names.join(", ");
    }
    // A probe that needs another budget or another access path.
    match probes::every().find(|probe| names.is_empty() && is_about(probe, field)) {
        Some(probe) => format!("the class (probe '{}' can identify it)", probe.name),
        None => "the class".to_string(),
    }
}

fn of_kinds(fitted: &FitResult, plan: &ProbePlan) -> Vec<Parameter> {
    type Of = fn(&Candidate) -> u64;
    let kinds: [(&str, Of); 8] = [
        ("flash.geometry.channels", |one| one.kind.channels.into()),
        ("flash.geometry.dies_per_channel", |one| one.kind.dies_per_channel.into()),
        ("flash.geometry.planes", |one| one.kind.planes.into()),
        ("flash.geometry.page_bytes", |one| one.kind.page_bytes),
        ("flash.ftl.mapping_unit_bytes", |one| one.kind.unit_bytes),
        ("flash.trim.bytes_min", |one| one.kind.trim_bytes_min),
        ("flash.trim.alignment_bytes", |one| one.kind.trim_alignment_bytes),
        ("flash.trim.queued", |one| one.kind.trim_queued.into()),
    ];
    let all = kinds
        .into_iter()
        .filter(|(field, _)| plan.reported.trim.is_some() || !field.starts_with("flash.trim"));
    all.map(|(field, of)| {
        let (low, high) = bounds(fitted.members.iter().map(of).collect(), of(&fitted.best));
        let nearly = nearly_as_good(fitted).iter().map(of);
        let (low, high) =
            nearly.fold((low, high), |(low, high), other| (low.min(other), high.max(other)));
        let (low, high) = of_a_row(field, fitted, !plan.reported.full_duplex)
            .map_or((low, high), |(least, most)| (low.min(least), high.max(most)));
        let (low, high) = hidden(field, &MaskingConditions::of(&fitted.best), (low, high));
        let told = !source(Known::Bounded, field, plan).starts_with("the class");
        let known = if told && low == high && !field.starts_with("flash.geometry") {
            Known::Measured
        } else {
            Known::Bounded
        };
        let known = if told { known } else { Known::Typical };
        Parameter {
            field: field.to_string(),
            estimate: of(&fitted.best),
            low,
            high,
            known,
            source: source(known, field, plan),
        }
    })
    .collect()
}

/// Conditions that mask other parameters.
#[derive(Clone, Copy)]
struct MaskingConditions {
    /// Total dies, if the link is too slow to show their distribution over channels.
    dies: Option<u64>,
    /// Alignment of TRIMs, if it explains why shorter ones have no effect.
    alignment: u64,
}

/// A link up to this many times as fast as all channels masks their number.
const LINK_HIDES: f64 = 1.1;

impl MaskingConditions {
    fn of(best: &Candidate) -> Self {
        let channels = f64::from(best.kind.channels) * best.number(at::CHANNEL);
        let kind = &best.kind;
        Self {
            dies: (best.number(at::RATE) < LINK_HIDES * channels).then_some(kind.dies().into()),
            alignment: if kind.trim_bytes_min == 0 { kind.trim_alignment_bytes } else { 0 },
        }
    }
}

/// The range of a parameter, extended over indistinguishable values.
fn hidden(field: &str, hides: &MaskingConditions, (low, high): (u64, u64)) -> (u64, u64) {
    match (field, hides.dies) {
        ("flash.geometry.channels", Some(dies)) => (low, high.max(dies)),
        ("flash.geometry.dies_per_channel", Some(_)) => (1, high),
        ("flash.trim.bytes_min", _) => (low, high.max(hides.alignment)),
        _ => (low, high),
    }
}

/// Range of planes and page size. The size of a row is visible, but not its division.
fn of_a_row(field: &str, fitted: &FitResult, sata: bool) -> Option<(u64, u64)> {
    let rows = || {
        fitted
            .members
            .iter()
            .chain([&fitted.best])
            .chain(nearly_as_good(fitted))
            .map(|one| one.kind.row_bytes())
    };
    let (least, most) = (rows().min()?, rows().max()?);
    let page_min = if sata { 4 << 10 } else { 16 << 10 };
    match field {
        "flash.geometry.page_bytes" => {
            Some(((least / PLANES_MAX).max(page_min).min(least), most.min(16 << 10)))
        }
        "flash.geometry.planes" => {
            Some(((least >> 14).max(1), (most / page_min).clamp(1, PLANES_MAX)))
        }
        _ => None,
    }
}

const PLANES_MAX: u64 = 4;

/// Name of the spare space, which has no field of its own.
const SPARE: &str = "flash.over_provisioning_permille";

/// Bits per cell.
const BITS: &str = "flash.geometry.bits_per_cell";

/// Memory for the map, if not all of it fits.
const MAP: &str = "flash.ftl.mapping_cache_bytes";

/// Parameters of sampled properties, or of the probes of the whole drive if they ran.
fn of_hidden(fitted: &FitResult, plan: &ProbePlan) -> Vec<Parameter> {
    let capacity = u128::from(plan.reported.capacity_bytes);
    let bytes = move |ppm: u32| (capacity * u128::from(ppm) / 1_000_000) as u64;
    let mut all = alloc::vec![
        drawn(fitted, plan, BITS, None, |one| one.hidden.bits_per_cell.into()),
        drawn(fitted, plan, "flash.nand.erase_ns", Some(at::ERASE), |one| libm::round(
            one.number(at::ERASE)
        ) as u64),
        drawn(fitted, plan, SPARE, Some(at::SPARE), |one| one.spare_permille().into()),
    ];
    if fitted.best.hidden.maps_in_part {
        let memory = |one: &Candidate| one.map_bytes(plan.reported.capacity_bytes).unwrap_or(0);
        all.push(drawn(fitted, plan, MAP, Some(at::MAP), memory));
    }
    let (least, most) = fitted.best.slc_ppm();
    if !fitted.best.kind.slc {
        return all;
    }
    if least == most {
        all.push(drawn(
            fitted,
            plan,
            "flash.slc_cache.size.fixed.bytes",
            Some(at::SLC_LEAST),
            |one| bytes(one.slc_ppm().1),
        ));
    } else {
        all.push(drawn(
            fitted,
            plan,
            "flash.slc_cache.size.dynamic.bytes_min",
            Some(at::SLC_LEAST),
            |one| bytes(one.slc_ppm().0),
        ));
        all.push(drawn(
            fitted,
            plan,
            "flash.slc_cache.size.dynamic.bytes_max",
            Some(at::SLC_MORE),
            |one| bytes(one.slc_ppm().1),
        ));
    }
    all
}

fn drawn(
    fitted: &FitResult,
    plan: &ProbePlan,
    field: &str,
    number: Option<usize>,
    of: impl Fn(&Candidate) -> u64,
) -> Parameter {
    let like = |member: &&Candidate| match field {
        MAP => member.hidden.maps_in_part,
        _ => !field.starts_with("flash.slc_cache") || member.kind.slc,
    };
    let (low, high) =
        bounds(fitted.members.iter().filter(like).map(&of).collect(), of(&fitted.best));
    // The erase time depends on the pages per block, in which members differ.
    let learned = number.map_or(0.0, |number| {
        fitted.learned[number].min(told_by(
            low,
            high,
            classes::priors(&plan.reported)[number].sigma,
        ))
    });
    // If its figures are unexplained, the parameter stands in for a property not
    // modelled.
    let off = unexplained(&fitted.odd, field);
    let (low, high) = widened(field, (low, high), off);
    let known = match known(learned) {
        Known::Measured if off > 1.0 => Known::Bounded,
        known => known,
    };
    let of_a_full_drive = field == SPARE || field == MAP || field.starts_with("flash.slc_cache");
    let source = match (known, of_a_full_drive) {
        (Known::Typical, true) if fitted.whole.is_some() => {
            "the class: writing the whole drive revealed little about it".to_string()
        }
        (Known::Typical, true) => {
            "the class: visible only after writing the whole drive".to_string()
        }
        (Known::Typical, false) => {
            "the class: cannot be measured from outside in minutes".to_string()
        }
        _ => source(known, field, plan),
    };
    Parameter { field: field.to_string(), estimate: of(&fitted.best), low, high, known, source }
}

/// The range extended by the factor `off` on both sides, within what the field accepts.
fn widened(field: &str, (low, high): (u64, u64), off: f64) -> (u64, u64) {
    let (least, most) = match field {
        BITS => (1, BITS_PER_CELL_MAX.into()),
        _ => (0, u64::MAX),
    };
    let within = |value: f64| (libm::round(value) as u64).clamp(least, most);
    (within(low as f64 / off), within(high as f64 * off))
}

pub(super) const fn known(learned: f64) -> Known {
    match learned {
        share if share >= MEASURED => Known::Measured,
        share if share >= BOUNDED => Known::Bounded,
        _ => Known::Typical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertain_trim_cost_has_zero_lower_bound() {
        assert_eq!(
            of_cost("flash.trim.gb_ns", (42_000, 1_310_000), Known::Bounded),
            (0, Known::Bounded)
        );
        assert_eq!(of_cost("flash.trim.range_ns", (4, 24), Known::Measured), (0, Known::Bounded));
        assert_eq!(
            of_cost("flash.trim.command_ns", (50_000, 54_000), Known::Measured),
            (50_000, Known::Measured)
        );
        assert_eq!(
            of_cost("flash.trim.command_ns", (1000, 54_000), Known::Typical),
            (1000, Known::Typical),
            "of the class, not of the drive"
        );
        assert_eq!(
            of_cost("flash.nand.read_ns", (1000, 54_000), Known::Bounded),
            (1000, Known::Bounded)
        );
    }

    /// 512 of 4,096 bytes are 125 per mille, of 16,384 they are 31. Drives that store 20
    /// per mille were once reported as measured at 124.
    #[test]
    fn stored_share_below_one_block_is_not_measured() {
        assert!(is_a_block(125, 512, 4096) && is_a_block(31, 512, 16_384));
        assert!(!is_a_block(250, 512, 4096) && !is_a_block(125, 512, 16_384));
    }

    /// Random writes of 180 µs that take 120 µs on the twin widen only their own
    /// parameters.
    #[test]
    fn unexplained_figures_widen_the_intervals() {
        let one = |probe, value_ns| {
            (Observation { name: "x".to_string(), probe, value_ns, sigma: 0.05 }, 120_000.0)
        };
        let odd = [one("collection", 180_000.0), one("collection", 100_000.0)];
        assert!((unexplained(&odd, SPARE) - 1.5).abs() < 1e-12);
        assert_eq!((unexplained(&odd, "flash.nand.read_ns"), unexplained(&[], SPARE)), (1.0, 1.0));
    }

    /// Regression: "3, 1 to 20".
    #[test]
    fn widened_interval_stays_within_its_field() {
        assert_eq!(widened(BITS, (3, 3), 6.7), (1, 8));
        assert_eq!(widened(SPARE, (70, 70), 6.7), (10, 469));
    }

    /// A link of 6.5 GB/s behind 4 channels of 1.62 GB/s and 64 dies, where 16 channels
    /// would look the same; TRIMs aligned to 64 KiB.
    #[test]
    fn hidden_range_covers_indistinguishable_values() {
        let hides = MaskingConditions { dies: Some(64), alignment: 65_536 };
        assert_eq!(hidden("flash.geometry.channels", &hides, (4, 4)), (4, 64));
        assert_eq!(hidden("flash.geometry.dies_per_channel", &hides, (16, 16)), (1, 16));
        assert_eq!(hidden("flash.trim.bytes_min", &hides, (0, 0)), (0, 65_536));
        let shows = MaskingConditions { dies: None, alignment: 0 };
        for field in
            ["flash.geometry.channels", "flash.geometry.dies_per_channel", "flash.trim.bytes_min"]
        {
            assert_eq!(hidden(field, &shows, (4, 4)), (4, 4), "{field}");
        }
    }

    /// With a standard deviation of 0.5, nine in ten lie within exp(1.645) = 5.18
    /// overall.
    #[test]
    fn parameter_with_differing_members_is_not_measured() {
        assert_eq!(known(told_by(1000, 1000, 0.5)), Known::Measured);
        assert_eq!(
            known(told_by(1000, 1650, 0.5)),
            Known::Measured,
            "0.50 of 1.645: 91 % are gone"
        );
        assert_eq!(known(told_by(1000, 1750, 0.5)), Known::Bounded, "0.56 of 1.645: 88 %");
        assert_eq!(known(told_by(1487, 3110, 0.5)), Known::Bounded);
        assert_eq!(known(told_by(1000, 4500, 0.5)), Known::Typical);
        assert_eq!(known(told_by(0, 0, 2.0)), Known::Measured);
    }
}
