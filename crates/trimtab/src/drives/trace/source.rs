//! Opening a trace, whichever format it is in.

use super::format::MAGIC;
use super::{Event, Header, Kind, Reader};
use crate::sys::beneath::named::{self, Streams};
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use trimtab_core::data::DataClass;
use trimtab_core::trace::{Format, Parser};
use trimtab_core::units::Nanos;
use trimtab_core::usage::UsageError;

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
    /// Text in a format of others. Such traces know no latencies, and all data count as incompressible.
    Text(Box<TextTrace>),
}

/// A text trace that is being read.
pub struct TextTrace {
    path: PathBuf,
    input: BufReader<File>,
    parser: Parser,
    line: String,
    number: u64,
    volume: Option<u64>,
    wanted: Option<u64>,
    /// Volumes that were passed over, as far as they can be named in a line.
    others: BTreeSet<u64>,
}

/// So many volumes are named where another one was asked for.
const NAMED_MAX: usize = 20;

impl Source {
    /// Opens the trace at `path`. `format` is that of a text trace; found out from its first line if `None`. `volume` chooses one of a trace of several.
    pub fn open(path: &Path, format: Option<Format>, volume: Option<u64>) -> anyhow::Result<Self> {
        let shown = path.display();
        let mut file = named::open_to_read(path, Streams::No).with_context(|| format!("cannot open {shown}"))?;
        let mut magic = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut magic).with_context(|| format!("cannot read {shown}"))?;
        file.seek(SeekFrom::Start(0)).with_context(|| format!("cannot read {shown}"))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        if magic == MAGIC {
            if volume.is_some_and(|volume| volume != 0) {
                return Err(UsageError::missing(format!("{shown} is a recording of one drive")).hint("leave --volume out").into());
            }
            let reader = Reader::new(input).with_context(|| shown.to_string())?;
            return Ok(Self::Recording { path: path.to_owned(), reader: Box::new(reader), number: 0 });
        }
        let format = match format {
            Some(format) => format,
            None => {
                let start = input.fill_buf().with_context(|| format!("cannot read {shown}"))?;
                let first = start.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok()).unwrap_or("");
                Format::detect(first).ok_or_else(|| {
                    UsageError::new(format!("{shown} is neither a recording nor a trace whose format its first line gives away"))
                        .hint("say it with --format")
                })?
            }
        };
        let parser = Parser::new(format);
        Ok(Self::Text(Box::new(TextTrace {
            path: path.to_owned(),
            input,
            parser,
            line: String::new(),
            number: 0,
            volume: None,
            wanted: volume,
            others: BTreeSet::new(),
        })))
    }

    /// Where the event that came last stands: file, and line or record.
    pub fn place(&self) -> String {
        match self {
            Self::Recording { path, number, .. } => format!("{}, record {number}", path.display()),
            Self::Text(trace) => format!("{}, line {}", trace.path.display(), trace.number),
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

impl TextTrace {
    /// The end of the file: an error if the volume that was asked for is not in it, once.
    fn ended(&mut self) -> anyhow::Result<Option<Event>> {
        let Some(wanted) = self.wanted.filter(|_| self.volume.is_none()) else { return Ok(None) };
        // What comes after an error is nothing.
        self.wanted = None;
        let missing = UsageError::missing(format!("{} has no request of volume {wanted}", self.path.display()));
        let named: Vec<String> = self.others.iter().take(NAMED_MAX).map(u64::to_string).collect();
        Err(match named.as_slice() {
            [] => missing,
            named => {
                let more = if self.others.len() > NAMED_MAX { " and others" } else { "" };
                missing.hint(format!("it has {}{more}", named.join(", ")))
            }
        }
        .into())
    }

    fn next_event(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            self.line.clear();
            self.number += 1;
            let place = || format!("{}, line {}", self.path.display(), self.number);
            if self.input.by_ref().take(LINE_BYTES_MAX).read_line(&mut self.line).with_context(place)? == 0 {
                return self.ended();
            }
            let Some(record) = self.parser.line(&self.line).with_context(place)? else { continue };
            if self.wanted.is_some_and(|wanted| wanted != record.volume) {
                if self.others.len() <= NAMED_MAX {
                    self.others.insert(record.volume);
                }
                continue;
            }
            if *self.volume.get_or_insert(record.volume) != record.volume {
                return Err(UsageError::new(format!("{}: the trace is of several volumes", place()))
                    .hint("choose one with --volume")
                    .into());
            }
            return Ok(Some(Event {
                at: record.at,
                kind: record.kind,
                offset: record.offset,
                len: if record.kind == Kind::Flush { 0 } else { record.len },
                class: DataClass::Random,
                fua: false,
                continues: false,
                latency: Nanos::ZERO,
                errno: None,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn text_traces_are_recognised_and_wrong_lines_are_named() {
        let (_dir, path) = written(b"1,hm,1,Write,4096,4096,1\n20001,hm,1,Read,4096,512,1\nrubbish\n");
        let mut source = Source::open(&path, None, None).unwrap();
        assert_eq!(source.next().unwrap().unwrap().kind, Kind::Write);
        let read = source.next().unwrap().unwrap();
        assert_eq!((read.kind, read.at), (Kind::Read, Nanos::from_millis(2)));
        let error = format!("{:#}", source.next().unwrap().unwrap_err());
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn one_of_several_volumes_has_to_be_chosen() {
        let (_dir, path) = written(b"1,hm,1,Write,4096,4096,1\n2,hm,2,Write,8192,4096,1\n");
        let error = Source::open(&path, None, None).unwrap().collect::<anyhow::Result<Vec<_>>>().unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("line 2"), "{error}");
        let events: Vec<Event> = Source::open(&path, None, Some(2)).unwrap().map(Result::unwrap).collect();
        assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), [8192]);
        let mut missing = Source::open(&path, None, Some(7)).unwrap();
        let error = missing.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("has no request of volume 7") && error.ends_with("it has 1, 2"), "{error}");
        assert!(missing.next().is_none());
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        let (_dir, path) = written(b"\x00\x01\x02");
        assert!(Source::open(&path, None, None).is_err_and(|error| error.is::<UsageError>()));
        let (_dir, path) = written(b"TRIMTRC1");
        assert!(Source::open(&path, None, None).is_err_and(|error| format!("{error:#}").contains("cut off")));
    }
}
