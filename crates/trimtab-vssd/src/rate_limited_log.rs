//! A rate-limited log for messages that clients can trigger.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL_MIN: Duration = Duration::from_secs(10);

/// Prints at most one line in ten seconds, with the number of lines suppressed in
/// between.
#[derive(Debug, Default)]
pub struct RateLimitedLog {
    state: Mutex<(Option<Instant>, u64)>,
}

impl RateLimitedLog {
    /// Prints `line` on standard error, unless the last line was printed too recently.
    pub fn say(&self, line: &str) {
        if let Some(line) = self.line(line, Instant::now()) {
            trimtab_linux::output::complain(&line);
        }
    }

    fn line(&self, line: &str, now: Instant) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL_MIN) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        match std::mem::take(left_out) {
            0 => Some(line.to_owned()),
            n => Some(format!("{line} (and {n} similar lines suppressed since the last one)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limited_log_counts_suppressed_lines() {
        let (log, start) = (RateLimitedLog::default(), Instant::now());
        let said: Vec<String> =
            (0..1000).filter_map(|ms| log.line("x", start + Duration::from_millis(ms))).collect();
        assert_eq!(said, ["x"]);
        assert_eq!(
            log.line("y", start + INTERVAL_MIN).unwrap(),
            "y (and 999 similar lines suppressed since the last one)"
        );
    }
}
