//! When the requests of a trace are made on the modelled drive.

use super::{Kind, Source};
use crate::error::UsageError;
use std::path::Path;
use trimtab_core::trace::Format;
use trimtab_core::units::Nanos;

/// When the host makes its next request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Timing {
    /// At the times of the trace; of a recording, after the completions that it followed there.
    #[default]
    Recorded,
    /// So many requests a second, whatever the drive does.
    Rate(f64),
    /// As soon as fewer than so many requests are under way.
    ClosedLoop(u32),
}

/// The options that choose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, clap::Args)]
pub struct TimingArgs {
    /// Make so many requests of the trace a second instead of keeping its times.
    #[arg(long, value_name = "REQUESTS", conflicts_with = "closed_loop", value_parser = rate)]
    rate: Option<f64>,
    /// Make each request of the trace once fewer than N are under way, instead of keeping its times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    closed_loop: Option<u32>,
}

impl TimingArgs {
    /// What was chosen.
    pub fn timing(self) -> Timing {
        match (self.rate, self.closed_loop) {
            (Some(rate), _) => Timing::Rate(rate),
            (None, Some(depth)) => Timing::ClosedLoop(depth),
            (None, None) => Timing::Recorded,
        }
    }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.001..=1e9).contains(&rate) => Ok(rate),
        _ => Err("expected a number of requests a second, from 0.001 to 1000000000".to_owned()),
    }
}

impl Timing {
    /// What the settings of a run say of it; nothing where the trace decides.
    pub fn setting(self) -> Option<(&'static str, String)> {
        match self {
            Self::Recorded => None,
            Self::Rate(rate) => Some(("trace-rate", rate.to_string())),
            Self::ClosedLoop(depth) => Some(("trace-closed-loop", depth.to_string())),
        }
    }

    /// Refuses a trace that has no times if it is to be replayed at them: all requests would come at once.
    ///
    /// # Errors
    /// That, and whatever is wrong with the trace until its first time after zero.
    pub fn check(self, path: &Path, format: Option<Format>, volume: Option<u64>) -> anyhow::Result<()> {
        if self != Self::Recorded {
            return Ok(());
        }
        let source = Source::open(path, format, volume)?;
        if source.header().is_some() {
            return Ok(());
        }
        let mut requests = 0_u64;
        for event in source {
            let event = event?;
            if event.at > Nanos::ZERO {
                return Ok(());
            }
            requests += u64::from(event.kind != Kind::Flush);
        }
        if requests < 2 {
            return Ok(());
        }
        Err(UsageError::new(format!("{} has no times: all of its {requests} requests would come at once", path.display()))
            .hint("--rate 1000 makes 1,000 of them a second, --closed-loop 1 makes each when the one before is done")
            .into())
    }
}
