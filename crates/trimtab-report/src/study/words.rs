//! All sentences about the findings of a study. A new policy needs a row in [`POLICIES`]
//! only.

use crate::layout::NOT_STEADY;
use trimtab_drive::units::{grouped, three_digits};
use trimtab_sim::run::Unit;
use trimtab_sim::run::shown::quantity;
use trimtab_study::study::comparison::PolicyLatency;
use trimtab_study::study::comparison::costs::{
    AffectedWork, DeletingDoubt, OnlineCost, STALL_SECONDS,
};
use trimtab_study::study::comparison::gains::Gain;
use trimtab_study::study::comparison::latency::{LatencyDoubt, TestResult};
use trimtab_study::study::metrics::{AppendLoad, DiscardCount, REPEATS_MIN, drive_name};
use trimtab_study::study::policy;
use trimtab_study::study::recommendation::Recommendation;
use trimtab_study::study::untried::{self, OmittedPart};
use trimtab_study::study::verdict::finding::{
    DeletingReason, Finding, LatencyCaveat, LatencyReason, RecommendationReason, UntestedPolicy,
};
use trimtab_study::study::verdict::{Confidence, Rule, Verdict};

/// The texts for a policy.
struct PolicyWords {
    name: &'static str,
    /// What trims the drive, for a table.
    means: &'static str,
    /// What trims the drive and when, for a line of the first screen.
    meaning: &'static str,
    /// The action, as a sentence.
    advice: &'static str,
}

const POLICIES: [PolicyWords; 5] = [
    PolicyWords {
        name: policy::NONE,
        means: "nothing",
        meaning: "nothing trims the drive",
        advice: "Do not trim: over months it makes no measurable difference to this drive.",
    },
    PolicyWords {
        name: policy::ONLINE,
        means: "mount option discard",
        meaning: "the filesystem tells the drive at every delete (mount option discard)",
        advice: "Let the filesystem discard as it frees (mount option discard).",
    },
    PolicyWords {
        name: policy::BATCHED,
        means: "weekly fstrim.timer",
        meaning: "fstrim.timer or the daemon trims all free space on a schedule",
        advice: "Trim in batches, not on every delete.",
    },
    PolicyWords {
        name: policy::ADAPTIVE,
        means: "trimtab daemon, after writes",
        meaning: "the trimtab daemon trims when writes reach 3/4 of the free space",
        advice: "Trim after writing three quarters of the free space, not on every delete \
            and not on a schedule.",
    },
    PolicyWords {
        name: policy::IDLE,
        means: "trimtab daemon, when idle",
        meaning: "the trimtab daemon trims small pieces while the drive is idle",
        advice: "Trim in idle time, paced.",
    },
];

fn words(policy: &str) -> Option<&'static PolicyWords> {
    POLICIES.iter().find(|words| words.name == policy)
}

/// Verdicts with the short names of their drives; one drive needs no name.
pub(super) type Named<'a> = Vec<(String, &'a Verdict<'a>)>;

/// The drive without its filesystem.
pub(super) fn drive<'a>(verdict: &Verdict<'a>) -> &'a str {
    let study = verdict.study();
    study.all().next().and_then(drive_name).unwrap_or(&study.target)
}

/// The first word of the drive's name.
pub(super) fn short_name(verdict: &Verdict<'_>) -> String {
    drive(verdict).split(' ').next().unwrap_or_default().to_owned()
}

/// What trims the drive under a policy, in a few words.
pub(super) fn means(policy: &str) -> &'static str {
    words(policy).map_or("", |words| words.means)
}

/// What trims the drive under a policy, and when.
pub(super) fn meaning(policy: &str) -> Option<&'static str> {
    words(policy).map(|words| words.meaning)
}

/// A ratio: `1.67×`.
pub(super) fn times(ratio: f64) -> String {
    format!("{}×", three_digits(ratio))
}

/// `Three`.
pub(super) fn count(number: usize) -> String {
    match number {
        2 => "Two".to_owned(),
        3 => "Three".to_owned(),
        more => more.to_string(),
    }
}

/// `40.4 s`.
pub(super) fn seconds(value: f64) -> String {
    quantity(value, Unit::Seconds)
}

