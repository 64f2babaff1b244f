//! What an ensemble says of each figure.

use super::candidate::{Candidate, FIELDS, NUMBERS};
use super::fit::Fitted;
use super::probes::{self, Plan};
use crate::drive::spec::twin::{Known, Parameter};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

/// So much of what was not known has to be gone for a figure to count as measured; and for it to count as bounded.
const MEASURED: f64 = 0.9;
const BOUNDED: f64 = 0.3;

/// What is known of every figure of the best candidate.
#[must_use]
pub fn parameters(fitted: &Fitted, plan: &Plan) -> Vec<Parameter> {
    let mut all: Vec<Parameter> =
        (0..NUMBERS).filter(|number| fitted.best.kind.has(*number)).map(|number| of_number(fitted, plan, number)).collect();
    if plan.reported.trim.is_none() {
        all.retain(|one| !one.field.starts_with("flash.trim"));
    }
    all.extend(of_kinds(fitted, plan));
    all.extend(of_hidden(fitted));
    all
}

fn of_number(fitted: &Fitted, plan: &Plan, number: usize) -> Parameter {
    let value = |candidate: &Candidate| libm::round(candidate.number(number)) as u64;
    let same = fitted.members.iter().filter(|member| member.kind.has(number));
    let (low, high) = bounds(same.map(value).collect(), value(&fitted.best));
    let known = match fitted.learned[number] {
        share if share >= MEASURED => Known::Measured,
        share if share >= BOUNDED => Known::Bounded,
        _ => Known::Typical,
    };
    Parameter {
        field: FIELDS[number].to_string(),
        estimate: value(&fitted.best),
        low,
        high,
        known,
        source: source(known, FIELDS[number], plan),
    }
}

/// Where nineteen of twenty lie above, and below.
fn bounds(mut values: Vec<u64>, estimate: u64) -> (u64, u64) {
    values.sort_unstable();
    let at = |share: usize| values.get((values.len().saturating_sub(1)) * share / 100).copied().unwrap_or(estimate);
    (at(5).min(estimate), at(95).max(estimate))
}

/// The probes that say something of a field.
fn source(known: Known, field: &str, plan: &Plan) -> String {
    let covers = |about: &&&str| field == **about || field.strip_prefix(**about).is_some_and(|rest| rest.starts_with('.'));
    let names: Vec<&str> =
        probes::of(plan).filter(|probe| probe.identifies().iter().any(|about| covers(&about))).map(|probe| probe.name()).collect();
    if known != Known::Typical && !names.is_empty() {
        return names.join(", ");
    }
    // A probe that another budget has, or another way to the drive.
    match probes::every().iter().find(|probe| names.is_empty() && probe.identifies().iter().any(|about| covers(&about))) {
        Some(probe) => format!("the class (the probe '{}' would tell)", probe.name()),
        None => "the class".to_string(),
    }
}

/// What is of one kind or another: measured where all members agree.
fn of_kinds(fitted: &Fitted, plan: &Plan) -> Vec<Parameter> {
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
    let all = kinds.into_iter().filter(|(field, _)| plan.reported.trim.is_some() || !field.starts_with("flash.trim"));
    all.map(|(field, of)| {
        let (low, high) = bounds(fitted.members.iter().map(of).collect(), of(&fitted.best));
        let told = !source(Known::Bounded, field, plan).starts_with("the class");
        let known = if told && low == high && !field.starts_with("flash.geometry") { Known::Measured } else { Known::Bounded };
        let known = if told { known } else { Known::Typical };
        Parameter { field: field.to_string(), estimate: of(&fitted.best), low, high, known, source: source(known, field, plan) }
    })
    .collect()
}

/// What was drawn.
fn of_hidden(fitted: &Fitted) -> Vec<Parameter> {
    type Of = fn(&Candidate) -> u64;
    let drawn: [(&str, Of); 3] = [
        ("flash.geometry.bits_per_cell", |one| one.hidden.bits_per_cell.into()),
        ("flash.nand.erase_ns", |one| one.hidden.erase_ns),
        ("flash.geometry.blocks_per_plane", |one| one.hidden.over_provisioning_permille.into()),
    ];
    drawn
        .into_iter()
        .map(|(field, of)| {
            let (low, high) = bounds(fitted.members.iter().map(of).collect(), of(&fitted.best));
            let spare = field.ends_with("blocks_per_plane");
            let field = if spare { "flash.over_provisioning_permille".to_string() } else { field.to_string() };
            Parameter { field, estimate: of(&fitted.best), low, high, known: Known::Typical, source: format!("the class: {}", why(spare)) }
        })
        .collect()
}

const fn why(spare: bool) -> &'static str {
    if spare { "shows only once the drive has been written over" } else { "not to be told from outside in minutes" }
}
