//! The whole volume, on a drive that records the data class of each block.

mod check;

use super::*;
use crate::op::Payload;
use crate::target::{Clock as _, FileTarget as _};
use ::alloc::format;
use ::alloc::string::ToString as _;
use ::alloc::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use trimtab_drive::data::DataClass;
use trimtab_drive::rng::Stream;
use trimtab_drive::{Command, Completion};

const TRIMMED: u8 = 254;
const NOTHING: u8 = 255;

/// A drive with fixed costs that records the data class last written to each 4 KiB block.
#[derive(Debug)]
struct Recorder {
    content: Vec<u8>,
    write_ns: u64,
    trim_ns: u64,
    busy_until: Nanos,
    now: Nanos,
    trims: Vec<(u64, u64)>,
}

impl Recorder {
    fn new(size: u64) -> Self {
        let content = vec![NOTHING; (size / BLOCK) as usize];
        Self {
            content,
            write_ns: 20_000,
            trim_ns: 1_000_000,
            busy_until: Nanos::ZERO,
            now: Nanos::ZERO,
            trims: Vec::new(),
        }
    }

    fn fill(&mut self, extent: &Extent, with: u8) {
        assert!(
            extent.offset.is_multiple_of(BLOCK)
                && extent.len.is_multiple_of(BLOCK)
                && extent.len > 0
        );
        self.content
            [(extent.offset / BLOCK) as usize..((extent.offset + extent.len) / BLOCK) as usize]
            .fill(with);
    }
}

use trimtab_drive::Extent;

impl Device for Recorder {
    fn size(&self) -> Bytes {
        Bytes(self.content.len() as u64 * BLOCK)
    }
    fn logical_block(&self) -> u32 {
        512
    }
    fn supports_trim(&self) -> bool {
        true
    }
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = now;
        let cost = match command {
            Command::Read(_) => 10_000,
            Command::Write(extent, class) => {
                self.fill(
                    extent,
                    if let DataClass::Compressible(tag) = class { *tag } else { NOTHING },
                );
                self.write_ns
            }
            Command::Trim(ranges) => {
                for range in ranges.iter() {
                    self.fill(range, TRIMMED);
                    self.trims.push((range.offset / BLOCK, range.len / BLOCK));
                }
                self.trim_ns
            }
            Command::Flush => 50_000,
        };
        self.busy_until = self.busy_until.max(now) + Nanos(cost);
        Completion { done: self.busy_until, result: Ok(()) }
    }
    fn idle(&mut self, until: Nanos) {
        assert!(until >= self.now);
    }
}

fn volume(spec: VolumeSpec, size: u64) -> Volume<Recorder> {
    Volume::format(Recorder::new(size), spec, Nanos::ZERO).unwrap()
}

fn fill(len: u64, tag: u8) -> Payload<'static> {
    Payload::Fill { len, class: DataClass::Compressible(tag) }
}

impl Volume<Recorder> {
    /// Every written block of every file holds the file's data.
    fn check_contents(&self, files: &BTreeMap<String, (u64, u8)>) {
        for (path, (size, tag)) in files {
            let mut at = node::ROOT;
            for component in path.split('/') {
                at = self
                    .names
                    .find(node::hash(at, component), |n| {
                        self.nodes[*n as usize].parent == at
                            && *self.nodes[*n as usize].name == *component
                    })
                    .copied()
                    .unwrap_or_else(|| panic!("{path} is gone"));
            }
            let file = &self.nodes[at as usize];
            assert_eq!(file.size, *size, "{path}");
            assert_eq!(u64::from(file.extents.blocks()), size.div_ceil(BLOCK), "{path}");
            for (start, len) in file.extents.iter() {
                for block in start..start + len {
                    let content = self.queue.drive.content[(self.offset(block) / BLOCK) as usize];
                    assert_eq!(content, *tag, "block {block} of {path}");
                }
            }
        }
    }
}

#[derive(Clone, Debug)]
enum VolumeStep {
    Create(u8, u32),
    Append(u8, u32),
    Delete(u8),
    Read(u8),
    MakeDir(u8),
    RemoveDir(u8),
    Sync,
    Fsync(u8),
    Idle(u32),
    Trim(u32, u32, u8),
    BeginTrim(u8),
    Remount,
}

