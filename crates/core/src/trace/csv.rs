//! The comma-separated traces: MSR Cambridge and Alibaba.

use super::{Kind, LineError, Raw, number, shortened};
use alloc::format;
use alloc::string::ToString;

/// `timestamp (100 ns since 1601), host, disk, Read|Write, offset, size, response time`.
pub(super) fn msr(line: &str) -> Result<Option<Raw>, LineError> {
    if line.starts_with("Timestamp") {
        return Ok(None);
    }
    let mut fields = line.split(',');
    let ticks: u64 = number(fields.next(), "the timestamp")?;
    let _host = fields.next();
    let volume = number(fields.next(), "the disk number")?;
    let kind = match fields.next().map(str::trim) {
        Some("Read") => Kind::Read,
        Some("Write") => Kind::Write,
        Some(other) => return Err(LineError(format!("'{}' is neither Read nor Write", shortened(other)))),
        None => return Err(LineError("the kind of request is missing".to_string())),
    };
    let offset = number(fields.next(), "the offset")?;
    let len = number(fields.next(), "the size")?;
    Ok(Some(Raw { at_ns: u128::from(ticks) * 100, volume, kind, offset, len }))
}

/// `device, R|W, offset, length, timestamp (µs)`.
pub(super) fn alibaba(line: &str) -> Result<Option<Raw>, LineError> {
    if line.starts_with("device_id") {
        return Ok(None);
    }
    let mut fields = line.split(',');
    let volume = number(fields.next(), "the device")?;
    let kind = match fields.next().map(str::trim) {
        Some("R") => Kind::Read,
        Some("W") => Kind::Write,
        Some(other) => return Err(LineError(format!("'{}' is neither R nor W", shortened(other)))),
        None => return Err(LineError("the kind of request is missing".to_string())),
    };
    let offset = number(fields.next(), "the offset")?;
    let len = number(fields.next(), "the length")?;
    let us: u64 = number(fields.next(), "the timestamp")?;
    Ok(Some(Raw { at_ns: u128::from(us) * 1000, volume, kind, offset, len }))
}
