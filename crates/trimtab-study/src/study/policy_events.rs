//! Policy actions around the phases of a job, and counting the discards that reach the
//! device.

use super::policy;
use trimtab_drive::OpKind;
use trimtab_drive::discards::{Amount, Discards};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunProgress};
use trimtab_sim::target::TargetResult;
use trimtab_sim::target::TrimTarget;
use trimtab_sim::workload::synced::SETTLE;

/// Trim before the job, so that all policies start alike. Not part of any policy.
pub const TRIM_BEFORE: &str = "trim-before";
/// The trim of the batched policy.
pub const TRIM: &str = "trim";
/// Phase after the last sync, until the device's discard counters stop moving.
pub const DRAIN: &str = "discards-after";

/// Performs the actions of a policy and forwards progress to `inner`.
#[derive(Debug)]
pub struct PolicyEvents<'a, E> {
    /// Receiver of progress.
    pub inner: &'a mut E,
    /// Name of the policy.
    pub policy: &'a str,
    /// Trim before the job begins.
    pub trim_before: bool,
    /// The filesystem discards what it frees.
    pub online: bool,
}

impl<E: Observer> Observer for PolicyEvents<'_, E> {
    fn stopped(&self) -> bool {
        self.inner.stopped()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.inner.progress(progress)
    }

    fn begins(&mut self, phase: &str) {
        self.inner.begins(phase);
    }
}

impl<T: TrimTarget, E: Events<T>> Events<T> for PolicyEvents<'_, E> {
    fn between(
        &mut self,
        target: &mut T,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        if self.online && recorder.phases().last().is_some_and(|phase| phase.name == SETTLE) {
            // ext4 sends the discards of earlier deletes after the sync has returned.
            target.wait_for_discards();
        }
        account(target, recorder);
        if recorder.phases().is_empty() && self.trim_before {
            self.inner.begins(TRIM_BEFORE);
            trim(target, recorder, TRIM_BEFORE)?;
        }
        if next.is_none() {
            if self.online {
                self.inner.begins(DRAIN);
                drain(target, recorder);
            }
            if self.policy == policy::BATCHED {
                self.inner.begins(TRIM);
                trim(target, recorder, TRIM)?;
            }
        }
        self.inner.between(target, recorder, next)
    }
}

/// Adds the discards that the device counted during the last phase to it.
pub(super) fn account<T: TrimTarget>(target: &mut T, recorder: &mut Recorder) {
    let counted = target.take_discards();
    if let (Some(_), Some(phase)) = (counted, recorder.last_phase())
        && phase.discards.is_none()
    {
        phase.discards = Some(Discards { accepted: counted, ..Discards::default() });
    }
}

/// A phase of one trim, which lasts until the device has finished it.
pub fn trim<T: TrimTarget>(target: &mut T, recorder: &mut Recorder, name: &str) -> TargetResult {
    let started = target.now();
    recorder.begin_phase(name, started);
    let (outcome, went_on) = target.trim_all()?;
    let returned = started + outcome.took;
    recorder.op(OpKind::Trim, started, returned, 0);
    recorder.end_phase(returned + went_on);
    let counted = target.take_discards();
    if let Some(phase) = recorder.last_phase() {
        let asked = Amount { count: 1, bytes: outcome.asked };
        phase.discards =
            Some(Discards { asked, accepted: outcome.counted.or(counted), ..Discards::default() });
    }
    Ok(())
}

/// A phase that waits for the filesystem's background discards.
fn drain<T: TrimTarget>(target: &mut T, recorder: &mut Recorder) {
    let started = target.now();
    recorder.begin_phase(DRAIN, started);
    let went_on = target.wait_for_discards();
    recorder.end_phase(started + went_on);
    account(target, recorder);
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_drive::units::Nanos;
    use trimtab_sim::op::FileOp;
    use trimtab_sim::target::{Clock, FileTarget, TrimOutcome};

    /// Its device counts the discards of earlier deletes after the sync has returned.
    struct Late {
        due: Amount,
        counted: Amount,
    }

    impl Clock for Late {
        fn now(&mut self) -> Nanos {
            Nanos::ZERO
        }

        fn idle_until(&mut self, _instant: Nanos) {}
    }

    impl FileTarget for Late {
        fn execute(&mut self, _op: &FileOp<'_>) -> TargetResult {
            Ok(())
        }
    }

    impl TrimTarget for Late {
        fn trim_all(&mut self) -> TargetResult<(TrimOutcome, Nanos)> {
            Ok((TrimOutcome::default(), Nanos::ZERO))
        }

        fn take_discards(&mut self) -> Option<Amount> {
            let counted = core::mem::take(&mut self.counted);
            self.counted = core::mem::take(&mut self.due);
            Some(counted)
        }

        fn wait_for_discards(&mut self) -> Nanos {
            self.counted += core::mem::take(&mut self.due);
            Nanos::from_millis(3)
        }
    }

    /// Once, phase `create` of PostMark on ext4 had 6 MB of discards before a file was
    /// deleted.
    #[test]
    fn discards_of_earlier_deletes_belong_to_settle() {
        let earlier = Amount::new(1, 6_000_000);
        let of_phases = |online| {
            let mut target = Late { due: earlier, counted: Amount::default() };
            let mut recorder = Recorder::new(Nanos::ZERO);
            let mut inner = ();
            let mut events =
                PolicyEvents { inner: &mut inner, policy: "online", trim_before: false, online };
            for (phase, next) in [(SETTLE, Some("create")), ("create", Some("transactions"))] {
                recorder.begin_phase(phase, Nanos::ZERO);
                recorder.end_phase(Nanos::ZERO);
                events.between(&mut target, &mut recorder, next).unwrap();
            }
            let accepted = |phase: &trimtab_sim::run::Phase| {
                phase.discards.as_ref().and_then(|discards| discards.accepted)
            };
            recorder.phases().iter().map(accepted).collect::<alloc::vec::Vec<_>>()
        };
        assert_eq!(of_phases(true), [Some(earlier), Some(Amount::default())]);
        // Without online discard nothing is on its way, so nothing is waited for.
        assert_eq!(of_phases(false), [Some(Amount::default()), Some(earlier)]);
    }
}
