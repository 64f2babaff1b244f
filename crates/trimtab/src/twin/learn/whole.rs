//! The part of the budget `full` that overwrites the free space of a drive, or the whole
//! device.

use super::super::probed_area::AreaRequest;
use super::sentence;
use crate::cmd::drive::learn::DriveLearnArgs;
use crate::drives::below::UnderlyingDrive;
use crate::drives::probed::{PIECE, ProbedDrive};
use crate::target_spec::TargetSpec;
use anyhow::Context as _;
use trimtab_drive::Extent;
use trimtab_drive::units::Bytes;
use trimtab_drive::usage::UsageError;
use trimtab_linux::host::EnvironmentRecorder;
use trimtab_linux::host::interference::OwnIo;
use trimtab_linux::output::Context;
use trimtab_linux::output::progress::Progress;
use trimtab_linux::session::safety::{consent, space};
use trimtab_linux::sys::interrupt;
use trimtab_sim::target::{BlockTarget as _, Clock as _};
use trimtab_study::learn::lab::ProbeTarget as _;
use trimtab_study::learn::probes::whole::{ProbeRegion, SHARE_MIN, WRITES_EIGHTHS};
use trimtab_study::learn::probes::{Findings, ProbePlan};
use trimtab_study::learn::{self, Budget};

/// Size of one TRIM request.
const TRIM_BYTES: u64 = 1 << 30;

/// Overwrites the free space, or the whole device, as often as the probes need.
pub fn on_a_drive(
    request: &DriveLearnArgs,
    context: &Context,
    spec: &TargetSpec,
    below: &UnderlyingDrive,
    plan: &ProbePlan,
    watching: &mut Progress,
    notes: &mut Vec<String>,
) -> anyhow::Result<Findings> {
    let Some(part) = plan.whole else {
        return Err(UsageError::new("the plan has no probes of the whole drive").into());
    };
    let access = AreaRequest {
        what: "drive learn --budget full",
        below,
        seed: request.seed,
        reserve: request.safety.reserve,
        destroy: request.destroy.named(),
        area: part.bytes,
        most: part.written_max(),
    };
    let mut probed = access.open_unwritten(context, spec)?;
    let path = match spec {
        TargetSpec::Directory(path) | TargetSpec::Device(path) => path,
        other => return Err(UsageError::new(format!("{other} cannot be learned")).into()),
    };
    let observer = EnvironmentRecorder::start(path)
        .with_context(|| format!("cannot access {}", path.display()))?;
    probed.require_on(observer.place().mount.as_ref())?;
    let found = emptied(&mut probed.drive, spec, below, notes)
        .and_then(|()| Ok(learn::probe_whole(&mut probed.drive, plan, watching)?));
    let own = found.as_ref().ok().map(|found| {
        OwnIo { read: Bytes(found.read), written: Bytes(found.written) }
            .through(below.fs_type.as_deref())
    });
    let (_, warnings) = observer.finish(own);
    drop(probed);
    interrupt::check()?;
    notes.extend(warnings.into_iter().map(|warning| {
        format!("during the probes of the whole drive: {}", sentence(&warning.text))
    }));
    found
}

/// The share of the drive to use. Determined before anything is written, and refused if
/// consent is impossible later.
pub fn allowed_part(
    request: &DriveLearnArgs,
    context: &Context,
    spec: &TargetSpec,
    below: &UnderlyingDrive,
) -> anyhow::Result<ProbeRegion> {
    let part = part(request, spec, below)?;
    let most = Bytes(part.written_max());
    match consent::reason(most, Some(below.capacity())) {
        Some(reason) if !consent::can_be_given(context) => {
            let what = format!(
                "drive learn --budget full writes up to {most} to {}; {reason}",
                request.target
            );
            Err(UsageError::new(what).hint("use --yes to allow it").into())
        }
        _ => Ok(part),
    }
}

fn part(
    request: &DriveLearnArgs,
    spec: &TargetSpec,
    below: &UnderlyingDrive,
) -> anyhow::Result<ProbeRegion> {
    let of = below.capacity().0;
    let free = match spec {
        TargetSpec::Directory(path) => space::usable(path, request.safety.reserve)?.0,
        _ => of,
    };
    let allowed = request.write_limit.map_or(u64::MAX, |limit| {
        (limit.0.saturating_sub(ProbePlan::usual_limit(Budget::Full, of)) / WRITES_EIGHTHS)
            .saturating_mul(8)
    });
    // A filesystem needs some free space for itself.
    let free = if matches!(spec, TargetSpec::Directory(_)) { free - free / 50 } else { free };
    let bytes = free.min(allowed) / PIECE * PIECE;
    let part = ProbeRegion {
        start: 0,
        bytes,
        of,
        held: if matches!(spec, TargetSpec::Directory(_)) {
            of.saturating_sub(free) / PIECE * PIECE
        } else {
            0
        },
    };
    if part.is_enough() {
        return Ok(part);
    }
    let what = format!(
        "{} of {} usable is too little for --budget full, which needs {:.0} % of the \
            drive to observe garbage collection",
        Bytes(bytes),
        Bytes(of),
        100.0 * SHARE_MIN
    );
    Err(UsageError::missing(what)
        .hint("free some space, raise --write-limit, or use --budget small")
        .into())
}

/// Trims the free space, so that the drive regards it as empty.
fn emptied(
    drive: &mut ProbedDrive,
    spec: &TargetSpec,
    below: &UnderlyingDrive,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    if matches!(spec, TargetSpec::Directory(_)) {
        notes.push(
            "free space was assumed to be trimmed; if it was not, the SLC cache and \
                the spare space appear too small (run 'trimtab trim' first to be sure)"
                .to_owned(),
        );
        return Ok(());
    }
    if below.reported.trim.is_none() {
        notes.push(
            "the drive has no TRIM, so it could not be emptied before its SLC cache and \
            spare space were probed"
                .to_owned(),
        );
        return Ok(());
    }
    let size = drive.info().size.0;
    for offset in (0..size).step_by(TRIM_BYTES as usize) {
        let len = TRIM_BYTES.min(size - offset);
        drive.trim(0, &[Extent { offset, len }])?;
        drive.reap(1, &mut Vec::new())?;
    }
    let rested = drive.now() + trimtab_drive::units::Nanos::from_secs(5);
    drive.idle_until(rested);
    Ok(())
}
