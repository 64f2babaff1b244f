//! Derives a verdict and its explanation from the counters and the blocks read back.

use super::arrival::Arrival;
use super::readback::BlockContents;
use crate::host::discards::Fate;
use crate::output::error::{BLOCKED, NOT_PROVED};
use serde::Serialize;
use std::time::Duration;
use trimtab_drive::units::Bytes;

/// The drive's promise for reads of trimmed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Zeroes (ATA: RZAT).
    Zeroes,
    /// The same data on every read (ATA: DRAT).
    Same,
    /// Unknown.
    Unknown,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// All freed blocks read as zeroes.
    Zeroed,
    /// No freed block reads as written, and not all read as zeroes.
    Changed,
    /// Some read as written.
    Partly,
    /// All read as written, although the discards arrived.
    StillThere,
    /// A layer blocked the discards.
    NeverArrived,
    /// All freed blocks read as zeroes, but a layer did not pass the discards on to the
    /// drive.
    Swallowed,
    /// One of several devices received none, or accepts none.
    LegLeftOut,
    /// Nothing has been sent yet: the filesystem delays its discards.
    NotYet,
    /// Nothing was trimmed, and so mounted the filesystem sends no discards by itself.
    NotSent,
    /// Blocks of kept files have changed: TRIM destroys data here.
    Damage,
    /// No device below needs discards.
    NotNeeded,
    /// Unknown.
    Unknown,
}

impl VerdictKind {
    /// Exit status of `trimtab verify`.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Zeroed | Self::Changed | Self::NotNeeded => 0,
            Self::NeverArrived | Self::Swallowed | Self::LegLeftOut | Self::Damage => BLOCKED,
            Self::Partly | Self::StillThere | Self::NotYet | Self::NotSent | Self::Unknown => {
                NOT_PROVED
            }
        }
    }
}

/// The delay of a filesystem that queues discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardDelay {
    /// In words: "when the device has been idle for a while".
    pub when: &'static str,
    /// A sufficient wait in minutes, for `--wait`.
    pub wait_minutes: u64,
}

impl DiscardDelay {
    /// `wait_minutes` is the usual delay; proposes a longer wait if `waited` already
    /// exceeds it.
    pub fn new(when: &'static str, wait_minutes: u64, waited: Duration) -> Self {
        let waited_minutes = waited.as_secs() / 60;
        Self {
            when,
            wait_minutes: if waited_minutes < wait_minutes {
                wait_minutes
            } else {
                waited_minutes.saturating_mul(2)
            },
        }
    }

    fn text(&self, freed: &BlockContents) -> String {
        let how_much = if freed.written == freed.total() { "nothing" } else { "not everything" };
        format!(
            "{how_much} has been sent yet: this filesystem sends {}; give --wait {}min",
            self.when, self.wait_minutes
        )
    }
}

/// All observations of a proof.
#[derive(Clone, Debug)]
pub struct ProofObservations {
    /// Contents of the freed blocks.
    pub freed: BlockContents,
    /// Contents of the same blocks in a second read.
    pub again: BlockContents,
    /// Contents of the blocks of kept files.
    pub kept: BlockContents,
    /// Arrival of the discards at each layer.
    pub arrival: Arrival,
    /// The drive's promise.
    pub promise: Promise,
    /// The filesystem delays its discards, and has not sent all of them.
    pub later: Option<DiscardDelay>,
    /// Nothing was trimmed and online discard is off; holds the command that enables it.
    pub sends_nothing: Option<String>,
    /// A layer with a cache, which may serve reads of freed blocks from the cache.
    pub cached_by: Option<String>,
}

