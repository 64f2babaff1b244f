//! Measured runs of ten data-centre SSD units, from a table with named columns.

use super::load::Pattern;
use super::model::{Run, Start};
use super::run::RunFigures;
use std::collections::BTreeMap;

/// Measured runs: figures computed from the raw logs of SSD-iq (PVLDB 18(11), 2025),
/// github.com/gabriel-haas/ssdiq-pub, commit 8a0a3f4.
pub const STEADY: &str = include_str!("steady.csv");

/// A measured run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Unit: h0, i1, ...
    pub unit: String,
    /// Experiment of the publication.
    pub experiment: String,
    /// Pattern in words.
    pub pattern: String,
    /// Pages that are never rewritten, in per cent; `None` for other patterns.
    pub read_only_percent: Option<f64>,
    /// The run, if the model can repeat it.
    pub run: Result<Run, &'static str>,
    /// The result.
    pub outcome: RunFigures,
    /// False if the rate was still changing at the end.
    pub steady: bool,
}

/// Parses `csv`; other columns than the named ones are ignored.
///
/// # Errors
/// The first line that lacks a figure.
pub fn parse(csv: &str) -> Result<Vec<Measured>, String> {
    rows(csv).filter(|row| row.text("pattern") != "sequential").map(|row| row.measured()).collect()
}

/// Rows of `csv` under its first line, without comments.
pub(super) fn rows(csv: &str) -> impl Iterator<Item = Fields<'_>> {
    let mut lines = (1..).zip(csv.lines()).filter(|(_, line)| !line.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap_or_default().1.split(',').collect();
    lines.map(move |(nth, line)| Fields {
        fields: columns.iter().copied().zip(line.split(',')).collect(),
        nth,
    })
}

pub(super) struct Fields<'a> {
    fields: BTreeMap<&'a str, &'a str>,
    nth: usize,
}

impl Fields<'_> {
    pub(super) fn text(&self, column: &str) -> &str {
        self.fields.get(column).copied().unwrap_or_default()
    }

    pub(super) fn optional(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok()
    }

    pub(super) fn number(&self, column: &str) -> Result<f64, String> {
        self.optional(column).ok_or_else(|| {
            format!("line {}: column {column} holds no number: '{}'", self.nth, self.text(column))
        })
    }

    fn measured(&self) -> Result<Measured, String> {
        let label = match self.text("pattern") {
            "zipf" | "fiozipf" => format!("{} {}", self.text("pattern"), self.text("zipf_theta")),
            "uniform" => "uniform".to_owned(),
            name => format!("{name} {}", self.text("zones")),
        };
        Ok(Measured {
            unit: self.text("drive").to_owned(),
            experiment: self.text("experiment").to_owned(),
            pattern: label,
            read_only_percent: self.optional("read_only_pct").filter(|percent| *percent > 0.0),
            run: self.run()?,
            outcome: RunFigures {
                fresh_mbs: self.number("fresh2pct_MBs")?,
                steady_mbs: self.number("steady_MBs")?,
                trough_mbs: self.number("trough_MBs")?,
                cliff_at: self.optional("cliff_at_dw"),
                gc_waf: self.optional("phys_read_per_host_write").map(|reads| 1.0 + reads),
            },
            steady: self.text("steady") != "no",
        })
    }

    fn run(&self) -> Result<Result<Run, &'static str>, String> {
        let pattern =
            match self.text("pattern") {
                "uniform" => Pattern::Uniform,
                "zipf" => Pattern::Zipf(self.number("zipf_theta")?),
                "fiozipf" => return Ok(Err("the distribution of this generator is not published")),
                _ => Pattern::Zones(zones(self.text("zones")).ok_or_else(|| {
                    format!("line {}: zones are '{}'", self.nth, self.text("zones"))
                })?),
            };
        if self.text("experiment") == "wa03" && self.text("read_only_pct").starts_with("50") {
            return Ok(Err("the setting was not applied: the curve equals the uniform one"));
        }
        let state = self.text("initial_state");
        let start = match state {
            _ if state.starts_with("sequential") => Start::Sequential,
            _ if state.starts_with("random") || state.starts_with("every 4 KiB") => Start::Random,
            _ if state.starts_with("empty") || state.starts_with("sanitised") => Start::Empty,
            _ => return Ok(Err("the state before the run is unknown")),
        };
        let one = self.number("threads")? <= 1.0;
        Ok(Ok(Run {
            pattern,
            scattered: self.text("scattered") != "no",
            start,
            used: (self.number("used_GiB")? / self.number("device_GiB")?).min(1.0),
            // Repeats of one run differ in the third digit.
            drive_writes: (self.number("drive_writes")? * 10.0).round() / 10.0,
            depth: if one { 256 } else { 512 },
            request_units: 1,
        }))
    }
}

/// Zones as "s0.9 f0.1 s0.1 f0.9": space, share of the writes.
fn zones(text: &str) -> Option<Vec<(f64, f64)>> {
    let numbers: Vec<f64> =
        text.split_whitespace().map(|part| part.get(1..)?.parse().ok()).collect::<Option<_>>()?;
    (!numbers.is_empty() && numbers.len().is_multiple_of(2))
        .then(|| numbers.chunks(2).map(|pair| (pair[0], pair[1])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_table_parses_completely() {
        let rows = parse(STEADY).unwrap();
        assert_eq!(rows.len(), 102);
        assert!(rows.iter().all(|row| row.outcome.steady_mbs > 100.0));
        assert_eq!(
            rows.iter().filter(|row| row.run.is_ok() && row.outcome.gc_waf.is_some()).count(),
            11
        );
        let share = rows.iter().find(|row| row.read_only_percent == Some(80.0)).unwrap();
        assert_eq!(
            share.run.as_ref().unwrap().pattern,
            Pattern::Zones(vec![(0.8, 0.0), (0.2, 1.0)])
        );
    }

    #[test]
    fn measured_table_without_rate_names_line_and_column() {
        let text = "drive,pattern,zipf_theta,fresh2pct_MBs\nh0,uniform,,\n";
        assert_eq!(parse(text).unwrap_err(), "line 2: column fresh2pct_MBs holds no number: ''");
    }
}
