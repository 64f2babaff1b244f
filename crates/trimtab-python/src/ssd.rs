//! A drive that the caller controls command by command.

use crate::drive::Drive;
use crate::trace::KINDS;
use crate::values::{Whole, column};
use crate::{background, error};
use numpy::{PyArray1, PyReadonlyArray1, ToPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_drive::data::DataClass;
use trimtab_drive::model::{self, Model};
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Device as _, Extent, Ranges};
use trimtab_sim::trace::TraceOpKind;

/// Commands between two checks for a stop request.
const LOOK_EVERY: usize = 1 << 16;
/// Limits for a batch that runs without a thread of its own: commands and bytes.
const SHORT_COMMANDS: usize = 4096;
const SHORT_BYTES: u64 = 64 << 20;
/// Maximum commands in flight.
const DEPTH_MAX: usize = 65_536;

/// A modelled SSD or hard disk.
#[pyclass(frozen, module = "trimtab")]
pub struct Ssd(Mutex<Host>);

/// The drive and its latest time.
struct Host {
    drive: Box<dyn Model>,
    now: Nanos,
}

/// Submission times of commands.
enum Times<'a> {
    /// Fixed times in nanoseconds.
    At(&'a [u64]),
    /// A fixed number of commands in flight.
    InFlight(usize),
}

/// Arrays of commands.
struct Batch<'a> {
    kinds: &'a [u8],
    offsets: &'a [u64],
    lengths: &'a [u64],
    class: DataClass,
}

impl Batch<'_> {
    /// True if a drive serves the batch within milliseconds.
    fn is_short(&self) -> bool {
        let bytes = || self.lengths.iter().fold(0_u64, |sum, length| sum.saturating_add(*length));
        self.kinds.len() <= SHORT_COMMANDS && bytes() <= SHORT_BYTES
    }

    fn command(&self, n: usize) -> Result<Command<'static>, String> {
        let extent = Extent { offset: self.offsets[n], len: self.lengths[n] };
        match KINDS.get(usize::from(self.kinds[n])) {
            Some(TraceOpKind::Read) => Ok(Command::Read(extent)),
            Some(TraceOpKind::Write) => Ok(Command::Write(extent, self.class)),
            Some(TraceOpKind::Trim) => Ok(Command::Trim(Ranges::One(extent))),
            Some(TraceOpKind::Flush) => Ok(Command::Flush),
            None => Err(format!("command {n} has kind {}; valid kinds are 0 to 3", self.kinds[n])),
        }
    }
}

impl Host {
    /// Submits commands until one is refused. Returns their submission and completion
    /// times.
    fn serve(
        &mut self,
        batch: &Batch<'_>,
        times: &Times<'_>,
        state: &background::TaskState,
    ) -> Result<(Vec<u64>, Vec<u64>), String> {
        let (mut started, mut done) =
            (Vec::with_capacity(batch.kinds.len()), Vec::with_capacity(batch.kinds.len()));
        let mut in_flight = BinaryHeap::new();
        for n in 0..batch.kinds.len() {
            let at = match times {
                Times::At(at) => Nanos(at[n]),
                Times::InFlight(depth) if in_flight.len() < *depth => self.now,
                Times::InFlight(_) => {
                    in_flight.pop().map_or(self.now, |Reverse(done)| self.now.max(done))
                }
            };
            if at < self.now {
                return Err(format!(
                    "command {n} is submitted at {} ns, but the drive is already at {} ns",
                    at.0, self.now.0
                ));
            }
            self.now = at;
            let completion = self.drive.submit(at, &batch.command(n)?);
            completion.result.map_err(|refusal| format!("command {n}: {refusal}"))?;
            if matches!(times, Times::InFlight(_)) {
                in_flight.push(Reverse(completion.done));
            }
            started.push(at.0);
            done.push(completion.done.0);
            if n % LOOK_EVERY == 0 && state.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        if let (Times::InFlight(_), Some(last)) =
            (times, in_flight.into_iter().map(|Reverse(done)| done).max())
        {
            self.now = self.now.max(last);
        }
        Ok((started, done))
    }
}

impl Ssd {
    /// Ignores lock poisoning: a panic leaves the drive as it was at that moment.
    fn host(&self) -> MutexGuard<'_, Host> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Submission and completion times in nanoseconds.
type Served<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

#[pymethods]
impl Ssd {
    /// Creates a new drive.
    #[new]
    #[pyo3(signature = (drive, seed=Whole(1)))]
    fn new(drive: PyRef<'_, Drive>, seed: Whole) -> PyResult<Self> {
        let drive =
            model::build(&drive.drive.spec, seed.0).map_err(|wrong| error(wrong.to_string()))?;
        Ok(Self(Mutex::new(Host { drive, now: Nanos::ZERO })))
    }

