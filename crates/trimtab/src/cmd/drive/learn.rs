//! `trimtab drive learn`.

mod real;

use super::show::parameters;
use crate::cmd::options::{DestroyArgs, SafetyArgs};
use crate::drives::{self, model, twin, twins};
use crate::host::below::Below;
use crate::host::root::Root;
use crate::output::lines::prose;
use crate::output::progress::{Counting, Progress};
use crate::output::{self, Context};
use crate::report::file::{self, Place};
use crate::report::layout::on_screen;
use crate::sys::interrupt::{self, Interrupted};
use crate::target::TargetSpec;
use anyhow::Context as _;
use rayon::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_core::drive::spec::twin::{Origin, Twin};
use trimtab_core::drive::spec::{DriveSpec, IDENTIFIER_MAX};
use trimtab_core::learn::candidate::Candidate;
use trimtab_core::learn::fit::{self, Fitted, MISFIT_MAX, Tries, shown};
use trimtab_core::learn::lab::Lab;
use trimtab_core::learn::probes::{self, AREA_MIN, AREA_WRITES, DEPTH_MAX, Findings, Plan};
use trimtab_core::learn::{self, Budget, Observation, Observer, Reported, summary};
use trimtab_core::target::drive::DriveTarget;
use trimtab_core::units::{Bytes, Nanos, three_digits};
use trimtab_core::usage::UsageError;

/// Arguments of `trimtab drive learn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab drive learn /mnt/ssd                                 through a file of its own there, which is removed
  trimtab drive learn --budget reads /dev/nvme0n1              reads only; as root, or whoever may read the device
  trimtab drive learn --budget reads ~/large-file
  trimtab drive learn /dev/sdb --destroy /dev/sdb              also what TRIMs cost; everything on the device is destroyed
  trimtab drive learn drive:sata-tlc-500gb --output twin.toml
  trimtab drive show ./twin.toml
  trimtab study drive:./twin.toml

A real drive is probed in three rounds, to see how much figures scatter; what others did meanwhile is said, and such rounds are made again. Through a \
filesystem no TRIM is probed. A modelled drive is probed in virtual time, and nothing that its specification says is used but what any drive says of \
itself (its capacity, its queue, the limits of its TRIM).")]
pub struct Args {
    /// A directory on the drive, a large file on it or the device itself; drive:NAME or drive:FILE.toml for a modelled drive.
    target: String,
    /// How much is probed.
    #[arg(long, value_enum, default_value_t = BudgetArg::Small)]
    budget: BudgetArg,
    /// Most bytes that the probes write [default: 1 % of the drive, 4 GB at most].
    #[arg(long, value_name = "SIZE")]
    write_limit: Option<Bytes>,
    /// For how long a real drive is left alone before it is read.
    #[arg(long, value_name = "TIME", default_value = "8s")]
    rest: Nanos,
    /// Begin no further round on a real drive after this long.
    #[arg(long, value_name = "TIME", default_value = "10min")]
    time: Nanos,
    /// Where the twin is written [default: NAME.toml in the directory 'twins' beside the store of results, where 'drive list' and 'study' find it].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over an older file.
    #[arg(long)]
    force: bool,
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
}

impl BudgetArg {
    const fn budget(self) -> Budget {
        match self {
            Self::Reads => Budget::Reads,
            Self::Small => Budget::Small,
        }
    }
}

/// What was measured, and of what.
struct Measured {
    plan: Plan,
    found: Findings,
    /// What the drive calls itself.
    model: String,
    firmware: Option<String>,
    /// What was noticed.
    notes: Vec<String>,
}

const TAKES: &str = "drive learn takes a directory, a file, a device, drive:NAME or drive:FILE.toml";

