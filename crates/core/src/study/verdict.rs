//! What follows from the runs of a study. A pure function of them, the same for real and modelled targets.

use super::costs::{self, Cells, STALL_SECONDS};
use super::light_work::{BUSY_BACKLOG, SPARSE};
use super::table::{FOREGROUND, jobs, mean, samples};
use super::waits::{self, Finding};
use super::{Study, advice, kernels, policy, sensitivity};
use crate::analysis::compare::{self, Statistic};
use crate::document::Verdict;
use crate::run::metrics;
use crate::run::shown::quantity;
use crate::run::{Better, Field, Provenance, Run, Unit};
use crate::units::three_digits;
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What nobody notices.
pub(super) const BLINK_SECONDS: f64 = 0.05;
/// With fewer repeats than a confidence interval needs, a difference counts if no repeat of one is within the range of
/// the other and one mean is at least this many times the other.
const DIFFERENCE_FEW: f64 = 1.5;
/// Repeats from which there is a confidence interval.
const REPEATS_MIN: usize = Statistic::Mean.repeats_min();

/// How two sets of repeats compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Mean of the first divided by the mean of the second.
    pub ratio: f64,
    /// Whether that is more than the repeats scatter.
    pub measurable: bool,
}

/// Compares repeats of the same time. `None` if one has no repeats or no time.
pub fn compare(a: &[f64], b: &[f64]) -> Option<Comparison> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let compared = compare::compare(b, a, Better::Lower, &compare::Options::default());
    let ratio = compared.ratio?;
    let least = |x: &[f64]| x.iter().copied().fold(f64::MAX, f64::min);
    let most = |x: &[f64]| x.iter().copied().fold(f64::MIN, f64::max);
    let measurable = if a.len().min(b.len()) >= REPEATS_MIN {
        matches!(compared.verdict, compare::Verdict::Better | compare::Verdict::Worse)
    } else {
        (least(a) > most(b) || most(a) < least(b)) && (ratio >= DIFFERENCE_FEW || ratio <= 1.0 / DIFFERENCE_FEW)
    };
    Some(Comparison { ratio, measurable })
}

