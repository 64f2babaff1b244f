//! The answer of a study on one screen: what drive, what to use, the figures that decide, the policies beside each other, what to check first, how to
//! apply it and where the rest is. A pure function of the runs, the same for real and modelled targets.

use super::ageing::{CYCLES_PER_TB, RATE_STEADY, WAF_STEADY};
use super::job::Job;
use super::light_work::SPARSE_WAIT;
use super::months::{fills, setting};
use super::table::{FOREGROUND, jobs, mean, policy_title};
use super::verdict::{self, Recommendation};
use super::{Study, advice, document, policy};
use crate::report::document::{Answer, Table};
use crate::report::run::quantity;
use std::time::Duration;
use trimtab_core::run::{Provenance, Run, Severity, Unit};
use trimtab_core::units::three_digits;

/// What is known of a study besides its runs.
#[derive(Debug, Clone, Default)]
pub struct Around {
    /// How long it took.
    pub took: Option<Duration>,
    /// Where the report is.
    pub report: Option<String>,
    /// By which name it is kept.
    pub kept: Option<String>,
}

/// The answer.
pub fn of(study: &Study, around: &Around) -> Answer {
    let (choice, meaning) = choice(study);
    Answer {
        subject: subject(study),
        origin: origin(study, around),
        choice: choice.to_owned(),
        meaning: meaning.to_owned(),
        sure: sure(study),
        why: why(study),
        tables: tables(study),
        notes: notes(study),
        apply: document::commands(study).into_iter().map(|command| command.split("    #").next().unwrap_or_default().to_owned()).collect(),
        more: more(study, around),
    }
}

fn first(study: &Study) -> Option<&Run> {
    study.all().next()
}

fn environment<'a>(run: &'a Run, key: &str) -> Option<&'a str> {
    run.environment.iter().find(|field| field.key == key).map(|field| field.value.as_str())
}

