//! What a user asked for and cannot have, in words for that user.

mod similar;

pub use similar::similar;

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What was asked cannot be done as it was asked: a bad value, a bad combination, a missing consent (exit status 2), or a name behind which
/// there is nothing (exit status 1, as for everything that depends on what is there).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    message: String,
    hint: Option<String>,
    missing: bool,
}

impl UsageError {
    /// A usage error: what is wrong and where.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, missing: false }
    }

    /// What is named is well said, but not there or of another kind: a path, a drive, an attached drive.
    pub fn missing(message: impl Into<String>) -> Self {
        Self { missing: true, ..Self::new(message) }
    }

    /// What is wrong, without what to do.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do instead, if that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Whether it is only that nothing is there.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.missing
    }

    /// What to do instead.
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

/// A question about the names that may have been meant: `did you mean 'a' or 'b'?`; `None` without any.
#[must_use]
pub fn did_you_mean(names: &[&str]) -> Option<String> {
    let (last, others) = names.split_last()?;
    let quoted: Vec<String> = others.iter().map(|name| alloc::format!("'{name}'")).collect();
    let or = if quoted.is_empty() { "" } else { " or " };
    Some(alloc::format!("did you mean {}{or}'{last}'?", quoted.join(", ")))
}

/// That of the `known` words which is much like `word`, if there is one.
#[must_use]
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let near = |known: &&&str| edits(&word, known) * 2 < known.chars().count();
    known.iter().filter(near).min_by_key(|known| edits(&word, known)).copied()
}

/// How many characters have to be put in, taken out, replaced, or swapped with the next one (optimal string alignment distance). Of `a`
/// only as much is looked at as matters for names.
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

/// `text` as one word of a shell command. Names of devices and paths come from outside.
#[must_use]
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_word_survives_a_shell() {
        assert_eq!(quoted("vg-home"), "vg-home");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(reboot)'; x"), r"'$(reboot)'\''; x'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in
            [("idle", "idle", 0), ("", "idle", 4), ("idel", "idle", 1), ("dile", "idle", 1), ("ide", "idle", 1), ("idlex", "idle", 1)]
        {
            assert_eq!((edits(a, b), edits(b, a)), (n, n), "{a} {b}");
        }
        assert_eq!((edits("kitten", "sitting"), edits("ab", "ba"), edits("abc", "cab"), edits("xline", "online")), (3, 1, 2, 2));
        // Half of the letters wrong is no slip.
        assert_eq!((nearest("nonx", &["none"]), nearest("noxx", &["none"]), nearest("onlxxx", &["online"])), (Some("none"), None, None));
    }
}
