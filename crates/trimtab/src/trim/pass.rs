//! One step of a trim policy on a mounted filesystem: look, let the policy decide, do what it says, account for it.

use super::filesystem::{Filesystem, Look, Refused, unix_now};
use crate::host::stat::Discards;
use trimtab_core::policy::{Action, Observation, Policy, TrimRequest};
use trimtab_core::target::{TrimOutcome, TrimWindow};
use trimtab_core::units::{Bytes, Nanos};

/// What only the caller knows of the world.
#[derive(Clone, Copy, Debug, Default)]
pub struct World {
    /// Bytes written by the best counter there is.
    pub written: Option<Bytes>,
    /// The step of that counter.
    pub written_step: Bytes,
    /// The user asks for a trim now.
    pub forced: bool,
    /// The system is going down.
    pub shutting_down: bool,
    /// Running on battery.
    pub on_battery: bool,
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A window was trimmed.
    Trimmed(TrimWindow),
    /// A window was refused.
    Refused(TrimWindow, Refused),
    /// The policy wants to be asked again at this instant, nanoseconds since 1970, at the latest.
    Wait(Nanos),
    /// The policy waits for something to change.
    Nothing,
}

/// Everything asked, sent and refused in one pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Requests that were carried out.
    pub requests: u64,
    /// Bytes of address space that requests covered.
    pub asked: Bytes,
    /// What the filesystem said it did; no proof.
    pub returned: Bytes,
    /// What the devices counted; `None` if they do not count.
    pub sent: Option<Discards>,
    /// What the devices counted above what the filesystem says it sent; see [`WindowTrim::excess`](super::filesystem::WindowTrim).
    pub excess: Bytes,
    /// Windows refused, and why.
    pub refused: Vec<(TrimWindow, Refused)>,
    /// Time inside requests.
    pub trimming: Nanos,
    /// The longest request.
    pub longest: Nanos,
    /// The longest that others waited during a request: the largest mean over a few milliseconds.
    pub wait_during: Option<Nanos>,
    /// The same while no request ran.
    pub wait_otherwise: Option<Nanos>,
}

impl Account {
    fn add(&mut self, outcome: &TrimOutcome) {
        self.requests += 1;
        self.asked = self.asked.saturating_add(outcome.asked);
        self.returned = self.returned.saturating_add(outcome.returned);
        self.trimming = self.trimming.saturating_add(outcome.took);
        self.longest = self.longest.max(outcome.took);
        let one = Discards {
            commands: outcome.device_commands.unwrap_or(0),
            bytes: outcome.device_bytes.unwrap_or(Bytes::ZERO),
            ..Discards::default()
        };
        self.sent = match (self.sent, outcome.device_commands) {
            (Some(sum), Some(_)) => Some(sum + one),
            (None, Some(_)) if self.requests == 1 => Some(one),
            _ => None,
        };
    }
}

/// A policy at work on a filesystem.
pub struct Steps {
    /// The policy.
    pub policy: Box<dyn Policy>,
    /// What has been done since the account was last taken.
    pub account: Account,
    last: Option<TrimOutcome>,
    wait_max: Option<Nanos>,
    /// A window that is refused is left out at once rather than tried again later.
    pub skip_refused: bool,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps").field("policy", &self.policy.name()).field("account", &self.account).finish_non_exhaustive()
    }
}

impl Steps {
    /// With this policy.
    #[must_use]
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy, account: Account::default(), last: None, wait_max: None, skip_refused: false }
    }

    /// True while the policy has a pass under way.
    #[must_use]
    pub fn running(&self) -> bool {
        self.policy.state().get("sweep.next").is_some()
    }

    /// True while a pass is under way that another one is to follow without a pause, because the user asked for it meanwhile.
    #[must_use]
    pub fn asked_again(&self) -> bool {
        self.policy.state().get("sweep.again") == Some(1)
    }

    /// Looks, and lets the policy decide. [`Action::Trim`] has to be followed by [`trim`](Self::trim).
    pub fn decide(&mut self, fs: &mut Filesystem, world: &World) -> Action {
        let look = fs.look();
        self.account.wait_otherwise = self.account.wait_otherwise.max(look.wait);
        let wait_max = self.wait_max.take().max(look.wait);
        let last = self.last.take();
        let observation = observe(fs, world, look, wait_max, last.as_ref());
        self.policy.decide(&observation)
    }

    /// Leaves a window that was refused out of the pass under way.
    pub fn skip(&mut self, window: TrimWindow) {
        self.last = Some(TrimOutcome { asked: Bytes(window.len), ..TrimOutcome::default() });
    }

    /// Looks, decides, and if the policy says so trims one window.
    pub fn step(&mut self, fs: &mut Filesystem, world: &World) -> Step {
        match self.decide(fs, world) {
            Action::Nothing => Step::Nothing,
            Action::WaitUntil(instant) => Step::Wait(instant),
            Action::Trim(request) => self.trim(fs, request),
        }
    }

    /// Trims one window, whatever the policy thinks of it.
    pub fn trim(&mut self, fs: &mut Filesystem, request: TrimRequest) -> Step {
        // Where the limit cannot be written (a container), commands are as long as the device takes them.
        let _ = fs.limit_commands(request.command_max);
        let window = fs.first_commands(&request);
        match fs.trim(window, request.min_extent) {
            Ok(mut done) => {
                if window.len < request.window.len && fs.has_nothing_for(&request, &done.outcome) {
                    done.outcome.asked = Bytes(request.window.len);
                }
                self.account.add(&done.outcome);
                self.account.excess = self.account.excess.saturating_add(done.excess);
                self.account.wait_during = self.account.wait_during.max(done.seen.wait_max);
                self.wait_max = self.wait_max.max(done.seen.wait_max);
                self.last = Some(done.outcome);
                Step::Trimmed(window)
            }
            // A trial is left out; what no other window would do better is said all the same.
            Err(refused) if request.trial && !refused.is_final() => Step::Refused(window, refused),
            Err(refused) => {
                self.account.refused.push((window, refused));
                if self.skip_refused {
                    self.skip(window);
                }
                Step::Refused(window, refused)
            }
        }
    }
}

fn observe<'a>(fs: &'a Filesystem, world: &World, look: Look, wait_max: Option<Nanos>, last: Option<&'a TrimOutcome>) -> Observation<'a> {
    Observation {
        now: unix_now(),
        written: world.written,
        written_step: world.written_step,
        free: fs.free().unwrap_or(Bytes::MAX),
        windows: &fs.layout().windows,
        granule: fs.layout().granule,
        tail: fs.layout().tail,
        in_flight: look.in_flight,
        idle_since: look.idle_since,
        foreground_wait_max: wait_max,
        last_trim: last,
        forced: world.forced,
        shutting_down: world.shutting_down,
        on_battery: world.on_battery,
    }
}