/// A gain in per cent: `+30 %`.
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// `60%` and `61.3 %` with a space before the sign.
pub(super) fn spaced(fill: &str) -> String {
    fill.strip_suffix('%')
        .map_or_else(|| fill.to_owned(), |number| format!("{} %", number.trim_end()))
}

/// `a, b and c`.
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Shown if no assumption was varied.
const NOT_TESTED: &str = "other assumptions were not tested";
/// Legend for [`NOT_STEADY`].
pub(super) const NOT_STEADY_LEGEND: &str = "~ not steady";

/// [`NOT_STEADY`] after an unsteady rate.
pub(super) const fn mark(steady: bool) -> &'static str {
    if steady { "" } else { NOT_STEADY }
}

/// Duration of use: `50 days`; `months` if unknown.
pub(super) fn time_of_use(days: Option<f64>) -> String {
    match days {
        Some(days) if days >= 90.0 => format!("{:.0} months", days / 30.4),
        Some(days) if days >= 0.5 => format!("{days:.0} day{}", if days < 1.5 { "" } else { "s" }),
        Some(days) => format!("{:.0} hours", days * 24.0),
        None => "months".to_owned(),
    }
}

/// Erase cycles per TB; zero so far is not a sign of no wear.
pub(super) fn erase_cycles(per_tb: f64) -> String {
    if per_tb == 0.0 { "none erased yet".to_owned() } else { three_digits(per_tb) }
}

/// `one repeat`.
fn repeats(count: usize) -> String {
    if count == 1 { "one repeat".to_owned() } else { format!("{count} repeats") }
}

/// A recommendation in a few words.
pub(super) fn name(recommendation: Recommendation) -> &'static str {
    match recommendation {
        Recommendation::Use(policy::NONE) => "no trimming",
        Recommendation::Use(policy) => policy,
        Recommendation::NoDifference => "no difference",
        Recommendation::NeverDone => "none finishes",
        Recommendation::Blocked
        | Recommendation::NotTested
        | Recommendation::Undecided
        | Recommendation::TooFewRepeats
        | Recommendation::Unknown => "no answer",
    }
}

/// The recommended policy and its meaning.
pub(super) fn choice(verdict: &Verdict<'_>) -> (&'static str, String) {
    let (choice, meaning) = match verdict.recommendation {
        Recommendation::Use(policy::NONE) => {
            (policy::NONE, "do not trim: it costs something here and gains nothing")
        }
        Recommendation::Use(policy) => (policy, meaning(policy).unwrap_or_default()),
        Recommendation::NoDifference if verdict.comparison.metrics.ageing.is_empty() => {
            alike(verdict)
        }
        Recommendation::NoDifference => {
            ("keep", "your setting; no policy gains 5 % in writes or wear")
        }
        Recommendation::NeverDone => (
            "no policy",
            "TRIM is so expensive here that not even a batched trim finishes before \
                the next is due",
        ),
        Recommendation::Blocked => {
            ("no policy yet", "TRIM does not reach the drive; repair that first")
        }
        Recommendation::NotTested => return ("no policy yet", untested(verdict.untested())),
        Recommendation::Undecided => {
            ("no policy yet", "the measurements behind the twin do not decide; see How sure")
        }
        Recommendation::TooFewRepeats => {
            let count = verdict.comparison.metrics.too_few_repeats().unwrap_or_default();
            return (
                "no answer",
                format!("{} cannot show a difference; keep what you have", repeats(count)),
            );
        }
        Recommendation::Unknown if verdict.is_without_trim() => {
            ("no policy", "the drive has no TRIM, so there is nothing to choose")
        }
        Recommendation::Unknown
            if verdict.rule == Rule::NothingDeleted
                && !verdict.comparison.metrics.ageing.is_empty() =>
        {
            ("no policy yet", "the cost of trimming was not studied (--questions deleting)")
        }
        Recommendation::Unknown if verdict.rule == Rule::Interrupted => {
            ("no answer", "the study was interrupted; --resume continues it")
        }
        Recommendation::Unknown if verdict.rule == Rule::NothingErased => (
            "no answer",
            "the drive erased no block yet, so trimming could change nothing; study more days",
        ),
        Recommendation::Unknown => {
            let only =
                verdict.findings.iter().find(|one| matches!(one, Finding::OnlyPolicy { .. }));
            let why =
                only.map_or_else(|| "too few policies were tried to compare".into(), sentence);
            return ("no answer", why);
        }
    };
    (choice, meaning.to_owned())
}

