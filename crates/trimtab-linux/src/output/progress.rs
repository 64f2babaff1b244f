//! Progress on standard error: a bar with the time left, the amount and the rate, and the
//! current activity. It appears after a second and disappears at the end. `--plain`
//! writes a log line every ten seconds instead.

use crate::output::{Context, plain};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use trimtab_drive::units::{Bytes, Nanos, grouped};
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

/// The unit of progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressUnit {
    /// Bytes.
    Bytes,
    /// Operations, files, rounds …
    Items,
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
}

/// A progress bar that appears after the work has taken a second.
#[derive(Debug)]
pub struct Progress {
    /// `None` if there is neither `--plain` nor a terminal.
    view: Option<Arc<View>>,
    shower: Option<JoinHandle<()>>,
    phase: String,
}

/// The bar, shared with the thread that shows it.
#[derive(Debug)]
struct View {
    bar: ProgressBar,
    counting: ProgressUnit,
    /// Number of parts done before, and the length of this one.
    part: Option<(u64, u64)>,
    over: AtomicBool,
}

impl Progress {
    /// Progress of `what` up to `total` (0 if unknown).
    pub fn new(context: &Context, what: &str, counting: ProgressUnit, total: u64) -> Self {
        Self::start(context, what, counting, (total > 0).then_some(total), None)
    }

    /// Progress over all parts of a larger task; `total` is that of this part.
    pub fn part(
        context: &Context,
        part: &ProgressPart,
        counting: ProgressUnit,
        total: u64,
    ) -> Self {
        let length = part.total.max(1) * STEPS;
        Self::start(context, &part.title, counting, Some(length), Some((part.done, total)))
    }

    fn start(
        context: &Context,
        what: &str,
        counting: ProgressUnit,
        length: Option<u64>,
        part: Option<(u64, u64)>,
    ) -> Self {
        if !context.progress {
            return Self { view: None, shower: None, phase: String::new() };
        }
        let template = match (length, part, counting) {
            (None, _, ProgressUnit::Bytes) => "{prefix}: {decimal_bytes}, {elapsed}{msg}",
            (None, ..) => "{prefix}: {human_pos}, {elapsed}{msg}",
            (_, Some(_), _) => "{prefix} [{bar:24}] {percent} %, {eta} left in total{msg}",
            (_, _, ProgressUnit::Bytes) => {
                "{prefix} [{bar:24}] {percent} %, {eta} left, \
                    {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}{msg}"
            }
            _ => "{prefix} [{bar:24}] {percent} %, {eta} left, {human_pos}/{human_len}{msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(plain(what).into_owned());
        bar.set_position(part.map_or(0, |(done, _)| done * STEPS));
        bar.reset_eta();
        bar.enable_steady_tick(DRAW_EVERY);
        let view = Arc::new(View { bar, counting, part, over: AtomicBool::new(false) });
        let (shown, log) = (Arc::clone(&view), context.plain);
        // Without the thread there is no display, but the work is unaffected.
        let shower = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || shown.show(log))
            .ok();
        Self { view: Some(view), shower, phase: String::new() }
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
        if self.view.is_some() && run.phase != self.phase {
            self.say(run.phase);
        }
    }

    /// Advances by an amount. Several threads may do so.
    pub fn advance(&self, amount: u64) {
        if let Some(view) = &self.view {
            view.bar.inc(amount);
        }
    }

    /// Shows the current activity.
    pub fn say(&mut self, activity: &str) {
        if let Some(view) = &self.view {
            activity.clone_into(&mut self.phase);
            view.bar.set_message(format!("; {}", plain(activity)));
        }
    }
}

/// Shows work by bytes written or by operations. Signals stop it.
impl Observer for Progress {
    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        let is_bytes = self.view.as_ref().is_some_and(|view| view.counting == ProgressUnit::Bytes);
        self.run(if is_bytes { progress.written.0 } else { progress.ops }, &progress);
        Ok(())
    }

    fn begins(&mut self, phase: &str) {
        self.say(phase);
    }

    fn stopped(&self) -> bool {
        crate::sys::interrupt::requested()
    }
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
        let mut logged = None;
        while log && !self.over.load(Ordering::Acquire) {
            self.log(&mut logged);
            std::thread::park_timeout(LINE_EVERY);
        }
        if log {
            self.log(&mut logged);
        } else if !self.over.load(Ordering::Acquire) {
            SCREEN.add(self.bar.clone());
        }
    }

    /// Writes a log line, unless the position is that of the last one.
    fn log(&self, logged: &mut Option<u64>) {
        let position = self.bar.position();
        if self.bar.elapsed() >= QUICK && logged.replace(position) != Some(position) {
            anstream::eprintln!("{}", self.line());
        }
    }

    fn line(&self) -> String {
        let bar = &self.bar;
        let amount = |n| match self.counting {
            ProgressUnit::Bytes if self.part.is_none() => Bytes(n).to_string(),
            _ => grouped(n),
        };
        let (position, left) = (bar.position(), Nanos::from_secs(bar.eta().as_secs()));
        let head = match bar.length() {
            Some(length) if self.part.is_some() => format!("{} %", position * 100 / length),
            Some(length) => format!("{}/{}", amount(position), amount(length)),
            None => return format!("{}: {}{}", bar.prefix(), amount(position), bar.message()),
        };
        format!("{}: {head}, {left} left{}", bar.prefix(), bar.message())
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Context = Context {
        json: false,
        progress: true,
        plain: true,
        quiet: false,
        yes: false,
        store: None,
        label: None,
    };

    #[test]
    fn log_line_has_amount_time_left_and_phase() {
        let mut progress = Progress::new(&PLAIN, "crystal", ProgressUnit::Bytes, 8_000_000_000);
        progress.begins("random write");
        progress.set(4_000_000_000);
        let line = progress.view.as_ref().unwrap().line();
        assert!(line.starts_with("crystal: 4.00 GB/8.00 GB, "), "{line}");
        assert!(line.ends_with(" left; random write"), "{line}");
        let unknown = Progress::new(&PLAIN, "learn", ProgressUnit::Items, 0);
        unknown.advance(1200);
        assert_eq!(unknown.view.as_ref().unwrap().line(), "learn: 1,200");
    }

    #[test]
    fn part_advances_bar_of_whole_task() {
        let part = ProgressPart { title: "3 of 4: tree online".to_owned(), done: 2, total: 4 };
        let mut progress = Progress::part(&PLAIN, &part, ProgressUnit::Items, 100);
        for (position, expected) in [(0, 2000), (50, 2500), (100, 3000), (300, 3000)] {
            progress.set(position);
            assert_eq!(progress.view.as_ref().unwrap().bar.position(), expected);
        }
        let line = progress.view.as_ref().unwrap().line();
        assert!(line.starts_with("3 of 4: tree online: 75 %, "), "{line}");
    }
}
