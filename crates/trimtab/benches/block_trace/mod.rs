//! What reads, writes and discards a block device had under way, and from when to when,
//! by the kernel's own trace events (`block_rq_issue`, `block_rq_complete`): who waited
//! in the device, without what programs and the scheduler do around it.

use std::collections::HashMap;
use std::fs;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A request that was completed, in seconds of the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    pub is_discard: bool,
    pub is_write: bool,
    pub issued: f64,
    pub done: f64,
}

impl Request {
    pub fn took_ms(&self) -> f64 {
        (self.done - self.issued) * 1e3
    }
}

/// An instance of tracing of its own, so that nobody else's is disturbed.
pub struct BlockTrace {
    instance: PathBuf,
    mount: TempDir,
    device: (u32, u32),
}

impl BlockTrace {
    pub fn start(device: &Path) -> Result<Self> {
        let number = rustix::fs::stat(device)?.st_rdev;
        let device = (rustix::fs::major(number), rustix::fs::minor(number));
        let mount = tempfile::tempdir()?;
        if !Command::new("mount")
            .args(["-t", "tracefs", "tracefs"])
            .arg(mount.path())
            .status()?
            .success()
        {
            return Err(Error::other("tracefs cannot be mounted"));
        }
        let instance = mount.path().join(format!("instances/trimtab-{}", std::process::id()));
        let trace = Self { instance, mount, device };
        fs::create_dir(&trace.instance)?;
        trace.write("trace_clock", "mono")?;
        trace.write("buffer_size_kb", "40000")?;
        for event in ["block_rq_issue", "block_rq_complete"] {
            // MKDEV of the kernel.
            trace.write(
                &format!("events/block/{event}/filter"),
                &format!("dev == {}", (device.0 << 20) | device.1),
            )?;
            trace.write(&format!("events/block/{event}/enable"), "1")?;
        }
        trace.write("tracing_on", "1")?;
        Ok(trace)
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.instance.join(file), text)
    }

    /// All requests that were issued and completed.
    pub fn end(self) -> Result<Vec<Request>> {
        self.write("tracing_on", "0")?;
        let text = fs::read_to_string(self.instance.join("trace"))?;
        Ok(requests(&text, self.device))
    }
}

impl Drop for BlockTrace {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.instance);
        let _ = Command::new("umount").arg(self.mount.path()).status();
    }
}

/// Lines like `fio-7 [001] ..... 15.402: block_rq_issue: 7,11 WS 4096 () 1024 + 8
/// none,0,0 [fio]`; of completions without the bytes.
fn requests(text: &str, (major, minor): (u32, u32)) -> Vec<Request> {
    let device = format!("{major},{minor}");
    let (mut under_way, mut all) = (HashMap::new(), Vec::new());
    for line in text.lines() {
        let Some((before, event)) = line.split_once(": block_rq_") else { continue };
        let Some(at) =
            before.split_ascii_whitespace().next_back().and_then(|at| at.parse::<f64>().ok())
        else {
            continue;
        };
        let Some((what, rest)) = event.split_once(": ") else { continue };
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let Some(plus) = words.iter().position(|word| *word == "+").filter(|_| words[0] == device)
        else {
            continue;
        };
        let (kind, key) = (words[1], (words[1].as_bytes()[0], words[plus - 1].to_owned()));
        if what == "issue" {
            under_way.insert(key, at);
        } else if let Some(issued) = under_way.remove(&key) {
            all.push(Request {
                is_discard: kind.starts_with('D'),
                is_write: kind.starts_with('W') || kind.starts_with("FW"),
                issued,
                done: at,
            });
        }
    }
    all
}