/// The verdict and its explanation.
pub fn judge(observed: &ProofObservations) -> (VerdictKind, String) {
    let ProofObservations { freed, again, kept, arrival, promise, later, sends_nothing, cached_by } =
        observed;
    if kept.written != kept.total() {
        let text = format!(
            "{} of {} blocks that were NOT freed have changed: TRIM destroys data on \
                this drive; stop using it here",
            kept.total() - kept.written,
            kept.total()
        );
        return (VerdictKind::Damage, text);
    }
    if freed.total() == 0 {
        return (
            VerdictKind::Unknown,
            "no freed block could be read back: the discard unit is larger than what \
                was freed; give a larger --size"
                .to_owned(),
        );
    }
    let unsteady = freed != again;
    let lost = arrival.lost.as_ref();
    // A layer that received discards and did not pass them on is not just slow.
    let on_top = lost.is_none_or(|lost| lost.by.is_none());
    if let Some(later) = later.as_ref().filter(|_| on_top && freed.written > 0) {
        return (VerdictKind::NotYet, later.text(freed));
    }
    if let Some(remedy) = sends_nothing.as_ref().filter(|_| freed.written == freed.total()) {
        return (VerdictKind::NotSent, not_sent(remedy));
    }
    if let Some(lost) = lost.filter(|l| l.reached_others) {
        let what = read_as(freed);
        return (
            VerdictKind::LegLeftOut,
            format!(
                "the discards never arrived at {}, but arrived at the other devices; {what}",
                lost.at
            ),
        );
    }
    if freed.written == 0 && freed.zero == freed.total() {
        return judge_zeroes(arrival);
    }
    if let Some(cache) = cached_by.as_ref().filter(|_| freed.written > 0 && lost.is_none()) {
        let text = format!(
            "unknown: the layers counted the discards, and {}, which may come from \
                the cache of {cache}: it still holds freed blocks",
            read_as(freed)
        );
        return (VerdictKind::Unknown, text);
    }
    if freed.written == 0 {
        return (VerdictKind::Changed, changed(freed, unsteady, *promise));
    }
    if freed.written < freed.total() {
        return (VerdictKind::Partly, partly(freed, *promise));
    }
    match lost {
        Some(lost) => {
            let text = format!(
                "all freed blocks still hold the data written: the discards never arrived at {}",
                lost.at
            );
            (VerdictKind::NeverArrived, text)
        }
        None => (VerdictKind::StillThere, still_there(*promise)),
    }
}

/// The verdict if every freed block reads as zeroes.
fn judge_zeroes(arrival: &Arrival) -> (VerdictKind, String) {
    if let Some(lost) = &arrival.lost {
        let by = lost.by.as_deref().unwrap_or("a layer above it");
        let text = format!(
            "the discards never arrived at {}: {by} did not pass them on, \
                and returns zeroes for the freed blocks",
            lost.at
        );
        return (VerdictKind::Swallowed, text);
    }
    if arrival.layers.iter().any(|layer| layer.discards.fate == Fate::WrittenAsZeroes) {
        let text = "unknown: every freed block reads as zeroes, because a loop device \
            on a block device writes zeroes instead of discards; it is not visible \
            from here whether the drive freed anything";
        return (VerdictKind::Unknown, text.to_owned());
    }
    let text = "proved: every freed block reads as zeroes, and the layers counted the discards";
    (VerdictKind::Zeroed, text.to_owned())
}

/// No device is at fault.
fn not_sent(remedy: &str) -> String {
    format!(
        "nothing was sent: mounted without discard, this filesystem sends discards \
            only when it is trimmed. This result says nothing about the drive; run trimtab \
            verify without --as-mounted to test it. To discard on every delete: {remedy}"
    )
}

/// The text if other processes disturbed all attempts.
pub fn disturbed_text(reused: u32, tries: u32) -> String {
    let why = match reused {
        0 => "the data read back differed between attempts, and other processes wrote to \
            the filesystem"
            .to_owned(),
        n => format!(
            "other processes reused the blocks before they could be read back, in {n} of \
            {tries} attempts"
        ),
    };
    format!(
        "unknown: {why}; that says nothing about the drive. Try again when there are fewer writes"
    )
}

