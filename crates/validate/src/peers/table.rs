//! Cell-by-cell comparison of two policies.

use super::cell::{IDLE_UNLIMITED, PeerCell};
use std::fmt;
use trimtab_drive::units::Nanos;

/// Relative difference below which results count as equal.
const TOLERANCE: f64 = 0.05;

/// Comparison of two policies: drive, load, and ratios of p99 and write amplification.
pub(super) struct PeerVerdict {
    ours: String,
    theirs: String,
    ratios: Vec<(String, &'static str, [f64; 2])>,
}

impl PeerVerdict {
    pub(super) fn of(cells: &[PeerCell], ours: &str, theirs: &str) -> Self {
        let of_ours = cells.iter().filter(|cell| cell.policy == ours);
        let ratios = of_ours.filter_map(|a| {
            let b = cells
                .iter()
                .find(|b| (&b.drive, b.load, &*b.policy) == (&a.drive, a.load, theirs))?;
            let p99 = a.p99_ns as f64 / b.p99_ns as f64;
            Some((a.drive.clone(), a.load, [p99, a.waf / b.waf]))
        });
        Self { ours: ours.into(), theirs: theirs.into(), ratios: ratios.collect() }
    }

    /// Numbers of cells that are worse or better by more than [`TOLERANCE`], and lower at
    /// all.
    pub(super) fn counts(&self, measure: usize) -> [usize; 3] {
        let count = |is: &dyn Fn(f64) -> bool| {
            self.ratios.iter().filter(|(.., ratios)| is(ratios[measure])).count()
        };
        [
            count(&|ratio| ratio > 1.0 + TOLERANCE),
            count(&|ratio| ratio < 1.0 / (1.0 + TOLERANCE)),
            count(&|ratio| ratio < 1.0),
        ]
    }
}

impl fmt::Display for PeerVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, theirs, ratios } = self;
        writeln!(f, "\n{ours} / {theirs} | load | p99 | WA")?;
        for (drive, load, [p99, waf]) in ratios {
            writeln!(f, "{drive:24} | {load:8} | {p99:6.3} | {waf:6.3}")?;
        }
        for (measure, name) in ["p99", "WA"].into_iter().enumerate() {
            let [worse, better, lower] = self.counts(measure);
            let all = ratios.len();
            writeln!(
                f,
                "{name}: {ours} against {theirs} in {all} cells: more than 5 % worse \
                    in {worse}, more than 5 % better in {better}, lower in {lower}"
            )?;
        }
        Ok(())
    }
}

/// Policies shown in the table; the CSV file has all.
const SHOWN: [&str; 5] = ["none", IDLE_UNLIMITED, "idle", "itrim", "dtrim"];

/// One row per drive and load, with the policies side by side.
pub(super) struct PeerTable<'a>(pub(super) &'a [PeerCell]);

impl fmt::Display for PeerTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = SHOWN.join(", ");
        writeln!(f, "{policies}:\n\n| drive | load | p99 | WA | known |\n|---|---|---|---|---|")?;
        for row in self.0.chunk_by(|a, b| (&a.drive, a.load) == (&b.drive, b.load)) {
            let all = |of: &dyn Fn(&PeerCell) -> String| {
                row.iter()
                    .filter(|cell| SHOWN.contains(&&*cell.policy))
                    .map(of)
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (p99, waf) = (
                all(&|cell| Nanos(cell.p99_ns).to_string()),
                all(&|cell| format!("{:.2}", cell.waf)),
            );
            let known = all(&|cell| format!("{:.0}", cell.known_share * 100.0));
            writeln!(f, "| `{}` | {} | {p99} | {waf} | {known} % |", row[0].drive, row[0].load)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_compares_cells_by_drive_and_load() {
        let cell = |drive: &str, policy: &str, p99_ns, waf| PeerCell {
            drive: drive.into(),
            load: "files",
            policy: policy.into(),
            requests: 1,
            p50_ns: 0,
            p99_ns,
            p999_ns: 0,
            longest_ns: 0,
            known_share: 0.0,
            waf,
            commands: 0,
            trim_ns: 0,
            took_ns: 0,
            online: false,
        };
        let ours = [("a", 106, 2.0), ("b", 105, 2.0), ("c", 95, 3.0), ("d", 99, 1.0)]
            .map(|(drive, p99, waf)| cell(drive, "idle", p99, waf));
        let theirs = ["a", "b", "c", "x"].map(|drive| cell(drive, "itrim", 100, 2.0));
        let table = PeerTable(&[ours[0].clone(), theirs[0].clone()]).to_string();
        assert!(
            table.starts_with("none, idle unlimited, idle, itrim, dtrim:\n\n| drive")
                && table.ends_with("\n| `a` | files | 106 ns, 100 ns | 2.00, 2.00 | 0, 0 % |\n"),
            "{table}"
        );
        let verdict = PeerVerdict::of(&[ours, theirs].concat(), "idle", "itrim");
        // Drive d is missing under one policy. 95 is 1/1.0526 of 100.
        assert_eq!((verdict.counts(0), verdict.counts(1)), ([1, 1, 1], [1, 0, 0]));
    }
}
