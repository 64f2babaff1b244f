//! PostMark's operations: many small files, created, read, appended to and deleted.

use super::finish::{self, ProgressWatch};
use super::modelled;
use crate::cmd::bench::small_files::BenchPostmarkArgs;
use crate::postmark::execution::dir_options;
use crate::postmark::{details, memory};
use crate::store::recipe::starts_now;
use crate::target_spec::TargetSpec;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::output::Context;
use trimtab_linux::session::runner::together;
use trimtab_linux::session::safety::Workspace;
use trimtab_linux::target::dir::{DirOptions, DirTarget, Fsync};
use trimtab_linux::target::null::NullFiles;
use trimtab_linux::target::overhead::Overhead;
use trimtab_sim::run::{Field, Run, TargetKind};
use trimtab_sim::runner::{RunEnd, RunOutcome};
use trimtab_sim::target::FileTarget;
use trimtab_sim::workload::postmark::{
    Postmark, PostmarkCounts, PostmarkSettings, RepeatedPostmark,
};
use trimtab_sim::workload::{FileWorkload as _, WorkloadPlan};

/// Everything to run.
struct PostmarkJob<'a> {
    request: &'a BenchPostmarkArgs,
    settings: PostmarkSettings,
    options: DirOptions,
}

impl PostmarkJob<'_> {
    fn streams(&self) -> anyhow::Result<Vec<RepeatedPostmark>> {
        let stream = |index| {
            Postmark::new(&self.settings.stream(index))
                .map(|run| RepeatedPostmark::new(run, self.request.tries))
        };
        let streams: Result<_, _> = (0..self.request.workload.threads).map(stream).collect();
        streams.map_err(|error| UsageError::new(error.to_string()).into())
    }

    fn header(&self, kind: TargetKind) -> Run {
        let mut fields = details::fields(
            &self.settings,
            self.request.fsync,
            self.request.direct,
            self.request.workload.threads,
        );
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

    /// Runs the streams, and makes a run of the results.
    fn run<T: FileTarget + Send>(
        &self,
        mut streams: Vec<(RepeatedPostmark, T)>,
        header: Run,
        observer: Option<EnvironmentRecorder>,
        mut watch: ProgressWatch,
    ) -> (Run, RunEnd) {
        let outcome: RunOutcome = together::run(&mut streams, &mut watch);
        drop(watch);
        let (mut run, end) = finish::assemble(header, observer, outcome, |_| Vec::new());
        let counts: Vec<&[PostmarkCounts]> =
            streams.iter().map(|(tries, _)| tries.finished()).collect();
        details::add(&mut run, &self.settings, &counts);
        (run, end)
    }

    fn on_directory(
        &self,
        context: &Context,
        path: &Path,
    ) -> anyhow::Result<((Run, RunEnd), Option<Workspace>)> {
        let streams = self.streams()?;
        let plan = sum(&streams);
        let (workspace, observer) =
            finish::begin(context, self.request.safety.reserve, path, "bench postmark", &plan)?;
        let epoch = Instant::now();
        let mut targets = Vec::new();
        for (index, tries) in streams.into_iter().enumerate() {
            let (dir, dir_path) = workspace.subdirectory(&format!("stream{index}"))?;
            targets.push((tries, DirTarget::new(dir, &dir_path, self.options).with_epoch(epoch)));
        }
        let watch = ProgressWatch::new(context, "postmark", &plan, Some(workspace.guard()?));
        let done = self.run(targets, self.header(TargetKind::Directory), Some(observer), watch);
        Ok((done, Some(workspace)))
    }

    fn on_null(&self, context: &Context) -> anyhow::Result<(Run, RunEnd)> {
        let streams = self.streams()?;
        let watch = ProgressWatch::new(context, "postmark", &sum(&streams), None);
        let targets = streams.into_iter().map(|tries| (tries, NullFiles::new())).collect();
        Ok(self.run(targets, self.header(TargetKind::Null), None, watch))
    }

    /// Runs one stream in virtual time: the modelled filesystem has neither system calls
    /// nor threads.
    fn on_drive(&self, context: &Context, name: &str) -> anyhow::Result<(Run, RunEnd)> {
        if self.request.workload.threads > 1
            || self.request.direct
            || self.request.fsync != Fsync::Never
        {
            let problem = "on a modelled drive, postmark has one stream, through the page cache, \
                without fsync";
            return Err(UsageError::new(problem)
                .hint("leave --threads, --direct and --fsync out")
                .into());
        }
        let [mut tries] = <[RepeatedPostmark; 1]>::try_from(self.streams()?)
            .expect("exactly one stream was requested");
        let header = self.header(TargetKind::ModelledVolume);
        let (mut run, end) =
            modelled::run(&self.request.model, context, name, &mut tries, header, |_| Vec::new())?;
        details::add(&mut run, &self.settings, &[tries.finished()]);
        Ok((run, end))
    }

    /// The tool's own cost in one stream at full speed.
    fn overhead(&self) -> Option<Overhead> {
        let settings = PostmarkSettings { interval: None, ..self.settings.clone() };
        Some(Overhead::of_files(&mut Postmark::new(&settings).ok()?, None))
    }
}

fn sum(streams: &[RepeatedPostmark]) -> WorkloadPlan {
    streams.iter().map(RepeatedPostmark::plan).fold(
        WorkloadPlan { ops: Some(0), ..WorkloadPlan::default() },
        |sum, plan| WorkloadPlan {
            written: sum.written.saturating_add(plan.written),
            space: sum.space.saturating_add(plan.space),
            ops: sum.ops.zip(plan.ops).map(|(a, b)| a.saturating_add(b)),
        },
    )
}

/// Runs the benchmark and prints the report.
pub fn run(request: &BenchPostmarkArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let spec = TargetSpec::resolve(&request.target)?;
    request.model.check(&spec)?;
    let settings = request.workload.settings();
    settings.check().map_err(|error| UsageError::new(error.to_string()))?;
    let options =
        DirOptions { fsync: request.fsync, direct: request.direct, ..dir_options(&settings) };
    options.check().map_err(UsageError::new)?;
    memory::check(&settings, request.workload.threads)?;
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
    finish::clean_up(context, workspace, finish::conclude(context, &run, end))
}
