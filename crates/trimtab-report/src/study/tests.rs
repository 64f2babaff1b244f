//! First screens and reports of studies with known figures.

pub mod fixtures;
#[path = "../../../trimtab-study/src/study/verdict/tests/latency.rs"]
mod latency;

use super::{Surroundings, answer, document};
use crate::{html, text};
use fixtures::{run, three, whole};
use latency::met;
use std::time::Duration;
use trimtab_sim::run::{
    Better, Field, Metric, Provenance, Severity, TargetKind, Unit, Warning, metrics,
};
use trimtab_study::document::{Document, StudyAnswer};
use trimtab_study::study::metrics::FOREGROUND;
use trimtab_study::study::untried::{OmissionReason, OmittedPart, StudyPart};
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::{Study, policy};

fn around() -> Surroundings {
    let report = "/home/user/.local/share/trimtab/trimtab-study.html";
    Surroundings {
        took: Some(Duration::from_secs(29)),
        report: Some(report.into()),
        kept: Some("5b48c05a".into()),
    }
}

/// A measured study on a filesystem: online discard delays foreground I/O more often than
/// chance, a batched trim once.
fn filesystem() -> Study {
    let waits = [
        ("as-mounted", "nodiscard", [(50, 1), (2, 8)]),
        ("batched", "nodiscard", [(62, 1), (1, 410)]),
        ("online", "discard", [(100, 1), (50, 1_900)]),
    ];
    let one = |job: &'static str, at: usize| {
        let (policy, option, others) = waits[at];
        let figures = [
            (metrics::DELETE_SECONDS, Unit::Seconds, [0.045, 0.045, 3.1][at]),
            (FOREGROUND, Unit::Seconds, [0.152, 0.155, 3.2][at]),
            (metrics::DISCARD_COMMANDS, Unit::Count, [0.0, 6.0, 79.0][at]),
        ];
        let mut run = run(job, policy, &[("files", "3670")], &figures);
        for metric in run.metrics.iter_mut().filter(|metric| metric.name.ends_with(".seconds")) {
            metric.samples = [0.99, 1.0, 1.01].map(|share| metric.samples[0] * share).to_vec();
        }
        if policy == "batched" {
            run.metrics.push(Metric {
                name: metrics::TRIM_SECONDS.into(),
                unit: Unit::Seconds,
                better: Better::Lower,
                samples: vec![0.48],
            });
        }
        (run.provenance, run.target) = (Provenance::Measured, TargetKind::Directory);
        run.target_label = "/mnt/ssd".into();
        run.policy_settings = vec![Field::new(policy::DISCARD, option)];
        run.environment = [("fs.type", "ext4"), ("device", "sda2"), ("fs.fill", "61.3 %")]
            .map(|(key, value)| Field::new(key, value))
            .to_vec();
        if job == "tree" { met(run, &others) } else { run }
    };
    let untried = ["adaptive", "idle"].map(|policy| OmittedPart {
        part: StudyPart::policy(policy),
        reason: OmissionReason::ModelledOnly,
    });
    Study {
        target: "/mnt/ssd".into(),
        runs: (0..3).flat_map(|at| [one("tree", at), one("postmark", at)]).collect(),
        untried: untried.to_vec(),
        complete: true,
        ..Study::default()
    }
}

#[test]
fn first_screen_of_filesystem_fits_three_widths() {
    for width in [60, 80, 120] {
        let shown = screen(&filesystem(), width);
        assert!(
            shown.lines().all(|line| line.chars().count() <= width || line.starts_with("Report")),
            "{shown}"
        );
        assert!(shown.lines().count() <= 23, "one screen of 24 lines, with the prompt:\n{shown}");
        insta::assert_snapshot!(format!("filesystem-{width}"), shown);
    }
    let shown = screen(&filesystem(), 80);
    // One of 63 may be chance; 50 of 150 are not.
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("batched 410 ms (rare: may be chance); online 1.90 s"), "{shown}");
}

fn screen(study: &Study, width: usize) -> String {
    anstream::adapter::strip_str(&text::answer_at(
        &answer(&[Verdict::of(study)], &around()),
        Some(width),
    ))
    .to_string()
}

