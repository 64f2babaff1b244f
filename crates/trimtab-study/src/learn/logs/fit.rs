//! Fits a drive to the figures of a log, and draws members that explain them as well.

use super::load::Pattern;
use super::repeat::{self, Run, STEADY_AFTER, Start};
use super::series::LogSeries;
use crate::learn::ReportedProperties;
use crate::learn::candidate::at;
use crate::learn::classes::priors;
use crate::learn::fit::linear::Matrix;
use crate::learn::learned::one_line;
use crate::learn::summary::{bound, known, told_by};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::datasheet::Prior;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::SourceKind;
use trimtab_drive::spec::twin::{Known, Origin, Parameter, TEXT_MAX, Twin, explains};
use trimtab_drive::spec::{DriveSpec, Flash, IDENTIFIER_MAX, Medium};
use trimtab_sim::runner::Observer;

/// Members of the twin. Their range holds nine in ten: (n - 1) / (n + 1).
const MEMBERS: usize = 24;
/// Fewer different members make no interval.
const MEMBERS_MIN: usize = 8;
/// Steps of the search for the best drive.
const STEPS: usize = 4;
/// Change of a parameter for its slope, in standard deviations of its prior.
const SLOPE_STEP: f64 = 0.5;
/// A fresh rate further from the published one than this factor shows the host's limit.
const HOST_FACTOR: f64 = 1.25;
/// A load that achieves this share of the offered rate does not show the drive's limit.
const MET: f64 = 0.985;
/// Nine in ten lie within this many standard deviations.
const NINE_OF_TEN: f64 = 1.645;
/// Standard deviation of the logarithm of a published figure.
const PUBLISHED: f64 = 0.1;
/// Standard errors of the logarithm: noise of a run and what the model cannot reproduce.
const RATE_ERROR: f64 = 0.02;
const WAF_ERROR: f64 = 0.01;
const CLIFF_ERROR: f64 = 0.05;
const CLIFF_ERROR_DRIVE_WRITES: f64 = 0.02;
/// Drive writes after a fill in which no drive collects.
const UNCOLLECTED: f64 = 0.04;

/// Mean squared error, in units of the tolerance, above which a member explains nothing.
const MISFIT_MAX: f64 = 4.0;

/// Statement of the load that a log shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The run; its length comes from the log.
    pub run: Run,
    /// Offered rate in bytes per second; `None` for a constant number in flight.
    pub offered: Option<f64>,
}

/// A figure that a log shows, and the model too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Rate of the first 2 % of the used size.
    Fresh,
    /// Rate of the last fifth.
    Steady,
    /// Place where the rate falls.
    Cliff,
    /// Flash bytes written per host byte in the last fifth.
    Waf,
    /// The same without garbage collection: metadata and parity.
    Floor,
    /// The ratio of both.
    Collection,
}

impl FigureKind {
    /// Name with its unit.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh MB/s",
            Self::Steady => "steady MB/s",
            Self::Cliff => "cliff in drive writes",
            Self::Waf => "WAF",
            Self::Floor => "WAF without collection",
            Self::Collection => "WAF of collection",
        }
    }
}

/// A figure of a log, and of the best drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogFigure {
    /// Kind.
    pub kind: FigureKind,
    /// Value in the log.
    pub measured: f64,
    /// Standard error of its logarithm.
    pub sigma: f64,
    /// Value of the best drive.
    pub twin: f64,
}

/// Result of a fit.
#[derive(Clone, Debug)]
pub struct LogFit {
    /// The twin.
    pub drive: Drive,
    /// Figures of the log.
    pub figures: Vec<LogFigure>,
    /// Runs of the model.
    pub tried: usize,
}

/// A drive of the search: its cost, its place, the figures it shows, and their slopes.
struct Tried {
    cost: f64,
    at: Vec<f64>,
    shown: Vec<f64>,
    slopes: Vec<Vec<f64>>,
}

/// Applies a function to all specifications, possibly in parallel.
pub type ForAll<'a> = dyn Fn(&[DriveSpec], &(dyn Fn(&DriveSpec) -> Option<Vec<f64>> + Sync)) -> Vec<Option<Vec<f64>>>
    + 'a;

