//! The counters of a modelled drive in reading order, with labels and units.

use crate::report::layout::on_screen;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_study::document::Table;

/// Kind of quantity that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CounterKind {
    Count,
    Bytes,
    Time,
    /// Slots of the flash: a mapping unit, or less if the drive compresses.
    Slots,
    /// 0 or 1.
    Flag,
}

use CounterKind::{Bytes as B, Count as N, Flag, Slots, Time as T};

type CounterGroup = (&'static str, &'static [(&'static str, &'static str, CounterKind)]);

/// Groups in reading order, each with its counters: name, label, kind.
const GROUPS: &[CounterGroup] = &[
    (
        "now",
        &[
            ("now_mapped_bytes", "mapped: regarded as data", B),
            ("now_trimmed_bytes", "trimmed and not written since", B),
            ("now_unwritten_bytes", "never written", B),
            ("now_stale_bytes", "stale: overwritten or trimmed, not erased yet", B),
            ("now_free_bytes", "free: erased flash", B),
            ("now_free_superblocks", "free superblocks", N),
            ("now_slc_superblocks", "superblocks in one-bit mode", N),
            ("now_worn_out_superblocks", "worn-out superblocks", N),
            ("now_throttled", "throttled", Flag),
            ("now_read_only", "read-only", Flag),
        ],
    ),
    (
        "requested by the host",
        &[
            ("host_read_bytes", "read", B),
            ("host_written_bytes", "written", B),
            ("host_write_bytes", "written", B),
            ("host_reads", "read commands", N),
            ("host_writes", "write commands", N),
            ("host_trims", "TRIM commands", N),
            ("host_flushes", "flush commands", N),
            ("flushes", "flush commands", N),
            ("buffer_hits", "reads answered from the buffer", N),
            ("cache_lost_bytes", "lost in the write cache", B),
        ],
    ),
    (
        "TRIM",
        &[
            ("trim_ranges", "ranges", N),
            ("trim_asked_bytes", "asked", B),
            ("trim_effective_bytes", "effective: held data before", B),
            ("trim_repeated_bytes", "repeated: held none before", B),
            ("trim_ignored_bytes", "ignored: too small or not aligned", B),
            ("trim_effective_units", "effective mapping units", N),
            ("trim_repeated_units", "repeated mapping units", N),
            ("trim_ns", "time that TRIM commands took", T),
        ],
    ),
    (
        "time that commands waited inside the drive",
        &[
            ("stall_trim_ns", "for a TRIM", T),
            ("stall_queue_ns", "for a place in the queue", T),
            ("stall_cache_ns", "for a place in the write cache", T),
            ("cache_stall_ns", "for a place in the write cache", T),
            ("stall_flush_ns", "for a flush", T),
            ("seek_ns", "for the heads", T),
            ("rotation_wait_ns", "for the platter", T),
            ("throttled_ns", "throttled", T),
            ("seeks", "seeks", N),
        ],
    ),
    (
        "written to the medium",
        &[
            ("nand_written_bytes", "total", B),
            ("media_write_bytes", "total", B),
            ("nand_written_host_slots", "for the host", Slots),
            ("nand_written_gc_slots", "by garbage collection", Slots),
            ("nand_written_fold_slots", "out of the one-bit cache", Slots),
            ("nand_written_wear_slots", "to level wear", Slots),
            ("nand_written_padding_slots", "to fill pages", Slots),
            ("nand_written_map_pages", "pages of the mapping", N),
            ("nand_written_rest_bytes", "rest of units that were overwritten in part", B),
        ],
    ),
    (
        "read from the medium",
        &[
            ("nand_read_host_rows", "rows for the host", N),
            ("nand_read_internal_rows", "rows to move data", N),
            ("nand_read_rest_rows", "rows for the rest of units", N),
            ("nand_read_map_pages", "pages of the mapping", N),
        ],
    ),
    (
        "collection and wear",
        &[
            ("gc_superblocks", "superblocks collected", N),
            ("folded_superblocks", "superblocks moved out of the one-bit cache", N),
            ("levelled_superblocks", "superblocks moved to level wear", N),
            ("gc_die_ns", "time of these, summed over dies", T),
            ("erases", "superblocks erased", N),
            ("erases_of_a_superblock_min", "erase cycles of a superblock, minimum", N),
            ("erases_of_a_superblock_p10", "10th percentile", N),
            ("erases_of_a_superblock_median", "median", N),
            ("erases_of_a_superblock_p90", "90th percentile", N),
            ("erases_of_a_superblock_max", "most", N),
            ("first_retired_written_bytes", "written by the host when the first superblock was retired", B),
        ],
    ),
];

/// All of `model`: a table per group, and one for counters without a group.
pub(super) fn in_words(model: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (title, counters) in GROUPS {
        let mut table = Table::new("", &[*title, "since new"]);
        if *title == "now" {
            table = Table::new("", &["the drive now", ""]);
        }
        for (name, words, kind) in *counters {
            if let Some(value) = model.get(*name) {
                table.row([(*words).to_owned(), shown(*value, *kind)]);
            }
        }
        push(&mut text, &table);
    }
    let known = |name: &str| GROUPS.iter().any(|(_, counters)| counters.iter().any(|(known, ..)| *known == name));
    let mut others = Table::new("", &["other counters", "since new"]);
    model.iter().filter(|(name, _)| !known(name)).for_each(|(name, value)| others.row([name.clone(), grouped(*value)]));
    push(&mut text, &others);
    text
}

fn push(text: &mut String, table: &Table) {
    if !table.rows.is_empty() {
        let _ = writeln!(text, "{}", on_screen(table).trim_end_matches('\n'));
    }
}

fn shown(value: u64, kind: CounterKind) -> String {
    match kind {
        N => grouped(value),
        B => Bytes(value).to_string(),
        T => Nanos(value).to_string(),
        Slots => format!("{} slots", grouped(value)),
        Flag => if value == 0 { "no" } else { "yes" }.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drives;
    use trimtab_drive::model;

    #[test]
    fn every_model_counter_has_label_and_unit() {
        let names: Vec<&str> = GROUPS.iter().flat_map(|(_, counters)| counters.iter().map(|(name, ..)| *name)).collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "each once");
        let mut used = std::collections::BTreeSet::new();
        for drive in drives::shipped() {
            let counters = model::build(&drive.spec, 1).unwrap().counters();
            for name in counters.keys() {
                assert!(names.contains(&name.as_str()), "{}: {name} has no place", drive.spec.name);
                used.insert(name.clone());
                let kind = GROUPS.iter().flat_map(|(_, c)| c.iter()).find(|(known, ..)| known == name).unwrap().2;
                assert_eq!(name.ends_with("_ns"), kind == T, "{name}");
                assert_eq!(name.ends_with("_bytes"), kind == B, "{name}");
                assert_eq!(name.ends_with("_slots"), kind == Slots, "{name}");
            }
        }
        assert!(names.iter().all(|name| used.contains(*name)), "no row that no drive has");
        let text = in_words(&[("stall_trim_ns".to_owned(), 15_800_000_000), ("of_tomorrow".to_owned(), 3)].into());
        assert!(text.contains("for a TRIM") && text.contains("15.8 s") && text.contains("of_tomorrow"), "{text}");
    }
}
