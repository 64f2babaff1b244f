//! The comparison in words: cells and sentences that the screen and Markdown share, and the Markdown.

use super::comparison::{Comparison, Order};
use super::score::{FITTED_TARGET_PERCENT, Figure, Kind, Outcome, PREDICTED_TARGET_PERCENT, Row, Tally};
use std::fmt::Write as _;
use trimtab_drive::units::three_digits;
use trimtab_linux::output::lines::paragraph;

/// Columns of a paragraph of Markdown.
const MARKDOWN_COLUMNS: usize = 100;

/// The score as rows of a table: what, within its target, as read only, off, not produced, of.
pub fn tallies(comparison: &Comparison) -> Vec<[String; 6]> {
    let score = &comparison.score;
    let line = |what: String, tally: &Tally| {
        let [within, as_read, off, missing, total] =
            [tally.within, tally.as_read, tally.off, tally.missing, tally.total()].map(|n| n.to_string());
        [what, within, as_read, off, missing, total]
    };
    vec![
        line(format!("predicted, within {PREDICTED_TARGET_PERCENT} %"), &score.predicted),
        line(format!("predicted on drives held out, within {PREDICTED_TARGET_PERCENT} %"), &score.held_out),
        line(format!("fitted, within {FITTED_TARGET_PERCENT} %"), &score.fitted),
    ]
}

/// Heads of [`tallies`].
pub const TALLY_HEAD: [&str; 6] = ["figures", "within", "as read only", "off", "not produced", "of"];
/// Heads of [`cells`].
pub const FIGURE_HEAD: [&str; 5] = ["figure", "published", "modelled", "off", "counts"];

/// What else is to be known of the score.
pub fn notes(comparison: &Comparison) -> Vec<String> {
    let score = &comparison.score;
    let independent = score.predicted.total() + score.held_out.total() + score.fitted.total();
    let mut notes = vec![format!(
        "{} free parameters, fitted on these figures or chosen with them in view, stand against {independent} independent figures. {} figures are \
         shown only, because they follow from others or cannot be missed; {} more say what a row before says and count there, by the worst of them.",
        score.parameters, score.not_scored, score.repeats
    )];
    for past in &comparison.history {
        let of = |[within, rest @ ..]: [usize; 4]| format!("{within} of {}", within + rest.iter().sum::<usize>());
        let [predicted, held_out, fitted] = [past.predicted, past.held_out, past.fitted].map(of);
        notes.push(format!(
            "Until {}: {predicted} predicted, {held_out} held out, {fitted} fitted. What was otherwise: {}.",
            past.until, past.why
        ));
    }
    if score.fitted_after_a_miss > 0 {
        notes.push(format!("{} of the fitted figures were predictions first, and missed.", score.fitted_after_a_miss));
    }
    let held: Vec<&str> = comparison.rows.iter().filter(|row| row.held_out.is_some()).map(|row| row.name.as_str()).collect();
    if !held.is_empty() {
        notes.push(format!("Held out of all fitting: {}.", held.join("; ")));
    }
    notes
}

/// A figure as cells; names are broken at their underscores only on the screen.
pub fn cells(figure: &Figure) -> [String; 5] {
    let modelled = figure.modelled.map_or_else(|| "none".to_owned(), |modelled| three_digits(modelled).replace("-0.00", "0.00"));
    let off = figure.deviation_percent.map_or_else(String::new, |off| format!("{off:+.0} %").replace("-0 %", "+0 %"));
    [figure.name.clone(), figure.published.clone(), modelled, off, counts(figure)]
}

fn counts(figure: &Figure) -> String {
    let word = |outcome| match outcome {
        Outcome::Within => "met",
        Outcome::AsRead => "as read only",
        Outcome::Off => "MISSED",
        Outcome::Missing => "MISSED: not produced",
    };
    let as_well =
        if figure.counted == figure.outcome { String::new() } else { format!(", counted {} for a row below", word(figure.counted)) };
    match &figure.kind {
        Kind::Predicted => format!("predicted: {}{as_well}", word(figure.outcome)),
        Kind::HeldOut => format!("held out: {}{as_well}", word(figure.outcome)),
        Kind::Fitted { parameter } => format!("fitted by {parameter}: {}{as_well}", word(figure.outcome)),
        Kind::Repeats { row } => format!("repeats {row}"),
        Kind::NotScored { reason } => format!("not scored: {reason}"),
    }
}

/// Remarks of a row: on itself and on its figures.
pub fn remarks(row: &Row) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(row.held_out.as_ref().map(|why| format!("Held out: {why}.")));
    remarks.extend(row.trim_of.as_ref().map(|other| format!("Its TRIM costs what that of {other} does, by rule.")));
    for figure in &row.figures {
        remarks.extend(figure.missed_before.as_ref().map(|what| format!("{}: {what}.", figure.name)));
        remarks.extend(figure.remark.as_ref().map(|remark| format!("{}: {remark}.", figure.name)));
    }
    remarks
}