/// A clause on the contents of the freed blocks.
fn read_as(freed: &BlockContents) -> String {
    match freed.written {
        0 => "no freed block that was read holds the data written".to_owned(),
        some => format!(
            "{:.0} % of the freed blocks still hold the data written",
            100.0 * some as f64 / freed.total() as f64
        ),
    }
}

fn changed(freed: &BlockContents, unsteady: bool, promise: Promise) -> String {
    let what = if freed.ones == freed.total() { "ones" } else { "data other than those written" };
    let steady = match (unsteady, promise) {
        (true, Promise::Same | Promise::Zeroes) => {
            "; it differs from one reading to the next, which the drive promises not to do"
        }
        (true, Promise::Unknown) => {
            "; it differs from one reading to the next, which a drive may do"
        }
        (false, Promise::Zeroes) => "; the drive promises zeroes but breaks that promise",
        (false, _) => "",
    };
    format!("proved: no freed block holds the data written; they read as {what}{steady}")
}

fn partly(freed: &BlockContents, promise: Promise) -> String {
    let share = 100.0 * freed.written as f64 / freed.total() as f64;
    let legal = match promise {
        Promise::Zeroes => "the drive promises zeroes but breaks that promise",
        _ => "a drive may ignore parts of a TRIM",
    };
    format!(
        "{share:.0} % of the freed blocks still hold the data written, the others do not: {legal}"
    )
}

fn still_there(promise: Promise) -> String {
    let legal = match promise {
        Promise::Zeroes => {
            "the drive promises zeroes but breaks that promise: it ignores TRIM, or \
                forgets only its mapping"
        }
        Promise::Same => {
            "legal: the drive promises only that they read the same each time; it \
                may have dropped its mapping all the same"
        }
        Promise::Unknown => {
            "may be legal: a drive may return old data until it has erased them, or \
                ignore TRIM altogether"
        }
    };
    format!("the discards arrived, but all freed blocks still hold the data written; {legal}")
}

