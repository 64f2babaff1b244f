//! Writes the fit as a twin.

use super::knobs::{Knob, NINE_OF_TEN};
use super::{LogFigure, MEMBERS, square_sum};
use crate::learn::learned::one_line;
use crate::learn::summary::{bound, known, told_by};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::spec::file::Drive;
use trimtab_drive::spec::twin::{Known, Origin, Parameter, TEXT_MAX, Twin, explains};
use trimtab_drive::spec::{DriveSpec, IDENTIFIER_MAX};

/// Fewer different members make no interval.
const MEMBERS_MIN: usize = 8;
/// A figure with less than this share of a parameter's squared slopes hardly shows it.
const SHOWN_MIN: f64 = 0.1;

/// What the search found around `start`.
pub(super) struct Found<'a> {
    pub(super) start: &'a Drive,
    pub(super) knobs: &'a [Knob],
    /// Share of the prior variance that the figures remove, for each knob.
    pub(super) learned: Vec<f64>,
    /// Change of each figure with each knob, in standard errors.
    pub(super) slopes: &'a [Vec<f64>],
    pub(super) best: DriveSpec,
    pub(super) members: Vec<DriveSpec>,
    /// Mean squared error of the best drive, in standard errors.
    pub(super) misfit: f64,
    pub(super) figures: &'a [LogFigure],
}

impl Found<'_> {
    /// Relative error that two thirds of the figures stay below.
    fn off(&self) -> f64 {
        let mut offs: Vec<f64> =
            self.figures.iter().map(|one| (one.twin / one.measured - 1.0).abs()).collect();
        offs.sort_by(f64::total_cmp);
        offs.get(offs.len() * 2 / 3).or(offs.last()).copied().unwrap_or(0.0)
    }

    pub(super) fn explains(&self) -> bool {
        explains(self.misfit, self.off())
    }

    fn has_few_members(&self) -> bool {
        self.members.len() < MEMBERS_MIN
    }

    /// The figures that decide a parameter.
    fn shown_by(&self, slopes: &[f64]) -> String {
        let least = square_sum(slopes.iter().copied()) * SHOWN_MIN;
        let figures = self.figures.iter().zip(slopes);
        let shown = figures.filter(|(_, slope)| *slope * *slope >= least);
        shown.map(|(figure, _)| figure.kind.name()).collect::<Vec<_>>().join(", ")
    }

    /// The estimate of a parameter, its range, and how well the log tells it.
    fn parameter(&self, knob: &Knob, learned: f64, slopes: &[f64]) -> Parameter {
        let whole = |spec: &DriveSpec| libm::round((knob.parameter.get)(spec)) as u64;
        let estimate = whole(&self.best);
        // Few members show no range: that of the figures' slopes is added.
        let few = self.has_few_members();
        let unknown = if few { libm::sqrt((1.0 - learned).clamp(0.0, 1.0)) } else { 0.0 };
        let factor = libm::exp(NINE_OF_TEN * knob.sigma * unknown);
        let around = [estimate as f64 / factor, estimate as f64 * factor];
        let values = self.members.iter().map(whole);
        let values = values.chain(around.map(|end| libm::round(end) as u64));
        let low = values.clone().min().unwrap_or(estimate);
        let high = values.max().unwrap_or(estimate);
        let known = known(learned.min(told_by(low, high, knob.sigma)));
        let end = |sigmas: f64| libm::round(knob.median * libm::exp(sigmas * knob.sigma)) as u64;
        let (low, high, source) = match known {
            Known::Typical => {
                let (low, high) = (low.min(end(-NINE_OF_TEN)), high.max(end(NINE_OF_TEN)));
                (low, high, "the class".to_owned())
            }
            _ => (low, high, format!("log: {}", self.shown_by(slopes))),
        };
        Parameter { field: knob.parameter.field.to_owned(), estimate, low, high, known, source }
    }

    /// What the log does not tell.
    fn unknown(&self, parameters: &[Parameter]) -> Vec<String> {
        let mut notes: Vec<String> = parameters
            .iter()
            .zip(self.knobs)
            .filter(|(one, _)| one.known == Known::Typical)
            .map(|(one, knob)| {
                let reason =
                    if self.explains() { knob.parameter.hidden } else { "no drive explains it" };
                format!("the log does not tell {}: {reason}", one.field)
            })
            .collect();
        notes.push(
            "the log does not tell read and TRIM costs, erase time, choice of victims, mapping \
             unit and the number of dies: no row shows them; they are those of the drive file or \
             of its class"
                .to_owned(),
        );
        if self.members.len() < MEMBERS {
            notes.push(format!(
                "{} of {MEMBERS} drawn drives are further from the log than the best and were \
                 left out",
                MEMBERS - self.members.len()
            ));
        }
        notes
    }

    /// The twin, learned on `day`, with `notes` on the log.
    pub(super) fn twin(mut self, mut notes: Vec<String>, day: &str, seed: u64) -> Drive {
        let knobs = self.knobs.iter().zip(&self.learned).zip(self.slopes);
        let mut parameters: Vec<Parameter> =
            knobs.map(|((knob, learned), slopes)| self.parameter(knob, *learned, slopes)).collect();
        let off = self.off();
        if self.has_few_members() || !self.explains() {
            bound(&mut parameters);
        }
        notes.extend(self.unknown(&parameters));
        if self.members.is_empty() {
            self.members.push(self.best.clone());
        }
        let Self { start, mut best, mut members, misfit, .. } = self;
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
            notes: notes
                .iter()
                .map(|note| one_line(note).chars().take(TEXT_MAX).collect())
                .collect(),
            ..Origin::default()
        };
        let twin = Twin { origin, parameters, members };
        let mut sources = start.sources.clone();
        sources.extend(twin.sources().into_iter().filter(|(field, _)| {
            twin.parameters.iter().any(|one| one.known != Known::Typical && one.field == *field)
        }));
        Drive { spec: best, sources, alternatives: Vec::new(), twin: Some(twin) }
    }
}
