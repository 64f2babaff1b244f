//! Events of the history, as a table.

use crate::history::events::Events;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::output::lines::prose;
use trimtab_linux::trim::surface::at_least;
use trimtab_report::escape::clean;
use trimtab_report::layout::on_screen;
use trimtab_report::run::instant;
use trimtab_study::document::Table;

/// The table for the screen, and the number of events that it does not show.
pub fn text(events: &Events) -> String {
    on_screen(&table(events)) + &older_line(events).map_or(String::new(), |line| prose(&line))
}

fn older_line(events: &Events) -> Option<String> {
    let Events { older, older_is_minimum, .. } = *events;
    (older > 0 || older_is_minimum).then(|| {
        let (number, s) = (grouped(older), if older == 1 { "" } else { "s" });
        let all = (events.events.len() as u64).saturating_add(older);
        match (older, older_is_minimum) {
            (0, _) => format!("older events may exist: -n {} looks further back", all * 10),
            (_, true) => {
                format!("at least {number} older event{s} not shown: -n {} shows more", all * 10)
            }
            (_, false) => format!("{number} older event{s} not shown: -n {all} shows all"),
        }
    })
}

fn table(events: &Events) -> Table {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::events::HistoryEvent;

    #[test]
    fn history_names_the_number_of_older_events() {
        let line = |older: u64, older_is_minimum: bool| {
            let events = (0..30).map(|_| HistoryEvent::default()).collect();
            older_line(&Events { events, older, older_is_minimum })
        };
        assert_eq!(line(0, false), None);
        assert_eq!(line(1, false).unwrap(), "1 older event not shown: -n 31 shows all");
        assert_eq!(line(1970, false).unwrap(), "1,970 older events not shown: -n 2000 shows all");
        assert_eq!(
            line(12, true).unwrap(),
            "at least 12 older events not shown: -n 420 shows more"
        );
        assert_eq!(line(0, true).unwrap(), "older events may exist: -n 300 looks further back");
    }
}
