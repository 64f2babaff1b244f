//! Work beside the interpreter: other Python threads run meanwhile, and Ctrl-C ends it.

use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use trimtab_sim::simulate::Watcher;

/// How often Python is asked whether Ctrl-C was pressed, and progress is told.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether to stop, and how far it is.
#[derive(Debug, Default)]
pub struct Signs {
    /// It is to end now.
    pub stop: AtomicBool,
    /// What was done of whatever is counted.
    pub done: AtomicU64,
}

impl Watcher for &Signs {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own until it ends. `progress` is called with what was done so far whenever that has changed.
///
/// # Errors
/// What Ctrl-C raises, or `progress`.
pub fn run<R: Send>(py: Python<'_>, progress: Option<&Py<PyAny>>, work: impl FnOnce(&Signs) -> R + Send) -> PyResult<R> {
    let signs = Signs::default();
    py.detach(|| {
        std::thread::scope(|scope| {
            let (over, ended) = sync_channel(1);
            let signs = &signs;
            let worker = scope.spawn(move || {
                let result = work(signs);
                // Whoever waits looks for the end of the thread if nobody takes this.
                let _ = over.send(());
                result
            });
            let (mut raised, mut told) = (Ok(()), 0);
            while raised.is_ok() && ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let done = signs.done.load(Ordering::Relaxed);
                raised = Python::attach(|py| {
                    py.check_signals()?;
                    match progress.filter(|_| done != told) {
                        Some(progress) => progress.call1(py, (done,)).map(drop),
                        None => Ok(()),
                    }
                });
                told = done;
            }
            signs.stop.store(raised.is_err(), Ordering::Relaxed);
            let result = worker.join();
            raised?;
            let result = result.map_err(stopped)?;
            let done = signs.done.load(Ordering::Relaxed);
            if let Some(progress) = progress.filter(|_| done != told) {
                Python::attach(|py| progress.call1(py, (done,)))?;
            }
            Ok(result)
        })
    })
}

/// Runs `work`, which takes milliseconds at most, here: a thread would take longer than the work. Other Python threads run meanwhile.
///
/// # Errors
/// A panic of the model.
pub fn run_here<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    py.detach(|| catch_unwind(AssertUnwindSafe(work))).map_err(stopped)
}

fn stopped(panic: Box<dyn Any + Send>) -> PyErr {
    let words = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    crate::error(format!("the model stopped: {}", words.unwrap_or_else(|| "it did not say why".to_owned())))
}
