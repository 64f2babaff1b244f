//! Opens a trace in any supported format.

use super::TraceEvent;
use anyhow::Context as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use trimtab_drive::usage::{UsageError, quoted};
use trimtab_linux::output::error::of_named;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_sim::trace::{FormatMatch, Lines, TextError, TraceFormat, TraceReadOptions};

/// Maximum line length of a text trace.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A trace being read. Iterating yields its events, or an error with its place. All data
/// count as incompressible, except those of a recording.
pub struct TraceSource {
    path: PathBuf,
    input: BufReader<File>,
    format: TraceFormat,
    lines: Lines,
    line: Vec<u8>,
    /// Number of the last line read.
    number: u64,
    /// Line of the last event returned.
    given: u64,
    /// The request that carried a flush, returned after it.
    next: Option<TraceEvent>,
    /// Reading has ended.
    ended: bool,
    /// The error that ended it; `None` at the end of the text.
    failed: Option<anyhow::Error>,
}

impl TraceSource {
    /// Opens the trace at `path`; text is read according to `reading`.
    pub fn open(path: &Path, reading: &TraceReadOptions) -> anyhow::Result<Self> {
        let shown = path.display();
        let file = named::open_to_read(path, Streams::No)
            .map_err(|error| of_named(error, path, "cannot open", "name the file of a trace"))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        let begin = input.fill_buf().with_context(|| format!("cannot read {shown}"))?;
        if let Some((name, program)) = compression(begin) {
            let what = format!("{shown} is compressed ({name})");
            return Err(UsageError::missing(what)
                .hint(format!(
                    "decompress it first: {program} {} > TEXT",
                    quoted(&shown.to_string())
                ))
                .into());
        }
        let format = match reading.format {
            Some(format) => format,
            None => recognised(path, begin)?,
        };
        if reading.events.is_some() && format != TraceFormat::Blkparse {
            return Err(UsageError::new(format!(
                "{shown} is read as {format}, and only blkparse text has events"
            ))
            .hint("omit --events")
            .into());
        }
        Ok(Self {
            path: path.to_owned(),
            input,
            format,
            lines: Lines::new(format, reading),
            line: Vec::new(),
            number: 0,
            given: 0,
            next: None,
            ended: false,
            failed: None,
        })
    }

    /// The format of the trace.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// Warnings after the last event: skipped lines, times that go backwards.
    pub fn warnings(&self) -> Vec<String> {
        let shown = self.path.display();
        self.lines.warnings().iter().map(|warning| format!("{shown}: {warning}")).collect()
    }

    /// Place of the last event: file and line.
    pub fn place(&self) -> String {
        self.place_of(self.given)
    }

    /// The trace has latencies and classes of data.
    pub fn is_recording(&self) -> bool {
        self.format == TraceFormat::Recording
    }

    fn next_event(&mut self) -> anyhow::Result<Option<TraceEvent>> {
        if let Some(event) = self.next.take() {
            return Ok(Some(event));
        }
        loop {
            if let Some((record, line)) = self.lines.next(self.ended) {
                self.given = line;
                let mut events = record.events();
                let event = events.next();
                self.next = events.next();
                return Ok(event);
            }
            if self.ended {
                return self.failed.take().map_or(Ok(None), Err);
            }
            // Events before the wrong line come first.
            if let Err(error) = self.read_line() {
                self.failed = Some(error);
                self.ended = true;
            }
        }
    }

    fn read_line(&mut self) -> anyhow::Result<()> {
        self.line.clear();
        self.number += 1;
        let read = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        if read.with_context(|| self.place_of(self.number))? == 0 {
            self.ended = true;
            return self.lines.end().map_err(|error| self.refused(error));
        }
        if self.line.len() as u64 == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
            return Err(anyhow::anyhow!(
                "{}: the line is longer than {LINE_BYTES_MAX} bytes",
                self.place_of(self.number)
            ));
        }
        let is_last = self.input.fill_buf().map(<[u8]>::is_empty);
        let is_last = is_last.with_context(|| self.place_of(self.number))?;
        self.lines
            .line(&String::from_utf8_lossy(&self.line), is_last)
            .map_err(|error| self.refused(error))
    }

    fn place_of(&self, line: u64) -> String {
        format!("{}, line {line}", self.path.display())
    }

    fn refused(&self, error: TextError) -> anyhow::Error {
        let whole = |error: &TextError| {
            UsageError::missing(format!(
                "{}: {error} (read as {})",
                self.path.display(),
                self.format
            ))
        };
        match error {
            TextError::Line(error) => anyhow::Error::new(error).context(self.place_of(self.number)),
            TextError::Late => anyhow::anyhow!("{}: {error}", self.place_of(self.number)),
            TextError::Several(ref one, ref other) => {
                let [one, other] = [one, other].map(|volume| quoted(&volume.to_string()));
                let hint = format!("choose one with --volume {one} or --volume {other}");
                UsageError::new(format!("{}: {error}", self.place_of(self.number)))
                    .hint(hint)
                    .into()
            }
            TextError::OtherEvents(_, other, _) => {
                whole(&error).hint(format!("read those with --events {other}")).into()
            }
            TextError::NoVolume(..) | TextError::Empty(_) => whole(&error).into(),
        }
    }
}

