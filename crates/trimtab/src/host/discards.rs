//! How many discards reached a device: the discard fields of `stat`, before and after, at every layer.
//! This, not the length that FITRIM returns, says what a trim did.

use super::block::Stack;
use super::root::Root;
use super::stat::{Discards, DiskStat};
use std::path::PathBuf;

/// The discard counters of every layer of a stack, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    layers: Vec<(PathBuf, Option<Discards>)>,
}

/// What one layer got between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerDiscards {
    /// Index into [`Stack::layers`].
    pub layer: usize,
    /// What it got; `None` if it does not count (files, old kernels, devices that are gone).
    pub discards: Option<Discards>,
}

impl Snapshot {
    /// Reads the counters of all layers now.
    #[must_use]
    pub fn take(root: &Root, stack: &Stack) -> Self {
        let read = |sys: &PathBuf| (!sys.as_os_str().is_empty()).then(|| DiskStat::read(root, sys)?.discards).flatten();
        Self { layers: stack.layers.iter().map(|l| (l.sys.clone(), read(&l.sys))).collect() }
    }

    /// What every layer got since `before`, in the order of the stack.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<LayerDiscards> {
        let delta = |(now, then): (&(PathBuf, Option<Discards>), &(PathBuf, Option<Discards>))| {
            let (now, then) = (now.1?, then.1?);
            let n = |a: u64, b: u64| if a >= b { a - b } else { a };
            Some(Discards {
                commands: n(now.commands, then.commands),
                merged: n(now.merged, then.merged),
                bytes: trimtab_core::units::Bytes(n(now.bytes.0, then.bytes.0)),
                took: trimtab_core::units::Nanos(n(now.took.0, then.took.0)),
            })
        };
        let pairs = self.layers.iter().zip(&before.layers).enumerate();
        pairs.map(|(layer, pair)| LayerDiscards { layer, discards: delta(pair) }).collect()
    }

    /// The sum over the devices that the filesystem is on; `None` if one of them does not count.
    #[must_use]
    pub fn top(&self, stack: &Stack) -> Option<Discards> {
        let mut sum = Discards::default();
        for &i in &stack.tops {
            let one = self.layers.get(i)?.1?;
            sum.commands += one.commands;
            sum.merged += one.merged;
            sum.bytes += one.bytes;
            sum.took += one.took;
        }
        (!stack.tops.is_empty()).then_some(sum)
    }
}

/// Counts the discards that reach the devices of one filesystem (or one device).
#[derive(Debug)]
pub struct Meter {
    root: Root,
    stack: Stack,
    before: Snapshot,
}

impl Meter {
    /// Begins to count on what `path` is on, or is.
    pub fn start(path: &std::path::Path) -> std::io::Result<Self> {
        let root = Root::live()?;
        let stack = super::Place::of_path(&root, path)?.stack;
        let before = Snapshot::take(&root, &stack);
        Ok(Self { root, stack, before })
    }

    /// Begins again at zero.
    pub fn restart(&mut self) {
        self.before = Snapshot::take(&self.root, &self.stack);
    }

    /// What the devices of the filesystem got since the start; `None` if they do not count.
    #[must_use]
    pub fn count(&self) -> Option<Discards> {
        let delta = Snapshot::take(&self.root, &self.stack).since(&self.before);
        let tops: Option<Vec<Discards>> = self.stack.tops.iter().map(|&i| delta.get(i)?.discards).collect();
        let tops = tops.filter(|t| !t.is_empty())?;
        Some(tops.into_iter().fold(Discards::default(), |sum, d| Discards {
            commands: sum.commands + d.commands,
            merged: sum.merged + d.merged,
            bytes: sum.bytes + d.bytes,
            took: sum.took + d.took,
        }))
    }

    /// What every layer got since the start.
    #[must_use]
    pub fn layers(&self) -> Vec<LayerDiscards> {
        Snapshot::take(&self.root, &self.stack).since(&self.before)
    }

    /// The layers.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
}
