//! Events of the history, as a table.

use crate::history::events::Events;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::trim::surface::at_least;
use trimtab_report::escape::clean;
use trimtab_report::run::instant;
use trimtab_study::document::Table;

/// The table for the screen.
pub fn table(events: &Events) -> Table {
    let header = [
        "began, UTC",
        "what",
        "filesystem",
        "policy",
        "by",
        "reached drives",
        "commands",
        "time",
        "outcome",
        "id",
    ];
    let mut table = Table::new("", &header);
    for event in &events.events {
        let text = |text: &Option<String>| text.as_deref().map(clean).unwrap_or_default();
        // Only a trim can have a count.
        let not_counted =
            || if event.id.is_some() { "not counted".to_owned() } else { String::new() };
        table.row([
            instant(event.unix_ms).trim_end_matches(" UTC").to_owned(),
            event.what.to_owned(),
            clean(&event.path),
            clean(&event.policy),
            text(&event.by),
            event.sent_bytes.map_or_else(not_counted, |bytes| {
                at_least(event.sent_is_minimum, &Bytes(bytes).to_string())
            }),
            event
                .sent_commands
                .map(|n| at_least(event.sent_is_minimum, &grouped(n)))
                .unwrap_or_default(),
            event.seconds.map(|s| Nanos((s * 1e9) as u64).to_string()).unwrap_or_default(),
            clean(&event.outcome),
            text(&event.id),
        ]);
    }
    table
}
