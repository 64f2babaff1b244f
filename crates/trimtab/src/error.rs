//! How errors reach the user: one line on standard error, its cause chain with it, a hint below.

use std::fmt;
use std::process::ExitCode;

/// Exit status for wrong usage, as clap uses it.
pub const USAGE: u8 = 2;
/// Exit status after an interrupt (128 + SIGINT), as shells report it.
pub const INTERRUPTED: u8 = 130;

/// What was asked cannot mean anything here (exit status 2): a bad value, a bad combination, a missing consent.
#[derive(Debug)]
pub struct UsageError {
    message: String,
    hint: Option<String>,
}

impl UsageError {
    /// A usage error: what is wrong and where.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// What to do instead.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}; {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for UsageError {}

/// Exit status if TRIM is blocked somewhere, whichever command finds it.
pub const BLOCKED: u8 = 3;
/// Exit status if it cannot be told, or has not been proved, that TRIM gets through.
pub const NOT_PROVED: u8 = 4;

/// TRIM cannot get through (exit status 3): a layer, or how the filesystem is mounted, is in the way.
#[derive(Debug)]
pub struct Blocked(pub String);

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Blocked {}

/// The user stopped it (SIGINT, SIGTERM); everything has been cleaned up.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Prints `error` with its causes on one line and gives the exit status that belongs to it.
pub fn print_and_exit_code(error: &anyhow::Error) -> ExitCode {
    crate::output::complain(&one_line(error));
    if error.downcast_ref::<UsageError>().is_some() {
        ExitCode::from(USAGE)
    } else if error.chain().any(|cause| cause.is::<Interrupted>()) {
        ExitCode::from(INTERRUPTED)
    } else if error.downcast_ref::<Blocked>().is_some() {
        ExitCode::from(BLOCKED)
    } else {
        ExitCode::FAILURE
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
}
