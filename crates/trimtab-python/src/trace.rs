//! Traces: requests as arrays, or read from the text formats of the command line.

use crate::error;
use crate::values::column;
use numpy::{PyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Nanos;
use trimtab_sim::simulate::passes::RequestSource;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::{
    FormatMatch, Lines, TraceEvent, TraceFormat, TraceOpKind, TraceReadOptions as Options,
};
use trimtab_study::sweep::short_hash;

/// Kinds of requests by number.
const KINDS: [TraceOpKind; 4] =
    [TraceOpKind::Read, TraceOpKind::Write, TraceOpKind::Trim, TraceOpKind::Flush];
/// Maximum length of a line.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Requests of a host in time order.
#[pyclass(frozen, module = "trimtab")]
#[derive(Clone)]
pub struct Trace {
    events: Arc<Vec<TraceEvent>>,
    content: Arc<str>,
}

/// Arrays of times, kinds, offsets and lengths.
type Arrays<'py> = (
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

/// A trace for replay.
#[derive(Clone)]
pub struct Timed {
    events: Arc<Vec<TraceEvent>>,
    timing: Timing,
}

/// Why a trace cannot be replayed.
pub type ReplayError = Box<dyn std::error::Error + Send + Sync>;

impl Trace {
    fn of(events: Vec<TraceEvent>) -> Self {
        let mut bytes = Vec::with_capacity(events.len() * 25);
        for event in &events {
            let kind = KINDS.iter().position(|kind| *kind == event.kind).unwrap_or_default();
            bytes.push(kind as u8);
            [event.at.0, event.offset, event.len]
                .iter()
                .for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        Self { content: short_hash(&bytes).into(), events: Arc::new(events) }
    }

    /// The trace with a timing, and a hash of its content.
    pub fn timed(&self, timing: Timing) -> (Timed, String) {
        (Timed { events: Arc::clone(&self.events), timing }, self.content.to_string())
    }

    /// Reads a file in one of the text formats.
    ///
    /// # Errors
    /// The file cannot be read, the format is unknown, or a line does not match it.
    pub fn read(path: &Path, options: &Options) -> Result<Self, String> {
        let file = std::fs::File::open(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Self::parse(path, BufReader::with_capacity(LINE_BYTES_MAX as usize, file), options)
    }

    /// Parses `input`. Error messages use `path`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(path: &Path, mut input: impl BufRead, options: &Options) -> Result<Self, String> {
        let shown = path.display();
        let format = match options.format {
            Some(format) => format,
            None => recognised(
                path,
                input.fill_buf().map_err(|error| format!("cannot read {shown}: {error}"))?,
            )?,
        };
        let (mut lines, mut events, mut line) =
            (Lines::new(format, options), Vec::new(), Vec::new());
        for number in 1.. {
            line.clear();
            let place = || format!("{shown}, line {number}");
            let read = input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.map_err(|error| format!("{}: {error}", place()))? == 0 {
                break;
            }
            if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
                return Err(format!("{}: the line is longer than {LINE_BYTES_MAX} bytes", place()));
            }
            let is_last =
                input.fill_buf().map_err(|error| format!("{}: {error}", place()))?.is_empty();
            lines
                .line(&String::from_utf8_lossy(&line), is_last)
                .map_err(|error| format!("{}: {error}", place()))?;
            events.extend(lines.next(false).into_iter().flat_map(|(record, _)| record.events()));
        }
        while let Some((record, _)) = lines.next(true) {
            events.extend(record.events());
        }
        lines.end().map_err(|error| format!("{shown}: {error}"))?;
        Ok(Self::of(events))
    }
}

/// Detects the format from the first bytes.
fn recognised(path: &Path, bytes: &[u8]) -> Result<TraceFormat, String> {
    let begin = &bytes[..bytes.len().min(LINE_BYTES_MAX as usize)];
    let whole = begin.iter().rposition(|byte| *byte == b'\n').map_or(begin, |end| &begin[..end]);
    match TraceFormat::recognise(&String::from_utf8_lossy(whole)) {
        FormatMatch::Certain(format) => Ok(format),
        FormatMatch::Possible(_) => {
            Err(format!("{}: specify the trace format: {}", path.display(), TraceFormat::names()))
        }
    }
}

fn event(at_ns: u64, kind: TraceOpKind, offset: u64, len: u64) -> TraceEvent {
    let (offset, len) = if kind == TraceOpKind::Flush { (0, 0) } else { (offset, len) };
    let (class, latency) = (DataClass::Random, Nanos::ZERO);
    TraceEvent {
        at: Nanos(at_ns),
        kind,
        offset,
        len,
        class,
        fua: false,
        continues: false,
        latency,
        errno: None,
    }
}

#[pymethods]
impl Trace {
    /// Creates a trace from arrays: time (nanoseconds, non-decreasing), kind (0 read, 1
    /// write, 2 trim, 3 flush), offset and length (bytes).
    #[new]
    fn new(
        time_ns: &Bound<'_, PyAny>,
        kind: &Bound<'_, PyAny>,
        offset: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let (time_ns, kind) = (
            column::<u64>("time_ns", time_ns, u64::MAX)?,
            column::<u8>("kind", kind, u8::MAX.into())?,
        );
        let (offset, length) = (
            column::<u64>("offset", offset, u64::MAX)?,
            column::<u64>("length", length, u64::MAX)?,
        );
        let (time_ns, kind, offset, length) =
            (time_ns.as_array(), kind.as_array(), offset.as_array(), length.as_array());
        if [kind.len(), offset.len(), length.len()] != [time_ns.len(); 3] {
            return Err(error("the trace arrays must have the same length"));
        }
        let (mut events, mut latest) = (Vec::with_capacity(time_ns.len()), 0);
        for n in 0..time_ns.len() {
            if time_ns[n] < latest {
                return Err(error(format!("request {n} is earlier than its predecessor")));
            }
            latest = time_ns[n];
            let what = KINDS.get(usize::from(kind[n])).ok_or_else(|| {
                error(format!("request {n} has kind {}; valid kinds are 0 to 3", kind[n]))
            })?;
            events.push(event(latest, *what, offset[n], length[n]));
        }
        if events.is_empty() {
            Err(error("a trace needs at least one request"))
        } else {
            Ok(Self::of(events))
        }
    }

    /// Reads a trace in one of the formats of `trimtab drive trace`. A volume is a
    /// number, or text such as '8,16'; events are 'Q', 'D' or 'C' of blkparse.
    #[staticmethod]
    #[pyo3(signature = (path, *, format=None, volume=None, events=None))]
    fn load(
        path: PathBuf,
        format: Option<&str>,
        volume: Option<&Bound<'_, PyAny>>,
        events: Option<&str>,
    ) -> PyResult<Self> {
        let format = format.map(str::parse).transpose().map_err(error)?;
        let volume =
            volume.map(|volume| volume.str()?.to_cow()?.parse().map_err(error)).transpose()?;
        let options =
            Options { format, volume, events: events.map(str::parse).transpose().map_err(error)? };
        if !path.is_file() {
            return Err(error(format!("cannot read {}: it is not a file", path.display())));
        }
        Self::read(&path, &options).map_err(error)
    }

    /// Pickles the trace as its arrays.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, Arrays<'py>) {
        let number = |of: fn(&TraceEvent) -> u64| {
            self.events.iter().map(of).collect::<Vec<u64>>().to_pyarray(py)
        };
        let kind = |event: &TraceEvent| {
            KINDS.iter().position(|kind| *kind == event.kind).unwrap_or_default() as u8
        };
        let kinds = self.events.iter().map(kind).collect::<Vec<u8>>().to_pyarray(py);
        (
            py.get_type::<Self>(),
            (
                number(|event| event.at.0),
                kinds,
                number(|event| event.offset),
                number(|event| event.len),
            ),
        )
    }

    fn __len__(&self) -> usize {
        self.events.len()
    }
}

impl trimtab_sim::simulate::Trace for Timed {
    type Error = ReplayError;

    type Requests<'a> = Reading<'a>;

    fn timing(&self) -> Timing {
        self.timing
    }

    fn name(&self) -> String {
        "the trace".to_owned()
    }

    fn open(&self) -> Result<Reading<'_>, ReplayError> {
        Ok(Reading { events: &self.events, next: 0 })
    }
}

/// Reads a trace in memory.
pub struct Reading<'a> {
    events: &'a [TraceEvent],
    next: usize,
}

impl RequestSource for Reading<'_> {
    type Error = ReplayError;

    fn next_request(&mut self) -> Option<Result<TraceEvent, ReplayError>> {
        let event = self.events.get(self.next).copied();
        self.next += 1;
        event.map(Ok)
    }

    fn place(&self) -> String {
        format!("request {}", self.next - 1)
    }

    fn says_data(&self) -> bool {
        false
    }
}
