//! Policy actions around the phases of a job, and counting the discards that reach the
//! device.

use super::policy;
use trimtab_drive::OpKind;
use trimtab_drive::discards::{Amount, Discards};
use trimtab_sim::runner::recorder::Recorder;
use trimtab_sim::runner::{Events, Observer, RunProgress};
use trimtab_sim::target::TargetResult;
use trimtab_sim::target::TrimTarget;

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
