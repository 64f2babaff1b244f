//! The status of a virtual SSD, as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use trimtab_drive::ledger::SIZE_CLASSES;
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_linux::output::lines::prose;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;
use trimtab_vssd::status::Status;

/// Requests, latencies, discards and the counters of the model.
pub fn render(status: &Status) -> String {
    let mut text = String::new();
    let record = &status.record;
    let place = record
        .device
        .iter()
        .chain(&record.nbd)
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    let _ =
        writeln!(text, "{}  {}  {} ({} bytes)", record.id, place, Bytes(record.size), record.size);
    let how = format!(
        "speed {}{}, attached for {}, model time {}, data {} ({} stored)",
        status.speed,
        status
            .record
            .transport
            .map_or_else(String::new, |transport| format!(", requests over {transport}")),
        Nanos((status.uptime_s * 1e9) as u64),
        Nanos(status.model_time_ns),
        Bytes(status.mapped_bytes),
        Bytes(status.stored_bytes)
    );
    text.push_str(&prose(&how));
    for fault in &status.faults {
        let _ = writeln!(text, "fault: {fault}");
    }
    let mut requests = Table::new(
        "",
        &["requests", "count", "bytes", "last second", "failed", "mean", "p50", "p99", "max"],
    );
    for ((name, kind), (_, now)) in
        status.requests.named().into_iter().zip(status.last_second.named())
    {
        let latency = kind.latency;
        let shown = [latency.mean_ns as u64, latency.p50_ns, latency.p99_ns, latency.max_ns]
            .map(|ns| Nanos(ns).to_string());
        let mut row = vec![
            name.to_owned(),
            grouped(kind.count),
            Bytes(kind.bytes).to_string(),
            format!("{}/s", Bytes(now.bytes)),
            grouped(kind.failed),
        ];
        row.extend(shown);
        requests.row(row);
    }
    let _ = writeln!(text, "{}", on_screen(&requests).trim_end_matches('\n'));
    text.push_str(&ledger_in_words(status));
    text.push_str(&counters_in_words(&status.model));
    let waf = status.waf.map_or("-".to_owned(), three_digits);
    let _ = writeln!(text, "write amplification since new: {waf}");
    text
}

fn ledger_in_words(status: &Status) -> String {
    let discards = &status.discards;
    if discards.commands == 0 {
        return String::new();
    }
    let mut ledger = Table::new("", &["discards", "ranges", "bytes"]);
    ledger.row([
        "requested",
        &grouped(discards.ranges.asked.count),
        &discards.ranges.asked.bytes.to_string(),
    ]);
    for ((_, class), tally) in SIZE_CLASSES.iter().zip(&discards.by_size) {
        if tally.count > 0 {
            ledger.row([format!("  {class}"), grouped(tally.count), tally.bytes.to_string()]);
        }
    }
    ledger.row(["effective", "", &Bytes(discards.effective_bytes()).to_string()]);
    ledger.row([
        "held no data",
        &grouped(discards.repeated_ranges),
        &Bytes(discards.repeated_bytes).to_string(),
    ]);
    ledger.row(["partial blocks", "", &Bytes(discards.partial_bytes).to_string()]);
    ledger.row([
        "refused",
        &grouped(discards.ranges.refused.count),
        &discards.ranges.refused.bytes.to_string(),
    ]);
    ledger.row([
        "ignored (fault)",
        &grouped(discards.ignored.count),
        &discards.ignored.bytes.to_string(),
    ]);
    let amplification = status.discard_amplification.map_or("-".to_owned(), three_digits);
    format!(
        "{}discard amplification (bytes discarded / bytes freed): {amplification}\n",
        on_screen(&ledger)
    )
}

/// The counters of the model above 0 by name; a value with its unit replaces that of the
/// name.
fn counters_in_words(model: &BTreeMap<String, u64>) -> String {
    let mut table = Table::new("", &["counter", "value"]);
    for (name, value) in model.iter().filter(|(_, value)| **value > 0) {
        let (name, shown) = match name.rsplit_once('_') {
            Some((name, "bytes")) => (name, Bytes(*value).to_string()),
            Some((name, "ns")) => (name, Nanos(*value).to_string()),
            _ => (name.as_str(), grouped(*value)),
        };
        table.row([name.to_owned(), shown]);
    }
    on_screen(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_unit_of_their_name() {
        let model = [
            ("stall_trim_ns", 15_800_000_000),
            ("host_read_bytes", 3_000_000),
            ("erases", 12_345),
            ("stall_gc_ns", 0),
        ];
        let text = counters_in_words(&model.map(|(name, value)| (name.to_owned(), value)).into());
        let row = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_else(|| panic!("{name}: {text}"))
                .trim()
        };
        assert_eq!(
            [row("stall_trim"), row("host_read"), row("erases")],
            ["15.8 s", "3.00 MB", "12,345"]
        );
        assert!(!text.contains("stall_gc"), "{text}");
    }
}
