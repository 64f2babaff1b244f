//! What a verdict stands on, and what has to be known beside it.

use super::difference::{DIFFERENCE_FEW, REPEATS_MIN, compare};
use super::{blocked, queues, sent_nothing};
use crate::study::costs::Cells;
use crate::study::modelled::BUDGET_MISSED;
use crate::study::table::{FOREGROUND, jobs, mean, policy_title, samples};
use crate::study::{Study, advice, policy};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Provenance, Run, Unit};

pub(super) fn evidence(run: &Run) -> Option<String> {
    let foreground = samples(run, FOREGROUND)?;
    let each: Vec<String> = foreground.iter().map(|s| quantity(*s, Unit::Seconds)).collect();
    let mut text = format!("{} under '{}': {} of waiting", run.workload, policy_title(run), each.join(", "));
    if let Some(trim) = mean(run, metrics::TRIM_SECONDS) {
        let each = samples(run, metrics::TRIM_SECONDS).map_or(0, <[f64]>::len);
        let mean = if each > 1 { ", on average" } else { "" };
        text.push_str(&format!(", then {} of trimming{mean}", quantity(trim, Unit::Seconds)));
    }
    match mean(run, metrics::DISCARD_COMMANDS).zip(mean(run, metrics::DISCARD_BYTES)) {
        Some((0.0, _)) => text.push_str("; no discard reached the device"),
        Some((commands, bytes)) => {
            let each = samples(run, metrics::DISCARD_COMMANDS).map_or(0, <[f64]>::len);
            text.push_str(&format!(
                "; the device counted {} discards of {} in all{}",
                quantity(commands, Unit::Count),
                quantity(bytes, Unit::Bytes),
                if each > 1 { ", on average" } else { "" }
            ));
            if let Some(amplification) = mean(run, metrics::DISCARD_AMPLIFICATION).filter(|a| *a >= 0.01) {
                text.push_str(&format!(", {} times what was freed", three_digits(amplification)));
            }
        }
        None => text.push_str("; discards are not counted here"),
    }
    Some(text)
}

pub(super) fn caveats(study: &Study, cells: &Cells<'_>, caveats: &mut Vec<String>) {
    for untried in &study.untried {
        caveats.push(format!("'{}' was not tried: {}", untried.policy, untried.reason));
    }
    if !study.complete {
        caveats.push("the study was interrupted; this is what was measured until then".to_owned());
    }
    let few = study.runs.iter().filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0);
    if !study.runs.is_empty() && few < REPEATS_MIN && study.runs.iter().any(|run| run.provenance == Provenance::Measured) {
        caveats.push(format!(
            "with {} no difference decides anything; those of {DIFFERENCE_FEW}× and more are told",
            if few == 1 { "one repeat".to_owned() } else { format!("{few} repeats") }
        ));
    }
    for run in cells.of(policy::ONLINE).filter(|run| sent_nothing(run)) {
        if queues(run) {
            caveats.push(format!(
                "{}: the filesystem queues its discards and sends them minutes later; they are not in these figures",
                run.workload
            ));
        } else if blocked(cells).is_none() {
            caveats.push(format!(
                "{}'s files were gone before the system wrote them out, so online discard had nothing to discard",
                run.workload
            ));
        }
    }
    // Batched and none do the same until the trim: how far they differ is how far to trust the rest.
    for job in jobs(&study.runs) {
        let pair = cells.find(job, policy::BATCHED).zip(cells.find(job, policy::NONE));
        let both = pair.and_then(|(a, b)| samples(a, FOREGROUND).zip(samples(b, FOREGROUND)));
        if let Some(noise) = both.and_then(|(a, b)| compare(a, b)).filter(|noise| noise.ratio > 1.1 || noise.ratio < 1.0 / 1.1) {
            let percent = (noise.ratio.max(1.0 / noise.ratio) - 1.0) * 100.0;
            caveats.push(format!(
                "{job} did the same work under 'batched' and without trimming, and yet the times differ by {percent:.0} %: that much is noise or order here"
            ));
        }
    }
    if study.runs.iter().any(|run| run.provenance == Provenance::Modelled) {
        caveats.push("modelled: whether a figure of the drive is published, fitted or assumed is said by 'trimtab drive show'".to_owned());
        caveats.push("adaptive and idle trims were made to begin with the light work, as batched ones; by themselves they come less often; the idle policy knew from an earlier trim what TRIMs cost here".to_owned());
    }
    if let Some(warning) = study.all().flat_map(|run| &run.warnings).find(|warning| warning.code == BUDGET_MISSED) {
        caveats.push(warning.text.clone());
    }
    if !study.runs.is_empty() && !advice::looked(study) {
        caveats.push("this shows what trimming costs, not what a drive gains by it over months of use".to_owned());
    }
}