/// A parameter that the fit changes.
struct Knob {
    field: &'static str,
    /// Prior: median and standard deviation of the logarithm.
    median: f64,
    sigma: f64,
    get: fn(&DriveSpec) -> f64,
    set: fn(&mut DriveSpec, f64),
    /// Figures that show it.
    shown_by: &'static str,
    /// Reason why a log may not show it.
    hidden: &'static str,
}

fn flash_of(spec: &DriveSpec, of: impl Fn(&Flash) -> f64) -> f64 {
    spec.flash().map_or(0.0, of)
}

fn change(spec: &mut DriveSpec, change: impl FnOnce(&mut Flash)) {
    if let Medium::Flash(flash) = &mut spec.medium {
        change(flash);
    }
}

fn spare(spec: &DriveSpec) -> f64 {
    flash_of(spec, |flash| {
        1000.0 * (flash.geometry.raw_bytes() as f64 / spec.capacity_bytes as f64 - 1.0)
    })
}

/// The parameters with their priors around `start`. The spare space is last, because the
/// size of superblocks rounds the flash.
fn knobs(start: &Drive, reported: &ReportedProperties) -> Vec<Knob> {
    let class_of = priors(reported);
    let class = Prior::MEDIAN;
    let (low, high) = (Prior::draw([0.05; 7]), Prior::draw([0.95; 7]));
    // Draws of the class are not symmetric around its median.
    let spread = |low: f64, median: f64, high: f64| {
        libm::log((median / low).max(high / median)) / NINE_OF_TEN
    };
    let sigma = |field: &str, class: f64| match start.sources.get(field) {
        Some(source) if source.kind != SourceKind::Assumed => PUBLISHED,
        _ => class,
    };
    let raw_is_published = ["flash.geometry.pages_per_block", "flash.geometry.blocks_per_plane"]
        .iter()
        .any(|field| sigma(field, 1.0) < 1.0);
    let spare_sigma = if raw_is_published { PUBLISHED } else { class_of[at::SPARE].sigma };
    let around = |value: f64, class: f64| if value > 0.0 { value } else { class };
    let of = |get: fn(&DriveSpec) -> f64| get(&start.spec);
    let program: fn(&DriveSpec) -> f64 =
        |spec| flash_of(spec, |flash| flash.nand.program_ns as f64);
    let read: fn(&DriveSpec) -> f64 = |spec| flash_of(spec, |flash| flash.nand.read_ns as f64);
    let metadata: fn(&DriveSpec) -> f64 =
        |spec| flash_of(spec, |flash| f64::from(flash.ftl.metadata_permille));
    let wait: fn(&DriveSpec) -> f64 =
        |spec| flash_of(spec, |flash| f64::from(flash.ftl.gc.die_wait_permille));
    let blocks: fn(&DriveSpec) -> f64 =
        |spec| flash_of(spec, |flash| f64::from(flash.geometry.blocks_per_plane));
    let knob = |field, (median, sigma), get, set, shown_by, hidden| Knob {
        field,
        median,
        sigma,
        get,
        set,
        shown_by,
        hidden,
    };
    vec![
        knob(
            "flash.nand.program_ns",
            (of(program), sigma("flash.nand.program_ns", class_of[at::PROGRAM].sigma)),
            program,
            |spec, value| change(spec, |flash| flash.nand.program_ns = value as u64),
            "fresh rate",
            "the log shows no rate before collection that the drive limits",
        ),
        knob(
            "flash.nand.read_ns",
            (of(read), sigma("flash.nand.read_ns", class_of[at::READ].sigma)),
            read,
            |spec, value| change(spec, |flash| flash.nand.read_ns = value as u64),
            "steady rate",
            "needs lone reads, which no log of writes has",
        ),
        knob(
            "flash.ftl.metadata_permille",
            (
                around(of(metadata), f64::from(class.metadata_permille)),
                spread(
                    low.metadata_permille.into(),
                    class.metadata_permille.into(),
                    high.metadata_permille.into(),
                ),
            ),
            metadata,
            |spec, value| {
                change(spec, |flash| flash.ftl.metadata_permille = libm::round(value) as u32)
            },
            "NAND counters",
            "needs NAND writes in bytes, and NAND reads or several rows before collection",
        ),
        knob(
            "flash.ftl.gc.die_wait_permille",
            (
                around(of(wait), f64::from(class.die_wait_permille)),
                spread(
                    low.die_wait_permille.into(),
                    class.die_wait_permille.into(),
                    high.die_wait_permille.into(),
                ),
            ),
            wait,
            |spec, value| {
                change(spec, |flash| flash.ftl.gc.die_wait_permille = libm::round(value) as u32)
            },
            "steady rate and WAF",
            "its effect resembles that of spare space; NAND counters tell them apart best",
        ),
        knob(
            "flash.geometry.blocks_per_plane",
            (of(blocks), spread(low.superblocks, class.superblocks, high.superblocks)),
            blocks,
            |spec, value| {
                change(spec, |flash| {
                    let geometry = &mut flash.geometry;
                    let before = f64::from(geometry.blocks_per_plane);
                    geometry.blocks_per_plane = libm::round(value.max(1.0)) as u32;
                    let pages = f64::from(geometry.pages_per_block) * before
                        / f64::from(geometry.blocks_per_plane);
                    geometry.pages_per_block = libm::ceil(pages) as u32;
                });
            },
            "shape of the cliff",
            "small random writes hardly show the size of superblocks; rewrites of zones do",
        ),
        knob(
            SPARE,
            (of(spare), spare_sigma),
            spare,
            |spec, value| *spec = repeat::with_raw(spec, 1.0 + value / 1000.0),
            "cliff, steady rate and WAF",
            "the log ends before collection starts, or the drive was not the limit",
        ),
    ]
}

