//! End-to-end comparison with theory: files on a modelled filesystem and drive under each
//! trim policy. The last table of `validate drive`.

pub mod files;

use super::traffic::Effort;
use super::victim;
use crate::parallel;
use anyhow::Context as _;
use files::{ChainCase, ChainOutcome};
use serde::Serialize;
use trimtab_drive::spec::VictimPolicy;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;

/// Maximum deviation of model and theory in per cent.
const LIMIT_PERCENT: f64 = 2.0;
/// The same if a quarter of the writes are metadata, which are not uniformly hot.
const LIMIT_SMALL_FILES_PERCENT: f64 = 3.0;
/// The same for the theory that uses counted page lifetimes.
const LIMIT_OF_LIVES_PERCENT: f64 = 1.0;
const SMALL_FILE: Bytes = Bytes(64 << 10);

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub struct ChainRow {
    trim: String,
    policy: String,
    pages_per_block: u32,
    fill: f64,
    file_bytes: u64,
    /// Share of journal and metadata in the writes.
    metadata_writes: f64,
    live: f64,
    utilisation: f64,
    theory: f64,
    /// FIFO only.
    theory_of_lives: Option<f64>,
    model: f64,
    deviation_percent: f64,
    deviation_of_lives_percent: Option<f64>,
    limit_percent: f64,
    /// True if all deviations are within their limits.
    pub agrees: bool,
}

fn cases() -> Vec<ChainCase> {
    let case = |trim: &str, victim, pages_per_block, fill, file| -> Option<ChainCase> {
        Some(ChainCase { policy: trim.parse().ok()?, victim, pages_per_block, fill, file })
    };
    let mut cases = Vec::new();
    for fill in [0.6, 0.9] {
        for trim in ["none", "online", "batched:every=10m", "adaptive", "idle"] {
            cases.extend(case(trim, VictimPolicy::Fifo, 256, fill, Bytes(1 << 20)));
        }
        for trim in ["none", "online", "batched:every=10m"] {
            cases.extend(case(trim, VictimPolicy::Fifo, 256, fill, SMALL_FILE));
        }
        for trim in ["online", "batched:every=10m"] {
            cases.extend(case(trim, VictimPolicy::Greedy, 8192, fill, Bytes(256 << 10)));
        }
    }
    cases
}

/// Larger blocks, as for greedy, and larger files need more pages.
const fn effort(case: &ChainCase, thorough: bool) -> Effort {
    let pages = if thorough { 1 << 20 } else { 1 << 18 };
    match case.victim {
        VictimPolicy::Greedy => Effort { pages: 1 << 21, warm_up: 4, measured: 6 },
        _ if case.file.0 > SMALL_FILE.0 => Effort { pages: 2 * pages, warm_up: 5, measured: 16 },
        _ => Effort { pages, warm_up: 5, measured: 8 },
    }
}

/// Runs all cases in parallel.
pub fn compare(context: &Context, thorough: bool, seed: u64) -> anyhow::Result<Vec<ChainRow>> {
    parallel::map(context, "trim policies against theory", &cases(), |case| {
        let outcome = case
            .run(effort(case, thorough), seed, &interrupt::requested)
            .with_context(|| case.policy.to_string())?;
        Ok(row(case, &outcome.ok_or(InterruptError)?))
    })
}

fn row(case: &ChainCase, outcome: &ChainOutcome) -> ChainRow {
    let deviation_percent = 100.0 * outcome.deviation();
    let theory_of_lives = (case.victim == VictimPolicy::Fifo).then_some(outcome.of_lives);
    let deviation_of_lives_percent =
        theory_of_lives.map(|theory| 100.0 * (outcome.model / theory - 1.0));
    let limit_percent =
        if case.file == SMALL_FILE { LIMIT_SMALL_FILES_PERCENT } else { LIMIT_PERCENT };
    ChainRow {
        trim: case.policy.to_string(),
        policy: victim::name(case.victim),
        pages_per_block: case.pages_per_block,
        fill: case.fill,
        file_bytes: case.file.0,
        metadata_writes: outcome.own_writes,
        live: outcome.live,
        utilisation: outcome.utilisation,
        theory: outcome.theory,
        theory_of_lives,
        model: outcome.model,
        deviation_percent,
        deviation_of_lives_percent,
        limit_percent,
        agrees: deviation_percent.abs() <= limit_percent
            && deviation_of_lives_percent
                .is_none_or(|percent| percent.abs() <= LIMIT_OF_LIVES_PERCENT),
    }
}

/// Formats the rows as a table.
pub fn text(rows: &[ChainRow]) -> String {
    let head = [
        "trim policy",
        "drive",
        "files",
        "metadata",
        "live",
        "u",
        "theory",
        "of lives",
        "model",
        "deviation",
        "of lives",
        "limit",
    ];
    let mut table = Table::new("", &head);
    for row in rows {
        table.row([
            row.trim.clone(),
            row.policy.clone(),
            format!("{} KiB, {:.0} %", row.file_bytes >> 10, row.fill * 100.0),
            format!("{:.1} %", row.metadata_writes * 100.0),
            format!("{:.4}", row.live),
            format!("{:.4}", row.utilisation),
            format!("{:.4}", row.theory),
            row.theory_of_lives.map_or_else(String::new, |theory| format!("{theory:.4}")),
            format!("{:.4}", row.model),
            format!("{:+.2} %{}", row.deviation_percent, if row.agrees { "" } else { " !" }),
            row.deviation_of_lives_percent
                .map_or_else(String::new, |percent| format!("{percent:+.2} %")),
            format!("{} %", row.limit_percent),
        ]);
    }
    let outside = rows.iter().filter(|row| !row.agrees).count();
    let verdict = if outside == 0 {
        "all within limits".to_owned()
    } else {
        format!("{outside} outside limits (marked !)")
    };
    let what = format!(
        "File creation and deletion on a filesystem under a trim policy. Metadata: \
            share of journal, bitmaps and inode tables in the writes. Live: existing files; \
            u: mapped pages; both over physical pages. Theory: formula at u, with metadata \
            as hot data in the same log. Of lives: theory from counted page lifetimes \
            (limit {LIMIT_OF_LIVES_PERCENT} %)."
    );
    let verdict = format!("{} comparisons: {verdict}.", rows.len());
    [prose(&what), on_screen(&table), prose(&verdict)].concat()
}
