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
        let then = |layer: usize| before.layers.get(layer).and_then(|l| l.1);
        let deltas = self.layers.iter().enumerate().map(|(layer, now)| {
            let discards = now.1.zip(then(layer)).map(|(now, then)| now.since(&then));
            LayerDiscards { layer, discards }
        });
        deltas.collect()
    }
}

/// The sum over the devices that the filesystem is on; `None` if one of them does not count.
#[must_use]
pub fn on_top(stack: &Stack, layers: &[LayerDiscards]) -> Option<Discards> {
    let tops: Option<Vec<Discards>> = stack.tops.iter().map(|&i| layers.get(i)?.discards).collect();
    tops?.into_iter().reduce(|a, b| a + b)
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
        on_top(&self.stack, &self.layers())
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
