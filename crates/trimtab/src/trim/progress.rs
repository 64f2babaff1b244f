//! Progress of a trim.

use super::TrimMode;
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::trim::surface::Account;
use trimtab_sim::target::TrimWindow;

/// Progress of a pass over one filesystem.
pub struct PassProgress {
    view: Progress,
    /// An idle trim: its duration is not known.
    idle: Option<IdleProgress>,
}

/// The known facts about an idle trim.
#[derive(Clone, Copy, Debug)]
struct IdleProgress {
    /// Free space at the start, if the filesystem reports it.
    sendable: Option<Bytes>,
    /// `--finish-within`; 0 without.
    finish_within: Nanos,
}

impl PassProgress {
    /// An immediate trim of `windows` is shown by addresses covered, an idle trim of up to
    /// `sendable` by bytes sent.
    pub fn new<'a>(
        context: &Context,
        how: &TrimMode,
        windows: impl Iterator<Item = &'a TrimWindow>,
        sendable: Option<Bytes>,
    ) -> Self {
        match how {
            TrimMode::AtOnce => {
                let addresses = windows.map(|window| window.len).sum();
                let view = Progress::new(context, "trimming", ProgressUnit::Bytes, addresses);
                Self { view, idle: None }
            }
            TrimMode::Idle(settings) => Self {
                view: Progress::new(context, "trimming, sent so far", ProgressUnit::Bytes, 0),
                idle: Some(IdleProgress { sendable, finish_within: settings.finish_within }),
            },
        }
    }

    /// Shows the state `took` after the start. Earlier attempts at a window do not count, so
    /// that the bar does not pass its end.
    pub fn show(&mut self, account: &Account, took: Nanos, waits: bool) {
        let requests = grouped(account.discards.carried_out().count);
        let requests = format!("requests {requests}, longest {}", account.longest);
        match &self.idle {
            None => {
                self.view.set(account.gone_over.0);
                self.view.say(&requests);
            }
            Some(idle) => {
                let accepted = account.discards.accepted.map(|accepted| accepted.bytes);
                let sent = accepted.map(|sent| sent.saturating_sub(account.trials));
                self.view.set(sent.unwrap_or(account.returned).0);
                self.view.say(&idle.state(took, waits, &requests));
            }
        }
    }
}

impl IdleProgress {
    fn state(&self, took: Nanos, waits: bool, requests: &str) -> String {
        let within = self.finish_within;
        let end = match within.saturating_sub(took) {
            _ if within == Nanos::ZERO => None,
            Nanos::ZERO => Some(format!("the {within} are over: sending the rest at once")),
            left => Some(format!("in idle time for at most {} more", whole_seconds(left))),
        };
        let amount = self.sendable.map(|sendable| format!("up to {sendable} in all"));
        let waits = waits.then(|| "waiting for idle time".to_owned());
        let parts = [amount, waits, Some(requests.to_owned()), end];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn whole_seconds(time: Nanos) -> Nanos {
    Nanos::from_secs(time.0.div_ceil(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, an idle trim said "0 s left", then 3 min 16 s, 16 s, 111 s, and ended.
    #[test]
    fn progress_of_idle_trim_shows_only_known_facts() {
        let requests = "requests 14, longest 20.6 ms";
        let mut idle =
            IdleProgress { sendable: Some(Bytes(1_180_000_000)), finish_within: Nanos::ZERO };
        let state = |idle: IdleProgress, secs| idle.state(Nanos::from_secs(secs), false, requests);
        assert_eq!(state(idle, 9), "up to 1.18 GB in all, requests 14, longest 20.6 ms");
        assert_eq!(
            idle.state(Nanos::from_secs(9), true, requests),
            "up to 1.18 GB in all, waiting for idle time, requests 14, longest 20.6 ms"
        );
        idle.finish_within = Nanos::from_secs(60);
        assert!(state(idle, 15).ends_with("20.6 ms, in idle time for at most 45.0 s more"));
        assert!(state(idle, 60).ends_with("the 60.0 s are over: sending the rest at once"));
        idle.sendable = None;
        assert!(state(idle, 61).starts_with(requests));
    }
}
