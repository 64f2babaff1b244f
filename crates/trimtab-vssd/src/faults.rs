//! Fault injection: a filter around a request server, unknown to server and front ends.

mod power;
mod spec;

pub use spec::{Fault, GRAMMAR, KEEP_DEFAULT, RequestFilter, Trigger, TrimLie};

use crate::pace::Speed;
use crate::request::{Effect, Geometry, PowerCutSupport, Request, RequestResult, RequestServer};
use power::UndoLog;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trimtab_drive::Extent;
use trimtab_drive::ledger::UnitMap;
use trimtab_drive::rng::Stream;

/// A request server with faults.
pub struct FaultInjector {
    inner: Arc<dyn PowerCutSupport>,
    geometry: Geometry,
    speed: Speed,
    /// Some fault is armed; otherwise requests go straight to the engine.
    active: AtomicBool,
    seed: u64,
    state: Mutex<FaultState>,
}

struct FaultState {
    faults: Vec<ArmedFault>,
    /// Present if the power may be cut.
    undo: Option<UndoLog>,
    /// The power is off: every request fails.
    off: bool,
    /// Trimmed space that reads as a pattern, in logical blocks.
    patterned: Option<(u8, UnitMap)>,
}

/// A fault with its state.
struct ArmedFault {
    fault: Fault,
    rng: Stream,
    /// Number of matching requests so far.
    seen: u64,
    hits: u64,
    /// Armed by a command of 'drive power', not by --fault.
    by_command: bool,
    /// Number of the request at which the power fails.
    cut_at: Option<u64>,
}

impl ArmedFault {
    fn new(fault: Fault, seed: u64, index: usize) -> Self {
        let rng = Stream::new(seed, &format!("fault {index}"));
        Self { fault, rng, seen: 0, hits: 0, by_command: false, cut_at: None }
    }

    fn in_words(&self) -> String {
        let s = if self.hits == 1 { "" } else { "s" };
        match self.by_command {
            true => format!("power cut by command ({} time{s})", self.hits),
            false => format!("{} (struck {} time{s})", self.fault, self.hits),
        }
    }
}

/// The combined effect of the faults on a request.
#[derive(Default)]
struct Decision {
    cut: bool,
    fail: bool,
    delay: Duration,
}

impl FaultInjector {
    /// Wraps `faults` around `inner`. All random choices derive from `seed`.
    pub fn new(inner: Arc<dyn PowerCutSupport>, faults: &[Fault], seed: u64, speed: Speed) -> Self {
        let geometry = inner.geometry();
        let armed: Vec<ArmedFault> = faults
            .iter()
            .enumerate()
            .map(|(index, fault)| ArmedFault::new(*fault, seed, index))
            .collect();
        let may_cut = faults.iter().any(|fault| matches!(fault, Fault::PowerCut { .. }));
        if may_cut {
            inner.expect_power_cuts();
        }
        let pattern = faults.iter().find_map(|fault| match fault {
            Fault::Trim(TrimLie::Pattern(byte)) => Some(*byte),
            _ => None,
        });
        let blocks = geometry.size / u64::from(geometry.logical_block);
        let state = FaultState {
            faults: armed,
            undo: may_cut.then(|| UndoLog::new(geometry.atomic_write)),
            off: false,
            patterned: pattern.map(|byte| (byte, UnitMap::new(blocks))),
        };
        Self {
            inner,
            geometry,
            speed,
            active: AtomicBool::new(!faults.is_empty()),
            seed,
            state: Mutex::new(state),
        }
    }

    /// Enables power cuts that were not requested with `--fault power-cut`. Flushes
    /// first, because the old content of earlier writes was not saved; later writes are
    /// tracked. Returns true if cuts were already enabled.
    fn expect_power_cuts(&self, state: &mut FaultState) -> bool {
        if state.undo.is_some() {
            return true;
        }
        // The response does not matter: the power fails next.
        let _ = self.inner.serve(Request::Flush);
        self.inner.expect_power_cuts();
        state.undo = Some(UndoLog::new(self.geometry.atomic_write));
        let index = state.faults.len();
        let fault = Fault::PowerCut { on: RequestFilter::Any, keep: KEEP_DEFAULT };
        let armed = ArmedFault::new(fault, self.seed, index);
        state.faults.push(ArmedFault { by_command: true, ..armed });
        self.active.store(true, Ordering::Release);
        false
    }

