//! The life of one attached drive: creates and removes everything that belongs to it.

use crate::block::{AttachContext, ServedBlockDevice};
use crate::control::{self, ControlCommand, ControlRequest, ControlResponse};
use crate::drive;
use crate::engine::Engine;
use crate::faults::{Fault, FaultInjector};
use crate::nbd::NbdFront;
use crate::pace::{Pacer, Speed};
use crate::recording::RequestRecorder;
use crate::request::{PowerCutSupport as _, RequestServer};
use crate::runtime::{self, Runtime, RuntimeDirectory, ServerRecord};
use crate::status::{RequestsByKind, Status};
use crate::transport::{Transport, TransportChoice};
use anyhow::Context as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trimtab_drive::interface::Interface;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::Bytes;
use trimtab_linux::host::{memory, processes};
use trimtab_linux::sys::interrupt;

/// Options for attaching a drive.
pub struct AttachOptions {
    /// The id; `None` derives it from the drive's name.
    pub id: Option<String>,
    /// The drive specification.
    pub spec: DriveSpec,
    /// The speed of model time.
    pub speed: Speed,
    /// The data file; `None` keeps the data in memory.
    pub data: Option<PathBuf>,
    /// The content of the data file is written to the new drive.
    pub adopt: bool,
    /// Attach a block device over this transport.
    pub block: Option<TransportChoice>,
    /// Listen for NBD clients on this Unix socket.
    pub nbd: Option<PathBuf>,
    /// Record the served requests to this new file.
    pub record: Option<PathBuf>,
    /// Faults around the engine.
    pub faults: Vec<Fault>,
    /// Seed of all random choices of the drive and its faults.
    pub seed: u64,
    /// Detach when this process has ended, even if the drive is in use.
    pub detach_with: Option<u32>,
}

/// A drive being served.
pub struct Server {
    home: RuntimeDirectory,
    record: ServerRecord,
    engine: Arc<Engine>,
    detach_with: Option<u32>,
    /// The fault filter around the engine.
    faults: Arc<FaultInjector>,
    pacer: Arc<Pacer>,
    speed: Speed,
    started: Instant,
    questions: Option<Receiver<ControlRequest>>,
    block: Option<ServedBlockDevice>,
    nbd: Option<NbdFront>,
    /// Errors during the removal.
    problems: Vec<String>,
}