/// What the policy of a run amounts to: `as-mounted` is `none` or `online`, as the filesystem was mounted.
pub fn effective_policy(run: &Run) -> &str {
    if run.policy != policy::AS_MOUNTED {
        return &run.policy;
    }
    let discard = Field::find(&run.policy_settings, policy::DISCARD);
    match discard {
        Some("nodiscard") => policy::NONE,
        Some(_) => policy::ONLINE,
        None => policy::AS_MOUNTED,
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recommendation {
    /// Leave it to the filesystem: it costs nothing that can be measured, and gains something over months.
    Online,
    /// Trim now and then, not as files go.
    Batched,
    /// Trim when enough has been written: a fixed interval gains less.
    Adaptive,
    /// Trim in idle time: a batched trim makes others wait.
    Idle,
    /// Trimming neither costs nor gains anything that can be measured.
    NoDifference,
    /// Trimming costs something here and gains nothing.
    NotWorthIt,
    /// Every policy that gains something would trim without end.
    NeverDone,
    /// Discards do not arrive; that has to be mended first.
    Blocked,
    /// A policy was run, but no discard of it was counted: nothing can be said of it.
    NotTested,
    /// Too little could be tried.
    Unknown,
}

impl Recommendation {
    /// The policy that it is about, as runs name it.
    pub const fn policy(self) -> Option<&'static str> {
        match self {
            Self::Online => Some(policy::ONLINE),
            Self::Batched => Some(policy::BATCHED),
            Self::Adaptive => Some(policy::ADAPTIVE),
            Self::Idle => Some(policy::IDLE),
            Self::NotWorthIt => Some(policy::NONE),
            Self::NoDifference | Self::NeverDone | Self::Blocked | Self::NotTested | Self::Unknown => None,
        }
    }

    /// Whether anything is said that could be robust.
    pub const fn is_one(self) -> bool {
        !matches!(self, Self::Blocked | Self::NotTested | Self::Unknown)
    }
}

/// What to do, from the runs.
pub fn recommendation(study: &Study) -> Recommendation {
    let cells = Cells(&study.runs);
    if blocked(&cells).is_some() {
        return Recommendation::Blocked;
    }
    // What a policy gains is half of it.
    if study.runs.is_empty() {
        return Recommendation::Unknown;
    }
    let (stalls, online_costs) = (costs::stalls(study).is_some(), costs::online_cost(study).is_some());
    if advice::looked(study) && !advice::any_gain(study) {
        let costs = stalls || online_costs || costs::batched_costs(study);
        return if costs { Recommendation::NotWorthIt } else { Recommendation::NoDifference };
    }
    if too_few_repeats(study) && !advice::looked(study) && cells.has(policy::NONE) && cells.tested(policy::ONLINE) {
        return Recommendation::Batched;
    }
    // What never gets done is no choice, and neither is what gains nothing where something else does.
    let fits = |policy: &str| advice::finishes(study, policy) && advice::is_worth_it(study, policy);
    if stalls && fits(policy::IDLE) {
        return Recommendation::Idle;
    }
    // What was left out is not recommended where something else was tried.
    if online_costs && !cells.has(policy::BATCHED) {
        match [policy::IDLE, policy::ADAPTIVE].into_iter().find(|policy| cells.tested(policy) && fits(policy)) {
            Some(policy::IDLE) => return Recommendation::Idle,
            Some(_) => return Recommendation::Adaptive,
            None => {}
        }
    }
    match (cells.has(policy::NONE), cells.tested(policy::ONLINE), cells.tested(policy::BATCHED)) {
        (true, true, _) if !online_costs && advice::looked(study) && fits(policy::ONLINE) => Recommendation::Online,
        (true, true, _) if !online_costs && !advice::looked(study) => either(study),
        _ if advice::beats(study, policy::ADAPTIVE, policy::BATCHED) && fits(policy::ADAPTIVE) => Recommendation::Adaptive,
        _ if !advice::finishes(study, policy::BATCHED) => Recommendation::NeverDone,
        _ if !advice::is_worth_it(study, policy::BATCHED) => what_gains(&cells, fits),
        (true, true, _) => Recommendation::Batched,
        (true, false, true) if !cells.has(policy::ONLINE) => Recommendation::Batched,
        (true, ..) if cells.has(policy::ONLINE) || cells.has(policy::BATCHED) => Recommendation::NotTested,
        _ => Recommendation::Unknown,
    }
}

/// Online discard costs nothing that is waited for, and what it gains was not looked at: either will do, unless others wait for the batched trim and were
/// seen not to wait for online discard.
fn either(study: &Study) -> Recommendation {
    let clear = waits::beside(study, policy::ONLINE).is_none_or(|waits| waits.finding == Finding::Alike);
    if clear && costs::batched_costs(study) { Recommendation::Online } else { Recommendation::NoDifference }
}

/// What is left where a batched trim gains nothing, and something else does.
fn what_gains(cells: &Cells<'_>, fits: impl Fn(&str) -> bool) -> Recommendation {
    let left =
        [(policy::IDLE, Recommendation::Idle), (policy::ADAPTIVE, Recommendation::Adaptive), (policy::ONLINE, Recommendation::Online)];
    let found = left.into_iter().find(|(policy, _)| cells.tested(policy) && fits(policy));
    found.map_or(Recommendation::NotTested, |(_, recommendation)| recommendation)
}

/// Whether what was measured was repeated too seldom to tell a difference from noise: then nothing hangs on one, and what is safe whatever a TRIM
/// costs is recommended.
pub fn too_few_repeats(study: &Study) -> bool {
    let mut repeats = study.runs.iter().filter(|run| run.provenance == Provenance::Measured).filter_map(|run| samples(run, FOREGROUND));
    repeats.any(|samples| samples.len() < REPEATS_MIN)
}

/// `one repeat`.
pub(super) fn repeats_in_words(study: &Study) -> String {
    match study.runs.iter().filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0) {
        1 => "one repeat".to_owned(),
        few => format!("{few} repeats"),
    }
}

/// Whether a run of `policy` is in the study: what was left out may be all that remains.
pub fn was_tried(study: &Study, policy: &str) -> bool {
    study.all().any(|run| effective_policy(run) == policy)
}

/// The verdict, in full.
pub(super) fn of(study: &Study, recommendation: Recommendation) -> Verdict {
    let cells = Cells(&study.runs);
    let mut verdict = Verdict { headline: headline(study, recommendation, &cells), evidence: advice::evidence(study), caveats: Vec::new() };
    for job in jobs(&study.runs) {
        for run in study.runs.iter().filter(|run| run.workload == job) {
            verdict.evidence.extend(evidence(run));
        }
    }
    for policy in [policy::ONLINE, policy::BATCHED] {
        let Some(waits) = waits::beside(study, policy) else { continue };
        let to = if waits.finding == Finding::TooFew { &mut verdict.caveats } else { &mut verdict.evidence };
        to.push(waits.evidence(policy));
    }
    verdict.caveats.extend(advice::never_done(study));
    if let Some(chosen) = recommendation.policy() {
        verdict.caveats.extend(advice::changes(study, chosen, costs::stalls(study), STALL_SECONDS));
    }
    caveats(study, &cells, &mut verdict.caveats);
    verdict
}

/// A policy that trims, if not one discard of any arrived. Discards that are queued for later prove nothing.
fn blocked<'a>(cells: &Cells<'a>) -> Option<&'a str> {
    let trims = |run: &&Run| matches!(effective_policy(run), policy::ONLINE | policy::BATCHED) && !queues(run);
    let nothing = cells.0.iter().all(|run| samples(run, metrics::DISCARD_COMMANDS).is_none_or(|_| sent_nothing(run)));
    cells.0.iter().filter(trims).find(|run| nothing && sent_nothing(run)).map(effective_policy)
}

/// That deleting brought no discard, in a clause.
pub(super) fn nothing_arrived(study: &Study) -> String {
    let policy = blocked(&Cells(&study.runs)).unwrap_or(policy::BATCHED);
    format!("under '{policy}' files were deleted, and not one discard was counted")
}