const SPARE: &str = "flash.over_provisioning_permille";

/// `start` with the parameters at `at`, in standard deviations from their medians.
fn spec_at(start: &DriveSpec, knobs: &[Knob], at: &[f64]) -> DriveSpec {
    let mut spec = start.clone();
    for (knob, at) in knobs.iter().zip(at) {
        (knob.set)(&mut spec, knob.median * libm::exp(knob.sigma * at));
    }
    spec
}

/// The figures of `kinds` that `spec` shows in `run`.
fn shown(spec: &DriveSpec, run: &Run, kinds: &[FigureKind], seed: u64) -> Option<Vec<f64>> {
    let (series, used_bytes) = repeat::series(spec, run, 1, seed).ok()?;
    let floor = flash_of(spec, |flash| 1.0 + f64::from(flash.ftl.metadata_permille) / 1000.0);
    let outcome = series.outcome(used_bytes);
    let (fresh, steady) = (outcome.fresh_mbs, outcome.steady_mbs);
    let of = |kind: &FigureKind| match kind {
        FigureKind::Fresh => fresh,
        FigureKind::Steady => steady,
        // A run without a cliff may have one behind its end.
        FigureKind::Cliff => series.cliff(used_bytes, fresh, steady).unwrap_or(run.drive_writes),
        FigureKind::Waf => outcome.waf.unwrap_or(1.0),
        FigureKind::Floor => floor,
        FigureKind::Collection => outcome.waf.unwrap_or(1.0) / floor,
    };
    Some(kinds.iter().map(of).collect())
}

/// The run that the model repeats: long enough for the same figures as in the log.
fn repeated(statement: &Statement, drive_writes: f64, cliff: Option<f64>) -> Run {
    let enough = match (statement.run.start, &statement.run.pattern) {
        (Start::Overwritten, _) => 0.5,
        (_, Pattern::Uniform) => STEADY_AFTER + cliff.unwrap_or(0.0),
        _ => 2.0 * STEADY_AFTER + cliff.unwrap_or(0.0),
    };
    Run { drive_writes: drive_writes.min(enough), ..statement.run.clone() }
}

