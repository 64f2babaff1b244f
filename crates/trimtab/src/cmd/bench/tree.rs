//! `trimtab bench tree [TARGET]`.

pub mod archive;

use super::finish::{self, Watch};
use super::modelled::{self, Job, ModelArgs};
use super::turns::AgainstArgs;
use crate::cmd::options::SafetyArgs;
use crate::store::recipe::starts_now;
use crate::store::{self, Reference, RunId};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::Observer;
use trimtab_linux::output::Context;
use trimtab_linux::session::discard_option::Discard;
use trimtab_linux::session::safety::names::ARCHIVE;
use trimtab_linux::session::safety::{self, Workspace};
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Field, Run, Severity, TargetKind, Warning};
use trimtab_sim::runner::header::Header;
use trimtab_sim::runner::{End, Outcome, files};
use trimtab_sim::workload::FileWorkload as _;
use trimtab_sim::workload::tree::{self, DEFAULT_FILES, DEFAULT_SIZE, Tree, TreeList};
use trimtab_study::study::policy;
use trimtab_study::study::policy_events::PolicyEvents;

/// Unpack a source tree, sync, delete it, sync; each timed apart.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The default tree has 36,706 files and 493 MB (10^6 bytes) in the shape of a kernel source tree; see docs/method/tree.md.

Examples:
  trimtab bench tree /mnt/ssd
  trimtab bench tree --tries 5 --tar linux-6.1.tar.xz /mnt/ssd
  trimtab bench tree --files 3670 --size 49MB .
  mount -o remount,discard /mnt/ssd && trimtab bench tree --baseline last /mnt/ssd")]
pub struct Args {
    /// A directory on the filesystem to measure, drive:NAME for a modelled drive, or null: for the tool's own cost.
    #[arg(default_value = ".")]
    pub(super) target: String,
    /// Repeat this often.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    tries: u32,
    /// Give the ratio of deleting and syncing to that of this earlier run: first digits of its id, last, last~1.
    #[arg(long, value_name = "RUN")]
    baseline: Option<Reference>,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    pub(super) against: AgainstArgs,
    #[command(flatten)]
    safety: SafetyArgs,
}

/// Which tree.
#[derive(Debug, Clone, clap::Args)]
pub struct SourceArgs {
    /// Unpack this archive (tar; plain or compressed by gzip, xz or zstd). It is read into memory first.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "size", "data"])]
    tar: Option<PathBuf>,
    /// Files of the synthetic tree.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_FILES)]
    files: u64,
    /// Bytes of the synthetic tree, in all [default: 493MB, or in proportion to --files].
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// What its data is like: random, zero, text or a share that compresses, such as 40%.
    #[arg(long, value_name = "CLASS", default_value = "68%")]
    data: DataClass,
    /// Seed of its shape and data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// A tree, and how it is described in results.
#[derive(Debug, Clone)]
pub struct Source {
    /// The tree.
    pub list: Arc<TreeList>,
    /// Its settings.
    pub settings: Vec<Field>,
    /// Entries of an archive that are neither files nor directories.
    pub skipped: u64,
    /// Seed.
    pub seed: u64,
}

impl SourceArgs {
    /// Makes or reads the tree.
    pub fn load(&self) -> anyhow::Result<Source> {
        let (list, name, skipped) = match &self.tar {
            Some(path) => {
                let archive = archive::read(path)?;
                (archive.list, path.display().to_string(), archive.skipped)
            }
            None => {
                let in_proportion = u128::from(DEFAULT_SIZE.0) * u128::from(self.files) / u128::from(DEFAULT_FILES);
                let size = self.size.unwrap_or(Bytes(u64::try_from(in_proportion).unwrap_or(u64::MAX)));
                let list =
                    TreeList::synthetic(self.files, size, self.data, self.seed).map_err(|error| UsageError::new(error.to_string()))?;
                (list, "synthetic".to_owned(), 0)
            }
        };
        let settings = vec![
            Field::new("tree", name),
            Field::new("files", list.files().to_string()),
            Field::new("directories", list.dirs().to_string()),
            Field::new("bytes", list.size().0.to_string()),
            Field::new("data", list.class().to_string()),
        ];
        Ok(Source { list: Arc::new(list), settings, skipped, seed: self.seed })
    }

