//! CrystalDiskMark's tests on a test file, a device or a modelled drive.

mod rounds;
mod target;

use self::rounds::CrystalRounds;
use super::block_target::BenchBlocks;
use super::{finish, purge};
use crate::cmd::bench::crystal::{BenchCrystalArgs, Direction};
use crate::drives;
use crate::store::recipe;
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::cached::DirectWatch;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress as Bar, ProgressUnit};
use trimtab_linux::session::safety::{Guard, Workspace};
use trimtab_linux::sys::privileges;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Better, Field, Metric, Phase, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunEnd, RunOutcome, RunProgress};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::TargetResult;
use trimtab_sim::workload::Limit;
use trimtab_sim::workload::crystal::{self, Crystal, CrystalSettings};

impl BenchCrystalArgs {
    fn settings(&self, spec: &TargetSpec) -> CrystalSettings {
        let writes = self.only != Some(Direction::Read);
        CrystalSettings {
            profile: self.profile,
            size: self.size,
            passes: self.passes,
            pass: self.bytes.map_or(Limit::Time(self.time), Limit::Bytes),
            interval: self.interval,
            data: self.data,
            reads: self.only != Some(Direction::Write),
            writes,
            // A user's file or device is written only for write tests; a new test file
            // must be filled before reads.
            prepare: writes || !matches!(spec, TargetSpec::File(_) | TargetSpec::Device(_)),
            until_written: self.loop_until_written,
        }
    }

    /// Settings that make two runs comparable.
    fn fields(&self, settings: &CrystalSettings) -> Vec<Field> {
        let pass = match settings.pass {
            Limit::Bytes(bytes) => bytes.to_string(),
            Limit::Time(time) => time.to_string(),
            _ => unreachable!("a pass ends after a time or an amount"),
        };
        let tests = match self.only {
            None => "read and write",
            Some(Direction::Read) => "read",
            Some(Direction::Write) => "write",
        };
        vec![
            Field::new("profile", settings.profile.name()),
            Field::new("size-bytes", settings.size.0.to_string()),
            Field::new("passes", settings.passes.to_string()),
            Field::new("pass", pass),
            Field::new("interval", settings.interval.to_string()),
            Field::new("data", settings.data.to_string()),
            Field::new("tests", tests),
            Field::new("direct", if self.buffered { "no" } else { "yes" }),
            // In the ids of stored runs.
            Field::new("verify", "no"),
        ]
    }
}

/// Capabilities kept from root: use files of other users that were named, see their other
/// users, and lock memory.
pub const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE);

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchCrystalArgs, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT | purge::capabilities(request.purge))
        .context("cannot give up privileges")?;
    let spec = TargetSpec::resolve(&request.target)?;
    let settings = request.settings(&spec);
    let mut rounds = settings.until_written.map(|_| CrystalRounds::default());
    let workload = Crystal::new(settings.clone(), request.seed)
        .map_err(|error| UsageError::new(error.to_string()))?;
    purge::check(&spec, request.purge)?;
    let mut target = target::open(request, context, &spec, &settings, &workload)?;
    let mut fields = request.fields(&settings);
    fields.extend(
        settings.until_written.map(|until| Field::new("until-written-bytes", until.0.to_string())),
    );
    fields.extend(target.settings());
    let mut header =
        starts_now("crystal", fields, target.kind(), &request.target, "as-mounted", request.seed);
    if let TargetSpec::Drive(name) = &spec {
        header.specification.extend(recipe::drive_fields(&drives::load(name)?));
    }
    let direct = target
        .real()
        .filter(|_| !request.buffered)
        .and_then(|real| DirectWatch::start(&real.observer).ok());
    let guard =
        target.real().and_then(|real| real.workspace.as_ref()).map(Workspace::guard).transpose()?;
    let mut watch = CrystalWatch::new(context, &workload, &settings, guard, rounds.as_mut());
    let outcome = target.run(&mut workload.clone(), &mut watch);
    drop(watch);
    if let (Some(watch), BenchBlocks::Real(real)) = (direct, &mut target) {
        let sum = |of: fn(&Phase) -> Bytes| outcome.recorded.phases.iter().map(of).sum();
        real.found.extend(watch.finish(sum(|phase| phase.read), sum(|phase| phase.written)));
    }
    let (run, end, workspace) = conclude_run(header, target, outcome, &settings, rounds)?;
    finish::clean_up(workspace, finish::conclude(context, &run, end))
}

