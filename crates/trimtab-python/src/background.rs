//! Background work: other Python threads keep running, and Ctrl-C stops it.

use pyo3::prelude::*;
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use trimtab_sim::runner::{Observer, RunProgress};
use trimtab_sim::target::TargetResult;

/// Interval between checks for Ctrl-C and progress reports.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Shared state of a task.
#[derive(Debug, Default)]
pub struct TaskState {
    /// Set to stop the task.
    pub stop: AtomicBool,
    /// Units of work done so far.
    pub done: AtomicU64,
}

/// Counts operations or candidates. A task of several cells passes `&dyn Observer` to
/// each, to count only cells.
impl Observer for &TaskState {
    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.done.store(progress.ops, Ordering::Relaxed);
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own. Calls `progress` with the work done so far on
/// changes.
///
/// # Errors
/// The exception raised by Ctrl-C or by `progress`.
pub fn run<R: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&TaskState) -> R + Send,
) -> PyResult<R> {
    let state = TaskState::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (over, ended) = sync_channel(1);
            let state = &state;
            let worker = scope.spawn(move || {
                let result = work(state);
                // The receiver may be gone; it also checks for the end of the thread.
                let _ = over.send(());
                result
            });
            let (mut raised, mut reported) = (Ok(()), 0);
            while raised.is_ok() && ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout)
            {
                let done = state.done.load(Ordering::Relaxed);
                raised = Python::attach(|py| {
                    py.check_signals()?;
                    match progress.filter(|_| done != reported) {
                        Some(progress) => progress.call1(py, (done,)).map(drop),
                        None => Ok(()),
                    }
                });
                reported = done;
            }
            state.stop.store(raised.is_err(), Ordering::Relaxed);
            let result = worker.join();
            raised?;
            let result = result.map_err(stopped)?;
            let done = state.done.load(Ordering::Relaxed);
            if let Some(progress) = progress.filter(|_| done != reported) {
                Python::attach(|py| progress.call1(py, (done,)))?;
            }
            Ok(result)
        })
    })
}

fn stopped(panic: Box<dyn Any + Send>) -> PyErr {
    let words = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    crate::error(format!(
        "the model stopped: {}",
        words.unwrap_or_else(|| "no reason given".to_owned())
    ))
}
