//! What was mended, in words.

use crate::mend::guided::{FixReport, RemedyOutcome};
use trimtab_linux::output::lines::prose;

/// The whole report.
pub fn text(report: &FixReport) -> String {
    let mut text = String::new();
    let mut say = |line: String| text += &prose(&line);
    for step in &report.steps {
        let lead = match step.outcome {
            RemedyOutcome::Done => "done",
            RemedyOutcome::Declined => "left as it is",
            RemedyOutcome::Planned => "would do",
        };
        say(format!("{lead}: {}", step.does.join("; then ")));
    }
    if report.steps.is_empty() {
        say("nothing that --fix can change".to_owned());
    }
    if let Some(proof) = &report.proof {
        say(format!("proof: {}", proof.text));
    }
    say(format!("{}: {}", report.subject, report.diagnosis.verdict.text));
    report.by_hand.iter().for_each(|step| say(format!("by hand: {}", step.text())));
    if report.steps.iter().any(|step| step.outcome == RemedyOutcome::Done && step.can_be_taken_back)
    {
        say("trimtab doctor --undo undoes it".to_owned());
    }
    if report.dry_run {
        say("dry run: nothing has been changed".to_owned());
    }
    text
}
