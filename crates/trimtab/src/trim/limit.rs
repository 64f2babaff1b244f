//! The length of single discard commands, while a trim goes on: `queue/discard_max_bytes`. Others get their turn between two
//! commands, so this bounds how long they wait for a trim. What was there before is put back, also after a crash.

use super::lock::{make_directory, run_directory};
use crate::host::block::Stack;
use crate::host::root::Root;
use std::io;
use std::path::PathBuf;
use trimtab_core::units::Bytes;

/// One queue whose limit was changed.
#[derive(Debug)]
struct Queue {
    limit: PathBuf,
    /// Keeps `before` for the next start, should this one end without putting it back.
    note: PathBuf,
    before: u64,
    now: u64,
    granularity: u64,
}

/// The limits of all devices that a filesystem is on.
#[derive(Debug, Default)]
pub struct CommandLimit {
    queues: Vec<Queue>,
}

impl CommandLimit {
    /// Of the devices of `stack`. Changes nothing yet.
    #[must_use]
    pub fn of_stack(root: &Root, stack: &Stack) -> Self {
        let mut queues: Vec<Queue> = Vec::new();
        for layer in stack.top_layers() {
            let directory = layer.queue();
            let limit = directory.join("discard_max_bytes");
            let read = |name: &str| root.read_u64(directory.join(name)).filter(|n| *n > 0);
            let (Some(before), Some(granularity)) = (read("discard_max_bytes"), read("discard_granularity")) else { continue };
            let disk = directory.parent().and_then(|d| d.file_name()?.to_str()).unwrap_or(&layer.name);
            let note = run_directory().join(format!("limit-{}", disk.replace('/', "!")));
            if !queues.iter().any(|q| q.limit == limit) {
                queues.push(Queue { limit, note, before, now: before, granularity });
            }
        }
        Self { queues }
    }

    /// Bounds commands to `most`, rounded down to the discard unit; [`Bytes::MAX`] is what there was before.
    pub fn set(&mut self, most: Bytes) -> io::Result<()> {
        for queue in &mut self.queues {
            let wanted = (most.0 / queue.granularity * queue.granularity).max(queue.granularity).min(queue.before);
            if wanted != queue.now {
                queue.change(wanted)?;
            }
        }
        Ok(())
    }
}

impl Queue {
    fn change(&mut self, wanted: u64) -> io::Result<()> {
        if self.now == self.before {
            let _ = make_directory(&run_directory());
            std::fs::write(&self.note, format!("{} {}\n", self.before, self.limit.display()))?;
        }
        std::fs::write(&self.limit, writable(wanted, self.granularity).to_string())?;
        self.now = wanted;
        if wanted == self.before {
            let _ = std::fs::remove_file(&self.note);
        }
        Ok(())
    }
}

impl Drop for CommandLimit {
    fn drop(&mut self) {
        for queue in self.queues.iter_mut().filter(|q| q.now != q.before) {
            // The device may be gone; then there is nothing to put back.
            let _ = queue.change(queue.before);
        }
    }
}

/// The largest value up to `bytes` that the kernel lets be written (`queue_var_store`, `queue_max_discard_sectors_store`): a
/// multiple of the unit below 4 GiB. What a driver sets by itself may be more (NVMe: 2 TiB); then just below 4 GiB has to do until
/// the device is next attached, which makes no difference to any filesystem.
fn writable(bytes: u64, granularity: u64) -> u64 {
    bytes.min(u64::from(u32::MAX)) / granularity * granularity
}

/// Puts back the limits of the drives in `stack` that an earlier process left behind. Call while holding the drives' locks.
/// Gives the limits that were put back, for a remark.
#[must_use]
pub fn recover(root: &Root, stack: &Stack) -> Vec<PathBuf> {
    let mut restored = Vec::new();
    for queue in &CommandLimit::of_stack(root, stack).queues {
        // The note names the file, but only the one that belongs to this device is written to.
        let Some(note) = std::fs::read_to_string(&queue.note).ok() else { continue };
        let before = note.split_ascii_whitespace().next().and_then(|n| n.parse::<u64>().ok());
        if let Some(before) = before.filter(|b| *b > queue.before && *b < 1 << 40)
            && std::fs::write(&queue.limit, writable(before, queue.granularity).to_string()).is_ok()
        {
            restored.push(queue.limit.clone());
        }
        let _ = std::fs::remove_file(&queue.note);
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_multiples_below_4_gib_can_be_written() {
        assert_eq!(writable(2_199_023_255_040, 512), 4_294_966_784);
        assert_eq!(writable(4_294_966_784, 4096), 4_294_963_200);
        assert_eq!(writable(65_536, 4096), 65_536);
    }
}
