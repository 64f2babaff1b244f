//! Processes of this boot, and memory, as the kernel reports them.

use super::root::printable;
use std::path::Path;

/// The id of this boot; empty if the kernel does not report it.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Start time in clock ticks after boot; `None` if the process is missing or a zombie.
pub fn started(pid: u32) -> Option<u64> {
    started_in(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of `/proc/PID/stat`.
fn started_in(stat: &str) -> Option<u64> {
    // The name may contain parentheses; the state and 18 more fields precede the start
    // time.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" => None,
        _ => fields.nth(18)?.parse().ok(),
    }
}

/// The process exists, possibly as a zombie.
pub fn exists(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// The start of a process's command line, enough to identify it, made safe for a
/// terminal.
pub fn command_line(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|&b| b == 0).take(3).map(printable).collect::<Vec<_>>().join(" ");
    let words = words.replace('\n', " ").trim().chars().take(60).collect::<String>();
    (!words.is_empty()).then_some(words)
}

/// Bytes that this thread caused to be read from drives.
pub fn read_by_this_thread() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("read_bytes:")?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_of_zombie_is_none() {
        let fields = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(started_in(&format!("7 (a) b) R {fields}")), Some(4711));
        assert_eq!(started_in(&format!("7 (trimtab) Z {fields}")), None);
        let own = std::process::id();
        assert!(exists(own) && started(own).is_some() && command_line(own).is_some());
        assert!(!exists(u32::MAX) && started(u32::MAX).is_none());
    }
}
