//! Runs one comparison and prints it.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use trimtab_linux::output::{self, Context, OutputOptions, error};
use validate::{catalogue, drive, peers, published, ssd_iq, volume};

/// Compare Trimtab's models with theory, measurements, real ext4 and other trim policies.
#[derive(Debug, Parser)]
#[command(name = "validate", version, about, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    /// Print one JSON document on standard output instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// Suppress progress on standard error.
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    comparison: Comparison,
}

#[derive(Debug, Subcommand)]
enum Comparison {
    /// Compare the model's write amplification with theory.
    Drive(drive::Args),
    /// Run workloads on real ext4 (loop device) and on the model; compare device traffic.
    Volume(volume::Args),
    /// Compare published measurements with model results.
    Published(published::Args),
    /// Compare idle trims with published trim policies.
    Peers(peers::Args),
    /// Fit drive specifications to published rates.
    Catalogue(catalogue::Args),
    /// Predict published runs of ten data-centre SSD units.
    SsdIq(ssd_iq::Args),
}

fn main() -> ExitCode {
    output::restore_default_sigpipe();
    let cli = Cli::parse();
    let context = Context::new(OutputOptions { json: cli.json, quiet: cli.quiet, plain: false }, false, None, None);
    let result = match &cli.comparison {
        Comparison::Drive(args) => drive::run(args, &context),
        Comparison::Volume(args) => volume::run(args, &context),
        Comparison::Published(args) => published::run(args, &context),
        Comparison::Peers(args) => peers::run(args, &context),
        Comparison::Catalogue(args) => catalogue::run(args, &context),
        Comparison::SsdIq(args) => ssd_iq::run(args, &context),
    };
    result.unwrap_or_else(|problem| error::print_and_exit_code(&problem, context.json))
}
