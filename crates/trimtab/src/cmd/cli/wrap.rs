//! Text below the options: joins paragraphs and wraps them to the terminal width.
//! Examples and tables keep their lines.

use trimtab_linux::output::lines::paragraph;

/// Wider lines are hard to read.
pub(super) const WIDTH_MAX: usize = 100;
/// A longer source line was broken for the source width and continues on the next line.
pub(super) const PROSE_MIN: usize = 72;
/// Lines indented further continue the right-hand column of the line above.
const COLUMN_MIN: usize = 24;
/// Indentation of an example's meaning when it moves to the next line.
const BELOW: &str = "    ";
/// Indentation of continuation lines.
const HANGING: &str = "  ";

/// `text` with its paragraphs joined and wrapped to `width`.
pub(super) fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in joined(text) {
        let lead = &line[..indent(&line)];
        let hanging = if lead.is_empty() { String::new() } else { format!("{lead}{HANGING}") };
        let fits = line.chars().count() <= width;
        match (line.trim(), line.trim().split_once("   ").filter(|_| !fits)) {
            ("", _) => out.push('\n'),
            // The meaning goes below, so that the end of the example stays visible.
            (_, Some((row, meaning))) => {
                let below = format!("{lead}{BELOW}");
                out.push_str(&paragraph(row, Some(width), lead, &hanging));
                out.push_str(&paragraph(meaning.trim(), Some(width), &below, &below));
            }
            (words, None) => out.push_str(&paragraph(words, Some(width), lead, &hanging)),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The lines of `text`, with each paragraph joined into one line.
fn joined(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // True while the previous source line ended only because it was full.
    let mut open = false;
    for line in text.lines() {
        let same_indent = lines.last().is_some_and(|last| indent(last) == indent(line));
        // Only continuations of a right-hand column are indented this far.
        let column = indent(line) > COLUMN_MIN && lines.last().is_some_and(|last| !last.is_empty());
        let goes_on = (column || (open && same_indent))
            && !line.trim().is_empty()
            && !is_command(line)
            && !is_row(line);
        match lines.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(line.trim());
            }
            _ => lines.push(line.to_owned()),
        }
        open = line.chars().count() > PROSE_MIN && !is_command(line) && !is_row(line);
    }
    lines
}

fn is_command(line: &str) -> bool {
    let first = line.trim_start();
    ["trimtab ", "sudo ", "echo ", "fio "].iter().any(|program| first.starts_with(program))
}

/// A row of a table: an entry, a gap, and its meaning.
fn is_row(line: &str) -> bool {
    line.trim().contains("   ")
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_joins_paragraphs_but_not_examples() {
        let text = "Everything happens in virtual time: the same drive, workload and seed give \
            the same figures on every machine; only\nthe time and the id differ.\n\n\
            Examples:\n  trimtab a --option one                             what that \
            does\n  trimtab b";
        let shown = wrapped(text, 60);
        assert_eq!(
            shown,
            "Everything happens in virtual time: the same drive, workload\n\
                and seed give the same figures on every machine; only the\n\
                time and the id differ.\n\n\
                Examples:\n  trimtab a --option one\n      what that does\n  trimtab b"
        );
        assert_eq!(wrapped("short\nlines\nstay", 60), "short\nlines\nstay");
        assert_eq!(wrapped("", 60), "");
    }
}
