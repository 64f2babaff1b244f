//! Known names that share words: `samsung-970-evo` suggests `samsung-ssd-970-evo-500gb`.

use super::{edits, nearest};
use alloc::string::String;
use alloc::vec::Vec;

const SUGGESTED_MAX: usize = 3;
/// Minimum weighted share of matching words.
const SHARE_MIN: f64 = 0.2;
/// Weight of a word with a typo.
const SLIP: f64 = 0.7;
/// Units of capacities, joined with the preceding number.
const UNITS: [&str; 5] = ["mb", "gb", "tb", "gib", "tib"];
/// Weight of a capacity, which does not distinguish models.
const CAPACITY: f64 = 0.5;
/// Minimum length of a word with a typo: `sn770` and `sn850` are different models.
const SLIP_LENGTH_MIN: usize = 4;

/// Up to three entries of `known` that are most similar to `asked` and equally so. Rare
/// words have more weight. Without a common word, falls back to the
/// [`nearest`](super::nearest) spelling.
#[must_use]
pub fn similar<'a>(asked: &str, known: &[&'a str]) -> Vec<&'a str> {
    let wanted = words(asked);
    let all: Vec<Vec<String>> = known.iter().map(|name| words(name)).collect();
    let weight = |word: &String| {
        let holders = all.iter().filter(|words| words.contains(word)).count();
        let capacity = word.starts_with(char::is_numeric) && word.ends_with(char::is_alphabetic);
        libm::log((all.len() + 1) as f64 / (holders + 1) as f64)
            * if capacity { CAPACITY } else { 1.0 }
    };
    let weights: Vec<f64> = wanted.iter().map(weight).collect();
    let total: f64 = weights.iter().sum();
    let share = |words: &Vec<String>| {
        let matched = wanted.iter().zip(&weights).map(|(word, weight)| {
            weight * words.iter().map(|other| likeness(word, other)).fold(0.0, f64::max)
        });
        matched.sum::<f64>() / total
    };
    let shares: Vec<f64> = all.iter().map(share).collect();
    let best = shares.iter().copied().fold(0.0, f64::max);
    if best < SHARE_MIN {
        return nearest(asked, known).into_iter().collect();
    }
    let mut found: Vec<usize> = (0..known.len()).filter(|at| shares[*at] > best - 1e-9).collect();
    found.sort_by_key(|at| (all[*at].len(), edits(asked, known[*at])));
    found.into_iter().take(SUGGESTED_MAX).map(|at| known[at]).collect()
}

/// Splits a name into words, numbers and capacities: `sn850x-1tb` is `sn`, `850`, `x`,
/// `1tb`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for letter in name.chars().take(64).flat_map(char::to_lowercase) {
        let kind = letter.is_alphanumeric().then(|| letter.is_numeric());
        match words.last_mut().filter(|_| kind == before) {
            Some(word) if kind.is_some() => word.push(letter),
            _ if kind.is_some() => words.push(letter.into()),
            _ => {}
        }
        before = kind;
    }
    for at in (1..words.len()).rev() {
        if UNITS.contains(&words[at].as_str()) && words[at - 1].ends_with(char::is_numeric) {
            let unit = words.remove(at);
            words[at - 1].push_str(&unit);
        }
    }
    words
}

/// Similarity of two words: 1 if equal, less with a typo or for a substring.
fn likeness(asked: &str, known: &str) -> f64 {
    let numbers = asked.starts_with(char::is_numeric) || known.starts_with(char::is_numeric);
    let length = asked.chars().count().min(known.chars().count());
    if asked == known {
        1.0
    } else if numbers || length < SLIP_LENGTH_MIN {
        0.0
    } else if known.contains(asked)
        || asked.contains(known)
        || edits(asked, known) * SLIP_LENGTH_MIN <= length
    {
        SLIP
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVES: [&str; 12] = [
        "crucial-m4-128gb",
        "crucial-m4-512gb",
        "ocz-vertex-2-le-100gb",
        "ocz-vertex-le-100gb",
        "ocz-vertex-le-200gb",
        "samsung-ssd-970-evo-500gb",
        "samsung-ssd-970-pro-512gb",
        "samsung-ssd-980-pro-1tb",
        "samsung-ssd-990-evo-1tb",
        "skhynix-pc711-nvme-512gb",
        "wd-black-sn770-1tb",
        "wd-black-sn850x-1000gb",
    ];

    #[test]
    fn similar_names_share_most_words() {
        for (asked, expected) in [
            ("samsung-970-evo", "samsung-ssd-970-evo-500gb"),
            ("Samsung SSD 970 EVO 1TB", "samsung-ssd-970-evo-500gb"),
            ("970evo", "samsung-ssd-970-evo-500gb"),
            ("samsung_980pro", "samsung-ssd-980-pro-1tb"),
            ("samsng-990-evo", "samsung-ssd-990-evo-1tb"),
            ("western-digital-sn770", "wd-black-sn770-1tb"),
            ("sn850", "wd-black-sn850x-1000gb"),
            ("hynix-pc711", "skhynix-pc711-nvme-512gb"),
        ] {
            assert_eq!(similar(asked, &DRIVES), [expected], "{asked}");
        }
    }

    #[test]
    fn similar_names_that_tie_are_all_listed() {
        assert_eq!(
            similar("samsung-970", &DRIVES),
            ["samsung-ssd-970-evo-500gb", "samsung-ssd-970-pro-512gb"]
        );
        assert_eq!(
            similar("ocz-vertex-le", &DRIVES),
            ["ocz-vertex-le-100gb", "ocz-vertex-le-200gb", "ocz-vertex-2-le-100gb"]
        );
        assert_eq!(similar("samsung", &DRIVES).len(), SUGGESTED_MAX);
        assert_eq!(similar("crucial-mx500", &DRIVES), ["crucial-m4-512gb", "crucial-m4-128gb"]);
    }

    #[test]
    fn similar_returns_nothing_for_unlike_names() {
        for asked in ["no-such-thing", "", "---", "42", &"x".repeat(500)] {
            assert!(similar(asked, &DRIVES).is_empty(), "{asked}");
        }
        assert_eq!(similar("onlime", &["online", "idle"]), ["online"], "by spelling");
        assert!(similar("x", &[]).is_empty());
    }
}
