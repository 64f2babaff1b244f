//! Compares studies: recommendations, matching runs, and pictures that combine them.

use super::Surroundings;
use super::words::{self, spaced};
use super::{first_screen, full_report, months, pictures};
use crate::report::compare::{cells, interval_heading};
use trimtab_sim::analysis::compare::ComparisonOptions;
use trimtab_sim::analysis::compare::runs::{ComparisonRow, Side, against};
use trimtab_sim::run::Run;
use trimtab_sim::run::shown::headline;
use trimtab_study::document::{
    Chart, ChartKind, Document, Film, LatencyHeatmap, RecommendationLine, ScatterPoint, Section, SectionBlock, Table,
};
use trimtab_study::study::ageing::{BURST_SERIES, CYCLES_PER_TB, RATE_STEADY, WAF_SERIES, WAF_STEADY};
use trimtab_study::study::light_work::{BUSY_WAIT, SPARSE_WAIT};
use trimtab_study::study::metrics::{FOREGROUND, distinct, fills, mean, setting};
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, policy};

/// A study with its label and its id.
#[derive(Debug, Clone, Copy)]
pub struct LabelledStudy<'a> {
    /// A, B …
    pub label: &'a str,
    /// First digits of its id.
    pub id: &'a str,
    /// The verdict on the study.
    pub verdict: &'a Verdict<'a>,
}