    /// Submits commands: kind (0 read, 1 write, 2 trim, 3 flush), offset and length in
    /// bytes. Submission is at non-decreasing `at_ns`, or with `depth` in flight. Returns
    /// arrays of submission and completion times. Raises an error at the first refused
    /// command; earlier ones have been served.
    #[pyo3(signature = (kind, offset, length, *, at_ns=None, depth=None, data="random"))]
    #[expect(clippy::too_many_arguments, reason = "the signature is for Python")]
    fn submit<'py>(
        &self,
        py: Python<'py>,
        kind: &Bound<'py, PyAny>,
        offset: &Bound<'py, PyAny>,
        length: &Bound<'py, PyAny>,
        at_ns: Option<&Bound<'py, PyAny>>,
        depth: Option<Whole>,
        data: &str,
    ) -> PyResult<Served<'py>> {
        let (kind, offset) = (
            column::<u8>("kind", kind, u8::MAX.into())?,
            column::<u64>("offset", offset, u64::MAX)?,
        );
        let length = column::<u64>("length", length, u64::MAX)?;
        let at_ns = at_ns.map(|at| column::<u64>("at_ns", at, u64::MAX)).transpose()?;
        let (kinds, offsets, lengths) = (kind.as_slice()?, offset.as_slice()?, length.as_slice()?);
        let at = at_ns.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        if [offsets.len(), lengths.len(), at.map_or(kinds.len(), <[u64]>::len)] != [kinds.len(); 3]
        {
            return Err(error("the command arrays must have the same length"));
        }
        let times = match (at, depth) {
            (Some(at), None) => Times::At(at),
            (None, depth) => match depth.map_or(Some(1), |depth| usize::try_from(depth.0).ok()) {
                Some(depth @ 1..=DEPTH_MAX) => Times::InFlight(depth),
                other => {
                    return Err(error(format!(
                        "depth: {} is not from 1 to {DEPTH_MAX}",
                        other.unwrap_or(usize::MAX)
                    )));
                }
            },
            (Some(_), Some(_)) => return Err(error("use either at_ns or depth, not both")),
        };
        let batch = Batch { kinds, offsets, lengths, class: data.parse().map_err(error)? };
        let at_once = || {
            self.0
                .try_lock()
                .ok()
                .map(|mut host| host.serve(&batch, &times, &background::TaskState::default()))
        };
        let served = match batch
            .is_short()
            .then(|| background::run_here(py, at_once))
            .transpose()?
            .flatten()
        {
            Some(served) => served,
            None => background::run(py, None, |state| self.host().serve(&batch, &times, state))?,
        };
        let (started, done) = served.map_err(error)?;
        Ok((started.to_pyarray(py), done.to_pyarray(py)))
    }

    /// Leaves the drive idle until `until_ns`; it may use the time for background work.
    fn idle(&self, py: Python<'_>, until_ns: Whole) -> PyResult<()> {
        let until_ns = until_ns.0;
        background::run(py, None, |_| {
            let mut host = self.host();
            if until_ns < host.now.0 {
                return Err(format!("the drive is already at {} ns", host.now.0));
            }
            host.now = Nanos(until_ns);
            host.drive.idle(Nanos(until_ns));
            Ok(())
        })?
        .map_err(error)
    }

    /// All counters by name, and the current use of the flash.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        self.host()
            .drive
            .counters()
            .iter()
            .try_for_each(|(name, value)| all.set_item(name, value))?;
        Ok(all)
    }

    /// Write amplification so far (flash bytes per host byte); None before the first
    /// write.
    #[getter]
    fn waf(&self) -> Option<f64> {
        let (host, flash) = self.host().drive.written();
        (host > 0).then(|| flash as f64 / host as f64)
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.host().now.0
    }

    #[getter]
    fn capacity_bytes(&self) -> u64 {
        self.host().drive.size().0
    }

    /// An independent copy of the drive in its current state.
    fn copy(&self) -> Self {
        let host = self.host();
        Self(Mutex::new(Host { drive: host.drive.boxed_clone(), now: host.now }))
    }
}