impl Server {
    /// Creates everything; on error, removes what was created. Also returns remarks for
    /// the user.
    pub fn start(options: AttachOptions) -> anyhow::Result<(Self, Vec<String>)> {
        let runtime = Runtime::open()?;
        let mut remarks = runtime.clean_up()?;
        memory::check_drive(&options.spec)?;
        let interface = Interface::of(&options.spec);
        let drive = match &options.data {
            Some(data) => {
                let (drive, written) =
                    drive::in_file(&options.spec, &interface, options.seed, data, options.adopt)?;
                remarks.extend((written > Bytes::ZERO).then(|| {
                    format!("{written} of {} were written to the new drive", data.display())
                }));
                drive
            }
            None => drive::in_memory(&options.spec, &interface, options.seed)?,
        };
        // Memory allocation while writing back to our own device must not wait for
        // writeback.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let pacer = Arc::new(Pacer::start().context("cannot start a thread")?);
        let attached_unix_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64);
        let recorder = match &options.record {
            Some(path) => {
                let source = format!("{} at speed {}", options.spec.name, options.speed);
                Some(RequestRecorder::start(path, &source)?)
            }
            None => None,
        };
        let engine = Arc::new(Engine::new(drive, interface, options.speed, recorder));
        let (id, home) = runtime.claim(options.id.as_deref(), &options.spec.name)?;
        let (pid, pid_started, boot_id) = runtime::own_process();
        let record = ServerRecord {
            id,
            drive: options.spec.name.clone(),
            size: interface.geometry.size,
            pid,
            pid_started,
            boot_id,
            transport: None,
            device: None,
            mark: None,
            served: None,
            nbd: None,
            nbd_socket: None,
            data: options.data.map(std::path::absolute).transpose()?,
            attached_unix_ms,
        };
        let faults = Arc::new(FaultInjector::new(
            engine.clone(),
            &options.faults,
            options.seed,
            options.speed,
        ));
        let mut server = Self {
            home,
            record,
            engine,
            detach_with: options.detach_with,
            faults,
            pacer,
            speed: options.speed,
            started: Instant::now(),
            questions: None,
            block: None,
            nbd: None,
            problems: Vec::new(),
        };
        match server.open(options.block, options.nbd.as_deref()) {
            Ok(more) => remarks.extend(more),
            Err(error) => {
                // The first error is the one to report.
                let _ = server.detach(true);
                let _ = server.finish();
                return Err(error);
            }
        }
        Ok((server, remarks))
    }

    fn open(
        &mut self,
        block: Option<TransportChoice>,
        nbd: Option<&Path>,
    ) -> anyhow::Result<Vec<String>> {
        let mut remarks = Vec::new();
        self.home.write_record(&self.record)?;
        self.questions = Some(control::listen(&self.home.control())?);
        let drive: Arc<dyn RequestServer> = Arc::clone(&self.faults) as _;
        if let Some(wanted) = block {
            remarks.extend(self.open_block(&drive, wanted)?);
        }
        if let Some(path) = nbd {
            // Recorded before it exists, so that it is found after a crash.
            self.record.nbd = Some(std::path::absolute(path)?);
            self.home.write_record(&self.record)?;
            let front = self.nbd.insert(NbdFront::start(path, drive, Arc::clone(&self.pacer))?);
            let socket = front.socket();
            self.record.nbd_socket = Some((socket.device, socket.inode));
        }
        self.home.write_record(&self.record)?;
        Ok(remarks)
    }

    /// Creates the block device over the best transport in `wanted`.
    fn open_block(
        &mut self,
        drive: &Arc<dyn RequestServer>,
        wanted: TransportChoice,
    ) -> anyhow::Result<Vec<String>> {
        let place = AttachContext { home: &self.home, pacer: &self.pacer };
        let (block, mut remarks) =
            ServedBlockDevice::make(drive, &place, wanted, &mut self.record)?;
        if block.transport() == Transport::Device {
            // Zero-writes may arrive as TRIM requests, so trimmed space must read as
            // zeros.
            self.engine.have_trimmed_space_read_as_zeros();
        }
        let block = self.block.insert(block);
        remarks.extend(block.tune(&drive.geometry()));
        let disk = block.disk();
        self.record.device = Some(disk.path());
        self.record.transport = Some(block.transport());
        Ok(remarks)
    }

    /// The record of the drive and its server.
    pub const fn record(&self) -> &ServerRecord {
        &self.record
    }

    /// The log for messages after the server has gone to the background.
    pub fn log(&self) -> anyhow::Result<File> {
        self.home.open_log().context("cannot open the log")
    }

    /// Serves until a client or a signal detaches the drive.
    pub fn run(mut self) -> anyhow::Result<()> {
        let mut next_tick = self.started + Duration::from_secs(1);
        let mut reported = false;
        let questions = self.questions.take().expect("a server that was started listens");
        loop {
            let now = Instant::now();
            if now >= next_tick {
                self.engine.tick();
                next_tick += Duration::from_secs(1);
            }
            match questions.recv_timeout(
                Duration::from_millis(100).min(next_tick.saturating_duration_since(now)),
            ) {
                Ok(question) => match question.ask {
                    ControlCommand::Status => {
                        question.answer(to_answer(serde_json::to_value(self.status())))
                    }
                    ControlCommand::Power { on, within } => question.answer(self.power(on, within)),
                    ControlCommand::Detach { force } => match self.detach(force) {
                        Ok(()) => {
                            let finished = self.finish();
                            let problem = finished.as_ref().err().map(|error| format!("{error:#}"));
                            question.answer(ControlResponse::Ok(
                                serde_json::json!({ "problem": problem }),
                            ));
                            return finished;
                        }
                        Err(error) => question.answer(ControlResponse::Error(format!("{error:#}"))),
                    },
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(Duration::from_millis(100))
                }
            }
            if self.detach_with.is_some_and(|pid| !processes::exists(pid)) {
                self.detach(true)?;
                return self.finish();
            }
            if interrupt::requested() {
                match self.detach(false) {
                    Ok(()) => return self.finish(),
                    Err(error) if !reported => {
                        trimtab_linux::output::complain(&format!(
                            "{error:#}; waiting until it is free (a second signal \
                                ends the server immediately)"
                        ));
                        reported = true;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Detaches the drive from its users. On error, nothing has changed.
    fn detach(&mut self, force: bool) -> anyhow::Result<()> {
        if let Some(block) = &mut self.block {
            block.release(force, &mut self.problems)?;
        }
        self.nbd = None;
        if let Some(block) = self.block.take() {
            block.remove(&self.home, self.record.served(), force)?;
        }
        Ok(())
    }

    /// After a detach, syncs the data and removes the rest. The error lists what failed.
    fn finish(&mut self) -> anyhow::Result<()> {
        if let Err(error) = self.engine.finish_recording() {
            self.problems.push(format!("{error:#}"));
        }
        if let Err(error) = self.engine.store().sync() {
            self.problems.push(format!("cannot write the data file: {error}"));
        }
        if let Err(error) = self.home.remove() {
            self.problems.push(format!("cannot remove the runtime directory: {error}"));
        }
        anyhow::ensure!(self.problems.is_empty(), "{}", self.problems.join("; "));
        Ok(())
    }

    fn power(&self, on: bool, within: Option<u64>) -> ControlResponse {
        if on {
            return ControlResponse::Ok(
                serde_json::json!({ "power": "on", "was_off": self.faults.restore_power() }),
            );
        }
        let answer = match within {
            Some(n) => self.faults.cut_power_within(n).map(|known| serde_json::json!({ "power": "on", "fails_within": n, "known": known })),
            None => {
                self.faults.cut_power().map(|(pages, known)| serde_json::json!({ "power": "off", "lost_blocks": pages, "known": known }))
            }
        };
        answer.map_or_else(ControlResponse::Error, ControlResponse::Ok)
    }

    fn status(&self) -> Status {
        let mut faults = self.faults.in_words();
        faults.extend(
            self.engine
                .recording_failure()
                .map(|reason| format!("the recording ended early: {reason}")),
        );
        let snapshot = self.engine.snapshot();
        faults.extend(snapshot.store_failures.map(|(failures, errno)| {
            let place = self.record.data.as_ref();
            let place = place.map_or("memory".to_owned(), |file| file.display().to_string());
            let why = std::io::Error::from(errno);
            format!("{place} could not store the data ({failures} requests failed): {why}")
        }));
        Status {
            record: self.record.clone(),
            speed: self.speed.to_string(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            model_time_ns: snapshot.model_time.0,
            waiting: self.pacer.waiting()
                + self.block.as_ref().map_or(0, ServedBlockDevice::waiting),
            requests: RequestsByKind::from(&snapshot.counts),
            discard_amplification: snapshot.discards.amplification(),
            discards: snapshot.discards,
            mapped_bytes: snapshot.mapped_bytes,
            stored_bytes: self.engine.store().allocated(),
            waf: (snapshot.written.0 > 0)
                .then(|| snapshot.written.1 as f64 / snapshot.written.0 as f64),
            model: snapshot.model,
            faults,
            last_second: snapshot.last_second,
        }
    }
}

fn to_answer(value: serde_json::Result<serde_json::Value>) -> ControlResponse {
    match value {
        Ok(value) => ControlResponse::Ok(value),
        Err(error) => ControlResponse::Error(error.to_string()),
    }
}
