//! Expected and actual collisions of commands with foreground requests, kept below a
//! limit.
//!
//! The input is the number of foreground requests and the start of the current gap
//! between them. The distribution of gap lengths gives the probability that a gap ends
//! during a command: nearly zero in mid-gap under a regular load, the share of time taken
//! by commands under random arrivals. An account is credited with a share of each request
//! ([`IdleSettings::met_per_mille`]) and debited for each one that arrives during a
//! command. A command is sent if the account covers its expected collisions.

use super::IdleSettings;
use super::moments::MomentSelector;
use crate::policy::Observation;
use alloc::boxed::Box;
use trimtab_drive::units::Nanos;

/// Additional credit: one collision in this many nanoseconds, however few the requests.
const ONE_IN_NS: f64 = 600e9;
/// Maximum credit; at least one, or the end of a gap could never be met.
const SAVED_MAX: f64 = 1.0;
/// Number of gaps remembered, with fading weight.
const MEMORY: f64 = 256.0;
/// Gaps that end between two polls count at their mean length, at most this many.
const UNSEEN_MAX: f64 = 16.0;
/// Before this many polls that saw requests, quiet time decides as well.
const SEEN_MIN: u32 = 16;
/// Weight of the prior, by which a gap ends within its present age with probability one
/// half.
const PRIOR: f64 = 0.5;
/// Lengths up to this factor shorter and longer also inform the estimate at a length.
const AROUND: f64 = 1.5;
/// Averaging time of the request rate.
const RATE_OVER_NS: f64 = 1e9;
/// Foreground I/O counts as active this long after a request.
const LATELY: Nanos = Nanos::from_secs(10);
/// Warm-up: observe this many complete idle gaps, polling this often per gap, for at most
/// this long, before sending TRIMs.
const WHOLE_MIN: u32 = 64;
const POLLS_PER_GAP: f64 = 8.0;
const LEARNING: Nanos = Nanos::from_secs(1);
/// Limits on the poll interval while a command waits.
const POLL_MIN: Nanos = Nanos::from_micros(500);
const POLL_MAX: Nanos = Nanos::from_millis(100);
/// Maximum collisions charged to a command during which a gap ended: a burst of thousands
/// may begin there, and its requests wait for each other.
const MET_MOST: f64 = 64.0;
/// The same limit as a multiple of the arrivals expected at the current rate.
const MET_TIMES: f64 = 2.0;
/// If polls can be this many times shorter than gaps, the position in the gap is soon
/// known.
const POLLS_KNOWN: f64 = 4.0;
/// Each bucket is a quarter of an octave.
const BUCKETS: usize = 64 * 4;

/// Histogram of gap lengths.
#[derive(Clone, Debug)]
struct Lengths {
    counts: Box<[f64; BUCKETS]>,
    first: usize,
    last: usize,
    /// Weight of the next gap. It grows, instead of older weights shrinking.
    weight: f64,
}

impl Lengths {
    fn new() -> Self {
        Self { counts: Box::new([0.0; BUCKETS]), first: BUCKETS, last: 0, weight: 1.0 }
    }

    fn bucket(nanos: u64) -> usize {
        let nanos = nanos.max(4);
        let octave = nanos.ilog2();
        (octave * 4) as usize + ((nanos >> (octave - 2)) & 3) as usize
    }

    /// Lower bound of a bucket in nanoseconds.
    fn begin(bucket: usize) -> f64 {
        // (4 + quarter) / 4 · 2^octave from its exponent and the upper two bits of its
        // fraction.
        f64::from_bits((bucket as u64 + (1023 << 2)) << 50)
    }

    fn add(&mut self, nanos: f64, times: f64) {
        let bucket = Self::bucket(nanos as u64);
        self.weight *= 1.0 + times / MEMORY;
        self.counts[bucket] += self.weight * times;
        (self.first, self.last) = (self.first.min(bucket), self.last.max(bucket + 1));
        if self.weight > 1e100 {
            self.counts.iter_mut().for_each(|count| *count /= self.weight);
            self.weight = 1.0;
        }
    }

