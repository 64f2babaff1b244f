//! How errors reach the user: one line on standard error, its cause chain with it, a hint below; with `--json` also as a document.

use crate::output;
use crate::sys::interrupt::Interrupted;
use rustix::io::Errno;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use trimtab_drive::usage::UsageError;
use trimtab_sim::runner::Stopped;

/// Exit status for wrong usage, as clap uses it.
pub const USAGE: u8 = 2;
/// Exit status after an interrupt (128 + SIGINT), as shells report it.
pub const INTERRUPTED: u8 = 130;
/// Exit status of everything else that went wrong.
pub const FAILED: u8 = 1;

/// Exit status if TRIM is blocked somewhere, whichever command finds it.
pub const BLOCKED: u8 = 3;
/// Exit status if it cannot be told, or has not been proved, that TRIM gets through.
pub const NOT_PROVED: u8 = 4;

/// Exit status of a comparison that found something worse than it was allowed to be.
pub const WORSE: u8 = 5;

/// TRIM cannot get through (exit status 3): a layer, or how the filesystem is mounted, is in the way.
#[derive(Debug)]
pub struct Blocked(pub String);

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Blocked {}

/// What kind of error it is: decides the exit status, and is said in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The words of the command are wrong in themselves.
    Usage,
    /// Everything else: what is named is not there, cannot be used, or failed.
    Failed,
    /// Stopped by a signal.
    Interrupted,
    /// TRIM does not get through, or nobody knows.
    Blocked,
}

impl Kind {
    /// Of an error.
    pub fn of(error: &anyhow::Error) -> Self {
        if error.chain().any(|cause| cause.is::<Interrupted>() || cause.downcast_ref::<Stopped>() == Some(&Stopped::Interrupted)) {
            return Self::Interrupted;
        }
        if error.downcast_ref::<Blocked>().is_some() {
            return Self::Blocked;
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<UsageError>()) {
            Some(usage) if !usage.is_missing() => Self::Usage,
            _ => Self::Failed,
        }
    }

    /// Its exit status.
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::Usage => USAGE,
            Self::Failed => FAILED,
            Self::Interrupted => INTERRUPTED,
            Self::Blocked => BLOCKED,
        }
    }
}

/// What the document says of an error: the one shape for every command.
#[derive(Debug, Serialize)]
struct Described {
    kind: Kind,
    exit_status: u8,
    /// What went wrong, without the causes.
    message: String,
    /// Why, the nearest cause first.
    causes: Vec<String>,
    /// What to do instead.
    hint: Option<String>,
    /// The number of the system's error, if it was one.
    errno: Option<i32>,
}

impl Described {
    fn of(error: &anyhow::Error) -> Self {
        let usage = error.downcast_ref::<UsageError>();
        Self {
            kind: Kind::of(error),
            exit_status: Kind::of(error).exit_status(),
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
    // Some wrap the system's error in one of their own that keeps only its text.
    let in_text = || cause.to_string().split_once("(os error ")?.1.split_once(')')?.0.parse().ok();
    of_io.or_else(of_call).or_else(in_text)
}

/// Prints `error` with its causes on one line, with `json` a document as well, and gives the exit status that belongs to it.
pub fn print_and_exit_code(error: &anyhow::Error, json: bool) -> ExitCode {
    output::complain(&one_line(error));
    if json {
        print_document(&Described::of(error));
    }
    ExitCode::from(Kind::of(error).exit_status())
}

/// The same for what the command line parser refuses, which has printed it.
pub fn print_usage_document(message: &str) {
    let (first, rest) = message.split_once("\n\n").unwrap_or((message, ""));
    let tip = rest.lines().map(str::trim).find_map(|line| line.strip_prefix("tip: "));
    print_document(&Described {
        kind: Kind::Usage,
        exit_status: USAGE,
        message: first.trim_start_matches("error: ").lines().map(str::trim).collect::<Vec<_>>().join(" "),
        causes: Vec::new(),
        hint: tip.map(str::to_owned),
        errno: None,
    });
}

/// One document a command: what was reported before the error stays the only one.
fn print_document(described: &Described) {
    if output::has_reported() {
        return;
    }
    if let Ok(text) = output::document("error", 1, &serde_json::json!({ "error": described })) {
        // Nobody may be there to read it; the line on standard error and the status say it as well.
        let _ = output::print(&text);
    }
}

/// The message and its causes, joined by `: `, without repeating a cause that the message already ends with.
pub fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !line.ends_with(&cause) {
            line.push_str(": ");
            line.push_str(&cause);
        }
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn causes_stand_on_one_line() {
        let error = Err::<(), _>(std::io::Error::from_raw_os_error(28)).context("cannot write /x").unwrap_err();
        assert_eq!(one_line(&error), "cannot write /x: No space left on device (os error 28)");
    }

    #[test]
    fn the_kind_decides_the_status_and_errno_is_kept() {
        let full = Err::<(), _>(std::io::Error::from_raw_os_error(28)).context("cannot write /x").unwrap_err();
        let described = Described::of(&full);
        assert_eq!((described.kind, described.exit_status, described.errno), (Kind::Failed, 1, Some(28)));
        assert_eq!((described.message.as_str(), described.causes.len()), ("cannot write /x", 1));
        let wrong = anyhow::Error::from(UsageError::new("a").hint("b"));
        let described = Described::of(&wrong);
        assert_eq!((described.exit_status, described.message.as_str(), described.hint.as_deref()), (2, "a", Some("b")));
        assert_eq!(Kind::of(&wrong.context("c")), Kind::Usage, "also below a context");
        assert_eq!(Kind::of(&UsageError::missing("a").into()).exit_status(), 1);
        assert_eq!(Kind::of(&anyhow::Error::from(Interrupted).context("x")).exit_status(), 130);
    }
}
