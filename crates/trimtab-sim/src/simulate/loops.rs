//! CrystalDiskMark test sets in rounds, each on a new test file.

use super::{SimulatedDrive, SimulationPlan, WorkloadResult, check_amount};
use crate::run::{Axis, Better, Field, Metric, Series, Unit};
use crate::runner::passes::Passes;
use crate::runner::recorder::Recorder;
use crate::runner::{Events, Observer, RunProgress, blocks};
use crate::setting::{GivenSettings, Setting};
use crate::target::drive::DriveTarget;
use crate::target::{BlockTarget as _, TargetResult};
use crate::workload::Limit;
use crate::workload::crystal::figures::{self, Trend};
use crate::workload::crystal::looped::{CrystalLoop, DELETE, Placement};
use crate::workload::crystal::{Crystal, CrystalSettings, Profile};
use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;
use trimtab_drive::named;
use trimtab_drive::spec::DriveSpec;
use trimtab_drive::units::{Bytes, Nanos};
use trimtab_drive::usage::UsageError;

/// Type of the workload.
pub type LoopWorkload = CrystalLoop;

named! {
    "set of tests"
    /// Tests of a round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LoopTests {
        /// Write tests.
        Write = "write",
        /// Read and write tests.
        Both = "both",
    }
}

/// Settings of the rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Loops {
    profile: Profile,
    size: Bytes,
    passes: u32,
    pass: Bytes,
    small_pass: Bytes,
    interval: Nanos,
    tests: LoopTests,
    placement: Placement,
    /// Leading part of the drive that holds the files; all of it by default.
    space: Option<Bytes>,
}

impl Default for Loops {
    /// Rounds of cdm3, which write 9.2 GB: a file of 1000 MB, and five passes of each of four
    /// tests.
    fn default() -> Self {
        Self {
            profile: Profile::Cdm3,
            size: Bytes(1_000_000_000),
            passes: 5,
            pass: Bytes(745_000_000),
            small_pass: Bytes(74_500_000),
            interval: Nanos::from_secs(5),
            tests: LoopTests::Write,
            placement: Placement::Next,
            space: None,
        }
    }
}

impl FromStr for Loops {
    type Err = String;

    /// `[KEY=VALUE[:KEY=VALUE]…]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut loops = Self::default();
        let mut given = GivenSettings::parse("crystal:", text, ':')?;
        given.apply([
            ("profile", Setting::Text(&mut loops.profile)),
            ("size", Setting::size(&mut loops.size)),
            ("passes", Setting::Number(&mut loops.passes, 1..=10_000)),
            ("pass", Setting::size(&mut loops.pass)),
            ("small-pass", Setting::size(&mut loops.small_pass)),
            ("interval", Setting::time(&mut loops.interval)),
            ("tests", Setting::Text(&mut loops.tests)),
            ("place", Setting::Text(&mut loops.placement)),
        ])?;
        loops.space = given.option("space")?;
        given.end("crystal")?;
        Ok(loops)
    }
}

impl Loops {
    /// Settings of the run.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            Field::new("profile", self.profile.name()),
            Field::new("size-bytes", self.size.0.to_string()),
            Field::new("passes", self.passes.to_string()),
            Field::new("pass", self.pass.to_string()),
            Field::new("small-pass", self.small_pass.to_string()),
            Field::new("interval", self.interval.to_string()),
            Field::new(
                "tests",
                if self.tests == LoopTests::Both { "read and write" } else { "write" },
            ),
            Field::new("place", self.placement.name()),
        ];
        fields.extend(self.space.map(|space| Field::new("space-bytes", space.0.to_string())));
        fields
    }

    /// Creates the rounds on a drive of `spec`.
    ///
    /// # Errors
    /// The file does not fit, passes are empty or practically endless, or operations are
    /// below the block size.
    pub fn workload<T>(
        &self,
        spec: &DriveSpec,
        plan: &SimulationPlan<T>,
        total: Option<Bytes>,
    ) -> Result<LoopWorkload, UsageError> {
        let settings = CrystalSettings {
            profile: self.profile,
            size: self.size,
            passes: self.passes,
            pass: Limit::Bytes(self.pass),
            interval: self.interval,
            data: plan.data,
            reads: self.tests == LoopTests::Both,
            writes: true,
            prepare: true,
            until_written: total,
        };
        let smallest = self.profile.tests().iter().map(|test| test.block).min().unwrap_or(4096);
        if !smallest.is_multiple_of(spec.logical_block_bytes) {
            let problem = format!(
                "{} has blocks of {} bytes, and the tests use {smallest}",
                spec.name, spec.logical_block_bytes
            );
            return Err(UsageError::new(problem));
        }
        if self.small_pass == Bytes::ZERO {
            return Err(UsageError::new("crystal: small-pass must be above 0"));
        }
        let of_passes = |pass: Bytes| Bytes(pass.0.saturating_mul(u64::from(self.passes)));
        for (setting, pass) in
            [("crystal: pass", self.pass), ("crystal: small-pass", self.small_pass)]
        {
            check_amount(setting, of_passes(pass), Bytes(spec.capacity_bytes))?;
        }
        let refused = |error: crate::workload::crystal::CrystalSettingsError| {
            UsageError::new(format!("crystal: {error}"))
        };
        let rounds = Crystal::new(settings, plan.seed).map_err(refused)?;
        let space = self.space.unwrap_or(Bytes::MAX).min(Bytes(spec.capacity_bytes));
        let looped =
            CrystalLoop::new(rounds, self.placement, space, Some(self.small_pass), plan.seed);
        looped.map_err(|error| {
            refused(error).hint("'crystal:size=64MiB' makes the test file smaller")
        })
    }

    /// Runs the rounds.
    pub fn run(
        &self,
        spec: &DriveSpec,
        mut workload: LoopWorkload,
        subject: SimulatedDrive,
        now: Nanos,
        observer: &mut dyn Observer,
    ) -> WorkloadResult {
        let depth = self.profile.tests().iter().map(|test| test.depth()).max().unwrap_or(1).max(8);
        let mut target = DriveTarget::new(subject, spec.interface.queue_depth.max(depth)).at(now);
        let mut rounds =
            LoopRounds { observer, passes: Passes::default(), totals: vec![(0, 0)], begun: false };
        let mut outcome = blocks::run(&mut workload, &mut target, &mut rounds);
        let steady_size = target.info().size;
        // An interrupted phase is not a pass.
        outcome.recorded.phases.truncate(rounds.passes.seen());
        let trends = figures::trends(&rounds.passes.passes, steady_size);
        let mut metrics: Vec<_> = trends.iter().flat_map(Trend::metrics).collect();
        metrics.push(Metric::single(
            "rounds",
            Unit::Count,
            Better::Neither,
            rounds.passes.rounds as f64,
        ));
        outcome.recorded.series.extend(figures::series(&rounds.passes.passes));
        outcome.recorded.series.extend(trends.iter().map(per_round));
        outcome.recorded.series.extend(rounds.waf());
        WorkloadResult::new(outcome, target.into_drive(), metrics)
    }
}

