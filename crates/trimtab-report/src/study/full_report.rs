//! A study as a report.

use super::Surroundings;
use super::phases::policy_title;
use super::words::{self, spaced};
use super::{assumptions, first_screen, months, phases, pictures};
use trimtab_sim::run::shown::{health, readable, readable_place};
use trimtab_sim::run::{Field, Provenance, Run, STUDY_CELL, STUDY_TAKEN, Warning};
use trimtab_study::document::{Document, Findings, Section, SectionBlock, Table};
use trimtab_study::study::metrics::{jobs, setting};
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, ageing};

/// The report: the answer, the main pictures of each drive, and folded sections with
/// everything else.
pub(super) fn document(verdicts: &[Verdict<'_>], around: &Surroundings) -> Document {
    let (title, subtitle, sections) = match verdicts {
        [verdict] => (
            format!("Trim policies on {}", verdict.study().target),
            subtitle(verdict.study()),
            sections(verdict),
        ),
        several => (
            format!("Trim policies on {} drives", words::count(several.len()).to_lowercase()),
            Vec::new(),
            of_drives(several),
        ),
    };
    let answer = first_screen::answer(&verdicts.iter().collect::<Vec<_>>(), around);
    Document { title, subtitle, answer: Some(answer), sections }
}

/// The sections of each drive, under its name.
fn of_drives(verdicts: &[Verdict<'_>]) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    for verdict in verdicts {
        let named = |section: Section| Section {
            title: format!(
                "{}: {}",
                words::short_name(verdict),
                words::lower_first(&section.title)
            ),
            ..section
        };
        all.extend(sections(verdict).into_iter().map(named));
    }
    // Folded sections of all drives come last.
    all.sort_by_key(|section| section.folded);
    all
}

/// The report without its answer.
fn sections(verdict: &Verdict<'_>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    sections.extend(pictures::cost_and_gain(verdict));
    sections.extend(months::lines(verdict));
    let all = |findings: &[_]| findings.iter().map(words::sentence).collect();
    let sure = verdict.study().sensitivity.as_ref().filter(|_| verdict.recommendation.is_answer());
    let sure = sure.map(|sensitivity| assumptions::sentences(sensitivity, verdict.own()));
    let headline =
        std::iter::once(words::headline(verdict)).chain(sure).collect::<Vec<_>>().join(" ");
    let findings =
        Findings { headline, evidence: all(&verdict.evidence), caveats: all(&verdict.caveats) };
    sections.push(Section::new("Why, in full", vec![SectionBlock::Findings(findings)]).folded());
    sections.extend(in_full(verdict).into_iter().map(Section::folded));
    sections
}

/// All tables.
fn in_full(verdict: &Verdict<'_>) -> Vec<Section> {
    let study = verdict.study();
    let mut sections = Vec::new();
    if !study.runs.is_empty() {
        sections.push(Section::new(
            "Policies by phase",
            vec![SectionBlock::Table(phases::by_phase(study))],
        ));
    }
    let measured = study.all().next().is_some_and(|run| run.provenance == Provenance::Measured);
    let not_measured = |title: &str, why: &str| {
        measured
            .then(|| Section::new(title, vec![SectionBlock::Text(format!("Not measured: {why}"))]))
    };
    sections.extend(months::ageing(verdict).or_else(|| {
        not_measured(
            "Ageing",
            "months of use write a drive several times over. 'trimtab bench age' writes \
            an amount that you choose; 'trimtab study drive:NAME' ages a modelled drive of \
            its class.",
        )
    }));
    sections.extend(months::states(study, verdict.policy()).or_else(|| {
        not_measured(
            "State of the drive's blocks",
            "a real drive does not report which of its blocks are mapped, stale or free.",
        )
    }));
    if let Some(sensitivity) = &study.sensitivity {
        sections.extend(assumptions::section(sensitivity));
        sections.extend(sensitivity.ensemble.as_ref().map(assumptions::drives_section));
    }
    sections.extend(taken(study));
    sections.extend(environment(study));
    let warnings = warnings(study.all());
    if !warnings.is_empty() {
        sections.push(Section::new("Warnings", vec![SectionBlock::Warnings(warnings)]));
    }
    sections
}

/// The machine, in one line. The answer has the rest.
fn subtitle(study: &Study) -> Vec<String> {
    let Some(run) = study.all().next() else { return Vec::new() };
    let health = health(run).unwrap_or_default();
    let lines = vec![
        format!("{}; trimtab {}", run.provenance.name(), run.tool_version),
        crate::run::place(run),
        health,
    ];
    lines.into_iter().filter(|line| !line.is_empty()).collect()
}

/// The settings of the workloads.
fn workloads(study: &Study) -> SectionBlock {
    let mut table = Table::new("The workloads.", &["workload", "settings", "seed"]);
    for job in jobs(&study.runs) {
        let Some(run) = study.runs.iter().find(|run| run.workload == job) else { continue };
        let settings: Vec<String> = run
            .settings
            .iter()
            .map(|f| format!("{} {}", f.key, readable(&f.key, &f.value)))
            .collect();
        table.row([job.to_owned(), settings.join(", "), run.seed.to_string()]);
    }
    SectionBlock::Table(table)
}

/// Runs reused from an interrupted study.
fn taken(study: &Study) -> Option<Section> {
    let mut table = Table::new(
        "Measured earlier, on this filesystem at this fill.",
        &["workload", "policy", "measured"],
    );
    let found = |run: &Run| Field::find(&run.environment, STUDY_TAKEN).map(String::from);
    for (run, taken) in study.all().filter_map(|run| Some((run, found(run)?))) {
        table.row([run.workload.clone(), run.policy.clone(), taken]);
    }
    (!table.rows.is_empty())
        .then(|| Section::new("Reused from an interrupted study", vec![SectionBlock::Table(table)]))
}

/// The environment that all runs share.
fn environment(study: &Study) -> Option<Section> {
    let first = study.all().next()?;
    let shared = |field: &&Field| {
        ![STUDY_CELL, STUDY_TAKEN].contains(&field.key.as_str())
            && study.all().all(|run| {
                run.environment
                    .iter()
                    .all(|other| other.key != field.key || other.value == field.value)
            })
    };
    let mut table = Table::new("The same for all runs.", &["item", "value"]);
    first
        .environment
        .iter()
        .filter(shared)
        .for_each(|field| table.row([field.key.clone(), readable_place(&field.key, &field.value)]));
    let mut blocks = vec![SectionBlock::Table(table)];
    let mut policies = Table::new("Parameters of the policies.", &["policy", "parameters"]);
    let mut seen: Vec<&str> = Vec::new();
    for run in study.all() {
        if !seen.contains(&run.policy.as_str()) {
            seen.push(&run.policy);
            let fields: Vec<String> = run
                .policy_settings
                .iter()
                .map(|f| {
                    format!(
                        "{} {}",
                        f.key.trim_start_matches("policy."),
                        readable(&f.key, &f.value)
                    )
                })
                .collect();
            policies.row([run.policy.clone(), fields.join(", ")]);
        }
    }
    blocks.push(SectionBlock::Table(policies));
    if !study.runs.is_empty() {
        blocks.push(workloads(study));
    }
    Some(Section::new("Environment", blocks))
}

/// The warnings of all runs; those with the same code and text once.
fn warnings<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for run in runs {
        for warning in &run.warnings {
            if !all.iter().any(|w| w.code == warning.code) {
                let text = match run.workload.as_str() {
                    ageing::CHURN => format!(
                        "churn under '{}', {} full: {}",
                        policy_title(run),
                        spaced(setting(run, "fill").unwrap_or("?")),
                        warning.text
                    ),
                    other => format!("{other} under '{}': {}", policy_title(run), warning.text),
                };
                all.push(Warning { text, ..warning.clone() });
            }
        }
    }
    all
}
