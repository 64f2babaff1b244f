//! Names of tests.

use super::{crate_folder, of_a_name, rust_files};
use std::fs;

/// Longest name of a test, in characters.
const NAME_MAX: usize = 60;
/// Words that hide the subject of a test.
const FIRST_WORDS: [&str; 10] =
    ["a", "an", "it", "nobody", "somebody", "the", "what", "which", "who", "whoever"];
const WORDS: [&str; 4] = ["anew", "beside", "taken", "told"];

/// The names of the functions that follow `#[test]` in a text, with other attributes and
/// comments between them.
fn tests_in(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices("#[test]\n") {
        let lines = text[at..].lines().skip(1).map(str::trim_start);
        let function = lines
            .take(8)
            .find_map(|line| line.strip_prefix("fn ").or_else(|| line.strip_prefix("pub fn ")));
        names.extend(function.map(|rest| rest.chars().take_while(|c| of_a_name(*c)).collect()));
    }
    names
}

#[test]
fn test_names_are_short_and_name_their_subject() {
    let mut files = Vec::new();
    rust_files(&crate_folder(""), &mut files);
    let mut names = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        names.extend(tests_in(&text).into_iter().map(|name| (path.display().to_string(), name)));
    }
    let is_odd = |name: &str| {
        let mut words = name.split('_');
        name.len() > NAME_MAX
            || words.next().is_some_and(|word| FIRST_WORDS.contains(&word))
            || words.any(|word| WORDS.contains(&word))
    };
    let odd: Vec<&(String, String)> = names.iter().filter(|(_, name)| is_odd(name)).collect();
    assert!(
        names.len() > 1500 && odd.is_empty(),
        "rename these of {} tests: {odd:#?}",
        names.len()
    );
}