/// A recommendation of no policy in the table of several drives.
pub(super) const fn in_table(recommendation: Recommendation) -> &'static str {
    if matches!(recommendation, Recommendation::NoDifference) { "keep" } else { "-" }
}

/// The policies that take no measurably longer, of those that were tried.
fn alike(verdict: &Verdict<'_>) -> (&'static str, &'static str) {
    let tried = |policy| verdict.comparison.metrics.has(policy);
    match (tried(policy::ONLINE), tried(policy::BATCHED)) {
        (true, true) => (
            "online or batched",
            "no difference was measured between them (batched: weekly fstrim.timer)",
        ),
        (true, false) => (policy::ONLINE, "it takes no measurable time; 'batched' was not tried"),
        (false, true) => (policy::BATCHED, "it takes no measurable time; 'online' was not tried"),
        (false, false) => ("keep", "your setting; no tried policy takes measurable time"),
    }
}

/// The confidence in words.
pub(super) fn confidence(confidence: &Confidence) -> String {
    match confidence {
        Confidence::None => String::new(),
        Confidence::NotTried { policy } => format!("{policy} was not tried"),
        Confidence::Repeats { repeats: count, enough: false } => {
            format!("{}: no confidence", repeats(*count))
        }
        Confidence::Repeats { repeats: count, .. } => {
            format!(
                "{} of each run; untried policies or months of use could change the answer",
                repeats(*count)
            )
        }
        Confidence::NotVaried => NOT_TESTED.to_owned(),
        Confidence::Assumptions { .. } => String::new(),
    }
}

