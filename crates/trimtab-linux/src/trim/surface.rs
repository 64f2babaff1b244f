//! A mounted filesystem as the surface of a trim policy: polls it, trims it, accounts for
//! it.

use super::filesystem::{Filesystem, SizeRequestResult, WindowRefusal, WindowTrim};
use crate::host::discards::LayerCounts;
use crate::sys::clock::unix_now;
use std::time::Instant;
use trimtab_drive::discards::{Amount, Discards};
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_sim::policy::{
    Driver, ExtentSizeClasses, ManualPolicy, Observation, PolicyState, RefusalAction,
    RefusalLimits, Surface, TrimRequest, TrimResponse, TurnResult,
};
use trimtab_sim::target::{TrimOutcome, TrimWindow};

/// State that only the caller knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallerState {
    /// Bytes written, by the best counter available.
    pub written: Option<Bytes>,
    /// Running on battery.
    pub on_battery: bool,
}

/// Totals of one pass: requested, sent, refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Requests, by address space covered; the accepted part is what the devices counted.
    pub discards: Discards,
    /// The counts of each layer; [`Discards::accepted`] is the sum over the lowest ones.
    pub layers: LayerCounts,
    /// The counts are a minimum: discards were in flight at the end, or requests failed.
    pub is_minimum: bool,
    /// Address space covered by successful requests, except trials, which are repeated in
    /// full.
    pub gone_over: Bytes,
    /// The length that the filesystem returned; no proof.
    pub returned: Bytes,
    /// Bytes counted at the devices that belong to trials: tails of windows that a policy
    /// trims to learn the cost of a command. The windows send them again.
    pub trials: Bytes,
    /// Discards counted at the devices in excess of the filesystem's report; see
    /// [`WindowTrim::excess`](super::filesystem::WindowTrim).
    pub excess: Bytes,
    /// Windows refused, with the reasons.
    pub refusals: Vec<(TrimWindow, WindowRefusal)>,
    /// Time inside requests.
    pub trimming: Nanos,
    /// The longest request.
    pub longest: Nanos,
    /// Worst foreground latency during requests: the largest mean over a few
    /// milliseconds.
    pub wait_during: Option<Nanos>,
    /// Worst foreground latency outside of requests, measured the same way.
    pub wait_otherwise: Option<Nanos>,
}

impl Account {
    /// Adds a request that covered `asked` bytes of address space; `ends` are the lowest
    /// layers.
    fn add(&mut self, trim: &WindowTrim, ends: &[usize], asked: Bytes, trial: bool) {
        let outcome = TrimOutcome { asked, ..trim.outcome.clone() };
        let of_trial =
            outcome.counted.filter(|_| trial).map_or(Bytes::ZERO, |counted| counted.bytes);
        self.trials = self.trials.saturating_add(of_trial);
        self.layers.add(&trim.layers);
        self.discards.carry_out(Amount::new(1, outcome.asked.0), None);
        self.discards.accepted = self.layers.at(ends);
        self.excess = self.excess.saturating_add(trim.excess);
        self.wait_during = self.wait_during.max(trim.seen.wait_max_behind);
        self.gone_over =
            self.gone_over.saturating_add(if trial { Bytes::ZERO } else { outcome.asked });
        self.returned = self.returned.saturating_add(outcome.returned);
        self.trimming = self.trimming.saturating_add(trim.elapsed);
        self.longest = self.longest.max(trim.elapsed);
    }

    /// Adds discards in flight after the last request. Waits for them unless interrupted.
    pub fn finish(&mut self, fs: &mut Filesystem) {
        let none = self.discards.accepted.is_some_and(|accepted| accepted.count == 0);
        let (late, all) = fs.finish(none);
        self.layers.add(&late);
        self.discards.accepted = self.layers.at(&fs.stack().ends());
        self.is_minimum = !all;
    }

    /// The reason why the counts are a minimum.
    pub fn minimum_remark(&self) -> String {
        "discards that were in flight at the end, or belonged to requests that \
            failed, are not counted: the drives may have received more"
            .to_owned()
    }

    fn refuse(&mut self, window: TrimWindow, reason: WindowRefusal) {
        self.discards.refuse(Amount::new(1, window.len), reason.errno.raw_os_error());
        self.refusals.push((window, reason));
    }
}

/// Marks a count as a lower bound if `is_minimum`.
pub fn at_least(is_minimum: bool, count: &str) -> String {
    format!("{}{count}", if is_minimum { "at least " } else { "" })
}

/// A mounted filesystem in the form that a policy works on, with the account of its
/// requests.
#[derive(Debug)]
pub struct FilesystemSurface<'a> {
    /// The filesystem. The caller holds its drives' locks.
    pub fs: &'a mut Filesystem,
    /// State known to the caller.
    pub world: CallerState,
    /// Totals of the requests.
    pub account: &'a mut Account,
    /// Restricts the policy to these windows.
    pub only: Option<&'a [TrimWindow]>,
}

