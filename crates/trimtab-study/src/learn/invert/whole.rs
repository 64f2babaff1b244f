//! Derives spare space and the SLC cache from the figures of a whole drive by arithmetic
//! alone.

use super::super::candidate::{Candidate, at};
use super::super::probes::whole::{BURST_PIECES, FILL_PIECES};
use super::super::probes::{Findings, ProbePlan};
use alloc::format;
use alloc::vec::Vec;

/// Ratio above which a rate counts as slower.
const SLOWER: f64 = 1.25;
/// Ratio of the sizes on an empty and a full drive above which the cache shrinks.
const SHRINKS: f64 = 1.3;
/// Thousandths of the capacity reserved for garbage collection.
const KEPT_PERMILLE: f64 = 25.0;

/// `known` with the parameters that the figures of the whole drive imply.
#[must_use]
pub fn invert(known: &Candidate, found: &Findings, plan: &ProbePlan) -> Candidate {
    let mut to = known.clone();
    let share = plan.whole.map_or(1.0, |whole| whole.bytes as f64 / whole.of.max(1) as f64);
    if let Some(onset) = onset(&figures(found, "collected ")) {
        to.logs[at::SPARE] = libm::log((onset * share * 1000.0 + KEPT_PERMILLE).clamp(40.0, 600.0));
    }
    if known.kind.slc {
        slc(&mut to, found, share);
    }
    to
}

fn slc(to: &mut Candidate, found: &Findings, share: f64) {
    let (fill, burst) = (figures(found, "fill "), figures(found, "after a long rest "));
    let ppm = |pieces: f64, of: f64| (pieces * of * share * 1e6).clamp(1000.0, 400_000.0);
    let most = knee(&fill).map(|pieces| ppm(pieces, 1.0 / FILL_PIECES as f64));
    let least = knee(&burst).map(|pieces| ppm(pieces, 1.0 / (8 * BURST_PIECES) as f64));
    to.hidden.slc_shrinks = least.zip(most).is_some_and(|(least, most)| most > SHRINKS * least);
    let smallest = if to.hidden.slc_shrinks { least } else { most.or(least) };
    if let Some(smallest) = smallest {
        to.logs[at::SLC_LEAST] = libm::log(smallest);
        to.logs[at::SLC_MORE] =
            libm::log((most.unwrap_or(smallest) - smallest).max(smallest / 2.0));
    }
    // Each die programs native rows in turn behind the cache, and in addition if it is
    // emptied first.
    if let Some(slow) = fill.last().filter(|_| most.is_some()) {
        let row = f64::from(to.kind.dies()) * to.kind.row_bytes() as f64;
        to.logs[at::PROGRAM] = libm::log((slow * row).max(1e4));
    }
}

/// Figures with that prefix, in numeric order.
fn figures(found: &Findings, name: &str) -> Vec<f64> {
    (1..).map_while(|nth| found.ns(&format!("{name}{nth}"))).collect()
}

/// Number of pieces before the rate drops. Both rates together explain the time of the
/// piece in between. `None` if the rate never drops.
fn knee(pieces: &[f64]) -> Option<f64> {
    let fast = pieces.iter().copied().fold(f64::INFINITY, f64::min);
    let slow = *pieces.last()?;
    if slow < SLOWER * fast {
        return None;
    }
    let at = pieces.iter().rposition(|ns| *ns < libm::sqrt(fast * slow))?;
    let within = |nth: usize| {
        pieces.get(nth).map_or(0.0, |ns| ((slow - ns) / (slow - fast)).clamp(0.0, 1.0))
    };
    Some((at as f64 + within(at) + within(at + 1)).max(0.05))
}

/// Share of the drive written randomly before the rate drops, while unused space lasts.
fn onset(pieces: &[f64]) -> Option<f64> {
    let first = *pieces.first()?;
    let slower = pieces.iter().position(|ns| *ns > SLOWER * first)?;
    Some((slower as f64 + 0.3) / pieces.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knee_interpolates_between_both_rates() {
        // 2.25 pieces at 1 ns per byte, then 4 ns: the third takes 0.25 + 0.75 * 4.
        assert!((knee(&[1.0, 1.0, 3.25, 4.0, 4.0]).unwrap() - 2.25).abs() < 1e-9);
        assert_eq!((knee(&[2.0, 2.1, 2.0]), knee(&[])), (None, None));
        // From the fourth of five pieces on.
        assert!((onset(&[1.0, 1.0, 1.1, 2.0, 3.0]).unwrap() - 0.66).abs() < 1e-9);
        assert_eq!(onset(&[1.0, 1.0]), None);
    }
}