/// The figures of `log`, without those that say nothing about the drive.
fn figures(
    log: &LogSeries,
    statement: &Statement,
    used_bytes: f64,
    fresh_published: Option<f64>,
    notes: &mut Vec<String>,
) -> Vec<LogFigure> {
    let total = log.bytes();
    let outcome = log.outcome(used_bytes);
    let (fresh, steady) = (outcome.fresh_mbs, outcome.steady_mbs);
    let starts_fresh = statement.run.start != Start::Overwritten && total >= used_bytes / 50.0;
    let mut all = Vec::new();
    let mut add = |kind, measured: f64, sigma| {
        all.push(LogFigure { kind, measured, sigma, twin: measured });
    };
    // A closed loop has no offered rate.
    let offered = statement.offered.map_or(f64::INFINITY, |bytes| bytes / 1e6);
    let factor = fresh.max(steady) / offered;
    let offered = if factor > 2.0 - MET {
        notes.push(format!(
            "the log achieves {factor:.3} times the offered rate, which no drive can: a clock is \
             wrong. Rates are used as logged, and the offered rate is taken as {factor:.3} times \
             the stated one"
        ));
        offered * factor
    } else {
        offered
    };
    let is_limit = |rate: f64| rate < MET * offered;
    if !is_limit(steady) {
        notes.push(
            "the drive achieves the offered rate to the end, so its rates say nothing of its limit"
                .to_owned(),
        );
    }
    let host_limit = fresh_published
        .is_some_and(|stated| !(1.0 / HOST_FACTOR..HOST_FACTOR).contains(&(fresh / stated)));
    if starts_fresh && is_limit(fresh) && host_limit {
        notes.push(format!(
            "the fresh rate of {fresh:.2} MB/s is far from the {:.0} MB/s of the drive file: a \
             limit of the host, or a wrong unit; it is not used for the program time",
            fresh_published.unwrap_or(0.0)
        ));
    } else if starts_fresh && is_limit(fresh) {
        add(FigureKind::Fresh, fresh, RATE_ERROR);
    }
    if is_limit(steady) {
        let fifths: Vec<f64> = (0..5_u32)
            .map(|nth| {
                let from = total * (0.8 + 0.04 * f64::from(nth));
                libm::log(log.rate_mbs(from, from + 0.04 * total))
            })
            .collect();
        let mean = fifths.iter().sum::<f64>() / 5.0;
        let spread = fifths.iter().map(|one| (one - mean) * (one - mean)).sum::<f64>() / 4.0;
        add(FigureKind::Steady, steady, libm::sqrt(RATE_ERROR * RATE_ERROR + spread / 5.0));
    }
    let cliff = log
        .cliff(used_bytes, fresh, steady)
        .filter(|_| starts_fresh && is_limit(fresh) && is_limit(steady));
    // With another fresh rate, the model crosses the mean elsewhere.
    if let Some(at) = cliff.filter(|_| !host_limit) {
        let spacing = total / used_bytes / log.written.len() as f64;
        let near = (CLIFF_ERROR_DRIVE_WRITES + spacing / 2.0) / at;
        add(FigureKind::Cliff, at, libm::hypot(CLIFF_ERROR, near));
    }
    // Every drive has spare space for some writes before it collects.
    let uncollected = cliff.map_or(UNCOLLECTED, |at| at / 2.0) * used_bytes;
    wafs(log, total, starts_fresh.then_some(uncollected), notes)
        .into_iter()
        .for_each(|(kind, value, error)| add(kind, value, error));
    all
}

/// Figures of the flash counters. Nothing is collected in the first `uncollected` bytes.
fn wafs(
    log: &LogSeries,
    total: f64,
    uncollected: Option<f64>,
    notes: &mut Vec<String>,
) -> Vec<(FigureKind, f64, f64)> {
    let updates = log.nand.iter().filter(|point| point.host_bytes >= total * 0.8).count();
    let Some((waf, reads)) = log.waf(total * 0.8, total) else {
        if !log.nand.is_empty() {
            notes.push(
                "NAND counters change too rarely in the last fifth of the log; they are not used"
                    .to_owned(),
            );
        }
        return Vec::new();
    };
    let error = libm::hypot(WAF_ERROR, 0.3 / updates.max(1) as f64);
    let fresh = uncollected.and_then(|bytes| log.waf(0.0, bytes)).map(|(waf, _)| waf);
    let of_reads = reads.map(|reads| waf / (1.0 + reads));
    let known_unit = !log.is_of_unknown_unit;
    if !known_unit {
        notes.push(
            "the unit of the NAND counters is unknown, so only their ratios are used: they show \
             collection, not metadata"
                .to_owned(),
        );
    }
    if known_unit && waf < 0.98 {
        notes.push(format!(
            "NAND writes are {waf:.2} times host writes. A drive that compresses writes less than \
             the host; otherwise the units differ. The counters are not used"
        ));
        return Vec::new();
    }
    match (known_unit, of_reads.or(fresh)) {
        (true, Some(floor)) if floor >= 0.98 => vec![
            (FigureKind::Waf, waf, error),
            (FigureKind::Floor, floor.max(1.0), libm::hypot(WAF_ERROR / 2.0, error / 2.0)),
        ],
        (true, _) => vec![(FigureKind::Waf, waf, error)],
        (false, _) => {
            // Reads of an unknown unit cannot be compared with bytes of the host.
            let ratio = fresh.map(|fresh| waf / fresh);
            ratio.into_iter().map(|ratio| (FigureKind::Collection, ratio, error)).collect()
        }
    }
}

