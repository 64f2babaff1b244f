//! PostMark's two reports, digit for digit, as pure functions of counts and whole
//! seconds.

use std::fmt::Write as _;
use trimtab_sim::workload::postmark::{PostmarkCounts, PostmarkSettings};

const KIB: f32 = 1024.0;
const MIB: f32 = 1_048_576.0;

/// Whole seconds of the wall clock at the report's four times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Before the first file is created.
    pub start: i64,
    /// Before the first transaction.
    pub transactions: i64,
    /// After the last transaction.
    pub sweep: i64,
    /// After the last file is deleted.
    pub end: i64,
}

/// Figures of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Configured transactions.
    pub transactions: i64,
    /// Configured files.
    pub number: i64,
    /// Files created.
    pub created: i64,
    /// Files read.
    pub read: i64,
    /// Files appended to.
    pub appended: i64,
    /// Files deleted.
    pub deleted: i64,
    /// Of these, deleted by transactions.
    pub deleted_mixed: i64,
    /// Bytes read, in single precision.
    pub bytes_read: f32,
    /// Bytes written, in single precision.
    pub bytes_written: f32,
}

impl Totals {
    /// The totals of a run.
    pub fn of(settings: &PostmarkSettings, counts: &PostmarkCounts) -> Self {
        Self {
            transactions: settings.transactions.into(),
            number: settings.number.into(),
            created: counts.created.into(),
            read: counts.read.into(),
            appended: counts.appended.into(),
            deleted: counts.deleted.into(),
            deleted_mixed: counts.deleted_mixed.into(),
            bytes_read: counts.bytes_read_single,
            bytes_written: counts.bytes_written_single,
        }
    }
}

/// The four durations; 0 counts as 1.
struct Durations {
    total: i64,
    transactions: i64,
    creation: i64,
    deletion: i64,
}

impl From<Stamps> for Durations {
    fn from(stamps: Stamps) -> Self {
        let between = |from: i64, to: i64| if to == from { 1 } else { to - from };
        Self {
            total: between(stamps.start, stamps.end),
            transactions: between(stamps.transactions, stamps.sweep),
            creation: between(stamps.start, stamps.transactions),
            deletion: between(stamps.sweep, stamps.end),
        }
    }
}

/// The report of fourteen lines.
pub fn verbose(totals: &Totals, stamps: Stamps) -> String {
    let t = Durations::from(stamps);
    let mut text = String::new();
    let mut line = |indent: &str, count: i64, what: &str, seconds: i64| {
        let _ = writeln!(text, "{indent}{what} ({} per second)", count / seconds);
    };
    let Totals { transactions, number, created, read, appended, deleted, deleted_mixed, .. } =
        *totals;
    let (created_mixed, deleted_alone) = (created - number, deleted - deleted_mixed);
    line(
        &format!("Time:\n\t{} seconds total\n\t", t.total),
        transactions,
        &format!("{} seconds of transactions", t.transactions),
        t.transactions,
    );
    line("\nFiles:\n\t", created, &format!("{created} created"), t.total);
    line("\t\tCreation alone: ", number, &format!("{number} files"), t.creation);
    line(
        "\t\tMixed with transactions: ",
        created_mixed,
        &format!("{created_mixed} files"),
        t.transactions,
    );
    line("\t", read, &format!("{read} read"), t.transactions);
    line("\t", appended, &format!("{appended} appended"), t.transactions);
    line("\t", deleted, &format!("{deleted} deleted"), t.total);
    line("\t\tDeletion alone: ", deleted_alone, &format!("{deleted_alone} files"), t.deletion);
    line(
        "\t\tMixed with transactions: ",
        deleted_mixed,
        &format!("{deleted_mixed} files"),
        t.transactions,
    );
    text.push_str("\nData:\n");
    for (bytes, what) in [(totals.bytes_read, "read"), (totals.bytes_written, "written")] {
        let _ = writeln!(
            text,
            "\t{} {what} ({} per second)",
            data_size(bytes),
            data_size(bytes / t.total as f32)
        );
    }
    text
}

