//! The engine: stores the data, asks the model for latencies, counts requests.

mod counts;

pub use trimtab_drive::requests::{RequestCounts, RequestTally};

use crate::classify::classify;
use crate::pace::{ModelClock, Speed};
use crate::recording::RequestRecorder;
use crate::request::{Effect, Geometry, PowerCutSupport, Request, RequestResult, RequestServer};
use crate::status::RequestsByKind;
use crate::store::Store;
use crate::trace::{TraceEvent, TraceOpKind};
use counts::Seconds;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_drive::data::DataClass;
use trimtab_drive::interface::Interface;
use trimtab_drive::ledger::{Ledger, Sums};
use trimtab_drive::model::Model;
use trimtab_drive::spec::TrimmedReads;
use trimtab_drive::trim_shape::TrimShape;
use trimtab_drive::units::Nanos;
use trimtab_drive::{Command, Extent, Ranges, Refusal};

/// A drive with its data.
pub struct EngineDrive {
    /// The model.
    pub model: Box<dyn Model>,
    /// The data.
    pub store: Store,
    /// The units that hold data.
    pub ledger: Ledger,
    /// Model time of the drive.
    pub now: Nanos,
}

/// The model and all state that changes together with it.
struct ModelState {
    device: Box<dyn Model>,
    clock: ModelClock,
    ledger: Ledger,
    counts: RequestCounts,
    seconds: Seconds,
    recorder: Option<RequestRecorder>,
    /// Number of requests that the data store failed, and the last error.
    store_failures: Option<(u64, Errno)>,
    /// Model time when the engine was created, where recordings begin.
    origin: Nanos,
}

/// Serves requests from a data store and a modelled drive.
pub struct Engine {
    interface: Interface,
    store: Store,
    modelled: Mutex<ModelState>,
    /// Trimmed space reads as zeros, regardless of the settings.
    zeros: AtomicBool,
    /// The model panicked: its state is unreliable.
    broken: AtomicBool,
}

/// State of the model and the ledger at one moment.
#[derive(Clone, Debug)]
pub struct EngineSnapshot {
    /// Requests since the engine was created.
    pub counts: RequestCounts,
    /// The discard ledger.
    pub discards: Sums,
    /// Bytes that hold data.
    pub mapped_bytes: u64,
    /// Bytes written by the host, and to the medium on their behalf, since the drive was
    /// new.
    pub written: (u64, u64),
    /// The model's counters.
    pub model: BTreeMap<String, u64>,
    /// Model time.
    pub model_time: Nanos,
    /// Requests of the last second.
    pub last_second: RequestsByKind,
    /// Number of requests that the data store failed, and the last error.
    pub store_failures: Option<(u64, Errno)>,
}

impl Engine {
    /// Creates an engine for a drive.
    pub fn new(
        drive: EngineDrive,
        interface: Interface,
        speed: Speed,
        recorder: Option<RequestRecorder>,
    ) -> Self {
        let EngineDrive { model, store, ledger, now: origin } = drive;
        let modelled = ModelState {
            device: model,
            clock: ModelClock::new(speed, origin, interface.queue_depth),
            ledger,
            counts: RequestCounts::default(),
            seconds: Seconds::default(),
            recorder,
            store_failures: None,
            origin,
        };
        Self {
            interface,
            store,
            modelled: Mutex::new(modelled),
            zeros: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        }
    }

    /// Makes trimmed space read as zeros from now on. Required by a front end whose host
    /// uses the same request for TRIM and zero-writes.
    pub fn have_trimmed_space_read_as_zeros(&self) {
        self.zeros.store(true, Ordering::Relaxed);
    }

    /// A snapshot of the current state.
    pub fn snapshot(&self) -> EngineSnapshot {
        let mut modelled = self.lock();
        EngineSnapshot {
            counts: modelled.counts.clone(),
            discards: modelled.ledger.sums.clone(),
            mapped_bytes: modelled.ledger.mapped_bytes(),
            written: modelled.device.written(),
            model: modelled.device.counters(),
            model_time: modelled.clock.now(),
            last_second: modelled.seconds.last,
            store_failures: modelled.store_failures,
        }
    }

    /// Ends a second of the counts. Call once per second.
    pub fn tick(&self) {
        let mut modelled = self.lock();
        modelled.seconds.tick();
        if let Some(recorder) = &mut modelled.recorder {
            recorder.flush();
        }
    }

