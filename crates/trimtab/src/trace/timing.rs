//! When the requests of a trace are made on the modelled drive.

use super::{Kind, Source};
use crate::error::UsageError;
use std::path::Path;
pub use trimtab_core::simulate::timing::Timing;
use trimtab_core::trace::Format;
use trimtab_core::units::Nanos;

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

/// Refuses a trace that has no times if it is to be replayed at them: all requests would come at once.
///
/// # Errors
/// That, and whatever is wrong with the trace until its first time after zero.
pub fn check(timing: Timing, path: &Path, format: Option<Format>, volume: Option<u64>) -> anyhow::Result<()> {
    if timing != Timing::Recorded {
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
