//! A source tree: unpacked, synced, deleted, synced, with each step timed.

pub mod archive;

use super::finish::{self, ProgressWatch};
use super::modelled;
use crate::cmd::bench::tree::{BenchTreeArgs, SourceArgs};
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use trimtab_drive::data::DataClass;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::session::safety::names::ARCHIVE;
use trimtab_linux::target::dir::{DirOptions, DirTarget};
use trimtab_linux::target::mounted::MountedDir;
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::{RunEnd, RunOutcome, files};
use trimtab_sim::workload::FileWorkload as _;
use trimtab_sim::workload::tree::{self, DEFAULT_FILES, DEFAULT_SIZE, Tree, TreeList};
use trimtab_study::study::policy;
use trimtab_study::study::policy_events::PolicyEvents;

/// A tree with its description for results.
#[derive(Debug, Clone)]
pub struct TreeSource {
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
    /// Generates or reads the tree.
    pub fn load(&self) -> anyhow::Result<TreeSource> {
        let (list, name, skipped) = match &self.tar {
            Some(path) => {
                let archive = archive::read(path)?;
                (archive.list, path.display().to_string(), archive.skipped)
            }
            None => {
                let in_proportion =
                    u128::from(DEFAULT_SIZE.0) * u128::from(self.files) / u128::from(DEFAULT_FILES);
                let size =
                    self.size.unwrap_or(Bytes(u64::try_from(in_proportion).unwrap_or(u64::MAX)));
                let list = TreeList::synthetic(self.files, size, self.data, self.seed)
                    .map_err(|error| UsageError::new(error.to_string()))?;
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
        Ok(TreeSource { list: Arc::new(list), settings, skipped, seed: self.seed })
    }

    /// The class of the generated data; `None` for an archive.
    pub fn made(&self) -> Option<DataClass> {
        self.tar.is_none().then_some(self.data)
    }
}

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchTreeArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&request.target)?;
    request.model.check(&spec)?;
    let source = request.source.load()?;
    if source.skipped > 0 {
        context.remark(&format!(
            "{} entries of the archive that are neither files nor directories are skipped",
            source.skipped
        ));
    }
    let workload = Tree::new(Arc::clone(&source.list), request.tries);
    let ((mut run, end), workspace) = match &spec {
        TargetSpec::Directory(path) => {
            on_directory(request, context, &source, workload.clone(), path)?
        }
        TargetSpec::Drive(name) => {
            let header = header(request, &source, TargetKind::ModelledVolume);
            (
                modelled::run(
                    &request.model,
                    context,
                    name,
                    &mut workload.clone(),
                    header,
                    tree::metrics,
                )?,
                None,
            )
        }
        TargetSpec::Null(_) => (on_null(request, context, &source, workload.clone()), None),
        other => {
            return Err(other
                .refused(format!("the tree workload needs a directory, but {other} is not one"))
                .into());
        }
    };
    if matches!(spec, TargetSpec::Directory(_)) && end == RunEnd::Complete {
        Overhead::of_files(&mut Tree::new(source.list, 1), request.source.made()).note(&mut run);
    }
    finish::clean_up(workspace, finish::conclude(context, &run, end))
}

fn header(request: &BenchTreeArgs, source: &TreeSource, kind: TargetKind) -> Run {
    let mut settings = source.settings.clone();
    settings.push(Field::new("tries", request.tries.to_string()));
    starts_now("tree", settings, kind, &request.target, "as-mounted", source.seed)
}

fn on_directory(
    request: &BenchTreeArgs,
    context: &Context,
    source: &TreeSource,
    mut workload: Tree,
    path: &Path,
) -> anyhow::Result<((Run, RunEnd), Option<Workspace>)> {
    let (workspace, observer) =
        finish::begin(context, request.safety.reserve, path, "bench tree", &workload.plan())?;
    let name = if request.source.tar.is_some() { ARCHIVE } else { "run" };
    let (dir, dir_path) = workspace.subdirectory(name)?;
    let options = DirOptions { seed: source.seed, ..DirOptions::default() };
    let mut target = MountedDir::new(DirTarget::new(dir, &dir_path, options));
    let mut header = header(request, source, TargetKind::Directory);
    let online = finish::note_discard(&mut header, &observer);
    let mut watch = ProgressWatch::new(context, "tree", &workload.plan(), Some(workspace.guard()?));
    let mut events =
        PolicyEvents { inner: &mut watch, policy: policy::AS_MOUNTED, trim_before: false, online };
    let outcome = files::run(&mut workload, &mut target, &mut events);
    drop(watch);
    let assembled = finish::assemble(header, Some(observer), outcome, tree::metrics);
    Ok((assembled, Some(workspace)))
}

fn on_null(
    request: &BenchTreeArgs,
    context: &Context,
    source: &TreeSource,
    mut workload: Tree,
) -> (Run, RunEnd) {
    let header = header(request, source, TargetKind::Null);
    let mut watch = ProgressWatch::new(context, "tree", &workload.plan(), None);
    let outcome: RunOutcome = files::run(&mut workload, &mut NullFiles::new(), &mut watch);
    finish::assemble(header, None, outcome, tree::metrics)
}