    /// Gaps that end between two lengths, and gaps that end later, uniform within each
    /// bucket.
    fn between(&self, from: f64, to: f64) -> (f64, f64) {
        let (mut now, mut later) = (0.0, 0.0);
        // Shorter gaps count in neither.
        let first = self.first.max(Self::bucket(from as u64).saturating_sub(1));
        for bucket in first..self.last {
            let count = self.counts[bucket];
            let (begin, end) = (Self::begin(bucket), Self::begin(bucket + 1));
            if count > 0.0 && end > from {
                let share =
                    |from: f64, to: f64| ((to.min(end) - from.max(begin)) / (end - begin)).max(0.0);
                now += count * share(from, to);
                later += count * share(to, end);
            }
        }
        (now, later)
    }

    /// Probability that a gap of age `lasted` ends within the next `within` nanoseconds.
    fn ends(&self, lasted: f64, within: f64) -> f64 {
        let prior = PRIOR * self.weight;
        let (now, later) = self.between(lasted, lasted + within);
        let here = (now + prior * within / (lasted + within)) / (now + later + prior);
        // Choosing moments favours underestimates: the rate around this length is a
        // floor.
        let (from, to) = (lasted / AROUND, (lasted + within) * AROUND);
        let (now, later) = self.between(from, to);
        let rate = libm::log((now + later + prior) / (later + prior)) / (to - from);
        here.max(1.0 - libm::exp(-rate * within))
    }
}

#[derive(Clone, Copy, Debug)]
struct GapSnapshot {
    now: Nanos,
    requests: u64,
    idle_since: Option<Nanos>,
    idle_unsure: Nanos,
}

/// State at the time a command was sent.
#[derive(Clone, Copy, Debug)]
struct SendState {
    rate: f64,
    requests: u64,
    /// The command was overdue or exempt from waiting.
    urgent: bool,
    /// Weight of each request that arrives meantime.
    weight: f64,
}

/// Knowledge about foreground I/O, and the collision account.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    last: Option<GapSnapshot>,
    lengths: Lengths,
    /// Recent requests per nanosecond, and the observed share of the averaging time.
    rate: f64,
    rate_seen: f64,
    /// Time of the last request seen.
    request_at: Option<Nanos>,
    /// Collisions that may happen now.
    account: f64,
    moments: MomentSelector,
    /// The command in flight.
    sent: Option<SendState>,
    /// The next command is overdue.
    urgent: bool,
    /// Gaps seen, and the number seen from beginning to end.
    seen: u32,
    whole: u32,
    /// End of the warm-up.
    learning_until: Option<Nanos>,
    /// Time since which a command has been waiting.
    waiting: Option<Nanos>,
}

fn share(settings: &IdleSettings) -> f64 {
    f64::from(settings.met_per_mille.max(1)) / 1000.0
}

