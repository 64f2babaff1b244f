//! Formats the comparison: cells and sentences for the screen, and the Markdown document.

use super::comparison::{Order, PublishedComparison};
use super::score::{
    FITTED_TARGET_PERCENT, FigureKind, FigureOutcome, PREDICTED_TARGET_PERCENT, PublishedFigure,
    ScoreRow, Tally,
};
use super::spec::PastScore;
use std::fmt::Write as _;
use std::ops::Range;
use trimtab_drive::units::three_digits;
use trimtab_linux::output::lines::paragraph;

const MARKDOWN_COLUMNS: usize = 100;

/// Score as table rows: kind, within target, as read only, off, not produced, total.
pub fn tallies(comparison: &PublishedComparison) -> Vec<[String; 6]> {
    let score = &comparison.score;
    let line = |what: String, tally: &Tally| {
        let [within, as_read, off, missing, total] =
            [tally.within, tally.as_read, tally.off, tally.missing, tally.total()]
                .map(|n| n.to_string());
        [what, within, as_read, off, missing, total]
    };
    vec![
        line(format!("predicted, within {PREDICTED_TARGET_PERCENT} %"), &score.predicted),
        line(
            format!("predicted on drives held out, within {PREDICTED_TARGET_PERCENT} %"),
            &score.held_out,
        ),
        line(format!("fitted, within {FITTED_TARGET_PERCENT} %"), &score.fitted),
    ]
}

/// Header of [`tallies`].
pub const TALLY_HEAD: [&str; 6] =
    ["figures", "within", "as read only", "off", "not produced", "of"];
/// Header of [`cells`].
pub const FIGURE_HEAD: [&str; 5] = ["figure", "published", "modelled", "off", "counts"];

/// Notes on the score.
pub fn notes(comparison: &PublishedComparison) -> Vec<String> {
    let score = &comparison.score;
    let independent = score.predicted.total() + score.held_out.total() + score.fitted.total();
    let mut notes = vec![format!(
        "{} free parameters, fitted to these figures or chosen with knowledge of \
            them, compare with {independent} independent figures. {} figures are only \
            shown, because they follow from others or cannot be missed; {} more repeat an \
            earlier row and count there, with the worst outcome.",
        score.parameters, score.not_scored, score.repeats
    )];
    if score.fitted_after_a_miss > 0 {
        notes.push(format!(
            "{} of the fitted figures were failed predictions before.",
            score.fitted_after_a_miss
        ));
    }
    let held: Vec<&str> = comparison
        .rows
        .iter()
        .filter(|row| row.held_out.is_some())
        .map(|row| row.name.as_str())
        .collect();
    if !held.is_empty() {
        notes.push(format!("Held out of all fitting: {}.", held.join("; ")));
    }
    notes
}

/// Scores before what is compared was changed, for the screen.
pub fn earlier_scores(comparison: &PublishedComparison) -> Vec<String> {
    let earlier = |past: &PastScore| {
        let of = |[within, rest @ ..]: [usize; 4]| {
            format!("{within} of {}", within + rest.iter().sum::<usize>())
        };
        let [predicted, held_out, fitted] = [past.predicted, past.held_out, past.fitted].map(of);
        format!(
            "Until {}: {predicted} predicted, {held_out} held out, {fitted} fitted. \
            Difference: {}.",
            past.until, past.why
        )
    };
    comparison.history.iter().map(earlier).collect()
}

/// A figure as cells; only the screen breaks names at underscores.
pub fn cells(figure: &PublishedFigure) -> [String; 5] {
    let modelled = figure.modelled.map_or_else(
        || "none".to_owned(),
        |modelled| three_digits(modelled).replace("-0.00", "0.00"),
    );
    let off = figure
        .deviation_percent
        .map_or_else(String::new, |off| format!("{off:+.0} %").replace("-0 %", "+0 %"));
    [figure.name.clone(), figure.published.clone(), modelled, off, counts(figure)]
}

fn counts(figure: &PublishedFigure) -> String {
    let word = |outcome| match outcome {
        FigureOutcome::Within => "met",
        FigureOutcome::AsRead => "as read only",
        FigureOutcome::Off => "MISSED",
        FigureOutcome::Missing => "MISSED: not produced",
    };
    let as_well = if figure.counted == figure.outcome {
        String::new()
    } else {
        format!(", counted {} for a row below", word(figure.counted))
    };
    match &figure.kind {
        FigureKind::Predicted => format!("predicted: {}{as_well}", word(figure.outcome)),
        FigureKind::HeldOut => format!("held out: {}{as_well}", word(figure.outcome)),
        FigureKind::Fitted { parameter } => {
            format!("fitted by {parameter}: {}{as_well}", word(figure.outcome))
        }
        FigureKind::Repeats { row } => format!("repeats {row}"),
        FigureKind::NotScored { reason } => format!("not scored: {reason}"),
    }
}

/// Remarks on a row and on its figures.
pub fn remarks(row: &ScoreRow) -> Vec<String> {
    let mut remarks = Vec::new();
    remarks.extend(row.held_out.as_ref().map(|why| format!("Held out: {why}.")));
    remarks.extend(
        row.trim_of.as_ref().map(|other| format!("Its TRIM costs are those of {other}, by rule.")),
    );
    for figure in &row.figures {
        let explained = [&figure.missed_before, &figure.remark].into_iter().flatten();
        remarks.extend(explained.map(|remark| format!("{}: {remark}.", figure.name)));
    }
    remarks
}

