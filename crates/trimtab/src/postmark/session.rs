//! A PostMark session: reads commands, executes them, and prints the original's output.

use super::classic::{self, Stamps, Totals};
use super::command::{self, InputLine, PostmarkCommand};
use super::config::{PostmarkConfig, PostmarkReportFormat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use trimtab_linux::sys::beneath;
use trimtab_linux::sys::beneath::named::{self, Streams};
use trimtab_linux::sys::interrupt::InterruptError;

/// The original's first line, which scripts look for.
const BANNER: &str = "PostMark v1.51 : 8/14/01";
/// File of commands if none is named.
pub const DEFAULT_FILE: &str = ".pmrc";
/// Largest part of a file that is executed, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Deeper nesting means that a file loads itself.
const LOAD_DEPTH_MAX: u32 = 64;

/// A run that ended normally.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PostmarkResult {
    /// The totals.
    pub totals: Totals,
    /// The times.
    pub stamps: Stamps,
    /// True if all transactions were done; false if the files ran out.
    pub all_done: bool,
}

/// Executes one run with its progress on the output. A failed run cleans up.
pub type Runner<'a> =
    dyn FnMut(&PostmarkConfig, &mut dyn Write) -> anyhow::Result<PostmarkResult> + 'a;

/// Outputs of a session.
pub struct SessionOutput<'a> {
    /// Standard output of the original.
    pub out: &'a mut dyn Write,
    /// Complaints, one line each.
    pub complain: &'a mut dyn FnMut(&str),
    /// Send the output of `!` commands to standard error, because standard output is used
    /// otherwise.
    pub shell_to_stderr: bool,
}

/// A session.
pub struct Session<'a> {
    config: PostmarkConfig,
    voice: SessionOutput<'a>,
    runner: &'a mut Runner<'a>,
    load_depth: u32,
    /// The file being executed is writable by other users.
    foreign: bool,
    failed: bool,
}

/// The step after a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionStep {
    Line,
    Quit,
}

impl<'a> Session<'a> {
    /// A session that starts with `config`.
    pub fn new(
        config: PostmarkConfig,
        voice: SessionOutput<'a>,
        runner: &'a mut Runner<'a>,
    ) -> Self {
        Self { config, voice, runner, load_depth: 0, foreign: false, failed: false }
    }

    /// Executes `file` if it exists, then `input` with a prompt, unless the file contains
    /// `quit`. Returns true if a run failed or a named file cannot be read.
    pub fn execute(mut self, file: &Path, input: &mut dyn BufRead) -> anyhow::Result<bool> {
        writeln!(self.voice.out, "{BANNER}")?;
        let mut next = SessionStep::Line;
        match named::open_to_read(file, Streams::Pipes) {
            // The user did not name this file, and anyone may have written it; its
            // commands would run with the user's permissions.
            Ok(open) if file == Path::new(DEFAULT_FILE) && named::is_open_to_others(&open) => {
                self.complain(&format!("{DEFAULT_FILE} is writable by other users and is ignored"));
            }
            Ok(open) => next = self.load(file, open)?,
            Err(error) if file != Path::new(DEFAULT_FILE) => {
                self.complain(&format!(
                    "cannot read the configuration file {}: {error}; continuing without it",
                    file.display()
                ));
                self.failed = true;
            }
            Err(_) => {}
        }
        while next == SessionStep::Line {
            write!(self.voice.out, "pm>")?;
            self.voice.out.flush()?;
            let Some(line) = command::read_line(input)? else { break };
            self.note_cut(&line, "standard input");
            next = match &line.text[..] {
                b"?" => self.line(b"help")?,
                b"exit" => SessionStep::Quit,
                text => self.line(text)?,
            };
        }
        self.voice.out.flush()?;
        Ok(self.failed)
    }

    fn complain(&mut self, text: &str) {
        (self.voice.complain)(text);
    }

    fn note_cut(&mut self, line: &InputLine, input: &str) {
        if line.cut_at_end {
            self.complain(&format!(
                "the last line of {input} has no newline, so its last character was \
                dropped, as in the original"
            ));
        }
    }

    fn load(&mut self, name: &Path, file: File) -> anyhow::Result<SessionStep> {
        self.voice.out.write_all(b"Reading configuration from file '")?;
        self.voice.out.write_all(name.as_os_str().as_bytes())?;
        writeln!(self.voice.out, "'")?;
        let around = self.foreign;
        self.foreign |= named::is_open_to_others(&file);
        let mut lines = BufReader::new(file.take(FILE_BYTES_MAX));
        self.load_depth += 1;
        let mut next = SessionStep::Line;
        while next == SessionStep::Line {
            let line = match command::read_line(&mut lines) {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => {
                    self.complain(&format!("cannot read {}: {error}", name.display()));
                    break;
                }
            };
            self.note_cut(&line, &name.display().to_string());
            next = self.line(&line.text)?;
        }
        self.load_depth -= 1;
        self.foreign = around;
        Ok(next)
    }

