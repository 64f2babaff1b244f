//! Judges whether enough discards arrived at each layer, each leg separately.

use crate::doctor::Tables;
use crate::host::block::{Layer, LayerKind, Stack};
use crate::host::discards::{Fate, LayerDiscards};
use serde::Serialize;

/// The discards of one layer, and whether they cover the freed space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerArrival {
    /// The discards counted.
    #[serde(flatten)]
    pub discards: LayerDiscards,
    /// Enough discards arrived; absent if that is unknown.
    pub arrived: Option<bool>,
}

/// A loss of discards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscardLoss {
    /// The layers that received too few.
    pub at: String,
    /// The layer above that had counted them.
    pub by: Option<String>,
    /// The other legs received their share.
    pub reached_others: bool,
}

/// The arrival at each layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// In the order of the stack.
    pub layers: Vec<LayerArrival>,
    /// The loss, if there is one.
    pub lost: Option<DiscardLoss>,
}

/// The distribution of discards by a layer over several layers below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distribution {
    /// All of them to each.
    All,
    /// Evenly, or more than that.
    Evenly,
    /// To the layers that hold the address: no single one is certain to receive any.
    Somewhere,
}

fn spread(layer: &Layer, legs: usize, tables: &Tables) -> Distribution {
    let level = |level: &str| match level {
        "raid1" | "mirror" => Distribution::All,
        "linear" => Distribution::Somewhere,
        _ => Distribution::Evenly,
    };
    let name = layer.label.as_deref().unwrap_or_default();
    match &layer.kind {
        _ if legs == 1 => Distribution::All,
        LayerKind::Md(md) => level(md),
        _ => match tables.table(name).next() {
            Some(target) if target.kind == "raid" => {
                level(target.arguments.split_whitespace().next().unwrap_or_default())
            }
            Some(target) if target.kind == "mirror" => Distribution::All,
            Some(target) if target.kind == "striped" => Distribution::Evenly,
            _ => Distribution::Somewhere,
        },
    }
}

#[derive(Clone, Copy, Debug)]
enum MinimumAmount {
    /// Half of the freed bytes: the rest is at the borders of discard units.
    Half,
    /// Any amount, if at least this many bytes are expected.
    AnyOf(u64),
}

/// Below this amount, a leg of an array may have had no part in a trim.
const SHARE_MIN: u64 = 16 << 20;

/// Compares the arrival at each layer with the bytes freed on the filesystem's own
/// devices (index into the stack, and bytes). Expects nothing at `without_use` (hard
/// disks).
pub fn arrival(
    stack: &Stack,
    counts: &[LayerDiscards],
    freed: &[(usize, u64)],
    tables: &Tables,
    without_use: &[usize],
) -> Arrival {
    let mut walk = ArrivalWalk::new(stack, counts, tables, MinimumAmount::Half, without_use);
    for &(top, bytes) in freed {
        walk.go(top, Some(bytes), None);
    }
    walk.done()
}

/// As [`arrival`], if the amount freed is unknown (a trim of free space): if a layer
/// counted discards, some must be counted below it.
pub fn onward(
    stack: &Stack,
    counts: &[LayerDiscards],
    tables: &Tables,
    without_use: &[usize],
) -> Arrival {
    let mut walk =
        ArrivalWalk::new(stack, counts, tables, MinimumAmount::AnyOf(SHARE_MIN), without_use);
    for &top in &stack.tops {
        let counted =
            counts.get(top).filter(|c| c.fate != Fate::NotCounted).and_then(LayerDiscards::bytes);
        walk.go(top, counted, None);
    }
    walk.done()
}

struct ArrivalWalk<'a> {
    enough: MinimumAmount,
    stack: &'a Stack,
    tables: &'a Tables,
    layers: Vec<LayerArrival>,
    visited: Vec<bool>,
    without_use: &'a [usize],
    /// Layers that received too few, each with the layer above that had counted them.
    lost: Vec<(usize, Option<usize>)>,
}