#[test]
fn first_screen_of_one_drive_fits_three_widths() {
    for width in [60, 80, 120] {
        let shown = screen(&whole(), width);
        assert!(
            shown.lines().all(|line| line.chars().count() <= width || line.starts_with("Report")),
            "{shown}"
        );
        assert!(shown.lines().count() <= 23, "one screen of 24 lines, with the prompt:\n{shown}");
        insta::assert_snapshot!(format!("first-screen-{width}"), shown);
    }
}

/// Marks of unsteady rates must fit within the 24 lines.
#[test]
fn unsteady_marks_fit_on_first_screen() {
    let unsteady = |mut study: Study| {
        for run in &mut study.ageing {
            run.warnings.push(Warning {
                code: "steady-state.not-reached".into(),
                severity: Severity::Note,
                text: String::new(),
                facts: Vec::new(),
            });
        }
        study
    };
    let three: Vec<Study> = three().into_iter().map(unsteady).collect();
    for width in [60, 80, 120] {
        let overview = text::answer_at(&answer(&Verdict::all(&three), &around()), Some(width));
        for shown in
            [screen(&unsteady(whole()), width), anstream::adapter::strip_str(&overview).to_string()]
        {
            assert!(shown.contains("~ not steady") && shown.contains("36,200~"), "{shown}");
            assert!(
                shown
                    .lines()
                    .all(|line| line.chars().count() <= width || line.starts_with("Report")),
                "{shown}"
            );
            assert!(
                shown.lines().count() <= 23,
                "one screen of 24 lines, with the prompt:\n{shown}"
            );
        }
    }
}

#[test]
fn screen_figures_follow_from_runs() {
    let shown = screen(&whole(), 80);
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    // Twice 153 ms are 306 ms; 5 drive-writes of a tenth a day are 50 days.
    assert!(
        flat.contains("most writes, p95 stall up to 306 ms (2× least); within 5 %, least wear"),
        "{shown}"
    );
    assert!(flat.contains("ext4, 60 % full, 50 days "), "{shown}");
    assert!(shown.contains("USE  idle: the trimtab daemon trims"), "{shown}");
    assert!(
        flat.contains(
            "same answer under 8 of 9 other assumptions, except with other TRIM costs (then \
                batched)"
        ),
        "{shown}"
    );
    assert!(flat.contains("online: tree's 'delete' takes 3.41 s; none 53.0 ms"), "{shown}");
    // 32,400 is 5.9 % above 30,600; 9.1 are 11.7 % below 10.3.
    assert!(flat.contains("Fill 90 %: idle, 1.06× writes, wear -12 %"), "{shown}");
    // 36,240 is 4.7 % above 34,600; 7.35 cycles are 5.8 % below 7.8.
    let idle = shown.lines().find(|line| line.starts_with("idle <-")).unwrap();
    assert_eq!(
        idle.split_whitespace().collect::<Vec<_>>()[2..8],
        ["153", "36,200", "1.05×", "-6", "%", "trimtab"]
    );
}

/// The text of a report's answer, without its markup.
fn answer_of(html: &str) -> String {
    let answer = html
        .split("<section class=\"answer\"")
        .nth(1)
        .and_then(|rest| rest.split("</section>").next())
        .unwrap();
    let mut bare = String::new();
    let mut tag = false;
    for c in answer.chars() {
        match c {
            '<' => tag = true,
            '>' => (tag, bare) = (false, bare + " "),
            c if !tag => bare.push(c),
            _ => {}
        }
    }
    bare.replace("&lt;", "<").replace("&#39;", "'").replace("&gt;", ">")
}

