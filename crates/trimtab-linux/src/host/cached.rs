//! Checks that direct I/O reached a drive: compares the bytes that a test moved with the
//! kernel's counters of the drives.
//!
//! `O_DIRECT` is only a request. tmpfs accepts it and serves from memory, a loop device
//! without direct I/O reads its file through the page cache, and a userspace filesystem
//! may ignore it.

use super::block::{Layer, LayerKind, Stack};
use super::interference::{OwnIo, own_io};
use super::root::Root;
use super::stat::DiskStat;
use super::{EnvironmentRecorder, Place};
use std::path::PathBuf;
use trimtab_drive::units::Bytes;
use trimtab_sim::run::{Field, Severity, Warning};

/// Amounts below this are not judged.
const REQUESTED_MIN: Bytes = Bytes(16 << 20);
/// Minimum share of the requested bytes that must reach a drive. The other half allows
/// for caches and compression in layers between.
const REACHED_MIN: f64 = 0.5;

/// Counts what reaches the drives from now on.
#[derive(Debug)]
pub struct DirectWatch {
    root: Root,
    /// The drives at the bottom; empty if the kernel shows none.
    drives: Vec<PathBuf>,
    /// The reason why the place is known to be memory, without counting.
    memory: Option<String>,
    /// The reason why writes, and reads of recently written data, are served from memory.
    buffered: Option<String>,
    before: OwnIo,
}

impl DirectWatch {
    /// Starts on the stack below the place of `observer`.
    pub fn start(observer: &EnvironmentRecorder) -> std::io::Result<Self> {
        Ok(Self::on(Root::live()?, observer.place()))
    }

    fn on(root: Root, place: &Place) -> Self {
        let drives = place.stack.drives().map(|layer| layer.sys.clone()).collect::<Vec<_>>();
        let memory = if drives.is_empty() { in_memory(place) } else { None };
        let buffered = buffered(&root, &place.stack);
        let mut watch = Self { root, drives, memory, buffered, before: OwnIo::default() };
        watch.before = watch.moved();
        watch
    }

    /// The counters of the drives; without drives, the kernel's I/O accounting of this
    /// process.
    fn moved(&self) -> OwnIo {
        if self.drives.is_empty() {
            return own_io(&self.root);
        }
        let stats = self.drives.iter().filter_map(|sys| DiskStat::read(&self.root, sys));
        stats.fold(OwnIo::default(), |sum, stat| OwnIo {
            read: sum.read + stat.read,
            written: sum.written + stat.written,
        })
    }

    /// Returns a warning if the direct I/O since the start cannot have come from a drive.
    pub fn finish(self, read: Bytes, written: Bytes) -> Option<Warning> {
        let now = self.moved();
        let reached = OwnIo {
            read: now.read.saturating_sub(self.before.read),
            written: now.written.saturating_sub(self.before.written),
        };
        judge(OwnIo { read, written }, reached, self.memory.as_deref(), self.buffered.as_deref())
    }
}

/// The reason why a place without drives is memory.
pub(super) fn in_memory(place: &Place) -> Option<String> {
    let memory = |fs_type: &str| matches!(fs_type, "tmpfs" | "ramfs" | "devtmpfs");
    if let Some(mount) = place.mount.as_ref().filter(|mount| memory(&mount.fs_type)) {
        return Some(format!("{} is a filesystem in memory", mount.fs_type));
    }
    let file = |stack: &Stack| {
        stack.layers.iter().find_map(|layer| match &layer.kind {
            LayerKind::File { fs_type, .. } if memory(fs_type) => {
                Some(format!("the file below, {}, is in memory ({fs_type})", layer.name))
            }
            _ => None,
        })
    };
    file(&place.stack)
}

/// A loop device in the stack that uses the page cache. Counters do not show it: writes
/// reach the drive eventually, and other processes read there too.
pub(super) fn buffered(root: &Root, stack: &Stack) -> Option<String> {
    let looped = stack.layers.iter().filter(|layer| layer.kind == LayerKind::Loop);
    let named = |layer: &Layer| {
        let name = &layer.name;
        format!("{name} uses the page cache (avoid it: losetup --direct-io=on /dev/{name})")
    };
    looped.into_iter().find(|layer| root.read_u64(layer.sys.join("loop/dio")) == Some(0)).map(named)
}