impl<'a> ArrivalWalk<'a> {
    fn new(
        stack: &'a Stack,
        counts: &[LayerDiscards],
        tables: &'a Tables,
        enough: MinimumAmount,
        without_use: &'a [usize],
    ) -> Self {
        let layers =
            counts.iter().map(|c| LayerArrival { discards: c.clone(), arrived: None }).collect();
        Self {
            enough,
            stack,
            tables,
            layers,
            visited: vec![false; stack.layers.len()],
            without_use,
            lost: Vec::new(),
        }
    }

    fn arrived(&self, bytes: u64, expected: Option<u64>) -> Option<bool> {
        match (expected, self.enough) {
            (Some(0), _) => None,
            (Some(expected), MinimumAmount::Half) => Some(bytes > 0 && bytes >= expected / 2),
            (Some(expected), MinimumAmount::AnyOf(least)) if expected >= least => Some(bytes > 0),
            _ => (bytes > 0).then_some(true),
        }
    }

    /// Checks layer `index` for `expected` bytes, if known; `above` last counted them.
    fn go(&mut self, index: usize, expected: Option<u64>, above: Option<usize>) {
        let Some(count) = self.layers.get(index).map(|l| l.discards.clone()) else { return };
        if self.without_use.contains(&index) || std::mem::replace(&mut self.visited[index], true) {
            return;
        }
        // A thin pool's own device is bypassed.
        let counts =
            count.fate != Fate::NotCounted && self.stack.layers[index].kind != LayerKind::ThinPool;
        let arrived =
            count.bytes().filter(|_| counts).and_then(|bytes| self.arrived(bytes, expected));
        self.layers[index].arrived = arrived;
        if arrived == Some(false) {
            self.lost.push((index, above));
        }
        let above = if arrived == Some(true) { Some(index) } else { above };
        let legs: Vec<usize> = self.stack.legs_of(index).collect();
        let siblings: Vec<u64> =
            legs.iter().filter_map(|&l| self.layers.get(l)?.discards.bytes()).collect();
        let most = siblings.iter().copied().max().unwrap_or(0);
        let sum = siblings.iter().fold(0_u64, |sum, b| sum.saturating_add(*b));
        // Below a layer that does not count, the legs are compared with each other.
        let known = |by_siblings: u64| {
            expected.or(Some(by_siblings).filter(|_| self.above_does_not_count(index)))
        };
        let share = match spread(&self.stack.layers[index], legs.len(), self.tables) {
            Distribution::All => known(most),
            Distribution::Evenly => known(sum).map(|e| e / legs.len().max(1) as u64),
            Distribution::Somewhere => self.together(&legs, expected).then_some(expected).flatten(),
        };
        // A loss is reported once, where it happened.
        if arrived != Some(false) {
            legs.into_iter().for_each(|leg| self.go(leg, share, above));
        }
    }

    fn above_does_not_count(&self, index: usize) -> bool {
        self.layers.get(index).is_some_and(|l| l.discards.fate == Fate::NotCounted)
    }

    /// All legs together received too few; then each of them did.
    fn together(&self, legs: &[usize], expected: Option<u64>) -> bool {
        let bytes: Option<Vec<u64>> =
            legs.iter().map(|&l| self.layers.get(l)?.discards.bytes()).collect();
        let Some((expected, bytes)) = expected.zip(bytes) else { return false };
        bytes.into_iter().fold(0, u64::saturating_add) < expected / 2
    }

