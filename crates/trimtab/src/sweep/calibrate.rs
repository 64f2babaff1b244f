//! Estimates the time of a sweep by running a few of its cells for a moment.

use super::ValidatedPlan;
use crate::drives::simulate::traced::TraceInput;
use std::time::{Duration, Instant};
use trimtab_linux::sys::interrupt;
use trimtab_sim::runner::{Observer, RunEnd, RunProgress};
use trimtab_sim::target::TargetResult;
use trimtab_study::sweep::{SweepCell, SweepCellWork};

/// Trial cells, spread over the plan.
const CELLS: u64 = 6;
/// Time for each of them.
const PATIENCE: Duration = Duration::from_secs(2);
/// Cells with months of files run on a small drive and report no progress, so they get more
/// time.
const PATIENCE_FILES: Duration = Duration::from_secs(20);

/// Result of the trial runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Trial cells that were run.
    pub tried: u64,
    /// Their duration, in seconds.
    pub took_s: f64,
    /// Average seconds of a cell on one thread; `None` if no trial ran or reported progress.
    pub cell_s: Option<f64>,
}

struct Stopwatch {
    began: Instant,
    patience: Duration,
    /// Time and bytes written of two progress reports: at half of the time limit, and now.
    half: Option<(Duration, u64)>,
    now: Option<(Duration, u64)>,
}

impl Observer for Stopwatch {
    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        let said = Some((self.began.elapsed(), progress.written.0));
        if self.began.elapsed() < self.patience / 2 || self.half.is_none() {
            self.half = said;
        }
        self.now = said;
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.began.elapsed() > self.patience || interrupt::requested()
    }
}

impl Stopwatch {
    /// Extrapolates the time to write `bytes` from the second half: a drive slows down once it
    /// collects garbage.
    fn until(&self, bytes: u64) -> Option<f64> {
        let ((then, before), (now, written)) = (self.half?, self.now?);
        let rate = (written.checked_sub(before)? as f64 / (now.checked_sub(then)?).as_secs_f64()).max(0.0);
        (rate.is_finite() && rate > 0.0).then(|| now.as_secs_f64() + bytes.saturating_sub(written) as f64 / rate)
    }
}

/// Time of a cell, in seconds.
fn time(cell: &SweepCell<TraceInput>) -> Option<f64> {
    let patience = if matches!(cell.work, SweepCellWork::Files { .. }) { PATIENCE_FILES } else { PATIENCE };
    let mut watch = Stopwatch { began: Instant::now(), patience, half: None, now: None };
    match (cell.run(&mut watch), cell.writes()) {
        (Ok((_, RunEnd::Complete)), _) => Some(watch.began.elapsed().as_secs_f64()),
        (Ok((_, RunEnd::Interrupted)), (_, Some(bytes))) => watch.until(bytes.0),
        _ => None,
    }
}

/// Runs a few cells of a plan.
pub fn calibrate(checked: &ValidatedPlan) -> Calibration {
    let (plan, last) = (&checked.plan, u128::from(checked.plan.cells() - 1));
    let mut numbers: Vec<u64> = (0..CELLS).map(|n| (u128::from(n) * last / u128::from(CELLS - 1)) as u64).collect();
    numbers.dedup();
    let began = Instant::now();
    let cells: Vec<_> = numbers.into_iter().filter_map(|number| plan.cell(&plan.place(number), &checked.files).ok()).collect();
    let seconds: Vec<f64> = cells.iter().filter_map(time).collect();
    let cell_s = (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64);
    Calibration { tried: cells.len() as u64, took_s: began.elapsed().as_secs_f64(), cell_s }
}