/// The recommendation with its figures, in sentences.
pub(super) fn headline(verdict: &Verdict<'_>) -> String {
    let study = verdict.study();
    if study.is_empty() {
        return "No run finished, so there is no result.".to_owned();
    }
    let advice = match (verdict.recommendation, verdict.rule) {
        (Recommendation::TooFewRepeats, _) => "No policy is recommended; keep what you have.",
        (Recommendation::Use(policy), _) => words(policy).map_or("", |words| words.advice),
        (Recommendation::Blocked, _) => "TRIM does not reach the device.",
        (Recommendation::NoDifference, Rule::GainsNothing) => {
            "Trimming makes no measurable difference here, neither to foreground \
                latency nor to the drive over months. Leave it as it is."
        }
        (Recommendation::NoDifference, _) => {
            "Online discard makes no measurable difference to foreground latency \
                here: trim with it or in batches. Gains over months were not studied."
        }
        (Recommendation::NeverDone, _) => {
            "No policy is recommended: TRIM is so expensive on this drive that not \
                even a batched trim finishes before the next is due."
        }
        (Recommendation::Unknown, Rule::NothingDeleted) => {
            "The cost of trimming was not studied, so no policy is recommended."
        }
        (Recommendation::Unknown, Rule::Interrupted) => {
            "No policy is recommended: the study was interrupted; --resume continues it."
        }
        (Recommendation::Unknown, Rule::NothingErased) => {
            "No policy is recommended: in the time studied the drive erased no block, so trimming \
                could change nothing."
        }
        (Recommendation::Undecided, _) => {
            "No policy is recommended: the measurements behind the twin do not decide."
        }
        (Recommendation::NotTested | Recommendation::Unknown, _) => "",
    };
    let online = match (verdict.recommendation, verdict.comparison.online_cost) {
        (Recommendation::Use(policy::ONLINE), None) => {
            "It makes no measurable difference to foreground latency."
        }
        _ => "",
    };
    let blocked = verdict.comparison.blocked.map(|policy| {
        format!(
            "{} Run 'trimtab doctor' to see where it is blocked.",
            capital(&nothing_arrived(policy))
        )
    });
    let sentences = verdict.findings.iter().map(|finding| capital(&sentence(finding)));
    let all = [advice.to_owned(), online.to_owned()].into_iter().chain(blocked).chain(sentences);
    all.filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Makes a sentence: capital letter and full stop.
fn capital(clause: &str) -> String {
    let mut chars = clause.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let stop = if clause.is_empty() || clause.ends_with('.') { "" } else { "." };
    format!("{first}{}{stop}", chars.as_str())
}

fn nothing_arrived(policy: &str) -> String {
    format!("under '{policy}', files were deleted but no discard was counted")
}

fn untested(UntestedPolicy { policy, discards }: UntestedPolicy) -> String {
    let what = if policy == policy::ONLINE { "online discard" } else { "batched trimming" };
    let why = match discards {
        DiscardCount::Queued => {
            "the filesystem sends its discards minutes later, and none was counted in time"
        }
        DiscardCount::Zero => "no discard was counted",
        DiscardCount::Counted | DiscardCount::Unknown => "nothing here counts discards",
    };
    format!("{what} was not tested here: {why}")
}

/// A finding as a clause.
pub(super) fn sentence(finding: &Finding<'_>) -> String {
    match finding {
        Finding::Months { days, gains, .. } => months(*days, gains),
        Finding::Stall(stall) => format!(
            "p95 latency of one durable append every 5 s: {} during a batched \
                trim, {} during an idle one",
            seconds(stall.batched_seconds),
            seconds(stall.idle_seconds)
        ),
        Finding::OnlineCost(cost) => {
            format!(
                "with online discard {} takes {} ({}×)",
                subject(cost),
                instead(cost),
                three_digits(cost.times())
            )
        }
        Finding::NotCompared { policy } => {
            format!("'{policy}' was not tried, so it is not compared")
        }
        Finding::TrimTime { trims, least_seconds, most_seconds, append_seconds } => {
            trim_time(*trims, *least_seconds, *most_seconds, *append_seconds)
        }
        Finding::TooFewRepeats { repeats: count, needed, seen } => {
            let seen = seen
                .map(|cost| format!(" ({} took {})", subject(&cost), instead(&cost)))
                .unwrap_or_default();
            format!(
                "{} cannot show whether online discard costs anything{seen}: run with \
                --repeats {needed}",
                repeats(*count)
            )
        }
        Finding::Untested(what) => untested(*what),
        Finding::NoBaseline => {
            "the filesystem was mounted with online discard, and no run without it was \
            possible for comparison"
                .to_owned()
        }
        Finding::OnlyPolicy { policy, discard } => {
            let title = title(policy, *discard);
            if [policy::NONE, policy::AS_MOUNTED].contains(policy) {
                format!("only '{title}' was tried, so there is nothing to compare it with")
            } else {
                format!("no other policy that trims was tried, so '{title}' cannot be compared")
            }
        }
        Finding::Latency(latency) => {
            format!(
                "p95 latency of one durable append every 5 s under '{}': {}",
                latency.policy,
                seconds(latency.seconds)
            )
        }
        Finding::LatencyTest { policy, result, limit_seconds, with, without, chance } => {
            let ((long, of), (none_long, none_of)) = (with, without);
            let limit = seconds(*limit_seconds);
            let chance = match chance * 100.0 {
                percent if percent < 0.01 => "chance of that: less than 0.01 %".to_owned(),
                percent => format!("chance of that: {} %", three_digits(percent)),
            };
            let result = match result {
                TestResult::Longer => format!("more than chance explains ({chance})"),
                TestResult::Alike => "no more often".to_owned(),
                TestResult::TooFew if *long == 0 => "too few to say".to_owned(),
                TestResult::TooFew => format!("too few to say ({chance})"),
            };
            format!(
                "under '{policy}', {long} of {of} foreground appends took longer than \
                {limit}; without trimming, {none_long} of {none_of}: {result}"
            )
        }
        Finding::NeverDone(behind) => format!(
            "'{}' never finishes at {} full: in {:.0} of 100 sessions its trim was \
                still running hours later, when the next began, so it is not recommended",
            behind.policy,
            spaced(behind.fill),
            behind.percent
        ),
        Finding::BatchedWouldDo { seconds: worst, limit_seconds, gains_as_much } => format!(
            "'batched' is enough if a p95 append latency of {} during a trim is acceptable \
                (limit here: {}){}; a drive with cheaper or queued TRIM has lower latencies",
            seconds(*worst),
            seconds(*limit_seconds),
            if *gains_as_much { "; over months it gains the same" } else { "" }
        ),
        Finding::GainsNothing(gain) => format!(
            "at {} full, trimming makes no measurable difference to the drive (random writes {}×)",
            spaced(gain.fill),
            three_digits(gain.rate)
        ),
        Finding::Untried(one) => format!("{} {}", untried_part(one), untried_reason(&one.reason)),
        Finding::Interrupted => "the study was interrupted: these are the finished runs".to_owned(),
        Finding::DiscardsQueued { job } => {
            format!(
                "{job}: the filesystem queues its discards and sends them minutes later; \
                they are not in these figures"
            )
        }
        Finding::NothingToDiscard { job } => {
            format!(
                "{job}'s files were deleted before they were written out, so online \
                discard had nothing to discard"
            )
        }
        Finding::Noise { job, percent } => format!(
            "{job} did the same work under 'batched' and without trimming, but the \
                times differ by {percent:.0} %: differences of this size are noise or an \
                effect of the order"
        ),
        Finding::Modelled => "modelled: 'trimtab drive show' marks each figure of the drive as \
                published, fitted or assumed; adaptive and idle trims were forced to \
                coincide with the foreground load, which rarely happens in use"
            .to_owned(),
        Finding::NoMonths => {
            "this shows the cost of trimming, not its gain over months of use".to_owned()
        }
    }
}

/// The time of batched trims, and of a foreground append with and without one.
fn trim_time(
    trims: usize,
    least_seconds: f64,
    most_seconds: f64,
    append_seconds: Option<(f64, f64)>,
) -> String {
    let took = match trims {
        0 => "an unknown time".to_owned(),
        1 => seconds(most_seconds),
        _ if most_seconds < least_seconds * 1.5 => {
            format!("up to {}", seconds(most_seconds))
        }
        _ => format!("{} to {}", seconds(least_seconds), seconds(most_seconds)),
    };
    let append = append_seconds.map(|(with, without)| {
        format!(
            "; the longest foreground append during it takes {} instead of {}",
            seconds(with),
            seconds(without)
        )
    });
    format!("a batched trim takes {took}{}", append.unwrap_or_default())
}

fn months(days: Option<f64>, gains: &[Gain<'_>]) -> String {
    let whole = |rate: f64| three_digits(rate);
    let at = |gain: &Gain<'_>| {
        let faster = gain.is_faster().then(|| {
            format!(
                "{} instead of {} 4 KiB random writes a second under load",
                whole(gain.rates.0),
                whole(gain.rates.1)
            )
        });
        let life =
            gain.longer_life().map(|life| format!("{}× the drive's life", three_digits(life)));
        format!(
            "{} at {} full",
            faster.into_iter().chain(life).collect::<Vec<_>>().join(" and "),
            spaced(gain.fill)
        )
    };
    let time = time_of_use(days);
    match gains {
        [] => format!("over {time} it makes no measurable difference to the drive"),
        gains => format!(
            "after {time} of churn, against no trimming: {}",
            gains.iter().map(at).collect::<Vec<_>>().join("; ")
        ),
    }
}

/// "tree's 'delete-sync'".
fn subject(cost: &OnlineCost<'_>) -> String {
    let part = match cost.part {
        AffectedWork::Phase(phase) => format!("'{phase}'"),
        AffectedWork::WholeWork => "whole work".to_owned(),
        AffectedWork::Deleting => "deleting".to_owned(),
        AffectedWork::Append(AppendLoad::EveryFiveSeconds) => {
            "p95 foreground append, one every 5 s,".to_owned()
        }
        AffectedWork::Append(AppendLoad::FiftyPerSecond) => {
            "longest foreground append, 50 a second,".to_owned()
        }
    };
    format!("{}'s {part}", cost.job)
}

/// "tree's 'delete-sync' takes 40.4 s; none 170 ms".
pub(super) fn slower(cost: &OnlineCost<'_>) -> String {
    format!(
        "{} takes {}; none {}",
        subject(cost),
        seconds(cost.online_seconds),
        seconds(cost.none_seconds)
    )
}

/// "40.4 s instead of 170 ms".
fn instead(cost: &OnlineCost<'_>) -> String {
    format!("{} instead of {}", seconds(cost.online_seconds), seconds(cost.none_seconds))
}

/// A policy as named in tables: with the discard option of a filesystem as mounted.
pub(super) fn title(policy: &str, discard: Option<&str>) -> String {
    discard.map_or_else(|| policy.to_owned(), |discard| format!("{policy} ({discard})"))
}

/// The untried part, in a word or two.
pub(super) fn part_name(part: &untried::StudyPart) -> String {
    match part {
        untried::StudyPart::Policy { policy } => policy.clone(),
        untried::StudyPart::Workload { policy, workload } => format!("{policy}, {workload}"),
        untried::StudyPart::Ageing { policy } => format!("{policy}, ageing"),
        untried::StudyPart::Assumptions => "other assumptions".to_owned(),
    }
}

fn untried_part(untried: &OmittedPart) -> String {
    match &untried.part {
        untried::StudyPart::Assumptions => "sensitivity not tested:".to_owned(),
        part => format!("'{}' was not tried:", part_name(part)),
    }
}

/// The reason why a part was not tried.
pub fn untried_reason(reason: &untried::OmissionReason) -> &str {
    match reason {
        untried::OmissionReason::NoTrim => "the drive has no TRIM",
        untried::OmissionReason::NoTime => "the quick study ran out of time",
        untried::OmissionReason::ModelledOnly => {
            "it trims in idle time or after many writes, which this study does not wait for \
                ('trimtab trim --policy idle' trims now)"
        }
        untried::OmissionReason::Obstacle(obstacle) => obstacle,
    }
}

/// The reason why a latency may not be caused by discards.
fn latency_doubt(doubt: Option<LatencyDoubt>) -> &'static str {
    match doubt {
        None => "",
        Some(LatencyDoubt::NoDiscardCounted) => " (no discard counted)",
        Some(LatencyDoubt::TooFew) => " (too few to tell)",
        Some(LatencyDoubt::MayBeChance) => " (rare: may be chance)",
        Some(LatencyDoubt::LongNoMoreOften) => " (long ones no more often than without)",
        Some(LatencyDoubt::LongMoreOften) => " (long ones more often than without)",
    }
}

