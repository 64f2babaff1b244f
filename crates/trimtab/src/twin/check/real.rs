//! Checks a twin on a real drive.

use super::super::probed_area::{AreaRequest, ProbedArea, check_only_devices_are_destroyed};
use super::MeasuredFigure;
use crate::cmd::drive::check::DriveCheckArgs;
use crate::drives::below::UnderlyingDrive;
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use std::path::PathBuf;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::host::cached::DirectWatch;
use trimtab_linux::host::interference::OwnIo;
use trimtab_linux::host::root::Root;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::{Progress, ProgressUnit};
use trimtab_linux::sys::interrupt;
use trimtab_study::learn::lab::ProbeSession;
use trimtab_study::learn::predict::{Area, WorkloadFigure};

/// Size of the area, in bytes.
const AREA: u64 = 32 << 20;
/// Repeats of the measurement.
const ROUNDS: u64 = 3;

/// An opened real drive: obstacles are found before anything is predicted.
pub struct OpenedDrive {
    path: PathBuf,
    /// The drive.
    pub below: UnderlyingDrive,
    /// The area in use.
    pub area: Area,
    probed: ProbedArea,
}

impl OpenedDrive {
    /// Opens the target. A file is only read, and so is a device without --destroy.
    pub fn open(
        request: &DriveCheckArgs,
        context: &Context,
        target: &TargetSpec,
    ) -> anyhow::Result<Self> {
        check_only_devices_are_destroyed(&request.target, target, &request.destroy.named())?;
        let (path, writes) = match target {
            TargetSpec::Directory(path) => (path.clone(), true),
            TargetSpec::File(path) => (path.clone(), false),
            TargetSpec::Device(path) => (path.clone(), request.destroy.named().again.is_some()),
            other => {
                return Err(
                    UsageError::new(format!("{other} is not a drive that can be checked")).into()
                );
            }
        };
        let below =
            UnderlyingDrive::of_path(&Root::live().context("cannot read /sys and /proc")?, &path)?;
        let area = Area { bytes: AREA, writes, rest: request.rest };
        let access = AreaRequest {
            what: "drive check",
            below: &below,
            seed: request.seed,
            reserve: request.safety.reserve,
            destroy: request.destroy.named(),
            area: AREA,
            most: writes.then_some(2 * AREA + ROUNDS * area.written_max()),
        };
        let probed = access.open(context, target)?;
        let area = Area { bytes: probed.area().min(AREA), ..area };
        Ok(Self { path, below, area, probed })
    }

    /// The measured figures over all repeats, and notes.
    pub fn measured(
        self,
        request: &DriveCheckArgs,
        context: &Context,
    ) -> anyhow::Result<(Vec<MeasuredFigure>, Vec<String>)> {
        let Self { path, below, area, mut probed } = self;
        let observer = EnvironmentRecorder::start(&path)
            .with_context(|| format!("cannot access {}", path.display()))?;
        probed.require_on(observer.place().mount.as_ref())?;
        let direct = DirectWatch::start(&observer).ok();
        let mut bar = Progress::new(context, "check", ProgressUnit::Items, ROUNDS);
        let (mut rounds, mut own) = (Vec::new(), OwnIo::default());
        let mut failed = None;
        for round in 0..ROUNDS {
            bar.set(round);
            let mut lab = ProbeSession::new(&mut probed.drive);
            let shown = area.run(&mut lab, request.seed.wrapping_add(round));
            own = OwnIo {
                read: own.read + Bytes(lab.read),
                written: own.written + Bytes(lab.written),
            };
            match shown {
                Ok(shown) if !interrupt::requested() => rounds.push(shown),
                Ok(_) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        drop(bar);
        let from_memory = direct.and_then(|watch| watch.finish(own.read, own.written));
        let (_, warnings) = observer.finish(Some(own.through(below.fs_type.as_deref())));
        drop(probed);
        interrupt::check()?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        let mut notes = below.notes;
        notes.extend(
            from_memory
                .into_iter()
                .chain(warnings)
                .map(|warning| warning.text.trim_end_matches('.').to_owned()),
        );
        Ok((together(&rounds), notes))
    }
}

/// The median and the range of each figure.
fn together(rounds: &[Vec<WorkloadFigure>]) -> Vec<MeasuredFigure> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let one = |(nth, figure): (usize, &WorkloadFigure)| {
        let mut values: Vec<f64> =
            rounds.iter().filter_map(|round| round.get(nth)).map(|one| one.value).collect();
        values.sort_by(f64::total_cmp);
        let value = values[values.len() / 2];
        MeasuredFigure {
            figure: WorkloadFigure { value, ..*figure },
            low: values[0],
            high: values[values.len() - 1],
        }
    };
    first.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_study::learn::predict::What;

    #[test]
    fn together_gives_median_and_range() {
        let round = |value: f64| vec![WorkloadFigure { workload: "x", what: What::Rate, value }];
        let all = together(&[round(3.0), round(1.0), round(2.0)]);
        assert_eq!((all.len(), all[0].figure.value, all[0].low, all[0].high), (1, 2.0, 1.0, 3.0));
        assert!(together(&[]).is_empty());
    }
}
