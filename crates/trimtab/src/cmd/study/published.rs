//! `trimtab study --published`.

use crate::study::published::{self, render, spec::Plan, text};
use anyhow::Context as _;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::Tally;
use trimtab_linux::sys::interrupt;

/// Options of `trimtab study --published`.
#[derive(Debug, clap::Args)]
pub struct PublishedArgs {
    /// Compare published measurements with what the models show for them, instead of studying a target.
    #[arg(long, conflicts_with_all = ["target", "quick", "full", "repeats", "policies", "filesystem", "fill", "report"])]
    pub published: bool,
    /// Only the published results of drives whose name contains this, or of one workload: postmark, tree, fstrim,
    /// crystaldiskmark, ageing, sustained, recovery.
    #[arg(long, value_name = "DRIVE|WORKLOAD", requires = "published")]
    only: Option<String>,
    /// Write the comparison to this file too.
    #[arg(long, value_name = "FILE.md", requires = "published")]
    markdown: Option<PathBuf>,
}

/// Runs all that was published on models, and prints both.
pub fn run(args: &PublishedArgs, seed: u64, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install().context("cannot install signal handlers")?;
    let plan = Plan::shipped()?;
    let chosen = plan.configurations.iter().filter(|c| c.is_of(args.only.as_deref())).count();
    if let (0, Some(only)) = (chosen, &args.only) {
        let mut drives: Vec<&str> = plan.configurations.iter().map(|c| c.drive.as_str()).collect();
        drives.sort_unstable();
        drives.dedup();
        return Err(UsageError::new(format!("--only {only}: nothing was published for that"))
            .hint(format!("there are postmark, tree, fstrim, crystaldiskmark, ageing, sustained, recovery; {}", drives.join(", ")))
            .into());
    }
    let bar = Tally::new(context, "published results", chosen as u64);
    let comparison = published::run(&plan, args.only.as_deref(), seed, &|| bar.count())?;
    drop(bar);
    context.report("published", 2, &comparison, || text::screen(&comparison, trimtab_linux::output::width()))?;
    if let Some(path) = &args.markdown {
        crate::report::file::write(path, render::markdown(&comparison).as_bytes(), crate::report::file::Place::Replace)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