/// btrfs sends asynchronous discards minutes later.
fn queues(run: &Run) -> bool {
    run.policy_settings.iter().any(|f| f.key == policy::DISCARD && f.value == "discard=async")
}

fn headline(study: &Study, recommendation: Recommendation, cells: &Cells<'_>) -> String {
    let Some(first) = study.all().next() else { return "Nothing was measured to its end, so there is nothing to say.".to_owned() };
    let batch =
        if cells.has(policy::BATCHED) { format!("A batched trim takes {}{}.", trim_cost(cells), beside_it(study)) } else { String::new() };
    let months = |policy: &str| advice::sentence(study, policy);
    let text = match recommendation {
        Recommendation::Blocked => format!(
            "TRIM does not reach the device: under '{}' not one discard arrived, although files were deleted. 'trimtab doctor' says where it is blocked.",
            blocked(cells).unwrap_or_default()
        ),
        Recommendation::Idle => match costs::stalls(study) {
            Some((batched, idle)) => format!(
                "Trim in idle time, paced: an append made durable every 5 s takes up to {} beside a batched trim, up to {} beside an idle one.{} {} {}",
                quantity(batched, Unit::Seconds),
                quantity(idle, Unit::Seconds),
                backlogs(cells),
                months(policy::IDLE),
                online_costs(study),
            ),
            None => format!(
                "Trim in idle time, paced. {} {} Trimming in batches was not tried beside it.",
                months(policy::IDLE),
                online_costs(study)
            ),
        },
        Recommendation::Online => format!(
            "Let the filesystem discard as it frees (mount option discard): {}. {} {}",
            costs::online_cost(study).map_or("that makes no measurable difference to what is waited for", |_| "nothing else that was tried gains anything"),
            months(policy::ONLINE),
            if advice::looked(study) { online_costs(study) } else { batch.clone() }
        ),
        Recommendation::NoDifference if advice::looked(study) => {
            format!(
                "Trimming makes no measurable difference here, neither to what is waited for nor to the drive over months. Leave it as it is. {batch}"
            )
        }
        Recommendation::NoDifference => {
            format!("Online discard makes no measurable difference to what is waited for here: trim with it or in batches; what trimming gains over months was not looked at. {batch}")
        }
        Recommendation::NeverDone => {
            "No policy is recommended: on a drive whose TRIM is as dear as this one's, not even a batched trim is done before the next is due."
                .to_owned()
        }
        Recommendation::NotWorthIt => {
            format!(
                "Do not trim: over months it makes no measurable difference to this drive. {} {}",
                online_costs(study),
                stall_costs(study)
            )
        }
        Recommendation::Adaptive => format!(
            "Trim when three quarters of the free space have been written, not as files go and not by the calendar. {} {} {batch}",
            months(policy::ADAPTIVE),
            online_costs(study)
        ),
        Recommendation::Batched if too_few_repeats(study) && cells.tested(policy::ONLINE) => {
            let seen = costs::online_cost(study).map_or_else(String::new, |worst| {
                let (online, none) = (quantity(worst.online, Unit::Seconds), quantity(worst.none, Unit::Seconds));
                format!(" ({}'s {} took {online} instead of {none} there)", worst.job, worst.phase)
            });
            format!(
                "Trim in batches: that is safe whatever a TRIM costs here. With {} nobody can tell whether online discard costs something{seen}; {REPEATS_MIN} can (--repeats {REPEATS_MIN}). {batch}",
                repeats_in_words(study)
            )
        }
        Recommendation::Batched => match costs::online_cost(study) {
            Some(_) => format!("Trim in batches, not as files go. {} {} {batch}", online_costs(study), months(policy::BATCHED)),
            None => {
                format!("Trim in batches: deleting costs nothing more then. {batch} Whether online discard would do, could not be tried.")
            }
        },
        Recommendation::NotTested => not_tested(cells, &batch),
        Recommendation::Unknown if cells.has(policy::BATCHED) => {
            format!("The filesystem was mounted with online discard, and what that costs could not be compared with none. {batch}")
        }
        Recommendation::Unknown if study.runs.is_empty() => {
            "What the policies cost while files are deleted was not asked, so none is recommended.".to_owned()
        }
        Recommendation::Unknown => {
            format!("Only '{}' could be tried here, so there is nothing to compare it with.", super::table::policy_title(first))
        }
    };
    let price = price(study, recommendation.policy());
    let about = Some(recommendation).filter(|recommendation| recommendation.is_one());
    let robust = about.and_then(|about| Some(study.sensitivity()?.sentence(sensitivity::name(about)))).unwrap_or_default();
    format!("{text} {price} {robust}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What could not be judged, and why.
fn not_tested(cells: &Cells<'_>, batch: &str) -> String {
    let (_, what, why) = untested_of(cells);
    format!("{what} was not tested here: {why}. {}", if cells.tested(policy::BATCHED) { batch } else { "" })
}

/// The same in a clause: "online discard was not tested here: not one discard was counted".
pub(super) fn untested(study: &Study) -> String {
    let (what, _, why) = untested_of(&Cells(&study.runs));
    format!("{what} was not tested here: {why}")
}

/// What could not be judged, within a sentence and at its beginning; and why.
fn untested_of(cells: &Cells<'_>) -> (&'static str, &'static str, &'static str) {
    let online = cells.has(policy::ONLINE) && !cells.tested(policy::ONLINE);
    let (policy, what, first) = match online {
        true => (policy::ONLINE, "online discard", "Online discard"),
        false => (policy::BATCHED, "batched trimming", "Batched trimming"),
    };
    let why = match cells.of(policy).next() {
        Some(run) if queues(run) => "the filesystem sends its discards minutes later, and none was counted until then",
        Some(run) if sent_nothing(run) => "not one discard was counted",
        _ => "nothing here counts discards",
    };
    (what, first, why)
}

/// A sentence on the phase that online discard slows down most.
fn online_costs(study: &Study) -> String {
    costs::online_cost(study).map_or_else(String::new, |worst| {
        format!(
            "With online discard {}'s {} takes {} instead of {} ({}×{}).",
            worst.job,
            worst.phase,
            quantity(worst.online, Unit::Seconds),
            quantity(worst.none, Unit::Seconds),
            three_digits(worst.online / worst.none),
            kernels::other(study, worst.job, &worst.metric).map_or_else(String::new, |other| {
                let here = study.runs.first().map_or("?", kernels::generation);
                format!(" with {here}; {other}")
            })
        )
    })
}

/// What others were measured to wait beside a batched trim, if that is longer than without.
fn beside_it(study: &Study) -> String {
    let longer = waits::beside(study, policy::BATCHED).filter(|waits| waits.finding == Finding::Longer);
    longer.map_or_else(String::new, |waits| {
        let (with, without) = (quantity(waits.longest.0, Unit::Seconds), quantity(waits.longest.1, Unit::Seconds));
        format!(", and beside it one append of others takes up to {with} instead of {without}")
    })
}

/// What others wait beside the trims of the policy that is recommended; empty if that is a blink, or said already.
fn price(study: &Study, policy: Option<&str>) -> String {
    let Some(policy) = policy.filter(|policy| ![policy::NONE, policy::IDLE].contains(policy)) else { return String::new() };
    let sparse = |longest: &waits::Longest<'_>| longest.every == SPARSE.interval && longest.seconds > BLINK_SECONDS;
    waits::longest(study, policy).filter(sparse).map_or_else(String::new, |longest| {
        format!("Beside it one append, made durable every 5 s, takes up to {}.", quantity(longest.seconds, Unit::Seconds))
    })
}

fn stall_costs(study: &Study) -> String {
    costs::stalls(study).map_or_else(String::new, |(batched, _)| {
        format!("Beside a batched trim one append, made durable, takes up to {}.", quantity(batched, Unit::Seconds))
    })
}

/// A sentence on how far operations that come at a rate of their own fall behind; empty if they keep up everywhere.
fn backlogs(cells: &Cells<'_>) -> String {
    let most = |policy: &str| cells.of(policy).filter_map(|run| mean(run, BUSY_BACKLOG)).reduce(f64::max);
    let (batched, idle) = (most(policy::BATCHED), most(policy::IDLE));
    batched.zip(idle).filter(|(batched, _)| *batched > BLINK_SECONDS).map_or_else(String::new, |(batched, idle)| {
        format!(
            " Where 50 a second come whether the ones before are done or not, they fall behind by {} beside the batched trim, by {} beside the idle one.",
            quantity(batched, Unit::Seconds),
            quantity(idle, Unit::Seconds)
        )
    })
}

/// How long batched trims took, each time of every workload: "at most 0.2 s", or "0.2 s to 1.3 s".
fn trim_cost(cells: &Cells<'_>) -> String {
    let times: Vec<f64> = cells.of(policy::BATCHED).filter_map(|run| samples(run, metrics::TRIM_SECONDS)).flatten().copied().collect();
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    let show = |x| quantity(x, Unit::Seconds);
    match times.len() {
        0 => "an unknown time".to_owned(),
        1 => show(most),
        _ if most < least * 1.5 => format!("at most {}", show(most)),
        _ => format!("{} to {}", show(least), show(most)),
    }
}

/// Counters exist and did not move.
fn sent_nothing(run: &Run) -> bool {
    samples(run, metrics::DISCARD_COMMANDS).is_some_and(|counts| counts.iter().all(|count| *count == 0.0))
}

fn evidence(run: &Run) -> Option<String> {
    let foreground = samples(run, FOREGROUND)?;
    let each: Vec<String> = foreground.iter().map(|s| quantity(*s, Unit::Seconds)).collect();
    let mut text = format!("{} under '{}': {} waited for", run.workload, super::table::policy_title(run), each.join(", "));
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

fn caveats(study: &Study, cells: &Cells<'_>, caveats: &mut Vec<String>) {
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
                "{job} did the same work under 'batched' and without trimming, and yet the times differ by {percent:.0} %: so much is noise or order here"
            ));
        }
    }
    if study.runs.iter().any(|run| run.provenance == Provenance::Modelled) {
        caveats.push("modelled: whether a figure of the drive is published, fitted or assumed is said by 'trimtab drive show'".to_owned());
        caveats.push("adaptive and idle trims were made to begin with the light work, as batched ones; by themselves they come less often; the idle policy knew from an earlier trim how dear TRIMs are here".to_owned());
    }
    if let Some(warning) = study.all().flat_map(|run| &run.warnings).find(|warning| warning.code == super::modelled::BUDGET_MISSED) {
        caveats.push(warning.text.clone());
    }
    if !study.runs.is_empty() && !advice::looked(study) {
        caveats.push("this shows what trimming costs, not what a drive gains by it over months of use".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Field, Metric, TargetKind};
    use crate::study::Untried;
    use crate::study::light_work::SPARSE_WAIT;
    use alloc::vec;

    fn run(job: &str, policy: &str, discard: &str, metrics: &[(&str, Unit, &[f64])]) -> Run {
        let header = crate::runner::header::Header::new(job, Vec::new(), TargetKind::Directory, "/mnt", policy, 1);
        let mut run = header.into_run(crate::runner::recorder::Recorded::default(), true);
        run.policy_settings.push(Field::new(policy::DISCARD, discard));
        run.metrics = metrics
            .iter()
            .map(|(name, unit, samples)| Metric { name: (*name).into(), unit: *unit, better: Better::Lower, samples: samples.to_vec() })
            .collect();
        run
    }

    /// The published rows of the tree workload: 0.17 s against 40.41 s for the sync after deleting.
    fn tree(policy: &str, discard: &str, sync: &[f64], commands: f64, trim: Option<f64>) -> Run {
        let foreground: Vec<f64> = sync.iter().map(|s| s + 3.0).collect();
        let commands = [commands];
        let trim = trim.map(|t| [t]);
        let mut metrics: Vec<(&str, Unit, &[f64])> = vec![
            ("delete.seconds", Unit::Seconds, &[0.47, 0.48, 0.47]),
            ("delete-sync.seconds", Unit::Seconds, sync),
            ("foreground.seconds", Unit::Seconds, &foreground),
            ("discard.commands", Unit::Count, &commands),
            ("discard.bytes", Unit::Bytes, &[493e6]),
        ];
        if let Some(trim) = &trim {
            metrics.push(("trim.seconds", Unit::Seconds, trim));
        }
        run("tree", policy, discard, &metrics)
    }

    fn of(study: &Study) -> Verdict {
        super::of(study, recommendation(study))
    }

    fn recommended(study: &Study) -> Option<&'static str> {
        recommendation(study).policy()
    }

    fn study(runs: Vec<Run>) -> Study {
        Study { target: "/mnt".into(), runs, complete: true, ..Study::default() }
    }

    /// Seen: a range of means of 10 and 12 ms beside "trim at most 16 ms".
    #[test]
    fn how_long_trims_take_is_said_of_all_repeats_and_a_mean_is_called_one() {
        let mut batched = tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8));
        let trims = batched.metrics.iter_mut().find(|metric| metric.name == metrics::TRIM_SECONDS).unwrap();
        trims.samples = vec![0.4, 0.8, 1.2];
        let runs = vec![
            tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
            batched,
            tree("online", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
        ];
        let verdict = of(&study(runs));
        assert!(verdict.headline.contains("A batched trim takes 400 ms to 1.20 s"), "{}", verdict.headline);
        assert!(verdict.evidence.iter().any(|line| line.contains("then 800 ms of trimming, on average")), "{:?}", verdict.evidence);
    }

    #[test]
    fn the_published_slowdown_leads_to_batches() {
        let verdict = of(&study(vec![
            tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
            tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
            tree("online", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
        ]));
        assert!(verdict.headline.starts_with("Trim in batches"), "{}", verdict.headline);
        for part in ["delete-sync", "40.4 s", "170 ms", "238×", "800 ms"] {
            assert!(verdict.headline.contains(part), "{part}: {}", verdict.headline);
        }
    }

    #[test]
    fn the_same_holds_if_the_filesystem_was_mounted_with_discard() {
        let verdict = of(&study(vec![
            tree("as-mounted", "discard", &[40.4, 40.1, 40.8], 36_000.0, None),
            tree("none", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None),
        ]));
        assert!(verdict.headline.contains("not as files go"), "{}", verdict.headline);
    }

    #[test]
    fn what_scatters_as_much_as_it_differs_is_no_difference() {
        let verdict = of(&study(vec![
            tree("as-mounted", "nodiscard", &[1.0, 2.0, 3.0], 0.0, None),
            tree("online", "discard", &[2.0, 3.0, 3.5], 36.0, None),
        ]));
        assert!(verdict.headline.contains("no measurable difference"), "{}", verdict.headline);
    }

    #[test]
    fn batched_runs_are_repeats_of_the_same_work_until_their_trim() {
        // One quick repeat each: online looks twice as slow as none, but so does batched, which did the same as none.
        let mut batched = tree("batched", "nodiscard", &[0.70], 120.0, Some(0.1));
        batched.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
        let study =
            study(vec![tree("as-mounted", "nodiscard", &[0.36], 0.0, None), batched, tree("online", "discard", &[0.74], 40.0, None)]);
        let headline = of(&study).headline;
        assert!(!headline.contains("instead of"), "noise is no cost: {headline}");
    }

    /// Seen: of five quick studies one came to another policy than the others.
    #[test]
    fn with_one_repeat_the_verdict_hangs_on_no_noise() {
        for online in [0.1, 0.17, 0.3, 0.9, 40.0] {
            let once = |mut run: Run| {
                run.metrics.iter_mut().for_each(|m| m.samples.truncate(1));
                run
            };
            let study = study(vec![
                once(tree("as-mounted", "nodiscard", &[0.17], 0.0, None)),
                once(tree("batched", "nodiscard", &[0.17], 120.0, Some(0.1))),
                once(tree("online", "discard", &[online], 40.0, None)),
            ]);
            assert_eq!(recommendation(&study), Recommendation::Batched, "{online}");
            let headline = of(&study).headline;
            assert!(headline.contains("With one repeat nobody can tell whether online discard costs something"), "{headline}");
            assert_eq!(headline.contains("took 40.0 s instead of 170 ms"), online > 30.0, "{headline}");
        }
    }

    #[test]
    fn discards_that_never_arrive_come_first() {
        let verdict =
            of(&study(vec![tree("as-mounted", "nodiscard", &[0.17], 0.0, None), tree("batched", "nodiscard", &[0.17], 0.0, Some(0.1))]));
        assert!(verdict.headline.starts_with("TRIM does not reach the device"), "{}", verdict.headline);
    }

    #[test]
    fn queued_discards_that_have_not_arrived_yet_prove_nothing() {
        let study = study(vec![
            tree("as-mounted", "discard=async", &[0.17], 0.0, None),
            tree("none", "nodiscard", &[0.17], 0.0, None),
            tree("batched", "nodiscard", &[0.17], 16.0, Some(0.1)),
        ]);
        assert_eq!((recommendation(&study), recommended(&study)), (Recommendation::NotTested, None));
        let headline = of(&study).headline;
        assert!(headline.starts_with("Online discard was not tested here: the filesystem sends its discards minutes later"), "{headline}");
        assert!(headline.ends_with("A batched trim takes 100 ms."), "{headline}");
        // The first screen blames nothing that was counted in the table below it.
        let meaning = super::super::answer::of(&super::super::judged::Judged::of(&study), &super::super::answer::Around::default()).uses[0]
            .meaning
            .clone();
        assert_eq!(
            meaning,
            "online discard was not tested here: the filesystem sends its discards minutes later, and none was counted until then"
        );
        assert!(of(&study).caveats.iter().any(|c| c.contains("minutes later")));
    }

    #[test]
    fn without_the_counters_that_carry_it_there_is_no_verdict() {
        let uncounted = |mut run: Run| {
            run.metrics.retain(|metric| !metric.name.starts_with("discard."));
            run
        };
        let none = || tree("none", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None);
        let batched = || tree("batched", "nodiscard", &[0.17; 3], 120.0, Some(0.8));
        // As slow as it is: nobody knows whether by discards.
        for sync in [0.17, 40.0] {
            for online in [tree("online", "discard", &[sync; 3], 0.0, None), uncounted(tree("online", "discard", &[sync; 3], 9.0, None))] {
                let with = study(vec![none(), batched(), online]);
                assert_eq!(recommendation(&with), Recommendation::NotTested, "{}", of(&with).headline);
                assert!(of(&with).headline.starts_with("Online discard was not tested here"), "{}", of(&with).headline);
            }
        }
        let alone = study(vec![uncounted(none()), uncounted(batched())]);
        assert_eq!(recommendation(&alone), Recommendation::NotTested);
        assert_eq!(of(&alone).headline, "Batched trimming was not tested here: nothing here counts discards.");
        // What could not be tried is another matter.
        assert_eq!(recommendation(&study(vec![none(), batched()])), Recommendation::Batched);
    }

    /// No trimming, batched and online of the same speed, beside which appends of others took so many milliseconds so many times.
    fn waited(none: &[(u64, u64)], batched: &[(u64, u64)], online: &[(u64, u64)]) -> Study {
        use crate::study::fixtures::met;
        study(vec![
            met(tree("as-mounted", "nodiscard", &[0.17; 3], 0.0, None), none),
            met(tree("batched", "nodiscard", &[0.17; 3], 120.0, Some(0.8)), batched),
            met(tree("online", "discard", &[0.17; 3], 500.0, None), online),
        ])
    }

    #[test]
    fn what_others_were_measured_to_wait_counts_where_it_is_more_than_chance() {
        let quick = [(50, 1), (2, 8)];
        // Nobody waits longer than 8 ms.
        let none = waited(&quick, &quick, &quick);
        assert_eq!((recommendation(&none), of(&none).caveats.iter().any(|c| c.contains("too few"))), (Recommendation::NoDifference, false));
        assert!(of(&none).evidence.iter().any(|e| e.contains("beside 'online' 0 of 52 appends of others took longer than 50.0 ms")));
        // A third of 60 take 900 ms beside online discard, none of 52 without: 20 of 20 by chance in C(60, 20) / C(112, 20), less than 0.01 %.
        let online = waited(&quick, &quick, &[(40, 1), (20, 900)]);
        assert_eq!((recommendation(&online), recommended(&online)), (Recommendation::Batched, Some(policy::BATCHED)));
        let verdict = of(&online);
        assert!(
            verdict.headline.contains("With online discard tree's longest append beside it, 50 a second, takes 900 ms instead of 8.0"),
            "{}",
            verdict.headline
        );
        assert!(verdict.evidence.iter().any(|e| e.contains("beside 'online' 20 of 60 appends of others took longer than 50.0 ms, without trimming 0 of 52: more than chance explains (it happens in less than 0.01 % of cases)")), "{:?}", verdict.evidence);
        // One of 60: it would come in 60 of 112 cases by chance, 53.6 %, however long it is.
        let one = waited(&quick, &quick, &[(59, 1), (1, 9_000)]);
        assert_eq!(recommendation(&one), Recommendation::NoDifference);
        assert!(
            of(&one).caveats.iter().any(|c| c.contains("1 of 60") && c.contains("too few to say (it happens in 53.6 % of cases)")),
            "{:?}",
            of(&one).caveats
        );
        // Without discards they wait as long.
        let slow = [(40, 1), (20, 900)];
        assert_eq!(recommendation(&waited(&slow, &slow, &slow)), Recommendation::NoDifference);
        // A batched trim that others wait for is told, whatever is recommended.
        let batched = waited(&quick, &[(40, 1), (20, 900)], &quick);
        assert_eq!(recommendation(&batched), Recommendation::Online, "nobody waits for that");
        assert!(
            of(&batched).headline.contains("beside it one append of others takes up to 900 ms instead of 8.0"),
            "{}",
            of(&batched).headline
        );
        // No discard was counted, so nobody waited for one.
        let mut uncounted = online;
        uncounted.runs[2].metrics.iter_mut().find(|m| m.name == "discard.commands").unwrap().samples = vec![0.0];
        assert_eq!(recommendation(&uncounted), Recommendation::NotTested);
        assert!(!of(&uncounted).headline.contains("900 ms"), "{}", of(&uncounted).headline);
    }

    #[test]
    fn what_remains_and_was_not_tried_is_known_as_such() {
        let mut study = study(vec![
            tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None),
            tree("online", "discard", &[11.0, 11.0, 11.0], 500.0, None),
        ]);
        let chosen = recommended(&study).unwrap();
        assert_eq!((chosen, was_tried(&study, chosen)), (policy::BATCHED, false));
        study.runs.push(tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)));
        assert!(was_tried(&study, recommended(&study).unwrap()));
    }

    #[test]
    fn one_policy_alone_is_said_to_be_alone_with_the_reasons() {
        let mut study = study(vec![tree("as-mounted", "nodiscard", &[0.17], 0.0, None)]);
        study.untried.push(Untried { policy: "batched".into(), reason: "trimming (FITRIM) needs root".into() });
        let verdict = of(&study);
        assert!(verdict.headline.contains("Only 'as-mounted (nodiscard)'"), "{}", verdict.headline);
        assert!(verdict.caveats.iter().any(|c| c.contains("FITRIM") && c.contains("batched")));
    }

    #[test]
    fn noise_between_equal_work_is_said() {
        let mut batched = tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8));
        batched.metrics.iter_mut().find(|m| m.name == FOREGROUND).unwrap().samples = vec![9.0, 9.0, 9.0];
        let verdict = of(&study(vec![tree("as-mounted", "nodiscard", &[0.17, 0.16, 0.18], 0.0, None), batched]));
        assert!(verdict.caveats.iter().any(|c| c.contains("noise")), "{:?}", verdict.caveats);
    }

    /// A run of months of churn with this rate and this wear.
    fn aged(policy: &str, rate: f64, cycles: f64) -> Run {
        use crate::study::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
        let metrics: [(&str, Unit, &[f64]); 3] = [
            (RATE_STEADY, Unit::OpsPerSecond, &[rate]),
            (CYCLES_PER_TB, Unit::Count, &[cycles]),
            (WAF_STEADY, Unit::Ratio, &[cycles / 7.0]),
        ];
        let mut aged = run("churn", policy, "nodiscard", &metrics);
        aged.settings.push(Field::new("fill", "60%"));
        aged
    }

    #[test]
    fn what_months_of_churn_show_decides() {
        let deleting = |online: f64| {
            vec![
                tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None),
                tree("online", "discard", &[online, online, online], 500.0, None),
                tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
            ]
        };
        let with = |online: f64, ageing: Vec<Run>| Study { ageing, ..study(deleting(online)) };
        // Neither costs nor gains anything.
        let none = with(0.17, vec![aged("none", 30e3, 7.0), aged("online", 30e3, 7.0), aged("batched", 30.1e3, 7.0)]);
        assert_eq!(recommendation(&none), Recommendation::NoDifference);
        assert!(of(&none).headline.contains("makes no measurable difference"), "{}", of(&none).headline);
        // Costs, and gains nothing.
        let idle_drive = with(11.0, none.ageing.clone());
        assert_eq!(recommendation(&idle_drive), Recommendation::NotWorthIt);
        // Gains, and costs nothing; or costs.
        let gains = vec![aged("none", 28e3, 11.0), aged("online", 36e3, 7.0), aged("batched", 35e3, 7.8), aged("adaptive", 35e3, 7.7)];
        let online = with(0.17, gains.clone());
        assert_eq!((recommendation(&online), recommended(&online)), (Recommendation::Online, Some(policy::ONLINE)));
        assert!(
            of(&online)
                .headline
                .contains("36,000 4 KiB random writes a second under load instead of 28,000 and 1.57× the drive's life at 60 % full"),
            "{}",
            of(&online).headline
        );
        assert_eq!(recommendation(&with(11.0, gains.clone())), Recommendation::Batched);
        let mut adaptive = gains;
        adaptive[2] = aged("batched", 30e3, 10.0);
        assert_eq!(recommendation(&with(11.0, adaptive)), Recommendation::Adaptive);
    }

    #[test]
    fn no_gain_is_stated_that_is_none() {
        // Seen: "555417 4 KiB random writes a second instead of 555417".
        let runs = vec![
            tree("none", "nodiscard", &[0.17, 0.17, 0.17], 0.0, None),
            tree("online", "discard", &[11.0, 11.0, 11.0], 500.0, None),
            tree("batched", "nodiscard", &[0.17, 0.17, 0.17], 120.0, Some(0.8)),
        ];
        let study = |rates: [f64; 2], cycles: [f64; 2]| {
            let ageing = vec![aged("none", rates[0], cycles[0]), aged("online", rates[1], cycles[1]), aged("batched", rates[1], cycles[1])];
            of(&Study { ageing, ..study(runs.clone()) }).headline
        };
        let life_only = study([555_417.0, 555_417.0], [11.0, 7.0]);
        assert!(life_only.contains("1.57× the drive's life") && !life_only.contains("random writes"), "{life_only}");
        let rate_only = study([28_000.0, 36_000.0], [7.0, 7.0]);
        assert!(rate_only.contains("instead of 28,000") && !rate_only.contains("life"), "{rate_only}");
        let neither = study([28_000.0, 28_100.0], [7.0, 7.0]);
        assert!(!neither.contains("instead of 28,000") && !neither.contains('×') || neither.contains("Do not trim"), "{neither}");
    }

    #[test]
    fn what_never_gets_done_is_not_recommended_and_the_reader_is_told_why() {
        use crate::study::ageing::BEHIND;
        let with_wait = |mut run: Run, wait: f64| {
            run.metrics.push(Metric { name: SPARSE_WAIT.into(), unit: Unit::Seconds, better: Better::Lower, samples: vec![wait] });
            run
        };
        let runs = vec![
            with_wait(tree("none", "nodiscard", &[0.17], 0.0, None), 0.003),
            with_wait(tree("online", "discard", &[11.0], 500.0, None), 3.0),
            with_wait(tree("batched", "nodiscard", &[0.17], 120.0, Some(0.8)), 0.7),
            with_wait(tree("idle", "nodiscard", &[0.17], 120.0, Some(0.8)), 0.15),
        ];
        let late = |mut run: Run, percent: f64| {
            run.metrics.push(Metric { name: BEHIND.into(), unit: Unit::Percent, better: Better::Lower, samples: vec![percent] });
            run
        };
        let study = |idle: f64, batched: f64| {
            let ageing = vec![aged("none", 28e3, 11.0), late(aged("batched", 35e3, 7.8), batched), late(aged("idle", 36e3, 7.3), idle)];
            Study { ageing, ..study(runs.clone()) }
        };
        assert_eq!(recommendation(&study(60.0, 2.0)), Recommendation::Idle);
        let instead = study(100.0, 2.0);
        assert_eq!(recommendation(&instead), Recommendation::Batched);
        assert!(of(&instead).caveats.iter().any(|line| line.contains("'idle' never gets done at 60 % full")), "{:?}", of(&instead).caveats);
        let none = study(100.0, 100.0);
        assert_eq!((recommendation(&none), recommended(&none)), (Recommendation::NeverDone, None));
        assert!(of(&none).headline.starts_with("No policy is recommended"), "{}", of(&none).headline);
    }

    #[test]
    fn an_empty_study_has_nothing_to_say() {
        assert!(of(&study(Vec::new())).headline.contains("nothing to say"));
    }

    #[test]
    fn few_repeats_need_a_large_ratio() {
        assert!(!compare(&[1.4], &[1.0]).unwrap().measurable);
        assert!(compare(&[1.6], &[1.0]).unwrap().measurable);
        assert!(!compare(&[1.6], &[1.0, 1.7]).unwrap().measurable, "within the range of the others");
        assert!(compare(&[1.0, 1.01, 0.99], &[0.9, 0.91, 0.89]).unwrap().measurable);
        assert!(!compare(&[1.0, 1.3, 0.7], &[0.9, 0.91, 0.89]).unwrap().measurable);
        assert_eq!(compare(&[], &[1.0]), None);
    }
}
