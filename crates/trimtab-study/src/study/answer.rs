//! The answer of a study on one screen: what drive, what to use, the figures that decide, the policies beside each other, what to check first, how to
//! apply it and where the rest is. A pure function of the runs, the same for real and modelled targets.

use super::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use super::cells::NO_TRIM;
use super::judged::Judged;
use super::light_work::{BUSY_WAIT, SPARSE_WAIT};
use super::months::{NOT_STEADY, NOT_STEADY_LEGEND, fills, is_steady, mark, setting, spaced};
use super::predicted::Predicted;
use super::table::{FOREGROUND, jobs, mean, samples, short_title};
use super::verdict::{self, Recommendation};
use super::{Study, advice, document, policy, sensitivity, waits, why};
use crate::document::{Answer, Table, Use};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use trimtab_drive::units::three_digits;
use trimtab_sim::run::metrics;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Field, Provenance, Run, Severity, Unit};

/// What puts everything back that was applied.
pub(super) const UNDO: &str = "trimtab apply --undo";

/// Whose waits stand in the table: of others, made durable, beside the trims. Another load has other waits.
pub(super) const SPARSE_APPENDS: &str = "append every 5 s";

/// Where the environment of a run says what answered.
const DRIVE_NOTICE: &str = "drive.notice";

/// Not that of the random writes, which stand beside it: --details has both.
pub const CHURN_WAF: &str = "WAF of churn";

/// What is known of a study besides its runs.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// How long it took.
    pub took: Option<Duration>,
    /// Where the report is.
    pub report: Option<String>,
    /// By which name it is kept.
    pub kept: Option<String>,
    /// What months of use would do to the drive that was measured.
    pub predicted: Option<Box<Predicted>>,
}

/// The answer.
pub fn of(study: &Judged<'_>, around: &Around) -> Answer {
    let (choice, mut meaning) = choice(study);
    if let Some(time) = study.policy().and_then(|policy| advice::time_trimming(study, policy)) {
        let of = three_digits(time.of_seconds / 86_400.0);
        meaning += &format!("; that takes {} of {} days", three_digits(time.seconds / 86_400.0), of.strip_suffix(".0").unwrap_or(&of));
    }
    Answer {
        subject: subject(study),
        origin: origin(study, around),
        uses: vec![Use { choice: choice.to_owned(), on: String::new(), meaning, sure: sure(study) }],
        why: why::lines(study),
        tables: tables(study),
        notes: drive_notice(study)
            .map(|text| ("Drive".to_owned(), text.to_owned()))
            .into_iter()
            .chain(around.predicted.iter().map(|predicted| ("Months".to_owned(), predicted.note(study))))
            .chain(notes(study))
            .collect(),
        // What else has to be done is said by that command.
        apply: document::commands(study)
            .into_iter()
            .take(1)
            .map(|command| command.split("    #").next().unwrap_or_default().to_owned())
            .collect(),
        undo: study.policy().map(|_| UNDO.to_owned()),
        more: more(study, around),
    }
}

pub(super) fn first(study: &Study) -> Option<&Run> {
    study.all().next()
}

pub(super) fn environment<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    Field::find(&run.environment, key)
}

/// What answered where it was no drive of its own, such as memory or a virtual disk: figures of it are read as those of a drive otherwise.
fn drive_notice(study: &Study) -> Option<&str> {
    environment(first(study)?, DRIVE_NOTICE)
}

/// With this such a notice begins where there is no drive at all.
const NO_DRIVE: &str = "none:";

