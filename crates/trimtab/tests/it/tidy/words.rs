//! Words that comments, messages and documents do not use.

use super::{all_sources, documents};
use std::fs;

/// Banned words and phrases, each with its replacement. The list only grows.
const BANNED: &[(&str, &str)] = &[
    ("anew", "again, or start over"),
    ("as it can be", "name the limit"),
    ("goes on", "continues"),
    ("lets go", "releases"),
    ("others wait", "foreground latency"),
    ("puts back", "restores"),
    ("so many", "the number, or a variable"),
    ("so much", "the amount, or a variable"),
    ("somebody", "name the process or user"),
    ("take back", "undo"),
    ("taken back", "undone"),
    ("takes back", "undoes"),
    ("what is there", "name it"),
    ("whoever", "name the caller"),
];

/// Positions of `phrase` as whole words.
fn contains(line: &str, phrase: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + phrase.len()..]);
        !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

#[test]
fn banned_words_are_found_as_whole_words_only() {
    assert!(contains("// begins anew.", "anew") && contains("anew", "anew"));
    assert!(
        !contains("// a new one", "anew")
            && !contains("fn anew_of()", "anew")
            && !contains("canew", "anew")
    );
}

#[test]
fn sources_and_documents_use_no_banned_words() {
    let page =
        |path: &std::path::PathBuf| (path.display().to_string(), fs::read_to_string(path).unwrap());
    let texts: Vec<(String, String)> =
        documents::all().iter().map(page).chain(all_sources()).collect();
    let mut found = Vec::new();
    for (name, text) in &texts {
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            let banned = BANNED.iter().filter(|(phrase, _)| contains(&lower, phrase));
            found.extend(
                banned.map(|(phrase, instead)| {
                    format!("{name}:{}: '{phrase}': {instead}", number + 1)
                }),
            );
        }
    }
    assert!(
        texts.len() > 450 && found.is_empty(),
        "in {} texts:\n{}",
        texts.len(),
        found.join("\n")
    );
}
