//! `trimtab drive learn`.

mod limit;
mod real;
mod whole;

use super::ground;
use super::show::{LEGEND, parameters};
use crate::cmd::options::{DestroyArgs, SafetyArgs};
use crate::drives::below::Below;
use crate::drives::{self, crew, twins};
use crate::report::file::{self, Place};
use crate::report::layout::on_screen;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use limit::WriteLimit;
pub use real::command;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::spec::twin::Twin;
use trimtab_drive::spec::{DriveSpec, text};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::lines::prose;
use trimtab_linux::output::progress::{Counting, Progress};
use trimtab_linux::output::{self, Context};
use trimtab_linux::sys::interrupt::{self, Interrupted};
use trimtab_study::learn::candidate::Candidate;
use trimtab_study::learn::fit::{Fitted, Show, Tries};
use trimtab_study::learn::learned::{Cannot, Measured};
use trimtab_study::learn::{Budget, Observation, Observer};

/// Arguments of `trimtab drive learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab drive learn /mnt/ssd                                 through a file of its own there, which is removed
  trimtab drive learn --budget reads /dev/nvme0n1              reads only; as root, or whoever may read the device
  trimtab drive learn --budget reads ~/large-file
  trimtab drive learn /dev/sdb --destroy /dev/sdb              also what TRIMs cost; everything on the device is destroyed
  trimtab drive learn --budget full --yes /mnt/ssd             also its SLC cache and spare space: writes all that is free, again and again
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive show ./twin.toml
  trimtab study drive:./twin.toml

A real drive is probed in three rounds, to see how much figures scatter; what others did meanwhile is said, and such rounds are made again. Through a \
filesystem no TRIM is probed. With --budget full the free space below the reserve, or with --destroy the whole device, is written over two and a half \
times, once, in hours. A modelled drive is probed in virtual time, and nothing that its specification says is used but what any drive says of \
itself (its capacity, its queue, the limits of its TRIM); for --budget full it is made smaller, with all its shares as they are.")]
pub struct Args {
    /// A directory on the drive, a large file on it or the device itself; drive:NAME or drive:FILE.toml for a modelled drive.
    pub(super) target: String,
    /// How much is probed.
    #[arg(long, value_enum, default_value_t = BudgetArg::Small)]
    budget: BudgetArg,
    /// Most bytes that the probes write [default: 1 % of the drive, 4 GB at most; with the budget 'full' besides two and a half times what is free].
    /// A size, or a share of the drive such as 1%.
    #[arg(long, value_name = "SIZE|SHARE")]
    write_limit: Option<WriteLimit>,
    /// For how long a real drive is left alone before it is read.
    #[arg(long, value_name = "TIME", default_value = "8s")]
    rest: Nanos,
    /// Begin no further round on a real drive after this long. The search for drives that explain what was found comes after the rounds, and takes a minute
    /// or two.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: Nanos,
    /// Where the twin is written [default: NAME.toml in the directory 'twins' beside the store of results, where 'drive list' and 'study' find it].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over an older file.
    #[arg(long)]
    force: bool,
    /// Go on where the same command was interrupted or killed: rounds that were finished are not measured again, nor, with the budget 'full', what writing
    /// over the drive found, if that was finished.
    #[arg(long)]
    resume: bool,
    /// Seed of addresses and of the ensemble.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    safety: SafetyArgs,
    #[command(flatten)]
    destroy: DestroyArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum BudgetArg {
    /// Nothing is written: reads of data that are there.
    Reads,
    /// Little is written; what is trimmed was written by the probes.
    Small,
    /// The same, and then all that is free is written over: how large an SLC cache is, how fast the drive is behind it and how it recovers, when it begins to
    /// collect, and what that costs.
    Full,
}

impl BudgetArg {
    const fn budget(self) -> Budget {
        match self {
            Self::Reads => Budget::Reads,
            Self::Small => Budget::Small,
            Self::Full => Budget::Full,
        }
    }
}

const TAKES: &str = "drive learn takes a directory, a file, a device, drive:NAME or drive:FILE.toml";

/// Probes, fits, writes the twin and says what was found out.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let target = TargetSpec::resolve_as(&args.target, TAKES)?;
    if let TargetSpec::Null(_) = target {
        return Err(UsageError::new(format!("{} is not a drive that can be learned", args.target)).into());
    }
    if matches!(target, TargetSpec::Drive(_)) {
        ground::check_nothing_is_risked(&args.target, &args.safety, &args.destroy)?;
    }
    if args.resume && matches!(target, TargetSpec::Drive(_)) {
        return Err(UsageError::new("--resume is for drives that are there: a modelled one is learned at once, in a minute or two").into());
    }
    ground::check_rest(args.rest)?;
    let of = match target {
        TargetSpec::Drive(name) => Of::Modelled(Box::new(drives::load(&name)?.spec)),
        there => Of::There(there, Box::new(Below::of_path(&Root::live().context("cannot read /sys and /proc")?, Path::new(&args.target))?)),
    };
    let name = match &of {
        Of::Modelled(spec) => spec.name.clone(),
        Of::There(_, below) => twins::name(context, below),
    };
    let output = match &args.output {
        Some(output) => output.clone(),
        None => twins::file(context, &name)?,
    };
    file::check(&output, args.force)?;
    let mut watching = Watching(Progress::new(context, "learn", Counting::Items, 0));
    let (measured, kept) = match of {
        Of::Modelled(spec) => {
            let limit = args.write_limit.map(|limit| limit.of(spec.capacity_bytes));
            let measured = Measured::in_virtual_time(&spec, &args.target, args.budget.budget(), limit, args.seed, &mut watching);
            (measured.map_err(wrong)?, None)
        }
        Of::There(target, below) => {
            real::measure(args, context, *below, &target, &mut watching).map(|(measured, kept)| (measured, Some(kept)))?
        }
    };
    let fitted = measured.fitted(&InParallel, &mut watching);
    drop(watching);
    if interrupt::requested() {
        if kept.is_some() {
            context.remark("All that was measured is kept; the same command with --resume looks for drives that explain it.");
        }
        return Err(Interrupted.into());
    }
    let fitted = fitted.ok_or_else(|| UsageError::new(format!("no modelled drive explains what was measured on {}", args.target)))?;
    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let learned = measured.twin(&name, &today, &fitted);
    let twin = learned.twin.as_ref().expect("what was learned is a twin");
    let place = if args.force { Place::Replace } else { Place::New };
    let written = file::write(&output, text::file(&learned).as_bytes(), place)?;
    kept.map_or(Ok(()), |kept| kept.remove())?;
    say(twin, &measured, &fitted, &written, context)
}