    /// Descriptions of the armed faults, with the number of hits.
    pub fn in_words(&self) -> Vec<String> {
        let state = self.lock();
        let mut words: Vec<String> = state.faults.iter().map(ArmedFault::in_words).collect();
        if state.off {
            words.push("the power is off".to_owned());
        }
        words
    }

    /// Cuts the power now. Returns the number of pages lost, and whether earlier writes
    /// were tracked; if not, all earlier writes count as durable.
    pub fn cut_power(&self) -> Result<(u64, bool), String> {
        let mut state = self.lock();
        if state.off {
            return Err("the power is off already".to_owned());
        }
        let known = self.expect_power_cuts(&mut state);
        let lost = self
            .cut(&mut state, None)
            .map_err(|errno| format!("the data store failed: {errno}"))?;
        Ok((lost, known))
    }

    /// Cuts the power at a random one of the next `n` matching requests. Returns whether
    /// earlier writes were tracked.
    pub fn cut_power_within(&self, n: u64) -> Result<bool, String> {
        let mut state = self.lock();
        if state.off {
            return Err("the power is off already".to_owned());
        }
        let known = self.expect_power_cuts(&mut state);
        let armed =
            state.faults.iter_mut().find(|armed| matches!(armed.fault, Fault::PowerCut { .. }));
        if let Some(armed) = armed {
            armed.cut_at = Some(armed.seen + armed.rng.between(1, n.max(1)));
        }
        Ok(known)
    }

    /// Restores the power; returns false if it was on. It does not fail again by itself.
    pub fn restore_power(&self) -> bool {
        let mut state = self.lock();
        state.faults.iter_mut().for_each(|armed| armed.cut_at = None);
        std::mem::take(&mut state.off)
    }

