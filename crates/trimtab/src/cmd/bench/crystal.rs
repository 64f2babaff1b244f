//! `trimtab bench crystal [TARGET]`.

mod ground;
mod rounds;

use self::ground::Ground;
use self::rounds::Rounds;
use super::finish;
use super::turns::AgainstArgs;
use crate::cmd::options::{Choice, DestroyArgs, SafetyArgs};
use crate::drives;
use crate::report::cdm;
use crate::report::file::{self, Place};
use crate::store;
use crate::store::recipe;
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use rustix::thread::CapabilitySet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::{Bytes, Nanos, three_digits};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Counting, Progress as Bar};
use trimtab_linux::session::safety::{Guard, Workspace};
use trimtab_linux::sys::privileges;
use trimtab_linux::target::block::EngineChoice;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Better, Field, Metric, Phase, Run, Severity, TargetKind, Unit, Warning};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{End, Events, Outcome, Progress};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::target::TargetResult;
use trimtab_sim::workload::Limit;
use trimtab_sim::workload::crystal::{self, Crystal, Position, Profile, Settings};

/// CrystalDiskMark's tests: sequential and random reads and writes of a test file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Profiles, all with direct I/O through io_uring:
  cdm8   Seq 1MiB Q8, Seq 1MiB Q1, Rnd 4KiB Q32, Rnd 4KiB Q1; all reads, then all writes
  cdm3   Seq 1MiB, Rnd 512KiB, Rnd 4KiB, Rnd 4KiB Q32; each read, then written
  nvme   Seq 1MiB Q8, Seq 128KiB Q32, Rnd 4KiB Q32T16, Rnd 4KiB Q1

What the tests read and wrote is compared with the counters of the drives below: figures of the page cache (tmpfs, a loop device without direct I/O) are said to be that, as a serious warning.

Written data is fresh for every write, so 'random' is incompressible and cannot be deduplicated.

Examples:
  trimtab bench crystal /mnt/ssd                                   on a test file of 1 GiB
  trimtab bench crystal --profile cdm3 --compressible 46 /mnt/ssd
  trimtab bench crystal --cdm-text - --passes 3 --time 2s .        in CrystalDiskMark's own format
  trimtab bench crystal --only read /dev/sdb                       reads a device, and writes nothing
  trimtab bench crystal /dev/sdb --destroy /dev/sdb --loop-until-written 1.8TB
  trimtab bench crystal /dev/sdb --destroy /dev/sdb --loop-until-written 1.8TB --resume
  trimtab bench crystal drive:ocz-vertex-le-100gb                  on a modelled drive")]
pub struct Args {
    /// A directory, or with --destroy a file or a block device; drive:NAME for a modelled drive, null: for the tool's own cost.
    #[arg(default_value = ".")]
    pub(super) target: String,
    /// The tests.
    #[arg(long, default_value = "cdm8", value_parser = parse_profile, value_name = "cdm8|cdm3|nvme")]
    profile: Profile,
    /// Size of the test file, or of the part of a device that is used.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    size: Bytes,
    /// Passes of each test.
    #[arg(long, value_name = "N", default_value_t = 5)]
    passes: u32,
    /// How long each pass takes. One that writes ends earlier when a drive of 1 GB/s would have written as much.
    #[arg(long, value_name = "TIME", default_value = "5s", conflicts_with = "bytes")]
    time: Nanos,
    /// End each pass after this many bytes instead.
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Bytes>,
    /// Idle time before each test.
    #[arg(long, value_name = "TIME", default_value = "5s")]
    interval: Nanos,
    /// Only the tests that read, or only those that write.
    #[arg(long, value_name = "read|write")]
    only: Option<Direction>,
    /// What written data is like: random, zero, text or a share that compresses, such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "random")]
    data: DataClass,
    /// Short for --data PERCENT%.
    #[arg(long, value_name = "PERCENT", conflicts_with = "data", value_parser = clap::value_parser!(u8).range(0..=100))]
    compressible: Option<u8>,
    /// Check on every read that it finds what was written. Costs some rate.
    #[arg(long)]
    verify: bool,
    /// How operations reach the kernel.
    #[arg(long, value_enum, default_value = "auto", value_name = "auto|uring|threads", hide_possible_values = true)]
    engine: Choice<EngineChoice>,
    /// Through the page cache, which measures memory as much as the drive.
    #[arg(long)]
    buffered: bool,
    /// Seed of places and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Also write the figures to FILE in CrystalDiskMark's text format; - prints them in place of the report.
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    cdm_text: Option<PathBuf>,
    /// Also draw the figures as reviews print them, a pair of bars for each test, as SVG.
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// Replace the files of --cdm-text and --picture if they exist.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    rounds: RoundsArgs,
    #[command(flatten)]
    pub(super) against: AgainstArgs,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Direction {
    Read,
    Write,
}

/// Options of repeating it all.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = "Until a drive is steady")]
pub struct RoundsArgs {
    /// Repeat all tests until this much has been written, and report where the rates fall and where they settle.
    #[arg(long, value_name = "SIZE")]
    loop_until_written: Option<Bytes>,
    /// Continue where an earlier run of the same command was stopped.
    #[arg(long, requires = "loop_until_written", conflicts_with = "restart")]
    resume: bool,
    /// Forget where an earlier run of the same command was stopped.
    #[arg(long, requires = "loop_until_written")]
    restart: bool,
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    let known = Profile::ALL.into_iter().find(|profile| profile.name() == text);
    known.ok_or_else(|| "the profiles are cdm8, cdm3 and nvme".to_owned())
}

impl Args {
    fn settings(&self, spec: &TargetSpec) -> Settings {
        let reads = self.only != Some(Direction::Write);
        let writes = self.only != Some(Direction::Read);
        Settings {
            profile: self.profile,
            size: self.size,
            passes: self.passes,
            pass: self.bytes.map_or(Limit::Time(self.time), Limit::Bytes),
            interval: self.interval,
            data: self.compressible.map_or(self.data, DataClass::Compressible),
            reads,
            writes,
            // What the user owns is written only for tests that write; a new test file has nothing to read yet.
            prepare: writes || !matches!(spec, TargetSpec::File(_) | TargetSpec::Device(_)),
            until_written: self.rounds.loop_until_written,
        }
    }