/// Identifies a run within its study.
#[must_use]
pub fn cell(run: &Run) -> String {
    const SET: [&str; 3] = ["fill", "tuning.question", "tuning.choice"];
    let set = SET.iter().filter_map(|key| setting(run, key));
    let parts: Vec<&str> = [run.workload.as_str(), run.policy.as_str()].into_iter().chain(set).filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Metrics that decide verdicts.
const DECIDING: [&str; 6] = [FOREGROUND, SPARSE_WAIT, BUSY_WAIT, RATE_STEADY, WAF_STEADY, CYCLES_PER_TB];

/// Runs that both studies have, with the deciding metrics, or the headline metric of the
/// workload.
#[must_use]
pub fn deciding(base: &Study, other: &Study, options: &ComparisonOptions) -> Vec<(String, ComparisonRow)> {
    pairs(base, other, options, |run, row| {
        let any = run.metrics.iter().any(|metric| DECIDING.contains(&metric.name.as_str()));
        if any { DECIDING.contains(&row.name.as_str()) } else { is_headline(run, row) }
    })
}

/// Runs that both studies have, each with its headline metric.
#[must_use]
pub fn headlines(base: &Study, other: &Study, options: &ComparisonOptions) -> Vec<(String, ComparisonRow)> {
    pairs(base, other, options, is_headline)
}

fn is_headline(run: &Run, row: &ComparisonRow) -> bool {
    headline(run.metrics.clone()).is_some_and(|metric| metric.name == row.name)
}

fn pairs(
    base: &Study,
    other: &Study,
    options: &ComparisonOptions,
    shown: impl Fn(&Run, &ComparisonRow) -> bool,
) -> Vec<(String, ComparisonRow)> {
    let mut pairs = Vec::new();
    for a in base.all() {
        let Some(b) = other.all().find(|b| cell(b) == cell(a)) else { continue };
        let side = |label, run| Side { label, runs: std::slice::from_ref(run) };
        let rows = against(side("A", a), side("B", b), options).figures;
        pairs.extend(rows.into_iter().filter(|row| shown(a, row)).map(|row| (cell(a), row)));
    }
    pairs
}

/// Runs that only one of the studies has.
#[must_use]
pub fn only_in_one(base: &Study, other: &Study) -> Vec<String> {
    let lacks = |of: &Study, run: &Run| !of.all().any(|other| cell(other) == cell(run));
    base.all().filter(|run| lacks(other, run)).chain(other.all().filter(|run| lacks(base, run))).map(cell).collect()
}

/// A table of matching runs of two studies, optionally with intervals, and the unmatched
/// runs.
#[must_use]
pub fn blocks(
    labels: [&str; 2],
    title: &str,
    rows: &[(String, ComparisonRow)],
    only: &[String],
    interval: Option<&ComparisonOptions>,
) -> Vec<SectionBlock> {
    let mut blocks = vec![match rows {
        [] => SectionBlock::Text("They share no run.".to_owned()),
        _ => SectionBlock::Table(table(labels, title, rows, interval)),
    }];
    if !only.is_empty() {
        blocks.push(SectionBlock::Text(format!("Only one of them has: {}", only.join("; "))));
    }
    blocks
}

fn table([base, other]: [&str; 2], title: &str, rows: &[(String, ComparisonRow)], interval: Option<&ComparisonOptions>) -> Table {
    let ratios = if interval.is_some() { format!("{other} / {base}") } else { "ratio".to_owned() };
    let confidence = interval.map(|options| interval_heading(options.confidence));
    let mut header = vec!["run", "figure", base, other, &ratios];
    header.extend(confidence.as_deref());
    header.push("verdict");
    let mut table = Table::new(title, &header);
    for (cell, row) in rows {
        let [name, a, b, ratio, between, verdict] = cells(&row.name, row.unit, &row.comparison);
        let between = interval.map(|_| between);
        table.row([cell.clone(), name, a, b, ratio].into_iter().chain(between).chain([verdict]));
    }
    table
}

/// The report: recommendations, combined pictures, each study against the first, and folded
/// details of each.
#[must_use]
pub fn document(studies: &[LabelledStudy<'_>], options: &ComparisonOptions) -> Document {
    let mut sections = vec![Section::new("Recommendations", answers(studies))];
    sections.extend(cost_and_gain(studies));
    if let Some((base, others)) = studies.split_first() {
        for other in others {
            let rows = deciding(base.verdict.study(), other.verdict.study(), options);
            let blocks =
                blocks([base.label, other.label], "", &rows, &only_in_one(base.verdict.study(), other.verdict.study()), Some(options));
            sections.push(Section::new(format!("{} against {}", other.label, base.label), blocks));
        }
    }
    let drawn: Vec<SectionBlock> = deleting(studies).into_iter().chain(lines(studies)).collect();
    if !drawn.is_empty() {
        sections.push(Section::new("All in one picture", drawn));
    }
    sections.extend(film(studies));
    sections.extend(heat(studies));
    for named in studies {
        // The pictures are already above.
        let folded = full_report::sections(named.verdict, &Surroundings::default()).into_iter().filter(|section| section.folded);
        sections.extend(folded.map(|section| Section { title: format!("{} = {}: {}", named.label, named.id, section.title), ..section }));
    }
    let labels: Vec<&str> = studies.iter().map(|named| named.label).collect();
    let subtitle =
        studies.iter().map(|named| format!("{} = {}: {}", named.label, named.id, first_screen::subject(&[named.verdict]))).collect();
    Document { title: format!("Comparison of the studies {}", labels.join(", ")), subtitle, sections, ..Document::default() }
}

/// The recommendation of each study, with its reason.
fn answers(studies: &[LabelledStudy<'_>]) -> Vec<SectionBlock> {
    let one = |named: &LabelledStudy<'_>| {
        let answer = first_screen::answer(&[named.verdict], &Surroundings::default());
        let uses: Vec<String> = answer.uses.iter().map(RecommendationLine::in_words).collect();
        let why = words::why(named.verdict);
        let why = if why.is_empty() { String::new() } else { format!(". Why: {}", why.join("; ")) };
        SectionBlock::Text(format!("{}, {} ({}): use {}{why}.", named.label, answer.subject, answer.origin, uses.join("; ")))
    };
    studies.iter().map(one).collect()
}

/// `idle B`: the policy comes first, because it sets the mark's style.
fn labelled(policy: &str, label: &str) -> String {
    format!("{policy} {label}")
}

/// All marks in one chart, on shared axes.
fn cost_and_gain(studies: &[LabelledStudy<'_>]) -> Option<Section> {
    let mut together: Option<Chart> = None;
    for named in studies {
        let section = pictures::cost_and_gain(named.verdict)?;
        let chart = section.blocks.into_iter().find_map(|block| if let SectionBlock::Chart(chart) = block { Some(chart) } else { None })?;
        let ChartKind::Dots { axes, dots } = chart.kind else { return None };
        let dots: Vec<_> = dots.into_iter().map(|dot| ScatterPoint { name: labelled(&dot.name, named.label), ..dot }).collect();
        match &mut together {
            None => together = Some(Chart { title: section.title, kind: ChartKind::Dots { axes, dots }, ..chart }),
            Some(Chart { kind: ChartKind::Dots { axes: known, dots: all }, .. }) if *known == axes => all.extend(dots),
            // One of them is about a medium without wear.
            Some(_) => return None,
        }
    }
    let text = "Lower and further to the right is better: the longest stall of an append during the policy's trims, against its \
                4K writes after months of use. Recommended policies have a ring.";
    Some(Section::new("What each policy costs and gains", vec![SectionBlock::Chart(together?), SectionBlock::Caption(text.to_owned())]))
}

/// The policies shown over time: none, and every recommended one.
fn looked_at<'a>(studies: &[LabelledStudy<'a>]) -> Vec<&'a str> {
    let mut wanted = vec![policy::NONE];
    wanted.extend(studies.iter().filter_map(|named| named.verdict.policy()));
    distinct(wanted)
}

