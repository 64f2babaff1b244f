//! Parser for the traces of Florida International University (IODedup, SRCMap).

use super::{LineError, SECTOR_BYTES, TraceLine, TraceOpKind, TraceRecord, Volume, bytes, number};
use alloc::vec::Vec;

/// `nanoseconds pid process sector sectors W|R major minor [MD5 …]`. Process names may
/// contain spaces.
pub(super) fn line(line: &str) -> Result<TraceLine, LineError> {
    let fields: Vec<&str> = line.split_ascii_whitespace().take(32).collect();
    let at_ns: u64 = number(fields.first().copied(), "the time")?;
    let _pid: u32 = number(fields.get(1).copied(), "the process number")?;
    let request = fields.windows(5).skip(3).find_map(|fields| {
        let kind = match fields[2] {
            "W" | "w" => TraceOpKind::Write,
            "R" | "r" => TraceOpKind::Read,
            _ => return None,
        };
        let volume = Volume::Device(fields[3].parse().ok()?, fields[4].parse().ok()?);
        Some((kind, volume, fields[0].parse().ok()?, fields[1].parse().ok()?))
    });
    let Some((kind, volume, first, count)) = request else {
        return Err(LineError::new("it has no 'sector sectors W|R major minor'"));
    };
    let (offset, len) = (
        bytes(first, SECTOR_BYTES, "the sector")?,
        bytes(count, SECTOR_BYTES, "the number of sectors")?,
    );
    Ok(TraceLine::Request(TraceRecord::new(at_ns.into(), volume, kind, offset, len)))
}
