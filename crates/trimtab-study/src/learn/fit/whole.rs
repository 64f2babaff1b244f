//! Drives as the probes of a whole drive see them: spare space, SLC cache, victim
//! selection. Kinds and the other numbers are those that explain the small probes.

use super::local::Point;
use super::{Space, logs};
use crate::learn::candidate::{Candidate, HiddenProperties, NUMBERS, OF_SMALL_PROBES, at};
use crate::learn::classes::{self, Prior};
use crate::learn::invert;
use crate::learn::lab::{IsWorth, ProbeSession};
use crate::learn::probes::{self, Findings, ProbePlan};
use crate::study::small::SmallDrive;
use alloc::vec::Vec;
use trimtab_drive::model;
use trimtab_sim::target::drive::DriveTarget;

/// Share of the uncertainty above which the small probes decide a number.
pub(super) const KNOWN_MIN: f64 = 0.5;
/// Smallest standard deviation of a number that the small probes decided.
const SIGMA_MIN: f64 = 0.01;
/// Number of other seeds on which a drive is run, to measure random variation.
const OTHER_SEEDS: u64 = 5;
/// Jumps of numbers, as changes of the logarithm. The figures of small drives change in
/// steps, because superblocks are whole.
const JUMPS: [(usize, f64); 14] = [
    (at::SPARE, -0.14),
    (at::SPARE, -0.06),
    (at::SPARE, 0.06),
    (at::SPARE, 0.14),
    (at::SLC_LEAST, -0.25),
    (at::SLC_LEAST, 0.25),
    (at::SLC_MORE, -0.25),
    (at::SLC_MORE, 0.25),
    (at::PROGRAM, -0.4),
    (at::PROGRAM, 0.3),
    (at::ERASE, -0.5),
    (at::ERASE, 0.5),
    (at::MAP, -0.4),
    (at::MAP, 0.4),
];

/// Logarithms of the results of the whole-drive probes on a scaled-down candidate, in
/// order.
#[must_use]
pub fn shown(candidate: &Candidate, plan: &ProbePlan) -> Option<Vec<f64>> {
    shown_by(candidate, plan, plan.seed, &|_| true)
}

/// As [`shown`], on a drive built with `seed`, but only the first results if `is_worth`
/// ends the run.
fn shown_by(
    candidate: &Candidate,
    plan: &ProbePlan,
    seed: u64,
    is_worth: &IsWorth<'_>,
) -> Option<Vec<f64>> {
    let small = SmallDrive::of(
        &candidate.spec("candidate", "a candidate", &plan.reported),
        probes::whole::SIZE,
    )
    .ok()?
    .spec;
    let whole = plan.whole?.on(small.capacity_bytes);
    let mut target = DriveTarget::new(model::build(&small, seed).ok()?, probes::DEPTH_MAX);
    let mut lab = ProbeSession::new(&mut target).limited(is_worth);
    probes::whole::there_already(&mut lab, &whole).ok()?;
    let plan = ProbePlan { whole: Some(whole), ..*plan };
    let found = probes::run_whole(&mut lab, &plan, &mut ()).ok()?;
    Some(logs(&found.observations))
}

/// The space of the probes of the whole drive.
pub(super) struct WholeDrive<'a> {
    plan: &'a ProbePlan,
    priors: [Prior; NUMBERS],
    /// Kinds that explain the small probes, the best first.
    kinds: Vec<Point>,
    /// Share of the uncertainty of each number that the small probes removed.
    learned: [f64; NUMBERS],
}

impl<'a> WholeDrive<'a> {
    pub(super) fn new(plan: &'a ProbePlan, kinds: &[Point], learned: [f64; NUMBERS]) -> Self {
        Self { plan, priors: classes::priors(&plan.reported), kinds: kinds.to_vec(), learned }
    }

    /// Where the search starts: each kind with the sizes that arithmetic suggests.
    pub(super) fn starts(&self, found: &Findings) -> Vec<Candidate> {
        self.kinds
            .iter()
            .map(|kind| invert::whole::invert(&kind.candidate, found, self.plan))
            .collect()
    }

    fn kind_of(&self, candidate: &Candidate) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.candidate.is_kind_of(candidate))
    }

    /// `kinds` with the costs of both sets of figures, the best first.
    pub(super) fn judged_by_both(&self, kinds: Vec<Point>, whole: &[Point]) -> Vec<Point> {
        let cost = |kind: &Point| {
            whole.iter().find(|one| one.candidate.is_kind_of(&kind.candidate)).map(|one| one.cost)
        };
        let mut kinds: Vec<Point> = kinds
            .into_iter()
            .filter_map(|kind| Some(Point { cost: cost(&kind)?, ..kind }))
            .collect();
        super::local::sort(&mut kinds);
        kinds
    }
}

