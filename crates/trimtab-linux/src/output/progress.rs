//! Progress on standard error: a bar with the time left, the amount and the rate, and the
//! current activity below. It appears after a second and disappears at the end. `--plain`
//! writes a log line every ten seconds instead.

mod now;

pub use now::DiscardCounter;

use self::now::CurrentActivity;
use crate::output::{Context, plain};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trimtab_drive::units::{Bytes, Nanos, grouped, three_digits};
use trimtab_sim::runner::{Observer, RunProgress};
use trimtab_sim::target::TargetResult;

const LINE_EVERY: Duration = Duration::from_secs(10);
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// Shorter work shows no bar.
const QUICK: Duration = Duration::from_secs(1);
/// Steps of the bar for each part of a larger task.
const STEPS: u64 = 1000;

static SCREEN: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(4)));

/// Lets `print` write to the terminal above the bars.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    SCREEN.suspend(print)
}

/// Ignores poisoning: progress stays valid after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes.
    Bytes,
    /// Operations, files, rounds …
    Items,
}

impl ProgressUnit {
    fn amount(self, n: u64) -> String {
        if self == Self::Bytes { Bytes(n).to_string() } else { grouped(n) }
    }

    fn rate(self, per_second: f64) -> String {
        match self {
            _ if per_second <= 0.0 => "-".to_owned(),
            Self::Bytes => format!("{}/s", Bytes(per_second as u64)),
            Self::Items => format!("{}/s", three_digits(per_second)),
        }
    }
}

/// One part of a larger task, such as a run of a study.
#[derive(Debug, Clone)]
pub struct ProgressPart {
    /// Name shown.
    pub title: String,
    /// Number of parts done before.
    pub done: u64,
    /// Number of parts in total.
    pub total: u64,
    /// Start time of the first part.
    pub began: Instant,
}

/// A progress bar that appears after the work has taken a second.
#[derive(Debug)]
pub struct Progress {
    /// `None` if there is neither `--plain` nor a terminal.
    view: Option<Arc<View>>,
    shower: Option<JoinHandle<()>>,
}

/// The bar and its text, shared with the thread that draws them.
#[derive(Debug)]
struct View {
    bar: ProgressBar,
    words: ProgressFormatter,
    /// Number of parts done before, and the length of this one.
    part: Option<(u64, u64)>,
    now: Arc<Mutex<CurrentActivity>>,
    over: AtomicBool,
    began: Instant,
    logged: Mutex<Option<u64>>,
}

/// Formats the state of the work.
#[derive(Debug, Clone, Copy)]
struct ProgressFormatter {
    counting: ProgressUnit,
    parts_began: Option<Instant>,
}

impl ProgressFormatter {
    /// The time left, then amount and rate.
    fn of(self, position: u64, total: Option<u64>, rate: f64, elapsed: Duration) -> Vec<String> {
        let amount = |n| self.counting.amount(n);
        match (self.parts_began, total) {
            (Some(began), Some(total)) => {
                let share = position as f64 / total as f64;
                let left = if share > 0.0 {
                    whole_seconds(began.elapsed().as_secs_f64() * (1.0 - share) / share)
                } else {
                    "?".to_owned()
                };
                vec![format!("{left} left in total")]
            }
            (_, Some(total)) => {
                let left = if rate > 0.0 {
                    whole_seconds(total.saturating_sub(position) as f64 / rate)
                } else {
                    "?".to_owned()
                };
                vec![
                    format!("{left} left"),
                    format!("{}/{}", amount(position), amount(total)),
                    self.counting.rate(rate),
                ]
            }
            (_, None) => vec![
                amount(position),
                self.counting.rate(rate),
                whole_seconds(elapsed.as_secs_f64()),
            ],
        }
    }
}

impl Progress {
    /// Progress of `what` up to `total` (0 if unknown).
    pub fn new(context: &Context, what: &str, counting: ProgressUnit, total: u64) -> Self {
        Self::start(
            context,
            what,
            ProgressFormatter { counting, parts_began: None },
            (total > 0).then_some(total),
            None,
        )
    }

