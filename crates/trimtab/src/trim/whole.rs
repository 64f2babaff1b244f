//! A pass over a whole filesystem, which continues an interrupted one.

use super::outcome::FilesystemOutcome;
use super::progress::PassProgress;
use super::{ManualTrimRequest, TrimMode};
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, Nanos, grouped};
use trimtab_linux::output::Context;
use trimtab_linux::sys::clock::{nanos, unix_now};
use trimtab_linux::sys::interrupt;
use trimtab_linux::trim::filesystem::Filesystem;
use trimtab_linux::trim::free_space::SendableSpace;
use trimtab_linux::trim::resume::{InterruptedPass, ResumeFile, state_directory};
use trimtab_linux::trim::surface::{Account, CallerState, FilesystemSurface, at_least};
use trimtab_sim::policy::{Driver, IdleSettings, RefusalAction, RefusalLimits, TurnResult};

/// Refused windows are skipped. Several in a row mean that the drive fails, not a place
/// on it: the pass stops.
const PATIENCE: RefusalLimits = RefusalLimits { tries: 1, windows: 8 };

/// Trims all windows under the policy, starting where an interrupted pass stopped.
pub fn whole(
    request: &ManualTrimRequest,
    fs: &mut Filesystem,
    context: &Context,
    outcome: &mut FilesystemOutcome,
) -> anyhow::Result<Account> {
    let file = ResumeFile::new(&state_directory(), fs.id());
    let earlier = file.load(unix_now().0 / 1_000_000_000).filter(|e| {
        !request.restart
            && e.min_extent == request.min_extent.0
            && kind(&e.policy) == kind(&request.how.to_string())
    });
    outcome.resumed = earlier.is_some();
    if let Some(earlier) = &earlier {
        context.remark(&format!(
            "continues where an interrupted trim of {} left off; --restart starts over",
            outcome.path
        ));
        outcome.remarks.extend(other_settings(&earlier.policy, &request.how.to_string()));
        outcome.remarks.push(sent_before(earlier));
    }
    let mut pass = WholePass {
        forget: fs.prepare(request.min_extent, earlier.as_ref().is_some_and(|e| e.forget)),
        spec: &request.how,
        min_extent: request.min_extent,
        started_unix_s: earlier.as_ref().map_or(unix_now().0 / 1_000_000_000, |e| e.started_unix_s),
        sent_before: earlier.as_ref().map_or((0, true), |e| (e.sent_bytes, e.stopped)),
        driver: Driver::new(
            request.how.build(
                request.min_extent,
                &earlier.as_ref().map(InterruptedPass::policy_state).unwrap_or_default(),
            ),
            PATIENCE,
        ),
        account: Account::default(),
        file,
        saved: Instant::now(),
        unsaved: None,
    };
    if !outcome.resumed {
        pass.driver.force();
    }
    let mut sendable = None;
    if let TrimMode::Idle(settings) = &request.how {
        let windows = fs.layout().windows.clone();
        sendable = fs.would_send(&windows, request.min_extent).map(|(sendable, _)| sendable);
        if let Some(remark) = sendable.and_then(|sendable| amount(settings, &sendable)) {
            context.remark(&format!("{}: {remark}", outcome.path));
        }
    }
    let sendable = sendable.map(|sendable| Bytes(sendable.bytes));
    let progress = PassProgress::new(context, &request.how, fs.layout().windows.iter(), sendable);
    let started = Instant::now();
    let ended = pass.run(fs, progress, started);
    let took = nanos(started.elapsed());
    if let TrimMode::Idle(settings) = &request.how {
        outcome.remarks.extend(overrun(settings.finish_within, took));
    }
    pass.account.finish(fs);
    outcome.remarks.extend(pass.unsaved.take());
    outcome.remarks.extend(pass.driver.policy().learned().map(|cost| format!("trims take {cost}")));
    let skipped = pass.driver.policy().remark();
    outcome.skipped = skipped.is_some();
    outcome.remarks.extend(skipped);
    outcome.complete = ended && pass.account.refusals.is_empty();
    Ok(pass.account)
}

/// Remark on the amount that an interrupted pass sent. A killed process sent more than it
/// stored.
fn sent_before(earlier: &InterruptedPass) -> String {
    let sent = match earlier.sent_bytes {
        0 => "nothing".to_owned(),
        bytes => at_least(!earlier.stopped, &Bytes(bytes).to_string()),
    };
    format!(
        "an interrupted pass had sent {sent} before; blocks freed since then in the part that it \
            covered wait for the next trim (--restart starts over)"
    )
}

/// Remark on a pass that took longer than its deadline.
fn overrun(within: Nanos, took: Nanos) -> Option<String> {
    (within > Nanos::ZERO && took > within).then(|| {
        format!(
            "not finished within {within}: the rest was then sent at once, as fstrim does; the \
                trim took {took}"
        )
    })
}

/// Remark on a pass that was resumed with other settings.
fn other_settings(began: &str, now: &str) -> Option<String> {
    (began != now).then(|| {
        format!(
            "the pass began with {began}; the rest was trimmed with {now} (--restart trims \
        all of it with {now})"
        )
    })
}

/// Amount of an idle pass whose duration is not known; `None` if it is limited or has
/// nothing to send.
fn amount(settings: &IdleSettings, sendable: &SendableSpace) -> Option<String> {
    if settings.finish_within > Nanos::ZERO || sendable.extents == 0 {
        return None;
    }
    Some(format!(
        "up to {} in {} free extents; cheap commands are sent at once, expensive \
            ones in idle moments, after a wait of at most {} each. The first commands show \
            which they are; --finish-within TIME limits the duration",
        Bytes(sendable.bytes),
        grouped(sendable.extents),
        settings.patience
    ))
}

