//! Fits a drive to the figures of a log, and draws members that explain them as well.

mod figures;
mod knobs;
mod twin;

pub use figures::{FigureKind, LogFigure};

use super::load::Pattern;
use super::repeat::{Run, STEADY_AFTER, Start};
use super::series::LogSeries;
use crate::learn::ReportedProperties;
use crate::learn::fit::linear::Matrix;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use figures::{figures, shown};
use knobs::{Knob, change, knobs, spec_at};
use trimtab_drive::rng::Stream;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::spec::datasheet::{Prior, used_share};
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::source::SourceKind;
use trimtab_sim::runner::Observer;
use twin::Found;

/// Members of the twin. Their range holds nine in ten: (n - 1) / (n + 1).
const MEMBERS: usize = 24;
/// Steps of the search for the best drive.
const STEPS: usize = 4;
/// Change of a parameter for its slope, in standard deviations of its prior.
const SLOPE_STEP: f64 = 0.5;
/// Standard errors by which a twin may miss a figure.
const TOLERANCE: f64 = 2.0;
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

/// A drive of the search: its cost, its place, the figures it shows, their distances from
/// the log in standard errors, and the slopes of these.
struct Tried {
    cost: f64,
    at: Vec<f64>,
    shown: Vec<f64>,
    residuals: Vec<f64>,
    slopes: Vec<Vec<f64>>,
}

/// A drawn member: the place and figures that it should have, and its other parameters.
struct Draw {
    means: Vec<f64>,
    wanted: Vec<f64>,
    prior: Prior,
}

/// Applies a function to all specifications, possibly in parallel.
pub type ForAll<'a> = dyn Fn(&[DriveSpec], &(dyn Fn(&DriveSpec) -> Option<Vec<f64>> + Sync)) -> Vec<Option<Vec<f64>>>
    + 'a;

/// The run that the model repeats: long enough for the same figures as in the log.
fn repeated(statement: &Statement, drive_writes: f64, cliff: Option<f64>) -> Run {
    let enough = match (statement.run.start, &statement.run.pattern) {
        (Start::Overwritten, _) => 0.5,
        (_, Pattern::Uniform) => STEADY_AFTER + cliff.unwrap_or(0.0),
        _ => 2.0 * STEADY_AFTER + cliff.unwrap_or(0.0),
    };
    Run { drive_writes: drive_writes.min(enough), ..statement.run.clone() }
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

/// Repeats the run of a log on drives around `start`.
struct Search<'a> {
    start: &'a DriveSpec,
    knobs: &'a [Knob],
    run: &'a Run,
    figures: &'a [LogFigure],
    kinds: Vec<FigureKind>,
    /// Logarithms of the measured figures.
    wanted: Vec<f64>,
    seed: u64,
    for_all: &'a ForAll<'a>,
    tried: usize,
}

