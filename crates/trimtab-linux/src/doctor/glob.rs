//! Patterns of names.

/// True if the text matches one of the patterns that `|` separates. `*` stands for any
/// text.
pub fn matches(patterns: &str, text: &str) -> bool {
    patterns.split('|').any(|pattern| is_match(pattern, text) == Some(true))
}

fn is_match(pattern: &str, text: &str) -> Option<bool> {
    let Some((start, rest)) = pattern.split_once('*') else { return Some(pattern == text) };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let left = middle
        .split('*')
        .try_fold(text.strip_prefix(start)?, |left, part| Some(left.split_once(part)?.1))?;
    Some(left.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text_and_bars_separate_patterns() {
        for (pattern, text, expected) in [
            ("Samsung SSD 860*", "Samsung SSD 860 EVO 1TB", true),
            ("Samsung SSD 860*", "Samsung SSD 970", false),
            ("M510_*|M550_*", "M550_MTFD", true),
            ("M510_*|M550_*", "M520_MTFD", false),
            ("SAMSUNG*MZ7LH*", "SAMSUNG MZ7LH960HAJR", true),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a*a", "a", false),
            ("a*b*b", "ab", false),
            ("a**c", "abc", true),
            ("*amazon*", "4.11.amazon", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