fn steps() -> impl Strategy<Value = Vec<VolumeStep>> {
    let size = prop_oneof![0..20_000_u32, 0..300_000_u32, 0..9_000_000_u32];
    let step = prop_oneof![
        6 => (any::<u8>(), size.clone()).prop_map(|(n, s)| VolumeStep::Create(n, s)),
        3 => (any::<u8>(), size).prop_map(|(n, s)| VolumeStep::Append(n, s)),
        4 => any::<u8>().prop_map(VolumeStep::Delete),
        1 => any::<u8>().prop_map(VolumeStep::Read),
        1 => any::<u8>().prop_map(VolumeStep::MakeDir),
        1 => any::<u8>().prop_map(VolumeStep::RemoveDir),
        1 => Just(VolumeStep::Sync),
        1 => any::<u8>().prop_map(VolumeStep::Fsync),
        2 => (0..40_000_u32).prop_map(VolumeStep::Idle),
        1 => (0..20_000_u32, 1..40_000_u32, 0..4_u8).prop_map(|(a, b, m)| VolumeStep::Trim(a, b, m)),
        1 => any::<u8>().prop_map(VolumeStep::BeginTrim),
        1 => Just(VolumeStep::Remount),
    ];
    proptest::collection::vec(step, 1..80)
}

fn apply(
    volume: &mut Volume<Recorder>,
    files: &mut BTreeMap<String, (u64, u8)>,
    step: &VolumeStep,
) {
    let path = |n: u8| {
        if n.is_multiple_of(3) { format!("f{}", n / 8) } else { format!("d{}/f{}", n % 3, n / 8) }
    };
    let full = |result: crate::target::TargetResult| match result {
        Ok(()) => false,
        Err(error) => {
            assert_eq!(error.errno, Some(28), "{error}");
            true
        }
    };
    match *step {
        VolumeStep::Create(n, size) => {
            let (path, tag) = (path(n), n % 100);
            let result = volume.create(&path, &fill(u64::from(size), tag));
            let there = files.contains_key(&path);
            if there {
                assert_eq!(result.unwrap_err().errno, Some(17));
            } else if result.as_ref().is_err_and(|e| e.errno == Some(2)) {
                assert!(path.starts_with('d'));
            } else if !full(result) {
                files.insert(path, (u64::from(size), tag));
            }
        }
        VolumeStep::Append(n, size) => {
            let path = path(n);
            let Some((old, tag)) = files.get(&path).copied() else {
                assert_eq!(volume.append(&path, &fill(1, 0)).unwrap_err().errno, Some(2));
                return;
            };
            if !full(volume.append(&path, &fill(u64::from(size), tag))) {
                files.insert(path, (old + u64::from(size), tag));
            }
        }
        VolumeStep::Delete(n) => {
            let path = path(n);
            assert_eq!(volume.delete(&path).is_ok(), files.remove(&path).is_some());
        }
        VolumeStep::Read(n) => {
            let path = path(n);
            let known = files.get(&path).map(|(size, _)| *size);
            assert_eq!(volume.read(&path, known.unwrap_or(0)).is_ok(), known.is_some());
            if let Some(size) = known {
                assert!(volume.read(&path, size + 1).is_err(), "a short read is an error");
            }
        }
        VolumeStep::MakeDir(n) => drop(volume.make_dir(&format!("d{}", n % 3))),
        VolumeStep::RemoveDir(n) => {
            let dir = format!("d{}/", n % 3);
            let result = volume.remove_dir(dir.trim_end_matches('/'));
            assert!(result.is_err() || !files.keys().any(|path| path.starts_with(&dir)));
        }
        VolumeStep::Sync => volume.sync().unwrap(),
        VolumeStep::Fsync(n) => {
            assert_eq!(volume.fsync(&path(n)).is_ok(), files.contains_key(&path(n)))
        }
        VolumeStep::Idle(ms) => {
            let until = volume.now() + Nanos::from_millis(u64::from(ms));
            volume.idle_until(until);
        }
        VolumeStep::Trim(from, len, min) => {
            let window = TrimWindow { start: u64::from(from) * BLOCK, len: u64::from(len) * BLOCK };
            volume.trim(window, Bytes(u64::from(min) * 16384)).unwrap();
        }
        VolumeStep::BeginTrim(n) => {
            if !volume.trimming() {
                let windows = volume.trim_windows();
                volume.begin_trim(small_commands(windows[usize::from(n) % windows.len()]));
            }
        }
        VolumeStep::Remount => volume.remount(),
    }
}

use crate::policy::{ExtentSizeClasses, TrimRequest};
use crate::target::TrimWindow;

const fn small_commands(window: TrimWindow) -> TrimRequest {
    TrimRequest { command_max: Bytes(1 << 20), ..TrimRequest::whole(window, Bytes::ZERO) }
}

