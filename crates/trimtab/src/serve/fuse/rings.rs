//! Requests and answers over io_uring (Linux 6.14) instead of reads and writes of `/dev/fuse`.
//!
//! The kernel keeps a queue of requests for every processor and gives a request to the queue of the processor on which it was made. A thread on
//! that processor takes it from memory, and gives the answer and asks for the next request in one system call: nobody waits for another processor
//! to wake up. What is not due yet waits in the same thread.

mod slots;

use super::node::Node;
use crate::serve::worker::{Worker, settle_down};
use crate::session::notes::{Change, Note, Notes};
use crate::sys::fuse_ring;
use rustix::thread::CpuSet;
use slots::FileSlots;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the kernel says whether it takes requests over io_uring; off unless the administrator has switched it on.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Who switches it on as well has it for no longer.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// Which queues each thread serves.
#[derive(Debug)]
pub struct Plan {
    threads: Vec<Share>,
}

#[derive(Debug)]
struct Share {
    processor: usize,
    queues: Vec<u16>,
}

impl Share {
    /// Its worker, in the thread that this is called in.
    fn worker(&self, device: OwnedFd, node: Arc<Node>, waiting: Arc<AtomicUsize>) -> io::Result<Worker<FileSlots>> {
        let mut here = CpuSet::new();
        here.set(self.processor);
        let everywhere = settle_down(&here)?;
        Ok(Worker::new(FileSlots::new(&self.queues, device, node)?, here, everywhere, waiting))
    }
}

impl Plan {
    /// A thread for each processor that this process may use, which also serve the queues of others; `None` where the kernel or its settings do
    /// not allow that.
    pub fn new() -> Option<Self> {
        let possible = count_of(std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?.trim())?;
        let usable = rustix::thread::sched_getaffinity(None).ok()?;
        let threads =
            (0..possible.min(CpuSet::MAX_CPU)).filter(|cpu| usable.is_set(*cpu)).map(|processor| Share { processor, queues: Vec::new() });
        let mut plan = Self { threads: threads.collect() };
        for queue in 0..possible {
            let own = plan.threads.iter().position(|share| share.processor == queue);
            let at = own.unwrap_or(queue.checked_rem(plan.threads.len())?);
            plan.threads[at].queues.push(u16::try_from(queue).ok()?);
        }
        (Path::new(SWITCH).exists() && fuse_ring::is_possible()).then_some(plan)
    }

    /// Starts the threads on the mounted filesystem behind `device`, whose first request was answered with the agreement to do this. Returns
    /// when the kernel has been told of all queues.
    pub fn start(self, device: &OwnedFd, node: &Arc<Node>) -> io::Result<Rings> {
        let waiting = Arc::new(AtomicUsize::new(0));
        let (ready, all) = mpsc::channel();
        let mut threads = Vec::new();
        for share in self.threads {
            let (device, node, waiting, ready) = (device.try_clone()?, Arc::clone(node), Arc::clone(&waiting), ready.clone());
            let name = format!("fuse-ring-{}", share.processor);
            threads.push(std::thread::Builder::new().name(name).spawn(move || match share.worker(device, node, waiting) {
                Ok(mut worker) => {
                    let registered = worker.register();
                    let works = registered.is_ok();
                    let _ = ready.send(registered);
                    drop(ready);
                    if works {
                        worker.run();
                    }
                }
                Err(error) => drop(ready.send(Err(error))),
            })?);
        }
        drop(ready);
        all.into_iter().collect::<io::Result<()>>()?;
        Ok(Rings { threads, waiting })
    }
}

/// How many processors a list such as `0-3,8` names.
fn count_of(list: &str) -> Option<usize> {
    let of = |range: &str| match range.split_once('-') {
        None => range.parse::<usize>().ok().map(|_| 1),
        Some((first, last)) => Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1),
    };
    list.split(',').map(of).sum()
}

/// Switches the kernel's support on while a filesystem is mounted, if it is off. A filesystem that was mounted so keeps it.
pub struct Switch {
    /// The switch, locked, so that nobody else who does the same takes this for the administrator's choice; and what it was.
    held: Option<(File, Note)>,
}