impl Search<'_> {
    fn shown(&mut self, specs: &[DriveSpec]) -> Vec<Option<Vec<f64>>> {
        self.tried += specs.len();
        (self.for_all)(specs, &|spec| shown(spec, self.run, &self.kinds, self.seed))
    }

    /// Distances of `shown` from the logarithms `wanted`, in standard errors.
    fn residuals(&self, shown: &[f64], wanted: &[f64]) -> Vec<f64> {
        let one = |((shown, wanted), figure): ((&f64, &f64), &LogFigure)| {
            (libm::log(*shown) - wanted) / figure.sigma
        };
        shown.iter().zip(wanted).zip(self.figures).map(one).collect()
    }

    /// The drive at a place with its slopes. `None` if the model cannot run it.
    fn tried_at(&mut self, at: &[f64]) -> Option<Tried> {
        let mut places = vec![at.to_vec()];
        for nth in 0..self.knobs.len() {
            let mut place = at.to_vec();
            place[nth] += SLOPE_STEP;
            places.push(place);
        }
        let specs: Vec<DriveSpec> =
            places.iter().map(|place| spec_at(self.start, self.knobs, place)).collect();
        let mut found = self.shown(&specs).into_iter();
        let shown = found.next()??;
        let residuals = self.residuals(&shown, &self.wanted);
        let slope = |there: Option<Vec<f64>>| {
            there.map_or_else(
                || vec![0.0; residuals.len()],
                |there| {
                    let there = self.residuals(&there, &self.wanted);
                    let steps = there.iter().zip(&residuals);
                    steps.map(|(there, here)| (there - here) / SLOPE_STEP).collect()
                },
            )
        };
        let slopes = found.map(slope).collect();
        let cost = square_sum(residuals.iter().copied()) + square_sum(at.iter().copied());
        Some(Tried { cost, at: at.to_vec(), shown, residuals, slopes })
    }

    /// The drive nearest to the log and the prior. `None` if stopped, or if the model
    /// cannot run.
    fn best(&mut self, observer: &mut dyn Observer) -> Option<Tried> {
        let prior = vec![0.0; self.knobs.len()];
        let mut at = prior.clone();
        let mut best: Option<Tried> = None;
        for _ in 0..STEPS {
            if observer.stopped() {
                return None;
            }
            let Some(here) = self.tried_at(&at) else { break };
            if let Some(before) = &best
                && here.cost >= before.cost
            {
                // Too long a step: half of it.
                let middles = at.iter().zip(&before.at);
                at = middles.map(|(at, before)| f64::midpoint(*at, *before)).collect();
                continue;
            }
            let next = step(&here.slopes, &here.residuals, &at, &prior);
            best = Some(here);
            match next {
                Some(next) if square_sum(next.iter().zip(&at).map(|(a, b)| a - b)) > 0.01 => {
                    at = next;
                }
                _ => break,
            }
        }
        best
    }

    fn draw(&self, wider: f64, stream: &mut Stream) -> Draw {
        let means = self.knobs.iter().map(|_| stream.normal()).collect();
        let noisy =
            |(wanted, figure): (&f64, &LogFigure)| wanted + wider * figure.sigma * stream.normal();
        let wanted = self.wanted.iter().zip(self.figures).map(noisy).collect();
        Draw { means, wanted, prior: Prior::draw(core::array::from_fn(|_| stream.unit())) }
    }

    fn member(&self, place: &[f64], prior: &Prior) -> DriveSpec {
        let mut spec = spec_at(self.start, self.knobs, place);
        change(&mut spec, |flash| {
            if flash.nand.suspend_step_ns > 0 {
                flash.nand.suspend_step_ns = prior.suspend_step_ns;
            }
            flash.ftl.victim = prior.victim;
        });
        spec
    }

    /// Drives that explain the log as well as `best`, drawn from prior and noise; each is
    /// corrected once. `None` if stopped.
    fn members(
        &mut self,
        best: &Tried,
        wider: f64,
        observer: &mut dyn Observer,
    ) -> Option<Vec<DriveSpec>> {
        let mut stream = Stream::new(self.seed, "members of a log");
        let drawn: Vec<Draw> = (0..MEMBERS).map(|_| self.draw(wider, &mut stream)).collect();
        let from_best = |draw: &Draw| {
            let off = self.residuals(&best.shown, &draw.wanted);
            step(&best.slopes, &off, &best.at, &draw.means).unwrap_or_else(|| best.at.clone())
        };
        let mut places: Vec<Vec<f64>> = drawn.iter().map(from_best).collect();
        let mut kept = Vec::new();
        for is_correction in [true, false] {
            if observer.stopped() {
                return None;
            }
            let placed = places.iter().zip(&drawn);
            let specs: Vec<DriveSpec> =
                placed.map(|(place, draw)| self.member(place, &draw.prior)).collect();
            let found = self.shown(&specs);
            for (nth, (draw, shown)) in drawn.iter().zip(&found).enumerate() {
                let Some(shown) = shown else { continue };
                let off = self.residuals(shown, &draw.wanted);
                if is_correction {
                    if let Some(next) = step(&best.slopes, &off, &places[nth], &draw.means) {
                        places[nth] = next;
                    }
                } else if square_sum(off.iter().map(|off| off / wider))
                    <= self.figures.len() as f64 * MISFIT_MAX
                {
                    kept.push(specs[nth].clone());
                }
            }
        }
        Some(kept)
    }
}

