//! Worker threads for the cells of a study or sweep: they take one item after another
//! until none is left, one fails, or the user interrupts.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use trimtab_linux::sys::interrupt;

/// Runs `work` on every item of `next`, on `threads` threads. `next` receives the index
/// of the thread.
///
/// # Errors
/// The first error of `work`. Items in progress finish then, and no new one starts.
pub fn run<T>(
    threads: usize,
    next: impl Fn(usize) -> Option<T> + Sync,
    work: impl Fn(T) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let failed: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let failure = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let one = |thread: usize| {
        while !interrupt::requested() && failure().is_none() {
            let Some(task) = next(thread) else { break };
            if let Err(error) = work(task) {
                failure().get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        let one = &one;
        for thread in 0..threads.max(1) {
            scope.spawn(move || one(thread));
        }
    });
    failure().take().map_or(Ok(()), Err)
}

/// Applies `work` to each of `items` on all processors; results keep their order.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let some = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        numbers.map_while(|at| items.get(at).map(|item| (at, work(item)))).collect::<Vec<_>>()
    };
    let threads = processors().min(items.len());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let mut made: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    made.sort_unstable_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}

/// Number of processors available to this program.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn map_keeps_the_order_of_its_items() {
        let calls = AtomicU64::new(0);
        for count in [0, 1, 2, 1000] {
            let items: Vec<u64> = (0..count).collect();
            let doubled = map(&items, |n| {
                calls.fetch_add(1, Ordering::Relaxed);
                2 * n
            });
            assert_eq!(doubled, items.iter().map(|n| 2 * n).collect::<Vec<_>>());
        }
        assert_eq!(calls.into_inner(), 1003, "each item once");
    }

    #[test]
    fn crew_map_runs_each_once_and_stops_at_failure() {
        let (given, done) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
        let next = |_| Some(given.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < 1000);
        run(7, next, |n| {
            assert!(done.lock().unwrap().insert(n));
            Ok(())
        })
        .unwrap();
        assert_eq!(done.lock().unwrap().len(), 1000);

        let begun = AtomicU64::new(0);
        let error = run(
            1,
            |_| Some(begun.fetch_add(1, Ordering::Relaxed)),
            |n| if n == 4 { anyhow::bail!("no {n}") } else { Ok(()) },
        );
        assert_eq!((error.unwrap_err().to_string(), begun.into_inner()), ("no 4".to_owned(), 5));
    }
}
