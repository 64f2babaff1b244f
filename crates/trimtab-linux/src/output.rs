//! Standard output: text for people, one JSON document for programs. Progress and errors
//! go to standard error.
//!
//! All text for people is printed here. It may contain text from outside, so control
//! sequences are removed ([`plain()`]).

pub mod error;
pub mod lines;
mod plain;
pub mod progress;

pub use plain::{is_text, json, plain, plain_bytes, plain_line, styled};

use crate::sys::descriptor::ClosedPipe;
use anyhow::Context as _;
use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The output settings of this invocation, from the options common to all commands.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// One JSON document instead of text.
    pub json: bool,
    /// Show progress on standard error: only on a terminal, and not with `--quiet`.
    pub progress: bool,
    /// Progress as separate lines, on a terminal or not.
    pub plain: bool,
    /// No progress and no remarks on standard error.
    pub quiet: bool,
    /// Answer yes to every question.
    pub yes: bool,
    /// `--store`.
    pub store: Option<PathBuf>,
    /// `--label`.
    pub label: Option<String>,
}

impl Context {
    /// From the options for output; nothing is answered or stored elsewhere.
    pub fn new(json: bool, quiet: bool, plain: bool) -> Self {
        let progress = !quiet && (plain || std::io::stderr().is_terminal());
        Self { json, progress, plain, quiet, ..Self::default() }
    }

    /// Writes a one-line remark to standard error, unless `--quiet`.
    pub fn remark(&self, text: &str) {
        if !self.quiet {
            progress::aside(|| anstream::eprint!("{}", on_stderr(&plain_line(text))));
        }
    }

    /// As [`Self::remark`], for coloured text whose outside parts passed [`plain()`].
    pub fn remark_styled(&self, text: &str) {
        if !self.quiet {
            progress::aside(|| anstream::eprintln!("{}", styled(text)));
        }
    }

    /// Prints `text`, or with `--json` `{"schema": schema, "version": version, …value}`.
    pub fn report<T: serde::Serialize>(
        &self,
        schema: &str,
        version: u32,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        self.report_styled(schema, version, value, || plain(&text()).into_owned())
    }

    /// As [`Self::report`], for coloured text whose outside parts passed [`plain()`].
    pub fn report_styled<T: serde::Serialize>(
        &self,
        schema: &str,
        version: u32,
        value: &T,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        if !self.json {
            return print_checked(&styled(&text()));
        }
        REPORTED.store(true, Ordering::Relaxed);
        print(&document(schema, version, value)?)
    }
}

/// A document has been printed. Each command prints at most one.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// This process has printed its document.
pub fn has_reported() -> bool {
    REPORTED.load(Ordering::Relaxed)
}

/// The document `{"schema": "trimtab.…", "version": version, …value}`, with a final
/// newline. A value that is not an object becomes a field with the name of the schema.
pub fn document<T: serde::Serialize>(
    schema: &str,
    version: u32,
    value: &T,
) -> anyhow::Result<String> {
    #[derive(serde::Serialize)]
    struct JsonDocument<'a, T> {
        schema: String,
        version: u32,
        // Serialised directly: an intermediate value would lose the second of two equal
        // keys.
        #[serde(flatten)]
        value: &'a T,
    }
    let name = format!("trimtab.{schema}");
    let mut text = match serde_json::to_string_pretty(&JsonDocument {
        schema: name.clone(),
        version,
        value,
    }) {
        Ok(text) => text,
        Err(_) => serde_json::to_string_pretty(
            &serde_json::json!({ "schema": name, "version": version, schema: value }),
        )?,
    };
    text.push('\n');
    Ok(json(&text).into_owned())
}

/// Reports a non-fatal error on standard error.
pub fn complain(text: &str) {
    progress::aside(|| {
        anstream::eprint!("{}", on_stderr(&format!("trimtab: {}", plain_line(text))))
    });
}

/// Formats `text` for standard error, with a newline: wrapped between words on a
/// terminal, one line per message in a file.
pub fn on_stderr(text: &str) -> String {
    match columns(std::io::stderr()) {
        Some(width) => lines::paragraph(text, Some(width), "", "  "),
        None => format!("{text}\n"),
    }
}

/// Restores the default SIGPIPE action, which Rust ignores at start: a closed pipe then
/// ends the program silently, as for other filters.
pub fn restore_default_sigpipe() {
    ClosedPipe::Ends.set();
}

/// While this value lives, a write to a closed pipe fails, so that cleanup can run.
#[derive(Debug)]
pub struct ClosedPipeGuard(());

impl ClosedPipeGuard {
    /// Takes effect immediately.
    pub fn new() -> Self {
        ClosedPipe::Errs.set();
        Self(())
    }
}

impl Default for ClosedPipeGuard {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ClosedPipeGuard {
    fn drop(&mut self) {
        ClosedPipe::Ends.set();
    }
}

/// Prints `text` and a newline to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    print_checked(&plain(text))
}

/// Prints coloured text whose outside parts passed [`plain()`].
pub fn print_styled(text: &str) -> anyhow::Result<()> {
    print_checked(&styled(text))
}

/// Prints colours only on a terminal that shows them (`NO_COLOR` is honoured).
fn print_checked(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end));
    written.and_then(|()| out.flush()).context(UNWRITABLE)
}

const UNWRITABLE: &str = "cannot write standard output";

/// Writes file contents to standard output, without control sequences for a terminal.
pub fn write_stdout(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = stdout();
    out.write_all(bytes).and_then(|()| out.flush()).context(UNWRITABLE)
}

/// Standard output for file contents.
fn stdout() -> Box<dyn std::io::Write> {
    let out = std::io::stdout();
    if out.is_terminal() { Box::new(PrintableWriter(out.lock())) } else { Box::new(out.lock()) }
}

/// As [`stdout`], but unlocked, so that other threads can write too, and for text:
/// control characters are replaced even in a pipe, because a terminal may be behind it.
pub fn unlocked_stdout() -> std::io::Result<Box<dyn std::io::Write + Send>> {
    let out = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    Ok(Box::new(PrintableWriter(out)))
}

/// Replaces control characters, in any encoding. Each write must end between characters.
struct PrintableWriter<W>(W);

impl<W: std::io::Write> std::io::Write for PrintableWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(&plain_bytes(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Columns of the terminal, or `COLUMNS`; `None` if lines need no wrapping.
pub fn width() -> Option<usize> {
    let said = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0);
    terminal_width().or_else(said)
}

/// Columns of the terminal on standard output; `None` if it is a pipe or a file.
pub fn terminal_width() -> Option<usize> {
    columns(std::io::stdout())
}

/// Columns of the terminal behind `stream`. A terminal of unknown size reports 0.
fn columns(stream: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
