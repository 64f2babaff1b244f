//! fio's iolog, versions 2 and 3.

use super::{Kind, LineError, Raw, number, shortened};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

/// What a line may refer back to: the version, the files in order of appearance, the time waited so far.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    version: u8,
    files: BTreeMap<String, u64>,
    waited_ns: u128,
}

impl State {
    /// Version 2: `file action [offset length]` and `file wait µs`; version 3: a timestamp in µs before it, and no waits.
    pub(super) fn line(&mut self, line: &str) -> Result<Option<Raw>, LineError> {
        if self.version == 0 {
            self.version = match line.trim() {
                "fio version 2 iolog" => 2,
                "fio version 3 iolog" => 3,
                _ => return Err(LineError("the log does not begin with 'fio version 2 iolog' or 'fio version 3 iolog'".to_string())),
            };
            return Ok(None);
        }
        if line.starts_with("fio version") {
            return Ok(None);
        }
        let mut fields = line.split_ascii_whitespace();
        let at_ns = if self.version == 3 { u128::from(number::<u64>(fields.next(), "the timestamp")?) * 1000 } else { self.waited_ns };
        let file = fields.next().ok_or_else(|| LineError("the file name is missing".to_string()))?;
        let action = fields.next().ok_or_else(|| LineError("the action is missing".to_string()))?;
        let kind = match action {
            "add" | "open" | "close" => return Ok(None),
            "wait" => {
                self.waited_ns += u128::from(number::<u64>(fields.next(), "the time to wait")?) * 1000;
                return Ok(None);
            }
            "read" => Kind::Read,
            "write" => Kind::Write,
            "trim" => Kind::Trim,
            "sync" | "datasync" => Kind::Flush,
            other => return Err(LineError(format!("'{}' is not an action of an iolog", shortened(other)))),
        };
        let volume = self.volume(file)?;
        if kind == Kind::Flush {
            return Ok(Some(Raw { at_ns, volume, kind, offset: 0, len: 0 }));
        }
        let offset = number(fields.next(), "the offset")?;
        let len = number(fields.next(), "the length")?;
        Ok(Some(Raw { at_ns, volume, kind, offset, len }))
    }

    fn volume(&mut self, file: &str) -> Result<u64, LineError> {
        /// Bounds what a hostile log can make us remember.
        const FILES_MAX: usize = 65_536;
        let next = self.files.len() as u64;
        if let Some(volume) = self.files.get(file) {
            return Ok(*volume);
        }
        if self.files.len() == FILES_MAX {
            return Err(LineError(format!("the log names more than {FILES_MAX} files")));
        }
        self.files.insert(file.to_string(), next);
        Ok(next)
    }
}