/// The drive and the filesystem: "OCZ Vertex LE 100 GB, ext4".
fn subject(study: &Study) -> String {
    let Some(run) = first(study) else { return study.target.clone() };
    let drive = environment(run, "drive.model").map(|model| model.split(':').next().unwrap_or(model).trim().to_owned());
    let filesystem = environment(run, "volume.name").or_else(|| environment(run, "fs.type"));
    match (run.provenance, drive) {
        (Provenance::Modelled, Some(drive)) => [Some(drive.as_str()), filesystem].into_iter().flatten().collect::<Vec<_>>().join(", "),
        (_, drive) => [Some(study.target.as_str()), filesystem, drive.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", "),
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

/// What to use, and what that is.
fn choice(study: &Study) -> (&'static str, &'static str) {
    match verdict::recommendation(study) {
        Recommendation::Idle => (policy::IDLE, "trim in idle time, in small pieces"),
        Recommendation::Adaptive => (policy::ADAPTIVE, "trim when three quarters of the free space have been written"),
        Recommendation::Batched => (policy::BATCHED, "trim everything now and then, not as files go"),
        Recommendation::Online => (policy::ONLINE, "let the filesystem discard as it frees (mount option discard)"),
        Recommendation::NotWorthIt => (policy::NONE, "do not trim: it costs something here and gains nothing"),
        Recommendation::NoDifference => ("what is set now", "trimming makes no measurable difference here"),
        Recommendation::NeverDone => ("no policy", "a TRIM costs so much here that not even a batched trim is done before the next is due"),
        Recommendation::Blocked => ("no policy yet", "TRIM does not reach the drive; that has to be mended first"),
        Recommendation::NotTested => ("no policy yet", "no discard was counted, so what trimming does was not tested here"),
        Recommendation::Unknown => ("no policy yet", "too little could be tried to compare anything"),
    }
}

/// How sure that is.
fn sure(study: &Study) -> String {
    match first(study).map(|run| run.provenance) {
        Some(Provenance::Measured) => {
            let repeats = study.runs.iter().filter_map(|run| super::table::samples(run, FOREGROUND)).map(<[f64]>::len).min().unwrap_or(0);
            if repeats == 0 { String::new() } else { format!("{repeats} repeat{} each", if repeats == 1 { "" } else { "s" }) }
        }
        _ => String::new(),
    }
}

/// A gain in per cent: "+30 %".
fn percent(ratio: f64) -> String {
    format!("{:+.0} %", (ratio - 1.0) * 100.0)
}

/// The longest that one operation of somebody else took beside `policy`, seconds.
pub fn longest_wait(study: &Study, policy: &str) -> Option<f64> {
    let runs = study.runs.iter().filter(|run| verdict::effective_policy(run) == policy);
    runs.filter_map(|run| mean(run, SPARSE_WAIT)).reduce(f64::max)
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

/// Two lines: what it gains, and what others wait.
fn why(study: &Study) -> Vec<String> {
    let chosen = verdict::recommended_policy(study);
    let mut lines: Vec<String> = gains(study, chosen).into_iter().chain(waits(study, chosen)).collect();
    if lines.len() < 2 {
        lines.extend(deleting(study).map(|(_, text)| text));
    }
    lines.truncate(2);
    lines
}

/// What the recommended policy gains over months; without one, what the best gains.
fn gains(study: &Study, chosen: Option<&str>) -> Option<String> {
    let run = study.ageing.first()?;
    let number = |key: &str| setting(run, key).and_then(|text| text.parse::<f64>().ok());
    let days = number("drive-writes").zip(number("drive-writes-a-day")).map(|(all, daily)| all / daily.max(1e-9));
    let after = |fill: &str| {
        let days = days.map_or_else(String::new, |days| format!(", {days:.0} days"));
        format!("({} full{days})", spaced(fill))
    };
    let Some(policy) = chosen.filter(|policy| *policy != policy::NONE) else {
        let fill = fills(&study.ageing).first().copied()?.to_owned();
        let most = policies(study).into_iter().flat_map(|policy| advice::gains(study, policy));
        let most = most.map(|gain| gain.rate.max(gain.life.unwrap_or(1.0))).reduce(f64::max)?;
        return Some(format!("random writes and life at most {} against no trimming {}", percent(most), after(&fill)));
    };
    let gains = advice::gains(study, policy);
    let gain = gains.iter().find(|gain| gain.counts()).or(gains.first())?;
    let rate = format!("random writes {}", percent(gain.rate));
    let life = gain.life.map_or_else(String::new, |life| format!(", life {}", percent(life)));
    Some(format!("{rate}{life} against no trimming {}", after(gain.fill)))
}

/// "60%" as people write it.
fn spaced(fill: &str) -> String {
    fill.strip_suffix('%').map_or_else(|| fill.to_owned(), |number| format!("{number} %"))
}

/// What others wait beside the recommended policy, and beside the worst of the rest.
fn waits(study: &Study, chosen: Option<&str>) -> Option<String> {
    let mut others: Vec<(&str, f64)> = policies(study)
        .into_iter()
        .filter(|policy| Some(*policy) != chosen)
        .filter_map(|policy| Some((policy, longest_wait(study, policy)?)))
        .collect();
    let show = |seconds: f64| quantity(seconds, Unit::Seconds);
    let beside = |(policy, seconds): &(&str, f64)| match *policy {
        policy::NONE => format!("without trimming {}", show(*seconds)),
        policy::ONLINE => format!("with online discard {}", show(*seconds)),
        policy::IDLE => format!("beside an idle trim {}", show(*seconds)),
        policy => format!("beside {} {policy} trim {}", if policy == policy::ADAPTIVE { "an" } else { "a" }, show(*seconds)),
    };
    let Some((policy, mine)) = chosen.and_then(|policy| Some((policy, longest_wait(study, policy)?))) else {
        others.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named: Vec<String> = others.iter().take(3).map(beside).collect();
        return (!named.is_empty()).then(|| format!("others wait at most: {}", named.join("; ")));
    };
    let worse: Vec<(&str, f64)> = others.iter().copied().filter(|(_, wait)| *wait > mine * 1.5).collect();
    // The quickest and the slowest of the worse ones say what the choice saves; where none is worse, what none costs is told.
    let mut named: Vec<(&str, f64)> = if worse.is_empty() { others } else { worse };
    named.sort_by(|a, b| a.1.total_cmp(&b.1));
    let named: Vec<String> = match &named[..] {
        [first, .., last] => vec![beside(first), beside(last)],
        rest => rest.iter().map(beside).collect(),
    };
    let tail = if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) };
    let alone = if policy == policy::NONE { " without trimming" } else { "" };
    Some(format!("others wait at most {}{alone}{tail}", show(mine)))
}

/// Deleting, without discards and with online discard: label and sentence.
fn deleting(study: &Study) -> Option<(String, String)> {
    let time = |job: &str, policy: &str| {
        let run = study.runs.iter().find(|run| run.workload == job && verdict::effective_policy(run) == policy)?;
        Job::deleting(job).iter().filter_map(|phase| mean(run, &format!("{phase}.seconds"))).reduce(|a, b| a + b)
    };
    let job = jobs(&study.runs).into_iter().find(|job| *job == "tree").or_else(|| jobs(&study.runs).into_iter().next())?;
    let files = study.runs.iter().find(|run| run.workload == job).and_then(|run| setting(run, "files").or_else(|| setting(run, "number")));
    let what = files.map_or_else(|| "Deleting".to_owned(), |files| format!("Deleting {} files", grouped(files)));
    let show = |seconds: f64| quantity(seconds, Unit::Seconds);
    let text = match (time(job, policy::NONE), time(job, policy::ONLINE)) {
        (Some(none), Some(online)) => {
            let ratio = if none > 0.0 { format!(" ({}×)", three_digits(online / none)) } else { String::new() };
            match (online - none).abs() <= none * 0.02 {
                true => format!("{}, and as long with online discard", show(none)),
                false => format!("{}; with online discard {}{ratio}", show(none), show(online)),
            }
        }
        (Some(only), None) | (None, Some(only)) => show(only),
        (None, None) => return None,
    };
    Some((what, text))
}

/// A whole number with commas, as on paper: 36,706.
fn grouped(digits: &str) -> String {
    if digits.len() < 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.to_owned();
    }
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A rate with three digits: 27,900.
fn rate(value: f64) -> String {
    let step = 10_f64.powi((value.max(1.0).log10().floor() as i32 - 2).max(0));
    grouped(&format!("{:.0}", (value / step).round() * step))
}

fn tables(study: &Study) -> Vec<Table> {
    if study.ageing.is_empty() { measured(study) } else { vec![months(study)] }
}

/// The policies by what others wait, and by what months of use come to at each fill.
fn months(study: &Study) -> Table {
    let fills: Vec<String> = fills(&study.ageing).into_iter().map(str::to_owned).collect();
    let chosen = verdict::recommended_policy(study);
    let cell = |policy: &str, fill: &str| study.ageing.iter().find(|run| run.policy == policy && setting(run, "fill") == Some(fill));
    let waits = policies(study).iter().any(|policy| longest_wait(study, policy).is_some());
    let (mut groups, mut header) = (vec![String::new()], vec!["policy".to_owned()]);
    if waits {
        groups.push("others wait".to_owned());
        header.push("at most".to_owned());
    }
    let of = |name: &str, metric: &str| study.ageing.iter().any(|run| mean(run, metric).is_some()).then(|| name.to_owned());
    let parts: Vec<(String, &str)> = [("random writes/s", RATE_STEADY), ("write amplif.", WAF_STEADY), ("life", CYCLES_PER_TB)]
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
        for (_, metric) in &parts {
            for fill in &fills {
                let value = cell(policy, fill).and_then(|run| mean(run, metric));
                let none = cell(policy::NONE, fill).and_then(|run| mean(run, metric));
                row.push(match (*metric, value) {
                    (_, None) => "-".to_owned(),
                    (CYCLES_PER_TB, _) if policy == policy::NONE => "-".to_owned(),
                    (CYCLES_PER_TB, Some(mine)) => none.filter(|_| mine > 0.0).map_or_else(|| "-".to_owned(), |none| percent(none / mine)),
                    (RATE_STEADY, Some(value)) => rate(value),
                    (_, Some(value)) => format!("{value:.2}"),
                });
            }
        }
        table.row(row);
        if chosen == Some(policy) {
            table.chosen = Some(table.rows.len() - 1);
        }
    }
    table
}

