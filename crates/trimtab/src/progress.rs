//! Progress bars on standard error: rate and time left for anything over a second, nothing for what is quicker.

use crate::output::{Context, plain};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// A bar that appears once its work has taken a second.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    shown: bool,
    enabled: bool,
    started: Instant,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Bytes.
    Bytes,
    /// Operations, files, rounds …
    Items,
}

impl Progress {
    /// A bar of `total` (0 if unknown) for `what`.
    pub fn new(context: &Context, what: &str, counting: Counting, total: u64) -> Self {
        let bar = if total == 0 { ProgressBar::no_length() } else { ProgressBar::new(total) };
        bar.set_draw_target(ProgressDrawTarget::hidden());
        let template = match (counting, total) {
            (Counting::Bytes, 0) => "{msg} {spinner} {decimal_bytes}, {decimal_bytes_per_sec}, {elapsed}",
            (Counting::Bytes, _) => {
                "{msg} [{bar:24}] {percent}% {decimal_bytes}/{decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left"
            }
            (Counting::Items, 0) => "{msg} {spinner} {human_pos}, {per_sec}, {elapsed}",
            (Counting::Items, _) => "{msg} [{bar:24}] {percent}% {human_pos}/{human_len}, {per_sec}, {eta} left",
        };
        let style = ProgressStyle::with_template(template).expect("the templates above are valid");
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(plain(what).into_owned());
        Self { bar, shown: false, enabled: context.progress, started: Instant::now() }
    }

    /// Says how far it has come.
    pub fn set(&mut self, position: u64) {
        self.bar.set_position(position);
        if self.enabled && !self.shown && self.started.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
    }

    /// Says what is being done now.
    pub fn message(&self, what: &str) {
        self.bar.set_message(plain(what).into_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
