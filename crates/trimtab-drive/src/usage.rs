//! User-facing errors for requests that cannot be carried out.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A request that cannot be carried out: a bad value, a bad combination or a missing
/// consent (exit status 2), or a named object that does not exist (exit status 1, like
/// other errors that depend on the system's state).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    message: String,
    hint: Option<String>,
    missing: bool,
}

impl UsageError {
    /// Creates an error from a message that names the problem and its location.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, missing: false }
    }

    /// Creates an error for a well-formed name whose object does not exist or has the
    /// wrong type: a path, a drive, an attached drive.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { missing: true, ..Self::new(message) }
    }

    /// Error message without the hint.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Hint about an alternative, if any.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// True for an error created by [`missing`](Self::missing).
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.missing
    }

    /// Adds a hint about an alternative.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}; {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl core::error::Error for UsageError {}

/// Suggests the entry of `known` that has all words of `word`, if it is several, or else is
/// spelled most like it, if close enough: `did you mean 'a'?`
#[must_use]
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    let word = word.to_lowercase();
    let has_all = |known: &&&str| {
        word.contains('-') && word.split('-').all(|w| !w.is_empty() && known.contains(w))
    };
    let near = |known: &&&str| edits(&word, known) * 2 < known.chars().count();
    let likest = |fits: &dyn Fn(&&&str) -> bool| {
        known.iter().filter(fits).min_by_key(|known| edits(&word, known))
    };
    let nearest = likest(&has_all).or_else(|| likest(&near))?;
    Some(format!("did you mean '{nearest}'?"))
}

/// Suggests the nearest of the `known` names, or lists them all as `what`: `did you mean
/// 'poll'?`, `known settings: poll, quiet`.
#[must_use]
pub fn suggest(word: &str, what: &str, known: &[&str]) -> String {
    let list = if known.is_empty() { "none".into() } else { known.join(", ") };
    did_you_mean(word, known).unwrap_or_else(|| alloc::format!("known {what}: {list}"))
}

/// Optimal string alignment distance: insertions, deletions, substitutions and
/// transpositions. Compares only the first 64 characters of `a`.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = alloc::vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = alloc::vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

/// The character is plain text. Excluded are terminal controls (C0, DEL, C1), characters
/// that change the direction or position of the text around them, and line separators
/// other than the line feed. Line feeds and tabs are text.
#[must_use]
pub const fn is_text(c: char) -> bool {
    match c {
        '\n' | '\t' => true,
        '\u{061c}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => false,
        '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => false,
        _ => true,
    }
}

/// Quotes `text` as one shell word. Device names and paths are untrusted: line feeds and
/// characters that are not plain text become octal escapes in `$'…'`.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    let shows = |c: char| is_text(c) && !c.is_control();
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if text.chars().all(shows) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let escaped = text.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if shows(c) => String::from(c),
        c => c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")).collect(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_word_is_safe_in_shell() {
        assert_eq!(quoted("vg-home"), "vg-home");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(reboot)'; x"), r"'$(reboot)'\''; x'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("/a\n\u{1b}[2J'\\\u{202e}é"), r"$'/a\012\033[2J\'\\\342\200\256é'");
    }

    #[test]
    fn edits_match_known_distances() {
        for (a, b, n) in [
            ("idle", "idle", 0),
            ("", "idle", 4),
            ("idel", "idle", 1),
            ("dile", "idle", 1),
            ("ide", "idle", 1),
            ("idlex", "idle", 1),
        ] {
            assert_eq!((edits(a, b), edits(b, a)), (n, n), "{a} {b}");
        }
        assert_eq!(
            (
                edits("kitten", "sitting"),
                edits("ab", "ba"),
                edits("abc", "cab"),
                edits("xline", "online")
            ),
            (3, 1, 2, 2)
        );
        // Half of the letters wrong is not a typo.
        assert_eq!(did_you_mean("nonx", &["none"]).as_deref(), Some("did you mean 'none'?"));
        assert_eq!(did_you_mean("noxx", &["none"]), None);
        let drives = ["samsung-ssd-990-evo-1tb", "samsung-ssd-970-evo-500gb"];
        let said = did_you_mean("samsung-970-evo", &drives);
        assert_eq!(said.as_deref(), Some("did you mean 'samsung-ssd-970-evo-500gb'?"));
        assert_eq!(did_you_mean("onlxxx", &["online"]), None);
    }
}
