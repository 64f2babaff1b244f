//! Published block workloads on a file: random writes before and after a drive was used.

use super::files::{self, PublishedTarget};
use super::spec::{Configuration, ModelledFigures, PublishedData};
use trimtab_drive::data::DataClass;
use trimtab_drive::model::Model;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::session::runner::SilentObserver;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_sim::op::Payload;
use trimtab_sim::target::TrimTarget as _;
use trimtab_sim::target::{Clock as _, FileTarget as _};
use trimtab_sim::volume::FileBlocks;
use trimtab_sim::workload::age::{Age, AgeSettings};
use trimtab_sim::workload::crystal::figures::rate;
use trimtab_sim::workload::synthetic::{Mix, Pattern, Synthetic, SyntheticSettings as Writes};
use trimtab_sim::workload::{BlockWorkload, Limit};

const TEST_NAME: &str = "test-file";
/// Size of the random-write file, whose creation is not documented.
const AGEING_FILE: Bytes = Bytes(1 << 30);
const AGEING_TIME: Nanos = Nanos::from_secs(60);
const AGEING_DEPTH: u32 = 32;

fn blocks(
    target: &mut PublishedTarget,
    path: &str,
    workload: &mut dyn BlockWorkload,
    depth: u32,
) -> anyhow::Result<Vec<trimtab_sim::run::Phase>> {
    let mut file = FileBlocks::open(target.volume_mut(), path, depth)?;
    let recorded =
        trimtab_sim::runner::blocks::run(workload, &mut file, &mut SilentObserver).complete()?;
    if interrupt::requested() {
        return Err(InterruptError.into());
    }
    Ok(recorded.phases)
}

/// Random writes on a new drive, after rounds of filling and deleting, and after a trim.
pub fn ageing(
    plan: &PublishedData,
    configuration: &Configuration,
    model: Box<dyn Model>,
    seed: u64,
) -> anyhow::Result<ModelledFigures> {
    let rounds = plan.setting(configuration.of, "rounds")?;
    let total = plan.setting(configuration.of, "mixed_files_GB")? * rounds * 1e9;
    let mut target = files::volume(plan, configuration, model, false, seed)?;
    target.create(TEST_NAME, &Payload::Fill { len: AGEING_FILE.0, class: DataClass::Random })?;
    target.sync()?;
    let new = random_writes(&mut target, seed)?;
    let settings = AgeSettings { total: Bytes(total as u64), rounds: rounds as u32, seed };
    trimtab_sim::runner::files::run(&mut Age::new(settings)?, &mut target, &mut SilentObserver)
        .complete()?;
    let used = random_writes(&mut target, seed)?;
    target.trim_all()?;
    let trimmed = random_writes(&mut target, seed)?;
    Ok([
        ("random_4k_write_new_MBps", new),
        ("random_4k_write_used_MBps", used),
        ("random_4k_write_used_with_trim_MBps", trimmed),
    ]
    .into())
}

fn random_writes(target: &mut PublishedTarget, seed: u64) -> anyhow::Result<f64> {
    let rested = target.now() + Nanos::from_secs(5);
    target.idle_until(rested);
    let settings = Writes {
        pattern: Pattern::Uniform,
        mix: Mix::default(),
        sizes: vec![(4096, 1)],
        data: DataClass::Random,
        offset: 0,
        span: AGEING_FILE.0,
        queue_depth: AGEING_DEPTH,
        limit: Limit::Time(AGEING_TIME),
    };
    let mut workload =
        Synthetic::new(settings, seed).map_err(|error| anyhow::anyhow!("{error}"))?;
    let phases = blocks(target, TEST_NAME, &mut workload, AGEING_DEPTH)?;
    Ok(phases.first().map_or(0.0, rate))
}