/// Checks the ten rows of a section of tests/first_screen.md on the screen and in the
/// report's answer.
fn answers_ten_questions(section: &str, answer: &StudyAnswer, document: &Document) {
    let page = include_str!("tests/first_screen.md");
    let section = page.split("\n## ").find(|text| text.starts_with(section)).unwrap();
    let rows: Vec<&str> =
        section.lines().filter(|line| line.starts_with("| ") && line.contains("? |")).collect();
    assert_eq!(rows.len(), 10, "ten questions: {rows:?}");
    let shown = anstream::adapter::strip_str(&text::answer_at(answer, Some(80))).to_string();
    assert!(shown.lines().count() <= 23, "one screen of 24 lines, with the prompt:\n{shown}");
    let bare = answer_of(&html::render(document));
    for row in rows {
        let pieces: Vec<&str> =
            row.rsplit('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
        assert!(!pieces.is_empty(), "{row}");
        for piece in pieces {
            assert!(shown.contains(piece), "'{piece}' is not on the first screen:\n{shown}");
            // The report draws colons after labels, brackets and the arrow differently.
            for word in piece
                .split_whitespace()
                .map(|word| word.trim_matches([':', '(', ')']))
                .filter(|word| *word != "<-")
            {
                assert!(
                    bare.contains(word),
                    "'{word}' of '{piece}' is not in the answer of the report: {bare}"
                );
            }
        }
    }
}

/// First screens and reports contain all that tests/first_screen.md says of them.
#[test]
fn first_screen_answers_reader_questions() {
    let one = whole();
    answers_ten_questions(
        "One drive",
        &answer(&[Verdict::of(&one)], &around()),
        &document(&[Verdict::of(&one)], &around()),
    );
    let real = filesystem();
    answers_ten_questions(
        "A filesystem",
        &answer(&[Verdict::of(&real)], &around()),
        &document(&[Verdict::of(&real)], &around()),
    );
    let three = three();
    answers_ten_questions(
        "Three drives",
        &answer(&Verdict::all(&three), &around()),
        &document(&Verdict::all(&three), &around()),
    );
}

#[test]
fn first_screen_of_incomplete_study_has_an_answer() {
    let empty = Study { target: "/mnt/x".into(), ..Study::default() };
    assert!(screen(&empty, 80).contains("USE  no answer"), "{}", screen(&empty, 80));
    let mut only = whole();
    only.ageing.clear();
    only.sensitivity = None;
    only.untried = vec![OmittedPart {
        part: StudyPart::policy("online"),
        reason: OmissionReason::Obstacle("no root".into()),
    }];
    let shown = screen(&only, 80);
    assert!(
        shown.contains("run time, ") && shown.contains("USE  ") && shown.lines().count() <= 23,
        "{shown}"
    );
    for run in &mut only.runs {
        run.provenance = Provenance::Measured;
        run.environment =
            vec![Field::new("fs.type", "xfs"), Field::new("drive.model", "Samsung SSD 860")];
    }
    let shown = screen(&only, 80);
    assert!(
        shown.contains("MEASURED")
            && shown.contains("xfs, Samsung SSD 860")
            && shown.contains("no answer: one repeat cannot show a difference"),
        "{shown}"
    );
}

#[test]
fn first_screen_of_three_drives_fits_three_widths() {
    let shown = |width| {
        anstream::adapter::strip_str(&text::answer_at(
            &answer(&Verdict::all(&three()), &around()),
            Some(width),
        ))
        .to_string()
    };
    for width in [60, 80, 120] {
        assert!(
            shown(width)
                .lines()
                .all(|line| line.chars().count() <= width || line.starts_with("Report")),
            "{}",
            shown(width)
        );
        assert!(shown(width).lines().count() <= 23, "one screen:\n{}", shown(width));
        insta::assert_snapshot!(format!("three-drives-{width}"), shown(width));
    }
    let shown = shown(80);
    assert!(shown.contains("USE  idle on OCZ: the trimtab daemon"), "{shown}");
    assert!(
        shown.contains(
            "keep on SATA and NVMe: your setting; no policy gains 5 % in writes or wear\n"
        ),
        "{shown}"
    );
    let flat = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let sure = "same answer under other TRIM costs and fills, except OCZ with other TRIM costs \
        (then online), OCZ at b full (then no trimming)";
    assert!(flat.contains(sure), "{shown}");
}

#[test]
fn report_of_three_drives_shows_each_and_is_small() {
    let page = html::render(&document(&Verdict::all(&three()), &around()));
    for title in [
        "OCZ: what each policy costs and gains",
        "SATA: what each policy costs and gains",
        "NVMe: why, in full",
    ] {
        assert!(page.contains(title), "{title}");
    }
    assert!(page.len() < 1_500_000);
}
