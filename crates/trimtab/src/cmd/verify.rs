//! `trimtab verify PATH`.

use crate::cmd::options::SafetyArgs;
use crate::trim::harm::require_harmless;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::discards::Fate;
use trimtab_linux::output::Context;
use trimtab_linux::output::lines::prose;
use trimtab_linux::session::journal::MountScope;
use trimtab_linux::session::safety;
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::verify::verdict::in_words;
use trimtab_linux::trim::verify::{self, Proof, ProofOptions};
use trimtab_report::layout::on_screen;
use trimtab_sim::workload::WorkloadPlan;
use trimtab_study::document::Table;

const EXAMPLES: &str = "\
Examples:
  trimtab verify /home                  write, delete, trim, read the raw blocks
  trimtab verify /home --wait 1min      for drives that discard slowly
  trimtab verify /home --as-mounted --wait 3min   test the discard mount option (btrfs, f2fs: minutes)

Writes small files of random data next to each other in its own directory, and deletes every second \
one. Trims the part of the filesystem that held them, other free space in it included. Then reads the \
raw blocks past all caches, and the discard counters of every layer. The blocks of the kept files must \
not have changed. Nothing else is read or written.

Exit status: 0 proved (zeroes, or other data than before), 3 the discards were lost on the way, to one \
device or all, or TRIM does damage, 4 not proved (old data remains, not sent yet, or unknown), \
1 failed, 2 wrong usage.";

/// Arguments of `trimtab verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Test the filesystem of this directory.
    path: PathBuf,
    /// Free this much; the same amount is written and kept next to it.
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    size: Bytes,
    /// Wait this long before reading the raw blocks.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    wait: Nanos,
    /// Wait this long for a drive that is already being trimmed; 0s fails at once.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    lock_wait: Nanos,
    /// Send no trim; test what the filesystem discards on its own during the wait.
    #[arg(long)]
    as_mounted: bool,
    #[command(flatten)]
    safety: SafetyArgs,
}

impl VerifyArgs {
    /// Mounts that the command works on.
    pub fn reach(&self) -> MountScope {
        MountScope::Paths(vec![self.path.clone()])
    }
}

/// Runs the test, prints the result, and exits with the verdict's status.
pub fn run(args: &VerifyArgs, context: &Context) -> anyhow::Result<ExitCode> {
    const SIZE_MIN: Bytes = Bytes(2 << 20);
    const SIZE_MAX: Bytes = Bytes(4 << 30);
    if args.size < SIZE_MIN || args.size > SIZE_MAX {
        return Err(UsageError::new(format!("--size {} is out of range", args.size))
            .hint("give 2MiB to 4GiB")
            .into());
    }
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "reading raw blocks and trimming need root: run with sudo ('trimtab doctor' needs no root)"
    );
    let options = ProofOptions {
        size: args.size,
        wait: Duration::from_nanos(args.wait.0),
        lock_wait: Duration::from_nanos(args.lock_wait.0),
        as_mounted: args.as_mounted,
    };
    safety::TargetDirectory::open(&args.path)?;
    require_harmless(&Filesystem::open(&args.path)?)?;
    let space = verify::space(&args.path, &options)?;
    // The test is repeated when other writers reuse the freed blocks.
    let plan = WorkloadPlan {
        written: Bytes(space.0.saturating_mul(verify::TRIES.into())),
        space,
        ops: None,
    };
    let workspace = safety::prepare(context, args.safety.reserve, &args.path, "the proof", &plan)?;
    let proof = verify::prove(&workspace, &options, |busy| {
        context.remark(&format!("{busy}; waiting for up to {} (--lock-wait)", args.lock_wait));
    });
    let reported = proof.and_then(|proof| {
        context.report("verify", 1, &proof, || text(&proof, args.as_mounted))?;
        Ok(ExitCode::from(proof.verdict.exit_status()))
    });
    workspace.close_after(reported)
}

/// The word for a layer that received too few discards.
fn lost(is_sent: bool) -> &'static str {
    if is_sent { "NO" } else { "nothing sent" }
}

fn text(proof: &Proof, as_mounted: bool) -> String {
    let mut layers = Table::new("", &["layer", "discards", "bytes", "arrived"]);
    // What no layer received was not sent, or not counted.
    let is_sent =
        proof.layers.iter().any(|layer| layer.discards.bytes().is_some_and(|bytes| bytes > 0));
    for layer in &proof.layers {
        let arrived = layer.arrived.map_or("-", |yes| if yes { "yes" } else { lost(is_sent) });
        let count = &layer.discards;
        let counted = count.fate != Fate::NotCounted;
        let commands = count
            .accepted
            .filter(|_| counted)
            .map_or("-".to_owned(), |accepted| grouped(accepted.count));
        let bytes = match count.given_back_bytes {
            Some(bytes) => format!("{} given back", Bytes(bytes)),
            None => in_words(count.bytes().filter(|_| counted)),
        };
        layers.row([
            format!("{} [{}]", count.name, count.kind),
            commands,
            bytes,
            arrived.to_owned(),
        ]);
    }
    let percent = |n: u64, of: u64| {
        if of == 0 { "-".to_owned() } else { format!("{:.0} %", 100.0 * n as f64 / of as f64) }
    };
    let freed = &proof.freed;
    let mut blocks = Table::new("", &["raw blocks", "zeroes", "ones", "as written", "other"]);
    for (name, content) in [
        (if as_mounted { "freed" } else { "freed and trimmed" }, freed),
        ("kept next to them", &proof.kept),
    ] {
        let shares = [content.zero, content.ones, content.written, content.other]
            .map(|n| percent(n, content.total()));
        blocks.row([format!("{name} ({})", grouped(content.total()))].into_iter().chain(shares));
    }
    let mut text = String::new();
    if !proof.layers.is_empty() {
        text.extend([on_screen(&layers), on_screen(&blocks)]);
    }
    text.extend(proof.counted.iter().chain(&proof.remarks).map(|remark| prose(remark)));
    text.push_str(&prose(&format!("{} [{}]: {}", proof.path, proof.fs_type, proof.text)));
    text
}
