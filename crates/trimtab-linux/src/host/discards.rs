//! Counts the discards that reached the drives: the discard fields of `stat` before and
//! after, at every layer. This count shows the effect of a trim; the length that FITRIM
//! returns does not.
//!
//! A layer's counter is meaningful only in relation to the layers below. Some layers pass
//! discards on without counting them (md RAID 0 and 5), some count them more than once
//! (LVM RAID 1), some count discards that they do not pass on (thin pools). The amount
//! that reached the drives is therefore the count of the lowest layers, each leg
//! separately.

use super::block::{LayerKind, Stack};
use super::environment::kind_name;
use super::root::Root;
use super::stat::{DiskStat, StatFile};
use serde::{Serialize, Serializer};
use std::path::{Path, PathBuf};
use trimtab_drive::discards::Amount;
use trimtab_drive::units::Bytes;

/// The discard counters of every layer of a stack at one moment.
#[derive(Debug, Clone, Default)]
pub struct CounterSnapshot {
    layers: Vec<(PathBuf, Option<Amount>)>,
    /// Bytes allocated to the files below loop devices.
    occupied: Vec<Option<u64>>,
}

/// Discards per layer, in stack order; `None` for a layer that did not always count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayerCounts(Option<Vec<Option<Amount>>>);

impl LayerCounts {
    /// From counts in the order of the stack.
    pub fn of(counts: &[Option<Amount>]) -> Self {
        Self(Some(counts.to_vec()))
    }

    /// Adds counts of the same layers.
    pub fn add(&mut self, more: &Self) {
        let Some(more) = &more.0 else { return };
        match &mut self.0 {
            None => self.0 = Some(more.clone()),
            Some(sums) => sums
                .iter_mut()
                .zip(more)
                .for_each(|(sum, one)| *sum = sum.zip(*one).map(|(sum, one)| sum + one)),
        }
    }

    /// The sum over `layers`; `None` if `layers` is empty or one of them does not count.
    pub fn at(&self, layers: &[usize]) -> Option<Amount> {
        let of = |&layer: &usize| self.0.as_ref()?.get(layer).copied().flatten();
        layers.iter().map(of).reduce(|a, b| Some(a? + b?))?
    }
}

/// The fate of the discards that arrived at a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Counted here.
    Counted,
    /// No discard arrived here.
    Nothing,
    /// This layer does not count discards, or counted none although some passed through
    /// it.
    NotCounted,
    /// A loop device above writes zeroes instead of discarding; counters show no
    /// difference.
    WrittenAsZeroes,
    /// Counted here but in no layer below: this layer passed nothing on.
    Swallowed,
}

/// The discards of one layer between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerDiscards {
    /// Index into [`Stack::layers`].
    #[serde(skip)]
    pub layer: usize,
    /// Name of the layer.
    pub name: String,
    /// The type of the layer, as shown.
    pub kind: String,
    /// A lowest counting layer: its discards reached a drive, or the file below a loop
    /// device.
    pub lowest: bool,
    /// The fate of its discards.
    pub fate: Fate,
    /// Discard commands accepted; `None` if the layer does not count.
    #[serde(flatten, serialize_with = "as_commands_and_bytes")]
    pub accepted: Option<Amount>,
    /// For a file below a loop device: bytes deallocated in its filesystem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_back_bytes: Option<u64>,
}

impl LayerDiscards {
    /// Bytes discarded; `None` if the layer does not count.
    pub fn bytes(&self) -> Option<u64> {
        self.accepted.map(|accepted| accepted.bytes.0)
    }
}

fn as_commands_and_bytes<S: Serializer>(
    accepted: &Option<Amount>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shape {
        commands: Option<u64>,
        bytes: Option<u64>,
    }
    Shape { commands: accepted.map(|a| a.count), bytes: accepted.map(|a| a.bytes.0) }
        .serialize(serializer)
}

