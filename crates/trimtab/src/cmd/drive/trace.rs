//! `trimtab drive trace`.

use crate::cmd::options::ReadingArgs;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_linux::output::Context;
use trimtab_report::layout::on_screen;
use trimtab_study::document::Table;
use trimtab_vssd::trace::{TraceOpKind, TraceSource};

const EXAMPLES: &str = "\
Examples:
  trimtab drive trace recording
  trimtab drive trace msr.csv --volume 1";

/// Arguments of `trimtab drive trace`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveTraceArgs {
    /// Read this recording of 'trimtab drive attach --record', or text trace (see
    /// --format).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    reading: ReadingArgs,
}

#[derive(Default, Serialize)]
struct Sum {
    count: u64,
    bytes: u64,
    failed: u64,
}

#[derive(Default, Serialize)]
struct Summary {
    format: String,
    took_ns: u64,
    end_bytes: u64,
    read: Sum,
    write: Sum,
    trim: Sum,
    flush: Sum,
    warnings: Vec<String>,
}

/// Summarises a trace.
pub fn run(args: &DriveTraceArgs, context: &Context) -> anyhow::Result<ExitCode> {
    let mut source = TraceSource::open(&args.file, &args.reading.reading())?;
    let summary = summed(&mut source)?;
    summary.warnings.iter().for_each(|warning| context.remark(warning));
    context.report("drive-trace", 1, &summary, || in_words(&summary))?;
    Ok(ExitCode::SUCCESS)
}

fn summed(source: &mut TraceSource) -> anyhow::Result<Summary> {
    let mut summary = Summary { format: source.format().to_string(), ..Summary::default() };
    for event in &mut *source {
        let event = event?;
        let sum = match event.kind {
            TraceOpKind::Read => &mut summary.read,
            TraceOpKind::Write => &mut summary.write,
            TraceOpKind::Trim => &mut summary.trim,
            TraceOpKind::Flush => &mut summary.flush,
        };
        sum.count += 1;
        sum.bytes += event.len;
        sum.failed += u64::from(event.errno.is_some());
        summary.took_ns = summary.took_ns.max(event.at.saturating_add(event.latency).0);
        summary.end_bytes = summary.end_bytes.max(event.offset.saturating_add(event.len));
    }
    summary.warnings = source.warnings();
    Ok(summary)
}

fn in_words(summary: &Summary) -> String {
    let mut table = Table::new("", &["requests", "count", "bytes", "failed"]);
    for (name, sum) in [
        ("read", &summary.read),
        ("write", &summary.write),
        ("trim", &summary.trim),
        ("flush", &summary.flush),
    ] {
        table.row([
            name.to_owned(),
            sum.count.to_string(),
            Bytes(sum.bytes).to_string(),
            sum.failed.to_string(),
        ]);
    }
    format!(
        "read as {}\n{}\n{} in model time, up to byte {}\n",
        summary.format,
        on_screen(&table),
        Nanos(summary.took_ns),
        summary.end_bytes
    )
}
