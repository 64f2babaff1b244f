//! Standard output: text for people, one JSON document for programs. Progress and errors go to standard error.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

/// Options that every command takes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Print one JSON document on standard output instead of text.
    #[arg(long, global = true)]
    pub json: bool,
    /// No progress on standard error.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Answer yes to every question (large amounts of data, remounting).
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// The store of results [default: trimtab/results.db in the XDG data directory].
    #[arg(long, global = true, value_name = "FILE")]
    pub store: Option<PathBuf>,
}

/// How this invocation talks, from the options of every command.
#[derive(Debug, Clone)]
pub struct Context {
    /// One JSON document instead of text.
    pub json: bool,
    /// Show progress on standard error: not with `--quiet`, and not unless it is a terminal.
    pub progress: bool,
    /// No progress and no remarks on standard error.
    pub quiet: bool,
    /// Every question is answered yes.
    pub yes: bool,
    /// `--store`.
    pub store: Option<PathBuf>,
}

impl Context {
    /// From the options.
    pub fn new(global: &Global) -> Self {
        Self {
            json: global.json,
            progress: !global.quiet && std::io::stderr().is_terminal(),
            quiet: global.quiet,
            yes: global.yes,
            store: global.store.clone(),
        }
    }

    /// Writes a remark to standard error, unless `--quiet`.
    pub fn remark(&self, text: &str) {
        if !self.quiet {
            anstream::eprintln!("{text}");
        }
    }

    /// Prints `text`, or with `--json` the document `{"schema": schema, "version": version, …value}`.
    pub fn report<T: serde::Serialize>(&self, schema: &str, version: u32, value: &T, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if !self.json {
            return print(&text());
        }
        print(&document(schema, version, value)?)
    }
}

/// The document `{"schema": "trimtab.…", "version": version, …value}`, with a newline at its end.
/// A value that is no object stands under the name of the schema.
pub fn document<T: serde::Serialize>(schema: &str, version: u32, value: &T) -> anyhow::Result<String> {
    #[derive(serde::Serialize)]
    struct Document<'a, T> {
        schema: String,
        version: u32,
        // Straight through: an intermediate value would lose the second of two equal keys.
        #[serde(flatten)]
        value: &'a T,
    }
    let name = format!("trimtab.{schema}");
    let mut text = match serde_json::to_string_pretty(&Document { schema: name.clone(), version, value }) {
        Ok(text) => text,
        Err(_) => serde_json::to_string_pretty(&serde_json::json!({ "schema": name, "version": version, schema: value }))?,
    };
    text.push('\n');
    Ok(text)
}

/// Lets a closed pipe end the program quietly, as it ends every other filter: Rust ignores SIGPIPE at start.
pub fn restore_default_sigpipe() {
    // SAFETY: no other thread exists yet, and the default action is what every child of a shell starts with.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// While it lives, a closed pipe is an error of the write that meets it and does not end the program: there is something to clean up.
#[derive(Debug)]
pub struct SurvivesClosedPipe(());

impl SurvivesClosedPipe {
    /// From now on.
    pub fn new() -> Self {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        }
        Self(())
    }
}

impl Default for SurvivesClosedPipe {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SurvivesClosedPipe {
    fn drop(&mut self) {
        // SAFETY: the default action runs no code of ours.
        unsafe {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
    }
}

/// Prints `text` and a newline to standard output, with colours only where they can be seen (`NO_COLOR` is honoured).
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Writes raw bytes to standard output.
pub fn write_stdout(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Columns of the screen that standard output goes to: of the terminal, or what `COLUMNS` says; `None` where nothing has to be broken.
pub fn width() -> Option<usize> {
    let of_terminal = || crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.trim().parse::<usize>().ok();
    // A terminal that does not know its width says 0.
    let known = |columns: &usize| *columns > 0;
    std::io::stdout().is_terminal().then(of_terminal).flatten().filter(known).or_else(|| said().filter(known))
}
