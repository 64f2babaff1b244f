//! Block targets on files, with both engines.

mod verifier;

use self::verifier::Verifier;
use super::*;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use trimtab_drive::OpKind;
use trimtab_drive::data::DataClass;
use trimtab_sim::runner::{RunEnd, blocks};
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings};
use trimtab_sim::workload::{BlockWorkload, Limit};

const ENGINES: [EngineChoice; 2] = [EngineChoice::Uring, EngineChoice::Threads];
const SIZE: u64 = 4 << 20;

fn options(engine: EngineChoice) -> BlockOptions {
    BlockOptions {
        engine,
        queue_depth_max: 16,
        bytes_in_flight_max: 1 << 20,
        ..BlockOptions::default()
    }
}

fn file(dir: &Path, options: &BlockOptions) -> BlockFile {
    let fd =
        rustix::fs::open(dir, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    BlockFile::create(fd, dir, "data", Bytes(SIZE), options).unwrap()
}

/// A target whose reads must return the data last written.
struct VerifiedFile {
    file: BlockFile,
    verifier: Verifier,
    early: Vec<BlockCompletion>,
}

fn verified(dir: &Path, options: &BlockOptions) -> VerifiedFile {
    let verifier = Verifier::new(Bytes(SIZE));
    VerifiedFile { file: file(dir, options), verifier, early: Vec::new() }
}

impl Clock for VerifiedFile {
    fn now(&mut self) -> Nanos {
        self.file.now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.file.idle_until(instant);
    }
}

impl BlockTarget for VerifiedFile {
    fn info(&self) -> &BlockInfo {
        self.file.info()
    }

    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
        // The target moves the data of earlier reads when it lays out its memory again.
        if !self.file.transfers.fits(tag, op.bytes() as usize) {
            let mut early = std::mem::take(&mut self.early);
            self.reap(self.file.in_flight, &mut early)?;
            self.early = early;
        }
        match op {
            Command::Read(Extent { offset, len }) => self.verifier.begin_read(tag, offset, len),
            Command::Write(Extent { offset, len }, class) => {
                self.verifier.begin_write(tag, offset, len, class);
            }
            Command::Trim(Ranges::One(Extent { offset, len })) => {
                self.verifier.begin_trim(tag, offset, len);
            }
            _ => {}
        }
        self.file.submit(tag, op)
    }

    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        let from = done.len();
        done.append(&mut self.early);
        let early = done.len();
        self.file.reap(min.saturating_sub((early - from) as u32), done)?;
        for completion in &mut done[early..] {
            let read = match self.file.slots[completion.tag as usize].op {
                Command::Read(extent) if completion.result.is_ok() => {
                    Some(&*self.file.transfers.bytes(completion.tag, extent.len as usize))
                }
                _ => None,
            };
            if let Err((offset, problem)) =
                self.verifier.end(completion.tag, &self.file.content, read)
            {
                let object = format!("4096 bytes at {offset}");
                completion.result =
                    Err(Box::new(TargetError::new("verify", object, problem, None)));
            }
        }
        Ok(())
    }
}

/// The kernel allows io_uring; containers often do not.
fn usable(engine: EngineChoice) -> bool {
    engine != EngineChoice::Uring || io_uring::IoUring::new(2).is_ok()
}

fn synthetic(pattern: Pattern, mix: Mix, sizes: &[(u32, u32)], depth: u32, ops: u64) -> Synthetic {
    let settings = SyntheticSettings {
        pattern,
        mix,
        sizes: sizes.to_vec(),
        data: DataClass::Random,
        offset: 0,
        span: SIZE,
        queue_depth: depth,
        limit: Limit::Ops(ops),
    };
    Synthetic::new(settings, 1).unwrap()
}

fn run_ok<W: BlockWorkload, T: BlockTarget>(
    workload: &mut W,
    target: &mut T,
) -> trimtab_sim::run::Phase {
    let outcome = blocks::run(workload, target, &mut ());
    assert_eq!(outcome.end, RunEnd::Complete);
    outcome.recorded.phases.into_iter().next().unwrap()
}

