//! Error output: one line with the cause chain, a hint below it, with `--json` a
//! document.

use crate::output;
use crate::sys::interrupt::InterruptError;
use rustix::io::Errno;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_sim::runner::StopReason;

/// Exit status for wrong usage, as in clap.
pub const USAGE: u8 = 2;
/// Exit status after an interrupt (128 + SIGINT), as shells report it.
pub const INTERRUPTED: u8 = 130;
/// Exit status for all other errors.
pub const FAILED: u8 = 1;

/// Exit status of every command if TRIM is blocked.
pub const BLOCKED: u8 = 3;
/// Exit status if it is unknown or unproved that TRIM reaches the drive.
pub const NOT_PROVED: u8 = 4;

/// Exit status after standard output was closed (128 + SIGPIPE), as shells report it.
const CLOSED_PIPE: u8 = 141;

/// TRIM is blocked (exit status 3) by a layer or by the mount options of the filesystem.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TrimBlockedError(pub String);

/// The error of a path that the user named: one that does not exist, or is a directory,
/// gets a hint, any other keeps its cause behind `doing`.
pub fn of_named(error: std::io::Error, path: &Path, doing: &str, hint: &str) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOENT) => {
            UsageError::missing(format!("there is no '{}'", path.display())).hint(hint).into()
        }
        Some(libc::EISDIR) => {
            let problem = format!("'{}' is a directory", path.display());
            UsageError::missing(problem).hint(hint).into()
        }
        _ => anyhow::Error::new(error).context(format!("{doing} '{}'", path.display())),
    }
}

/// The kind of an error: determines the exit status and is part of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// The command line itself is wrong.
    Usage,
    /// Any other error: an object does not exist, cannot be used, or failed.
    Failed,
    /// Stopped by a signal.
    Interrupted,
    /// TRIM is blocked, or that is unknown.
    Blocked,
}

impl FailureKind {
    /// The kind of `error`.
    pub fn of(error: &anyhow::Error) -> Self {
        if error.chain().any(|cause| {
            cause.is::<InterruptError>()
                || cause.downcast_ref::<StopReason>() == Some(&StopReason::Interrupted)
        }) {
            return Self::Interrupted;
        }
        if error.downcast_ref::<TrimBlockedError>().is_some() {
            return Self::Blocked;
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<UsageError>()) {
            Some(usage) if !usage.is_missing() => Self::Usage,
            _ => Self::Failed,
        }
    }

    /// Exit status for this kind.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Usage => USAGE,
            Self::Failed => FAILED,
            Self::Interrupted => INTERRUPTED,
            Self::Blocked => BLOCKED,
        }
    }
}

/// An error in the document, in the same form for every command.
#[derive(Debug, Serialize)]
struct ErrorDescription {
    kind: FailureKind,
    exit_status: u8,
    /// The error without its causes.
    message: String,
    /// The causes, nearest first.
    causes: Vec<String>,
    /// Advice on what to do instead.
    hint: Option<String>,
    /// The error number of the system call, if there was one.
    errno: Option<i32>,
}

impl ErrorDescription {
    fn of(error: &anyhow::Error) -> Self {
        let usage = error.downcast_ref::<UsageError>();
        Self {
            kind: FailureKind::of(error),
            exit_status: FailureKind::of(error).exit_status(),
            message: usage.map_or_else(|| error.to_string(), |usage| usage.message().to_owned()),
            causes: error.chain().skip(1).map(ToString::to_string).collect(),
            hint: usage.and_then(|usage| usage.advice().map(str::to_owned)),
            errno: error.chain().find_map(errno),
        }
    }
}

fn errno(cause: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let of_io = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    let of_call = || cause.downcast_ref::<Errno>().map(|errno| errno.raw_os_error());
    // Some libraries wrap the system's error in their own and keep only its text.
    let in_text = || cause.to_string().split_once("(os error ")?.1.split_once(')')?.0.parse().ok();
    of_io.or_else(of_call).or_else(in_text)
}