    fn lock(&self) -> MutexGuard<'_, FaultState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self, state: &mut FaultState, torn: Option<Extent>) -> Result<u64, Errno> {
        state.off = true;
        let lost = self.inner.power_cut();
        let FaultState { faults, undo, .. } = state;
        let Some(ArmedFault { fault: Fault::PowerCut { keep, .. }, rng, hits, .. }) =
            faults.iter_mut().find(|armed| matches!(armed.fault, Fault::PowerCut { .. }))
        else {
            return Ok(0);
        };
        *hits += 1;
        undo.as_mut().map_or(Ok(0), |undo| undo.cut(self.inner.store(), &lost, torn, *keep, rng))
    }

    fn serve_trim(&self, state: &mut FaultState, extents: &[Extent]) -> RequestResult {
        let lie = state.faults.iter_mut().find_map(|armed| match armed.fault {
            Fault::Trim(lie) => Some((lie, armed)),
            _ => None,
        });
        let Some((lie, armed)) = lie else {
            return self.inner.serve(Request::Trim(extents, Effect::Usual));
        };
        armed.hits += 1;
        match lie {
            TrimLie::Ignore => self.inner.serve(Request::Trim(extents, Effect::Nothing)),
            TrimLie::Half(share) => {
                let pieces = extents.iter().flat_map(|extent| pieces_of(*extent));
                let (obeyed, ignored): (Vec<Extent>, Vec<Extent>) =
                    pieces.partition(|_| armed.rng.chance(share));
                let mut served = RequestResult { result: Ok(()), due: None };
                if !ignored.is_empty() {
                    served = self.inner.serve(Request::Trim(&ignored, Effect::Nothing));
                }
                if !obeyed.is_empty() {
                    let other = self.inner.serve(Request::Trim(&obeyed, Effect::Usual));
                    served = RequestResult {
                        result: served.result.and(other.result),
                        due: served.due.max(other.due),
                    };
                }
                served
            }
            TrimLie::Stale => self.inner.serve(Request::Trim(extents, Effect::DataStay)),
            TrimLie::Pattern(_) => {
                let served = self.inner.serve(Request::Trim(extents, Effect::Usual));
                if let (Ok(()), Some((_, map))) = (served.result, &mut state.patterned) {
                    for extent in extents {
                        map.insert(blocks_of(*extent, self.geometry.logical_block));
                    }
                }
                served
            }
        }
    }

    fn serve_with_faults(&self, request: Request<'_>) -> RequestResult {
        let (kind, extent) = describe(&request);
        let mut state = self.lock();
        if state.off {
            return self.inner.refuse(&request, Errno::IO);
        }
        let decision = state.decide(kind, extent);
        if decision.fail {
            return self.delayed(self.inner.refuse(&request, Errno::IO), decision.delay);
        }
        // A cut tears a write; other requests do not happen.
        if decision.cut && kind != RequestFilter::Write {
            let _ = self.cut(&mut state, None);
            return self.inner.refuse(&request, Errno::IO);
        }
        let served = match request {
            Request::Read { offset, into } => {
                let served = self.inner.serve(Request::Read { offset, into: &mut *into });
                state.lay_pattern_over(offset, into, self.geometry.logical_block);
                served
            }
            Request::Trim(extents, Effect::Usual) => self.serve_trim(&mut state, extents),
            // An outer fault has decided.
            Request::Trim(..) => self.inner.serve(request),
            Request::Flush => match state.ignored_flush() {
                true => RequestResult { result: Ok(()), due: None },
                false => {
                    let served = self.inner.serve(Request::Flush);
                    if let (Ok(()), Some(undo)) = (served.result, &mut state.undo) {
                        undo.flushed();
                    }
                    served
                }
            },
            Request::Write { .. } | Request::Zero { .. } => {
                self.serve_write(&mut state, request, extent)
            }
        };
        if decision.cut {
            let _ = self.cut(&mut state, Some(extent));
            return RequestResult::refused(Errno::IO);
        }
        drop(state);
        self.delayed(served, decision.delay)
    }

    fn serve_write(
        &self,
        state: &mut FaultState,
        request: Request<'_>,
        extent: Extent,
    ) -> RequestResult {
        let is_data = matches!(request, Request::Write { .. });
        if let (true, Some(undo)) = (is_data, &mut state.undo)
            && let Err(errno) = undo.before_write(self.inner.store(), extent)
        {
            return self.inner.refuse(&request, errno);
        }
        let request = match request {
            Request::Write { offset, data, fua: true } if state.ignored_flush() => {
                Request::Write { offset, data, fua: false }
            }
            request => request,
        };
        let served = self.inner.serve(request);
        if served.result.is_ok() {
            if let (true, Some(undo)) = (is_data, &mut state.undo) {
                undo.wrote(extent, served.due);
            }
            if let Some((_, map)) = &mut state.patterned {
                map.remove(blocks_of(extent, self.geometry.logical_block));
            }
        }
        served
    }

    fn delayed(&self, served: RequestResult, delay: Duration) -> RequestResult {
        if delay.is_zero() {
            return served;
        }
        let delay = match self.speed {
            Speed::Times(factor) => delay.div_f64(factor),
            Speed::Unpaced => delay,
        };
        let now = Instant::now();
        RequestResult { due: Some(served.due.map_or(now, |due| due.max(now)) + delay), ..served }
    }
}

impl FaultState {
    /// Applies every fault to a request.
    fn decide(&mut self, kind: RequestFilter, extent: Extent) -> Decision {
        let mut decision = Decision::default();
        for armed in &mut self.faults {
            let struck = match armed.fault {
                Fault::PowerCut { on, .. } if on.includes(kind) => {
                    armed.seen += 1;
                    // Counted as a hit when it is carried out.
                    decision.cut |= armed.cut_at == Some(armed.seen);
                    false
                }
                Fault::Error { on, when } if on.includes(kind) => {
                    let hit = match when {
                        Trigger::Chance(p) => armed.rng.chance(p),
                        Trigger::Range(range) => {
                            extent.offset < range.offset + range.len
                                && range.offset < extent.offset + extent.len
                        }
                    };
                    decision.fail |= hit;
                    hit
                }
                Fault::Latency { on, chance, add } if on.includes(kind) => {
                    let hit = armed.rng.chance(chance);
                    if hit {
                        decision.delay += add;
                    }
                    hit
                }
                _ => false,
            };
            armed.hits += u64::from(struck);
        }
        decision
    }