/// Bytes for lines of the report.
pub fn in_words(bytes: Option<u64>) -> String {
    bytes.map_or("not counted".to_owned(), |b| Bytes(b).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trim::verify::arrival::DiscardLoss;

    fn content(zero: u64, ones: u64, written: u64, other: u64) -> BlockContents {
        BlockContents { zero, ones, written, other }
    }

    fn observed(freed: BlockContents, lost_at: Option<&str>) -> ProofObservations {
        let lost = lost_at.map(|at| DiscardLoss {
            at: at.trim_start_matches('+').to_owned(),
            by: None,
            reached_others: at.starts_with('+'),
        });
        let arrival = Arrival { layers: Vec::new(), lost };
        ProofObservations {
            freed,
            again: freed,
            kept: content(0, 0, 10, 0),
            arrival,
            promise: Promise::Unknown,
            later: None,
            sends_nothing: None,
            cached_by: None,
        }
    }

    #[test]
    fn judge_returns_verdict_for_each_case() {
        for (freed, lost_at, expected) in [
            (content(10, 0, 0, 0), None, VerdictKind::Zeroed),
            (content(10, 0, 0, 0), Some("sda"), VerdictKind::Swallowed),
            (content(10, 0, 0, 0), Some("+sda"), VerdictKind::LegLeftOut),
            (content(5, 0, 5, 0), Some("+sda"), VerdictKind::LegLeftOut),
            (content(0, 10, 0, 0), None, VerdictKind::Changed),
            (content(5, 0, 0, 5), None, VerdictKind::Changed),
            (content(5, 0, 5, 0), None, VerdictKind::Partly),
            (content(0, 0, 10, 0), None, VerdictKind::StillThere),
            (content(0, 0, 10, 0), Some("dm-0 (home)"), VerdictKind::NeverArrived),
            (content(0, 0, 0, 0), None, VerdictKind::Unknown),
        ] {
            assert_eq!(judge(&observed(freed, lost_at)).0, expected, "{freed:?} {lost_at:?}");
        }
        // The contents may be the cache's; data gone there are gone below as well.
        for (freed, expected) in [
            (content(7, 0, 3, 0), VerdictKind::Unknown),
            (content(0, 0, 10, 0), VerdictKind::Unknown),
            (content(10, 0, 0, 0), VerdictKind::Zeroed),
            (content(0, 0, 0, 10), VerdictKind::Changed),
        ] {
            assert_eq!(
                judge(&ProofObservations {
                    cached_by: Some("dm-0 (vg-l)".into()),
                    ..observed(freed, None)
                })
                .0,
                expected,
                "{freed:?}"
            );
        }
        let silent = ProofObservations {
            sends_nothing: Some("mount -o remount,discard /x".into()),
            ..observed(content(0, 0, 10, 0), Some("sda"))
        };
        let (kind, text) = judge(&silent);
        assert_eq!((kind, kind.exit_status()), (VerdictKind::NotSent, NOT_PROVED));
        assert!(text.contains("mount -o remount,discard /x") && !text.contains("sda"), "{text}");
        let sent_all_the_same = ProofObservations {
            freed: content(10, 0, 0, 0),
            again: content(10, 0, 0, 0),
            ..silent
        };
        assert_eq!(judge(&sent_all_the_same).0, VerdictKind::Swallowed);
        let damage =
            ProofObservations { kept: content(1, 0, 9, 0), ..observed(content(10, 0, 0, 0), None) };
        assert_eq!(judge(&damage).0, VerdictKind::Damage);
    }

    #[test]
    fn judge_delayed_discards_as_not_yet() {
        let later =
            |waited| Some(DiscardDelay::new("two minutes later", 3, Duration::from_secs(waited)));
        let judged = |freed, lost_at, waited| {
            judge(&ProofObservations { later: later(waited), ..observed(freed, lost_at) })
        };
        for (freed, lost_at, waited, words) in [
            (
                content(0, 0, 10, 0),
                Some("sda"),
                10,
                "nothing has been sent yet: this filesystem sends two minutes later; \
                    give --wait 3min",
            ),
            (
                content(4, 0, 6, 0),
                Some("sda"),
                170,
                "not everything has been sent yet: this filesystem sends two minutes \
                    later; give --wait 3min",
            ),
            (
                content(6, 0, 4, 0),
                None,
                180,
                "not everything has been sent yet: this filesystem sends two minutes \
                    later; give --wait 6min",
            ),
            (
                content(4, 0, 6, 0),
                Some("+sda"),
                600,
                "not everything has been sent yet: this filesystem sends two minutes \
                    later; give --wait 20min",
            ),
        ] {
            let (kind, text) = judged(freed, lost_at, waited);
            assert_eq!(
                (kind, kind.exit_status(), text.as_str()),
                (VerdictKind::NotYet, NOT_PROVED, words)
            );
        }
        assert_eq!(judged(content(10, 0, 0, 0), None, 10).0, VerdictKind::Zeroed);
        let mut swallowed =
            ProofObservations { later: later(10), ..observed(content(0, 0, 10, 0), Some("sda")) };
        swallowed.arrival.lost = Some(DiscardLoss {
            at: "sda".into(),
            by: Some("dm-0 (home)".into()),
            reached_others: false,
        });
        assert_eq!(judge(&swallowed).0, VerdictKind::NeverArrived, "the layer above had them");
    }

    #[test]
    fn judge_names_broken_promise() {
        let lying =
            ProofObservations { promise: Promise::Zeroes, ..observed(content(0, 0, 10, 0), None) };
        assert!(judge(&lying).1.contains("breaks that promise"));
        let unsteady = ProofObservations {
            again: content(0, 0, 0, 9),
            promise: Promise::Same,
            ..observed(content(0, 0, 0, 10), None)
        };
        assert!(judge(&unsteady).1.contains("promises not to do"));
    }
}