/// The reasons in a few lines: the rule if months of use were studied, else the costs of
/// the recommended policy.
pub(super) fn why(verdict: &Verdict<'_>) -> Vec<String> {
    let line = match verdict.rule {
        Rule::MostWrites { limit_seconds } => {
            let limit = seconds(limit_seconds);
            if limit_seconds > STALL_SECONDS {
                format!("most writes, p95 stall up to {limit} (2× least); within 5 %, least wear")
            } else {
                format!("most writes with p95 stall up to {limit}; within 5 %, least wear")
            }
        }
        Rule::GainsNothing => {
            "no policy has 5 % more 4K writes or 5 % less wear than no trimming".to_owned()
        }
        Rule::TooFewRepeats => {
            format!("a difference may be chance: run with --repeats {REPEATS_MIN}")
        }
        _ => return reasons(verdict),
    };
    vec![line]
}

/// The reasons, one line each, about the recommended policy.
fn reasons(verdict: &Verdict<'_>) -> Vec<String> {
    let policy = verdict.recommendation.trimming_policy();
    verdict.reasons.iter().map(|reason| self::reason(reason, policy)).collect()
}

fn reason(reason: &RecommendationReason<'_>, chosen: Option<&str>) -> String {
    let online_chosen = chosen == Some(policy::ONLINE);
    match reason {
        RecommendationReason::Blocked { policy } => nothing_arrived(policy),
        RecommendationReason::Latency(latency) => latency_reason(latency, chosen.unwrap_or("here")),
        RecommendationReason::Deleting(deleting) => {
            let (what, text) = deleting_reason(deleting, online_chosen);
            lower_first(&format!("{what}: {text}"))
        }
    }
}

