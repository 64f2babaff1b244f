//! Data sheets of the units, as the publication's table states them.

use super::UNITS;
use trimtab_drive::spec::datasheet::DataSheet;

/// Capacity in bytes, interface rate, sequential read and write in MB/s, random reads and
/// writes per second, read and write latency in microseconds; 0 if
/// not stated. The random writes that an instance type states are a limit, not a
/// sustained rate.
const SHEETS: [(&str, u64, [f64; 7]); 10] = [
    ("h0", 960_197_124_096, [8000.0, 6500.0, 1700.0, 900e3, 70e3, 75.0, 0.0]),
    ("i0", 1_920_383_410_176, [8000.0, 5300.0, 1900.0, 700e3, 114e3, 75.0, 15.0]),
    ("i1", 1_920_383_410_176, [8000.0, 5300.0, 1900.0, 700e3, 114e3, 75.0, 15.0]),
    ("i4i", 3_750_000_000_000, [4000.0, 2800.0, 2155.0, 400e3, 0.0, 0.0, 0.0]),
    ("k4", 3_840_755_982_336, [16000.0, 14000.0, 6750.0, 2700e3, 310e3, 0.0, 0.0]),
    ("k5", 3_840_755_982_336, [16000.0, 14000.0, 6750.0, 2700e3, 310e3, 0.0, 0.0]),
    ("m0", 960_197_124_096, [8000.0, 6800.0, 1400.0, 530e3, 85e3, 80.0, 15.0]),
    ("mp0", 800_166_076_416, [8000.0, 6800.0, 1400.0, 530e3, 145e3, 80.0, 15.0]),
    ("s0", 960_197_124_096, [8000.0, 6500.0, 1500.0, 580e3, 70e3, 0.0, 0.0]),
    ("wd", 960_197_124_096, [4000.0, 3330.0, 1190.0, 434e3, 49e3, 78.0, 0.0]),
];

/// Data sheet of `unit`.
pub fn of(unit: &str) -> Option<DataSheet> {
    let (_, name) = UNITS.iter().find(|(known, _)| *known == unit)?;
    let (_, capacity_bytes, figures) = SHEETS.iter().find(|(known, ..)| *known == unit)?;
    let [
        link,
        sequential_read,
        sequential_write,
        random_read,
        random_write,
        read_latency,
        write_latency,
    ] = figures.map(|figure| (figure > 0.0).then_some(figure));
    Some(DataSheet {
        name: (*name).to_owned(),
        capacity_bytes: *capacity_bytes,
        link_mbs: link,
        sequential_read_mbs: sequential_read,
        sequential_write_mbs: sequential_write,
        random_read_iops: random_read,
        random_write_iops: random_write,
        raw_bytes: None,
        read_latency_us: read_latency,
        write_latency_us: write_latency,
    })
}
