//! The relation of model time to real time.

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::{Duration, Instant};
use trimtab_drive::units::Nanos;

/// The speed of model time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// This multiple of real time.
    Times(f64),
    /// Requests complete immediately; model time is only counted.
    Unpaced,
}

impl Speed {
    /// Model time equals real time.
    pub const REALTIME: Self = Self::Times(1.0);
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "realtime" => Ok(Self::REALTIME),
            "off" => Ok(Self::Unpaced),
            _ => text
                .strip_suffix('x')
                .and_then(|factor| factor.parse::<f64>().ok())
                .filter(|factor| (0.001..=1000.0).contains(factor))
                .map(Self::Times)
                .ok_or_else(|| {
                    format!(
                        "speed is realtime, off, or a factor from 0.001x to 1000x such as \
                    10x, not '{text}'"
                    )
                }),
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Times(1.0) => f.write_str("realtime"),
            Self::Times(factor) => write!(f, "{factor}x"),
            Self::Unpaced => f.write_str("off"),
        }
    }
}

/// Converts real time to model time, monotonically.
///
/// Unpaced, the clock follows real time while the drive is idle, and advances to the next
/// completion whenever the drive's queue is full. It then shows the time that the drive
/// would have needed with a full queue.
#[derive(Debug)]
pub struct ModelClock {
    speed: Speed,
    started: Instant,
    origin: Nanos,
    last: Nanos,
    skew: Nanos,
    in_flight: VecDeque<Nanos>,
    queue_depth: usize,
}

impl ModelClock {
    /// A clock that shows `origin` now.
    pub fn new(speed: Speed, origin: Nanos, queue_depth: u32) -> Self {
        Self {
            speed,
            started: Instant::now(),
            origin,
            last: origin,
            skew: Nanos::ZERO,
            in_flight: VecDeque::new(),
            queue_depth: queue_depth.max(1) as usize,
        }
    }

    /// The current model time.
    pub fn now(&mut self) -> Nanos {
        let elapsed = self.started.elapsed();
        let elapsed = match self.speed {
            Speed::Times(1.0) | Speed::Unpaced => Nanos(elapsed.as_nanos() as u64),
            Speed::Times(factor) => Nanos((elapsed.as_nanos() as f64 * factor) as u64),
        };
        self.last = self.last.max(self.origin + elapsed + self.skew);
        self.last
    }

    /// The model time at which the drive can accept another command.
    pub fn arrival(&mut self) -> Nanos {
        let now = self.now();
        if self.speed == Speed::Unpaced && self.in_flight.len() >= self.queue_depth {
            // Completions are ordered, so the first one frees a slot.
            if let Some(first) = self.in_flight.pop_front() {
                self.put_forward(now, first);
            }
        }
        self.last
    }

    /// Registers a command that arrives at `arrival` and completes at `done`; with
    /// `barrier`, the host waits for it before continuing. Returns the real time of the
    /// completion.
    pub fn completes(&mut self, done: Nanos, barrier: bool) -> Option<Instant> {
        match self.speed {
            Speed::Unpaced => {
                if barrier {
                    self.in_flight.clear();
                    self.put_forward(self.last, done);
                } else {
                    let at = self.in_flight.partition_point(|other| *other <= done);
                    self.in_flight.insert(at, done);
                }
                None
            }
            Speed::Times(factor) => {
                let model = done.saturating_sub(self.origin).0;
                let real = if factor == 1.0 { model } else { (model as f64 / factor) as u64 };
                Some(self.started + Duration::from_nanos(real))
            }
        }
    }

    fn put_forward(&mut self, now: Nanos, to: Nanos) {
        if to > now {
            self.skew += to - now;
            self.last = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_parses_and_displays() {
        assert_eq!("realtime".parse(), Ok(Speed::REALTIME));
        assert_eq!("off".parse(), Ok(Speed::Unpaced));
        assert_eq!("10x".parse(), Ok(Speed::Times(10.0)));
        for wrong in ["", "x", "10", "0x", "-1x", "1e9x", "NaNx", "fast"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn unpaced_clock_shows_time_of_full_queue() {
        let mut clock = ModelClock::new(Speed::Unpaced, Nanos::ZERO, 2);
        // Each command takes 10 s of model time, two at a time: the third waits for the
        // first.
        for i in 0..6 {
            let arrival = clock.arrival();
            assert_eq!(arrival.0 / 10_000_000_000, i / 2, "command {i}");
            assert_eq!(clock.completes(arrival + Nanos::from_secs(10), false), None);
        }
        let arrival = clock.arrival();
        clock.completes(arrival + Nanos::from_secs(5), true);
        assert!(clock.now() >= Nanos::from_secs(35), "a flush is waited for");
    }

    #[test]
    fn higher_speed_completes_earlier() {
        let mut clock = ModelClock::new(Speed::Times(10.0), Nanos::from_secs(100), 32);
        let started = clock.started;
        assert_eq!(
            clock.completes(Nanos::from_secs(110), false),
            Some(started + Duration::from_secs(1))
        );
    }
}