/// Remarks on a figure as one text; empty without one.
pub fn remark(figure: &PublishedFigure) -> String {
    let remarks: Vec<&str> =
        [&figure.missed_before, &figure.remark].into_iter().flatten().map(String::as_str).collect();
    remarks.join("; ")
}

/// Name, drive and publication of a row.
pub fn publication(row: &ScoreRow) -> String {
    format!("{}. Comparison frozen on {}.", row.source, row.frozen)
}

/// The comparison as Markdown.
pub fn markdown(comparison: &PublishedComparison) -> String {
    let mut text = String::from(HEAD);
    for words in WORDS {
        let _ = write!(text, "\n{}", paragraph(words, Some(MARKDOWN_COLUMNS), "", ""));
    }
    text.push('\n');
    table(&mut text, &TALLY_HEAD, 1..6, tallies(comparison).iter().map(<[String; 6]>::as_slice));
    for note in notes(comparison) {
        let _ = writeln!(text, "{note}\n");
    }
    let missed: Vec<[String; 7]> = comparison.rows.iter().flat_map(misses).collect();
    if !missed.is_empty() {
        text.push_str("## Misses\n\n");
        table(&mut text, &MISS_HEAD, 3..6, missed.iter().map(<[String; 7]>::as_slice));
    }
    if !comparison.orders.is_empty() {
        text.push_str("## Slower of two\n\nNot scored: follows from other figures.\n\n");
        let orders = orders(comparison);
        table(&mut text, &ORDER_HEAD, 2..4, orders.iter().map(<[String; 5]>::as_slice));
    }
    text.push_str("## Sources\n\n");
    let mut sources: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        if !sources.contains(&row.source.as_str()) {
            sources.push(&row.source);
        }
    }
    for source in sources {
        let _ = writeln!(text, "* {source}");
    }
    text.trim_end().to_owned() + "\n"
}

const MISS_HEAD: [&str; 7] = ["row", "figure", "class", "published", "modelled", "off", "reason"];

/// The scored figures of a row that the model misses.
fn misses(row: &ScoreRow) -> Vec<[String; 7]> {
    let miss = |figure: &PublishedFigure| {
        let class = match figure.kind {
            FigureKind::Predicted => "predicted",
            FigureKind::HeldOut => "held out",
            FigureKind::Fitted { .. } => "fitted",
            FigureKind::Repeats { .. } | FigureKind::NotScored { .. } => return None,
        };
        let is_missed = matches!(figure.outcome, FigureOutcome::Off | FigureOutcome::Missing);
        let [name, published, modelled, off, _] = cells(figure);
        let reason = remark(figure);
        is_missed
            .then(|| [row.name.clone(), name, class.to_owned(), published, modelled, off, reason])
    };
    row.figures.iter().filter_map(miss).collect()
}

/// Header of [`orders`].
pub const ORDER_HEAD: [&str; 5] = ["row", "ratio", "published", "modelled", "right"];

/// Orders as cells.
pub fn orders(comparison: &PublishedComparison) -> Vec<[String; 5]> {
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

/// Appends a table whose columns `numbers` are aligned to the right.
fn table<'a>(
    text: &mut String,
    head: &[&str],
    numbers: Range<usize>,
    rows: impl Iterator<Item = &'a [String]>,
) {
    let rule: Vec<&str> = head
        .iter()
        .enumerate()
        .map(|(at, _)| if numbers.contains(&at) { "---:" } else { "---" })
        .collect();
    let _ = writeln!(text, "| {} |\n|{}|", head.join(" | "), rule.join("|"));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text.push('\n');
}

/// Title of a table of the published files.
pub fn title(workload: &str) -> &'static str {
    match workload {
        "postmark" => "PostMark",
        "tree" => "Unpacking and deleting a tree",
        "fstrim" => "Trimming a filesystem",
        "crystaldiskmark" => "CrystalDiskMark in rounds",
        "sustained" => "Sequential writes until the drive is full",
        "recovery" => "Recovery after a trim",
        _ => "Ageing",
    }
}

/// Glossary for screen and Markdown.
pub const WORDS: [&str; 4] = [
    "A figure is fitted if a parameter, which is named, was set with it; it says nothing \
        about the model. All other figures are predicted. Predictions on drives without any \
        fitted parameter are held out and scored separately. A figure that the model does not \
        produce is missed.",
    "'off' is the deviation from the published figure, or from the nearest end of a \
        published range. A figure is met if it is within its target. 'As read only' is outside \
        it, but within the uncertainty of the reading: PostMark's times are differences of \
        whole seconds, so 1 means 0 to 2. Figures with the same modelled value on the same \
        drive count once, with the worst outcome.",
    "A dated file that is not changed because of results (frozen.toml) defines what is \
        compared and how it counts. Entries of 2026-11-21 were written while the figures were \
        being compared, so their predictions are not blind. MB = 10^6 bytes.",
    "Not compared: the counts of PostMark, which are exact and tested elsewhere, and whole \
        NAS systems, which are not drives.",
];

const HEAD: &str = "\
# Published and modelled measurements

This page has the score of the model against published measurements ([method](method/published.md))
and every miss; [published.csv](published.csv) has every figure. `make validate
COMPARISONS=published` writes both from the data in `crates/validate/src/published`.
";
