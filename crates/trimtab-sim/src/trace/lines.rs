//! A text trace of one volume, line by line.

use super::{Action, Format, LineError, Parser, Reading, Record, Volume};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// So many volumes are named where another one was asked for.
const NAMED_MAX: usize = 20;

/// Reads the lines of a text trace and keeps to one volume.
#[derive(Clone, Debug)]
pub struct Lines {
    parser: Parser,
    wanted: Option<Volume>,
    volume: Option<Volume>,
    /// Volumes that were passed over, as far as they can be named in a line.
    others: BTreeSet<Volume>,
    cut: bool,
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
    /// No request at all.
    #[error("it has no request")]
    Empty,
}

impl Lines {
    /// A reader of `format`.
    #[must_use]
    pub fn new(format: Format, reading: &Reading) -> Self {
        Self { parser: Parser::new(format, reading.events), wanted: reading.volume, volume: None, others: BTreeSet::new(), cut: false }
    }

    /// Reads a line with its line end. The last one is passed over as cut off if it is short, or has no line end and cannot be read.
    ///
    /// # Errors
    /// A wrong line, or a request of a second volume where none was chosen.
    pub fn line(&mut self, line: &str, is_last: bool) -> Result<Option<Record>, TextError> {
        let record = match self.parser.line(line) {
            Err(error) if is_last && (matches!(error, LineError::Short(_)) || !line.ends_with('\n')) => {
                self.cut = true;
                None
            }
            read => read?,
        };
        let Some(record) = record else { return Ok(None) };
        if self.wanted.is_some_and(|wanted| wanted != record.volume) {
            if self.others.len() <= NAMED_MAX {
                self.others.insert(record.volume);
            }
            return Ok(None);
        }
        match *self.volume.get_or_insert(record.volume) {
            volume if volume == record.volume => Ok(Some(record)),
            volume => Err(TextError::Several(volume, record.volume)),
        }
    }

    /// Whether the last line was cut off.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Checks, after the last line, that there was a request.
    ///
    /// # Errors
    /// There was none, or none of the volume that was asked for.
    pub fn end(&self) -> Result<(), TextError> {
        if self.volume.is_some() {
            return Ok(());
        }
        if let Some(wanted) = self.wanted.filter(|_| !self.others.is_empty()) {
            let named: Vec<String> = self.others.iter().take(NAMED_MAX).map(Volume::to_string).collect();
            let more = if self.others.len() > NAMED_MAX { " and others" } else { "" };
            return Err(TextError::NoVolume(wanted, format!("; it has {}{more}", named.join(", "))));
        }
        match self.parser.blkparse.other() {
            Some((other, count)) => Err(TextError::OtherEvents(self.parser.blkparse.wanted(), other, count)),
            None => Err(TextError::Empty),
        }
    }
}
