//! The probed part of a drive: part of a device, or a file whose place on the drive is
//! known.
//!
//! Offsets have the drive's alignment: the area consists of pieces that start at a
//! multiple of their length on the drive, wherever they are in the file.

use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Extent, Ranges};
use trimtab_linux::session::safety::Guard;
use trimtab_linux::sys::{fiemap, interrupt};
use trimtab_linux::target::block::BlockFile;
use trimtab_sim::target::{
    BlockCompletion, BlockInfo, BlockTarget, Clock, TargetError, TargetResult,
};
use trimtab_study::learn::lab::ProbeTarget;

/// Bytes of a piece: no probe reads or writes more at once.
pub const PIECE: u64 = 1 << 20;

/// An area of pieces as a block target.
#[derive(Debug)]
pub struct ProbedDrive {
    file: BlockFile,
    info: BlockInfo,
    /// Offset of each piece in the file.
    pieces: Vec<u64>,
    /// Guards the reserve of the file's filesystem.
    guard: Option<Guard>,
}

impl ProbedDrive {
    /// At most `area` bytes of pieces that are whole in `extents` and aligned on the
    /// drive, evenly spread. `start` is the offset of the extents' address space on the
    /// drive. `None` if there are fewer than `area`.
    pub fn pieces(
        extents: &[fiemap::FileExtent],
        start: u64,
        size: u64,
        area: u64,
    ) -> Option<Vec<u64>> {
        // Offsets in the file and on the drive.
        let mut all: Vec<(u64, u64)> = Vec::new();
        // Adjacent extents are merged, however they were listed.
        let mut joined: Vec<fiemap::FileExtent> = Vec::new();
        for extent in extents.iter().filter(|extent| extent.is_plain()) {
            match joined.last_mut() {
                Some(last)
                    if last.logical + last.len == extent.logical
                        && last.physical + last.len == extent.physical =>
                {
                    last.len += extent.len
                }
                _ => joined.push(*extent),
            }
        }
        for extent in joined {
            let on_drive = start.checked_add(extent.physical)?;
            let mut from = on_drive.next_multiple_of(PIECE) - on_drive;
            while from + PIECE <= extent.len && extent.logical + from + PIECE <= size {
                all.push((extent.logical + from, on_drive + from));
                from += PIECE;
            }
        }
        let wanted = usize::try_from(area / PIECE).ok()?;
        // Prefers one contiguous run, which is sequential on the drive too.
        let together = |run: &[(u64, u64)]| {
            run.windows(2).all(|two| two[0].0 + PIECE == two[1].0 && two[0].1 + PIECE == two[1].1)
        };
        let chosen: Vec<(u64, u64)> = match all.windows(wanted.max(1)).find(|run| together(run)) {
            Some(run) => run.to_vec(),
            None if all.len() >= wanted => {
                (0..wanted).map(|nth| all[nth * all.len() / wanted]).collect()
            }
            None => return None,
        };
        Some(chosen.into_iter().map(|(in_file, _)| in_file).collect())
    }

    /// Uses `pieces` of `file`, in this order.
    pub fn new(file: BlockFile, pieces: Vec<u64>) -> Self {
        let info = BlockInfo { size: Bytes(pieces.len() as u64 * PIECE), ..file.info().clone() };
        Self { file, info, pieces, guard: None }
    }

    /// Stops all requests once the filesystem's reserve is used up.
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// Uses these pieces of the file from now on.
    pub fn set_pieces(&mut self, pieces: Vec<u64>) {
        self.info.size = Bytes(pieces.len() as u64 * PIECE);
        self.pieces = pieces;
    }

    /// The file.
    pub fn file(&mut self) -> &mut BlockFile {
        &mut self.file
    }

    /// The offset of `extent` in the file; it may span adjacent pieces.
    fn place(&self, extent: Extent) -> Option<Extent> {
        let first = usize::try_from(extent.offset / PIECE).ok()?;
        let last =
            usize::try_from(extent.offset.checked_add(extent.len)?.checked_sub(1)? / PIECE).ok()?;
        let used = self.pieces.get(first..=last)?;
        let in_order = used.windows(2).all(|two| two[0] + PIECE == two[1]);
        in_order.then(|| Extent { offset: used[0] + extent.offset % PIECE, len: extent.len })
    }

    fn placed(&self, op: Command<'static>) -> TargetResult<Command<'static>> {
        let place = |extent: Extent| self.place(extent).ok_or_else(|| scattered(&op, extent));
        Ok(match op {
            Command::Read(extent) => Command::Read(place(extent)?),
            Command::Write(extent, class) => Command::Write(place(extent)?, class),
            Command::Trim(Ranges::One(extent)) => Command::Trim(Ranges::One(place(extent)?)),
            // Passed on unchanged, they would address other places of the file.
            Command::Trim(Ranges::Many(ranges)) => return Err(several(ranges.len())),
            other => other,
        })
    }
}

fn scattered(op: &Command<'_>, extent: Extent) -> TargetError {
    TargetError {
        action: op.kind().name(),
        object: format!("{} bytes at {} of the probed area", extent.len, extent.offset),
        reason: "they are not contiguous".to_owned(),
        errno: None,
    }
}

/// Error for several ranges in one command.
fn several(ranges: usize) -> TargetError {
    TargetError {
        action: "trim",
        object: format!("{ranges} ranges"),
        reason: "the kernel takes one at a time".to_owned(),
        errno: None,
    }
}

impl Clock for ProbedDrive {
    fn now(&mut self) -> Nanos {
        self.file.now()
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.file.idle_until(instant);
    }
}

impl BlockTarget for ProbedDrive {
    fn info(&self) -> &BlockInfo {
        &self.info
    }

    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
        if interrupt::requested() {
            // Probes of whole drives take hours.
            let object = self.file.info().size.to_string();
            return Err(TargetError {
                action: "continue with",
                object,
                reason: "it was interrupted".to_owned(),
                errno: Some(libc::EINTR),
            });
        }
        if let Some(guard) = &mut self.guard {
            guard.check()?;
        }
        let placed = self.placed(op)?;
        self.file.submit(tag, placed)
    }

    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        self.file.reap(min, done)
    }
}

