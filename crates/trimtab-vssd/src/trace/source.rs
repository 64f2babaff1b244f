//! Opening a trace, whichever format it is in.

use super::format::MAGIC;
use super::{Event, Header, Reader};
use anyhow::Context as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::UsageError;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_sim::trace::{Format, Lines, Reading, Recognised, TextError, Volume};

/// The longest line of a text trace.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A trace that is being read: iterating gives its events, or what is wrong and where.
pub enum Source {
    /// A recording of the virtual SSD.
    Recording {
        /// Its file, for messages.
        path: PathBuf,
        /// Its reader.
        reader: Box<Reader<BufReader<File>>>,
        /// Records read.
        number: u64,
    },
    /// Text in a published format. It has no latencies, and all data count as incompressible.
    Text(Box<TextTrace>),
}

/// A text trace that is being read.
pub struct TextTrace {
    path: PathBuf,
    input: BufReader<File>,
    format: Format,
    lines: Lines,
    line: Vec<u8>,
    number: u64,
    /// The request that follows the flush which it carried.
    next: Option<Event>,
    ended: bool,
}

impl Source {
    /// Opens the trace at `path`, read as `reading` says if it is text.
    pub fn open(path: &Path, reading: &Reading) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut file = named::open_to_read(path, Streams::No).with_context(|| format!("cannot open {shown}"))?;
        let mut magic = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).with_context(|| format!("cannot read {shown}"))?;
        file.seek(SeekFrom::Start(0)).with_context(|| format!("cannot read {shown}"))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        if magic == MAGIC {
            if reading.volume.is_some_and(|volume| volume != Volume::default()) {
                return Err(UsageError::missing(format!("{shown} is a recording of one drive")).hint("leave --volume out").into());
            }
            let reader = Reader::new(input).with_context(|| shown.to_string())?;
            return Ok(Self::Recording { path: path.to_owned(), reader: Box::new(reader), number: 0 });
        }
        let format = match reading.format {
            Some(format) => format,
            None => recognised(path, input.fill_buf().with_context(|| format!("cannot read {shown}"))?)?,
        };
        if reading.events.is_some() && format != Format::Blkparse {
            return Err(UsageError::new(format!("{shown} is read as {format}, and only blkparse text has events"))
                .hint("leave --events out")
                .into());
        }
        Ok(Self::Text(Box::new(TextTrace {
            path: path.to_owned(),
            input,
            format,
            lines: Lines::new(format, reading),
            line: Vec::new(),
            number: 0,
            next: None,
            ended: false,
        })))
    }

    /// The format of a text trace.
    pub fn format(&self) -> Option<Format> {
        match self {
            Self::Recording { .. } => None,
            Self::Text(trace) => Some(trace.format),
        }
    }

    /// What to warn of after the last event: a last line that was cut off.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Text(trace) if trace.lines.is_cut() => {
                Some(format!("{}: the last line, {}, is cut off and left out", trace.path.display(), trace.number))
            }
            _ => None,
        }
    }

    /// Where the event that came last stands: file, and line or record.
    pub fn place(&self) -> String {
        match self {
            Self::Recording { path, number, .. } => format!("{}, record {number}", path.display()),
            Self::Text(trace) => trace.place(),
        }
    }

    /// What is known of a recording.
    pub fn header(&self) -> Option<&Header> {
        match self {
            Self::Recording { reader, .. } => Some(reader.header()),
            Self::Text(_) => None,
        }
    }
}

impl Iterator for Source {
    type Item = anyhow::Result<Event>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Recording { path, reader, number } => {
                *number += 1;
                Some(reader.next()?.with_context(|| path.display().to_string()))
            }
            Self::Text(trace) => trace.next_event().transpose(),
        }
    }
}

/// The format that the text beginning with `bytes` is recognised as.
fn recognised(path: &Path, bytes: &[u8]) -> anyhow::Result<Format> {
    let begin = &bytes[..bytes.len().min(LINE_BYTES_MAX as usize)];
    // Whole lines, unless there is only one.
    let whole = begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]);
    let shown = path.display();
    match Format::recognise(&String::from_utf8_lossy(whole)) {
        Recognised::Certain(format) => Ok(format),
        Recognised::Possible(possible) if possible.is_empty() => {
            let what = format!("{shown} is neither a recording nor a text trace that is recognised");
            Err(UsageError::new(what).hint(format!("say its format with --format: {}", Format::names())).into())
        }
        Recognised::Possible(possible) => {
            let choices: Vec<String> = possible.iter().map(|format| format!("--format {format} ({})", format.description())).collect();
            let what = format!("{shown} has nothing but numbers, which fit several formats or units");
            Err(UsageError::new(what).hint(format!("say which it is: {}", choices.join(", "))).into())
        }
    }
}