    fn line(&mut self, line: &[u8]) -> anyhow::Result<SessionStep> {
        match command::parse(line) {
            PostmarkCommand::Set(setting, argument) => {
                if let Err(complaint) = self.config.set(setting, argument) {
                    self.complain(&format!("{}: {complaint}", line.escape_ascii()));
                }
            }
            PostmarkCommand::Run(argument) => self.run(argument)?,
            PostmarkCommand::Load(argument) => self.load_named(argument)?,
            PostmarkCommand::Show(argument) => self.show(argument)?,
            PostmarkCommand::Help(argument) => {
                self.voice.out.write_all(command::help(argument.unwrap_or_default()).as_bytes())?
            }
            PostmarkCommand::Quit => return Ok(SessionStep::Quit),
            PostmarkCommand::Shell(command) => self.shell(command)?,
            PostmarkCommand::Unknown => writeln!(self.voice.out, "Eh?")?,
        }
        Ok(SessionStep::Line)
    }

    /// `quit` in a loaded file ends only that file.
    fn load_named(&mut self, argument: Option<&[u8]>) -> anyhow::Result<()> {
        let Some(name) = argument.map(path) else {
            self.complain("load: no file given; 'load FILE'");
            return Ok(());
        };
        if self.load_depth >= LOAD_DEPTH_MAX {
            self.complain(&format!("load: {} is loaded from within itself", name.display()));
            return Ok(());
        }
        match named::open_to_read(name, Streams::Pipes) {
            Ok(file) => self.load(name, file).map(drop),
            Err(error) => {
                self.complain(&format!(
                    "load: cannot read the configuration file {}: {error}",
                    name.display()
                ));
                Ok(())
            }
        }
    }

    /// Opens the file for appending a report or the settings; `None` is standard output.
    fn output(&mut self, argument: Option<&[u8]>) -> Option<File> {
        let name = path(argument?);
        match beneath::open_to_append(name) {
            Ok(file) => Some(file),
            Err(error) => {
                self.complain(&format!(
                    "cannot write to the file '{}', so this goes to standard output: {error}",
                    name.display()
                ));
                None
            }
        }
    }

    fn show(&mut self, argument: Option<&[u8]>) -> anyhow::Result<()> {
        let file = self.output(argument);
        let [head, locations, tail] = self.config.show()?;
        match file {
            Some(mut file) => {
                self.voice.out.write_all(&locations)?;
                if let Err(error) = file.write_all(&[head, tail].concat()) {
                    self.complain(&format!("show: {error}"));
                }
            }
            None => self.voice.out.write_all(&[head, locations, tail].concat())?,
        }
        Ok(())
    }

    fn run(&mut self, argument: Option<&[u8]>) -> anyhow::Result<()> {
        let finished = match (self.runner)(&self.config, self.voice.out) {
            Ok(finished) => finished,
            Err(error) if error.chain().any(|cause| cause.is::<InterruptError>()) => {
                self.voice.out.flush()?;
                return Err(error);
            }
            Err(error) => {
                self.failed = true;
                // The message about the present phase is an unfinished line.
                writeln!(self.voice.out)?;
                self.voice.out.flush()?;
                self.complain(&trimtab_linux::output::error::one_line(&error));
                return Ok(());
            }
        };
        let file = self.output(argument);
        if !finished.all_done {
            return Ok(());
        }
        let report = match self.config.format {
            PostmarkReportFormat::Verbose => classic::verbose(&finished.totals, finished.stamps),
            PostmarkReportFormat::Terse => classic::terse(&finished.totals, finished.stamps),
        };
        match file {
            Some(mut file) => {
                if let Err(error) = file.write_all(report.as_bytes()) {
                    self.failed = true;
                    self.complain(&format!("run: cannot write the report: {error}"));
                }
            }
            None => self.voice.out.write_all(report.as_bytes())?,
        }
        Ok(())
    }

    fn shell(&mut self, command: &[u8]) -> anyhow::Result<()> {
        self.voice.out.flush()?;
        if self.foreign {
            self.complain(
                "shell commands in a file that is writable by other users are not executed",
            );
            return Ok(());
        }
        let mut process = if command.is_empty() {
            Process::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()))
        } else {
            let mut process = Process::new("/bin/sh");
            process.arg("-c").arg(OsStr::from_bytes(command));
            process
        };
        if self.voice.shell_to_stderr {
            process.stdout(Stdio::from(std::io::stderr()));
        }
        if let Err(error) = process.status() {
            self.complain(&format!("cannot start the shell: {error}"));
        }
        Ok(())
    }
}

fn path(argument: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(argument))
}

#[cfg(test)]
mod tests;