/// The drive and the filesystem: "OCZ Vertex LE 100 GB, ext4".
pub(super) fn subject(study: &Study) -> String {
    let Some(run) = first(study) else { return study.target.clone() };
    let drive = environment(run, "drive.model").map(|model| model.split(':').next().unwrap_or(model).trim().to_owned());
    let filesystem = environment(run, "volume.name").or_else(|| environment(run, "fs.type"));
    match (run.provenance, drive) {
        (Provenance::Modelled, Some(drive)) => [Some(drive.as_str()), filesystem].into_iter().flatten().collect::<Vec<_>>().join(", "),
        (_, drive) => {
            // Where the drive does not tell its name, the device has one.
            let device = drive.or_else(|| environment(run, "device").map(str::to_owned));
            let fill = environment(run, "fs.fill").and_then(|fill| fill.trim_end_matches(" %").parse::<f64>().ok());
            let fill = fill.map(|fill| format!("{fill:.0} % full"));
            // "." says nothing to whoever reads it later.
            let place = Some(study.target.as_str()).filter(|target| target.starts_with('/')).or_else(|| environment(run, "mount.point"));
            [place.or(Some(&study.target)), filesystem, device.as_deref(), fill.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

fn origin(study: &Study, around: &Around) -> String {
    let Some(run) = first(study) else { return String::new() };
    let whence = match run.provenance {
        Provenance::Measured => "MEASURED",
        Provenance::Modelled => "MODELLED",
        Provenance::Entered => "ENTERED",
    };
    let mut parts = vec![whence.to_owned(), format!("trimtab {}", run.tool_version)];
    parts.extend(around.took.map(|took| format!("{:.0} s", took.as_secs_f64().max(1.0))));
    if !study.complete {
        parts.push("INTERRUPTED".to_owned());
    }
    parts.join(", ")
}

/// Where nothing waits measurably longer, of those that were tried.
fn alike(study: &Study) -> (&'static str, &'static str) {
    // Not what was run to try other assumptions.
    let tried = |policy| study.runs.iter().any(|run| verdict::effective_policy(run) == policy);
    match (tried(policy::ONLINE), tried(policy::BATCHED)) {
        (true, true) => ("online or batched", "with online nothing takes measurably longer"),
        (true, false) => (policy::ONLINE, "nothing takes measurably longer with it; 'batched' was not tried"),
        (false, true) => (policy::BATCHED, "nothing takes measurably longer with it; 'online' was not tried"),
        (false, false) => ("what is set now", "nothing that was tried takes measurably longer"),
    }
}

/// What to use, and what that is.
pub(super) fn choice(study: &Judged<'_>) -> (&'static str, String) {
    let (choice, meaning) = match study.recommendation {
        Recommendation::Batched if verdict::too_few_repeats(study) => (policy::BATCHED, "trim everything now and then: the safe choice"),
        Recommendation::Idle => (policy::IDLE, "trim in idle time, in small pieces"),
        Recommendation::Adaptive => (policy::ADAPTIVE, "trim when three quarters of the free space have been written"),
        Recommendation::Batched => (policy::BATCHED, "trim everything now and then, not as files go"),
        Recommendation::Online => (policy::ONLINE, "let the filesystem discard as it frees (mount option discard)"),
        Recommendation::NotWorthIt => (policy::NONE, "do not trim: it costs something here and gains nothing"),
        // Without months nothing but the waiting was looked at.
        Recommendation::NoDifference if study.ageing.is_empty() => alike(study),
        Recommendation::NoDifference => ("what is set now", "trimming makes no measurable difference here"),
        Recommendation::NeverDone => ("no policy", "a TRIM costs so much here that not even a batched trim is done before the next is due"),
        Recommendation::Blocked => ("no policy yet", "TRIM does not reach the drive; that has to be mended first"),
        Recommendation::NotTested => return ("no policy yet", verdict::untested(study)),
        Recommendation::Unknown if study.runs.is_empty() && !study.ageing.is_empty() => {
            ("no policy yet", "what trimming costs those who wait was not asked (--questions deleting)")
        }
        Recommendation::Unknown if no_trim(study) => ("no policy", "the drive does not know TRIM, so there is nothing to choose"),
        Recommendation::Unknown => ("no policy yet", "too little could be tried to compare anything"),
    };
    (choice, meaning.to_owned())
}

/// Whether every policy but no trimming was left out because the drive takes no TRIM.
fn no_trim(study: &Study) -> bool {
    !study.untried.is_empty() && study.untried.iter().all(|untried| untried.reason == NO_TRIM)
}

/// How sure that is.
fn sure(study: &Judged<'_>) -> String {
    if !study.recommendation.is_one() {
        return String::new();
    }
    if let Some(policy) = study.policy().filter(|policy| !verdict::was_tried(study, policy)) {
        return format!("{policy} was not tried");
    }
    match first(study).map(|run| run.provenance) {
        Some(Provenance::Measured) => {
            let repeats = study.runs.iter().filter_map(|run| samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0);
            if verdict::too_few_repeats(study) && repeats > 0 {
                return format!("{} cannot tell more", verdict::repeats_in_words(study));
            }
            if repeats == 0 { String::new() } else { format!("{repeats} repeat{} each", if repeats == 1 { "" } else { "s" }) }
        }
        Some(_) => match study.sensitivity() {
            Some(sensitivity) => sensitivity.short(study.recommendation),
            None => sensitivity::NOT_TRIED.to_owned(),
        },
        None => String::new(),
    }
}

/// A gain in per cent: "+30 %".
pub(super) fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// The longest that one operation of somebody else took beside `policy`, seconds.
pub fn longest_wait(study: &Study, policy: &str) -> Option<f64> {
    waits::longest(study, policy).map(|longest| longest.seconds)
}

/// The policies that were tried, in the order of the runs.
pub fn policies(study: &Study) -> Vec<&str> {
    let mut policies: Vec<&str> = Vec::new();
    for run in study.runs.iter().chain(&study.ageing) {
        let policy = verdict::effective_policy(run);
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    policies
}

/// How many days of use were looked at.
pub(super) fn days(study: &Study) -> Option<f64> {
    let run = study.ageing.first()?;
    let number = |key: &str| setting(run, key).and_then(|text| text.parse::<f64>().ok());
    number("drive-writes").zip(number("drive-writes-a-day")).map(|(all, daily)| all / daily.max(1e-9))
}

/// How long it was used: `10 days`; `months` where that is not known.
pub(super) fn time_of_use(study: &Study) -> String {
    match days(study) {
        Some(days) if days >= 90.0 => format!("{:.0} months", days / 30.4),
        Some(days) if days >= 0.5 => format!("{days:.0} day{}", if days < 1.5 { "" } else { "s" }),
        Some(days) => format!("{:.0} hours", days * 24.0),
        None => "months".to_owned(),
    }
}

/// A rate with three digits: 27,900.
pub(super) fn rate(value: f64) -> String {
    three_digits(value)
}

fn tables(study: &Judged<'_>) -> Vec<Table> {
    if study.ageing.is_empty() { measured(study) } else { vec![months(study)] }
}

/// What months under `policy` come to at `fill`, as it stands in a table: a rate, an amplification, or the life against none.
pub(super) fn figure(study: &Study, policy: &str, metric: &str, fill: &str) -> String {
    let run = |policy: &str| study.ageing.iter().find(|run| run.policy == policy && setting(run, "fill") == Some(fill));
    let of = |policy: &str| mean(run(policy)?, metric);
    let life = || of(policy::NONE).zip(of(policy)).filter(|(_, mine)| *mine > 0.0).map(|(none, mine)| percent(none / mine));
    let shown = match metric {
        CYCLES_PER_TB => life().filter(|_| policy != policy::NONE),
        RATE_STEADY => of(policy).map(|value| format!("{}{}", rate(value), mark(run(policy).is_none_or(is_steady)))),
        _ => of(policy).map(|value| format!("{value:.2}")),
    };
    shown.unwrap_or_else(|| "-".to_owned())
}

/// What stands in the corner of such a table: what a mark in it says.
pub(super) fn corner(table: &Table) -> String {
    let marked = table.rows.iter().flatten().any(|cell| cell.ends_with(NOT_STEADY));
    if marked { NOT_STEADY_LEGEND.to_owned() } else { String::new() }
}

/// The policies by what others wait, and by what months of use come to at each fill.
fn months(study: &Judged<'_>) -> Table {
    let fills: Vec<String> = fills(&study.ageing).into_iter().map(str::to_owned).collect();
    let chosen = study.policy();
    let waits = policies(study).iter().any(|policy| longest_wait(study, policy).is_some());
    let (mut groups, mut header) = (vec![String::new()], vec!["policy".to_owned()]);
    if waits {
        groups.push(SPARSE_APPENDS.to_owned());
        header.push("waits at most".to_owned());
    }
    let of = |name: &str, metric: &str| study.ageing.iter().any(|run| mean(run, metric).is_some()).then(|| name.to_owned());
    let parts: Vec<(String, &str)> = [("random writes/s", RATE_STEADY), (CHURN_WAF, WAF_STEADY), ("life", CYCLES_PER_TB)]
        .into_iter()
        .filter_map(|(name, metric)| Some((of(name, metric)?, metric)))
        .collect();
    for (name, _) in &parts {
        groups.extend(fills.iter().map(|_| name.clone()));
        header.extend(fills.iter().map(|fill| spaced(fill)));
    }
    let mut table = Table::new("", &header.iter().map(String::as_str).collect::<Vec<_>>());
    table.groups = groups;
    for policy in policies(study) {
        let mut row = vec![policy.to_owned()];
        if waits {
            row.push(longest_wait(study, policy).map_or_else(|| "-".to_owned(), |seconds| quantity(seconds, Unit::Seconds)));
        }
        row.extend(parts.iter().flat_map(|(_, metric)| fills.iter().map(|fill| figure(study, policy, metric, fill))));
        table.row(row);
        if chosen == Some(policy) {
            table.chosen.push(table.rows.len() - 1);
        }
    }
    table.groups[0] = corner(&table);
    table
}

/// A figure of the runs of one policy.
type Figure<'a> = dyn Fn(&[&Run]) -> Option<String> + 'a;

/// A column of what was measured: its title, and the figure of runs of one policy.
struct Column<'a> {
    group: &'static str,
    header: &'a str,
    figure: Box<Figure<'a>>,
}

/// What was measured of each policy: what is waited for, what others wait, what trimming takes, what reached the drive.
fn measured(study: &Judged<'_>) -> Vec<Table> {
    let jobs = jobs(&study.runs);
    let show = |seconds: f64| quantity(seconds, Unit::Seconds);
    let mut columns: Vec<Column<'_>> = Vec::new();
    for job in &jobs {
        let figure = move |runs: &[&Run]| runs.iter().find(|run| run.workload == *job).and_then(|run| mean(run, FOREGROUND)).map(show);
        columns.push(Column { group: "users wait", header: job, figure: Box::new(figure) });
    }
    let wait = if study.runs.iter().any(|run| mean(run, SPARSE_WAIT).is_some()) { SPARSE_WAIT } else { BUSY_WAIT };
    let longest = |metric: &'static str| {
        move |runs: &[&Run]| runs.iter().filter_map(|run| samples(run, metric)).flatten().copied().reduce(f64::max).map(show)
    };
    let group = if wait == SPARSE_WAIT { SPARSE_APPENDS } else { "50 appends/s" };
    // From when it began, not from when it was due.
    columns.push(Column { group, header: "one at most", figure: Box::new(longest(wait)) });
    columns.push(Column { group: "", header: "trim at most", figure: Box::new(longest(metrics::TRIM_SECONDS)) });
    let sum_of = |metric: &'static str, unit: Unit| {
        move |runs: &[&Run]| runs.iter().filter_map(|run| mean(run, metric)).reduce(|a, b| a + b).map(|sum| quantity(sum, unit))
    };
    // So many a time; of one time that is what was counted.
    let once = study.runs.iter().filter_map(|run| samples(run, metrics::DISCARD_COMMANDS)).all(|counts| counts.len() == 1);
    let header = if once { "counted" } else { "mean count" };
    columns.push(Column { group: "discards", header, figure: Box::new(sum_of(metrics::DISCARD_COMMANDS, Unit::Count)) });
    columns.push(Column { group: "", header: "bytes", figure: Box::new(sum_of(metrics::DISCARD_BYTES, Unit::Bytes)) });
    let of = |title: &str| study.runs.iter().filter(|run| short_title(run) == title).collect::<Vec<_>>();
    let mut titles: Vec<String> = Vec::new();
    for title in study.runs.iter().map(short_title) {
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    columns.retain(|column| titles.iter().any(|title| (column.figure)(&of(title)).is_some()));
    if jobs.is_empty() || columns.is_empty() {
        return Vec::new();
    }
    let header: Vec<&str> = core::iter::once("policy").chain(columns.iter().map(|column| column.header)).collect();
    let mut table = Table::new("", &header);
    table.groups = core::iter::once(String::new()).chain(columns.iter().map(|column| column.group.to_owned())).collect();
    let chosen = study.policy();
    for title in titles {
        let runs = of(&title);
        let cells = columns.iter().map(|column| (column.figure)(&runs).unwrap_or_else(|| "-".to_owned()));
        table.row(core::iter::once(title.clone()).chain(cells));
        if table.chosen.is_empty() && runs.iter().any(|run| chosen == Some(verdict::effective_policy(run))) {
            table.chosen.push(table.rows.len() - 1);
        }
    }
    vec![table]
}

/// What deleting costs, what to check first, what to be careful about.
fn notes(study: &Judged<'_>) -> Vec<(String, String)> {
    // Without months it is among the reasons already.
    let deletes = why::deleting(study, policy::NONE).filter(|_| !study.ageing.is_empty());
    let mut notes: Vec<(String, String)> = deletes.map(|deletes| (deletes.what, deletes.text)).into_iter().collect();
    let place = document::place(study).unwrap_or_else(|| "PATH".to_owned());
    // A path with quotes of its own stands without others.
    let doctor = if place.contains('\'') { format!("trimtab doctor {place}") } else { format!("'trimtab doctor {place}'") };
    let no_drive = drive_notice(study).is_some_and(|text| text.starts_with(NO_DRIVE));
    let check = match advice::misaligned(study) {
        _ if no_drive => "no drive answered here: nothing of this holds for one".to_owned(),
        Some(found) => {
            let what = if found.most { "costs more than any policy" } else { "makes random writes slow" };
            format!("a partition at sector 63 {what} ({}× slower)", three_digits(found.times))
        }
        None if no_trim(study) => "the drive takes no TRIM: no policy does anything for it".to_owned(),
        None => format!("{doctor} says whether TRIM reaches the drive"),
    };
    notes.extend(life(study).map(|text| ("Life".to_owned(), text.to_owned())));
    notes.push(("Check first".to_owned(), check));
    if study.recommendation == Recommendation::NoDifference {
        // Over months nothing was looked at where nothing was modelled: that nothing trims at all is no finding then.
        let what = if study.ageing.is_empty() {
            format!("nothing, where something trims it already: {doctor} says")
        } else {
            "nothing; leave it as it is".to_owned()
        };
        notes.push(("Apply".to_owned(), what));
    }
    notes.extend(caution(study).map(|text| ("Caution".to_owned(), text)));
    if !study.untried.is_empty() {
        notes.push(("Not tried".to_owned(), untried(study)));
    }
    notes
}

/// From when on a reader who works out life from write amplification sees that it is another.
const LIFE_APART: f64 = 1.05;

/// Why the life in the table does not follow from the write amplification beside it, where it does not: that counts bytes, life counts erases, and a block
/// that serves as SLC cache holds a part of what it holds otherwise.
pub(super) fn life(study: &Study) -> Option<&'static str> {
    let caches = |run: &Run| run.counters.iter().any(|(name, count)| name == "folded_superblocks" && *count > 0);
    let apart = |run: &Run| {
        let none = study.ageing.iter().find(|none| none.policy == policy::NONE && setting(none, "fill") == setting(run, "fill"))?;
        let ratio = |metric: &str| Some(mean(none, metric)? / mean(run, metric)?);
        let (bytes, erases) = (ratio(WAF_STEADY)?, ratio(CYCLES_PER_TB)?);
        Some(bytes / erases).filter(|times| *times > LIFE_APART || *times < 1.0 / LIFE_APART)
    };
    let has = study.ageing.iter().any(caches) && study.ageing.iter().any(|run| apart(run).is_some());
    has.then_some("counts erases, those of blocks used as SLC cache too; WAF counts bytes")
}

/// Which policies were not tried; why, of the first that could have been, because somebody can do something about it.
fn untried(study: &Study) -> String {
    let by_need = |name: &str| [policy::ADAPTIVE, policy::IDLE].contains(&name);
    let possible = study.untried.iter().find(|untried| !by_need(&untried.policy));
    let reason = possible.map(|untried| format!("{} ({})", untried.policy, untried.reason));
    let rest: Vec<&str> =
        study.untried.iter().filter(|untried| possible != Some(*untried)).map(|untried| untried.policy.as_str()).collect();
    let rest = (!rest.is_empty()).then(|| format!("{} (why: --details)", rest.join(", ")));
    reason.into_iter().chain(rest).collect::<Vec<_>>().join("; ")
}

/// The most serious warning, of the recommended policy before those of others; and how many of other kinds there are.
fn caution(study: &Judged<'_>) -> Option<String> {
    if let Some(behind) = advice::behind(study).first() {
        return Some(format!("'{}' never gets done at {} full, so it is not recommended", behind.policy, spaced(behind.fill)));
    }
    let chosen = study.policy();
    let warnings = study.all().flat_map(|run| {
        let policy = verdict::effective_policy(run);
        run.warnings.iter().map(move |warning| (policy, warning))
    });
    let worst: Vec<_> = warnings.filter(|(_, w)| w.severity >= Severity::Caution).collect();
    let (policy, warning) = worst.iter().copied().max_by_key(|(policy, warning)| (warning.severity, Some(*policy) == chosen))?;
    // What stands before the first colon says it; the rest explains.
    let text = warning.text.split(": ").next().unwrap_or(&warning.text);
    let text = if Some(policy) == chosen || policy.is_empty() { text.to_owned() } else { format!("'{policy}': {text}") };
    // What is about something else is not hidden behind it.
    let mut others: Vec<&str> = worst.iter().map(|(_, other)| other.code.as_str()).filter(|code| *code != warning.code).collect();
    others.sort_unstable();
    others.dedup();
    Some(if others.is_empty() { text } else { format!("{text}; and {} more (--details)", others.len()) })
}

fn more(study: &Study, around: &Around) -> Vec<(String, String, String)> {
    let mut more = Vec::new();
    let mut add = |label: &str, place: String, aside: String| more.push((label.to_owned(), place, aside));
    if let Some(report) = &around.report {
        add("Report", report.clone(), String::new());
    }
    let runs = study.all().count();
    let months = around.predicted.as_ref().map_or(0, |predicted| predicted.study.all().count());
    let months = if months == 0 { String::new() } else { format!(" and {months} of months") };
    let runs = format!("{runs} run{}{months}", if runs == 1 { "" } else { "s" });
    match &around.kept {
        Some(id) => add("More", format!("trimtab results show study:{id} --details"), format!("({runs}, kept)")),
        None => add("More", "the same command with --details".to_owned(), format!("({runs}, not kept)")),
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::fixtures::{around, whole};
    use crate::study::overview;
    use trimtab_sim::run::Warning;

    /// Seen: MEASURED above figures of memory, and the doctor recommended.
    #[test]
    fn what_answered_is_said_where_it_was_no_drive() {
        let with = |notice: &str| {
            let mut study = whole();
            for run in study.runs.iter_mut().chain(&mut study.ageing) {
                run.environment.push(Field::new(DRIVE_NOTICE, notice));
            }
            of(&Judged::of(&study), &around()).notes
        };
        let notes = with("vda is a virtual disk");
        assert_eq!(notes[0], ("Drive".to_owned(), "vda is a virtual disk".to_owned()));
        let check = |notes: &[(String, String)]| notes.iter().find(|(title, _)| title == "Check first").unwrap().1.clone();
        assert!(check(&with("not known: overlay is on no block device that the kernel shows")).starts_with("a partition"));
        let notes = with("none: tmpfs is a filesystem in memory");
        assert!(check(&notes).starts_with("no drive answered here"), "{notes:?}");
    }

    /// A rate that did not become steady, under one policy at one fill.
    #[test]
    fn rates_that_are_not_steady_are_marked() {
        let all_steady = of(&Judged::of(&whole()), &around());
        let text = |answer: &Answer| format!("{:?} {:?}", answer.why, answer.tables);
        assert!(!text(&all_steady).contains('~'), "{}", text(&all_steady));
        let mut study = whole();
        let run = study.ageing.iter_mut().find(|run| run.policy == policy::IDLE && setting(run, "fill") == Some("60%")).unwrap();
        run.warnings.push(Warning {
            code: "steady-state.not-reached".into(),
            severity: Severity::Note,
            text: String::new(),
            facts: Vec::new(),
        });
        let answer = of(&Judged::of(&study), &around());
        assert!(answer.why[0].starts_with("random writes +30 %~, life +47 % against"), "{:?}", answer.why);
        let table = &answer.tables[0];
        assert_eq!(table.groups[0], "~ not steady");
        let marked: Vec<&String> = table.rows.iter().flatten().filter(|cell| cell.contains('~')).collect();
        assert_eq!(marked, ["36,200~"], "no other cell, and neither WAF nor life");
        let three = overview::answer(&Judged::all(&[study, whole()]), &around(), |_| 0);
        assert!(three.why[0].contains("OCZ +30 %~, OCZ +30 % against"), "{:?}", three.why);
        assert_eq!(
            (three.tables[0].groups[0].as_str(), three.tables[0].rows[2].join(" ").matches('~').count()),
            ("~ not steady", 1),
            "{three:?}"
        );
    }

    /// Seen: 40.4 ms on the first screen (beside postmark), 39.6 ms in the reasons (beside the tree).
    #[test]
    fn what_others_wait_at_most_is_one_figure_wherever_it_stands() {
        let mut study = whole();
        let mut postmark = study.runs.clone();
        for run in &mut postmark {
            run.workload = "postmark".into();
            let wait = run.metrics.iter_mut().find(|m| m.name == crate::study::light_work::SPARSE_WAIT).unwrap();
            wait.samples = vec![wait.samples[0] * if run.policy == policy::IDLE { 1.05 } else { 0.9 }];
        }
        study.runs.extend(postmark);
        let (answer, full) = (of(&Judged::of(&study), &around()), Judged::of(&study).verdict);
        // 153 ms × 1.05 is 160.65 ms, three digits of it 161 ms; the batched trim's 680 ms are beside the tree.
        let row = answer.tables[0].rows.iter().find(|row| row[0] == policy::IDLE).unwrap();
        assert_eq!(row[1], "161 ms");
        assert!(answer.why.iter().any(|line| line.contains("at most 161 ms; beside a batched trim 680 ms")), "{:?}", answer.why);
        assert!(full.headline.contains("up to 680 ms beside a batched trim, up to 161 ms beside an idle one"), "{}", full.headline);
    }

    /// Seen: "online or batched" of a study that was asked for none and online.
    #[test]
    fn a_policy_that_was_not_tried_is_not_named_as_good_as_another() {
        let named = |left_out: &[&str]| {
            let mut study = whole();
            study.ageing.clear();
            study.runs.retain(|run| !left_out.contains(&run.policy.as_str()));
            alike(&study).0
        };
        assert_eq!(named(&[]), "online or batched");
        assert_eq!((named(&[policy::BATCHED]), named(&[policy::ONLINE])), (policy::ONLINE, policy::BATCHED));
        assert_eq!(named(&[policy::ONLINE, policy::BATCHED]), "what is set now");
    }

    /// Seen: "no policy yet" beside "robust: 10 of 10 assumptions".
    #[test]
    fn where_no_policy_is_recommended_nothing_is_robust() {
        let mut study = whole();
        study.runs.clear();
        let using = of(&Judged::of(&study), &around()).uses.remove(0);
        assert_eq!((using.choice.as_str(), using.sure.as_str()), ("no policy yet", ""));
        assert!(using.meaning.contains("--questions deleting"), "{}", using.meaning);
        let headline = Judged::of(&study).verdict.headline;
        assert!(headline.contains("was not asked") && !headline.contains("assumptions"), "{headline}");
        let three = overview::answer(&Judged::all(&[study]), &around(), |_| 0);
        assert!(!three.notes.iter().any(|(_, note)| note.contains("assumptions,") || note.contains("depends")), "{:?}", three.notes);
    }

    /// 301,536 s are 3.49 days, 6.98 % of 50.
    #[test]
    fn recommended_policy_states_its_busy_time() {
        let mut study = whole();
        assert_eq!(of(&Judged::of(&study), &around()).uses[0].meaning, "trim in idle time, in small pieces");
        for (fill, seconds) in [("60%", 43_200.0), ("90%", 301_536.0)] {
            let run = study.ageing.iter_mut().find(|run| run.policy == policy::IDLE && setting(run, "fill") == Some(fill)).unwrap();
            run.metrics.push(trimtab_sim::run::Metric {
                name: metrics::TRIM_SECONDS.into(),
                unit: Unit::Seconds,
                better: trimtab_sim::run::Better::Lower,
                samples: vec![seconds],
            });
        }
        assert_eq!(of(&Judged::of(&study), &around()).uses[0].meaning, "trim in idle time, in small pieces; that takes 3.49 of 50 days");
        let three = overview::answer(&Judged::all(&[study.clone()]), &around(), |_| 0);
        assert_eq!(three.uses[0].meaning, "in idle time, 6.98 % of all time");
        // Half a day is 1 %, and no more.
        study
            .ageing
            .iter_mut()
            .flat_map(|run| &mut run.metrics)
            .filter(|m| m.name == metrics::TRIM_SECONDS)
            .for_each(|m| m.samples = vec![43_200.0]);
        assert_eq!(of(&Judged::of(&study), &around()).uses[0].meaning, "trim in idle time, in small pieces");
    }

    /// Seen: `trimtab apply batched my dir`, of a directory that was named from where the study began.
    #[test]
    fn what_is_to_be_typed_names_an_absolute_path_as_one_word() {
        let mut study = whole();
        for run in &mut study.runs {
            run.target = trimtab_sim::run::TargetKind::Directory;
            run.environment.push(Field::new("mount.point", "/mnt/it's mine"));
        }
        study.target = "my dir".into();
        assert_eq!(of(&Judged::of(&study), &around()).apply, [r"trimtab apply idle '/mnt/it'\''s mine' --dry-run"]);
    }

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(["5", "999", "1000", "36706", "1234567"].map(why::with_commas), ["5", "999", "1,000", "36,706", "1,234,567"]);
        assert_eq!([27_891.3, 999.6, 555_417.0, 12.34, 0.0].map(rate), ["27,900", "1,000", "555,000", "12.3", "0.00"]);
        assert_eq!([1.3, 1.474, 0.9, 1.0].map(percent), ["+30 %", "+47 %", "-10 %", "+0 %"]);
        assert_eq!(spaced("60%"), "60 %");
    }
}
