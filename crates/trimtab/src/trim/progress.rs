//! Progress of a trim.

use trimtab_drive::units::grouped;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::trim::surface::Account;
use trimtab_sim::target::TrimWindow;

/// A progress display for trimming `windows`, by addresses covered.
pub fn view<'a>(context: &Context, windows: impl Iterator<Item = &'a TrimWindow>) -> Progress {
    let addresses = windows.map(|window| window.len).sum();
    Progress::new(context, "trimming", ProgressUnit::Bytes, addresses)
}

/// Shows the windows covered, without earlier attempts at them, so that the bar does not
/// pass its end.
pub fn show(progress: &mut Progress, account: &Account, waits: bool) {
    progress.set(account.gone_over.0);
    let wait = if waits { "waiting for idle time, " } else { "" };
    let requests = grouped(account.discards.carried_out().count);
    progress.say(&format!("{wait}requests {requests}, longest {}", account.longest));
}