/// Curvature of the cost with these slopes, prior included.
fn normal(slopes: &[Vec<f64>]) -> Matrix {
    let mut normal = Matrix::new(slopes.len());
    for (row, slopes_of_row) in slopes.iter().enumerate() {
        for (column, slopes) in slopes.iter().enumerate().take(row + 1) {
            let sum: f64 = slopes_of_row.iter().zip(slopes).map(|(a, b)| a * b).sum();
            normal.set(row, column, sum + f64::from(u8::from(row == column)));
        }
    }
    normal
}

/// Gauss-Newton step from `at`, where the model shows `residuals` (in standard errors)
/// with these slopes, towards the prior means `means`.
fn step(slopes: &[Vec<f64>], residuals: &[f64], at: &[f64], means: &[f64]) -> Option<Vec<f64>> {
    let count = at.len();
    let right: Vec<f64> = (0..count)
        .map(|row| {
            let pull: f64 = slopes[row].iter().zip(residuals).map(|(a, b)| a * b).sum();
            means[row] - at[row] - pull
        })
        .collect();
    let found = normal(slopes).solve(&right)?;
    Some(
        at.iter()
            .zip(found)
            .map(|(at, step)| (at + step.clamp(-2.0, 2.0)).clamp(-4.0, 4.0))
            .collect(),
    )
}

fn square_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().map(|value| value * value).sum()
}

