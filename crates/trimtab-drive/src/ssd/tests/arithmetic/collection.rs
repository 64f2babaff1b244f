//! Collection reads each row with valid data exactly once.

use super::{Queue, shipped};
use alloc::string::String;
use alloc::vec::Vec;

/// Sequential overwrites of every other chunk of whole rows leave rows that are fully
/// valid or fully stale. So the rows read must equal the rows of moved data.
#[test]
fn collection_reads_only_rows_with_valid_data() {
    let (mut wrong, mut compared): (Vec<String>, u32) = (Vec::new(), 0);
    for mut spec in shipped(64) {
        let flash = &mut spec.flash;
        (flash.slc_cache, flash.ftl.mapping_cache_bytes, flash.ftl.wear.static_spread_max) =
            (None, None, None);
        let row = flash.geometry.page_bytes * u64::from(flash.geometry.planes);
        let slot = flash.compression.as_ref().map_or(flash.ftl.mapping_unit_bytes, |compression| {
            u64::from(compression.granularity_bytes)
        });
        let pieces = spec.capacity_bytes / row;
        let mut queue = Queue::new(&spec, 32);
        (0..pieces).for_each(|nth| queue.write(nth * row, row));
        let before = queue.ssd.counters().clone();
        for _ in 0..4 {
            (0..pieces / 2).for_each(|nth| queue.write(nth * 2 * row, row));
        }
        let counted = queue.ssd.counters().since(&before);
        let (read, moved) = (
            counted.nand_read_internal_rows as f64,
            (counted.nand_written_gc_slots * slot) as f64 / row as f64,
        );
        compared += u32::from(moved > 100.0);
        if (read - moved).abs() > 0.01 * moved + 2.0 {
            wrong.push(std::format!(
                "{}: {read} rows read, {moved:.1} rows of data moved",
                spec.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{compared} compared\n{}", wrong.join("\n"));
    assert!(compared >= 10, "{compared}");
}
