//! What happens now, on standard error: a bar with rate and time left, and below it the phase, what is done a second, how long it takes, and what
//! the kernel counted. A few lines that stay where they are, for anything over a second, and nothing for what is quicker. `--plain`: lines for logs.

mod frame;
mod now;

pub use now::{CountsDiscards, Doing};

use self::now::Now;
use crate::output::{Context, plain, width_of_stderr};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_core::runner;
use trimtab_core::units::{Bytes, Nanos, grouped, three_digits};

/// A view of what goes on that appears once it has taken a second.
#[derive(Debug)]
pub struct Progress {
    /// `None` where nobody looks.
    view: Option<Arc<View>>,
    drawer: Option<JoinHandle<()>>,
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

/// Time between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Time between two looks at the pace.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time between two pictures.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// What takes no longer shows nothing.
const QUICK: Duration = Duration::from_secs(1);

/// The bar that is on the screen, so that what is said meanwhile stands above it.
static ON_SCREEN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Lets `print` write to the terminal beside what is shown there.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    let bar = lock(&ON_SCREEN).clone();
    match bar {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// What is shown is as good after a panic elsewhere as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is shown, shared with the thread that draws it.
#[derive(Debug)]
struct View {
    bar: ProgressBar,
    over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    what: String,
    counting: Counting,
    total: u64,
    pace: Pace,
    /// Of a part of something larger: how many parts were done before, of how many, since when.
    overall: Option<(u64, u64, Instant)>,
    now: Now,
    doing: Doing,
    shown: bool,
    /// Lines instead of a picture: when the last was written, and how far it was then.
    lines: Option<Option<(Instant, u64)>>,
}

impl Progress {
    /// A view of `total` (0 if unknown) for `what`.
    pub fn new(context: &Context, what: &str, counting: Counting, total: u64) -> Self {
        Self::with(context, what, counting, total, None)
    }

    /// A view over all parts, of which this is one, with `total` of its own.
    pub fn part(context: &Context, part: &Part, counting: Counting, total: u64) -> Self {
        Self::with(context, &part.title, counting, total, Some((part.done, part.total.max(1), part.began)))
    }

    fn with(context: &Context, what: &str, counting: Counting, total: u64, overall: Option<(u64, u64, Instant)>) -> Self {
        if !context.progress {
            return Self { view: None, drawer: None };
        }
        let bar = ProgressBar::no_length();
        bar.set_draw_target(ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is valid"));
        let view =
            Arc::new(View { bar, over: AtomicBool::new(false), state: Mutex::new(State::new(context, what, counting, total, overall)) });
        let drawn = Arc::clone(&view);
        // Without a thread nothing is shown, and nothing else is lost.
        let drawer = std::thread::Builder::new().name("progress".to_owned()).spawn(move || drawn.draw_until_over()).ok();
        Self { view: Some(view), drawer }
    }

    /// The same, with the discards that the kernel counts at the drives.
    #[must_use]
    pub fn with_discards<C: CountsDiscards + 'static>(self, counter: impl FnOnce() -> Option<C>) -> Self {
        if let Some(view) = &self.view {
            lock(&view.state).now.counter = counter().map(|counter| Box::new(counter) as Box<dyn CountsDiscards>);
        }
        self
    }

    /// Says how far it has come.
    pub fn set(&mut self, position: u64) {
        if let Some(view) = &self.view {
            lock(&view.state).pace.note(Instant::now(), position);
        }
    }

    /// Says how far a run has come, and what it is at.
    pub fn run(&mut self, position: u64, run: &runner::Progress<'_>) {
        let Some(view) = &self.view else { return };
        let (mut state, at) = (lock(&view.state), Instant::now());
        if state.pace.note(at, position) {
            state.now.look(at, run);
        }
    }

    /// Says which phase begins.
    pub fn phase(&mut self, name: &str) {
        if let Some(view) = &self.view {
            lock(&view.state).now.begin(name);
        }
    }

    /// Says what else is to be known of it: words, the most telling first.
    pub fn say(&self, words: impl FnOnce() -> Vec<String>) {
        if let Some(view) = &self.view {
            lock(&view.state).now.words = words();
        }
    }
}

impl View {
    fn draw_until_over(&self) {
        while !self.over.load(Ordering::Acquire) {
            std::thread::park_timeout(DRAW_EVERY);
            self.draw(false);
        }
    }

    /// Draws what there is; for logs, a line if one is due, or if it is the `last` and says something new.
    fn draw(&self, last: bool) {
        let (mut state, at) = (lock(&self.state), Instant::now());
        if state.pace.elapsed(at) < QUICK {
            return;
        }
        state.now.count();
        let position = state.pace.position();
        if let Some(line) = state.lines {
            let due = line.map_or(
                !last || position > 0,
                |(written, before)| if last { before != position } else { at.duration_since(written) >= LINE_EVERY },
            );
            if due {
                state.lines = Some(Some((at, position)));
                anstream::eprintln!("{}", plain(&state.line(at)));
            }
            return;
        }
        if last {
            return;
        }
        self.bar.set_message(plain(&state.picture(at, columns())).into_owned());
        if !state.shown {
            state.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            *lock(&ON_SCREEN) = Some(self.bar.clone());
        }
        self.bar.tick();
    }
}

/// Columns of the terminal that it is drawn on.
fn columns() -> usize {
    const WHERE_NOBODY_KNOWS: usize = 80;
    width_of_stderr().unwrap_or(WHERE_NOBODY_KNOWS)
}

impl State {
    fn new(context: &Context, what: &str, counting: Counting, total: u64, overall: Option<(u64, u64, Instant)>) -> Self {
        Self {
            what: plain(what).into_owned(),
            counting,
            total,
            pace: Pace::new(Instant::now()),
            overall,
            now: Now::default(),
            doing: context.doing.clone(),
            shown: false,
            lines: context.plain.then_some(None),
        }
    }

    /// The share of all that is done; `None` if that is not known.
    fn share(&self) -> Option<f64> {
        match self.overall {
            Some((done, total, _)) => Some((done as f64 + self.share_of_this()) / total as f64),
            None => (self.total > 0).then(|| self.share_of_this()),
        }
    }

    /// How much of this part is done; 0 if that is not known.
    fn share_of_this(&self) -> f64 {
        if self.total == 0 { 0.0 } else { (self.pace.position() as f64 / self.total as f64).min(1.0) }
    }

    /// Time left, amount and rate: what matters most comes first, and stays where there is no room for all.
    fn in_words(&self, now: Instant) -> Vec<String> {
        let position = self.pace.position();
        let amount = |n: u64| if self.counting == Counting::Bytes { Bytes(n).to_string() } else { grouped(n) };
        let rate = self.pace.rate(now);
        let shown = match self.counting {
            _ if rate <= 0.0 => "-".to_owned(),
            Counting::Bytes => format!("{}/s", Bytes(rate as u64)),
            Counting::Items => format!("{}/s", three_digits(rate)),
        };
        if let Some((done, total, began)) = self.overall {
            let share = (done as f64 + self.share_of_this()) / total as f64;
            let left = left(share, now.saturating_duration_since(began));
            return vec![format!("{left} left in all"), format!("this one {:.0} %", self.share_of_this() * 100.0)];
        }
        if self.total == 0 {
            return vec![amount(position), shown, whole_seconds(self.pace.elapsed(now).as_secs_f64())];
        }
        let remaining = self.total.saturating_sub(position) as f64;
        let left = if rate > 0.0 { whole_seconds(remaining / rate) } else { "?".to_owned() };
        vec![format!("{left} left"), format!("{}/{}", amount(position), amount(self.total)), shown]
    }

    /// What is being done, and what is known of it.
    fn details(&self, now: Instant) -> (String, Vec<String>) {
        let (phase, mut words) = self.now.in_words(now);
        words.extend(self.doing.in_words());
        (phase, words)
    }

    /// For a screen of so many columns: a line with the bar, and one below it.
    fn picture(&self, now: Instant, columns: usize) -> String {
        let (phase, words) = self.details(now);
        let first = frame::first_line(&self.what, self.share(), &self.in_words(now), columns);
        let second = frame::second_line(&phase, &words, columns);
        if second.is_empty() { first } else { format!("{first}\n{second}") }
    }

    /// For a log: all of it in one line.
    fn line(&self, now: Instant) -> String {
        let (phase, words) = self.details(now);
        let mut head = self.in_words(now);
        // The time left closes the line, unless something else is to be said.
        if self.share().is_some() {
            head.rotate_left(1);
        }
        let mut line = format!("{}: {}", self.what, head.join(", "));
        let rest = words.join(", ");
        if !phase.is_empty() || !rest.is_empty() {
            let colon = if phase.is_empty() || rest.is_empty() { "" } else { ": " };
            line.push_str(&format!("; {phase}{colon}{rest}"));
        }
        line
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(view) = &self.view else { return };
        view.over.store(true, Ordering::Release);
        if let Some(drawer) = self.drawer.take() {
            drawer.thread().unpark();
            // It has no result; if it panicked, nothing more is drawn.
            let _ = drawer.join();
        }
        view.draw(true);
        if lock(&view.state).shown {
            *lock(&ON_SCREEN) = None;
        }
        view.bar.finish_and_clear();
    }
}

/// Time left if `share` of the whole took `elapsed`.
fn left(share: f64, elapsed: Duration) -> String {
    if share <= 0.0 { "?".to_owned() } else { whole_seconds(elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share) }
}

/// `12 s`, `2 min 5 s`, `3 h 10 min`: nobody reads fractions of a time that is a guess.
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
    /// Where it stands, also if the last look was a moment before.
    position: u64,
}

impl Pace {
    fn new(began: Instant) -> Self {
        Self { began, looks: VecDeque::from([(began, 0)]), position: 0 }
    }