/// Fits `start` to `log`. `None` if stopped, or if the model cannot run.
///
/// # Errors
/// If the log shows no figure of the drive.
pub fn fit(
    start: &Drive,
    log: &LogSeries,
    statement: &Statement,
    (day, seed): (&str, u64),
    for_all: &ForAll<'_>,
    observer: &mut dyn Observer,
) -> Result<Option<LogFit>, String> {
    let reported = ReportedProperties::of(&start.spec)
        .ok_or_else(|| format!("{} is a disk, which has no twin", start.spec.name))?;
    let knobs = knobs(start, &reported);
    let used_bytes = start.spec.capacity_bytes as f64 * statement.run.used;
    let drive_writes = log.bytes() / used_bytes;
    let outcome = log.outcome(used_bytes);
    let cliff = log.cliff(used_bytes, outcome.fresh_mbs, outcome.steady_mbs);
    let run = repeated(statement, drive_writes, cliff);
    let mut notes = log.notes.clone();
    let published = start
        .sources
        .get("flash.nand.program_ns")
        .is_some_and(|source| source.kind != SourceKind::Assumed);
    observer.begins("repeats the run on modelled drives");
    let fresh_of_file =
        shown(&start.spec, &run, &[FigureKind::Fresh], seed).and_then(|all| all.first().copied());
    let mut figures =
        figures(log, statement, used_bytes, fresh_of_file.filter(|_| published), &mut notes);
    if figures.is_empty() {
        return Err("the log shows no figure that depends on the drive".to_owned());
    }
    let kinds: Vec<FigureKind> = figures.iter().map(|one| one.kind).collect();
    let mut tried = 1;
    let mut evaluate = |specs: &[DriveSpec]| {
        tried += specs.len();
        for_all(specs, &|spec| shown(spec, &run, &kinds, seed))
    };
    let residuals = |shown: &[f64], wanted: &[f64], figures: &[LogFigure]| -> Vec<f64> {
        let one = |((shown, wanted), figure): ((&f64, &f64), &LogFigure)| {
            (libm::log(*shown) - wanted) / figure.sigma
        };
        shown.iter().zip(wanted).zip(figures).map(one).collect()
    };
    let wanted: Vec<f64> = figures.iter().map(|one| libm::log(one.measured)).collect();
    let prior = vec![0.0; knobs.len()];
    let mut at = prior.clone();
    let mut best: Option<Tried> = None;
    for _ in 0..STEPS {
        if observer.stopped() {
            return Ok(None);
        }
        let mut places = vec![at.clone()];
        for nth in 0..knobs.len() {
            let mut place = at.clone();
            place[nth] += SLOPE_STEP;
            places.push(place);
        }
        let specs: Vec<DriveSpec> =
            places.iter().map(|place| spec_at(&start.spec, &knobs, place)).collect();
        let found = evaluate(&specs);
        let Some(Some(here)) = found.first() else { break };
        let mine = residuals(here, &wanted, &figures);
        let slopes: Vec<Vec<f64>> = found[1..]
            .iter()
            .map(|there| match there {
                Some(there) => residuals(there, &wanted, &figures)
                    .iter()
                    .zip(&mine)
                    .map(|(there, here)| (there - here) / SLOPE_STEP)
                    .collect(),
                None => vec![0.0; mine.len()],
            })
            .collect();
        let cost = square_sum(mine.iter().copied()) + square_sum(at.iter().copied());
        let next = step(&slopes, &mine, &at, &prior);
        if best.as_ref().is_none_or(|best| cost < best.cost) {
            best = Some(Tried { cost, at: at.clone(), shown: here.clone(), slopes });
        } else if let Some(before) = &best {
            // Too long a step: half of it.
            at =
                at.iter().zip(&before.at).map(|(at, before)| f64::midpoint(*at, *before)).collect();
            continue;
        }
        match next {
            Some(next) if square_sum(next.iter().zip(&at).map(|(a, b)| a - b)) > 0.01 => at = next,
            _ => break,
        }
    }
    let Some(Tried { at, shown: here, slopes, .. }) = best else { return Ok(None) };
    figures.iter_mut().zip(&here).for_each(|(figure, shown)| figure.twin = *shown);
    let misfit = square_sum(residuals(&here, &wanted, &figures)) / figures.len() as f64;
    // Errors of the model that are larger than assumed widen the intervals.
    let wider = libm::sqrt(misfit.max(1.0));
    observer.begins("draws members");
    let mut stream = Stream::new(seed, "members of a log");
    let drawn: Vec<(Vec<f64>, Vec<f64>, Prior)> = (0..MEMBERS)
        .map(|_| {
            let means = knobs.iter().map(|_| stream.normal()).collect();
            let wanted = wanted
                .iter()
                .zip(&figures)
                .map(|(wanted, figure)| wanted + wider * figure.sigma * stream.normal())
                .collect();
            (means, wanted, Prior::draw(core::array::from_fn(|_| stream.unit())))
        })
        .collect();
    let spec_of = |place: &[f64], prior: &Prior| {
        let mut spec = spec_at(&start.spec, &knobs, place);
        change(&mut spec, |flash| {
            if flash.nand.suspend_step_ns > 0 {
                flash.nand.suspend_step_ns = prior.suspend_step_ns;
            }
            flash.ftl.victim = prior.victim;
        });
        spec
    };
    let mut places: Vec<Vec<f64>> = drawn
        .iter()
        .map(|(means, wanted, _)| {
            step(&slopes, &residuals(&here, wanted, &figures), &at, means)
                .unwrap_or_else(|| at.clone())
        })
        .collect();
    let mut kept: Vec<DriveSpec> = Vec::new();
    for correction in [true, false] {
        if observer.stopped() {
            return Ok(None);
        }
        let specs: Vec<DriveSpec> =
            places.iter().zip(&drawn).map(|(place, (.., prior))| spec_of(place, prior)).collect();
        let found = evaluate(&specs);
        for (nth, (means, wanted, _)) in drawn.iter().enumerate() {
            let Some(shown) = &found[nth] else { continue };
            let off = residuals(shown, wanted, &figures);
            if correction {
                if let Some(next) = step(&slopes, &off, &places[nth], means) {
                    places[nth] = next;
                }
            } else if square_sum(off.iter().map(|off| off / wider))
                <= figures.len() as f64 * MISFIT_MAX
            {
                kept.push(specs[nth].clone());
            }
        }
    }
    let best = spec_at(&start.spec, &knobs, &at);
    let scaled: Vec<Vec<f64>> =
        slopes.iter().map(|slopes| slopes.iter().map(|slope| slope / wider).collect()).collect();
    // Share of the prior variance that the figures remove.
    let learned: Vec<f64> = normal(&scaled).inverse().map_or_else(
        || vec![0.0; knobs.len()],
        |rest| (0..knobs.len()).map(|nth| 1.0 - rest.at(nth, nth)).collect(),
    );
    Ok(Some(LogFit {
        drive: twin(
            start,
            (&knobs, &learned),
            (best, kept),
            (misfit, &figures),
            notes,
            (day, seed),
        ),
        figures,
        tried,
    }))
}