impl Surface for FilesystemSurface<'_> {
    type Refusal = WindowRefusal;

    fn look(&mut self) -> Observation<'_> {
        let look = self.fs.look();
        self.account.wait_otherwise = self.account.wait_otherwise.max(look.wait);
        let by_size = self.fs.goes_by_size();
        let CallerState { written, on_battery } = self.world;
        let layout = self.fs.layout();
        Observation {
            now: unix_now(),
            written,
            free: self.fs.free().unwrap_or(Bytes::MAX),
            windows: self.only.unwrap_or(&layout.windows),
            granule: layout.granule,
            tail: layout.tail,
            by_size,
            in_flight: look.in_flight,
            requests: look.requests,
            idle_since: look.idle_since,
            idle_unsure: look.idle_unsure,
            foreground_wait_max: look.wait,
            last_trim: None,
            put_off: false,
            forced: false,
            on_battery,
        }
    }

    fn trim(&mut self, request: TrimRequest) -> TrimResponse<WindowRefusal> {
        if let Some(sizes) = request.sizes {
            return self.trim_by_size(&request, sizes, Instant::now());
        }
        // Small commands over unbounded space would take minutes. If the limit is not
        // writable (container), commands are as long as the device accepts.
        let unbounded = self.fs.layout().unbounded;
        let _ = self.fs.limit_commands(if unbounded { Bytes::MAX } else { request.command_max });
        let window = self.fs.first_commands(&request);
        match self.fs.trim(window, request.min_extent) {
            Ok(mut done) => {
                if window.len < request.window.len
                    && self.fs.has_nothing_for(&request, &done.outcome)
                {
                    done.outcome.asked = Bytes(request.window.len);
                }
                self.account.add(&done, &self.fs.stack().ends(), done.outcome.asked, request.trial);
                TrimResponse::Done { outcome: done.outcome, waited: done.seen.wait_max }
            }
            Err(reason) => self.refused(&request, window, reason),
        }
    }
}

impl FilesystemSurface<'_> {
    /// Refusals of trials are not counted, except those that affect every window.
    fn refused(
        &mut self,
        request: &TrimRequest,
        tried: TrimWindow,
        reason: WindowRefusal,
    ) -> TrimResponse<WindowRefusal> {
        let lasting = reason.is_final();
        if !request.trial || lasting {
            self.account.refuse(tried, reason);
        }
        TrimResponse::Refused { tried, reason, lasting }
    }
    /// Trims the next extents by size. If the free-space map becomes unavailable, the
    /// last round trims the rest as whole windows.
    fn trim_by_size(
        &mut self,
        request: &TrimRequest,
        sizes: ExtentSizeClasses,
        started: Instant,
    ) -> TrimResponse<WindowRefusal> {
        let window = request.window;
        match self.fs.trim_by_size(request, sizes, started) {
            Ok(SizeRequestResult::PutOff) => TrimResponse::PutOff,
            Ok(SizeRequestResult::Size(done)) => {
                if let Some((trim, range)) = done.trim.as_ref().zip(done.range) {
                    self.account.add(
                        trim,
                        &self.fs.stack().ends(),
                        Bytes(range.len),
                        request.trial,
                    );
                    self.account.gone_over = self
                        .account
                        .gone_over
                        .saturating_sub(if request.trial { Bytes::ZERO } else { Bytes(range.len) });
                }
                self.account.gone_over = self
                    .account
                    .gone_over
                    .saturating_add(Bytes(done.outcome.asked.0 / u64::from(sizes.rounds.max(1))));
                TrimResponse::Done {
                    waited: done.trim.and_then(|trim| trim.seen.wait_max),
                    outcome: done.outcome,
                }
            }
            Ok(SizeRequestResult::Window) if sizes.are_last() => {
                self.trim(TrimRequest { sizes: None, ..*request })
            }
            Ok(SizeRequestResult::Window) => {
                let outcome = TrimOutcome {
                    asked: Bytes(window.len),
                    counted: Some(Amount::default()),
                    ..TrimOutcome::default()
                };
                TrimResponse::Done { outcome, waited: None }
            }
            Err(reason) => self.refused(request, window, reason),
        }
    }
}

/// Trims `windows` immediately, skipping those that fail, until `stop` returns true. For
/// the whole filesystem, this is what `fstrim` does.
pub fn at_once(
    fs: &mut Filesystem,
    windows: &[TrimWindow],
    min_extent: Bytes,
    mut stop: impl FnMut(&Account) -> bool,
) -> Account {
    let mut driver = Driver::new(
        Box::new(ManualPolicy::now(min_extent, &PolicyState::default())),
        RefusalLimits { tries: 1, windows: u32::MAX },
    );
    let mut account = Account::default();
    loop {
        let world = CallerState::default();
        let turn = driver.turn(&mut FilesystemSurface {
            fs,
            world,
            account: &mut account,
            only: Some(windows),
        });
        let over = matches!(
            turn,
            TurnResult::Nothing
                | TurnResult::Wait(_)
                | TurnResult::Refused { then: RefusalAction::Never, .. }
        );
        if over || stop(&account) {
            account.finish(fs);
            return account;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trim::watch::ForegroundActivity;

    #[test]
    fn probed_extent_is_sent_twice_and_counted_once() {
        let trim = |asked, bytes| WindowTrim {
            outcome: TrimOutcome {
                asked: Bytes(asked),
                returned: Bytes(bytes),
                counted: Some(Amount::new(1, bytes)),
                took: Nanos(7),
            },
            elapsed: Nanos(7),
            layers: LayerCounts::of(&[Some(Amount::new(1, bytes))]),
            seen: ForegroundActivity::default(),
            excess: Bytes::ZERO,
        };
        let mut account = Account::default();
        account.add(&trim(10, 8), &[0], Bytes(10), true);
        account.add(&trim(100, 80), &[0], Bytes(100), false);
        assert_eq!((account.discards.asked, account.gone_over), (Amount::new(2, 110), Bytes(100)));
        assert_eq!(
            (account.discards.accepted, account.trials),
            (Some(Amount::new(2, 88)), Bytes(8))
        );
    }
}
