//! Runs one comparison and prints it.

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use trimtab_linux::output::{self, Context, error};
use validate::{catalogue, drive, peers, published, ssd_iq, volume};

/// Compare Trimtab's models with theory, measurements, real ext4 and other trim policies.
#[derive(Debug, Parser)]
#[command(
    name = "validate",
    version,
    about,
    propagate_version = true,
    disable_help_subcommand = true
)]
struct Cli {
    /// Print one JSON document on standard output instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// Suppress progress on standard error.
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    comparison: ValidateCommand,
}

#[derive(Debug, Subcommand)]
enum ValidateCommand {
    /// Compare the model's write amplification with theory.
    Drive(drive::ValidateDriveArgs),
    /// Run workloads on real ext4 (loop device) and on the model; compare device traffic.
    Volume(volume::ValidateVolumeArgs),
    /// Compare published measurements with model results.
    Published(published::ValidatePublishedArgs),
    /// Compare idle trims with published trim policies.
    Peers(peers::ValidatePeersArgs),
    /// Fit drive specifications to published rates.
    Catalogue(catalogue::ValidateCatalogueArgs),
    /// Predict published runs of ten data-centre SSD units.
    SsdIq(ssd_iq::Args),
}

fn main() -> ExitCode {
    output::restore_default_sigpipe();
    let cli = Cli::parse();
    let context = Context::new(cli.json, cli.quiet, false);
    let result = match &cli.comparison {
        ValidateCommand::Drive(args) => drive::run(args, &context),
        ValidateCommand::Volume(args) => volume::run(args, &context),
        ValidateCommand::Published(args) => published::run(args, &context),
        ValidateCommand::Peers(args) => peers::run(args, &context),
        ValidateCommand::Catalogue(args) => catalogue::run(args, &context),
        ValidateCommand::SsdIq(args) => ssd_iq::run(args, &context),
    };
    result.unwrap_or_else(|problem| error::print_and_exit_code(&problem, context.json))
}
