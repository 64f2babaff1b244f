//! From what was counted and what was read back to a verdict, in words that leave nothing out.

use super::readback::Content;
use crate::host::block::{Kind, Stack};
use crate::host::discards::LayerDiscards;
use crate::host::environment::kind_name;
use serde::Serialize;
use trimtab_core::units::Bytes;

/// What the drive promises about reading trimmed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Zeroes (ATA: RZAT).
    Zeroes,
    /// The same each time (ATA: DRAT).
    Same,
    /// Nothing that is known here.
    Unknown,
}

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictKind {
    /// All freed blocks read as zeroes.
    Zeroed,
    /// None reads as what was written, and not all as zeroes.
    Changed,
    /// Some read as what was written.
    Partly,
    /// All read as what was written, though the discards arrived.
    StillThere,
    /// The discards did not get through a layer.
    NeverArrived,
    /// Blocks of files that were kept have changed: TRIM destroys data here.
    Damage,
    /// It could not be found out.
    Unknown,
}

/// What one layer counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerCount {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: String,
    /// Discard commands; absent if the layer does not count.
    pub commands: Option<u64>,
    /// Bytes of them.
    pub bytes: Option<u64>,
    /// Whether enough arrived to cover the freed space.
    pub arrived: Option<bool>,
}

/// What the layers counted, and the first that got too little although the one above it did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// In the order of the stack, each layer once.
    pub layers: Vec<LayerCount>,
    /// Where they were lost.
    pub lost_at: Option<String>,
}

/// Compares what arrived at each layer with the `expected` bytes.
#[must_use]
pub fn arrival(stack: &Stack, counts: &[LayerDiscards], expected: u64) -> Arrival {
    let bytes_of = |i: usize| counts.get(i).and_then(|c| c.discards).map(|d| d.bytes.0);
    // Arrays share the bytes out, or send them to every member: together they have to get them.
    let enough = |siblings: &[usize]| -> Option<bool> {
        let sum = siblings.iter().map(|&i| bytes_of(i)).collect::<Option<Vec<u64>>>()?.into_iter().fold(0, u64::saturating_add);
        (!siblings.is_empty()).then_some(sum >= expected / 2 && sum > 0)
    };
    let mut layers: Vec<LayerCount> = Vec::new();
    let mut lost_at = None;
    let mut level: Vec<usize> = stack.tops.clone();
    let mut seen = vec![false; stack.layers.len()];
    while !level.is_empty() {
        let arrived = enough(&level);
        let mut below: Vec<usize> = Vec::new();
        for &i in &level {
            let layer = &stack.layers[i];
            seen[i] = true;
            let discards = counts.get(i).and_then(|c| c.discards);
            layers.push(LayerCount {
                name: layer.title(),
                kind: kind_name(&layer.kind),
                commands: discards.map(|d| d.commands),
                bytes: discards.map(|d| d.bytes.0),
                arrived,
            });
            // Below a file begins another filesystem, which has its own ways.
            if !matches!(layer.kind, Kind::File { .. }) {
                below.extend(layer.below.iter().filter(|&&b| !seen[b] && !matches!(stack.layers[b].kind, Kind::File { .. })));
            }
        }
        if arrived == Some(false) && lost_at.is_none() {
            lost_at = Some(level.iter().map(|&i| stack.layers[i].title()).collect::<Vec<_>>().join(", "));
        }
        below.sort_unstable();
        below.dedup();
        level = below;
    }
    Arrival { layers, lost_at }
}

/// Everything that was observed.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What freed blocks read as.
    pub freed: Content,
    /// What they read as when read once more.
    pub again: Content,
    /// What blocks of kept files read as.
    pub kept: Content,
    /// Where the discards got to.
    pub arrival: Arrival,
    /// What the drive promises.
    pub promise: Promise,
}

