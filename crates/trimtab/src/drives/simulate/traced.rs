//! A block trace on a modelled drive, at its own times.

use crate::drives::trace::{Event, Source};
use std::path::PathBuf;
use trimtab_core::data::DataClass;
use trimtab_core::op::OpKind;
use trimtab_core::run::Field;
use trimtab_core::runner::End;
use trimtab_core::runner::recorder::Recorder;
use trimtab_core::simulate::replay::Replay;
use trimtab_core::simulate::sampled::Sampled;
use trimtab_core::simulate::timing::Timing;
use trimtab_core::simulate::{Finished, Subject, Trace, Watcher};
use trimtab_core::target::TargetError;
use trimtab_core::trace::{Format, Kind};
use trimtab_core::units::{Bytes, Nanos};
use trimtab_core::usage::UsageError;

/// Events between two looks at the user and at the progress bar.
const LOOK_EVERY: u64 = 4096;

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Its file.
    pub path: PathBuf,
    /// Its format, if it is text whose first line does not give it away.
    pub format: Option<Format>,
    /// Which volume of a trace of several.
    pub volume: Option<u64>,
    /// When its requests are made.
    pub timing: Timing,
}

impl Trace for Traced {
    type Error = anyhow::Error;

    fn fields(&self) -> Vec<Field> {
        self.timing.setting().map(|(key, value)| Field::new(key, value)).into_iter().collect()
    }

    fn run(
        &self,
        data: DataClass,
        until: Option<Bytes>,
        subject: Subject,
        now: Nanos,
        watcher: &mut dyn Watcher,
    ) -> anyhow::Result<Finished> {
        let mut recorder = Recorder::new(now);
        let mut replay = Replay::new(subject, now).timed(self.timing);
        recorder.begin_phase("replay", now);
        let mut end = End::Complete;
        loop {
            let before = recorder.written();
            end = match self.pass(data, until, &mut replay, &mut recorder, watcher)? {
                Some(stopped) => stopped,
                None if until.is_none_or(|until| recorder.written() >= until) => end,
                None if recorder.written() == before => {
                    return Err(UsageError::new(format!("{} writes nothing", self.path.display()))
                        .hint("leave --until-written out to replay it once")
                        .into());
                }
                None => {
                    replay.again();
                    continue;
                }
            };
            break;
        }
        let (subject, latest) = replay.into_parts();
        Ok(Finished { recorded: recorder.finish(latest), end, subject, metrics: Vec::new() })
    }
}

impl Traced {
    /// The trace once, or as far as the amount goes; gives what stopped it, if something did.
    fn pass(
        &self,
        data: DataClass,
        until: Option<Bytes>,
        replay: &mut Replay<Sampled>,
        recorder: &mut Recorder,
        watcher: &mut dyn Watcher,
    ) -> anyhow::Result<Option<End>> {
        let mut source = Source::open(&self.path, self.format, self.volume)?;
        let classless = source.header().is_none();
        let mut n = 0_u64;
        let nothing_before = recorder.ops() == 0;
        while let Some(event) = source.next() {
            let mut event: Event = event?;
            if classless {
                event.class = data;
            }
            let served = replay
                .event(&event)
                .map_err(|problem| UsageError::new(format!("{}: {problem}", source.place())).hint("--capacity makes the drive larger"))?;
            if let Err(refusal) = served.result {
                let object = format!("{} bytes at {} ({})", event.len, event.offset, source.place());
                return Ok(Some(End::Failed(TargetError {
                    action: kind(event.kind).name(),
                    object,
                    reason: refusal.to_string(),
                    errno: None,
                })));
            }
            recorder.op(kind(event.kind), served.arrived, served.done, event.len);
            n += 1;
            if n.is_multiple_of(LOOK_EVERY) {
                if watcher.stopped() {
                    return Ok(Some(End::Interrupted));
                }
                watcher.written(recorder.written());
            }
            if until.is_some_and(|until| recorder.written() >= until) {
                break;
            }
        }
        if n == 0 && nothing_before {
            let of = self.volume.map_or_else(String::new, |volume| format!(" of volume {volume}"));
            let error = UsageError::new(format!("{} has no request{of}", self.path.display()));
            return Err(error.hint("'trimtab drive simulate --help' says which formats are understood").into());
        }
        Ok(None)
    }
}

/// The kind of operation that results speak of.
pub const fn kind(kind: Kind) -> OpKind {
    match kind {
        Kind::Read => OpKind::Read,
        Kind::Write => OpKind::Write,
        Kind::Trim => OpKind::Trim,
        Kind::Flush => OpKind::Flush,
    }
}
