//! Progress bars on standard error: rate and time left for anything over a second, nothing for what is quicker.

use crate::output::{Context, plain};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use trimtab_core::units::{Bytes, Nanos, three_digits};

/// A bar that appears once its work has taken a second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    shown: bool,
    enabled: bool,
    /// Lines instead of a bar, and when the last was written.
    lines: Option<Option<Instant>>,
    counting: Counting,
    total: u64,
    pace: Pace,
    /// Of a part of something larger: how many parts were done before, of how many, since when.
    overall: Option<(u64, u64, Instant)>,
}

/// A bar on which several threads count.
#[derive(Debug)]
pub struct Tally(Mutex<(Progress, u64)>);

impl Tally {
    /// Of `total` things.
    pub fn new(context: &Context, title: &str, total: u64) -> Self {
        Self(Mutex::new((Progress::new(context, title, Counting::Items, total), 0)))
    }

    /// One more is done.
    pub fn count(&self) {
        // A thread that panicked left a number that is as good as before.
        let mut bar = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bar.1 += 1;
        let done = bar.1;
        bar.0.set(done);
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Bytes.
    Bytes,
    /// Operations, files, rounds …
    Items,
}

/// A part of something that is done part after part: a run of a study.
#[derive(Debug, Clone)]
pub struct Part {
    /// What it is.
    pub title: String,
    /// Parts done before.
    pub done: u64,
    /// Parts in all.
    pub total: u64,
    /// When the first of them began.
    pub began: Instant,
}

/// Steps of a bar over parts, a part.
const STEPS: u64 = 1000;
/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Time between two looks at the pace.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Progress {
    /// A bar of `total` (0 if unknown) for `what`.
    pub fn new(context: &Context, what: &str, counting: Counting, total: u64) -> Self {
        let template = if total == 0 { "{msg} {spinner}{prefix}" } else { "{msg} [{bar:24}] {percent}%{prefix}" };
        Self::with(context, what, counting, total, (template, total), None)
    }

    /// A bar over all parts, of which this is one, with `total` of its own.
    pub fn part(context: &Context, part: &Part, counting: Counting, total: u64) -> Self {
        let overall = (part.done, part.total.max(1), part.began);
        Self::with(context, &part.title, counting, total, ("{msg} [{bar:24}]{prefix}", part.total.max(1) * STEPS), Some(overall))
    }

    fn with(
        context: &Context,
        what: &str,
        counting: Counting,
        total: u64,
        (template, length): (&str, u64),
        overall: Option<(u64, u64, Instant)>,
    ) -> Self {
        let bar = if length == 0 { ProgressBar::no_length() } else { ProgressBar::new(length) };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template).expect("the templates above are valid");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(plain(what).into_owned());
        Self {
            bar,
            shown: false,
            enabled: context.progress,
            lines: context.plain.then_some(None),
            counting,
            total,
            pace: Pace::new(Instant::now()),
            overall,
        }
    }

    /// Says how far it has come.
    pub fn set(&mut self, position: u64) {
        let now = Instant::now();
        if !self.enabled || !self.pace.note(now, position) {
            return;
        }
        if let Some(last) = &mut self.lines {
            let due = last.map_or(self.pace.elapsed(now) > Duration::from_secs(1), |last| now.duration_since(last) >= LINE_EVERY);
            if due {
                *last = Some(now);
                let line = format!("{}:{}", self.bar.message(), self.in_words(now, position));
                anstream::eprintln!("{}", plain(&line));
            }
            return;
        }
        self.bar.set_prefix(self.in_words(now, position));
        self.bar.set_position(match self.overall {
            Some((done, ..)) => done * STEPS + (self.share(position) * STEPS as f64) as u64,
            None => position,
        });
        if !self.shown && self.pace.elapsed(now) > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
    }

    /// Says what is being done now.
    pub fn message(&self, what: &str) {
        self.bar.set_message(plain(what).into_owned());
    }

    /// How much of it is done; 0 if that is not known.
    fn share(&self, position: u64) -> f64 {
        if self.total == 0 { 0.0 } else { (position as f64 / self.total as f64).min(1.0) }
    }