impl CounterSnapshot {
    /// Reads the counters of all layers.
    pub fn take(root: &Root, stack: &Stack) -> Self {
        let read = |sys: &PathBuf| {
            (!sys.as_os_str().is_empty()).then(|| DiskStat::read(root, sys)?.discards).flatten()
        };
        let zeroes = stack.written_as_zeroes();
        let read = |(index, layer): (usize, &super::block::Layer)| {
            (layer.sys.clone(), read(&layer.sys).filter(|_| !zeroes.contains(&index)))
        };
        let occupied = stack.layers.iter().map(|l| {
            matches!(l.kind, LayerKind::File { .. }).then(|| occupied(root, &l.name)).flatten()
        });
        Self {
            layers: stack.layers.iter().enumerate().map(read).collect(),
            occupied: occupied.collect(),
        }
    }

    /// The counts of every layer since `before`.
    pub fn counts_since(&self, before: &Self) -> LayerCounts {
        let one = |(i, now): (usize, &(PathBuf, Option<Amount>))| {
            now.1.zip(before.layers.get(i).and_then(|l| l.1)).map(|(now, then)| now.since(then))
        };
        LayerCounts(Some(self.layers.iter().enumerate().map(one).collect()))
    }

    /// The discards of every layer since `before`, in the order of the stack.
    pub fn since(&self, before: &Self, stack: &Stack) -> Vec<LayerDiscards> {
        self.judge(before, stack, &self.counts_since(before))
    }

    /// Judges `counts`, taken between `before` and `self`, for every layer.
    fn judge(&self, before: &Self, stack: &Stack, counts: &LayerCounts) -> Vec<LayerDiscards> {
        let mut layers = fates(stack, counts.0.as_deref().unwrap_or_default());
        for (layer, (now, then)) in
            layers.iter_mut().zip(self.occupied.iter().zip(&before.occupied))
        {
            layer.given_back_bytes = now.zip(*then).map(|(now, then)| then.saturating_sub(now));
        }
        layers
    }
}

/// Bytes allocated to a file on the running machine.
fn occupied(root: &Root, name: &str) -> Option<u64> {
    const BLOCK: u64 = 512;
    let stat = root.is_live().then(|| rustix::fs::stat(Path::new(name)).ok())??;
    u64::try_from(stat.st_blocks).ok().map(|blocks| blocks.saturating_mul(BLOCK))
}

/// Derives the fate of every layer's discards from all counts, in the order of the stack.
pub fn fates(stack: &Stack, own: &[Option<Amount>]) -> Vec<LayerDiscards> {
    let ends = stack.ends();
    let bytes_of = |i: usize| own.get(i).copied().flatten().map(|d| d.bytes);
    let ends_below = |i: usize| stack.ends_of(i).into_iter().filter(move |&e| e != i);
    // `None` if one of them does not count.
    let below = |i: usize| ends_below(i).map(bytes_of).sum::<Option<Bytes>>();
    let went_on = |i: usize| stack.legs_of(i).any(|b| bytes_of(b).is_some_and(|b| b > Bytes::ZERO));
    let zeroes = stack.written_as_zeroes();
    let fate = |i: usize| match bytes_of(i) {
        None if zeroes.contains(&i) => Fate::WrittenAsZeroes,
        None => Fate::NotCounted,
        // Metadata of arrays and pools has nothing to discard.
        Some(Bytes::ZERO)
            if ends.contains(&i)
                || stack.layers.get(i).is_some_and(super::block::Layer::gets_no_discards) =>
        {
            Fate::Nothing
        }
        // No layer below the disk of a partition can have received less.
        Some(_) if ends.contains(&i) || ends_below(i).next().is_none() => Fate::Counted,
        Some(Bytes::ZERO) => below(i).map_or(Fate::NotCounted, |below| {
            if below > Bytes::ZERO { Fate::NotCounted } else { Fate::Nothing }
        }),
        Some(_) if below(i) == Some(Bytes::ZERO) && !went_on(i) => Fate::Swallowed,
        Some(_) => Fate::Counted,
    };
    let one = |(i, layer): (usize, &super::block::Layer)| LayerDiscards {
        layer: i,
        name: layer.title(),
        kind: kind_name(&layer.kind),
        lowest: ends.contains(&i),
        fate: fate(i),
        accepted: own.get(i).copied().flatten(),
        given_back_bytes: None,
    };
    stack.layers.iter().enumerate().map(one).collect()
}

