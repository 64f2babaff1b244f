//! A text trace of one volume, line by line.

use super::left_out::LeftOut;
use super::{Action, Format, Line, LineError, Parser, Raw, Reading, Record, Volume};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use trimtab_drive::units::Nanos;

/// So many volumes are named where another one was asked for.
const NAMED_MAX: usize = 20;

/// So many requests wait for earlier ones.
const WAITING_MAX: usize = 65_536;

/// Reads the lines of a text trace, keeps to one volume, and gives its requests in the order of their times: lines that were merged may go back.
#[derive(Clone, Debug)]
pub struct Lines {
    parser: Parser,
    wanted: Option<Volume>,
    volume: Option<Volume>,
    /// Volumes that were passed over, as far as they can be named in a line.
    others: BTreeSet<Volume>,
    /// The line that was read last, from 1.
    number: u64,
    cut: bool,
    left_out: LeftOut,
    /// Requests by their time and line.
    waiting: BTreeMap<(u128, u64), Raw>,
    /// The earliest and the latest request that was given, on the trace's own clock.
    given: Option<(u128, u128)>,
    /// The latest request that was read.
    latest_ns: u128,
    /// Requests that are earlier than one before them.
    backwards: u64,
}

/// The reason why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A line is wrong.
    #[error(transparent)]
    Line(#[from] LineError),
    /// Requests of a second volume, and none was chosen.
    #[error("the trace has several volumes: {0} and {1}")]
    Several(Volume, Volume),
    /// No request of the volume that was asked for; the volumes that the trace has.
    #[error("it has no request of volume {0}{1}")]
    NoVolume(Volume, String),
    /// No request at all, but another event of blkparse.
    #[error("it has no request: no event {0}, but {2} events {1}")]
    OtherEvents(Action, Action, u64),
    /// A request that is earlier than one that was given.
    #[error("the time goes back behind more than {WAITING_MAX} requests: sort the lines by time")]
    Late,
    /// No request at all; what the trace has instead.
    #[error("it has no request{0}")]
    Empty(String),
}

impl Lines {
    /// A reader of `format`.
    #[must_use]
    pub fn new(format: Format, reading: &Reading) -> Self {
        Self {
            parser: Parser::new(format, reading.events),
            wanted: reading.volume.clone(),
            volume: None,
            others: BTreeSet::new(),
            number: 0,
            cut: false,
            left_out: LeftOut::default(),
            waiting: BTreeMap::new(),
            given: None,
            latest_ns: 0,
            backwards: 0,
        }
    }

    /// Reads a line with its line end. The last one is passed over as cut off if it is short, or has no line end and cannot be read; one that
    /// is the only line is not cut off, but wrong.
    ///
    /// # Errors
    /// A wrong line, a request of a second volume where none was chosen, or one that comes too late.
    pub fn line(&mut self, line: &str, is_last: bool) -> Result<(), TextError> {
        self.number += 1;
        let may_be_cut = is_last && self.parser.begun;
        let raw = match self.parser.line(line) {
            Err(error) if may_be_cut && (matches!(error, LineError::Short(_)) || !line.ends_with('\n')) => {
                self.cut = true;
                return Ok(());
            }
            Ok(Line::LeftOut(volume, why)) => {
                if self.wanted.as_ref().is_none_or(|wanted| volume.is_meant_by(wanted)) {
                    self.left_out.add(why);
                }
                return Ok(());
            }
            Ok(Line::Request(raw)) => raw,
            read => return read.map(|_| ()).map_err(TextError::Line),
        };
        if self.wanted.as_ref().is_some_and(|wanted| !raw.volume.is_meant_by(wanted)) {
            if self.others.len() <= NAMED_MAX {
                self.others.insert(raw.volume);
            }
            return Ok(());
        }
        let volume = self.volume.get_or_insert_with(|| raw.volume.clone());
        if *volume != raw.volume {
            return Err(TextError::Several(volume.clone(), raw.volume));
        }
        self.wait(raw)
    }

    fn wait(&mut self, raw: Raw) -> Result<(), TextError> {
        if self.given.is_some_and(|(_, latest)| raw.at_ns < latest) {
            return Err(TextError::Late);
        }
        let earliest =
            self.given.map(|(earliest, _)| earliest).or(self.waiting.keys().next().map(|(at_ns, _)| *at_ns)).unwrap_or(raw.at_ns);
        let latest = self.latest_ns.max(raw.at_ns);
        if latest - earliest.min(raw.at_ns) > u128::from(u64::MAX) {
            return Err(LineError::new("the time is out of range").into());
        }
        self.backwards += u64::from(raw.at_ns < self.latest_ns);
        self.latest_ns = latest;
        self.waiting.insert((raw.at_ns, self.number), raw);
        Ok(())
    }

    /// The next request, and its line. `None` if another line has to be read first, or after the last one.
    pub fn next(&mut self, is_over: bool) -> Option<(Record, u64)> {
        if self.waiting.len() <= WAITING_MAX && !is_over {
            return None;
        }
        let ((at_ns, number), raw) = self.waiting.pop_first()?;
        let earliest = self.given.map_or(at_ns, |(earliest, _)| earliest);
        self.given = Some((earliest, at_ns));
        let at = u64::try_from(at_ns - earliest).unwrap_or(u64::MAX);
        Some((raw.record(Nanos(at)), number))
    }

    /// What to warn of after the last line: what is not as it stands in the text.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let cut = self.cut.then(|| format!("the last line, {}, is cut off and left out", self.number));
        let backwards = match self.backwards {
            0 => None,
            1 => Some("1 line goes back in time; the requests are put in the order of their times".to_string()),
            n => Some(format!("{n} lines go back in time; the requests are put in the order of their times")),
        };
        [cut, self.left_out.text(), backwards].into_iter().flatten().collect()
    }

    /// Checks, after the last line, that there was a request.
    ///
    /// # Errors
    /// There was none, or none of the volume that was asked for.
    pub fn end(&self) -> Result<(), TextError> {
        if self.volume.is_some() {
            return Ok(());
        }
        if let Some(wanted) = self.wanted.clone().filter(|_| !self.others.is_empty()) {
            let named: Vec<String> = self.others.iter().take(NAMED_MAX).map(Volume::to_string).collect();
            let more = if self.others.len() > NAMED_MAX { " and others" } else { "" };
            return Err(TextError::NoVolume(wanted, format!("; it has {}{more}", named.join(", "))));
        }
        match self.parser.blkparse.other() {
            Some((other, count)) => Err(TextError::OtherEvents(self.parser.blkparse.wanted(), other, count)),
            None => Err(TextError::Empty(self.warnings().iter().map(|warning| format!("; {warning}")).collect())),
        }
    }
}
