//! Options shared by several commands, and value types of some. The rest of the program takes
//! plain values.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::path::{Path, PathBuf};
use trimtab_drive::units::Bytes;
use trimtab_linux::output::{Context, OutputOptions};
use trimtab_linux::target::block::EngineChoice;
use trimtab_linux::target::block::device::DestroyConsent;
use trimtab_linux::target::dir::Fsync;
use trimtab_sim::simulate::timing::Timing;
use trimtab_sim::trace::{BlkparseEvent, TraceFormat, TraceReadOptions, Volume};
use trimtab_vssd::trace::TraceSource;
use trimtab_vssd::transport::{Transport, TransportChoice};

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
    /// Show progress as permanent lines, one every ten seconds, for logs. Without this option,
    /// progress is shown only on a terminal.
    #[arg(long, global = true, conflicts_with = "quiet")]
    pub plain: bool,
    /// Answer yes to every question (large amounts of data, remounting).
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// Label the stored results; 'results list --label' finds them.
    #[arg(long, global = true, value_name = "TEXT")]
    pub label: Option<String>,
    /// Use this store of results [default: trimtab/results.db in the XDG data directory]. trim
    /// and history use none.
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

impl GlobalOptions {
    /// The context of this invocation: output format, progress, consent.
    pub fn context(self) -> Context {
        let Self { json, quiet, plain, yes, label, store } = self;
        Context::new(OutputOptions { json, quiet, plain }, yes, label, store)
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
    /// Name the device or file again to confirm that everything on it is destroyed. Needed if
    /// TARGET is a device or a file that is written to.
    #[arg(long, value_name = "TARGET")]
    destroy: Option<PathBuf>,
    /// Destroy the device or file even though it holds this content. Use the name from the
    /// refusal (ext2/3/4, gpt, luks, unknown data …). Repeat for more.
    #[arg(long, value_name = "WHAT")]
    overwrite: Vec<String>,
}

impl DestroyArgs {
    /// The confirmed device or file, and the content that may be destroyed.
    pub fn named(&self) -> DestroyConsent {
        DestroyConsent { again: self.destroy.clone(), overwrite: self.overwrite.clone() }
    }
}

/// Options for reading a text trace.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct ReadingArgs {
    /// Read a text trace in this format: fio, blkparse, msr, alibaba, tencent, spc, fiu,
    /// systor17, mqsim, disksim or columns. Name it for tencent, mqsim, disksim and columns,
    /// which look alike; the others are recognised.
    #[arg(long, value_name = "FORMAT")]
    format: Option<TraceFormat>,
    /// Read only this volume of the trace: a number, device numbers in blkparse and FIU text
    /// (8,16), host and disk in MSR text (hm,1), or a file of an iolog (/dev/sda).
    #[arg(long, value_name = "VOLUME")]
    volume: Option<Volume>,
    /// Count this blkparse event as a request: Q (queued), D (issued) or C (completed) [default:
    /// Q].
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
        if let Some(format) = TraceSource::open(path, &self.reading())?.format().filter(|_| self.format.is_none()) {
            context.remark(&format!("{} is read as {format}: {}", path.display(), format.description()));
        }
        Ok(())
    }
}

/// Options for the timing of a trace's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, clap::Args)]
pub struct TimingArgs {
    /// Make this many requests of the trace per second, ignoring its times.
    #[arg(long, value_name = "REQUESTS", conflicts_with = "closed_loop", value_parser = rate)]
    rate: Option<f64>,
    /// Keep N requests of the trace in flight, ignoring its times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
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

/// A number above 0, at most 10^9.
pub fn positive(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| *number > 0.0 && *number <= 1e9)
        .ok_or_else(|| "expected a number above 0, at most 10^9".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected a number of requests a second, from 0.001 to 1000000000".to_owned()),
    }
}

/// A command-line value of a type that another crate defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<T>(pub T);

impl ValueEnum for Choice<EngineChoice> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(EngineChoice::Auto), Self(EngineChoice::Uring), Self(EngineChoice::Threads)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            EngineChoice::Auto => PossibleValue::new("auto").help(
                "io_uring, or threads without it; blocking calls for a single operation in flight where the filesystem would hand it to \
                 a thread anyway",
            ),
            EngineChoice::Uring => PossibleValue::new("uring").help("io_uring, or an error"),
            EngineChoice::Threads => PossibleValue::new("threads").help("Threads with blocking calls"),
        })
    }
}

impl ValueEnum for Choice<Fsync> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Fsync::Never), Self(Fsync::Close)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            Fsync::Never => PossibleValue::new("never").help("Leave it to the filesystem"),
            Fsync::Close => PossibleValue::new("close").help("Call `fsync` before closing each written file"),
        })
    }
}

impl ValueEnum for Choice<TransportChoice> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(TransportChoice::Best), Self(TransportChoice::Only(Transport::Ublk)), Self(TransportChoice::Only(Transport::Device))]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            TransportChoice::Best => PossibleValue::new("auto").help("The best one available"),
            TransportChoice::Only(Transport::Ublk) => PossibleValue::new("ublk").help("A device of the kernel's ublk driver"),
            TransportChoice::Only(Transport::Device) => PossibleValue::new("device").help("A loop device on a FUSE file"),
        })
    }
}
