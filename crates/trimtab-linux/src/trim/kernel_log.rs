//! Detects failed discards in the kernel log, their only trace: ext4 and XFS report
//! success for a FITRIM whose discards the device refused with an I/O error, and the
//! discard counters include failed commands. The log is rate-limited; if a line may have
//! been suppressed, repeat the request after [`KernelLog::silence`].

use crate::host::block::Stack;
use crate::sys::clock;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

const RECORD_MAX: usize = 8192;
/// The kernel logs a limited number of I/O errors, of all devices together, and then none
/// until this interval has passed (`DEFAULT_RATELIMIT_INTERVAL` of 5 s, with a margin for
/// the difference between the clocks).
const RATE_INTERVAL: Duration = Duration::from_millis(6500);
/// The block layer's word for a discard (`blk_print_req_error`).
const DISCARD: &str = "(DISCARD)";

/// The kernel log from the current position on.
#[derive(Debug)]
pub struct KernelLog {
    /// `None` without permission to read the log.
    file: Option<File>,
    /// Names of the devices to look for.
    devices: Vec<String>,
    /// Time since boot of the last I/O error of any device.
    last_error: Option<Duration>,
}

impl KernelLog {
    /// For the devices of `stack`.
    pub fn of_stack(stack: &Stack) -> Self {
        let devices = stack
            .layers
            .iter()
            .filter(|l| !l.sys.as_os_str().is_empty())
            .map(|l| l.name.clone())
            .collect();
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/kmsg")
            .ok();
        let mut log = Self { file, devices, last_error: None };
        // Earlier records do not concern this trim, but they may have used up the rate
        // limit.
        log.skip();
        log
    }

    /// Skips all current records.
    pub fn skip(&mut self) {
        let _ = self.failed_discards();
    }

    /// Time for which the log may still suppress errors after recent ones, if it does.
    pub fn silence(&self) -> Option<Duration> {
        let silent_until = self.last_error?.saturating_add(RATE_INTERVAL);
        silent_until.checked_sub(since_boot()).filter(|left| !left.is_zero())
    }

    /// Failed discards since the last call, as far as the log shows them (it is
    /// rate-limited).
    pub fn failed_discards(&mut self) -> u64 {
        let Some(file) = &mut self.file else { return 0 };
        let mut failed = 0;
        let mut record = [0; RECORD_MAX];
        loop {
            match file.read(&mut record) {
                Ok(0) => return failed,
                Ok(length) => {
                    let record = String::from_utf8_lossy(&record[..length]);
                    if let Some(error) = IoError::parse(&record) {
                        self.last_error = self.last_error.max(Some(error.at));
                        failed += u64::from(
                            error.discard && self.devices.iter().any(|d| d == error.device),
                        );
                    }
                }
                // Records were overwritten unread; reading continues with the oldest one
                // left.
                Err(error)
                    if error.raw_os_error() == Some(libc::EPIPE)
                        || error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return failed,
            }
        }
    }
}

/// A line of the kernel about an I/O error.
#[derive(Debug, PartialEq, Eq)]
struct IoError<'a> {
    /// Time since boot.
    at: Duration,
    device: &'a str,
    discard: bool,
}

impl<'a> IoError<'a> {
    /// `3,1234,5678,-;I/O error, dev sda, sector 65538 op 0x3:(DISCARD) flags 0x800
    /// phys_seg 1 prio class 2`
    fn parse(record: &'a str) -> Option<Self> {
        let (head, message) = record.split_once(';')?;
        let mut head = head.split(',').map(|n| n.parse::<u64>().ok());
        // Records of programs have another facility than the kernel's 0: a priority from
        // 8 up.
        head.next()?.filter(|priority| *priority < 8)?;
        let at = Duration::from_micros(head.nth(1)??);
        let (what, rest) = message.split_once(" error, dev ")?;
        let (device, rest) = rest.split_once(',')?;
        let discard = rest.lines().next().is_some_and(|l| l.contains(DISCARD));
        (!what.contains('\n')).then_some(Self { at, device, discard })
    }
}

/// The approximate clock of the log.
fn since_boot() -> Duration {
    clock::read(rustix::time::ClockId::Monotonic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_log_silence_follows_an_io_error() {
        let mut log = KernelLog { file: None, devices: Vec::new(), last_error: None };
        assert_eq!(log.silence(), None);
        log.last_error = Some(since_boot());
        assert!(
            log.silence()
                .is_some_and(|left| left > Duration::from_secs(5) && left <= RATE_INTERVAL)
        );
        log.last_error = since_boot().checked_sub(RATE_INTERVAL);
        assert_eq!(log.silence(), None);
    }

    #[test]
    fn parse_accepts_only_kernel_records() {
        let error =
            |device, discard| Some(IoError { at: Duration::from_micros(34), device, discard });
        let line = "I/O error, dev sda, sector 65538 op 0x3:(DISCARD) flags 0x800 phys_seg 1 \
            prio class 2\n SUBSYSTEM=block\n";
        for (record, expected) in [
            (format!("3,12,34,-;{line}"), error("sda", true)),
            (
                "3,12,34,-;critical target error, dev sda, sector 1 op 0x3:(DISCARD) flags 0\n"
                    .to_owned(),
                error("sda", true),
            ),
            (format!("11,12,34,-;{line}"), None),
            (format!("3,12,34,-;{}", line.replace("sda", "sdb")), error("sdb", true)),
            (format!("3,12,34,-;{}", line.replace("DISCARD", "WRITE")), error("sda", false)),
            ("nonsense".to_owned(), None),
        ] {
            assert_eq!(IoError::parse(&record), expected, "{record}");
        }
    }
}
