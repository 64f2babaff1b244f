//! Power cuts under a filesystem: data acknowledged by fsync survive, and the filesystem
//! is consistent. A drive that ignores flushes must fail this test, or the test would
//! prove nothing.
//!
//! `TRIMTAB_SOAK=200` cuts the power that many times on each filesystem instead of a few
//! times.

use crate::attached_drive::{Attached, Mounted, have, ok};
use crate::support::{have_root, skip};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use trimtab_drive::rng::Stream;

/// A filesystem under test.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    make: &'static [&'static str],
    check: &'static [&'static str],
    /// True if the mount fails when the power fails during journal replay. XFS instead
    /// retries forever and would continue after the power returns as if nothing had been
    /// lost. A real machine cannot do that, because it loses power too.
    recovery_may_fail: bool,
}

const EXT4: Kind = Kind {
    name: "ext4",
    make: &["mkfs.ext4", "-q", "-F"],
    check: &["e2fsck", "-fn"],
    recovery_may_fail: true,
};
const XFS: Kind = Kind {
    name: "xfs",
    make: &["mkfs.xfs", "-q", "-f"],
    check: &["xfs_repair", "-n"],
    recovery_may_fail: false,
};

/// The contents that a file may have after a power cut.
#[derive(Clone, Debug, PartialEq)]
enum Content {
    Absent,
    /// Bytes generated from a seed.
    Made {
        seed: u64,
        len: usize,
    },
    /// The first `len` bytes, then possibly part of an unacknowledged append, or zeros in
    /// its place.
    AtLeast {
        seed: u64,
        len: usize,
    },
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Stream::new(seed, "file");
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A file workload that tracks which contents must survive.
struct Workload {
    rng: Stream,
    files: BTreeMap<String, Vec<Content>>,
    fsyncs: u64,
}

impl Workload {
    fn new(seed: u64) -> Self {
        Self { rng: Stream::new(seed, "workload"), files: BTreeMap::new(), fsyncs: 0 }
    }

    /// Works until the drive fails.
    fn run(&mut self, directory: &Path) {
        let root = File::open(directory).unwrap();
        for _ in 0..100_000 {
            let name = format!("f{}", self.rng.below(40));
            let before = self
                .files
                .get(&name)
                .and_then(|allowed| allowed.first().cloned())
                .unwrap_or(Content::Absent);
            let seed = self.rng.next_u64();
            let len = self.rng.below(120_000) as usize;
            let after = match (self.rng.below(10), &before) {
                (0, Content::Made { .. }) => Content::Absent,
                (1..=4, Content::Made { seed, len: old }) => {
                    Content::Made { seed: *seed, len: old + 1 + len / 4 }
                }
                _ => Content::Made { seed, len },
            };
            self.files.insert(name.clone(), allowed_meanwhile(&before, &after));
            if change(directory, &root, &name, &before, &after).is_err() {
                return;
            }
            self.fsyncs += 1;
            self.files.insert(name, vec![after]);
        }
        panic!("the power was never cut");
    }

    /// Checks every file and returns the errors. From then on only the current contents
    /// are allowed.
    fn verify(&mut self, directory: &Path) -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, allowed) in &mut self.files {
            let found = fs::read(directory.join(name)).ok();
            match allowed.iter().find(|content| matches(found.as_deref(), content)) {
                Some(_) => {
                    let now = match (&found, &allowed[0]) {
                        (None, _) => Content::Absent,
                        (Some(found), _) => allowed
                            .iter()
                            .find_map(|content| match content {
                                Content::Made { seed, .. } | Content::AtLeast { seed, .. }
                                    if *found == bytes(*seed, found.len()) =>
                                {
                                    Some(Content::Made { seed: *seed, len: found.len() })
                                }
                                _ => None,
                            })
                            // The tail of an unacknowledged append: rewritten before the
                            // next check.
                            .unwrap_or(Content::Absent),
                    };
                    if now == Content::Absent && found.is_some() {
                        fs::remove_file(directory.join(name)).unwrap();
                    }
                    *allowed = vec![now];
                }
                None => wrong.push(format!(
                    "{name} holds {:?} bytes, allowed is {allowed:?}",
                    found.map(|found| found.len())
                )),
            }
        }
        wrong
    }
}

/// The contents allowed while `before` becomes `after`; the first is the one to continue
/// from.
fn allowed_meanwhile(before: &Content, after: &Content) -> Vec<Content> {
    match (before, after) {
        (Content::Made { seed, len }, Content::Made { seed: same, .. }) if seed == same => {
            vec![Content::AtLeast { seed: *seed, len: *len }]
        }
        _ => vec![before.clone(), after.clone()],
    }
}

