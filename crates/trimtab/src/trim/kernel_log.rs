//! Discards that failed, from the kernel's log. Nothing else tells: ext4 and XFS report success for a FITRIM whose discards
//! the device refused with an I/O error, and the discard counters count failed commands like others.

use crate::host::block::Stack;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// A record is never longer.
const RECORD_MAX: usize = 8192;
/// What the block layer writes for a discard (`blk_print_req_error`).
const DISCARD: &str = "(DISCARD)";

/// The log, from now on.
#[derive(Debug)]
pub struct KernelLog {
    /// `None` without the right to read it.
    file: Option<File>,
    /// Names of the devices that matter.
    devices: Vec<String>,
}

impl KernelLog {
    /// For the devices of `stack`.
    #[must_use]
    pub fn of_stack(stack: &Stack) -> Self {
        let devices = stack.layers.iter().filter(|l| !l.sys.as_os_str().is_empty()).map(|l| l.name.clone()).collect();
        let open = || {
            let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open("/dev/kmsg").ok()?;
            file.seek(SeekFrom::End(0)).ok()?;
            Some(file)
        };
        Self { file: open(), devices }
    }

    /// Passes over everything up to now.
    pub fn skip(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.seek(SeekFrom::End(0));
        }
    }

    /// The failed discards since the last call, as far as the log has them: it leaves some out if there are many.
    pub fn failed_discards(&mut self) -> u64 {
        let Some(file) = &mut self.file else { return 0 };
        let mut failed = 0;
        let mut record = [0; RECORD_MAX];
        loop {
            match file.read(&mut record) {
                Ok(0) => return failed,
                Ok(length) => failed += u64::from(is_failed_discard(&String::from_utf8_lossy(&record[..length]), &self.devices)),
                // Records were overwritten before they were read; it goes on with the oldest that is left.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) || error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return failed,
            }
        }
    }
}

/// `3,1234,5678,-;I/O error, dev sda, sector 65538 op 0x3:(DISCARD) flags 0x800 phys_seg 1 prio class 2`
fn is_failed_discard(record: &str, devices: &[String]) -> bool {
    // What programs write into the log has another facility than the kernel's, 0: a priority from 8 up.
    let Some((head, message)) = record.split_once(';') else { return false };
    let from_kernel = head.split(',').next().and_then(|p| p.parse::<u32>().ok()).is_some_and(|priority| priority < 8);
    let Some((what, rest)) = message.split_once(" error, dev ") else { return false };
    let Some((device, rest)) = rest.split_once(',') else { return false };
    from_kernel && !what.contains('\n') && rest.lines().next().is_some_and(|l| l.contains(DISCARD)) && devices.iter().any(|d| d == device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_word_about_our_devices_counts() {
        let devices = ["sda".to_owned(), "sda1".to_owned()];
        let line = "I/O error, dev sda, sector 65538 op 0x3:(DISCARD) flags 0x800 phys_seg 1 prio class 2\n SUBSYSTEM=block\n";
        for (record, expected) in [
            (format!("3,12,34,-;{line}"), true),
            ("3,12,34,-;critical target error, dev sda, sector 1 op 0x3:(DISCARD) flags 0\n".to_owned(), true),
            (format!("11,12,34,-;{line}"), false),
            (format!("3,12,34,-;{}", line.replace("sda", "sdb")), false),
            (format!("3,12,34,-;{}", line.replace("DISCARD", "WRITE")), false),
            ("nonsense".to_owned(), false),
        ] {
            assert_eq!(is_failed_discard(&record, &devices), expected, "{record}");
        }
    }
}