    /// Progress over all parts of a larger task; `total` is that of this part.
    pub fn part(
        context: &Context,
        part: &ProgressPart,
        counting: ProgressUnit,
        total: u64,
    ) -> Self {
        let words = ProgressFormatter { counting, parts_began: Some(part.began) };
        Self::start(
            context,
            &part.title,
            words,
            Some(part.total.max(1) * STEPS),
            Some((part.done, total)),
        )
    }

    fn start(
        context: &Context,
        what: &str,
        words: ProgressFormatter,
        length: Option<u64>,
        part: Option<(u64, u64)>,
    ) -> Self {
        if !context.progress {
            return Self { view: None, shower: None };
        }
        let now = Arc::new(Mutex::new(CurrentActivity::default()));
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        bar.set_style(style(words, length.is_some(), Arc::clone(&now)));
        bar.set_prefix(plain(what).into_owned());
        bar.set_position(part.map_or(0, |(done, _)| done * STEPS));
        bar.reset_eta();
        bar.enable_steady_tick(DRAW_EVERY);
        let (over, logged) = (AtomicBool::new(false), Mutex::new(None));
        let view = Arc::new(View { bar, words, part, now, over, began: Instant::now(), logged });
        let (shown, log) = (Arc::clone(&view), context.plain);
        // Without the thread there is no display, but the work is unaffected.
        let shower = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || shown.show(log))
            .ok();
        Self { view: Some(view), shower }
    }

    /// Adds the discards that the kernel counts at the drives.
    pub fn with_discards<C: DiscardCounter + 'static>(
        self,
        counter: impl FnOnce() -> Option<C>,
    ) -> Self {
        if let Some(view) = &self.view {
            lock(&view.now).counter =
                counter().map(|counter| Box::new(counter) as Box<dyn DiscardCounter>);
        }
        self
    }

    /// Sets the position.
    pub fn set(&mut self, position: u64) {
        if let Some(view) = &self.view {
            view.bar.set_position(view.scaled(position));
        }
    }

    /// Sets the position and phase of a run.
    pub fn run(&mut self, position: u64, run: &RunProgress<'_>) {
        self.set(position);
        if let Some(view) = &self.view {
            lock(&view.now).go_on(run.phase);
        }
    }

    /// Advances by an amount. Several threads may do so.
    pub fn advance(&self, amount: u64) {
        if let Some(view) = &self.view {
            view.bar.inc(amount);
        }
    }

    /// Adds words to the display, the most important first.
    pub fn say(&self, words: impl FnOnce() -> Vec<String>) {
        if let Some(view) = &self.view {
            lock(&view.now).words = words();
        }
    }
}

/// Shows work by bytes written or by operations. Signals stop it.
impl Observer for Progress {
    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        let is_bytes =
            self.view.as_ref().is_some_and(|view| view.words.counting == ProgressUnit::Bytes);
        self.run(if is_bytes { progress.written.0 } else { progress.ops }, &progress);
        Ok(())
    }

    fn begins(&mut self, phase: &str) {
        if let Some(view) = &self.view {
            lock(&view.now).begin(phase);
        }
    }

    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
}

/// The bar and the words; without a length, only the words.
fn style(
    words: ProgressFormatter,
    has_length: bool,
    now: Arc<Mutex<CurrentActivity>>,
) -> ProgressStyle {
    let template = if has_length {
        "{prefix} [{bar:24}] {percent} %, {words}{now}"
    } else {
        "{prefix}: {words}{now}"
    };
    let amounts = move |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(
            &words.of(state.pos(), state.len(), state.per_sec(), state.elapsed()).join(", "),
        );
    };
    let below = move |_: &ProgressState, out: &mut dyn Write| {
        let said = lock(&now).in_words();
        if !said.is_empty() {
            let _ = write!(out, "\n  {}", plain(&said));
        }
    };
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    style.progress_chars("=> ").with_key("words", amounts).with_key("now", below)
}

impl View {
    /// The position of the bar for `position` of the work.
    fn scaled(&self, position: u64) -> u64 {
        match self.part {
            None => position,
            Some((done, total)) => {
                done * STEPS
                    + (position.min(total) as f64 / total.max(1) as f64 * STEPS as f64) as u64
            }
        }
    }