/// The report of one line of thirteen numbers.
pub fn terse(totals: &Totals, stamps: Stamps) -> String {
    let t = Durations::from(stamps);
    let mut text = format!("{} {}", t.total, t.transactions);
    // Single precision throughout, as the original divides.
    let mut number = |value: f32, seconds: i64| {
        let _ = write!(text, " {:.2}", value / seconds as f32);
    };
    let deleted_alone = totals.deleted - totals.deleted_mixed;
    for (count, seconds) in [
        (totals.transactions, t.transactions),
        (totals.created, t.total),
        (totals.number, t.creation),
        (totals.created - totals.number, t.transactions),
        (totals.read, t.transactions),
        (totals.appended, t.transactions),
        (totals.deleted, t.total),
        (deleted_alone, t.deletion),
        (totals.deleted_mixed, t.transactions),
    ] {
        number(count as f32, seconds);
    }
    number(totals.bytes_read, t.total);
    number(totals.bytes_written, t.total);
    text.push('\n');
    text
}

/// A size among the settings: whole bytes below 1024.
pub fn setting_size(bytes: u32) -> String {
    let single = bytes as f32;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.2} kilobytes", single / KIB),
        _ => format!("{:.2} megabytes", single / MIB),
    }
}

/// A size in the report: never in bytes, except for 0.
fn data_size(bytes: f32) -> String {
    if bytes / MIB > 1.0 {
        format!("{:.2} megabytes", bytes / MIB)
    } else if bytes != 0.0 {
        format!("{:.2} kilobytes", bytes / KIB)
    } else {
        format!("{bytes:.6} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_digits_of_original() {
        for (bytes, text) in [
            (1023, "1023 bytes"),
            (1024, "1.00 kilobytes"),
            (1_048_575, "1024.00 kilobytes"),
            (1_048_576, "1.00 megabytes"),
            // Rounded to single precision first: double precision would give 561.44 and
            // 1860.87.
            (588_717_729, "561.45 megabytes"),
            (1_951_258_388, "1860.86 megabytes"),
        ] {
            assert_eq!(setting_size(bytes), text);
        }
        for (bytes, text) in [
            (0.0, "0.000000 bytes"),
            (10.0, "0.01 kilobytes"),
            (1_048_576.0, "1024.00 kilobytes"),
            (2_097_152.0, "2.00 megabytes"),
            (-2_097_152.0, "-2048.00 kilobytes"),
        ] {
            assert_eq!(data_size(bytes), text);
        }
    }

    #[test]
    fn rates_divide_in_single_precision() {
        let totals = Totals {
            transactions: 500,
            number: 500,
            created: 764,
            read: 243,
            appended: 257,
            deleted: 764,
            deleted_mixed: 236,
            bytes_read: 1_430_770.0,
            bytes_written: 4_662_068.0,
        };
        let stamps = Stamps { start: 100, transactions: 103, sweep: 110, end: 112 };
        // The output of the original's version 1.53. Version 1.5 printed 176.00 for
        // deletions alone, dividing by the time of creation.
        assert_eq!(
            terse(&totals, stamps),
            "12 7 71.43 63.67 166.67 37.71 34.71 36.71 63.67 264.00 33.71 119230.84 388505.66\n"
        );
    }

    #[test]
    fn backward_clock_gives_negative_rates_without_panic() {
        let totals = Totals { transactions: 10, created: 10, ..Totals::default() };
        let text = verbose(&totals, Stamps { start: 100, transactions: 90, sweep: 80, end: 70 });
        assert!(
            text.starts_with(
                "Time:\n\t-30 seconds total\n\t-10 seconds of transactions (-1 per second)\n"
            ),
            "{text}"
        );
    }
}
