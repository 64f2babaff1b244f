//! Escapes external text, so that it cannot control a terminal or a page.

use trimtab_linux::output::plain_line;

/// One line of external text, for coloured output.
pub fn clean(text: &str) -> String {
    plain_line(text).into_owned()
}

/// `text` escaped for HTML content and attributes.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in HTML, but occur in drive names.
            c if !trimtab_linux::output::is_text(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