fn specs() -> impl Strategy<Value = VolumeSpec> {
    let base = prop_oneof![
        Just(VolumeSpec::ext4()),
        Just(VolumeSpec::ext4_2011()),
        Just(VolumeSpec::desktop_2011())
    ];
    (base, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(mut spec, online, small_memory, small_journal)| {
            if online {
                spec = spec.with_online_discard();
            }
            if small_memory {
                spec.writeback.memory = Bytes(40 << 20);
            }
            if small_journal {
                spec.journal_blocks = Some(1024);
            }
            // Metadata must be distinguishable from file data.
            spec.metadata_class = DataClass::Zero;
            spec
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// After any steps, bitmaps match extents, nothing is in use twice, free counts are
    /// right, the journal stays within its bounds, and files hold their data: no discard,
    /// late write or metadata block has hit them.
    #[test]
    fn volume_stays_consistent_and_keeps_file_data(spec in specs(), steps in steps()) {
        let mut volume = volume(spec, 160 << 20);
        let mut files = BTreeMap::new();
        for step in &steps {
            apply(&mut volume, &mut files, step);
            volume.check();
        }
        volume.sync().unwrap();
        let until = volume.now() + Nanos::from_secs(100);
        volume.idle_until(until);
        volume.check();
        volume.check_contents(&files);
        volume.remount();
        volume.check();
        volume.check_contents(&files);
        prop_assert_eq!(volume.counters().traffic.discards_refused, 0);
        for path in files.keys() {
            volume.delete(path).unwrap();
        }
        volume.sync().unwrap();
        volume.check();
        prop_assert_eq!(volume.journal.home_blocks(), 0);
    }

    /// The same operations produce the same traffic at the same times.
    #[test]
    fn volume_is_deterministic(spec in specs(), steps in steps()) {
        let run = || {
            let mut volume = volume(spec.clone(), 160 << 20);
            let mut files = BTreeMap::new();
            for step in &steps {
                apply(&mut volume, &mut files, step);
            }
            (volume.now(), volume.counters(), volume.queue.drive.trims.clone())
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn mkfs_discards_the_whole_volume_or_nothing() {
    let v = volume(VolumeSpec::ext4(), 1 << 30);
    assert_eq!(v.counters().traffic.discards.bytes, Bytes(1 << 30));
    let mut spec = VolumeSpec::ext4();
    spec.mkfs = Mkfs { discard: false, lazy: false };
    let v = volume(spec, 1 << 30);
    let traffic = v.counters().traffic;
    assert_eq!(traffic.discards.count, 0);
    // Inode tables of 16.8 MB, a journal of 33.6 MB; mke2fs 1.47 writes 53.2 MB.
    assert!((50_000_000..55_000_000).contains(&traffic.writes.bytes.0), "{}", traffic.writes.bytes);
    v.check();
}

#[test]
fn file_deleted_before_writeback_is_never_written() {
    let mut v = volume(VolumeSpec::ext4(), 1 << 30);
    for i in 0..100 {
        v.create(&format!("f{i}"), &fill(100_000, 1)).unwrap();
    }
    for i in 0..100 {
        v.delete(&format!("f{i}")).unwrap();
    }
    v.sync().unwrap();
    assert_eq!(v.counters().data_written, Bytes::ZERO);
    assert_eq!(v.free_blocks, v.space.free());
}

#[test]
fn writeback_is_30_s_for_data_and_5_s_for_metadata() {
    let mut v = volume(VolumeSpec::ext4(), 1 << 30);
    let before = v.counters();
    v.create("f", &fill(1_000_000, 1)).unwrap();
    v.idle_until(Nanos::from_secs(4));
    assert_eq!(v.counters().journal_written, before.journal_written);
    v.idle_until(Nanos::from_secs(6));
    assert_eq!(v.counters().commits, before.commits + 1);
    assert_eq!(v.counters().data_written, Bytes::ZERO);
    v.idle_until(Nanos::from_secs(29));
    assert_eq!(v.counters().data_written, Bytes::ZERO);
    v.idle_until(Nanos::from_secs(36));
    assert_eq!(v.counters().data_written, Bytes(245 * BLOCK));
    let home = v.counters().metadata_written;
    v.idle_until(Nanos::from_secs(120));
    assert!(v.counters().metadata_written > home, "and in place after another 30");
    assert_eq!((v.journal.home_blocks(), v.journal.used()), (0, 0));
}

#[test]
fn writers_wait_above_the_dirty_limit() {
    let mut spec = VolumeSpec::ext4();
    spec.writeback.memory = Bytes(100 << 20);
    let mut v = volume(spec, 1 << 30);
    v.queue.drive.write_ns = 2_000_000;
    v.create("f", &fill(200 << 20, 1)).unwrap();
    assert!(v.counters().throttled > 0);
    // At most 20 MiB may be dirty: the rest has been written.
    assert!(v.counters().data_written >= Bytes(170 << 20));
    assert!(v.dirty_bytes() <= (21 << 20));
}

#[test]
fn large_file_is_contiguous_and_small_files_are_packed() {
    let mut v = volume(VolumeSpec::ext4(), 4 << 30);
    v.create("large", &fill(400 << 20, 1)).unwrap();
    for i in 0..200 {
        v.create(&format!("small{i}"), &fill(3 * BLOCK, 2)).unwrap();
    }
    v.sync().unwrap();
    let extents = |name: &str| {
        let node = v
            .names
            .find(node::hash(node::ROOT, name), |n| *v.nodes[*n as usize].name == *name)
            .unwrap();
        v.nodes[*node as usize].extents.iter().collect::<Vec<_>>()
    };
    assert!(extents("large").len() <= 16, "{:?}", extents("large"));
    let small: Vec<(u32, u32)> = (0..200).flat_map(|i| extents(&format!("small{i}"))).collect();
    let breaks = small.windows(2).filter(|w| w[0].0 + w[0].1 != w[1].0).count();
    assert_eq!(
        (small.len(), breaks),
        (200, 1),
        "512 blocks hold 170 files of 3, then the next preallocation follows: {small:?}"
    );
}

#[test]
fn old_online_discard_sends_freed_space_inside_the_commit() {
    let mut v = volume(VolumeSpec::ext4_2011().with_online_discard(), 1 << 30);
    for i in 0..50 {
        v.create(&format!("f{i:02}"), &fill(10 * BLOCK, 1)).unwrap();
    }
    v.sync().unwrap();
    v.queue.drive.trims.clear();
    for i in (0..50).step_by(2) {
        v.delete(&format!("f{i:02}")).unwrap();
    }
    let before = v.now();
    v.sync().unwrap();
    assert_eq!(v.queue.drive.trims.len(), 25, "every other file: nothing merges");
    assert!(v.queue.drive.trims.iter().all(|(_, len)| *len == 10));
    assert!(v.now() - before >= Nanos::from_millis(25), "sync waits for 25 discards of 1 ms each");
    v.check();
}

#[test]
fn new_online_discard_sends_adjoining_free_space() {
    let mut v = volume(VolumeSpec::ext4().with_online_discard(), 1 << 30);
    for i in 0..50 {
        v.create(&format!("f{i:02}"), &fill(10 * BLOCK, 1)).unwrap();
    }
    v.sync().unwrap();
    v.queue.drive.trims.clear();
    for i in 0..50 {
        v.delete(&format!("f{i:02}")).unwrap();
    }
    let before = v.now();
    v.sync().unwrap();
    assert!(v.now() - before < Nanos::from_millis(10));
    let until = v.now() + Nanos::from_secs(1);
    v.idle_until(until);
    let sent: u64 = v.queue.drive.trims.iter().map(|(_, len)| len).sum();
    assert_eq!(
        v.queue.drive.trims.len(),
        1,
        "deleted in order, all merge: {:?}",
        v.queue.drive.trims
    );
    assert!(sent >= 500, "{sent}");
    // Followed by the rest of their preallocation, which is not free.
    assert_eq!(sent, 500);
    v.remount();
    v.create("g", &fill(10 * BLOCK, 1)).unwrap();
    v.sync().unwrap();
    v.remount();
    v.queue.drive.trims.clear();
    v.delete("g").unwrap();
    v.sync().unwrap();
    let until = v.now() + Nanos::from_secs(1);
    v.idle_until(until);
    let sent: u64 = v.queue.drive.trims.iter().map(|(_, len)| len).sum();
    assert!(sent > 10_000, "without preallocations, to the end of the group: {sent}");
    v.check();
}

#[test]
fn fitrim_skips_trimmed_groups_like_ext4() {
    let mut spec = VolumeSpec::ext4();
    spec.mkfs.discard = false;
    let mut v = volume(spec, 1 << 30);
    let all = TrimWindow { start: 0, len: u64::MAX };
    let first = v.trim(all, Bytes::ZERO).unwrap();
    assert_eq!(first.counted.map(|c| c.bytes), Some(Bytes(v.space.free() * BLOCK)));
    assert_eq!(v.trim(all, Bytes::ZERO).unwrap().returned, Bytes::ZERO, "nothing is trimmed twice");
    // A file is created and deleted: all free space of its group is sent again.
    v.create("f", &fill(BLOCK, 1)).unwrap();
    v.sync().unwrap();
    v.delete("f").unwrap();
    v.sync().unwrap();
    v.space.drop_preallocations();
    let again = v.trim(all, Bytes::ZERO).unwrap();
    assert!((100 << 20..=128 << 20).contains(&again.returned.0), "{again:?}");
    // A window within a group trims beyond its end and leaves no mark.
    v.remount();
    let part = TrimWindow { start: 2 * (128 << 20), len: 1 << 20 };
    let sent = v.trim(part, Bytes::ZERO).unwrap();
    assert_eq!(sent.returned, Bytes(128 << 20), "the free extent goes to its own end");
    assert_eq!(v.trim(part, Bytes::ZERO).unwrap().returned, Bytes(128 << 20));
    // Mixed minimums lose space silently: after a trim with a large minimum and one group
    // with a small one, all groups count as trimmed.
    v.remount();
    v.age_like(
        &Age {
            fill: 0.5,
            free_extent: Bytes(64 << 10),
            class: DataClass::Zero,
            write: false,
            seed: 1,
        },
        &[],
    )
    .unwrap();
    assert_eq!(v.trim(all, Bytes(16 << 20)).unwrap().returned, Bytes::ZERO);
    let group = v.trim_windows()[2];
    assert!(v.trim(group, Bytes::ZERO).unwrap().returned > Bytes::ZERO);
    assert_eq!(
        v.trim(all, Bytes::ZERO).unwrap().returned,
        Bytes::ZERO,
        "although the other groups were not sent"
    );
}

/// Trims in rounds of decreasing size; calls `between` after the first.
fn trim_by_size(
    v: &mut Volume<Recorder>,
    command_max: Bytes,
    between: impl FnOnce(&mut Volume<Recorder>),
) -> u64 {
    let least = [Bytes(1 << 20), Bytes(64 << 10), Bytes::ZERO];
    let mut between = Some(between);
    let mut sent = 0;
    for round in 0..least.len() {
        for window in v.trim_windows() {
            let mut at = window.start;
            let end = window.start + window.len;
            while at < end {
                let below = round.checked_sub(1).map_or(Bytes::MAX, |before| least[before]);
                let sizes =
                    ExtentSizeClasses { below, round: round as u32, rounds: least.len() as u32 };
                let rest = TrimWindow { start: at, len: end - at };
                v.begin_trim(TrimRequest {
                    sizes: Some(sizes),
                    commands_max: 3,
                    command_max,
                    ..TrimRequest::whole(rest, least[round])
                });
                v.run_until_trimmed(Nanos::MAX);
                let outcome = v.take_trimmed().unwrap().outcome;
                sent += outcome.returned.0;
                assert!(outcome.asked.0 > 0);
                at += outcome.asked.0;
            }
        }
        if let Some(between) = between.take() {
            between(v);
        }
    }
    sent
}

#[test]
fn trim_by_size_sends_all_once_and_marks_groups() {
    let mut spec = VolumeSpec::ext4();
    spec.mkfs.discard = false;
    let mut v = volume(spec, 1 << 30);
    v.age_like(
        &Age {
            fill: 0.5,
            free_extent: Bytes(256 << 10),
            class: DataClass::Zero,
            write: false,
            seed: 1,
        },
        &[],
    )
    .unwrap();
    v.create("f", &fill(BLOCK, 1)).unwrap();
    v.sync().unwrap();
    v.space.drop_preallocations();
    let free = v.space.free() * BLOCK;
    let lengths: Vec<u64> = v
        .space
        .groups
        .iter()
        .flat_map(|group| group.runs_from(0, GROUP_BLOCKS))
        .map(|(_, len)| u64::from(len) * BLOCK)
        .collect();
    assert!(
        [0..64 << 10, 64 << 10..1 << 20, 1 << 20..u64::MAX]
            .iter()
            .all(|sizes| lengths.iter().any(|len| sizes.contains(len))),
        "of each size"
    );
    let all = TrimWindow { start: 0, len: u64::MAX };
    // In one command and in commands of 150 KiB, whose last part is below the minimum
    // size.
    for command_max in [Bytes::MAX, Bytes(150 << 10)] {
        assert_eq!(trim_by_size(&mut v, command_max, |_| {}), free, "in commands of {command_max}");
        assert_eq!(trim_by_size(&mut v, command_max, |_| {}), 0, "all groups are marked");
        assert_eq!(v.trim(all, Bytes::ZERO).unwrap().returned, Bytes::ZERO, "also for a full trim");
        v.remount();
    }
    // Space freed after the first round is not marked trimmed: only its group is sent
    // again.
    let freed = |v: &mut Volume<Recorder>| {
        v.delete("f").unwrap();
        v.sync().unwrap();
        v.space.drop_preallocations();
    };
    trim_by_size(&mut v, Bytes::MAX, freed);
    let again = trim_by_size(&mut v, Bytes::MAX, |_| {});
    assert!((BLOCK..=128 << 20).contains(&again), "{again}");
    assert_eq!(trim_by_size(&mut v, Bytes::MAX, |_| {}), 0);
}

#[test]
fn trim_in_small_commands_interleaves_with_reads() {
    let mut spec = VolumeSpec::ext4();
    spec.mkfs.discard = false;
    spec.atime = Atime::Never;
    let mut v = volume(spec, 1 << 30);
    v.create("f", &fill(1 << 20, 1)).unwrap();
    v.sync().unwrap();
    v.foreground();
    let window = v.trim_windows()[5];
    v.begin_trim(small_commands(window));
    let mut reads = 0;
    while v.trimming() {
        let mut file = file_blocks::FileBlocks::open(&mut v, "f", 1).unwrap();
        use crate::target::BlockTarget as _;
        file.submit(0, Command::Read(Extent { offset: 0, len: 4096 })).unwrap();
        file.reap(1, &mut Vec::new()).unwrap();
        drop(file);
        reads += 1;
    }
    assert_eq!(v.take_trimmed().unwrap().outcome.counted.map(|c| c.count), Some(128));
    assert!(reads >= 64, "{reads}");
    assert!(v.foreground().wait_max.unwrap() <= Nanos::from_micros(2100));
}

#[test]
fn age_leaves_requested_free_space() {
    let mut v = volume(VolumeSpec::ext4(), 4 << 30);
    let age = Age {
        fill: 0.6,
        free_extent: Bytes(256 << 10),
        class: DataClass::Compressible(7),
        write: true,
        seed: 1,
    };
    v.age_like(&age, &[]).unwrap();
    v.check();
    let free = v.free_space().as_f64() / v.size().as_f64();
    assert!((0.38..0.42).contains(&free), "{free}");
    let runs: usize =
        v.space.groups.iter().map(|g| g.runs_from(0, group::GROUP_BLOCKS).count()).sum();
    let mean = v.free_space().as_f64() / runs as f64;
    assert!((200e3..330e3).contains(&mean), "{mean}");
    assert!(v.counters().data_written > Bytes(2 << 30));
}

#[test]
fn atime_mode_decides_journal_traffic() {
    let journalled = |atime| {
        let mut spec = VolumeSpec::ext4();
        spec.atime = atime;
        let mut v = volume(spec, 1 << 30);
        for i in 0..64 {
            v.create(&format!("f{i}"), &fill(BLOCK, 1)).unwrap();
        }
        v.sync().unwrap();
        let mut written = Vec::new();
        for _ in 0..2 {
            let before = v.counters().journal_written;
            for i in 0..64 {
                v.read(&format!("f{i}"), BLOCK).unwrap();
            }
            v.sync().unwrap();
            written.push((v.counters().journal_written - before).0 > 0);
        }
        written
    };
    assert_eq!(journalled(Atime::Strict), [true, true]);
    assert_eq!(journalled(Atime::Relative), [true, false], "the first read after a change only");
    assert_eq!(journalled(Atime::Never), [false, false]);
}

#[test]
fn overwrite_changes_neither_location_nor_metadata() {
    let mut v = volume(VolumeSpec::ext4(), 1 << 30);
    v.create("f", &fill(100 * BLOCK, 1)).unwrap();
    v.sync().unwrap();
    let before = v.counters();
    v.overwrite("f", 7 * BLOCK, &fill(2 * BLOCK, 9)).unwrap();
    let after = v.counters();
    assert_eq!((after.traffic.writes.bytes - before.traffic.writes.bytes).0, 2 * BLOCK);
    assert_eq!(after.journal_written, before.journal_written);
    let tags: usize = v.queue.drive.content.iter().filter(|tag| **tag == 9).count();
    assert_eq!(tags, 2);
    for (offset, len) in [(1, BLOCK), (0, 1), (100 * BLOCK, BLOCK)] {
        assert_eq!(v.overwrite("f", offset, &fill(len, 9)).unwrap_err().errno, Some(22));
    }
}

#[derive(Debug)]
struct Offsets(Vec<u64>);

impl Device for Offsets {
    fn size(&self) -> Bytes {
        Bytes(1 << 30)
    }
    fn logical_block(&self) -> u32 {
        512
    }
    fn supports_trim(&self) -> bool {
        false
    }
    fn submit(&mut self, now: Nanos, command: &Command<'_>) -> Completion {
        if let Command::Write(extent, _) = command {
            self.0.push(extent.offset);
        }
        Completion { done: now + Nanos(1000), result: Ok(()) }
    }
    fn idle(&mut self, _until: Nanos) {}
}

#[test]
fn partition_at_sector_63_misaligns_all_writes() {
    let spec = VolumeSpec { start: Bytes(63 * 512), ..VolumeSpec::ext4() };
    let mut v = Volume::format(Offsets(Vec::new()), spec, Nanos::ZERO).unwrap();
    v.create("f", &fill(1 << 20, 1)).unwrap();
    v.sync().unwrap();
    assert!(v.drive().0.iter().all(|offset| offset % BLOCK == 63 * 512 % BLOCK));
}

#[test]
fn format_refuses_impossible_sizes() {
    let refused =
        |spec: VolumeSpec| Volume::format(Recorder::new(1 << 30), spec, Nanos::ZERO).unwrap_err();
    for spec in [
        VolumeSpec { start: Bytes(2 << 30), ..VolumeSpec::ext4() },
        VolumeSpec { size: Some(Bytes(2 << 30)), ..VolumeSpec::ext4() },
        VolumeSpec { size: Some(Bytes(1 << 20)), ..VolumeSpec::ext4() },
        VolumeSpec { start: Bytes(100), ..VolumeSpec::ext4() },
        VolumeSpec { bytes_per_inode: 1, ..VolumeSpec::ext4() },
        VolumeSpec { journal_blocks: Some(3), ..VolumeSpec::ext4() },
    ] {
        assert!(!refused(spec).to_string().is_empty());
    }
    let mut v = volume(VolumeSpec::ext4(), 64 << 20);
    assert_eq!(v.create("f", &fill(64 << 20, 1)).unwrap_err().errno, Some(28));
    v.check();
}

/// Fills all remaining space with files of `tag` that are written at once.
fn fill_up(v: &mut Volume<Recorder>, files: &mut BTreeMap<String, (u64, u8)>, tag: u8) {
    for i in 0.. {
        let (path, size) = (format!("fill{tag}-{i}"), 256 << 10);
        if v.create(&path, &fill(size, tag)).is_err() {
            break;
        }
        v.fsync(&path).unwrap();
        files.insert(path, (size, tag));
    }
}

#[test]
fn writeback_of_removed_file_never_hits_later_file() {
    let mut spec = VolumeSpec { metadata_class: DataClass::Zero, ..VolumeSpec::ext4() };
    spec.block_layer.queue_depth = 1;
    let mut v = volume(spec, 128 << 20);
    v.queue.drive.write_ns = 50_000_000;
    v.create("a", &fill(90 << 20, 1)).unwrap();
    v.idle_until(Nanos::from_secs(36));
    assert!(v.queue.queued() > 50, "it is being written: {}", v.queue.queued());
    v.delete("a").unwrap();
    v.create("b", &fill(BLOCK, 2)).unwrap();
    v.fsync("b").unwrap();
    // It only fits into the removed file's blocks, and overtakes the queued writes of
    // that.
    v.create("c", &fill(85 << 20, 3)).unwrap();
    v.fsync("c").unwrap();
    let files = BTreeMap::from([("b".to_string(), (BLOCK, 2)), ("c".to_string(), (85 << 20, 3))]);
    let until = v.now() + Nanos::from_secs(200);
    v.idle_until(until);
    v.check();
    v.check_contents(&files);
}

#[test]
fn removed_directory_blocks_are_not_written_in_place() {
    for during_commit in [false, true] {
        let mut v =
            volume(VolumeSpec { metadata_class: DataClass::Zero, ..VolumeSpec::ext4() }, 64 << 20);
        v.queue.drive.write_ns = 100_000;
        let mut files = BTreeMap::new();
        fill_up(&mut v, &mut files, 4);
        for i in 0..500 {
            v.delete(&format!("fill4-{}", i % 8))
                .map(|()| files.remove(&format!("fill4-{}", i % 8)))
                .ok();
        }
        v.sync().unwrap();
        for i in 0..300 {
            v.make_dir(&format!("d{i}")).unwrap();
        }
        v.queue.drive.write_ns = 100_000_000;
        // During the commit, or after it and before any write in place.
        let until =
            v.now() + if during_commit { Nanos::from_millis(5050) } else { Nanos::from_secs(8) };
        v.idle_until(until);
        assert_eq!(v.commit.is_some(), during_commit);
        for i in 0..300 {
            v.remove_dir(&format!("d{i}")).unwrap();
        }
        v.queue.drive.write_ns = 100_000;
        v.create("x", &fill(BLOCK, 5)).unwrap();
        v.fsync("x").unwrap();
        fill_up(&mut v, &mut files, 6);
        assert!(files.len() > 20);
        let until = v.now() + Nanos::from_secs(100);
        v.idle_until(until);
        v.check();
        v.check_contents(&files);
    }
}

#[test]
fn volume_filled_and_emptied_repeatedly_stays_consistent() {
    let mut v = volume(VolumeSpec::ext4().with_online_discard(), 128 << 20);
    let mut rng = Stream::new(3, "full");
    let mut files = BTreeMap::new();
    let mut number = 0;
    let mut full = 0;
    for _ in 0..6000 {
        if rng.chance(0.75) {
            let (path, size, tag) =
                (format!("f{number}"), rng.below(200_000), rng.below(100) as u8);
            number += 1;
            match v.create(&path, &fill(size, tag)) {
                Ok(()) => drop(files.insert(path, (size, tag))),
                Err(error) => {
                    assert_eq!(error.errno, Some(28));
                    full += 1;
                }
            }
        } else if let Some(path) =
            files.keys().nth(rng.below(files.len().max(1) as u64) as usize).cloned()
        {
            v.delete(&path).unwrap();
            files.remove(&path);
        }
        if rng.chance(0.01) {
            let until = v.now() + Nanos::from_secs(rng.below(40));
            v.idle_until(until);
        }
    }
    assert!(full > 100, "{full}");
    v.sync().unwrap();
    let until = v.now() + Nanos::from_secs(1000);
    v.idle_until(until);
    v.check();
    v.check_contents(&files);
}

/// More inode blocks than the smallest journal holds change at once.
#[test]
fn small_journal_holds_any_synced_batch() {
    let spec =
        VolumeSpec { journal_blocks: Some(1024), bytes_per_inode: 16384, ..VolumeSpec::ext4() };
    let mut volume = volume(spec, 1 << 30);
    volume.make_dir("d").unwrap();
    let payload = Payload::Fill { len: 4096, class: DataClass::Random };
    for file in 0..30_000 {
        volume.create(&format!("d/f{file}"), &payload).unwrap();
    }
    volume.sync().unwrap();
    volume.check();
    let commits = volume.counters().commits;
    for file in (0..30_000).step_by(3) {
        volume.append(&format!("d/f{file}"), &payload).unwrap();
    }
    volume.sync().unwrap();
    assert!(
        volume.counters().commits >= commits + 2 * 10_000 / 16 / 341,
        "{}",
        volume.counters().commits
    );
    volume.check();
}

#[test]
fn aged_volume_has_the_same_free_extents() {
    let lengths = [1, 4, 16, 300, 2];
    let mean = 323.0 / 5.0;
    let mut v = Volume::format(Offsets(Vec::new()), VolumeSpec::ext4(), Nanos::ZERO).unwrap();
    let age =
        Age { fill: 0.5, free_extent: Bytes::ZERO, class: DataClass::Zero, write: false, seed: 1 };
    v.age_like(&age, &lengths).unwrap();
    let free = v.free_extents();
    assert_eq!(free.iter().map(|len| u64::from(*len)).sum::<u64>() * BLOCK, v.free_space().0);
    let found = free.iter().map(|len| f64::from(*len)).sum::<f64>() / free.len() as f64;
    assert!((found / mean - 1.0).abs() < 0.1, "{found} of {mean}");
    for len in lengths {
        let share = free.iter().filter(|l| **l == len).count() as f64 / free.len() as f64;
        assert!((share - 0.2).abs() < 0.04, "{len}: {share}");
    }
    let before = v.counters().traffic.writes.bytes;
    let in_use = v.runs_in_use().len();
    v.write_free(0.5, DataClass::Zero, 1);
    let share = (v.counters().traffic.writes.bytes - before).as_f64() / v.free_space().as_f64();
    assert!((share - 0.5).abs() < 0.05, "{share}");
    assert_eq!(v.runs_in_use().len(), in_use, "nothing is allocated");
}