/// What is learned.
enum Of {
    /// A modelled drive.
    Modelled(Box<DriveSpec>),
    /// What the user named, and the drive below it.
    There(TargetSpec, Box<Below>),
}

/// With the exit status that it has everywhere.
fn wrong(cannot: Cannot) -> anyhow::Error {
    match cannot {
        Cannot::Asked(asked) => asked.into(),
        Cannot::Drive(drive) => UsageError::new(drive.to_string()).into(),
        Cannot::Failed(failed) => failed.into(),
    }
}

/// Candidates on all processors.
struct InParallel;

impl Tries for InParallel {
    fn all(&self, candidates: &[Candidate], show: &Show<'_>) -> Vec<Option<Vec<f64>>> {
        crew::map(candidates, show)
    }
}

/// "1 figure", "12 figures".
fn figures(count: usize) -> String {
    format!("{count} figure{}", if count == 1 { "" } else { "s" })
}

/// Shows how far it is.
struct Watching(Progress);

impl Observer for Watching {
    fn tried(&mut self, candidates: u32) {
        self.0.phase("drives tried that may explain it");
        self.0.say(Vec::new);
        self.0.set(candidates.into());
    }

    fn probed(&mut self, name: &str, found: &[Observation]) {
        self.0.phase(name);
        if !found.is_empty() {
            self.0.say(|| vec![figures(found.len())]);
        }
    }

    fn stopped(&self) -> bool {
        interrupt::requested()
    }
}

fn say(twin: &Twin, measured: &Measured, fitted: &Fitted, written: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let document = json!({
        "file": written,
        "origin": twin.origin,
        "parameters": twin.parameters,
        "members": twin.members.len(),
        "members_explained": fitted.explained,
        "candidates_tried": fitted.tried,
        "candidates_left_out": fitted.rejected,
        "found": measured.observations().map(|one| json!({ "name": one.name, "probe": one.probe, "value_ns": one.value_ns })).collect::<Vec<_>>(),
    });
    context.report("twin", 1, &document, || {
        let unexplained = match twin.origin.off() {
            0..5 => String::new(),
            off => {
                format!(
                    " The best explains two of three of them to within {:.0} %; predictions are as much less certain.",
                    off as f64 / 10.0
                )
            }
        };
        let explains = twin.origin.is_explained();
        let time = if twin.origin.which.is_none() { "MODELLED, in virtual time: " } else { "" };
        let head = format!(
            "{time}{}, budget {}; {} written. {} candidates were tried, {} drives explain the figures.{unexplained}",
            figures(measured.observations().count()),
            twin.origin.budget,
            Bytes(measured.written()),
            fitted.tried,
            if explains { fitted.explained } else { 0 }
        );
        let head = if explains { head } else { format!("{head} What follows is of the nearest, and its intervals mean little.") };
        let notes: String = twin.origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
        let path = output::plain(&written.display().to_string()).into_owned();
        let end = if explains {
            format!("Written to {path}. Use it as drive:{path}")
        } else {
            format!("Written to {path}. It explains little of the drive, and what is predicted on it means little")
        };
        [prose(&head), on_screen(&parameters(&twin.parameters)), prose(LEGEND), notes, prose(&end)].concat()
    })?;
    Ok(ExitCode::SUCCESS)
}