fn judge(
    asked: OwnIo,
    reached: OwnIo,
    memory: Option<&str>,
    buffered: Option<&str>,
) -> Option<Warning> {
    let enough = |asked: Bytes| asked >= REQUESTED_MIN;
    let short = |asked: Bytes, reached: Bytes| {
        enough(asked) && (memory.is_some() || reached.as_f64() < REACHED_MIN * asked.as_f64())
    };
    let buffered = buffered.filter(|_| enough(asked.written));
    let (reads, writes) = (
        short(asked.read, reached.read),
        short(asked.written, reached.written) || buffered.is_some(),
    );
    if !reads && !writes {
        return None;
    }
    let mut facts = vec![
        Field::new("read-bytes", asked.read.0.to_string()),
        Field::new("written-bytes", asked.written.0.to_string()),
        Field::new("reached-read-bytes", reached.read.0.to_string()),
        Field::new("reached-written-bytes", reached.written.0.to_string()),
    ];
    let memory = memory.or(buffered);
    facts.extend(memory.map(|why| Field::new("memory", why)));
    let part = |short: bool, verb: &str, asked: Bytes, reached: Bytes| {
        let zero = if reached == Bytes::ZERO { "none".to_owned() } else { reached.to_string() };
        short.then(|| format!("of {asked} {verb} with direct I/O, {zero} reached a drive"))
    };
    let counted: Vec<String> = part(reads, "read", asked.read, reached.read)
        .into_iter()
        .chain(part(writes, "written", asked.written, reached.written))
        .collect();
    let why = memory
        .map_or_else(|| format!("{} that the kernel shows", counted.join("; ")), str::to_owned);
    let text = format!(
        "these figures measure memory (the page cache) or another program, not a drive: {why}"
    );
    Some(Warning::new("page-cache.answered", Severity::Serious, text).with(facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_io_that_misses_the_drive_warns() {
        let of = |read, written| OwnIo { read: Bytes(read), written: Bytes(written) };
        let gb = 1_000_000_000;
        assert_eq!(judge(of(gb, gb), of(gb, gb), None, None), None);
        assert_eq!(
            judge(of(gb, 0), of(gb / 10 * 9, 0), None, None),
            None,
            "a small part may come from a cache between"
        );
        assert_eq!(judge(of(1 << 20, 0), of(0, 0), None, None), None, "too little to say");
        let warning = judge(of(gb, gb), of(0, gb), None, None).unwrap();
        assert_eq!(warning.severity, Severity::Serious);
        assert!(
            warning.text.contains("of 1.00 GB read with direct I/O, none reached a drive"),
            "{}",
            warning.text
        );
        assert!(!warning.text.contains("written"), "{}", warning.text);
        assert!(judge(of(0, gb), of(0, gb / 10), None, None).unwrap().text.contains("written"));
        // A loop device counts reads although its file is in memory.
        assert!(
            judge(of(gb, 0), of(gb, 0), Some("tmpfs is a filesystem in memory"), None).is_some()
        );
    }
    /// Once, 10.2 GB/s was reported as measured, because writes reach the drive
    /// eventually.
    #[test]
    fn cached_loop_device_always_warns() {
        let gb = 1_000_000_000;
        let of = |read, written, buffered| {
            let moved = OwnIo { read: Bytes(read), written: Bytes(written) };
            judge(moved, moved, None, buffered)
        };
        assert!(
            of(gb, gb, Some("loop2 has a cache"))
                .unwrap()
                .text
                .ends_with("not a drive: loop2 has a cache")
        );
        assert_eq!(
            of(gb, 0, Some("loop2 has a cache")),
            None,
            "what was read came from there, as counters say"
        );
        assert_eq!(of(gb, gb, None), None);
    }
}
