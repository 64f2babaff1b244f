//! PostMark's operations: many small files, created, read, appended to and deleted.

use super::finish::{self, ProgressWatch};
use super::modelled;
use crate::cmd::bench::small_files::BenchPostmarkArgs;
use crate::postmark::execution::dir_options;
use crate::postmark::{check_memory, details};
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use std::path::Path;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::target::dir::{DirOptions, DirTarget, Fsync};
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::{RunEnd, RunOutcome, files};
use trimtab_sim::target::FileTarget;
use trimtab_sim::workload::FileWorkload as _;
use trimtab_sim::workload::postmark::{Postmark, PostmarkSettings, RepeatedPostmark};

/// Everything to run.
struct PostmarkJob<'a> {
    request: &'a BenchPostmarkArgs,
    settings: PostmarkSettings,
    options: DirOptions,
}

impl PostmarkJob<'_> {
    fn tries(&self) -> anyhow::Result<RepeatedPostmark> {
        let run = Postmark::new(&self.settings).map_err(|e| UsageError::new(e.to_string()))?;
        Ok(RepeatedPostmark::new(run, self.request.tries))
    }

    fn header(&self, kind: TargetKind) -> Run {
        let mut fields = details::fields(&self.settings, self.request.fsync);
        fields.push(Field::new("tries", self.request.tries.to_string()));
        starts_now(
            "postmark",
            fields,
            kind,
            &self.request.target,
            "as-mounted",
            self.settings.seed.into(),
        )
    }

    /// Runs all tries, and makes a run of the results.
    fn run<T: FileTarget>(
        &self,
        (mut tries, mut target): (RepeatedPostmark, T),
        header: Run,
        observer: Option<EnvironmentRecorder>,
        mut watch: ProgressWatch,
    ) -> (Run, RunEnd) {
        let outcome: RunOutcome = files::run(&mut tries, &mut target, &mut watch);
        drop(watch);
        let (mut run, end) = finish::assemble(header, observer, outcome, |_| Vec::new());
        details::add(&mut run, &self.settings, tries.finished());
        (run, end)
    }

    fn on_directory(
        &self,
        context: &Context,
        path: &Path,
    ) -> anyhow::Result<((Run, RunEnd), Option<Workspace>)> {
        let tries = self.tries()?;
        let plan = tries.plan();
        let (workspace, observer) =
            finish::begin(context, self.request.safety.reserve, path, "bench postmark", &plan)?;
        let (dir, dir_path) = workspace.subdirectory("run")?;
        let target = DirTarget::new(dir, &dir_path, self.options);
        let watch = ProgressWatch::new(context, "postmark", &plan, Some(workspace.guard()?));
        let header = self.header(TargetKind::Directory);
        Ok((self.run((tries, target), header, Some(observer), watch), Some(workspace)))
    }

    fn on_null(&self, context: &Context) -> anyhow::Result<(Run, RunEnd)> {
        let tries = self.tries()?;
        let watch = ProgressWatch::new(context, "postmark", &tries.plan(), None);
        Ok(self.run((tries, NullFiles::new()), self.header(TargetKind::Null), None, watch))
    }

    /// Runs in virtual time: the modelled filesystem has no system calls.
    fn on_drive(&self, context: &Context, name: &str) -> anyhow::Result<(Run, RunEnd)> {
        if self.request.fsync != Fsync::Never {
            let problem =
                "on a modelled drive, postmark runs through the page cache, without fsync";
            return Err(UsageError::new(problem).hint("leave --fsync out").into());
        }
        let mut tries = self.tries()?;
        let header = self.header(TargetKind::ModelledVolume);
        let (mut run, end) =
            modelled::run(&self.request.model, context, name, &mut tries, header, |_| Vec::new())?;
        details::add(&mut run, &self.settings, tries.finished());
        Ok((run, end))
    }

    /// The tool's own cost at full speed.
    fn overhead(&self) -> Option<Overhead> {
        let settings = PostmarkSettings { interval: None, ..self.settings.clone() };
        Some(Overhead::of_files(&mut Postmark::new(&settings).ok()?, None))
    }
}

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchPostmarkArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&request.target)?;
    request.model.check(&spec)?;
    let settings = request.workload.settings();
    settings.check().map_err(|error| UsageError::new(error.to_string()))?;
    let options = DirOptions { fsync: request.fsync, ..dir_options(&settings) };
    check_memory(&settings)?;
    let job = PostmarkJob { request, settings, options };
    let ((mut run, end), workspace) = match &spec {
        TargetSpec::Directory(path) => job.on_directory(context, path)?,
        TargetSpec::Drive(name) => (job.on_drive(context, name)?, None),
        TargetSpec::Null(_) => (job.on_null(context)?, None),
        other => {
            return Err(other
                .refused(format!("the postmark workload needs a directory, but {other} is not one"))
                .into());
        }
    };
    if matches!(spec, TargetSpec::Directory(_))
        && end == RunEnd::Complete
        && let Some(overhead) = job.overhead()
    {
        overhead.note(&mut run);
    }
    finish::clean_up(workspace, finish::conclude(context, &run, end))
}