/// The twin with its parameters.
fn twin(
    start: &Drive,
    (knobs, learned): (&[Knob], &[f64]),
    (mut best, mut members): (DriveSpec, Vec<DriveSpec>),
    (misfit, figures): (f64, &[LogFigure]),
    mut notes: Vec<String>,
    (day, seed): (&str, u64),
) -> Drive {
    let mut offs: Vec<f64> =
        figures.iter().map(|one| (one.twin / one.measured - 1.0).abs()).collect();
    offs.sort_by(f64::total_cmp);
    let off = offs.get(offs.len() * 2 / 3).or(offs.last()).copied().unwrap_or(0.0);
    let is_few = members.len() < MEMBERS_MIN;
    let whole = |spec: &DriveSpec, knob: &Knob| libm::round((knob.get)(spec)) as u64;
    let mut parameters: Vec<Parameter> = knobs
        .iter()
        .zip(learned)
        .map(|(knob, learned)| {
            let estimate = whole(&best, knob);
            // Few members show no range: that of the figures' slopes is added.
            let unknown = if is_few { libm::sqrt((1.0 - learned).clamp(0.0, 1.0)) } else { 0.0 };
            let factor = libm::exp(NINE_OF_TEN * knob.sigma * unknown);
            let around = [estimate as f64 / factor, estimate as f64 * factor];
            let values = members.iter().map(|member| whole(member, knob));
            let values = values.chain(around.map(|end| libm::round(end) as u64));
            let (low, high) =
                (values.clone().min().unwrap_or(estimate), values.max().unwrap_or(estimate));
            let known = known(learned.min(told_by(low, high, knob.sigma)));
            let end =
                |sigmas: f64| libm::round(knob.median * libm::exp(sigmas * knob.sigma)) as u64;
            let (low, high) = match known {
                Known::Typical => (low.min(end(-NINE_OF_TEN)), high.max(end(NINE_OF_TEN))),
                _ => (low, high),
            };
            let source = match known {
                Known::Typical => "the class".to_owned(),
                _ => format!("log: {}", knob.shown_by),
            };
            Parameter { field: knob.field.to_owned(), estimate, low, high, known, source }
        })
        .collect();
    if is_few || !explains(misfit, off) {
        bound(&mut parameters);
    }
    let not_shown: Vec<String> = parameters
        .iter()
        .zip(knobs)
        .filter(|(one, _)| one.known == Known::Typical)
        .map(|(one, knob)| format!("the log does not tell {}: {}", one.field, knob.hidden))
        .collect();
    notes.extend(not_shown);
    notes.push(
        "the log does not tell read and TRIM costs, erase time, choice of victims, mapping unit \
         and the number of dies: no row shows them; they are those of the drive file or of its \
         class"
            .to_owned(),
    );
    if members.len() < MEMBERS {
        notes.push(format!(
            "{} of {MEMBERS} drawn drives are further from the log than the best and were left out",
            MEMBERS - members.len()
        ));
    }
    if members.is_empty() {
        members.push(best.clone());
    }
    let model = start.spec.name.clone();
    let mut name = format!("twin-of-{model}");
    name.truncate(IDENTIFIER_MAX);
    for spec in members.iter_mut().chain([&mut best]) {
        spec.name.clone_from(&name);
        spec.description = format!("Twin of {model}, learned from logs");
    }
    let permille = |share: f64| libm::round(share * 1000.0).min(1e15) as u64;
    let origin = Origin {
        model,
        learned: day.to_owned(),
        budget: "log".to_owned(),
        seed,
        misfit_permille: permille(misfit),
        off_permille: permille(off),
        notes: notes.iter().map(|note| one_line(note).chars().take(TEXT_MAX).collect()).collect(),
        ..Origin::default()
    };
    let twin = Twin { origin, parameters, members };
    let mut sources = start.sources.clone();
    sources.extend(twin.sources().into_iter().filter(|(field, _)| {
        twin.parameters.iter().any(|one| one.known != Known::Typical && one.field == *field)
    }));
    Drive { spec: best, sources, alternatives: Vec::new(), twin: Some(twin) }
}
