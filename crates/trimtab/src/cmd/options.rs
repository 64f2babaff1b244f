//! Options shared by several commands, and value types of some. The rest of the program
//! takes plain values.

use crate::bench::purge::PurgeMethod;
use crate::report::file::{self, OverwriteMode};
use clap::builder::{PossibleValuesParser, RangedI64ValueParser, TypedValueParser};
use serde_json::json;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trimtab_drive::units::Bytes;
use trimtab_linux::output::Context;
use trimtab_linux::target::block::device::DestroyConsent;
use trimtab_linux::target::dir::Fsync;
use trimtab_sim::policy::PolicySpec;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::{BlkparseEvent, TraceFormat, TraceReadOptions, Volume};
use trimtab_vssd::trace::TraceSource;

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct GlobalOptions {
    /// Print one JSON document on standard output instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// Show no progress on standard error.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Show progress as permanent lines, one every ten seconds, for logs. Without this
    /// option, progress is shown only on a terminal.
    #[arg(long, global = true, conflicts_with = "quiet")]
    pub plain: bool,
    /// Answer yes to every question (large amounts of data, remounting).
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// Label the stored results; 'results list --label' finds them.
    #[arg(long, global = true, value_name = "TEXT")]
    pub label: Option<String>,
    /// Use this store of results [default: trimtab/results.db in the XDG data directory].
    /// trim and history use none.
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl GlobalOptions {
    /// The context of this invocation: output format, progress, consent.
    pub fn context(self) -> Context {
        let Self { json, quiet, plain, yes, label, store } = self;
        Context { yes, label, store, ..Context::new(json, quiet, plain) }
    }
}

/// Options of every command that writes into a directory.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "Safety")]
pub struct SafetyArgs {
    /// Keep this much space free [default: 5% of the filesystem, at least 1 GiB].
    #[arg(long, value_name = "SIZE")]
    pub reserve: Option<Bytes>,
}

/// Options of commands that may write to a device or a file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Safety")]
pub struct DestroyArgs {
    /// Name the device or file again to confirm that everything on it is destroyed.
    /// Needed if TARGET is a device or a file that is written to.
    #[arg(long, value_name = "TARGET")]
    destroy: Option<PathBuf>,
    /// Destroy the device or file even though it holds this content. Use the name from
    /// the refusal (ext2/3/4, gpt, luks, unknown data …). Repeat for more.
    #[arg(long, value_name = "WHAT")]
    overwrite: Vec<String>,
}

impl DestroyArgs {
    /// The confirmed device or file, and the content that may be destroyed.
    pub fn named(&self) -> DestroyConsent {
        DestroyConsent { again: self.destroy.clone(), overwrite: self.overwrite.clone() }
    }
}

/// Options for `drive:NAME` only.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "On a modelled drive (drive:NAME)")]
pub struct ModelArgs {
    /// Use this trim policy: none, online, batched, adaptive or idle, with settings as in
    /// a study [default: none]
    #[arg(long, value_name = "POLICY")]
    pub trim: Option<PolicySpec>,
    /// Put this filesystem on the drive: ext4 (current), ext4-2011 (Linux 2.6.39) or
    /// desktop-2011 (synchronous catalogue) [default: ext4]
    #[arg(long, value_name = "NAME", value_parser = ["ext4", "ext4-2011", "desktop-2011"])]
    pub filesystem: Option<String>,
    /// Fill the filesystem to this percentage at the start [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = percentage(0..=95))]
    pub fill: Option<u8>,
}

/// Options for reading a text trace.
#[derive(Clone, Debug, clap::Args)]
pub struct ReadingArgs {
    /// Read a text trace in this format: fio, blkparse, msr, alibaba, mqsim or columns. Name it
    /// for mqsim and columns, which look alike; the others are recognised.
    #[arg(long, value_name = "FORMAT")]
    format: Option<TraceFormat>,
    /// Read only this volume of the trace: a number, device numbers in blkparse text
    /// (8,16), host and disk in MSR text (hm,1), or a file of an iolog (/dev/sda).
    #[arg(long, value_name = "VOLUME")]
    volume: Option<Volume>,
    /// Count this blkparse event as a request: Q (queued), D (issued) or C (completed)
    /// [default: Q].
    #[arg(long, value_name = "EVENT")]
    events: Option<BlkparseEvent>,
}

impl ReadingArgs {
    /// The reading options as a plain value.
    pub fn reading(&self) -> TraceReadOptions {
        TraceReadOptions { format: self.format, volume: self.volume.clone(), events: self.events }
    }

    /// Reports the recognised format of the trace at `path`.
    ///
    /// # Errors
    /// A trace that cannot be opened or recognised.
    pub fn announce(&self, path: &Path, context: &Context) -> anyhow::Result<()> {
        if self.format.is_none() {
            let format = TraceSource::open(path, &self.reading())?.format();
            context.remark(&format!(
                "{} is read as {format}: {}",
                path.display(),
                format.description()
            ));
        }
        Ok(())
    }
}

/// Options for the timing of a trace's requests.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct TimingArgs {
    /// Make this many requests of the trace per second, ignoring its times.
    #[arg(long, value_name = "REQUESTS", conflicts_with = "closed_loop", value_parser = rate)]
    rate: Option<f64>,
    /// Keep N requests of the trace in flight, ignoring its times.
    #[arg(long, value_name = "N", value_parser = count(1..=65_536))]
    closed_loop: Option<u32>,
}