    /// The flush is to be ignored; counts it as a hit.
    fn ignored_flush(&mut self) -> bool {
        let Some(armed) = self.faults.iter_mut().find(|armed| armed.fault == Fault::IgnoreFlush)
        else {
            return false;
        };
        armed.hits += 1;
        true
    }

    fn lay_pattern_over(&self, offset: u64, data: &mut [u8], logical_block: u32) {
        let Some((byte, map)) = &self.patterned else { return };
        for (block, bytes) in
            (offset / u64::from(logical_block)..).zip(data.chunks_mut(logical_block as usize))
        {
            if map.contains(block) {
                bytes.fill(*byte);
            }
        }
    }
}

impl RequestServer for FaultInjector {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn serve(&self, request: Request<'_>) -> RequestResult {
        if self.active.load(Ordering::Acquire) {
            self.serve_with_faults(request)
        } else {
            self.inner.serve(request)
        }
    }
}

/// The kind of a request, and the range that it spans.
fn describe(request: &Request<'_>) -> (RequestFilter, Extent) {
    match request {
        Request::Read { offset, into } => {
            (RequestFilter::Read, Extent { offset: *offset, len: into.len() as u64 })
        }
        Request::Write { offset, data, .. } => {
            (RequestFilter::Write, Extent { offset: *offset, len: data.len() as u64 })
        }
        Request::Zero { extent, .. } => (RequestFilter::Write, *extent),
        Request::Trim(extents, _) => {
            let offset = extents.iter().map(|extent| extent.offset).min().unwrap_or(0);
            let end = extents
                .iter()
                .map(|extent| extent.offset.saturating_add(extent.len))
                .max()
                .unwrap_or(0);
            (RequestFilter::Trim, Extent { offset, len: end - offset })
        }
        Request::Flush => (RequestFilter::Flush, Extent { offset: 0, len: 0 }),
    }
}

fn blocks_of(extent: Extent, logical_block: u32) -> std::ops::Range<u64> {
    let block = u64::from(logical_block);
    extent.offset / block..(extent.offset + extent.len).div_ceil(block)
}

/// Unit in which a partially obeyed trim is cut.
const PIECE: u64 = 64 << 10;