/// Prints `error` with its causes, and with `json` a document. Returns its exit status.
/// The reader of a closed standard output wants neither.
pub fn print_and_exit_code(error: &anyhow::Error, json: bool) -> ExitCode {
    let io = error.downcast_ref::<std::io::Error>();
    if io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
        return ExitCode::from(CLOSED_PIPE);
    }
    output::complain(&one_line(error));
    if json {
        print_document(error);
    }
    ExitCode::from(FailureKind::of(error).exit_status())
}

/// Prints the document of an error, unless the command has printed one.
pub fn print_document(error: &anyhow::Error) {
    if output::has_reported() {
        return;
    }
    let described = ErrorDescription::of(error);
    if let Ok(text) = output::document("error", 1, &serde_json::json!({ "error": described })) {
        // The exit status tells the rest.
        let _ = output::print(&text);
    }
}

/// The message and its causes joined by `: `, without a cause that already ends the
/// message.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !line.ends_with(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    shortened(&line.replace('\n', " "))
}

/// Longest quotation in an error, in characters.
const QUOTED_MAX: usize = 200;
/// Longest error in characters, far above those without foreign text.
const LINE_MAX: usize = 4000;

/// Shortens quotations, since they may come from a file with any content. Paths stay
/// whole.
fn shortened(line: &str) -> String {
    const QUOTES: [char; 2] = ['\'', '`'];
    let (mut short, mut is_quoted) = (String::new(), false);
    for part in line.split_inclusive(QUOTES) {
        let text = part.strip_suffix(QUOTES).unwrap_or(part);
        if is_quoted && !text.starts_with('/') && text.chars().count() > QUOTED_MAX {
            short.extend(text.chars().take(QUOTED_MAX));
            short.push('…');
        } else {
            short.push_str(text);
        }
        short.push_str(&part[text.len()..]);
        // An apostrophe within or after a word opens nothing.
        is_quoted = !text.ends_with(char::is_alphanumeric);
    }
    match short.char_indices().nth(LINE_MAX) {
        Some((end, _)) => short[..end].to_owned() + "…",
        None => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn one_line_shortens_quotations_and_keeps_paths() {
        let long = "x y ".repeat(1000);
        let said = |text: String| one_line(&anyhow::anyhow!(text));
        assert_eq!(
            said(format!("line 3: '{long}' is wrong")).chars().count(),
            "line 3: '' is wrong".len() + QUOTED_MAX + 1
        );
        assert_eq!(
            said(format!("unknown field `{long}")).chars().count(),
            "unknown field `".len() + QUOTED_MAX + 1
        );
        assert_eq!(said(format!("the drive's {long}'s")).chars().count(), LINE_MAX + 1);
        let own =
            format!("the drive's '{}' and '/{}' stay", "z".repeat(QUOTED_MAX), "p/".repeat(300));
        assert_eq!(said(own.clone()), own);
    }

    #[test]
    fn one_line_joins_causes() {
        let error = Err::<(), _>(std::io::Error::from_raw_os_error(28))
            .context("cannot write /x")
            .unwrap_err();
        assert_eq!(one_line(&error), "cannot write /x: No space left on device (os error 28)");
    }

    #[test]
    fn kind_determines_exit_status_and_keeps_errno() {
        let full = Err::<(), _>(std::io::Error::from_raw_os_error(28))
            .context("cannot write /x")
            .unwrap_err();
        let described = ErrorDescription::of(&full);
        assert_eq!(
            (described.kind, described.exit_status, described.errno),
            (FailureKind::Failed, 1, Some(28))
        );
        assert_eq!((described.message.as_str(), described.causes.len()), ("cannot write /x", 1));
        let wrong = anyhow::Error::from(UsageError::new("a").hint("b"));
        let described = ErrorDescription::of(&wrong);
        assert_eq!(
            (described.exit_status, described.message.as_str(), described.hint.as_deref()),
            (2, "a", Some("b"))
        );
        assert_eq!(
            FailureKind::of(&wrong.context("c")),
            FailureKind::Usage,
            "also below a context"
        );
        assert_eq!(FailureKind::of(&UsageError::missing("a").into()).exit_status(), 1);
        assert_eq!(
            FailureKind::of(&anyhow::Error::from(InterruptError).context("x")).exit_status(),
            130
        );
    }
}