impl TextTrace {
    fn next_event(&mut self) -> anyhow::Result<Option<Event>> {
        if let Some(event) = self.next.take() {
            return Ok(Some(event));
        }
        while !self.ended {
            self.line.clear();
            self.number += 1;
            let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
            if read.with_context(|| self.place())? == 0 {
                self.ended = true;
                self.number -= 1;
                self.lines.end().map_err(|error| self.refused(error))?;
                break;
            }
            if self.line.len() as u64 == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
                return Err(anyhow::anyhow!("{}: the line is longer than {LINE_BYTES_MAX} bytes", self.place()));
            }
            let is_last = self.input.fill_buf().map(<[u8]>::is_empty);
            let is_last = is_last.with_context(|| self.place())?;
            let record = self.lines.line(&String::from_utf8_lossy(&self.line), is_last);
            if let Some(record) = record.map_err(|error| self.refused(error))? {
                let mut events = record.events();
                let event = events.next();
                self.next = events.next();
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn place(&self) -> String {
        format!("{}, line {}", self.path.display(), self.number)
    }

    fn refused(&self, error: TextError) -> anyhow::Error {
        let whole = |error: &TextError| UsageError::missing(format!("{}: {error} (read as {})", self.path.display(), self.format));
        match error {
            TextError::Line(error) => anyhow::Error::new(error).context(self.place()),
            TextError::Several(one, other) => {
                let hint = format!("choose one with --volume {one} or --volume {other}");
                UsageError::new(format!("{}: {error}", self.place())).hint(hint).into()
            }
            TextError::OtherEvents(_, other, _) => whole(&error).hint(format!("read those with --events {other}")).into(),
            TextError::NoVolume(..) | TextError::Empty => whole(&error).into(),
        }
    }
}

impl trimtab_sim::simulate::passes::Requests for Source {
    type Error = anyhow::Error;

    fn next_request(&mut self) -> Option<anyhow::Result<Event>> {
        self.next()
    }

    fn place(&self) -> String {
        self.place()
    }

    fn says_data(&self) -> bool {
        self.header().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Nanos;
    use trimtab_sim::trace::Kind;

    fn written(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn of_volume(number: u64) -> Reading {
        Reading { volume: Some(Volume::Number(number)), ..Reading::default() }
    }

    #[test]
    fn text_traces_are_recognised_and_wrong_lines_are_named() {
        let (_dir, path) = written(b"1,hm,1,Write,4096,4096,1\n20001,hm,1,Read,4096,512,1\nrubbish\n20002,hm,1,Read,4096,512,1\n");
        let mut source = Source::open(&path, &Reading::default()).unwrap();
        assert_eq!(source.next().unwrap().unwrap().kind, Kind::Write);
        let read = source.next().unwrap().unwrap();
        assert_eq!((read.kind, read.at), (Kind::Read, Nanos::from_millis(2)));
        let error = format!("{:#}", source.next().unwrap().unwrap_err());
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn one_of_several_volumes_has_to_be_chosen() {
        let (_dir, path) = written(b"1,hm,1,Write,4096,4096,1\n2,hm,2,Write,8192,4096,1\n");
        let error = Source::open(&path, &Reading::default()).unwrap().collect::<anyhow::Result<Vec<_>>>().unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("line 2"), "{error}");
        let events: Vec<Event> = Source::open(&path, &of_volume(2)).unwrap().map(Result::unwrap).collect();
        assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), [8192]);
        let mut missing = Source::open(&path, &of_volume(7)).unwrap();
        let error = missing.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("has no request of volume 7; it has 1, 2"), "{error}");
        assert!(missing.next().is_none());
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let (_dir, path) = written(b"\x00\x01\x02");
        assert!(Source::open(&path, &Reading::default()).is_err_and(|error| error.is::<UsageError>()));
        let (_dir, path) = written(b"TRIMTRC1");
        assert!(Source::open(&path, &Reading::default()).is_err_and(|error| format!("{error:#}").contains("cut off")));
    }
}