/// The finished run with all its facts, and its directory; closes the target.
fn conclude_run(
    header: Run,
    mut target: BenchBlocks,
    mut outcome: RunOutcome,
    settings: &CrystalSettings,
    rounds: Option<CrystalRounds>,
) -> anyhow::Result<(Run, RunEnd, Option<Workspace>)> {
    if let Some(rounds) = &rounds {
        rounds.complete(&mut outcome);
    }
    let found = if outcome.end == RunEnd::Complete && settings.writes {
        target::compressed_share(&mut target, settings)?
    } else {
        None
    };
    let (warnings, counters) = target.facts();
    let (steady_size, real) = (target::steady_size(&target, settings), target.real().is_some());
    let (observer, workspace) = target.close();
    let (mut run, end) = finish::assemble(header, observer, outcome, crystal::metrics);
    run.warnings.extend(warnings);
    run.counters.extend(counters);
    worn_out::describe(&mut run);
    if let Some(share) = found {
        note_compressed_share(&mut run, settings.data, share);
    }
    if let Some(rounds) = rounds {
        rounds.describe(&mut run, steady_size);
    }
    if real && end == RunEnd::Complete && run.target != TargetKind::Null {
        Overhead::of_blocks(4096, 32, settings.writes.then_some(settings.data)).note(&mut run);
    }
    Ok((run, end, workspace))
}

/// Records how far the data on the drive compresses, with a warning if that differs from
/// the requested share.
fn note_compressed_share(run: &mut Run, data: DataClass, share: f64) {
    let percent = share * 100.0;
    run.metrics.push(Metric::single("data.compressed", Unit::Percent, Better::Neither, percent));
    let asked = f64::from(data.incompressible_permille()) / 10.0;
    if (percent - asked).abs() > 5.0 {
        let (asked, found) = (three_digits(asked), three_digits(percent));
        let text = format!(
            "the data read back compresses to {found} % instead of {asked} %: it is not \
                the data that was written, or was overwritten since"
        );
        let facts = vec![Field::new("asked-percent", asked), Field::new("found-percent", found)];
        run.warnings
            .push(Warning::new("data.compresses-otherwise", Severity::Serious, text).with(facts));
    }
}

/// Progress by passes, or by bytes of a series of rounds; also guards the reserve, and
/// counts the rounds.
struct CrystalWatch<'a> {
    bar: Bar,
    guard: Option<Guard>,
    phases: u64,
    phases_of_a_round: u64,
    rounds: Option<&'a mut CrystalRounds>,
}

impl<'a> CrystalWatch<'a> {
    fn new(
        context: &Context,
        workload: &Crystal,
        settings: &CrystalSettings,
        guard: Option<Guard>,
        rounds: Option<&'a mut CrystalRounds>,
    ) -> Self {
        let phases_of_a_round = workload.phases_of_a_round() as u64;
        let bar = match settings.until_written {
            Some(until) => Bar::new(context, "crystal", ProgressUnit::Bytes, until.0),
            None => Bar::new(context, "crystal", ProgressUnit::Items, phases_of_a_round),
        };
        Self { bar, guard, phases: 0, phases_of_a_round, rounds }
    }
}

impl Observer for CrystalWatch<'_> {
    fn stopped(&self) -> bool {
        trimtab_linux::sys::interrupt::requested()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        match &mut self.rounds {
            Some(rounds) => {
                rounds.written = progress.written;
                self.bar.run(progress.written.0, &progress);
            }
            None => self.bar.run(self.phases.saturating_sub(1), &progress),
        }
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }
}

impl<T: ?Sized> Events<T> for CrystalWatch<'_> {
    fn between(
        &mut self,
        _target: &mut T,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        if let Some(rounds) = &mut self.rounds {
            rounds.phase_ended(recorder);
            if self.phases > 0 && self.phases.is_multiple_of(self.phases_of_a_round) {
                rounds.passes.rounds += 1;
            }
        }
        self.phases += 1;
        if let Some(name) = next {
            self.bar.begins(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_with_other_compressibility_is_serious_warning() {
        let mut run = Run::new("crystal", Vec::new(), TargetKind::File, "x", "none", 1)
            .into_run(Default::default(), true);
        note_compressed_share(&mut run, DataClass::Random, 1.0002);
        note_compressed_share(&mut run, DataClass::Compressible(40), 0.61);
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
        note_compressed_share(&mut run, DataClass::Random, 0.4);
        assert_eq!(run.warnings[0].severity, Severity::Serious);
    }
}