impl Space for WholeDrive<'_> {
    fn show(&self, candidate: &Candidate, is_worth: &IsWorth<'_>) -> Option<Vec<f64>> {
        shown_by(candidate, self.plan, self.plan.seed, is_worth)
    }

    fn with_other_seeds(&self, candidate: &Candidate) -> Vec<Vec<f64>> {
        (1..=OTHER_SEEDS)
            .map(|seed| self.plan.seed.wrapping_add(seed))
            .filter_map(|seed| shown_by(candidate, self.plan, seed, &|_| true))
            .collect()
    }

    fn is_free(&self, candidate: &Candidate, number: usize) -> bool {
        (number >= OF_SMALL_PROBES || number == at::PROGRAM || number == at::READ)
            && candidate.has(number)
    }

    fn prior(&self, candidate: &Candidate, number: usize) -> Prior {
        let class = self.priors[number];
        if number >= OF_SMALL_PROBES || self.learned[number] < KNOWN_MIN {
            return class;
        }
        let median = self
            .kind_of(candidate)
            .map_or(class.median, |kind| self.kinds[kind].candidate.number(number));
        let left = libm::sqrt((1.0 - self.learned[number]).max(0.0)) * class.sigma;
        Prior { median, sigma: left.max(SIGMA_MIN) }
    }

    fn rarity(&self, candidate: &Candidate) -> f64 {
        let kind =
            self.kind_of(candidate).map_or(0.0, |kind| self.kinds[kind].cost - self.kinds[0].cost);
        kind + classes::rarity_of_hidden(candidate, &self.plan.reported)
    }

    fn is_same_kind(&self, one: &Candidate, other: &Candidate) -> bool {
        let pages_per_block = one.hidden.pages_per_block;
        one.is_kind_of(other) && one.hidden == HiddenProperties { pages_per_block, ..other.hidden }
    }

    /// Memory for the map, and whether the SLC cache shrinks: numbers depend on both.
    fn family(&self, candidate: &Candidate) -> usize {
        usize::from(candidate.hidden.maps_in_part)
            + 2 * usize::from(candidate.kind.slc && candidate.hidden.slc_shrinks)
    }

    /// Two seconds: a candidate takes 20 to 60 ms.
    fn draws(&self) -> usize {
        60
    }

    fn neighbours(&self, from: &Candidate) -> Vec<Candidate> {
        let mut all: Vec<Candidate> =
            self.kinds.iter().map(|kind| on_whole_drive(&kind.candidate, from)).collect();
        let mut with = |change: &dyn Fn(&mut Candidate)| {
            let mut to = from.clone();
            change(&mut to);
            all.push(to);
        };
        for (victim, _) in classes::VICTIMS {
            with(&|to| to.hidden.victim = victim);
        }
        with(&|to| to.hidden.separate_gc = !to.hidden.separate_gc);
        with(&|to| to.hidden.maps_in_part = !to.hidden.maps_in_part);
        for pages in classes::PAGES {
            with(&|to| *to = to.clone().paged(pages));
        }
        if from.kind.slc {
            with(&|to| to.hidden.slc_direct = !to.hidden.slc_direct);
            with(&|to| to.hidden.slc_shrinks = !to.hidden.slc_shrinks);
            for bits in classes::bits(true).into_iter().filter(|_| from.shown_bits().is_none()) {
                with(&|to| to.hidden.bits_per_cell = bits);
            }
        }
        for (number, jump) in JUMPS.into_iter().filter(|(number, _)| self.is_free(from, *number)) {
            with(&|to| to.logs[number] += jump);
        }
        all.retain(|to| to != from);
        all
    }
}

/// `member` with the parameters of `found`, a whole drive.
pub(super) fn on_whole_drive(member: &Candidate, found: &Candidate) -> Candidate {
    let bits = member.hidden.bits_per_cell;
    let mut to = member.clone().hiding(&found.clone().paged(member.hidden.pages_per_block));
    if !member.kind.slc {
        to.hidden.bits_per_cell = bits;
    } else if found.kind.slc {
        (to.logs[at::PROGRAM], to.logs[at::READ]) = (found.logs[at::PROGRAM], found.logs[at::READ]);
    } else {
        to.hidden.bits_per_cell = to.hidden.bits_per_cell.max(classes::bits(true)[0]);
    }
    to
}
