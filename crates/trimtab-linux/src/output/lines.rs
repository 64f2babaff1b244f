//! Line wrapping: breaks only between words, and never between a number and its unit.

use super::{plain, plain_line};
use unicode_width::UnicodeWidthStr as _;

/// Terminal columns of `text`.
pub fn width_of(text: &str) -> usize {
    text.width()
}

/// The unbreakable parts of `text`: words, and numbers with their units.
pub fn atoms(text: &str) -> Vec<String> {
    let mut atoms: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match atoms.last_mut() {
            Some(before) if is_number(before) && is_unit(word) => {
                before.push(' ');
                before.push_str(word);
            }
            _ => atoms.push(word.to_owned()),
        }
    }
    atoms
}

/// `text` is a number that a unit may follow.
fn is_number(text: &str) -> bool {
    let number = text.trim_start_matches(['(', '<', '>', '~', '+', '-', '−', '≤', '≥', '\'', '"']);
    number.starts_with(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | 'e' | '-'))
}

fn is_unit(word: &str) -> bool {
    const UNITS: &str = "
        ns µs us ms s min h d days
        B kB MB GB TB PB KiB MiB GiB TiB bytes
        B/s kB/s MB/s GB/s MiB/s GiB/s /s ops/s writes/s operations/s IOPS
        % × x";
    let word = word.trim_end_matches([',', '~', ';', '.', ':', ')', '(', '!', '?', '\'', '"']);
    UNITS.split_whitespace().any(|unit| unit == word)
}

/// Wraps `text` to at most `width` columns; a longer atom gets its own line.
pub fn lines(text: &str, width: Option<usize>) -> Vec<String> {
    let width = width.unwrap_or(usize::MAX);
    let mut lines: Vec<String> = Vec::new();
    // Columns used in the last line; the line may be as long as the text.
    let mut taken = 0;
    for atom in atoms(text) {
        let more = width_of(&atom);
        match lines.last_mut() {
            Some(line) if taken + 1 + more <= width => {
                line.push(' ');
                line.push_str(&atom);
                taken += 1 + more;
            }
            _ => {
                taken = more;
                lines.push(atom);
            }
        }
    }
    lines
}

/// `text` with the prefix `first`, and `rest` on continuation lines, without control
/// characters. Line breaks in `text` are kept.
pub fn paragraph(text: &str, width: Option<usize>, first: &str, rest: &str) -> String {
    let mut shown = String::new();
    for (number, line) in plain(text).lines().enumerate() {
        let lead = if number == 0 { first } else { rest };
        // Without a width, nothing is wrapped and the spaces are kept.
        let Some(width) = width.filter(|width| width_of(lead) + width_of(line) > *width) else {
            shown.push_str(lead);
            shown.push_str(line);
            shown.push('\n');
            continue;
        };
        let room = width.saturating_sub(width_of(lead).max(width_of(rest))).max(1);
        for (at, part) in lines(line, Some(room)).iter().enumerate() {
            shown.push_str(if at == 0 { lead } else { rest });
            shown.push_str(part);
            shown.push('\n');
        }
    }
    shown
}

/// Wraps one line of text for standard output and adds a newline. A name in it cannot
/// forge another line.
pub fn prose(text: &str) -> String {
    paragraph(&plain_line(text), super::width(), "", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_with_line_feed_stays_one_line() {
        assert_eq!(prose("/a\n/b [ext4]: x\u{1b}"), "/a /b [ext4]: x\u{fffd}\n");
    }
}