    /// The settings that make two runs comparable, and two series of rounds the same.
    fn fields(&self, settings: &Settings) -> Vec<Field> {
        let pass = match settings.pass {
            Limit::Bytes(bytes) => bytes.to_string(),
            _ => self.time.to_string(),
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
            Field::new("verify", if self.verify { "yes" } else { "no" }),
        ]
    }
}

/// What of root's rights it takes: to use files of others that the user names, to see who else does, and to keep memory in place.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE);

/// Runs it and reports.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    privileges::keep_only(KEPT).context("cannot give up privileges")?;
    args.picture.as_deref().map_or(Ok(()), check_picture)?;
    let files = [args.cdm_text.as_ref().filter(|path| path.as_os_str() != "-"), args.picture.as_ref()];
    for path in files.into_iter().flatten() {
        file::check(path, args.force)?;
    }
    let spec = TargetSpec::resolve(&args.target)?;
    let settings = args.settings(&spec);
    let mut rounds = match settings.until_written {
        Some(_) => Some(Rounds::begin(context, &args.rounds, &args.target, args.seed, &args.fields(&settings))?),
        None => None,
    };
    let position = rounds.as_ref().map_or(Position::default(), Rounds::position);
    let workload = Crystal::new(settings.clone(), args.seed, position).map_err(|error| UsageError::new(error.to_string()))?;
    let mut ground = Ground::open(args, context, &spec, &settings, &workload)?;
    let mut fields = args.fields(&settings);
    fields.extend(settings.until_written.map(|until| Field::new("until-written-bytes", until.0.to_string())));
    fields.extend(ground.engine().map(|engine| Field::new("engine", engine)));
    let mut header = starts_now("crystal", fields, ground.kind(), &args.target, "as-mounted", args.seed);
    if let TargetSpec::Drive(name) = &spec {
        header.specification.extend(recipe::drive_fields(&drives::load(name)?));
    }
    let direct = if args.buffered { None } else { ground.direct_watch() };
    let outcome = ground.run(workload.clone(), &mut Watch::new(context, &workload, &settings, ground.guard()?, rounds.as_mut()));
    if let Some(watch) = direct {
        let sum = |of: fn(&Phase) -> Bytes| outcome.recorded.phases.iter().map(of).sum();
        ground.add_warning(watch.finish(sum(|phase| phase.read), sum(|phase| phase.written)));
    }
    let (run, end, workspace) = conclude_run(context, header, ground, outcome, &settings, rounds)?;
    finish::clean_up(context, workspace, conclude(args, context, &run, end))
}

