//! Parallel execution with progress.

use trimtab::drives::crew;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};

/// Runs `work` on each of `items` in parallel; returns the results in order. Shows
/// progress under `title`.
///
/// # Errors
/// The first error of `work`.
pub fn map<T: Sync, R: Send>(
    context: &Context,
    title: &str,
    items: &[T],
    work: impl Fn(&T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let tally = Progress::new(context, title, ProgressUnit::Items, items.len() as u64);
    let results = crew::map(items, |item| {
        let result = work(item);
        tally.advance(1);
        result
    });
    results.into_iter().collect()
}