#[test]
fn written_data_reads_back_whole_and_incompressible() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = verified(dir.path(), &options(engine));
        let writes = run_ok(
            &mut synthetic(Pattern::Sequential, Mix::default(), &[(1 << 16, 1)], 8, SIZE >> 16),
            &mut target,
        );
        assert_eq!((writes.ops_total(), writes.written), (SIZE >> 16, Bytes(SIZE)));
        let reads = run_ok(
            &mut synthetic(
                Pattern::Uniform,
                Mix { read_percent: 100, trim_percent: 0 },
                &[(4096, 1)],
                16,
                500,
            ),
            &mut target,
        );
        assert_eq!((reads.ops, reads.read), (vec![(OpKind::Read, 500)], Bytes(500 * 4096)));
        assert_eq!(target.verifier.checked(), Bytes(500 * 4096), "{engine:?}");
        let share = target.file.compressed_share(Bytes(SIZE), Bytes(SIZE)).unwrap();
        assert!((0.999..1.01).contains(&share), "random data compresses to {share}");
    }
}

#[test]
fn submit_accepts_mixed_sizes_and_kinds_in_flight() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = verified(dir.path(), &options(engine));
        let mix = Mix { read_percent: 40, trim_percent: 10 };
        let phase = run_ok(
            &mut synthetic(Pattern::Uniform, mix, &[(4096, 5), (16384, 2), (65536, 1)], 16, 3000),
            &mut target,
        );
        assert_eq!(phase.ops_total(), 3000);
        assert!(target.verifier.checked() > Bytes(100 * 4096), "{engine:?}");
    }
}

#[test]
fn read_finds_damage_from_outside() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = verified(dir.path(), &options(engine));
        run_ok(
            &mut synthetic(Pattern::Sequential, Mix::default(), &[(1 << 16, 1)], 4, SIZE >> 16),
            &mut target,
        );
        let outside = std::fs::File::options().write(true).open(dir.path().join("data")).unwrap();
        outside.write_all_at(&[0x55; 512], 40 * 4096 + 512).unwrap();
        outside.sync_all().unwrap();
        let mut reads = synthetic(
            Pattern::Sequential,
            Mix { read_percent: 100, trim_percent: 0 },
            &[(1 << 16, 1)],
            4,
            64,
        );
        let outcome = blocks::run(&mut reads, &mut target, &mut ());
        let error = outcome.complete().unwrap_err().to_string();
        assert!(error.starts_with("cannot verify 4096 bytes at 163840"), "{error}");
    }
}

#[test]
fn read_of_truncated_file_names_the_cause() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = file(dir.path(), &options(engine));
        std::fs::File::options()
            .write(true)
            .open(dir.path().join("data"))
            .unwrap()
            .set_len(SIZE / 2)
            .unwrap();
        let mut reads = synthetic(
            Pattern::Sequential,
            Mix { read_percent: 100, trim_percent: 0 },
            &[(1 << 16, 1)],
            4,
            64,
        );
        let error =
            blocks::run(&mut reads, &mut target, &mut ()).complete().unwrap_err().to_string();
        assert!(error.contains("only 0 bytes were transferred"), "{error}");
    }
}

#[test]
fn submit_refuses_ranges_outside_or_unaligned() {
    let dir = tempfile::tempdir().unwrap();
    let mut target = file(dir.path(), &options(EngineChoice::Auto));
    let block = u64::from(target.info().block_size);
    for op in [
        Command::Read(Extent { offset: SIZE, len: block }),
        Command::Read(Extent { offset: SIZE - block, len: 2 * block }),
        Command::Write(Extent { offset: 1, len: block }, DataClass::Zero),
        Command::Write(Extent { offset: 0, len: block / 2 }, DataClass::Zero),
        Command::Trim(Ranges::One(Extent { offset: u64::MAX - block + 1, len: block })),
        Command::Read(Extent { offset: 0, len: 0 }),
    ] {
        let error = target.submit(0, op).unwrap_err();
        assert!(error.reason.contains("whole blocks"), "{error}");
    }
    // More than the memory reserved for operations in flight.
    assert!(
        target
            .submit(15, Command::Read(Extent { offset: 0, len: 1 << 20 }))
            .unwrap_err()
            .reason
            .contains("memory reserved")
    );
}

