//! The two lines of a picture, for any width. Nothing is broken: what there is no room for is left out, the least telling first.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns of the bar itself, at most; narrow screens have a shorter one.
const BAR: usize = 24;

/// What is done, the bar and how far it is, and as many of `words` as there is room for. The last column stays free: terminals wrap there.
pub fn first_line(what: &str, share: Option<f64>, words: &[String], columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let bar = share.map(|share| bar(share, BAR.min(columns / 5)));
    let percent = share.map(|share| format!("{:.0} %", (share * 100.0).floor()));
    // The title gives way first, to a third of the line.
    let needed: usize = bar.iter().chain(&percent).chain(words.first()).map(|part| part.width() + 2).sum();
    let title = shortened(what, room.saturating_sub(needed).max(room / 3));
    let head = match &bar {
        Some(bar) if title.width() + 1 + bar.width() <= room => format!("{title} {bar}"),
        _ => title,
    };
    let mut parts = percent.into_iter().chain(words.iter().cloned());
    let separator = if bar.is_some() { " " } else { ": " };
    let Some(first) = parts.next().filter(|first| head.width() + separator.len() + first.width() <= room) else { return head };
    with_what_fits(format!("{head}{separator}{first}"), parts, room)
}

/// What is going on below it: nothing, if there is nothing to say.
pub fn second_line(phase: &str, words: &[String], columns: usize) -> String {
    let room = columns.saturating_sub(1);
    let phase = shortened(phase, room.saturating_sub(2));
    let mut words = words.iter().cloned();
    let lead = match (phase.is_empty(), words.next()) {
        (true, None) => return String::new(),
        (true, Some(first)) => shortened(&format!("  {first}"), room),
        (false, Some(first)) if phase.width() + first.width() + 4 <= room => format!("  {phase}: {first}"),
        (false, _) => shortened(&format!("  {phase}"), room),
    };
    with_what_fits(lead, words, room)
}

/// `line`, then all of `parts` until one has no room.
fn with_what_fits(mut line: String, parts: impl Iterator<Item = String>, room: usize) -> String {
    for part in parts {
        if line.width() + 2 + part.width() > room {
            break;
        }
        line.push_str(", ");
        line.push_str(&part);
    }
    line
}

/// `[=====>    ]`
fn bar(share: f64, columns: usize) -> String {
    let filled = ((share.clamp(0.0, 1.0) * columns as f64) as usize).min(columns);
    let tip = usize::from(filled < columns);
    format!("[{}{}{}]", "=".repeat(filled), ">".repeat(tip), " ".repeat(columns - filled - tip))
}

/// `text` in at most so many columns, with a mark where some of it was left out.
fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        if short.width() + c.width().unwrap_or(0) + 1 > columns {
            break;
        }
        short.push(c);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(all: &[&str]) -> Vec<String> {
        all.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn what_matters_most_stays_on_narrow_screens() {
        let all = words(&["20 s left", "4.00 GB/8.00 GB", "200 MB/s"]);
        assert_eq!(first_line("crystal", Some(0.5), &all, 60), "crystal [======>     ] 50 %, 20 s left, 4.00 GB/8.00 GB");
        assert_eq!(first_line("crystal", Some(0.5), &all, 40), "crystal [====>   ] 50 %, 20 s left");
        assert_eq!(first_line("replaying", None, &all, 60), "replaying: 20 s left, 4.00 GB/8.00 GB, 200 MB/s");
        let now = words(&["12300/s", "p50 41.0 µs, p99 1.20 ms", "discards 1204, 3.20 GB"]);
        assert_eq!(second_line("delete", &now, 80), "  delete: 12300/s, p50 41.0 µs, p99 1.20 ms, discards 1204, 3.20 GB");
        assert_eq!(second_line("delete", &now, 60), "  delete: 12300/s, p50 41.0 µs, p99 1.20 ms");
        assert_eq!(second_line("", &[], 80), "");
        let long = first_line("a title that says far more than there is room for on one line", Some(0.25), &all, 60);
        assert!(long.contains('…') && long.contains("25 %") && long.contains("20 s left"), "{long}");
    }

    proptest! {
        #[test]
        fn no_line_reaches_the_last_column(what in "\\PC{0,80}", phase in "\\PC{0,40}", said in proptest::collection::vec("\\PC{0,30}", 0..5), share in proptest::option::of(-0.5_f64..1.5), columns in 2_usize..200) {
            for line in [first_line(&what, share, &said, columns), second_line(&phase, &said, columns)] {
                prop_assert!(line.width() < columns, "{columns}: {line}");
            }
        }
    }
}