/// What was measured of each policy: what is waited for, what trimming takes, what reached the drive.
fn measured(study: &Study) -> Vec<Table> {
    let jobs = jobs(&study.runs);
    if jobs.is_empty() {
        return Vec::new();
    }
    let (mut groups, mut header) = (vec![String::new()], vec!["policy"]);
    for (group, metric) in [("waited for", FOREGROUND), ("trim afterwards", "trim.seconds"), ("discards at the drive", "discard.commands")] {
        for job in &jobs {
            if study.runs.iter().any(|run| run.workload == *job && mean(run, metric).is_some()) {
                groups.push(group.to_owned());
                header.push(job);
            }
        }
    }
    let columns: Vec<(String, &str)> = groups.iter().cloned().zip(header.iter().copied()).skip(1).collect();
    let mut table = Table::new("", &header);
    table.groups.clone_from(&groups);
    let mut titles: Vec<String> = Vec::new();
    for run in &study.runs {
        let title = policy_title(run);
        if titles.contains(&title) {
            continue;
        }
        let cells = columns.iter().map(|(group, job)| {
            let run = study.runs.iter().find(|run| run.workload == *job && policy_title(run) == title);
            let (metric, unit) = match group.as_str() {
                "waited for" => (FOREGROUND, Unit::Seconds),
                "trim afterwards" => ("trim.seconds", Unit::Seconds),
                _ => ("discard.commands", Unit::Count),
            };
            run.and_then(|run| mean(run, metric)).map_or_else(|| "-".to_owned(), |value| quantity(value, unit))
        });
        let row: Vec<String> = std::iter::once(title.clone()).chain(cells).collect();
        table.row(row);
        if verdict::recommended_policy(study) == Some(verdict::effective_policy(run)) && table.chosen.is_none() {
            table.chosen = Some(table.rows.len() - 1);
        }
        titles.push(title);
    }
    vec![table]
}