/// Counts the discards that reach the devices of one filesystem (or one device).
#[derive(Debug)]
pub struct Meter {
    root: Root,
    stack: Stack,
    ends: Vec<usize>,
    before: CounterSnapshot,
}

impl Meter {
    /// Starts counting on the stack of `path`.
    pub fn start(path: &Path) -> std::io::Result<Self> {
        let root = Root::live()?;
        let stack = super::Place::of_path(&root, path)?.stack;
        Ok(Self::of_stack(root, stack))
    }

    /// Starts counting on the layers of `stack`.
    pub fn of_stack(root: Root, stack: Stack) -> Self {
        let before = CounterSnapshot::take(&root, &stack);
        Self { ends: stack.ends(), root, stack, before }
    }

    /// Returns the counts of every layer since the start and restarts at zero, without a
    /// gap.
    pub fn take(&mut self) -> LayerCounts {
        let now = CounterSnapshot::take(&self.root, &self.stack);
        let counts = now.counts_since(&self.before);
        self.before = now;
        counts
    }

    /// A count of zero for every layer that counts.
    pub fn nothing(&self) -> LayerCounts {
        self.before.counts_since(&self.before)
    }

    /// The lowest layers that count.
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// Discards that reached the drives since the start, summed over all drives: mirrors
    /// count once per copy. `None` if one of the lowest layers does not count.
    pub fn count(&self) -> Option<Amount> {
        let since = |&i: &usize| {
            let (sys, then) = self.before.layers.get(i)?;
            Some(DiskStat::read(&self.root, sys)?.discards?.since((*then)?))
        };
        self.ends.iter().map(since).reduce(|a, b| Some(a? + b?))?
    }

    /// The counters of the single device that serves every request, if there is one.
    pub fn stat(&self) -> Option<DiskStat> {
        let watched = super::interference::watched(&self.stack)?;
        StatFile::open(&self.root, &watched.sys).ok()?.read()
    }

    /// The discards of every layer since the start.
    pub fn layers(&self) -> Vec<LayerDiscards> {
        CounterSnapshot::take(&self.root, &self.stack).since(&self.before, &self.stack)
    }

    /// Judges `counts`, taken since the start, for every layer.
    pub fn judge(&self, counts: &LayerCounts) -> Vec<LayerDiscards> {
        CounterSnapshot::take(&self.root, &self.stack).judge(&self.before, &self.stack, counts)
    }

    /// The layers counted.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
}