/// Probes, fits, writes the twin and says what was found out.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let target = TargetSpec::resolve_as(&args.target, TAKES)?;
    let modelled = if let TargetSpec::Drive(name) = &target { Some(drives::load(name)?.spec) } else { None };
    let name = match &modelled {
        Some(spec) => spec.name.clone(),
        None => identifier(&Below::of_path(&Root::live()?, Path::new(&args.target))?.model),
    };
    let output = match &args.output {
        Some(output) => output.clone(),
        None => twins::file(context, &name)?,
    };
    file::check(&output, args.force)?;
    let mut watching = Watching(Progress::new(context, "learn", Counting::Items, 0));
    let measured = match &modelled {
        Some(spec) => in_virtual_time(args, spec, &mut watching)?,
        None => real::measure(args, context, &target, &mut watching)?,
    };
    let fitted = fit::fit(&measured.found, &measured.plan, &InParallel, &mut watching);
    drop(watching);
    if interrupt::requested() {
        return Err(Interrupted.into());
    }
    let fitted = fitted.ok_or_else(|| UsageError::new(format!("no modelled drive explains what was measured on {}", args.target)))?;
    let learned = Learned::new(&name, &measured, &fitted);
    let place = if args.force { Place::Replace } else { Place::New };
    let written = file::write(&output, twin::text(&learned.spec, &learned.twin).as_bytes(), place)?;
    say(&learned, &measured.found, &fitted, &written, context)
}

/// Something that can name a drive, from what one calls itself.
fn identifier(model: &str) -> String {
    let plain = |byte: char| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { '-' };
    let words: Vec<String> = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().map(plain).collect())
        .collect();
    let mut name = words.join("-");
    name.truncate(IDENTIFIER_MAX - "twin-of-".len());
    if name.is_empty() { "drive".to_owned() } else { name }
}

fn in_virtual_time(args: &Args, spec: &DriveSpec, watching: &mut Watching) -> anyhow::Result<Measured> {
    let reported = Reported::of(spec).ok_or_else(|| UsageError::new(format!("{} is a disk, which has no twin", args.target)))?;
    let limit = args.write_limit.map_or_else(|| Plan::write_limit(spec.capacity_bytes), |limit| limit.0);
    let plan =
        Plan::new(args.budget.budget(), reported, limit, args.seed).ok_or_else(|| unlearnable(args, limit, AREA_MIN * AREA_WRITES))?;
    let drive = model::build(spec, plan.seed).map_err(|error| UsageError::new(error.to_string()))?;
    let mut target = DriveTarget::new(drive, DEPTH_MAX);
    probes::there_already(&mut Lab::new(&mut target), &plan)?;
    let found = learn::probe(&mut target, &plan, watching)?;
    Ok(Measured { plan, found, model: format!("drive:{}", spec.name), firmware: None, notes: Vec::new() })
}

/// Where `limit` is less than the least that has to be written.
fn unlearnable(args: &Args, limit: u64, least: u64) -> UsageError {
    let what = format!("with {} to be written nothing can be learned of {}", Bytes(limit), args.target);
    UsageError::new(what).hint(format!("--write-limit {}MiB is the least, on a drive of twice that", least >> 20))
}

/// Candidates on all processors.
struct InParallel;

impl Tries for InParallel {
    fn all(&self, candidates: &[Candidate], plan: &Plan) -> Vec<Option<Vec<f64>>> {
        candidates.par_iter().map(|candidate| shown(candidate, plan)).collect()
    }
}

/// Shows how far it is.
struct Watching(Progress);

impl Observer for Watching {
    fn tried(&mut self, candidates: u32) {
        self.0.set(candidates.into());
    }

    fn probed(&mut self, name: &str, found: &[Observation]) {
        self.0.phase(name);
        if !found.is_empty() {
            self.0.say(|| vec![format!("{} figures", found.len())]);
        }
    }

    fn stopped(&self) -> bool {
        interrupt::requested()
    }
}

/// A twin with its specification.
struct Learned {
    spec: DriveSpec,
    twin: Twin,
}

