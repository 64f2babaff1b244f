//! File workloads on the modelled filesystem of a modelled drive, in virtual time.

use super::finish::{self, ProgressWatch};
use crate::cmd::options::ModelArgs;
use crate::drives;
use crate::store::recipe;
use crate::target_spec::TargetSpec;
use trimtab_drive::data::DataClass;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::run::{Metric, Phase, Run};
use trimtab_sim::runner::{RunEnd, files};
use trimtab_sim::simulate::worn_out;
use trimtab_sim::workload::FileWorkload;
use trimtab_study::study::modelled::{Setup, describe, volume_named};
use trimtab_study::study::policy_events::PolicyEvents;
use trimtab_study::study::used::FreeExtentLengths;

impl ModelArgs {
    /// Refuses these options for other targets, where they would have no effect.
    ///
    /// # Errors
    /// An option is given, but `spec` is not a modelled drive.
    pub fn check(&self, spec: &TargetSpec) -> Result<(), UsageError> {
        let given = [
            ("--trim", self.trim.is_some()),
            ("--filesystem", self.filesystem.is_some()),
            ("--fill", self.fill.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) if !matches!(spec, TargetSpec::Drive(_)) => Err(UsageError::new(
                format!("{option} is for modelled drives, but {spec} is not one"),
            )
            .hint("'trimtab study DIR' tries trim policies on a real filesystem")),
            _ => Ok(()),
        }
    }

    /// The drive `name` with its filesystem, named `target` by the user; and the policy.
    ///
    /// # Errors
    /// There is no such drive.
    pub fn setup(
        &self,
        name: &str,
        target: &str,
        seed: u64,
    ) -> anyhow::Result<(Setup, PolicySpec)> {
        let volume = volume_named(self.filesystem.as_deref().unwrap_or("ext4"));
        let fill = f64::from(self.fill.unwrap_or(0)) / 100.0;
        let setup = Setup {
            drive: drives::load(name)?,
            label: target.to_owned(),
            used: FreeExtentLengths::by_churn(&volume, fill, seed)?,
            volume,
            fill,
            fill_class: DataClass::Compressible(30),
            seed,
        };
        Ok((setup, self.trim.unwrap_or(PolicySpec::None)))
    }
}

/// A header with the policy in it.
pub fn under(mut header: Run, policy: &PolicySpec) -> Run {
    policy.name().clone_into(&mut header.policy);
    header.policy_settings = policy.settings();
    header
}

/// Runs the workload of `header`, which names no policy, on the drive `name`; `metrics`
/// computes the figures.
pub fn run<W: FileWorkload>(
    options: &ModelArgs,
    context: &Context,
    name: &str,
    workload: &mut W,
    header: Run,
    metrics: fn(&[Phase]) -> Vec<Metric>,
) -> anyhow::Result<(Run, RunEnd)> {
    let (setup, policy) = options.setup(name, &header.target_label, header.seed)?;
    let header = under(header, &policy);
    let mut target = setup.make(&policy, &PolicyState::default())?;
    let mut watch = ProgressWatch::new(context, &header.workload, &workload.plan(), None);
    let online = matches!(policy, PolicySpec::Online);
    let mut events =
        PolicyEvents { inner: &mut watch, policy: policy.name(), trim_before: false, online };
    let outcome = worn_out::conclude(
        files::run(workload, &mut target, &mut events),
        target.volume().drive().as_ref(),
    );
    drop(watch);
    let (mut run, end) = finish::assemble(header, None, outcome, metrics);
    recipe::note_drive(&mut run, &setup.drive);
    describe(&mut run, &setup, &target);
    Ok((run, end))
}