/// The verdict with its explanation.
#[must_use]
pub fn judge(observed: &Observed) -> (VerdictKind, String) {
    let Observed { freed, again, kept, arrival, promise } = observed;
    if kept.written != kept.total() {
        let text = format!(
            "{} of {} blocks that were NOT freed have changed: TRIM destroys data on this drive; stop using it here",
            kept.total() - kept.written,
            kept.total()
        );
        return (VerdictKind::Damage, text);
    }
    if freed.total() == 0 {
        return (
            VerdictKind::Unknown,
            "no freed block could be read back: the discard unit is larger than what was freed; give a larger --size".to_owned(),
        );
    }
    let unsteady = freed != again;
    let lost = arrival.lost_at.as_deref();
    if freed.written == 0 && freed.zero == freed.total() {
        return (VerdictKind::Zeroed, zeroed(lost));
    }
    if freed.written == 0 {
        return (VerdictKind::Changed, changed(freed, unsteady, *promise));
    }
    if freed.written < freed.total() {
        return (VerdictKind::Partly, partly(freed, *promise));
    }
    match lost {
        Some(layer) => {
            (VerdictKind::NeverArrived, format!("all freed blocks still hold what was written: the discards never arrived at {layer}"))
        }
        None => (VerdictKind::StillThere, still_there(*promise)),
    }
}

/// What there is to say if others used the filesystem too much meanwhile.
#[must_use]
pub fn among_others(reused: u32, tries: u32) -> String {
    let why = match reused {
        0 => "what was read back differed from try to try, and others wrote to the filesystem meanwhile".to_owned(),
        n => format!("blocks were reused by others before they could be read back, in {n} of {tries} tries"),
    };
    format!("unknown: {why}; that says nothing about the drive. Try again when less is written here")
}

fn zeroed(lost: Option<&str>) -> String {
    match lost {
        None => "proved: every freed block reads as zeroes, and the discards were counted on their way".to_owned(),
        Some(layer) => format!(
            "every freed block reads as zeroes, although {layer} counted too few discards: something above it zeroes, or it does not count"
        ),
    }
}

fn changed(freed: &Content, unsteady: bool, promise: Promise) -> String {
    let what = if freed.ones == freed.total() { "ones" } else { "something else than what was written" };
    let steady = match (unsteady, promise) {
        (true, Promise::Same | Promise::Zeroes) => "; it differs from one reading to the next, which the drive promises not to do",
        (true, Promise::Unknown) => "; it differs from one reading to the next, which a drive may do",
        (false, Promise::Zeroes) => "; the drive promises zeroes and does not keep that",
        (false, _) => "",
    };
    format!("proved: no freed block holds what was written, they read as {what}{steady}")
}

fn partly(freed: &Content, promise: Promise) -> String {
    let share = 100.0 * freed.written as f64 / freed.total() as f64;
    let legal = match promise {
        Promise::Zeroes => "the drive promises zeroes and does not keep that",
        _ => "a drive may leave out parts of a TRIM",
    };
    format!("{share:.0} % of the freed blocks still hold what was written, the others do not: {legal}")
}

fn still_there(promise: Promise) -> String {
    let legal = match promise {
        Promise::Zeroes => "the drive promises zeroes and does not keep that: it ignores TRIM, or forgets only its mapping",
        Promise::Same => "legal: the drive promises only that they read the same each time; it may have dropped its mapping all the same",
        Promise::Unknown => "may be legal: a drive may return old data until it has erased them, or ignore TRIM altogether",
    };
    format!("the discards arrived, but all freed blocks still hold what was written; {legal}")
}

