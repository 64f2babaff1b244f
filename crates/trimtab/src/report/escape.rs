//! Text from outside, so that it can steer neither a terminal nor a page.

use trimtab_linux::output::plain_line;

/// What comes from outside, in text with colours; one line of it.
pub fn clean(text: &str) -> String {
    plain_line(text).into_owned()
}

/// `text` with everything that means something in HTML made harmless, in content and in attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in HTML; drive names contain them now and then.
            c if !trimtab_linux::output::is_text(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