    /// Shows the bar after a delay, or writes log lines, until the work is over.
    fn show(&self, log: bool) {
        std::thread::park_timeout(QUICK);
        while log && !self.over.load(Ordering::Acquire) {
            self.log();
            std::thread::park_timeout(LINE_EVERY);
        }
        if log {
            self.log();
        } else if !self.over.load(Ordering::Acquire) {
            SCREEN.add(self.bar.clone());
        }
    }

    /// Writes a log line, unless it repeats the last one.
    fn log(&self) {
        let position = self.bar.position();
        if self.began.elapsed() >= QUICK && lock(&self.logged).replace(position) != Some(position) {
            anstream::eprintln!("{}", plain(&self.line()));
        }
    }

    fn line(&self) -> String {
        let bar = &self.bar;
        let mut head = self.words.of(bar.position(), bar.length(), bar.per_sec(), bar.elapsed());
        // The time left comes last in the line.
        if bar.length().is_some() {
            head.rotate_left(1);
        }
        let said = lock(&self.now).in_words();
        let separator = if said.is_empty() { "" } else { "; " };
        format!("{}: {}{separator}{said}", bar.prefix(), head.join(", "))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(view) = &self.view else { return };
        view.over.store(true, Ordering::Release);
        if let Some(shower) = self.shower.take() {
            shower.thread().unpark();
            // The thread has no result; after a panic nothing more is shown.
            let _ = shower.join();
        }
        view.bar.finish_and_clear();
        SCREEN.remove(&view.bar);
    }
}

/// `12 s`, `2 min 5 s`, `3 h 10 min`: an estimate needs no fractions.
fn whole_seconds(seconds: f64) -> String {
    // Longer than any run; keeps the conversion in range.
    let whole = seconds.clamp(0.0, 1e9).ceil() as u64;
    if whole < 120 { format!("{whole} s") } else { Nanos::from_secs(whole).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_in_whole_seconds_over_all_parts() {
        assert_eq!(
            [0.0, 0.2, 59.1, 125.0, 11_400.0].map(whole_seconds),
            ["0 s", "1 s", "60 s", "2 min 5 s", "3 h 10 min"]
        );
        let bytes = ProgressFormatter { counting: ProgressUnit::Bytes, parts_began: None };
        let ten = Duration::from_secs(10);
        assert_eq!(
            bytes.of(4_000_000_000, Some(8_000_000_000), 2e8, ten),
            ["20 s left", "4.00 GB/8.00 GB", "200 MB/s"]
        );
        assert_eq!(bytes.of(0, Some(8_000_000_000), 0.0, ten), ["? left", "0 B/8.00 GB", "-"]);
        let items = ProgressFormatter { counting: ProgressUnit::Items, parts_began: None };
        assert_eq!(items.of(1200, None, 120.0, ten), ["1,200", "120/s", "10 s"]);
        // 2.5 of 4 parts took 25 s.
        let parts = ProgressFormatter {
            parts_began: Instant::now().checked_sub(Duration::from_secs(25)),
            ..items
        };
        let said = parts.of(2500, Some(4000), 0.0, ten);
        assert!(
            ["15 s left in total", "16 s left in total"].contains(&said[0].as_str()),
            "{said:?}"
        );
    }

    #[test]
    fn log_line_has_amount_rate_and_phase() {
        let context = Context { progress: true, plain: true, ..Context::default() };
        let mut progress = Progress::new(&context, "crystal", ProgressUnit::Bytes, 8_000_000_000);
        progress.begins("random write");
        progress.set(4_000_000_000);
        let line = progress.view.as_ref().unwrap().line();
        let (amount, rest) = line.split_once(", ").unwrap();
        assert_eq!(amount, "crystal: 4.00 GB/8.00 GB");
        assert!(rest.ends_with(" left; random write"), "{line}");
    }

    #[test]
    fn part_advances_bar_of_whole_task() {
        let context = Context { progress: true, plain: true, ..Context::default() };
        let part = ProgressPart {
            title: "3 of 4: tree online".to_owned(),
            done: 2,
            total: 4,
            began: Instant::now(),
        };
        let mut progress = Progress::part(&context, &part, ProgressUnit::Items, 100);
        for (position, expected) in [(0, 2000), (50, 2500), (100, 3000), (300, 3000)] {
            progress.set(position);
            assert_eq!(progress.view.as_ref().unwrap().bar.position(), expected);
        }
    }
}