    /// The class of the data that the target has to make; `None` for an archive.
    pub fn made(&self) -> Option<DataClass> {
        self.tar.is_none().then_some(self.data)
    }
}

/// Runs it and reports.
pub fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&args.target)?;
    args.model.check(&spec)?;
    // Before anything takes time: a baseline that is none should not cost a run.
    let baseline = args.baseline.as_ref().map(|reference| load_baseline(context, reference)).transpose()?;
    let source = args.source.load()?;
    if source.skipped > 0 {
        context.remark(&format!("{} entries of the archive that are neither files nor directories are left out", source.skipped));
    }
    let workload = Tree::new(Arc::clone(&source.list), args.tries);
    let ((mut run, end), workspace) = match &spec {
        TargetSpec::Directory(path) => on_directory(args, context, &source, workload.clone(), path)?,
        TargetSpec::Drive(name) => {
            let header = header(args, &source, TargetKind::ModelledVolume);
            let job = Job { target: &args.target, workload_name: "tree", workload: &mut workload.clone(), header, metrics: tree::metrics };
            (modelled::run(&args.model, context, name, job)?, None)
        }
        TargetSpec::Null(_) => (on_null(args, context, &source, workload.clone()), None),
        other => {
            return Err(UsageError::new(format!("the tree workload needs a directory, and {other} is none")).into());
        }
    };
    if spec_is_real(&spec) && end == End::Complete {
        Overhead::of_files(&mut Tree::new(source.list, 1), args.source.made()).note(&mut run);
    }
    if let Some((id, baseline)) = &baseline {
        compare(&mut run, *id, baseline);
    }
    finish::clean_up(context, workspace, finish::conclude(context, &run, end))
}

fn load_baseline(context: &Context, reference: &Reference) -> anyhow::Result<(RunId, Run)> {
    let store = store::open_to_read(context)?
        .ok_or_else(|| anyhow::anyhow!("there is no earlier run to compare with; run it without that option first"))?;
    let id = store.find(reference)?;
    let run = store.load(id)?;
    if run.workload != "tree" {
        return Err(UsageError::new(format!("the baseline {} is a {} run, not a tree run", id.short(), run.workload)).into());
    }
    Ok((id, run))
}

/// Adds the ratios to the mean of the baseline's tries, and a warning if the two did not do the same.
fn compare(run: &mut Run, id: RunId, baseline: &Run) {
    run.settings.push(Field::new("baseline", id.to_string()));
    let different: Vec<Field> = run
        .settings
        .iter()
        .filter(|field| ["files", "directories", "bytes", "data"].contains(&field.key.as_str()))
        .filter(|field| !baseline.settings.contains(field))
        .cloned()
        .collect();
    if !different.is_empty() {
        let keys: Vec<&str> = different.iter().map(|field| field.key.as_str()).collect();
        let text = format!("the baseline {} unpacked another tree (different: {}); the ratios mean little", id.short(), keys.join(", "));
        run.warnings.push(Warning { code: "baseline.differs".to_owned(), severity: Severity::Serious, facts: different, text });
    }
    run.metrics.extend(tree::ratios(&run.metrics, &baseline.metrics));
}

fn spec_is_real(spec: &TargetSpec) -> bool {
    matches!(spec, TargetSpec::Directory(_))
}

fn header(args: &Args, source: &Source, kind: TargetKind) -> Header {
    let mut settings = source.settings.clone();
    settings.push(Field::new("tries", args.tries.to_string()));
    starts_now("tree", settings, kind, &args.target, "as-mounted", source.seed)
}

fn on_directory(
    args: &Args,
    context: &Context,
    source: &Source,
    mut workload: Tree,
    path: &Path,
) -> anyhow::Result<((Run, End), Option<Workspace>)> {
    let workspace = safety::prepare(context, args.safety.reserve, path, "bench tree", &workload.plan())?;
    let observer = Observer::start(path).with_context(|| format!("cannot look at {}", path.display()))?;
    workspace.require_on(observer.place().mount.as_ref())?;
    let name = if args.source.tar.is_some() { ARCHIVE } else { "run" };
    let (dir, dir_path) = workspace.subdirectory(name)?;
    let options = DirOptions { seed: source.seed, ..DirOptions::default() };
    let mut target = MountedDir::new(DirTarget::new(dir, &dir_path, options));
    let mut header = header(args, source, TargetKind::Directory);
    let discard = observer.place().mount.as_ref().map(Discard::of);
    header.policy_settings.extend(discard.iter().map(|discard| Field::new(policy::DISCARD, discard.to_string())));
    let online = discard.is_some_and(|discard| discard.is_on());
    let mut watch = Watch::new(context, "tree", &workload.plan(), Some(workspace.guard()?));
    let mut events = PolicyEvents { inner: &mut watch, policy: policy::AS_MOUNTED, trim_before: false, online };
    let outcome = files::run(&mut workload, &mut target, &mut events);
    drop(watch);
    let assembled = finish::assemble(header, Some(observer), outcome, tree::metrics);
    Ok((assembled, Some(workspace)))
}

fn on_null(args: &Args, context: &Context, source: &Source, mut workload: Tree) -> (Run, End) {
    let header = header(args, source, TargetKind::Null);
    let mut watch = Watch::new(context, "tree", &workload.plan(), None);
    let outcome: Outcome = files::run(&mut workload, &mut NullFiles::new(), &mut watch);
    finish::assemble(header, None, outcome, tree::metrics)
}
