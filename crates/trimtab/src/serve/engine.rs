//! The engine: keeps the data, asks the model, counts.

use crate::serve::ledger::{Discards, Ledger};
use crate::serve::pace::{ModelClock, Speed};
use crate::serve::request::{Geometry, Request, Serve, Served};
use crate::serve::store::Store;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trimtab_core::analysis::histogram::Histogram;
use trimtab_core::data::DataClass;
use trimtab_core::drive::{Command, Device, Extent, Refusal};
use trimtab_core::units::Nanos;

/// Completed requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// How many.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How many failed.
    pub failed: u64,
    /// Their latency in model time.
    pub latency: Histogram,
}

/// What the engine has done since it was started.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Reads.
    pub read: Done,
    /// Writes, with zero-writes that keep the space mapped.
    pub write: Done,
    /// TRIM commands, with zero-writes that unmap.
    pub trim: Done,
    /// Flushes, with the durable end of each FUA write.
    pub flush: Done,
}

/// The model and everything that has to change together with it.
struct Modelled {
    device: Box<dyn Device + Send>,
    clock: ModelClock,
    ledger: Ledger,
    counts: Counts,
}

/// Serves requests with a data store and a modelled drive.
pub struct Engine {
    geometry: Geometry,
    store: Store,
    modelled: Mutex<Modelled>,
}

impl Engine {
    /// An engine over `device` and `store`; `geometry` is what the host sees.
    pub fn new(device: Box<dyn Device + Send>, store: Store, geometry: Geometry, speed: Speed, queue_depth: u32) -> Self {
        let modelled = Modelled {
            device,
            clock: ModelClock::new(speed, Nanos::ZERO, queue_depth),
            ledger: Ledger::new(geometry.size, geometry.logical_block),
            counts: Counts::default(),
        };
        Self { geometry, store, modelled: Mutex::new(modelled) }
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts.clone()
    }

    /// What was trimmed so far.
    pub fn discards(&self) -> Discards {
        self.lock().ledger.discards.clone()
    }

    /// The data.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// A panic inside the model (an invariant that did not hold) must not hide the counters.
    fn lock(&self) -> MutexGuard<'_, Modelled> {
        self.modelled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn valid(&self, extent: Extent) -> Result<(), Errno> {
        let block = u64::from(self.geometry.logical_block);
        let end = extent.offset.checked_add(extent.len).ok_or(Errno::INVAL)?;
        let aligned = extent.offset.is_multiple_of(block) && extent.len.is_multiple_of(block);
        if end <= self.geometry.size && aligned { Ok(()) } else { Err(Errno::INVAL) }
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Served {
        let extent = Extent { offset, len: into.len() as u64 };
        let mut served = match self.valid(extent) {
            Ok(()) => self.lock().submit(&Command::Read(extent), extent.len, false),
            Err(errno) => return Served::refused(errno),
        };
        if served.result.is_ok() {
            served.result = self.store.read(offset, into);
        }
        served
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> Served {
        let extent = Extent { offset, len: data.len() as u64 };
        if let Err(errno) = self.valid(extent) {
            return Served::refused(errno);
        }
        let mut served = self.lock().write(extent, DataClass::Random, fua);
        if served.result.is_ok() {
            served.result = self.store.write(offset, data);
        }
        served
    }

    fn trim(&self, extents: &[Extent]) -> Served {
        if let Some(errno) = extents.iter().find_map(|extent| self.valid(*extent).err()) {
            return Served::refused(errno);
        }
        let mut served = self.lock().trim(extents);
        if served.result.is_ok() {
            served.result = extents.iter().try_for_each(|extent| self.store.discard(*extent));
        }
        served
    }

    fn zero(&self, extent: Extent, may_unmap: bool, fua: bool) -> Served {
        if may_unmap && self.geometry.discard_granularity > 0 {
            let served = self.trim(&[extent]);
            return if fua && served.result.is_ok() { self.lock().submit(&Command::Flush, 0, true) } else { served };
        }
        if let Err(errno) = self.valid(extent) {
            return Served::refused(errno);
        }
        let mut served = self.lock().write(extent, DataClass::Zero, fua);
        if served.result.is_ok() {
            // Zeros need no space of ours, whatever they cost the drive.
            served.result = self.store.discard(extent);
        }
        served
    }
}

impl Serve for Engine {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn serve(&self, request: Request<'_>) -> Served {
        match request {
            Request::Read { offset, into } => self.read(offset, into),
            Request::Write { offset, data, fua } => self.write(offset, data, fua),
            Request::Trim(extents) => self.trim(extents),
            Request::Zero { extent, may_unmap, fua } => self.zero(extent, may_unmap, fua),
            Request::Flush => self.lock().submit(&Command::Flush, 0, true),
        }
    }
}

impl Modelled {
    fn submit(&mut self, command: &Command<'_>, bytes: u64, barrier: bool) -> Served {
        let arrival = self.clock.arrival();
        let completion = self.device.submit(arrival, command);
        let done = match command {
            Command::Read(_) => &mut self.counts.read,
            Command::Write(..) => &mut self.counts.write,
            Command::Trim(_) => &mut self.counts.trim,
            Command::Flush => &mut self.counts.flush,
        };
        done.count += 1;
        done.latency.record(completion.done - arrival);
        match completion.result {
            Ok(()) => done.bytes += bytes,
            Err(_) => done.failed += 1,
        }
        Served { result: completion.result.map_err(errno_of), due: self.clock.completes(completion.done, barrier) }
    }

    fn write(&mut self, extent: Extent, class: DataClass, fua: bool) -> Served {
        let written = self.submit(&Command::Write(extent, class), extent.len, false);
        if written.result.is_err() {
            return written;
        }
        self.ledger.wrote(extent.offset, extent.len);
        if !fua {
            return written;
        }
        let flushed = self.submit(&Command::Flush, 0, true);
        Served { result: flushed.result, due: written.due.max(flushed.due) }
    }

    fn trim(&mut self, extents: &[Extent]) -> Served {
        let served = self.submit(&Command::Trim(extents), extents.iter().map(|extent| extent.len).sum(), false);
        self.ledger.command();
        for extent in extents {
            match served.result {
                Ok(()) => self.ledger.trimmed(extent.offset, extent.len),
                Err(_) => self.ledger.refused(extent.len),
            }
        }
        served
    }
}

/// What Linux reports to a filesystem for a refusal of a drive.
const fn errno_of(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::OutOfRange | Refusal::Misaligned | Refusal::TooManyRanges => Errno::INVAL,
        Refusal::TrimUnsupported => Errno::OPNOTSUPP,
        Refusal::ReadOnly => Errno::IO,
    }
}