/// Keeps the run, writes the files that were asked for, and prints it.
fn conclude(args: &Args, context: &Context, run: &Run, end: End) -> anyhow::Result<ExitCode> {
    let place = if args.force { Place::Replace } else { Place::New };
    if let Some(path) = args.picture.as_ref().filter(|_| end == End::Complete) {
        let written = cdm::picture(run).and_then(|svg| file::write(path, svg.as_bytes(), place));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &args.cdm_text
        && end == End::Complete
    {
        if path.as_os_str() == "-" {
            let kept = store::save(context, run);
            trimtab_linux::output::print(&cdm::text(run)?)?;
            return kept.map(|_| ExitCode::SUCCESS).context("the result above could not be kept");
        }
        let written = file::write(path, cdm::text(run)?.as_bytes(), place);
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    finish::conclude(context, run, end)
}

/// Refuses a picture with another ending than .svg. Streams have no ending.
fn check_picture(path: &Path) -> anyhow::Result<()> {
    if path.extension().is_none_or(|ending| ending.eq_ignore_ascii_case("svg")) {
        return Ok(());
    }
    let hint = format!("use {}", path.with_extension("svg").display());
    Err(UsageError::new(format!("--picture {}: a picture is an SVG file", path.display())).hint(hint).into())
}

/// The run with all that is known about it, and the directory that it was made in; the target is closed.
fn conclude_run(
    context: &Context,
    header: Header,
    mut ground: Ground,
    mut outcome: Outcome,
    settings: &Settings,
    rounds: Option<Rounds>,
) -> anyhow::Result<(Run, End, Option<Workspace>)> {
    if let Some(rounds) = &rounds {
        rounds.complete(&mut outcome);
    }
    let found = if outcome.end == End::Complete && settings.writes { ground.compressed_share(settings)? } else { None };
    let (verified, warnings, counters) = (ground.verified(), ground.warnings(), ground.counters());
    let steady_size = ground.steady_size(settings);
    let real = ground.is_real();
    let (observer, workspace) = ground.close();
    let (mut run, end) = finish::assemble(header, observer, outcome, crystal::metrics);
    run.warnings.extend(warnings);
    run.counters.extend(counters);
    worn_out::describe(&mut run);
    if let Some(verified) = verified {
        run.counters.push(("verified.bytes".to_owned(), verified.0));
    }
    if let Some(share) = found {
        note_compressed_share(&mut run, settings.data, share);
    }
    if let Some(rounds) = rounds {
        rounds.describe(context, &mut run, &end, steady_size)?;
    }
    if real && end == End::Complete && run.target != TargetKind::Null {
        Overhead::of_blocks(4096, 32, settings.writes.then_some(settings.data)).note(&mut run);
    }
    Ok((run, end, workspace))
}

/// Says how far what stands on the drive compresses, and warns if that is not what was asked for.
fn note_compressed_share(run: &mut Run, data: DataClass, share: f64) {
    let percent = share * 100.0;
    run.metrics.push(Metric { name: "data.compressed".to_owned(), unit: Unit::Percent, better: Better::Neither, samples: vec![percent] });
    let asked = f64::from(data.incompressible_permille()) / 10.0;
    if (percent - asked).abs() > 5.0 {
        run.warnings.push(Warning {
            code: "data.compresses-otherwise".to_owned(),
            severity: Severity::Serious,
            facts: vec![Field::new("asked-percent", three_digits(asked)), Field::new("found-percent", three_digits(percent))],
            text: format!(
                "what was read back compresses to {} % and should to {} %: something other than what was written is there, or was written since",
                three_digits(percent),
                three_digits(asked)
            ),
        });
    }
}

/// Progress by passes, or by bytes of a series of rounds; the reserve of free space; what rounds have to know.
struct Watch<'a> {
    bar: Bar,
    guard: Option<Guard>,
    phases: u64,
    phases_of_a_round: u64,
    rounds: Option<&'a mut Rounds>,
}

impl<'a> Watch<'a> {
    fn new(context: &Context, workload: &Crystal, settings: &Settings, guard: Option<Guard>, rounds: Option<&'a mut Rounds>) -> Self {
        let phases_of_a_round = workload.phases_of_a_round() as u64;
        let bar = match settings.until_written {
            Some(until) => Bar::new(context, "crystal", Counting::Bytes, until.0),
            None => Bar::new(context, "crystal", Counting::Items, phases_of_a_round),
        };
        let bar = bar.with_discards(|| guard.as_ref().and_then(Guard::meter));
        Self { bar, guard, phases: 0, phases_of_a_round, rounds }
    }
}

impl<T: ?Sized> Events<T> for Watch<'_> {
    fn stopped(&self) -> bool {
        trimtab_linux::sys::interrupt::requested()
    }

    fn progress(&mut self, progress: Progress<'_>) -> TargetResult {
        match &mut self.rounds {
            Some(rounds) => self.bar.run(rounds.note_written(progress.written).0, &progress),
            None => self.bar.run(self.phases.saturating_sub(1), &progress),
        }
        self.guard.as_mut().map_or(Ok(()), Guard::check)
    }

    fn between(&mut self, _target: &mut T, recorder: &mut Recorder, next: Option<&str>) -> TargetResult {
        if let Some(rounds) = &mut self.rounds {
            rounds.phase_ended(recorder);
            if self.phases > 0 && self.phases.is_multiple_of(self.phases_of_a_round) {
                rounds.round_ended(recorder)?;
            }
        }
        self.phases += 1;
        if let Some(name) = next {
            self.bar.phase(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_compresses_otherwise_than_asked_is_a_serious_warning() {
        let mut run = Header::new("crystal", Vec::new(), TargetKind::File, "x", "none", 1).into_run(Default::default(), true);
        note_compressed_share(&mut run, DataClass::Random, 1.0002);
        note_compressed_share(&mut run, DataClass::Compressible(40), 0.61);
        assert!(run.warnings.is_empty(), "{:?}", run.warnings);
        note_compressed_share(&mut run, DataClass::Random, 0.4);
        assert_eq!(run.warnings[0].severity, Severity::Serious);
    }
}