/// Name, drive and publication of a row.
pub fn publication(row: &Row) -> String {
    format!("{}. Compared as decided on {}.", row.source, row.frozen)
}

/// The comparison as Markdown.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = String::from(HEAD);
    for words in WORDS {
        let _ = write!(text, "\n{}", paragraph(words, Some(MARKDOWN_COLUMNS), "", ""));
    }
    text.push('\n');
    table(&mut text, &TALLY_HEAD, tallies(comparison).iter().map(<[String; 6]>::as_slice));
    for note in notes(comparison) {
        let _ = writeln!(text, "{note}\n");
    }
    let mut workload = "";
    for row in &comparison.rows {
        if row.workload != workload {
            workload = row.workload;
            let _ = writeln!(text, "## {}\n", title(workload));
        }
        let _ = writeln!(text, "### {} (`{}`)\n\n{}\n", row.name, row.drive, publication(row));
        let cells: Vec<[String; 5]> =
            row.figures.iter().map(|figure| cells(figure).map(|cell| cell.replace("MISSED", "**missed**"))).collect();
        table(&mut text, &FIGURE_HEAD, cells.iter().map(<[String; 5]>::as_slice));
        let remarks = remarks(row);
        for remark in &remarks {
            let _ = writeln!(text, "* {remark}");
        }
        if !remarks.is_empty() {
            text.push('\n');
        }
    }
    if !comparison.orders.is_empty() {
        text.push_str("## Which is slower\n\nNot scored: these follow from figures above.\n\n");
        let orders = orders(comparison);
        table(&mut text, &ORDER_HEAD, orders.iter().map(<[String; 5]>::as_slice));
    }
    text.trim_end().to_owned() + "\n"
}

/// Heads of [`orders`].
pub const ORDER_HEAD: [&str; 5] = ["row", "ratio", "published", "modelled", "right"];

/// The orders as cells.
pub fn orders(comparison: &Comparison) -> Vec<[String; 5]> {
    let line = |order: &Order| {
        let right = if order.right { "yes" } else { "no" };
        [
            order.name.clone(),
            order.figure.to_owned(),
            three_digits(order.published_ratio),
            three_digits(order.modelled_ratio),
            right.to_owned(),
        ]
    };
    comparison.orders.iter().map(line).collect()
}

fn table<'a>(text: &mut String, head: &[&str], rows: impl Iterator<Item = &'a [String]>) {
    let rule: Vec<&str> = head.iter().enumerate().map(|(at, _)| if (1..4).contains(&at) { "---:" } else { "---" }).collect();
    let _ = writeln!(text, "| {} |\n|{}|", head.join(" | "), rule.join("|"));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push('\n');
}

/// What a table of the published file is of.
pub fn title(workload: &str) -> &'static str {
    match workload {
        "postmark" => "PostMark",
        "tree" => "Unpacking and deleting a tree",
        "fstrim" => "Trimming a filesystem",
        "crystaldiskmark" => "CrystalDiskMark in rounds",
        "sustained" => "Sequential writes until the drive is full",
        "recovery" => "What a trim brings back",
        _ => "Ageing",
    }
}

/// The meaning of the words, for the screen and for Markdown.
pub const WORDS: [&str; 4] = [
    "A figure is fitted if a parameter of the drive or filesystem was set by it. The parameter is named, and the figure says nothing about the model. \
     All other figures are predicted. Those of drives on which nothing was fitted are held out, and scored apart. A figure that the model does not \
     produce is missed.",
    "'off' is the model's figure against the published one, or against the nearest end of a published range. A figure is met if it is off by no more than \
     its target. 'As read only' is not met, but within what the published reading can stand for: PostMark's times are differences of a clock of \
     whole seconds, so 1 stands for anything from 0 to 2. Figures on which the model says the same on the same drive count once, by the worst.",
    "What is compared, and what counts as what, stands in a file that is dated and not changed because of results (frozen.toml). Entries of 2026-11-21 were \
     written while the figures were being compared, so what they predict is no blind prediction. MB = 10^6 bytes.",
    "Not compared: the counts of PostMark, which are exact and a property of the workload (tested elsewhere), and the figures of whole NAS systems, which \
     are no drives.",
];

const HEAD: &str = "\
# Published measurements and what the models show

Written by `make validate COMPARISONS=published`. The published figures are `results.toml` and
`reviews.toml` in `crates/validate/src/published`, their sources `sources.toml`.
[method/published.md](method/published.md) has what became of the score.
";