fn matches(found: Option<&[u8]>, content: &Content) -> bool {
    match (found, content) {
        (None, Content::Absent) => true,
        (Some(found), Content::Made { seed, len }) => found == bytes(*seed, *len),
        (Some(found), Content::AtLeast { seed, len }) => {
            found.len() >= *len && found[..*len] == bytes(*seed, *len)
        }
        _ => false,
    }
}

/// Changes `before` to `after` and returns once that is durable.
fn change(
    directory: &Path,
    root: &File,
    name: &str,
    before: &Content,
    after: &Content,
) -> std::io::Result<()> {
    let path = directory.join(name);
    match (before, after) {
        (_, Content::Absent) => fs::remove_file(path)?,
        (Content::Made { seed: old, len: from }, Content::Made { seed, len }) if old == seed => {
            let mut file = OpenOptions::new().append(true).open(path)?;
            file.write_all(&bytes(*seed, *len)[*from..])?;
            return file.sync_all();
        }
        (_, Content::Made { seed, len }) => {
            // The usual way to replace a file: write a new one, sync it, rename it.
            let new = directory.join("new");
            let mut file = File::create(&new)?;
            file.write_all(&bytes(*seed, *len))?;
            file.sync_all()?;
            fs::rename(new, path)?;
        }
        (_, Content::AtLeast { .. }) => unreachable!("nothing becomes that on purpose"),
    }
    root.sync_all()
}

/// Cuts the power `cuts` times; returns the number of durable changes, or the first
/// error.
fn cut_power(kind: Kind, cuts: u32, seed: u64, more: &[&str]) -> Result<u64, String> {
    let seed_text = seed.to_string();
    let mut args = vec![
        "ocz-vertex-le-100gb",
        "--size",
        "512MiB",
        "--speed",
        "off",
        "--seed",
        &seed_text,
        "--fault",
        "power-cut:on=write",
    ];
    args.extend(more);
    let drive = Attached::new(&args);
    ok(Command::new(kind.make[0]).args(&kind.make[1..]).arg(&drive.device));
    let mut workload = Workload::new(seed);
    let mut chance = Stream::new(seed, "cuts");
    for cut in 1..=cuts {
        let after = |problem: String| format!("after {cut} cuts: {problem}");
        let mounted = Mounted::new(&drive.device, "noatime").map_err(after)?;
        drive.power_fails_within(400);
        workload.run(mounted.path());
        mounted.unmount();
        drive.power("on");
        if kind.recovery_may_fail && chance.chance(0.3) {
            // The next cut falls into the journal replay, or has no effect if the replay
            // needs fewer writes.
            drive.power_fails_within(30);
            if let Ok(mounted) = Mounted::new(&drive.device, "noatime") {
                mounted.unmount();
            }
            drive.power("on");
        }
        let mounted = Mounted::new(&drive.device, "noatime").map_err(after)?;
        let wrong = workload.verify(mounted.path());
        mounted.unmount();
        if !wrong.is_empty() {
            return Err(after(wrong.join("; ")));
        }
        let checked =
            Command::new(kind.check[0]).args(&kind.check[1..]).arg(&drive.device).output().unwrap();
        if !checked.status.success() {
            let text = [checked.stdout, checked.stderr].concat();
            return Err(after(format!("{}: {}", kind.check[0], String::from_utf8_lossy(&text))));
        }
    }
    println!(
        "{}: {cuts} power cuts, {} changes made durable, none lost",
        kind.name, workload.fsyncs
    );
    Ok(workload.fsyncs)
}

fn cuts() -> u32 {
    std::env::var("TRIMTAB_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(4)
}

#[test]
fn ext4_keeps_synced_data_through_power_cuts() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    assert!(cut_power(EXT4, cuts(), 1, &[]).unwrap() > 0);
}

#[test]
fn xfs_keeps_synced_data_through_power_cuts() {
    if !have_root() || !have(&["mkfs.xfs"]) {
        return skip("root and xfsprogs");
    }
    assert!(cut_power(XFS, cuts(), 2, &[]).unwrap() > 0);
}

#[test]
fn flush_ignore_fault_loses_synced_data() {
    if !have_root() || !have(&["mkfs.ext4"]) {
        return skip("root and e2fsprogs");
    }
    let outcome = cut_power(EXT4, 40, 3, &["--fault", "flush:ignore"]);
    assert!(outcome.is_err(), "it lost nothing: this test could not fail");
}
