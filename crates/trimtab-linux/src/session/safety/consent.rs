//! Announces the amount to write, and asks for consent if it is large.

use super::TargetDirectory;
use crate::output::Context;
use crate::sys::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_sim::workload::WorkloadPlan;

/// Larger amounts need consent …
const FREE_BYTES: Bytes = Bytes(10_000_000_000);
/// … and so do amounts above this share of the drive: 1 %.
const FREE_SHARE: u64 = 100;

/// Returns the reason why writing `written` bytes to a drive of this size needs consent;
/// `None` if it does not.
pub fn reason(written: Bytes, drive: Option<Bytes>) -> Option<String> {
    if written > FREE_BYTES {
        return Some(format!("that is more than {FREE_BYTES}"));
    }
    let drive = drive.filter(|drive| written.0 > drive.0 / FREE_SHARE)?;
    Some(format!(
        "that is {:.1} % of the drive's {drive}",
        written.as_f64() / drive.as_f64() * 100.0
    ))
}

/// Announces that the command `what` writes a plan below `ground`, and asks for consent
/// if the amount is large.
///
/// # Errors
/// [`UsageError`] without consent.
pub fn announce_and_ask(
    context: &Context,
    ground: &TargetDirectory,
    what: &str,
    plan: &WorkloadPlan,
) -> anyhow::Result<()> {
    let most = if plan.space < plan.written {
        format!(", {} at a time", plan.space)
    } else {
        String::new()
    };
    let announcement = format!(
        "{what} writes up to {}{most} in {} and removes it afterwards",
        plan.written,
        ground.path.display()
    );
    require(context, &announcement, plan.written, ground.drive)
}

/// Announces that the command `what` overwrites the file or device at `path`, on a drive
/// of this size. Asks for consent if the amount is large.
///
/// # Errors
/// [`UsageError`] without consent.
pub fn to_destroy(
    context: &Context,
    what: &str,
    path: &Path,
    written: Bytes,
    drive: Option<Bytes>,
) -> anyhow::Result<()> {
    let announcement =
        format!("{what} writes up to {written} to {} and destroys what is on it", path.display());
    require(context, &announcement, written, drive)
}

fn require(
    context: &Context,
    announcement: &str,
    written: Bytes,
    drive: Option<Bytes>,
) -> anyhow::Result<()> {
    let Some(reason) = reason(written, drive) else {
        context.remark(&format!("{announcement}."));
        return Ok(());
    };
    if ask(context, &format!("{announcement}; {reason}. Continue?"))? {
        return Ok(());
    }
    Err(UsageError::new(format!("{announcement}; {reason}")).hint("say --yes to allow it").into())
}

/// True if the user can answer yes to a question.
pub fn can_be_given(context: &Context) -> bool {
    context.yes || (std::io::stdin().is_terminal() && std::io::stderr().is_terminal())
}

/// Asks on the terminal. `--yes` answers yes without asking; without a terminal, the
/// answer is no.
pub fn ask(context: &Context, question: &str) -> anyhow::Result<bool> {
    if context.yes {
        context.remark(&format!("{question} Yes (--yes)."));
        return Ok(true);
    }
    if !can_be_given(context) {
        return Ok(false);
    }
    let mut err = anstream::stderr().lock();
    let shown = crate::output::on_stderr(&crate::output::plain(&format!("{question} [y/N]")));
    write!(err, "{} ", shown.trim_end())?;
    err.flush()?;
    answered()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Waits until an answer can be read. A blocking read would continue after a signal, but
/// an interrupt is an answer too.
fn answered() -> anyhow::Result<()> {
    let stdin = std::io::stdin();
    let a_moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    loop {
        interrupt::check()?;
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&a_moment)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(std::io::Error::from(errno).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consent_is_needed_above_10_gb_or_1_percent_of_drive() {
        let gb = |n: u64| Bytes(n * 1_000_000_000);
        assert_eq!(reason(gb(10), None), None);
        assert_eq!(reason(Bytes(10_000_000_001), None).unwrap(), "that is more than 10.0 GB");
        assert_eq!(reason(gb(1), Some(gb(100))), None);
        assert_eq!(reason(gb(3), Some(gb(100))).unwrap(), "that is 3.0 % of the drive's 100 GB");
        assert_eq!(reason(Bytes::ZERO, Some(gb(1))), None);
    }
}