    /// Where it stands.
    const fn position(&self) -> u64 {
        self.position
    }

    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }

    /// Notes a position; false if the last look was a moment ago.
    fn note(&mut self, now: Instant, position: u64) -> bool {
        self.position = position;
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

    /// Seen: the last of two runs that ended within a tenth of a second was missing from the last line of a log.
    #[test]
    fn what_ends_a_moment_after_another_counts() {
        let began = Instant::now();
        let mut pace = Pace::new(began);
        assert!(pace.note(began + Duration::from_secs(2), 1));
        assert!(!pace.note(began + Duration::from_millis(2050), 2));
        assert_eq!(pace.position(), 2);
    }

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
        assert_eq!([0.0, 0.2, 59.1, 125.0, 11_400.0].map(whole_seconds), ["0 s", "1 s", "60 s", "2 min 5 s", "3 h 10 min"]);
        assert_eq!(left(0.25, Duration::from_secs(10)), "30 s");
        assert_eq!(left(0.0, Duration::from_secs(10)), "?");
        let began = Instant::now();
        let mut state = State::new(&Context::default(), "3 of 4: tree online", Counting::Items, 100, Some((2, 4, began)));
        let now = began + Duration::from_secs(25);
        state.pace.note(now, 50);
        assert_eq!(state.in_words(now), ["15 s left in all", "this one 50 %"]);
        assert_eq!(state.share(), Some(0.625));
    }

    #[test]
    fn a_log_has_everything_in_a_line_and_a_screen_what_it_has_room_for() {
        let began = Instant::now();
        let mut state = State::new(&Context::default(), "crystal", Counting::Bytes, 8_000_000_000, None);
        state.pace = Pace::new(began);
        let now = began + Duration::from_secs(20);
        for tenth in 1..=200 {
            state.pace.note(began + Duration::from_millis(tenth * 100), tenth * 20_000_000);
        }
        state.now.begin("random write");
        assert_eq!(state.line(now), "crystal: 4.00 GB/8.00 GB, 200 MB/s, 20 s left; random write: 20 s");
        assert_eq!(
            state.picture(now, 120),
            "crystal [============>           ] 50 %, 20 s left, 4.00 GB/8.00 GB, 200 MB/s\n  random write: 20 s"
        );
        for columns in 1..200 {
            let picture = state.picture(now, columns);
            assert!(
                picture.lines().count() <= 2 && picture.lines().all(|line| line.chars().count() < columns.max(2)),
                "{columns}: {picture}"
            );
        }
    }
}
