//! White-space columns with trims as type 3, as flash-translation research publishes them.

use super::{Kind, LineError, Raw, number, seconds};
use alloc::format;
use alloc::string::ToString;

/// `seconds, type, block of 4 KiB, bytes, stream` and possibly one more column.
pub(super) fn line(line: &str) -> Result<Option<Raw>, LineError> {
    if line.trim_start().starts_with('#') {
        return Ok(None);
    }
    let mut fields = line.split_ascii_whitespace();
    let at_ns = seconds(fields.next(), "the time")?;
    let kind = match number::<u32>(fields.next(), "the request type")? {
        0 => Kind::Read,
        1 => Kind::Write,
        3 => Kind::Trim,
        other => return Err(LineError(format!("the request type {other} is not 0 (read), 1 (write) or 3 (trim)"))),
    };
    let block: u64 = number(fields.next(), "the block")?;
    let offset = block.checked_mul(4096).ok_or_else(|| LineError(format!("the block {block} is out of range")))?;
    let len = number(fields.next(), "the size")?;
    let _stream: u64 = number(fields.next(), "the stream")?;
    if fields.nth(1).is_some() {
        return Err(LineError("there are more than six columns".to_string()));
    }
    Ok(Some(Raw { at_ns, volume: 0, kind, offset, len }))
}
