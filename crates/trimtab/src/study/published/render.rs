//! The comparison as a document: Markdown, which is also what a terminal shows.

use super::{Comparison, FITTED_TARGET_PERCENT, Figure, PREDICTED_TARGET_PERCENT};
use std::fmt::Write as _;
use trimtab_core::units::three_digits;

/// The sentences above the tables.
fn head(comparison: &Comparison) -> String {
    let figures: Vec<&Figure> = comparison.rows.iter().flat_map(|row| &row.figures).collect();
    let count = |fitted: bool| {
        let these = figures.iter().filter(|figure| figure.fitted.is_some() == fitted);
        let met = these.clone().filter(|figure| figure.met).count();
        format!("{met} of {}", these.count())
    };
    let right = comparison.orders.iter().filter(|order| order.right).count();
    format!(
        "Predicted figures within {PREDICTED_TARGET_PERCENT} %: {}. Fitted figures within {FITTED_TARGET_PERCENT} %: {}. Order of policies right: {right} of {}.",
        count(false),
        count(true),
        comparison.orders.len()
    )
}

/// The comparison as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = String::from(INTRODUCTION);
    let _ = writeln!(text, "{}\n", head(comparison));
    let mut workload = "";
    for row in &comparison.rows {
        if row.workload != workload {
            workload = row.workload;
            let _ = writeln!(text, "## {}\n", title(workload));
        }
        let _ = writeln!(text, "### {} (`{}`)\n", row.name, row.drive);
        text.push_str("| figure | published | modelled | off | kind | met |\n|---|---:|---:|---:|---|---|\n");
        for figure in &row.figures {
            let _ = writeln!(text, "{}", line(figure));
        }
        text.push('\n');
        for figure in &row.figures {
            if let Some(remark) = &figure.remark {
                let _ = writeln!(text, "* {}: {remark}", figure.name);
            }
        }
        if row.figures.iter().any(|figure| figure.remark.is_some()) {
            text.push('\n');
        }
    }
    if !comparison.orders.is_empty() {
        text.push_str(
            "## Order of policies\n\nOnline discard by none.\n\n| row | figure | published | modelled | right |\n|---|---|---:|---:|---|\n",
        );
        for order in &comparison.orders {
            let (published, modelled) = (three_digits(order.published_ratio), three_digits(order.modelled_ratio));
            let right = if order.right { "yes" } else { "**no**" };
            let _ = writeln!(text, "| {} | {} | {published} | {modelled} | {right} |", order.name, order.figure);
        }
    }
    text
}

fn line(figure: &Figure) -> String {
    let kind = figure.fitted.as_ref().map_or_else(|| "predicted".to_owned(), |field| format!("fitted: {field}"));
    let inside = figure.deviation_percent.abs() <= figure.target_percent;
    let met = match (figure.met, inside) {
        (true, true) => "yes",
        (true, false) => "as read",
        (false, _) => "**no**",
    };
    let off = format!("{:+.0} %", figure.deviation_percent).replace("-0 %", "+0 %");
    format!("| {} | {} | {} | {off} | {kind} | {met} |", figure.name, figure.published, three_digits(figure.modelled))
}

fn title(workload: &str) -> &'static str {
    match workload {
        "postmark" => "PostMark",
        "tree" => "Unpacking and deleting a tree",
        "fstrim" => "Trimming a filesystem",
        "crystaldiskmark" => "CrystalDiskMark in rounds",
        _ => "Ageing",
    }
}

const INTRODUCTION: &str = "\
# Published measurements and what the models show

Written by `trimtab study --published --markdown docs/published.md`; what each figure was published for is in
`crates/trimtab/src/study/published/results.toml`, how it is tried in `configurations.toml` beside it.

A *fitted* figure is one that a parameter of the drive or filesystem was set by, which is named: it says nothing about the model. All others
are *predicted*. *off* is the model's figure against the published one, or against the nearest end of a published range. A figure is met
if it is off by no more than the target, or *as read* if it lies within what the published reading can stand for: PostMark's times are
differences of a clock of whole seconds, so 1 stands for anything from 0 to 2. MB = 10^6 bytes.

Not compared: what the trim of the older Intel drive won back, and the figures of whole NAS systems, which are no drives.

";