impl TimingArgs {
    /// The timing options as a plain value.
    pub fn timing(self) -> Timing {
        match (self.rate, self.closed_loop) {
            (Some(rate), _) => Timing::Rate(rate),
            (None, Some(depth)) => Timing::ClosedLoop(depth),
            (None, None) => Timing::Recorded,
        }
    }
}

/// Parses the name of a file whose format is fixed: it ends in `.EXTENSION`, or has none.
pub fn file_name(extension: &'static str) -> impl TypedValueParser<Value = PathBuf> {
    clap::builder::PathBufValueParser::new().try_map(move |path| {
        match path.extension().is_none_or(|given| given == extension) {
            true => Ok(path),
            false => Err(format!("the name must end in .{extension}")),
        }
    })
}

/// Writes a file that the user named, or standard output for `-`; reports the file as
/// `what`.
pub fn write_to(
    output: &Path,
    bytes: &[u8],
    force: bool,
    context: &Context,
    what: &str,
) -> anyhow::Result<ExitCode> {
    if output.as_os_str() == "-" {
        trimtab_linux::output::write_stdout(bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = if force { OverwriteMode::Replace } else { OverwriteMode::New };
    let written = file::write(output, bytes, place)?;
    context.remark(&format!("{what}: {}", written.display()));
    if context.json && !trimtab_linux::output::has_reported() {
        context.report("file", 1, &json!({ "file": written }), String::new)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number in `range`; otherwise an error that says what is `expected`.
pub fn number(text: &str, range: impl RangeBounds<f64>, expected: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("expected {expected}"))
}

/// A whole number in `range`.
pub fn count(range: impl RangeBounds<i64>) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(range)
}

/// Whole per cent in `range`, without the sign.
pub fn percentage(range: impl RangeBounds<i64>) -> RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(range)
}

/// A share in per cent, with or without the sign.
pub fn percent(text: &str, range: impl RangeBounds<f64>, expected: &str) -> Result<f64, String> {
    number(text.trim_end_matches('%').trim(), range, expected)
}

/// A percentage above 0, at most 100, with or without the sign.
pub fn percent_above_0(text: &str) -> Result<f64, String> {
    percent(text, f64::MIN_POSITIVE..=100.0, "a percentage above 0, at most 100")
}

/// A number above 0, at most 10^9.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text, f64::MIN_POSITIVE..=1e9, "a number above 0, at most 10^9")
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.001..=1e9, "a number of requests a second, from 0.001 to 1000000000")
}

/// Parses one of these names as its value.
pub fn one_of<T: Clone + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(values.iter().map(|(name, _)| *name));
    names.map(|text| {
        let named = values.iter().find(|(name, _)| *name == text);
        named.map(|(_, value)| value.clone()).expect("the parser accepts only these names")
    })
}

/// Ways to purge a device, by name.
pub const PURGES: &[(&str, PurgeMethod)] = &[
    ("discard", PurgeMethod::Discard),
    ("format", PurgeMethod::Format),
    ("sanitize", PurgeMethod::Sanitize),
    ("secure-erase", PurgeMethod::SecureErase),
];

/// When written files are made durable, by name.
pub const FSYNC: &[(&str, Fsync)] = &[("never", Fsync::Never), ("close", Fsync::Close)];
