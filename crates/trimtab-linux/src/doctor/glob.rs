//! Patterns of names, as the kernel's `lib/glob.c` matches them.

/// Matches a pattern with `*`, `?`, `[abc]`, `[a-c]`, `[!a]` and `\`, in time linear in the text
/// for each star. A class that does not end is a literal bracket.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        let rest = &pattern[p..];
        if rest.first() == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
        } else if let Some(length) = piece(rest, text[t]) {
            p += length;
            t += 1;
        } else {
            // Extend the last star by one byte.
            let Some((after_star, from)) = retry else { return false };
            p = after_star;
            t = from + 1;
            retry = Some((after_star, t));
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Length of the first piece of `pattern` if that matches `byte`.
fn piece(pattern: &[u8], byte: u8) -> Option<usize> {
    let (matches, length) = match pattern {
        [] => (false, 0),
        [b'?', ..] => (true, 1),
        [b'\\', literal, ..] => (*literal == byte, 2),
        [b'[', class @ ..] => class_at(class, byte).map_or((byte == b'[', 1), |(matches, length)| (matches, 1 + length)),
        [literal, ..] => (*literal == byte, 1),
    };
    matches.then_some(length)
}

/// True if `byte` is in the class, and the length of the class with its closing bracket. `None`
/// without one. A bracket in the first place is a member.
fn class_at(class: &[u8], byte: u8) -> Option<(bool, usize)> {
    let is_inverted = class.first() == Some(&b'!');
    let mut at = usize::from(is_inverted);
    let mut found = false;
    loop {
        let low = *class.get(at)?;
        let (high, length) = match class.get(at + 1..at + 3) {
            Some(&[b'-', high]) if high != b']' => (high, 3),
            _ => (low, 1),
        };
        at += length;
        found |= (low..=high).contains(&byte);
        if *class.get(at)? == b']' {
            return Some((found != is_inverted, at + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_the_kernel_means_them() {
        for (pattern, text, expected) in [
            ("Samsung SSD 860*", "Samsung SSD 860 EVO 1TB", true),
            ("Samsung SSD 860*", "Samsung SSD 970", false),
            ("Micron_M5[15]0_*", "Micron_M550_MTFD", true),
            ("Micron_M5[15]0_*", "Micron_M520_MTFD", false),
            ("SAMSUNG*MZ7LH*", "SAMSUNG MZ7LH960HAJR", true),
            ("SD1[5-9]", "SD17", true),
            ("SD1[5-9]", "SD14", false),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[]a]", "]", true),
            ("[!]a-]", "b", true),
            ("[!]a-]", "-", false),
            ("[a-]", "-", true),
            ("[b-b]", "b", true),
            ("[b-b]", "-", false),
            ("[a-c", "[a-c", true),
            ("\\*x", "*x", true),
            ("\\*x", "ax", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a?c", "abc", true),
            ("[", "[", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn matching_ends_and_a_literal_matches_itself(pattern in "[a-c*?!\\[\\]\\\\-]{0,12}", text in "[a-c]{0,40}") {
            let _ = matches(&pattern, &text);
            prop_assert!(matches(&text, &text));
        }
    }
}
