//! Parser for fio's iolog, versions 2 and 3.

use super::{LineError, TraceLine, TraceOpKind, TraceRecord, Volume, number, shortened};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

/// State for later lines: version, files in order of appearance, time waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct IologState {
    version: u8,
    files: BTreeMap<String, Volume>,
    waited_ns: u128,
}

impl IologState {
    /// Version 2: `file action [offset length]`; version 3: a timestamp in µs before it.
    ///
    /// `file wait N` delays the log until N milliseconds after its start, as in fio 3.33;
    /// its manual says microseconds after the previous wait.
    pub(super) fn line(&mut self, line: &str) -> Result<TraceLine, LineError> {
        if self.version == 0 {
            self.version = match line.trim() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                _ => {
                    return Err(LineError::new(
                        "the log does not begin with 'fio version 2 iolog' or 'fio \
                            version 3 iolog'",
                    ));
                }
            };
            return Ok(TraceLine::Characteristic);
        }
        let mut fields = line.split_ascii_whitespace();
        let stamp = if self.version == 3 {
            u128::from(number::<u64>(fields.next(), "the timestamp")?) * 1000
        } else {
            0
        };
        let at_ns = self.waited_ns.max(stamp);
        let file =
            fields.next().ok_or_else(|| LineError::Short("the file name is missing".into()))?;
        let action =
            fields.next().ok_or_else(|| LineError::Short("the action is missing".into()))?;
        let kind = match action {
            "add" | "open" | "close" => return Ok(TraceLine::Other),
            "wait" => {
                let until_ns =
                    u128::from(number::<u64>(fields.next(), "the time to wait for")?) * 1_000_000;
                self.waited_ns = self.waited_ns.max(until_ns);
                return Ok(TraceLine::Other);
            }
            "read" => TraceOpKind::Read,
            "write" => TraceOpKind::Write,
            "trim" => TraceOpKind::Trim,
            "sync" | "datasync" | "sync_file_range" | "syncfs" => TraceOpKind::Flush,
            other => {
                return Err(LineError::Wrong(format!(
                    "'{}' is not an action of an iolog",
                    shortened(other)
                )));
            }
        };
        let volume = self.volume(file)?;
        if kind == TraceOpKind::Flush {
            return Ok(TraceLine::Request(TraceRecord::new(at_ns, volume, kind, 0, 0)));
        }
        let offset = number(fields.next(), "the offset")?;
        let len = number(fields.next(), "the length")?;
        Ok(TraceLine::Request(TraceRecord::new(at_ns, volume, kind, offset, len)))
    }

    fn volume(&mut self, file: &str) -> Result<Volume, LineError> {
        /// Limits memory use by hostile logs.
        const FILES_MAX: usize = 65_536;
        if let Some(volume) = self.files.get(file) {
            return Ok(volume.clone());
        }
        if self.files.len() == FILES_MAX {
            return Err(LineError::Wrong(format!("the log names more than {FILES_MAX} files")));
        }
        let volume = Volume::named(file, self.files.len() as u64)?;
        self.files.insert(file.to_string(), volume.clone());
        Ok(volume)
    }
}
