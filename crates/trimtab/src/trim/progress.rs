//! Progress of a trim.

use std::path::Path;
use trimtab_drive::units::{Nanos, grouped};
use trimtab_linux::host::discards::Meter;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::trim::surface::Account;
use trimtab_sim::target::TrimWindow;

/// A progress display for trimming `windows` of the filesystem at `path`: addresses
/// covered, and the drives' counts.
pub fn view<'a>(
    context: &Context,
    path: &Path,
    windows: impl Iterator<Item = &'a TrimWindow>,
) -> Progress {
    let addresses = windows.map(|window| window.len).sum();
    Progress::new(context, "trimming", ProgressUnit::Bytes, addresses)
        .with_discards(|| Meter::start(path).ok())
}

/// Shows the windows covered, without earlier attempts at them, so that the bar does not
/// pass its end.
pub fn show(progress: &mut Progress, account: &Account, waits: bool) {
    progress.set(account.gone_over.0);
    progress.say(|| {
        let wait = waits.then(|| "waiting for idle time".to_owned());
        let others = account
            .wait_during
            .filter(|wait| *wait > Nanos::ZERO)
            .map(|wait| format!("foreground I/O waited {wait}"));
        let said = [
            format!("requests {}", grouped(account.discards.carried_out().count)),
            format!("longest {}", account.longest),
        ];
        wait.into_iter().chain(said).chain(others).collect()
    });
}