    /// Ends the recording, if there is one.
    pub fn finish_recording(&self) -> anyhow::Result<()> {
        let recorder = self.lock().recorder.take();
        recorder.map_or(Ok(()), RequestRecorder::finish)
    }

    /// The reason why the recording ended early.
    pub fn recording_failure(&self) -> Option<String> {
        self.lock().recorder.as_ref().and_then(RequestRecorder::failure)
    }

    fn lock(&self) -> MutexGuard<'_, ModelState> {
        self.modelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn valid(&self, extent: Extent) -> Result<(), Errno> {
        let Geometry { size, logical_block, .. } = self.interface.geometry;
        let end = extent.offset.checked_add(extent.len).ok_or(Errno::INVAL)?;
        let aligned = extent.offset.is_multiple_of(logical_block.into())
            && extent.len.is_multiple_of(logical_block.into());
        if end <= size && aligned { Ok(()) } else { Err(Errno::INVAL) }
    }

    /// Counts the command as failed if the data store failed.
    fn stored(&self, command: &Command<'_>, result: Result<(), Errno>) -> Result<(), Errno> {
        result.inspect_err(|errno| {
            let modelled = &mut *self.lock();
            let failures = modelled.store_failures.map_or(0, |(failures, _)| failures);
            modelled.store_failures = Some((failures + 1, *errno));
            modelled.counts.of(command).fail(command.bytes());
            modelled.seconds.current.of(command).fail(command.bytes());
        })
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<RequestResult, Errno> {
        let extent = Extent { offset, len: into.len() as u64 };
        self.valid(extent)?;
        let mut served = self.lock().read(extent);
        if served.result.is_ok() {
            served.result = self.stored(&Command::Read(extent), self.store.read(offset, into));
        }
        Ok(served)
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> Result<RequestResult, Errno> {
        let extent = Extent { offset, len: data.len() as u64 };
        self.valid(extent)?;
        let class = if self.interface.classify { classify(data) } else { DataClass::Random };
        let mut served = self.lock().write(extent, class, fua);
        if served.result.is_ok() {
            let stored = self.store.write(offset, data);
            served.result = self.stored(&Command::Write(extent, class), stored);
        }
        Ok(served)
    }

    fn trim(&self, extents: &[Extent], effect: Effect) -> Result<RequestResult, Errno> {
        match effect {
            Effect::Usual if self.zeros.load(Ordering::Relaxed) => {
                self.trim_to_read(extents, TrimmedReads::Zeros)
            }
            Effect::Usual => self.trim_to_read(extents, self.interface.trimmed_reads),
            Effect::DataStay => self.trim_to_read(extents, TrimmedReads::OldData),
            Effect::Nothing => Ok(self.lock().pretend_trim(extents)),
        }
    }

    /// Trims so that later reads return `reads`.
    fn trim_to_read(
        &self,
        extents: &[Extent],
        reads: TrimmedReads,
    ) -> Result<RequestResult, Errno> {
        extents.iter().try_for_each(|extent| self.valid(*extent))?;
        let mut served = self.lock().trim(extents, self.interface.trim);
        if served.result.is_ok() {
            let stored = extents.iter().try_for_each(|extent| match reads {
                TrimmedReads::Zeros => self.store.discard(*extent),
                TrimmedReads::Ones => self.store.overwrite_data(*extent, 0xFF),
                TrimmedReads::OldData => Ok(()),
            });
            served.result = self.stored(&Command::trim(extents), stored);
        }
        Ok(served)
    }

    const fn can_unmap(&self) -> bool {
        self.interface.geometry.discard_granularity > 0
    }

    fn zero(&self, extent: Extent, may_unmap: bool, fua: bool) -> Result<RequestResult, Errno> {
        if may_unmap && self.can_unmap() {
            let trimmed = self.trim_to_read(&[extent], TrimmedReads::Zeros)?;
            if !fua || trimmed.result.is_err() {
                return Ok(trimmed);
            }
            let flushed = self.lock().flush();
            return Ok(RequestResult { due: trimmed.due.max(flushed.due), ..flushed });
        }
        self.valid(extent)?;
        let mut served = self.lock().write(extent, DataClass::Zero, fua);
        if served.result.is_ok() {
            // Zeros occupy no space in the store, whatever they cost in the drive.
            let command = Command::Write(extent, DataClass::Zero);
            served.result = self.stored(&command, self.store.discard(extent));
        }
        Ok(served)
    }
}

impl RequestServer for Engine {
    fn geometry(&self) -> Geometry {
        self.interface.geometry
    }

    fn serve(&self, mut request: Request<'_>) -> RequestResult {
        if self.broken.load(Ordering::Relaxed) {
            return self.refuse(&request, Errno::IO);
        }
        // A panic would end the thread and leave the host's request unanswered forever.
        let served = catch_unwind(AssertUnwindSafe(|| match &mut request {
            Request::Read { offset, into } => self.read(*offset, into),
            Request::Write { offset, data, fua } => self.write(*offset, data, *fua),
            Request::Trim(extents, effect) => self.trim(extents, *effect),
            Request::Zero { extent, may_unmap, fua } => self.zero(*extent, *may_unmap, *fua),
            Request::Flush => Ok(self.lock().flush()),
        }));
        match served {
            Ok(Ok(served)) => served,
            Ok(Err(errno)) => self.refuse(&request, errno),
            Err(_) => {
                self.broken.store(true, Ordering::Relaxed);
                trimtab_linux::output::complain(
                    "the drive model failed; every request fails with an I/O error from now on",
                );
                self.refuse(&request, Errno::IO)
            }
        }
    }
}

impl PowerCutSupport for Engine {
    fn store(&self) -> &Store {
        &self.store
    }

    fn expect_power_cuts(&self) {
        self.lock().device.expect_power_cuts();
    }

    fn refuse(&self, request: &Request<'_>, errno: Errno) -> RequestResult {
        let somewhere = Extent { offset: 0, len: 0 };
        let command = match request {
            Request::Read { .. } => Command::Read(somewhere),
            Request::Trim(extents, _) => Command::trim(extents),
            Request::Zero { extent, may_unmap: true, .. } if self.can_unmap() => {
                Command::Trim(Ranges::One(*extent))
            }
            Request::Write { .. } | Request::Zero { .. } => {
                Command::Write(somewhere, DataClass::Random)
            }
            Request::Flush => Command::Flush,
        };
        let modelled = &mut *self.lock();
        for counts in [&mut modelled.counts, &mut modelled.seconds.current] {
            let tally = counts.of(&command);
            tally.count += 1;
            tally.fail(0);
        }
        if let Command::Trim(ranges) = command {
            modelled.ledger.command();
            ranges.iter().for_each(|extent| modelled.ledger.refused(extent.len));
        }
        RequestResult::refused(errno)
    }

    fn power_cut(&self) -> Vec<Extent> {
        let mut modelled = self.lock();
        let now = modelled.clock.now();
        modelled.device.power_cut(now)
    }
}

/// The model's result for a command.
#[derive(Clone, Copy)]
struct SubmitResult {
    answer: RequestResult,
    arrival: Nanos,
    done: Nanos,
}

impl SubmitResult {
    /// Combines two commands of the same request.
    fn and(self, later: Self) -> Self {
        let answer = RequestResult {
            result: self.answer.result.and(later.answer.result),
            due: self.answer.due.max(later.answer.due),
        };
        Self { answer, arrival: self.arrival, done: self.done.max(later.done) }
    }
}

impl ModelState {
    fn submit(&mut self, command: &Command<'_>) -> SubmitResult {
        let (bytes, barrier) = (command.bytes(), *command == Command::Flush);
        let arrival = self.clock.arrival();
        let completion = self.device.submit(arrival, command);
        let latency = completion.done - arrival;
        self.counts.of(command).count(completion.result.is_ok(), bytes, latency);
        self.seconds.current.of(command).count(completion.result.is_ok(), bytes, latency);
        let answer = RequestResult {
            result: completion.result.map_err(errno_of),
            due: self.clock.completes(completion.done, barrier),
        };
        SubmitResult { answer, arrival, done: completion.done }
    }

    /// An accepted TRIM that is not carried out: costs a command, and the ledger has it.
    fn pretend_trim(&mut self, extents: &[Extent]) -> RequestResult {
        let served = self.submit(&Command::trim(&[]));
        self.record(TraceOpKind::Trim, extents, served, DataClass::Random, false);
        self.ledger.command();
        extents.iter().for_each(|extent| self.ledger.ignored(extent.len));
        served.answer
    }

    fn read(&mut self, extent: Extent) -> RequestResult {
        let submitted = self.submit(&Command::Read(extent));
        self.record(TraceOpKind::Read, &[extent], submitted, DataClass::Random, false);
        submitted.answer
    }

    fn write(&mut self, extent: Extent, class: DataClass, fua: bool) -> RequestResult {
        let mut submitted = self.submit(&Command::Write(extent, class));
        if submitted.answer.result.is_ok() {
            self.ledger.wrote(extent.offset, extent.len);
            if fua {
                submitted = submitted.and(self.submit(&Command::Flush));
            }
        }
        self.record(TraceOpKind::Write, &[extent], submitted, class, fua);
        submitted.answer
    }

    /// One TRIM of the host, in as many commands as the drive needs.
    fn trim(&mut self, extents: &[Extent], shape: TrimShape) -> RequestResult {
        let mut all: Option<SubmitResult> = None;
        for command in shape.commands(extents) {
            let part = self.submit(&Command::trim(&command));
            all = Some(all.map_or(part, |all| all.and(part)));
        }
        let Some(submitted) = all else { return RequestResult { result: Ok(()), due: None } };
        self.ledger.command();
        for extent in extents {
            match submitted.answer.result {
                Ok(()) => self.ledger.trimmed(extent.offset, extent.len),
                Err(_) => self.ledger.refused(extent.len),
            }
        }
        self.record(TraceOpKind::Trim, extents, submitted, DataClass::Random, false);
        submitted.answer
    }

    fn flush(&mut self) -> RequestResult {
        let submitted = self.submit(&Command::Flush);
        self.record(
            TraceOpKind::Flush,
            &[Extent { offset: 0, len: 0 }],
            submitted,
            DataClass::Random,
            false,
        );
        submitted.answer
    }

    fn record(
        &mut self,
        kind: TraceOpKind,
        extents: &[Extent],
        submitted: SubmitResult,
        class: DataClass,
        fua: bool,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        for (n, extent) in extents.iter().enumerate() {
            recorder.push(&TraceEvent {
                at: submitted.arrival.saturating_sub(self.origin),
                kind,
                offset: extent.offset,
                len: extent.len,
                class,
                fua,
                continues: n + 1 < extents.len(),
                latency: submitted.done - submitted.arrival,
                errno: submitted.answer.result.err().map(|errno| errno.raw_os_error() as u16),
            });
        }
    }
}

/// The error that Linux reports to a filesystem for a refusal.
const fn errno_of(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::OutOfRange | Refusal::Misaligned | Refusal::TooManyRanges => Errno::INVAL,
        Refusal::TrimUnsupported => Errno::OPNOTSUPP,
        Refusal::ReadOnly | Refusal::ClockEnd => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive;
    use trimtab_drive::model;
    use trimtab_drive::units::Bytes;

    #[test]
    fn trimmed_read_follows_spec_and_zeroed_reads_zeros() {
        for (reads, expected) in
            [(TrimmedReads::Zeros, 0), (TrimmedReads::Ones, 0xFF), (TrimmedReads::OldData, 7)]
        {
            let mut spec = model::sized(
                trimtab_drive::shipped::drive("ocz-vertex-le-100gb").spec,
                Some(Bytes(512 << 20)),
            )
            .unwrap();
            let flash = &mut spec.flash;
            flash.trim.reads = reads;
            let interface = Interface::of(&spec);
            let engine = Engine::new(
                drive::in_memory(&spec, &interface, 1).unwrap(),
                interface,
                Speed::Unpaced,
                None,
            );
            let byte = |offset| {
                let mut data = [0xEE; 4096];
                engine.serve(Request::Read { offset, into: &mut data }).result.unwrap();
                assert!(data.iter().all(|byte| *byte == data[0]));
                data[0]
            };
            for offset in [0, 4096, 8192] {
                engine
                    .serve(Request::Write { offset, data: &[7; 4096], fua: false })
                    .result
                    .unwrap();
            }
            engine
                .serve(Request::Trim(
                    &[Extent { offset: 0, len: 4096 }, Extent { offset: 1 << 20, len: 64 << 20 }],
                    Effect::Usual,
                ))
                .result
                .unwrap();
            engine
                .serve(Request::Zero {
                    extent: Extent { offset: 4096, len: 4096 },
                    may_unmap: true,
                    fua: false,
                })
                .result
                .unwrap();
            assert_eq!(
                [byte(0), byte(4096), byte(8192), byte(1 << 20)],
                [expected, 0, 7, 0],
                "{reads:?}"
            );
        }
    }
}