/// Bytes in words, for lines of the report.
#[must_use]
pub fn in_words(bytes: Option<u64>) -> String {
    bytes.map_or("not counted".to_owned(), |b| Bytes(b).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::{Bus, Layer};
    use crate::host::mountinfo::DevNumber;
    use crate::host::stat::Discards;

    fn content(zero: u64, ones: u64, written: u64, other: u64) -> Content {
        Content { zero, ones, written, other }
    }

    fn observed(freed: Content, lost_at: Option<&str>) -> Observed {
        let arrival = Arrival { layers: Vec::new(), lost_at: lost_at.map(str::to_owned) };
        Observed { freed, again: freed, kept: content(0, 0, 10, 0), arrival, promise: Promise::Unknown }
    }

    #[test]
    fn each_case_has_its_verdict() {
        for (freed, lost_at, expected) in [
            (content(10, 0, 0, 0), None, VerdictKind::Zeroed),
            (content(10, 0, 0, 0), Some("sda"), VerdictKind::Zeroed),
            (content(0, 10, 0, 0), None, VerdictKind::Changed),
            (content(5, 0, 0, 5), None, VerdictKind::Changed),
            (content(5, 0, 5, 0), None, VerdictKind::Partly),
            (content(0, 0, 10, 0), None, VerdictKind::StillThere),
            (content(0, 0, 10, 0), Some("dm-0 (home)"), VerdictKind::NeverArrived),
            (content(0, 0, 0, 0), None, VerdictKind::Unknown),
        ] {
            assert_eq!(judge(&observed(freed, lost_at)).0, expected, "{freed:?} {lost_at:?}");
        }
        let damage = Observed { kept: content(1, 0, 9, 0), ..observed(content(10, 0, 0, 0), None) };
        assert_eq!(judge(&damage).0, VerdictKind::Damage);
    }

    #[test]
    fn a_broken_promise_is_named() {
        let lying = Observed { promise: Promise::Zeroes, ..observed(content(0, 0, 10, 0), None) };
        assert!(judge(&lying).1.contains("does not keep that"));
        let unsteady = Observed { again: content(0, 0, 0, 9), promise: Promise::Same, ..observed(content(0, 0, 0, 10), None) };
        assert!(judge(&unsteady).1.contains("promises not to do"));
    }

    fn layer(name: &str, kind: Kind, below: &[usize]) -> Layer {
        let dev = DevNumber { major: 0, minor: 0 };
        Layer { name: name.into(), label: None, kind, sys: name.into(), dev, size: Bytes::ZERO, below: below.to_vec() }
    }

    fn counts(bytes: &[Option<u64>]) -> Vec<LayerDiscards> {
        let discards = |b: &Option<u64>| b.map(|b| Discards { commands: 1, bytes: Bytes(b), ..Discards::default() });
        bytes.iter().enumerate().map(|(layer, b)| LayerDiscards { layer, discards: discards(b) }).collect()
    }

    #[test]
    fn the_layer_that_swallows_discards_is_found() {
        let drive = || Kind::Drive(Bus::Ata);
        let crypt = Stack {
            layers: vec![layer("dm-0", Kind::Crypt, &[1]), layer("sda1", Kind::Partition, &[2]), layer("sda", drive(), &[])],
            tops: vec![0],
        };
        assert_eq!(arrival(&crypt, &counts(&[Some(100), Some(100), Some(100)]), 100).lost_at, None);
        assert_eq!(arrival(&crypt, &counts(&[Some(100), Some(0), Some(0)]), 100).lost_at.as_deref(), Some("sda1"));
        assert_eq!(arrival(&crypt, &counts(&[Some(0), Some(0), Some(0)]), 100).lost_at.as_deref(), Some("dm-0"));
        assert_eq!(arrival(&crypt, &counts(&[Some(100), None, Some(100)]), 100).lost_at, None, "a layer that does not count");
    }

    #[test]
    fn members_of_arrays_share_what_arrives() {
        let md = |level: &str| Stack {
            layers: vec![
                layer("md0", Kind::Md(level.into()), &[1, 2]),
                layer("sda", Kind::Drive(Bus::Ata), &[]),
                layer("sdb", Kind::Drive(Bus::Ata), &[]),
            ],
            tops: vec![0],
        };
        assert_eq!(arrival(&md("raid0"), &counts(&[Some(100), Some(50), Some(50)]), 100).lost_at, None);
        assert_eq!(arrival(&md("raid1"), &counts(&[Some(100), Some(100), Some(0)]), 100).lost_at, None);
        assert_eq!(arrival(&md("raid5"), &counts(&[Some(100), Some(0), Some(0)]), 100).lost_at.as_deref(), Some("sda, sdb"));
    }
}