#[test]
fn trim_of_file_deallocates_its_blocks() {
    use std::os::unix::fs::MetadataExt as _;
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = file(dir.path(), &options(engine));
        run_ok(
            &mut synthetic(Pattern::Sequential, Mix::default(), &[(1 << 16, 1)], 4, SIZE >> 16),
            &mut target,
        );
        let blocks = || std::fs::metadata(dir.path().join("data")).unwrap().blocks();
        let before = blocks();
        let trims = Mix { read_percent: 0, trim_percent: 100 };
        let phase =
            run_ok(&mut synthetic(Pattern::Sequential, trims, &[(1 << 20, 1)], 2, 3), &mut target);
        assert_eq!(phase.ops, [(OpKind::Trim, 3)]);
        assert!(before - blocks() >= (3 << 20) / 512 - 64, "{before} then {}", blocks());
    }
}

#[test]
fn drop_waits_for_operations_in_flight() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = file(dir.path(), &options(engine));
        for tag in 0..16 {
            target
                .submit(
                    tag,
                    Command::Write(
                        Extent { offset: u64::from(tag) << 16, len: 1 << 16 },
                        DataClass::Random,
                    ),
                )
                .unwrap();
        }
        drop(target);
        let data = std::fs::read(dir.path().join("data")).unwrap();
        assert!(
            data[..1 << 20].chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)),
            "all sixteen arrived"
        );
    }
}

#[test]
fn flush_completes_and_timestamps_are_ordered() {
    for engine in ENGINES.into_iter().filter(|e| usable(*e)) {
        let dir = tempfile::tempdir().unwrap();
        let mut target = file(dir.path(), &options(engine));
        target.submit(0, Command::Write(Extent { offset: 0, len: 4096 }, DataClass::Zero)).unwrap();
        target.submit(1, Command::Flush).unwrap();
        let mut done = Vec::new();
        target.reap(2, &mut done).unwrap();
        assert_eq!(done.len(), 2);
        for completion in done {
            assert_eq!(completion.result, Ok(()));
            assert!(
                completion.issued <= completion.submitted
                    && completion.submitted <= completion.completed,
                "{completion:?}"
            );
        }
    }
}

#[test]
fn open_refuses_absurd_amounts_in_flight() {
    let dir = tempfile::tempdir().unwrap();
    let fd = rustix::fs::open(dir.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
        .unwrap();
    for (queue_depth_max, bytes_in_flight_max) in [(0, 4096), (1 << 20, 4096), (1, 1 << 40)] {
        let options =
            BlockOptions { queue_depth_max, bytes_in_flight_max, ..BlockOptions::default() };
        let error = BlockFile::create(
            &fd,
            dir.path(),
            &format!("f{queue_depth_max}"),
            Bytes(SIZE),
            &options,
        )
        .unwrap_err();
        assert!(error.to_string().contains("in flight"), "{error}");
    }
}

/// tmpfs always blocks: lone operations use a blocking call, all others the engine.
#[test]
fn queue_depth_may_change_with_lone_calls() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return crate::skip::skip("/dev/shm") };
    let mut target = verified(dir.path(), &options(EngineChoice::Auto));
    let mix = Mix { read_percent: 50, trim_percent: 10 };
    for depth in [1, 16, 1, 2] {
        run_ok(
            &mut synthetic(Pattern::Uniform, mix, &[(4096, 3), (16384, 1)], depth, 2000),
            &mut target,
        );
    }
    assert!(target.verifier.checked() > Bytes(1000 * 4096));
}

#[test]
fn failed_lone_call_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let mut target = file(dir.path(), &options(EngineChoice::Threads));
    std::fs::File::options().write(true).open(dir.path().join("data")).unwrap().set_len(0).unwrap();
    target.submit(0, Command::Read(Extent { offset: 0, len: 4096 })).unwrap();
    let mut done = Vec::new();
    target.reap(1, &mut done).unwrap();
    let error = done[0].result.as_ref().unwrap_err().to_string();
    assert!(error.contains("only 0 bytes were transferred"), "{error}");
}
