//! Parser for blkparse's default output.

use super::{
    LineError, SECTOR_BYTES, SkipReason, TraceLine, TraceOpKind, TraceRecord, Volume, bytes,
    decimal, number,
};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Event that counts as the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BlkparseEvent {
    /// `Q`: queued by a filesystem or a program.
    #[default]
    Queued,
    /// `D`: issued to the device, after merging.
    Issued,
    /// `C`: completed by the device.
    Completed,
}

impl BlkparseEvent {
    const ALL: [(&'static str, Self); 3] =
        [("Q", Self::Queued), ("D", Self::Issued), ("C", Self::Completed)];

    fn of(letter: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == letter).map(|(_, action)| *action)
    }
}

impl fmt::Display for BlkparseEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].0)
    }
}

impl FromStr for BlkparseEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::of(text).ok_or_else(|| {
            format!("'{text}' is not an event: Q (queued), D (issued) or C (completed)")
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct BlkparseState {
    wanted: BlkparseEvent,
    /// A summary was reached: afterwards only events are valid.
    summary: bool,
    /// Requests with other events than the wanted one, by [`Action`].
    unwanted: [u64; 3],
}

impl BlkparseState {
    pub(super) const fn new(wanted: BlkparseEvent) -> Self {
        Self { wanted, summary: false, unwanted: [0; 3] }
    }

    pub(super) const fn wanted(&self) -> BlkparseEvent {
        self.wanted
    }

    /// Another event in the text, and its count.
    pub(super) fn other(&self) -> Option<(BlkparseEvent, u64)> {
        BlkparseEvent::ALL
            .iter()
            .map(|(_, action)| (*action, self.unwanted[*action as usize]))
            .find(|(_, count)| *count > 0)
    }

    /// `maj,min cpu sequence seconds pid action RWBS sector + sectors [process]`. Skips
    /// input file headers, summaries, messages and other events.
    pub(super) fn line(&mut self, line: &str) -> Result<TraceLine, LineError> {
        let mut fields = line.split_ascii_whitespace();
        let Some(device) = fields.next().and_then(device) else { return self.between(line) };
        let (Some(_cpu), Some(_sequence), Some(time), Some(_pid), Some(action)) =
            (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err(LineError::Short("the event is incomplete".into()));
        };
        let at_ns = decimal(Some(time), "the time", 1_000_000_000)?;
        let Some(action) = BlkparseEvent::of(action) else { return Ok(TraceLine::Characteristic) };
        let request = request(device, at_ns, fields)?;
        if action != self.wanted {
            self.unwanted[action as usize] += u64::from(matches!(request, TraceLine::Request(_)));
            return Ok(TraceLine::Characteristic);
        }
        Ok(request)
    }

    fn between(&mut self, line: &str) -> Result<TraceLine, LineError> {
        const BEFORE: [&str; 2] = ["Input file ", "Trace started at "];
        const SUMMARY: [&str; 6] =
            ["CPU", "Total", "Throughput (R/W):", "Events (", "Skips:", "==="];
        let begins =
            |starts: &[&str]| starts.iter().any(|start| line.trim_start().starts_with(start));
        self.summary |= begins(&SUMMARY);
        if self.summary || begins(&BEFORE) {
            Ok(TraceLine::Other)
        } else {
            Err(LineError::new("it is neither an event nor part of a summary"))
        }
    }
}

/// `8,16`.
fn device(field: &str) -> Option<Volume> {
    let (major, minor) = field.split_once(',')?;
    Some(Volume::Device(major.parse().ok()?, minor.parse().ok()?))
}

/// The request of an event, if replayed.
fn request<'a>(
    volume: Volume,
    at_ns: u128,
    mut fields: impl Iterator<Item = &'a str>,
) -> Result<TraceLine, LineError> {
    let flags =
        fields.next().ok_or_else(|| LineError::Short("the event has no RWBS field".into()))?;
    let (preflush, kind, fua) = rwbs(flags);
    let without_data = |volume: Volume, why| match preflush {
        true => TraceLine::Request(TraceRecord::new(at_ns, volume, TraceOpKind::Flush, 0, 0)),
        false => TraceLine::Skipped(volume, why),
    };
    let kind = match kind {
        Ok(kind) => kind,
        Err(why) => return Ok(without_data(volume, why)),
    };
    let Some(sector) = fields.next().filter(|sector| !sector.starts_with('[')) else {
        return Ok(without_data(volume, SkipReason::PassedThrough));
    };
    let offset = bytes(number(Some(sector), "the sector")?, SECTOR_BYTES, "the sector")?;
    match fields.next() {
        Some("+") => {}
        // No data: a flush, or a passed-through command with its length and bytes in
        // parentheses.
        Some(next) if next.starts_with(['(', '[']) => {
            return Ok(without_data(volume, SkipReason::PassedThrough));
        }
        _ => return Err(LineError::new("the event has no '+ sectors'")),
    }
    let len = bytes(
        number(fields.next(), "the number of sectors")?,
        SECTOR_BYTES,
        "the number of sectors",
    )?;
    Ok(TraceLine::Request(TraceRecord {
        preflush,
        fua,
        ..TraceRecord::new(at_ns, volume, kind, offset, len)
    }))
}

/// RWBS: F for a preceding flush, the operation, F for FUA, other flags. A second F in
/// place of the operation is the flush itself.
fn rwbs(flags: &str) -> (bool, Result<TraceOpKind, SkipReason>, bool) {
    let (preflush, rest) = flags.strip_prefix('F').map_or((false, flags), |rest| (true, rest));
    let kind = match rest.as_bytes() {
        [b'R', ..] => Ok(TraceOpKind::Read),
        [b'W', b'Z', ..] => Err(SkipReason::WriteZeroes),
        [b'W', ..] => Ok(TraceOpKind::Write),
        [b'D', ..] => Ok(TraceOpKind::Trim),
        [b'Z', ..] => Err(SkipReason::Zone),
        // N: neither read nor write, such as passed-through commands.
        _ => Err(SkipReason::PassedThrough),
    };
    (preflush, kind, kind == Ok(TraceOpKind::Write) && rest.contains('F'))
}
