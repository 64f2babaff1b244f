//! A file as a block device: direct I/O without the page cache, for random writes.

use super::Volume;
use super::ops::{errno, refused};
use super::queue::{Ticket, Urgency, insert_sorted};
use super::spec::BLOCK;
use crate::op::Payload;
use crate::target::{BlockCompletion, BlockInfo, BlockTarget, Clock, TargetError, TargetResult};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::{Command, Device, Extent};

impl<D: Device> Volume<D> {
    /// Overwrites part of a file with direct I/O and returns when the drive has the data.
    /// `offset` and length are multiples of 4096 within the file.
    pub fn overwrite(&mut self, path: &str, offset: u64, payload: &Payload<'_>) -> TargetResult {
        let mut file = FileBlocks::open(self, path, 1)?;
        file.submit(0, Command::Write(Extent { offset, len: payload.len() }, payload.class()))?;
        file.reap(1, &mut Vec::new())
    }
}

/// A file of a volume as a block target. Its dirty data are written and all blocks
/// allocated, so operations change only file times, which `lazytime` keeps out of the
/// journal.
#[derive(Debug)]
pub struct FileBlocks<'v, D> {
    volume: &'v mut Volume<D>,
    file: OpenFile,
}

/// The state of the file's target.
#[derive(Debug)]
struct OpenFile {
    path: String,
    info: BlockInfo,
    /// Runs of the file: file offset in blocks, start, length.
    runs: Vec<(u32, u32, u32)>,
    /// In flight with unknown completion time.
    waiting: Vec<InFlightOp>,
    /// In flight with known completion time, earliest first.
    known: VecDeque<(Nanos, InFlightOp)>,
    submitted: u64,
}

/// An operation in flight, ordered by submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct InFlightOp {
    nth: u64,
    tag: u32,
    ticket: Ticket,
    issued: Nanos,
}

impl<'v, D: Device> FileBlocks<'v, D> {
    /// Opens a file, with up to `queue_depth_max` operations in flight.
    pub fn open(volume: &'v mut Volume<D>, path: &str, queue_depth_max: u32) -> TargetResult<Self> {
        let node = volume.find_file("open", path)?;
        volume.write_out_and_wait(node);
        let file = &volume.nodes[node as usize];
        let mut runs = Vec::new();
        let mut at = 0;
        for (start, len) in file.extents.iter() {
            runs.push((at, start, len));
            at += len;
        }
        let size = Bytes(file.size / BLOCK * BLOCK);
        let info = BlockInfo { size, block_size: BLOCK as u32, queue_depth_max, trim: false };
        let file = OpenFile {
            path: path.to_string(),
            info,
            runs,
            waiting: Vec::new(),
            known: VecDeque::new(),
            submitted: 0,
        };
        Ok(Self { volume, file })
    }

    /// The volume.
    pub const fn volume(&self) -> &Volume<D> {
        self.volume
    }
}

/// Volume blocks of `len` bytes from `offset` of the file of `runs`: the first and the
/// number of each part.
fn parts(runs: &[(u32, u32, u32)], offset: u64, len: u64) -> impl Iterator<Item = (u32, u32)> {
    let (mut at, end) = ((offset / BLOCK) as u32, ((offset + len) / BLOCK) as u32);
    let first = runs.partition_point(|(from, ..)| *from <= at).saturating_sub(1);
    runs[first..].iter().map_while(move |(from, start, n)| {
        (at < end).then(|| {
            let inside = at - from;
            let blocks = (n - inside).min(end - at);
            at += blocks;
            (start + inside, blocks)
        })
    })
}

impl<D: Device> Clock for FileBlocks<'_, D> {
    fn now(&mut self) -> Nanos {
        self.volume.now
    }

    fn idle_until(&mut self, instant: Nanos) {
        self.volume.idle_until(instant);
    }
}

impl<D: Device> BlockTarget for FileBlocks<'_, D> {
    fn info(&self) -> &BlockInfo {
        &self.file.info
    }

    fn submit(&mut self, tag: u32, op: Command<'static>) -> TargetResult {
        self.file.submit(self.volume.on_any(), tag, op)
    }

    fn reap(&mut self, min: u32, done: &mut Vec<BlockCompletion>) -> TargetResult {
        self.file.reap(self.volume.on_any(), min, done)
    }
}