/// The text with a small first letter.
pub(super) fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn latency_reason(reason: &LatencyReason<'_>, mine: &str) -> String {
    let policy = |one: &PolicyLatency<'_>| {
        let whose = if one.policy == policy::NONE { "without trimming" } else { one.policy };
        format!("{whose} {}{}", seconds(one.seconds), latency_doubt(one.doubt))
    };
    let chosen = reason
        .chosen
        .map(|one| format!("{mine} {}{}", seconds(one.seconds), latency_doubt(one.doubt)));
    let online =
        reason.online_seconds.map(|online| format!("online {} on every delete", seconds(online)));
    let others: Vec<String> = online.into_iter().chain(reason.others.iter().map(policy)).collect();
    let others = if others.is_empty() { None } else { Some(others.join(", ")) };
    let aside = match reason.aside {
        None => "",
        Some(LatencyCaveat::TooLittle) => " (too little to count)",
        Some(LatencyCaveat::LongNoMoreOften) => " (long ones no more often than without)",
    };
    let all: Vec<String> = chosen.into_iter().chain(others).collect();
    let which = match reason.load {
        AppendLoad::EveryFiveSeconds => "p95",
        AppendLoad::FiftyPerSecond => "worst",
    };
    format!("{which} append latency: {}{aside}", all.join("; "))
}

