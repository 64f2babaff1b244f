//! Tables of stored details: points of series, and buckets of histograms.

use super::keep::Detail;
use super::table::{CellOutcome, Cells, Column, SweepRow};
use alloc::borrow::ToOwned as _;
use alloc::vec::Vec;
use trimtab_sim::run::Axis;

/// Every point of every series, in cell order.
#[must_use]
pub fn series(rows: &[SweepRow]) -> Vec<Column> {
    let all = || {
        details(rows)
            .flat_map(|(cell, detail)| detail.series.iter().flat_map(move |kept| kept.points.iter().map(move |point| (cell, kept, *point))))
    };
    let over = |axis: Axis| Cells::Numbers(all().map(|(_, kept, (x, _))| (kept.over == axis.name()).then_some(x as f64)).collect());
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    alloc::vec![
        column("cell", Cells::Integers(all().map(|(cell, ..)| cell as i64).collect())),
        column("series", Cells::Texts(all().map(|(_, kept, _)| Some(kept.name.clone())).collect())),
        column("time_ns", over(Axis::Time)),
        column("written_bytes", over(Axis::BytesWritten)),
        column("value", Cells::Numbers(all().map(|(.., (_, y))| Some(y)).collect())),
        column("unit", Cells::Texts(all().map(|(_, kept, _)| Some(kept.unit.clone())).collect())),
    ]
}

/// Every non-empty bucket, in cell order.
#[must_use]
pub fn histograms(rows: &[SweepRow]) -> Vec<Column> {
    let all = || {
        details(rows).flat_map(|(cell, detail)| {
            detail.histograms.iter().flat_map(move |(kind, buckets)| buckets.iter().map(move |bucket| (cell, kind, *bucket)))
        })
    };
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    alloc::vec![
        column("cell", Cells::Integers(all().map(|(cell, ..)| cell as i64).collect())),
        column("kind", Cells::Texts(all().map(|(_, kind, _)| Some(kind.clone())).collect())),
        column("latency_at_most_ns", Cells::Integers(all().map(|(.., (at, _))| at as i64).collect())),
        column("operations", Cells::Integers(all().map(|(.., (_, count))| count as i64).collect())),
    ]
}

fn details(rows: &[SweepRow]) -> impl Iterator<Item = (u64, &Detail)> {
    rows.iter().filter_map(|row| if let CellOutcome::Finished { detail, .. } = &row.outcome { Some((row.cell, detail)) } else { None })
}