/// Foreground time in each workload under each policy.
fn deleting(studies: &[LabelledStudy<'_>]) -> Option<SectionBlock> {
    let cells = |study: &Study| study.runs.iter().filter(|run| mean(run, FOREGROUND).is_some()).map(cell).collect::<Vec<_>>();
    let (base, others) = studies.split_first()?;
    let shared: Vec<String> = cells(base.verdict.study())
        .into_iter()
        .filter(|cell| others.iter().any(|other| cells(other.verdict.study()).contains(cell)))
        .collect();
    let value = |study: &Study, wanted: &String| study.runs.iter().find(|run| cell(run) == *wanted).and_then(|run| mean(run, FOREGROUND));
    let series = studies
        .iter()
        .map(|named| (named.label.to_owned(), shared.iter().map(|cell| value(named.verdict.study(), cell)).collect()))
        .collect();
    (!shared.is_empty()).then(|| {
        // One word per line below the bars.
        let categories = shared.iter().map(|cell| cell.replace(", ", " ")).collect();
        SectionBlock::Chart(Chart::bars("Foreground time", "seconds", categories, series))
    })
}

/// Rates and amplification over bytes written, at shared fills.
fn lines(studies: &[LabelledStudy<'_>]) -> Vec<SectionBlock> {
    let Some((base, others)) = studies.split_first() else { return Vec::new() };
    let shared = fills(&base.verdict.study().ageing)
        .into_iter()
        .filter(|fill| others.iter().any(|other| fills(&other.verdict.study().ageing).contains(fill)));
    let mut blocks = Vec::new();
    for fill in shared {
        let drawn = [
            ("Burst of 4 KiB random writes after idle time", "writes/s", BURST_SERIES),
            ("Write amplification", "bytes to flash per byte written", WAF_SERIES),
        ];
        for (title, unit, series) in drawn {
            let of = |named: &LabelledStudy<'_>, policy: &str| {
                let run = named.verdict.study().ageing.iter().find(|run| run.policy == policy && setting(run, "fill") == Some(fill))?;
                months::line_of(&labelled(policy, named.label), run, series)
            };
            let lines: Vec<_> =
                looked_at(studies).into_iter().flat_map(|policy| studies.iter().filter_map(move |named| of(named, policy))).collect();
            if lines.len() > 1 {
                let title = format!("{title}, {} full, over bytes written", spaced(fill));
                blocks.push(SectionBlock::Chart(Chart::lines(title, months::WRITTEN, unit, lines, Vec::new())));
            }
        }
    }
    blocks
}

/// The drives under their recommended policies, or without trimming.
fn film(studies: &[LabelledStudy<'_>]) -> Option<Section> {
    let mut together: Option<Film> = None;
    for named in studies {
        let section = pictures::drive(named.verdict)?;
        let film = section.blocks.into_iter().find_map(|block| if let SectionBlock::Film(film) = block { Some(film) } else { None })?;
        let [left, right] = film.shown;
        let drives = film.drives.iter().enumerate().filter(|(at, _)| film.shown.contains(at));
        let drives: Vec<_> = drives.map(|(_, (name, map))| (labelled(name, named.label), map.clone())).collect();
        match &mut together {
            // The second one is the recommended policy.
            None => together = Some(Film { drives, shown: [usize::from(right > left), 0], ..film }),
            Some(all) => all.drives.extend(drives),
        }
    }
    let mut film = together?;
    film.shown[1] = film.drives.len() - 1;
    Some(Section::new("The drives themselves", vec![SectionBlock::Film(film)]))
}

/// Latencies during a trim, for each recommended policy and the worst.
fn heat(studies: &[LabelledStudy<'_>]) -> Option<Section> {
    let mut together: Option<LatencyHeatmap> = None;
    for named in studies {
        let section = pictures::beside_a_trim(named.verdict)?;
        let heat = section.blocks.into_iter().find_map(|block| if let SectionBlock::Heat(heat) = block { Some(heat) } else { None })?;
        let maps: Vec<_> = heat.maps.iter().map(|(name, map)| (labelled(name, named.label), map.clone())).collect();
        // The second one is the recommended policy, if any.
        let chosen = heat.shown[1];
        match &mut together {
            None => together = Some(LatencyHeatmap { maps, shown: [chosen, chosen], ..heat }),
            Some(all) => {
                all.shown[1] = all.maps.len() + chosen;
                all.maps.extend(maps);
            }
        }
    }
    Some(Section::new("During a trim", vec![SectionBlock::Heat(together?)]))
}