fn per_round(trend: &Trend) -> Series {
    Series {
        name: format!("{}.rate-of-round", trend.phase),
        axis: Axis::BytesWritten,
        x: trend.written.iter().map(|bytes| bytes.0).collect(),
        unit: Unit::MegabytesPerSecond,
        y: trend.rounds.clone(),
    }
}

struct LoopRounds<'a> {
    observer: &'a mut dyn Observer,
    passes: Passes,
    /// Bytes written by the host and to the medium, at the end of each round.
    totals: Vec<(u64, u64)>,
    begun: bool,
}

impl LoopRounds<'_> {
    fn waf(&self) -> Option<Series> {
        let rounds: Vec<_> = self.totals.windows(2).filter(|pair| pair[1].0 > pair[0].0).collect();
        (!rounds.is_empty()).then(|| Series {
            name: "waf-of-round".to_owned(),
            axis: Axis::BytesWritten,
            x: rounds.iter().map(|pair| pair[1].0).collect(),
            unit: Unit::Ratio,
            y: rounds
                .iter()
                .map(|pair| (pair[1].1 - pair[0].1) as f64 / (pair[1].0 - pair[0].0) as f64)
                .collect(),
        })
    }
}

impl Observer for LoopRounds<'_> {
    fn stopped(&self) -> bool {
        self.observer.stopped()
    }

    fn progress(&mut self, progress: RunProgress<'_>) -> TargetResult {
        self.observer.progress(progress)
    }
}

impl Events<DriveTarget<SimulatedDrive>> for LoopRounds<'_> {
    fn between(
        &mut self,
        target: &mut DriveTarget<SimulatedDrive>,
        recorder: &mut Recorder,
        next: Option<&str>,
    ) -> TargetResult {
        self.passes.phase_ended(recorder, recorder.written());
        if self.begun && (next.is_none() || next == Some(DELETE)) {
            self.passes.rounds += 1;
            self.totals.push(target.drive().drive().written());
        }
        self.begun = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_parse_and_errors_name_valid_values() {
        assert_eq!("".parse(), Ok(Loops::default()));
        let loops: Loops =
            "profile=nvme:size=64MiB:tests=both:place=scattered:space=1GB".parse().unwrap();
        assert_eq!(loops.space, Some(Bytes(1_000_000_000)));
        assert_eq!(
            (loops.profile, loops.size, loops.tests, loops.placement),
            (Profile::Nvme, Bytes(64 << 20), LoopTests::Both, Placement::Scattered)
        );
        for (text, part) in [
            ("size", "crystal:size: "),
            ("sise=1GB", "crystal:sise: crystal has no setting 'sise'; did you mean 'size'?"),
            ("place=here", "same, next, scattered"),
            ("size=big", "crystal:size: "),
            ("tests=read", "write, both"),
            ("profile=cdm4", "cdm3, cdm8, nvme"),
        ] {
            let error = text.parse::<Loops>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn default_round_writes_the_published_amount() {
        let loops = Loops::default();
        let written = loops.size.0 + 5 * (2 * loops.pass.0 + 2 * loops.small_pass.0);
        assert!((written as f64 / 9.2e9 - 1.0).abs() < 0.005, "{written}");
    }
}