    /// Amount, rate and time left.
    fn in_words(&self, now: Instant, position: u64) -> String {
        let amount = |n: u64| if self.counting == Counting::Bytes { Bytes(n).to_string() } else { n.to_string() };
        let rate = self.pace.rate(now);
        let shown = match self.counting {
            _ if rate <= 0.0 => "-".to_owned(),
            Counting::Bytes => format!("{}/s", Bytes(rate as u64)),
            Counting::Items => format!("{}/s", three_digits(rate)),
        };
        if let Some((done, total, began)) = self.overall {
            let share = (done as f64 + self.share(position)) / total as f64;
            let left = left(share, now.saturating_duration_since(began));
            return format!(" this one {:.0}%, {shown}; {left} left in all", self.share(position) * 100.0);
        }
        if self.total == 0 {
            return format!(" {}, {shown}, {}", amount(position), whole_seconds(self.pace.elapsed(now).as_secs_f64()));
        }
        let remaining = self.total.saturating_sub(position) as f64;
        let left = if rate > 0.0 { whole_seconds(remaining / rate) } else { "?".to_owned() };
        format!(" {}/{}, {shown}, {left} left", amount(position), amount(self.total))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Time left if `share` of the whole took `elapsed`.
fn left(share: f64, elapsed: Duration) -> String {
    if share <= 0.0 { "?".to_owned() } else { whole_seconds(elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share) }
}

/// `12 s`, `2m05s`, `3h10m`: nobody reads fractions of a time that is a guess.
fn whole_seconds(seconds: f64) -> String {
    // More than any run takes; keeps the conversion in range.
    let whole = seconds.clamp(0.0, 1e9).ceil() as u64;
    if whole < 120 { format!("{whole} s") } else { Nanos::from_secs(whole).to_string() }
}

/// Where it stood when, so that the rate is that of the later half of the time: the beginning may have been quicker or slower.
#[derive(Debug)]
struct Pace {
    began: Instant,
    looks: VecDeque<(Instant, u64)>,
}

impl Pace {
    fn new(began: Instant) -> Self {
        Self { began, looks: VecDeque::from([(began, 0)]) }
    }

    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Notes a position; false if the last look was a moment ago.
    fn note(&mut self, now: Instant, position: u64) -> bool {
        if self.looks.back().is_some_and(|(at, _)| now.saturating_duration_since(*at) < LOOK_EVERY) {
            return false;
        }
        // The last look at or before the middle is where the later half begins.
        let middle = self.began + self.elapsed(now) / 2;
        while self.looks.get(1).is_some_and(|(at, _)| *at <= middle) {
            self.looks.pop_front();
        }
        self.looks.push_back((now, position));
        true
    }

    /// Per second, over the later half.
    fn rate(&self, now: Instant) -> f64 {
        let (Some((from, first)), Some((_, last))) = (self.looks.front(), self.looks.back()) else { return 0.0 };
        let seconds = now.saturating_duration_since(*from).as_secs_f64();
        if seconds > 0.0 { last.saturating_sub(*first) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate that is shown after `seconds`, of something whose position at each time is `of`.
    fn shown(seconds: f64, of: impl Fn(f64) -> f64) -> f64 {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        let steps = (seconds * 20.0) as u64;
        for step in 1..=steps {
            let at = step as f64 / 20.0;
            pace.note(began + Duration::from_secs_f64(at), of(at) as u64);
        }
        pace.rate(began + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn the_rate_is_that_of_the_later_half() {
        let steady = shown(40.0, |t| 1000.0 * t);
        assert!((steady - 1000.0).abs() < 20.0, "{steady}");
        // Quick for ten seconds, then a tenth as fast: after forty the quick beginning is forgotten.
        let slowed = shown(40.0, |t| if t < 10.0 { 1000.0 * t } else { 10_000.0 + 100.0 * (t - 10.0) });
        assert!((slowed - 100.0).abs() < 5.0, "{slowed}");
        // Nothing for a second, then at once: what was the case of "11.5/s, 25 minutes left" for seconds of work.
        let late = shown(4.0, |t| if t < 1.0 { 11.0 * t } else { 5000.0 * (t - 1.0) });
        assert!((4500.0..5100.0).contains(&late), "{late}");
        assert_eq!(Pace::new(Instant::now()).rate(Instant::now()), 0.0);
    }

    #[test]
    fn time_left_is_in_whole_seconds_and_over_all_parts() {
        assert_eq!([0.0, 0.2, 59.1, 125.0, 11_400.0].map(whole_seconds), ["0 s", "1 s", "60 s", "2m05s", "3h10m"]);
        assert_eq!(left(0.25, Duration::from_secs(10)), "30 s");
        assert_eq!(left(0.0, Duration::from_secs(10)), "?");
        let quiet = Context { progress: true, ..Context::default() };
        let began = Instant::now();
        let part = Part { title: "3 of 4: tree online".to_owned(), done: 2, total: 4, began };
        let bar = Progress::part(&quiet, &part, Counting::Items, 100);
        let now = began + Duration::from_secs(25);
        assert!(bar.in_words(now, 50).ends_with("this one 50%, -; 15 s left in all"), "{}", bar.in_words(now, 50));
    }
}
