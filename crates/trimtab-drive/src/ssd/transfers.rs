//! Channel transfers of reads, where ready pages do not wait for others.

use alloc::collections::VecDeque;

/// Busy intervals in ascending order, without overlap.
///
/// A read takes the free time from the moment its data are in the page register, split if
/// necessary. Earlier reads keep their intervals: the channel is never idle while data
/// are ready, and serves the earliest submitted read first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Transfers(pub(super) VecDeque<(u64, u64)>);

impl Transfers {
    /// Takes `took` of free time from `ready` on. Returns its end, and the part before
    /// `committed`.
    pub(super) fn take(&mut self, ready: u64, took: u64, committed: u64) -> (u64, u64) {
        let first = self.first_ending_after(ready);
        let (mut begin, mut at, mut left, mut before, mut next) = (ready, ready, took, 0, first);
        let mut part = |at: u64, ns: u64| before += committed.saturating_sub(at).min(ns);
        while let Some(&(from, to)) = self.0.get(next) {
            let gap = from.saturating_sub(at);
            if gap >= left {
                break;
            }
            part(at, gap);
            (begin, at, left, next) = (begin.min(from), at.max(to), left - gap, next + 1);
        }
        part(at, left);
        let end = at.saturating_add(left);
        if next > first {
            self.0[first] = (begin, end);
            self.0.drain(first + 1..next);
        } else if took > 0 {
            self.0.insert(first, (begin, end));
        }
        (end, before)
    }

    /// Index of the first interval that ends after `instant`, usually one of the last.
    fn first_ending_after(&self, instant: u64) -> usize {
        self.0.iter().rposition(|(_, to)| *to <= instant).map_or(0, |before| before + 1)
    }

    /// Time at which `ns` of free time have passed since `from`.
    #[inline]
    pub(super) fn after(&self, from: u64, ns: u64) -> u64 {
        if self.0.is_empty() || ns == 0 {
            from.saturating_add(ns)
        } else {
            self.after_some(from, ns)
        }
    }

    #[cold]
    fn after_some(&self, from: u64, ns: u64) -> u64 {
        let (mut at, mut left) = (from, ns);
        for &(from, to) in self.0.range(self.first_ending_after(from)..) {
            let gap = from.saturating_sub(at);
            if gap >= left {
                break;
            }
            (at, left) = (at.max(to), left - gap);
        }
        at.saturating_add(left)
    }

    /// Free time between `from` and `until`.
    #[inline]
    pub(super) fn free_between(&self, from: u64, until: u64) -> u64 {
        let all = until.saturating_sub(from);
        if self.0.is_empty() || all == 0 {
            return all;
        }
        let taken =
            |(begin, end): &(u64, u64)| (*end).min(until).saturating_sub((*begin).max(from));
        all - self.0.range(self.first_ending_after(from)..).map(taken).sum::<u64>()
    }

    /// Removes and returns the first interval if it ends by `instant`.
    pub(super) fn pop_until(&mut self, instant: u64) -> Option<(u64, u64)> {
        self.0.front().is_some_and(|(_, to)| *to <= instant).then(|| self.0.pop_front()).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        /// Oracle: a table with one flag per time step.
        #[test]
        fn transfers_match_table_of_time_steps(steps in proptest::collection::vec((0_u64..200, 0_u64..12, 0_u64..250, 0_u64..20), 1..40)) {
            let (mut transfers, mut table) = (Transfers::default(), vec![false; 1000]);
            for (ready, took, committed, ns) in steps {
                let free: Vec<usize> = (ready as usize..1000).filter(|at| !table[*at]).take(took as usize).collect();
                let expected = (free.last().map_or(ready, |at| *at as u64 + 1), free.iter().filter(|at| (**at as u64) < committed).count() as u64);
                let (end, before) = transfers.take(ready, took, committed);
                free.iter().for_each(|at| table[*at] = true);
                if took > 0 {
                    prop_assert_eq!((end, before), expected);
                }
                let open = |from: u64| (from as usize..1000).filter(|at| !table[*at]);
                prop_assert_eq!(transfers.free_between(ready, committed), open(ready).filter(|at| (*at as u64) < committed).count() as u64);
                let passed = if ns == 0 { committed } else { open(committed).nth(ns as usize - 1).unwrap() as u64 + 1 };
                prop_assert_eq!(transfers.after(committed, ns), passed);
                let instants: Vec<u64> = transfers.0.iter().flat_map(|(from, to)| [*from, *to]).collect();
                prop_assert!(instants.is_sorted());
            }
            while let Some((from, to)) = transfers.pop_until(150) {
                prop_assert!(from < to && to <= 150);
            }
        }
    }
}
