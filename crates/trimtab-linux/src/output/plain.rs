//! Removes control sequences from outside text (files, names, arguments, other programs).

use std::borrow::Cow;
pub use trimtab_drive::usage::is_text;

/// Replaces every character that is not plain text by a replacement character.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_text) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(|c| if is_text(c) { c } else { char::REPLACEMENT_CHARACTER })
        .collect::<String>()
        .into()
}

/// As [`plain`], for one line: replaces line feeds too, so that a name cannot forge a
/// line.
pub fn plain_line(text: &str) -> Cow<'_, str> {
    let text = plain(text);
    if text.contains('\n') { text.trim_end_matches('\n').replace('\n', " ").into() } else { text }
}

/// As [`plain`], for any encoding: an invalid UTF-8 byte is a letter or an 8-bit control.
pub fn plain_bytes(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.extend_from_slice(plain(chunk.valid()).as_bytes());
        for byte in chunk.invalid() {
            match byte {
                0x80..=0x9f => out.extend_from_slice("\u{fffd}".as_bytes()),
                letter => out.push(*letter),
            }
        }
    }
    out
}

/// As [`plain`], but keeps the program's own colours: `ESC [ numbers m` with the few
/// numbers in use. Outside text must have been through [`plain`] before.
pub fn styled(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out += &plain(&rest[..at]);
        let after = &rest[at..];
        let len = style_bytes(after);
        match len {
            0 => out.push(char::REPLACEMENT_CHARACTER),
            len => out += &after[..len],
        }
        rest = &after[len.max(1)..];
    }
    out += &plain(rest);
    out.into()
}

/// Length in bytes of the style at the start of `text`; 0 if it has none.
fn style_bytes(text: &str) -> usize {
    let numbers = text.strip_prefix("\u{1b}[").unwrap_or_default();
    let Some((numbers, _)) = numbers.split_once('m') else { return 0 };
    // Bold, dim, underline and colours, and their ends. Nothing that hides text: no
    // concealing, blinking, reverse or background.
    let ours = |number: &str| {
        matches!(
            number,
            "0" | "1" | "2" | "4" | "22" | "24" | "39" | "31" | "32" | "33" | "34" | "35" | "36"
        )
    };
    if numbers.split(';').all(ours) { "\u{1b}[".len() + numbers.len() + 1 } else { 0 }
}

/// Escapes such characters in a JSON document: only in strings, so the meaning stays.
pub fn json(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_text) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| match is_text(c) {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    text.chars().map(escaped).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn styled_keeps_own_colours_only() {
        assert_eq!(styled("\u{1b}[1;31mred\u{1b}[0m"), "\u{1b}[1;31mred\u{1b}[0m");
        for bad in [
            "\u{1b}[8m",
            "\u{1b}[2J",
            "\u{1b}]0;title\u{7}",
            "\u{9b}31m",
            "\u{1b}[m",
            "\u{1b}[31",
            "\u{1b}",
            "\u{1b}[31;8m",
            "\r",
            "\u{202e}",
        ] {
            assert!(styled(bad).starts_with('\u{fffd}'), "{bad:?}");
        }
        assert_eq!(
            plain("a\u{1b}[31mb\u{85}\u{2066}\u{7f}c\td\n"),
            "a\u{fffd}[31mb\u{fffd}\u{fffd}\u{fffd}c\td\n"
        );
        assert!(matches!(plain("Grüße, 日本語\n"), Cow::Borrowed(_)));
        let latin1 = b"Gr\xfc\xdfe \xa0\xff\n";
        assert_eq!(plain_bytes(latin1), latin1);
        assert_eq!(plain_bytes("Grüße, 日本語\n".as_bytes()), "Grüße, 日本語\n".as_bytes());
        assert_eq!(plain_bytes(b"a\x9b2Jb\x1b[2J\r"), "a\u{fffd}2Jb\u{fffd}[2J\u{fffd}".as_bytes());
    }

    proptest! {
        #[test]
        fn json_keeps_meaning_and_holds_only_text(value in ".{0,40}", odd in prop::sample::select(vec!["\u{9b}", "\u{202e}", "\u{7f}", "\u{e0041}"])) {
            let value = format!("{value}{odd}");
            let written = serde_json::to_string(&value).unwrap();
            let shown = json(&written);
            prop_assert!(shown.chars().all(is_text));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), value);
        }

        #[test]
        fn styled_output_has_only_own_colours(text in "[\u{1b}\\[m0-9;a\u{9b}\r\u{202e}]{0,40}") {
            let shown = styled(&text);
            let mut rest = &*shown;
            while let Some(at) = rest.find('\u{1b}') {
                let len = style_bytes(&rest[at..]);
                prop_assert!(len > 0, "{shown:?}");
                rest = &rest[at + len..];
            }
            let escape = '\u{1b}';
            prop_assert!(shown.chars().all(|c| c == escape || is_text(c)));
        }
    }
}
