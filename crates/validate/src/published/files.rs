//! Published file workloads on a volume: PostMark, tree, and a trim of all free space.

use super::spec::{Configuration, ModelledFigures, PublishedData};
use anyhow::{Context as _, bail};
use std::sync::Arc;
use trimtab_drive::Device as _;
use trimtab_drive::data::DataClass;
use trimtab_drive::model::Model;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::session::runner::SilentObserver;
use trimtab_linux::sys::interrupt;
use trimtab_sim::policy::{PolicySpec, PolicyState};
use trimtab_sim::run::Phase;
use trimtab_sim::target::TrimTarget as _;
use trimtab_sim::target::{Clock as _, FileTarget as _};
use trimtab_sim::volume::{Age, SteeredVolume, Volume, WRITTEN_STEP};
use trimtab_sim::workload::postmark::{PostmarkSettings, phase as postmark};
use trimtab_sim::workload::tree::{self, TreeList};
use trimtab_study::study::job::Job;
use trimtab_study::study::scale::TREE_DATA;
use trimtab_study::study::used::FreeExtentLengths;

/// Data class of pre-existing files: programs and pictures.
const USED: DataClass = DataClass::Compressible(30);
const REST: Nanos = Nanos::from_secs(60);

/// Result key: time to delete and sync, in seconds.
pub const DELETE_AND_SYNC: &str = "delete_and_sync_s";

pub(super) type PublishedTarget = SteeredVolume<Box<dyn Model>>;

/// A new drive with a new filesystem, filled as configured.
pub fn volume(
    plan: &PublishedData,
    configuration: &Configuration,
    model: Box<dyn Model>,
    online: bool,
    seed: u64,
) -> anyhow::Result<PublishedTarget> {
    let mut spec = plan.filesystem(configuration)?;
    spec.mkfs.discard &= model.supports_trim();
    let fill = f64::from(configuration.fill_percent) / 100.0;
    let used = FreeExtentLengths::by_churn(&spec, fill, seed)?;
    let spec = if online { spec.with_online_discard() } else { spec };
    let mut volume = Volume::format(model, spec, Nanos::ZERO)?;
    if configuration.fill_percent > 0 {
        volume.age_like(
            &Age { fill, free_extent: used.mean(), class: USED, write: true, seed },
            used.lengths(),
        )?;
    }
    let rested = volume.now() + REST;
    let mut target =
        SteeredVolume::new(volume, PolicySpec::None.build(&PolicyState::default()), WRITTEN_STEP);
    target.idle_until(rested);
    Ok(target)
}

/// True if a published result was measured with online discard.
pub fn online(published: &toml::Table) -> bool {
    published.get("trim").and_then(toml::Value::as_str) == Some("online")
}

fn phases(job: &Job, target: &mut PublishedTarget) -> anyhow::Result<Vec<Phase>> {
    let recorded = job.run(target, &mut SilentObserver).complete()?;
    if interrupt::requested() {
        return Err(trimtab_linux::sys::interrupt::InterruptError.into());
    }
    Ok(recorded.phases)
}

fn seconds(phases: &[Phase], name: &str) -> anyhow::Result<f64> {
    let phase = phases
        .iter()
        .find(|phase| phase.name == name)
        .with_context(|| format!("no phase {name}"))?;
    Ok(phase.took.as_secs_f64())
}

/// PostMark phase times.
pub fn postmark(
    plan: &PublishedData,
    configuration: &Configuration,
    model: Box<dyn Model>,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let published = plan.published(configuration)?;
    let other = published
        .get("counts")
        .and_then(toml::Value::as_str)
        .and_then(|name| plan.results["postmark"].get(name));
    let subdirectories = other
        .and_then(|counts| counts.get("subdirectories"))
        .and_then(toml::Value::as_integer)
        .unwrap_or(0);
    let subdirectories = u32::try_from(subdirectories).context("subdirectories")?;
    let settings = PostmarkSettings { subdirectories, ..PostmarkSettings::published() };
    let job = Job::postmark(&settings)?;
    let mut target = volume(plan, configuration, model, online(published), seed)?;
    let phases = phases(&job, &mut target)?;
    let [create, transactions, delete] =
        [postmark::CREATE, postmark::TRANSACTIONS, postmark::DELETE]
            .map(|name| seconds(&phases, name));
    let (create, transactions, delete) = (create?, transactions?, delete?);
    Ok([
        ("create_s", create),
        ("transactions_s", transactions),
        ("delete_s", delete),
        ("total_s", create + transactions + delete),
    ]
    .into())
}

/// Times to unpack and delete a tree.
pub fn tree(
    plan: &PublishedData,
    configuration: &Configuration,
    model: Box<dyn Model>,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let files = plan.setting(configuration.of, "files")? as u64;
    let size = Bytes((plan.setting(configuration.of, "total_MB")? * 1e6) as u64);
    let list = Arc::new(TreeList::synthetic(files, size, TREE_DATA, seed)?);
    let mut target =
        volume(plan, configuration, model, online(plan.published(configuration)?), seed)?;
    let phases = phases(&Job::Tree { list, seed }, &mut target)?;
    let (unpack, unpack_sync) =
        (seconds(&phases, tree::UNPACK)?, seconds(&phases, tree::UNPACK_SYNC)?);
    let (delete, delete_sync) =
        (seconds(&phases, tree::DELETE)?, seconds(&phases, tree::DELETE_SYNC)?);
    Ok([
        ("unpack_s", unpack),
        ("sync_after_unpack_s", unpack_sync),
        ("unpack_and_sync_MBps", size.as_f64() / 1e6 / (unpack + unpack_sync)),
        ("delete_s", delete),
        ("sync_after_delete_s", delete_sync),
        (DELETE_AND_SYNC, delete + delete_sync),
    ]
    .into())
}

/// Time to trim all free space, with sequential commands as from `fstrim`.
pub fn fstrim(
    plan: &PublishedData,
    configuration: &Configuration,
    model: Box<dyn Model>,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let mut target = volume(plan, configuration, model, false, seed)?;
    target.sync()?;
    let began = target.now();
    let (outcome, _) = target.trim_all()?;
    if outcome.counted.is_none_or(|counted| counted.bytes.0 == 0) {
        bail!("the trim of {} sent nothing", configuration.name);
    }
    let took = (target.now() - began).as_secs_f64();
    Ok([("duration_s", took), ("duration", took)].into())
}