impl Learned {
    fn new(name: &str, measured: &Measured, fitted: &Fitted) -> Self {
        let Measured { plan, found, model, firmware, notes } = measured;
        let mut twin = format!("twin-of-{name}");
        twin.truncate(IDENTIFIER_MAX);
        let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let description = format!("Twin of {name}, learned by probes ({} budget)", plan.budget.name());
        let of = |candidate: &Candidate| candidate.spec(&twin, &description, &plan.reported);
        let odd = fitted.odd.iter().map(|(one, shown)| {
            format!(
                "{}: found {}, the twin shows {}; no drive was found that shows both this and the rest",
                one.name,
                time(one.value_ns),
                time(*shown)
            )
        });
        let origin = Origin {
            model: model.clone(),
            firmware: firmware.clone(),
            learned: today,
            budget: plan.budget.name().to_owned(),
            seed: plan.seed,
            written_bytes: found.written,
            misfit_permille: (fitted.misfit * 1000.0).round() as u64,
            notes: doubts(fitted).into_iter().chain(notes.iter().cloned()).chain(odd).collect(),
        };
        // A drive that could not be is none that explains anything.
        let members = fitted.members.iter().map(of).filter(|spec| spec.validate().is_ok()).collect();
        let twin = Twin { origin, parameters: summary::parameters(fitted, plan), members };
        Self { spec: of(&fitted.best), twin }
    }
}

/// Why the ensemble says less than it seems to.
fn doubts(fitted: &Fitted) -> Vec<String> {
    let mut doubts = Vec::new();
    if fitted.misfit > MISFIT_MAX {
        doubts.push(format!(
            "no drive was found that explains the figures: the nearest is off by {} times what they may be off by; its intervals mean little, and a larger --write-limit may help",
            three_digits(fitted.misfit.sqrt())
        ));
    }
    let (explained, members) = (fitted.explained as usize, fitted.members.len());
    if explained < members {
        doubts.push(format!(
            "only {explained} of {members} members are drives of their own; the others are these again, or the nearest, with other properties that no probe sees"
        ));
    }
    doubts
}

fn time(ns: f64) -> String {
    if ns < 1000.0 { format!("{ns:.2} ns") } else { Nanos(ns.round() as u64).to_string() }
}

fn say(learned: &Learned, found: &Findings, fitted: &Fitted, written: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    let Learned { twin, .. } = learned;
    let document = json!({
        "file": written,
        "origin": twin.origin,
        "parameters": twin.parameters,
        "members": twin.members.len(),
        "members_explained": fitted.explained,
        "candidates_tried": fitted.tried,
        "candidates_left_out": fitted.rejected,
        "found": found.observations.iter().map(|one| json!({ "name": one.name, "probe": one.probe, "value_ns": one.value_ns })).collect::<Vec<_>>(),
    });
    context.report("twin", 1, &document, || {
        let head = format!(
            "{} figures, budget {}; {} written. {} candidates were tried, {} drives explain the figures.",
            found.observations.len(),
            twin.origin.budget,
            Bytes(found.written),
            fitted.tried,
            if fitted.misfit > MISFIT_MAX { 0 } else { fitted.explained }
        );
        let notes: String = twin.origin.notes.iter().map(|note| prose(&format!("Noticed: {note}."))).collect();
        let path = output::plain(&written.display().to_string()).into_owned();
        let end = format!("Written to {path}. Use it as drive:{path}");
        [prose(&head), on_screen(&parameters(&twin.parameters)), notes, prose(&end)].concat()
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ensemble_that_explains_little_says_so() {
        let spec = drives::load("sata-tlc-500gb").unwrap().spec;
        let reported = Reported::of(&spec).unwrap();
        let best = learn::invert::invert(&Findings::default(), &Plan::new(Budget::Small, reported, 1 << 30, 1).unwrap());
        let fitted = |misfit, explained| Fitted {
            members: vec![best.clone(); 64],
            best: best.clone(),
            explained,
            misfit,
            learned: [0.0; trimtab_core::learn::candidate::NUMBERS],
            odd: Vec::new(),
            tried: 1,
            rejected: 0,
        };
        assert_eq!(doubts(&fitted(1.0, 64)), [""; 0]);
        assert!(doubts(&fitted(1.0, 3))[0].starts_with("only 3 of 64 members"));
        // Figures that are off by three times what they may be off by, on average.
        assert!(doubts(&fitted(9.0, 0))[0].contains("off by 3.00 times"));
    }
}