/// What deleting costs, what to check first, what to be careful about.
fn notes(study: &Study) -> Vec<(String, String)> {
    let mut notes: Vec<(String, String)> = deleting(study).into_iter().collect();
    let check = match advice::misaligned(study) {
        Some(times) => format!("a partition at sector 63 costs more than any policy ({}× slower)", three_digits(times)),
        None => "'trimtab doctor PATH' says whether TRIM reaches the drive at all".to_owned(),
    };
    notes.push(("Check first".to_owned(), check));
    notes.extend(caution(study).map(|text| ("Caution".to_owned(), text)));
    notes
}

/// The most serious warning, of the recommended policy before those of others.
fn caution(study: &Study) -> Option<String> {
    if let Some(behind) = advice::behind(study).first() {
        return Some(format!("'{}' never gets done at {} full, so it is not recommended", behind.policy, spaced(behind.fill)));
    }
    let chosen = verdict::recommended_policy(study);
    let warnings = study.all().flat_map(|run| run.warnings.iter().map(move |warning| (Some(verdict::effective_policy(run)) == chosen, warning)));
    let worst = warnings.filter(|(mine, w)| w.severity >= if *mine { Severity::Caution } else { Severity::Serious });
    let (_, warning) = worst.max_by_key(|(mine, warning)| (warning.severity, *mine))?;
    // What stands before the first colon says it; the rest explains.
    Some(warning.text.split(": ").next().unwrap_or(&warning.text).to_owned())
}

fn more(study: &Study, around: &Around) -> Vec<(String, String, String)> {
    let mut more = Vec::new();
    let mut add = |label: &str, place: String, aside: String| more.push((label.to_owned(), place, aside));
    if verdict::recommended_policy(study).is_some() {
        add("Undo", "trimtab apply --undo".to_owned(), String::new());
    }
    if let Some(report) = &around.report {
        add("Report", report.clone(), String::new());
    }
    let runs = study.all().count();
    let runs = format!("{runs} run{}", if runs == 1 { "" } else { "s" });
    match &around.kept {
        Some(id) => add("More", format!("trimtab results show study:{id} --details"), format!("({runs}, kept)")),
        None => add("More", "the same command with --details".to_owned(), format!("({runs}, not kept)")),
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_write_them() {
        assert_eq!(["5", "999", "1000", "36706", "1234567"].map(grouped), ["5", "999", "1,000", "36,706", "1,234,567"]);
        assert_eq!([27_891.3, 999.6, 555_417.0, 12.34, 0.0].map(rate), ["27,900", "1,000", "555,000", "12", "0"]);
        assert_eq!([1.3, 1.474, 0.9, 1.0].map(percent), ["+30 %", "+47 %", "-10 %", "+0 %"]);
        assert_eq!(spaced("60%"), "60 %");
    }
}