impl Switch {
    /// Switched on, if this process may; nothing but the speed depends on it.
    pub fn on() -> Self {
        Self::turn(Path::new(SWITCH), &Notes::here())
    }

    fn turn(path: &Path, notes: &Notes) -> Self {
        const NAME: &str = "enable_uring";
        let open = || {
            let file = File::options().read(true).write(true).open(path)?;
            lock(&file)?;
            // Who had the lock until now may have been killed.
            notes.take_over(NAME)?;
            if std::fs::read_to_string(path)?.trim() != "N" {
                return Ok(None);
            }
            let change = Change::Attribute { file: path.to_owned(), before: "N".to_owned(), set: vec!["Y".to_owned()] };
            let note = notes.leave(NAME, change)?;
            file.write_all_at(b"Y", 0)?;
            io::Result::Ok(Some((file, note)))
        };
        Self { held: open().unwrap_or_default() }
    }
}

/// Everybody may open the switch, and so hold a lock on it: that costs speed, and must not cost more.
fn lock(file: &File) -> io::Result<()> {
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < patience => std::thread::sleep(LOCK_PATIENCE / 200),
            result => return Ok(result?),
        }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some((file, note)) = self.held.take() {
            // What cannot be put back stays noted.
            let _ = note.put_back();
            drop(file);
        }
    }
}

/// The threads that serve a mounted filesystem. They end when it is unmounted.
pub struct Rings {
    threads: Vec<JoinHandle<()>>,
    waiting: Arc<AtomicUsize>,
}

impl Rings {
    /// How many answers are being kept back until they are due.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether all threads have ended.
    pub fn are_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_left_as_it_was_also_after_a_kill() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("enable_uring");
        let notes = Notes::beside(directory.path().canonicalize().unwrap());
        let state = || std::fs::read_to_string(&path).unwrap().trim().to_owned();
        for (before, after) in [("N\n", "N"), ("Y\n", "Y")] {
            std::fs::write(&path, before).unwrap();
            let switch = Switch::turn(&path, &notes);
            assert_eq!(state(), "Y");
            drop(switch);
            assert_eq!(state(), after);
        }
        assert!(Switch::turn(&directory.path().join("missing"), &notes).held.is_none());
        std::fs::write(&path, "N").unwrap();
        let kill = |mut switch: Switch| drop(switch.held.take());
        kill(Switch::turn(&path, &notes));
        assert_eq!(state(), "Y", "nobody has put it back");
        assert_eq!(notes.put_back_left(&crate::session::notes::Reach::Nothing).unwrap().len(), 1);
        assert_eq!(state(), "N");
        kill(Switch::turn(&path, &notes));
        drop(Switch::turn(&path, &notes));
        assert_eq!(state(), "N", "the next one knows that it was not the administrator");
        kill(Switch::turn(&path, &notes));
        std::fs::write(&path, "N").unwrap();
        assert!(
            notes
                .put_back_left(&crate::session::notes::Reach::Nothing)
                .unwrap()
                .iter()
                .all(|left| left.undone == crate::session::notes::Undone::Nothing)
        );
        assert_eq!(std::fs::read_dir(directory.path().join("notes")).unwrap().count(), 0);
    }

    #[test]
    fn who_holds_the_switch_costs_speed_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("enable_uring");
        std::fs::write(&path, "N\n").unwrap();
        let held = File::open(&path).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let notes = Notes::beside(directory.path().canonicalize().unwrap());
        assert!(Switch::turn(&path, &notes).held.is_none());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "N\n");
        drop(held);
        assert!(Switch::turn(&path, &notes).held.is_some());
    }

    #[test]
    fn lists_of_processors_are_counted() {
        assert_eq!(["0", "0-1", "0-3,8", "0-127"].map(count_of), [Some(1), Some(2), Some(5), Some(128)]);
        assert_eq!(["", "a", "3-1", "0-", "-"].map(count_of), [None; 5]);
    }
}
