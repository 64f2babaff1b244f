//! Parameters that a log can tell.

use crate::learn::ReportedProperties;
use crate::learn::candidate::at;
use crate::learn::classes::priors;
use crate::learn::logs::repeat;
use alloc::vec::Vec;
use trimtab_drive::spec::datasheet::Prior;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::SourceKind;
use trimtab_drive::spec::{DriveSpec, Flash};

/// Nine in ten lie within this many standard deviations.
pub(super) const NINE_OF_TEN: f64 = 1.645;
/// Standard deviation of the logarithm of a published figure.
const PUBLISHED: f64 = 0.1;

/// The spread of a parameter around its median.
enum Spread {
    /// That of the class, by its place there; less if the drive's own value is published.
    Class(usize),
    /// That of draws of the class, whose median replaces a value of 0.
    Draws(fn(&Prior) -> f64),
    /// That of the class's spare space; less if the size of the flash is published.
    Spare,
}

/// A parameter that the fit changes.
pub(super) struct Parameter {
    pub(super) field: &'static str,
    spread: Spread,
    pub(super) get: fn(&DriveSpec) -> f64,
    set: fn(&mut DriveSpec, f64),
    /// Reason why a log may not show it.
    pub(super) hidden: &'static str,
}

/// A parameter and its prior: median and standard deviation of the logarithm.
pub(super) struct Knob {
    pub(super) parameter: &'static Parameter,
    pub(super) median: f64,
    pub(super) sigma: f64,
}

/// The parameters. The spare space is last, because the size of superblocks rounds the
/// flash.
const PARAMETERS: [Parameter; 6] = [
    Parameter {
        field: "flash.nand.program_ns",
        spread: Spread::Class(at::PROGRAM),
        get: |spec| flash_of(spec, |flash| flash.nand.program_ns as f64),
        set: |spec, value| change(spec, |flash| flash.nand.program_ns = value as u64),
        hidden: "the log shows no rate before collection that the drive limits",
    },
    Parameter {
        field: "flash.nand.read_ns",
        spread: Spread::Class(at::READ),
        get: |spec| flash_of(spec, |flash| flash.nand.read_ns as f64),
        set: |spec, value| change(spec, |flash| flash.nand.read_ns = value as u64),
        hidden: "needs lone reads, which no log of writes has",
    },
    Parameter {
        field: "flash.ftl.metadata_permille",
        spread: Spread::Draws(|prior| prior.metadata_permille.into()),
        get: |spec| flash_of(spec, |flash| f64::from(flash.ftl.metadata_permille)),
        set: |spec, value| {
            change(spec, |flash| flash.ftl.metadata_permille = libm::round(value) as u32);
        },
        hidden: "needs NAND writes in bytes, and NAND reads or several rows before collection",
    },
    Parameter {
        field: "flash.ftl.gc.die_wait_permille",
        spread: Spread::Draws(|prior| prior.die_wait_permille.into()),
        get: |spec| flash_of(spec, |flash| f64::from(flash.ftl.gc.die_wait_permille)),
        set: |spec, value| {
            change(spec, |flash| flash.ftl.gc.die_wait_permille = libm::round(value) as u32);
        },
        hidden: "its effect resembles that of spare space; NAND counters tell them apart best",
    },
    Parameter {
        field: "flash.geometry.blocks_per_plane",
        spread: Spread::Draws(|prior| prior.superblocks),
        get: |spec| flash_of(spec, |flash| f64::from(flash.geometry.blocks_per_plane)),
        set: set_blocks_per_plane,
        hidden: "small random writes hardly show the size of superblocks; rewrites of zones do",
    },
    Parameter {
        field: "flash.over_provisioning_permille",
        spread: Spread::Spare,
        get: |spec| {
            let over =
                |flash: &Flash| flash.geometry.raw_bytes() as f64 / spec.capacity_bytes as f64;
            flash_of(spec, |flash| 1000.0 * (over(flash) - 1.0))
        },
        set: |spec, value| *spec = repeat::with_raw(spec, 1.0 + value / 1000.0),
        hidden: "the log ends before collection starts, or the drive was not the limit",
    },
];

fn flash_of(spec: &DriveSpec, of: impl Fn(&Flash) -> f64) -> f64 {
    of(&spec.flash)
}

pub(super) fn change(spec: &mut DriveSpec, change: impl FnOnce(&mut Flash)) {
    let flash = &mut spec.flash;
    change(flash);
}

/// Keeps the size of the flash.
fn set_blocks_per_plane(spec: &mut DriveSpec, value: f64) {
    change(spec, |flash| {
        let geometry = &mut flash.geometry;
        let pages = f64::from(geometry.pages_per_block) * f64::from(geometry.blocks_per_plane);
        geometry.blocks_per_plane = libm::round(value.max(1.0)) as u32;
        geometry.pages_per_block = libm::ceil(pages / f64::from(geometry.blocks_per_plane)) as u32;
    });
}

/// The parameters with their priors around `start`.
pub(super) fn knobs(start: &Drive, reported: &ReportedProperties) -> Vec<Knob> {
    let class_of = priors(reported);
    let draws = [Prior::draw([0.05; 7]), Prior::MEDIAN, Prior::draw([0.95; 7])];
    let is_published = |field: &str| {
        start.sources.get(field).is_some_and(|source| source.kind != SourceKind::Assumed)
    };
    let raw_is_published = ["flash.geometry.pages_per_block", "flash.geometry.blocks_per_plane"]
        .into_iter()
        .any(is_published);
    let knob = |parameter: &'static Parameter| {
        let own = (parameter.get)(&start.spec);
        let (median, sigma) = match parameter.spread {
            Spread::Class(_) if is_published(parameter.field) => (own, PUBLISHED),
            Spread::Spare if raw_is_published => (own, PUBLISHED),
            Spread::Class(at) => (own, class_of[at].sigma),
            Spread::Spare => (own, class_of[at::SPARE].sigma),
            Spread::Draws(of) => {
                let [low, median, high] = draws.each_ref().map(of);
                // Draws of the class are not symmetric around its median.
                let factor = (median / low).max(high / median);
                (if own > 0.0 { own } else { median }, libm::log(factor) / NINE_OF_TEN)
            }
        };
        Knob { parameter, median, sigma }
    };
    PARAMETERS.iter().map(knob).collect()
}

/// `start` with the parameters at `at`, in standard deviations from their medians.
pub(super) fn spec_at(start: &DriveSpec, knobs: &[Knob], at: &[f64]) -> DriveSpec {
    let mut spec = start.clone();
    for (knob, at) in knobs.iter().zip(at) {
        (knob.parameter.set)(&mut spec, knob.median * libm::exp(knob.sigma * at));
    }
    spec
}