impl Iterator for TraceSource {
    type Item = anyhow::Result<TraceEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

/// Detects the compression of a file from its first `bytes`. Returns its name and the
/// program that decompresses to standard output.
fn compression(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const KNOWN: [(&[u8], &str, &str); 4] = [
        (b"\x1f\x8b", "gzip", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
        (b"\xfd7zXZ\0", "xz", "xzcat"),
        (b"BZh", "bzip2", "bzcat"),
    ];
    KNOWN
        .iter()
        .find(|(begin, ..)| bytes.starts_with(begin))
        .map(|(_, name, program)| (*name, *program))
}

/// Detects the format of a text trace from its first `bytes`.
fn recognised(path: &Path, bytes: &[u8]) -> anyhow::Result<TraceFormat> {
    let begin = &bytes[..bytes.len().min(LINE_BYTES_MAX as usize)];
    // Only complete lines, unless there is a single one.
    let whole = begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]);
    let shown = path.display();
    match TraceFormat::recognise(&String::from_utf8_lossy(whole)) {
        FormatMatch::Certain(format) => Ok(format),
        FormatMatch::Possible(possible) if possible.is_empty() => {
            let what = format!("{shown} is not a recognised trace");
            Err(UsageError::new(what)
                .hint(format!("give its format with --format: {}", TraceFormat::names()))
                .into())
        }
        FormatMatch::Possible(possible) => {
            let choices: Vec<String> = possible
                .iter()
                .map(|format| format!("--format {format} ({})", format.description()))
                .collect();
            let what = format!("{shown} contains only numbers, which fit several formats or units");
            Err(UsageError::new(what).hint(format!("choose one: {}", choices.join(", "))).into())
        }
    }
}

impl trimtab_sim::simulate::passes::RequestSource for TraceSource {
    type Error = anyhow::Error;

    fn next_request(&mut self) -> Option<anyhow::Result<TraceEvent>> {
        self.next()
    }

    fn place(&self) -> String {
        self.place()
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings()
    }

    fn says_data(&self) -> bool {
        self.is_recording()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Nanos;
    use trimtab_sim::trace::{TraceOpKind, Volume};

    fn written(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    fn of_volume(number: u64) -> TraceReadOptions {
        TraceReadOptions { volume: Some(Volume::Number(number)), ..TraceReadOptions::default() }
    }

    #[test]
    fn open_recognises_text_traces_and_names_wrong_lines() {
        let (_dir, path) = written(
            b"1,hm,1,Write,4096,4096,1\n20001,hm,1,Read,4096,512,1\nrubbish\n\
            20002,hm,1,Read,4096,512,1\n",
        );
        let mut source = TraceSource::open(&path, &TraceReadOptions::default()).unwrap();
        assert_eq!(source.next().unwrap().unwrap().kind, TraceOpKind::Write);
        let read = source.next().unwrap().unwrap();
        assert_eq!((read.kind, read.at), (TraceOpKind::Read, Nanos::from_millis(2)));
        let error = format!("{:#}", source.next().unwrap().unwrap_err());
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn trace_with_several_volumes_requires_volume_option() {
        let (_dir, path) = written(b"1,hm,1,Write,4096,4096,1\n2,hm,2,Write,8192,4096,1\n");
        let error = TraceSource::open(&path, &TraceReadOptions::default())
            .unwrap()
            .collect::<anyhow::Result<Vec<_>>>()
            .unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().contains("line 2"), "{error}");
        let events: Vec<TraceEvent> =
            TraceSource::open(&path, &of_volume(2)).unwrap().map(Result::unwrap).collect();
        assert_eq!(events.iter().map(|event| event.offset).collect::<Vec<_>>(), [8192]);
        let mut missing = TraceSource::open(&path, &of_volume(7)).unwrap();
        let error = missing.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("has no request of volume 7; it has hm,1, hm,2"), "{error}");
        assert!(missing.next().is_none());
    }

    #[test]
    fn open_refuses_files_that_are_not_traces() {
        let (_dir, path) = written(b"\x00\x01\x02");
        assert!(
            TraceSource::open(&path, &TraceReadOptions::default())
                .is_err_and(|error| error.is::<UsageError>())
        );
    }
}