/// True if the start of the idle time is too uncertain for a command that takes
/// `took_ns`.
fn is_unsure(observation: &Observation<'_>, took_ns: f64) -> bool {
    let lasted =
        observation.idle_since.map_or(0.0, |since| observation.now.saturating_sub(since).as_f64());
    observation.idle_unsure.as_f64() > lasted.max(took_ns)
}

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            last: None,
            lengths: Lengths::new(),
            rate: 0.0,
            rate_seen: 0.0,
            request_at: None,
            account: 1.0,
            moments: MomentSelector::new(),
            sent: None,
            urgent: false,
            seen: 0,
            whole: 0,
            learning_until: None,
            waiting: None,
        }
    }

    /// Processes an observation and the duration of the command that ended since the last
    /// one, if any. Returns the number of its collisions.
    pub(super) fn observe(
        &mut self,
        settings: &IdleSettings,
        observation: &Observation<'_>,
        took: Option<Nanos>,
    ) -> f64 {
        let Some(requests) = observation.requests else { return 0.0 };
        let look = GapSnapshot {
            now: observation.now,
            requests,
            idle_since: observation.idle_since,
            idle_unsure: observation.idle_unsure,
        };
        let Some(before) = self.last.replace(look) else { return 0.0 };
        let elapsed = look.now.saturating_sub(before.now).as_f64();
        // A restarted counter shows the requests since its restart.
        let came = requests.checked_sub(before.requests).unwrap_or(requests) as f64;
        let saved_max = SAVED_MAX.max(self.account);
        if self.request_at.is_some() && !self.foreground_active(look.now) {
            // A debt only protects active foreground I/O.
            self.account = self.account.max(0.0);
        }
        self.account = (self.account + share(settings) * came + elapsed / ONE_IN_NS).min(saved_max);
        let met = self.met(requests, observation.in_flight, took);
        if elapsed > 0.0 {
            let keep = libm::exp(-elapsed / RATE_OVER_NS);
            let sum = self.rate * self.rate_seen * keep + came / elapsed * (1.0 - keep);
            self.rate_seen = self.rate_seen * keep + (1.0 - keep);
            self.rate = sum / self.rate_seen;
        }
        if came == 0.0 {
            return met;
        }
        self.request_at = Some(look.now);
        self.seen = self.seen.saturating_add(1);
        let lasted = before.idle_since.map(|since| before.now.saturating_sub(since).as_f64());
        // A lower bound on the length of the gap, unless uncertain.
        let first = lasted.filter(|lasted| *lasted >= before.idle_unsure.as_f64());
        if let Some(lasted) = first {
            self.lengths.add(lasted, 1.0);
            self.whole = self.whole.saturating_add(1);
        }
        let unseen = came - f64::from(u8::from(first.is_some()));
        if unseen > 0.0 && elapsed <= POLL_MAX.as_f64() {
            self.lengths.add(elapsed / came, unseen.min(UNSEEN_MAX));
        }
        met
    }

    /// Collisions of the command that took `took`: all requests since it was sent,
    /// because the poll follows its end directly or after other requests. A burst that
    /// ends the gap is capped, since its requests mostly wait for each other.
    fn met(&mut self, requests: u64, in_flight: u32, took: Option<Nanos>) -> f64 {
        let Some(took) = took else { return 0.0 };
        let Some(sent) = self.sent.take().filter(|_| took > Nanos::ZERO) else { return 0.0 };
        let came =
            requests.checked_sub(sent.requests).unwrap_or(requests) as f64 + f64::from(in_flight);
        let come = sent.rate * took.as_f64();
        // Requests behind a delayed one are late as well, though they are counted later.
        let met = sent.weight
            * if came > 0.0 { came.min(MET_MOST.max(MET_TIMES * come)).max(come) } else { 0.0 };
        // Overdue commands are rare enough.
        self.account -= if sent.urgent { 0.0 } else { met };
        met
    }

    /// True if enough gaps are known to choose moments.
    pub(super) const fn know(&self) -> bool {
        self.seen >= SEEN_MIN
    }

    /// True if foreground I/O is active; false if unknown.
    pub(super) fn foreground_active(&self, now: Nanos) -> bool {
        self.request_at.is_some_and(|at| now.saturating_sub(at) <= LATELY)
    }

    /// Weight of a collision with a command sent now; reduced after an idle period.
    fn weight(&self, settings: &IdleSettings, now: Nanos) -> f64 {
        let rests = self.request_at.is_some() && !self.foreground_active(now);
        if rests { 1.0 / f64::from(settings.rests_shorter.max(1)) } else { 1.0 }
    }

    /// Expected collisions of a command of `took_ns` sent now.
    fn meets(&self, settings: &IdleSettings, observation: &Observation<'_>, took_ns: f64) -> f64 {
        let idle = observation.idle_since.filter(|_| observation.in_flight == 0);
        let lasted = idle.map_or(0.0, |since| observation.now.saturating_sub(since).as_f64());
        // The request that ends the gap and those behind it.
        let come = self.rate * took_ns;
        let together = (1.0 + come / 2.0).max(come);
        let here = self.lengths.ends(lasted, took_ns);
        // An unknown position in the gap counts as a random moment.
        let ends =
            if is_unsure(observation, took_ns) { here.max(1.0 - libm::exp(-come)) } else { here };
        // Requests in flight meet it in any case.
        f64::from(observation.in_flight) + ends * together * self.weight(settings, observation.now)
    }

    /// Time until which a command of `took_ns` must wait; `None` if uncounted. A `cheap`
    /// one waits for at most the budget.
    pub(super) fn must_wait(
        &mut self,
        settings: &IdleSettings,
        observation: &Observation<'_>,
        took_ns: f64,
        cheap: bool,
    ) -> Option<Nanos> {
        observation.requests?;
        let now = observation.now;
        let since = *self.waiting.get_or_insert(now);
        // One command per such period is within the share for random arrivals.
        let patience = if cheap {
            settings.budget.as_f64()
        } else {
            settings.patience.as_f64().max(took_ns / share(settings))
        };
        let waited = now.saturating_sub(since).as_f64();
        let meets = self.meets(settings, observation, took_ns);
        let good = self.moments.is_good(now, took_ns, meets, self.seen);
        // The position will soon be known.
        let good = good
            && !(is_unsure(observation, took_ns)
                && self.rate * POLL_MIN.as_f64() * POLLS_KNOWN < 1.0);
        let short = meets.min(SAVED_MAX) - self.account;
        self.urgent = waited >= patience;
        let learning = self.learns(now);
        if (short <= 0.0 && good && !learning) || self.urgent {
            return None;
        }
        let earns = self.rate * share(settings) + 1.0 / ONE_IN_NS;
        // Time until the account covers a good moment; sooner, it may be cheaper.
        let short = self.moments.best().min(SAVED_MAX) - self.account;
        let mut look = (took_ns / 8.0).max(short / earns / 8.0).min(patience);
        if learning {
            look = look.min(1.0 / (POLLS_PER_GAP * self.rate));
        }
        Some(now.saturating_add(Nanos(look as u64).max(POLL_MIN).min(POLL_MAX)))
    }

    /// True during the warm-up. Skipped if requests are too rare to learn anything within
    /// it.
    fn learns(&mut self, now: Nanos) -> bool {
        let expected = self.rate * LEARNING.as_f64();
        expected >= f64::from(SEEN_MIN)
            && self.whole < WHOLE_MIN
            && now < *self.learning_until.get_or_insert(now.saturating_add(LEARNING))
    }

    /// Records a command. The account does not pay for `cheap` ones.
    pub(super) fn sent(&mut self, settings: &IdleSettings, now: Nanos, cheap: bool) {
        let (requests, weight) =
            (self.last.map_or(0, |last| last.requests), self.weight(settings, now));
        (self.waiting, self.sent) = (
            None,
            Some(SendState { rate: self.rate, requests, urgent: self.urgent || cheap, weight }),
        );
    }

    /// True if the last command was overdue or exempt from waiting.
    pub(super) fn sent_urgently(&self) -> bool {
        self.sent.is_some_and(|sent| sent.urgent)
    }

    pub(super) const fn rest(&mut self) {
        (self.waiting, self.learning_until) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: f64 = 1e6;

    fn settings() -> IdleSettings {
        IdleSettings { met_per_mille: 5, ..IdleSettings::default() }
    }

    /// At `now` milliseconds, after `requests` requests, idle since then or not at all.
    fn at(now: f64, requests: u64, idle_since: Option<f64>) -> Observation<'static> {
        let nanos = |ms: f64| Nanos((ms * MS) as u64);
        Observation {
            requests: Some(requests),
            in_flight: u32::from(idle_since.is_none()),
            idle_since: idle_since.map(nanos),
            ..Observation::of(nanos(now), &[])
        }
    }

    /// A request every 5 ms that takes 0.5 ms, polled every 0.5 ms.
    fn regular(requests: u64) -> Gaps {
        let mut gaps = Gaps::new();
        for look in 0..requests * 10 {
            let (now, since) = (look as f64 / 2.0, (look / 10 * 10 + 1) as f64 / 2.0);
            gaps.observe(&settings(), &at(now, look / 10, (now >= since).then_some(since)), None);
        }
        gaps
    }

    #[test]
    fn buckets_are_quarters_of_octaves_without_gaps() {
        for nanos in (4..3000).chain([1 << 40, (1 << 40) - 1, u64::MAX]) {
            let bucket = Lengths::bucket(nanos);
            assert!(
                Lengths::begin(bucket) <= nanos as f64
                    && nanos as f64 <= Lengths::begin(bucket + 1),
                "{nanos}"
            );
        }
        assert_eq!([4, 5, 8, 9, 10, 16].map(Lengths::bucket), [8, 9, 12, 12, 13, 16]);
    }

    #[test]
    fn unknown_gap_ends_within_its_age_in_half_of_cases() {
        let lengths = Lengths::new();
        assert_eq!(
            [(10.0, 10.0), (10.0, 30.0), (30.0, 10.0)]
                .map(|(lasted, within)| lengths.ends(lasted, within)),
            [0.5, 0.75, 0.25]
        );
    }

    #[test]
    fn random_gaps_end_at_constant_rate() {
        // Exponential gaps of 5 ms end within 0.15 ms with probability 1 - exp(-0.03),
        // 2.96 %.
        let (mut lengths, mut rng) = (Lengths::new(), trimtab_drive::rng::Stream::new(3, "gaps"));
        (0..3000).for_each(|_| {
            lengths.add(
                -5.0 * MS * libm::log(1.0 - rng.below(1 << 30) as f64 / f64::from(1 << 30)),
                1.0,
            )
        });
        for lasted in [0.0, 1.0, 4.0, 8.0] {
            let ends = lengths.ends(lasted * MS, 0.15 * MS);
            assert!((0.025..0.05).contains(&ends), "after {lasted} ms: {ends}");
        }
    }

    #[test]
    fn command_in_mid_gap_is_free_and_at_end_costs_a_request() {
        let gaps = regular(400);
        let meets = |since_ms: f64| {
            gaps.meets(&settings(), &at(10_000.0 + since_ms, 400, Some(10_000.0)), 0.15 * MS)
        };
        assert!(meets(0.5) < 0.002 && meets(2.0) < 0.002, "{} {}", meets(0.5), meets(2.0));
        assert!(meets(3.9) > 0.1, "{}", meets(3.9));
        // Busy: all arrivals during the command.
        assert!(gaps.meets(&settings(), &at(10_000.0, 400, None), 100.0 * MS) > 15.0);
    }

    #[test]
    fn collision_budget_is_5_permille_and_saves_at_most_one() {
        let mut gaps = Gaps::new();
        gaps.account = 0.0;
        gaps.observe(&settings(), &at(0.0, 0, None), None);
        gaps.observe(&settings(), &at(1.0, 100, None), None);
        assert!((gaps.account - 0.5).abs() < 1e-5, "{}", gaps.account);
        gaps.observe(&settings(), &at(2.0, 10_000, None), None);
        assert_eq!(gaps.account, 1.0);
        // A restarted counter.
        gaps.account = 0.0;
        gaps.observe(&settings(), &at(3.0, 100, None), None);
        assert!((gaps.account - 0.5).abs() < 1e-5, "{}", gaps.account);
        // One collision in ten minutes without requests.
        gaps.account = 0.0;
        gaps.observe(&settings(), &at(300_003.0, 100, None), None);
        assert!((gaps.account - 0.5).abs() < 1e-9, "{}", gaps.account);
    }

    #[test]
    fn requests_during_a_command_are_debited() {
        let mut gaps = Gaps::new();
        let settings = settings();
        gaps.observe(&settings, &at(0.0, 0, None), None);
        let mut after = |came, in_flight, rate, took_ms: f64| {
            (gaps.account, gaps.rate) = (0.0, rate / 1e9);
            let last = gaps.last.unwrap();
            gaps.sent(&settings, last.now, false);
            let now = last.now.as_f64() / MS + 5.0;
            let seen = Observation { in_flight, ..at(now, last.requests + came, Some(now)) };
            let met = gaps.observe(&settings, &seen, Some(Nanos((took_ms * MS) as u64)));
            (met, libm::round((gaps.account + met) * 1e4) / 1e4)
        };
        // Includes requests in flight; after the first arrival, at least the expected
        // number.
        assert_eq!(
            [after(2, 0, 0.0, 5.0), after(2, 1, 0.0, 5.0), after(1, 0, 1000.0, 5.0)],
            [(2.0, 0.01), (3.0, 0.01), (5.0, 0.005)]
        );
        assert_eq!(
            [after(0, 0, 1000.0, 5.0), after(2, 0, 0.0, 0.0)],
            [(0.0, 0.0), (0.0, 0.01)],
            "no request, and no command"
        );
        // A burst at the end of a gap is capped, unless the normal rate is that high.
        assert_eq!([after(5000, 0, 0.0, 5.0).0, after(5000, 0, 200_000.0, 5.0).0], [64.0, 2000.0]);
        // A request observed before the end of the command counts too.
        let last = gaps.last.unwrap();
        gaps.sent(&settings, last.now, false);
        let now = last.now.as_f64() / MS + 5.0;
        gaps.account = 0.0;
        assert_eq!(gaps.observe(&settings, &at(now, last.requests + 1, Some(now)), None), 0.0);
        assert_eq!(
            gaps.observe(&settings, &at(now + 1.0, last.requests + 1, Some(now)), Some(Nanos(1))),
            1.0
        );
    }

    #[test]
    fn short_rest_counts_for_proportionally_less() {
        let settings = IdleSettings { rests_shorter: 100, ..settings() };
        // Expected collisions and weight of two requests, by the idle period before.
        let after = |rest_ms: f64| {
            let mut gaps = Gaps::new();
            gaps.observe(&settings, &at(0.0, 0, None), None);
            gaps.observe(&settings, &at(1.0, 1, Some(1.0)), None);
            let now = at(1.0 + rest_ms, 1, Some(1.0));
            gaps.observe(&settings, &now, None);
            let expected = gaps.meets(&settings, &now, 5.0 * MS);
            gaps.sent(&settings, now.now, false);
            gaps.rate = 0.0;
            (
                expected,
                gaps.observe(
                    &settings,
                    &at(6.0 + rest_ms, 3, Some(3.0 + rest_ms)),
                    Some(Nanos((5.0 * MS) as u64)),
                ),
            )
        };
        let ((busy, met), (rested, met_rested)) = (after(9_999.0), after(10_001.0));
        assert_eq!((met, met_rested), (2.0, 0.02));
        assert!((busy / rested / 100.0 - 1.0).abs() < 0.01, "{busy} {rested}");
    }

    /// Commands of 0.4 ms against requests of 0.1 ms that begin at `begins` (ms),
    /// observed by counters as in the kernel. Returns command times and the collision
    /// count.
    fn send_during(begins: &[f64]) -> (Vec<f64>, usize) {
        let done = |now: f64| begins.partition_point(|begin| begin + 0.1 <= now) as u64;
        let there = |now: f64| begins.partition_point(|begin| *begin <= now) as u64 - done(now);
        let (mut gaps, settings) = (Gaps::new(), settings());
        let (mut now, mut read_at, mut seen, mut since, mut unsure, mut took) =
            (0.0, 0.0, 0, 0.0, 0.0, None);
        let mut commands = Vec::new();
        while now < begins[begins.len() - 1] {
            if done(now) > seen || there(now) > 0 {
                (since, unsure) = (now, if there(now) > 0 { 0.0 } else { now - read_at });
            }
            (seen, read_at) = (done(now), now);
            let idle_unsure = Nanos((unsure * MS) as u64);
            let observation = Observation {
                in_flight: there(now) as u32,
                idle_unsure,
                ..at(now, seen, Some(since))
            };
            gaps.observe(&settings, &observation, took.take());
            match gaps.must_wait(&settings, &observation, 0.4 * MS, false) {
                Some(until) => now = until.as_f64() / MS,
                None => {
                    gaps.sent(&settings, observation.now, false);
                    commands.push(now);
                    took = Some(Nanos((0.4 * MS) as u64));
                    now += 0.4;
                }
            }
        }
        let met = |begin: &&f64| {
            commands.iter().any(|command| **begin < command + 0.4 && *command < **begin + 0.1)
        };
        let met = begins.iter().filter(met).count();
        (commands, met)
    }

    #[test]
    fn collision_rate_stays_within_limit() {
        let regular: Vec<f64> = (0..20_000).map(|nth| 5.0 * f64::from(nth)).collect();
        let (commands, met) = send_during(&regular);
        assert!(
            commands.len() > 2000 && met < 40,
            "{} commands, {met} collisions of 20,000",
            commands.len()
        );
        let soon = commands.iter().filter(|sent| **sent < 2000.0).count();
        assert!(soon > 400, "{soon} in the first two seconds");
        let mut rng = trimtab_drive::rng::Stream::new(5, "gaps");
        let mut random: Vec<f64> = (0..20_000)
            .map(|_| rng.below(1 << 30) as f64 / f64::from(1 << 30) * 100_000.0)
            .collect();
        random.sort_by(f64::total_cmp);
        let (commands, met) = send_during(&random);
        // 0.5 ms contain a request in one of ten cases: 0.5 % allows a thousand commands.
        assert!(
            (500..1500).contains(&commands.len()) && met <= 130,
            "{} commands, {met} collisions of 20,000",
            commands.len()
        );
    }

    #[test]
    fn rare_foreground_io_needs_no_gap_learning() {
        let waits = |per_second: u64| {
            let mut gaps = Gaps::new();
            gaps.account = 1.0;
            let step = 1000.0 / per_second as f64;
            for nth in 0..20 {
                gaps.observe(&settings(), &at(nth as f64 * step, nth, None), None);
            }
            (gaps.seen, gaps.whole) = (SEEN_MIN, 0);
            let now = 20.0 * step;
            let observation = at(now, 20, Some(now - step / 2.0));
            gaps.observe(&settings(), &observation, None);
            gaps.must_wait(&settings(), &observation, 0.01 * MS, false).is_some()
        };
        assert_eq!([2, 8, 100].map(waits), [false, false, true]);
    }

    #[test]
    fn command_wait_ends_with_patience() {
        let mut gaps = Gaps::new();
        let busy = |now: f64, requests| at(now, requests, None);
        gaps.observe(&settings(), &busy(0.0, 0), None);
        gaps.account = -2.0;
        let settings = IdleSettings { patience: Nanos::from_secs(2), ..settings() };
        assert!(gaps.must_wait(&settings, &busy(0.0, 0), 5.0 * MS, false).is_some());
        assert!(gaps.must_wait(&settings, &busy(1999.0, 0), 5.0 * MS, false).is_some());
        assert!(gaps.must_wait(&settings, &busy(2000.0, 0), 5.0 * MS, false).is_none());
        // Cheap commands: the budget of 5 ms.
        gaps.rest();
        assert!(gaps.must_wait(&settings, &busy(2500.0, 0), 0.1 * MS, true).is_some());
        assert!(gaps.must_wait(&settings, &busy(2504.0, 0), 0.1 * MS, true).is_some());
        assert!(gaps.must_wait(&settings, &busy(2505.0, 0), 0.1 * MS, true).is_none());
        // Expensive commands: the share decides, 100 ms in 20 s.
        gaps.rest();
        assert!(gaps.must_wait(&settings, &busy(3000.0, 0), 100.0 * MS, false).is_some());
        assert!(gaps.must_wait(&settings, &busy(22_999.0, 0), 100.0 * MS, false).is_some());
        assert!(gaps.must_wait(&settings, &busy(23_000.0, 0), 100.0 * MS, false).is_none());
        let unknown = Observation { requests: None, ..busy(0.0, 0) };
        assert!(
            Gaps::new().must_wait(&settings, &unknown, 1e12, false).is_none(),
            "requests are not counted"
        );
    }
}
