//! A study's output, as text and as JSON.

use crate::store::RunId;
use crate::store::shape::run::RunV1;
use serde::Serialize;
use trimtab_linux::output::Context;
use trimtab_report::study::Surroundings;
use trimtab_sim::run::Run;
use trimtab_study::study::sensitivity::Sensitivity;
use trimtab_study::study::untried::OmittedPart;
use trimtab_study::study::verdict::Verdict;
use trimtab_study::study::verdict::finding::{Finding, RecommendationReason};

/// The `--json` document; docs/method/stored-results.md defines its shape.
#[derive(Debug, Serialize)]
struct StudyV3<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RunId>,
    target: &'a str,
    complete: bool,
    /// The recommended policy; null if no single one is recommended.
    #[serde(rename = "use")]
    recommended: Option<&'static str>,
    verdict: &'a Verdict<'a>,
    why: &'a [RecommendationReason<'a>],
    evidence: &'a [Finding<'a>],
    caveats: &'a [Finding<'a>],
    untried: &'a [OmittedPart],
    runs: Vec<RunV1<'a>>,
    ageing: Vec<RunV1<'a>>,
    /// The assumptions that change the answer, if they were tested.
    sensitivity: Option<&'a Sensitivity>,
}

fn shape<'a>(id: Option<RunId>, verdict: &'a Verdict<'a>) -> StudyV3<'a> {
    let study = verdict.study();
    let shape_of = |run: &'a Run| RunV1::new(run, id.map(|_| RunId::of(run)));
    let shapes = |runs: &'a [Run]| -> Vec<RunV1<'a>> { runs.iter().map(shape_of).collect() };
    StudyV3 {
        id,
        target: &study.target,
        complete: study.complete,
        recommended: verdict.policy(),
        verdict,
        why: &verdict.reasons,
        evidence: &verdict.evidence,
        caveats: &verdict.caveats,
        untried: &study.untried,
        runs: shapes(&study.runs),
        ageing: shapes(&study.ageing),
        sensitivity: study.sensitivity.as_ref(),
    }
}

/// Prints studies that ran together, with their id if they are kept: the answer, or
/// everything with `details`.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(
    context: &Context,
    id: Option<RunId>,
    verdicts: &[Verdict<'_>],
    around: &Surroundings,
    details: bool,
) -> anyhow::Result<()> {
    let shown = || match details {
        true => trimtab_report::text::render(&trimtab_report::study::document(verdicts, around)),
        false => trimtab_report::text::answer(&trimtab_report::study::answer(verdicts, around)),
    };
    match verdicts {
        [verdict] => context.report_styled("study", 3, &shape(id, verdict), shown),
        _ => {
            let shapes: Vec<_> = verdicts.iter().map(|verdict| shape(id, verdict)).collect();
            let all = serde_json::json!({ "id": id, "studies": shapes });
            context.report_styled("study-overview", 2, &all, shown)
        }
    }
}