/// Shares of the prior variance that the figures remove.
fn learned(slopes: &[Vec<f64>], wider: f64) -> Vec<f64> {
    let scaled: Vec<Vec<f64>> =
        slopes.iter().map(|slopes| slopes.iter().map(|slope| slope / wider).collect()).collect();
    normal(&scaled).inverse().map_or_else(
        || vec![0.0; slopes.len()],
        |rest| (0..slopes.len()).map(|nth| 1.0 - rest.at(nth, nth)).collect(),
    )
}

/// The spare space that the WAF of the log needs under uniform writes.
fn spare_needed(figures: &[LogFigure], start: &DriveSpec, used_bytes: f64) -> Option<String> {
    let of = |kind| figures.iter().find(|one| one.kind == kind).map(|one| one.measured);
    let moving = of(FigureKind::Waf).map(|waf| waf / of(FigureKind::Floor).unwrap_or(1.0));
    let waf = moving.or(of(FigureKind::Collection)).filter(|waf| *waf > 1.0)?;
    let percent = |share: f64| 100.0 * (1.0 / share - 1.0);
    let raw = start.flash.geometry.raw_bytes() as f64;
    Some(format!(
        "uniform writes at WAF {waf:.1} of collection need about {:.0} % spare space, and the \
         drive file has {:.0} %: check --pattern and --used",
        percent(used_share(waf)),
        percent(used_bytes / raw)
    ))
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
    let reported = ReportedProperties::of(&start.spec);
    let knobs = knobs(start, &reported);
    let used_bytes = start.spec.capacity_bytes as f64 * statement.run.used;
    let drive_writes = log.bytes() / used_bytes;
    let outcome = log.outcome(used_bytes);
    let cliff = log.cliff(used_bytes, outcome.fresh_mbs, outcome.steady_mbs);
    let run = repeated(statement, drive_writes, cliff);
    let mut notes = log.notes.clone();
    observer.begins("repeats the run on modelled drives");
    let program_time = start.sources.get("flash.nand.program_ns");
    let fresh_published = shown(&start.spec, &run, &[FigureKind::Fresh], seed)
        .and_then(|all| all.first().copied())
        .filter(|_| program_time.is_some_and(|source| source.kind != SourceKind::Assumed));
    let mut figures = figures(log, statement, used_bytes, fresh_published, &mut notes);
    if figures.is_empty() {
        return Err("the log shows no figure that depends on the drive".to_owned());
    }
    let mut search = Search {
        start: &start.spec,
        knobs: &knobs,
        run: &run,
        kinds: figures.iter().map(|one| one.kind).collect(),
        wanted: figures.iter().map(|one| libm::log(one.measured)).collect(),
        figures: &figures,
        seed,
        for_all,
        tried: 1,
    };
    let Some(best) = search.best(observer) else { return Ok(None) };
    let misfit = square_sum(best.residuals.iter().copied()) / figures.len() as f64;
    // Errors of the model that are larger than assumed widen the intervals.
    let wider = libm::sqrt(misfit.max(1.0));
    observer.begins("draws members");
    let Some(members) = search.members(&best, wider, observer) else { return Ok(None) };
    let tried = search.tried;
    for ((figure, shown), residual) in figures.iter_mut().zip(&best.shown).zip(&best.residuals) {
        figure.twin = *shown;
        if residual.abs() > TOLERANCE {
            notes.push(format!(
                "the twin misses {} by {:+.1} %, more than its tolerance of {:.1} %",
                figure.kind.name(),
                100.0 * (shown / figure.measured - 1.0),
                100.0 * TOLERANCE * figure.sigma
            ));
        }
    }
    let found = Found {
        start,
        knobs: &knobs,
        learned: learned(&best.slopes, wider),
        slopes: &best.slopes,
        best: spec_at(&start.spec, &knobs, &best.at),
        members,
        misfit,
        figures: &figures,
    };
    if !found.explains() && run.pattern == Pattern::Uniform {
        notes.extend(spare_needed(&figures, &start.spec, used_bytes));
    }
    let drive = found.twin(notes, day, seed);
    Ok(Some(LogFit { drive, figures, tried }))
}