impl OpenFile {
    fn refused(&self, op: &Command<'_>, why: (i32, &str)) -> TargetError {
        refused("do", format!("{} of {}", op.kind().name(), self.path), why)
    }

    fn submit(
        &mut self,
        volume: &mut Volume<dyn Device + '_>,
        tag: u32,
        op: Command<'static>,
    ) -> TargetResult {
        let (offset, len) = match op {
            Command::Read(Extent { offset, len }) | Command::Write(Extent { offset, len }, _) => {
                (offset, len)
            }
            Command::Flush => (0, 0),
            Command::Trim(_) => return Err(self.refused(&op, errno::EOPNOTSUPP)),
        };
        if !offset.is_multiple_of(BLOCK)
            || !len.is_multiple_of(BLOCK)
            || offset.saturating_add(len) > self.info.size.0
        {
            return Err(self.refused(&op, errno::EINVAL));
        }
        volume.work(volume.spec.host.extent);
        volume.healthy("write to", &self.path)?;
        let issued = volume.now;
        let ticket = volume.queue.ticket();
        let start = volume.start;
        let parts = parts(&self.runs, offset, len)
            .map(|(block, n)| (start + u64::from(block) * BLOCK, u64::from(n) * BLOCK));
        match op {
            Command::Write(_, class) => {
                for (at, n) in parts {
                    volume.queue.write(issued, at, n, class, ticket, Urgency::Sync);
                }
                volume.counters.data_written += Bytes(len);
            }
            Command::Read(_) => {
                for (at, n) in parts {
                    volume.queue.read(issued, at, n, ticket);
                }
            }
            Command::Flush | Command::Trim(_) => volume.queue.flush(issued, ticket),
        }
        volume.queue.unplug();
        // What is due now would be sent before any other event.
        while volume.queue.next_dispatch().is_some_and(|at| at <= issued) {
            volume.queue.dispatch(issued);
        }
        let op = InFlightOp { nth: self.submitted, tag, ticket, issued };
        match volume.queue.done(ticket) {
            Some(done) => insert_sorted(&mut self.known, (done, op)),
            None => self.waiting.push(op),
        }
        self.submitted += 1;
        Ok(())
    }

    fn reap(
        &mut self,
        volume: &mut Volume<dyn Device + '_>,
        min: u32,
        done: &mut Vec<BlockCompletion>,
    ) -> TargetResult {
        let mut reaped = 0;
        loop {
            let now = volume.now;
            match self.next_completion(volume) {
                Some((completed, InFlightOp { tag, ticket, issued, .. })) if completed <= now => {
                    self.known.pop_front();
                    volume.queue.finish(ticket);
                    done.push(BlockCompletion {
                        tag,
                        issued,
                        submitted: issued,
                        completed,
                        result: Ok(()),
                    });
                    reaped += 1;
                }
                next if reaped >= min || (next.is_none() && self.waiting.is_empty()) => {
                    return Ok(());
                }
                // Queued operations may complete before the known ones.
                Some((completed, _)) if volume.queue.queued() == 0 => volume.run_until(completed),
                _ => volume.step(),
            }
        }
    }

    /// Earliest known completion.
    fn next_completion(&mut self, volume: &Volume<dyn Device + '_>) -> Option<(Nanos, InFlightOp)> {
        let known = &mut self.known;
        self.waiting.retain(|one| match volume.queue.done(one.ticket) {
            Some(done) => {
                insert_sorted(known, (done, *one));
                false
            }
            None => true,
        });
        self.known.front().copied()
    }
}

impl<D> Drop for FileBlocks<'_, D> {
    fn drop(&mut self) {
        let known = self.file.known.drain(..).map(|(_, one)| one);
        for one in self.file.waiting.drain(..).chain(known) {
            self.volume.queue.forget(one.ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_range_across_extents() {
        let runs = [(0, 100, 4), (4, 50, 2), (6, 7, 9)];
        let of = |block: u64, blocks: u64| {
            parts(&runs, block * BLOCK, blocks * BLOCK).collect::<Vec<_>>()
        };
        assert_eq!(of(3, 4), [(103, 1), (50, 2), (7, 1)]);
        assert_eq!(of(1, 2), [(101, 2)]);
        assert_eq!(of(4, 2), [(50, 2)]);
        assert_eq!(of(14, 1), [(15, 1)]);
        assert_eq!(of(0, 0), []);
    }
}