/// The policy's name without settings. A pass of another policy is not resumed: its order
/// differs, and an idle one may have skipped windows.
fn kind(policy: &str) -> &str {
    policy.split(':').next().unwrap_or(policy)
}

/// Shorter waits, which occur between any two requests, are not reported.
const LONG_WAIT: Nanos = Nanos::from_millis(50);

struct WholePass<'a> {
    spec: &'a TrimMode,
    min_extent: Bytes,
    forget: bool,
    started_unix_s: u64,
    /// Bytes that interrupted passes sent, and whether that is all of them.
    sent_before: (u64, bool),
    driver: Driver,
    account: Account,
    file: ResumeFile,
    saved: Instant,
    unsaved: Option<String>,
}

impl WholePass<'_> {
    /// Returns true at the end, false if interrupted or refused for good.
    fn run(&mut self, fs: &mut Filesystem, mut progress: PassProgress, started: Instant) -> bool {
        loop {
            let world = CallerState::default();
            match self.driver.turn(&mut FilesystemSurface {
                fs,
                world,
                account: &mut self.account,
                only: None,
            }) {
                TurnResult::Trimmed(_) => {
                    self.save(Duration::from_secs(1));
                    progress.show(&self.account, nanos(started.elapsed()), false);
                }
                TurnResult::Refused {
                    then: RefusalAction::GiveUp | RefusalAction::Never, ..
                } => return false,
                TurnResult::Nothing => return self.done(),
                TurnResult::Wait(_) if !self.driver.running() => return self.done(),
                TurnResult::Wait(until) => {
                    let waits = until.saturating_sub(unix_now()) >= LONG_WAIT;
                    progress.show(&self.account, nanos(started.elapsed()), waits);
                    wait(until);
                }
                TurnResult::Refused { .. } | TurnResult::Begun(_) | TurnResult::PutOff => {}
            }
            if interrupt::requested() {
                self.save(Duration::ZERO);
                return false;
            }
        }
    }

    fn done(&mut self) -> bool {
        self.file.remove();
        true
    }

    fn save(&mut self, at_most_every: Duration) {
        if self.saved.elapsed() < at_most_every || self.unsaved.is_some() {
            return;
        }
        self.saved = Instant::now();
        let interrupted = InterruptedPass {
            version: 1,
            policy: self.spec.to_string(),
            min_extent: self.min_extent.0,
            state: self.driver.policy().state().entries,
            forget: self.forget,
            started_unix_s: self.started_unix_s,
            stopped: at_most_every.is_zero() && self.sent_before.1 && !self.account.is_minimum,
            sent_bytes: self
                .sent_before
                .0
                .saturating_add(self.account.discards.accepted.map_or(0, |s| s.bytes.0)),
        };
        if let Err(error) = self.file.save(&interrupted) {
            self.unsaved = Some(format!(
                "an interruption could not be resumed: cannot write below {}: {error}",
                state_directory().display()
            ));
        }
    }
}

/// Sleeps until `until`, in steps short enough for a signal.
fn wait(until: Nanos) {
    let left = Duration::from_nanos(until.saturating_sub(unix_now()).0);
    std::thread::sleep(left.min(Duration::from_millis(100)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_settings_names_both_settings() {
        assert_eq!(other_settings("idle", "idle"), None);
        let said = other_settings("idle:budget=2ms", "idle:budget=9ms").unwrap();
        assert!(
            said.contains("began with idle:budget=2ms") && said.contains("with idle:budget=9ms"),
            "{said}"
        );
    }

    #[test]
    fn overrun_is_named_only_after_the_deadline() {
        let s = Nanos::from_secs;
        assert_eq!(overrun(Nanos::ZERO, s(9)), None, "without --finish-within");
        assert_eq!(overrun(s(20), s(20)), None);
        let said = overrun(s(20), s(36)).unwrap();
        assert!(
            said.starts_with("not finished within 20.0 s:") && said.contains("36.0 s"),
            "{said}"
        );
    }

    #[test]
    fn amount_sent_by_killed_pass_is_a_minimum() {
        let killed: InterruptedPass = serde_json::from_str(
            r#"{"version":1,"policy":"now","min_extent":0,"state":[],"forget":false,
                "started_unix_s":0,"sent_bytes":5000000}"#,
        )
        .unwrap();
        assert!(sent_before(&killed).contains("had sent at least 5.00 MB before"));
        let stopped = InterruptedPass { stopped: true, ..killed };
        assert!(sent_before(&stopped).contains("had sent 5.00 MB before"));
        let early = InterruptedPass { sent_bytes: 0, ..stopped };
        assert!(sent_before(&early).contains("had sent nothing before"));
    }

    #[test]
    fn amount_of_unlimited_idle_pass_has_no_duration() {
        let sendable = SendableSpace { bytes: 3_000_000_000, extents: 24 };
        let said = amount(&IdleSettings::default(), &sendable).unwrap();
        assert!(
            said.contains("3.00 GB in 24 free extents")
                && !said.contains("24 min")
                && said.contains("--finish-within"),
            "{said}"
        );
        assert_eq!(
            amount(&IdleSettings { finish_within: Nanos(1), ..IdleSettings::default() }, &sendable),
            None
        );
        assert_eq!(amount(&IdleSettings::default(), &SendableSpace { bytes: 0, extents: 0 }), None);
    }
}
