//! The tables of the first screen: policies of one drive, recommendations of several
//! drives, and measured costs. Each column has one unit.

use super::words::{self, NOT_STEADY_LEGEND, Named, drive, mark, percent, short_name, times};
use trimtab_drive::units::three_digits;
use trimtab_sim::run::shown::quantity;
use trimtab_sim::run::{Run, Unit, metrics};
use trimtab_study::document::Table;
use trimtab_study::study::metrics::{
    AgeingFigures, AppendLoad, FOREGROUND, Metrics, distinct, effective_policy, mean, samples,
};
use trimtab_study::study::policy;
use trimtab_study::study::verdict::Verdict;

/// The table for one study or several.
pub(super) fn of(named: &Named<'_>) -> Option<Table> {
    match named.as_slice() {
        [(_, only)] if only.study().ageing.is_empty() => measured(only),
        [(_, only)] => Some(policies(only)),
        several => Some(drives(several)),
    }
}

/// The policy that others are compared with: batched trims, which most systems have, or
/// the nearest to it.
pub(super) fn baseline(metrics: &Metrics<'_>) -> &'static str {
    let aged = |policy: &str| metrics.ageing.iter().any(|figures| figures.policy == policy);
    if aged(policy::BATCHED) { policy::BATCHED } else { policy::NONE }
}

/// Appends from which the 95th percentile is not the longest.
const APPENDS_MIN: u64 = 20;

/// Figures of a policy at the first fill, as cells.
struct Cells {
    stall: String,
    /// The stall is the longest of too few appends for a 95th percentile.
    longest: bool,
    rate: String,
    ratio: String,
    wear: String,
    unsteady: bool,
}

impl Cells {
    fn of(metrics: &Metrics<'_>, policy: &str) -> Self {
        let aged = |policy: &str| metrics.aged(policy, metrics.fills.first()?);
        let (mine, base) = (aged(policy), aged(baseline(metrics)));
        let ratio = |figure: fn(&AgeingFigures<'_>) -> Option<f64>| {
            let (mine, base) = figure(mine?).zip(figure(base?))?;
            (base > 0.0).then_some(mine / base)
        };
        let rate = mine
            .and_then(|mine| Some(format!("{}{}", three_digits(mine.rate?), mark(mine.steady))));
        let latency = metrics.append_latency(policy);
        let longest =
            latency.is_some_and(|one| one.appends.is_some_and(|count| count < APPENDS_MIN));
        let star = if longest { "*" } else { "" };
        Self {
            stall: or_dash(latency.map(|one| milliseconds(one.seconds) + star)),
            longest,
            rate: or_dash(rate),
            ratio: or_dash(ratio(|figures| figures.rate).map(times)),
            wear: or_dash(ratio(|figures| figures.cycles).map(percent)),
            unsteady: mine.is_some_and(|mine| !mine.steady && mine.rate.is_some()),
        }
    }
}

fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

fn milliseconds(seconds: f64) -> String {
    three_digits(seconds * 1e3)
}

/// A table with titles above groups of columns; the first is a legend if rates are
/// unsteady.
fn grouped(columns: &[(&str, &str)], unsteady: bool) -> Table {
    let mut table =
        Table::new("", &columns.iter().map(|(_, heading)| *heading).collect::<Vec<_>>());
    table.groups = columns.iter().map(|(group, _)| (*group).to_owned()).collect();
    if unsteady {
        NOT_STEADY_LEGEND.clone_into(&mut table.groups[0]);
    }
    table
}

/// The policies of one drive with their figures at the first fill.
fn policies(verdict: &Verdict<'_>) -> Table {
    let metrics = &verdict.comparison.metrics;
    let cells: Vec<_> =
        metrics.policies.iter().map(|policy| (*policy, Cells::of(metrics, policy))).collect();
    let against = format!("vs {}", baseline(metrics));
    let longest = cells.iter().any(|(_, cells)| cells.longest);
    let columns = [
        ("", "policy"),
        (if longest { "p95 (*max)" } else { "p95" }, "stall, ms"),
        ("4K writes", "a second"),
        (&against, "writes"),
        (&against, "wear"),
        ("", "trimmed by"),
    ];
    let mut table = grouped(&columns, cells.iter().any(|(_, cells)| cells.unsteady));
    table.remarks = true;
    for (at, (policy, cells)) in cells.into_iter().enumerate() {
        table.row([
            policy.to_owned(),
            cells.stall,
            cells.rate,
            cells.ratio,
            cells.wear,
            words::means(policy).to_owned(),
        ]);
        match verdict.policy() == Some(policy) {
            true => table.chosen.push(at),
            false if policy != baseline(metrics) => table.dispensable.push(at),
            false => {}
        }
    }
    table
}

/// The recommended policy of each drive next to weekly trims, at the first fill.
fn drives(named: &[(String, &Verdict<'_>)]) -> Table {
    let rows: Vec<_> = named.iter().map(|(_, verdict)| drive_row(verdict)).collect();
    let unsteady = rows.iter().any(|(_, unsteady, _)| *unsteady);
    let longest = rows.iter().any(|(.., longest)| *longest);
    let (legend, stall, writes, against) = (
        if unsteady { NOT_STEADY_LEGEND } else { "" },
        "p95 stall, ms",
        "4K writes/s",
        "vs weekly",
    );
    let columns = [
        (legend, "drive"),
        (legend, "USE"),
        (stall, "USE"),
        (stall, "weekly"),
        (writes, "USE"),
        (writes, "weekly"),
        (against, "writes"),
        (against, "wear"),
        ("", "name"),
    ];
    let mut table = grouped(&columns, false);
    let weekly =
        named.iter().all(|(_, verdict)| baseline(&verdict.comparison.metrics) == policy::BATCHED);
    let trimmed = if weekly {
        "fstrim.timer (batched), as on most systems"
    } else {
        "fstrim.timer (batched), or no trimming"
    };
    let star = if longest { "; *: longest of under 20 appends" } else { "" };
    table.caption = format!("weekly: {trimmed}{star}");
    table.remarks = true;
    rows.into_iter().for_each(|(row, ..)| table.row(row));
    table
}

/// The cells, and if a rate is unsteady and a stall the longest.
fn drive_row(verdict: &Verdict<'_>) -> ([String; 9], bool, bool) {
    let metrics = &verdict.comparison.metrics;
    let was = Cells::of(metrics, baseline(metrics));
    let chosen = verdict.policy().map(|policy| Cells::of(metrics, policy));
    let unsteady = was.unsteady || chosen.as_ref().is_some_and(|cells| cells.unsteady);
    let longest = was.longest || chosen.as_ref().is_some_and(|cells| cells.longest);
    let with = |cell: fn(&Cells) -> &String| {
        chosen.as_ref().map_or_else(|| "-".to_owned(), |cells| cell(cells).clone())
    };
    let choice = verdict.policy().unwrap_or_else(|| words::in_table(verdict.recommendation));
    let row = [
        short_name(verdict),
        choice.to_owned(),
        with(|cells| &cells.stall),
        was.stall,
        with(|cells| &cells.rate),
        was.rate,
        with(|cells| &cells.ratio),
        with(|cells| &cells.wear),
        drive(verdict).to_owned(),
    ];
    (row, unsteady, longest)
}

/// The range of random writes and wear without trimming over all drives, against weekly
/// trims.
pub(super) fn without_trimming(verdicts: &[&Verdict<'_>]) -> Option<String> {
    let of = |verdict: &&Verdict<'_>| {
        let metrics = &verdict.comparison.metrics;
        let fill = metrics.fills.first()?;
        let (none, base) =
            (metrics.aged(policy::NONE, fill)?, metrics.aged(policy::BATCHED, fill)?);
        let wear = none.cycles.zip(base.cycles).map_or(1.0, |(none, base)| none / base);
        Some((none.rate? / base.rate?, wear, none.steady && base.steady))
    };
    let all: Vec<(f64, f64, bool)> = verdicts.iter().filter_map(of).collect();
    let range = |figures: Vec<f64>, shown: fn(f64) -> String| {
        let least = figures.iter().copied().reduce(f64::min).map(shown)?;
        let most = figures.iter().copied().reduce(f64::max).map(shown)?;
        Some(if least == most { least } else { format!("{least} to {most}") })
    };
    let speed = range(all.iter().map(|one| one.0).collect(), times)?;
    let wear = range(all.iter().map(|one| one.1).collect(), percent)?;
    let steady = mark(all.iter().all(|one| one.2));
    Some(format!("4K writes {speed}{steady}, wear {wear}, against weekly fstrim"))
}

/// A policy's short name for tables.
fn short_title(run: &Run) -> String {
    match (run.policy.as_str(), effective_policy(run)) {
        (policy::AS_MOUNTED, policy::AS_MOUNTED) => "as mounted".to_owned(),
        (policy::AS_MOUNTED, policy::NONE) => policy::NONE.to_owned(),
        (policy::AS_MOUNTED, amounts_to) => format!("{amounts_to} (as mounted)"),
        (name, _) => name.to_owned(),
    }
}

/// Foreground times are in milliseconds if all are below this, seconds.
const MILLISECONDS_BELOW: f64 = 10.0;

/// Computes a figure from the runs of one policy.
type FigureFunction<'a> = Box<dyn Fn(&[&Run]) -> Option<String> + 'a>;

/// The figures of each policy: foreground time, foreground latency, trim time, and
/// discards at the drive.
fn measured(verdict: &Verdict<'_>) -> Option<Table> {
    let metrics = &verdict.comparison.metrics;
    let runs = &metrics.study.runs;
    let mut columns: Vec<(&str, &str, FigureFunction<'_>)> = Vec::new();
    let (foreground, scale) = match runs
        .iter()
        .filter_map(|run| mean(run, FOREGROUND))
        .all(|seconds| seconds < MILLISECONDS_BELOW)
    {
        true => ("run time, ms", 1e3),
        false => ("run time, s", 1.0),
    };
    for job in &metrics.jobs {
        let figure = move |runs: &[&Run]| {
            runs.iter().find(|run| run.workload == *job).and_then(|run| mean(run, FOREGROUND))
        };
        columns.push((
            foreground,
            job,
            Box::new(move |runs| figure(runs).map(|seconds| three_digits(seconds * scale))),
        ));
    }
    let latency = move |runs: &[&Run]| {
        metrics
            .append_latency(effective_policy(runs.first()?))
            .map(|latency| milliseconds(latency.seconds))
    };
    let (load, heading) = match metrics.load() {
        AppendLoad::EveryFiveSeconds => ("append every 5 s", "p95, ms"),
        AppendLoad::FiftyPerSecond => ("50 appends/s", "longest, ms"),
    };
    columns.push((load, heading, Box::new(latency)));
    let longest = |runs: &[&Run]| {
        let all = runs.iter().filter_map(|run| samples(run, metrics::TRIM_SECONDS)).flatten();
        all.copied().reduce(f64::max).map(milliseconds)
    };
    columns.push(("longest", "trim, ms", Box::new(longest)));
    let sum = |runs: &[&Run], metric: &str| {
        runs.iter().filter_map(|run| mean(run, metric)).reduce(|a, b| a + b)
    };
    // A mean over several repeats; for one repeat, the count itself.
    let once = runs
        .iter()
        .filter_map(|run| samples(run, metrics::DISCARD_COMMANDS))
        .all(|counts| counts.len() == 1);
    let count = move |runs: &[&Run]| {
        sum(runs, metrics::DISCARD_COMMANDS).map(|sum| quantity(sum, Unit::Count))
    };
    columns.push(("discards", if once { "counted" } else { "mean count" }, Box::new(count)));
    columns.push((
        "discards",
        "MB",
        Box::new(move |runs| sum(runs, metrics::DISCARD_BYTES).map(|sum| three_digits(sum / 1e6))),
    ));
    let titles = distinct(runs.iter().map(short_title));
    let of = |title: &str| runs.iter().filter(|run| short_title(run) == title).collect::<Vec<_>>();
    columns.retain(|(.., figure)| titles.iter().any(|title| figure(&of(title)).is_some()));
    if metrics.jobs.is_empty() || columns.is_empty() {
        return None;
    }
    let headings: Vec<_> = std::iter::once(("", "policy"))
        .chain(columns.iter().map(|(group, heading, _)| (*group, *heading)))
        .collect();
    let mut table = grouped(&headings, false);
    for (at, title) in titles.into_iter().enumerate() {
        let runs = of(&title);
        let cells: Vec<String> =
            columns.iter().map(|(.., figure)| or_dash(figure(&runs))).collect();
        let policy = runs.first().map(|run| effective_policy(run));
        table.row(std::iter::once(title).chain(cells));
        if table.chosen.is_empty() && verdict.policy().is_some() && policy == verdict.policy() {
            table.chosen.push(at);
        } else if policy != Some(policy::NONE) {
            table.dispensable.push(at);
        }
    }
    Some(table)
}