impl ProbeTarget for ProbedDrive {
    /// The kernel accepts one range at a time.
    fn trim(&mut self, tag: u32, ranges: &[Extent]) -> TargetResult {
        match ranges {
            [one] => self.submit(tag, Command::Trim(Ranges::One(*one))),
            _ => Err(several(ranges.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(logical: u64, physical: u64, len: u64) -> fiemap::FileExtent {
        fiemap::FileExtent { logical, physical, len, flags: 0 }
    }

    #[test]
    fn pieces_start_at_aligned_offsets_on_the_drive() {
        // The filesystem starts 512 KiB into the drive, so that 1.5 MiB there is 2 MiB on
        // the drive.
        let all =
            ProbedDrive::pieces(&[extent(0, PIECE, 4 * PIECE)], PIECE / 2, 4 * PIECE, 3 * PIECE)
                .unwrap();
        assert_eq!(all, [PIECE / 2, PIECE / 2 + PIECE, PIECE / 2 + 2 * PIECE]);
        assert_eq!(
            ProbedDrive::pieces(&[extent(0, PIECE, 4 * PIECE)], PIECE / 2, 4 * PIECE, 4 * PIECE),
            None
        );
        // Two adjacent extents count as one; an uncertain extent is skipped.
        let halves = [extent(0, 0, PIECE / 2), extent(PIECE / 2, PIECE / 2, PIECE / 2)];
        assert_eq!(ProbedDrive::pieces(&halves, 0, PIECE, PIECE).unwrap(), [0]);
        let unwritten = fiemap::FileExtent { flags: 0x800, ..extent(0, 0, PIECE) };
        assert_eq!(ProbedDrive::pieces(&[unwritten], 0, PIECE, PIECE), None);
        // One contiguous run is preferred to the first pieces.
        let parts = [extent(0, 0, PIECE), extent(PIECE, 9 * PIECE, 3 * PIECE)];
        assert_eq!(
            ProbedDrive::pieces(&parts, 0, 4 * PIECE, 3 * PIECE).unwrap(),
            [PIECE, 2 * PIECE, 3 * PIECE]
        );
    }

    #[test]
    fn request_over_separate_pieces_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 * PIECE).unwrap();
        let file = BlockFile::open_file(
            file.path(),
            true,
            &trimtab_linux::target::block::BlockOptions::default(),
        )
        .unwrap();
        let mut drive = ProbedDrive::new(file, vec![0, PIECE, 4 * PIECE]);
        let at = |offset, len| Extent { offset, len };
        assert_eq!(drive.place(at(PIECE / 2, PIECE)), Some(at(PIECE / 2, PIECE)));
        assert_eq!(drive.place(at(2 * PIECE + 4096, 4096)), Some(at(4 * PIECE + 4096, 4096)));
        for wrong in [at(PIECE, 2 * PIECE), at(3 * PIECE, 4096), at(u64::MAX, 2), at(0, 0)] {
            assert_eq!(drive.place(wrong), None, "{wrong:?}");
            assert!(drive.submit(0, Command::Read(wrong)).is_err(), "{wrong:?}");
        }
        let two = [at(0, 4096), at(8192, 4096)];
        assert!(drive.trim(0, &two).is_err());
        assert!(
            drive
                .submit(
                    0,
                    Command::Trim(Ranges::Many(&[
                        Extent { offset: 0, len: 4096 },
                        Extent { offset: 8192, len: 4096 }
                    ]))
                )
                .is_err(),
            "it would trim other places"
        );
    }
    /// Regression: a budget that fills a filesystem for hours did not watch the reserve.
    #[test]
    fn request_after_reserve_is_used_up_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![0; PIECE as usize]).unwrap();
        let drive = |reserve| {
            let file = BlockFile::open_file(
                &path,
                true,
                &trimtab_linux::target::block::BlockOptions::default(),
            )
            .unwrap();
            let directory_open = std::fs::File::open(directory.path()).unwrap();
            ProbedDrive::new(file, vec![0]).guarded(Guard::new(
                directory_open.into(),
                directory.path().into(),
                reserve,
            ))
        };
        let (mut enough, mut short) = (drive(Bytes(0)), drive(Bytes(u64::MAX)));
        std::thread::sleep(std::time::Duration::from_millis(600));
        let read = Command::Read(Extent { offset: 0, len: 4096 });
        assert!(enough.submit(0, read).is_ok());
        let error = short.submit(0, read).unwrap_err();
        assert_eq!(error.errno, Some(libc::ENOSPC), "{error}");
    }
}