/// Remarks for the user: layers that do not count passed discards, layers that did not
/// pass them on, and the distribution over several legs.
pub fn remarks(layers: &[LayerDiscards]) -> Vec<String> {
    let mut remarks = Vec::new();
    for layer in layers {
        let name = format!("{} [{}]", layer.name, layer.kind);
        let any_below = layers.iter().any(|l| l.lowest && l.bytes().is_some_and(|b| b > 0));
        match layer.fate {
            Fate::Swallowed => remarks.push(format!(
                "{name} took {} and passed none of it down",
                Bytes(layer.bytes().unwrap_or(0))
            )),
            Fate::WrittenAsZeroes if layer.lowest => {
                remarks.push(format!(
                    "the loop device on {name} wrote zeroes instead of discarding; no \
                    counter shows them"
                ));
            }
            Fate::NotCounted if layer.lowest => {
                remarks.push(format!("{name} does not count discards"))
            }
            Fate::NotCounted if layer.bytes() == Some(0) && any_below => {
                remarks.push(format!(
                    "{name} does not count the discards it passes on; they were counted \
                    at the drives below"
                ));
            }
            _ => {}
        }
    }
    let legs: Vec<&LayerDiscards> = layers.iter().filter(|l| l.lowest).collect();
    if legs.len() > 1 {
        let each = legs.iter().map(|l| {
            format!(
                "{} {}",
                l.name,
                l.bytes().map_or("not counted".to_owned(), |b| Bytes(b).to_string())
            )
        });
        remarks.push(format!("reached the drives: {}", each.collect::<Vec<_>>().join(", ")));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::{Bus, Layer};
    use crate::host::mountinfo::DevNumber;

    fn layer(name: &str, kind: LayerKind, below: &[usize]) -> Layer {
        let dev = DevNumber { major: 0, minor: 0 };
        let label = name.split_once('=').map(|(_, label)| label.to_owned());
        Layer {
            name: name.into(),
            label,
            kind,
            sys: name.into(),
            dev,
            size: Bytes::ZERO,
            below: below.to_vec(),
        }
    }

    fn drive(name: &str) -> Layer {
        layer(name, LayerKind::Drive(Bus::Ata), &[])
    }

    fn judged(stack: &Stack, bytes: &[Option<u64>]) -> Vec<Fate> {
        let discards = |b: &Option<u64>| b.map(|b| Amount::new(1, b));
        fates(stack, &bytes.iter().map(discards).collect::<Vec<_>>())
            .iter()
            .map(|l| l.fate)
            .collect()
    }

    #[test]
    fn fates_depend_on_counts_of_lower_layers() {
        use Fate::{Counted, NotCounted, Nothing, Swallowed};
        let raid = Stack {
            layers: vec![
                layer("md0", LayerKind::Md("raid0".into()), &[1, 2]),
                drive("sda"),
                drive("sdb"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        assert_eq!(raid.ends(), [1, 2]);
        assert_eq!(judged(&raid, &[Some(0), Some(50), Some(50)]), [NotCounted, Counted, Counted]);
        assert_eq!(judged(&raid, &[Some(0), Some(50), Some(0)]), [NotCounted, Counted, Nothing]);
        assert_eq!(judged(&raid, &[Some(0), Some(0), Some(0)]), [Nothing, Nothing, Nothing]);
        assert_eq!(judged(&raid, &[Some(100), Some(0), Some(0)]), [Swallowed, Nothing, Nothing]);
        assert_eq!(
            judged(&raid, &[Some(100), None, Some(0)]),
            [Counted, NotCounted, Nothing],
            "it may have gone to the leg that does not count"
        );
        // A thin volume, its pool, the pool's metadata and data, a partition and its
        // disk.
        let thin = Stack {
            layers: vec![
                layer("dm-4", LayerKind::Thin, &[1]),
                layer("dm-3", LayerKind::ThinPool, &[2, 3]),
                layer("dm-1=vg-p_tmeta", LayerKind::Lvm, &[4]),
                layer("dm-2=vg-p_tdata", LayerKind::Lvm, &[4]),
                layer("sda1", LayerKind::Partition, &[5]),
                drive("sda"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        assert_eq!(thin.ends(), [4], "a partition, not its disk");
        let swallowed = judged(&thin, &[Some(399), Some(399), Some(0), Some(0), Some(0), Some(7)]);
        assert_eq!(
            swallowed[..5],
            [Counted, Swallowed, Nothing, Nothing, Nothing],
            "the lowest layer that counted did not pass them on"
        );
        let passed_down =
            judged(&thin, &[Some(399), Some(399), Some(0), Some(390), Some(390), Some(390)]);
        assert_eq!(
            passed_down,
            [Counted, Counted, Nothing, Counted, Counted, Counted],
            "nothing is missed where the metadata are"
        );
    }

    #[test]
    fn ends_include_loop_over_file_but_not_over_device() {
        let file = LayerKind::File { fs_type: "ext4".into(), mount_point: "/".into() };
        let stack = Stack {
            layers: vec![
                layer("loop0", LayerKind::Loop, &[1]),
                layer("/image", file, &[2]),
                drive("sda"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        assert_eq!(stack.ends(), [0]);
        let on_device = Stack {
            layers: vec![layer("loop0", LayerKind::Loop, &[1]), drive("sda")],
            tops: vec![0],
            ..Stack::default()
        };
        assert_eq!(on_device.ends(), [1]);
        let circle = Stack {
            layers: vec![layer("a", LayerKind::Lvm, &[1]), layer("b", LayerKind::Lvm, &[0])],
            tops: vec![0],
            ..Stack::default()
        };
        assert!(circle.ends().is_empty());
    }
}