/// The deleted files and the time to delete them, for the recommended policy first.
fn deleting_reason(reason: &DeletingReason<'_>, online_chosen: bool) -> (String, String) {
    let files = |digits: &str| digits.parse().map_or_else(|_| digits.to_owned(), grouped);
    let what = reason.files.map_or_else(
        || "Deleting".to_owned(),
        |digits| format!("Deleting {} files", files(digits)),
    );
    if let Some(cost) = &reason.part {
        let few = match reason.doubt {
            Some(DeletingDoubt::FewRepeats(few) | DeletingDoubt::CannotTell(few)) => {
                format!(", {}", repeats(few))
            }
            _ => String::new(),
        };
        let part = match cost.part {
            AffectedWork::Phase(phase) => format!("The {phase} of {}", cost.job),
            AffectedWork::WholeWork => format!("The whole work of {}", cost.job),
            AffectedWork::Deleting | AffectedWork::Append(_) => {
                format!("The deleting of {}", cost.job)
            }
        };
        let (none, online) = (seconds(cost.none_seconds), seconds(cost.online_seconds));
        return (
            part,
            format!("{none}; with online discard {online} ({}×{few})", three_digits(cost.times())),
        );
    }
    let (Some(none), Some(online)) = (reason.none_seconds, reason.online_seconds) else {
        return (
            what,
            reason.none_seconds.or(reason.online_seconds).map(seconds).unwrap_or_default(),
        );
    };
    if reason.alike {
        let than = if online_chosen { "without trimming" } else { policy::ONLINE };
        return (what, format!("{}; {than} as long", seconds(none)));
    }
    let doubt =
        reason.doubt.map(|doubt| format!(", {}", deleting_doubt(doubt))).unwrap_or_default();
    let ratio =
        if none > 0.0 { format!(" ({}{doubt})", times(online / none)) } else { String::new() };
    let (none, online) = (seconds(none), seconds(online));
    (
        what,
        if online_chosen {
            format!("{online} with online discard; without trimming {none}{ratio}")
        } else {
            format!("{none}; with online discard {online}{ratio}")
        },
    )
}

fn deleting_doubt(doubt: DeletingDoubt) -> String {
    match doubt {
        DeletingDoubt::NoDiscardCounted => "no discard counted".to_owned(),
        DeletingDoubt::FewRepeats(count) => repeats(count),
        DeletingDoubt::CannotTell(count) => format!("{}: inconclusive", repeats(count)),
        DeletingDoubt::TooShort => "too short to notice".to_owned(),
        DeletingDoubt::TooLittle => "too little to count".to_owned(),
        DeletingDoubt::Scatter => "within their scatter".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_with_units() {
        assert_eq!([1.3, 1.474, 0.9, 1.0].map(percent), ["+30 %", "+47 %", "-10 %", "+0 %"]);
        assert_eq!(["60%", "61.3 %", "?"].map(spaced), ["60 %", "61.3 %", "?"]);
        assert_eq!(
            [Some(365.0), Some(50.0), Some(0.1), None].map(time_of_use),
            ["12 months", "50 days", "2 hours", "months"]
        );
    }

    #[test]
    fn every_policy_has_a_description() {
        for name in trimtab_sim::policy::PolicySpec::NAMES {
            assert!(words(name).is_some(), "{name}");
        }
    }
}