    fn done(self) -> Arrival {
        let title = |i: usize| {
            format!("{} [{}]", self.layers[i].discards.name, self.layers[i].discards.kind)
        };
        let lost = (!self.lost.is_empty()).then(|| DiscardLoss {
            at: self.lost.iter().map(|(at, _)| title(*at)).collect::<Vec<_>>().join(", "),
            by: self.lost.iter().find_map(|(_, by)| *by).map(title),
            reached_others: self
                .layers
                .iter()
                .any(|l| l.discards.lowest && l.arrived == Some(true)),
        });
        Arrival { layers: self.layers, lost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::block::Bus;
    use crate::host::discards::fates;
    use crate::host::mountinfo::DevNumber;
    use trimtab_drive::discards::Amount;
    use trimtab_drive::units::Bytes;

    fn layer(name: &str, kind: LayerKind, below: &[usize]) -> Layer {
        let dev = DevNumber { major: 0, minor: 0 };
        Layer {
            name: name.into(),
            label: Some(name.into()),
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

    fn lost(
        stack: &Stack,
        bytes: &[Option<u64>],
        expected: u64,
        table: &str,
    ) -> Option<(String, Option<String>, bool)> {
        let discards = |b: &Option<u64>| b.map(|b| Amount::new(1, b));
        let counts = fates(stack, &bytes.iter().map(discards).collect::<Vec<_>>());
        let freed: Vec<(usize, u64)> = stack.tops.iter().map(|&t| (t, expected)).collect();
        let lost = arrival(stack, &counts, &freed, &Tables::of_text(table), &[]).lost?;
        Some((lost.at.replace(" [ata]", ""), lost.by, lost.reached_others))
    }

    fn at(layer: &str, others: bool) -> Option<(String, bool)> {
        Some((layer.to_owned(), others))
    }

    fn short(lost: Option<(String, Option<String>, bool)>) -> Option<(String, bool)> {
        lost.map(|(at, _, others)| (at, others))
    }

    #[test]
    fn arrival_finds_layer_that_swallows_discards() {
        let crypt = Stack {
            layers: vec![
                layer("dm-0", LayerKind::Crypt, &[1]),
                layer("sda1", LayerKind::Partition, &[2]),
                drive("sda"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        assert_eq!(lost(&crypt, &[Some(100), Some(100), Some(100)], 100, ""), None);
        let swallowed = lost(&crypt, &[Some(100), Some(0), Some(0)], 100, "");
        assert_eq!(
            swallowed,
            Some(("sda1 [partition]".into(), Some("dm-0 (dm-0) [crypt]".into()), false)).map(
                |mut s: (String, Option<String>, bool)| {
                    s.0 = "sda1 (sda1) [partition]".into();
                    s
                }
            )
        );
        assert_eq!(
            short(lost(&crypt, &[Some(0), Some(0), Some(0)], 100, "")),
            at("dm-0 (dm-0) [crypt]", false)
        );
        assert_eq!(lost(&crypt, &[Some(100), None, None], 100, ""), None, "no layer below counts");
    }

    #[test]
    fn arrival_judges_each_leg_separately() {
        let md = |level: &str| Stack {
            layers: vec![
                layer("md0", LayerKind::Md(level.into()), &[1, 2]),
                drive("sda"),
                drive("sdb"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        // RAID 0 does not count.
        assert_eq!(lost(&md("raid0"), &[Some(0), Some(50), Some(50)], 100, ""), None);
        assert_eq!(
            short(lost(&md("raid0"), &[Some(0), Some(100), Some(0)], 100, "")),
            at("sdb (sdb)", true)
        );
        assert_eq!(lost(&md("raid1"), &[Some(100), Some(100), Some(100)], 100, ""), None);
        assert_eq!(
            short(lost(&md("raid1"), &[Some(100), Some(100), Some(0)], 100, "")),
            at("sdb (sdb)", true)
        );
        assert_eq!(
            short(lost(&md("raid5"), &[Some(100), Some(0), Some(0)], 100, "")),
            at("sda (sda), sdb (sdb)", false)
        );
        assert_eq!(
            lost(&md("linear"), &[Some(100), Some(100), Some(0)], 100, ""),
            None,
            "what was freed may lie on one of them"
        );
        assert_eq!(
            short(lost(&md("linear"), &[Some(100), Some(0), Some(0)], 100, "")),
            at("sda (sda), sdb (sdb)", false)
        );
        // LVM's type is in its table.
        let lvm = Stack {
            layers: vec![layer("vg-l", LayerKind::Lvm, &[1, 2]), drive("sda"), drive("sdb")],
            tops: vec![0],
            ..Stack::default()
        };
        let raid = "vg-l: 0 8 raid raid1 3 0 region_size 4096 2 252:0 252:1 252:2 252:3\n";
        assert_eq!(
            short(lost(&lvm, &[Some(200), Some(100), Some(0)], 100, raid)),
            at("sdb (sdb)", true)
        );
        assert_eq!(
            lost(&lvm, &[Some(200), Some(100), Some(0)], 100, "vg-l: 0 8 linear 8:0 2048\n"),
            None
        );
        assert_eq!(
            short(lost(
                &lvm,
                &[Some(100), Some(100), Some(0)],
                100,
                "vg-l: 0 8 striped 2 128 8:0 0 8:16 0\n"
            )),
            at("sdb (sdb)", true)
        );
    }

    #[test]
    fn trim_of_free_space_must_reach_every_mirror_leg() {
        let md = |level: &str| Stack {
            layers: vec![
                layer("md0", LayerKind::Md(level.into()), &[1, 2]),
                drive("sda"),
                drive("sdb"),
            ],
            tops: vec![0],
            ..Stack::default()
        };
        let mib = |n: u64| Some(n << 20);
        let lost = |stack: &Stack, bytes: &[Option<u64>], table: &str| {
            let discards = |b: &Option<u64>| b.map(|b| Amount::new(1, b));
            let counts = fates(stack, &bytes.iter().map(discards).collect::<Vec<_>>());
            onward(stack, &counts, &Tables::of_text(table), &[])
                .lost
                .map(|l| l.at.replace(" [ata]", ""))
        };
        assert_eq!(lost(&md("raid0"), &[Some(0), mib(500), mib(500)], ""), None);
        assert_eq!(
            lost(&md("raid0"), &[Some(0), mib(500), Some(0)], "").as_deref(),
            Some("sdb (sdb)")
        );
        assert_eq!(
            lost(&md("raid0"), &[Some(0), mib(1), Some(0)], ""),
            None,
            "a small trim may lie on one of them"
        );
        assert_eq!(
            lost(&md("raid1"), &[mib(500), mib(500), Some(0)], "").as_deref(),
            Some("sdb (sdb)")
        );
        // LVM RAID 1 counts more than was requested.
        let lvm = Stack {
            layers: vec![layer("vg-l", LayerKind::Lvm, &[1, 2]), drive("sda"), drive("sdb")],
            tops: vec![0],
            ..Stack::default()
        };
        let raid = "vg-l: 0 8 raid raid1 3 0 region_size 4096 2 252:0 252:1 252:2 252:3\n";
        assert_eq!(lost(&lvm, &[mib(2458), mib(973), mib(973)], raid), None);
        let pool = vec![
            layer("thin", LayerKind::Thin, &[1]),
            layer("pool", LayerKind::ThinPool, &[2]),
            drive("sda"),
        ];
        let pool = Stack { layers: pool, tops: vec![0], ..Stack::default() };
        assert_eq!(lost(&pool, &[mib(399), Some(0), Some(0)], "").as_deref(), Some("sda (sda)"));
    }

    #[test]
    fn arrival_expects_nothing_at_hard_disk_in_mirror() {
        let legs =
            vec![layer("md0", LayerKind::Md("raid1".into()), &[1, 2]), drive("sda"), drive("sdb")];
        let stack = Stack { layers: legs, tops: vec![0], ..Stack::default() };
        let bytes = [400_u64 << 20, 400 << 20, 0].map(|b| Some(Amount::new(1, b)));
        let counts = fates(&stack, &bytes);
        let tables = Tables::of_text("");
        let freed = [(0, 400 << 20)];
        assert!(
            arrival(&stack, &counts, &freed, &tables, &[]).lost.is_some()
                && onward(&stack, &counts, &tables, &[]).lost.is_some()
        );
        assert_eq!(arrival(&stack, &counts, &freed, &tables, &[2]).lost, None);
        assert_eq!(onward(&stack, &counts, &tables, &[2]).lost, None);
    }

    #[test]
    fn arrival_distinguishes_devices_of_filesystem() {
        let btrfs = Stack {
            layers: vec![drive("sda"), drive("sdb")],
            tops: vec![0, 1],
            ..Stack::default()
        };
        assert_eq!(short(lost(&btrfs, &[Some(100), Some(0)], 100, "")), at("sdb (sdb)", true));
        assert_eq!(lost(&btrfs, &[Some(100), Some(60)], 100, ""), None);
    }
}
