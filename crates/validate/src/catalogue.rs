//! `validate catalogue`: fits drive specifications to six rates published by owners.
//!
//! The specifications are `drives/measured`; `docs/catalogue.csv` lists the rates of
//! each, published and modelled.

pub mod fit;
#[cfg(test)]
mod tests;

use crate::parallel;
use anyhow::Context as _;
use fit::{CatalogueEntry, CatalogueRates, RATES};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab::report::file::{self, OverwriteMode};
use trimtab_drive::spec::text;
use trimtab_linux::output::Context;
use trimtab_linux::sys::interrupt;
use trimtab_linux::sys::interrupt::InterruptError;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;
use trimtab_study::learn::fit::SequentialEvaluator;

/// Published rates, relative to the project root.
const PUBLISHED: &str = "docs/real-drives.csv";
/// Published and modelled rates, relative to the project root.
const ROWS: &str = "docs/catalogue.csv";
const HEADER: &str = "# Published rates (geometric mean of the repeats), the largest repeat over the \
    least, and the rates of the model. `make catalogue` writes this.\n\
    drive,rate,published,repeats,modelled\n";

/// Arguments of `validate catalogue`.
#[derive(Debug, clap::Args)]
pub struct ValidateCatalogueArgs {
    /// Write drives/measured and docs/catalogue.csv of this working copy.
    #[arg(long)]
    write: bool,
}

/// Fits all drives and prints their rates.
///
/// # Errors
/// If interrupted, if rates cannot be read or fitted, or if files cannot be written.
pub fn run(args: &ValidateCatalogueArgs, context: &Context) -> anyhow::Result<ExitCode> {
    interrupt::install()?;
    let models = models()?;
    let entries = parallel::map(context, "drives", &models, |measured| {
        if interrupt::requested() {
            return Err(InterruptError.into());
        }
        fit::entry(measured, &SequentialEvaluator)
            .with_context(|| format!("no drive explains the rates of {}", measured.model))
    })?;
    if args.write {
        for (measured, entry) in models.iter().zip(&entries) {
            write(&specification(measured), &text::whole(&entry.drive))?;
        }
        write(
            &root().join(ROWS),
            &models
                .iter()
                .zip(&entries)
                .fold(HEADER.to_owned(), |text, (measured, entry)| text + &rows(measured, entry)),
        )?;
    }
    let mut table = Table::new("", &["drive", "rate", "published", "modelled", "off"]);
    for (measured, entry) in models.iter().zip(&entries) {
        for (rate, (published, _, modelled)) in RATES.into_iter().zip(entry.rates) {
            let off = format!("{:+.1} %", (modelled / published - 1.0) * 100.0);
            table.row([
                measured.name(),
                rate.to_owned(),
                format!("{published:.0}"),
                format!("{modelled:.0}"),
                off,
            ]);
        }
    }
    let rates: Vec<_> = entries.iter().map(|entry| entry.rates).collect();
    context.report("catalogue", 1, &rates, || on_screen(&table))?;
    Ok(ExitCode::SUCCESS)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn models() -> anyhow::Result<Vec<CatalogueRates>> {
    let csv = std::fs::read_to_string(root().join(PUBLISHED))
        .with_context(|| format!("cannot read {PUBLISHED}"))?;
    fit::models(&csv).map_err(|problem| anyhow::anyhow!("{PUBLISHED}: {problem}"))
}

fn specification(measured: &CatalogueRates) -> PathBuf {
    root().join(format!("drives/measured/{}.toml", measured.name()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    file::write(path, text.as_bytes(), OverwriteMode::Replace)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// Lines of a drive in [`ROWS`].
fn rows(measured: &CatalogueRates, entry: &CatalogueEntry) -> String {
    let name = measured.name();
    let row = |(rate, (published, spread, shown)): (&str, (f64, f64, f64))| {
        format!("{name},{rate},{published:.0},{spread:.3},{shown:.0}\n")
    };
    RATES.into_iter().zip(entry.rates).map(row).collect()
}
