//! The operation mix and the size tables.

use trimtab_drive::OpKind;
use trimtab_drive::rng::Stream;

/// NFSv3 operations of SPECsfs2008 in percent (M. Eisler, 2008). Writes are stable.
pub const MIX: [(OpKind, u32); 12] = [
    (OpKind::Create, 1),
    (OpKind::Read, 18),
    (OpKind::Write, 10),
    (OpKind::Delete, 1),
    (OpKind::Lookup, 24),
    (OpKind::GetAttr, 26),
    (OpKind::SetAttr, 4),
    (OpKind::ReadLink, 1),
    (OpKind::ReadDir, 1),
    (OpKind::ReadDirPlus, 2),
    (OpKind::Access, 11),
    (OpKind::FsStat, 1),
];

/// A percentage of sizes, uniform between `low_kib` and `high_kib` in whole KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeClass {
    /// Percent.
    pub percent: u32,
    /// Minimum in KiB.
    pub low_kib: u32,
    /// Maximum in KiB.
    pub high_kib: u32,
}

const fn class(percent: u32, low_kib: u32, high_kib: u32) -> SizeClass {
    SizeClass { percent, low_kib, high_kib }
}

/// File sizes (filebench, netsfs).
pub const FILE_SIZES: [SizeClass; 10] = [
    class(33, 1, 1),
    class(21, 1, 3),
    class(13, 3, 5),
    class(10, 5, 11),
    class(8, 11, 21),
    class(5, 21, 43),
    class(4, 43, 85),
    class(3, 85, 171),
    class(2, 171, 341),
    class(1, 341, 1707),
];

/// Write sizes (filebench, netsfs).
pub const WRITE_SIZES: [SizeClass; 5] = [
    class(50, 9, 15),
    class(14, 17, 23),
    class(14, 33, 39),
    class(12, 65, 71),
    class(10, 129, 135),
];

/// Read sizes (filebench, netsfs).
pub const READ_SIZES: [SizeClass; 5] =
    [class(85, 8, 8), class(8, 17, 23), class(4, 33, 39), class(2, 65, 71), class(1, 129, 135)];

/// Mean of a table in bytes.
#[must_use]
pub fn mean_size(table: &[SizeClass]) -> f64 {
    table
        .iter()
        .map(|c| f64::from(c.percent) / 100.0 * f64::from(c.low_kib + c.high_kib) / 2.0 * 1024.0)
        .sum()
}

/// A random size of a table in bytes.
pub(super) fn draw(table: &[SizeClass], rng: &mut Stream) -> u64 {
    let mut percent = rng.below(100) as u32;
    for class in table {
        if percent < class.percent {
            return rng.between(class.low_kib.into(), class.high_kib.into()) * 1024;
        }
        percent -= class.percent;
    }
    u64::from(table.last().map_or(1, |class| class.high_kib)) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_add_up_and_draws_have_their_mean() {
        let mut rng = Stream::new(1, "sizes");
        for table in [&FILE_SIZES[..], &WRITE_SIZES, &READ_SIZES] {
            assert_eq!(table.iter().map(|c| c.percent).sum::<u32>(), 100);
            let n = 200_000;
            let mean = (0..n).map(|_| draw(table, &mut rng) as f64).sum::<f64>() / f64::from(n);
            assert!((mean / mean_size(table) - 1.0).abs() < 0.03, "{mean} {}", mean_size(table));
        }
    }
}
