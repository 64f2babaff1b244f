//! `validate published`: compares published measurements with model results.
//!
//! `results.toml` and `reviews.toml` contain the published values, `sources.toml` their
//! publications. `frozen.toml` assigns a model to each and decides what is scored; it was
//! fixed before comparing. The code only knows workloads, not drives or rows.

mod blocks;
pub mod comparison;
mod crystal;
mod csv;
mod files;
mod laptop_disk;
pub mod render;
pub mod score;
pub mod spec;
mod sustained;
pub mod text;

use anyhow::Context as _;
use spec::PublishedData;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab::report::file::{self, OverwriteMode};
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::sys::interrupt;

/// Arguments of `validate published`.
#[derive(Debug, clap::Args)]
pub struct ValidatePublishedArgs {
    /// Only published results of drives whose name contains this text, or of one
    /// workload: postmark, tree, fstrim, crystaldiskmark, ageing, sustained, recovery.
    #[arg(long, value_name = "DRIVE|WORKLOAD")]
    only: Option<String>,
    /// Also write the score and the misses to this Markdown file.
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Also write every figure to this file.
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Seed of the models and their workloads.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs all published workloads on models and prints both results.
pub fn run(args: &ValidatePublishedArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let plan = PublishedData::shipped()?;
    let chosen = plan.configurations.iter().filter(|c| c.is_of(args.only.as_deref())).count();
    if let (0, Some(only)) = (chosen, &args.only) {
        let mut drives: Vec<&str> = plan.configurations.iter().map(|c| c.drive.as_str()).collect();
        drives.sort_unstable();
        drives.dedup();
        return Err(UsageError::new(format!("--only {only}: no published results match"))
            .hint(format!(
                "valid: postmark, tree, fstrim, crystaldiskmark, ageing, sustained, recovery; {}",
                drives.join(", ")
            ))
            .into());
    }
    let bar = Progress::new(context, "published results", ProgressUnit::Items, chosen as u64);
    let comparison = comparison::run(&plan, args.only.as_deref(), args.seed, &|| bar.advance(1))?;
    drop(bar);
    context.report("published", 2, &comparison, || {
        text::screen(&comparison, trimtab_linux::output::width())
    })?;
    let write = |path: &PathBuf, text: String| {
        file::write(path, text.as_bytes(), OverwriteMode::Replace)
            .with_context(|| format!("cannot write {}", path.display()))
    };
    if let Some(path) = &args.markdown {
        write(path, render::markdown(&comparison))?;
    }
    if let Some(path) = &args.csv {
        write(path, csv::figures(&comparison))?;
    }
    Ok(ExitCode::SUCCESS)
}