fn pieces_of(extent: Extent) -> impl Iterator<Item = Extent> {
    let end = extent.offset + extent.len;
    (extent.offset / PIECE..end.div_ceil(PIECE)).map(move |piece| {
        let (from, to) = ((piece * PIECE).max(extent.offset), ((piece + 1) * PIECE).min(end));
        Extent { offset: from, len: to - from }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive;
    use crate::engine::Engine;
    use trimtab_drive::interface::Interface;
    use trimtab_drive::model;

    const SIZE: u64 = 512 << 20;

    /// A small drive with these faults, without a front end.
    fn drive(faults: &[&str]) -> (Arc<Engine>, FaultInjector) {
        let spec = trimtab_drive::shipped::drive("ocz-vertex-le-100gb").spec;
        let spec = model::sized(spec, Some(trimtab_drive::units::Bytes(SIZE))).unwrap();
        let interface = Interface::of(&spec);
        let engine = Arc::new(Engine::new(
            drive::in_memory(&spec, &interface, 1).unwrap(),
            interface,
            Speed::Unpaced,
            None,
        ));
        let faults: Vec<Fault> = faults.iter().map(|fault| fault.parse().unwrap()).collect();
        let faulty = FaultInjector::new(engine.clone(), &faults, 7, Speed::Unpaced);
        (engine, faulty)
    }

    fn write(drive: &FaultInjector, offset: u64, byte: u8) -> Result<(), Errno> {
        drive.serve(Request::Write { offset, data: &[byte; 4096], fua: false }).result
    }

    fn read(drive: &FaultInjector, offset: u64) -> Result<u8, Errno> {
        let mut data = [0xEE; 4096];
        drive.serve(Request::Read { offset, into: &mut data }).result?;
        assert!(data.iter().all(|byte| *byte == data[0]));
        Ok(data[0])
    }

    fn trim(drive: &FaultInjector, offset: u64) {
        drive.serve(Request::Trim(&[Extent { offset, len: 4096 }], Effect::Usual)).result.unwrap();
    }

    #[test]
    fn error_fault_hits_given_range_or_share() {
        let (_, faulty) = drive(&["write-error:range=8192+4096", "read-error:p=1"]);
        assert_eq!(write(&faulty, 4096, 1), Ok(()));
        assert_eq!(write(&faulty, 8192, 1), Err(Errno::IO));
        assert_eq!(write(&faulty, 12_288, 1), Ok(()), "the range ends before this");
        assert_eq!(read(&faulty, 0), Err(Errno::IO));
        let (_, faulty) = drive(&["write-error:p=0.25"]);
        let failed = (0..4000).filter(|n| write(&faulty, n * 4096, 1).is_err()).count();
        assert!((850..1150).contains(&failed), "{failed} of 4000");
    }

    #[test]
    fn failed_requests_count_as_failed_and_refused() {
        let (engine, faulty) = drive(&["read-error:p=1", "write-error:p=1", "trim-error:p=1"]);
        for _ in 0..3 {
            assert_eq!(read(&faulty, 0), Err(Errno::IO));
            assert_eq!(write(&faulty, 0, 1), Err(Errno::IO));
            let trim = Request::Trim(&[Extent { offset: 0, len: 8192 }], Effect::Usual);
            assert_eq!(faulty.serve(trim).result, Err(Errno::IO));
        }
        let beyond = Extent { offset: SIZE, len: 4096 };
        assert!(engine.serve(Request::Trim(&[beyond], Effect::Usual)).result.is_err());
        let snapshot = engine.snapshot();
        for (tally, failed) in
            [(&snapshot.counts.read, 3), (&snapshot.counts.write, 3), (&snapshot.counts.trim, 4)]
        {
            assert_eq!((tally.count, tally.failed, tally.bytes), (failed, failed, 0));
        }
        let ranges = &snapshot.discards.ranges;
        assert_eq!((snapshot.discards.commands, ranges.asked), (4, ranges.refused));
        assert_eq!((ranges.refused.count, ranges.refused.bytes.0), (4, 3 * 8192 + 4096));
    }

    #[test]
    fn same_seed_gives_same_faults() {
        let failures = || {
            let (_, faulty) = drive(&["write-error:p=0.1"]);
            (0..500).map(|n| write(&faulty, n * 4096, 1).is_err()).collect::<Vec<_>>()
        };
        assert_eq!(failures(), failures());
    }

    #[test]
    fn trim_faults_return_expected_reads() {
        for (fault, expected, mapped) in [
            ("trim:ignore", 5, 4096),
            ("trim:half=0", 5, 4096),
            ("trim:half=1", 0, 0),
            ("trim:stale", 5, 0),
            ("trim:pattern=0xA5", 0xA5, 0),
        ] {
            let (engine, faulty) = drive(&[fault]);
            write(&faulty, 4096, 5).unwrap();
            trim(&faulty, 4096);
            assert_eq!(read(&faulty, 4096), Ok(expected), "{fault}");
            let snapshot = engine.snapshot();
            assert_eq!(snapshot.mapped_bytes, mapped, "{fault}");
            assert_eq!(snapshot.discards.ranges.asked.bytes.0, 4096, "{fault}");
            assert_eq!(snapshot.discards.ignored.bytes.0, mapped, "{fault}");
            write(&faulty, 4096, 6).unwrap();
            assert_eq!(read(&faulty, 4096), Ok(6), "{fault}: written again");
        }
    }

    #[test]
    fn half_fault_obeys_half_of_a_long_trim() {
        let (engine, faulty) = drive(&["trim:half=0.5"]);
        let (offset, len) = (4096, 8 << 20);
        (0..len / 4096).for_each(|n| write(&faulty, offset + n * 4096, 5).unwrap());
        faulty.serve(Request::Trim(&[Extent { offset, len }], Effect::Usual)).result.unwrap();
        let left = engine.snapshot().mapped_bytes;
        assert!((len / 4..len * 3 / 4).contains(&left), "{left} of {len}");
        assert_eq!(engine.snapshot().discards.ranges.asked.bytes.0, len);
    }

    #[test]
    fn power_cut_loses_cache_unless_flushed() {
        for (more, flush, kept) in
            [(None, true, true), (None, false, false), (Some("flush:ignore"), true, false)]
        {
            let mut faults = vec!["power-cut:keep=0"];
            faults.extend(more);
            let (_, faulty) = drive(&faults);
            write(&faulty, 4096, 9).unwrap();
            if flush {
                faulty.serve(Request::Flush).result.unwrap();
            }
            faulty.cut_power().unwrap();
            assert_eq!(read(&faulty, 4096), Err(Errno::IO), "the power is off");
            assert!(faulty.restore_power());
            assert_eq!(read(&faulty, 4096), Ok(if kept { 9 } else { 0 }), "{more:?} flush {flush}");
        }
    }

    #[test]
    fn power_cut_works_without_armed_fault() {
        let (_, faulty) = drive(&[]);
        write(&faulty, 4096, 9).unwrap();
        assert_eq!(
            faulty.cut_power(),
            Ok((0, false)),
            "earlier writes were not tracked: none is lost"
        );
        assert_eq!(read(&faulty, 4096), Err(Errno::IO), "the power is off");
        assert!(faulty.cut_power().is_err() && faulty.cut_power_within(1).is_err(), "once");
        assert_eq!(faulty.in_words(), ["power cut by command (1 time)", "the power is off"]);
        assert!(faulty.restore_power());
        assert_eq!(read(&faulty, 4096), Ok(9));
        // From then on writes are tracked: some unflushed ones are lost, no flushed one.
        write(&faulty, 8192, 7).unwrap();
        faulty.serve(Request::Flush).result.unwrap();
        (0..200).for_each(|n| write(&faulty, (16 + n) * 4096, 8).unwrap());
        let (lost, known) = faulty.cut_power().unwrap();
        assert!(lost > 0 && known, "{lost}");
        faulty.restore_power();
        assert_eq!(read(&faulty, 8192), Ok(7));
        assert_eq!(
            (0..200).filter(|n| read(&faulty, (16 + n) * 4096) == Ok(0)).count() as u64,
            lost
        );
        // A cut at one of the next requests can be requested at any time.
        let (_, faulty) = drive(&[]);
        assert_eq!(faulty.cut_power_within(3), Ok(false));
        assert!((0..3).any(|n| write(&faulty, n * 4096, 1).is_err()));
    }

    #[test]
    fn power_fails_at_given_request() {
        let (_, faulty) = drive(&["power-cut:on=write"]);
        assert!(faulty.in_words()[0].ends_with(" (struck 0 times)"), "{:?}", faulty.in_words());
        assert_eq!((write(&faulty, 0, 1), write(&faulty, 4096, 1)), (Ok(()), Ok(())));
        assert_eq!(faulty.cut_power_within(1), Ok(true));
        assert_eq!(read(&faulty, 0), Ok(1), "reads do not count here");
        assert_eq!(write(&faulty, 8192, 1), Err(Errno::IO));
        assert_eq!(faulty.serve(Request::Flush).result, Err(Errno::IO));
    }

    #[test]
    fn latency_fault_delays_completion() {
        let (_, faulty) = drive(&["latency:p=1,add=1h,on=write"]);
        let before = Instant::now();
        let written = faulty.serve(Request::Write { offset: 0, data: &[1; 4096], fua: false });
        assert!(written.due.is_some_and(|due| due >= before + Duration::from_secs(3600)));
        assert_eq!(faulty.serve(Request::Flush).due, None);
    }
}
