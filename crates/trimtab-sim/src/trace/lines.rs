//! A text trace of one volume, line by line.

use super::skipped::SkipCounts;
use super::{
    BlkparseEvent, LineError, Parser, TraceFormat, TraceLine, TraceReadOptions, TraceRecord, Volume,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Maximum volumes named in an error message.
const NAMED_MAX: usize = 20;

/// Size of the window for sorting requests by time.
const WAITING_MAX: usize = 65_536;

/// Reads the lines of a text trace, selects one volume, and returns its requests sorted
/// by time, because merged lines may go back.
#[derive(Clone, Debug)]
pub struct Lines {
    parser: Parser,
    wanted: Option<Volume>,
    volume: Option<Volume>,
    /// Skipped volumes, up to the number that a message names.
    skipped_volumes: BTreeSet<Volume>,
    /// Number of the last line, from 1.
    number: u64,
    cut: bool,
    skipped: SkipCounts,
    /// Requests by time and line.
    waiting: BTreeMap<(u128, u64), TraceRecord>,
    /// Earliest and latest request returned, in the trace's own time.
    given: Option<(u128, u128)>,
    /// Latest request read.
    latest_ns: u128,
    /// Number of requests earlier than their predecessor.
    backwards: u64,
}

/// Reason why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Invalid line.
    #[error(transparent)]
    Line(#[from] LineError),
    /// Requests of a second volume without a selection.
    #[error("the trace has several volumes: {0} and {1}")]
    Several(Volume, Volume),
    /// No request of the selected volume; the volumes in the trace.
    #[error("it has no request of volume {0}{1}")]
    NoVolume(Volume, String),
    /// No request, but other events of blkparse.
    #[error("it has no request: no event {0}, but {2} events {1}")]
    OtherEvents(BlkparseEvent, BlkparseEvent, u64),
    /// A request earlier than one already returned.
    #[error("the time goes back by more than {WAITING_MAX} requests: sort the lines by time")]
    Late,
    /// No request; other contents of the trace.
    #[error("it has no request{0}")]
    Empty(String),
}

impl Lines {
    /// Creates a reader of `format`.
    #[must_use]
    pub fn new(format: TraceFormat, reading: &TraceReadOptions) -> Self {
        Self {
            parser: Parser::new(format, reading.events),
            wanted: reading.volume.clone(),
            volume: None,
            skipped_volumes: BTreeSet::new(),
            number: 0,
            cut: false,
            skipped: SkipCounts::default(),
            waiting: BTreeMap::new(),
            given: None,
            latest_ns: 0,
            backwards: 0,
        }
    }

    /// Parses a line including its line end. A last line that is short, or unreadable and
    /// without a line end, is skipped as cut off, unless it is the only line.
    ///
    /// # Errors
    /// An invalid line, a second volume without a selection, or a time too far back.
    pub fn line(&mut self, line: &str, is_last: bool) -> Result<(), TextError> {
        self.number += 1;
        let may_be_cut = is_last && self.parser.begun;
        let raw = match self.parser.line(line) {
            Err(error)
                if may_be_cut
                    && (matches!(error, LineError::Short(_)) || !line.ends_with('\n')) =>
            {
                self.cut = true;
                return Ok(());
            }
            Ok(TraceLine::Skipped(volume, why)) => {
                if self.wanted.as_ref().is_none_or(|wanted| volume.is_meant_by(wanted)) {
                    self.skipped.add(why);
                }
                return Ok(());
            }
            Ok(TraceLine::Request(raw)) => raw,
            read => return read.map(|_| ()).map_err(TextError::Line),
        };
        if self.wanted.as_ref().is_some_and(|wanted| !raw.volume.is_meant_by(wanted)) {
            if self.skipped_volumes.len() <= NAMED_MAX {
                self.skipped_volumes.insert(raw.volume);
            }
            return Ok(());
        }
        let volume = self.volume.get_or_insert_with(|| raw.volume.clone());
        if *volume != raw.volume {
            return Err(TextError::Several(volume.clone(), raw.volume));
        }
        self.wait(raw)
    }

    fn wait(&mut self, raw: TraceRecord) -> Result<(), TextError> {
        if self.given.is_some_and(|(_, latest)| raw.at_ns < latest) {
            return Err(TextError::Late);
        }
        let earliest = self
            .given
            .map(|(earliest, _)| earliest)
            .or(self.waiting.keys().next().map(|(at_ns, _)| *at_ns))
            .unwrap_or(raw.at_ns);
        let latest = self.latest_ns.max(raw.at_ns);
        if latest - earliest.min(raw.at_ns) > u128::from(u64::MAX) {
            return Err(LineError::new("the time is out of range").into());
        }
        self.backwards += u64::from(raw.at_ns < self.latest_ns);
        self.latest_ns = latest;
        self.waiting.insert((raw.at_ns, self.number), raw);
        Ok(())
    }

    /// Next request and its line number. `None` if more lines are needed, or at the end.
    pub fn next(&mut self, is_over: bool) -> Option<(TraceRecord, u64)> {
        if self.waiting.len() <= WAITING_MAX && !is_over {
            return None;
        }
        let ((at_ns, number), raw) = self.waiting.pop_first()?;
        let earliest = self.given.map_or(at_ns, |(earliest, _)| earliest);
        self.given = Some((earliest, at_ns));
        Some((TraceRecord { at_ns: at_ns - earliest, ..raw }, number))
    }

    /// Warnings after the last line: deviations from the text.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let cut =
            self.cut.then(|| format!("the last line, {}, is cut off and left out", self.number));
        let backwards = match self.backwards {
            0 => None,
            1 => Some("1 line goes back in time; the requests are sorted by time".to_string()),
            n => Some(format!("{n} lines go back in time; the requests are sorted by time")),
        };
        [cut, self.skipped.text(), backwards].into_iter().flatten().collect()
    }

    /// Checks after the last line that there was a request.
    ///
    /// # Errors
    /// No request, or none of the selected volume.
    pub fn end(&self) -> Result<(), TextError> {
        if self.volume.is_some() {
            return Ok(());
        }
        if let Some(wanted) = self.wanted.clone().filter(|_| !self.skipped_volumes.is_empty()) {
            let named: Vec<String> =
                self.skipped_volumes.iter().take(NAMED_MAX).map(Volume::to_string).collect();
            let more = if self.skipped_volumes.len() > NAMED_MAX { " and others" } else { "" };
            return Err(TextError::NoVolume(
                wanted,
                format!("; it has {}{more}", named.join(", ")),
            ));
        }
        match self.parser.blkparse.other() {
            Some((other, count)) => {
                Err(TextError::OtherEvents(self.parser.blkparse.wanted(), other, count))
            }
            None => Err(TextError::Empty(
                self.warnings().iter().map(|warning| format!("; {warning}")).collect(),
            )),
        }
    }
}
